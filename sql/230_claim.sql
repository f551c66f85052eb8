-- Claims up to @max ready jobs of a queue for a worker, and returns them.
--
-- Results, one for each priority that was read, with rows in no particular order unless the status says so: job_id, fence, attempt, max_attempts,
-- priority, waited_ms (since due), age_ms (since enqueued), kind, payload_utf16, payload, details. details is a JSON
-- object with dedup_key, correlation_id, time_limit_ms, checkpointed (checkpoints returns one), headers, batch_id,
-- group_key, needs and start_by_ms (the latest start, counted from enqueued_at), or NULL if the job has none of them. (Separate columns would slow down every job.) Later
-- versions add members to details. With @run above 1, there may be two more columns, head_id and group_key
-- (claim_runs); columns that later versions add come after these. A payload longer than @max_payload_bytes is withheld:
-- payload_utf16 is NULL, and payload is the length as eight bytes, the highest first. The job is claimed anyway.
-- Release it and the jobs behind it, and claim again with a higher limit. Return status, a sum of bits: 1 if a job is
-- waiting that must run alone (see reap); 2 if max_running kept jobs back, 4 if the rate did (claim_limited); 8 if
-- the rows are in order (claim_aged); 16 if the jobs of groups have no turns (claim_fair): they start behind the others,
-- one of each group after the other. With @alone = 1, a job that must run alone is claimed first, and no other job with
-- it. With delivery at_most_once, the claim deletes the rows: fence is 0, and there is nothing to finish. A job with a
-- withheld payload is then not deleted, and neither are the jobs behind it. If it is the first job, its row is returned
-- without a claim.
--
-- Expired jobs without a key, a group and a batch are cancelled first, except in a caller's transaction. If there are
-- 1,000, the claim ends with that, and @expired tells the caller to claim again at once. promote cancels the others, so
-- a claim may return one for about a second after its start_by: the caller must not start it (start_by_ms in details).
--
-- Hints: ROWLOCK, because READPAST does not skip page locks. UPDLOCK, so that two claims never read the same row.
-- READPAST, so that claims do not wait. READCOMMITTEDLOCK, because READPAST requires it under READ_COMMITTED_SNAPSHOT.
-- (With UPDLOCK it is ignored ("Table hints"). A caller's SERIALIZABLE would therefore make READPAST fail, so the
-- isolation level is set below.) INDEX, so that a plan for an empty queue is not a scan. KEEPFIXED PLAN, so that the
-- plan is kept.
--
-- Each priority has its own statement, which starts at the mark to skip ghosts (see marks). In a lifo queue, each part
-- of the index between the gaps has its own statement. With its next claim, the worker reports where this claim
-- stopped, and that claim raises the mark.
CREATE OR ALTER PROCEDURE [$(schema)].[claim]
    @queue         nvarchar(129),
    @worker_id     uniqueidentifier,
    @max           int,     -- 1 to 1,000: other tables escalate their locks at 5,000
    @alone         bit = 0, -- 1: the worker holds no job, and would run no other beside a job that must run alone
    @max_payload_bytes bigint = NULL, -- longer payloads are withheld; NULL: no limit
    @passes        bit = 0, -- 1: the worker runs the jobs behind a withheld payload, so the rate counts them
    @at_once       int = 1, -- how many ready jobs it takes before further jobs of their groups, at least 1
    @run           int = 1, -- how many jobs of a group it takes at once, to run them in order (claim_runs)
    -- From the previous claim, to keep claims cheap: its last priority, the highest id there and, in a lifo queue,
    -- the lowest, and the values of @lowered and @highest.
    @seen_priority smallint = NULL,
    @seen_job_id   bigint   = NULL,
    @seen_from_id  bigint   = NULL,
    @lowered       bigint   = NULL OUTPUT,
    @highest       bigint   = NULL OUTPUT,
    @expired       int      = NULL OUTPUT  -- how many expired jobs were cancelled; NULL: none
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @is_lifo bit, @delivery varchar(13), @max_attempts int,
    @paused bit, @is_limited bit, @group_limit int, @halts bit, @has_sink bit, @age_after_ms bigint, @is_fair bit,
    @alone_waits bit = 0, @status int, @room int = @max,
    @at_least smallint = -32768, @priority smallint, @mark bigint, @gap_from bigint, @below_to bigint,
    @below_from bigint, @mark_highest bigint, @mark_lowered bigint, @from_id bigint, @end_id bigint, @part tinyint,
    @claimed int, @is_over bit, @late bit = 0, @begun int = @@TRANCOUNT, @is_copy int = 0;

-- The first call of a connection to this database.
IF ISNULL(CAST(SESSION_CONTEXT(N'readpast.home') AS nvarchar(150)), N'') <> CONCAT(DB_ID(), N' $(schema)')
    EXEC @is_copy = [$(schema)].[check_home];
SET @expired = NULL;
SELECT @queue_id = queue_id, @is_lifo = CASE claim_order WHEN 'lifo' THEN 1 ELSE 0 END, @delivery = delivery,
       @max_attempts = max_attempts, @paused = paused, @group_limit = group_limit, @halts = halt_groups, @age_after_ms = age_after_ms, @is_fair = fair,
       @has_sink = CASE WHEN sink IS NULL THEN 0 ELSE 1 END,
       @is_limited = CASE WHEN max_running IS NULL AND rate_jobs IS NULL THEN 0 ELSE 1 END
FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
-- A client's setting (IMPLICIT_TRANSACTIONS) has begun one with the first read.
IF @is_fair = 1 AND @begun = 0 AND @@TRANCOUNT > 0
BEGIN
    COMMIT TRANSACTION;
    SET IMPLICIT_TRANSACTIONS OFF;
END;
IF @is_fair = 1 AND @@TRANCOUNT > 0
    THROW 58003, N'claim of a fair queue would keep all other claims waiting inside a transaction; COMMIT or ROLLBACK it first', 1;
IF @max IS NULL OR @max < 1 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 1000';
IF @at_once IS NULL OR @at_once < 1
    EXEC [$(schema)].[refuse] N'at_once', @at_once, N'1 or more';
SET @max_payload_bytes = ISNULL(@max_payload_bytes, 9223372036854775807);
-- Keeps no lock on the worker's row, so that a claim does not block the worker's heartbeat. If the worker is marked
-- lost right after this check, a later reap finds its jobs.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[workers]
    WHERE worker_id = @worker_id AND queue_id = @queue_id AND lost_at IS NULL)
    THROW 58002, N'the worker is not registered for this queue or has lost its lease; register it again', 1;

-- Raises the mark, but not over the last 32 ids, for producers that commit later. Writes only if that gains much, and
-- not in a caller's transaction, which would keep the mark locked.
IF @seen_job_id IS NOT NULL AND @is_lifo = 0 AND @highest IS NULL AND @@TRANCOUNT = 0
    UPDATE [$(schema)].[marks] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    SET job_id = @seen_job_id - 32
    WHERE queue_id = @queue_id AND priority = @seen_priority AND lowered = @lowered AND job_id < @seen_job_id - 64
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
ELSE IF @seen_from_id IS NOT NULL AND @is_lifo = 1 AND @highest IS NOT NULL
BEGIN
    -- Above its own jobs, the previous claim found no job up to the highest id that it knew.
    IF @highest > @seen_job_id
        SET @seen_job_id = @highest;
    EXEC [$(schema)].[widen_gap] @queue_id, @seen_priority, @lowered, @seen_from_id, @seen_job_id;
END;
-- NULL in the other orders, because observations under one order must not move the marks of another.
SELECT @lowered = NULL, @highest = CASE WHEN @is_lifo = 1 THEN 0 END;

IF @paused = 1 OR @is_copy = 1
    RETURN 0;
-- Only the first entries are read, because jobs that run may be among them.
SELECT TOP (1) @late = 1
FROM (SELECT TOP (50) state, dedup_key, group_key, batch_id
      FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_start_by))
      WHERE queue_id = @queue_id AND start_by <= @now AND start_by IS NOT NULL AND ended = 0
      ORDER BY start_by) AS h
WHERE h.state <> 2 AND h.dedup_key IS NULL AND h.group_key IS NULL AND h.batch_id IS NULL
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @late = 1 AND @@TRANCOUNT = 0
BEGIN
    EXEC [$(schema)].[cancel_expired] @queue_id, 0, @expired OUTPUT;
    SET @now = SYSUTCDATETIME();
END;
IF @expired >= 1000
    RETURN 0;
SELECT TOP (1) @alone_waits = 1
FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
WHERE queue_id = @queue_id AND state = 0 AND alone = 1
OPTION (MAXDOP 1, KEEPFIXED PLAN);

IF @is_limited = 1 OR (@alone = 1 AND @alone_waits = 1)
BEGIN
    EXEC @status = [$(schema)].[claim_limited] @queue_id, @worker_id, @max, @alone, @max_payload_bytes, @passes;
    RETURN CASE @is_limited WHEN 1 THEN @status ELSE 0 END + @alone_waits;
END;

IF @age_after_ms IS NOT NULL
BEGIN
    EXEC [$(schema)].[claim_aged] @queue_id, @worker_id, @max, @max_attempts, @max_payload_bytes, @age_after_ms;
    RETURN 8 + @alone_waits;
END;

-- Not in a caller's transaction, which would keep other sessions from giving turns. Not with halt_groups: a job of a run
-- starts before the finish of the one in front of it is confirmed.
IF @run > 1 AND @is_fair = 0 AND @is_lifo = 0 AND @group_limit = 1 AND @halts = 0 AND @has_sink = 0 AND @delivery = 'at_least_once'
    AND @@TRANCOUNT = 0
    AND EXISTS (SELECT 1 FROM [$(schema)].[groups] WITH (NOLOCK) WHERE queue_id = @queue_id)
BEGIN
    EXEC [$(schema)].[claim_runs] @queue_id, @worker_id, @max, @max_attempts, @max_payload_bytes, @at_once, @run,
        @lowered OUTPUT;
    RETURN @alone_waits;
END;

EXEC [$(schema)].[next_priority] @queue_id, @at_least, @priority OUTPUT, @mark OUTPUT, @gap_from OUTPUT,
     @below_to OUTPUT, @below_from OUTPUT, @mark_highest OUTPUT, @mark_lowered OUTPUT;
SELECT @part = CASE @is_lifo WHEN 1 THEN 0 ELSE 2 END, @from_id = @mark, @end_id = 9223372036854775807;
WHILE @priority IS NOT NULL
BEGIN
    IF @mark_lowered IS NULL AND @@TRANCOUNT = 0
    BEGIN
        -- HOLDLOCK locks the key even if there is no row, so that the second of two claims finds the first one's row.
        INSERT [$(schema)].[marks] (queue_id, priority, job_id, lowered)
        SELECT @queue_id, @priority, 0, 0
        WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[marks] WITH (UPDLOCK, HOLDLOCK)
            WHERE queue_id = @queue_id AND priority = @priority);
        SET @mark_lowered = 0;
    END;

    IF @delivery = 'at_least_once' AND @is_lifo = 0
        WITH next_jobs AS
        (
            SELECT TOP (@room) job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at,
                claimed_at, kind, payload_utf16, payload, details
            FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority
                AND job_id >= @from_id
            ORDER BY job_id
        )
        UPDATE next_jobs
        SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt,
            COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts, inserted.priority,
            DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
            DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind,
            CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END
                AS payload_utf16,
            CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload
                ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload, inserted.details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE IF @delivery = 'at_least_once'
        WITH next_jobs AS
        (
            SELECT TOP (@room) job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at,
                claimed_at, kind, payload_utf16, payload, details
            FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority
                AND job_id >= @from_id AND job_id < @end_id
            ORDER BY job_id DESC
        )
        UPDATE next_jobs
        SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt,
            COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts, inserted.priority,
            DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
            DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind,
            CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END
                AS payload_utf16,
            CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload
                ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload, inserted.details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE
    BEGIN
        EXEC [$(schema)].[claim_once] @queue_id, @is_lifo, @priority, @from_id, @end_id, @room, @max_attempts,
            @max_payload_bytes, @is_over OUTPUT;
        IF @is_over = 1
        BEGIN
            SELECT @lowered = @mark_lowered, @highest = CASE WHEN @is_lifo = 1 THEN @mark_highest END;
            RETURN @alone_waits;
        END;
    END;
    SET @claimed = CASE @delivery WHEN 'at_least_once' THEN @@ROWCOUNT ELSE 0 END;

    IF @claimed > 0
        SELECT @lowered = @mark_lowered, @highest = CASE WHEN @is_lifo = 1 THEN @mark_highest END;
    SET @room = @room - @claimed;
    IF @room = 0
        RETURN @alone_waits;

    -- lifo: the part between the two gaps, then the part below both gaps.
    IF @part = 0 AND @gap_from > @below_to
    BEGIN
        SELECT @part = 1, @from_id = @below_to, @end_id = @gap_from;
        CONTINUE;
    END;
    IF @part < 2 AND @below_from > 0
    BEGIN
        SELECT @part = 2, @from_id = 0, @end_id = @below_from;
        CONTINUE;
    END;

    IF @priority = 32767
        BREAK;
    SET @at_least = @priority + 1;
    EXEC [$(schema)].[next_priority] @queue_id, @at_least, @priority OUTPUT, @mark OUTPUT, @gap_from OUTPUT,
         @below_to OUTPUT, @below_from OUTPUT, @mark_highest OUTPUT, @mark_lowered OUTPUT;
    SELECT @part = CASE @is_lifo WHEN 1 THEN 0 ELSE 2 END, @from_id = @mark, @end_id = 9223372036854775807;
END;

-- adopt: claim_rows
IF @is_fair = 1
BEGIN
    EXEC [$(schema)].[claim_fair] @queue_id, @worker_id, @room, @max_attempts, @max_payload_bytes;
    RETURN 16 + @alone_waits;
END;
RETURN @alone_waits;
GO
