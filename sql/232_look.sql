-- For await_jobs: returns whether a queue has a job that a claim would get; 0 if the queue is paused. Reads the same
-- ranges as a claim.
CREATE OR ALTER PROCEDURE [$(schema)].[look]
    @queue_id int,
    @found    bit OUTPUT
AS
SET NOCOUNT ON;
DECLARE @is_lifo bit, @is_fair bit, @at_least smallint = -32768, @priority smallint, @mark bigint, @gap_from bigint, @below_to bigint,
    @below_from bigint, @highest bigint, @lowered bigint;

SET @found = 0;
SELECT @is_lifo = CASE claim_order WHEN 'lifo' THEN 1 ELSE 0 END, @is_fair = fair FROM [$(schema)].[queues]
    WHERE queue_id = @queue_id AND paused = 0;
IF @is_lifo IS NULL
    RETURN;
SELECT TOP (1) @found = 1
FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
WHERE queue_id = @queue_id AND state = 0 AND alone = 1
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- A claim handles events first. Of groups whose jobs are locked, or gone, as many are looked at as a claim goes through.
IF @is_fair = 1 AND @found = 0
    SELECT TOP (1) @found = 1 FROM [$(schema)].[group_events] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE queue_id = @queue_id AND event_id >= ISNULL((SELECT events_from FROM [$(schema)].[duties] WITH (NOLOCK)
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
                     WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_waiting (queue_id, group_key, job_id)))
                 WHERE j.queue_id = @queue_id AND j.group_key = g.group_key AND j.state = 6
                     AND ISNULL(j.held, 0) = 0 AND j.job_id >= g.from_id
                 ORDER BY j.job_id) AS w
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- adopt: look_for_rows
WHILE @found = 0
BEGIN
    EXEC [$(schema)].[next_priority] @queue_id, @at_least, @priority OUTPUT, @mark OUTPUT, @gap_from OUTPUT,
         @below_to OUTPUT, @below_from OUTPUT, @highest OUTPUT, @lowered OUTPUT;
    IF @priority IS NULL
        RETURN;
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
        RETURN;
    SET @at_least = @priority + 1;
END;
GO
