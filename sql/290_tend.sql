-- For promote and reap: records that the queue is served. If it was not served for more than two seconds, SQL Server or
-- all workers were away, and an expired lease does not prove that its worker is dead. Each worker whose lease is at
-- most twice as long as that time then gets a new lease, but at most three times between two heartbeats, so that a dead
-- worker is eventually marked lost.
--
-- With @worker_id, the call does this only for the elected worker, or for a worker that takes over an expired election,
-- and the worker stays elected for three more seconds. Leases are renewed first, so that a session that sees the new
-- tended_at also sees the new leases.
CREATE OR ALTER PROCEDURE [$(schema)].[tend]
    @queue_id  int,
    @worker_id uniqueidentifier,
    @now       datetime2(3) OUTPUT,
    @elected   bit OUTPUT,
    -- Set by promote (see duties).
    @due_from    datetime2(3) = NULL,
    @events_from bigint       = NULL,  -- NULL: unchanged
    @has_looked  bit          = 0
AS
SET NOCOUNT ON;
DECLARE @gap_ms bigint;

SET @now = SYSUTCDATETIME();
SET @elected = 0;
SELECT @gap_ms = DATEDIFF_BIG(MILLISECOND, tended_at, @now)
FROM [$(schema)].[duties] WITH (NOLOCK)
WHERE queue_id = @queue_id
    -- the last condition: the clock was set back
    AND (@worker_id IS NULL OR worker_id = @worker_id OR until < @now OR until > DATEADD(SECOND, 10, @now));
IF @gap_ms IS NULL
    RETURN;

-- READPAST, because a worker whose row is locked is renewing its lease.
IF @gap_ms > 2000
    UPDATE [$(schema)].[workers] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    SET lease_until = DATEADD(MILLISECOND, lease_ms, @now), unserved = unserved + 1
    WHERE queue_id = @queue_id AND lost_at IS NULL AND unserved < 3
        AND @gap_ms > lease_ms / 2 AND lease_until < DATEADD(MILLISECOND, lease_ms / 2, @now);

-- Does nothing in a caller's transaction, which would keep the row locked.
IF @@TRANCOUNT = 0
BEGIN
    UPDATE [$(schema)].[duties] WITH (ROWLOCK)
    SET worker_id = ISNULL(@worker_id, worker_id),
        yielded   = CASE WHEN worker_id <> @worker_id THEN 0 ELSE yielded END,
        until     = CASE WHEN @worker_id IS NULL THEN until ELSE DATEADD(SECOND, 3, @now) END,
        tended_at = @now,
        due_from    = ISNULL(@due_from, due_from),
        events_from = ISNULL(@events_from, events_from),
        looked_at   = CASE WHEN @has_looked = 1 THEN @now ELSE looked_at END
    WHERE queue_id = @queue_id
        AND (@worker_id IS NULL OR worker_id = @worker_id OR until < @now OR until > DATEADD(SECOND, 10, @now));
    SET @elected = @@ROWCOUNT;
END;
-- Reads the clock again, because of a possible wait for the row or a clock jump.
SET @now = SYSUTCDATETIME();
GO
