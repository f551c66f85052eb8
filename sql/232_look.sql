-- For await_jobs: whether a queue that is not paused has a job that a claim would get. Each ready job stands in one of three indexes; jobs_ready is
-- looked at from its marks on, as a claim does.
CREATE OR ALTER PROCEDURE [$(schema)].[look]
    @queue_id int,
    @found    bit OUTPUT
AS
SET NOCOUNT ON;
DECLARE @at_least smallint = -32768, @priority smallint, @from_id bigint, @lowered bigint;

SET @found = 0;
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WHERE queue_id = @queue_id AND paused = 0)
    RETURN;
SELECT @found = 1
WHERE EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
              WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
    OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
               WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
OPTION (MAXDOP 1, KEEPFIXED PLAN);

WHILE @found = 0
BEGIN
    EXEC [$(schema)].[next_priority] @queue_id, @at_least, @priority OUTPUT, @from_id OUTPUT, @lowered OUTPUT;
    IF @priority IS NULL
        RETURN;
    IF @lowered IS NULL
        SET @found = 1;
    ELSE
        SELECT TOP (1) @found = 1
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @priority = 32767
        RETURN;
    SET @at_least = @priority + 1;
END;
GO
