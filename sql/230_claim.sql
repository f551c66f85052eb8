-- Claims up to @max ready jobs of a queue for a worker, and returns them.
--
-- Results, one for each priority that was looked at (none where nothing is ready), in no particular order (OUTPUT has none): job_id, fence,
-- attempt, max_attempts, priority, waited_ms (since it was due), age_ms (since it was enqueued), kind, payload_utf16, payload,
-- details (JSON: an object with dedup_key, correlation_id, time_limit_ms, checkpointed (true: checkpoints has something for it), headers, batch_id, group_key;
-- NULL where the job has none of them: a column of its own for each would cost every other job, too).
-- Later versions add columns at the end, and members to details.
-- A payload longer than @max_payload_bytes is withheld: payload_utf16 is NULL and payload is the length, as eight bytes, the highest first. So an
-- answer has @max * @max_payload_bytes bytes of payloads at the most. The job is claimed all the same: release it, with those behind it, and claim
-- again with room for it.
-- Return status: 1 when a job waits that must run alone (see reap), otherwise 0. Asked for with @alone = 1, such a job comes first, and
-- by itself.
-- A queue with max_running or a rate has claim_limited do it; the return status has 2 added where max_running kept jobs back, 4 where
-- the rate did. (Bits: read the first one alone, too.)
-- With delivery at_most_once the rows are deleted by the claim; their fence is 0 and there is nothing to finish. A job whose payload would be
-- withheld is not deleted, nor is one behind it (in a lifo queue only where it is the first). Where it is the first, its row is the answer, and there is nothing to release.
--
-- The hints: ROWLOCK, because READPAST skips locked rows only, never locked pages. UPDLOCK, so that two claims do not both read a row
-- before one changes it (an UPDATE reads its target so anyway; the hint keeps it so in any plan). READPAST, so that nobody waits for anybody. READCOMMITTEDLOCK, because READPAST is refused without it where
-- READ_COMMITTED_SNAPSHOT is on. INDEX, because a plan made while the queue was empty must not survive as a scan of the table. KEEPFIXED PLAN,
-- so that it survives.
--
-- Each priority is a statement of its own that begins at the priority's mark (see marks): entries of jobs_ready that are deleted but not yet
-- cleaned up lie below it. The worker says with its next claim where this one ended, and the mark is raised to that.
CREATE OR ALTER PROCEDURE [$(schema)].[claim]
    @queue         nvarchar(129),
    @worker_id     uniqueidentifier,
    @max           int,     -- 1 to 1,000: well under the 5,000 locks at which escalation is tried on other tables
    @alone         bit = 0, -- 1: this worker holds no other job and will run no other beside the one it may get
    @max_payload_bytes bigint = NULL, -- longer payloads are withheld; NULL: none is
    -- For whoever wants claims to stay cheap where deleted entries are not cleaned up: priority and id of the last job (the highest id of the
    -- last priority) of the claim before, and what @lowered said then.
    @seen_priority smallint = NULL,
    @seen_job_id   bigint   = NULL,
    @lowered       bigint   = NULL OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @claim_order varchar(4), @delivery varchar(13), @max_attempts int,
    @paused bit, @is_limited bit, @alone_waits bit = 0, @status int, @room int = @max, @at_least smallint = -32768, @priority smallint, @from_id bigint, @mark_lowered bigint,
    @claimed int, @looks int = 0, @long_id bigint, @first_id bigint, @end_id bigint, @message nvarchar(2048);

SELECT @queue_id = queue_id, @claim_order = claim_order, @delivery = delivery, @max_attempts = max_attempts, @paused = paused,
       @is_limited = CASE WHEN max_running IS NULL AND rate_jobs IS NULL THEN 0 ELSE 1 END
FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @max IS NULL OR @max < 1 OR @max > 1000
    THROW 58003, N'max must be between 1 and 1000', 1;
SET @max_payload_bytes = ISNULL(@max_payload_bytes, 9223372036854775807);
-- Without a lock that is kept: a claim must not hold up the worker's own heartbeat. A worker that is marked lost just after this still
-- gets its jobs; the reaper looks for jobs of lost workers again and again, and finds them.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[workers] WHERE worker_id = @worker_id AND queue_id = @queue_id AND lost_at IS NULL)
    THROW 58002, N'this worker is not registered for the queue, or its lease was lost; register anew', 1;

-- 32 ids are left below: jobs of producers that commit a little later. Seldom written: only when there is something to gain. (Not in a caller's
-- transaction, which would keep the mark locked.)
IF @seen_job_id IS NOT NULL AND @@TRANCOUNT = 0
    UPDATE [$(schema)].[marks] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    SET job_id = @seen_job_id - 32
    WHERE queue_id = @queue_id AND priority = @seen_priority AND lowered = @lowered AND job_id < @seen_job_id - 64;
SET @lowered = NULL;

IF @paused = 1
    RETURN 0;
SELECT TOP (1) @alone_waits = 1
FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
WHERE queue_id = @queue_id AND state = 0 AND alone = 1
OPTION (MAXDOP 1, KEEPFIXED PLAN);

IF @is_limited = 1
BEGIN
    EXEC @status = [$(schema)].[claim_limited] @queue_id, @worker_id, @max, @alone, @max_payload_bytes;
    RETURN @status + @alone_waits;
END;

IF @alone = 1 AND @alone_waits = 1
BEGIN
    WITH next_jobs AS
    (
        SELECT TOP (1)
               job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
               kind, payload_utf16, payload, plain, time_limit_ms, checkpointed, headers, batch_id, group_key
        FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1
        ORDER BY priority, job_id
    )
    UPDATE next_jobs
    SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
    OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
           inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
           DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind,
           CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END AS payload_utf16,
           CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
           CASE WHEN inserted.plain = 1 THEN NULL
                WHEN inserted.dedup_key IS NOT NULL OR inserted.correlation_id IS NOT NULL OR inserted.time_limit_ms IS NOT NULL
                OR inserted.checkpointed = 1 OR inserted.headers IS NOT NULL OR inserted.batch_id IS NOT NULL OR inserted.group_key IS NOT NULL
                THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.dedup_key, 'json') + N'"', N'null'),
                                 N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), inserted.correlation_id) + N'"', N'null'),
                                 N',"time_limit_ms":', ISNULL(CONVERT(nvarchar(11), inserted.time_limit_ms), N'null'),
                                 N',"checkpointed":', CASE WHEN inserted.checkpointed = 1 THEN N'true' ELSE N'false' END,
                                 N',"headers":', ISNULL(inserted.headers, N'null'),
                                 N',"batch_id":', ISNULL(CONVERT(nvarchar(20), inserted.batch_id), N'null'),
                                 N',"group_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.group_key, 'json') + N'"', N'null'), N'}') AS nvarchar(4000))
                END AS details
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    RETURN @alone_waits;
END;

IF @claim_order = 'lifo'
BEGIN
    IF @delivery = 'at_least_once'
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
                   kind, payload_utf16, payload, plain, time_limit_ms, checkpointed, headers, batch_id, group_key
            FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0
            ORDER BY priority, job_id DESC
        )
        UPDATE next_jobs
        SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
               inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind,
               CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END AS payload_utf16,
               CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
               CASE WHEN inserted.plain = 1 THEN NULL
                    WHEN inserted.dedup_key IS NOT NULL OR inserted.correlation_id IS NOT NULL OR inserted.time_limit_ms IS NOT NULL
                    OR inserted.checkpointed = 1 OR inserted.headers IS NOT NULL OR inserted.batch_id IS NOT NULL OR inserted.group_key IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), inserted.correlation_id) + N'"', N'null'),
                                     N',"time_limit_ms":', ISNULL(CONVERT(nvarchar(11), inserted.time_limit_ms), N'null'),
                                     N',"checkpointed":', CASE WHEN inserted.checkpointed = 1 THEN N'true' ELSE N'false' END,
                                     N',"headers":', ISNULL(inserted.headers, N'null'),
                                     N',"batch_id":', ISNULL(CONVERT(nvarchar(20), inserted.batch_id), N'null'),
                                     N',"group_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.group_key, 'json') + N'"', N'null'), N'}') AS nvarchar(4000))
                    END AS details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE
    BEGIN
        SELECT @long_id = CASE WHEN DATALENGTH(h.payload) > @max_payload_bytes THEN h.job_id END
        FROM (SELECT TOP (1) job_id, payload
              FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
              WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0
              ORDER BY priority, job_id DESC) AS h
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @long_id IS NOT NULL
        BEGIN
            SELECT job_id, 0 AS fence, attempt + 1 AS attempt, COALESCE(max_attempts, @max_attempts) AS max_attempts, priority,
                   DATEDIFF_BIG(MILLISECOND, due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, enqueued_at, @now) AS age_ms, kind,
                   CAST(NULL AS bit) AS payload_utf16, CAST(DATALENGTH(payload) AS binary(8)) AS payload, CAST(NULL AS nvarchar(4000)) AS details
            FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
            WHERE job_id = @long_id AND state = 0
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            RETURN @alone_waits;
        END;
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, attempt, max_attempts, priority, due_at, enqueued_at, dedup_key, correlation_id, kind, payload_utf16, payload, plain, time_limit_ms, headers
            FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND DATALENGTH(payload) <= @max_payload_bytes
            ORDER BY priority, job_id DESC
        )
        DELETE next_jobs
        OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
               deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.kind, deleted.payload_utf16, deleted.payload,
               CASE WHEN deleted.plain = 1 THEN NULL
                    WHEN deleted.dedup_key IS NOT NULL OR deleted.correlation_id IS NOT NULL OR deleted.time_limit_ms IS NOT NULL
                    OR deleted.headers IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(deleted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), deleted.correlation_id) + N'"', N'null'),
                                     N',"time_limit_ms":', ISNULL(CONVERT(nvarchar(11), deleted.time_limit_ms), N'null'),
                                     N',"headers":', ISNULL(deleted.headers, N'null'), N'}') AS nvarchar(4000))
                    END AS details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    END;
    RETURN @alone_waits;
END;

EXEC [$(schema)].[next_priority] @queue_id, @at_least, @priority OUTPUT, @from_id OUTPUT, @mark_lowered OUTPUT;
WHILE @priority IS NOT NULL
BEGIN
    IF @mark_lowered IS NULL AND @@TRANCOUNT = 0
    BEGIN
        -- HOLDLOCK locks the key also where there is no row yet: of two claims that meet a new priority the second finds the first's row.
        INSERT [$(schema)].[marks] (queue_id, priority, job_id, lowered)
        SELECT @queue_id, @priority, 0, 0
        WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[marks] WITH (UPDLOCK, HOLDLOCK) WHERE queue_id = @queue_id AND priority = @priority);
        SET @mark_lowered = 0;
    END;

    -- What a claim deletes and a worker has no room for would be lost. So first it looks how far the payloads are short enough.
    IF @delivery = 'at_most_once'
    BEGIN
        SELECT @long_id = MIN(CASE WHEN DATALENGTH(h.payload) > @max_payload_bytes THEN h.job_id ELSE 9223372036854775807 END),
               @first_id = MIN(h.job_id), @end_id = MAX(h.job_id) + 1
        FROM (SELECT TOP (@room) job_id, payload
              FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
              WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
              ORDER BY job_id) AS h
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @long_id = @first_id
        BEGIN
            SELECT job_id, 0 AS fence, attempt + 1 AS attempt, COALESCE(max_attempts, @max_attempts) AS max_attempts, priority,
                   DATEDIFF_BIG(MILLISECOND, due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, enqueued_at, @now) AS age_ms, kind,
                   CAST(NULL AS bit) AS payload_utf16, CAST(DATALENGTH(payload) AS binary(8)) AS payload, CAST(NULL AS nvarchar(4000)) AS details
            FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
            WHERE job_id = @long_id AND state = 0
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            RETURN @alone_waits;
        END;
        IF @long_id < @end_id
            SET @end_id = @long_id;
    END;

    IF @delivery = 'at_least_once' AND @claim_order = 'fifo'
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
                   kind, payload_utf16, payload, plain, time_limit_ms, checkpointed, headers, batch_id, group_key
            FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
            ORDER BY job_id
        )
        UPDATE next_jobs
        SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
               inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind,
               CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END AS payload_utf16,
               CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
               CASE WHEN inserted.plain = 1 THEN NULL
                    WHEN inserted.dedup_key IS NOT NULL OR inserted.correlation_id IS NOT NULL OR inserted.time_limit_ms IS NOT NULL
                    OR inserted.checkpointed = 1 OR inserted.headers IS NOT NULL OR inserted.batch_id IS NOT NULL OR inserted.group_key IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), inserted.correlation_id) + N'"', N'null'),
                                     N',"time_limit_ms":', ISNULL(CONVERT(nvarchar(11), inserted.time_limit_ms), N'null'),
                                     N',"checkpointed":', CASE WHEN inserted.checkpointed = 1 THEN N'true' ELSE N'false' END,
                                     N',"headers":', ISNULL(inserted.headers, N'null'),
                                     N',"batch_id":', ISNULL(CONVERT(nvarchar(20), inserted.batch_id), N'null'),
                                     N',"group_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.group_key, 'json') + N'"', N'null'), N'}') AS nvarchar(4000))
                    END AS details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE IF @delivery = 'at_least_once'
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
                   kind, payload_utf16, payload, plain, time_limit_ms, checkpointed, headers, batch_id, group_key
            FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
        )
        UPDATE next_jobs
        SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
               inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind,
               CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END AS payload_utf16,
               CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
               CASE WHEN inserted.plain = 1 THEN NULL
                    WHEN inserted.dedup_key IS NOT NULL OR inserted.correlation_id IS NOT NULL OR inserted.time_limit_ms IS NOT NULL
                    OR inserted.checkpointed = 1 OR inserted.headers IS NOT NULL OR inserted.batch_id IS NOT NULL OR inserted.group_key IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), inserted.correlation_id) + N'"', N'null'),
                                     N',"time_limit_ms":', ISNULL(CONVERT(nvarchar(11), inserted.time_limit_ms), N'null'),
                                     N',"checkpointed":', CASE WHEN inserted.checkpointed = 1 THEN N'true' ELSE N'false' END,
                                     N',"headers":', ISNULL(inserted.headers, N'null'),
                                     N',"batch_id":', ISNULL(CONVERT(nvarchar(20), inserted.batch_id), N'null'),
                                     N',"group_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.group_key, 'json') + N'"', N'null'), N'}') AS nvarchar(4000))
                    END AS details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE IF @claim_order = 'fifo'
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, attempt, max_attempts, priority, due_at, enqueued_at, dedup_key, correlation_id, kind, payload_utf16, payload, plain, time_limit_ms, headers
            FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id AND job_id < @end_id
                AND DATALENGTH(payload) <= @max_payload_bytes
            ORDER BY job_id
        )
        DELETE next_jobs
        OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
               deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.kind, deleted.payload_utf16, deleted.payload,
               CASE WHEN deleted.plain = 1 THEN NULL
                    WHEN deleted.dedup_key IS NOT NULL OR deleted.correlation_id IS NOT NULL OR deleted.time_limit_ms IS NOT NULL
                    OR deleted.headers IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(deleted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), deleted.correlation_id) + N'"', N'null'),
                                     N',"time_limit_ms":', ISNULL(CONVERT(nvarchar(11), deleted.time_limit_ms), N'null'),
                                     N',"headers":', ISNULL(deleted.headers, N'null'), N'}') AS nvarchar(4000))
                    END AS details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, attempt, max_attempts, priority, due_at, enqueued_at, dedup_key, correlation_id, kind, payload_utf16, payload, plain, time_limit_ms, headers
            FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id AND job_id < @end_id
                AND DATALENGTH(payload) <= @max_payload_bytes
        )
        DELETE next_jobs
        OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
               deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.kind, deleted.payload_utf16, deleted.payload,
               CASE WHEN deleted.plain = 1 THEN NULL
                    WHEN deleted.dedup_key IS NOT NULL OR deleted.correlation_id IS NOT NULL OR deleted.time_limit_ms IS NOT NULL
                    OR deleted.headers IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(deleted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), deleted.correlation_id) + N'"', N'null'),
                                     N',"time_limit_ms":', ISNULL(CONVERT(nvarchar(11), deleted.time_limit_ms), N'null'),
                                     N',"headers":', ISNULL(deleted.headers, N'null'), N'}') AS nvarchar(4000))
                    END AS details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @claimed = @@ROWCOUNT;

    IF @claimed > 0
        SET @lowered = @mark_lowered;
    SET @room = @room - @claimed;
    -- What a claim has deleted is gone: a later statement of it must not fail and take the answer with it.
    IF @room = 0 OR @priority = 32767 OR (@claimed > 0 AND @delivery = 'at_most_once')
        RETURN @alone_waits;
    -- Other claims took what this one had looked at: there may be more behind. (No lock is kept from the look to the deletion.)
    IF @claimed = 0 AND @delivery = 'at_most_once' AND @first_id IS NOT NULL AND @looks < 20
    BEGIN
        SET @looks = @looks + 1;
        CONTINUE;
    END;
    SET @looks = 0;
    SET @at_least = @priority + 1;
    EXEC [$(schema)].[next_priority] @queue_id, @at_least, @priority OUTPUT, @from_id OUTPUT, @mark_lowered OUTPUT;
END;

RETURN @alone_waits;
GO
