-- Lets groups go on that a dead job halts (halt_groups): one job (@job_id) or up to 1,000 (@jobs). The next job of the
-- group gets its turn, and the dead job stays dead. Waits for locked jobs, in the order of job_id. Result: skipped (how
-- many of the jobs halted their groups).
CREATE OR ALTER PROCEDURE [$(schema)].[skip]
    @queue    nvarchar(129),
    @job_id   bigint = NULL,
    @jobs     [$(schema)].[id_list] READONLY,
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @count int, @own bigint;
DECLARE @asked [$(schema)].[id_list];
DECLARE @skipped [$(schema)].[member_list];

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
EXEC [$(schema)].[note_action] @audit_id, 'skip', @queue, @own OUTPUT, @jobs = @asked;
-- Locks all rows first, in the order of job_id, because an UPDATE guarantees no order.
INSERT @skipped (job_id, in_turn, group_key)
SELECT j.job_id, j.in_turn, j.group_key
FROM @asked AS a
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = a.job_id
WHERE j.queue_id = @queue_id AND j.state = 4 AND j.in_turn = 0
ORDER BY a.job_id  -- keeps the order of the join
OPTION (MAXDOP 1);
UPDATE j
SET in_turn = NULL
FROM @skipped AS s
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = s.job_id
OPTION (MAXDOP 1);
SET @count = @@ROWCOUNT;
EXEC [$(schema)].[note_ends] @queue_id, @skipped;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own, @count;
COMMIT TRANSACTION;
EXEC [$(schema)].[advance_groups] @queue_id;

SELECT @count AS skipped;
GO
