-- A job: one row. state: 0 ready, 1 scheduled, 2 claimed, 3 done, 4 dead, 5 cancelled, 6 waiting (for its turn in its
-- group). The states are literals in the filters below and in the procedures: a filtered index is used only where the
-- optimizer can see that the query's predicate implies the filter, and a variable hides that.

-- The numbers of the jobs. A sequence and not an IDENTITY: a batch gets its numbers in its own order and is inserted in
-- the order of its keys (enqueue_batch).
IF OBJECT_ID(N'[$(schema)].[job_ids]', N'SO') IS NULL
    CREATE SEQUENCE [$(schema)].[job_ids] AS bigint START WITH 1 INCREMENT BY 1 CACHE 1000;
GO

IF OBJECT_ID(N'[$(schema)].[jobs]', N'U') IS NULL
    CREATE TABLE [$(schema)].[jobs]
    (
        job_id         bigint           NOT NULL,
        queue_id       int              NOT NULL,
        state          tinyint          NOT NULL,
        lifo           bit              NOT NULL,  -- the queue's order when the job came in; chooses the ready index
        -- 1: done, dead or cancelled; see jobs_dedup
        ended          bit              NOT NULL CONSTRAINT jobs_ended DEFAULT 0,
        -- 1: goes only to a worker that holds nothing else, see reap
        alone          bit              NOT NULL CONSTRAINT jobs_alone DEFAULT 0,
        payload_utf16  bit              NOT NULL,  -- 1: the payload came as nvarchar
        priority       smallint         NOT NULL,  -- smaller runs first
        attempt        int              NOT NULL CONSTRAINT jobs_attempt DEFAULT 0,
        max_attempts   int              NULL,      -- NULL: the queue's
        fence          int              NOT NULL CONSTRAINT jobs_fence DEFAULT 0,
        enqueued_at    datetime2(3)     NOT NULL,
        due_at         datetime2(3)     NOT NULL,  -- when it may run; at_once jobs: enqueued_at
        worker_id      uniqueidentifier NULL,      -- who holds it or, when finished, who held it last
        claimed_at     datetime2(3)     NULL,
        finished_at    datetime2(3)     NULL,
        run_us         bigint           NULL,      -- how long the last run took, by the worker's monotonic clock
        correlation_id uniqueidentifier NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,  -- what sort of job: chooses the handler
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        payload        varbinary(max)   NOT NULL,
        error          nvarchar(4000)   NULL,      -- of the last failed attempt
        output         varbinary(max)   NULL,
        time_limit_ms  int              NULL,      -- NULL: its kind's or its worker's
        checkpointed   bit              NULL,      -- 1: progress has a checkpoint of it
        cancelling     bit              NULL,      -- 1: claimed, and asked to be cancelled
        headers        nvarchar(1500)   COLLATE Latin1_General_100_BIN2 NULL,  -- a JSON object
        batch_id       bigint           NULL,
        group_key      nvarchar(128)    COLLATE Latin1_General_100_BIN2 NULL,
        in_turn        bit              NULL,      -- 1: it has one of the turns of its group (group_limit)
        plain          bit              NULL,      -- 1: details is NULL
        -- For claim: what most jobs have nothing of, as one JSON object. Not kept.
        details AS CASE WHEN plain = 1 THEN NULL
                        WHEN dedup_key IS NOT NULL OR correlation_id IS NOT NULL OR time_limit_ms IS NOT NULL
                            OR checkpointed = 1
                            OR headers IS NOT NULL OR batch_id IS NOT NULL OR group_key IS NOT NULL
                        THEN CAST(CONCAT(N'{"dedup_key":',
                            ISNULL(N'"' + STRING_ESCAPE(dedup_key, 'json') + N'"', N'null'),
                                         N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), correlation_id)
                                         + N'"', N'null'),
                                         N',"time_limit_ms":', ISNULL(CONVERT(nvarchar(11), time_limit_ms), N'null'),
                                         N',"checkpointed":', CASE WHEN checkpointed = 1 THEN N'true' ELSE N'false' END,
                                         N',"headers":', ISNULL(headers, N'null'),
                                         N',"batch_id":', ISNULL(CONVERT(nvarchar(20), batch_id), N'null'),
                                         N',"group_key":', ISNULL(N'"' + STRING_ESCAPE(group_key, 'json') + N'"',
                                         N'null'), N'}') AS nvarchar(4000))
                   END,
        CONSTRAINT jobs_pk PRIMARY KEY CLUSTERED (job_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO

-- From here on a statement may meet a table that is in use, and must not wait for long.
BEGIN TRY
    -- Escalation to a table lock would turn every READPAST into waiting: READPAST skips row locks only. (ALTER TABLE
    -- ... SET takes Sch-M, for which everything queues up behind one long reader: only where there is something to
    -- change.)
    IF EXISTS (SELECT 1 FROM sys.tables
        WHERE object_id = OBJECT_ID(N'[$(schema)].[jobs]') AND lock_escalation_desc <> N'DISABLE')
        ALTER TABLE [$(schema)].[jobs] SET (LOCK_ESCALATION = DISABLE);

    -- On every index below: STATISTICS_NORECOMPUTE, because statistics that change with each batch would have every hot
    -- statement compiled again and again; ALLOW_PAGE_LOCKS = OFF, because READPAST does not skip page locks. See
    -- README.md, "Indexes".

    -- The polled indexes. Each ready job stands in exactly one of them, and nothing else does. Not UNIQUE, though no
    -- two entries are equal: uniqueness would make an update of many rows split, sort and collapse its changes for each
    -- of these indexes.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_ready', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_ready ON [$(schema)].[jobs] (queue_id, priority, job_id)
            INCLUDE (due_at) WHERE state = 0 AND lifo = 0 AND alone = 0
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_ready_lifo', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_ready_lifo ON [$(schema)].[jobs] (queue_id, priority, job_id DESC)
            INCLUDE (due_at) WHERE state = 0 AND lifo = 1 AND alone = 0
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- Nearly always empty.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_ready_alone', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_ready_alone ON [$(schema)].[jobs] (queue_id, priority, job_id)
            INCLUDE (due_at) WHERE state = 0 AND alone = 1
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_scheduled', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_scheduled ON [$(schema)].[jobs] (queue_id, due_at, job_id) WHERE state = 1
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- With job_id in the key, where it would be anyway: only so may FORCESEEK name it. With the fence and the state, so
    -- that recover finds all it wants here: an index entry first and then its row is the order opposite to finish's.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_claimed', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_claimed ON [$(schema)].[jobs] (queue_id, worker_id, job_id)
            INCLUDE (fence, state) WHERE state = 2
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- Done (annotated), dead and cancelled jobs in the order in which they ended, for peek, purge and requeue; no
    -- worker reads it.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_finished', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_finished ON [$(schema)].[jobs] (queue_id, state, finished_at, job_id)
            WHERE ended = 1
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- One unfinished job for each key of a queue. Jobs without a key are not in it. Not filtered on state: an update of
    -- a column that a unique index depends on brings split, sort and collapse into its plan, and claims, retries and
    -- releases update the state. With the column of its filter, so that a look for a key never goes on to the row: that
    -- would be the order opposite to finish's.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_dedup', 'IndexID') IS NULL
        CREATE UNIQUE NONCLUSTERED INDEX jobs_dedup ON [$(schema)].[jobs] (queue_id, dedup_key)
            INCLUDE (ended) WHERE dedup_key IS NOT NULL AND ended = 0
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- Dead jobs with a key: requeue looks here for the newest of each key.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_dead_keys', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_dead_keys ON [$(schema)].[jobs] (queue_id, dedup_key, job_id)
            WHERE dedup_key IS NOT NULL AND state = 4
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- The unfinished jobs of a batch.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_batch', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_batch ON [$(schema)].[jobs] (batch_id, job_id)
            WHERE batch_id IS NOT NULL AND ended = 0
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- Jobs that wait for their turn in a group, in the order in which they get it.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_waiting', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_waiting ON [$(schema)].[jobs] (queue_id, group_key, job_id) WHERE state = 6
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- Statistics of each column that a statement compares, which never change: otherwise the optimizer makes some of
    -- its own, on columns that have no histogram of the whole table yet, and updates them while a claim waits for its
    -- plan ("Statistics", AUTO_CREATE_STATISTICS). No plan here depends on them. The columns of an adoption (their_...)
    -- may be dropped again, which statistics would forbid.
    DECLARE @column sysname, @make nvarchar(1000);
    WHILE 1 = 1
    BEGIN
        SET @column = NULL;
        SELECT TOP (1) @column = c.name
        FROM sys.columns AS c
        WHERE c.object_id = OBJECT_ID(N'[$(schema)].[jobs]')
            AND c.name NOT IN (N'job_id', N'payload', N'output', N'details')
            AND LEFT(c.name, 6) <> N'their_'
            AND NOT EXISTS (SELECT 1 FROM sys.stats AS s
                WHERE s.object_id = c.object_id AND s.name = CONCAT(N'jobs_stats_', c.name))
        ORDER BY c.column_id;
        IF @column IS NULL
            BREAK;
        SET @make = CONCAT(N'CREATE STATISTICS jobs_stats_', @column, N' ON [$(schema)].[jobs] (', @column,
            N') WITH NORECOMPUTE');
        EXEC (@make);
    END;

    -- From SQL Server 2019 (15) on, and in Azure SQL, inserts at the end of the key contend less with this. The column
    -- that tells whether it is set exists from then on, too.
    IF CAST(SERVERPROPERTY(N'ProductMajorVersion') AS int) >= 15
        OR CAST(SERVERPROPERTY(N'EngineEdition') AS int) IN (5, 8)
        EXEC (N'IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N''[$(schema)].[jobs]'') AND name = N''jobs_pk''
                           AND optimize_for_sequential_key = 0)
                    ALTER INDEX jobs_pk ON [$(schema)].[jobs] SET (OPTIMIZE_FOR_SEQUENTIAL_KEY = ON)');
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() = 1222
        THROW 58012, N'a table of schema $(schema) is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
    THROW;
END CATCH;
GO
