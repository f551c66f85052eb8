-- Deletes up to @max finished jobs past their retention (@keep_done_s, @keep_dead_s of create_queue), the oldest first;
-- up to @max rows of progress whose job is gone or done; and up to @max batches that completed a week ago and have
-- their follow-up in the queue. Also thins history. Result: expired, the greatest of the three numbers. Every minute,
-- the elected worker calls this until it returns less than @max. As purge does, it first reads the ids, and then
-- deletes the rows in their order. Only rows that could be locked count for @max. Otherwise locked rows whose entries
-- are not locked would be found each time.
CREATE OR ALTER PROCEDURE [$(schema)].[expire]
    @queue nvarchar(129),
    @max   int = 1000
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @keep_done_s int, @keep_dead_s int, @before datetime2(3),
    @expired int = 0, @number tinyint = 4, @noted int = 0, @parts int = 0, @last_id bigint = 0, @batches int,
    @lock_timeout int = @@LOCK_TIMEOUT,
    @first_gone bigint, @last_gone bigint, @held bit, @is_copy int = 0;
-- IGNORE_DUP_KEY: a job that moves within an index during the read may be found twice.
DECLARE @old TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON));
-- Deleted jobs. failed: the job may have failed attempts; a done job that was claimed only once has none. state: of a
-- job that was not in the archive.
DECLARE @gone TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, failed bit NOT NULL, state tinyint NULL);
DECLARE @ended [$(schema)].[member_list];

-- In a copy that is not confirmed, nothing is deleted by its age.
IF ISNULL(CAST(SESSION_CONTEXT(N'readpast.home') AS nvarchar(150)), N'') <> CONCAT(DB_ID(), N' $(schema)')
    EXEC @is_copy = [$(schema)].[check_home];
SELECT @queue_id = queue_id, @keep_done_s = keep_done_s, @keep_dead_s = keep_dead_s,
       @held = CASE WHEN paused >= 4 OR @is_copy = 1 THEN 1 ELSE 0 END
    FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 1000';

IF @held = 1
    SELECT @keep_done_s = NULL, @keep_dead_s = NULL;
BEGIN TRANSACTION;
IF @keep_done_s IS NOT NULL
BEGIN
    SET @before = DATEADD(SECOND, -@keep_done_s, @now);
    INSERT @old (job_id)
    SELECT TOP (@max) f.job_id
    FROM [$(schema)].[jobs] AS f WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    INNER LOOP JOIN [$(schema)].[jobs] AS j
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = f.job_id
    WHERE f.queue_id = @queue_id AND f.state = 3 AND f.ended = 1 AND f.finished_at <= @before
    ORDER BY f.finished_at, f.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @@ROWCOUNT > 0
    BEGIN
        DELETE j
        OUTPUT deleted.job_id, CASE WHEN deleted.fence > 1 THEN 1 ELSE 0 END, 3 INTO @gone (job_id, failed, state)
        FROM @old AS o
        INNER LOOP JOIN [$(schema)].[jobs] AS j
            WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
            ON j.job_id = o.job_id
        WHERE j.queue_id = @queue_id AND j.state = 3 AND j.finished_at <= @before
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @expired = @expired + @@ROWCOUNT;
        DELETE @old;
    END;

    INSERT @old (job_id)
    SELECT TOP (@max - @expired) f.job_id
    FROM [$(schema)].[archive] AS f WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    INNER LOOP JOIN [$(schema)].[archive] AS a
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id))) ON a.job_id = f.job_id
    WHERE f.queue_id = @queue_id AND f.finished_at <= @before
    ORDER BY f.finished_at, f.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @@ROWCOUNT > 0
    BEGIN
        DELETE a
        OUTPUT deleted.job_id, CASE WHEN deleted.fence > 1 THEN 1 ELSE 0 END INTO @gone (job_id, failed)
        FROM @old AS o
        INNER LOOP JOIN [$(schema)].[archive] AS a
            WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (archive_pk))
            ON a.job_id = o.job_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @expired = @expired + @@ROWCOUNT;
        DELETE @old;
    END;
END;

-- Dead jobs, then cancelled ones. A dead job that halts its group (in_turn 0) stays. ended = 1 repeats the index's
-- filter, because a variable hides the state.
SET @before = DATEADD(SECOND, -@keep_dead_s, @now);
WHILE @keep_dead_s IS NOT NULL AND @number <= 5
BEGIN
    INSERT @old (job_id)
    SELECT TOP (@max - @expired) f.job_id
    FROM [$(schema)].[jobs] AS f WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    INNER LOOP JOIN [$(schema)].[jobs] AS j
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = f.job_id
    WHERE f.queue_id = @queue_id AND f.state = @number AND f.ended = 1 AND f.finished_at <= @before
        AND ISNULL(j.in_turn, 1) = 1
    ORDER BY f.finished_at, f.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @@ROWCOUNT > 0
    BEGIN
        DELETE j
        OUTPUT deleted.job_id, 1, deleted.state INTO @gone (job_id, failed, state)
        FROM @old AS o
        INNER LOOP JOIN [$(schema)].[jobs] AS j
            WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
            ON j.job_id = o.job_id
        WHERE j.queue_id = @queue_id AND j.state = @number AND j.finished_at <= @before AND ISNULL(j.in_turn, 1) = 1
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @expired = @expired + @@ROWCOUNT;
        DELETE @old;
    END;
    SET @number = @number + 1;
END;

IF EXISTS (SELECT 1 FROM @gone WHERE failed = 1)
    DELETE a
    FROM @gone AS g
    INNER LOOP JOIN [$(schema)].[attempts] AS a WITH (ROWLOCK, FORCESEEK, INDEX (attempts_pk)) ON a.job_id = g.job_id
    WHERE g.failed = 1
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
SELECT @first_gone = MIN(job_id), @last_gone = MAX(job_id) FROM @gone;
IF EXISTS (SELECT 1 FROM [$(schema)].[logs] WITH (NOLOCK, FORCESEEK (logs_pk (job_id)))
           WHERE job_id BETWEEN @first_gone AND @last_gone)
    DELETE l
    FROM @gone AS g
    INNER LOOP JOIN [$(schema)].[logs] AS l WITH (ROWLOCK, FORCESEEK, INDEX (logs_pk)) ON l.job_id = g.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF EXISTS (SELECT 1 FROM [$(schema)].[edges] WITH (NOLOCK, FORCESEEK (edges_pk (parent_id))) WHERE parent_id > 0)
BEGIN
    INSERT @ended (job_id, last_state) SELECT job_id, state FROM @gone WHERE state IS NOT NULL;
    EXEC [$(schema)].[note_edges] @ended;
END;
COMMIT TRANSACTION;

-- Progress of jobs that are gone or done (ids are never used again). The rows are found without locks and then checked
-- again, because an uncommitted finish may roll back. The check does not wait for locks. This is done in ten parts, so
-- that a locked job delays only its own part until the next call.
SET LOCK_TIMEOUT 0;
SET XACT_ABORT OFF;
WHILE @parts < 10
BEGIN
    SET @parts = @parts + 1;
    DELETE @old;
    INSERT @old (job_id)
    SELECT TOP ((@max + 9) / 10) p.job_id
    FROM [$(schema)].[progress] AS f WITH (NOLOCK, INDEX (progress_queue))
    INNER LOOP JOIN [$(schema)].[progress] AS p
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (progress_pk (job_id))) ON p.job_id = f.job_id
    WHERE f.queue_id = @queue_id AND f.job_id > @last_id
        AND NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
            WHERE j.job_id = f.job_id AND j.state <> 3)
    ORDER BY f.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @@ROWCOUNT = 0
        BREAK;
    SET @last_id = (SELECT MAX(job_id) FROM @old);
    BEGIN TRY
        DELETE p
        FROM @old AS o
        INNER LOOP JOIN [$(schema)].[progress] AS p WITH (ROWLOCK, FORCESEEK, INDEX (progress_pk))
            ON p.job_id = o.job_id
        WHERE NOT EXISTS (SELECT 1
            FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
                          WHERE j.job_id = p.job_id AND j.state <> 3)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @noted = @noted + @@ROWCOUNT;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 1222
            THROW;
    END CATCH;
END;

SET LOCK_TIMEOUT @lock_timeout;
SET XACT_ABORT ON;
BEGIN TRANSACTION;
DELETE @old;
INSERT @old (job_id)
SELECT TOP (@max) f.batch_id
FROM [$(schema)].[batch_counts] AS f WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (batch_counts_ended))
INNER LOOP JOIN [$(schema)].[batches] AS b
    WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (batches_pk (batch_id))) ON b.batch_id = f.batch_id
INNER LOOP JOIN [$(schema)].[batch_counts] AS c
    WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (batch_counts_pk (batch_id)))
    ON c.batch_id = f.batch_id
WHERE f.queue_id = @queue_id AND f.ended_at < DATEADD(DAY, -7, @now) AND @held = 0
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @batches = @@ROWCOUNT;
IF @batches > 0
BEGIN
    DELETE c
    FROM @old AS o
    INNER LOOP JOIN [$(schema)].[batch_counts] AS c WITH (ROWLOCK, FORCESEEK, INDEX (batch_counts_pk))
        ON c.batch_id = o.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    DELETE b
    FROM @old AS o
    INNER LOOP JOIN [$(schema)].[batches] AS b WITH (ROWLOCK, FORCESEEK, INDEX (batches_pk)) ON b.batch_id = o.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END;
COMMIT TRANSACTION;

IF @held = 0
    EXEC [$(schema)].[thin_history] @queue_id;

IF @noted > @expired
    SET @expired = @noted;
SELECT CASE WHEN @batches > @expired THEN @batches ELSE @expired END AS expired;
GO
