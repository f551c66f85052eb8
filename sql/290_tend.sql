-- For promote and reap: notes that the queue is served, and remembers when it was not for a while: SQL Server was not there, or none of the workers was.
-- A lease that ran out meanwhile says nothing about its worker. With @worker_id, only for the worker that has the duties, which keeps them for three
-- more seconds, or that takes them because nobody has them.
--
-- @away_ms and @back_at: how long the queue was not served, and until when. A heartbeat comes at least twice in a lease, and after an outage within
-- a second, so that only an outage of more than half a lease can let a lease run out. reap calls nobody lost before a lease has passed since its end. Of several outages the
-- longest counts for a day.
CREATE OR ALTER PROCEDURE [$(schema)].[tend]
    @queue_id  int,
    @worker_id uniqueidentifier,
    @now       datetime2(3) OUTPUT,
    @away_ms   bigint OUTPUT,
    @back_at   datetime2(3) OUTPUT,
    @elected   bit OUTPUT
AS
SET NOCOUNT ON;
DECLARE @gap_ms bigint = 0;

SET @now = SYSUTCDATETIME();
SET @elected = 0;
-- In a caller's transaction nothing is noted, because the queue's row would stay locked.
IF @@TRANCOUNT = 0
BEGIN
    UPDATE [$(schema)].[duties] WITH (ROWLOCK)
    SET worker_id = ISNULL(@worker_id, worker_id),
        until     = CASE WHEN @worker_id IS NULL THEN until ELSE DATEADD(SECOND, 3, @now) END,
        tended_at = @now,
        away_ms   = CASE WHEN DATEDIFF_BIG(MILLISECOND, tended_at, @now) <= 2000 THEN away_ms
                         WHEN back_at < DATEADD(DAY, -1, @now) OR DATEDIFF_BIG(MILLISECOND, tended_at, @now) > away_ms
                         THEN DATEDIFF_BIG(MILLISECOND, tended_at, @now) ELSE away_ms END,
        back_at   = CASE WHEN DATEDIFF_BIG(MILLISECOND, tended_at, @now) <= 2000 THEN back_at ELSE @now END
    WHERE queue_id = @queue_id
        AND (@worker_id IS NULL OR worker_id = @worker_id OR until < @now OR until > DATEADD(SECOND, 10, @now));  -- the last: the clock was set back
    SET @elected = @@ROWCOUNT;
END;

SELECT @away_ms = away_ms, @back_at = back_at, @gap_ms = DATEDIFF_BIG(MILLISECOND, tended_at, @now)
FROM [$(schema)].[duties] WITH (NOLOCK) WHERE queue_id = @queue_id;
IF @gap_ms > 2000
    SELECT @away_ms = CASE WHEN @gap_ms > @away_ms THEN @gap_ms ELSE @away_ms END, @back_at = @now;
GO
