-- Claims up to @max ready jobs of a queue for a worker, and returns them.
--
-- Results, one for each priority that was looked at (none where nothing is ready), in no particular order (OUTPUT has
-- none): job_id, fence, attempt, max_attempts, priority, waited_ms (since it was due), age_ms (since it was enqueued),
-- kind, payload_utf16, payload, details (JSON: an object with dedup_key, correlation_id, time_limit_ms, checkpointed
-- (true: checkpoints has something for it), headers, batch_id, group_key; NULL where the job has none of them: a column
-- of its own for each would cost every other job, too). Later versions add columns at the end, and members to details.
-- A payload longer than @max_payload_bytes is withheld: payload_utf16 is NULL and payload is the length, as eight
-- bytes, the highest first. So an answer has @max * @max_payload_bytes bytes of payloads at the most. The job is
-- claimed all the same: release it, with those behind it, and claim again with room for it.
-- Return status: 1 when a job waits that must run alone (see reap), otherwise 0. Asked for with @alone = 1, such a job
-- comes first, and by itself.
-- A queue with max_running or a rate has claim_limited do it; the return status has 2 added where max_running kept jobs
-- back, 4 where the rate did. (Bits: read the first one alone, too.)
-- With delivery at_most_once the rows are deleted by the claim; their fence is 0 and there is nothing to finish. A job
-- whose payload would be withheld is not deleted, nor is one behind it. Where it is the first, its row is the answer,
-- and there is nothing to release.
--
-- The hints: ROWLOCK, because READPAST skips locked rows only, never locked pages. UPDLOCK, so that two claims do not
-- both read a row before one changes it (an UPDATE reads its target so anyway; the hint keeps it so in any plan).
-- READPAST, so that nobody waits for anybody. READCOMMITTEDLOCK, because READPAST is refused without it where
-- READ_COMMITTED_SNAPSHOT is on. (Beside UPDLOCK it is ignored ("Table hints", UPDLOCK): a caller's SERIALIZABLE, under
-- which READPAST is refused, is kept out by the isolation level that is set below.) INDEX, because a plan made while
-- the queue was empty must not survive as a scan of the table. KEEPFIXED PLAN, so that it survives.
--
-- Each priority is a statement of its own that begins at the priority's mark (see marks), and in a lifo queue one for
-- each part of the index that its gaps leave: entries that are deleted but not yet cleaned up lie beyond. The worker
-- says with its next claim what this one has seen, and the mark is raised to that.
CREATE OR ALTER PROCEDURE [$(schema)].[claim]
    @queue         nvarchar(129),
    @worker_id     uniqueidentifier,
    @max           int,     -- 1 to 1,000: well under the 5,000 locks at which escalation is tried on other tables
    @alone         bit = 0, -- 1: this worker holds no other job and will run no other beside the one it may get
    @max_payload_bytes bigint = NULL, -- longer payloads are withheld; NULL: none is
    -- 1: this worker runs jobs behind one whose payload is withheld, so that they count for the rate
    @passes        bit = 0,
    -- For whoever wants claims to stay cheap where deleted entries are not cleaned up, of the claim before: its last
    -- priority, the highest id of that and, in a lifo queue, the lowest one, and what @lowered and @highest said then.
    @seen_priority smallint = NULL,
    @seen_job_id   bigint   = NULL,
    @seen_from_id  bigint   = NULL,
    @lowered       bigint   = NULL OUTPUT,
    @highest       bigint   = NULL OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @is_lifo bit, @delivery varchar(13), @max_attempts int,
    @paused bit, @is_limited bit, @alone_waits bit = 0, @status int, @room int = @max, @at_least smallint = -32768,
    @priority smallint, @mark bigint, @gap_from bigint, @below_to bigint, @below_from bigint, @mark_highest bigint,
    @mark_lowered bigint, @from_id bigint, @end_id bigint, @part tinyint, @claimed int, @is_over bit;

SELECT @queue_id = queue_id, @is_lifo = CASE claim_order WHEN 'lifo' THEN 1 ELSE 0 END, @delivery = delivery,
       @max_attempts = max_attempts, @paused = paused,
       @is_limited = CASE WHEN max_running IS NULL AND rate_jobs IS NULL THEN 0 ELSE 1 END
FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1 OR @max > 1000
    THROW 58003, N'max must be between 1 and 1000', 1;
SET @max_payload_bytes = ISNULL(@max_payload_bytes, 9223372036854775807);
-- Without a lock that is kept: a claim must not hold up the worker's own heartbeat. A worker that is marked lost just
-- after this still gets its jobs; the reaper looks for jobs of lost workers again and again, and finds them.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[workers]
    WHERE worker_id = @worker_id AND queue_id = @queue_id AND lost_at IS NULL)
    THROW 58002, N'this worker is not registered for the queue, or its lease was lost; register anew', 1;

-- 32 ids are left below: jobs of producers that commit a little later. Seldom written: only when there is something to
-- gain. (Not in a caller's transaction, which would keep the mark locked.)
IF @seen_job_id IS NOT NULL AND @is_lifo = 0 AND @@TRANCOUNT = 0
    UPDATE [$(schema)].[marks] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    SET job_id = @seen_job_id - 32
    WHERE queue_id = @queue_id AND priority = @seen_priority AND lowered = @lowered AND job_id < @seen_job_id - 64
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
ELSE IF @seen_from_id IS NOT NULL AND @is_lifo = 1
BEGIN
    -- Above what it got, that claim found nothing up to the highest job that had been seen by then.
    IF @highest > @seen_job_id
        SET @seen_job_id = @highest;
    EXEC [$(schema)].[widen_gap] @queue_id, @seen_priority, @lowered, @seen_from_id, @seen_job_id;
END;
SELECT @lowered = NULL, @highest = NULL;

IF @paused = 1
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

EXEC [$(schema)].[next_priority] @queue_id, @is_lifo, @at_least, @priority OUTPUT, @mark OUTPUT, @gap_from OUTPUT,
     @below_to OUTPUT, @below_from OUTPUT, @mark_highest OUTPUT, @mark_lowered OUTPUT;
SELECT @part = CASE @is_lifo WHEN 1 THEN 0 ELSE 2 END, @from_id = @mark, @end_id = 9223372036854775807;
WHILE @priority IS NOT NULL
BEGIN
    IF @mark_lowered IS NULL AND @@TRANCOUNT = 0
    BEGIN
        -- HOLDLOCK locks the key also where there is no row yet: of two claims that meet a new priority the second
        -- finds the first's row.
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
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority
                AND job_id >= @from_id
            ORDER BY job_id
        )
        UPDATE next_jobs
        SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt,
            COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
               inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind,
               CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END AS payload_utf16,
               CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload
               ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
               inserted.details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE IF @delivery = 'at_least_once'
        WITH next_jobs AS
        (
            SELECT TOP (@room) job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at,
                claimed_at, kind, payload_utf16, payload, details
            FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND priority = @priority
                AND job_id >= @from_id AND job_id < @end_id
            ORDER BY job_id DESC
        )
        UPDATE next_jobs
        SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt,
            COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
               inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind,
               CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END AS payload_utf16,
               CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload
               ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
               inserted.details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE
    BEGIN
        EXEC [$(schema)].[claim_once] @queue_id, @is_lifo, @priority, @from_id, @end_id, @room, @max_attempts,
            @max_payload_bytes, @is_over OUTPUT;
        IF @is_over = 1
        BEGIN
            SELECT @lowered = @mark_lowered, @highest = @mark_highest;
            RETURN @alone_waits;
        END;
    END;
    SET @claimed = CASE @delivery WHEN 'at_least_once' THEN @@ROWCOUNT ELSE 0 END;

    IF @claimed > 0
        SELECT @lowered = @mark_lowered, @highest = @mark_highest;
    SET @room = @room - @claimed;
    IF @room = 0
        RETURN @alone_waits;

    -- In a lifo queue: what is ready between the two gaps, and then below both.
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
    EXEC [$(schema)].[next_priority] @queue_id, @is_lifo, @at_least, @priority OUTPUT, @mark OUTPUT, @gap_from OUTPUT,
         @below_to OUTPUT, @below_from OUTPUT, @mark_highest OUTPUT, @mark_lowered OUTPUT;
    SELECT @part = CASE @is_lifo WHEN 1 THEN 0 ELSE 2 END, @from_id = @mark, @end_id = 9223372036854775807;
END;

-- adopt: claim_rows
RETURN @alone_waits;
GO
