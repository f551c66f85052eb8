-- Enqueues one job, for any language and for triggers: no result set, the id comes back in @job_id. Takes part in the
-- caller's transaction. When an unfinished job of the queue has the same @dedup_key, nothing is added: @duplicate is 1
-- and @job_id is that job's. It was unfinished at that moment; it may end before the caller's transaction does.
--
-- A key locks nothing but itself: a new one keeps only its own entry of jobs_dedup locked until the caller's
-- transaction ends, and one that is found keeps no lock at all (but where it came in between the look and the insert).
-- So an enqueue waits for nobody but an uncommitted enqueue or acknowledgement of the same key. The unique index
-- decides: where two sessions insert one key at once, the second gets error 2601, which does not doom the caller's
-- transaction, and looks again.
--
-- A job of a group waits (state 6) until it gets its turn: at once after this call's commit or, in a caller's
-- transaction, within about a second after that one's. A batch cannot be sealed before the caller's transaction has
-- ended.
--
-- With @part_of and @part the call is carried out once, however often it is made while the batch is open: it is that
-- part of what is enqueued for batch @part_of, which the job then belongs to. Of a part that is there already nothing
-- is added: @job_id is NULL and @duplicate 1. While another session adds the part and has not committed, the call waits
-- for it. Where two begin at the very same moment, the second fails with 2601 and is rolled back; repeated, it finds
-- the part.
CREATE OR ALTER PROCEDURE [$(schema)].[enqueue]
    @queue          nvarchar(129),
    @payload        varbinary(max)   = NULL,  -- bytes; JSON as UTF-8
    @text           nvarchar(max)    = NULL,  -- or text, for producers in T-SQL
    @priority       smallint         = 0,     -- smaller runs first
    @delay_ms       bigint           = NULL,  -- start this long from now, by SQL Server's clock
    @due_at         datetime2(3)     = NULL,  -- or at this time, UTC; a time in the past is now
    @max_attempts   int              = NULL,  -- NULL: the queue's
    -- up to 256 characters; one more here, so that a longer key is refused and not cut
    @dedup_key      nvarchar(257)    = NULL,
    @correlation_id uniqueidentifier = NULL,
    @job_id         bigint           = NULL OUTPUT,
    @duplicate      bit              = NULL OUTPUT,
    -- what sort of job, for the worker to choose the handler: up to 64 printable ASCII characters (nvarchar, because a
    -- conversion to varchar makes such of others)
    @kind           nvarchar(65)     = NULL,
    -- after this long its handler is told that it is cancelled; NULL: as the worker has it
    @time_limit_ms  bigint           = NULL,
    @headers        nvarchar(1301)   = NULL,  -- a JSON object of up to 1,300 characters, for the handler
    @group_key      nvarchar(129)    = NULL,  -- jobs of one key take turns, see create_queue: up to 128 characters
    @batch_id       bigint           = NULL,  -- the batch it belongs to, see create_batch
    @part_of        bigint           = NULL,  -- the call is a part of what is enqueued for this batch
    @part           bigint           = NULL   -- which one: a number that the caller chooses
AS
SET NOCOUNT ON;
-- adopt: refuse
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
-- The caller's may be another: .NET's TransactionScope has SERIALIZABLE by default, under which the look for the key
-- would lock a range.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @lifo bit, @delivery varchar(13), @is_member bit = 0,
    @is_gone bit = 0, @due datetime2(3), @new_id bigint, @tries int = 0;

SELECT @queue_id = queue_id, @lifo = CASE WHEN claim_order = 'lifo' THEN 1 ELSE 0 END, @delivery = delivery
FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF (@payload IS NULL AND @text IS NULL) OR (@payload IS NOT NULL AND @text IS NOT NULL)
    THROW 58003, N'a job needs either a payload or a text', 1;
IF @delay_ms < 0 OR @delay_ms > 315360000000 OR (@delay_ms IS NOT NULL AND @due_at IS NOT NULL)
    THROW 58003, N'delay_ms must be between 0 and 315360000000 (ten years), and not stand beside due_at', 1;
-- Inline is what a job with nothing but a kind needs, so that it does not pay for the call.
IF @max_attempts IS NOT NULL OR @dedup_key IS NOT NULL OR @time_limit_ms IS NOT NULL OR @headers IS NOT NULL
    OR @group_key IS NOT NULL OR DATALENGTH(@kind) NOT BETWEEN 2 AND 128
    OR @kind COLLATE Latin1_General_100_BIN2 LIKE N'%[^!-~]%'
    EXEC [$(schema)].[check_job] @max_attempts, @dedup_key, @kind, @time_limit_ms, @headers, @group_key;
IF @part_of IS NOT NULL OR @part IS NOT NULL
BEGIN
    IF @part_of IS NULL OR @part IS NULL OR @batch_id <> @part_of
        THROW 58003, N'part_of and part stand together, and the job belongs to the batch of part_of', 1;
    SET @batch_id = @part_of;
END;
IF @group_key IS NOT NULL OR @batch_id IS NOT NULL
    SET @is_member = 1;
IF @is_member = 1 AND @delivery = 'at_most_once'
    THROW 58003, N'a queue with delivery at_most_once has no groups and no jobs of batches: its jobs are not acknowledged', 1;

-- A time in the past is now: due_at says since when a job has been ready. DATEADD counts in int: whole seconds and the
-- rest.
SET @due = COALESCE(CASE WHEN @due_at > @now THEN @due_at END,
    DATEADD(MILLISECOND, @delay_ms % 1000, DATEADD(SECOND, @delay_ms / 1000, @now)), @now);
SET @job_id = NULL;
SET @duplicate = 0;

IF @is_member = 1
BEGIN
    BEGIN TRANSACTION;
    EXEC [$(schema)].[link_queue] @queue_id;
    EXEC [$(schema)].[lock_batch] @batch_id;
    IF @part IS NOT NULL
    BEGIN
        -- READCOMMITTEDLOCK: waits for whoever is adding this part under READ_COMMITTED_SNAPSHOT, too.
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
    -- READCOMMITTEDLOCK: waits for an uncommitted enqueue of the key under READ_COMMITTED_SNAPSHOT, too.
    IF @dedup_key IS NOT NULL
        SELECT @job_id = job_id, @duplicate = 1
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
        WHERE queue_id = @queue_id AND dedup_key = @dedup_key AND dedup_key IS NOT NULL AND ended = 0
        OPTION (MAXDOP 1, KEEPFIXED PLAN);

    IF @job_id IS NULL
    BEGIN
        SET @new_id = NEXT VALUE FOR [$(schema)].[job_ids];
        SET XACT_ABORT OFF;
        BEGIN TRY
            INSERT [$(schema)].[jobs] WITH (ROWLOCK)
                (job_id, queue_id, state, lifo, priority, max_attempts, enqueued_at, due_at, correlation_id, kind,
                 dedup_key, payload_utf16, payload, time_limit_ms, headers, batch_id, group_key, plain)
            VALUES
                (@new_id, @queue_id, CASE WHEN @due > @now THEN 1 WHEN @group_key IS NOT NULL THEN 6 ELSE 0 END, @lifo,
                 ISNULL(@priority, 0), @max_attempts, @now, @due, @correlation_id, @kind, @dedup_key,
                 CASE WHEN @text IS NULL THEN 0 ELSE 1 END, ISNULL(@payload, CAST(@text AS varbinary(max))),
                 @time_limit_ms, @headers, @batch_id, @group_key,
                 CASE WHEN @is_member = 0 AND @dedup_key IS NULL AND @correlation_id IS NULL AND @time_limit_ms IS NULL
                 AND @headers IS NULL THEN 1 END);
            SET @job_id = @new_id;
        END TRY
        BEGIN CATCH
            -- Any other error rolls the caller's transaction back, as in every procedure here.
            SET XACT_ABORT ON;
            SET @tries = @tries + 1;
            IF @dedup_key IS NULL OR ERROR_NUMBER() <> 2601 OR XACT_STATE() = -1 OR @tries = 100
                THROW;
        END CATCH;
        SET XACT_ABORT ON;
    END;
END;

-- The queue may have been deleted since it was looked for: either delete_queue finds this job, or this finds the queue
-- gone. A row that NOLOCK sees was not deleted before this moment, so that delete_queue looks for jobs later, and finds
-- this one. Only where there is none does it wait for a deletion that may be taken back. Outside of a transaction the
-- job is there already and may run: it goes again only where the queue is certainly gone. Where that could not be found
-- out, because the session waits no longer for locks, it stays: a deletion under way meets it and is taken back
-- (delete_empty_queue).
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
    IF @duplicate = 0 AND @group_key IS NOT NULL AND @due <= @now
        INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
            VALUES (@queue_id, @group_key, 0, @job_id);
    COMMIT TRANSACTION;
    IF @group_key IS NOT NULL
        EXEC [$(schema)].[advance_groups] @queue_id;
END;

-- Jobs with higher numbers may have been claimed meanwhile: then claims begin beyond this one (see marks). In a
-- caller's transaction, the sweep finds it after the commit. No error here is the caller's: the job is there, and a
-- call that failed would be made again.
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
GO
