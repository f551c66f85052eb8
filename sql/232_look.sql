-- For await_jobs and claim_limited: returns whether a queue has a job that a claim would get; 0 if the queue is paused.
-- Reads the same ranges as a claim. With @delay_ms, checks after each delay, until a job is found or the next delay
-- would end after @wait_ms.
CREATE OR ALTER PROCEDURE [$(schema)].[look]
    @queue_id int,
    @found    bit OUTPUT,
    @delay_ms bigint = NULL,  -- before each check; NULL: checks once, at once
    @most_ms  bigint = NULL,  -- the longest delay, after checks that take long
    @wait_ms  bigint = NULL
AS
SET NOCOUNT ON;
DECLARE @is_lifo bit, @is_fair bit, @is_complete bit, @at_least smallint, @priority smallint, @mark bigint,
    @gap_from bigint, @below_to bigint, @below_from bigint, @highest bigint, @lowered bigint,
    @started_at datetime2(3) = SYSUTCDATETIME(), @checked_at datetime2(3), @waited_ms bigint, @took_ms bigint,
    @pause_ms bigint = @delay_ms, @delay datetime = DATEADD(MILLISECOND, @delay_ms, CAST('19000101' AS datetime));

WHILE 1 = 1
BEGIN
    IF @delay_ms > 0
        WAITFOR DELAY @delay;
    SELECT @checked_at = SYSUTCDATETIME(), @found = 0, @is_complete = NULL, @at_least = -32768;

    -- Most checks end with this statement. It reads all that a claim would, unless there are several marks, or gaps of
    -- a lifo queue with jobs below them (see marks). Without a mark, the two ranges of other priorities overlap.
    SELECT @is_lifo = CASE q.claim_order WHEN 'lifo' THEN 1 ELSE 0 END, @is_fair = q.fair,
        @is_complete = CASE WHEN m.priorities > 1 OR m.from_id > 0 OR m.below_from > 0 THEN 0 ELSE 1 END,
        @found = CASE
            WHEN EXISTS (SELECT 1
                FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
                WHERE queue_id = @queue_id AND state = 0 AND alone = 1) THEN 1
            WHEN EXISTS (SELECT 1
                FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                WHERE queue_id = @queue_id AND state = 0 AND alone = 0
                    AND priority < ISNULL(m.priority, 32767)) THEN 1
            WHEN m.priorities = 1 AND EXISTS (SELECT 1
                FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                WHERE queue_id = @queue_id AND state = 0 AND alone = 0
                    AND priority = m.priority AND job_id >= m.job_id) THEN 1
            WHEN m.priorities < 2 AND EXISTS (SELECT 1
                FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                WHERE queue_id = @queue_id AND state = 0 AND alone = 0
                    AND priority > ISNULL(m.priority, -32768)) THEN 1
            ELSE 0 END
    FROM [$(schema)].[queues] AS q
    CROSS JOIN (SELECT COUNT(*) AS priorities, MIN(priority) AS priority, MIN(job_id) AS job_id,
                    MAX(from_id) AS from_id, MAX(below_from) AS below_from
                FROM [$(schema)].[marks] WITH (NOLOCK)
                WHERE queue_id = @queue_id) AS m
    WHERE q.queue_id = @queue_id AND q.paused = 0
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @is_complete IS NOT NULL AND @found = 0
    BEGIN
        -- A claim handles events first. Of groups whose jobs are locked, or gone, as many are looked at as a claim goes
        -- through.
        IF @is_fair = 1
            SELECT TOP (1) @found = 1 FROM [$(schema)].[group_events] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
            WHERE queue_id = @queue_id
                AND event_id >= ISNULL((SELECT events_from FROM [$(schema)].[duties] WITH (NOLOCK)
                                        WHERE queue_id = @queue_id), 0)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @is_fair = 1 AND @found = 0
            SELECT TOP (1) @found = 1
            FROM (SELECT TOP (20000) group_key, from_id
                  FROM [$(schema)].[groups] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
                  WHERE queue_id = @queue_id AND from_id < 9223372036854775807
                  ORDER BY group_key) AS g
            CROSS APPLY (SELECT TOP (1) j.job_id
                         FROM [$(schema)].[jobs] AS j
                             WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK,
                                 FORCESEEK (jobs_waiting (queue_id, group_key, job_id)))
                         WHERE j.queue_id = @queue_id AND j.group_key = g.group_key AND j.state = 6
                             AND ISNULL(j.held, 0) = 0 AND j.job_id >= g.from_id
                         ORDER BY j.job_id) AS w
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

        -- adopt: look_for_rows
        WHILE @found = 0 AND @is_complete = 0
        BEGIN
            EXEC [$(schema)].[next_priority] @queue_id, @at_least, @priority OUTPUT, @mark OUTPUT, @gap_from OUTPUT,
                 @below_to OUTPUT, @below_from OUTPUT, @highest OUTPUT, @lowered OUTPUT;
            IF @priority IS NULL
                BREAK;
            IF @lowered IS NULL
                SET @found = 1;
            ELSE IF @is_lifo = 0
                SELECT TOP (1) @found = 1
                FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority AND job_id >= @mark
                OPTION (MAXDOP 1, KEEPFIXED PLAN);
            ELSE
                SELECT @found = 1
                WHERE EXISTS (SELECT 1
                        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                        WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority
                            AND job_id >= @mark)
                    OR EXISTS (SELECT 1
                        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                        WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority
                            AND job_id >= @below_to AND job_id < @gap_from)
                    OR EXISTS (SELECT 1
                        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                        WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority
                            AND job_id < @below_from)
                OPTION (MAXDOP 1, KEEPFIXED PLAN);
            IF @priority = 32767
                BREAK;
            SET @at_least = @priority + 1;
        END;
    END;

    SET @waited_ms = DATEDIFF_BIG(MILLISECOND, @started_at, SYSUTCDATETIME());
    -- The wait is measured by the clock, because checks take time, too. If the clock is set back, the wait ends.
    IF @found = 1 OR @delay_ms IS NULL OR @waited_ms < 0
        RETURN;
    -- A check skips locked rows one by one, so many uncommitted jobs slow it down. Checks take a tenth of the time at
    -- most, or come every @most_ms.
    SET @took_ms = DATEDIFF_BIG(MILLISECOND, @checked_at, SYSUTCDATETIME());
    IF 9 * @took_ms > @delay_ms OR @pause_ms > @delay_ms
    BEGIN
        SET @pause_ms = CASE WHEN 9 * @took_ms > @most_ms THEN @most_ms ELSE 9 * @took_ms END;
        IF @pause_ms < @delay_ms
            SET @pause_ms = @delay_ms;
        SET @delay = DATEADD(MILLISECOND, @pause_ms, CAST('19000101' AS datetime));
    END;
    -- Only the first delay may exceed @wait_ms, so that the call ends within the caller's command timeout.
    IF @waited_ms + @pause_ms > @wait_ms
        RETURN;
END;
GO
