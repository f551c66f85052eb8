-- For claims of a queue with a limit on claimed jobs (max_running) or on claims in an interval (rate_jobs in rate_ms).
-- Result: as claim. Return status: 2 if max_running or a session that is finishing jobs kept ready jobs back, 4 if the
-- rate or another claim did, otherwise 0.
--
-- Only one session of a queue at a time claims here (an application lock until its transaction ends). It returns the
-- jobs after the commit, so that a client that reads slowly does not block other claims. Claimed jobs are counted by
-- their index entries. The count waits for the locks of sessions that are finishing jobs, because they may roll back.
-- After half a second of waiting, the call claims nothing. With a max_running of up to 1,000, every claim records its
-- jobs in claim_places, by which their entries are found. With a larger max_running, the index is read from the queue's
-- first entry. The same is done for ten minutes after a change of max_running, while a claim may still use the old
-- setting. No interval of rate_ms, wherever it starts, has more than rate_jobs claims. The count is exact to a
-- hundredth of the interval, on the safe side.
CREATE OR ALTER PROCEDURE [$(schema)].[claim_limited]
    @queue_id  int,
    @worker_id uniqueidentifier,
    @max       int,
    @alone     bit,
    @max_payload_bytes bigint,
    @passes    bit
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @is_lifo bit, @max_attempts int, @max_running int, @rate_jobs int, @rate_ms bigint, @resource nvarchar(255),
    @granted int, @now datetime2(3), @now_ms bigint, @slot_ms bigint, @room int, @allowed int, @claimed int,
    @counted int, @kept_by int = 0, @found bit, @at_least smallint = -32768, @priority smallint,
    @mark bigint, @gap_from bigint, @below_to bigint, @below_from bigint, @highest bigint, @lowered bigint,
    @from_id bigint, @end_id bigint, @part tinyint, @limited_at datetime2(3), @places_known bit = 0,
    @places_found bit = 0, @places int, @long_priority smallint, @long_id bigint, @direction int,
    @lock_timeout int = @@LOCK_TIMEOUT;
DECLARE @jobs TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, fence int NOT NULL, priority smallint NOT NULL,
    withheld bit NOT NULL);
DECLARE @entries TABLE (n int NOT NULL PRIMARY KEY CLUSTERED, worker_id uniqueidentifier NOT NULL,
    job_id bigint NOT NULL, fence int NOT NULL);
DECLARE @taken TABLE (place int NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @unmarked TABLE (priority smallint NOT NULL PRIMARY KEY CLUSTERED);

SET @allowed = @max;

BEGIN TRANSACTION;
BEGIN TRY
    SET @resource = CONCAT(N'$(schema).limits.', @queue_id);
    EXEC @granted = sys.sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction',
        @LockTimeout = 500;
    IF @granted < 0
    BEGIN
        SET @allowed = 0;
        SET @kept_by = 4;
    END;
    SET @now = SYSUTCDATETIME();
    SELECT @is_lifo = CASE claim_order WHEN 'lifo' THEN 1 ELSE 0 END, @max_attempts = max_attempts,
        @max_running = max_running, @rate_jobs = rate_jobs, @rate_ms = rate_ms, @limited_at = limited_at,
        @places_known = CASE WHEN max_running <= 1000 THEN places_known ELSE 0 END
    FROM [$(schema)].[queues] WHERE queue_id = @queue_id;

    IF @max_running IS NOT NULL AND @allowed > 0
    BEGIN
        SET XACT_ABORT OFF;  -- so that a lock timeout ends only its statement
        SET LOCK_TIMEOUT 500;
        IF @places_known = 0 AND @max_running <= 1000 AND DATEADD(MINUTE, 10, @limited_at) <= @now
        BEGIN
            -- Reads one more job than allowed, to see whether there are more. The result goes into a variable first, so
            -- that a timeout leaves claim_places unchanged.
            INSERT @entries (n, worker_id, job_id, fence)
            SELECT ROW_NUMBER() OVER (ORDER BY c.worker_id, c.job_id), c.worker_id, c.job_id, c.fence
            FROM (SELECT TOP (@max_running + 1) j.worker_id, j.job_id, j.fence
                  FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (jobs_claimed))
                  WHERE j.queue_id = @queue_id AND j.state = 2) AS c
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            IF @@ROWCOUNT <= @max_running
            BEGIN
                DELETE [$(schema)].[claim_places] WITH (ROWLOCK) WHERE queue_id = @queue_id
                    OPTION (MAXDOP 1, KEEPFIXED PLAN);
                INSERT [$(schema)].[claim_places] (queue_id, place, worker_id, job_id, fence)
                SELECT @queue_id, n, worker_id, job_id, fence FROM @entries
                OPTION (MAXDOP 1, KEEPFIXED PLAN);
                SET @places_known = 1;
                SET @places_found = 1;
            END;
        END;
        IF @places_known = 1
        BEGIN
            INSERT @taken (place)
            SELECT p.place
            FROM [$(schema)].[claim_places] AS p WITH (ROWLOCK)
            INNER LOOP JOIN [$(schema)].[jobs] AS j
                WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_claimed (queue_id, worker_id, job_id)))
                ON j.queue_id = @queue_id AND j.worker_id = p.worker_id AND j.job_id = p.job_id
            WHERE p.queue_id = @queue_id AND j.state = 2 AND j.fence = p.fence
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            SET @room = @max_running - @@ROWCOUNT;
        END;
        ELSE
            SELECT @room = @max_running - (SELECT COUNT(*)
                FROM (SELECT TOP (@max_running) j.job_id
                      FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (jobs_claimed))
                      WHERE j.queue_id = @queue_id AND j.state = 2) AS c)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        -- From here on, the call skips locked jobs, as claim does.
        SET LOCK_TIMEOUT @lock_timeout;
        SET XACT_ABORT ON;
        IF @room < @allowed
        BEGIN
            SET @allowed = @room;
            SET @kept_by = 2;
        END;
    END;

    IF @rate_jobs IS NOT NULL AND @allowed > 0
    BEGIN
        SET @now_ms = DATEDIFF_BIG(MILLISECOND, '20000101', @now);
        SET @slot_ms = CASE WHEN @rate_ms >= 100 THEN @rate_ms / 100 ELSE 1 END;
        -- Slots in the future were written before the clock was set back.
        DELETE [$(schema)].[claim_rates] WITH (ROWLOCK)
        WHERE queue_id = @queue_id AND (slot_ms + @slot_ms <= @now_ms - @rate_ms OR slot_ms > @now_ms + @rate_ms);
        SET @room = @rate_jobs - (SELECT ISNULL(SUM(claimed), 0) FROM [$(schema)].[claim_rates] WITH (ROWLOCK)
            WHERE queue_id = @queue_id);
        IF @room < @allowed
        BEGIN
            SET @allowed = CASE WHEN @room < 0 THEN 0 ELSE @room END;
            SET @kept_by = 4;
        END;
    END;

    SET @room = @allowed;
    IF @alone = 1 AND @room > 0
    BEGIN
        WITH next_jobs AS
        (
            SELECT TOP (1) job_id, state, fence, attempt, worker_id, claimed_at, priority, payload
            FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
            WHERE queue_id = @queue_id AND state = 0 AND alone = 1
            ORDER BY priority, job_id
        )
        UPDATE next_jobs
        SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence, inserted.priority,
            CASE WHEN DATALENGTH(inserted.payload) > @max_payload_bytes THEN 1 ELSE 0 END
            INTO @jobs (job_id, fence, priority, withheld)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        -- A queue without limits comes here only for this job.
        IF @@ROWCOUNT > 0 OR (@max_running IS NULL AND @rate_jobs IS NULL)
            SET @room = 0;
    END;

    -- Reads the same ranges as claim.
    SET @part = 2;
    WHILE @room > 0
    BEGIN
        IF @part = 0 AND @gap_from > @below_to
            SELECT @part = 1, @from_id = @below_to, @end_id = @gap_from;
        ELSE IF @part < 2 AND @below_from > 0
            SELECT @part = 2, @from_id = 0, @end_id = @below_from;
        ELSE IF @priority = 32767
            BREAK;
        ELSE
        BEGIN
            EXEC [$(schema)].[next_priority] @queue_id, @at_least, @priority OUTPUT, @mark OUTPUT,
                 @gap_from OUTPUT, @below_to OUTPUT, @below_from OUTPUT, @highest OUTPUT, @lowered OUTPUT;
            IF @priority IS NULL
                BREAK;
            IF @lowered IS NULL
                INSERT @unmarked (priority) VALUES (@priority);
            SELECT @part = CASE @is_lifo WHEN 1 THEN 0 ELSE 2 END, @from_id = @mark, @end_id = 9223372036854775807;
            IF @priority < 32767
                SET @at_least = @priority + 1;
        END;
        IF @is_lifo = 0
            WITH next_jobs AS
            (
                SELECT TOP (@room) job_id, state, fence, attempt, worker_id, claimed_at, priority, payload
                FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority
                    AND job_id >= @from_id
                ORDER BY job_id
            )
            UPDATE next_jobs
            SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id,
                claimed_at = @now
            OUTPUT inserted.job_id, inserted.fence, inserted.priority,
                CASE WHEN DATALENGTH(inserted.payload) > @max_payload_bytes THEN 1 ELSE 0 END
                INTO @jobs (job_id, fence, priority, withheld)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        ELSE
            WITH next_jobs AS
            (
                SELECT TOP (@room) job_id, state, fence, attempt, worker_id, claimed_at, priority, payload
                FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority
                    AND job_id >= @from_id AND job_id < @end_id
                ORDER BY job_id DESC
            )
            UPDATE next_jobs
            SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id,
                claimed_at = @now
            OUTPUT inserted.job_id, inserted.fence, inserted.priority,
                CASE WHEN DATALENGTH(inserted.payload) > @max_payload_bytes THEN 1 ELSE 0 END
                INTO @jobs (job_id, fence, priority, withheld)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @room = @room - @@ROWCOUNT;
    END;

    SET @claimed = (SELECT COUNT(*) FROM @jobs);
    IF @places_known = 1 AND @claimed > 0
    BEGIN
        WITH free_places AS
        (
            SELECT p.worker_id, p.job_id, p.fence, ROW_NUMBER() OVER (ORDER BY p.place) AS n
            FROM [$(schema)].[claim_places] AS p WITH (ROWLOCK)
            WHERE p.queue_id = @queue_id AND NOT EXISTS (SELECT 1 FROM @taken AS t WHERE t.place = p.place)
        )
        UPDATE f
        SET worker_id = @worker_id, job_id = c.job_id, fence = c.fence
        FROM free_places AS f
        INNER JOIN (SELECT job_id, fence, ROW_NUMBER() OVER (ORDER BY job_id) AS n FROM @jobs) AS c ON c.n = f.n
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @room = @@ROWCOUNT;
        IF @room < @claimed
        BEGIN
            SELECT @places = COUNT(*) FROM [$(schema)].[claim_places] WHERE queue_id = @queue_id
                OPTION (MAXDOP 1, KEEPFIXED PLAN);
            INSERT [$(schema)].[claim_places] (queue_id, place, worker_id, job_id, fence)
            SELECT @queue_id, @places + c.n - @room, @worker_id, c.job_id, c.fence
            FROM (SELECT job_id, fence, ROW_NUMBER() OVER (ORDER BY job_id) AS n FROM @jobs) AS c
            WHERE c.n > @room
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        END;
    END;
    IF @rate_jobs IS NOT NULL AND @claimed > 0
    BEGIN
        -- Jobs that the worker must release (see claim) do not count for the rate: jobs with a withheld payload and,
        -- unless @passes = 1, the jobs behind them.
        SET @direction = CASE WHEN @is_lifo = 1 THEN -1 ELSE 1 END;
        SELECT TOP (1) @long_priority = priority, @long_id = job_id FROM @jobs WHERE withheld = 1
            ORDER BY priority, job_id * @direction;
        IF @passes = 0
            UPDATE @jobs SET withheld = 1
            WHERE priority > @long_priority
                OR (priority = @long_priority AND job_id * @direction >= @long_id * @direction);
        SET @counted = (SELECT COUNT(*) FROM @jobs WHERE withheld = 0);
        UPDATE [$(schema)].[claim_rates] WITH (ROWLOCK)
        SET claimed = claimed + @counted
        WHERE queue_id = @queue_id AND slot_ms = @now_ms - @now_ms % @slot_ms;
        IF @@ROWCOUNT = 0
            INSERT [$(schema)].[claim_rates] (queue_id, slot_ms, claimed)
                VALUES (@queue_id, @now_ms - @now_ms % @slot_ms, @counted);
    END;
    COMMIT TRANSACTION;
    SET LOCK_TIMEOUT -1;  -- the jobs are claimed, so their rows must reach the worker
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() <> 1222 OR XACT_STATE() <> 1
    BEGIN
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END;
    -- Only the count, which comes before any claim, waits for locks.
    COMMIT TRANSACTION;
    RETURN 2;
END CATCH;

-- Done after the commit, so that no session waits for the queue's row. Claims since then have recorded their places,
-- too.
IF @places_found = 1 AND @@TRANCOUNT = 0
    UPDATE [$(schema)].[queues] WITH (ROWLOCK) SET places_known = 1
        WHERE queue_id = @queue_id AND limited_at = @limited_at AND places_known = 0;

-- As in claim. Done after the commit and not in a caller's transaction, which would keep the rows locked.
IF @@TRANCOUNT = 0
    INSERT [$(schema)].[marks] (queue_id, priority, job_id, lowered)
    SELECT @queue_id, u.priority, 0, 0
    FROM @unmarked AS u
    WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[marks] WITH (UPDLOCK, HOLDLOCK)
        WHERE queue_id = @queue_id AND priority = u.priority);

SELECT j.job_id, j.fence, j.attempt, COALESCE(j.max_attempts, @max_attempts) AS max_attempts, j.priority,
       DATEDIFF_BIG(MILLISECOND, j.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, j.enqueued_at, @now) AS age_ms,
       j.kind, CASE WHEN c.withheld = 0 THEN j.payload_utf16 END AS payload_utf16,
       CASE WHEN c.withheld = 0 THEN j.payload ELSE CAST(DATALENGTH(j.payload) AS binary(8)) END AS payload, j.details
FROM @jobs AS c
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = c.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);

IF @kept_by > 0 AND @claimed >= @allowed
    EXEC [$(schema)].[look] @queue_id, @found OUTPUT;
RETURN CASE WHEN @found = 1 THEN @kept_by ELSE 0 END;
GO
