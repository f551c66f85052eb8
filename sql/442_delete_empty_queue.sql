-- For delete_queue: deletes a queue without jobs and everything that belongs to it, in one transaction. @outcome: gone;
-- otherwise nothing has changed: worker (one has a lease), batch (an open one has its follow-up here), jobs, rest
-- (progress, completed batches or history), or locked (a row is locked).
--
-- No job is left without a queue:
-- 1. The queue's row is deleted first, and only then each index that can hold a job of the queue is read with HOLDLOCK:
--    an empty range stays empty until this transaction ends, because an insert would wait.
-- 2. A job with an entry at the commit had it when that index was read, so the read has found it or met its lock. A job
--    that is moving between indexes (requeue, promote, release) has its old entry locked by the moving session: if that
--    was deleted before the read, the read has met the lock, otherwise it has found the entry. Either way the deletion
--    is rolled back, in whatever order the indexes are read.
-- 3. A session that adds a job checks for the queue's row after it has written all entries (enqueue): before the row is
--    deleted, the reads here come after the entries; later, it finds no queue and removes the job.
-- Workers and schedules follow the rule of jobs: first their row, then the check for the queue (register_worker,
-- set_schedule).
--
-- After deleting the row it waits for nothing (LOCK_TIMEOUT 0), so it takes part in no deadlock. HOLDLOCK also locks
-- the next queue's entry; if that is locked, so is the outcome, and delete_queue tries again. The entry of the name is
-- locked before the row, the order of all sessions that look a queue up by name.
CREATE OR ALTER PROCEDURE [$(schema)].[delete_empty_queue]
    @queue_id int,
    @queue    nvarchar(129),  -- its name
    @outcome  varchar(8) OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;  -- a client that gives up the call must not leave the row locked
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
    -- There may be many of these, so delete_queue deletes them in parts.
    IF @outcome IS NULL
        AND (EXISTS (SELECT 1 FROM [$(schema)].[progress] WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (progress_queue))
            WHERE queue_id = @queue_id)
             OR EXISTS (SELECT 1 FROM [$(schema)].[batch_counts]
                 WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (batch_counts_queue))
                        WHERE queue_id = @queue_id)
             OR EXISTS (SELECT 1 FROM [$(schema)].[history] WITH (ROWLOCK, READCOMMITTEDLOCK)
                 WHERE queue_id = @queue_id))
        SET @outcome = 'rest';

    IF @outcome IS NULL
    BEGIN
        -- Found by NOLOCK and deleted by key, because no index has the queue, and other queues' workers are locked by
        -- heartbeats. A worker with a lease stays; an uncommitted one is locked.
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
        -- written since the check; without the sample none follows
        DELETE [$(schema)].[history] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[marks] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        -- READCOMMITTEDLOCK: with optimized locking, an uncommitted row would be skipped instead of waited for.
        DELETE [$(schema)].[schedules] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[claim_rates] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[claim_places] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[groups] WITH (ROWLOCK) WHERE queue_id = @queue_id;
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
