-- Makes jobs ready again: one dead or cancelled job (@job_id), up to 1,000 dead or cancelled jobs (@listed = 1 and
-- @jobs), or up to @max dead jobs, the oldest first. attempt restarts at 0, and fence keeps growing. All listed jobs
-- are requeued in one call, whatever @max is, except locked jobs. Result: requeued. Without a list, run it until it
-- returns less than @max. A job stays dead if an unfinished job has its deduplication key by now. Of several dead jobs
-- with one key, the newest is requeued. A job of a group waits for a turn. A job that expired may start at any time
-- (start_by). An open batch counts the job as unfinished again; a completed batch does not change.
--
-- First reads the ids. Then locks the rows, each before its index entries, the order of all procedures except claim and
-- promote. Jobs without a key are requeued by one statement. Jobs with a key are requeued one per transaction, the
-- newest first: a key's new entry in jobs_dedup may have to wait for a producer, and a second entry held meanwhile
-- could cause a deadlock.
CREATE OR ALTER PROCEDURE [$(schema)].[requeue]
    @queue    nvarchar(129),
    @job_id   bigint         = NULL,
    @max      int            = 1000,
    @payload  varbinary(max) = NULL,  -- with @job_id: a new payload
    @text     nvarchar(max)  = NULL,  -- or a new text
    @listed   bit            = 0,     -- 1: the jobs of @jobs, no job if @jobs is empty
    @jobs     [$(schema)].[id_list] READONLY,
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT ON;
-- adopt: requeue_refused
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @requeued int = 0, @rounds int = 0, @found int,
    @listed_so_far int = 0, @id bigint, @last_id bigint, @first_ready bigint, @own bigint,
    @members nvarchar(100);
DECLARE @named [$(schema)].[id_list];
-- has_key: NULL once the job was tried. IGNORE_DUP_KEY: a job that moves in an index during the read may be found
-- twice.
DECLARE @dead TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON), has_key bit NULL);
-- The jobs of one transaction, with their previous state.
DECLARE @back [$(schema)].[member_list];

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 1000';
IF @listed = 0 AND EXISTS (SELECT 1 FROM @jobs) OR @listed = 1 AND @job_id IS NOT NULL
    THROW 58003, N'jobs requires listed = 1, and cannot be combined with job_id', 1;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must have at most 1000 rows', 1;
IF (@payload IS NOT NULL OR @text IS NOT NULL) AND @job_id IS NULL OR @payload IS NOT NULL AND @text IS NOT NULL
    THROW 58003, N'payload or text requires job_id, and only one of them can be given', 1;

IF @job_id IS NOT NULL
    INSERT @named (job_id) VALUES (@job_id);
ELSE
    INSERT @named (job_id) SELECT job_id FROM @jobs;
SET @members = CASE WHEN @payload IS NOT NULL OR @text IS NOT NULL THEN N',"payload":true'
    WHEN @job_id IS NULL AND @listed = 0 THEN CONCAT(N',"state":"dead","max":', @max) END;
EXEC [$(schema)].[note_action] @audit_id, 'requeue', @queue, @own OUTPUT, @members, @jobs = @named;

-- Repeats, at most ten times, if fewer jobs were requeued than found: rows were locked, or producers took the keys.
WHILE @rounds < 10
BEGIN
    SET @rounds = @rounds + 1;

    -- The keys are read by NOLOCK, so an uncommitted enqueue counts, and this call does not wait for it.
    IF @listed = 1
        INSERT @dead (job_id, has_key)
        SELECT j.job_id, CASE WHEN j.dedup_key IS NULL THEN 0 ELSE 1 END
        FROM @jobs AS a
        INNER LOOP JOIN [$(schema)].[jobs] AS j
            WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = a.job_id
        WHERE j.queue_id = @queue_id AND j.state IN (4, 5)
            AND (j.dedup_key IS NULL
                 OR NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS u
                     WITH (NOLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
                                WHERE u.queue_id = @queue_id AND u.dedup_key = j.dedup_key AND u.dedup_key IS NOT NULL
                                    AND u.ended = 0)
                    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS n
                        WITH (NOLOCK, FORCESEEK (jobs_dead_keys (queue_id, dedup_key)))
                                    WHERE n.queue_id = @queue_id AND n.dedup_key = j.dedup_key
                                        AND n.dedup_key IS NOT NULL AND n.state = 4
                                        AND n.job_id > j.job_id))
        OPTION (MAXDOP 1);
    ELSE IF @job_id IS NULL
        INSERT @dead (job_id, has_key)
        SELECT TOP (@max - @requeued) j.job_id, CASE WHEN j.dedup_key IS NULL THEN 0 ELSE 1 END
        FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
        WHERE j.queue_id = @queue_id AND j.state = 4 AND j.ended = 1
            AND NOT EXISTS (SELECT 1 FROM @dead AS d WHERE d.job_id = j.job_id)
            AND (j.dedup_key IS NULL
                 OR NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS u
                     WITH (NOLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
                                WHERE u.queue_id = @queue_id AND u.dedup_key = j.dedup_key AND u.dedup_key IS NOT NULL
                                    AND u.ended = 0)
                    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS n
                        WITH (NOLOCK, FORCESEEK (jobs_dead_keys (queue_id, dedup_key)))
                                    WHERE n.queue_id = @queue_id AND n.dedup_key = j.dedup_key
                                        AND n.dedup_key IS NOT NULL AND n.state = 4
                                        AND n.job_id > j.job_id))
        ORDER BY j.finished_at, j.job_id
        OPTION (MAXDOP 1);
    ELSE
        INSERT @dead (job_id, has_key)
        SELECT j.job_id, 1
        FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
        WHERE j.job_id = @job_id AND j.queue_id = @queue_id AND j.state IN (4, 5)
            AND (j.dedup_key IS NULL
                 OR NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS u
                     WITH (NOLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
                                WHERE u.queue_id = @queue_id AND u.dedup_key = j.dedup_key AND u.dedup_key IS NOT NULL
                                    AND u.ended = 0)
                    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS n
                        WITH (NOLOCK, FORCESEEK (jobs_dead_keys (queue_id, dedup_key)))
                                    WHERE n.queue_id = @queue_id AND n.dedup_key = j.dedup_key
                                        AND n.dedup_key IS NOT NULL AND n.state = 4
                                        AND n.job_id > j.job_id))
        OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    SET @listed_so_far = @listed_so_far + @found;

    IF EXISTS (SELECT 1 FROM @dead WHERE has_key = 0)
    BEGIN
        DELETE @back;
        BEGIN TRANSACTION;
        UPDATE j
        SET state = CASE WHEN j.group_key IS NULL THEN 0 ELSE 6 END, ended = 0, attempt = 0, alone = 0, in_turn = NULL,
            moves = NULL, start_by = NULL, due_at = @now
        OUTPUT inserted.job_id, deleted.state, deleted.in_turn, inserted.batch_id, inserted.group_key
        INTO @back (job_id, state, in_turn, batch_id, group_key)
        FROM @dead AS d
        INNER LOOP JOIN [$(schema)].[jobs] AS j
            WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
            ON j.job_id = d.job_id
        WHERE d.has_key = 0 AND j.queue_id = @queue_id AND (j.state = 4 OR j.state = 5 AND @listed = 1)
        OPTION (MAXDOP 1);
        SET @requeued = @requeued + @@ROWCOUNT;
        EXEC [$(schema)].[note_requeued] @queue_id, @back;
        -- adopt: count_requeued
        COMMIT TRANSACTION;
        SELECT @id = MIN(job_id) FROM @back;
        IF @first_ready IS NULL OR @id < @first_ready
            SET @first_ready = @id;
    END;

    SET @last_id = 9223372036854775807;
    WHILE 1 = 1
    BEGIN
        SET @id = NULL;
        SELECT TOP (1) @id = job_id FROM @dead WHERE has_key = 1 AND job_id < @last_id ORDER BY job_id DESC;
        IF @id IS NULL
            BREAK;
        SET @last_id = @id;
        UPDATE @dead SET has_key = NULL WHERE job_id = @id;
        DELETE @back;
        SET XACT_ABORT OFF;
        BEGIN TRY
            BEGIN TRANSACTION;
            IF @payload IS NOT NULL OR @text IS NOT NULL
                UPDATE j
                SET payload = ISNULL(@payload, CAST(@text AS varbinary(max))),
                    payload_utf16 = CASE WHEN @text IS NULL THEN 0 ELSE 1 END,
                    checkpointed = NULL,  -- the checkpoint belongs to the old payload
                    state = CASE WHEN j.group_key IS NULL THEN 0 ELSE 6 END, ended = 0, attempt = 0, alone = 0,
                        in_turn = NULL, moves = NULL, start_by = NULL, due_at = @now
                OUTPUT inserted.job_id, deleted.state, deleted.in_turn, inserted.batch_id, inserted.group_key
                INTO @back (job_id, state, in_turn, batch_id, group_key)
                FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk))
                WHERE j.job_id = @id AND j.queue_id = @queue_id AND j.state IN (4, 5)
                OPTION (MAXDOP 1);
            ELSE
                UPDATE j
                SET state = CASE WHEN j.group_key IS NULL THEN 0 ELSE 6 END, ended = 0, attempt = 0, alone = 0,
                    in_turn = NULL, moves = NULL, start_by = NULL, due_at = @now
                OUTPUT inserted.job_id, deleted.state, deleted.in_turn, inserted.batch_id, inserted.group_key
                INTO @back (job_id, state, in_turn, batch_id, group_key)
                FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk))
                WHERE j.job_id = @id AND j.queue_id = @queue_id
                    AND (j.state = 4 OR j.state = 5 AND (@job_id IS NOT NULL OR @listed = 1))
                OPTION (MAXDOP 1);
            SET @requeued = @requeued + @@ROWCOUNT;
            EXEC [$(schema)].[note_requeued] @queue_id, @back;
            COMMIT TRANSACTION;
            SELECT @first_ready = job_id FROM @back WHERE @first_ready IS NULL OR job_id < @first_ready;
        END TRY
        BEGIN CATCH
            -- A producer has taken the key, so the job stays dead. Other errors roll back the caller's transaction.
            SET XACT_ABORT ON;
            IF ERROR_NUMBER() <> 2601 OR XACT_STATE() = -1
                THROW;
            COMMIT TRANSACTION;  -- nothing was changed
        END CATCH;
        SET XACT_ABORT ON;
    END;

    IF @found = 0 OR @requeued = @listed_so_far OR @requeued >= @max OR @job_id IS NOT NULL OR @listed = 1
        BREAK;
END;

IF @first_ready IS NOT NULL
    EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;
IF @requeued > 0
    EXEC [$(schema)].[advance_groups] @queue_id;

-- adopt: add_tried_again
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own, @requeued;
SELECT @requeued AS requeued;
GO
