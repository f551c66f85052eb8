-- For enqueue and enqueue_batch, in a queue with a max_depth: how many of @jobs new jobs the queue has room for.
--
-- A count reads an index entry of each unfinished job, so the last count is kept in depths. Jobs that are added later
-- have higher ids. As long as the count and all ids that were given out since then are together within max_depth, there
-- is room, and nothing is counted, for up to a minute: requeued and moved jobs get no new ids. Otherwise the count
-- decides, and is repeated when 20 times its duration have passed, so that counting takes about a twentieth of one
-- processor. Jobs that are added in that time may exceed max_depth, and so may those of sessions that got their ids
-- before the count and insert them after it.
--
-- Waits for no lock. A caller's transaction may keep the row of depths locked, or roll its count back: the others then
-- count for themselves once the last count that they can read is too old.
CREATE OR ALTER PROCEDURE [$(schema)].[room]
    @queue_id  int,
    @queue     nvarchar(129),
    @max_depth int,
    @jobs      int,
    @room      int            OUTPUT,  -- up to @jobs
    @full      nvarchar(2048) OUTPUT   -- why there is no more
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @id bigint = NEXT VALUE FOR [$(schema)].[job_ids], @begun_at datetime2(3),
    @cost_ms int = 0, @depth bigint, @last_id bigint, @most bigint = CAST(@max_depth AS bigint) + 1, @is_mine int = 0,
    @counts bit = 0, @took_ms bigint;

SELECT @begun_at = begun_at, @cost_ms = cost_ms, @depth = jobs, @last_id = last_id
FROM [$(schema)].[depths] WITH (NOLOCK) WHERE queue_id = @queue_id;
IF @depth + (@id - @last_id) + @jobs - 1 <= @max_depth AND @id > @last_id
    AND @now BETWEEN @begun_at AND DATEADD(MINUTE, 1, @begun_at)
BEGIN
    SET @room = @jobs;
    RETURN 0;
END;

-- or the clock was set back
IF @depth IS NULL OR @now < @begun_at OR DATEDIFF_BIG(MILLISECOND, @begun_at, @now) >= 20 * @cost_ms
BEGIN
    UPDATE [$(schema)].[depths] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    SET begun_at = @now
    WHERE queue_id = @queue_id AND begun_at = @begun_at;
    SET @is_mine = @@ROWCOUNT;
    -- Another session may have begun, or keeps the row locked for a long time.
    IF @is_mine = 1 OR @depth IS NULL OR NOT EXISTS (SELECT 1 FROM [$(schema)].[depths] WITH (NOLOCK)
                                                     WHERE queue_id = @queue_id AND begun_at <> @begun_at)
        SET @counts = 1;
END;
IF @counts = 1
BEGIN
    SET XACT_ABORT OFF;
    BEGIN TRY
        SELECT @depth =
            (SELECT COUNT_BIG(*)
             FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                   WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0) AS r)
            + (SELECT COUNT_BIG(*)
               FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
                     WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS a)
            + (SELECT COUNT_BIG(*)
               FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
                     WHERE j.queue_id = @queue_id AND j.state = 1) AS s)
            + (SELECT COUNT_BIG(*)
               FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_claimed))
                     WHERE j.queue_id = @queue_id AND j.state = 2) AS c)
            + (SELECT COUNT_BIG(*)
               FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_waiting))
                     WHERE j.queue_id = @queue_id AND j.state = 6) AS w)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    END TRY
    BEGIN CATCH
        -- 601: data moved under the scan. The last count decides.
        SET XACT_ABORT ON;
        IF ERROR_NUMBER() <> 601 OR XACT_STATE() = -1
            THROW;
        SET @is_mine = 0;
    END CATCH;
    SET XACT_ABORT ON;
    SET @took_ms = DATEDIFF_BIG(MILLISECOND, @now, SYSUTCDATETIME());
    -- Of counts that overlap, the one that began last is kept. The server may have stood still during one.
    IF @is_mine = 1
        UPDATE [$(schema)].[depths] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
        SET jobs = @depth, last_id = @id,
            cost_ms = CASE WHEN @took_ms < 0 THEN 0 WHEN @took_ms > 1000 THEN 1000 ELSE @took_ms END
        WHERE queue_id = @queue_id AND last_id < @id;
END;
SET @depth = ISNULL(@depth, 0);
SET @room = CASE WHEN @depth + @jobs <= @max_depth THEN @jobs WHEN @depth < @max_depth THEN @max_depth - @depth ELSE 0
    END;
SET @full = CONCAT(N'queue ''', @queue, N''' is full: its max_depth is ', @max_depth);
GO
