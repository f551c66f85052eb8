-- Deletes a queue and everything that belongs to it. The call is rejected (58022) while a worker has a lease, while an
-- open batch has its follow-up in the queue, while another queue has it as its dead queue and, with @with_jobs = 0,
-- while it has jobs, including archived ones. With @with_jobs = 1, the jobs are deleted first, up to @max per call.
-- Unfinished jobs count as cancelled in their batches. Run it until is_gone is 1. It must run outside a transaction, so
-- that its own transactions stay short. Result: jobs (deleted by this call), is_gone.
--
-- Checks by NOLOCK, and deletes jobs as long as it sees any. Then delete_empty_queue checks again with locks, and
-- deletes the queue. Locked rows are skipped. If only locked rows are left, the call is rejected.
CREATE OR ALTER PROCEDURE [$(schema)].[delete_queue]
    @queue     nvarchar(129),
    @with_jobs bit = 0,
    @max       int = 1000,
    @audit_id  bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT ON;
-- adopt: refuse
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET IMPLICIT_TRANSACTIONS OFF;  -- as in pause
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @outcome varchar(8), @tries int = 0, @jobs int = 0,
    @found int, @rest int, @room int, @granted bit, @message nvarchar(2048),
    @first_id bigint, @last_id bigint, @own bigint, @members nvarchar(30);
-- IGNORE_DUP_KEY: a job that moves within an index during the read may be found twice.
DECLARE @old TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON));
DECLARE @gone [$(schema)].[member_list];

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 1000';
IF @@TRANCOUNT > 0
    THROW 58003, N'delete_queue cannot run inside a transaction; COMMIT or ROLLBACK it first', 1;

SET @members = CASE WHEN @with_jobs = 1 THEN N',"with_jobs":true' END;
EXEC [$(schema)].[note_action] @audit_id, 'delete_queue', @queue, @own OUTPUT, @members;
IF EXISTS (SELECT 1 FROM [$(schema)].[workers] WITH (NOLOCK)
    WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until >= @now)
    SET @outcome = 'worker';
ELSE IF EXISTS (SELECT 1 FROM [$(schema)].[batch_counts] WITH (NOLOCK, INDEX (batch_counts_ended))
    WHERE queue_id = @queue_id AND ended_at IS NULL)
    SET @outcome = 'batch';
ELSE IF EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK) WHERE dead_queue = @queue)
    SET @outcome = 'dead';
ELSE IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_ready))
                WHERE queue_id = @queue_id AND state = 0 AND alone = 0)
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
    OR EXISTS (SELECT 1 FROM [$(schema)].[kind_history] WITH (NOLOCK) WHERE queue_id = @queue_id)
    SET @outcome = 'rest';
ELSE
BEGIN
    -- Tries again, because the lock may be of another queue's claim or finish.
    EXEC [$(schema)].[delete_empty_queue] @queue_id, @queue, @outcome OUTPUT;
    WHILE @outcome = 'locked' AND @tries < 10
    BEGIN
        SET @tries = @tries + 1;
        WAITFOR DELAY '00:00:00.050';
        EXEC [$(schema)].[delete_empty_queue] @queue_id, @queue, @outcome OUTPUT;
    END;
    IF @outcome = 'gone'
    BEGIN
        IF @own IS NOT NULL
            EXEC [$(schema)].[end_audit] @own, 0;
        SELECT 0 AS jobs, CAST(1 AS bit) AS is_gone;
        RETURN;
    END;
    IF @with_jobs = 1 AND @outcome = 'jobs' OR @outcome = 'rest'
    BEGIN
        -- A job was added since the check. The next call deletes it.
        IF @own IS NOT NULL
            EXEC [$(schema)].[end_audit] @own, 0;
        SELECT 0 AS jobs, CAST(0 AS bit) AS is_gone;
        RETURN;
    END;
END;

IF @outcome = 'jobs'
BEGIN
    IF @with_jobs = 0
        SET @max = 1;  -- to see whether there is an unlocked one
    -- As in purge: first reads the ids, then locks the rows in their order. Both steps skip locked jobs.
    INSERT @old (job_id) SELECT TOP (@max) job_id
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
    WHERE queue_id = @queue_id AND state = 0 AND alone = 0 ORDER BY priority, job_id OPTION (MAXDOP 1);
    SET @room = @max - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
    WHERE queue_id = @queue_id AND state = 0 AND alone = 1 ORDER BY priority, job_id OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 ORDER BY due_at, job_id OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    -- Jobs that lost workers have claimed.
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
    -- Unfinished jobs are cancelled. A job stays if it was moved to another queue since it was read, or if a worker
    -- that registered since the check has claimed it.
    DELETE j
    OUTPUT deleted.job_id, CASE WHEN deleted.ended = 0 THEN 5 END, deleted.in_turn, deleted.batch_id,
        deleted.group_key, deleted.state
    INTO @gone (job_id, state, in_turn, batch_id, group_key, last_state)
    FROM @old AS o
    INNER LOOP JOIN [$(schema)].[jobs] AS j
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = o.job_id
    WHERE j.queue_id = @queue_id
        AND (j.state <> 2
             OR NOT EXISTS (SELECT 1 FROM [$(schema)].[workers] AS w WITH (NOLOCK, FORCESEEK (workers_pk (worker_id)))
                            WHERE w.worker_id = j.worker_id AND w.lost_at IS NULL AND w.lease_until >= @now))
    OPTION (MAXDOP 1);
    SET @jobs = @@ROWCOUNT;
    EXEC [$(schema)].[note_edges] @gone;
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
    SELECT @first_id = MIN(job_id), @last_id = MAX(job_id) FROM @gone;
    IF EXISTS (SELECT 1 FROM [$(schema)].[logs] WITH (NOLOCK, FORCESEEK (logs_pk (job_id)))
               WHERE job_id BETWEEN @first_id AND @last_id)
        DELETE l
        FROM @gone AS g
        INNER LOOP JOIN [$(schema)].[logs] AS l WITH (ROWLOCK, FORCESEEK, INDEX (logs_pk)) ON l.job_id = g.job_id
        OPTION (MAXDOP 1);
    EXEC [$(schema)].[note_ends] @queue_id, @gone;
    COMMIT TRANSACTION;
    EXEC [$(schema)].[advance_edges];
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
    WHERE p.queue_id = @queue_id
    OPTION (MAXDOP 1);
    SET @rest = @@ROWCOUNT;
    DELETE @old;
    -- From here, @old holds batch ids.
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
    DELETE TOP (4000) FROM [$(schema)].[kind_history] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE queue_id = @queue_id
    OPTION (MAXDOP 1);
    SET @rest = @rest + @@ROWCOUNT;
    COMMIT TRANSACTION;
    SET @outcome = CASE WHEN @rest = 0 THEN 'locked' END;
END;

IF @outcome IS NOT NULL
BEGIN
    SET @message = CONCAT(N'cannot delete queue ''', @queue, N''': ', CASE @outcome
        WHEN 'worker' THEN N'a worker has a lease; stop the queue''s workers first'
        WHEN 'batch' THEN CONCAT(N'an open batch has its follow-up in the queue; wait for its completion or cancel it ',
            N'(list_batches with open = 1 shows it)')
        WHEN 'dead' THEN CONCAT(N'it is the dead_queue of queue ''', (SELECT TOP (1) name
            FROM [$(schema)].[queues] WITH (NOLOCK) WHERE dead_queue = @queue ORDER BY name),
            N'''; change that first')
        WHEN 'jobs' THEN N'the queue has jobs; pass with_jobs = 1 to delete them'
        ELSE N'another transaction has locked jobs or other rows of the queue; run the call again' END);
    IF @own IS NOT NULL
        EXEC [$(schema)].[end_audit] @own, 0, @message;
    EXEC [$(schema)].[raise] 58022, @message;
END;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own, @jobs;
SELECT @jobs AS jobs, CAST(0 AS bit) AS is_gone;
GO
