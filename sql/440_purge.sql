-- Deletes up to @max jobs in one state, the oldest first. Run it until it returns less than @max. Result: purged.
-- @state can be done, dead, cancelled or archived, for jobs that finished at least @older_than_s seconds ago, or ready,
-- scheduled or waiting, for jobs that were enqueued at least that long ago. Unfinished jobs count as cancelled in their
-- batches. Claimed jobs cannot be purged. With @listed = 1, deletes all jobs of @jobs (up to 1,000) in this state,
-- whatever @max is.
--
-- First reads the ids. Then locks the rows in the order of ids, each before its index entries, the order of all
-- procedures except claim and promote. Both steps skip locked jobs (READPAST).
--
-- No index has the age of ready jobs, but newer jobs have higher ids: within a priority, the search ends after the page
-- of @max jobs that contains the first job that is too young. A job may be older than its id suggests, if its enqueue
-- waited for its key or if the clock was set back. Such a job is purged a little later. The indexes of scheduled and
-- waiting jobs are not in the order of age, so all of these jobs may be read.
CREATE OR ALTER PROCEDURE [$(schema)].[purge]
    @queue        nvarchar(129),
    @state        varchar(32),
    @older_than_s int = 0,
    @max          int = 1000,
    @listed       bit = 0,  -- 1: the jobs of @jobs, no job if @jobs is empty
    @jobs         [$(schema)].[id_list] READONLY,
    @audit_id     bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT ON;
-- adopt: refuse_states
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @before datetime2(3), @queue_id int, @number tinyint, @purged int = 0, @rounds int = 0,
    @found int, @listed_so_far int = 0, @granted bit, @at_least smallint, @priority smallint, @enqueued_at datetime2(3),
    @first_id bigint, @last_id bigint, @own bigint, @members nvarchar(200);
-- IGNORE_DUP_KEY: a job that moves within an index during the read may be found twice.
DECLARE @old TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON));
DECLARE @gone [$(schema)].[member_list];

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name)))
    WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @state IS NULL OR @state NOT IN ('done', 'dead', 'cancelled', 'archived', 'ready', 'scheduled', 'waiting')
    EXEC [$(schema)].[refuse] N'state', @state, N'done, dead, cancelled, archived, ready, scheduled or waiting';
IF @older_than_s IS NULL OR @older_than_s < 0
    EXEC [$(schema)].[refuse] N'older_than_s', @older_than_s, N'0 or more';
IF @max IS NULL OR @max < 1 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 1000';
IF @listed = 0 AND EXISTS (SELECT 1 FROM @jobs)
    THROW 58003, N'jobs requires listed = 1', 1;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must have at most 1000 rows', 1;
SET @before = DATEADD(SECOND, -@older_than_s, SYSUTCDATETIME());
SET @number = CASE @state WHEN 'ready' THEN 0 WHEN 'scheduled' THEN 1 WHEN 'done' THEN 3 WHEN 'dead' THEN 4
    WHEN 'cancelled' THEN 5 WHEN 'waiting' THEN 6 END;

SET @members = CONCAT(N',"state":"', STRING_ESCAPE(@state, 'json'), N'","older_than_s":', @older_than_s,
    CASE WHEN @listed = 0 THEN CONCAT(N',"max":', @max) END);
EXEC [$(schema)].[note_action] @audit_id, 'purge', @queue, @own OUTPUT, @members, @jobs = @jobs;

-- Repeats, at most ten times, if fewer jobs were deleted than found, because rows were locked.
WHILE @rounds < 10
BEGIN
    SET @rounds = @rounds + 1;

    -- ended = 1 repeats the index's filter, because a variable hides the state.
    IF @listed = 1
        INSERT @old (job_id) SELECT job_id FROM @jobs;
    ELSE IF @number IN (3, 4, 5)
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id
            FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
        WHERE queue_id = @queue_id AND state = @number AND ended = 1 AND finished_at <= @before
            AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
        ORDER BY finished_at, job_id
        OPTION (MAXDOP 1);
    ELSE IF @state = 'archived'
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id
            FROM [$(schema)].[archive] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
        WHERE queue_id = @queue_id AND finished_at <= @before
            AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
        ORDER BY finished_at, job_id
        OPTION (MAXDOP 1);
    ELSE IF @state = 'waiting'
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id
            FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
        WHERE queue_id = @queue_id AND state = 6 AND enqueued_at <= @before
            AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
        ORDER BY group_key, job_id
        OPTION (MAXDOP 1);
    ELSE IF @state = 'scheduled'
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id
            FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
        WHERE queue_id = @queue_id AND state = 1 AND enqueued_at <= @before
            AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
        ORDER BY due_at, job_id
        OPTION (MAXDOP 1);
    ELSE
        -- Jobs that must run alone (see reap) have their own index; they are few.
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id
            FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1 AND enqueued_at <= @before
            AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
        ORDER BY priority, job_id
        OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;

    SET @at_least = CASE WHEN @state = 'ready' AND @listed = 0 THEN -32768 END;
    WHILE @at_least IS NOT NULL AND @purged + @found < @max
    BEGIN
        -- The next priority and its oldest job.
        SET @enqueued_at = NULL;
        SELECT TOP (1) @priority = priority, @enqueued_at = enqueued_at
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority >= @at_least
        ORDER BY priority, job_id
        OPTION (MAXDOP 1);
        IF @enqueued_at IS NULL
            BREAK;
        SET @at_least = CASE WHEN @priority < 32767 THEN @priority + 1 END;
        IF @enqueued_at > @before
            CONTINUE;

        INSERT @old (job_id)
        SELECT p.job_id
        FROM (SELECT TOP (@max - @purged - @found) job_id, enqueued_at
              FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
              WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority
                  AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
              ORDER BY job_id) AS p
        WHERE p.enqueued_at <= @before
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
    END;

    BEGIN TRANSACTION;
    IF @state = 'archived'
    BEGIN
        DELETE a
        OUTPUT deleted.job_id INTO @gone (job_id)
        FROM @old AS o
        INNER LOOP JOIN [$(schema)].[archive] AS a
            WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (archive_pk))
            ON a.job_id = o.job_id
        WHERE a.queue_id = @queue_id AND a.finished_at <= @before
        OPTION (MAXDOP 1);
        SET @purged = @purged + @@ROWCOUNT;
    END;
    ELSE
    BEGIN
        IF @number = 6
            EXEC [$(schema)].[lock_groups] @queue_id, NULL, @granted OUTPUT;
        -- A job that was requeued and died again meanwhile is too young. Unfinished jobs (0, 1, 6) count as cancelled.
        DELETE j
        OUTPUT deleted.job_id, CASE WHEN deleted.ended = 0 THEN 5 END, deleted.in_turn, deleted.batch_id,
            deleted.group_key, deleted.state
        INTO @gone (job_id, state, in_turn, batch_id, group_key, last_state)
        FROM @old AS o
        INNER LOOP JOIN [$(schema)].[jobs] AS j
            WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
            ON j.job_id = o.job_id
        WHERE j.queue_id = @queue_id AND j.state = @number AND CASE WHEN j.ended = 0 THEN j.enqueued_at
            ELSE j.finished_at END <= @before
        OPTION (MAXDOP 1);
        SET @purged = @purged + @@ROWCOUNT;
    END;
    -- Deletes the failed attempts and the logs of the deleted jobs.
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
    IF @state <> 'archived'
        EXEC [$(schema)].[note_edges] @gone;
    COMMIT TRANSACTION;
    EXEC [$(schema)].[advance_edges];
    IF EXISTS (SELECT 1 FROM @gone WHERE group_key IS NOT NULL)
        EXEC [$(schema)].[advance_groups] @queue_id;
    DELETE @gone;
    SET @listed_so_far = @listed_so_far + @found;
    IF @found = 0 OR @purged = @listed_so_far OR @purged >= @max OR @listed = 1
        BREAK;
END;

IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own, @purged;
SELECT @purged AS purged;
GO
