-- Returns claimed jobs to the queue that were not started, or that a planned stop interrupted. They are ready at once,
-- and the attempt is not counted. Jobs of groups give back their turns and wait for the next ones, which go to the
-- earliest job again: so the jobs of a run keep their order, however many calls return them. Jobs whose cancellation
-- was requested are cancelled. Result: job_id of each job that this worker no longer held under this fence.
CREATE OR ALTER PROCEDURE [$(schema)].[release]
    @worker_id uniqueidentifier,
    @jobs      [$(schema)].[job_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
-- state: NULL for a cancelled job.
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, state tinyint NULL, in_turn bit NULL,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);
DECLARE @members [$(schema)].[member_list];
DECLARE @queue_id int = (SELECT queue_id FROM [$(schema)].[workers] WHERE worker_id = @worker_id), @first_ready bigint,
    @released int, @locked int;

BEGIN TRANSACTION;
-- Locks all rows first, in the order of job_id, because an UPDATE guarantees no order.
SELECT @locked = j.fence
FROM @jobs AS r
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = r.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = r.fence
ORDER BY r.job_id  -- keeps the order of the join
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- adopt: give_rows_back
UPDATE j
SET state = CASE WHEN j.group_key IS NULL THEN 0 ELSE 6 END, attempt = j.attempt - 1, in_turn = NULL
OUTPUT inserted.job_id, inserted.state, deleted.in_turn, deleted.group_key
INTO @found (job_id, state, in_turn, group_key)
FROM @jobs AS r
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = r.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = r.fence AND j.cancelling IS NULL
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @released = @@ROWCOUNT;
SET @first_ready = (SELECT MIN(job_id) FROM @found WHERE state = 0);
INSERT @members (job_id, state, in_turn, group_key)
SELECT f.job_id, f.state, f.in_turn, f.group_key FROM @found AS f WHERE f.state = 6;
-- adopt: count_rows_given_back

-- A separate statement, so that the one above changes no columns of jobs_dedup.
IF @released < (SELECT COUNT(*) FROM @jobs)
BEGIN
    UPDATE j
    SET state = 5, ended = 1, attempt = j.attempt - 1, finished_at = SYSUTCDATETIME(), cancelling = NULL
    OUTPUT inserted.job_id, 5, inserted.in_turn, inserted.batch_id, inserted.group_key
    INTO @members (job_id, state, in_turn, batch_id, group_key)
    FROM @jobs AS r
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = r.job_id
    WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = r.fence AND j.cancelling = 1
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    INSERT @found (job_id) SELECT job_id FROM @members WHERE state = 5;
END;
IF EXISTS (SELECT 1 FROM @members)
BEGIN
    EXEC [$(schema)].[note_ends] @queue_id, @members;
    EXEC [$(schema)].[note_edges] @members;
END;
COMMIT TRANSACTION;
IF EXISTS (SELECT 1 FROM @members WHERE group_key IS NOT NULL)
    EXEC [$(schema)].[advance_groups] @queue_id;

IF @first_ready IS NOT NULL
    EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;

SELECT r.job_id FROM @jobs AS r WHERE NOT EXISTS (SELECT 1 FROM @found AS f WHERE f.job_id = r.job_id);
GO
