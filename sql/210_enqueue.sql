-- Enqueues one job in the caller's transaction. It has no result set, so that triggers can call it. If an unfinished
-- job of the queue has the same @dedup_key, nothing is added: @duplicate is 1, and @job_id is the id of that job, which
-- may finish before the caller's transaction ends.
--
-- A key locks only its own entry of jobs_dedup. The entry of a new key stays locked until the caller's transaction
-- ends. A key that already exists leaves no lock, unless it was inserted between lookup and insert. An enqueue thus
-- waits only for an uncommitted enqueue or finish of the same key. If two sessions insert a key at once, the second
-- gets error 2601, which does not doom the caller's transaction, and looks up the key again.
--
-- A job of a group waits (state 6) for its turn. If it is next, it gets the turn right after this call's commit or, in
-- a caller's transaction, within about a second after the caller's commit. A batch cannot be sealed before the caller's
-- transaction ends.
--
-- A full queue (max_depth) refuses the job with error 58023, after which the caller's transaction stays usable unless
-- the caller has set XACT_ABORT ON. A job whose key or part is there already is not refused.
--
-- Any other error rolls the caller's transaction back. With @on_bad = 'status', an unknown or full queue and an invalid
-- parameter are no errors, whatever the caller's XACT_ABORT: the call returns the error's number instead of 0, @refused
-- has its text, and the transaction goes on without the job. Errors that are found only when the job is written are still
-- raised: a sealed or missing batch, an id in @after that belongs to no job.
--
-- A job that waits for others (@after; see edges) starts right after the last of them is finished or, if that is part of
-- a caller's transaction, within about a second after its commit. The enqueue waits for an uncommitted finish of one.
--
-- With @part_of and @part, repeated calls add the job only once while batch @part_of is open. The job belongs to that
-- batch. If the part exists, nothing is added: @job_id is NULL and @duplicate is 1. If another session is adding the
-- part, the call waits. If both start at the same moment, the second fails with error 2601 and is rolled back, and its
-- retry finds the part.
CREATE OR ALTER PROCEDURE [$(schema)].[enqueue]
    @queue           nvarchar(129),
    @payload         varbinary(max)   = NULL,  -- the payload as bytes; JSON as UTF-8
    @text            nvarchar(max)    = NULL,  -- or as text, for producers in T-SQL
    @priority        smallint         = 0,     -- smaller runs first
    @delay_ms        bigint           = NULL,  -- start this long from now, by SQL Server's clock
    @due_at          datetime2(3)     = NULL,  -- or at this time, UTC
    @max_attempts    int              = NULL,  -- NULL: as for the queue
    @dedup_key       nvarchar(257)    = NULL,  -- up to 256 characters; a longer key is rejected, not cut
    @correlation_id  uniqueidentifier = NULL,
    @job_id          bigint           = NULL OUTPUT,
    @duplicate       bit              = NULL OUTPUT,
    -- chooses the handler: up to 64 printable ASCII characters (nvarchar: others are rejected instead of converted)
    @kind            nvarchar(65)     = NULL,
    @time_limit_ms   bigint           = NULL,  -- after this run time the job is cancelled; NULL: the worker's limit
    @headers         nvarchar(1301)   = NULL,  -- a JSON object of up to 1,300 characters, for the handler
    @group_key       nvarchar(129)    = NULL,  -- up to 128 characters; jobs of one key take turns (create_queue)
    @batch_id        bigint           = NULL,  -- the batch to which the job belongs (create_batch)
    @part_of         bigint           = NULL,  -- the batch that the call adds a part to
    @part            bigint           = NULL,  -- the part's number, chosen by the caller
    -- what the job needs while it runs, a JSON object such as {"memory": 3221225472, "threads": 4, "gpu": 1}
    @needs           nvarchar(1001)   = NULL,
    -- If it has not started by this time (UTC), it expires: it is cancelled. Also applies to retries. A past time is
    -- allowed.
    @start_by        datetime2(3)    = NULL,
    @start_within_ms bigint          = NULL,  -- or so long after it is due, up to ten years
    @force           bit             = 0,     -- 1: also if the queue is full
    @after           [$(schema)].[id_list] READONLY,  -- it starts when these jobs are done
    -- If one of these dies: hold (NULL), cancel or run (edge_list).
    @on_dead         varchar(10)     = NULL,
    @on_bad          varchar(10)     = 'error',  -- or status
    @refused         nvarchar(2048)  = NULL OUTPUT
AS
SET NOCOUNT ON;
-- The caller's XACT_ABORT decides what a full queue does to the caller's transaction.
DECLARE @dooms bit = CASE WHEN @@OPTIONS & 16384 = 0 THEN 0 ELSE 1 END;
-- adopt: refuse
SET ROWCOUNT 0;  -- a caller's ROWCOUNT would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
-- Under SERIALIZABLE, the default of .NET's TransactionScope, the lookup of the key would lock a range of keys.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @delivery varchar(13), @is_member bit = 0, @held bit,
    @is_gone bit = 0, @due datetime2(3), @new_id bigint, @tries int = 0, @late bit = 0,
    @expired int, @max_depth int, @room int, @full nvarchar(2048), @number int;

SELECT @job_id = NULL, @duplicate = 0, @refused = NULL;
IF @on_bad IS NULL OR @on_bad NOT IN ('error', 'status')
    EXEC [$(schema)].[refuse] N'on_bad', @on_bad, N'error or status';
SELECT @queue_id = queue_id, @delivery = delivery, @max_depth = max_depth
FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
-- An error under XACT_ABORT ON dooms the transaction even if it is caught.
IF @on_bad = 'status'
    SET XACT_ABORT OFF;
BEGIN TRY
    IF @queue_id IS NULL
        EXEC [$(schema)].[unknown_queue] @queue;
    IF (@payload IS NULL AND @text IS NULL) OR (@payload IS NOT NULL AND @text IS NOT NULL)
        THROW 58003, N'a job needs either a payload or a text', 1;
    IF @delay_ms < 0 OR @delay_ms > 315360000000 OR (@delay_ms IS NOT NULL AND @due_at IS NOT NULL)
        THROW 58003, N'delay_ms must be 0 to 315360000000 (ten years), and cannot be combined with due_at', 1;
    -- These checks are inline so that a job with only a kind does not pay for the call.
    IF @max_attempts IS NOT NULL OR @dedup_key IS NOT NULL OR @time_limit_ms IS NOT NULL OR @headers IS NOT NULL
        OR @group_key IS NOT NULL OR @needs IS NOT NULL OR DATALENGTH(@kind) NOT BETWEEN 2 AND 128
        OR @kind COLLATE Latin1_General_100_BIN2 LIKE N'%[^!-~]%'
        EXEC [$(schema)].[check_job] @max_attempts, @dedup_key, @kind, @time_limit_ms, @headers, @group_key, @needs;
    IF @part_of IS NOT NULL OR @part IS NOT NULL
    BEGIN
        IF @part_of IS NULL OR @part IS NULL OR @batch_id <> @part_of
            THROW 58003, N'part_of and part must be given together, and batch_id must be NULL or part_of', 1;
        SET @batch_id = @part_of;
    END;
    IF @group_key IS NOT NULL OR @batch_id IS NOT NULL
        SET @is_member = 1;
    IF @is_member = 1 AND @delivery = 'at_most_once'
        THROW 58003,
            N'a queue with delivery at_most_once cannot have groups or batches, because its claims delete the jobs', 1;
    IF EXISTS (SELECT 1 FROM @after)
    BEGIN
        SELECT @held = 1, @is_member = 1;
        IF @on_dead NOT IN ('hold', 'cancel', 'run')
            THROW 58003, N'on_dead must be hold, cancel or run', 1;
        IF (SELECT COUNT(*) FROM @after) > 10000
            THROW 58003, N'after must have at most 10000 rows', 1;
        IF @delivery = 'at_most_once'
            THROW 58003,
                N'jobs of a queue with delivery at_most_once cannot wait for others, because its claims delete the jobs', 1;
    END;

    -- A past @due_at becomes now, because waits are measured from due_at. DATEADD takes an int, so seconds come first.
    SET @due = COALESCE(CASE WHEN @due_at > @now THEN @due_at END,
        DATEADD(MILLISECOND, @delay_ms % 1000, DATEADD(SECOND, @delay_ms / 1000, @now)), @now);
    IF @start_within_ms IS NOT NULL OR @start_by IS NOT NULL
        EXEC [$(schema)].[latest_start] @start_by OUTPUT, @start_within_ms, @due;
END TRY
BEGIN CATCH
    SET @number = ERROR_NUMBER();
    IF @on_bad = 'error' OR @number NOT BETWEEN 58000 AND 58999 OR XACT_STATE() = -1
    BEGIN
        SET XACT_ABORT ON;
        THROW;
    END;
    SET @refused = ERROR_MESSAGE();
    RETURN @number;
END CATCH;
SET XACT_ABORT ON;
IF @max_depth IS NOT NULL AND ISNULL(@force, 0) = 0
BEGIN
    EXEC [$(schema)].[room] @queue_id, @queue, @max_depth, 1, @room OUTPUT, @full OUTPUT;
    -- READCOMMITTEDLOCK: as below.
    IF @room = 0
        SELECT TOP (1) @duplicate = 1
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
        WHERE queue_id = @queue_id AND dedup_key = @dedup_key AND dedup_key IS NOT NULL AND ended = 0
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @room = 0 AND @duplicate = 0
        AND NOT EXISTS (SELECT 1 FROM [$(schema)].[batch_additions]
            WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (batch_additions_part (batch_id, part)))
                        WHERE batch_id = @part_of AND part = @part AND part IS NOT NULL)
    BEGIN
        SET @refused = @full;
        IF @on_bad = 'status'
            RETURN 58023;
        EXEC [$(schema)].[raise] 58023, @full, @dooms;
    END;
    SET @duplicate = 0;
END;

IF @is_member = 1
BEGIN
    BEGIN TRANSACTION;
    EXEC [$(schema)].[link_queue] @queue_id;
    EXEC [$(schema)].[lock_batch] @batch_id;
    IF @part IS NOT NULL
    BEGIN
        -- READCOMMITTEDLOCK: waits for a session that is adding this part even under READ_COMMITTED_SNAPSHOT.
        IF EXISTS (SELECT 1 FROM [$(schema)].[batch_additions]
            WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (batch_additions_part (batch_id, part)))
                   WHERE batch_id = @batch_id AND part = @part AND part IS NOT NULL)
        BEGIN
            SET @duplicate = 1;
            COMMIT TRANSACTION;
            RETURN 0;
        END;
        INSERT [$(schema)].[batch_additions] WITH (ROWLOCK) (batch_id, jobs, part) VALUES (@batch_id, 0, @part);
    END;
END;

WHILE @job_id IS NULL
BEGIN
    -- READCOMMITTEDLOCK: waits for an uncommitted enqueue of the key even under READ_COMMITTED_SNAPSHOT.
    IF @dedup_key IS NOT NULL
        SELECT @job_id = job_id, @duplicate = 1
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
        WHERE queue_id = @queue_id AND dedup_key = @dedup_key AND dedup_key IS NOT NULL AND ended = 0
        OPTION (MAXDOP 1, KEEPFIXED PLAN);

    -- A job that may no longer start would take this one with it. promote cancels it if it is in a group or a batch,
    -- whose locks an enqueue does not take. Then looks the key up again, because another session may have cancelled the
    -- job, or started it.
    IF @job_id IS NOT NULL AND @late = 0
    BEGIN
        SELECT TOP (1) @late = 1
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
        WHERE job_id = @job_id AND start_by <= @now AND ended = 0 AND state <> 2 AND group_key IS NULL
            AND batch_id IS NULL
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @late = 1
        BEGIN
            EXEC [$(schema)].[cancel_expired] @queue_id, 0, @expired OUTPUT, @job_id;
            SELECT @job_id = NULL, @duplicate = 0;
            CONTINUE;
        END;
    END;
    IF @job_id IS NULL
    BEGIN
        SET @new_id = NEXT VALUE FOR [$(schema)].[job_ids];
        SET XACT_ABORT OFF;
        BEGIN TRY
            INSERT [$(schema)].[jobs] WITH (ROWLOCK)
                (job_id, queue_id, state, priority, max_attempts, enqueued_at, due_at, correlation_id, kind,
                 dedup_key, payload_utf16, payload, time_limit_ms, headers, batch_id, group_key, needs, start_by, held,
                 plain)
            VALUES
                (@new_id, @queue_id, CASE WHEN @held = 1 THEN 6 WHEN @due > @now THEN 1 WHEN @group_key IS NOT NULL THEN 6 ELSE 0 END,
                 ISNULL(@priority, 0), @max_attempts, @now, @due, @correlation_id, @kind, @dedup_key,
                 CASE WHEN @text IS NULL THEN 0 ELSE 1 END, ISNULL(@payload, CAST(@text AS varbinary(max))),
                 @time_limit_ms, @headers, @batch_id, @group_key, @needs, @start_by, @held,
                 CASE WHEN @is_member = 0 AND @dedup_key IS NULL AND @correlation_id IS NULL AND @time_limit_ms IS NULL
                 AND @headers IS NULL AND @needs IS NULL AND @start_by IS NULL THEN 1 END);
            SET @job_id = @new_id;
        END TRY
        BEGIN CATCH
            -- Any other error rolls back the caller's transaction, as in every procedure here.
            SET XACT_ABORT ON;
            SET @tries = @tries + 1;
            IF @dedup_key IS NULL OR ERROR_NUMBER() <> 2601 OR XACT_STATE() = -1 OR @tries = 100
                THROW;
        END CATCH;
        SET XACT_ABORT ON;
    END;
END;

-- The queue may have been deleted since the lookup. Either delete_queue finds this job, or this check finds no queue.
-- If NOLOCK sees the queue's row, delete_queue has not searched for jobs yet. Otherwise a deletion is in progress or
-- complete; it may be rolled back, so this call waits for it. Outside a transaction, the job is already committed and
-- may run, so it is deleted only if the queue is certainly gone. If the wait times out, the job stays, and the deletion
-- finds it and is rolled back (delete_empty_queue).
IF @duplicate = 0 AND NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id)))
    WHERE queue_id = @queue_id)
BEGIN
    SET XACT_ABORT OFF;
    BEGIN TRY
        IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues]
            WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id))) WHERE queue_id = @queue_id)
            SET @is_gone = 1;
    END TRY
    BEGIN CATCH
        IF XACT_STATE() = -1 OR ERROR_NUMBER() <> 1222
            THROW;
    END CATCH;
    SET XACT_ABORT ON;
    IF @is_gone = 1
    BEGIN
        IF @@TRANCOUNT = 0
            DELETE [$(schema)].[jobs] WITH (ROWLOCK) WHERE job_id = @job_id OPTION (MAXDOP 1, KEEPFIXED PLAN);
        EXEC [$(schema)].[unknown_queue] @queue;
    END;
END;

IF @is_member = 1
BEGIN
    IF @duplicate = 0 AND @batch_id IS NOT NULL
        INSERT [$(schema)].[batch_additions] WITH (ROWLOCK) (batch_id, jobs) VALUES (@batch_id, 1);
    IF @duplicate = 0 AND @held = 1
    BEGIN
        -- A job that does not exist yet would count as done.
        SELECT TOP (1) @new_id = job_id FROM @after WHERE job_id < 1 OR job_id >= @job_id;
        IF @@ROWCOUNT > 0
            EXEC [$(schema)].[refuse] N'after', @new_id, N'the id of a job';
        INSERT [$(schema)].[edges] WITH (ROWLOCK) (parent_id, child_id, on_dead)
        SELECT a.job_id, @job_id, CASE @on_dead WHEN 'cancel' THEN 1 WHEN 'run' THEN 2 ELSE 0 END FROM @after AS a
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        EXEC [$(schema)].[watch_parents] @after;
    END;
    IF @duplicate = 0 AND @group_key IS NOT NULL AND @due <= @now AND @held IS NULL
        INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
            VALUES (@queue_id, @group_key, 0, @job_id);
    COMMIT TRANSACTION;
    IF @group_key IS NOT NULL
        EXEC [$(schema)].[advance_groups] @queue_id;
    IF @held = 1
        EXEC [$(schema)].[advance_edges];
END;

-- Claims may have passed this id already (see marks). In a caller's transaction, sweep finds the job after the commit.
-- An error here must not fail the call, because the caller would then enqueue the job again.
IF @duplicate = 0 AND @@TRANCOUNT = 0
BEGIN
    SET XACT_ABORT OFF;
    BEGIN TRY
        IF EXISTS (SELECT 1 FROM [$(schema)].[marks] WITH (NOLOCK) WHERE queue_id = @queue_id AND job_id > @job_id)
            EXEC [$(schema)].[lower_marks] @queue_id, @job_id;
    END TRY
    BEGIN CATCH
        RETURN 0;
    END CATCH;
END;
-- Without this RETURN, the status would be that of a caught error (a key that another session has inserted).
RETURN 0;
GO
