-- Deletes a queue: its row and all that belongs to it. It is refused (58022) while a worker of it has a lease, while a
-- batch that has not ended has its follow-up in it and, with @with_jobs = 0, while it has jobs, those in the archive
-- among them. With @with_jobs = 1 they are deleted first, whatever their state, up to @max in a call; those that have
-- not ended count as cancelled in their batches. Run it until is_gone is 1, outside of a transaction: its own are
-- shorter. Result: jobs (that this call has deleted), is_gone.
--
-- It looks without locks first (NOLOCK), and deletes jobs as long as it sees some. Only when nothing is left to be seen
-- does it delete the queue, by delete_empty_queue, which makes sure of it, and of what comes in meanwhile. What others
-- have locked is passed over, and refused where there is nothing else.
CREATE OR ALTER PROCEDURE [$(schema)].[delete_queue]
    @queue     nvarchar(129),
    @with_jobs bit = 0,
    @max       int = 1000
AS
SET NOCOUNT ON;
-- adopt: refuse
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET IMPLICIT_TRANSACTIONS OFF;  -- see pause
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @outcome varchar(8), @tries int = 0, @jobs int = 0,
    @found int, @rest int, @room int, @granted bit, @message nvarchar(2048);
-- IGNORE_DUP_KEY: a job that moves within an index while it is read may be met twice.
DECLARE @old TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON));
DECLARE @gone [$(schema)].[member_list];

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1 OR @max > 1000
    THROW 58003, N'max must be 1 to 1000', 1;
IF @@TRANCOUNT > 0
    THROW 58003, N'delete_queue has transactions of its own: call it outside of a transaction (COMMIT or ROLLBACK the open one first)', 1;

IF EXISTS (SELECT 1 FROM [$(schema)].[workers] WITH (NOLOCK)
    WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until >= @now)
    SET @outcome = 'worker';
ELSE IF EXISTS (SELECT 1 FROM [$(schema)].[batch_counts] WITH (NOLOCK, INDEX (batch_counts_ended))
    WHERE queue_id = @queue_id AND ended_at IS NULL)
    SET @outcome = 'batch';
ELSE IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_ready))
                WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
    OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_ready_lifo))
               WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
    OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
    OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_scheduled))
        WHERE queue_id = @queue_id AND state = 1)
    OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_claimed))
        WHERE queue_id = @queue_id AND state = 2)
    OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_waiting))
        WHERE queue_id = @queue_id AND state = 6)
    OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_finished))
        WHERE queue_id = @queue_id AND ended = 1)
    OR EXISTS (SELECT 1 FROM [$(schema)].[archive] WITH (NOLOCK, INDEX (archive_finished)) WHERE queue_id = @queue_id)
    SET @outcome = 'jobs';
ELSE IF EXISTS (SELECT 1 FROM [$(schema)].[progress] WITH (NOLOCK, INDEX (progress_queue)) WHERE queue_id = @queue_id)
    OR EXISTS (SELECT 1 FROM [$(schema)].[batch_counts] WITH (NOLOCK, INDEX (batch_counts_queue))
        WHERE queue_id = @queue_id)
    OR EXISTS (SELECT 1 FROM [$(schema)].[history] WITH (NOLOCK) WHERE queue_id = @queue_id)
    SET @outcome = 'rest';
ELSE
BEGIN
    -- Again, because it may have met the lock of a neighbour's claim or acknowledgement.
    EXEC [$(schema)].[delete_empty_queue] @queue_id, @queue, @outcome OUTPUT;
    WHILE @outcome = 'locked' AND @tries < 10
    BEGIN
        SET @tries = @tries + 1;
        WAITFOR DELAY '00:00:00.050';
        EXEC [$(schema)].[delete_empty_queue] @queue_id, @queue, @outcome OUTPUT;
    END;
    IF @outcome = 'gone'
    BEGIN
        SELECT 0 AS jobs, CAST(1 AS bit) AS is_gone;
        RETURN;
    END;
    IF @with_jobs = 1 AND @outcome = 'jobs' OR @outcome = 'rest'
    BEGIN
        -- It came in since the look: the next call deletes it.
        SELECT 0 AS jobs, CAST(0 AS bit) AS is_gone;
        RETURN;
    END;
END;

IF @outcome = 'jobs'
BEGIN
    IF @with_jobs = 0
        SET @max = 1;  -- is there one that nobody has locked?
    -- First the ids, by reading alone, as purge does; then the rows in the order of their ids. What others have locked
    -- is skipped both times.
    INSERT @old (job_id) SELECT TOP (@max) job_id
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
    WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 ORDER BY priority, job_id OPTION (MAXDOP 1);
    SET @room = @max - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
    WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 ORDER BY priority, job_id DESC
        OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
    WHERE queue_id = @queue_id AND state = 0 AND alone = 1 ORDER BY priority, job_id OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 ORDER BY due_at, job_id OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    -- Claimed by workers that are lost.
    INSERT @old (job_id) SELECT TOP (@room) job_id
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_claimed))
    WHERE queue_id = @queue_id AND state = 2 ORDER BY worker_id, job_id OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
    WHERE queue_id = @queue_id AND state = 6 ORDER BY group_key, job_id OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND ended = 1 ORDER BY state, finished_at, job_id OPTION (MAXDOP 1);
    SET @found = @max - @room + @@ROWCOUNT;
    IF @with_jobs = 0 AND @found = 0
    BEGIN
        INSERT @old (job_id) SELECT TOP (1) job_id
            FROM [$(schema)].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
        WHERE queue_id = @queue_id OPTION (MAXDOP 1);
        SET @found = @@ROWCOUNT;
    END;
END;
IF @outcome = 'jobs' AND @with_jobs = 0 AND @found = 0
    SET @outcome = 'locked';
ELSE IF @outcome = 'jobs' AND @with_jobs = 1
BEGIN
    BEGIN TRANSACTION;
    IF EXISTS (SELECT 1 FROM [$(schema)].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
        EXEC [$(schema)].[lock_groups] @queue_id, NULL, @granted OUTPUT;
    -- Those that have not ended are cancelled by this. One that a worker has claimed which has registered since the
    -- look stays: it may run.
    DELETE j
    OUTPUT deleted.job_id, CASE WHEN deleted.ended = 0 THEN 5 END, deleted.in_turn, deleted.batch_id, deleted.group_key
    INTO @gone (job_id, state, in_turn, batch_id, group_key)
    FROM @old AS o
    INNER LOOP JOIN [$(schema)].[jobs] AS j
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = o.job_id
    WHERE j.state <> 2
        OR NOT EXISTS (SELECT 1 FROM [$(schema)].[workers] AS w WITH (NOLOCK, FORCESEEK (workers_pk (worker_id)))
                       WHERE w.worker_id = j.worker_id AND w.lost_at IS NULL AND w.lease_until >= @now)
    OPTION (MAXDOP 1);
    SET @jobs = @@ROWCOUNT;
    DELETE @old;
    SET @room = @max - @jobs;
    INSERT @old (job_id) SELECT TOP (@room) job_id
        FROM [$(schema)].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id ORDER BY finished_at, job_id OPTION (MAXDOP 1);
    DELETE a
    OUTPUT deleted.job_id INTO @gone (job_id)
    FROM @old AS o
    INNER LOOP JOIN [$(schema)].[archive] AS a
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (archive_pk))
        ON a.job_id = o.job_id
    OPTION (MAXDOP 1);
    SET @jobs = @jobs + @@ROWCOUNT;
    DELETE a
    FROM @gone AS g
    INNER LOOP JOIN [$(schema)].[attempts] AS a WITH (ROWLOCK, FORCESEEK, INDEX (attempts_pk)) ON a.job_id = g.job_id
    OPTION (MAXDOP 1);
    EXEC [$(schema)].[note_ends] @queue_id, @gone;
    COMMIT TRANSACTION;
    IF @jobs > 0
        SET @outcome = NULL;
    ELSE IF EXISTS (SELECT 1 FROM [$(schema)].[workers] WITH (NOLOCK)
        WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until >= @now)
        SET @outcome = 'worker';
    ELSE
        SET @outcome = 'locked';
END;
ELSE IF @outcome = 'rest'
BEGIN
    BEGIN TRANSACTION;
    INSERT @old (job_id) SELECT TOP (@max) job_id FROM [$(schema)].[progress] WITH (NOLOCK, INDEX (progress_queue))
    WHERE queue_id = @queue_id OPTION (MAXDOP 1);
    DELETE p
    FROM @old AS o
    INNER LOOP JOIN [$(schema)].[progress] AS p
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (progress_pk))
        ON p.job_id = o.job_id
    OPTION (MAXDOP 1);
    SET @rest = @@ROWCOUNT;
    DELETE @old;
    -- The ids are those of batches.
    INSERT @old (job_id) SELECT TOP (@max) batch_id
        FROM [$(schema)].[batch_counts] WITH (NOLOCK, INDEX (batch_counts_ended))
    WHERE queue_id = @queue_id AND ended_at IS NOT NULL OPTION (MAXDOP 1);
    DELETE c
    OUTPUT deleted.batch_id INTO @gone (job_id)
    FROM @old AS o
    INNER LOOP JOIN [$(schema)].[batch_counts] AS c
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (batch_counts_pk))
        ON c.batch_id = o.job_id
    WHERE c.ended_at IS NOT NULL
    OPTION (MAXDOP 1);
    SET @rest = @rest + @@ROWCOUNT;
    DELETE b
    FROM @gone AS g
    INNER LOOP JOIN [$(schema)].[batches] AS b WITH (ROWLOCK, FORCESEEK, INDEX (batches_pk)) ON b.batch_id = g.job_id
    OPTION (MAXDOP 1);
    DELETE TOP (@max) FROM [$(schema)].[history] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE queue_id = @queue_id
        OPTION (MAXDOP 1);
    SET @rest = @rest + @@ROWCOUNT;
    COMMIT TRANSACTION;
    SET @outcome = CASE WHEN @rest = 0 THEN 'locked' END;
END;

IF @outcome IS NOT NULL
BEGIN
    SET @message = CONCAT(N'queue ''', @queue, N''' cannot be deleted: ', CASE @outcome
        WHEN 'worker' THEN N'a worker of it has a lease; stop its workers first'
        WHEN 'batch' THEN N'a batch that has not ended has its follow-up in it; wait for its end, or cancel it (list_batches with open = 1 shows it)'
        WHEN 'jobs' THEN N'it has jobs; with_jobs = 1 deletes them, too'
        ELSE N'a transaction that changes its jobs, or what else belongs to it, has not ended; run it again' END);
    EXEC [$(schema)].[raise] 58022, @message;
END;
SELECT @jobs AS jobs, CAST(0 AS bit) AS is_gone;
GO
