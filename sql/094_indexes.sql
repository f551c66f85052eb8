-- Changes tables that may be in use: lock escalation, indexes and statistics. 000_begin.sql limits how long the changes
-- wait for locks.
BEGIN TRY
    -- READPAST skips row locks only, so a lock that is escalated to the table would block every claim. ALTER TABLE
    -- takes a Sch-M lock, so only tables that need the change are altered.
    DECLARE @alter nvarchar(max) = (
        SELECT STRING_AGG(N'ALTER TABLE [$(schema)].' + name + N' SET (LOCK_ESCALATION = DISABLE)', N'; ')
        FROM sys.tables
        WHERE schema_id = SCHEMA_ID(N'$(schema)') AND lock_escalation_desc <> N'DISABLE'
            AND name IN (N'jobs', N'attempts', N'batches', N'batch_additions', N'batch_counts', N'groups',
                N'group_events', N'group_weights', N'edges', N'edge_events', N'logs'));
    EXEC (@alter);

    -- STATISTICS_NORECOMPUTE on every index, because changed statistics would recompile the hot statements.
    -- ALLOW_PAGE_LOCKS = OFF, because READPAST does not skip page locks. See README.md, "Indexes of jobs".

    -- The indexes that claims poll: each ready job is in exactly one of the next two. They are not UNIQUE, because an
    -- update of many rows would then split, sort and collapse its changes for each index.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_ready', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_ready ON [$(schema)].[jobs] (queue_id, priority, job_id)
            INCLUDE (due_at) WHERE state = 0 AND alone = 0
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- This index is nearly always empty.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_ready_alone', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_ready_alone ON [$(schema)].[jobs] (queue_id, priority, job_id)
            INCLUDE (due_at) WHERE state = 0 AND alone = 1
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_scheduled', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_scheduled ON [$(schema)].[jobs] (queue_id, due_at, job_id) WHERE state = 1
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- job_id is in the key so that FORCESEEK can name it. fence and state are included for recover: if it read the row
    -- after the index entry, it would lock in the opposite order of finish.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_claimed', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_claimed ON [$(schema)].[jobs] (queue_id, worker_id, job_id)
            INCLUDE (fence, state) WHERE state = 2
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- Dead and cancelled jobs, and done jobs of queues that annotate them, in the order in which they finished. Read by
    -- sample, expire and the procedures of operators.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_finished', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_finished ON [$(schema)].[jobs] (queue_id, state, finished_at, job_id)
            WHERE ended = 1
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- At most one unfinished job for each key. The filter uses ended and not state, because claims, retries and
    -- releases update state, and an update of a column of a unique index splits, sorts and collapses its changes. ended
    -- is included so that a lookup need not lock the row after the index entry, the opposite order of finish.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_dedup', 'IndexID') IS NULL
        CREATE UNIQUE NONCLUSTERED INDEX jobs_dedup ON [$(schema)].[jobs] (queue_id, dedup_key)
            INCLUDE (ended) WHERE dedup_key IS NOT NULL AND ended = 0
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- For requeue: the newest dead job of each key.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_dead_keys', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_dead_keys ON [$(schema)].[jobs] (queue_id, dedup_key, job_id)
            WHERE dedup_key IS NOT NULL AND state = 4
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- The unfinished jobs of a batch.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_batch', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_batch ON [$(schema)].[jobs] (batch_id, job_id)
            WHERE batch_id IS NOT NULL AND ended = 0
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- The unfinished jobs that may expire.
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_start_by', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_start_by ON [$(schema)].[jobs] (queue_id, start_by, job_id)
            WHERE start_by IS NOT NULL AND ended = 0
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- Jobs waiting for their turn in a group, in the order of turns, and jobs that wait for other jobs (held).
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_waiting', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_waiting ON [$(schema)].[jobs] (queue_id, group_key, job_id)
            INCLUDE (held) WHERE state = 6
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[archive]'), N'archive_finished', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX archive_finished ON [$(schema)].[archive] (queue_id, finished_at, job_id);

    -- Creates statistics of each column that are never updated. Otherwise the optimizer would create and update its own
    -- while a claim waits for its plan. No plan depends on them. Columns of an adoption (their_...) get none, because
    -- they must stay droppable.
    DECLARE @jobs int = OBJECT_ID(N'[$(schema)].[jobs]');
    DECLARE @create nvarchar(max) = (
        SELECT STRING_AGG(CONCAT(CAST(N'CREATE STATISTICS jobs_stats_' AS nvarchar(max)), c.name,
            N' ON [$(schema)].[jobs] (', c.name, N') WITH NORECOMPUTE'), N'; ')
        FROM sys.columns AS c
        WHERE c.object_id = @jobs AND c.name NOT IN (N'job_id', N'payload', N'output', N'details')
            AND LEFT(c.name, 6) <> N'their_'
            AND CONCAT(N'jobs_stats_', c.name) NOT IN (SELECT s.name FROM sys.stats AS s WHERE s.object_id = @jobs));
    EXEC (@create);

    -- Reduces contention of inserts at the end of the key, from SQL Server 2019 (15) on and in Azure SQL.
    IF CAST(SERVERPROPERTY(N'ProductMajorVersion') AS int) >= 15
        OR CAST(SERVERPROPERTY(N'EngineEdition') AS int) IN (5, 8)
        EXEC (N'IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N''[$(schema)].[jobs]'')
                        AND name = N''jobs_pk'' AND optimize_for_sequential_key = 0)
                    ALTER INDEX jobs_pk ON [$(schema)].[jobs] SET (OPTIMIZE_FOR_SEQUENTIAL_KEY = ON)');
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() = 1222
        THROW 58012, N'another session uses a table of schema $(schema); run the scripts again when it has finished', 1;
    THROW;
END CATCH;
GO
