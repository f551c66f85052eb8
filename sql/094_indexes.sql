-- Changes to tables that may be in use: lock escalation, indexes and statistics. A statement here waits at most three
-- seconds for a table (see 000_begin.sql), because all later sessions would queue behind it.
BEGIN TRY
    -- READPAST skips row locks only, so a lock that escalated to the table would block every claim. ALTER TABLE ... SET
    -- takes Sch-M: only tables that need the change are altered.
    DECLARE @alter nvarchar(max) = (
        SELECT STRING_AGG(N'ALTER TABLE [$(schema)].' + name + N' SET (LOCK_ESCALATION = DISABLE)', N'; ')
        FROM sys.tables
        WHERE schema_id = SCHEMA_ID(N'$(schema)') AND lock_escalation_desc <> N'DISABLE'
            AND name IN (N'jobs', N'attempts', N'batches', N'batch_additions', N'batch_counts', N'groups',
                N'group_events'));
    EXEC (@alter);

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

    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[archive]'), N'archive_finished', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX archive_finished ON [$(schema)].[archive] (queue_id, finished_at, job_id);

    -- Statistics of each column that a statement compares, which never change: otherwise the optimizer makes some of
    -- its own, on columns that have no histogram of the whole table yet, and updates them while a claim waits for its
    -- plan ("Statistics", AUTO_CREATE_STATISTICS). No plan here depends on them. The columns of an adoption (their_...)
    -- may be dropped again, which statistics would forbid.
    DECLARE @column sysname;
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
        EXEC (N'CREATE STATISTICS jobs_stats_' + @column
            + N' ON [$(schema)].[jobs] (' + @column + N') WITH NORECOMPUTE');
    END;

    -- From SQL Server 2019 (15) on, and in Azure SQL, inserts at the end of the key contend less with this. The column
    -- that tells whether it is set exists from then on, too.
    IF CAST(SERVERPROPERTY(N'ProductMajorVersion') AS int) >= 15
        OR CAST(SERVERPROPERTY(N'EngineEdition') AS int) IN (5, 8)
        EXEC (N'IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N''[$(schema)].[jobs]'')
                        AND name = N''jobs_pk'' AND optimize_for_sequential_key = 0)
                    ALTER INDEX jobs_pk ON [$(schema)].[jobs] SET (OPTIMIZE_FOR_SEQUENTIAL_KEY = ON)');
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() = 1222
        THROW 58012, N'another session is using a table of schema $(schema), and the installation stopped waiting so as not to block other sessions; run the scripts again when that session has finished', 1;
    THROW;
END CATCH;
GO
