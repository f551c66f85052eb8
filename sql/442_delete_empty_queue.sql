-- For delete_queue: deletes a queue that has no jobs, with all that belongs to it, in one transaction. @outcome: gone;
-- or, and then nothing has changed, worker (one of it has a lease), batch (one that has not ended has its follow-up in
-- it), jobs, rest (there are notes of jobs, batches that have ended, or history), or locked (somebody has locked what
-- belongs to it).
--
-- No job stays behind without a queue:
-- 1. The queue's row is deleted first. Only then the jobs are looked for, in each index in which a job of the queue can
-- stand, with HOLDLOCK: what
--    was found empty stays so until this transaction ends, because whoever would put an entry there waits.
-- 2. Take any job of the queue at the moment of the commit. Has it an entry in one of these indexes, then that was
-- there when this index was looked
--    at, since none came in afterwards: it was found, or it was locked. Is it between two indexes (requeue, promote, release, ...: the old entry is
--    deleted, the new one is not there yet), then who moves it has the old entry locked. That was deleted before the look at that index, and the look
--    met the lock; or after it, and the look found the entry. Both times the deletion is taken back. (So the order of the looks does not matter.)
-- 3. A job that is just being added has no entry yet. Who adds one looks for the queue's row when all entries are there
-- (enqueue): either that is
--    before this deletes the row, and then the looks come after the entries; or it finds the queue gone, and takes the job back.
-- Workers and schedules come in by the same rule as jobs: first the row, then the look for the queue (register_worker,
-- set_schedule).
--
-- It waits for nobody once it has deleted the row (LOCK_TIMEOUT 0), so that it is in no deadlock. HOLDLOCK also locks
-- the entry behind the queue's own, another queue's: where that is locked, the outcome is locked, too, and delete_queue
-- tries again. The entry of the name comes before the row: in this order those lock them who look for a queue by its
-- name.
CREATE OR ALTER PROCEDURE [$(schema)].[delete_empty_queue]
    @queue_id int,
    @queue    nvarchar(129),  -- its name
    @outcome  varchar(8) OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;  -- a client that gives the call up must not leave the row locked
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
               WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_ready_lifo (queue_id)))
               WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
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
    -- They can be many: they go as the jobs do.
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
        -- Their ids by NOLOCK, the rows by their keys: no index has the queue, and those of other queues are locked by
        -- their heartbeats. One that has a lease stays; one that is not committed is locked.
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
        -- a row since the look; without the sample there is no further one
        DELETE [$(schema)].[history] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [$(schema)].[marks] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        -- (READCOMMITTEDLOCK: under optimized locking, one that is not committed would be passed over, and not be
        -- waited for.)
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
