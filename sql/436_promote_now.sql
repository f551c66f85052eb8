-- Makes scheduled jobs ready before they are due: one (@job_id) or up to 1,000 (@jobs), delayed or waiting for a retry.
-- A job of a group that has no turn then waits for its turn. Waits for locked jobs, in the order of job_id. Result:
-- promoted (how many of the jobs were scheduled jobs of the queue).
CREATE OR ALTER PROCEDURE [$(schema)].[promote_now]
    @queue    nvarchar(129),
    @job_id   bigint = NULL,
    @jobs     [$(schema)].[id_list] READONLY,
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @first_ready bigint, @count int, @own bigint;
DECLARE @asked [$(schema)].[id_list];
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @promoted TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, state tinyint NOT NULL,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must have at most 1000 rows', 1;
IF @job_id IS NULL
    INSERT @asked (job_id) SELECT job_id FROM @jobs;
ELSE
    INSERT @asked (job_id) VALUES (@job_id);

BEGIN TRANSACTION;
EXEC [$(schema)].[note_action] @audit_id, 'promote', @queue, @own OUTPUT, @jobs = @asked;
-- Locks all rows first, in the order of job_id, because an UPDATE guarantees no order.
INSERT @held (job_id)
SELECT j.job_id
FROM @asked AS a
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = a.job_id
WHERE j.queue_id = @queue_id AND j.state = 1
ORDER BY a.job_id  -- keeps the order of the join
OPTION (MAXDOP 1);
UPDATE j
SET state = CASE WHEN j.group_key IS NULL OR j.in_turn = 1 THEN 0 ELSE 6 END, due_at = SYSUTCDATETIME()
OUTPUT inserted.job_id, inserted.state, inserted.group_key INTO @promoted (job_id, state, group_key)
FROM @held AS h
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = h.job_id
OPTION (MAXDOP 1);
IF EXISTS (SELECT 1 FROM @promoted WHERE state = 6)
    INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
    SELECT @queue_id, group_key, 0, MIN(job_id) FROM @promoted WHERE state = 6 GROUP BY group_key;
SET @count = (SELECT COUNT(*) FROM @promoted);
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own, @count;
COMMIT TRANSACTION;
IF EXISTS (SELECT 1 FROM @promoted WHERE state = 6)
    EXEC [$(schema)].[advance_groups] @queue_id;
SET @first_ready = (SELECT MIN(job_id) FROM @promoted WHERE state = 0);
IF @first_ready IS NOT NULL
    EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;

SELECT @count AS promoted;
GO
