-- Cancels jobs: one (@job_id) or up to 1,000 (@jobs). A job that is not claimed is cancelled at once. It then has state
-- 5 and is kept like a dead job. Its deduplication key can be used again, its batch counts it, and it passes its turn
-- on. A claimed job stays claimed, and its worker is told with the next heartbeat. If its run succeeds, the job is
-- done. After any other end (an error, a snooze, a release, a lost worker), it is cancelled. Finished jobs do not
-- change. The error says who cancelled the job and why. Result: job_id, fence, running (1: its worker must be told; 0:
-- cancelled) of each job that was not finished. A job that was moved to another queue is cancelled there, and has its
-- row in a further result for that queue.
--
-- Waits for locked jobs, so that a job that is being claimed does not escape. Locks all rows first, in the order of
-- job_id, so that no job changes its state between check and update.
CREATE OR ALTER PROCEDURE [$(schema)].[cancel]
    @queue     nvarchar(129),
    @job_id    bigint         = NULL,
    @why       nvarchar(1001) = NULL,  -- up to 1,000 characters; a longer text is rejected, not cut
    @jobs      [$(schema)].[id_list] READONLY,
    @audit_id  bigint = NULL,  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
    -- cancelled jobs and those whose workers were asked, also in other queues that they were moved to
    @cancelled int = NULL OUTPUT
AS
SET NOCOUNT, XACT_ABORT, CONCAT_NULL_YIELDS_NULL ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @error nvarchar(4000), @granted bit,
    @next_id int, @next nvarchar(128), @own bigint, @more int;
DECLARE @asked [$(schema)].[id_list];
DECLARE @members [$(schema)].[member_list];
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, fence int NOT NULL, running bit NOT NULL,
    worker_id uniqueidentifier NULL);
DECLARE @moved TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, queue_id int NOT NULL);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF DATALENGTH(@why) > 2000
    THROW 58003, N'why must have at most 1000 characters', 1;
EXEC [$(schema)].[check_text] N'why', @why;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must have at most 1000 rows', 1;
IF @job_id IS NULL
    INSERT @asked (job_id) SELECT job_id FROM @jobs;
ELSE
    INSERT @asked (job_id) VALUES (@job_id);
-- In Azure SQL Database ORIGINAL_LOGIN is NULL.
SET @error = CONCAT(N'cancelled by ', ISNULL(ORIGINAL_LOGIN(), USER_NAME()), N': ' + NULLIF(@why, N''));

BEGIN TRANSACTION;
EXEC [$(schema)].[note_action] @audit_id, 'cancel', @queue, @own OUTPUT, @why = @why, @jobs = @asked;
-- NOLOCK, because a job's group never changes.
IF EXISTS (SELECT 1 FROM [$(schema)].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
    AND EXISTS (SELECT 1
                FROM @asked AS a
                INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                    ON j.job_id = a.job_id
                WHERE j.group_key IS NOT NULL)
    EXEC [$(schema)].[lock_groups] @queue_id, NULL, @granted OUTPUT;
INSERT @held (job_id, fence, running, worker_id)
SELECT j.job_id, j.fence, CASE WHEN j.state = 2 THEN 1 ELSE 0 END, j.worker_id
FROM @asked AS a
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = a.job_id
WHERE j.queue_id = @queue_id AND j.ended = 0
ORDER BY a.job_id  -- keeps the order of the join
OPTION (MAXDOP 1);

UPDATE j
SET state = 5, ended = 1, held = CASE WHEN j.held = 1 THEN 0 ELSE j.held END, finished_at = @now, error = @error
OUTPUT inserted.job_id, 5, inserted.in_turn, inserted.batch_id, inserted.group_key
INTO @members (job_id, state, in_turn, batch_id, group_key)
FROM @held AS h
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = h.job_id
WHERE h.running = 0
OPTION (MAXDOP 1);

IF EXISTS (SELECT 1 FROM @held WHERE running = 1)
BEGIN
    UPDATE j
    SET cancelling = 1, error = @error
    FROM @held AS h
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = h.job_id
    WHERE h.running = 1
    OPTION (MAXDOP 1);

    INSERT [$(schema)].[cancellations] WITH (ROWLOCK) (worker_id, job_id, fence, asked_at)
    SELECT h.worker_id, h.job_id, h.fence, @now
    FROM @held AS h
    WHERE h.running = 1
        AND NOT EXISTS (SELECT 1 FROM [$(schema)].[cancellations] AS c WITH (ROWLOCK, READCOMMITTEDLOCK)
                        WHERE c.worker_id = h.worker_id AND c.job_id = h.job_id AND c.fence = h.fence)
    OPTION (MAXDOP 1);
END;
EXEC [$(schema)].[note_ends] @queue_id, @members;
EXEC [$(schema)].[note_edges] @members;
SET @cancelled = (SELECT COUNT(*) FROM @held);
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own, @cancelled;
COMMIT TRANSACTION;
EXEC [$(schema)].[advance_edges];
IF EXISTS (SELECT 1 FROM @members WHERE group_key IS NOT NULL)
    EXEC [$(schema)].[advance_groups] @queue_id;

SELECT job_id, fence, running FROM @held;

-- A job that was moved while this call waited for its row (move_jobs) must not escape.
INSERT @moved (job_id, queue_id)
SELECT a.job_id, j.queue_id
FROM @asked AS a
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = a.job_id
WHERE j.queue_id <> @queue_id AND j.moves > 0 AND j.ended = 0 AND j.cancelling IS NULL
OPTION (MAXDOP 1);
WHILE EXISTS (SELECT 1 FROM @moved)
BEGIN
    SET @next_id = (SELECT MIN(queue_id) FROM @moved);
    SET @next = (SELECT name FROM [$(schema)].[queues] WITH (FORCESEEK (queues_pk (queue_id)))
        WHERE queue_id = @next_id);
    DELETE @asked;
    INSERT @asked (job_id) SELECT job_id FROM @moved WHERE queue_id = @next_id;
    DELETE @moved WHERE queue_id = @next_id;
    IF @next IS NOT NULL
        EXEC [$(schema)].[cancel] @queue = @next, @why = @why, @jobs = @asked, @audit_id = @audit_id,
            @cancelled = @more OUTPUT;
    SET @cancelled = @cancelled + ISNULL(@more, 0);
END;
GO
