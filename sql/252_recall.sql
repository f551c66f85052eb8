-- Makes jobs ready again that this worker has postponed (outcome 3 of finish), before they are due: what they waited for
-- is free. Jobs that others have claimed since (fence), or have locked, stay as they are. A job of a group that has no
-- turn then waits for its turn. Result: job_id of each job that was made ready or waits.
CREATE OR ALTER PROCEDURE [$(schema)].[recall]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @jobs      [$(schema)].[job_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @first_ready bigint, @priority smallint;
DECLARE @recalled TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, state tinyint NOT NULL,
    priority smallint NOT NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must have at most 1000 rows', 1;

BEGIN TRANSACTION;
UPDATE j
SET state = CASE WHEN j.group_key IS NULL OR j.in_turn = 1 THEN 0 ELSE 6 END, due_at = SYSUTCDATETIME()
OUTPUT inserted.job_id, inserted.state, inserted.priority, inserted.group_key
INTO @recalled (job_id, state, priority, group_key)
FROM @jobs AS r
INNER LOOP JOIN [$(schema)].[jobs] AS j
    WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = r.job_id
WHERE j.queue_id = @queue_id AND j.state = 1 AND j.worker_id = @worker_id AND j.fence = r.fence
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF EXISTS (SELECT 1 FROM @recalled WHERE state = 6)
    INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
    SELECT @queue_id, r.group_key, 0, MIN(r.job_id) FROM @recalled AS r WHERE r.state = 6 GROUP BY r.group_key;
COMMIT TRANSACTION;
IF EXISTS (SELECT 1 FROM @recalled WHERE state = 6)
    EXEC [$(schema)].[advance_groups] @queue_id;
WHILE 1 = 1
BEGIN
    SET @priority = (SELECT MIN(priority) FROM @recalled WHERE state = 0 AND (priority > @priority OR @priority IS NULL));
    IF @priority IS NULL
        BREAK;
    SET @first_ready = (SELECT MIN(job_id) FROM @recalled WHERE state = 0 AND priority = @priority);
    EXEC [$(schema)].[lower_marks] @queue_id, @first_ready, @priority;
END;

SELECT job_id FROM @recalled;
GO
