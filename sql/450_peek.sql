-- Looks at jobs without claiming or waiting (READPAST): jobs that are locked at the moment are left out. Either a page
-- of the jobs in one state, or one job by its id, whatever its state.
-- @state: ready, scheduled, waiting, claimed, done, dead, cancelled, archived. Pages are as the index of the state has
-- them: ready in the order of the claims (those that must run alone, then by priority and id; in a lifo queue the
-- newest first), scheduled by (due_at, job_id), waiting by (group_key, job_id), done, dead, cancelled and archived by
-- (finished_at, job_id), claimed by job_id. The next page begins after the last row of this one, which is named by its
-- job_id (@after) and what else the order needs. A page may be short; after the last job comes one with no row.
--
-- A page at any depth costs its rows: two seeks, first for the rest of the same time or priority, then for what
-- follows. An OR of the two, or >= and a filter, would read the same time's million jobs for each page again. Only the
-- claimed jobs are sorted, by id: as many as the workers hold. First the ids, from entries of the index alone; then a
-- copy of the rows; then that is sent. So it never waits, and nobody waits until the client has read.
-- @newest_first: the same pages backwards, for jobs that have ended: done, dead, cancelled, archived. A place serves
-- both directions: with the other one, the page has what lies before it. The other states have an order of their own,
-- in which nothing is the newest.
-- @worker_id: of the claimed jobs those that this worker holds, by a seek.
--
-- @kind, @correlation_id, @error, @dedup_key, @group_key, @batch_id: only jobs of this kind, with this id, with this
-- text in their error (compared as the database's collation does; none: any error or no error), with this key, of this
-- group, of this batch. @older_than_ms, @since, @until: only jobs of this age, from this time on, before this time
-- (UTC): those that have ended counted from their end, the others from when they were enqueued, as purge counts. No
-- index has these, but for the end of the jobs that have ended, because every job would pay for that: up to @scan jobs
-- are read, in the order of the state, and the page has those of them that match. So such a page costs @scan rows at
-- the most, and may be empty although jobs that match come later: the next one begins at @next. Where only times are
-- asked for of jobs that have ended, a page costs its rows. @next and what stands with it: where the next page begins,
-- to be passed on as @after and so on. NULL: there is no further page.
--
-- Result: job_id, state, priority, alone, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at,
-- run_us, kind, dedup_key, correlation_id, payload_utf16, payload, payload_text, error, output, output_text,
-- time_limit_ms, headers, batch_id, group_key, payload_bytes, output_bytes. Later versions add columns at the end. The
-- texts are for reading in a tool: UTF-16 as it is, bytes if they are printable ASCII (tabs and line ends, too). NULL
-- where they are not: UTF-8 beyond ASCII cannot be decoded before SQL Server 2019.
-- @max_bytes: payload and output are cut to so many bytes, and the texts are NULL; payload_bytes and output_bytes say
-- how many they have. For lists: of a thousand jobs, a look at each beginning costs no more than a page of each.
CREATE OR ALTER PROCEDURE [$(schema)].[peek]
    @queue          nvarchar(129),
    @state          varchar(32)   = NULL,
    @after          bigint       = NULL,  -- NULL: the first page
    @max            int          = 100,
    @after_time     datetime2(3) = NULL,  -- scheduled: due_at; done, dead, cancelled, archived: finished_at
    @after_priority smallint     = NULL,  -- ready
    @after_alone    bit          = 0,     -- ready
    @job_id         bigint       = NULL,  -- this one, instead of a state
    @texts          bit          = 1,     -- 0: payload_text and output_text are NULL, for programs that read the bytes
    @kind           varchar(65)  = NULL,
    @correlation_id uniqueidentifier = NULL,
    @error          nvarchar(4000) = NULL,
    @scan           int          = 10000,
    @next           bigint       = NULL OUTPUT,
    @next_time      datetime2(3) = NULL OUTPUT,
    @next_priority  smallint     = NULL OUTPUT,
    @next_alone     bit          = NULL OUTPUT,
    @after_group    nvarchar(128) = NULL,  -- waiting
    @next_group     nvarchar(128) = NULL OUTPUT,
    @only_ids       bit          = 0,     -- 1: the result is job_id alone, for programs that do something to the jobs
    @dedup_key      nvarchar(257) = NULL,
    @group_key      nvarchar(129) = NULL,
    @batch_id       bigint       = NULL,
    @older_than_ms  bigint       = NULL,
    @max_bytes      int          = NULL,  -- payloads and outputs are cut to so many bytes
    @newest_first   bit          = 0,     -- done, dead, cancelled, archived
    @since          datetime2(3) = NULL,  -- this time and later
    @until          datetime2(3) = NULL,  -- before this time
    @worker_id      uniqueidentifier = NULL  -- claimed: the worker that holds them
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET @error = NULLIF(@error, N'');
SET @newest_first = ISNULL(@newest_first, 0);
IF @max_bytes IS NOT NULL
    SET @texts = 0;
DECLARE @queue_id int, @claim_order varchar(4), @found int = 0, @is_archived bit = 0;
DECLARE @is_filtered bit = CASE WHEN @kind IS NULL AND @correlation_id IS NULL AND @error IS NULL AND @dedup_key IS NULL
    AND @group_key IS NULL
                                     AND @batch_id IS NULL THEN 0 ELSE 1 END;
-- Of jobs that have ended, the index has the time.
DECLARE @take int = CASE WHEN @is_filtered = 0 AND (@older_than_ms IS NULL AND @since IS NULL AND @until IS NULL
                                                     OR @state IN ('done', 'dead', 'cancelled', 'archived')) THEN @max
                         ELSE @scan END;
IF @older_than_ms IS NOT NULL OR @since IS NOT NULL OR @until IS NOT NULL
    SET @is_filtered = 1;
-- The first and the last time that are asked for: of all that there are, if none is.
DECLARE @from datetime2(3) = ISNULL(@since, '00010101');
DECLARE @to datetime2(3) = CASE WHEN @older_than_ms IS NULL THEN '99991231 23:59:59.999'
                                    -- 2,000 years: older than any
                                    WHEN @older_than_ms >= 63072000000000 THEN '00010101'
                                    ELSE DATEADD(MILLISECOND, -CAST(@older_than_ms % 60000 AS int),
                                                 DATEADD(MINUTE, -CAST(@older_than_ms / 60000 AS int),
                                                 SYSUTCDATETIME())) END;
IF @until <= @to
    SET @to = CASE WHEN @until > '00010101' THEN DATEADD(MILLISECOND, -1, @until) ELSE '00010101' END;
DECLARE @has_ended bit = CASE WHEN @state IN ('done', 'dead', 'cancelled', 'archived') THEN 1 ELSE 0 END;
DECLARE @taken int, @end int, @last int;
DECLARE @number tinyint = CASE @state WHEN 'ready' THEN 0 WHEN 'scheduled' THEN 1 WHEN 'claimed' THEN 2
                                      WHEN 'done' THEN 3 WHEN 'dead' THEN 4 WHEN 'cancelled' THEN 5
                                          WHEN 'waiting' THEN 6 END;
-- What the page is read from, with what names each job's place in the order of its state; and which of them match.
DECLARE @page TABLE
(
    place    int          NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    job_id   bigint       NOT NULL,
    key_time datetime2(3) NULL,
    priority smallint     NULL,
    alone    bit          NULL,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL
);
DECLARE @matching TABLE (place int NOT NULL PRIMARY KEY CLUSTERED);
SELECT @next = NULL, @next_time = NULL, @next_priority = NULL, @next_alone = NULL, @next_group = NULL;
-- What is not plain text, when it is looked for in the characters' own order (BIN2).
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
    THROW 58003, N'job_id is for one job, whatever its state: it cannot stand beside state and after', 1;
IF @job_id IS NOT NULL AND @is_filtered = 1
    THROW 58003, N'job_id is for one job: it cannot stand beside kind, correlation_id, error, dedup_key, group_key, batch_id, older_than_ms, since and until', 1;
IF @newest_first = 1 AND (@job_id IS NOT NULL OR @has_ended = 0)
    THROW 58003, N'newest_first is for the states done, dead, cancelled and archived: jobs of the others have an order of their own', 1;
IF @worker_id IS NOT NULL AND (@job_id IS NOT NULL OR @state <> 'claimed')
    THROW 58003, N'worker_id is for the state claimed: jobs of the others have no worker', 1;
IF @max IS NULL OR @max < 0
    THROW 58003, N'max must be 0 or more', 1;
IF @older_than_ms < 0
    THROW 58003, N'older_than_ms must be 0 or more', 1;
IF @max_bytes < 0
    THROW 58003, N'max_bytes must be 0 or more', 1;
IF @scan IS NULL OR @scan < 1 OR @scan > 100000
    THROW 58003, N'scan must be 1 to 100000', 1;
IF @after IS NOT NULL AND (@state = 'ready' AND @after_priority IS NULL
                           OR @state = 'waiting' AND @after_group IS NULL
                           OR @state IN ('scheduled', 'done', 'dead', 'cancelled', 'archived') AND @after_time IS NULL)
    THROW 58003, N'after is not enough for the next page: give after_priority, too (ready), or after_group (waiting), or after_time (scheduled, done, dead, cancelled, archived)', 1;

IF @after IS NULL
BEGIN
    SET @after = CASE WHEN @newest_first = 1 THEN 9223372036854775807 ELSE 0 END;
    SET @after_time = CASE WHEN @newest_first = 1 THEN '99991231 23:59:59.999' ELSE '00010101' END;
    SET @after_priority = -32768;
    SET @after_alone = 1;
    SET @after_group = N'';
END;
-- Jobs that have ended: the page begins where the times that are asked for do, if that is later. A seek goes to one
-- bound on each side.
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
        -- Then the others, from their beginning.
        SET @after_priority = -32768;
        SET @after = CASE WHEN @claim_order = 'lifo' THEN 9223372036854775807 ELSE 0 END;
    END;
    IF @claim_order = 'lifo'
    BEGIN
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take - @found) job_id, priority, 0
            FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND priority = @after_priority
            AND job_id < @after
        ORDER BY job_id DESC
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take - @found) job_id, priority, 0
            FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND priority > @after_priority
        ORDER BY priority, job_id DESC
        OPTION (MAXDOP 1);
    END;
    ELSE
    BEGIN
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take - @found) job_id, priority, 0
            FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @after_priority
            AND job_id > @after
        ORDER BY job_id
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take - @found) job_id, priority, 0
            FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority > @after_priority
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
    -- ended = 1 is the index's filter, which a variable does not show.
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

-- Where the next page begins: after the last job that was read or, where the page is full before, after the last that
-- matched.
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

-- A copy first: reading varbinary(max), SQL Server keeps the S locks of all rows until the statement ends, and that is
-- when the client has read the last of them. Claims and acknowledgements of these jobs would wait for it.
DECLARE @rows TABLE
(
    place          int           NOT NULL PRIMARY KEY CLUSTERED,
    job_id         bigint        NOT NULL,
    state          varchar(9)    COLLATE Latin1_General_100_BIN2 NOT NULL,
    priority       smallint      NOT NULL,
    alone          bit           NOT NULL,
    attempt        int           NOT NULL,
    fence          int           NOT NULL,
    enqueued_at    datetime2(3)  NOT NULL,
    due_at         datetime2(3)  NOT NULL,
    worker_id      uniqueidentifier NULL,
    claimed_at     datetime2(3)  NULL,
    finished_at    datetime2(3)  NULL,
    run_us         bigint        NULL,
    kind           varchar(64)   COLLATE Latin1_General_100_BIN2 NULL,
    dedup_key      nvarchar(256) COLLATE Latin1_General_100_BIN2 NULL,
    correlation_id uniqueidentifier NULL,
    payload_utf16  bit           NOT NULL,
    payload        varbinary(max) NOT NULL,
    error          nvarchar(4000) NULL,
    output         varbinary(max) NULL,
    time_limit_ms  int           NULL,
    headers        nvarchar(1500) COLLATE Latin1_General_100_BIN2 NULL,
    batch_id       bigint        NULL,
    group_key      nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL,
    payload_bytes  bigint        NULL,
    output_bytes   bigint        NULL
);
IF @is_archived = 1
    INSERT @rows (place, job_id, state, priority, alone, attempt, fence, enqueued_at, due_at, worker_id, claimed_at,
                  finished_at, run_us, kind, dedup_key, correlation_id, payload_utf16, payload, error, output,
                  time_limit_ms, headers, batch_id, group_key, payload_bytes,
                  output_bytes)
    SELECT p.place, j.job_id, 'archived', j.priority, 0, j.attempt, j.fence, j.enqueued_at, j.due_at, j.worker_id,
           j.claimed_at, j.finished_at, j.run_us, j.kind, j.dedup_key, j.correlation_id, j.payload_utf16,
           CASE WHEN @max_bytes IS NULL THEN j.payload ELSE SUBSTRING(j.payload, 1, @max_bytes) END, j.error,
           CASE WHEN @max_bytes IS NULL THEN j.output ELSE SUBSTRING(j.output, 1, @max_bytes) END,
           j.time_limit_ms, j.headers, j.batch_id, j.group_key, DATALENGTH(j.payload), DATALENGTH(j.output)
    FROM @page AS p
    INNER LOOP JOIN [$(schema)].[archive] AS j
        WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id))) ON j.job_id = p.job_id
    WHERE j.queue_id = @queue_id
    OPTION (MAXDOP 1);
ELSE
    INSERT @rows (place, job_id, state, priority, alone, attempt, fence, enqueued_at, due_at, worker_id, claimed_at,
                  finished_at, run_us, kind, dedup_key, correlation_id, payload_utf16, payload, error, output,
                  time_limit_ms, headers, batch_id, group_key, payload_bytes,
                  output_bytes)
    SELECT p.place, j.job_id,
           CASE j.state WHEN 0 THEN 'ready' WHEN 1 THEN 'scheduled' WHEN 2 THEN 'claimed' WHEN 3 THEN 'done'
           WHEN 4 THEN 'dead'
                        WHEN 5 THEN 'cancelled' ELSE 'waiting' END,
           j.priority, j.alone, j.attempt, j.fence, j.enqueued_at, j.due_at, j.worker_id, j.claimed_at, j.finished_at,
           j.run_us, j.kind, j.dedup_key, j.correlation_id, j.payload_utf16,
           CASE WHEN @max_bytes IS NULL THEN j.payload ELSE SUBSTRING(j.payload, 1, @max_bytes) END, j.error,
           CASE WHEN @max_bytes IS NULL THEN j.output ELSE SUBSTRING(j.output, 1, @max_bytes) END,
           j.time_limit_ms, j.headers, j.batch_id, j.group_key, DATALENGTH(j.payload), DATALENGTH(j.output)
    FROM @page AS p
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
        ON j.job_id = p.job_id
    WHERE j.queue_id = @queue_id
        AND (@job_id IS NOT NULL OR j.state = @number)
        AND (@worker_id IS NULL OR j.worker_id = @worker_id)
    OPTION (MAXDOP 1);

-- The bytes as text go by nvarchar: COLLATE on varchar converts between code pages, and letters may become others on
-- the way. (What is no ASCII in the database's code page is none in Unicode.)
SELECT r.job_id, r.state, r.priority, r.alone, r.attempt, r.fence, r.enqueued_at, r.due_at, r.worker_id, r.claimed_at,
       r.finished_at, r.run_us, r.kind, r.dedup_key, r.correlation_id, r.payload_utf16, r.payload,
       CASE WHEN @texts = 0 THEN NULL
            WHEN r.payload_utf16 = 1 THEN CAST(r.payload AS nvarchar(max))
            WHEN CAST(CAST(r.payload AS varchar(max)) AS nvarchar(max)) COLLATE Latin1_General_100_BIN2 NOT LIKE @not_text
                THEN CAST(CAST(r.payload AS varchar(max)) AS nvarchar(max)) END AS payload_text,
       r.error, r.output,
       CASE WHEN @texts = 0 THEN NULL
            WHEN CAST(CAST(r.output AS varchar(max)) AS nvarchar(max)) COLLATE Latin1_General_100_BIN2 NOT LIKE @not_text
                THEN CAST(CAST(r.output AS varchar(max)) AS nvarchar(max)) END AS output_text,
       r.time_limit_ms, r.headers, r.batch_id, r.group_key, r.payload_bytes, r.output_bytes
FROM @rows AS r
ORDER BY r.place
OPTION (MAXDOP 1);
GO
