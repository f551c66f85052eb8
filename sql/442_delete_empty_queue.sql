-- For delete_queue: deletes a queue that has no jobs, and everything that belongs to it, in one transaction. @outcome
-- is gone, or the reason why nothing was deleted: worker (a worker has a lease), batch (an open batch has its follow-up
-- in the queue), dead (another queue has it as its dead queue), jobs (there are jobs), rest (there are progress,
-- completed batches or history), or locked (a row is locked).
--
-- No job is left without a queue:
-- 1. The queue's row is deleted first. Only then each index that can hold a job of the queue is read with HOLDLOCK. An
--    empty range stays empty until this transaction ends, because an insert would wait.
-- 2. If a job has an entry at the commit, it had the entry when that index was read, so the read has found the entry or
--    met its lock. If a job is being moved between indexes (requeue, promote, release), the moving session has locked
--    its old entry. If that entry was deleted before the read, the read has met the lock; otherwise it has found the
--    entry. In both cases the deletion is rolled back, in whatever order the indexes are read.
-- 3. A session that adds a job checks for the queue's row after it has written all entries (enqueue). If it checks
--    before the row is deleted, the reads here follow and find the entries. If it checks later, it finds no queue and
--    removes the job. For workers and schedules, the same rule applies: their row is written first, and then the queue
--    is checked (register_worker, set_schedule).
--
-- After it has deleted the row, the call waits for no lock (LOCK_TIMEOUT 0), so it takes part in no deadlock. HOLDLOCK
-- also locks the next queue's entry. If another session has locked that entry, the outcome is locked, and delete_queue
-- tries again. The entry of the name is locked before the row, in the order of all sessions that look up a queue by
-- name.
CREATE OR ALTER PROCEDURE [$(schema)].[delete_empty_queue]
    @queue_id int,
    @queue    nvarchar(129),  -- the queue's name
    @outcome  varchar(8) OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;  -- a client that abandons the call must not leave the row locked
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @locked int;
DECLARE @workers TABLE (worker_id uniqueidentifier NOT NULL PRIMARY KEY CLUSTERED);

SET @outcome = NULL;
BEGIN TRY
    SET LOCK_TIMEOUT 1000;
    BEGIN TRANSACTION;
    SELECT @locked = queue_id
        FROM [$(schema)].[queues] WITH (ROWLOCK, XLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_name (name)))
        WHERE name = @queue;
    DELETE [$(schema)].[queues] WITH (ROWLOCK) WHERE queue_id = @queue_id;
    SET LOCK_TIMEOUT 0;

    -- create_queue also writes first and then checks whether the other's row is there.
    IF EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK) WHERE dead_queue = @queue)
        SET @outcome = 'dead';
    IF EXISTS (SELECT 1 FROM [$(schema)].[batch_counts] WITH (ROWLOCK, HOLDLOCK, INDEX (batch_counts_ended))
               WHERE queue_id = @queue_id AND ended_at IS NULL)
        SET @outcome = 'batch';
    IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_ready (queue_id)))
               WHERE queue_id = @queue_id AND state = 0 AND alone = 0)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_ready_alone (queue_id)))
               WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_scheduled (queue_id)))
        WHERE queue_id = @queue_id AND state = 1)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_claimed (queue_id)))
        WHERE queue_id = @queue_id AND state = 2)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_waiting (queue_id)))
        WHERE queue_id = @queue_id AND state = 6)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_finished (queue_id)))
        WHERE queue_id = @queue_id AND ended = 1)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [$(schema)].[archive] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (archive_finished (queue_id)))
        WHERE queue_id = @queue_id)
        SET @outcome = 'jobs';
    -- There may be many of these rows, so delete_queue deletes them in parts.
    IF @outcome IS NULL
        AND (EXISTS (SELECT 1 FROM [$(schema)].[progress] WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (progress_queue))
            WHERE queue_id = @queue_id)
             OR EXISTS (SELECT 1 FROM [$(schema)].[batch_counts]
                 WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (batch_counts_queue))
                        WHERE queue_id = @queue_id)
             OR EXISTS (SELECT 1 FROM [$(schema)].[history] WITH (ROWLOCK, READCOMMITTEDLOCK)
                 WHERE queue_id = @queue_id)
             OR EXISTS (SELECT 1 FROM [$(schema)].[kind_history] WITH (ROWLOCK, READCOMMITTEDLOCK)
                 WHERE queue_id = @queue_id))
        SET @outcome = 'rest';

    IF @outcome IS NULL
    BEGIN
        -- The workers are found by NOLOCK and deleted by key, because no index has the queue, and heartbeats lock
        -- workers of other queues. A worker with a lease is not deleted, and an uncommitted worker is locked.
        INSERT @workers (worker_id) SELECT worker_id FROM [$(schema)].[workers] WITH (NOLOCK)
            WHERE queue_id = @queue_id;
        DELETE w
        FROM @workers AS o
        INNER LOOP JOIN [$(schema)].[workers] AS w WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK, INDEX (workers_pk))
            ON w.worker_id = o.worker_id
        WHERE w.lost_at IS NOT NULL OR w.lease_until < @now
        OPTION (MAXDOP 1);
        IF EXISTS (SELECT 1 FROM [$(schema)].[workers] WITH (NOLOCK) WHERE queue_id = @queue_id)
            SET @outcome = 'worker';
    END;
    IF @outcome IS NULL
    BEGIN
        DELETE [$(schema)].[duties] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[samples] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[depths] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        -- rows that were written since the check; no more follow, because the sample is deleted
        DELETE [$(schema)].[history] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        -- also such rows; note_kinds checks for the queue after it has written them
        DELETE [$(schema)].[kind_history] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[marks] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        -- READCOMMITTEDLOCK, because with optimized locking the read would skip an uncommitted row instead of waiting.
        DELETE [$(schema)].[schedules] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[name_wishes] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[claim_rates] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[claim_places] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[groups] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[group_weights] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[group_rounds] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[group_events] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[linked_queues] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        COMMIT TRANSACTION;
        SET @outcome = 'gone';
    END;
    ELSE
        ROLLBACK TRANSACTION;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    IF ERROR_NUMBER() <> 1222
        THROW;
    SET @outcome = 'locked';
END CATCH;
GO
