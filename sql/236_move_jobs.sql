-- Moves claimed jobs to another queue, where they are ready or, in a group, wait for their turn. attempt restarts at 0,
-- fence keeps growing, and the job may start there at any time (start_by). Called by procedures that finish jobs, before
-- their own changes, in their transaction. The caller has locked the jobs' rows, and calls wake_moved after the commit.
-- A job that cannot be moved stays claimed, and its error says why, in front of the attempt's error.
--
-- The caller may be the elected worker's reap, so nothing here waits longer than a second. An uncommitted job with the
-- same deduplication key counts as unfinished. Keyed jobs are moved one by one in the order of the keys, as in
-- enqueue_batch. No lock of the other queue's row is kept: as in enqueue, the row is checked after the writes. moves
-- bounds loops of queues whose handlers pass a job round.
CREATE OR ALTER PROCEDURE [$(schema)].[move_jobs]
    @queue_id int,             -- the queue of the jobs
    @to       nvarchar(129),   -- the name of the other queue
    @failed   [$(schema)].[attempt_list] READONLY,  -- the jobs, with the attempts that failed
    @alone    bit = 0  -- 1: they must run alone there, too (reap)
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @to_id int, @delivery varchar(13), @why nvarchar(100),
    @job_id bigint, @key nvarchar(256), @last nvarchar(256), @links int, @taken int,
    @has_edges bit = 0;
DECLARE @keyed TABLE (dedup_key nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    job_id bigint NOT NULL);
DECLARE @moved TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, in_turn bit NULL,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);
DECLARE @noted [$(schema)].[attempt_list];

IF @@LOCK_TIMEOUT NOT BETWEEN 0 AND 1000
    SET LOCK_TIMEOUT 1000;
SELECT @to_id = queue_id, @delivery = delivery
FROM [$(schema)].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_name (name))) WHERE name = @to;
SET @why = CASE WHEN @to_id IS NULL THEN N'there is no such queue'
                WHEN @to_id = @queue_id THEN N'the job is in this queue'
                WHEN @delivery = 'at_most_once' THEN N'its delivery is at_most_once' END;

SELECT @links = (SELECT TOP (1) 1
              FROM @failed AS f
              INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
                  ON j.job_id = f.job_id
              WHERE j.group_key IS NOT NULL OR j.batch_id IS NOT NULL)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @why IS NULL AND @links = 1
    EXEC [$(schema)].[link_queue] @to_id;

INSERT @keyed (dedup_key, job_id)
SELECT j.dedup_key, j.job_id
FROM @failed AS f
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
WHERE j.dedup_key IS NOT NULL AND @why IS NULL
ORDER BY f.job_id  -- keeps the order of the join
OPTION (MAXDOP 1, KEEPFIXED PLAN);

UPDATE j
SET queue_id = @to_id, state = CASE WHEN j.group_key IS NULL THEN 0 ELSE 6 END, in_turn = NULL, attempt = 0,
    alone = @alone, moves = ISNULL(j.moves, 0) + 1, start_by = NULL, due_at = @now, finished_at = @now,
    run_us = f.run_us, cpu_us = f.cpu_us, peak_bytes = f.peak_bytes, error = f.error
OUTPUT inserted.job_id, deleted.in_turn, inserted.group_key INTO @moved (job_id, in_turn, group_key)
FROM @failed AS f
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
WHERE j.dedup_key IS NULL AND ISNULL(j.moves, 0) < 10 AND @why IS NULL
OPTION (MAXDOP 1, KEEPFIXED PLAN);

WHILE 1 = 1
BEGIN
    SET @job_id = NULL;
    SELECT TOP (1) @job_id = job_id, @key = dedup_key FROM @keyed WHERE @last IS NULL OR dedup_key > @last
        ORDER BY dedup_key;
    IF @job_id IS NULL
        BREAK;
    SET @last = @key;
    SELECT @taken = (SELECT TOP (1) 1
                     FROM [$(schema)].[jobs] WITH (NOLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
                     WHERE queue_id = @to_id AND dedup_key = @key AND dedup_key IS NOT NULL AND ended = 0)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @taken = 1
        CONTINUE;
    SET XACT_ABORT OFF;
    BEGIN TRY
        UPDATE j
        SET queue_id = @to_id, state = CASE WHEN j.group_key IS NULL THEN 0 ELSE 6 END, in_turn = NULL, attempt = 0,
            alone = @alone, moves = ISNULL(j.moves, 0) + 1, start_by = NULL, due_at = @now, finished_at = @now,
            run_us = f.run_us, cpu_us = f.cpu_us, peak_bytes = f.peak_bytes, error = f.error
        OUTPUT inserted.job_id, deleted.in_turn, inserted.group_key INTO @moved (job_id, in_turn, group_key)
        FROM @failed AS f
        INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
        WHERE f.job_id = @job_id AND ISNULL(j.moves, 0) < 10
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    END TRY
    BEGIN CATCH
        -- 2601: a producer has taken the key since the lookup. 1222: its transaction has not ended, or the job that had
        -- the key is being finished. Other errors roll back everything.
        SET XACT_ABORT ON;
        IF ERROR_NUMBER() NOT IN (1222, 2601) OR XACT_STATE() = -1
            THROW;
    END CATCH;
    SET XACT_ABORT ON;
END;

-- Cuts a long error between two characters, not within a surrogate pair.
UPDATE j
SET error = CONCAT(N'cannot move the job to queue ''', @to, N''': ',
    CASE WHEN @why IS NOT NULL THEN @why
         WHEN j.moves >= 10 THEN N'it was moved ten times already'
         ELSE N'an unfinished job there has its dedup_key' END,
    N'; ' + LEFT(f.error COLLATE Latin1_General_100_BIN2,
        CASE WHEN SUBSTRING(f.error COLLATE Latin1_General_100_BIN2, 3700, 1)
                  BETWEEN CAST(0x00D8 AS nvarchar(1)) AND CAST(0xFFDB AS nvarchar(1)) THEN 3699 ELSE 3700 END))
FROM @failed AS f
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
WHERE NOT EXISTS (SELECT 1 FROM @moved AS m WHERE m.job_id = f.job_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF NOT EXISTS (SELECT 1 FROM @moved)
    RETURN 0;
-- After the changes: see watch_parents.
SELECT TOP (1) @has_edges = 1
FROM @moved AS m
WHERE EXISTS (SELECT 1 FROM [$(schema)].[edges] AS e WITH (NOLOCK, FORCESEEK (edges_pk (parent_id)))
              WHERE e.parent_id = m.job_id)
    OR EXISTS (SELECT 1 FROM [$(schema)].[edges] AS e WITH (NOLOCK, FORCESEEK (edges_child (child_id)))
               WHERE e.child_id = m.job_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @has_edges = 1
    EXEC [$(schema)].[link_queue] @to_id;
-- Either delete_queue finds these jobs, or this check finds no queue. Repeated, the call then moves no job. Waits for
-- a deletion in progress, because it may be rolled back.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id)))
               WHERE queue_id = @to_id)
    AND NOT EXISTS (SELECT 1
                    FROM [$(schema)].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id)))
                    WHERE queue_id = @to_id)
    EXEC [$(schema)].[unknown_queue] @to;

INSERT @noted (job_id, fence, attempt, worker_id, worker, run_us, cpu_us, peak_bytes, error)
SELECT f.job_id, f.fence, f.attempt, f.worker_id, f.worker, f.run_us, f.cpu_us, f.peak_bytes, f.error
FROM @failed AS f
INNER JOIN @moved AS m ON m.job_id = f.job_id;
EXEC [$(schema)].[note_attempts] @queue_id, @noted;
-- Otherwise the deletion of the old queue would delete the checkpoints.
UPDATE p
SET queue_id = @to_id
FROM @moved AS m
INNER LOOP JOIN [$(schema)].[progress] AS p WITH (ROWLOCK, FORCESEEK, INDEX (progress_pk)) ON p.job_id = m.job_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);
-- The jobs pass on their turns in the old queue, and wait for turns in the other.
INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
SELECT @queue_id, m.group_key, COUNT(*), NULL FROM @moved AS m
    WHERE m.group_key IS NOT NULL AND m.in_turn = 1 GROUP BY m.group_key
UNION ALL
SELECT @to_id, m.group_key, 0, MIN(m.job_id) FROM @moved AS m WHERE m.group_key IS NOT NULL GROUP BY m.group_key;
GO
