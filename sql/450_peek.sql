-- Returns jobs without claiming them: a page of the jobs in one state, or one job by its id in any state. Never waits:
-- locked jobs are left out (READPAST). @state: ready, scheduled, waiting, claimed, done, dead, cancelled, archived.
-- Pages follow the state's index: ready in the order of claims without age_after_ms (first jobs that must run alone,
-- then by priority and id, in a lifo queue the newest first), scheduled by (due_at, job_id), waiting by (group_key, job_id), finished states
-- by (finished_at, job_id), claimed by job_id. The next page starts after the last row of this page, which @after and
-- the columns of the order identify. A page may be short. After the last job, a page is empty.
--
-- A page costs only its own rows at any depth. It takes two seeks: one for the rest of the same time or priority, and
-- one for the following times or priorities (lifo: one per priority). An OR, or >= with a filter, would read all jobs
-- of one time for each page. Only claimed jobs are sorted. The procedure reads the ids from the index, then copies the
-- rows, and then returns the copy, so that no session waits for a slow client. @newest_first: the same pages backwards,
-- for finished states; a cursor works in both directions. @worker_id: only claimed jobs that this worker holds, found
-- by a seek.
--
-- @kind, @correlation_id, @error, @dedup_key, @group_key, @batch_id: only matching jobs. @error is a part of the error,
-- compared by the database's collation. @older_than_ms, @since, @until: only jobs of at least this age, from this time
-- on, or before this time (UTC). Finished jobs are compared by when they finished, unfinished jobs by when they were
-- enqueued. Only the finish time of finished jobs is in an index. With other filters, up to @scan jobs are read in the
-- state's order, and the page has the matching jobs. It may be empty although later jobs match. @next and the other
-- @next_... parameters tell where the next page starts (@after and so on); NULL at the end.
--
-- Result: job_id, state, priority, alone, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at,
-- run_us, kind, dedup_key, correlation_id, payload_utf16, payload, payload_text, error, output, output_text,
-- time_limit_ms, headers, batch_id, group_key, payload_bytes, output_bytes, needs, cpu_us, peak_bytes, start_by, halts
-- (1: dead, and its group waits for it). Later versions add columns at the end. payload_text and output_text are for tools. They are NULL unless the value is UTF-16, or
-- printable ASCII with tabs and line ends, because SQL Server decodes UTF-8 only from 2019 on. @max_bytes is for lists:
-- it cuts payload and output, whose full lengths are payload_bytes and output_bytes, and leaves out the texts.
CREATE OR ALTER PROCEDURE [$(schema)].[peek]
    @queue          nvarchar(129),
    @state          varchar(32)   = NULL,
    @after          bigint       = NULL,  -- NULL: the first page
    @max            int          = 100,
    @after_time     datetime2(3) = NULL,  -- for scheduled jobs: due_at; for finished jobs: finished_at
    @after_priority smallint     = NULL,  -- for ready jobs
    @after_alone    bit          = 0,     -- for ready jobs
    @job_id         bigint       = NULL,  -- this job, instead of a state
    @texts          bit          = 1,     -- 0: payload_text and output_text are NULL
    @kind           varchar(65)  = NULL,
    @correlation_id uniqueidentifier = NULL,
    @error          nvarchar(4000) = NULL,
    @scan           int          = 10000,
    @next           bigint       = NULL OUTPUT,
    @next_time      datetime2(3) = NULL OUTPUT,
    @next_priority  smallint     = NULL OUTPUT,
    @next_alone     bit          = NULL OUTPUT,
    @after_group    nvarchar(128) = NULL,  -- for waiting jobs
    @next_group     nvarchar(128) = NULL OUTPUT,
    @only_ids       bit          = 0,     -- 1: the result has only job_id
    @dedup_key      nvarchar(257) = NULL,
    @group_key      nvarchar(129) = NULL,
    @batch_id       bigint       = NULL,
    @older_than_ms  bigint       = NULL,
    @max_bytes      int          = NULL,  -- how many bytes of payloads and outputs to return
    @newest_first   bit          = 0,     -- for finished jobs
    @since          datetime2(3) = NULL,
    @until          datetime2(3) = NULL,
    @worker_id      uniqueidentifier = NULL  -- for claimed jobs
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET @error = NULLIF(@error, N'');
SET @newest_first = ISNULL(@newest_first, 0);
IF @max_bytes IS NOT NULL
    SET @texts = 0;
DECLARE @queue_id int, @claim_order varchar(4), @found int = 0, @is_archived bit = 0;
DECLARE @is_filtered bit = CASE WHEN @kind IS NULL AND @correlation_id IS NULL AND @error IS NULL AND @dedup_key IS NULL
    AND @group_key IS NULL AND @batch_id IS NULL THEN 0 ELSE 1 END;
-- For finished jobs, the index contains the time, so the rows need not be filtered by it.
DECLARE @take int = CASE WHEN @is_filtered = 0 AND (@older_than_ms IS NULL AND @since IS NULL AND @until IS NULL
                                                     OR @state IN ('done', 'dead', 'cancelled', 'archived')) THEN @max
                         ELSE @scan END;
IF @older_than_ms IS NOT NULL OR @since IS NOT NULL OR @until IS NOT NULL
    SET @is_filtered = 1;
-- The bounds of the requested times.
DECLARE @from datetime2(3) = ISNULL(@since, '00010101');
DECLARE @to datetime2(3) = CASE WHEN @older_than_ms IS NULL THEN '99991231 23:59:59.999'
                                    -- 2,000 years: older than any job
                                    WHEN @older_than_ms >= 63072000000000 THEN '00010101'
                                    ELSE DATEADD(MILLISECOND, -CAST(@older_than_ms % 60000 AS int), DATEADD(MINUTE,
                                             -CAST(@older_than_ms / 60000 AS int), SYSUTCDATETIME())) END;
IF @until <= @to
    SET @to = CASE WHEN @until > '00010101' THEN DATEADD(MILLISECOND, -1, @until) ELSE '00010101' END;
DECLARE @has_ended bit = CASE WHEN @state IN ('done', 'dead', 'cancelled', 'archived') THEN 1 ELSE 0 END;
DECLARE @taken int, @end int, @last int;
DECLARE @number tinyint = CASE @state WHEN 'ready' THEN 0 WHEN 'scheduled' THEN 1 WHEN 'claimed' THEN 2
    WHEN 'done' THEN 3 WHEN 'dead' THEN 4 WHEN 'cancelled' THEN 5 WHEN 'waiting' THEN 6 END;
-- The jobs to read, with their keys in the state's order, and the matching ones.
DECLARE @page TABLE (place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED, job_id bigint NOT NULL,
    key_time datetime2(3) NULL, priority smallint NULL, alone bit NULL,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);
DECLARE @matching TABLE (place int NOT NULL PRIMARY KEY CLUSTERED);
SELECT @next = NULL, @next_time = NULL, @next_priority = NULL, @next_alone = NULL, @next_group = NULL;
-- A pattern for anything but plain text, compared by code point (BIN2).
DECLARE @not_text nvarchar(20) = CONCAT(N'%[^ -~', NCHAR(9), NCHAR(10), NCHAR(13), N']%');

SELECT @queue_id = queue_id, @claim_order = claim_order FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name)))
    WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @job_id IS NULL AND (@state IS NULL
    OR @state NOT IN ('ready', 'scheduled', 'waiting', 'claimed', 'done', 'dead', 'cancelled', 'archived'))
    EXEC [$(schema)].[refuse] N'state', @state,
        N'ready, scheduled, waiting, claimed, done, dead, cancelled or archived';
IF @job_id IS NOT NULL AND (@state IS NOT NULL OR @after IS NOT NULL)
    THROW 58003, N'job_id cannot be combined with state or after', 1;
IF @job_id IS NOT NULL AND @is_filtered = 1
    THROW 58003, N'job_id cannot be combined with filters (kind, error, since and so on)', 1;
IF @newest_first = 1 AND (@job_id IS NOT NULL OR @has_ended = 0)
    THROW 58003, N'newest_first requires the state done, dead, cancelled or archived', 1;
IF @worker_id IS NOT NULL AND (@job_id IS NOT NULL OR @state <> 'claimed')
    THROW 58003, N'worker_id requires the state claimed', 1;
IF @max IS NULL OR @max < 0
    EXEC [$(schema)].[refuse] N'max', @max, N'0 or more';
IF @older_than_ms < 0
    EXEC [$(schema)].[refuse] N'older_than_ms', @older_than_ms, N'0 or more';
IF @max_bytes < 0
    EXEC [$(schema)].[refuse] N'max_bytes', @max_bytes, N'0 or more';
IF @scan IS NULL OR @scan < 1 OR @scan > 100000
    EXEC [$(schema)].[refuse] N'scan', @scan, N'1 to 100000';
IF @after IS NOT NULL AND (@state = 'ready' AND @after_priority IS NULL
                           OR @state = 'waiting' AND @after_group IS NULL
                           OR @state IN ('scheduled', 'done', 'dead', 'cancelled', 'archived') AND @after_time IS NULL)
    THROW 58003, N'after requires after_priority (ready), after_group (waiting) or after_time (scheduled, finished)', 1;

IF @after IS NULL
BEGIN
    SET @after = CASE WHEN @newest_first = 1 THEN 9223372036854775807 ELSE 0 END;
    SET @after_time = CASE WHEN @newest_first = 1 THEN '99991231 23:59:59.999' ELSE '00010101' END;
    SET @after_priority = -32768;
    SET @after_alone = 1;
    SET @after_group = N'';
END;
-- Finished jobs: starts at the requested times, if these are later, because a seek has one bound on each side.
IF @has_ended = 1 AND @newest_first = 0 AND @after_time < @from
    SELECT @after_time = DATEADD(MILLISECOND, -1, @from), @after = 9223372036854775807;
IF @newest_first = 1 AND @after_time > @to
    SELECT @after_time = DATEADD(MILLISECOND, 1, @to), @after = 0;

IF @job_id IS NOT NULL
BEGIN
    INSERT @page (job_id)
    SELECT job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_pk))
    WHERE job_id = @job_id AND queue_id = @queue_id
    OPTION (MAXDOP 1);
    IF @@ROWCOUNT = 0
    BEGIN
        INSERT @page (job_id) VALUES (@job_id);
        SET @is_archived = 1;
    END;
END;
ELSE IF @state = 'ready'
BEGIN
    IF @after_alone = 1
    BEGIN
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take) job_id, priority, 1
            FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1 AND priority = @after_priority AND job_id > @after
        ORDER BY job_id
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take - @found) job_id, priority, 1
            FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1 AND priority > @after_priority
        ORDER BY priority, job_id
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
        -- Then the other jobs, from the first one on.
        SET @after_priority = -32768;
        SET @after = CASE WHEN @claim_order = 'lifo' THEN 9223372036854775807 ELSE 0 END;
    END;
    IF @claim_order = 'lifo'
    BEGIN
        -- One seek per priority, because no index has the priorities ascending and the ids descending.
        WHILE 1 = 1
        BEGIN
            INSERT @page (job_id, priority, alone)
            SELECT TOP (@take - @found) job_id, priority, 0
                FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @after_priority AND job_id < @after
            ORDER BY job_id DESC
            OPTION (MAXDOP 1);
            SET @found = @found + @@ROWCOUNT;
            IF @found >= @take
                BREAK;
            SELECT TOP (1) @after_priority = priority, @after = 9223372036854775807
                FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority > @after_priority
            ORDER BY priority
            OPTION (MAXDOP 1);
            IF @@ROWCOUNT = 0
                BREAK;
        END;
    END;
    ELSE
    BEGIN
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take - @found) job_id, priority, 0
            FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @after_priority
            AND job_id > @after
        ORDER BY job_id
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take - @found) job_id, priority, 0
            FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority > @after_priority
        ORDER BY priority, job_id
        OPTION (MAXDOP 1);
    END;
END;
ELSE IF @state = 'scheduled'
BEGIN
    INSERT @page (job_id, key_time)
    SELECT TOP (@take) job_id, due_at
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND due_at = @after_time AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take - @found) job_id, due_at
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND due_at > @after_time
    ORDER BY due_at, job_id
    OPTION (MAXDOP 1);
END;
ELSE IF @state = 'claimed' AND @worker_id IS NOT NULL
    INSERT @page (job_id)
    SELECT TOP (@take) job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_claimed))
    WHERE queue_id = @queue_id AND state = 2 AND worker_id = @worker_id AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
ELSE IF @state = 'claimed'
    INSERT @page (job_id)
    SELECT TOP (@take) job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_claimed))
    WHERE queue_id = @queue_id AND state = 2 AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
ELSE IF @state = 'waiting'
BEGIN
    INSERT @page (job_id, group_key)
    SELECT TOP (@take) job_id, group_key
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
    WHERE queue_id = @queue_id AND state = 6 AND group_key = @after_group AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, group_key)
    SELECT TOP (@take - @found) job_id, group_key
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
    WHERE queue_id = @queue_id AND state = 6 AND group_key > @after_group
    ORDER BY group_key, job_id
    OPTION (MAXDOP 1);
END;
ELSE IF @number >= 3 AND @newest_first = 1
BEGIN
    -- ended = 1 repeats the index's filter, because a variable hides the state.
    INSERT @page (job_id, key_time)
    SELECT TOP (@take) job_id, finished_at
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = @number AND ended = 1 AND finished_at = @after_time AND job_id < @after
    ORDER BY job_id DESC
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take - @found) job_id, finished_at
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = @number AND ended = 1 AND finished_at < @after_time AND finished_at >= @from
    ORDER BY finished_at DESC, job_id DESC
    OPTION (MAXDOP 1);
END;
ELSE IF @number >= 3
BEGIN
    INSERT @page (job_id, key_time)
    SELECT TOP (@take) job_id, finished_at
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = @number AND ended = 1 AND finished_at = @after_time AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take - @found) job_id, finished_at
        FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = @number AND ended = 1 AND finished_at > @after_time AND finished_at <= @to
    ORDER BY finished_at, job_id
    OPTION (MAXDOP 1);
END;
ELSE IF @newest_first = 1
BEGIN
    SET @is_archived = 1;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take) job_id, finished_at
        FROM [$(schema)].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND finished_at = @after_time AND job_id < @after
    ORDER BY job_id DESC
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take - @found) job_id, finished_at
        FROM [$(schema)].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND finished_at < @after_time AND finished_at >= @from
    ORDER BY finished_at DESC, job_id DESC
    OPTION (MAXDOP 1);
END;
ELSE
BEGIN
    SET @is_archived = 1;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take) job_id, finished_at
        FROM [$(schema)].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND finished_at = @after_time AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take - @found) job_id, finished_at
        FROM [$(schema)].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND finished_at > @after_time AND finished_at <= @to
    ORDER BY finished_at, job_id
    OPTION (MAXDOP 1);
END;

-- The next page starts after the last job that was read or, if the page was full before, after the last match.
SELECT @taken = COUNT(*), @end = MAX(place) FROM @page;
SET @last = @end;
IF @is_filtered = 1
BEGIN
    IF @is_archived = 1
        INSERT @matching (place)
        SELECT TOP (@max) p.place
        FROM @page AS p
        INNER LOOP JOIN [$(schema)].[archive] AS j
            WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id))) ON j.job_id = p.job_id
        WHERE (@kind IS NULL OR j.kind = @kind)
            AND (@correlation_id IS NULL OR j.correlation_id = @correlation_id)
            AND (@error IS NULL OR CHARINDEX(@error, j.error) > 0)
            AND (@dedup_key IS NULL OR j.dedup_key = @dedup_key)
            AND (@group_key IS NULL OR j.group_key = @group_key)
            AND (@batch_id IS NULL OR j.batch_id = @batch_id)
            AND j.finished_at BETWEEN @from AND @to
        ORDER BY p.place
        OPTION (MAXDOP 1);
    ELSE
        INSERT @matching (place)
        SELECT TOP (@max) p.place
        FROM @page AS p
        INNER LOOP JOIN [$(schema)].[jobs] AS j
            WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = p.job_id
        WHERE (@kind IS NULL OR j.kind = @kind)
            AND (@correlation_id IS NULL OR j.correlation_id = @correlation_id)
            AND (@error IS NULL OR CHARINDEX(@error, j.error) > 0)
            AND (@dedup_key IS NULL OR j.dedup_key = @dedup_key)
            AND (@group_key IS NULL OR j.group_key = @group_key)
            AND (@batch_id IS NULL OR j.batch_id = @batch_id)
            AND CASE WHEN j.ended = 1 THEN j.finished_at ELSE j.enqueued_at END BETWEEN @from AND @to
        ORDER BY p.place
        OPTION (MAXDOP 1);
    IF @@ROWCOUNT = @max
        SELECT @last = MAX(place) FROM @matching;
END;
IF @job_id IS NULL AND @max > 0 AND (@taken = @take OR @last < @end)
    SELECT @next = job_id, @next_time = key_time, @next_priority = priority, @next_alone = alone,
        @next_group = group_key FROM @page WHERE place = @last;
IF @is_filtered = 1
    DELETE p FROM @page AS p WHERE NOT EXISTS (SELECT 1 FROM @matching AS m WHERE m.place = p.place);

IF @only_ids = 1
BEGIN
    SELECT job_id FROM @page ORDER BY place;
    RETURN;
END;

-- Copies the rows first. Otherwise, a read of varbinary(max) would keep the S locks of all rows until the client has
-- read the last one, and claims and finish calls would wait for them.
DECLARE @rows TABLE (place int NOT NULL PRIMARY KEY CLUSTERED, job_id bigint NOT NULL,
    state varchar(9) COLLATE Latin1_General_100_BIN2 NOT NULL, priority smallint NOT NULL, alone bit NOT NULL,
    attempt int NOT NULL, fence int NOT NULL, enqueued_at datetime2(3) NOT NULL, due_at datetime2(3) NOT NULL,
    worker_id uniqueidentifier NULL, claimed_at datetime2(3) NULL, finished_at datetime2(3) NULL, run_us bigint NULL,
    kind varchar(64) COLLATE Latin1_General_100_BIN2 NULL, dedup_key nvarchar(256) COLLATE Latin1_General_100_BIN2 NULL,
    correlation_id uniqueidentifier NULL, payload_utf16 bit NOT NULL, payload varbinary(max) NOT NULL,
    error nvarchar(4000) NULL, output varbinary(max) NULL, time_limit_ms int NULL,
    headers nvarchar(1500) COLLATE Latin1_General_100_BIN2 NULL, batch_id bigint NULL,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL, payload_bytes bigint NULL, output_bytes bigint NULL,
    needs varchar(1000) COLLATE Latin1_General_100_BIN2 NULL, cpu_us bigint NULL, peak_bytes bigint NULL,
    start_by datetime2(3) NULL, halts bit NOT NULL);
IF @is_archived = 1
    INSERT @rows (place, job_id, state, priority, alone, attempt, fence, enqueued_at, due_at, worker_id, claimed_at,
                  finished_at, run_us, kind, dedup_key, correlation_id, payload_utf16, payload, error, output,
                  time_limit_ms, headers, batch_id, group_key, payload_bytes, output_bytes, needs, cpu_us,
                  peak_bytes, halts)
    SELECT p.place, j.job_id, 'archived', j.priority, 0, j.attempt, j.fence, j.enqueued_at, j.due_at, j.worker_id,
           j.claimed_at, j.finished_at, j.run_us, j.kind, j.dedup_key, j.correlation_id, j.payload_utf16,
           CASE WHEN @max_bytes IS NULL THEN j.payload ELSE SUBSTRING(j.payload, 1, @max_bytes) END, j.error,
           CASE WHEN @max_bytes IS NULL THEN j.output ELSE SUBSTRING(j.output, 1, @max_bytes) END,
           j.time_limit_ms, j.headers, j.batch_id, j.group_key, DATALENGTH(j.payload), DATALENGTH(j.output), j.needs,
           j.cpu_us, j.peak_bytes, 0
    FROM @page AS p
    INNER LOOP JOIN [$(schema)].[archive] AS j
        WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id))) ON j.job_id = p.job_id
    WHERE j.queue_id = @queue_id
    OPTION (MAXDOP 1);
ELSE
    INSERT @rows (place, job_id, state, priority, alone, attempt, fence, enqueued_at, due_at, worker_id, claimed_at,
                  finished_at, run_us, kind, dedup_key, correlation_id, payload_utf16, payload, error, output,
                  time_limit_ms, headers, batch_id, group_key, payload_bytes, output_bytes, needs, cpu_us,
                  peak_bytes, start_by, halts)
    SELECT p.place, j.job_id,
           CASE j.state WHEN 0 THEN 'ready' WHEN 1 THEN 'scheduled' WHEN 2 THEN 'claimed' WHEN 3 THEN 'done'
               WHEN 4 THEN 'dead' WHEN 5 THEN 'cancelled' ELSE 'waiting' END,
           j.priority, j.alone, j.attempt, j.fence, j.enqueued_at, j.due_at, j.worker_id, j.claimed_at, j.finished_at,
           j.run_us, j.kind, j.dedup_key, j.correlation_id, j.payload_utf16,
           CASE WHEN @max_bytes IS NULL THEN j.payload ELSE SUBSTRING(j.payload, 1, @max_bytes) END, j.error,
           CASE WHEN @max_bytes IS NULL THEN j.output ELSE SUBSTRING(j.output, 1, @max_bytes) END,
           j.time_limit_ms, j.headers, j.batch_id, j.group_key, DATALENGTH(j.payload), DATALENGTH(j.output), j.needs,
           j.cpu_us, j.peak_bytes, j.start_by, CASE WHEN j.state = 4 AND j.in_turn = 0 THEN 1 ELSE 0 END
    FROM @page AS p
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
        ON j.job_id = p.job_id
    WHERE j.queue_id = @queue_id
        AND (@job_id IS NOT NULL OR j.state = @number)
        AND (@worker_id IS NULL OR j.worker_id = @worker_id)
    OPTION (MAXDOP 1);

-- Bytes are converted to text by way of nvarchar: COLLATE on varchar would convert code pages and may change letters.
SELECT r.job_id, r.state, r.priority, r.alone, r.attempt, r.fence, r.enqueued_at, r.due_at, r.worker_id, r.claimed_at,
       r.finished_at, r.run_us, r.kind, r.dedup_key, r.correlation_id, r.payload_utf16, r.payload,
       CASE WHEN @texts = 0 THEN NULL
            WHEN r.payload_utf16 = 1 THEN CAST(r.payload AS nvarchar(max))
            WHEN CAST(CAST(r.payload AS varchar(max)) AS nvarchar(max)) COLLATE Latin1_General_100_BIN2
                NOT LIKE @not_text THEN CAST(CAST(r.payload AS varchar(max)) AS nvarchar(max)) END AS payload_text,
       r.error, r.output,
       CASE WHEN @texts = 0 THEN NULL
            WHEN CAST(CAST(r.output AS varchar(max)) AS nvarchar(max)) COLLATE Latin1_General_100_BIN2
                NOT LIKE @not_text THEN CAST(CAST(r.output AS varchar(max)) AS nvarchar(max)) END AS output_text,
       r.time_limit_ms, r.headers, r.batch_id, r.group_key, r.payload_bytes, r.output_bytes, r.needs, r.cpu_us,
       r.peak_bytes, r.start_by, r.halts
FROM @rows AS r
ORDER BY r.place
OPTION (MAXDOP 1);
GO
