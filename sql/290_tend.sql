-- For promote and reap: notes that the queue is served. Where nobody has done so for more than two seconds, SQL Server
-- was not there, or none of the workers was: a lease that ran out meanwhile says nothing about its worker, and each
-- worker whose lease is at most twice as long as that time gets a new one, three times at the most between two
-- heartbeats: a dead worker is lost in the end, whatever comes and goes.
--
-- With @worker_id, only for the worker that has the duties, which keeps them for three more seconds, or that takes them
-- because nobody has them. The leases come first: whoever sees the new tended_at sees them, too.
CREATE OR ALTER PROCEDURE [$(schema)].[tend]
    @queue_id  int,
    @worker_id uniqueidentifier,
    @now       datetime2(3) OUTPUT,
    @elected   bit OUTPUT,
    -- From promote, see duties.
    @due_from    datetime2(3) = NULL,
    @events_from bigint       = NULL,  -- NULL: as it is
    @has_looked  bit          = 0
AS
SET NOCOUNT ON;
DECLARE @gap_ms bigint;

SET @now = SYSUTCDATETIME();
SET @elected = 0;
SELECT @gap_ms = DATEDIFF_BIG(MILLISECOND, tended_at, @now)
FROM [$(schema)].[duties] WITH (NOLOCK)
WHERE queue_id = @queue_id
    -- the last: the clock was set back
    AND (@worker_id IS NULL OR worker_id = @worker_id OR until < @now OR until > DATEADD(SECOND, 10, @now));
IF @gap_ms IS NULL
    RETURN;

-- A worker whose row is locked is renewing its lease right now.
IF @gap_ms > 2000
    UPDATE [$(schema)].[workers] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    SET lease_until = DATEADD(MILLISECOND, lease_ms, @now), unserved = unserved + 1
    WHERE queue_id = @queue_id AND lost_at IS NULL AND unserved < 3
        AND @gap_ms > lease_ms / 2 AND lease_until < DATEADD(MILLISECOND, lease_ms / 2, @now);

-- In a caller's transaction nothing is noted, because the queue's row would stay locked.
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
-- It may have waited for the row, and the clock may have jumped meanwhile.
SET @now = SYSUTCDATETIME();
GO
