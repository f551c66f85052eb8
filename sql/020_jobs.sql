-- A job: one row. state: 0 ready, 1 scheduled, 2 claimed, 3 done, 4 dead.
-- The states are literals in the filters below and in the procedures: a filtered index is used only where the optimizer can see
-- that the query's predicate implies the filter, and a variable hides that.
IF OBJECT_ID(N'[$(schema)].[jobs]', N'U') IS NULL
    CREATE TABLE [$(schema)].[jobs]
    (
        job_id         bigint           NOT NULL IDENTITY (1, 1),
        queue_id       int              NOT NULL,
        state          tinyint          NOT NULL,
        lifo           bit              NOT NULL,  -- the queue's order when the job came in; chooses the ready index
        priority       smallint         NOT NULL,  -- smaller runs first
        attempt        int              NOT NULL CONSTRAINT jobs_attempt DEFAULT 0,
        alone          bit              NOT NULL CONSTRAINT jobs_alone DEFAULT 0,  -- 1: goes only to a worker that holds nothing else, see reap
        max_attempts   int              NULL,      -- NULL: the queue's
        fence          int              NOT NULL CONSTRAINT jobs_fence DEFAULT 0,
        enqueued_at    datetime2(3)     NOT NULL,
        due_at         datetime2(3)     NOT NULL,  -- when it may run; at_once jobs: enqueued_at
        worker_id      uniqueidentifier NULL,      -- who holds it or, when finished, who held it last
        claimed_at     datetime2(3)     NULL,
        finished_at    datetime2(3)     NULL,
        run_us         bigint           NULL,      -- how long the last run took, by the worker's monotonic clock
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        payload_utf16  bit              NOT NULL,  -- 1: the payload came as nvarchar
        payload        varbinary(max)   NOT NULL,
        error          nvarchar(4000)   NULL,      -- of the last failed attempt
        output         varbinary(max)   NULL,
        CONSTRAINT jobs_pk PRIMARY KEY CLUSTERED (job_id)
    );
GO

-- Escalation to a table lock would turn every READPAST into waiting: READPAST skips row locks only.
ALTER TABLE [$(schema)].[jobs] SET (LOCK_ESCALATION = DISABLE);
GO

-- The polled indexes. Each ready job stands in exactly one of them, and nothing else does.
IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_ready', 'IndexID') IS NULL
    CREATE UNIQUE NONCLUSTERED INDEX jobs_ready ON [$(schema)].[jobs] (queue_id, priority, job_id)
        INCLUDE (due_at) WHERE state = 0 AND lifo = 0 AND alone = 0;
GO

IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_ready_lifo', 'IndexID') IS NULL
    CREATE UNIQUE NONCLUSTERED INDEX jobs_ready_lifo ON [$(schema)].[jobs] (queue_id, priority, job_id DESC)
        INCLUDE (due_at) WHERE state = 0 AND lifo = 1 AND alone = 0;
GO

-- Nearly always empty.
IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_ready_alone', 'IndexID') IS NULL
    CREATE UNIQUE NONCLUSTERED INDEX jobs_ready_alone ON [$(schema)].[jobs] (queue_id, priority, job_id)
        INCLUDE (due_at) WHERE state = 0 AND alone = 1;
GO

IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_scheduled', 'IndexID') IS NULL
    CREATE NONCLUSTERED INDEX jobs_scheduled ON [$(schema)].[jobs] (queue_id, due_at) WHERE state = 1;
GO

IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_claimed', 'IndexID') IS NULL
    CREATE NONCLUSTERED INDEX jobs_claimed ON [$(schema)].[jobs] (queue_id, worker_id) WHERE state = 2;
GO

-- Done (annotated) and dead jobs, for peek, purge and requeue; no worker reads it.
IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_finished', 'IndexID') IS NULL
    CREATE NONCLUSTERED INDEX jobs_finished ON [$(schema)].[jobs] (queue_id, state, finished_at) WHERE state >= 3;
GO

-- One unfinished job for each key of a queue. Jobs without a key are not in it.
IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_dedup', 'IndexID') IS NULL
    CREATE UNIQUE NONCLUSTERED INDEX jobs_dedup ON [$(schema)].[jobs] (queue_id, dedup_key)
        WHERE dedup_key IS NOT NULL AND state < 3;
GO

-- From SQL Server 2019 (15) on, and in Azure SQL, inserts at the end of the key contend less with this.
IF CAST(SERVERPROPERTY(N'ProductMajorVersion') AS int) >= 15 OR CAST(SERVERPROPERTY(N'EngineEdition') AS int) IN (5, 8)
    EXEC (N'ALTER INDEX jobs_pk ON [$(schema)].[jobs] SET (OPTIMIZE_FOR_SEQUENTIAL_KEY = ON)');
GO
