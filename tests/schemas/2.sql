-- readpast, all installation scripts in one: for SQL Server Management Studio, and for sqlcmd on Windows.
--
-- SSMS: choose the database in the tool bar and run it as a member of db_owner; SQLCMD mode is not needed.
-- sqlcmd: sqlcmd -b -S SERVER -d DATABASE -i install.sql
--
-- It installs into the schema readpast. For another name, replace the word readpast by it everywhere in this file, with "Match case" on:
-- in capitals, READPAST is a hint of T-SQL. Letters, digits and underscores only.
--
-- After an error nothing more is executed, even where the client goes on: read the first error, and run the whole file again.
--
-- Generated from the numbered scripts beside it; change those.

-- 000_begin.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- readpast: start of the installation.
--
-- Run all numbered scripts of this folder in the order of their names, in one session, as a member of db_owner. install.sql is all of them
-- in one file. README.md says how. Running them again changes nothing; from two sessions at once, the second waits for the first.

-- Filtered indexes demand these settings where procedures are created and where rows are changed (error 1934 otherwise).
-- sqlcmd starts with QUOTED_IDENTIFIER OFF.
SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT OFF;
SET NOCOUNT ON;
SET XACT_ABORT ON;
-- A statement that changes a table waits for everybody who reads it, and everybody who comes later waits behind it. So it gives up soon, and
-- the scripts say so (58012).
SET LOCK_TIMEOUT 3000;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
DECLARE @granted int;
EXEC @granted = sys.sp_getapplock
    @Resource = N'readpast.install', @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 60000;
IF @granted < 0
    THROW 58011, N'another session has been installing into schema readpast for a minute; wait for it to end and run the scripts again', 1;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The adoption of a table has procedures of its own, which these would replace.
IF OBJECT_ID(N'[readpast].[adoption]', N'U') IS NOT NULL
BEGIN
    EXEC sys.sp_releaseapplock @Resource = N'readpast.install', @LockOwner = N'Session';
    THROW 58003, N'schema readpast is the adoption of a table; install it again by readpast adopt MAPPING --install, or choose another schema', 1;
END;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Owned by dbo, whoever runs this: the tables and procedures are the schema's owner's, and a user who owns something cannot be dropped.
IF SCHEMA_ID(N'readpast') IS NULL
    EXEC (N'CREATE SCHEMA [readpast] AUTHORIZATION dbo');
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- One row for every version that was installed; the highest is the one in force.
IF OBJECT_ID(N'[readpast].[schema_version]', N'U') IS NULL
    CREATE TABLE [readpast].[schema_version]
    (
        version        int          NOT NULL,
        min_compatible int          NOT NULL,  -- the oldest version whose workers and producers work with this one's tables and procedures
        installed_at   datetime2(3) NOT NULL CONSTRAINT schema_version_installed_at DEFAULT SYSUTCDATETIME(),
        CONSTRAINT schema_version_pk PRIMARY KEY CLUSTERED (version)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- A newer release has been here: its procedures must not be overwritten by older ones.
DECLARE @installed int = (SELECT MAX(version) FROM [readpast].[schema_version]), @message nvarchar(2048);
IF @installed > 2
BEGIN
    EXEC sys.sp_releaseapplock @Resource = N'readpast.install', @LockOwner = N'Session';
    SET @message = CONCAT(N'schema readpast has version ', @installed, N', these scripts would install version 2; use the scripts of the newer release');
    THROW 58010, @message, 1;
END;
GO

-- 010_queues.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- A queue: a named stream of jobs with its settings.
-- Names compare by code point (BIN2): in the usual collations all emoji are equal to each other.
IF OBJECT_ID(N'[readpast].[queues]', N'U') IS NULL
    CREATE TABLE [readpast].[queues]
    (
        queue_id     int           NOT NULL IDENTITY (1, 1),
        name         nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
        claim_order  varchar(4)    NOT NULL,
        completion   varchar(8)    NOT NULL,
        delivery     varchar(13)   NOT NULL,
        max_attempts int           NOT NULL,
        keep_done_s  int           NULL,  -- how long done jobs that stay (annotate, archive) are kept; NULL: for ever
        keep_dead_s  int           NULL,  -- the same of dead jobs
        paused       bit           NOT NULL CONSTRAINT queues_paused DEFAULT 0,
        created_at   datetime2(3)  NOT NULL CONSTRAINT queues_created_at DEFAULT SYSUTCDATETIME(),
        CONSTRAINT queues_pk PRIMARY KEY CLUSTERED (queue_id),
        CONSTRAINT queues_name UNIQUE NONCLUSTERED (name)
    );
GO

-- 020_jobs.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- A job: one row. state: 0 ready, 1 scheduled, 2 claimed, 3 done, 4 dead, 5 cancelled, 6 waiting (for its turn in its group).
-- The states are literals in the filters below and in the procedures: a filtered index is used only where the optimizer can see
-- that the query's predicate implies the filter, and a variable hides that.

-- The numbers of the jobs. A sequence and not an IDENTITY: a batch gets its numbers in its own order and is inserted in the order of its keys
-- (enqueue_batch).
IF OBJECT_ID(N'[readpast].[job_ids]', N'SO') IS NULL
    CREATE SEQUENCE [readpast].[job_ids] AS bigint START WITH 1 INCREMENT BY 1 CACHE 1000;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
IF OBJECT_ID(N'[readpast].[jobs]', N'U') IS NULL
    CREATE TABLE [readpast].[jobs]
    (
        job_id         bigint           NOT NULL,
        queue_id       int              NOT NULL,
        state          tinyint          NOT NULL,
        lifo           bit              NOT NULL,  -- the queue's order when the job came in; chooses the ready index
        ended          bit              NOT NULL CONSTRAINT jobs_ended DEFAULT 0,  -- 1: done, dead or cancelled; see jobs_dedup
        alone          bit              NOT NULL CONSTRAINT jobs_alone DEFAULT 0,  -- 1: goes only to a worker that holds nothing else, see reap
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
        CONSTRAINT jobs_pk PRIMARY KEY CLUSTERED (job_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- From here on a statement may meet a table that is in use, and must not wait for long.
BEGIN TRY
    -- Escalation to a table lock would turn every READPAST into waiting: READPAST skips row locks only. (ALTER TABLE ... SET takes Sch-M, for which
    -- everything queues up behind one long reader: only where there is something to change.)
    IF EXISTS (SELECT 1 FROM sys.tables WHERE object_id = OBJECT_ID(N'[readpast].[jobs]') AND lock_escalation_desc <> N'DISABLE')
        ALTER TABLE [readpast].[jobs] SET (LOCK_ESCALATION = DISABLE);

    -- On every index below: STATISTICS_NORECOMPUTE, because statistics that change with each batch would have every hot statement compiled again
    -- and again; ALLOW_PAGE_LOCKS = OFF, because READPAST does not skip page locks. See README.md, "Indexes".

    -- The polled indexes. Each ready job stands in exactly one of them, and nothing else does. Not UNIQUE, though no two entries are equal:
    -- uniqueness would make an update of many rows split, sort and collapse its changes for each of these indexes.
    IF INDEXPROPERTY(OBJECT_ID(N'[readpast].[jobs]'), N'jobs_ready', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_ready ON [readpast].[jobs] (queue_id, priority, job_id)
            INCLUDE (due_at) WHERE state = 0 AND lifo = 0 AND alone = 0
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    IF INDEXPROPERTY(OBJECT_ID(N'[readpast].[jobs]'), N'jobs_ready_lifo', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_ready_lifo ON [readpast].[jobs] (queue_id, priority, job_id DESC)
            INCLUDE (due_at) WHERE state = 0 AND lifo = 1 AND alone = 0
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- Nearly always empty.
    IF INDEXPROPERTY(OBJECT_ID(N'[readpast].[jobs]'), N'jobs_ready_alone', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_ready_alone ON [readpast].[jobs] (queue_id, priority, job_id)
            INCLUDE (due_at) WHERE state = 0 AND alone = 1
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    IF INDEXPROPERTY(OBJECT_ID(N'[readpast].[jobs]'), N'jobs_scheduled', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_scheduled ON [readpast].[jobs] (queue_id, due_at, job_id) WHERE state = 1
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- With the fence and the state, so that recover finds all it wants here: an index entry first and then its row is the order opposite to finish's.
    IF INDEXPROPERTY(OBJECT_ID(N'[readpast].[jobs]'), N'jobs_claimed', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_claimed ON [readpast].[jobs] (queue_id, worker_id)
            INCLUDE (fence, state) WHERE state = 2
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- Done (annotated), dead and cancelled jobs in the order in which they ended, for peek, purge and requeue; no worker reads it.
    IF INDEXPROPERTY(OBJECT_ID(N'[readpast].[jobs]'), N'jobs_finished', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_finished ON [readpast].[jobs] (queue_id, state, finished_at, job_id) WHERE ended = 1
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- One unfinished job for each key of a queue. Jobs without a key are not in it. Not filtered on state: an update of a column that a unique index
    -- depends on brings split, sort and collapse into its plan, and claims, retries and releases update the state. With
    -- the column of its filter, so that a look for a key never goes on to the row: that would be the order opposite to finish's.
    IF INDEXPROPERTY(OBJECT_ID(N'[readpast].[jobs]'), N'jobs_dedup', 'IndexID') IS NULL
        CREATE UNIQUE NONCLUSTERED INDEX jobs_dedup ON [readpast].[jobs] (queue_id, dedup_key)
            INCLUDE (ended) WHERE dedup_key IS NOT NULL AND ended = 0
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- Dead jobs with a key: requeue looks here for the newest of each key.
    IF INDEXPROPERTY(OBJECT_ID(N'[readpast].[jobs]'), N'jobs_dead_keys', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX jobs_dead_keys ON [readpast].[jobs] (queue_id, dedup_key, job_id)
            WHERE dedup_key IS NOT NULL AND state = 4
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);

    -- From SQL Server 2019 (15) on, and in Azure SQL, inserts at the end of the key contend less with this. The column that tells whether it is set
    -- exists from then on, too.
    IF CAST(SERVERPROPERTY(N'ProductMajorVersion') AS int) >= 15 OR CAST(SERVERPROPERTY(N'EngineEdition') AS int) IN (5, 8)
        EXEC (N'IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N''[readpast].[jobs]'') AND name = N''jobs_pk''
                           AND optimize_for_sequential_key = 0)
                    ALTER INDEX jobs_pk ON [readpast].[jobs] SET (OPTIMIZE_FOR_SEQUENTIAL_KEY = ON)');
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() = 1222
        THROW 58012, N'a table of schema readpast is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
    THROW;
END CATCH;
GO

-- 030_archive.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Where done jobs go under the completion policy "archive". Never locked by a claim.
IF OBJECT_ID(N'[readpast].[archive]', N'U') IS NULL
    CREATE TABLE [readpast].[archive]
    (
        job_id         bigint           NOT NULL,
        queue_id       int              NOT NULL,
        priority       smallint         NOT NULL,
        attempt        int              NOT NULL,
        fence          int              NOT NULL,
        enqueued_at    datetime2(3)     NOT NULL,
        due_at         datetime2(3)     NOT NULL,
        worker_id      uniqueidentifier NOT NULL,
        claimed_at     datetime2(3)     NOT NULL,
        finished_at    datetime2(3)     NOT NULL,
        run_us         bigint           NULL,
        correlation_id uniqueidentifier NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        payload_utf16  bit              NOT NULL,
        payload        varbinary(max)   NOT NULL,
        error          nvarchar(4000)   NULL,
        output         varbinary(max)   NULL,
        CONSTRAINT archive_pk PRIMARY KEY CLUSTERED (job_id)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
BEGIN TRY
    IF INDEXPROPERTY(OBJECT_ID(N'[readpast].[archive]'), N'archive_finished', 'IndexID') IS NULL
        CREATE NONCLUSTERED INDEX archive_finished ON [readpast].[archive] (queue_id, finished_at, job_id);
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() = 1222
        THROW 58012, N'a table of schema readpast is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
    THROW;
END CATCH;
GO

-- 040_workers.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- A worker: one running process that claims from one queue, with its lease. A worker whose lease ran out, and one that has ended, is marked
-- lost, and its row stays for a day: a claim of it that was under way at that moment can still commit, and the next reap must find those jobs.
IF OBJECT_ID(N'[readpast].[workers]', N'U') IS NULL
    CREATE TABLE [readpast].[workers]
    (
        worker_id     uniqueidentifier NOT NULL,  -- new at each start of the process
        queue_id      int              NOT NULL,
        name          nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,  -- the same at each start
        lease_ms      int              NOT NULL,
        registered_at datetime2(3)     NOT NULL,
        lease_until   datetime2(3)     NOT NULL,
        lost_at       datetime2(3)     NULL,
        unserved      tinyint          NOT NULL CONSTRAINT workers_unserved DEFAULT 0,  -- how often it got a new lease unasked since its last heartbeat, see tend
        CONSTRAINT workers_pk PRIMARY KEY CLUSTERED (worker_id)
    );
GO

-- 050_samples.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The last sample of each queue's depth, for metrics: taken by one worker at a time, read by all. See the procedure sample.
IF OBJECT_ID(N'[readpast].[samples]', N'U') IS NULL
    CREATE TABLE [readpast].[samples]
    (
        queue_id      int          NOT NULL,
        begun_at      datetime2(3) NOT NULL,  -- when somebody last began to take one
        sampled_at    datetime2(3) NULL,      -- when the numbers below were taken; NULL: there are none yet
        ready         bigint       NOT NULL CONSTRAINT samples_ready DEFAULT 0,
        scheduled     bigint       NOT NULL CONSTRAINT samples_scheduled DEFAULT 0,
        claimed       bigint       NOT NULL CONSTRAINT samples_claimed DEFAULT 0,
        dead          bigint       NOT NULL CONSTRAINT samples_dead DEFAULT 0,
        workers       bigint       NOT NULL CONSTRAINT samples_workers DEFAULT 0,
        oldest_due_at datetime2(3) NULL,      -- of the ready jobs; NULL: none is ready
        CONSTRAINT samples_pk PRIMARY KEY CLUSTERED (queue_id)
    );
GO

-- 060_duties.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- What one worker of a queue does for all of them (promote, reap, sample, sweep, expire, fire schedules), and who that is. A row for each queue, made
-- with it.
-- The worker that is named here renews "until" with each promote; when it has passed, the next heartbeat of any worker takes the duties over.
IF OBJECT_ID(N'[readpast].[duties]', N'U') IS NULL
    CREATE TABLE [readpast].[duties]
    (
        queue_id  int              NOT NULL,
        worker_id uniqueidentifier NULL,
        until     datetime2(3)     NOT NULL CONSTRAINT duties_until DEFAULT '00010101',
        tended_at datetime2(3)     NOT NULL CONSTRAINT duties_tended_at DEFAULT SYSUTCDATETIME(),  -- when somebody last promoted or reaped
        swept_at  datetime2(3)     NOT NULL CONSTRAINT duties_swept_at DEFAULT SYSUTCDATETIME(),   -- when the marks were last compared with the index
        sweep_ms  int              NOT NULL CONSTRAINT duties_sweep_ms DEFAULT 0,                  -- how long that took
        CONSTRAINT duties_pk PRIMARY KEY CLUSTERED (queue_id)
    );
GO

-- 070_marks.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Low-water marks: no job of this queue and priority is ready below job_id, as far as is known. A claim and a look begin there instead of at the
-- head of the index, which may be full of entries that are deleted but not yet cleaned up (ghosts). A mark only saves reading: the worker that
-- has the duties compares it with the index every second or so (sweep), so that what it passed over by mistake is found then.
-- A row for each priority that a claim has met. Only for jobs of the index jobs_ready.
IF OBJECT_ID(N'[readpast].[marks]', N'U') IS NULL
    CREATE TABLE [readpast].[marks]
    (
        queue_id int      NOT NULL,
        priority smallint NOT NULL,
        job_id   bigint   NOT NULL,
        lowered  int      NOT NULL,  -- grows when the mark is lowered: what was seen before does not raise it again
        CONSTRAINT marks_pk PRIMARY KEY CLUSTERED (queue_id, priority)
    );
GO

-- 075_attempts.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The failed attempts of jobs, the newest 20 of each (note_attempts): retried and dead ones, and those that ended with their worker. Only failures
-- write here. They go with their job: when it is purged or expires, and when it is done where the queue deletes done jobs.
-- Rows of a job are only touched by who holds the job's row in jobs or has just deleted it, so that nobody waits here who does not wait there.
IF OBJECT_ID(N'[readpast].[attempts]', N'U') IS NULL
    CREATE TABLE [readpast].[attempts]
    (
        job_id    bigint           NOT NULL,
        fence     int              NOT NULL,  -- that it ran under: tells the attempts apart, also where a requeue has them counted from 1 again
        queue_id  int              NOT NULL,
        attempt   int              NOT NULL,
        worker_id uniqueidentifier NOT NULL,
        worker    nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,  -- its name: the worker's own row stays for a day only
        failed_at datetime2(3)     NOT NULL,
        run_us    bigint           NULL,      -- NULL: its worker was lost
        error     nvarchar(4000)   NULL,
        CONSTRAINT attempts_pk PRIMARY KEY CLUSTERED (job_id, fence)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
BEGIN TRY
    IF EXISTS (SELECT 1 FROM sys.tables WHERE object_id = OBJECT_ID(N'[readpast].[attempts]') AND lock_escalation_desc <> N'DISABLE')
        ALTER TABLE [readpast].[attempts] SET (LOCK_ESCALATION = DISABLE);
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() = 1222
        THROW 58012, N'a table of schema readpast is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
    THROW;
END CATCH;
GO

-- 076_cancellations.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Running jobs that somebody has asked to cancel: a word to their workers, who get it with their next heartbeat. What decides about the job is
-- jobs.cancelling; a row that nobody needs any more does no harm, and reap deletes it after a day.
IF OBJECT_ID(N'[readpast].[cancellations]', N'U') IS NULL
    CREATE TABLE [readpast].[cancellations]
    (
        worker_id uniqueidentifier NOT NULL,
        job_id    bigint           NOT NULL,
        fence     int              NOT NULL,
        asked_at  datetime2(3)     NOT NULL,
        CONSTRAINT cancellations_pk PRIMARY KEY CLUSTERED (worker_id, job_id, fence)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO

-- 080_migration_2.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Migration to version 2: a job can have a time limit of its own (time_limit_ms, NULL: as its worker has it), and note checkpoints while it runs
-- (checkpointed: 1 where the table progress has one; a bit beside others takes no room of its own); a claimed one can have been asked to be
-- cancelled (cancelling, NULL: no), and cancelled ones are counted; a queue can have a sink (NULL: none).
-- A job can carry headers (a JSON object), belong to a batch, and be of a group of its queue (group_key); of a group only as many jobs as the
-- queue's group_limit says have the turn (in_turn = 1), and the others wait in state 6 or are scheduled. Most jobs have nothing of all this, nor a
-- key or a correlation id: plain = 1 says so to claim, which then has one column to look at. What a queue limits: group_limit, retry_passes (1: a
-- job that is retried gives its turn away), max_running (NULL: no limit), rate_jobs in rate_ms (NULL: no limit). A worker says with its heartbeats
-- what it does: reported_at and what follows (NULL: it has said nothing). noted_... is what of that stands in the table history; samples.notes counts
-- how often that was written.
--
-- The scripts before this one make the tables as version 1 has them, and never change again. What a later version changes in them stands in a
-- migration of its own (080_migration_2, 081_migration_3, ...), for a fresh and for an old schema alike:
-- - It runs where its version is not installed yet. The version is noted at the very end (990_end), so after an installation that broke off it
--   runs again: each of its statements looks at the catalog first.
-- - Procedures of the version before run before, during and after it: it adds, and what it would take away goes with a later version, whose
--   min_compatible says so. A new column is NULL or has a constant default, which does not touch the rows.
-- - A table type cannot be altered and is bound to its procedures: a new form has a new name, and the old type stays as long as an old
--   procedure or client uses it.
-- - Indexes are made ONLINE where the edition can: Enterprise, Evaluation and Developer (EngineEdition 3), Azure SQL Database (5) and Managed
--   Instance (8). Elsewhere ONLINE = ON is an error, so it comes by dynamic SQL. No transaction around it: it would keep the lock of the last
--   phase.
-- - It waits for no lock longer than LOCK_TIMEOUT.
IF NOT EXISTS (SELECT 1 FROM [readpast].[schema_version] WHERE version >= 2)
BEGIN
    BEGIN TRY
        IF COL_LENGTH(N'[readpast].[jobs]', N'time_limit_ms') IS NULL
            ALTER TABLE [readpast].[jobs] ADD time_limit_ms int NULL;
        IF COL_LENGTH(N'[readpast].[jobs]', N'checkpointed') IS NULL
            ALTER TABLE [readpast].[jobs] ADD checkpointed bit NULL;
        IF COL_LENGTH(N'[readpast].[archive]', N'time_limit_ms') IS NULL
            ALTER TABLE [readpast].[archive] ADD time_limit_ms int NULL;
        -- Two names of 128 characters in brackets, where each ] is two.
        IF COL_LENGTH(N'[readpast].[queues]', N'sink') IS NULL
            ALTER TABLE [readpast].[queues] ADD sink nvarchar(517) NULL;
        IF COL_LENGTH(N'[readpast].[jobs]', N'cancelling') IS NULL
            ALTER TABLE [readpast].[jobs] ADD cancelling bit NULL;
        IF COL_LENGTH(N'[readpast].[samples]', N'cancelled') IS NULL
            ALTER TABLE [readpast].[samples] ADD cancelled bigint NULL;
        IF COL_LENGTH(N'[readpast].[jobs]', N'headers') IS NULL
            ALTER TABLE [readpast].[jobs] ADD headers nvarchar(1500) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[readpast].[jobs]', N'batch_id') IS NULL
            ALTER TABLE [readpast].[jobs] ADD batch_id bigint NULL;
        IF COL_LENGTH(N'[readpast].[jobs]', N'group_key') IS NULL
            ALTER TABLE [readpast].[jobs] ADD group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[readpast].[jobs]', N'in_turn') IS NULL
            ALTER TABLE [readpast].[jobs] ADD in_turn bit NULL;
        IF COL_LENGTH(N'[readpast].[jobs]', N'plain') IS NULL
            ALTER TABLE [readpast].[jobs] ADD plain bit NULL;
        IF COL_LENGTH(N'[readpast].[archive]', N'headers') IS NULL
            ALTER TABLE [readpast].[archive] ADD headers nvarchar(1500) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[readpast].[archive]', N'batch_id') IS NULL
            ALTER TABLE [readpast].[archive] ADD batch_id bigint NULL;
        IF COL_LENGTH(N'[readpast].[archive]', N'group_key') IS NULL
            ALTER TABLE [readpast].[archive] ADD group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[readpast].[samples]', N'waiting') IS NULL
            ALTER TABLE [readpast].[samples] ADD waiting bigint NULL;
        IF COL_LENGTH(N'[readpast].[samples]', N'open_batches') IS NULL
            ALTER TABLE [readpast].[samples] ADD open_batches bigint NULL;
        IF COL_LENGTH(N'[readpast].[queues]', N'group_limit') IS NULL
            ALTER TABLE [readpast].[queues] ADD group_limit int NOT NULL CONSTRAINT queues_group_limit DEFAULT 1;
        IF COL_LENGTH(N'[readpast].[queues]', N'retry_passes') IS NULL
            ALTER TABLE [readpast].[queues] ADD retry_passes bit NOT NULL CONSTRAINT queues_retry_passes DEFAULT 0;
        IF COL_LENGTH(N'[readpast].[queues]', N'max_running') IS NULL
            ALTER TABLE [readpast].[queues] ADD max_running int NULL;
        IF COL_LENGTH(N'[readpast].[queues]', N'rate_jobs') IS NULL
            ALTER TABLE [readpast].[queues] ADD rate_jobs int NULL;
        IF COL_LENGTH(N'[readpast].[queues]', N'rate_ms') IS NULL
            ALTER TABLE [readpast].[queues] ADD rate_ms bigint NULL;
        -- One statement: where the last column is there, all are.
        IF COL_LENGTH(N'[readpast].[workers]', N'limited_by') IS NULL
            ALTER TABLE [readpast].[workers]
            ADD reported_at datetime2(3) NULL, running int NULL, done bigint NULL, failed bigint NULL, done_per_s real NULL, failed_per_s real NULL,
                limited_by varchar(16) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[readpast].[workers]', N'noted_times') IS NULL
            ALTER TABLE [readpast].[workers]
            ADD report_no bigint NULL, dead bigint NULL, times varchar(1400) COLLATE Latin1_General_100_BIN2 NULL,
                noted_done bigint NULL, noted_failed bigint NULL, noted_dead bigint NULL,
                noted_times varchar(1400) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[readpast].[samples]', N'notes') IS NULL
            ALTER TABLE [readpast].[samples] ADD notes int NOT NULL CONSTRAINT samples_notes DEFAULT 0;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() = 1222
            THROW 58012, N'a table of schema readpast is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
        THROW;
    END CATCH;
END;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The unfinished jobs of a batch, and those that wait for their turn in a group, in the order in which they get it.
BEGIN TRY
    DECLARE @online nvarchar(20) = CASE WHEN CAST(SERVERPROPERTY(N'EngineEdition') AS int) IN (3, 5, 8) THEN N', ONLINE = ON' END;
    IF INDEXPROPERTY(OBJECT_ID(N'[readpast].[jobs]'), N'jobs_batch', 'IndexID') IS NULL
    BEGIN
        IF @online IS NOT NULL
            EXEC (N'CREATE NONCLUSTERED INDEX jobs_batch ON [readpast].[jobs] (batch_id, job_id) WHERE batch_id IS NOT NULL AND ended = 0
                    WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF' + @online + N')');
        ELSE
            CREATE NONCLUSTERED INDEX jobs_batch ON [readpast].[jobs] (batch_id, job_id) WHERE batch_id IS NOT NULL AND ended = 0
                WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);
    END;
    IF INDEXPROPERTY(OBJECT_ID(N'[readpast].[jobs]'), N'jobs_waiting', 'IndexID') IS NULL
    BEGIN
        IF @online IS NOT NULL
            EXEC (N'CREATE NONCLUSTERED INDEX jobs_waiting ON [readpast].[jobs] (queue_id, group_key, job_id) WHERE state = 6
                    WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF' + @online + N')');
        ELSE
            CREATE NONCLUSTERED INDEX jobs_waiting ON [readpast].[jobs] (queue_id, group_key, job_id) WHERE state = 6
                WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);
    END;
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() = 1222
        THROW 58012, N'a table of schema readpast is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
    THROW;
END CATCH;
GO

-- 082_progress.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- What running jobs have noted about themselves: a checkpoint, with which the next attempt goes on, and how far they are, for people. A row only
-- for a job that has noted something; it stays until expire finds that the job is gone or done.
IF OBJECT_ID(N'[readpast].[progress]', N'U') IS NULL
    CREATE TABLE [readpast].[progress]
    (
        job_id     bigint         NOT NULL,
        queue_id   int            NOT NULL,
        fence      int            NOT NULL,  -- of the claim under which it was noted
        noted_at   datetime2(3)   NOT NULL,
        fraction   real           NULL,      -- 0 to 1
        text       nvarchar(400)  NULL,
        [checkpoint] varbinary(max) NULL,
        CONSTRAINT progress_pk PRIMARY KEY CLUSTERED (job_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        -- For expire, which need not read the checkpoints.
        INDEX progress_queue NONCLUSTERED (queue_id, job_id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO

-- 085_schedules.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- A schedule: at which times a job comes into the queue by itself. T-SQL cannot read a cron expression: the worker that has the duties of the queue
-- works out the times and calls fire_schedule for each.
-- Rows are only a few. Those who read and change them in the workers' name skip what is locked, so that nobody's transaction stops the duties; hence
-- no page locks.
IF OBJECT_ID(N'[readpast].[schedules]', N'U') IS NULL
    CREATE TABLE [readpast].[schedules]
    (
        queue_id       int              NOT NULL,
        name           nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,
        cron           varchar(256)     COLLATE Latin1_General_100_BIN2 NOT NULL,
        time_zone      varchar(64)      COLLATE Latin1_General_100_BIN2 NOT NULL,  -- a name of the IANA database, such as Europe/Berlin
        make_up        int              NOT NULL,  -- of the times that were missed, the last so many are made up for
        jitter_ms      int              NOT NULL,  -- each job starts up to so much later than its time, at random
        -- The job, as enqueue takes it.
        priority       smallint         NOT NULL,
        max_attempts   int              NULL,
        time_limit_ms  int              NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,  -- NULL: each job has a key of its own, from name and time
        correlation_id uniqueidentifier NULL,
        headers        nvarchar(1300)   COLLATE Latin1_General_100_BIN2 NULL,
        group_key      nvarchar(128)    COLLATE Latin1_General_100_BIN2 NULL,
        payload_utf16  bit              NOT NULL,
        payload        varbinary(max)   NOT NULL,
        -- Where it stands.
        paused         bit              NOT NULL CONSTRAINT schedules_paused DEFAULT 0,
        revision       int              NOT NULL CONSTRAINT schedules_revision DEFAULT 1,  -- grows with each change: what was read before fires none
        next_at        datetime2(3)     NOT NULL,  -- the next time; when it was just set or resumed: since when times count
        look_at        datetime2(3)     NOT NULL,  -- when a worker looks at it next: next_at, or ten seconds after it could not be fired
        last_at        datetime2(3)     NULL,      -- the last time that was fired
        error          nvarchar(2048)   NULL,      -- why it could not be fired the last time that a worker looked
        CONSTRAINT schedules_pk PRIMARY KEY CLUSTERED (queue_id, name) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX schedules_due NONCLUSTERED (queue_id, look_at) WHERE paused = 0 WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO

-- 086_batches.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- A batch: jobs that belong together, in any queues, and a follow-up that is enqueued once, when all of them have ended. Jobs come in until it is
-- sealed. Three tables, so that nobody who acknowledges jobs waits for a producer's transaction:
-- batches: what it is. Who adds jobs shares a lock on the row until the end of its transaction, so that sealing waits for it.
-- batch_additions: how many jobs came in, a row for each call, and which of the batch's parts (@part of enqueue) did; when it is sealed, the sum of
-- the jobs becomes batch_counts.members.
-- batch_counts: how its jobs have ended, added to once for each call that ends some.
-- Locks are taken in the order batches, jobs, batch_counts, and within each by number.
IF OBJECT_ID(N'[readpast].[batches]', N'U') IS NULL
    CREATE TABLE [readpast].[batches]
    (
        batch_id       bigint           NOT NULL IDENTITY (1, 1),
        queue_id       int              NOT NULL,  -- of the follow-up
        name           nvarchar(128)    NULL,      -- for people
        parent_id      bigint           NULL,      -- the batch that the follow-up belongs to; it was there before, so that there are no circles
        created_at     datetime2(3)     NOT NULL,
        sealed_at      datetime2(3)     NULL,
        -- The follow-up, as enqueue takes it.
        priority       smallint         NOT NULL,
        max_attempts   int              NULL,
        time_limit_ms  int              NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        headers        nvarchar(1300)   COLLATE Latin1_General_100_BIN2 NULL,
        payload_utf16  bit              NOT NULL,
        payload        varbinary(max)   NULL,      -- NULL: there is none
        CONSTRAINT batches_pk PRIMARY KEY CLUSTERED (batch_id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX batches_parent NONCLUSTERED (parent_id, batch_id) WHERE parent_id IS NOT NULL
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
IF OBJECT_ID(N'[readpast].[batch_additions]', N'U') IS NULL
    CREATE TABLE [readpast].[batch_additions]
    (
        batch_id    bigint NOT NULL,
        addition_id bigint NOT NULL IDENTITY (1, 1),
        jobs        int    NOT NULL,
        part        bigint NULL,      -- its call was this part of what is enqueued for the batch; of a part there is one
        CONSTRAINT batch_additions_pk PRIMARY KEY CLUSTERED (batch_id, addition_id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX batch_additions_part UNIQUE NONCLUSTERED (batch_id, part) WHERE part IS NOT NULL
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Sealing deletes all rows of a batch at once: those who add jobs to others must not wait for the table.
BEGIN TRY
    IF EXISTS (SELECT 1 FROM sys.tables WHERE object_id = OBJECT_ID(N'[readpast].[batch_additions]') AND lock_escalation_desc <> N'DISABLE')
        ALTER TABLE [readpast].[batch_additions] SET (LOCK_ESCALATION = DISABLE);
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() = 1222
        THROW 58012, N'a table of schema readpast is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
    THROW;
END CATCH;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
IF OBJECT_ID(N'[readpast].[batch_counts]', N'U') IS NULL
    CREATE TABLE [readpast].[batch_counts]
    (
        batch_id     bigint       NOT NULL,
        queue_id     int          NOT NULL,  -- of the follow-up
        members      bigint       NULL,      -- how many jobs it has; NULL: it is not sealed yet
        done         bigint       NOT NULL CONSTRAINT batch_counts_done DEFAULT 0,
        dead         bigint       NOT NULL CONSTRAINT batch_counts_dead DEFAULT 0,
        cancelled    bigint       NOT NULL CONSTRAINT batch_counts_cancelled DEFAULT 0,
        ended_at     datetime2(3) NULL,      -- when the last one had ended; from then on nothing here changes
        follow_up_id bigint       NULL,      -- the job that was enqueued then
        CONSTRAINT batch_counts_pk PRIMARY KEY CLUSTERED (batch_id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX batch_counts_queue NONCLUSTERED (queue_id, batch_id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX batch_counts_ended NONCLUSTERED (queue_id, ended_at, batch_id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- A table lock, to which the locks of one statement escalate, is not skipped by READPAST.
BEGIN TRY
    IF EXISTS (SELECT 1 FROM sys.tables WHERE object_id = OBJECT_ID(N'[readpast].[batches]') AND lock_escalation_desc <> N'DISABLE')
        ALTER TABLE [readpast].[batches] SET (LOCK_ESCALATION = DISABLE);
    IF EXISTS (SELECT 1 FROM sys.tables WHERE object_id = OBJECT_ID(N'[readpast].[batch_additions]') AND lock_escalation_desc <> N'DISABLE')
        ALTER TABLE [readpast].[batch_additions] SET (LOCK_ESCALATION = DISABLE);
    IF EXISTS (SELECT 1 FROM sys.tables WHERE object_id = OBJECT_ID(N'[readpast].[batch_counts]') AND lock_escalation_desc <> N'DISABLE')
        ALTER TABLE [readpast].[batch_counts] SET (LOCK_ESCALATION = DISABLE);
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() = 1222
        THROW 58012, N'a table of schema readpast is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
    THROW;
END CATCH;
GO

-- 087_groups.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Groups: jobs of a queue with one key, of which no more than the queue's group_limit have the turn at once (ready, claimed or scheduled for their next
-- attempt); the others wait in state 6, where no claim meets them.
-- groups: how many have the turn; a row only where there are some. Only advance_groups touches it.
-- group_events: what advance_groups is to look at. Rows are only added, by whoever enqueues or ends jobs and in the same transaction, so that nobody
-- waits for anybody here: to a group has come a job (ended = 0), or jobs of it have given their turn away.
IF OBJECT_ID(N'[readpast].[groups]', N'U') IS NULL
    CREATE TABLE [readpast].[groups]
    (
        queue_id  int           NOT NULL,
        group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
        in_turn   int           NOT NULL,
        CONSTRAINT groups_pk PRIMARY KEY CLUSTERED (queue_id, group_key) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
IF OBJECT_ID(N'[readpast].[group_events]', N'U') IS NULL
    CREATE TABLE [readpast].[group_events]
    (
        queue_id  int           NOT NULL,
        event_id  bigint        NOT NULL IDENTITY (1, 1),
        group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
        ended     int           NOT NULL,
        CONSTRAINT group_events_pk PRIMARY KEY CLUSTERED (queue_id, event_id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Queues that have had jobs in batches or groups: where there is no row, acknowledgements do not even look for such jobs. A row for each transaction
-- that found none committed: nobody waits for another's.
IF OBJECT_ID(N'[readpast].[linked_queues]', N'U') IS NULL
    CREATE TABLE [readpast].[linked_queues]
    (
        queue_id int    NOT NULL,
        link_id  bigint NOT NULL IDENTITY (1, 1),
        CONSTRAINT linked_queues_pk PRIMARY KEY CLUSTERED (queue_id, link_id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- A table lock, to which the locks of one statement escalate, is not skipped by READPAST.
BEGIN TRY
    IF EXISTS (SELECT 1 FROM sys.tables WHERE object_id = OBJECT_ID(N'[readpast].[groups]') AND lock_escalation_desc <> N'DISABLE')
        ALTER TABLE [readpast].[groups] SET (LOCK_ESCALATION = DISABLE);
    IF EXISTS (SELECT 1 FROM sys.tables WHERE object_id = OBJECT_ID(N'[readpast].[group_events]') AND lock_escalation_desc <> N'DISABLE')
        ALTER TABLE [readpast].[group_events] SET (LOCK_ESCALATION = DISABLE);
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() = 1222
        THROW 58012, N'a table of schema readpast is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
    THROW;
END CATCH;
GO

-- 088_claim_rates.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- How many jobs were claimed when, of queues with a rate (see claim_limited): in slots of a hundredth of its interval.
IF OBJECT_ID(N'[readpast].[claim_rates]', N'U') IS NULL
    CREATE TABLE [readpast].[claim_rates]
    (
        queue_id int    NOT NULL,
        slot_ms  bigint NOT NULL,  -- when the slot begins: milliseconds since 2000
        claimed  int    NOT NULL,
        CONSTRAINT claim_rates_pk PRIMARY KEY CLUSTERED (queue_id, slot_ms) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO

-- 089_history.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- What became of each queue, minute by minute, for charts. note_history writes a row for each minute in which the depth was sampled, which a worker
-- does all the time; so there are gaps where no worker ran. Of what is older than a day, thin_history makes one row of ten minutes, for 90 days.
IF OBJECT_ID(N'[readpast].[history]', N'U') IS NULL
    CREATE TABLE [readpast].[history]
    (
        queue_id        int           NOT NULL,
        at              datetime2(0)  NOT NULL,  -- where it begins, a whole minute
        minutes         tinyint       NOT NULL,  -- how long it is: 1 to 10
        -- The depth as it was last sampled in this time; with ten minutes, the greatest of each.
        ready           bigint        NOT NULL,
        scheduled       bigint        NOT NULL,
        waiting         bigint        NOT NULL,
        claimed         bigint        NOT NULL,
        dead            bigint        NOT NULL,
        cancelled       bigint        NOT NULL,
        workers         bigint        NOT NULL,
        oldest_ready_ms bigint        NULL,      -- NULL: nothing was ready
        -- What the workers said that they did, until it was written: about in this time.
        done            bigint        NOT NULL,
        failed          bigint        NOT NULL,  -- attempts; the job was retried or is dead
        died            bigint        NOT NULL,  -- jobs that were dead after such an attempt
        times           varchar(1400) COLLATE Latin1_General_100_BIN2 NULL,  -- see heartbeat; NULL: nothing ran
        CONSTRAINT history_pk PRIMARY KEY CLUSTERED (queue_id, at) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        -- What is to be thinned: a day's rows at the most.
        INDEX history_minutes NONCLUSTERED (queue_id, at) WHERE minutes < 10 WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO

-- 092_audit.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- What people have done to queues and jobs, as the programs note it that they do it with. A row is written before the action and completed after it, so
-- that one without an end was broken off, or is under way. Kept for 400 days at least (begin_audit). Not on the way of any job.
IF OBJECT_ID(N'[readpast].[audit]', N'U') IS NULL
    CREATE TABLE [readpast].[audit]
    (
        audit_id bigint        NOT NULL IDENTITY (1, 1),
        began_at datetime2(3)  NOT NULL,
        ended_at datetime2(3)  NULL,
        who      nvarchar(256) NOT NULL,  -- the person, as the program knows them
        login    nvarchar(128) NOT NULL,  -- who SQL Server knows: the program's login
        action   varchar(32)   COLLATE Latin1_General_100_BIN2 NOT NULL,
        queue    nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL,  -- by its name: the row stays when the queue is deleted. NULL: no one queue
        what     nvarchar(max) NULL,      -- which jobs, or what else there is to say: JSON
        jobs     bigint        NULL,      -- how many were changed
        outcome  nvarchar(400) NULL,      -- how it ended, or the error
        CONSTRAINT audit_pk PRIMARY KEY CLUSTERED (audit_id),
        INDEX audit_queue NONCLUSTERED (queue, audit_id)
    );
GO

-- 100_enqueue_list.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Jobs to enqueue. Either payload or text: text is for producers in T-SQL, whose JSON is nvarchar.
IF TYPE_ID(N'[readpast].[enqueue_list]') IS NULL
    CREATE TYPE [readpast].[enqueue_list] AS TABLE
    (
        ordinal        int              NOT NULL PRIMARY KEY CLUSTERED,  -- the caller's order; jobs get their ids in it
        payload        varbinary(max)   NULL,
        text           nvarchar(max)    NULL,
        priority       smallint         NULL,  -- NULL: 0
        delay_ms       bigint           NULL,  -- from now, by SQL Server's clock
        due_at         datetime2(3)     NULL,  -- or: a point in time, UTC
        max_attempts   int              NULL,  -- NULL: the queue's
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL
    );
GO

-- 105_detail_list.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- What few of the jobs to enqueue have, beside the enqueue_list that has the jobs: a row only for those that have any of it.
IF TYPE_ID(N'[readpast].[detail_list]') IS NULL
    CREATE TYPE [readpast].[detail_list] AS TABLE
    (
        ordinal       int            NOT NULL PRIMARY KEY CLUSTERED,  -- the job's
        time_limit_ms bigint         NULL,
        headers       nvarchar(1301) NULL,
        group_key     nvarchar(129)  COLLATE Latin1_General_100_BIN2 NULL,
        batch_id      bigint         NULL
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Granted here as well as in 900_roles: in an upgrade, the producers' procedures take this type before that script is run.
IF DATABASE_PRINCIPAL_ID(N'readpast_producer') IS NOT NULL
    GRANT EXECUTE ON TYPE::[readpast].[detail_list] TO [readpast_producer];
IF DATABASE_PRINCIPAL_ID(N'readpast_operator') IS NOT NULL
    GRANT EXECUTE ON TYPE::[readpast].[detail_list] TO [readpast_operator];
GO

-- 110_finish_list.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Acknowledgements. outcome: 0 done, 1 retry, 2 dead, 3 snooze (as retry, but the attempt does not count).
-- The clustered key gives the order in which rows are locked, so that two finishers cannot deadlock.
IF TYPE_ID(N'[readpast].[finish_list]') IS NULL
    CREATE TYPE [readpast].[finish_list] AS TABLE
    (
        job_id   bigint         NOT NULL PRIMARY KEY CLUSTERED,
        fence    int            NOT NULL,
        outcome  tinyint        NOT NULL,
        retry_ms bigint         NULL,  -- outcome 1 and 3: how long to wait; NULL or 0: ready at once
        run_us   bigint         NULL,
        error    nvarchar(4000) NULL,
        output   varbinary(max) NULL   -- outcome 0: for the sink, and kept by the policies annotate and archive
    );
GO

-- 112_follow_up_list.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Follow-ups: jobs to enqueue in the transaction in which the jobs of job_id are acknowledged as done, see finish_with.
IF TYPE_ID(N'[readpast].[follow_up_list]') IS NULL
    CREATE TYPE [readpast].[follow_up_list] AS TABLE
    (
        ordinal        int              NOT NULL PRIMARY KEY CLUSTERED,  -- the caller's order; within a queue, jobs get their ids in it
        job_id         bigint           NOT NULL,  -- the job that it follows
        queue          nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,
        payload        varbinary(max)   NOT NULL,
        priority       smallint         NULL,  -- NULL: 0
        delay_ms       bigint           NULL,  -- from now, by SQL Server's clock
        due_at         datetime2(3)     NULL,  -- or: a point in time, UTC
        max_attempts   int              NULL,  -- NULL: the queue's
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        time_limit_ms  bigint           NULL,
        headers        nvarchar(1301)   NULL,
        group_key      nvarchar(129)    COLLATE Latin1_General_100_BIN2 NULL,
        batch_id       bigint           NULL
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Granted here as well as in 900_roles: in an upgrade, the workers' finish_one takes this type before that script is run.
IF DATABASE_PRINCIPAL_ID(N'readpast_worker') IS NOT NULL
    GRANT EXECUTE ON TYPE::[readpast].[follow_up_list] TO [readpast_worker];
GO

-- 114_sink_list.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- What a queue's sink gets: the jobs that are done in one acknowledgement. A sink is a procedure of the user's with one parameter of this type.
IF TYPE_ID(N'[readpast].[sink_list]') IS NULL
    CREATE TYPE [readpast].[sink_list] AS TABLE
    (
        job_id         bigint           NOT NULL PRIMARY KEY CLUSTERED,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        fence          int              NOT NULL,
        output         varbinary(max)   NULL
    );
GO

-- 115_attempt_list.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Attempts that have failed, for note_attempts.
IF TYPE_ID(N'[readpast].[attempt_list]') IS NULL
    CREATE TYPE [readpast].[attempt_list] AS TABLE
    (
        job_id    bigint           NOT NULL PRIMARY KEY CLUSTERED,
        fence     int              NOT NULL,
        attempt   int              NOT NULL,
        worker_id uniqueidentifier NOT NULL,
        worker    nvarchar(128)    NOT NULL,
        run_us    bigint           NULL,
        error     nvarchar(4000)   NULL
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Granted here as well as in 900_roles, which an upgrade runs only after the procedures: finish and reap declare it.
IF DATABASE_PRINCIPAL_ID(N'readpast_worker') IS NOT NULL
    GRANT EXECUTE ON TYPE::[readpast].[attempt_list] TO [readpast_worker];
GO

-- 117_member_list.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Jobs of batches or groups that have ended or given their turn away, for note_ends.
IF TYPE_ID(N'[readpast].[member_list]') IS NULL
    CREATE TYPE [readpast].[member_list] AS TABLE
    (
        job_id    bigint        NOT NULL PRIMARY KEY CLUSTERED,
        state     tinyint       NULL,      -- what became of it: 3 done, 4 dead, 5 cancelled; anything else: it has not ended
        in_turn   bit           NULL,      -- 1: it has the turn in its group
        batch_id  bigint        NULL,
        group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Granted here as well as in 900_roles, which an upgrade runs only after the procedures: finish, release and reap declare it.
IF DATABASE_PRINCIPAL_ID(N'readpast_worker') IS NOT NULL
    GRANT EXECUTE ON TYPE::[readpast].[member_list] TO [readpast_worker];
IF DATABASE_PRINCIPAL_ID(N'readpast_operator') IS NOT NULL
    GRANT EXECUTE ON TYPE::[readpast].[member_list] TO [readpast_operator];
GO

-- 120_job_list.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Jobs that a worker holds.
IF TYPE_ID(N'[readpast].[job_list]') IS NULL
    CREATE TYPE [readpast].[job_list] AS TABLE
    (
        job_id bigint NOT NULL PRIMARY KEY CLUSTERED,
        fence  int    NOT NULL
    );
GO

-- 125_id_list.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Jobs of a queue, for operators and producers.
IF TYPE_ID(N'[readpast].[id_list]') IS NULL
    CREATE TYPE [readpast].[id_list] AS TABLE
    (
        job_id bigint NOT NULL PRIMARY KEY CLUSTERED
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Granted here as well as in 900_roles: in an upgrade, procedures that the roles may run already take this type before that script is run.
IF DATABASE_PRINCIPAL_ID(N'readpast_producer') IS NOT NULL
    GRANT EXECUTE ON TYPE::[readpast].[id_list] TO [readpast_producer];
IF DATABASE_PRINCIPAL_ID(N'readpast_operator') IS NOT NULL
    GRANT EXECUTE ON TYPE::[readpast].[id_list] TO [readpast_operator];
IF DATABASE_PRINCIPAL_ID(N'readpast_monitor') IS NOT NULL
    GRANT EXECUTE ON TYPE::[readpast].[id_list] TO [readpast_monitor];
GO

-- 127_progress_list.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- What jobs have noted. NULL: as it was.
IF TYPE_ID(N'[readpast].[progress_list]') IS NULL
    CREATE TYPE [readpast].[progress_list] AS TABLE
    (
        job_id       bigint         NOT NULL PRIMARY KEY CLUSTERED,
        fence        int            NOT NULL,
        fraction     real           NULL,
        text         nvarchar(400)  NULL,
        [checkpoint] varbinary(max) NULL
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Granted here as well as in 900_roles, which an upgrade runs only after the procedures.
IF DATABASE_PRINCIPAL_ID(N'readpast_worker') IS NOT NULL
    GRANT EXECUTE ON TYPE::[readpast].[progress_list] TO [readpast_worker];
GO

-- 200_create_queue.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Creates a queue, or changes the settings of an existing one; NULL leaves a setting as it is (for a new queue: the default).
-- What is no longer to be kept is deleted by the workers, see expire.
-- Result: queue_id, created.
-- Parameters are wider than the longest value, so that a longer one is refused and not cut.
CREATE OR ALTER PROCEDURE [readpast].[create_queue]
    @queue        nvarchar(129),
    @claim_order  varchar(32)   = NULL,  -- fifo (default), lifo, any
    @completion   varchar(32)   = NULL,  -- delete (default), annotate, archive
    @delivery     varchar(32)   = NULL,  -- at_least_once (default), at_most_once
    @max_attempts int           = NULL,  -- 5 by default; 1 and more
    @keep_done_s  int           = NULL,  -- how many seconds done jobs are kept (annotate, archive), up to ten years; 0: for ever (default)
    @keep_dead_s  int           = NULL,  -- the same of dead jobs
    @sink         nvarchar(517) = NULL,  -- the procedure that finish calls with the jobs that are done, as schema.name; empty: none (default)
    @group_limit  int           = NULL,  -- how many jobs of one group_key have the turn at once: 1 (default) to 1000
    @retry_passes bit           = NULL,  -- 1: a job that is retried gives its turn away and gets the next that is free when it is due; 0 (default): it keeps it
    @max_running  int           = NULL,  -- how many jobs all workers together hold at once: up to 100000; 0: no limit (default)
    @rate_jobs    int           = NULL,  -- how many jobs all workers together claim in any @rate_ms; 0: no limit (default)
    @rate_ms      bigint        = NULL   -- with @rate_jobs: 100 to 86400000 (a day)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @message nvarchar(2048), @sink_id int;

IF @queue IS NULL OR LEN(@queue) = 0 OR DATALENGTH(@queue) > 256 OR DATALENGTH(@queue) <> DATALENGTH(LTRIM(RTRIM(@queue)))
    THROW 58003, N'the name of a queue must have 1 to 128 characters, without spaces at its ends', 1;
-- In the words' own spelling, whatever the database's collation takes for equal to them.
SET @claim_order = CASE @claim_order WHEN 'fifo' THEN 'fifo' WHEN 'lifo' THEN 'lifo' WHEN 'any' THEN 'any' ELSE @claim_order END;
SET @completion = CASE @completion WHEN 'delete' THEN 'delete' WHEN 'annotate' THEN 'annotate' WHEN 'archive' THEN 'archive' ELSE @completion END;
SET @delivery = CASE @delivery WHEN 'at_least_once' THEN 'at_least_once' WHEN 'at_most_once' THEN 'at_most_once' ELSE @delivery END;
IF @claim_order NOT IN ('fifo', 'lifo', 'any')
BEGIN
    SET @message = CONCAT(N'claim_order is ''', @claim_order, N'''; it must be fifo, lifo or any');
    THROW 58003, @message, 1;
END;
IF @completion NOT IN ('delete', 'annotate', 'archive')
BEGIN
    SET @message = CONCAT(N'completion is ''', @completion, N'''; it must be delete, annotate or archive');
    THROW 58003, @message, 1;
END;
IF @delivery NOT IN ('at_least_once', 'at_most_once')
BEGIN
    SET @message = CONCAT(N'delivery is ''', @delivery, N'''; it must be at_least_once or at_most_once');
    THROW 58003, @message, 1;
END;
IF @max_attempts < 1
BEGIN
    SET @message = CONCAT(N'max_attempts is ', @max_attempts, N'; it must be 1 or more');
    THROW 58003, @message, 1;
END;
IF @keep_done_s < 0 OR @keep_done_s > 315360000
BEGIN
    SET @message = CONCAT(N'keep_done_s is ', @keep_done_s, N'; it must be between 1 and 315360000 (ten years), or 0 for ever');
    THROW 58003, @message, 1;
END;
IF @keep_dead_s < 0 OR @keep_dead_s > 315360000
BEGIN
    SET @message = CONCAT(N'keep_dead_s is ', @keep_dead_s, N'; it must be between 1 and 315360000 (ten years), or 0 for ever');
    THROW 58003, @message, 1;
END;
IF @group_limit < 1 OR @group_limit > 1000
BEGIN
    SET @message = CONCAT(N'group_limit is ', @group_limit, N'; it must be 1 to 1000');
    THROW 58003, @message, 1;
END;
IF @max_running < 0 OR @max_running > 100000
BEGIN
    SET @message = CONCAT(N'max_running is ', @max_running, N'; it must be 1 to 100000, or 0 for no limit');
    THROW 58003, @message, 1;
END;
IF @rate_jobs < 0 OR @rate_jobs > 0 AND ISNULL(@rate_ms, 0) NOT BETWEEN 100 AND 86400000 OR ISNULL(@rate_jobs, 0) = 0 AND @rate_ms IS NOT NULL
BEGIN
    SET @message = CONCAT(N'rate_jobs is ', @rate_jobs, N', rate_ms ', @rate_ms,
                          N'; rate_jobs must be 1 or more, with rate_ms between 100 and 86400000 (a day), or 0 for no limit, without rate_ms');
    THROW 58003, @message, 1;
END;
-- The catalog shows only what the caller may use or see: so who sets a sink must have the right to call it, or to see its definition.
IF @sink <> N''
BEGIN
    SET @sink_id = OBJECT_ID(@sink, N'P');
    IF @sink_id IS NULL
    BEGIN
        SET @message = CONCAT(N'sink is ''', @sink, N'''; it must be a procedure of this database on which you have EXECUTE or VIEW DEFINITION');
        THROW 58003, @message, 1;
    END;
    IF (SELECT COUNT(*) FROM sys.parameters WHERE object_id = @sink_id) <> 1
        OR NOT EXISTS (SELECT 1 FROM sys.parameters WHERE object_id = @sink_id AND user_type_id = TYPE_ID(N'[readpast].[sink_list]'))
    BEGIN
        SET @message = CONCAT(N'sink is ''', @sink, N'''; it must be a procedure with one parameter, a [readpast].[sink_list] READONLY');
        THROW 58003, @message, 1;
    END;
    SET @sink = CONCAT(QUOTENAME(OBJECT_SCHEMA_NAME(@sink_id)), N'.', QUOTENAME(OBJECT_NAME(@sink_id)));
END;

DECLARE @queue_id int, @old_order varchar(4), @old_delivery varchar(13), @old_sink nvarchar(517), @old_running int, @old_rate int, @created bit = 0;

BEGIN TRANSACTION;
-- HOLDLOCK on the unique name: two sessions that create the same queue meet here, not at a duplicate key.
SELECT @queue_id = queue_id, @old_order = claim_order, @old_delivery = delivery, @old_sink = sink,
       @old_running = max_running, @old_rate = rate_jobs
FROM [readpast].[queues] WITH (UPDLOCK, HOLDLOCK)
WHERE name = @queue;

IF COALESCE(@delivery, @old_delivery) = 'at_most_once' AND COALESCE(@sink, @old_sink) <> N''
    THROW 58003, N'a queue with delivery at_most_once cannot have a sink: its jobs are not acknowledged; set one of the two', 1;

IF COALESCE(@delivery, @old_delivery) = 'at_most_once'
    AND (COALESCE(@max_running, @old_running) > 0 OR COALESCE(@rate_jobs, @old_rate) > 0)
    THROW 58003, N'a queue with delivery at_most_once cannot have max_running or a rate: its jobs are not acknowledged; set one of the two', 1;

IF @queue_id IS NULL
BEGIN
    INSERT [readpast].[queues] (name, claim_order, completion, delivery, max_attempts, keep_done_s, keep_dead_s, sink, group_limit, retry_passes,
                                   max_running, rate_jobs, rate_ms)
    VALUES (@queue, ISNULL(@claim_order, 'fifo'), ISNULL(@completion, 'delete'), ISNULL(@delivery, 'at_least_once'), ISNULL(@max_attempts, 5),
            NULLIF(@keep_done_s, 0), NULLIF(@keep_dead_s, 0), NULLIF(@sink, N''), ISNULL(@group_limit, 1), ISNULL(@retry_passes, 0),
            NULLIF(@max_running, 0), NULLIF(@rate_jobs, 0), @rate_ms);
    SET @queue_id = CAST(SCOPE_IDENTITY() AS int);
    INSERT [readpast].[duties] (queue_id) VALUES (@queue_id);
    SET @created = 1;
END;
ELSE
BEGIN
    -- To and from lifo, unfinished jobs would stand in the wrong ready index.
    IF (@old_order = 'lifo' AND @claim_order <> 'lifo' OR @old_order <> 'lifo' AND @claim_order = 'lifo')
        AND (   EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
             OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
             OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
             OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state = 1)
             OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state = 2)
             OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND ended = 1)
             OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state = 6))
    BEGIN
        SET @message = CONCAT(N'queue ''', @queue, N''' is ', @old_order, N' and has jobs; work them off and purge before changing it to ', @claim_order);
        THROW 58003, @message, 1;
    END;
    UPDATE [readpast].[queues]
    SET claim_order  = ISNULL(@claim_order, claim_order),
        completion   = ISNULL(@completion, completion),
        delivery     = ISNULL(@delivery, delivery),
        max_attempts = ISNULL(@max_attempts, max_attempts),
        keep_done_s  = CASE WHEN @keep_done_s IS NULL THEN keep_done_s ELSE NULLIF(@keep_done_s, 0) END,
        keep_dead_s  = CASE WHEN @keep_dead_s IS NULL THEN keep_dead_s ELSE NULLIF(@keep_dead_s, 0) END,
        sink         = CASE WHEN @sink IS NULL THEN sink ELSE NULLIF(@sink, N'') END,
        group_limit  = ISNULL(@group_limit, group_limit),
        retry_passes = ISNULL(@retry_passes, retry_passes),
        max_running  = CASE WHEN @max_running IS NULL THEN max_running ELSE NULLIF(@max_running, 0) END,
        rate_jobs    = CASE WHEN @rate_jobs IS NULL THEN rate_jobs ELSE NULLIF(@rate_jobs, 0) END,
        rate_ms      = CASE WHEN @rate_jobs IS NULL THEN rate_ms ELSE @rate_ms END
    WHERE queue_id = @queue_id;
    -- Behind the change: whoever brings in the first such job notes it, and then looks at this setting (link_queue). One of the two sees the other.
    IF @delivery = 'at_most_once' AND @old_delivery <> 'at_most_once'
        AND EXISTS (SELECT 1 FROM [readpast].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
        THROW 58003, N'a queue that has had groups or jobs of batches cannot have delivery at_most_once: its jobs would not be acknowledged', 1;
END;
COMMIT TRANSACTION;

SELECT @queue_id AS queue_id, @created AS created;
GO

-- 205_check_headers.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For those that take a job: refuses headers that are no JSON object, are too long, or have names that are readpast's own. (enqueue_batch checks
-- those of all its jobs at once.)
CREATE OR ALTER PROCEDURE [readpast].[check_headers]
    @headers nvarchar(1301)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
IF DATALENGTH(@headers) > 2600 OR ISJSON(@headers) = 0 OR @headers NOT LIKE N'{%'
    THROW 58003, N'headers must be a JSON object of up to 1300 characters, which begins with {', 1;
-- A statement of its own: OPENJSON fails where it is not JSON.
IF EXISTS (SELECT 1 FROM OPENJSON(@headers) WHERE [key] LIKE N'readpast-%')
    THROW 58003, N'headers must not have names that begin with readpast-: those are readpast''s own', 1;
GO

-- 210_enqueue.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Enqueues one job, for any language and for triggers: no result set, the id comes back in @job_id.
-- Takes part in the caller's transaction. When an unfinished job of the queue has the same @dedup_key, nothing is added: @duplicate is 1 and
-- @job_id is that job's. It was unfinished at that moment; it may end before the caller's transaction does.
--
-- A key locks nothing but itself: a new one keeps only its own entry of jobs_dedup locked until the caller's transaction ends, and one that is
-- found keeps no lock at all (but where it came in between the look and the insert). So an enqueue waits for nobody but an uncommitted enqueue or acknowledgement of the same key. The unique index decides:
-- where two sessions insert one key at once, the second gets error 2601, which does not doom the caller's transaction, and looks again.
--
-- A job of a group waits (state 6) until it gets its turn: at once after this call's commit or, in a caller's transaction, within about a second after
-- that one's. A batch cannot be sealed before the caller's transaction has ended.
--
-- With @part_of and @part the call is carried out once, however often it is made while the batch is open: it is that part of what is enqueued for
-- batch @part_of, which the job then belongs to. Of a part that is there already nothing is added: @job_id is NULL and @duplicate 1. While another
-- session adds the part and has not committed, the call waits for it. Where two begin at the very same moment, the second fails with 2601 and is rolled
-- back; repeated, it finds the part.
CREATE OR ALTER PROCEDURE [readpast].[enqueue]
    @queue          nvarchar(129),
    @payload        varbinary(max)   = NULL,  -- bytes; JSON as UTF-8
    @text           nvarchar(max)    = NULL,  -- or text, for producers in T-SQL
    @priority       smallint         = 0,     -- smaller runs first
    @delay_ms       bigint           = NULL,  -- start this long from now, by SQL Server's clock
    @due_at         datetime2(3)     = NULL,  -- or at this time, UTC; a time in the past is now
    @max_attempts   int              = NULL,  -- NULL: the queue's
    @dedup_key      nvarchar(257)    = NULL,  -- up to 256 characters; one more here, so that a longer key is refused and not cut
    @correlation_id uniqueidentifier = NULL,
    @job_id         bigint           = NULL OUTPUT,
    @duplicate      bit              = NULL OUTPUT,
    @kind           varchar(65)      = NULL,  -- what sort of job, for the worker to choose the handler: up to 64 printable ASCII characters
    @time_limit_ms  bigint           = NULL,  -- after this long its handler is told that it is cancelled; NULL: as the worker has it
    @headers        nvarchar(1301)   = NULL,  -- a JSON object of up to 1,300 characters, for the handler
    @group_key      nvarchar(129)    = NULL,  -- jobs of one key take turns, see create_queue: up to 128 characters
    @batch_id       bigint           = NULL,  -- the batch it belongs to, see create_batch
    @part_of        bigint           = NULL,  -- the call is a part of what is enqueued for this batch
    @part           bigint           = NULL   -- which one: a number that the caller chooses
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
-- The caller's may be another: .NET's TransactionScope has SERIALIZABLE by default, under which the look for the key would lock a range.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @lifo bit, @delivery varchar(13), @is_member bit = 0, @is_gone bit = 0, @due datetime2(3), @new_id bigint, @tries int = 0, @message nvarchar(2048);

SELECT @queue_id = queue_id, @lifo = CASE WHEN claim_order = 'lifo' THEN 1 ELSE 0 END, @delivery = delivery
FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF (@payload IS NULL AND @text IS NULL) OR (@payload IS NOT NULL AND @text IS NOT NULL)
    THROW 58003, N'a job needs either a payload or a text', 1;
IF @delay_ms < 0 OR @delay_ms > 315360000000 OR (@delay_ms IS NOT NULL AND @due_at IS NOT NULL)
    THROW 58003, N'delay_ms must be between 0 and 315360000000 (ten years), and not stand beside due_at', 1;
IF @max_attempts < 1
    THROW 58003, N'max_attempts must be 1 or more', 1;
-- DATALENGTH counts bytes, two for each character. SQL Server takes keys that differ in spaces at their end for equal.
IF DATALENGTH(@dedup_key) = 0 OR DATALENGTH(@dedup_key) > 512 OR DATALENGTH(@dedup_key) <> DATALENGTH(LTRIM(RTRIM(@dedup_key)))
    THROW 58003, N'dedup_key must have 1 to 256 characters, without spaces at its ends', 1;
IF DATALENGTH(@kind) = 0 OR DATALENGTH(@kind) > 64 OR @kind COLLATE Latin1_General_100_BIN2 LIKE '%[^!-~]%'
    THROW 58003, N'kind must have 1 to 64 printable ASCII characters, no spaces', 1;
IF @time_limit_ms < 1 OR @time_limit_ms > 2147483647
BEGIN
    SET @message = CONCAT(N'time_limit_ms is ', @time_limit_ms, N'; it must be 1 to 2147483647 (24 days)');
    THROW 58003, @message, 1;
END;
IF @headers IS NOT NULL
    EXEC [readpast].[check_headers] @headers;
IF DATALENGTH(@group_key) = 0 OR DATALENGTH(@group_key) > 256 OR DATALENGTH(@group_key) <> DATALENGTH(LTRIM(RTRIM(@group_key)))
    THROW 58003, N'group_key must have 1 to 128 characters, without spaces at its ends', 1;
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

-- A time in the past is now: due_at says since when a job has been ready. DATEADD counts in int: whole seconds and the rest.
SET @due = COALESCE(CASE WHEN @due_at > @now THEN @due_at END, DATEADD(MILLISECOND, @delay_ms % 1000, DATEADD(SECOND, @delay_ms / 1000, @now)), @now);
SET @job_id = NULL;
SET @duplicate = 0;

IF @is_member = 1
BEGIN
    BEGIN TRANSACTION;
    EXEC [readpast].[link_queue] @queue_id;
    EXEC [readpast].[lock_batch] @batch_id;
    IF @part IS NOT NULL
    BEGIN
        -- READCOMMITTEDLOCK: waits for whoever is adding this part under READ_COMMITTED_SNAPSHOT, too.
        IF EXISTS (SELECT 1 FROM [readpast].[batch_additions] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (batch_additions_part (batch_id, part)))
                   WHERE batch_id = @batch_id AND part = @part AND part IS NOT NULL)
        BEGIN
            SET @duplicate = 1;
            COMMIT TRANSACTION;
            RETURN 0;
        END;
        INSERT [readpast].[batch_additions] WITH (ROWLOCK) (batch_id, jobs, part) VALUES (@batch_id, 0, @part);
    END;
END;

WHILE @job_id IS NULL
BEGIN
    -- READCOMMITTEDLOCK: waits for an uncommitted enqueue of the key under READ_COMMITTED_SNAPSHOT, too.
    IF @dedup_key IS NOT NULL
        SELECT @job_id = job_id, @duplicate = 1
        FROM [readpast].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
        WHERE queue_id = @queue_id AND dedup_key = @dedup_key AND dedup_key IS NOT NULL AND ended = 0
        OPTION (MAXDOP 1, KEEPFIXED PLAN);

    IF @job_id IS NULL
    BEGIN
        SET @new_id = NEXT VALUE FOR [readpast].[job_ids];
        SET XACT_ABORT OFF;
        BEGIN TRY
            INSERT [readpast].[jobs] WITH (ROWLOCK)
                (job_id, queue_id, state, lifo, priority, max_attempts, enqueued_at, due_at, correlation_id, kind, dedup_key, payload_utf16, payload,
                 time_limit_ms, headers, batch_id, group_key, plain)
            VALUES
                (@new_id, @queue_id, CASE WHEN @due > @now THEN 1 WHEN @group_key IS NOT NULL THEN 6 ELSE 0 END, @lifo, ISNULL(@priority, 0), @max_attempts, @now, @due,
                 @correlation_id, @kind, @dedup_key, CASE WHEN @text IS NULL THEN 0 ELSE 1 END,
                 ISNULL(@payload, CAST(@text AS varbinary(max))), @time_limit_ms, @headers, @batch_id, @group_key,
                 CASE WHEN @is_member = 0 AND @dedup_key IS NULL AND @correlation_id IS NULL AND @time_limit_ms IS NULL AND @headers IS NULL THEN 1 END);
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

-- The queue may have been deleted since it was looked for: either delete_queue finds this job, or this finds the queue gone. A row that NOLOCK sees was
-- not deleted before this moment, so that delete_queue looks for jobs later, and finds this one. Only where there is none does it wait for a deletion
-- that may be taken back. Outside of a transaction the job is there already and may run: it goes again only where the queue is certainly gone. Where
-- that could not be found out, because the session waits no longer for locks, it stays: a deletion under way meets it and is taken back
-- (delete_empty_queue).
IF @duplicate = 0 AND NOT EXISTS (SELECT 1 FROM [readpast].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id))) WHERE queue_id = @queue_id)
BEGIN
    SET XACT_ABORT OFF;
    BEGIN TRY
        IF NOT EXISTS (SELECT 1 FROM [readpast].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id))) WHERE queue_id = @queue_id)
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
            DELETE [readpast].[jobs] WITH (ROWLOCK) WHERE job_id = @job_id;
        SET @message = CONCAT(N'there is no queue ''', @queue, N''' any more; create it with [readpast].[create_queue]');
        THROW 58001, @message, 1;
    END;
END;

IF @is_member = 1
BEGIN
    IF @duplicate = 0 AND @batch_id IS NOT NULL
        INSERT [readpast].[batch_additions] WITH (ROWLOCK) (batch_id, jobs) VALUES (@batch_id, 1);
    IF @duplicate = 0 AND @group_key IS NOT NULL AND @due <= @now
        INSERT [readpast].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended) VALUES (@queue_id, @group_key, 0);
    COMMIT TRANSACTION;
    IF @group_key IS NOT NULL
        EXEC [readpast].[advance_groups] @queue_id;
END;

-- Jobs with higher numbers may have been claimed meanwhile: then claims begin beyond this one (see marks). In a caller's transaction, the sweep
-- finds it after the commit. No error here is the caller's: the job is there, and a call that failed would be made again.
IF @duplicate = 0 AND @@TRANCOUNT = 0
BEGIN
    SET XACT_ABORT OFF;
    BEGIN TRY
        IF EXISTS (SELECT 1 FROM [readpast].[marks] WITH (NOLOCK) WHERE queue_id = @queue_id AND job_id > @job_id)
            EXEC [readpast].[lower_marks] @queue_id, @job_id;
    END TRY
    BEGIN CATCH
        RETURN 0;
    END CATCH;
END;
GO

-- 212_link_queue.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For those who enqueue jobs of batches or groups, in their transaction: notes that the queue has such jobs (see linked_queues).
CREATE OR ALTER PROCEDURE [readpast].[link_queue]
    @queue_id int
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
-- While an installation is under way, those who end jobs may be of the version before, which knows nothing of batches and groups.
IF NOT EXISTS (SELECT 1 FROM [readpast].[schema_version] WITH (NOLOCK) WHERE version >= 2)
    THROW 58011, N'the schema readpast is being upgraded: jobs of batches and groups can be enqueued when that is completed', 1;
-- READPAST: a row that is not committed may be taken back.
IF NOT EXISTS (SELECT 1 FROM [readpast].[linked_queues] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE queue_id = @queue_id)
BEGIN
    INSERT [readpast].[linked_queues] WITH (ROWLOCK) (queue_id) VALUES (@queue_id);
    -- The caller has looked before; since then somebody may have set it, or be about to (create_queue, which sees this row from now on).
    IF EXISTS (SELECT 1 FROM [readpast].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND delivery = 'at_most_once')
        THROW 58003, N'a queue with delivery at_most_once has no groups and no jobs of batches: its jobs are not acknowledged', 1;
END;
GO

-- 214_lock_batch.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For those who add jobs to a batch, in their transaction: makes sure that it is there and not sealed, and keeps it from being sealed until the
-- transaction has ended. Without a batch it does nothing.
CREATE OR ALTER PROCEDURE [readpast].[lock_batch]
    @batch_id bigint
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @found bit = 0, @sealed_at datetime2(3), @message nvarchar(2048);

IF @batch_id IS NULL
    RETURN;
-- REPEATABLEREAD keeps the shared lock until the transaction ends, also where READ_COMMITTED_SNAPSHOT is on.
SELECT @found = 1, @sealed_at = sealed_at
FROM [readpast].[batches] WITH (ROWLOCK, REPEATABLEREAD, FORCESEEK (batches_pk (batch_id)))
WHERE batch_id = @batch_id
OPTION (MAXDOP 1);
IF @found = 0
BEGIN
    SET @message = CONCAT(N'there is no batch ', @batch_id, N'; create one with [readpast].[create_batch] (a week after its end, a batch is forgotten)');
    THROW 58021, @message, 1;
END;
IF @sealed_at IS NOT NULL
BEGIN
    SET @message = CONCAT(N'batch ', @batch_id, N' is sealed: no job can be added to it');
    THROW 58021, @message, 1;
END;
GO

-- 216_end_batch.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For note_ends and seal_batch, in their transaction: ends a batch whose jobs have all ended, and enqueues its follow-up. The caller holds the batch's
-- row of batch_counts, so that this happens once.
-- The follow-up has the header readpast-batch: batch_id, done, dead, cancelled.
CREATE OR ALTER PROCEDURE [readpast].[end_batch]
    @batch_id bigint
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @job_id bigint, @header nvarchar(200);

IF EXISTS (SELECT 1 FROM [readpast].[batches] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE batch_id = @batch_id AND payload IS NOT NULL)
    SET @job_id = NEXT VALUE FOR [readpast].[job_ids];
UPDATE [readpast].[batch_counts] WITH (ROWLOCK)
SET ended_at = @now, follow_up_id = @job_id
WHERE batch_id = @batch_id;
IF @job_id IS NULL
    RETURN;

SELECT @header = CONCAT(N'{"readpast-batch":{"batch_id":', batch_id, N',"done":', done, N',"dead":', dead, N',"cancelled":', cancelled, N'}')
FROM [readpast].[batch_counts] WITH (ROWLOCK)
WHERE batch_id = @batch_id;
INSERT [readpast].[jobs] WITH (ROWLOCK)
    (job_id, queue_id, state, lifo, priority, max_attempts, enqueued_at, due_at, correlation_id, kind, payload_utf16, payload, time_limit_ms, headers,
     batch_id)
SELECT @job_id, b.queue_id, 0, CASE WHEN q.claim_order = 'lifo' THEN 1 ELSE 0 END, b.priority, b.max_attempts, @now, @now, b.correlation_id, b.kind,
       b.payload_utf16, b.payload, b.time_limit_ms,
       -- Before the headers of its own, where there are some: behind the opening bracket of theirs, or instead of an object without a name in it.
       CASE WHEN b.headers IS NULL OR b.headers NOT LIKE N'%"%' THEN @header + N'}'
            ELSE @header + N',' + STUFF(b.headers, 1, 1, N'') END,
       b.parent_id
FROM [readpast].[batches] AS b WITH (ROWLOCK, READCOMMITTEDLOCK)
INNER JOIN [readpast].[queues] AS q ON q.queue_id = b.queue_id
WHERE b.batch_id = @batch_id;
GO

-- 217_lock_groups.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For advance_groups, and for operators' procedures before they lock waiting jobs: no other session gives turns away in this queue until the
-- transaction ends. Only in a transaction. @granted: 0, somebody else had the lock for @wait_ms. NULL: it waits for as long as the session waits for other
-- locks (LOCK_TIMEOUT), and then fails.
CREATE OR ALTER PROCEDURE [readpast].[lock_groups]
    @queue_id int,
    @wait_ms  int,
    @granted  bit OUTPUT
AS
SET NOCOUNT ON;
DECLARE @resource nvarchar(255) = CONCAT(N'readpast.groups.', @queue_id), @timeout int = ISNULL(@wait_ms, @@LOCK_TIMEOUT), @result int;

EXEC @result = sys.sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = @timeout;
SET @granted = CASE WHEN @result >= 0 THEN 1 ELSE 0 END;
IF @granted = 0 AND @wait_ms IS NULL
    THROW 58013, N'another session changes groups of this queue, and its transaction has not ended; run it again', 1;
GO

-- 218_note_ends.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For those who end jobs of batches or groups, in their transaction, whose last statement it is but for the result: adds the ends to the batches' counts,
-- ends the batches that have no more unfinished jobs, and notes which jobs have given their turn away. The caller holds the jobs' rows.
-- A job has given its turn away where it had it (in_turn) and has ended or waits for another turn (state 6).
CREATE OR ALTER PROCEDURE [readpast].[note_ends]
    @queue_id int,
    @members  [readpast].[member_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @batch_id bigint;
DECLARE @ended TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED, done int NOT NULL, dead int NOT NULL, cancelled int NOT NULL);
DECLARE @complete TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED, is_complete bit NOT NULL);

INSERT @ended (batch_id, done, dead, cancelled)
SELECT m.batch_id, SUM(CASE WHEN m.state = 3 THEN 1 ELSE 0 END), SUM(CASE WHEN m.state = 4 THEN 1 ELSE 0 END), SUM(CASE WHEN m.state = 5 THEN 1 ELSE 0 END)
FROM @members AS m
WHERE m.batch_id IS NOT NULL AND m.state IN (3, 4, 5)
GROUP BY m.batch_id;
IF @@ROWCOUNT > 0
BEGIN
    UPDATE c
    SET done = c.done + e.done, dead = c.dead + e.dead, cancelled = c.cancelled + e.cancelled
    OUTPUT inserted.batch_id, CASE WHEN inserted.done + inserted.dead + inserted.cancelled >= inserted.members THEN 1 ELSE 0 END
    INTO @complete (batch_id, is_complete)
    FROM @ended AS e
    INNER LOOP JOIN [readpast].[batch_counts] AS c WITH (ROWLOCK, FORCESEEK, INDEX (batch_counts_pk)) ON c.batch_id = e.batch_id
    WHERE c.ended_at IS NULL
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    WHILE 1 = 1
    BEGIN
        SET @batch_id = (SELECT MIN(batch_id) FROM @complete WHERE is_complete = 1);
        IF @batch_id IS NULL
            BREAK;
        EXEC [readpast].[end_batch] @batch_id;
        UPDATE @complete SET is_complete = 0 WHERE batch_id = @batch_id;
    END;
END;

INSERT [readpast].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended)
SELECT @queue_id, m.group_key, COUNT(*)
FROM @members AS m
WHERE m.group_key IS NOT NULL AND m.in_turn = 1 AND m.state >= 3
GROUP BY m.group_key;
GO

-- 219_advance_groups.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For those who enqueue or end jobs of groups, when that is committed, and for promote: gives the turn to waiting jobs of the groups in which something
-- has happened (group_events), in the order of their ids.
--
-- One session of a queue at a time does so (an application lock until its transaction ends), for up to 1,000 turns in one transaction. It waits
-- for nobody else: events and waiting jobs that are locked are not committed, and those who commit them call it again. (Operators, who lock waiting
-- jobs that are committed, take the application lock first, see lock_groups: else a group's next job could be passed over. A session that only looks
-- whether a job is one of those it changes holds it for a moment: then the turn waits for the next call.) Inside of a caller's transaction it does
-- nothing: the next promote does it, within about a second. So it does where another session has had the application lock for @wait_ms. It never
-- fails, because what it is called for has been done.
CREATE OR ALTER PROCEDURE [readpast].[advance_groups]
    @queue_id int,
    @wait_ms  int = 200  -- for the application lock
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;
SET XACT_ABORT ON;  -- a client that gives the call up must not leave the lock behind
SET LOCK_TIMEOUT 1000;
IF @@TRANCOUNT > 0
    RETURN;
DECLARE @limit int, @most int, @granted bit, @is_full bit = 1, @first_ready bigint;
DECLARE @events TABLE (group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL, ended int NOT NULL);
-- in_turn: how many have the turn, without those that gave it away.
DECLARE @groups TABLE
(
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    is_new    bit NOT NULL,
    in_turn   int NOT NULL
);
DECLARE @next TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @started TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @counts TABLE (group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED, started int NOT NULL);

BEGIN TRY
    WHILE @is_full = 1
    BEGIN
        SET @is_full = 0;
        -- Most calls find nothing where others are quicker: they need not wait for them.
        IF NOT EXISTS (SELECT 1 FROM [readpast].[group_events] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE queue_id = @queue_id)
            BREAK;
        BEGIN TRANSACTION;
        EXEC [readpast].[lock_groups] @queue_id, @wait_ms, @granted OUTPUT;
        SET @limit = (SELECT group_limit FROM [readpast].[queues] WHERE queue_id = @queue_id);
        SET @most = 1000 / @limit;
        IF @granted = 1
            DELETE TOP (@most) FROM [readpast].[group_events] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
            OUTPUT deleted.group_key, deleted.ended INTO @events (group_key, ended)
            WHERE queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @is_full = CASE WHEN @granted = 1 AND @@ROWCOUNT = @most THEN 1 ELSE 0 END;

        IF EXISTS (SELECT 1 FROM @events)
        BEGIN
            INSERT @groups (group_key, is_new, in_turn)
            SELECT e.group_key, 1, -SUM(e.ended) FROM @events AS e GROUP BY e.group_key;
            UPDATE k
            SET is_new = 0, in_turn = g.in_turn + k.in_turn
            FROM @groups AS k
            INNER LOOP JOIN [readpast].[groups] AS g WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (groups_pk (queue_id, group_key)))
                ON g.group_key = k.group_key
            WHERE g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

            INSERT @next (job_id, group_key)
            SELECT w.job_id, k.group_key
            FROM @groups AS k
            CROSS APPLY (SELECT TOP (CASE WHEN k.in_turn < @limit THEN @limit - k.in_turn ELSE 0 END) j.job_id
                         FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
                         WHERE j.queue_id = @queue_id AND j.group_key = k.group_key AND j.state = 6
                         ORDER BY j.job_id) AS w
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

            UPDATE j
            SET state = 0, in_turn = 1, due_at = SYSUTCDATETIME()
            OUTPUT inserted.job_id, inserted.group_key INTO @started (job_id, group_key)
            FROM @next AS n
            INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
                ON j.job_id = n.job_id
            WHERE j.state = 6
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

            -- Those that could not be had: for the next call.
            INSERT [readpast].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended)
            SELECT @queue_id, n.group_key, 0 FROM @next AS n WHERE NOT EXISTS (SELECT 1 FROM @started AS s WHERE s.job_id = n.job_id)
            GROUP BY n.group_key;

            INSERT @counts (group_key, started)
            SELECT s.group_key, COUNT(*) FROM @started AS s GROUP BY s.group_key;
            UPDATE k
            SET in_turn = k.in_turn + c.started
            FROM @counts AS c
            INNER JOIN @groups AS k ON k.group_key = c.group_key;
            DELETE g
            FROM @groups AS k
            INNER LOOP JOIN [readpast].[groups] AS g WITH (ROWLOCK, FORCESEEK, INDEX (groups_pk)) ON g.group_key = k.group_key
            WHERE k.in_turn <= 0 AND g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            UPDATE g
            SET in_turn = k.in_turn
            FROM @groups AS k
            INNER LOOP JOIN [readpast].[groups] AS g WITH (ROWLOCK, FORCESEEK, INDEX (groups_pk)) ON g.group_key = k.group_key
            WHERE k.in_turn > 0 AND k.is_new = 0 AND g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            INSERT [readpast].[groups] (queue_id, group_key, in_turn)
            SELECT @queue_id, k.group_key, k.in_turn FROM @groups AS k WHERE k.in_turn > 0 AND k.is_new = 1;
        END;
        COMMIT TRANSACTION;

        -- Whatever the marks are: a claim that has read them before the commit would raise them over these jobs.
        SET @first_ready = (SELECT MIN(job_id) FROM @started);
        IF @first_ready IS NOT NULL
            EXEC [readpast].[lower_marks] @queue_id, @first_ready;
        DELETE @events;
        DELETE @groups;
        DELETE @next;
        DELETE @started;
        DELETE @counts;
    END;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
END CATCH;
GO

-- 220_enqueue_batch.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Enqueues many jobs in one round trip; they get ascending ids in the order of their ordinals.
-- Takes part in the caller's transaction. Result (unless @report = 0, for triggers): ordinal, job_id, duplicate; a duplicate's
-- job_id is that of the job that was unfinished at that moment, or of the earlier one in the same batch, that has its key.
-- Jobs with a time limit, headers, a group or a batch stand in @details, too, under their ordinal. Left out, it is empty. Batches and groups are as
-- enqueue has them, and so are @part_of and @part: all jobs of the call belong to that batch, and of a part that is there already nothing is added
-- and the result is empty.
--
-- Keys lock nothing but themselves, see enqueue. Jobs without a key are added by one INSERT; those with a key one by one in the order of their keys,
-- so that two batches with keys in common wait for each other and never in a circle. (An INSERT ... SELECT ... ORDER BY promises no order.)
-- Where a key came in between the look and the insert, the rejected row keeps its lock on that key's entry until the transaction ends; so the batch's
-- own transaction is begun anew.
CREATE OR ALTER PROCEDURE [readpast].[enqueue_batch]
    @queue       nvarchar(129),
    @jobs        [readpast].[enqueue_list] READONLY,
    @report      bit = 1,
    @details     [readpast].[detail_list] READONLY,
    @part_of     bigint = NULL,  -- the call is a part of what is enqueued for this batch
    @part        bigint = NULL   -- which one: a number that the caller chooses
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;  -- the caller's may be another, see enqueue
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @lifo bit, @delivery varchar(13), @has_details bit = 0, @has_members bit = 0, @has_keys bit = 0, @is_own bit = 0, @is_gone bit = 0, @again bit = 1, @key nvarchar(256), @last_key nvarchar(256),
    @ordinal int, @new_id bigint, @time_limit_ms int, @headers nvarchar(1300), @batch_id bigint, @last_batch bigint, @group_key nvarchar(128), @job_id bigint, @tries int = 0, @first_id bigint, @wrong bigint, @message nvarchar(2048);
DECLARE @numbered TABLE
(
    ordinal       int    NOT NULL PRIMARY KEY CLUSTERED,
    own_id        bigint NOT NULL,
    job_id        bigint NOT NULL,
    duplicate     bit    NOT NULL,
    time_limit_ms int    NULL,
    headers       nvarchar(1300) NULL,
    batch_id      bigint         NULL,
    group_key     nvarchar(128)  COLLATE Latin1_General_100_BIN2 NULL
);
-- The first of each key, in the order of the keys.
DECLARE @keyed TABLE (dedup_key nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED, ordinal int NOT NULL);

SELECT @queue_id = queue_id, @lifo = CASE WHEN claim_order = 'lifo' THEN 1 ELSE 0 END, @delivery = delivery
FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF EXISTS (SELECT 1 FROM @jobs WHERE (payload IS NULL AND text IS NULL) OR (payload IS NOT NULL AND text IS NOT NULL))
    THROW 58003, N'a job needs either a payload or a text', 1;
IF EXISTS (SELECT 1 FROM @jobs WHERE delay_ms < 0 OR delay_ms > 315360000000 OR (delay_ms IS NOT NULL AND due_at IS NOT NULL))
    THROW 58003, N'delay_ms must be between 0 and 315360000000 (ten years), and not stand beside due_at', 1;
IF EXISTS (SELECT 1 FROM @jobs WHERE max_attempts < 1)
    THROW 58003, N'max_attempts must be 1 or more', 1;
IF EXISTS (SELECT 1 FROM @jobs WHERE kind = '' OR kind LIKE '%[^!-~]%')
    THROW 58003, N'kind must have 1 to 64 printable ASCII characters, no spaces', 1;
IF EXISTS (SELECT 1 FROM @jobs WHERE dedup_key IS NOT NULL)
    SET @has_keys = 1;
IF @has_keys = 1 AND EXISTS (SELECT 1 FROM @jobs WHERE dedup_key = N'' OR DATALENGTH(dedup_key) <> DATALENGTH(LTRIM(RTRIM(dedup_key))))
    THROW 58003, N'dedup_key must have 1 to 256 characters, without spaces at its ends', 1;
IF EXISTS (SELECT 1 FROM @details)
BEGIN
    SET @has_details = 1;
    SELECT TOP (1) @wrong = time_limit_ms FROM @details WHERE time_limit_ms < 1 OR time_limit_ms > 2147483647;
    IF @wrong IS NOT NULL
    BEGIN
        SET @message = CONCAT(N'time_limit_ms is ', @wrong, N'; it must be 1 to 2147483647 (24 days)');
        THROW 58003, @message, 1;
    END;
    IF EXISTS (SELECT 1 FROM @details WHERE DATALENGTH(headers) > 2600 OR ISJSON(headers) = 0 OR headers NOT LIKE N'{%')
        THROW 58003, N'headers must be a JSON object of up to 1300 characters, which begins with {', 1;
    IF EXISTS (SELECT 1 FROM @details AS d CROSS APPLY OPENJSON(d.headers) AS h WHERE h.[key] LIKE N'readpast-%')
        THROW 58003, N'headers must not have names that begin with readpast-: those are readpast''s own', 1;
    IF EXISTS (SELECT 1 FROM @details WHERE DATALENGTH(group_key) = 0 OR DATALENGTH(group_key) > 256 OR DATALENGTH(group_key) <> DATALENGTH(LTRIM(RTRIM(group_key))))
        THROW 58003, N'group_key must have 1 to 128 characters, without spaces at its ends', 1;
    SELECT TOP (1) @wrong = d.ordinal FROM @details AS d WHERE NOT EXISTS (SELECT 1 FROM @jobs AS n WHERE n.ordinal = d.ordinal);
    IF @wrong IS NOT NULL
    BEGIN
        SET @message = CONCAT(N'ordinal in details is ', @wrong, N'; it must be the ordinal of a job');
        THROW 58003, @message, 1;
    END;
    IF EXISTS (SELECT 1 FROM @details WHERE batch_id IS NOT NULL OR group_key IS NOT NULL)
        SET @has_members = 1;
END;
IF @part_of IS NOT NULL OR @part IS NOT NULL
BEGIN
    IF @part_of IS NULL OR @part IS NULL OR EXISTS (SELECT 1 FROM @details WHERE batch_id <> @part_of)
        THROW 58003, N'part_of and part stand together, and the jobs belong to the batch of part_of', 1;
    SET @has_members = 1;
END;
IF @has_members = 1 AND @delivery = 'at_most_once'
    THROW 58003, N'a queue with delivery at_most_once has no groups and no jobs of batches: its jobs are not acknowledged', 1;

INSERT @numbered (ordinal, own_id, job_id, duplicate)
SELECT n.ordinal, NEXT VALUE FOR [readpast].[job_ids] OVER (ORDER BY n.ordinal), 0, 0
FROM @jobs AS n;
UPDATE @numbered SET job_id = own_id;
SET @first_id = (SELECT MIN(job_id) FROM @numbered);
IF @has_details = 1
    UPDATE i
    SET time_limit_ms = d.time_limit_ms, headers = d.headers, batch_id = d.batch_id, group_key = d.group_key
    FROM @details AS d
    INNER JOIN @numbered AS i ON i.ordinal = d.ordinal;
IF @part IS NOT NULL
    UPDATE @numbered SET batch_id = @part_of;

IF @has_keys = 1
    INSERT @keyed (dedup_key, ordinal)
    SELECT n.dedup_key, MIN(n.ordinal) FROM @jobs AS n WHERE n.dedup_key IS NOT NULL GROUP BY n.dedup_key;
IF (@has_keys = 1 OR @has_members = 1) AND @@TRANCOUNT = 0
    SET @is_own = 1;

WHILE @again = 1
BEGIN
    SET @again = 0;
    IF @is_own = 1
        BEGIN TRANSACTION;
    IF @has_members = 1
    BEGIN
        EXEC [readpast].[link_queue] @queue_id;
        -- Before everything else, in the order of their numbers.
        IF @part IS NOT NULL
            EXEC [readpast].[lock_batch] @part_of;
        SET @last_batch = @part_of;
        WHILE 1 = 1
        BEGIN
            SET @batch_id = (SELECT MIN(batch_id) FROM @numbered WHERE @last_batch IS NULL OR batch_id > @last_batch);
            IF @batch_id IS NULL
                BREAK;
            EXEC [readpast].[lock_batch] @batch_id;
            SET @last_batch = @batch_id;
        END;
    END;
    IF @part IS NOT NULL
    BEGIN
        -- See enqueue.
        IF EXISTS (SELECT 1 FROM [readpast].[batch_additions] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (batch_additions_part (batch_id, part)))
                   WHERE batch_id = @part_of AND part = @part AND part IS NOT NULL)
        BEGIN
            IF @is_own = 1
                COMMIT TRANSACTION;
            IF @report = 1
                SELECT i.ordinal, i.job_id, i.duplicate FROM @numbered AS i WHERE i.ordinal IS NULL;
            RETURN 0;
        END;
        INSERT [readpast].[batch_additions] WITH (ROWLOCK) (batch_id, jobs, part) VALUES (@part_of, 0, @part);
    END;
    INSERT [readpast].[jobs] WITH (ROWLOCK)
        (job_id, queue_id, state, lifo, priority, max_attempts, enqueued_at, due_at, correlation_id, kind, payload_utf16, payload, time_limit_ms,
         headers, batch_id, group_key, plain)
    SELECT i.job_id,
           @queue_id,
           CASE WHEN n.due_at > @now OR n.delay_ms > 0 THEN 1 WHEN i.group_key IS NOT NULL THEN 6 ELSE 0 END,
           @lifo,
           ISNULL(n.priority, 0),
           n.max_attempts,
           @now,
           -- DATEADD counts in int: whole seconds and the rest.
           COALESCE(CASE WHEN n.due_at > @now THEN n.due_at END, DATEADD(MILLISECOND, n.delay_ms % 1000, DATEADD(SECOND, n.delay_ms / 1000, @now)), @now),
           n.correlation_id,
           n.kind,
           CASE WHEN n.text IS NULL THEN 0 ELSE 1 END,
           ISNULL(n.payload, CAST(n.text AS varbinary(max))),
           i.time_limit_ms,
           i.headers,
           i.batch_id,
           i.group_key,
           CASE WHEN @has_details = 0 AND @part IS NULL AND n.correlation_id IS NULL THEN 1 END
    FROM @jobs AS n
    INNER JOIN @numbered AS i ON i.ordinal = n.ordinal
    WHERE n.dedup_key IS NULL
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    SET @last_key = NULL;
    WHILE @has_keys = 1 AND @again = 0
    BEGIN
        SET @key = NULL;
        SELECT TOP (1) @key = dedup_key, @ordinal = ordinal FROM @keyed WHERE @last_key IS NULL OR dedup_key > @last_key ORDER BY dedup_key;
        IF @key IS NULL
            BREAK;
        SET @last_key = @key;
        SELECT @new_id = own_id, @time_limit_ms = time_limit_ms, @headers = headers, @batch_id = batch_id, @group_key = group_key
        FROM @numbered WHERE ordinal = @ordinal;
        SET @job_id = NULL;
        WHILE @job_id IS NULL AND @again = 0
        BEGIN
            SELECT @job_id = job_id
            FROM [readpast].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
            WHERE queue_id = @queue_id AND dedup_key = @key AND dedup_key IS NOT NULL AND ended = 0
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            IF @job_id IS NOT NULL
                BREAK;

            SET XACT_ABORT OFF;
            BEGIN TRY
                INSERT [readpast].[jobs] WITH (ROWLOCK)
                    (job_id, queue_id, state, lifo, priority, max_attempts, enqueued_at, due_at, correlation_id, kind, dedup_key, payload_utf16,
                     payload, time_limit_ms, headers, batch_id, group_key)
                SELECT @new_id,
                       @queue_id,
                       CASE WHEN n.due_at > @now OR n.delay_ms > 0 THEN 1 WHEN @group_key IS NOT NULL THEN 6 ELSE 0 END,
                       @lifo,
                       ISNULL(n.priority, 0),
                       n.max_attempts,
                       @now,
                       COALESCE(CASE WHEN n.due_at > @now THEN n.due_at END, DATEADD(MILLISECOND, n.delay_ms % 1000, DATEADD(SECOND, n.delay_ms / 1000, @now)), @now),
                       n.correlation_id,
                       n.kind,
                       n.dedup_key,
                       CASE WHEN n.text IS NULL THEN 0 ELSE 1 END,
                       ISNULL(n.payload, CAST(n.text AS varbinary(max))),
                       @time_limit_ms,
                       @headers,
                       @batch_id,
                       @group_key
                FROM @jobs AS n
                WHERE n.ordinal = @ordinal
                OPTION (MAXDOP 1, KEEPFIXED PLAN);
                SET @job_id = @new_id;
            END TRY
            BEGIN CATCH
                -- Any other error rolls the caller's transaction back, as everywhere in readpast.
                SET XACT_ABORT ON;
                SET @tries = @tries + 1;
                IF ERROR_NUMBER() <> 2601 OR XACT_STATE() = -1 OR @tries = 100
                    THROW;
                IF @is_own = 1
                BEGIN
                    ROLLBACK TRANSACTION;
                    SET @again = 1;
                END;
            END CATCH;
            SET XACT_ABORT ON;
        END;

        IF @again = 1
            BREAK;
        UPDATE i
        SET job_id = @job_id, duplicate = CASE WHEN i.ordinal = @ordinal AND @job_id = @new_id THEN 0 ELSE 1 END
        FROM @jobs AS n
        INNER JOIN @numbered AS i ON i.ordinal = n.ordinal
        WHERE n.dedup_key = @key;
    END;
    -- The queue may have been deleted since it was looked for, see enqueue.
    IF @again = 0 AND NOT EXISTS (SELECT 1 FROM [readpast].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id))) WHERE queue_id = @queue_id)
    BEGIN
        SET XACT_ABORT OFF;
        BEGIN TRY
            IF NOT EXISTS (SELECT 1 FROM [readpast].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id)))
                           WHERE queue_id = @queue_id)
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
                DELETE j
                FROM @numbered AS i
                INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = i.own_id
                OPTION (MAXDOP 1, KEEPFIXED PLAN);
            SET @message = CONCAT(N'there is no queue ''', @queue, N''' any more; create it with [readpast].[create_queue]');
            THROW 58001, @message, 1;
        END;
    END;
    IF @has_members = 1 AND @again = 0
    BEGIN
        INSERT [readpast].[batch_additions] WITH (ROWLOCK) (batch_id, jobs)
        SELECT i.batch_id, COUNT(*) FROM @numbered AS i WHERE i.batch_id IS NOT NULL AND i.duplicate = 0 GROUP BY i.batch_id;
        INSERT [readpast].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended)
        SELECT @queue_id, i.group_key, 0 FROM @numbered AS i WHERE i.group_key IS NOT NULL AND i.duplicate = 0 GROUP BY i.group_key;
    END;
    IF @is_own = 1 AND @again = 0
        COMMIT TRANSACTION;
END;
IF @has_members = 1
    EXEC [readpast].[advance_groups] @queue_id;

-- Jobs with higher numbers may have been claimed meanwhile, see enqueue. No error here is the caller's: the jobs are there.
IF @@TRANCOUNT = 0
BEGIN
    SET XACT_ABORT OFF;
    BEGIN TRY
        IF EXISTS (SELECT 1 FROM [readpast].[marks] WITH (NOLOCK) WHERE queue_id = @queue_id AND job_id > @first_id)
            EXEC [readpast].[lower_marks] @queue_id, @first_id;
    END TRY
    BEGIN CATCH
        SET @again = 0;  -- the next sweep finds them
    END CATCH;
END;

IF @report = 0
    RETURN 0;

SELECT i.ordinal, i.job_id, i.duplicate
FROM @numbered AS i;
GO

-- 222_next_priority.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For claim and await_jobs: the next priority, from @at_least on, that may have ready jobs in jobs_ready, and the job id to begin at. NULL: there is
-- none. @lowered goes with the mark; NULL: no claim has met this priority yet, and a job of it is ready.
--
-- Marks are read with NOLOCK: a claim must not wait for anybody, and a mark that is too low only costs reading.
CREATE OR ALTER PROCEDURE [readpast].[next_priority]
    @queue_id int,
    @at_least smallint,
    @priority smallint OUTPUT,
    @from_id  bigint OUTPUT,
    @lowered  int OUTPUT
AS
SET NOCOUNT ON;
DECLARE @known smallint, @unknown smallint, @up_to smallint = 32767;

SET @from_id = 0;
SET @lowered = NULL;
SELECT TOP (1) @known = m.priority, @from_id = m.job_id, @lowered = m.lowered
FROM [readpast].[marks] AS m WITH (NOLOCK)
WHERE m.queue_id = @queue_id AND m.priority >= @at_least
ORDER BY m.priority;

-- Before the next priority that has a mark there may be a new one. As a claim would see it: not what others have locked.
IF @known > @at_least
    SET @up_to = @known - 1;
IF @known IS NULL OR @known > @at_least
    SELECT TOP (1) @unknown = j.priority
    FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
    WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 0 AND j.alone = 0 AND j.priority >= @at_least AND j.priority <= @up_to
    ORDER BY j.priority
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

SET @priority = @known;
IF @unknown IS NOT NULL
BEGIN
    SET @priority = @unknown;
    SET @from_id = 0;
    SET @lowered = NULL;
END;
GO

-- 224_lower_marks.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For the procedures that make jobs ready again: lowers the marks of a queue, so that the next claim finds the jobs from @job_id on.
-- To be called when the jobs are committed: a claim that meets the lowered mark then finds the jobs, too. Inside a caller's transaction it does
-- nothing, because the mark's row would stay locked; the next sweep finds the jobs. It never fails, for the same reason: what it is called for has
-- been done, and must not be reported as an error.
CREATE OR ALTER PROCEDURE [readpast].[lower_marks]
    @queue_id int,
    @job_id   bigint
AS
SET NOCOUNT ON;
SET XACT_ABORT OFF;
IF @@TRANCOUNT > 0
    RETURN;
BEGIN TRY
    UPDATE [readpast].[marks] WITH (ROWLOCK)
    SET job_id = CASE WHEN job_id > @job_id THEN @job_id ELSE job_id END, lowered = lowered + 1
    WHERE queue_id = @queue_id;
END TRY
BEGIN CATCH
    RETURN;
END CATCH;
GO

-- 226_sweep.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For promote: compares the marks of a queue with the head of jobs_ready, reading over whatever is not cleaned up there. It finds what a mark has
-- passed over: jobs whose claim was rolled back, and jobs of producers that had not committed when later ones were claimed.
--
-- It also moves jobs to the right ready index that stand in the other one: their producer had read the queue's order before it was changed to or from
-- lifo, and came in after create_queue had looked.
--
-- NOLOCK sees the uncommitted job, which the mark must not pass. Where there is much to read over, it takes a twentieth of the time at the most, and
-- the next is put off by no more than twenty minutes: of a sweep no more than a minute counts. (Version 1 noted whatever the clock said.)
CREATE OR ALTER PROCEDURE [readpast].[sweep]
    @queue_id int
AS
SET NOCOUNT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @next smallint = -32768, @priority smallint, @mark bigint, @lowered int, @head bigint,
    @missed bigint, @raised bigint, @newest bigint,
    @met int = 0, @took_ms bigint, @sweep_ms int, @is_lifo bit = 0;

-- Not in a caller's transaction, which would keep the marks locked.
IF @@TRANCOUNT > 0
    OR EXISTS (SELECT 1 FROM [readpast].[duties] WHERE queue_id = @queue_id AND sweep_ms > 50 AND swept_at <= @now
                   AND swept_at > DATEADD(MILLISECOND, -20 * CASE WHEN sweep_ms > 60000 THEN 60000 ELSE sweep_ms END, @now))
    RETURN;

IF EXISTS (SELECT 1 FROM [readpast].[queues] WHERE queue_id = @queue_id AND claim_order = 'lifo')
    SET @is_lifo = 1;
IF @is_lifo = 0 AND EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
                            WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
    WITH misplaced_jobs AS
    (
        SELECT TOP (1000) lifo
        FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0
        ORDER BY priority, job_id DESC
    )
    UPDATE misplaced_jobs SET lifo = 0
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @is_lifo = 1 AND EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
    WITH misplaced_jobs AS
    (
        SELECT TOP (1000) lifo
        FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0
        ORDER BY priority, job_id
    )
    UPDATE misplaced_jobs SET lifo = 1
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

IF EXISTS (SELECT 1 FROM [readpast].[marks] WITH (NOLOCK) WHERE queue_id = @queue_id)
    SET @newest = NEXT VALUE FOR [readpast].[job_ids];
WHILE @next IS NOT NULL
BEGIN
    SET @priority = NULL;
    SELECT TOP (1) @priority = m.priority, @mark = m.job_id, @lowered = m.lowered
    FROM [readpast].[marks] AS m WITH (NOLOCK)
    WHERE m.queue_id = @queue_id AND m.priority >= @next
    ORDER BY m.priority;
    IF @priority IS NULL
        BREAK;
    SET @head = (SELECT TOP (1) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                 WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 0 AND j.alone = 0 AND j.priority = @priority
                 ORDER BY j.job_id);
    -- Below the mark: what a claim could take lowers it. What is not committed does not, because every claim would read over all between it and the
    -- present head until its transaction ends.
    SET @missed = NULL;
    IF @head < @mark
        SET @missed = (SELECT TOP (1) j.job_id FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                       WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 0 AND j.alone = 0 AND j.priority = @priority AND j.job_id < @mark
                       ORDER BY j.job_id);

    -- A job that was missed lowers the mark, whatever else happens to it. It is raised where there is more than a few entries to read over: up to the
    -- head or, where nothing is ready, to the newest number from before this look. What a claim has seen before no longer raises it.
    SET @raised = ISNULL(@head, @newest) - 32;
    UPDATE [readpast].[marks] WITH (ROWLOCK)
    SET job_id  = CASE WHEN @missed < job_id THEN @missed - 32
                       WHEN lowered = @lowered AND @raised > job_id + 32 THEN @raised
                       ELSE job_id END,
        lowered = lowered + 1
    WHERE queue_id = @queue_id AND priority = @priority AND (@head IS NOT NULL OR (lowered = @lowered AND @raised > job_id + 32));

    -- Most queues have a few priorities. Of more, those without jobs are forgotten: each costs every claim a seek.
    SET @met = @met + 1;
    IF @head IS NULL AND @met > 16
        DELETE [readpast].[marks] WITH (ROWLOCK) WHERE queue_id = @queue_id AND priority = @priority AND lowered = @lowered;

    SET @next = CASE WHEN @priority < 32767 THEN @priority + 1 END;
END;

SET @took_ms = DATEDIFF_BIG(MILLISECOND, @now, SYSUTCDATETIME());  -- days, or less than nothing, if the clock jumped meanwhile
SET @sweep_ms = CASE WHEN @took_ms < 0 THEN 0 WHEN @took_ms > 60000 THEN 60000 ELSE @took_ms END;
UPDATE [readpast].[duties] WITH (ROWLOCK)
SET swept_at = @now, sweep_ms = @sweep_ms
WHERE queue_id = @queue_id AND (sweep_ms > 50 OR @sweep_ms > 50);
GO

-- 228_note_attempts.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For finish and reap, in their transaction: keeps failed attempts, the newest 20 of each job. The caller holds the jobs' rows.
CREATE OR ALTER PROCEDURE [readpast].[note_attempts]
    @queue_id int,
    @failed   [readpast].[attempt_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
INSERT [readpast].[attempts] WITH (ROWLOCK) (job_id, fence, queue_id, attempt, worker_id, worker, failed_at, run_us, error)
SELECT f.job_id, f.fence, @queue_id, f.attempt, f.worker_id, f.worker, SYSUTCDATETIME(), f.run_us, f.error
FROM @failed AS f
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- A job has failed no more often than it was claimed.
IF EXISTS (SELECT 1 FROM @failed WHERE fence > 20)
    DELETE a
    FROM @failed AS f
    INNER LOOP JOIN [readpast].[attempts] AS a WITH (ROWLOCK, FORCESEEK, INDEX (attempts_pk)) ON a.job_id = f.job_id
    WHERE f.fence > 20
        AND 20 <= (SELECT COUNT(*) FROM [readpast].[attempts] AS n WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (attempts_pk (job_id, fence)))
                   WHERE n.job_id = a.job_id AND n.fence > a.fence)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO

-- 230_claim.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Claims up to @max ready jobs of a queue for a worker, and returns them.
--
-- Results, one for each priority that was looked at (none where nothing is ready), in no particular order (OUTPUT has none): job_id, fence,
-- attempt, max_attempts, priority, waited_ms (since it was due), age_ms (since it was enqueued), kind, payload_utf16, payload (with
-- @payloads = 0: its length in bytes, as eight bytes, the highest first), details (JSON: an object with dedup_key, correlation_id, time_limit_ms,
-- checkpointed (true: checkpoints has something for it), headers, batch_id, group_key;
-- NULL where the job has none of them: a column of its own for each would cost every other job, too).
-- Later versions add columns at the end, and members to details.
-- Return status: 1 when a job waits that must run alone (see reap), otherwise 0. Asked for with @alone = 1, such a job comes first, and
-- by itself.
-- A queue with max_running or a rate has claim_limited do it; the return status has 2 added where max_running kept jobs back, 4 where
-- the rate did. (Bits: read the first one alone, too.)
-- With delivery at_most_once the rows are deleted by the claim; their fence is 0 and there is nothing to finish.
--
-- The hints: ROWLOCK, because READPAST skips locked rows only, never locked pages. UPDLOCK, so that two claims do not both read a row
-- before one changes it (an UPDATE reads its target so anyway; the hint keeps it so in any plan). READPAST, so that nobody waits for anybody. READCOMMITTEDLOCK, because READPAST is refused without it where
-- READ_COMMITTED_SNAPSHOT is on. INDEX, because a plan made while the queue was empty must not survive as a scan of the table. KEEPFIXED PLAN,
-- so that it survives.
--
-- Each priority is a statement of its own that begins at the priority's mark (see marks): entries of jobs_ready that are deleted but not yet
-- cleaned up lie below it. The worker says with its next claim where this one ended, and the mark is raised to that.
CREATE OR ALTER PROCEDURE [readpast].[claim]
    @queue         nvarchar(129),
    @worker_id     uniqueidentifier,
    @max           int,     -- 1 to 1,000: well under the 5,000 locks at which escalation is tried on other tables
    @alone         bit = 0, -- 1: this worker holds no other job and will run no other beside the one it may get
    @payloads      bit = 1, -- 0: without them, to learn which job it is whose payload does not arrive
    -- For whoever wants claims to stay cheap where deleted entries are not cleaned up: priority and id of the last job (the highest id of the
    -- last priority) of the claim before, and what @lowered said then.
    @seen_priority smallint = NULL,
    @seen_job_id   bigint   = NULL,
    @lowered       int      = NULL OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @claim_order varchar(4), @delivery varchar(13), @max_attempts int,
    @paused bit, @is_limited bit, @alone_waits bit = 0, @status int, @room int = @max, @at_least smallint = -32768, @priority smallint, @from_id bigint, @mark_lowered int,
    @claimed int, @message nvarchar(2048);

SELECT @queue_id = queue_id, @claim_order = claim_order, @delivery = delivery, @max_attempts = max_attempts, @paused = paused,
       @is_limited = CASE WHEN max_running IS NULL AND rate_jobs IS NULL THEN 0 ELSE 1 END
FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @max IS NULL OR @max < 1 OR @max > 1000
    THROW 58003, N'max must be between 1 and 1000', 1;
-- Without a lock that is kept: a claim must not hold up the worker's own heartbeat. A worker that is marked lost just after this still
-- gets its jobs; the reaper looks for jobs of lost workers again and again, and finds them.
IF NOT EXISTS (SELECT 1 FROM [readpast].[workers] WHERE worker_id = @worker_id AND queue_id = @queue_id AND lost_at IS NULL)
    THROW 58002, N'this worker is not registered for the queue, or its lease was lost; register anew', 1;

-- 32 ids are left below: jobs of producers that commit a little later. Seldom written: only when there is something to gain. (Not in a caller's
-- transaction, which would keep the mark locked.)
IF @seen_job_id IS NOT NULL AND @@TRANCOUNT = 0
    UPDATE [readpast].[marks] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    SET job_id = @seen_job_id - 32
    WHERE queue_id = @queue_id AND priority = @seen_priority AND lowered = @lowered AND job_id < @seen_job_id - 64;
SET @lowered = NULL;

IF @paused = 1
    RETURN 0;
IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
           WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
    SET @alone_waits = 1;

IF @is_limited = 1
BEGIN
    EXEC @status = [readpast].[claim_limited] @queue_id, @worker_id, @max, @alone, @payloads;
    RETURN @status + @alone_waits;
END;

IF @alone = 1 AND @alone_waits = 1
BEGIN
    WITH next_jobs AS
    (
        SELECT TOP (1)
               job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
               kind, payload_utf16, payload, plain, time_limit_ms, checkpointed, headers, batch_id, group_key
        FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1
        ORDER BY priority, job_id
    )
    UPDATE next_jobs
    SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
    OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
           inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
           DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind, inserted.payload_utf16,
           CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
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
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0
            ORDER BY priority, job_id DESC
        )
        UPDATE next_jobs
        SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
               inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind, inserted.payload_utf16,
               CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
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
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, attempt, max_attempts, priority, due_at, enqueued_at, dedup_key, correlation_id, kind, payload_utf16, payload, plain, time_limit_ms, headers
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0
            ORDER BY priority, job_id DESC
        )
        DELETE next_jobs
        OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
               deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.kind, deleted.payload_utf16,
               CASE WHEN @payloads = 1 THEN deleted.payload ELSE CAST(DATALENGTH(deleted.payload) AS binary(8)) END AS payload,
               CASE WHEN deleted.plain = 1 THEN NULL
                    WHEN deleted.dedup_key IS NOT NULL OR deleted.correlation_id IS NOT NULL OR deleted.time_limit_ms IS NOT NULL
                    OR deleted.headers IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(deleted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), deleted.correlation_id) + N'"', N'null'),
                                     N',"time_limit_ms":', ISNULL(CONVERT(nvarchar(11), deleted.time_limit_ms), N'null'),
                                     N',"headers":', ISNULL(deleted.headers, N'null'), N'}') AS nvarchar(4000))
                    END AS details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    RETURN @alone_waits;
END;

EXEC [readpast].[next_priority] @queue_id, @at_least, @priority OUTPUT, @from_id OUTPUT, @mark_lowered OUTPUT;
WHILE @priority IS NOT NULL
BEGIN
    IF @mark_lowered IS NULL AND @@TRANCOUNT = 0
    BEGIN
        -- HOLDLOCK locks the key also where there is no row yet: of two claims that meet a new priority the second finds the first's row.
        INSERT [readpast].[marks] (queue_id, priority, job_id, lowered)
        SELECT @queue_id, @priority, 0, 0
        WHERE NOT EXISTS (SELECT 1 FROM [readpast].[marks] WITH (UPDLOCK, HOLDLOCK) WHERE queue_id = @queue_id AND priority = @priority);
        SET @mark_lowered = 0;
    END;

    IF @delivery = 'at_least_once' AND @claim_order = 'fifo'
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
                   kind, payload_utf16, payload, plain, time_limit_ms, checkpointed, headers, batch_id, group_key
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
            ORDER BY job_id
        )
        UPDATE next_jobs
        SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
               inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind, inserted.payload_utf16,
               CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
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
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
        )
        UPDATE next_jobs
        SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
               inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind, inserted.payload_utf16,
               CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
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
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
            ORDER BY job_id
        )
        DELETE next_jobs
        OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
               deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.kind, deleted.payload_utf16,
               CASE WHEN @payloads = 1 THEN deleted.payload ELSE CAST(DATALENGTH(deleted.payload) AS binary(8)) END AS payload,
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
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
        )
        DELETE next_jobs
        OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
               deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.kind, deleted.payload_utf16,
               CASE WHEN @payloads = 1 THEN deleted.payload ELSE CAST(DATALENGTH(deleted.payload) AS binary(8)) END AS payload,
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
    SET @at_least = @priority + 1;
    EXEC [readpast].[next_priority] @queue_id, @at_least, @priority OUTPUT, @from_id OUTPUT, @mark_lowered OUTPUT;
END;

RETURN @alone_waits;
GO

-- 231_claim_limited.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For claim, of a queue that limits how many of its jobs may be claimed at once (max_running) or in an interval (rate_jobs in rate_ms), whoever claims
-- them. Result: as claim. Return status, where jobs are ready and were kept back: 2 by max_running (or
-- a session that is ending jobs), 4 by the rate (or another claim); otherwise 0.
--
-- One session of a queue at a time claims here (an application lock until its transaction ends). So it first claims, then commits, and only then
-- sends the jobs: a client that reads slowly does not keep the others from claiming.
-- What is claimed is counted entry by entry, behind the locks of those that end jobs at this moment: an end that is not committed may be taken
-- back. It waits half a second for them and then claims nothing.
-- An interval begins at any moment: in none of that length are more than rate_jobs claimed. That is exact to a hundredth of it, on the safe side.
CREATE OR ALTER PROCEDURE [readpast].[claim_limited]
    @queue_id  int,
    @worker_id uniqueidentifier,
    @max       int,
    @alone     bit,
    @payloads  bit
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @claim_order varchar(4), @max_attempts int, @max_running int, @rate_jobs int, @rate_ms bigint, @resource nvarchar(255), @granted int,
    @now datetime2(3), @now_ms bigint, @slot_ms bigint, @room int, @allowed int, @claimed int, @kept_by int = 0, @found bit, @at_least smallint = -32768, @priority smallint,
    @from_id bigint, @lowered int;
DECLARE @jobs TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @unmarked TABLE (priority smallint NOT NULL PRIMARY KEY CLUSTERED);

SELECT @claim_order = claim_order, @max_attempts = max_attempts, @max_running = max_running, @rate_jobs = rate_jobs, @rate_ms = rate_ms
FROM [readpast].[queues] WHERE queue_id = @queue_id;
SET @allowed = @max;

BEGIN TRANSACTION;
BEGIN TRY
    SET @resource = CONCAT(N'readpast.limits.', @queue_id);
    EXEC @granted = sys.sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 500;
    IF @granted < 0
    BEGIN
        SET @allowed = 0;
        SET @kept_by = 4;
    END;
    SET @now = SYSUTCDATETIME();

    IF @max_running IS NOT NULL AND @allowed > 0
    BEGIN
        SET XACT_ABORT OFF;  -- so that a lock's time-out ends nothing but its statement
        SET LOCK_TIMEOUT 500;
        SET @room = @max_running - (SELECT COUNT(*)
                                    FROM (SELECT TOP (@max_running) j.job_id
                                          FROM [readpast].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (jobs_claimed))
                                          WHERE j.queue_id = @queue_id AND j.state = 2) AS c);
        -- From here on it waits as claim does: not for jobs that others have locked.
        SET LOCK_TIMEOUT -1;
        SET XACT_ABORT ON;
        IF @room < @allowed
        BEGIN
            SET @allowed = @room;
            SET @kept_by = 2;
        END;
    END;

    IF @rate_jobs IS NOT NULL AND @allowed > 0
    BEGIN
        SET @now_ms = DATEDIFF_BIG(MILLISECOND, '20000101', @now);
        SET @slot_ms = CASE WHEN @rate_ms >= 100 THEN @rate_ms / 100 ELSE 1 END;
        -- Slots of the future are from before the clock was set back.
        DELETE [readpast].[claim_rates] WITH (ROWLOCK)
        WHERE queue_id = @queue_id AND (slot_ms + @slot_ms <= @now_ms - @rate_ms OR slot_ms > @now_ms + @rate_ms);
        SET @room = @rate_jobs - (SELECT ISNULL(SUM(claimed), 0) FROM [readpast].[claim_rates] WITH (ROWLOCK) WHERE queue_id = @queue_id);
        IF @room < @allowed
        BEGIN
            SET @allowed = CASE WHEN @room < 0 THEN 0 ELSE @room END;
            SET @kept_by = 4;
        END;
    END;

    SET @room = @allowed;
    IF @alone = 1 AND @room > 0
    BEGIN
        WITH next_jobs AS
        (
            SELECT TOP (1) job_id, state, fence, attempt, worker_id, claimed_at, priority
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
            WHERE queue_id = @queue_id AND state = 0 AND alone = 1
            ORDER BY priority, job_id
        )
        UPDATE next_jobs
        SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id INTO @jobs (job_id)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @@ROWCOUNT > 0
            SET @room = 0;
    END;

    IF @claim_order = 'lifo' AND @room > 0
    BEGIN
        WITH next_jobs AS
        (
            SELECT TOP (@room) job_id, state, fence, attempt, worker_id, claimed_at, priority
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0
            ORDER BY priority, job_id DESC
        )
        UPDATE next_jobs
        SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id INTO @jobs (job_id)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @room = 0;
    END;

    -- As claim does.
    WHILE @room > 0
    BEGIN
        EXEC [readpast].[next_priority] @queue_id, @at_least, @priority OUTPUT, @from_id OUTPUT, @lowered OUTPUT;
        IF @priority IS NULL
            BREAK;
        IF @lowered IS NULL
            INSERT @unmarked (priority) VALUES (@priority);
        WITH next_jobs AS
        (
            SELECT TOP (@room) job_id, state, fence, attempt, worker_id, claimed_at
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
            ORDER BY job_id
        )
        UPDATE next_jobs
        SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id INTO @jobs (job_id)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @room = @room - @@ROWCOUNT;
        IF @priority = 32767
            BREAK;
        SET @at_least = @priority + 1;
    END;

    SET @claimed = (SELECT COUNT(*) FROM @jobs);
    IF @rate_jobs IS NOT NULL AND @claimed > 0
    BEGIN
        UPDATE [readpast].[claim_rates] WITH (ROWLOCK)
        SET claimed = claimed + @claimed
        WHERE queue_id = @queue_id AND slot_ms = @now_ms - @now_ms % @slot_ms;
        IF @@ROWCOUNT = 0
            INSERT [readpast].[claim_rates] (queue_id, slot_ms, claimed) VALUES (@queue_id, @now_ms - @now_ms % @slot_ms, @claimed);
    END;
    COMMIT TRANSACTION;
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() <> 1222 OR XACT_STATE() <> 1
    BEGIN
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END;
    -- Only the count waits for locks: nothing is claimed yet.
    COMMIT TRANSACTION;
    RETURN 2;
END CATCH;

-- As claim does: the sweep raises them. Only now, and not in a caller's transaction, which would keep them locked.
IF @@TRANCOUNT = 0
    INSERT [readpast].[marks] (queue_id, priority, job_id, lowered)
    SELECT @queue_id, u.priority, 0, 0
    FROM @unmarked AS u
    WHERE NOT EXISTS (SELECT 1 FROM [readpast].[marks] WITH (UPDLOCK, HOLDLOCK) WHERE queue_id = @queue_id AND priority = u.priority);

SELECT j.job_id, j.fence, j.attempt, COALESCE(j.max_attempts, @max_attempts) AS max_attempts, j.priority,
       DATEDIFF_BIG(MILLISECOND, j.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, j.enqueued_at, @now) AS age_ms, j.kind, j.payload_utf16,
       CASE WHEN @payloads = 1 THEN j.payload ELSE CAST(DATALENGTH(j.payload) AS binary(8)) END AS payload,
       CASE WHEN j.plain = 1 THEN NULL
            WHEN j.dedup_key IS NOT NULL OR j.correlation_id IS NOT NULL OR j.time_limit_ms IS NOT NULL
            OR j.checkpointed = 1 OR j.headers IS NOT NULL OR j.batch_id IS NOT NULL OR j.group_key IS NOT NULL
            THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(j.dedup_key, 'json') + N'"', N'null'),
                             N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), j.correlation_id) + N'"', N'null'),
                             N',"time_limit_ms":', ISNULL(CONVERT(nvarchar(11), j.time_limit_ms), N'null'),
                             N',"checkpointed":', CASE WHEN j.checkpointed = 1 THEN N'true' ELSE N'false' END,
                             N',"headers":', ISNULL(j.headers, N'null'),
                             N',"batch_id":', ISNULL(CONVERT(nvarchar(20), j.batch_id), N'null'),
                             N',"group_key":', ISNULL(N'"' + STRING_ESCAPE(j.group_key, 'json') + N'"', N'null'), N'}') AS nvarchar(4000))
            END AS details
FROM @jobs AS c
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = c.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);

IF @kept_by > 0 AND @claimed >= @allowed
    EXEC [readpast].[look] @queue_id, @found OUTPUT;
RETURN CASE WHEN @found = 1 THEN @kept_by ELSE 0 END;
GO

-- 232_look.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For await_jobs: whether a queue that is not paused has a job that a claim would get. Each ready job stands in one of three indexes; jobs_ready is
-- looked at from its marks on, as a claim does.
CREATE OR ALTER PROCEDURE [readpast].[look]
    @queue_id int,
    @found    bit OUTPUT
AS
SET NOCOUNT ON;
DECLARE @at_least smallint = -32768, @priority smallint, @from_id bigint, @lowered int;

SET @found = 0;
IF NOT EXISTS (SELECT 1 FROM [readpast].[queues] WHERE queue_id = @queue_id AND paused = 0)
    RETURN;
IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
           WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
    OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
               WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
    SET @found = 1;

WHILE @found = 0
BEGIN
    EXEC [readpast].[next_priority] @queue_id, @at_least, @priority OUTPUT, @from_id OUTPUT, @lowered OUTPUT;
    IF @priority IS NULL
        RETURN;
    IF @lowered IS NULL
        OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                   WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id)
        SET @found = 1;
    IF @priority = 32767
        RETURN;
    SET @at_least = @priority + 1;
END;
GO

-- 235_await_jobs.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Waits until a queue has a job to claim, or for about @wait_ms. Changes nothing, and no transaction is open and no lock on a table is held while
-- it waits: the session sleeps in WAITFOR DELAY and looks at the head of the ready indexes between two delays.
-- Result: found; waited, 0 where @most_sessions wait already: then it has looked once, and the caller comes again a good deal later.
--
-- An idle worker calls it on a connection of its own. It costs SQL Server one sleeping worker thread, and a few index seeks for each look; polling
-- from outside would cost a call each. Whatever it says, only a claim decides who gets a job.
CREATE OR ALTER PROCEDURE [readpast].[await_jobs]
    @queue         nvarchar(129),
    @first_ms      int,      -- the delay before the first look; it doubles from look to look. 10 at the least
    @most_ms       int,      -- up to this: how long a new job may go unnoticed
    @wait_ms       int,      -- shorter than the caller's command time-out
    @most_sessions int = 32  -- how many sessions may wait for jobs of this queue at once: each holds a thread of SQL Server's
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @started_at datetime2(3) = SYSUTCDATETIME(), @waited_ms bigint = 0, @queue_id int, @delay_ms int, @delay datetime, @found bit = 0,
    @slot int, @tries int = 0, @granted int = -1, @resource nvarchar(255), @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @first_ms IS NULL OR @most_ms IS NULL OR @wait_ms IS NULL OR @first_ms < 1 OR @most_ms < @first_ms OR @most_ms > 3600000 OR @wait_ms < 1 OR @wait_ms > 3600000
    THROW 58003, N'first_ms must be at least 1 and at most most_ms, most_ms and wait_ms at most 3600000 (an hour)', 1;
IF @most_sessions IS NULL OR @most_sessions < 1 OR @most_sessions > 1000
    THROW 58003, N'most_sessions must be between 1 and 1000', 1;

-- A place among those that wait is an application lock of the session, which is gone when the session is. From a place of chance on.
SET @slot = ABS(CHECKSUM(NEWID()) % @most_sessions);
WHILE @granted < 0 AND @tries < @most_sessions
BEGIN
    SET @resource = CONCAT(N'readpast.wait.', @queue_id, N'.', @slot);
    EXEC @granted = sys.sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 0;
    SET @tries = @tries + 1;
    SET @slot = (@slot + 1) % @most_sessions;
END;
IF @granted < 0
BEGIN
    EXEC [readpast].[look] @queue_id, @found OUTPUT;
    SELECT @found AS found, CAST(0 AS bit) AS waited;
    RETURN;
END;

BEGIN TRY
    SET @delay_ms = CASE WHEN @first_ms < 10 THEN 10 ELSE @first_ms END;
    -- By the clock, because looks take time, too. (One that is set back ends the wait.)
    WHILE @found = 0 AND @waited_ms >= 0 AND @waited_ms < @wait_ms
    BEGIN
        SET @delay = DATEADD(MILLISECOND, @delay_ms, CAST('19000101' AS datetime));
        WAITFOR DELAY @delay;
        SET @delay_ms = CASE WHEN @delay_ms < @most_ms / 2 THEN @delay_ms * 2 WHEN @most_ms > 10 THEN @most_ms ELSE 10 END;
        EXEC [readpast].[look] @queue_id, @found OUTPUT;
        SET @waited_ms = DATEDIFF_BIG(MILLISECOND, @started_at, SYSUTCDATETIME());
    END;
END TRY
BEGIN CATCH
    EXEC sys.sp_releaseapplock @Resource = @resource, @LockOwner = N'Session';
    THROW;
END CATCH;
EXEC sys.sp_releaseapplock @Resource = @resource, @LockOwner = N'Session';
SELECT @found AS found, CAST(1 AS bit) AS waited;
GO

-- 238_call_sink.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Calls the sink of a queue with the jobs of @jobs that are done and still this worker's, inside of finish's transaction and before its own
-- changes: while the sink runs, the jobs' rows are locked U, which no claim, enqueue or look of an operator waits for.
--
-- When the sink fails, everything is rolled back, a caller's transaction too, and the error is 58020. Its text begins with the number of the
-- sink's own error and a colon, so that the worker can tell a deadlock, after which it repeats the call, from a result that the sink refuses.
CREATE OR ALTER PROCEDURE [readpast].[call_sink]
    @sink      nvarchar(517),
    @queue_id  int,
    @worker_id uniqueidentifier,
    @jobs      [readpast].[finish_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @open int, @message nvarchar(2048);
DECLARE @done [readpast].[sink_list];

INSERT @done (job_id, kind, correlation_id, fence, output)
SELECT j.job_id, j.kind, j.correlation_id, j.fence, f.output
FROM @jobs AS f
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
WHERE f.outcome = 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
ORDER BY f.job_id  -- so that the join keeps to it
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT = 0
    RETURN 0;

-- One level more, so that a COMMIT of the sink's ends nothing: it is noticed below, and all of it is rolled back.
BEGIN TRANSACTION;
SET @open = @@TRANCOUNT;
BEGIN TRY
    EXEC @sink @done;
    IF @@TRANCOUNT <> @open
        THROW 58003, N'it has ended a transaction or left one open; it must leave the one in which it is called as it is', 1;
    IF XACT_STATE() <> 1
        THROW 58003, N'it has caught an error after which the transaction cannot be committed; it must raise it again', 1;
END TRY
BEGIN CATCH
    SET @message = CONCAT(ERROR_NUMBER(), N': the sink ', @sink, N' failed with error ', ERROR_NUMBER(), N' in line ', ERROR_LINE(), N' of ',
                          ERROR_PROCEDURE(), N': ', ERROR_MESSAGE());
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    THROW 58020, @message, 1;
END CATCH;
COMMIT TRANSACTION;
GO

-- 240_finish.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Acknowledges a batch of jobs that a worker has run. A job changes only while it is claimed by this worker under this fence.
-- A snoozed job (outcome 3) waits like one that is retried, but its attempt does not count, so that it is never dead of it: it was too early
-- for it, or the worker has no handler for its kind.
-- A job that was asked to be cancelled (cancel) is done if it is done, and cancelled whatever else is asked for.
--
-- The ends of jobs of batches are added to the batches' counts, which may end them; where jobs of groups have ended, the next ones get their turn.
--
-- Attempts that failed (outcomes 1 and 2) are kept in attempts. Those of a job that is done go with it where the queue deletes done jobs.
--
-- Where the queue has a sink, that is called first, in the same transaction, with the jobs that are done (call_sink): what it writes and the
-- acknowledgement are committed together or not at all. When it fails, the error is 58020 and nothing was changed.
--
-- Result: job_id, result, for every job that did not end as asked: 'lost' (no longer this worker's under this fence; nothing was
-- changed) or 'dead' (a retry was asked for, but its attempts are used up). Run again with the same jobs, it reports them as lost.
--
-- INNER LOOP JOIN reads @jobs in the order of its key and seeks each job by FORCESEEK: a table-valued parameter has no statistics,
-- so that without the hints the optimizer may scan the table. (FORCESEEK with an INDEX hint, not with index columns, which is not allowed for the
-- target of a DELETE or UPDATE.) Every finisher locks in the order of job_id.
CREATE OR ALTER PROCEDURE [readpast].[finish]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @jobs      [readpast].[finish_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @completion varchar(8), @max_attempts int, @sink nvarchar(517), @first_ready bigint,
    @message nvarchar(2048), @outcome tinyint, @least tinyint, @fence int, @locked int, @shortest bigint, @longest bigint,
    @is_linked bit = 0, @retry_passes bit;
-- attempt: the one that has failed.
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, dead bit NOT NULL, attempt int NULL);
DECLARE @failed [readpast].[attempt_list];
DECLARE @members [readpast].[member_list];

SELECT @queue_id = queue_id, @completion = completion, @max_attempts = max_attempts, @sink = sink,
       @retry_passes = retry_passes
FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
-- One look at the list says what is needed below.
SELECT @outcome = MAX(outcome), @least = MIN(outcome), @fence = MAX(fence), @shortest = MIN(ISNULL(retry_ms, 0)),
       @longest = MAX(ISNULL(retry_ms, 0))
FROM @jobs;
IF @outcome > 3 OR @shortest < 0 OR @longest > 315360000000
    THROW 58003, N'outcome must be 0 (done), 1 (retry), 2 (dead) or 3 (snooze), retry_ms between 0 and 315360000000 (ten years)', 1;
-- NOLOCK: a job of a batch or a group cannot have been claimed before the row that says so was there.
IF EXISTS (SELECT 1 FROM [readpast].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
    SET @is_linked = 1;

BEGIN TRANSACTION;
-- All rows are locked before, in the order of job_id: where a list of both done and other jobs is changed by two statements, and where jobs may
-- belong to batches or groups. What they belong to must not be read before: a call that was given up, and now comes again, may be ending them at the
-- same time, and then end or roll back.
IF @is_linked = 1
BEGIN
    INSERT @members (job_id, in_turn, batch_id, group_key)
    SELECT j.job_id, j.in_turn, j.batch_id, j.group_key
    FROM @jobs AS f
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    WHERE j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    ORDER BY f.job_id  -- so that the join keeps to it
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    DELETE @members WHERE batch_id IS NULL AND group_key IS NULL;
END;
ELSE IF @least = 0 AND @outcome > 0
    SELECT @locked = COUNT(*)
    FROM @jobs AS f
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    WHERE j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

IF @sink IS NOT NULL
    EXEC [readpast].[call_sink] @sink, @queue_id, @worker_id, @jobs;

IF @completion = 'delete'
BEGIN
    DELETE j
    OUTPUT deleted.job_id, 0 INTO @found (job_id, dead)
    FROM @jobs AS f
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    WHERE f.outcome = 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    -- A job that was claimed once has no failed attempt.
    IF @fence > 1
        DELETE a
        FROM @jobs AS f
        INNER JOIN @found AS d ON d.job_id = f.job_id
        INNER LOOP JOIN [readpast].[attempts] AS a WITH (ROWLOCK, FORCESEEK, INDEX (attempts_pk)) ON a.job_id = f.job_id
        WHERE f.fence > 1 AND f.outcome = 0
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
END;
ELSE IF @completion = 'annotate'
    UPDATE j
    SET state = 3, ended = 1, finished_at = @now, run_us = f.run_us, output = f.output,
        error = CASE WHEN j.cancelling = 1 THEN NULL ELSE j.error END, cancelling = NULL
    OUTPUT inserted.job_id, 0 INTO @found (job_id, dead)
    FROM @jobs AS f
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    WHERE f.outcome = 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
ELSE
BEGIN
    DELETE j
    OUTPUT deleted.job_id, deleted.queue_id, deleted.priority, deleted.attempt, deleted.fence, deleted.enqueued_at, deleted.due_at,
           deleted.worker_id, deleted.claimed_at, @now, f.run_us, deleted.correlation_id, deleted.kind, deleted.dedup_key,
           deleted.payload_utf16, deleted.payload, CASE WHEN deleted.cancelling = 1 THEN NULL ELSE deleted.error END, f.output, deleted.time_limit_ms,
           deleted.headers, deleted.batch_id, deleted.group_key
    INTO [readpast].[archive]
         (job_id, queue_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, correlation_id,
          kind, dedup_key, payload_utf16, payload, error, output, time_limit_ms, headers, batch_id, group_key)
    FROM @jobs AS f
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    WHERE f.outcome = 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    INSERT @found (job_id, dead)
    SELECT f.job_id, 0
    FROM @jobs AS f
    INNER LOOP JOIN [readpast].[archive] AS a WITH (FORCESEEK (archive_pk (job_id))) ON a.job_id = f.job_id
    WHERE f.outcome = 0 AND a.worker_id = @worker_id AND a.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END;

IF @outcome > 0
BEGIN
    UPDATE j
    SET state       = CASE WHEN j.cancelling = 1 THEN 5
                           WHEN f.outcome = 2 OR (f.outcome = 1 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts)) THEN 4
                           WHEN f.retry_ms > 0 THEN 1
                           ELSE 0 END,
        ended       = CASE WHEN j.cancelling = 1 OR f.outcome = 2 OR (f.outcome = 1 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts))
                           THEN 1 ELSE 0 END,
        attempt     = CASE WHEN f.outcome = 3 THEN j.attempt - 1 ELSE j.attempt END,
        due_at      = DATEADD(MILLISECOND, ISNULL(f.retry_ms, 0) % 1000, DATEADD(SECOND, ISNULL(f.retry_ms, 0) / 1000, @now)),
        finished_at = @now,
        run_us      = f.run_us,
        error       = CASE WHEN j.cancelling = 1 THEN j.error ELSE f.error END,
        cancelling  = NULL
    OUTPUT inserted.job_id, CASE WHEN inserted.state = 4 AND f.outcome = 1 THEN 1 ELSE 0 END, CASE WHEN f.outcome < 3 THEN inserted.attempt END
    INTO @found (job_id, dead, attempt)
    FROM @jobs AS f
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    WHERE f.outcome > 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    IF EXISTS (SELECT 1 FROM @found WHERE attempt IS NOT NULL)
    BEGIN
        INSERT @failed (job_id, fence, attempt, worker_id, worker, run_us, error)
        SELECT f.job_id, f.fence, d.attempt, @worker_id, ISNULL(w.name, N''), f.run_us, f.error
        FROM @found AS d
        INNER JOIN @jobs AS f ON f.job_id = d.job_id
        LEFT JOIN [readpast].[workers] AS w WITH (NOLOCK) ON w.worker_id = @worker_id
        WHERE d.attempt IS NOT NULL
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        EXEC [readpast].[note_attempts] @queue_id, @failed;
    END;
END;

IF @is_linked = 1 AND EXISTS (SELECT 1 FROM @members)
BEGIN
    -- A job that is retried goes back to its group.
    IF @outcome > 0 AND @retry_passes = 1
        UPDATE j
        SET state = CASE WHEN j.state = 0 THEN 6 ELSE j.state END, in_turn = NULL
        FROM @members AS m
        INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id
        WHERE j.state IN (0, 1) AND j.group_key IS NOT NULL
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    UPDATE m
    SET state = CASE WHEN j.job_id IS NULL THEN 3 WHEN j.state = 1 AND j.in_turn IS NULL THEN 6 ELSE j.state END
    FROM @members AS m
    LEFT JOIN [readpast].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = m.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    EXEC [readpast].[note_ends] @queue_id, @members;
END;
COMMIT TRANSACTION;

IF EXISTS (SELECT 1 FROM @members WHERE group_key IS NOT NULL)
    EXEC [readpast].[advance_groups] @queue_id;
IF @outcome > 0
BEGIN
    SET @first_ready = (SELECT MIN(job_id) FROM @jobs WHERE outcome IN (1, 3) AND ISNULL(retry_ms, 0) = 0);
    IF @first_ready IS NOT NULL
        EXEC [readpast].[lower_marks] @queue_id, @first_ready;
END;

SELECT f.job_id, CAST('lost' AS varchar(4)) AS result
FROM @jobs AS f
WHERE NOT EXISTS (SELECT 1 FROM @found AS d WHERE d.job_id = f.job_id)
UNION ALL
SELECT d.job_id, CAST('dead' AS varchar(4))
FROM @found AS d
WHERE d.dead = 1;
GO

-- 242_finish_with.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Acknowledges jobs as finish does and, in the same transaction, enqueues the jobs that follow them. A follow-up of a job that is not done in this
-- call, or is no longer this worker's under this fence, is not enqueued. For calls that bring follow-ups: others call finish, which is one list less.
--
-- The follow-ups come after the acknowledgements, so that one may have the de-duplication key of the job that it follows. When one cannot be enqueued
-- (its queue does not exist, or enqueue_batch refuses it), everything is rolled back, a caller's transaction too, and the error is 58020,
-- as when a sink fails.
-- Result: as finish.
CREATE OR ALTER PROCEDURE [readpast].[finish_with]
    @queue      nvarchar(129),
    @worker_id  uniqueidentifier,
    @jobs       [readpast].[finish_list] READONLY,
    @follow_ups [readpast].[follow_up_list] READONLY
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int = (SELECT queue_id FROM [readpast].[queues] WHERE name = @queue), @next nvarchar(128), @last nvarchar(128), @next_id int,
    @first_id bigint, @locked int, @message nvarchar(2048);
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);
-- Of the follow-ups.
DECLARE @batches TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @queues TABLE (queue_id int NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @grouped TABLE (queue_id int NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @list [readpast].[enqueue_list];
DECLARE @details [readpast].[detail_list];

SET @first_id = NEXT VALUE FOR [readpast].[job_ids];  -- below those of the follow-ups
BEGIN TRANSACTION;
-- Batches before jobs, see batches. (One that is sealed or not there is found out below.)
IF EXISTS (SELECT 1 FROM @follow_ups WHERE batch_id IS NOT NULL)
BEGIN
    INSERT @batches (batch_id) SELECT u.batch_id FROM @follow_ups AS u WHERE u.batch_id IS NOT NULL GROUP BY u.batch_id;
    SELECT @locked = COUNT(b.sealed_at)
    FROM @batches AS u
    INNER LOOP JOIN [readpast].[batches] AS b WITH (ROWLOCK, REPEATABLEREAD, FORCESEEK (batches_pk (batch_id))) ON b.batch_id = u.batch_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END;
INSERT @held (job_id)
SELECT j.job_id
FROM @jobs AS f
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
WHERE j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
ORDER BY f.job_id  -- so that the join keeps to it
OPTION (MAXDOP 1, KEEPFIXED PLAN);
-- All were locked, in the order of job_id; only those that are done have follow-ups.
DELETE h FROM @held AS h INNER JOIN @jobs AS f ON f.job_id = h.job_id WHERE f.outcome <> 0;

EXEC [readpast].[finish] @queue = @queue, @worker_id = @worker_id, @jobs = @jobs;

-- Queue by queue, in the order of their names, in which everybody locks keys.
WHILE 1 = 1
BEGIN
    SET @next = NULL;
    SELECT TOP (1) @next = u.queue
    FROM @follow_ups AS u
    INNER JOIN @held AS h ON h.job_id = u.job_id
    WHERE @last IS NULL OR u.queue > @last
    ORDER BY u.queue;
    IF @next IS NULL
        BREAK;
    SET @last = @next;

    DELETE @list;
    DELETE @details;
    INSERT @list (ordinal, payload, priority, delay_ms, due_at, max_attempts, dedup_key, correlation_id, kind)
    SELECT u.ordinal, u.payload, u.priority, u.delay_ms, u.due_at, u.max_attempts, u.dedup_key, u.correlation_id, u.kind
    FROM @follow_ups AS u
    INNER JOIN @held AS h ON h.job_id = u.job_id
    WHERE u.queue = @next;
    INSERT @details (ordinal, time_limit_ms, headers, group_key, batch_id)
    SELECT u.ordinal, u.time_limit_ms, u.headers, u.group_key, u.batch_id
    FROM @follow_ups AS u
    INNER JOIN @held AS h ON h.job_id = u.job_id
    WHERE u.queue = @next
        AND (u.time_limit_ms IS NOT NULL OR u.headers IS NOT NULL OR u.group_key IS NOT NULL OR u.batch_id IS NOT NULL);

    BEGIN TRY
        EXEC [readpast].[enqueue_batch] @queue = @next, @jobs = @list, @report = 0, @details = @details;
    END TRY
    BEGIN CATCH
        SET @message = CONCAT(ERROR_NUMBER(), N': a follow-up in queue ''', @next, N''' cannot be enqueued, error ', ERROR_NUMBER(), N': ',
                              ERROR_MESSAGE());
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW 58020, @message, 1;
    END CATCH;
    INSERT @queues (queue_id) SELECT queue_id FROM [readpast].[queues] WHERE name = @next;
    IF EXISTS (SELECT 1 FROM @details WHERE group_key IS NOT NULL)
        INSERT @grouped (queue_id) SELECT queue_id FROM [readpast].[queues] WHERE name = @next;
END;
COMMIT TRANSACTION;

IF @@TRANCOUNT = 0
BEGIN
    -- What finish has left, because it was in this transaction.
    EXEC [readpast].[advance_groups] @queue_id;
    WHILE EXISTS (SELECT 1 FROM @grouped)
    BEGIN
        SET @next_id = (SELECT MIN(queue_id) FROM @grouped);
        EXEC [readpast].[advance_groups] @next_id;
        DELETE @grouped WHERE queue_id = @next_id;
    END;
END;
-- Jobs with higher numbers than the follow-ups' may have been claimed meanwhile, see enqueue. No error here is the caller's: all is committed.
IF @@TRANCOUNT = 0
BEGIN
    SET XACT_ABORT OFF;
    BEGIN TRY
        WHILE 1 = 1
        BEGIN
            SET @next_id = NULL;
            SELECT TOP (1) @next_id = q.queue_id
            FROM @queues AS q
            WHERE EXISTS (SELECT 1 FROM [readpast].[marks] AS m WITH (NOLOCK) WHERE m.queue_id = q.queue_id AND m.job_id > @first_id);
            IF @next_id IS NULL
                BREAK;
            EXEC [readpast].[lower_marks] @next_id, @first_id;
            DELETE @queues WHERE queue_id = @next_id;
        END;
    END TRY
    BEGIN CATCH
        RETURN 0;
    END CATCH;
END;
GO

-- 245_finish_one.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Acknowledges one job, as finish and finish_with do: for callers that cannot pass a table-valued parameter, or not a row as large as this one's
-- output (the driver of the Rust crate takes no value over 65,535 bytes into one). Takes part in the caller's transaction. @follow_ups may be left out.
-- Result: as finish.
CREATE OR ALTER PROCEDURE [readpast].[finish_one]
    @queue      nvarchar(129),
    @worker_id  uniqueidentifier,
    @job_id     bigint,
    @fence      int,
    @outcome    tinyint        = 0,     -- 0 done, 1 retry, 2 dead, 3 snooze
    @retry_ms   bigint         = NULL,  -- outcome 1 and 3: how long to wait; NULL or 0: ready at once
    @run_us     bigint         = NULL,
    @error      nvarchar(4000) = NULL,
    @output     varbinary(max) = NULL,  -- outcome 0: for the sink, and kept by the policies annotate and archive
    @follow_ups [readpast].[follow_up_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @jobs [readpast].[finish_list];

INSERT @jobs (job_id, fence, outcome, retry_ms, run_us, error, output)
VALUES (@job_id, @fence, @outcome, @retry_ms, @run_us, @error, @output);

IF EXISTS (SELECT 1 FROM @follow_ups)
    EXEC [readpast].[finish_with] @queue = @queue, @worker_id = @worker_id, @jobs = @jobs, @follow_ups = @follow_ups;
ELSE
    EXEC [readpast].[finish] @queue = @queue, @worker_id = @worker_id, @jobs = @jobs;
GO

-- 250_release.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Gives back claimed jobs that were not started, or that a planned stop has cut off: ready again at once, the attempt not counted. Those that were asked to be
-- cancelled are cancelled.
-- Result: job_id of every job that was no longer this worker's under this fence.
CREATE OR ALTER PROCEDURE [readpast].[release]
    @worker_id uniqueidentifier,
    @jobs      [readpast].[job_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @members [readpast].[member_list];
DECLARE @queue_id int = (SELECT queue_id FROM [readpast].[workers] WHERE worker_id = @worker_id), @first_ready bigint, @released int;

UPDATE j
SET state = 0, attempt = j.attempt - 1
OUTPUT inserted.job_id INTO @found (job_id)
FROM @jobs AS r
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = r.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = r.fence AND j.cancelling IS NULL
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @released = @@ROWCOUNT;
SET @first_ready = (SELECT MIN(job_id) FROM @found);

-- A statement of its own, so that the others' does not change what jobs_dedup depends on.
IF @released < (SELECT COUNT(*) FROM @jobs)
BEGIN
    BEGIN TRANSACTION;
    UPDATE j
    SET state = 5, ended = 1, attempt = j.attempt - 1, finished_at = SYSUTCDATETIME(), cancelling = NULL
    OUTPUT inserted.job_id, 5, inserted.in_turn, inserted.batch_id, inserted.group_key INTO @members (job_id, state, in_turn, batch_id, group_key)
    FROM @jobs AS r
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = r.job_id
    WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = r.fence AND j.cancelling = 1
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    EXEC [readpast].[note_ends] @queue_id, @members;
    COMMIT TRANSACTION;
    INSERT @found (job_id) SELECT job_id FROM @members;
    IF EXISTS (SELECT 1 FROM @members WHERE group_key IS NOT NULL)
        EXEC [readpast].[advance_groups] @queue_id;
END;

IF @first_ready IS NOT NULL
    EXEC [readpast].[lower_marks] @queue_id, @first_ready;

SELECT r.job_id FROM @jobs AS r WHERE NOT EXISTS (SELECT 1 FROM @found AS f WHERE f.job_id = r.job_id);
GO

-- 260_recover.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Lists the jobs that this worker holds in the table but does not know of: those of a claim whose answer never arrived.
-- @known is everything the worker has in memory. What it gets here it gives back by release, which names each fence: this call itself
-- changes nothing, so that it does no harm when it arrives late, after the worker has given it up and claimed again.
-- Reads entries of jobs_claimed alone (it has all columns that are asked for): going on to the rows would be the order opposite to finish's.
-- Waits for a claim of this worker that is still running on a connection the worker has given up.
-- Result: job_id, fence.
CREATE OR ALTER PROCEDURE [readpast].[recover]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @known     [readpast].[job_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int;
SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;

SELECT j.job_id, j.fence
FROM [readpast].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (jobs_claimed))
WHERE j.queue_id = @queue_id AND j.state = 2 AND j.worker_id = @worker_id
    AND NOT EXISTS (SELECT 1 FROM @known AS k WHERE k.job_id = j.job_id AND k.fence = j.fence)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO

-- 290_tend.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For promote and reap: notes that the queue is served. Where nobody has done so for more than two seconds, SQL Server was not there, or none of the
-- workers was: a lease that ran out meanwhile says nothing about its worker, and each worker whose lease is at most twice as long as that time gets
-- a new one, three times at the most between two heartbeats: a dead worker is lost in the end, whatever comes and goes.
--
-- With @worker_id, only for the worker that has the duties, which keeps them for three more seconds, or that takes them because nobody has them.
-- The leases come first: whoever sees the new tended_at sees them, too.
CREATE OR ALTER PROCEDURE [readpast].[tend]
    @queue_id  int,
    @worker_id uniqueidentifier,
    @now       datetime2(3) OUTPUT,
    @elected   bit OUTPUT
AS
SET NOCOUNT ON;
DECLARE @gap_ms bigint;

SET @now = SYSUTCDATETIME();
SET @elected = 0;
SELECT @gap_ms = DATEDIFF_BIG(MILLISECOND, tended_at, @now)
FROM [readpast].[duties] WITH (NOLOCK)
WHERE queue_id = @queue_id
    AND (@worker_id IS NULL OR worker_id = @worker_id OR until < @now OR until > DATEADD(SECOND, 10, @now));  -- the last: the clock was set back
IF @gap_ms IS NULL
    RETURN;

-- A worker whose row is locked is renewing its lease right now.
IF @gap_ms > 2000
    UPDATE [readpast].[workers] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    SET lease_until = DATEADD(MILLISECOND, lease_ms, @now), unserved = unserved + 1
    WHERE queue_id = @queue_id AND lost_at IS NULL AND unserved < 3
        AND @gap_ms > lease_ms / 2 AND lease_until < DATEADD(MILLISECOND, lease_ms / 2, @now);

-- In a caller's transaction nothing is noted, because the queue's row would stay locked.
IF @@TRANCOUNT = 0
BEGIN
    UPDATE [readpast].[duties] WITH (ROWLOCK)
    SET worker_id = ISNULL(@worker_id, worker_id),
        until     = CASE WHEN @worker_id IS NULL THEN until ELSE DATEADD(SECOND, 3, @now) END,
        tended_at = @now
    WHERE queue_id = @queue_id
        AND (@worker_id IS NULL OR worker_id = @worker_id OR until < @now OR until > DATEADD(SECOND, 10, @now));
    SET @elected = @@ROWCOUNT;
END;
GO

-- 300_reap.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Marks up to @max workers of a queue lost whose lease ran out, and gives back up to @max jobs of lost workers: ready again or, where the
-- attempts are used up, dead. The attempt counts: a job that kills its process must not come back for ever.
-- But nobody knows which of the jobs of a lost worker had started, let alone which one killed it. So a job whose next attempt is its last
-- must run alone: only a worker that holds nothing else gets it (claim). If that worker is lost too, the job is dead; a job that was lost
-- on its last attempt in company has that attempt once more, alone.
-- A statement of its own and on a timer: an OR for expired leases in the claim would ruin its plan.
-- A job that was asked to be cancelled is cancelled.
-- Where nobody has promoted or reaped for a while, SQL Server was away; the workers then have a new lease each (tend).
-- Results: workers_lost, jobs_ready, jobs_dead; then of each worker that was marked lost, worker_id and name.
CREATE OR ALTER PROCEDURE [readpast].[reap]
    @queue        nvarchar(129),
    @max          int = 1000,
    @report       bit = 1,
    @jobs_ready   int = NULL OUTPUT,
    @jobs_dead    int = NULL OUTPUT,
    @workers_lost int = NULL OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3), @elected bit, @queue_id int, @max_attempts int, @first_ready bigint, @message nvarchar(2048);
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, worker_id uniqueidentifier NOT NULL, name nvarchar(128) NOT NULL);
DECLARE @lost TABLE (worker_id uniqueidentifier NOT NULL PRIMARY KEY CLUSTERED, name nvarchar(128) NOT NULL);
DECLARE @given_back TABLE
(
    job_id  bigint  NOT NULL PRIMARY KEY CLUSTERED,
    state   tinyint NOT NULL,
    fence   int     NOT NULL,
    attempt int     NOT NULL,
    in_turn   bit           NULL,
    batch_id  bigint        NULL,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL
);
DECLARE @members [readpast].[member_list];
DECLARE @failed [readpast].[attempt_list];

SELECT @queue_id = queue_id, @max_attempts = max_attempts FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

EXEC [readpast].[tend] @queue_id, NULL, @now OUTPUT, @elected OUTPUT;

-- A lease that ends later than two of its lengths from now was given before the clock was set back: a dead worker's would last until the
-- clock has caught up. (Not one: a renewal may be newer than @now.)
UPDATE [readpast].[workers] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
SET lease_until = DATEADD(MILLISECOND, lease_ms, @now)
WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until > DATEADD(MILLISECOND, 2 * lease_ms, @now);

-- From here on the worker's heartbeat is refused. READPAST: a worker whose row is locked is renewing its lease right now.
UPDATE TOP (@max) [readpast].[workers] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
SET lost_at = @now
OUTPUT inserted.worker_id, inserted.name INTO @lost (worker_id, name)
WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until < @now;
SET @workers_lost = @@ROWCOUNT;

-- Found in the index, changed by their keys: a row before its index entry, as finish does.
INSERT @held (job_id, worker_id, name)
SELECT TOP (@max) j.job_id, w.worker_id, w.name
FROM [readpast].[workers] AS w WITH (READPAST, READCOMMITTEDLOCK)
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_claimed (queue_id, worker_id)))
    ON j.queue_id = w.queue_id AND j.worker_id = w.worker_id
WHERE w.queue_id = @queue_id AND w.lost_at IS NOT NULL AND j.queue_id = @queue_id AND j.state = 2
OPTION (MAXDOP 1, KEEPFIXED PLAN);

BEGIN TRANSACTION;
UPDATE j
SET state       = CASE WHEN j.cancelling = 1 THEN 5
                       WHEN j.alone = 1 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts) THEN 4
                       ELSE 0 END,
    ended       = CASE WHEN j.cancelling = 1 OR (j.alone = 1 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts)) THEN 1 ELSE 0 END,
    attempt     = CASE WHEN j.alone = 0 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts)
                       THEN COALESCE(j.max_attempts, @max_attempts) - 1 ELSE j.attempt END,
    alone       = CASE WHEN j.attempt >= COALESCE(j.max_attempts, @max_attempts) - 1 THEN 1 ELSE j.alone END,
    finished_at = @now,
    error       = CASE WHEN j.cancelling = 1 THEN j.error
                       ELSE CONCAT(N'worker ', h.name, N' was lost while it held the job (attempt ', j.attempt, N')') END,
    cancelling  = NULL
OUTPUT inserted.job_id, inserted.state, inserted.fence, deleted.attempt, inserted.in_turn, inserted.batch_id, inserted.group_key
INTO @given_back (job_id, state, fence, attempt, in_turn, batch_id, group_key)
FROM @held AS h
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
    ON j.job_id = h.job_id
WHERE j.state = 2 AND j.worker_id = h.worker_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT > 0
BEGIN
    INSERT @failed (job_id, fence, attempt, worker_id, worker, error)
    SELECT g.job_id, g.fence, g.attempt, h.worker_id, h.name,
           CONCAT(N'worker ', h.name, N' was lost while it held the job (attempt ', g.attempt, N')')
    FROM @given_back AS g
    INNER JOIN @held AS h ON h.job_id = g.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    EXEC [readpast].[note_attempts] @queue_id, @failed;
    INSERT @members (job_id, state, in_turn, batch_id, group_key)
    SELECT g.job_id, g.state, g.in_turn, g.batch_id, g.group_key
    FROM @given_back AS g
    WHERE g.state >= 3 AND (g.batch_id IS NOT NULL OR g.group_key IS NOT NULL);
    IF @@ROWCOUNT > 0
        EXEC [readpast].[note_ends] @queue_id, @members;
END;
COMMIT TRANSACTION;
IF EXISTS (SELECT 1 FROM @members WHERE group_key IS NOT NULL)
    EXEC [readpast].[advance_groups] @queue_id;
SET @jobs_ready = (SELECT COUNT(*) FROM @given_back WHERE state = 0);
SET @jobs_dead = (SELECT COUNT(*) FROM @given_back WHERE state = 4);

SET @first_ready = (SELECT MIN(job_id) FROM @given_back WHERE state = 0);
IF @first_ready IS NOT NULL
    EXEC [readpast].[lower_marks] @queue_id, @first_ready;

-- A day is longer than any claim of a lost worker can still be running. What it has said must be in history first (note_history).
DELETE w
FROM [readpast].[workers] AS w WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
WHERE w.queue_id = @queue_id AND w.lost_at < DATEADD(DAY, -1, @now)
    AND ISNULL(w.done, 0) = ISNULL(w.noted_done, 0) AND ISNULL(w.failed, 0) = ISNULL(w.noted_failed, 0)
    AND ISNULL(w.dead, 0) = ISNULL(w.noted_dead, 0) AND ISNULL(w.times, '') = ISNULL(w.noted_times, '')
    AND NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS j WITH (ROWLOCK, INDEX (jobs_claimed))
                    WHERE j.queue_id = @queue_id AND j.state = 2 AND j.worker_id = w.worker_id);

-- Longer than any heartbeat's interval.
DELETE [readpast].[cancellations] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE asked_at < DATEADD(DAY, -1, @now);

IF @report = 1
BEGIN
    SELECT @workers_lost AS workers_lost, @jobs_ready AS jobs_ready, @jobs_dead AS jobs_dead;
    SELECT worker_id, name FROM @lost;
END;
GO

-- 310_register_worker.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Registers a worker for a queue and starts its lease. Run again with the same id, it renews the lease.
-- With @take_over = 1, other workers of the queue with the same name are marked lost and their jobs given back at once: for a process
-- that is the only one of its name and knows that its predecessor is gone.
-- Result: claim_order, completion, delivery, max_attempts, paused, taken_over (jobs of lost workers that are ready again or dead), has_sink, workers_lost
-- (that were marked lost: its namesakes, and all whose lease had run out) and jobs_dead (of those taken over).
CREATE OR ALTER PROCEDURE [readpast].[register_worker]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @name      nvarchar(128),
    @lease_ms  int,       -- 1,000 to 86,400,000 (a day)
    @take_over bit = 0
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @message nvarchar(2048), @jobs_ready int = 0, @jobs_dead int = 0,
    @namesakes int = 0, @run_out int = 0;

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @worker_id IS NULL OR @name IS NULL OR @lease_ms IS NULL OR @lease_ms < 1000 OR @lease_ms > 86400000
    THROW 58003, N'a worker needs an id, a name, and lease_ms between 1000 and 86400000 (a day)', 1;

UPDATE [readpast].[workers] WITH (ROWLOCK)
SET lease_until = DATEADD(MILLISECOND, @lease_ms, @now), lease_ms = @lease_ms, unserved = 0
WHERE worker_id = @worker_id AND queue_id = @queue_id AND lost_at IS NULL;
IF @@ROWCOUNT = 0
    -- The id of a lost worker is a duplicate key here: a worker that registers anew takes a new id.
    INSERT [readpast].[workers] WITH (ROWLOCK) (worker_id, queue_id, name, lease_ms, registered_at, lease_until)
    VALUES (@worker_id, @queue_id, @name, @lease_ms, @now, DATEADD(MILLISECOND, @lease_ms, @now));

-- The queue may have been deleted since it was looked for, see enqueue.
IF NOT EXISTS (SELECT 1 FROM [readpast].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id))) WHERE queue_id = @queue_id)
    SET @queue_id = (SELECT queue_id FROM [readpast].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id)))
                     WHERE queue_id = @queue_id);
IF @queue_id IS NULL
BEGIN
    DELETE [readpast].[workers] WITH (ROWLOCK) WHERE worker_id = @worker_id;
    SET @message = CONCAT(N'there is no queue ''', @queue, N''' any more; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

IF @take_over = 1
BEGIN
    UPDATE [readpast].[workers] WITH (ROWLOCK)
    SET lost_at = @now
    WHERE queue_id = @queue_id AND name = @name AND worker_id <> @worker_id AND lost_at IS NULL;
    SET @namesakes = @@ROWCOUNT;

    EXEC [readpast].[reap] @queue = @queue, @report = 0, @jobs_ready = @jobs_ready OUTPUT, @jobs_dead = @jobs_dead OUTPUT,
        @workers_lost = @run_out OUTPUT;
END;

SELECT claim_order, completion, delivery, max_attempts, paused, @jobs_ready + @jobs_dead AS taken_over,
       CAST(CASE WHEN sink IS NULL THEN 0 ELSE 1 END AS bit) AS has_sink,
       @namesakes + @run_out AS workers_lost, @jobs_dead AS jobs_dead
FROM [readpast].[queues] WHERE queue_id = @queue_id;
GO

-- 320_heartbeat.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Renews the lease of a worker: one row, however many jobs it holds. A lease that ran out but was not reaped yet is renewed too.
-- Error 58002 when the worker was marked lost: its jobs may run elsewhere.
-- Where nobody has the duties of the queue (see duties), this worker takes them over: from then on it calls promote every second, and reap, sample and
-- expire at their times.
-- A worker may say what it does, for list_workers: how many of its jobs run, how many were done since it registered, how many attempts failed (the
-- job was retried or is dead), what limits it, and for the history of the queue after how many attempts the job was dead, and how long jobs waited
-- and ran (@times). The rates since it last said so are worked out here, by SQL Server's clock. Without @done it says nothing, and what it has said
-- stays; so it does where a heartbeat arrives behind a later one (@report_no is not greater; without it, fewer have ended), and within half a second of
-- the last report: a rate over less would say nothing. All numbers but @running are sums since the registration, so that nothing is missing then.
-- @times is a JSON object: "w3" is how many jobs had waited since they were due when they were started, "r3" how many ran, from 4 ms up to 8 ms;
-- 0 is under 1 ms, 1 under 2 ms, and so on to 24, under 2^24 ms; 25 is longer (4 h 40 min). What is 0 is left out.
-- Results: where running jobs of this worker were asked to be cancelled (cancel), job_id and fence of each, and again with each heartbeat for a day;
-- otherwise this result is left out. Then elected (this worker has the duties), min_compatible (the oldest release that works with this schema), and the last sample of the queue's
-- depth as sample returns it; NULL where there is none yet. Read the last result: an
-- older release knows of no other.
CREATE OR ALTER PROCEDURE [readpast].[heartbeat]
    @worker_id  uniqueidentifier,
    @running    int         = NULL,
    @done       bigint      = NULL,
    @failed     bigint      = NULL,
    @limited_by varchar(16) = NULL,  -- starved, claim, cpu, finish, queue_limit
    @dead       bigint      = NULL,
    @times      varchar(1400) = NULL,
    @report_no  bigint      = NULL   -- which of the reports since the registration this is: 1, 2, ...
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int;

IF @done NOT BETWEEN 0 AND 1000000000000000 OR @failed NOT BETWEEN 0 AND 1000000000000000 OR @dead NOT BETWEEN 0 AND 1000000000000000
    THROW 58003, N'done, failed and dead must be 0 to 10^15', 1;

UPDATE w
SET lease_until = DATEADD(MILLISECOND, lease_ms, @now), unserved = 0, @queue_id = queue_id,
    -- The clock was set back: the rates stay as they are.
    done_per_s   = CASE WHEN r.is_news = 1 AND r.ms > 0 THEN (@done - ISNULL(done, 0)) * CAST(1000 AS float) / r.ms ELSE done_per_s END,
    failed_per_s = CASE WHEN r.is_news = 1 AND r.ms > 0 THEN (@failed - ISNULL(failed, 0)) * CAST(1000 AS float) / r.ms ELSE failed_per_s END,
    running      = CASE WHEN r.is_news = 1 THEN @running ELSE running END,
    done         = CASE WHEN r.is_news = 1 THEN @done ELSE done END,
    failed       = CASE WHEN r.is_news = 1 THEN ISNULL(@failed, failed) ELSE failed END,
    limited_by   = CASE WHEN r.is_news = 1 THEN @limited_by ELSE limited_by END,
    dead         = CASE WHEN r.is_news = 1 THEN ISNULL(@dead, dead) ELSE dead END,
    times        = CASE WHEN r.is_news = 1 THEN ISNULL(@times, times) ELSE times END,
    report_no    = CASE WHEN r.is_news = 1 THEN @report_no ELSE report_no END,
    reported_at  = CASE WHEN r.is_news = 1 THEN @now ELSE reported_at END
FROM [readpast].[workers] AS w WITH (ROWLOCK)
CROSS APPLY (SELECT DATEDIFF_BIG(MILLISECOND, ISNULL(w.reported_at, w.registered_at), @now) AS ms) AS t
CROSS APPLY (SELECT t.ms, CASE WHEN t.ms BETWEEN 0 AND 499 OR @done IS NULL THEN 0
                               WHEN @report_no > ISNULL(w.report_no, 0) THEN 1
                               WHEN @report_no IS NULL AND @done + ISNULL(@failed, 0) >= ISNULL(w.done, 0) + ISNULL(w.failed, 0) THEN 1
                               ELSE 0 END AS is_news) AS r
WHERE w.worker_id = @worker_id AND w.lost_at IS NULL
OPTION (MAXDOP 1);
IF @@ROWCOUNT = 0
    THROW 58002, N'this worker is not registered for the queue, or its lease was lost; register anew', 1;

-- NOLOCK: it must not wait here. In doubt the next one finds out.
IF EXISTS (SELECT 1 FROM [readpast].[duties] WITH (NOLOCK) WHERE queue_id = @queue_id AND (until < @now OR until > DATEADD(SECOND, 10, @now)))
    UPDATE [readpast].[duties] WITH (ROWLOCK)
    SET worker_id = @worker_id, until = DATEADD(SECOND, 3, @now)
    WHERE queue_id = @queue_id AND (until < @now OR until > DATEADD(SECOND, 10, @now));  -- the latter: the clock was set back

-- NOLOCK: of what is being asked for at this moment, the next one tells.
IF EXISTS (SELECT 1 FROM [readpast].[cancellations] WITH (NOLOCK) WHERE worker_id = @worker_id)
    SELECT c.job_id, c.fence
    FROM [readpast].[cancellations] AS c WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE c.worker_id = @worker_id
        AND EXISTS (SELECT 1 FROM [readpast].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                    WHERE j.job_id = c.job_id AND j.state = 2 AND j.fence = c.fence);

SELECT CAST(CASE WHEN d.worker_id = @worker_id AND d.until >= @now THEN 1 ELSE 0 END AS bit) AS elected,
       (SELECT TOP (1) v.min_compatible FROM [readpast].[schema_version] AS v ORDER BY v.version DESC) AS min_compatible,
       s.ready, s.scheduled, s.claimed, s.dead, s.workers, q.paused,
       DATEDIFF_BIG(MILLISECOND, s.oldest_due_at, s.sampled_at) AS oldest_ready_ms,
       DATEDIFF_BIG(MILLISECOND, s.sampled_at, SYSUTCDATETIME()) AS sample_age_ms, s.cancelled, s.waiting, s.open_batches
FROM [readpast].[queues] AS q
INNER JOIN [readpast].[duties] AS d WITH (NOLOCK) ON d.queue_id = q.queue_id
LEFT JOIN [readpast].[samples] AS s WITH (NOLOCK) ON s.queue_id = q.queue_id
WHERE q.queue_id = @queue_id;
-- The queue was deleted, and the worker with it.
IF @@ROWCOUNT = 0
    THROW 58002, N'this worker is not registered for the queue, or its lease was lost; register anew', 1;
GO

-- 322_note_progress.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Keeps what running jobs have noted about themselves: a checkpoint for their next attempt, and how far they are. Only of jobs that this worker
-- holds under this fence; what others have noted since stays as it is. Result: none.
--
-- The jobs' rows are locked first, in the order of job_id as finish locks them, and stay locked until the end: nobody else can get one of these
-- jobs meanwhile, so that only its holder writes its row of progress. UPDLOCK, because an S lock would be let go at once.
CREATE OR ALTER PROCEDURE [readpast].[note_progress]
    @worker_id uniqueidentifier,
    @notes     [readpast].[progress_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, queue_id int NOT NULL);

IF EXISTS (SELECT 1 FROM @notes WHERE fraction < 0 OR fraction > 1)
    THROW 58003, N'fraction must be between 0 and 1', 1;

BEGIN TRANSACTION;
INSERT @held (job_id, queue_id)
SELECT j.job_id, j.queue_id
FROM @notes AS n
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = n.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = n.fence
ORDER BY n.job_id  -- so that the join keeps to it
OPTION (MAXDOP 1, KEEPFIXED PLAN);

UPDATE j
SET checkpointed = 1, plain = NULL
FROM @notes AS n
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = n.job_id
WHERE n.[checkpoint] IS NOT NULL AND j.checkpointed IS NULL AND j.state = 2 AND j.worker_id = @worker_id AND j.fence = n.fence
OPTION (MAXDOP 1, KEEPFIXED PLAN);

UPDATE p
SET fence        = n.fence,
    noted_at     = @now,
    fraction     = ISNULL(n.fraction, p.fraction),
    text         = ISNULL(n.text, p.text),
    [checkpoint] = ISNULL(n.[checkpoint], p.[checkpoint])
FROM @held AS h
INNER LOOP JOIN @notes AS n ON n.job_id = h.job_id
INNER LOOP JOIN [readpast].[progress] AS p WITH (ROWLOCK, FORCESEEK, INDEX (progress_pk)) ON p.job_id = h.job_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);

INSERT [readpast].[progress] (job_id, queue_id, fence, noted_at, fraction, text, [checkpoint])
SELECT n.job_id, h.queue_id, n.fence, @now, n.fraction, n.text, n.[checkpoint]
FROM @held AS h
INNER LOOP JOIN @notes AS n ON n.job_id = h.job_id
WHERE NOT EXISTS (SELECT 1 FROM [readpast].[progress] AS p WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (progress_pk (job_id)))
                  WHERE p.job_id = h.job_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
COMMIT TRANSACTION;
GO

-- 324_checkpoints.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The checkpoints of jobs that a worker has claimed: of those whose details say checkpointed.
-- Result: job_id, checkpoint. A job without one is not in it.
CREATE OR ALTER PROCEDURE [readpast].[checkpoints]
    @jobs [readpast].[job_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT p.job_id, p.[checkpoint]
FROM @jobs AS k
INNER LOOP JOIN [readpast].[progress] AS p WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (progress_pk (job_id))) ON p.job_id = k.job_id
WHERE p.[checkpoint] IS NOT NULL
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO

-- 328_note_history.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For sample and unregister_worker: writes into history what the workers of a queue have reported and what was not written yet, as of the minute in
-- which the depth was last sampled, and that depth. Where that minute has a row, it is added to.
--
-- Counted once, whatever is rolled back, repeated or done twice at a time: what was taken of a worker stands in its own row (noted_...), changed in
-- the transaction that writes the history. samples.notes counts these transactions: each begins by raising it from the value that it was before the
-- workers were read, so that of two which have read the same the second changes nothing.
-- The workers are read, and the times added up, before that, so that a heartbeat waits for a few statements at the most. One that is under way
-- is skipped (READPAST); what it brings is written the next time. It waits for a tenth of a second at the most for anybody, and then leaves it to the
-- next time.
CREATE OR ALTER PROCEDURE [readpast].[note_history]
    @queue_id int,
    @most     int = 1  -- how many minutes there may be from one sample to the next: in a longer time there was nobody to sample
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @epoch datetime2(0) = '20000101', @notes int, @sampled_at datetime2(3), @at datetime2(0), @minutes int,
    @ready bigint, @scheduled bigint, @waiting bigint, @claimed bigint, @dead bigint, @cancelled bigint, @workers bigint, @oldest_ready_ms bigint,
    @done bigint, @failed bigint, @died bigint, @times varchar(1400), @bucket varchar(3) = '', @jobs bigint;
DECLARE @news TABLE
(
    worker_id uniqueidentifier NOT NULL PRIMARY KEY CLUSTERED,
    done      bigint NULL,
    failed    bigint NULL,
    dead      bigint NULL,
    times     varchar(1400) COLLATE Latin1_General_100_BIN2 NULL,
    was_done   bigint NOT NULL,
    was_failed bigint NOT NULL,
    was_dead   bigint NOT NULL,
    was_times  varchar(1400) COLLATE Latin1_General_100_BIN2 NULL
);
DECLARE @counts TABLE (bucket varchar(3) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED, jobs bigint NOT NULL);

-- A caller's transaction would keep the workers locked.
IF @@TRANCOUNT > 0
    RETURN;
SET LOCK_TIMEOUT 100;
BEGIN TRY
    SELECT @notes = notes, @sampled_at = sampled_at, @ready = ready, @scheduled = scheduled, @waiting = ISNULL(waiting, 0), @claimed = claimed,
           @dead = dead, @cancelled = ISNULL(cancelled, 0), @workers = workers,
           @oldest_ready_ms = DATEDIFF_BIG(MILLISECOND, oldest_due_at, sampled_at)
    FROM [readpast].[samples] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id;
    IF @sampled_at IS NULL
        RETURN;
    SET @at = DATEADD(MINUTE, DATEDIFF(MINUTE, @epoch, @sampled_at), @epoch);
    SET @minutes = DATEDIFF(MINUTE, @at, @now);
    SET @minutes = CASE WHEN @minutes > @most OR @minutes < 1 THEN 1 WHEN @minutes > 10 THEN 10 ELSE @minutes END;

    INSERT @news (worker_id, done, failed, dead, times, was_done, was_failed, was_dead, was_times)
    SELECT worker_id, done, failed, dead, times, ISNULL(noted_done, 0), ISNULL(noted_failed, 0), ISNULL(noted_dead, 0), noted_times
    FROM [readpast].[workers] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE queue_id = @queue_id
        AND (done <> ISNULL(noted_done, 0) OR failed <> ISNULL(noted_failed, 0) OR dead <> ISNULL(noted_dead, 0) OR times <> ISNULL(noted_times, ''))
    OPTION (MAXDOP 1);
    -- Numbers of a worker only grow. What a program of somebody else's says wrongly must not stand here as less than nothing.
    SELECT @done = ISNULL(SUM(CASE WHEN done > was_done THEN done - was_done ELSE 0 END), 0),
           @failed = ISNULL(SUM(CASE WHEN failed > was_failed THEN failed - was_failed ELSE 0 END), 0),
           @died = ISNULL(SUM(CASE WHEN dead > was_dead THEN dead - was_dead ELSE 0 END), 0)
    FROM @news;

    INSERT @counts (bucket, jobs)
    SELECT c.bucket, SUM(c.jobs)
    FROM (SELECT j.[key] AS bucket, CASE WHEN TRY_CAST(j.value AS bigint) BETWEEN 0 AND 1000000000000 THEN TRY_CAST(j.value AS bigint) END AS jobs
          FROM @news AS n CROSS APPLY OPENJSON(CASE WHEN ISJSON(n.times) = 1 THEN n.times END) AS j
          UNION ALL
          SELECT j.[key], CASE WHEN TRY_CAST(j.value AS bigint) BETWEEN 0 AND 1000000000000 THEN -TRY_CAST(j.value AS bigint) END
          FROM @news AS n CROSS APPLY OPENJSON(CASE WHEN ISJSON(n.was_times) = 1 THEN n.was_times END) AS j
          UNION ALL
          SELECT j.[key], TRY_CAST(j.value AS bigint)
          FROM [readpast].[history] AS h WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (history_pk (queue_id, at))) CROSS APPLY OPENJSON(CASE WHEN ISJSON(h.times) = 1 THEN h.times END) AS j
          WHERE h.queue_id = @queue_id AND h.at = @at) AS c
    WHERE c.bucket LIKE '[wr][0-9]' OR c.bucket LIKE '[wr]1[0-9]' OR c.bucket LIKE '[wr]2[0-5]'  -- 52 of them: as many as @times has room for
    GROUP BY c.bucket
    HAVING SUM(c.jobs) > 0
    OPTION (MAXDOP 1);
    WHILE 1 = 1
    BEGIN
        SELECT TOP (1) @bucket = bucket, @jobs = jobs FROM @counts WHERE bucket > @bucket ORDER BY bucket;
        IF @@ROWCOUNT = 0
            BREAK;
        SET @times = CONCAT(@times + ',', '"', @bucket, '":', @jobs);
    END;
    SET @times = '{' + @times + '}';

    BEGIN TRANSACTION;
    UPDATE [readpast].[samples] WITH (ROWLOCK) SET notes = notes + 1 WHERE queue_id = @queue_id AND notes = @notes;
    IF @@ROWCOUNT = 0
    BEGIN
        ROLLBACK TRANSACTION;
        RETURN;
    END;
    UPDATE w
    SET noted_done = n.done, noted_failed = n.failed, noted_dead = n.dead, noted_times = n.times
    FROM @news AS n
    INNER LOOP JOIN [readpast].[workers] AS w WITH (ROWLOCK, FORCESEEK, INDEX (workers_pk)) ON w.worker_id = n.worker_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    UPDATE [readpast].[history] WITH (ROWLOCK)
    SET minutes = CASE WHEN minutes > @minutes THEN minutes ELSE @minutes END,
        ready = @ready, scheduled = @scheduled, waiting = @waiting, claimed = @claimed, dead = @dead, cancelled = @cancelled, workers = @workers,
        oldest_ready_ms = @oldest_ready_ms, done = done + @done, failed = failed + @failed, died = died + @died, times = @times
    WHERE queue_id = @queue_id AND at = @at;
    IF @@ROWCOUNT = 0
        INSERT [readpast].[history] (queue_id, at, minutes, ready, scheduled, waiting, claimed, dead, cancelled, workers, oldest_ready_ms,
                                      done, failed, died, times)
        VALUES (@queue_id, @at, @minutes, @ready, @scheduled, @waiting, @claimed, @dead, @cancelled, @workers, @oldest_ready_ms,
                @done, @failed, @died, @times);
    COMMIT TRANSACTION;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    IF ERROR_NUMBER() NOT IN (1205, 1222)
        THROW;
END CATCH;
GO

-- 330_unregister_worker.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Ends a worker: it is marked lost, and jobs that it still holds are left to the next reap. Its row stays for a day, even where it holds nothing: a
-- claim of it may still be on its way, and only by this row does reap find the jobs of it. Duties that it had pass to the next heartbeat.
-- With it a worker says for the last time what it has done, as with a heartbeat; one that was marked lost may do so, too. The last worker of a queue
-- has it written into history: nobody else may come for long.
CREATE OR ALTER PROCEDURE [readpast].[unregister_worker]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @done      bigint        = NULL,
    @failed    bigint        = NULL,
    @dead      bigint        = NULL,
    @times     varchar(1400) = NULL,
    @report_no bigint        = NULL
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @tries int = 0;

IF @done NOT BETWEEN 0 AND 1000000000000000 OR @failed NOT BETWEEN 0 AND 1000000000000000 OR @dead NOT BETWEEN 0 AND 1000000000000000
    THROW 58003, N'done, failed and dead must be 0 to 10^15', 1;

UPDATE [readpast].[workers] WITH (ROWLOCK) SET lost_at = @now WHERE worker_id = @worker_id AND lost_at IS NULL;

-- Once: a call that is repeated brings no greater number.
UPDATE [readpast].[workers] WITH (ROWLOCK)
SET done = ISNULL(@done, done), failed = ISNULL(@failed, failed), dead = ISNULL(@dead, dead), times = ISNULL(@times, times), report_no = @report_no,
    reported_at = @now
WHERE worker_id = @worker_id AND @report_no > ISNULL(report_no, 0);

UPDATE d
SET until = @now
FROM [readpast].[queues] AS q
INNER JOIN [readpast].[duties] AS d WITH (ROWLOCK) ON d.queue_id = q.queue_id
WHERE q.name = @queue AND d.worker_id = @worker_id AND d.until > @now;

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
-- Again, where another that ended at the same moment was faster: what this one has said may not have been there yet when that one looked.
WHILE @tries < 3
    AND NOT EXISTS (SELECT 1 FROM [readpast].[workers] WITH (NOLOCK) WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until >= @now)
    AND EXISTS (SELECT 1 FROM [readpast].[workers] WITH (NOLOCK)
                WHERE queue_id = @queue_id
                    AND (done <> ISNULL(noted_done, 0) OR failed <> ISNULL(noted_failed, 0) OR dead <> ISNULL(noted_dead, 0)
                         OR times <> ISNULL(noted_times, '')))
BEGIN
    SET @tries = @tries + 1;
    EXEC [readpast].[note_history] @queue_id;
END;
GO

-- 340_promote.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Makes scheduled jobs ready whose time has come, up to @max. Any number of sessions may run it at once: each skips what another has locked.
-- A job of a group that has not the turn waits for it then. Also does what advance_groups could not do in producers' transactions.
-- With @worker_id, it does so only for the worker that has the duties of the queue (see duties), and keeps them for three more seconds.
-- Result: promoted, elected (the worker has the duties; 1 without @worker_id), schedules_due (there is something to do for due_schedules).
CREATE OR ALTER PROCEDURE [readpast].[promote]
    @queue     nvarchar(129),
    @max       int              = 1000,
    @worker_id uniqueidentifier = NULL
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3), @elected bit, @queue_id int, @first_ready bigint, @promoted int, @schedules_due bit = 0,
    @message nvarchar(2048);
DECLARE @due TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, state tinyint NOT NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

EXEC [readpast].[tend] @queue_id, @worker_id, @now OUTPUT, @elected OUTPUT;
IF @worker_id IS NOT NULL AND @elected = 0
BEGIN
    SELECT 0 AS promoted, CAST(0 AS bit) AS elected, CAST(0 AS bit) AS schedules_due;
    RETURN;
END;

BEGIN TRANSACTION;
WITH due_jobs AS
(
    SELECT TOP (@max) job_id, state, group_key, in_turn
    FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND due_at <= @now
    ORDER BY due_at
)
UPDATE due_jobs
SET state = CASE WHEN group_key IS NULL OR in_turn = 1 THEN 0 ELSE 6 END
OUTPUT inserted.job_id, inserted.state, inserted.group_key INTO @due (job_id, state, group_key)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @promoted = @@ROWCOUNT;
IF @promoted > 0
    INSERT [readpast].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended)
    SELECT @queue_id, d.group_key, 0 FROM @due AS d WHERE d.state = 6 GROUP BY d.group_key;
COMMIT TRANSACTION;

IF @promoted > 0
BEGIN
    SET @first_ready = (SELECT MIN(job_id) FROM @due WHERE state = 0);
    IF @first_ready IS NOT NULL
        EXEC [readpast].[lower_marks] @queue_id, @first_ready;
END;
EXEC [readpast].[advance_groups] @queue_id, 0;
EXEC [readpast].[sweep] @queue_id;

IF EXISTS (SELECT 1 FROM [readpast].[schedules] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (schedules_due))
           WHERE queue_id = @queue_id AND paused = 0 AND look_at <= @now)
    SET @schedules_due = 1;

SELECT @promoted AS promoted, CAST(1 AS bit) AS elected, @schedules_due AS schedules_due;
GO

-- 350_sample.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Returns the depth of a queue as last sampled, and takes a new sample first where the last one is older than @max_age_ms. The worker that has the
-- duties of the queue calls it at its interval; the others get the sample with their heartbeat. Of several callers one at a time pays for a sample.
--
-- Cheap at any depth, at the price of precision: of each priority the first 10,000 ready jobs are counted, and where there are more, the
-- rest is estimated from the job_ids, which are dense; of scheduled, waiting, claimed, dead and cancelled jobs 100,000 are counted at the most. The oldest
-- ready job is looked for among those that were counted. At most 100 priorities are looked at. Exact numbers: the procedure stats.
-- The first sample of a minute has the one before it written into history, with what the workers have done until then.
-- Result: ready, scheduled, claimed, dead, workers, paused, oldest_ready_ms (NULL: nothing is ready), sample_age_ms (NULL: there is no
-- sample yet, because another worker is taking the first), cancelled, waiting, open_batches (whose follow-ups go to the queue).
CREATE OR ALTER PROCEDURE [readpast].[sample]
    @queue      nvarchar(129),
    @max_age_ms int = 10000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @paused bit, @claim_order varchar(4), @is_mine int, @most int, @message nvarchar(2048);

SELECT @queue_id = queue_id, @paused = paused, @claim_order = claim_order FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @max_age_ms IS NULL OR @max_age_ms < 0
    THROW 58003, N'max_age_ms must be 0 or more', 1;

-- Whoever changes begun_at takes the sample. Should it die over it, the next one comes when @max_age_ms have passed again.
UPDATE [readpast].[samples] WITH (ROWLOCK)
SET begun_at = @now
WHERE queue_id = @queue_id
    AND (begun_at <= DATEADD(MILLISECOND, -@max_age_ms, @now) OR begun_at > DATEADD(MINUTE, 1, @now));  -- or the clock was set back
SET @is_mine = @@ROWCOUNT;
IF @is_mine = 0
BEGIN
    -- HOLDLOCK locks the key also where there is no row yet: of two first samples the second waits, and finds the first's row.
    INSERT [readpast].[samples] (queue_id, begun_at)
    SELECT @queue_id, @now
    WHERE NOT EXISTS (SELECT 1 FROM [readpast].[samples] WITH (UPDLOCK, HOLDLOCK) WHERE queue_id = @queue_id);
    SET @is_mine = @@ROWCOUNT;
END;

IF @is_mine = 1
BEGIN
    -- Who calls it at an interval has @max_age_ms at half of that, and comes a little later now and then.
    IF EXISTS (SELECT 1 FROM [readpast].[samples] WITH (NOLOCK) WHERE queue_id = @queue_id AND DATEDIFF(MINUTE, sampled_at, @now) <> 0)
    BEGIN
        SET @most = 1 + @max_age_ms / 30000;
        EXEC [readpast].[note_history] @queue_id, @most;
    END;

    DECLARE @ready bigint = 0, @oldest datetime2(3), @priorities int = 0, @priority smallint, @counted bigint, @first_id bigint,
        @last_id bigint, @end_id bigint, @due_at datetime2(3);

    -- From one priority to the next: one seek each. TOP and ORDER BY, not MIN and MAX: the order of the index answers them in any plan.
    IF @claim_order = 'lifo'
        SET @priority = (SELECT TOP (1) j.priority FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_lifo))
                         WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 1 AND j.alone = 0
                         ORDER BY j.priority);
    ELSE
        SET @priority = (SELECT TOP (1) j.priority FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                         WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 0 AND j.alone = 0
                         ORDER BY j.priority);

    WHILE @priority IS NOT NULL AND @priorities < 100
    BEGIN
        SET @priorities = @priorities + 1;
        IF @claim_order = 'lifo'
            SELECT @counted = COUNT_BIG(*), @first_id = MIN(h.job_id), @last_id = MAX(h.job_id), @due_at = MIN(h.due_at)
            FROM (SELECT TOP (10000) j.job_id, j.due_at FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_lifo))
                  WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 1 AND j.alone = 0 AND j.priority = @priority
                  ORDER BY j.job_id) AS h
            OPTION (MAXDOP 1);
        ELSE
            SELECT @counted = COUNT_BIG(*), @first_id = MIN(h.job_id), @last_id = MAX(h.job_id), @due_at = MIN(h.due_at)
            FROM (SELECT TOP (10000) j.job_id, j.due_at FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                  WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 0 AND j.alone = 0 AND j.priority = @priority
                  ORDER BY j.job_id) AS h
            OPTION (MAXDOP 1);

        IF @counted = 10000
        BEGIN
            IF @claim_order = 'lifo'
                SET @end_id = (SELECT TOP (1) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_lifo))
                               WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 1 AND j.alone = 0 AND j.priority = @priority
                               ORDER BY j.job_id DESC);
            ELSE
                SET @end_id = (SELECT TOP (1) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                               WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 0 AND j.alone = 0 AND j.priority = @priority
                               ORDER BY j.job_id DESC);
            -- As many to each id as among those that were counted. The end may have gone meanwhile.
            IF @end_id > @last_id
                SET @counted = @counted + CAST(CAST(@end_id - @last_id AS float) * @counted / (@last_id - @first_id + 1) AS bigint);
        END;
        SET @ready = @ready + @counted;
        IF @oldest IS NULL OR @due_at < @oldest
            SET @oldest = @due_at;

        IF @claim_order = 'lifo'
            SET @priority = (SELECT TOP (1) j.priority FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_lifo))
                             WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 1 AND j.alone = 0 AND j.priority > @priority
                             ORDER BY j.priority);
        ELSE
            SET @priority = (SELECT TOP (1) j.priority FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                             WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 0 AND j.alone = 0 AND j.priority > @priority
                             ORDER BY j.priority);
    END;

    -- Jobs that go out alone; few, and in an index of their own.
    SELECT @counted = COUNT_BIG(*), @due_at = MIN(h.due_at)
    FROM (SELECT TOP (10000) j.due_at FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
          WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS h
    OPTION (MAXDOP 1);
    SET @ready = @ready + @counted;
    IF @oldest IS NULL OR @due_at < @oldest
        SET @oldest = @due_at;

    UPDATE [readpast].[samples]
    SET sampled_at    = @now,
        ready         = @ready,
        scheduled     = (SELECT COUNT_BIG(*) FROM (SELECT TOP (100000) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
                         WHERE j.queue_id = @queue_id AND j.state = 1) AS s),
        claimed       = (SELECT COUNT_BIG(*) FROM (SELECT TOP (100000) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_claimed))
                         WHERE j.queue_id = @queue_id AND j.state = 2) AS c),
        dead          = (SELECT COUNT_BIG(*) FROM (SELECT TOP (100000) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
                         WHERE j.queue_id = @queue_id AND j.state = 4 AND j.ended = 1) AS d),
        cancelled     = (SELECT COUNT_BIG(*) FROM (SELECT TOP (100000) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
                         WHERE j.queue_id = @queue_id AND j.state = 5 AND j.ended = 1) AS d),
        waiting       = (SELECT COUNT_BIG(*) FROM (SELECT TOP (100000) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_waiting))
                         WHERE j.queue_id = @queue_id AND j.state = 6) AS w),
        open_batches  = (SELECT COUNT_BIG(*) FROM (SELECT TOP (100000) c.batch_id FROM [readpast].[batch_counts] AS c WITH (NOLOCK, INDEX (batch_counts_ended))
                         WHERE c.queue_id = @queue_id AND c.ended_at IS NULL) AS o),
        workers       = (SELECT COUNT_BIG(*) FROM [readpast].[workers] AS w WITH (NOLOCK)
                         WHERE w.queue_id = @queue_id AND w.lost_at IS NULL AND w.lease_until >= @now),
        oldest_due_at = @oldest
    -- A sample that was begun later may be there already.
    WHERE queue_id = @queue_id AND (sampled_at IS NULL OR sampled_at <= @now OR sampled_at > DATEADD(MINUTE, 1, @now));
END;

SELECT s.ready, s.scheduled, s.claimed, s.dead, s.workers, @paused AS paused,
       DATEDIFF_BIG(MILLISECOND, s.oldest_due_at, s.sampled_at) AS oldest_ready_ms,
       DATEDIFF_BIG(MILLISECOND, s.sampled_at, SYSUTCDATETIME()) AS sample_age_ms, s.cancelled, s.waiting, s.open_batches
FROM [readpast].[samples] AS s
WHERE s.queue_id = @queue_id;
GO

-- 360_unfinished.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Says whether a queue has jobs that are not finished: ready, scheduled, waiting or claimed, by any worker. For a worker that drains it.
-- With @due_within_ms, scheduled jobs that are due later than that do not count, nor do those that wait behind them in their groups.
--
-- A few seeks at any depth. Reads without locks (NOLOCK), one state after the other: a job that moves from one to another meanwhile can be
-- in none of them. So "nothing" counts when it was said twice in a row.
-- Result: unfinished, and what it is: ready, scheduled, claimed; paused; next_due_ms (NULL: nothing is scheduled; negative: it is overdue); waiting.
CREATE OR ALTER PROCEDURE [readpast].[unfinished]
    @queue         nvarchar(129),
    @due_within_ms bigint = NULL
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int, @paused bit, @ready bit = 0, @scheduled bit = 0, @claimed bit = 0, @waiting bit = 0, @next_due_at datetime2(3), @next_due_ms bigint,
    @message nvarchar(2048);

SELECT @queue_id = queue_id, @paused = paused FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_ready))
           WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
   OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_ready_lifo))
              WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
   OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_ready_alone))
              WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
    SET @ready = 1;

SET @next_due_at = (SELECT TOP (1) j.due_at FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
                    WHERE j.queue_id = @queue_id AND j.state = 1
                    ORDER BY j.due_at);
SET @next_due_ms = DATEDIFF_BIG(MILLISECOND, SYSUTCDATETIME(), @next_due_at);
IF @next_due_ms IS NOT NULL AND (@due_within_ms IS NULL OR @next_due_ms <= @due_within_ms)
    SET @scheduled = 1;

IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_claimed))
           WHERE queue_id = @queue_id AND state = 2)
    SET @claimed = 1;

IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_waiting))
           WHERE queue_id = @queue_id AND state = 6)
    -- Behind jobs that are due later than that they wait as long.
    AND (@due_within_ms IS NULL OR @ready = 1 OR @scheduled = 1 OR @claimed = 1
         OR EXISTS (SELECT 1 FROM [readpast].[group_events] WITH (NOLOCK) WHERE queue_id = @queue_id))
    SET @waiting = 1;

SELECT CAST(CASE WHEN @ready = 1 OR @scheduled = 1 OR @claimed = 1 OR @waiting = 1 THEN 1 ELSE 0 END AS bit) AS unfinished,
       @ready AS ready, @scheduled AS scheduled, @claimed AS claimed, @paused AS paused, @next_due_ms AS next_due_ms,
       @waiting AS waiting;
GO

-- 368_thin_history.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For expire: makes one row of each ten minutes that are older than a day, of up to an hour in a call, and deletes up to 1,000 rows that are older
-- than 90 days. Counts and times are added up; of the depth the greatest of each stays, which is what one looks for in a chart: the backlog of those
-- minutes.
-- Each ten minutes are a transaction of their own: a call that breaks off leaves the rest to the next one.
CREATE OR ALTER PROCEDURE [readpast].[thin_history]
    @queue_id int
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @epoch datetime2(0) = '20000101', @before datetime2(0) = DATEADD(DAY, -1, SYSUTCDATETIME()), @at datetime2(0), @done int = 0,
    @oldest datetime2(0) = DATEADD(DAY, -90, SYSUTCDATETIME()),
    @times varchar(1400), @bucket varchar(3), @jobs bigint;
DECLARE @old TABLE
(
    at              datetime2(0) NOT NULL PRIMARY KEY CLUSTERED,
    ready           bigint       NOT NULL,
    scheduled       bigint       NOT NULL,
    waiting         bigint       NOT NULL,
    claimed         bigint       NOT NULL,
    dead            bigint       NOT NULL,
    cancelled       bigint       NOT NULL,
    workers         bigint       NOT NULL,
    oldest_ready_ms bigint       NULL,
    done            bigint       NOT NULL,
    failed          bigint       NOT NULL,
    died            bigint       NOT NULL,
    times           varchar(1400) COLLATE Latin1_General_100_BIN2 NULL
);
DECLARE @counts TABLE (bucket varchar(3) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED, jobs bigint NOT NULL);

-- A caller's transaction would end with a wait that was too long.
IF @@TRANCOUNT > 0
    RETURN;
-- Whole ten minutes only.
SET @before = DATEADD(MINUTE, DATEDIFF(MINUTE, @epoch, @before) / 10 * 10, @epoch);
SET LOCK_TIMEOUT 100;
BEGIN TRY
    WHILE @done < 6
    BEGIN
        SET @done = @done + 1;
        SET @at = (SELECT TOP (1) h.at FROM [readpast].[history] AS h WITH (NOLOCK, INDEX (history_minutes))
                   WHERE h.queue_id = @queue_id AND h.minutes < 10 AND h.at < @before
                   ORDER BY h.at);
        IF @at IS NULL
            BREAK;
        SET @at = DATEADD(MINUTE, DATEDIFF(MINUTE, @epoch, @at) / 10 * 10, @epoch);

        DELETE @old;
        DELETE @counts;
        BEGIN TRANSACTION;
        DELETE h
        OUTPUT deleted.at, deleted.ready, deleted.scheduled, deleted.waiting, deleted.claimed, deleted.dead, deleted.cancelled, deleted.workers,
            deleted.oldest_ready_ms, deleted.done, deleted.failed, deleted.died, deleted.times
        INTO @old (at, ready, scheduled, waiting, claimed, dead, cancelled, workers, oldest_ready_ms, done, failed, died, times)
        FROM [readpast].[history] AS h WITH (ROWLOCK, FORCESEEK, INDEX (history_pk))
        WHERE h.queue_id = @queue_id AND h.at >= @at AND h.at < DATEADD(MINUTE, 10, @at)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);

        INSERT @counts (bucket, jobs)
        SELECT j.[key], SUM(CAST(j.value AS bigint)) FROM @old AS o CROSS APPLY OPENJSON(CASE WHEN ISJSON(o.times) = 1 THEN o.times END) AS j
        GROUP BY j.[key];
        SET @times = NULL;
        SET @bucket = '';
        WHILE 1 = 1
        BEGIN
            SELECT TOP (1) @bucket = bucket, @jobs = jobs FROM @counts WHERE bucket > @bucket ORDER BY bucket;
            IF @@ROWCOUNT = 0
                BREAK;
            SET @times = CONCAT(@times + ',', '"', @bucket, '":', @jobs);
        END;

        INSERT [readpast].[history] (queue_id, at, minutes, ready, scheduled, waiting, claimed, dead, cancelled, workers, oldest_ready_ms,
                                      done, failed, died, times)
        SELECT @queue_id, @at, 10, MAX(ready), MAX(scheduled), MAX(waiting), MAX(claimed), MAX(dead), MAX(cancelled), MAX(workers),
               MAX(oldest_ready_ms), SUM(done), SUM(failed), SUM(died), '{' + @times + '}'
        FROM @old
        HAVING COUNT(*) > 0;  -- another session may have been faster
        COMMIT TRANSACTION;
    END;

    DELETE TOP (1000) FROM [readpast].[history] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE queue_id = @queue_id AND at < @oldest
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    IF ERROR_NUMBER() NOT IN (1205, 1222)
        THROW;
END CATCH;
GO

-- 370_expire.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Deletes up to @max finished jobs that the queue no longer keeps (create_queue: @keep_done_s, @keep_dead_s), the oldest first. Run it until it
-- returns less than @max; the worker that has the duties of the queue does so every minute. Result: expired.
-- Also deletes up to @max rows of progress whose job is gone or done, and up to @max batches that have ended a week ago and whose follow-ups belong
-- to the queue; expired is the greatest of the three numbers. And it thins the queue's history (thin_history).
-- As purge: first the ids, then the rows in the order of their ids; what others have locked is skipped both times, and goes the next time.
CREATE OR ALTER PROCEDURE [readpast].[expire]
    @queue nvarchar(129),
    @max   int = 1000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @keep_done_s int, @keep_dead_s int, @before datetime2(3), @expired int = 0,
    @number tinyint = 4, @noted int = 0, @batches int, @message nvarchar(2048);
-- IGNORE_DUP_KEY: a job that moves within an index while it is read may be met twice.
DECLARE @old TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON));
-- What was deleted; failed: it may have failed attempts, which a job that is done and was claimed once has not.
DECLARE @gone TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, failed bit NOT NULL);

SELECT @queue_id = queue_id, @keep_done_s = keep_done_s, @keep_dead_s = keep_dead_s FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @max IS NULL OR @max < 1
    THROW 58003, N'max must be 1 or more', 1;

BEGIN TRANSACTION;
IF @keep_done_s IS NOT NULL
BEGIN
    SET @before = DATEADD(SECOND, -@keep_done_s, @now);
    INSERT @old (job_id)
    SELECT TOP (@max) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = 3 AND ended = 1 AND finished_at <= @before
    ORDER BY finished_at, job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @@ROWCOUNT > 0
    BEGIN
        DELETE j
        OUTPUT deleted.job_id, CASE WHEN deleted.fence > 1 THEN 1 ELSE 0 END INTO @gone (job_id, failed)
        FROM @old AS o
        INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
            ON j.job_id = o.job_id
        WHERE j.queue_id = @queue_id AND j.state = 3 AND j.finished_at <= @before
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @expired = @expired + @@ROWCOUNT;
        DELETE @old;
    END;

    INSERT @old (job_id)
    SELECT TOP (@max - @expired) job_id FROM [readpast].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND finished_at <= @before
    ORDER BY finished_at, job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @@ROWCOUNT > 0
    BEGIN
        DELETE a
        OUTPUT deleted.job_id, CASE WHEN deleted.fence > 1 THEN 1 ELSE 0 END INTO @gone (job_id, failed)
        FROM @old AS o
        INNER LOOP JOIN [readpast].[archive] AS a WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (archive_pk))
            ON a.job_id = o.job_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @expired = @expired + @@ROWCOUNT;
        DELETE @old;
    END;
END;

-- Dead jobs, then cancelled ones. The second condition is the index's filter, which a variable does not show.
SET @before = DATEADD(SECOND, -@keep_dead_s, @now);
WHILE @keep_dead_s IS NOT NULL AND @number <= 5
BEGIN
    INSERT @old (job_id)
    SELECT TOP (@max - @expired) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = @number AND ended = 1 AND finished_at <= @before
    ORDER BY finished_at, job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @@ROWCOUNT > 0
    BEGIN
        DELETE j
        OUTPUT deleted.job_id, 1 INTO @gone (job_id, failed)
        FROM @old AS o
        INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
            ON j.job_id = o.job_id
        WHERE j.queue_id = @queue_id AND j.state = @number AND j.finished_at <= @before
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @expired = @expired + @@ROWCOUNT;
        DELETE @old;
    END;
    SET @number = @number + 1;
END;

IF EXISTS (SELECT 1 FROM @gone WHERE failed = 1)
    DELETE a
    FROM @gone AS g
    INNER LOOP JOIN [readpast].[attempts] AS a WITH (ROWLOCK, FORCESEEK, INDEX (attempts_pk)) ON a.job_id = g.job_id
    WHERE g.failed = 1
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
COMMIT TRANSACTION;

-- What jobs had noted (progress) that are gone or done: an id never comes back. Looked for without locks, and made sure of without waiting, because
-- an end that is not committed may be taken back: where a row is locked, the next run finds it.
DELETE @old;
INSERT @old (job_id)
SELECT TOP (@max) p.job_id
FROM [readpast].[progress] AS p WITH (NOLOCK, INDEX (progress_queue))
WHERE p.queue_id = @queue_id
    AND NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) WHERE j.job_id = p.job_id AND j.state <> 3)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT > 0
BEGIN
    SET LOCK_TIMEOUT 0;
    SET XACT_ABORT OFF;
    BEGIN TRY
        DELETE p
        FROM @old AS o
        INNER LOOP JOIN [readpast].[progress] AS p WITH (ROWLOCK, FORCESEEK, INDEX (progress_pk)) ON p.job_id = o.job_id
        WHERE NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
                          WHERE j.job_id = p.job_id AND j.state <> 3)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @noted = @@ROWCOUNT;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 1222
            THROW;
    END CATCH;
END;

SET LOCK_TIMEOUT -1;
SET XACT_ABORT ON;
BEGIN TRANSACTION;
DELETE @old;
DELETE TOP (@max) c
OUTPUT deleted.batch_id INTO @old (job_id)
FROM [readpast].[batch_counts] AS c WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (batch_counts_ended))
WHERE c.queue_id = @queue_id AND c.ended_at < DATEADD(DAY, -7, @now)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @batches = @@ROWCOUNT;
IF @batches > 0
    DELETE b
    FROM @old AS o
    INNER LOOP JOIN [readpast].[batches] AS b WITH (ROWLOCK, FORCESEEK, INDEX (batches_pk)) ON b.batch_id = o.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
COMMIT TRANSACTION;

EXEC [readpast].[thin_history] @queue_id;

IF @noted > @expired
    SET @expired = @noted;
SELECT CASE WHEN @batches > @expired THEN @batches ELSE @expired END AS expired;
GO

-- 380_due_schedules.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For the worker that has the duties: the schedules that it has to look at now, up to @max, the longest due first. Schedules that somebody has
-- locked are left out.
-- Result: name, revision, cron, time_zone, make_up, jitter_ms, next_at, error, now.
CREATE OR ALTER PROCEDURE [readpast].[due_schedules]
    @queue nvarchar(129),
    @max   int = 100
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

SELECT TOP (@max) s.name, s.revision, s.cron, s.time_zone, s.make_up, s.jitter_ms, s.next_at, s.error, @now AS now
FROM [readpast].[schedules] AS s WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (schedules_due))
WHERE s.queue_id = @queue_id AND s.paused = 0 AND s.look_at <= @now
ORDER BY s.look_at
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO

-- 382_fire_schedule.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For the worker that has the duties: enqueues the job of a schedule for one of its times and moves the schedule on to the next, in one
-- transaction, if nobody has changed the schedule since it was read (@revision). So each time is fired once, however many workers believe that they
-- have the duties, and however often a call is repeated. Without @fire_at the schedule is only moved on.
--
-- A schedule that is locked counts as changed: the worker looks again a moment later.
-- Result: revision (NULL: nothing has happened), job_id (NULL: none was asked for), duplicate (an unfinished job has the key; none was added).
CREATE OR ALTER PROCEDURE [readpast].[fire_schedule]
    @queue    nvarchar(129),
    @name     nvarchar(129),
    @revision int,
    @fire_at  datetime2(3) = NULL,  -- the time that is fired
    @due_at   datetime2(3) = NULL,  -- when its job may start; NULL: at once
    @next_at  datetime2(3)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
-- An enqueue waits for an uncommitted one of the same key, and the duties must not: it is tried again ten seconds later (fail_schedule).
SET LOCK_TIMEOUT 1000;
DECLARE @queue_id int, @payload varbinary(max), @text nvarchar(max), @payload_utf16 bit, @priority smallint, @max_attempts int, @time_limit_ms int,
    @kind varchar(64), @dedup_key nvarchar(256), @correlation_id uniqueidentifier, @headers nvarchar(1300), @group_key nvarchar(128), @job_id bigint, @duplicate bit, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

BEGIN TRANSACTION;
UPDATE [readpast].[schedules] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
SET next_at = @next_at, look_at = @next_at, last_at = ISNULL(@fire_at, last_at), error = NULL, revision = revision + 1
WHERE queue_id = @queue_id AND name = @name AND revision = @revision AND paused = 0;
IF @@ROWCOUNT = 0
    SET @revision = NULL;
ELSE
BEGIN
    SET @revision = @revision + 1;
    IF @fire_at IS NOT NULL
    BEGIN
        SELECT @payload = CASE WHEN payload_utf16 = 0 THEN payload END, @text = CASE WHEN payload_utf16 = 1 THEN CAST(payload AS nvarchar(max)) END,
            @priority = priority, @max_attempts = max_attempts, @time_limit_ms = time_limit_ms, @kind = kind, @correlation_id = correlation_id,
            @headers = headers, @group_key = group_key,
            @dedup_key = ISNULL(dedup_key, CONCAT(name, N'@', CONVERT(varchar(19), @fire_at, 126), N'Z'))
        FROM [readpast].[schedules]
        WHERE queue_id = @queue_id AND name = @name;
        EXEC [readpast].[enqueue] @queue = @queue, @payload = @payload, @text = @text, @priority = @priority, @due_at = @due_at,
            @max_attempts = @max_attempts, @dedup_key = @dedup_key, @correlation_id = @correlation_id, @kind = @kind, @time_limit_ms = @time_limit_ms,
            @headers = @headers, @group_key = @group_key, @job_id = @job_id OUTPUT, @duplicate = @duplicate OUTPUT;
    END;
END;
COMMIT TRANSACTION;

-- Only now: see lower_marks.
IF @duplicate = 0
    EXEC [readpast].[lower_marks] @queue_id, @job_id;
IF @group_key IS NOT NULL
    EXEC [readpast].[advance_groups] @queue_id;

SELECT @revision AS revision, @job_id AS job_id, @duplicate AS duplicate;
GO

-- 384_fail_schedule.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For the worker that has the duties: notes why a schedule could not be fired. It is looked at again ten seconds later, and none of its times is
-- passed over by that. Does nothing where the schedule was changed since it was read (@revision), or is locked.
CREATE OR ALTER PROCEDURE [readpast].[fail_schedule]
    @queue    nvarchar(129),
    @name     nvarchar(129),
    @revision int,
    @error    nvarchar(2048)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

UPDATE [readpast].[schedules] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
SET error = @error, look_at = DATEADD(SECOND, 10, SYSUTCDATETIME()), revision = revision + 1
WHERE queue_id = @queue_id AND name = @name AND revision = @revision AND paused = 0;
GO

-- 400_stats.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Counts the jobs of one queue or, with NULL, of each. Reads without locks (NOLOCK): it neither waits nor makes anybody wait, and what
-- it returns is a sample, not a balance. Reads every entry of the small indexes once or, with @most, so many of each: a count of @most says
-- that there are at least so many, and the oldest ready job is that of those that were counted. So it is cheap at any depth.
-- Result: queue, claim_order, completion, delivery, max_attempts, paused, ready, scheduled, claimed, done, dead, archived, workers,
-- oldest_ready_ms (NULL: nothing is ready), keep_done_s, keep_dead_s (NULL: for ever), sink, cancelled,
-- waiting, group_limit, retry_passes, max_running, rate_jobs, rate_ms.
CREATE OR ALTER PROCEDURE [readpast].[stats]
    @queue nvarchar(129) = NULL,
    @most  bigint        = NULL  -- of each state at most so many are counted, 1 or more; of ready jobs so many of each index; NULL: all
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @message nvarchar(2048);

IF @queue IS NOT NULL AND NOT EXISTS (SELECT 1 FROM [readpast].[queues] WHERE name = @queue)
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @most < 1
    THROW 58003, N'most must be 1 or more', 1;
SET @most = ISNULL(@most, 9223372036854775807);

SELECT q.name AS queue, q.claim_order, q.completion, q.delivery, q.max_attempts, q.paused,
       r.ready,
       (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
                                    WHERE j.queue_id = q.queue_id AND j.state = 1) AS c) AS scheduled,
       (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_claimed))
                                    WHERE j.queue_id = q.queue_id AND j.state = 2) AS c) AS claimed,
       (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
                                    WHERE j.queue_id = q.queue_id AND j.state = 3 AND j.ended = 1) AS c) AS done,
       (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
                                    WHERE j.queue_id = q.queue_id AND j.state = 4 AND j.ended = 1) AS c) AS dead,
       (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) a.job_id FROM [readpast].[archive] AS a WITH (NOLOCK, INDEX (archive_finished))
                                    WHERE a.queue_id = q.queue_id) AS c) AS archived,
       (SELECT COUNT_BIG(*) FROM [readpast].[workers] AS w WITH (NOLOCK)
        WHERE w.queue_id = q.queue_id AND w.lost_at IS NULL AND w.lease_until >= @now) AS workers,
       DATEDIFF_BIG(MILLISECOND, r.oldest, @now) AS oldest_ready_ms, q.keep_done_s, q.keep_dead_s, q.sink,
       (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
                                    WHERE j.queue_id = q.queue_id AND j.state = 5 AND j.ended = 1) AS c) AS cancelled,
       (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_waiting))
                                    WHERE j.queue_id = q.queue_id AND j.state = 6) AS c) AS waiting,
       q.group_limit, q.retry_passes, q.max_running, q.rate_jobs, q.rate_ms
FROM [readpast].[queues] AS q
CROSS APPLY (SELECT SUM(i.ready) AS ready, MIN(i.oldest) AS oldest
             FROM (SELECT COUNT_BIG(*) AS ready, MIN(c.due_at) AS oldest
                   FROM (SELECT TOP (@most) j.due_at FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                         WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.lifo = 0 AND j.alone = 0) AS c
                   UNION ALL
                   SELECT COUNT_BIG(*), MIN(c.due_at)
                   FROM (SELECT TOP (@most) j.due_at FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_lifo))
                         WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.lifo = 1 AND j.alone = 0) AS c
                   UNION ALL
                   SELECT COUNT_BIG(*), MIN(c.due_at)
                   FROM (SELECT TOP (@most) j.due_at FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
                         WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.alone = 1) AS c) AS i) AS r
WHERE @queue IS NULL OR q.name = @queue
ORDER BY q.name
OPTION (MAXDOP 1);  -- TOP makes it serial anyway: counts take some seconds of one core for tens of millions of jobs, and no more cores
GO

-- 402_list_workers.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Shows the workers of a queue or, with NULL, of each: those that have a lease, and those that have ended, were lost, or ran out of it within the
-- last @ended_s seconds.
-- Reads without locks (NOLOCK): it neither waits nor makes anybody wait. Of each worker it counts the entries of jobs_claimed, and reads the rows of
-- the first 50 jobs that it holds.
-- Result: worker_id, queue, name, registered_at, lease_left_ms (negative: it has run out; 0 where there is a lost_at), lost_at (it has ended or was
-- lost), reported_at, held (jobs that are claimed by it), oldest_claimed_at (of those; of more than 50, of the 50 that were
-- enqueued first), and as it has said at reported_at, with its heartbeat or (done and failed) when it ended: running, done, failed, done_per_s,
-- failed_per_s, limited_by (see heartbeat).
CREATE OR ALTER PROCEDURE [readpast].[list_workers]
    @queue   nvarchar(129) = NULL,
    @ended_s int           = 86400  -- 0 to 86,400: a day, for as long as they are kept at least
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WITH (NOLOCK) WHERE name = @queue;
IF @queue IS NOT NULL AND @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

IF @ended_s IS NULL OR @ended_s < 0 OR @ended_s > 86400
    THROW 58003, N'ended_s must be 0 to 86400 (a day)', 1;

SELECT w.worker_id, q.name AS queue, w.name, w.registered_at,
       CASE WHEN w.lost_at IS NULL THEN DATEDIFF_BIG(MILLISECOND, @now, w.lease_until) ELSE 0 END AS lease_left_ms,
       w.lost_at, w.reported_at, h.held, c.oldest_claimed_at, w.running, w.done, w.failed, CAST(w.done_per_s AS float) AS done_per_s,
       CAST(w.failed_per_s AS float) AS failed_per_s, w.limited_by
FROM [readpast].[workers] AS w WITH (NOLOCK)
INNER JOIN [readpast].[queues] AS q WITH (NOLOCK) ON q.queue_id = w.queue_id
CROSS APPLY (SELECT COUNT_BIG(*) AS held
             FROM [readpast].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_claimed (queue_id, worker_id)))
             WHERE j.queue_id = w.queue_id AND j.worker_id = w.worker_id AND j.state = 2) AS h
CROSS APPLY (SELECT MIN(f.claimed_at) AS oldest_claimed_at
             FROM (SELECT TOP (50) j.claimed_at
                   FROM [readpast].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_claimed (queue_id, worker_id)))
                   WHERE j.queue_id = w.queue_id AND j.worker_id = w.worker_id AND j.state = 2
                   ORDER BY j.job_id) AS f) AS c
WHERE (@queue_id IS NULL OR w.queue_id = @queue_id) AND ISNULL(w.lost_at, w.lease_until) >= DATEADD(SECOND, -@ended_s, @now)
ORDER BY q.name, w.name, w.registered_at
OPTION (MAXDOP 1);
GO

-- 404_list_history.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Shows what became of a queue or, with NULL, of each: the rows of history that lie, if only in part, in the @minutes before @until (NULL: now), by
-- queue and time; of more than 100,000 the newest. A minute is there when it has passed, if somebody sampled the depth in it.
-- Reads without locks (NOLOCK): it neither waits nor makes anybody wait.
-- Result: queue, at (the beginning, UTC), minutes (1 to 10), the depth as it was last sampled in this time (with ten minutes, the greatest of each):
-- ready, scheduled, waiting, claimed, dead, cancelled, workers, oldest_ready_ms (NULL: nothing was ready); and what the workers have reported: done,
-- failed (attempts), died (jobs that were dead after one), times (how long jobs waited and ran, see heartbeat; NULL: none has run).
CREATE OR ALTER PROCEDURE [readpast].[list_history]
    @queue   nvarchar(129) = NULL,
    @minutes int           = 60,    -- 1 to 129,600: 90 days, which is as long as it is kept
    @until   datetime2(3)  = NULL
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int, @since datetime2(3), @first datetime2(0), @end datetime2(0), @cut datetime2(0), @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WITH (NOLOCK) WHERE name = @queue;
IF @queue IS NOT NULL AND @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @minutes IS NULL OR @minutes < 1 OR @minutes > 129600
    THROW 58003, N'minutes must be 1 to 129600 (90 days)', 1;

SET @until = ISNULL(@until, SYSUTCDATETIME());
SET @since = DATEADD(MINUTE, -@minutes, @until);
-- Bounds of the column's own type, for the seek; a second too wide, because a time is rounded on its way to seconds.
SET @first = DATEADD(SECOND, -601, @since);
SET @end = CASE WHEN @until < '9999-12-31' THEN DATEADD(SECOND, 1, @until) ELSE '9999-12-31T23:59:59' END;
-- Of many queues, where to begin: only the times are sorted, not the rows.
IF @queue_id IS NULL
    SELECT @cut = MIN(n.at)
    FROM (SELECT TOP (100000) h.at
          FROM [readpast].[queues] AS q WITH (NOLOCK)
          INNER LOOP JOIN [readpast].[history] AS h WITH (NOLOCK, FORCESEEK (history_pk (queue_id, at))) ON h.queue_id = q.queue_id
          WHERE h.at > @first AND h.at < @end
          ORDER BY h.at DESC) AS n
    OPTION (MAXDOP 1);
IF @cut > @first
    SET @first = DATEADD(SECOND, -1, @cut);
SELECT q.name AS queue, h.at, CAST(h.minutes AS int) AS minutes, h.ready, h.scheduled, h.waiting, h.claimed, h.dead, h.cancelled,
       h.workers, h.oldest_ready_ms, h.done, h.failed, h.died, h.times
FROM [readpast].[queues] AS q WITH (NOLOCK, INDEX (queues_name))
INNER LOOP JOIN [readpast].[history] AS h WITH (NOLOCK, FORCESEEK (history_pk (queue_id, at))) ON h.queue_id = q.queue_id
WHERE (@queue_id IS NULL OR q.queue_id = @queue_id)
    AND h.at > @first AND h.at < @end
    AND DATEADD(MINUTE, h.minutes, h.at) > @since AND h.at < @until
ORDER BY q.name, h.at
OPTION (MAXDOP 1);
GO

-- 406_backlog.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For an autoscaler, KEDA's mssql scaler for example: how many workers the waiting jobs of a queue are work for. That many, each with @threads jobs
-- at once, would have run what waits in about @target_s seconds, by the run times of the last minutes in which jobs ran (history); where none were
-- measured in the last seven days, a job counts as a second. Never more workers than have a job for each of their threads: an hour's job is not done
-- sooner by sixty workers. And no more than may run at once by the queue's own limits (max_running, rate).
--
-- 0: there is nothing for a worker to do, and nothing comes due within @due_within_s. At least 1 where there is: jobs that are ready or claimed (their worker
-- may be lost, and another must give them back), scheduled jobs that come due, a schedule that is to be fired, groups that wait for their turn to be
-- given. Of a paused queue what is claimed counts, and nothing else.
--
-- Reads without locks (NOLOCK): it neither waits nor makes anybody wait. Cheap at any depth: of each state @most jobs are counted; where more are ready, the
-- depth that the workers have sampled within the last minute counts instead (see sample).
-- Result: workers, alone: KEDA takes one row with one column, and no other.
CREATE OR ALTER PROCEDURE [readpast].[backlog]
    @queue        nvarchar(129),
    @threads      int    = 1,      -- how many jobs one worker runs at once: 1 to 1,024
    @target_s     int    = 60,     -- 1 to 86,400 (a day)
    @due_within_s int    = 30,     -- 0 to 86,400; as long as a worker takes to start
    @most         bigint = 10000   -- 1 or more
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @paused bit, @max_running int, @rate_jobs int, @rate_ms bigint, @soon datetime2(3),
    @since datetime2(0), @ready bigint, @sampled bigint, @due bigint, @claimed bigint, @jobs bigint, @run_ms float = 1000,
    @at_once float, @workers float = 0, @message nvarchar(2048);

SELECT @queue_id = queue_id, @paused = paused, @max_running = max_running, @rate_jobs = rate_jobs, @rate_ms = rate_ms
FROM [readpast].[queues] WITH (NOLOCK) WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @threads IS NULL OR @threads < 1 OR @threads > 1024
    THROW 58003, N'threads must be 1 to 1024', 1;
IF @target_s IS NULL OR @target_s < 1 OR @target_s > 86400
    THROW 58003, N'target_s must be 1 to 86400 (a day)', 1;
IF @due_within_s IS NULL OR @due_within_s < 0 OR @due_within_s > 86400
    THROW 58003, N'due_within_s must be 0 to 86400 (a day)', 1;
IF @most IS NULL OR @most < 1
    THROW 58003, N'most must be 1 or more', 1;
SET @soon = DATEADD(SECOND, @due_within_s, @now);
SET @since = DATEADD(DAY, -7, @now);

SET @claimed = (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_claimed))
                                            WHERE j.queue_id = @queue_id AND j.state = 2) AS c);
SET @jobs = @claimed;
IF @paused = 0
BEGIN
    SET @ready = (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                                              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 0 AND j.alone = 0) AS c)
               + (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_lifo))
                                              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 1 AND j.alone = 0) AS c)
               + (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
                                              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS c);
    IF @ready >= @most
    BEGIN
        SET @sampled = (SELECT ready FROM [readpast].[samples] WITH (NOLOCK)
                        WHERE queue_id = @queue_id AND sampled_at > DATEADD(MINUTE, -1, @now));
        IF @sampled > @ready
            SET @ready = @sampled;
    END;
    SET @due = (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
                                            WHERE j.queue_id = @queue_id AND j.state = 1 AND j.due_at <= @soon
                                            ORDER BY j.due_at) AS c);
    SET @jobs = @jobs + @ready + @due;
END;

IF @jobs > 0
BEGIN
    -- "r0" is under 1 ms, "r1" from 1 ms up to 2 ms, and so on by powers of two, see heartbeat: a job counts as the middle.
    SELECT @run_ms = CASE WHEN SUM(r.jobs) > 0 THEN SUM(r.jobs * CASE WHEN r.bucket = 0 THEN 0.5 ELSE 0.75 * POWER(CAST(2 AS float), r.bucket) END) / SUM(r.jobs)
                          ELSE @run_ms END
    FROM (SELECT TRY_CAST(SUBSTRING(t.[key], 2, 2) AS int) AS bucket, TRY_CAST(t.value AS bigint) AS jobs
          FROM (SELECT TOP (60) h.times FROM [readpast].[history] AS h WITH (NOLOCK, FORCESEEK (history_pk (queue_id, at)))
                WHERE h.queue_id = @queue_id AND h.at > @since AND h.times LIKE '%"r%'
                ORDER BY h.at DESC) AS n
          CROSS APPLY OPENJSON(CASE WHEN ISJSON(n.times) = 1 THEN n.times END) AS t
          WHERE t.[key] LIKE 'r[0-9]%') AS r
    OPTION (MAXDOP 1);

    SET @workers = CEILING(@jobs * @run_ms / (CAST(1000 AS float) * @threads * @target_s));
    -- What may run at once.
    SET @at_once = @jobs;
    IF @max_running < @at_once
        SET @at_once = @max_running;
    IF @rate_jobs * @run_ms / @rate_ms < @at_once
        SET @at_once = @rate_jobs * @run_ms / @rate_ms;
    IF @workers > CEILING(@at_once / @threads)
        SET @workers = CEILING(@at_once / @threads);
    IF @workers < 1
        SET @workers = 1;
END
-- What only a worker does for the queue.
ELSE IF @paused = 0
    AND (EXISTS (SELECT 1 FROM [readpast].[group_events] WITH (NOLOCK) WHERE queue_id = @queue_id)
         OR EXISTS (SELECT 1 FROM [readpast].[schedules] WITH (NOLOCK, INDEX (schedules_due))
                    WHERE queue_id = @queue_id AND paused = 0 AND look_at <= @soon))
    SET @workers = 1;

-- More than an int could say is as good as that.
SELECT CAST(CASE WHEN @workers > 1000000 THEN 1000000 ELSE @workers END AS int) AS workers;
GO

-- 410_pause.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Stops the claims of a queue; jobs that are claimed already are finished, and enqueueing goes on.
CREATE OR ALTER PROCEDURE [readpast].[pause]
    @queue nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @message nvarchar(2048);

UPDATE [readpast].[queues] SET paused = 1 WHERE name = @queue;
IF @@ROWCOUNT = 0
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
GO

-- 420_resume.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Lets the claims of a queue go on.
CREATE OR ALTER PROCEDURE [readpast].[resume]
    @queue nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @message nvarchar(2048);

UPDATE [readpast].[queues] SET paused = 0 WHERE name = @queue;
IF @@ROWCOUNT = 0
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
GO

-- 429_note_requeued.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For requeue, in its transaction: jobs of batches that have not ended count as unfinished again, and jobs of groups wait for their turn. state: the one
-- that the job had.
CREATE OR ALTER PROCEDURE [readpast].[note_requeued]
    @queue_id int,
    @members  [readpast].[member_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @back TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED, dead int NOT NULL, cancelled int NOT NULL);

INSERT @back (batch_id, dead, cancelled)
SELECT m.batch_id, SUM(CASE WHEN m.state = 4 THEN 1 ELSE 0 END), SUM(CASE WHEN m.state = 5 THEN 1 ELSE 0 END)
FROM @members AS m
WHERE m.batch_id IS NOT NULL
GROUP BY m.batch_id;
IF @@ROWCOUNT > 0
    UPDATE c
    SET dead = c.dead - b.dead, cancelled = c.cancelled - b.cancelled
    FROM @back AS b
    INNER LOOP JOIN [readpast].[batch_counts] AS c WITH (ROWLOCK, FORCESEEK, INDEX (batch_counts_pk)) ON c.batch_id = b.batch_id
    WHERE c.ended_at IS NULL
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

INSERT [readpast].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended)
SELECT @queue_id, m.group_key, 0 FROM @members AS m WHERE m.group_key IS NOT NULL GROUP BY m.group_key;
GO

-- 430_requeue.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Makes dead jobs ready again: one (@job_id) or up to 1,000 (@listed = 1 and @jobs), which may also be cancelled, or up to @max, the oldest first.
-- The attempt starts at 0 again, the fence goes on growing. Of the listed ones, which come all at once whatever
-- @max is, those that are locked at the moment are passed over.
-- A job whose de-duplication key belongs to an unfinished job by now stays dead; of several with one key, the newest comes back.
-- A job of a group waits for its turn again. In a batch that has not ended it counts as unfinished again; one that has ended stays so.
-- With @payload or @text, the one job gets another payload. Run it until it returns less than @max. Result: requeued.
--
-- First the ids, by reading alone; then the rows, each before its index entries, as all procedures but claim and promote lock them. Jobs without a
-- key come back by one statement. Of those with a key each is a transaction of its own, the newest first, because its key's new entry in
-- jobs_dedup may have to wait for a producer's: waiting for one while holding another could deadlock with a producer that enqueues several.
CREATE OR ALTER PROCEDURE [readpast].[requeue]
    @queue   nvarchar(129),
    @job_id  bigint         = NULL,
    @max     int            = 1000,
    @payload varbinary(max) = NULL,  -- with @job_id: another payload, bytes
    @text    nvarchar(max)  = NULL,  -- or text
    @listed  bit            = 0,     -- 1: only those of @jobs, so none where it is empty
    @jobs    [readpast].[id_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @requeued int = 0, @rounds int = 0, @found int, @listed_so_far int = 0,
    @id bigint, @last_id bigint, @first_ready bigint, @message nvarchar(2048);
-- has_key: NULL when it was tried. IGNORE_DUP_KEY: a job that moves within an index while it is read may be met twice.
DECLARE @dead TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON), has_key bit NULL);
-- What one transaction brings back; state: the one that it had.
DECLARE @back [readpast].[member_list];

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @max IS NULL OR @max < 1
    THROW 58003, N'max must be 1 or more', 1;
IF @listed = 0 AND EXISTS (SELECT 1 FROM @jobs) OR @listed = 1 AND @job_id IS NOT NULL
    THROW 58003, N'jobs goes with listed = 1, and not beside job_id', 1;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must be up to 1000', 1;
IF (@payload IS NOT NULL OR @text IS NOT NULL) AND @job_id IS NULL OR @payload IS NOT NULL AND @text IS NOT NULL
    THROW 58003, N'another payload is for one job, named by job_id, and is either a payload or a text', 1;

-- Again, where fewer came back than were found, because others had some of them locked or a producer took a key meanwhile: for as many behind those.
-- Ten times, so that it ends whatever others do.
WHILE @rounds < 10
BEGIN
    SET @rounds = @rounds + 1;

    -- The keys are looked for with NOLOCK: an enqueue that is not committed counts already, and nobody waits for its transaction.
    IF @listed = 1
        INSERT @dead (job_id, has_key)
        SELECT j.job_id, CASE WHEN j.dedup_key IS NULL THEN 0 ELSE 1 END
        FROM @jobs AS a
        INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = a.job_id
        WHERE j.queue_id = @queue_id AND j.state IN (4, 5)
            AND (j.dedup_key IS NULL
                 OR NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS u WITH (NOLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
                                WHERE u.queue_id = @queue_id AND u.dedup_key = j.dedup_key AND u.dedup_key IS NOT NULL AND u.ended = 0)
                    AND NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS n WITH (NOLOCK, FORCESEEK (jobs_dead_keys (queue_id, dedup_key)))
                                    WHERE n.queue_id = @queue_id AND n.dedup_key = j.dedup_key AND n.dedup_key IS NOT NULL AND n.state = 4
                                        AND n.job_id > j.job_id))
        OPTION (MAXDOP 1);
    ELSE IF @job_id IS NULL
        INSERT @dead (job_id, has_key)
        SELECT TOP (@max - @requeued) j.job_id, CASE WHEN j.dedup_key IS NULL THEN 0 ELSE 1 END
        FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
        WHERE j.queue_id = @queue_id AND j.state = 4 AND j.ended = 1 AND NOT EXISTS (SELECT 1 FROM @dead AS d WHERE d.job_id = j.job_id)
            AND (j.dedup_key IS NULL
                 OR NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS u WITH (NOLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
                                WHERE u.queue_id = @queue_id AND u.dedup_key = j.dedup_key AND u.dedup_key IS NOT NULL AND u.ended = 0)
                    AND NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS n WITH (NOLOCK, FORCESEEK (jobs_dead_keys (queue_id, dedup_key)))
                                    WHERE n.queue_id = @queue_id AND n.dedup_key = j.dedup_key AND n.dedup_key IS NOT NULL AND n.state = 4
                                        AND n.job_id > j.job_id))
        ORDER BY j.finished_at, j.job_id
        OPTION (MAXDOP 1);
    ELSE
        INSERT @dead (job_id, has_key)
        SELECT j.job_id, 1
        FROM [readpast].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
        WHERE j.job_id = @job_id AND j.queue_id = @queue_id AND j.state IN (4, 5)
            AND (j.dedup_key IS NULL
                 OR NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS u WITH (NOLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
                                WHERE u.queue_id = @queue_id AND u.dedup_key = j.dedup_key AND u.dedup_key IS NOT NULL AND u.ended = 0)
                    AND NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS n WITH (NOLOCK, FORCESEEK (jobs_dead_keys (queue_id, dedup_key)))
                                    WHERE n.queue_id = @queue_id AND n.dedup_key = j.dedup_key AND n.dedup_key IS NOT NULL AND n.state = 4
                                        AND n.job_id > j.job_id))
        OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    SET @listed_so_far = @listed_so_far + @found;

    IF EXISTS (SELECT 1 FROM @dead WHERE has_key = 0)
    BEGIN
        DELETE @back;
        BEGIN TRANSACTION;
        UPDATE j
        SET state = CASE WHEN j.group_key IS NULL THEN 0 ELSE 6 END, ended = 0, attempt = 0, alone = 0, in_turn = NULL, due_at = @now
        OUTPUT inserted.job_id, deleted.state, inserted.batch_id, inserted.group_key INTO @back (job_id, state, batch_id, group_key)
        FROM @dead AS d
        INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
            ON j.job_id = d.job_id
        WHERE d.has_key = 0 AND j.queue_id = @queue_id AND (j.state = 4 OR j.state = 5 AND @listed = 1)
        OPTION (MAXDOP 1);
        SET @requeued = @requeued + @@ROWCOUNT;
        EXEC [readpast].[note_requeued] @queue_id, @back;
        COMMIT TRANSACTION;
        SELECT @id = MIN(job_id) FROM @back;
        IF @first_ready IS NULL OR @id < @first_ready
            SET @first_ready = @id;
    END;

    SET @last_id = 9223372036854775807;
    WHILE 1 = 1
    BEGIN
        SET @id = NULL;
        SELECT TOP (1) @id = job_id FROM @dead WHERE has_key = 1 AND job_id < @last_id ORDER BY job_id DESC;
        IF @id IS NULL
            BREAK;
        SET @last_id = @id;
        UPDATE @dead SET has_key = NULL WHERE job_id = @id;
        DELETE @back;
        SET XACT_ABORT OFF;
        BEGIN TRY
            BEGIN TRANSACTION;
            IF @payload IS NOT NULL OR @text IS NOT NULL
                UPDATE j
                SET payload = ISNULL(@payload, CAST(@text AS varbinary(max))), payload_utf16 = CASE WHEN @text IS NULL THEN 0 ELSE 1 END,
                    checkpointed = NULL,  -- that was of the old payload
                    state = CASE WHEN j.group_key IS NULL THEN 0 ELSE 6 END, ended = 0, attempt = 0, alone = 0, in_turn = NULL, due_at = @now
                OUTPUT inserted.job_id, deleted.state, inserted.batch_id, inserted.group_key INTO @back (job_id, state, batch_id, group_key)
                FROM [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk))
                WHERE j.job_id = @id AND j.queue_id = @queue_id AND j.state IN (4, 5)
                OPTION (MAXDOP 1);
            ELSE
                UPDATE j
                SET state = CASE WHEN j.group_key IS NULL THEN 0 ELSE 6 END, ended = 0, attempt = 0, alone = 0, in_turn = NULL, due_at = @now
                OUTPUT inserted.job_id, deleted.state, inserted.batch_id, inserted.group_key INTO @back (job_id, state, batch_id, group_key)
                FROM [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk))
                WHERE j.job_id = @id AND j.queue_id = @queue_id AND (j.state = 4 OR j.state = 5 AND (@job_id IS NOT NULL OR @listed = 1))
                OPTION (MAXDOP 1);
            SET @requeued = @requeued + @@ROWCOUNT;
            EXEC [readpast].[note_requeued] @queue_id, @back;
            COMMIT TRANSACTION;
            SELECT @first_ready = job_id FROM @back WHERE @first_ready IS NULL OR job_id < @first_ready;
        END TRY
        BEGIN CATCH
            -- A producer has enqueued the key meanwhile: the job stays dead. Any other error rolls the caller's transaction back, as everywhere.
            SET XACT_ABORT ON;
            IF ERROR_NUMBER() <> 2601 OR XACT_STATE() = -1
                THROW;
            COMMIT TRANSACTION;  -- nothing has changed in it
        END CATCH;
        SET XACT_ABORT ON;
    END;

    IF @found = 0 OR @requeued = @listed_so_far OR @requeued >= @max OR @job_id IS NOT NULL OR @listed = 1
        BREAK;
END;

IF @first_ready IS NOT NULL
    EXEC [readpast].[lower_marks] @queue_id, @first_ready;
IF @requeued > 0
    EXEC [readpast].[advance_groups] @queue_id;

SELECT @requeued AS requeued;
GO

-- 432_cancel.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Cancels jobs: one (@job_id) or up to 1,000 (@jobs). Those that wait are cancelled at once: state 5, kept like dead ones; their de-duplication keys
-- are free. Of those that run, the worker is told with its next heartbeat. Until they end they stay claimed: what is acknowledged as done is done, and
-- whatever else becomes of the run (an error, a snooze, a release, a lost worker), the job is cancelled then. Jobs that have ended stay as they are.
-- Those that wait count as cancelled in their batches, and give their turn in their groups away. The job's error says who cancelled it, and why.
--
-- It waits for whoever is changing one of the jobs: a job that is just being claimed must not escape. It locks all rows first, in the order of job_id
-- like everybody, so that no job changes its state between the look and the change.
-- Result: job_id, fence, running (1: its worker is to be told; 0: cancelled), for every job that had not ended.
CREATE OR ALTER PROCEDURE [readpast].[cancel]
    @queue  nvarchar(129),
    @job_id bigint         = NULL,
    @why    nvarchar(1001) = NULL,  -- up to 1,000 characters; one more here, so that a longer text is refused and not cut
    @jobs   [readpast].[id_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @error nvarchar(4000), @granted bit, @message nvarchar(2048);
DECLARE @asked [readpast].[id_list];
DECLARE @members [readpast].[member_list];
DECLARE @held TABLE
(
    job_id    bigint           NOT NULL PRIMARY KEY CLUSTERED,
    fence     int              NOT NULL,
    running   bit              NOT NULL,
    worker_id uniqueidentifier NULL
);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF DATALENGTH(@why) > 2000
    THROW 58003, N'why must have up to 1000 characters', 1;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must be up to 1000', 1;
IF @job_id IS NULL
    INSERT @asked (job_id) SELECT job_id FROM @jobs;
ELSE
    INSERT @asked (job_id) VALUES (@job_id);
-- (In Azure SQL Database ORIGINAL_LOGIN is NULL.)
SET @error = CONCAT(N'cancelled by ', ISNULL(ORIGINAL_LOGIN(), USER_NAME()), N': ' + NULLIF(@why, N''));

BEGIN TRANSACTION;
-- (A job's group does not change.)
IF EXISTS (SELECT 1 FROM [readpast].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
    AND EXISTS (SELECT 1
                FROM @asked AS a
                INNER LOOP JOIN [readpast].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = a.job_id
                WHERE j.group_key IS NOT NULL)
    EXEC [readpast].[lock_groups] @queue_id, NULL, @granted OUTPUT;
INSERT @held (job_id, fence, running, worker_id)
SELECT j.job_id, j.fence, CASE WHEN j.state = 2 THEN 1 ELSE 0 END, j.worker_id
FROM @asked AS a
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = a.job_id
WHERE j.queue_id = @queue_id AND j.ended = 0
ORDER BY a.job_id  -- so that the join keeps to it
OPTION (MAXDOP 1);

UPDATE j
SET state = 5, ended = 1, finished_at = @now, error = @error
OUTPUT inserted.job_id, 5, inserted.in_turn, inserted.batch_id, inserted.group_key
INTO @members (job_id, state, in_turn, batch_id, group_key)
FROM @held AS h
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = h.job_id
WHERE h.running = 0
OPTION (MAXDOP 1);

IF EXISTS (SELECT 1 FROM @held WHERE running = 1)
BEGIN
    UPDATE j
    SET cancelling = 1, error = @error
    FROM @held AS h
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = h.job_id
    WHERE h.running = 1
    OPTION (MAXDOP 1);

    INSERT [readpast].[cancellations] WITH (ROWLOCK) (worker_id, job_id, fence, asked_at)
    SELECT h.worker_id, h.job_id, h.fence, @now
    FROM @held AS h
    WHERE h.running = 1
        AND NOT EXISTS (SELECT 1 FROM [readpast].[cancellations] AS c WITH (ROWLOCK, READCOMMITTEDLOCK)
                        WHERE c.worker_id = h.worker_id AND c.job_id = h.job_id AND c.fence = h.fence)
    OPTION (MAXDOP 1);
END;
EXEC [readpast].[note_ends] @queue_id, @members;
COMMIT TRANSACTION;
IF EXISTS (SELECT 1 FROM @members WHERE group_key IS NOT NULL)
    EXEC [readpast].[advance_groups] @queue_id;

SELECT job_id, fence, running FROM @held;
GO

-- 434_outcomes.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- What has become of jobs that have ended: for producers that wait. Of up to 1,000 jobs (@jobs), those that have ended, about @max of them; the others
-- are left out. Ask again at once where @max rows or more came: outputs may be large.
-- It waits for nobody but for a job that is being deleted or moved to the archive at this moment: what is not committed has not ended.
-- Results, up to three of one shape: job_id, state (done, dead, cancelled, gone), error, output. gone: the queue does not have the job. Where it deletes
-- done jobs, that is what a done one looks like, and also one that was purged, has expired, or has never been.
CREATE OR ALTER PROCEDURE [readpast].[outcomes]
    @queue nvarchar(129),
    @jobs  [readpast].[id_list] READONLY,
    @max   int = 100
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @message nvarchar(2048);
DECLARE @absent TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @max IS NULL OR @max < 1
    THROW 58003, N'max must be 1 or more', 1;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must be up to 1000', 1;

-- READPAST: whoever has locked a job is changing it, and it has not ended yet, or is asked for again.
SELECT TOP (@max) j.job_id, CAST(CASE j.state WHEN 3 THEN 'done' WHEN 4 THEN 'dead' ELSE 'cancelled' END AS varchar(9)) AS state, j.error, j.output
FROM @jobs AS a
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = a.job_id
WHERE j.queue_id = @queue_id AND j.ended = 1
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- Not there, not even locked.
INSERT @absent (job_id)
SELECT a.job_id
FROM @jobs AS a
WHERE NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                  WHERE j.job_id = a.job_id AND j.queue_id = @queue_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT = 0
    RETURN;

-- What NOLOCK has not seen may come back with a rollback: this waits for its end. What is gone then is in the archive, or nowhere.
DELETE a
FROM @absent AS a
WHERE EXISTS (SELECT 1 FROM [readpast].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
              WHERE j.job_id = a.job_id AND j.queue_id = @queue_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);

SELECT TOP (@max) r.job_id, CAST('done' AS varchar(9)) AS state, r.error, r.output
FROM @absent AS a
INNER LOOP JOIN [readpast].[archive] AS r WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id))) ON r.job_id = a.job_id
WHERE r.queue_id = @queue_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);

SELECT a.job_id, CAST('gone' AS varchar(9)) AS state, CAST(NULL AS nvarchar(4000)) AS error, CAST(NULL AS varbinary(max)) AS output
FROM @absent AS a
WHERE NOT EXISTS (SELECT 1 FROM [readpast].[archive] AS r WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id)))
                  WHERE r.job_id = a.job_id AND r.queue_id = @queue_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO

-- 436_promote_now.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Makes scheduled jobs ready before their time: one (@job_id) or up to 1,000 (@jobs), delayed ones or such as wait for their next attempt. A job of a
-- group that has not the turn waits for it then. It waits for whoever is changing one of the jobs, in the order of job_id like everybody.
-- Result: promoted (how many of them were scheduled jobs of the queue).
CREATE OR ALTER PROCEDURE [readpast].[promote_now]
    @queue  nvarchar(129),
    @job_id bigint = NULL,
    @jobs   [readpast].[id_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @first_ready bigint, @message nvarchar(2048);
DECLARE @asked [readpast].[id_list];
DECLARE @promoted TABLE
(
    job_id    bigint        NOT NULL PRIMARY KEY CLUSTERED,
    state     tinyint       NOT NULL,
    group_key nvarchar(128) NULL
);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must be up to 1000', 1;
IF @job_id IS NULL
    INSERT @asked (job_id) SELECT job_id FROM @jobs;
ELSE
    INSERT @asked (job_id) VALUES (@job_id);

BEGIN TRANSACTION;
UPDATE j
SET state = CASE WHEN j.group_key IS NULL OR j.in_turn = 1 THEN 0 ELSE 6 END, due_at = SYSUTCDATETIME()
OUTPUT inserted.job_id, inserted.state, inserted.group_key INTO @promoted (job_id, state, group_key)
FROM @asked AS a
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = a.job_id
WHERE j.queue_id = @queue_id AND j.state = 1
OPTION (MAXDOP 1);
IF EXISTS (SELECT 1 FROM @promoted WHERE state = 6)
    INSERT [readpast].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended)
    SELECT DISTINCT @queue_id, group_key, 0 FROM @promoted WHERE state = 6;
COMMIT TRANSACTION;
IF EXISTS (SELECT 1 FROM @promoted WHERE state = 6)
    EXEC [readpast].[advance_groups] @queue_id;
SET @first_ready = (SELECT MIN(job_id) FROM @promoted WHERE state = 0);
IF @first_ready IS NOT NULL
    EXEC [readpast].[lower_marks] @queue_id, @first_ready;

SELECT COUNT(*) AS promoted FROM @promoted;
GO

-- 438_set_priority.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Gives up to 1,000 jobs that have not ended another priority; of a claimed one it counts when it comes back. It waits for whoever is changing one of
-- the jobs, in the order of job_id like everybody. Result: changed (not those that have this priority already).
-- A job that waits for its turn in its group gets it in the group's order, whatever its priority.
CREATE OR ALTER PROCEDURE [readpast].[set_priority]
    @queue    nvarchar(129),
    @jobs     [readpast].[id_list] READONLY,
    @priority smallint  -- smaller runs first
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @first_ready bigint, @changed int, @granted bit, @message nvarchar(2048);
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @priority IS NULL
    THROW 58003, N'priority must be between -32768 and 32767', 1;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must be up to 1000', 1;

BEGIN TRANSACTION;
IF EXISTS (SELECT 1 FROM [readpast].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
    EXEC [readpast].[lock_groups] @queue_id, NULL, @granted OUTPUT;
UPDATE j
SET priority = @priority
OUTPUT inserted.job_id INTO @found (job_id)
FROM @jobs AS a
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = a.job_id
WHERE j.queue_id = @queue_id AND j.ended = 0 AND j.priority <> @priority
OPTION (MAXDOP 1);
SET @changed = @@ROWCOUNT;
COMMIT TRANSACTION;

-- Ready ones may stand below their new priority's mark.
SET @first_ready = (SELECT MIN(job_id) FROM @found);
IF @first_ready IS NOT NULL
    EXEC [readpast].[lower_marks] @queue_id, @first_ready;

SELECT @changed AS changed;
GO

-- 440_purge.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Deletes up to @max jobs in one state, the oldest first; run it until it returns less than @max.
-- @state: done, dead, cancelled, archived (@older_than_s seconds and more after they finished), or ready, scheduled, waiting (@older_than_s seconds and
-- more after they were enqueued). Unfinished ones count as cancelled in their batches. Claimed jobs cannot be purged. Result: purged.
-- With @listed = 1 only those of @jobs that are in this state, all at once: up to 1,000, whatever @max is.
--
-- First the ids, by reading alone; then the rows in the order of their ids, each before its index entries, as all procedures but claim and promote
-- lock them. What others have locked is skipped both times (READPAST).
--
-- No index has the age of ready jobs, but their ids grow with it: within a priority, the first job that is not old enough ends the search (a page of
-- @max jobs that begins with an old one is searched to its end). So a million jobs of which none is old enough cost a look at each priority. Jobs
-- whose enqueueing had to wait for another with its key, or for a clock that was set back, may be older than their ids say: they go a little later.
-- Scheduled jobs stand by the time that they are due and waiting ones by their groups, which says nothing about their age: with an age, all of them
-- may be read.
CREATE OR ALTER PROCEDURE [readpast].[purge]
    @queue        nvarchar(129),
    @state        varchar(32),
    @older_than_s int = 0,
    @max          int = 1000,
    @listed       bit = 0,  -- 1: only those of @jobs, so none where it is empty
    @jobs         [readpast].[id_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @before datetime2(3), @queue_id int, @claim_order varchar(4), @number tinyint, @purged int = 0, @rounds int = 0, @found int,
    @listed_so_far int = 0, @granted bit, @at_least smallint, @priority smallint, @enqueued_at datetime2(3), @message nvarchar(2048);
-- IGNORE_DUP_KEY: a job that moves within an index while it is read may be met twice.
DECLARE @old TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON));
DECLARE @gone [readpast].[member_list];

SELECT @queue_id = queue_id, @claim_order = claim_order FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @state IS NULL OR @state NOT IN ('done', 'dead', 'cancelled', 'archived', 'ready', 'scheduled', 'waiting')
BEGIN
    SET @message = CONCAT(N'state is ''', @state, N'''; it must be done, dead, cancelled, archived, ready, scheduled or waiting');
    THROW 58003, @message, 1;
END;
IF @older_than_s IS NULL OR @older_than_s < 0 OR @max IS NULL OR @max < 1
    THROW 58003, N'older_than_s must be 0 or more, max 1 or more', 1;
IF @listed = 0 AND EXISTS (SELECT 1 FROM @jobs)
    THROW 58003, N'jobs goes with listed = 1', 1;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must be up to 1000', 1;
SET @before = DATEADD(SECOND, -@older_than_s, SYSUTCDATETIME());
SET @number = CASE @state WHEN 'ready' THEN 0 WHEN 'scheduled' THEN 1 WHEN 'done' THEN 3 WHEN 'dead' THEN 4 WHEN 'cancelled' THEN 5 WHEN 'waiting' THEN 6 END;

-- Again, where fewer were deleted than were found, because others had some of them locked: for as many behind those. Ten times, so that it ends
-- whatever others do.
WHILE @rounds < 10
BEGIN
    SET @rounds = @rounds + 1;

    -- The second condition is the index's filter, which a variable does not show.
    IF @listed = 1
        INSERT @old (job_id) SELECT job_id FROM @jobs;
    ELSE IF @number IN (3, 4, 5)
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
        WHERE queue_id = @queue_id AND state = @number AND ended = 1 AND finished_at <= @before
            AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
        ORDER BY finished_at, job_id
        OPTION (MAXDOP 1);
    ELSE IF @state = 'archived'
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id FROM [readpast].[archive] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
        WHERE queue_id = @queue_id AND finished_at <= @before
            AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
        ORDER BY finished_at, job_id
        OPTION (MAXDOP 1);
    ELSE IF @state = 'waiting'
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
        WHERE queue_id = @queue_id AND state = 6 AND enqueued_at <= @before
            AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
        ORDER BY group_key, job_id
        OPTION (MAXDOP 1);
    ELSE IF @state = 'scheduled'
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
        WHERE queue_id = @queue_id AND state = 1 AND enqueued_at <= @before
            AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
        ORDER BY due_at, job_id
        OPTION (MAXDOP 1);
    ELSE
        -- Those that must run alone (see reap) stand in an index of their own; they are few.
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1 AND enqueued_at <= @before
            AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
        ORDER BY priority, job_id
        OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;

    SET @at_least = CASE WHEN @state = 'ready' AND @listed = 0 THEN -32768 END;
    WHILE @at_least IS NOT NULL AND @purged + @found < @max
    BEGIN
        -- The next priority and its oldest job.
        SET @enqueued_at = NULL;
        IF @claim_order = 'lifo'
        BEGIN
            SELECT TOP (1) @priority = priority, @enqueued_at = '99991231'
            FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND priority >= @at_least
            ORDER BY priority
            OPTION (MAXDOP 1);
            IF @enqueued_at IS NULL
                BREAK;
            SELECT TOP (1) @enqueued_at = enqueued_at
            FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND priority = @priority
            ORDER BY job_id
            OPTION (MAXDOP 1);
        END;
        ELSE
            SELECT TOP (1) @priority = priority, @enqueued_at = enqueued_at
            FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority >= @at_least
            ORDER BY priority, job_id
            OPTION (MAXDOP 1);
        IF @enqueued_at IS NULL
            BREAK;
        SET @at_least = CASE WHEN @priority < 32767 THEN @priority + 1 END;
        IF @enqueued_at > @before
            CONTINUE;

        IF @claim_order = 'lifo'
            INSERT @old (job_id)
            SELECT p.job_id
            FROM (SELECT TOP (@max - @purged - @found) job_id, enqueued_at
                  FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
                  WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND priority = @priority
                      AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
                  ORDER BY job_id) AS p
            WHERE p.enqueued_at <= @before
            OPTION (MAXDOP 1);
        ELSE
            INSERT @old (job_id)
            SELECT p.job_id
            FROM (SELECT TOP (@max - @purged - @found) job_id, enqueued_at
                  FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                  WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority
                      AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
                  ORDER BY job_id) AS p
            WHERE p.enqueued_at <= @before
            OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
    END;

    BEGIN TRANSACTION;
    IF @state = 'archived'
    BEGIN
        DELETE a
        OUTPUT deleted.job_id INTO @gone (job_id)
        FROM @old AS o
        INNER LOOP JOIN [readpast].[archive] AS a WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (archive_pk))
            ON a.job_id = o.job_id
        WHERE a.queue_id = @queue_id AND a.finished_at <= @before
        OPTION (MAXDOP 1);
        SET @purged = @purged + @@ROWCOUNT;
    END;
    ELSE
    BEGIN
        IF @number = 6
            EXEC [readpast].[lock_groups] @queue_id, NULL, @granted OUTPUT;
        -- A dead job that came back and died again meanwhile is a young one. Unfinished ones (0, 1, 6) are cancelled by this.
        DELETE j
        OUTPUT deleted.job_id, CASE WHEN deleted.ended = 0 THEN 5 END, deleted.in_turn, deleted.batch_id, deleted.group_key
        INTO @gone (job_id, state, in_turn, batch_id, group_key)
        FROM @old AS o
        INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
            ON j.job_id = o.job_id
        WHERE j.queue_id = @queue_id AND j.state = @number AND CASE WHEN j.ended = 0 THEN j.enqueued_at ELSE j.finished_at END <= @before
        OPTION (MAXDOP 1);
        SET @purged = @purged + @@ROWCOUNT;
    END;
    -- Their failed attempts.
    DELETE a
    FROM @gone AS g
    INNER LOOP JOIN [readpast].[attempts] AS a WITH (ROWLOCK, FORCESEEK, INDEX (attempts_pk)) ON a.job_id = g.job_id
    OPTION (MAXDOP 1);
    EXEC [readpast].[note_ends] @queue_id, @gone;
    COMMIT TRANSACTION;
    IF EXISTS (SELECT 1 FROM @gone WHERE group_key IS NOT NULL)
        EXEC [readpast].[advance_groups] @queue_id;
    DELETE @gone;
    SET @listed_so_far = @listed_so_far + @found;
    IF @found = 0 OR @purged = @listed_so_far OR @purged >= @max OR @listed = 1
        BREAK;
END;

SELECT @purged AS purged;
GO

-- 442_delete_empty_queue.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For delete_queue: deletes a queue that has no jobs, with all that belongs to it, in one transaction. @outcome: gone; or, and then nothing has
-- changed, worker (one of it has a lease), batch (one that has not ended has its follow-up in it), jobs, rest (there are notes of jobs, batches
-- that have ended, or history), or locked (somebody has locked what belongs to it).
--
-- No job stays behind without a queue:
-- 1. The queue's row is deleted first. Only then the jobs are looked for, in each index in which a job of the queue can stand, with HOLDLOCK: what
--    was found empty stays so until this transaction ends, because whoever would put an entry there waits.
-- 2. Take any job of the queue at the moment of the commit. Has it an entry in one of these indexes, then that was there when this index was looked
--    at, since none came in afterwards: it was found, or it was locked. Is it between two indexes (requeue, promote, release, ...: the old entry is
--    deleted, the new one is not there yet), then who moves it has the old entry locked. That was deleted before the look at that index, and the look
--    met the lock; or after it, and the look found the entry. Both times the deletion is taken back. (So the order of the looks does not matter.)
-- 3. A job that is just being added has no entry yet. Who adds one looks for the queue's row when all entries are there (enqueue): either that is
--    before this deletes the row, and then the looks come after the entries; or it finds the queue gone, and takes the job back.
-- Workers and schedules come in by the same rule as jobs: first the row, then the look for the queue (register_worker, set_schedule).
--
-- It waits for nobody once it has deleted the row (LOCK_TIMEOUT 0), so that it is in no deadlock. HOLDLOCK also locks the entry behind the queue's
-- own, another queue's: where that is locked, the outcome is locked, too, and delete_queue tries again. The entry of the name comes before the row:
-- in this order those lock them who look for a queue by its name.
CREATE OR ALTER PROCEDURE [readpast].[delete_empty_queue]
    @queue_id int,
    @queue    nvarchar(129),  -- its name
    @outcome  varchar(8) OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;  -- a client that gives the call up must not leave the row locked
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @locked int;
DECLARE @workers TABLE (worker_id uniqueidentifier NOT NULL PRIMARY KEY CLUSTERED);

SET @outcome = NULL;
BEGIN TRY
    SET LOCK_TIMEOUT 1000;
    BEGIN TRANSACTION;
    SELECT @locked = queue_id FROM [readpast].[queues] WITH (ROWLOCK, XLOCK, READCOMMITTEDLOCK, INDEX (queues_name)) WHERE name = @queue;
    DELETE [readpast].[queues] WITH (ROWLOCK) WHERE queue_id = @queue_id;
    SET LOCK_TIMEOUT 0;

    IF EXISTS (SELECT 1 FROM [readpast].[batch_counts] WITH (ROWLOCK, HOLDLOCK, INDEX (batch_counts_ended))
               WHERE queue_id = @queue_id AND ended_at IS NULL)
        SET @outcome = 'batch';
    IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_ready (queue_id)))
               WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_ready_lifo (queue_id)))
               WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_ready_alone (queue_id)))
               WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_scheduled (queue_id))) WHERE queue_id = @queue_id AND state = 1)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_claimed (queue_id))) WHERE queue_id = @queue_id AND state = 2)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_waiting (queue_id))) WHERE queue_id = @queue_id AND state = 6)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_finished (queue_id))) WHERE queue_id = @queue_id AND ended = 1)
        SET @outcome = 'jobs';
    IF EXISTS (SELECT 1 FROM [readpast].[archive] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (archive_finished (queue_id))) WHERE queue_id = @queue_id)
        SET @outcome = 'jobs';
    -- They can be many: they go as the jobs do.
    IF @outcome IS NULL
        AND (EXISTS (SELECT 1 FROM [readpast].[progress] WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (progress_queue)) WHERE queue_id = @queue_id)
             OR EXISTS (SELECT 1 FROM [readpast].[batch_counts] WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (batch_counts_queue))
                        WHERE queue_id = @queue_id)
             OR EXISTS (SELECT 1 FROM [readpast].[history] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id))
        SET @outcome = 'rest';

    IF @outcome IS NULL
    BEGIN
        -- Their ids by NOLOCK, the rows by their keys: no index has the queue, and those of other queues are locked by their heartbeats. One that
        -- has a lease stays; one that is not committed is locked.
        INSERT @workers (worker_id) SELECT worker_id FROM [readpast].[workers] WITH (NOLOCK) WHERE queue_id = @queue_id;
        DELETE w
        FROM @workers AS o
        INNER LOOP JOIN [readpast].[workers] AS w WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK, INDEX (workers_pk)) ON w.worker_id = o.worker_id
        WHERE w.lost_at IS NOT NULL OR w.lease_until < @now
        OPTION (MAXDOP 1);
        IF EXISTS (SELECT 1 FROM [readpast].[workers] WITH (NOLOCK) WHERE queue_id = @queue_id)
            SET @outcome = 'worker';
    END;
    IF @outcome IS NULL
    BEGIN
        DELETE [readpast].[duties] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [readpast].[samples] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [readpast].[history] WITH (ROWLOCK) WHERE queue_id = @queue_id;  -- a row since the look; without the sample there is no further one
        DELETE [readpast].[marks] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        -- (READCOMMITTEDLOCK: under optimized locking, one that is not committed would be passed over, and not be waited for.)
        DELETE [readpast].[schedules] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id;
        DELETE [readpast].[claim_rates] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [readpast].[groups] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [readpast].[group_events] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        DELETE [readpast].[linked_queues] WITH (ROWLOCK) WHERE queue_id = @queue_id;
        COMMIT TRANSACTION;
        SET @outcome = 'gone';
    END;
    ELSE
        ROLLBACK TRANSACTION;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    IF ERROR_NUMBER() <> 1222
        THROW;
    SET @outcome = 'locked';
END CATCH;
GO

-- 444_delete_queue.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Deletes a queue: its row and all that belongs to it. It is refused (58022) while a worker of it has a lease, while a batch that has not ended has
-- its follow-up in it and, with @with_jobs = 0, while it has jobs, those in the archive among them. With @with_jobs = 1 they are deleted first,
-- whatever their state, up to @max in a call; those that have not ended count as cancelled in their batches. Run it until is_gone is 1, outside of
-- a transaction: its own are shorter. Result: jobs (that this call has deleted), is_gone.
--
-- It looks without locks first (NOLOCK), and deletes jobs as long as it sees some. Only when nothing is left to be seen does it delete the queue, by
-- delete_empty_queue, which makes sure of it, and of what comes in meanwhile. What others have locked is passed over, and refused where there is
-- nothing else.
CREATE OR ALTER PROCEDURE [readpast].[delete_queue]
    @queue     nvarchar(129),
    @with_jobs bit = 0,
    @max       int = 1000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @outcome varchar(8), @tries int = 0, @jobs int = 0, @found int, @rest int,
    @room int, @granted bit, @message nvarchar(2048);
-- IGNORE_DUP_KEY: a job that moves within an index while it is read may be met twice.
DECLARE @old TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON));
DECLARE @gone [readpast].[member_list];

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @max IS NULL OR @max < 1 OR @max > 1000
    THROW 58003, N'max must be 1 to 1000', 1;
IF @@TRANCOUNT > 0
    THROW 58003, N'delete_queue has transactions of its own: call it outside of a transaction', 1;

IF EXISTS (SELECT 1 FROM [readpast].[workers] WITH (NOLOCK) WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until >= @now)
    SET @outcome = 'worker';
ELSE IF EXISTS (SELECT 1 FROM [readpast].[batch_counts] WITH (NOLOCK, INDEX (batch_counts_ended)) WHERE queue_id = @queue_id AND ended_at IS NULL)
    SET @outcome = 'batch';
ELSE IF EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_ready))
                WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
    OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_ready_lifo))
               WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
    OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_ready_alone)) WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
    OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_scheduled)) WHERE queue_id = @queue_id AND state = 1)
    OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_claimed)) WHERE queue_id = @queue_id AND state = 2)
    OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_waiting)) WHERE queue_id = @queue_id AND state = 6)
    OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_finished)) WHERE queue_id = @queue_id AND ended = 1)
    OR EXISTS (SELECT 1 FROM [readpast].[archive] WITH (NOLOCK, INDEX (archive_finished)) WHERE queue_id = @queue_id)
    SET @outcome = 'jobs';
ELSE IF EXISTS (SELECT 1 FROM [readpast].[progress] WITH (NOLOCK, INDEX (progress_queue)) WHERE queue_id = @queue_id)
    OR EXISTS (SELECT 1 FROM [readpast].[batch_counts] WITH (NOLOCK, INDEX (batch_counts_queue)) WHERE queue_id = @queue_id)
    OR EXISTS (SELECT 1 FROM [readpast].[history] WITH (NOLOCK) WHERE queue_id = @queue_id)
    SET @outcome = 'rest';
ELSE
BEGIN
    -- Again, because it may have met the lock of a neighbour's claim or acknowledgement.
    EXEC [readpast].[delete_empty_queue] @queue_id, @queue, @outcome OUTPUT;
    WHILE @outcome = 'locked' AND @tries < 10
    BEGIN
        SET @tries = @tries + 1;
        WAITFOR DELAY '00:00:00.050';
        EXEC [readpast].[delete_empty_queue] @queue_id, @queue, @outcome OUTPUT;
    END;
    IF @outcome = 'gone'
    BEGIN
        SELECT 0 AS jobs, CAST(1 AS bit) AS is_gone;
        RETURN;
    END;
    IF @with_jobs = 1 AND @outcome = 'jobs' OR @outcome = 'rest'
    BEGIN
        -- It came in since the look: the next call deletes it.
        SELECT 0 AS jobs, CAST(0 AS bit) AS is_gone;
        RETURN;
    END;
END;

IF @outcome = 'jobs'
BEGIN
    IF @with_jobs = 0
        SET @max = 1;  -- is there one that nobody has locked?
    -- First the ids, by reading alone, as purge does; then the rows in the order of their ids. What others have locked is skipped both times.
    INSERT @old (job_id) SELECT TOP (@max) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
    WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 ORDER BY priority, job_id OPTION (MAXDOP 1);
    SET @room = @max - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
    WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 ORDER BY priority, job_id DESC OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
    WHERE queue_id = @queue_id AND state = 0 AND alone = 1 ORDER BY priority, job_id OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 ORDER BY due_at, job_id OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    -- Claimed by workers that are lost.
    INSERT @old (job_id) SELECT TOP (@room) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_claimed))
    WHERE queue_id = @queue_id AND state = 2 ORDER BY worker_id, job_id OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
    WHERE queue_id = @queue_id AND state = 6 ORDER BY group_key, job_id OPTION (MAXDOP 1);
    SET @room = @room - @@ROWCOUNT;
    INSERT @old (job_id) SELECT TOP (@room) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND ended = 1 ORDER BY state, finished_at, job_id OPTION (MAXDOP 1);
    SET @found = @max - @room + @@ROWCOUNT;
    IF @with_jobs = 0 AND @found = 0
    BEGIN
        INSERT @old (job_id) SELECT TOP (1) job_id FROM [readpast].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
        WHERE queue_id = @queue_id OPTION (MAXDOP 1);
        SET @found = @@ROWCOUNT;
    END;
END;
IF @outcome = 'jobs' AND @with_jobs = 0 AND @found = 0
    SET @outcome = 'locked';
ELSE IF @outcome = 'jobs' AND @with_jobs = 1
BEGIN
    BEGIN TRANSACTION;
    IF EXISTS (SELECT 1 FROM [readpast].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
        EXEC [readpast].[lock_groups] @queue_id, NULL, @granted OUTPUT;
    -- Those that have not ended are cancelled by this. One that a worker has claimed which has registered since the look stays: it may run.
    DELETE j
    OUTPUT deleted.job_id, CASE WHEN deleted.ended = 0 THEN 5 END, deleted.in_turn, deleted.batch_id, deleted.group_key
    INTO @gone (job_id, state, in_turn, batch_id, group_key)
    FROM @old AS o
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = o.job_id
    WHERE j.state <> 2
        OR NOT EXISTS (SELECT 1 FROM [readpast].[workers] AS w WITH (NOLOCK, FORCESEEK (workers_pk (worker_id)))
                       WHERE w.worker_id = j.worker_id AND w.lost_at IS NULL AND w.lease_until >= @now)
    OPTION (MAXDOP 1);
    SET @jobs = @@ROWCOUNT;
    DELETE @old;
    SET @room = @max - @jobs;
    INSERT @old (job_id) SELECT TOP (@room) job_id FROM [readpast].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id ORDER BY finished_at, job_id OPTION (MAXDOP 1);
    DELETE a
    OUTPUT deleted.job_id INTO @gone (job_id)
    FROM @old AS o
    INNER LOOP JOIN [readpast].[archive] AS a WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (archive_pk))
        ON a.job_id = o.job_id
    OPTION (MAXDOP 1);
    SET @jobs = @jobs + @@ROWCOUNT;
    DELETE a
    FROM @gone AS g
    INNER LOOP JOIN [readpast].[attempts] AS a WITH (ROWLOCK, FORCESEEK, INDEX (attempts_pk)) ON a.job_id = g.job_id
    OPTION (MAXDOP 1);
    EXEC [readpast].[note_ends] @queue_id, @gone;
    COMMIT TRANSACTION;
    IF @jobs > 0
        SET @outcome = NULL;
    ELSE IF EXISTS (SELECT 1 FROM [readpast].[workers] WITH (NOLOCK) WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until >= @now)
        SET @outcome = 'worker';
    ELSE
        SET @outcome = 'locked';
END;
ELSE IF @outcome = 'rest'
BEGIN
    BEGIN TRANSACTION;
    INSERT @old (job_id) SELECT TOP (@max) job_id FROM [readpast].[progress] WITH (NOLOCK, INDEX (progress_queue))
    WHERE queue_id = @queue_id OPTION (MAXDOP 1);
    DELETE p
    FROM @old AS o
    INNER LOOP JOIN [readpast].[progress] AS p WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (progress_pk))
        ON p.job_id = o.job_id
    OPTION (MAXDOP 1);
    SET @rest = @@ROWCOUNT;
    DELETE @old;
    -- The ids are those of batches.
    INSERT @old (job_id) SELECT TOP (@max) batch_id FROM [readpast].[batch_counts] WITH (NOLOCK, INDEX (batch_counts_ended))
    WHERE queue_id = @queue_id AND ended_at IS NOT NULL OPTION (MAXDOP 1);
    DELETE c
    OUTPUT deleted.batch_id INTO @gone (job_id)
    FROM @old AS o
    INNER LOOP JOIN [readpast].[batch_counts] AS c WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (batch_counts_pk))
        ON c.batch_id = o.job_id
    WHERE c.ended_at IS NOT NULL
    OPTION (MAXDOP 1);
    SET @rest = @rest + @@ROWCOUNT;
    DELETE b
    FROM @gone AS g
    INNER LOOP JOIN [readpast].[batches] AS b WITH (ROWLOCK, FORCESEEK, INDEX (batches_pk)) ON b.batch_id = g.job_id
    OPTION (MAXDOP 1);
    DELETE TOP (@max) FROM [readpast].[history] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE queue_id = @queue_id OPTION (MAXDOP 1);
    SET @rest = @rest + @@ROWCOUNT;
    COMMIT TRANSACTION;
    SET @outcome = CASE WHEN @rest = 0 THEN 'locked' END;
END;

IF @outcome IS NOT NULL
BEGIN
    SET @message = CONCAT(N'queue ''', @queue, N''' cannot be deleted: ', CASE @outcome
        WHEN 'worker' THEN N'a worker of it has a lease; stop its workers first'
        WHEN 'batch' THEN N'a batch that has not ended has its follow-up in it; wait for its end, or cancel it (list_batches with open = 1 shows it)'
        WHEN 'jobs' THEN N'it has jobs; with_jobs = 1 deletes them, too'
        ELSE N'a transaction that changes its jobs, or what else belongs to it, has not ended; run it again' END);
    THROW 58022, @message, 1;
END;
SELECT @jobs AS jobs, CAST(0 AS bit) AS is_gone;
GO

-- 450_peek.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Looks at jobs without claiming or waiting (READPAST): jobs that are locked at the moment are left out. Either a page of the jobs in one state,
-- or one job by its id, whatever its state.
-- @state: ready, scheduled, waiting, claimed, done, dead, cancelled, archived. Pages are as the index of the state has them: ready in the order of the claims
-- (those that must run alone, then by priority and id; in a lifo queue the newest first), scheduled by (due_at, job_id), waiting by (group_key, job_id), done, dead, cancelled and
-- archived by (finished_at, job_id), claimed by job_id. The next page begins after the last row of this one, which is named by its job_id (@after) and
-- what else the order needs. A page may be short; after the last job comes one with no row.
--
-- A page at any depth costs its rows: two seeks, first for the rest of the same time or priority, then for what follows. An OR of the two, or >= and
-- a filter, would read the same time's million jobs for each page again. Only the claimed jobs are sorted, by id: as many as the workers hold.
-- First the ids, from entries of the index alone; then a copy of the rows; then that is sent. So it never waits, and nobody waits until the client
-- has read.
-- @newest_first: the same pages backwards, for jobs that have ended: done, dead, cancelled, archived. A place serves both directions: with the other
-- one, the page has what lies before it. The other states have an order of their own, in which nothing is the newest.
-- @worker_id: of the claimed jobs those that this worker holds, by a seek.
--
-- @kind, @correlation_id, @error, @dedup_key, @group_key, @batch_id: only jobs of this kind, with this id, with this text in their error (compared as
-- the database's collation does; none: any error or no error), with this key, of this group, of this batch. @older_than_ms, @since, @until: only jobs
-- of this age, from this time on, before this time (UTC): those that have ended counted from their end, the others from when they were enqueued, as
-- purge counts. No index has these, but for the end of the jobs that have ended, because every job would pay for that: up to @scan jobs are read, in
-- the order of the state, and the page has those of them that match. So such a page costs @scan rows at the most, and may be empty although jobs that
-- match come later: the next one begins at @next. Where only times are asked for of jobs that have ended, a page costs its rows.
-- @next and what stands with it: where the next page begins, to be passed on as @after and so on. NULL: there is no further page.
--
-- Result: job_id, state, priority, alone, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, kind, dedup_key,
-- correlation_id, payload_utf16, payload, payload_text, error, output, output_text, time_limit_ms, headers, batch_id, group_key, payload_bytes, output_bytes. Later versions add columns at the end.
-- The texts are for reading in a tool: UTF-16 as it is, bytes if they are printable ASCII (tabs and line ends, too). NULL where they are not: UTF-8
-- beyond ASCII cannot be decoded before SQL Server 2019.
-- @max_bytes: payload and output are cut to so many bytes, and the texts are NULL; payload_bytes and output_bytes say how many they have. For lists:
-- of a thousand jobs, a look at each beginning costs no more than a page of each.
CREATE OR ALTER PROCEDURE [readpast].[peek]
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
DECLARE @queue_id int, @claim_order varchar(4), @found int = 0, @is_archived bit = 0, @message nvarchar(2048);
DECLARE @is_filtered bit = CASE WHEN @kind IS NULL AND @correlation_id IS NULL AND @error IS NULL AND @dedup_key IS NULL AND @group_key IS NULL
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
                                    WHEN @older_than_ms >= 63072000000000 THEN '00010101'  -- 2,000 years: older than any
                                    ELSE DATEADD(MILLISECOND, -CAST(@older_than_ms % 60000 AS int),
                                                 DATEADD(MINUTE, -CAST(@older_than_ms / 60000 AS int), SYSUTCDATETIME())) END;
IF @until <= @to
    SET @to = CASE WHEN @until > '00010101' THEN DATEADD(MILLISECOND, -1, @until) ELSE '00010101' END;
DECLARE @has_ended bit = CASE WHEN @state IN ('done', 'dead', 'cancelled', 'archived') THEN 1 ELSE 0 END;
DECLARE @taken int, @end int, @last int;
DECLARE @number tinyint = CASE @state WHEN 'ready' THEN 0 WHEN 'scheduled' THEN 1 WHEN 'claimed' THEN 2
                                      WHEN 'done' THEN 3 WHEN 'dead' THEN 4 WHEN 'cancelled' THEN 5 WHEN 'waiting' THEN 6 END;
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

SELECT @queue_id = queue_id, @claim_order = claim_order FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @job_id IS NULL AND (@state IS NULL OR @state NOT IN ('ready', 'scheduled', 'waiting', 'claimed', 'done', 'dead', 'cancelled', 'archived'))
BEGIN
    SET @message = CONCAT(N'state is ''', @state, N'''; it must be ready, scheduled, waiting, claimed, done, dead, cancelled or archived');
    THROW 58003, @message, 1;
END;
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
-- Jobs that have ended: the page begins where the times that are asked for do, if that is later. A seek goes to one bound on each side.
IF @has_ended = 1 AND @newest_first = 0 AND @after_time < @from
    SELECT @after_time = DATEADD(MILLISECOND, -1, @from), @after = 9223372036854775807;
IF @newest_first = 1 AND @after_time > @to
    SELECT @after_time = DATEADD(MILLISECOND, 1, @to), @after = 0;

IF @job_id IS NOT NULL
BEGIN
    INSERT @page (job_id)
    SELECT job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_pk))
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
        SELECT TOP (@take) job_id, priority, 1 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1 AND priority = @after_priority AND job_id > @after
        ORDER BY job_id
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take - @found) job_id, priority, 1 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
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
        SELECT TOP (@take - @found) job_id, priority, 0 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND priority = @after_priority AND job_id < @after
        ORDER BY job_id DESC
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take - @found) job_id, priority, 0 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND priority > @after_priority
        ORDER BY priority, job_id DESC
        OPTION (MAXDOP 1);
    END;
    ELSE
    BEGIN
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take - @found) job_id, priority, 0 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @after_priority AND job_id > @after
        ORDER BY job_id
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
        INSERT @page (job_id, priority, alone)
        SELECT TOP (@take - @found) job_id, priority, 0 FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority > @after_priority
        ORDER BY priority, job_id
        OPTION (MAXDOP 1);
    END;
END;
ELSE IF @state = 'scheduled'
BEGIN
    INSERT @page (job_id, key_time)
    SELECT TOP (@take) job_id, due_at FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND due_at = @after_time AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take - @found) job_id, due_at FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND due_at > @after_time
    ORDER BY due_at, job_id
    OPTION (MAXDOP 1);
END;
ELSE IF @state = 'claimed' AND @worker_id IS NOT NULL
    INSERT @page (job_id)
    SELECT TOP (@take) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_claimed))
    WHERE queue_id = @queue_id AND state = 2 AND worker_id = @worker_id AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
ELSE IF @state = 'claimed'
    INSERT @page (job_id)
    SELECT TOP (@take) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_claimed))
    WHERE queue_id = @queue_id AND state = 2 AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
ELSE IF @state = 'waiting'
BEGIN
    INSERT @page (job_id, group_key)
    SELECT TOP (@take) job_id, group_key FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
    WHERE queue_id = @queue_id AND state = 6 AND group_key = @after_group AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, group_key)
    SELECT TOP (@take - @found) job_id, group_key FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
    WHERE queue_id = @queue_id AND state = 6 AND group_key > @after_group
    ORDER BY group_key, job_id
    OPTION (MAXDOP 1);
END;
ELSE IF @number >= 3 AND @newest_first = 1
BEGIN
    -- ended = 1 is the index's filter, which a variable does not show.
    INSERT @page (job_id, key_time)
    SELECT TOP (@take) job_id, finished_at FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = @number AND ended = 1 AND finished_at = @after_time AND job_id < @after
    ORDER BY job_id DESC
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take - @found) job_id, finished_at FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = @number AND ended = 1 AND finished_at < @after_time AND finished_at >= @from
    ORDER BY finished_at DESC, job_id DESC
    OPTION (MAXDOP 1);
END;
ELSE IF @number >= 3
BEGIN
    INSERT @page (job_id, key_time)
    SELECT TOP (@take) job_id, finished_at FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = @number AND ended = 1 AND finished_at = @after_time AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take - @found) job_id, finished_at FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = @number AND ended = 1 AND finished_at > @after_time AND finished_at <= @to
    ORDER BY finished_at, job_id
    OPTION (MAXDOP 1);
END;
ELSE IF @newest_first = 1
BEGIN
    SET @is_archived = 1;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take) job_id, finished_at FROM [readpast].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND finished_at = @after_time AND job_id < @after
    ORDER BY job_id DESC
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take - @found) job_id, finished_at FROM [readpast].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND finished_at < @after_time AND finished_at >= @from
    ORDER BY finished_at DESC, job_id DESC
    OPTION (MAXDOP 1);
END;
ELSE
BEGIN
    SET @is_archived = 1;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take) job_id, finished_at FROM [readpast].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND finished_at = @after_time AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id, key_time)
    SELECT TOP (@take - @found) job_id, finished_at FROM [readpast].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND finished_at > @after_time AND finished_at <= @to
    ORDER BY finished_at, job_id
    OPTION (MAXDOP 1);
END;

-- Where the next page begins: after the last job that was read or, where the page is full before, after the last that matched.
SELECT @taken = COUNT(*), @end = MAX(place) FROM @page;
SET @last = @end;
IF @is_filtered = 1
BEGIN
    IF @is_archived = 1
        INSERT @matching (place)
        SELECT TOP (@max) p.place
        FROM @page AS p
        INNER LOOP JOIN [readpast].[archive] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id))) ON j.job_id = p.job_id
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
        INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = p.job_id
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
    SELECT @next = job_id, @next_time = key_time, @next_priority = priority, @next_alone = alone, @next_group = group_key FROM @page WHERE place = @last;
IF @is_filtered = 1
    DELETE p FROM @page AS p WHERE NOT EXISTS (SELECT 1 FROM @matching AS m WHERE m.place = p.place);

IF @only_ids = 1
BEGIN
    SELECT job_id FROM @page ORDER BY place;
    RETURN;
END;

-- A copy first: reading varbinary(max), SQL Server keeps the S locks of all rows until the statement ends, and that is when the client has read the
-- last of them. Claims and acknowledgements of these jobs would wait for it.
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
    INSERT @rows (place, job_id, state, priority, alone, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, kind,
                  dedup_key, correlation_id, payload_utf16, payload, error, output, time_limit_ms, headers, batch_id, group_key, payload_bytes,
                  output_bytes)
    SELECT p.place, j.job_id, 'archived', j.priority, 0, j.attempt, j.fence, j.enqueued_at, j.due_at, j.worker_id, j.claimed_at, j.finished_at,
           j.run_us, j.kind, j.dedup_key, j.correlation_id, j.payload_utf16,
           CASE WHEN @max_bytes IS NULL THEN j.payload ELSE SUBSTRING(j.payload, 1, @max_bytes) END, j.error,
           CASE WHEN @max_bytes IS NULL THEN j.output ELSE SUBSTRING(j.output, 1, @max_bytes) END,
           j.time_limit_ms, j.headers, j.batch_id, j.group_key, DATALENGTH(j.payload), DATALENGTH(j.output)
    FROM @page AS p
    INNER LOOP JOIN [readpast].[archive] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id))) ON j.job_id = p.job_id
    WHERE j.queue_id = @queue_id
    OPTION (MAXDOP 1);
ELSE
    INSERT @rows (place, job_id, state, priority, alone, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, kind,
                  dedup_key, correlation_id, payload_utf16, payload, error, output, time_limit_ms, headers, batch_id, group_key, payload_bytes,
                  output_bytes)
    SELECT p.place, j.job_id,
           CASE j.state WHEN 0 THEN 'ready' WHEN 1 THEN 'scheduled' WHEN 2 THEN 'claimed' WHEN 3 THEN 'done' WHEN 4 THEN 'dead'
                        WHEN 5 THEN 'cancelled' ELSE 'waiting' END,
           j.priority, j.alone, j.attempt, j.fence, j.enqueued_at, j.due_at, j.worker_id, j.claimed_at, j.finished_at, j.run_us, j.kind, j.dedup_key,
           j.correlation_id, j.payload_utf16,
           CASE WHEN @max_bytes IS NULL THEN j.payload ELSE SUBSTRING(j.payload, 1, @max_bytes) END, j.error,
           CASE WHEN @max_bytes IS NULL THEN j.output ELSE SUBSTRING(j.output, 1, @max_bytes) END,
           j.time_limit_ms, j.headers, j.batch_id, j.group_key, DATALENGTH(j.payload), DATALENGTH(j.output)
    FROM @page AS p
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = p.job_id
    WHERE j.queue_id = @queue_id
        AND (@job_id IS NOT NULL OR j.state = @number)
        AND (@worker_id IS NULL OR j.worker_id = @worker_id)
    OPTION (MAXDOP 1);

-- The bytes as text go by nvarchar: COLLATE on varchar converts between code pages, and letters may become others on the way. (What is no ASCII in
-- the database's code page is none in Unicode.)
SELECT r.job_id, r.state, r.priority, r.alone, r.attempt, r.fence, r.enqueued_at, r.due_at, r.worker_id, r.claimed_at, r.finished_at, r.run_us,
       r.kind, r.dedup_key, r.correlation_id, r.payload_utf16, r.payload,
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

-- 455_peek_attempts.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The failed attempts of one job that are kept, the oldest first; none where the queue does not have the job. Does not wait (READPAST): an attempt
-- that is being acknowledged is left out.
-- Result: attempt, fence, worker_id, worker (its name), failed_at, run_us (NULL: its worker was lost), error. Later versions add columns at the end.
CREATE OR ALTER PROCEDURE [readpast].[peek_attempts]
    @queue  nvarchar(129),
    @job_id bigint
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

SELECT attempt, fence, worker_id, worker, failed_at, run_us, error
FROM [readpast].[attempts] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (attempts_pk (job_id)))
WHERE job_id = @job_id AND queue_id = @queue_id
ORDER BY fence
OPTION (MAXDOP 1);
GO

-- 457_progress_of.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- How far jobs of a queue are, as they have noted it themselves. Reads without locks, so that it never holds up a worker.
-- Result: job_id, fraction, text, checkpoint_bytes, noted_ms (since it was noted). A job that has noted nothing is not in it.
CREATE OR ALTER PROCEDURE [readpast].[progress_of]
    @queue nvarchar(129),
    @jobs  [readpast].[id_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

SELECT p.job_id, p.fraction, p.text, ISNULL(DATALENGTH(p.[checkpoint]), 0) AS checkpoint_bytes,
       DATEDIFF_BIG(MILLISECOND, p.noted_at, SYSUTCDATETIME()) AS noted_ms
FROM @jobs AS k
INNER LOOP JOIN [readpast].[progress] AS p WITH (NOLOCK, FORCESEEK (progress_pk (job_id))) ON p.job_id = k.job_id
WHERE p.queue_id = @queue_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO

-- 458_find_job.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Which queue of the schema a job is in, or was in before it was archived. Reads without locks (NOLOCK). Result: queue (NULL: there is no such job).
CREATE OR ALTER PROCEDURE [readpast].[find_job]
    @job_id bigint
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int;

SELECT @queue_id = queue_id FROM [readpast].[jobs] WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) WHERE job_id = @job_id OPTION (MAXDOP 1);
IF @queue_id IS NULL
    SELECT @queue_id = queue_id FROM [readpast].[archive] WITH (NOLOCK, FORCESEEK (archive_pk (job_id))) WHERE job_id = @job_id OPTION (MAXDOP 1);

SELECT (SELECT q.name FROM [readpast].[queues] AS q WITH (NOLOCK) WHERE q.queue_id = @queue_id) AS queue;
GO

-- 459_list_errors.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The errors of the jobs of a queue that failed, for a program that puts together those that are alike.
-- @state: dead: of the newest @max of them, the newest first. scheduled: of the @max jobs that are due first, those that have an error: they wait for
-- another attempt, or were put off with a reason (a snooze).
-- It neither waits nor holds anybody up (READPAST): a seek, and a row for each job. Jobs that are locked at the moment are left out.
-- Result: job_id, kind, finished_at (when its last run ended), error (its first 400 characters). Later versions add columns at the end.
CREATE OR ALTER PROCEDURE [readpast].[list_errors]
    @queue nvarchar(129),
    @state varchar(32) = 'dead',
    @max   int         = 10000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WITH (NOLOCK) WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @state IS NULL OR @state NOT IN ('dead', 'scheduled')
BEGIN
    SET @message = CONCAT(N'state is ''', @state, N'''; it must be dead or scheduled');
    THROW 58003, @message, 1;
END;
IF @max IS NULL OR @max < 1 OR @max > 100000
    THROW 58003, N'max must be 1 to 100000', 1;

-- First the ids, from entries of the index alone (NOLOCK); then a copy of the rows, one lock at a time. The rows not by NOLOCK: a long error may
-- stand outside of its row, and where that goes meanwhile, NOLOCK ends in error 7105, which closes the connection.
DECLARE @page TABLE (place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED, job_id bigint NOT NULL);
DECLARE @rows TABLE
(
    place       int          NOT NULL PRIMARY KEY CLUSTERED,
    job_id      bigint       NOT NULL,
    kind        varchar(64)  COLLATE Latin1_General_100_BIN2 NULL,
    finished_at datetime2(3) NOT NULL,
    error       nvarchar(800) NULL
);
DECLARE @number tinyint = CASE WHEN @state = 'dead' THEN 4 ELSE 1 END;
IF @number = 4
    INSERT @page (job_id)
    SELECT TOP (@max) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_finished (queue_id, state)))
    WHERE j.queue_id = @queue_id AND j.state = 4 AND j.ended = 1
    ORDER BY j.finished_at DESC, j.job_id DESC
    OPTION (MAXDOP 1);
ELSE
    INSERT @page (job_id)
    SELECT TOP (@max) j.job_id FROM [readpast].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_scheduled (queue_id)))
    WHERE j.queue_id = @queue_id AND j.state = 1
    ORDER BY j.due_at, j.job_id
    OPTION (MAXDOP 1);
-- Most collations count a character beyond the first 65,536 as two: its first half (0xD800 to 0xDBFF, the second byte first) must not be the end.
INSERT @rows (place, job_id, kind, finished_at, error)
SELECT p.place, j.job_id, j.kind, ISNULL(j.finished_at, j.enqueued_at),
       SUBSTRING(j.error, 1, CASE WHEN SUBSTRING(CAST(j.error AS varbinary(8000)), 800, 1) BETWEEN 0xD8 AND 0xDB THEN 399 ELSE 400 END)
FROM @page AS p
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = p.job_id
WHERE j.state = @number AND j.queue_id = @queue_id AND (@number = 4 OR j.error IS NOT NULL)
OPTION (MAXDOP 1);

SELECT job_id, kind, finished_at, error FROM @rows ORDER BY place OPTION (MAXDOP 1);
GO

-- 460_schema_info.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- What a client needs to know before it starts: the installed version, what of the database or the session would make the other procedures
-- fail, and whether a queue exists. A client of version v works with this schema where min_compatible <= v <= version.
-- Result: version, min_compatible, database_name, read_only, read_committed_snapshot, wrong_set_options (empty when all is well),
-- queue_exists (NULL without @queue), roles (whose procedures the login may run, with spaces between them). Later versions add columns at the end.
CREATE OR ALTER PROCEDURE [readpast].[schema_info]
    @queue nvarchar(129) = NULL
AS
SET NOCOUNT ON;
DECLARE @version int, @min_compatible int;

SELECT TOP (1) @version = version, @min_compatible = min_compatible FROM [readpast].[schema_version] ORDER BY version DESC;

-- The session's own options; QUOTED_IDENTIFIER and ANSI_NULLS are those of the installation.
SELECT @version AS version,
       @min_compatible AS min_compatible,
       DB_NAME() AS database_name,
       CAST(CASE WHEN DATABASEPROPERTYEX(DB_NAME(), 'Updateability') = 'READ_ONLY' THEN 1 ELSE 0 END AS bit) AS read_only,
       (SELECT d.is_read_committed_snapshot_on FROM sys.databases AS d WHERE d.database_id = DB_ID()) AS read_committed_snapshot,
       CONCAT(CASE WHEN SESSIONPROPERTY('ANSI_PADDING') = 0 THEN 'ANSI_PADDING OFF ' END,
              CASE WHEN SESSIONPROPERTY('ANSI_WARNINGS') = 0 THEN 'ANSI_WARNINGS OFF ' END,
              CASE WHEN SESSIONPROPERTY('ARITHABORT') = 0 AND SESSIONPROPERTY('ANSI_WARNINGS') = 0 THEN 'ARITHABORT OFF ' END,
              CASE WHEN SESSIONPROPERTY('CONCAT_NULL_YIELDS_NULL') = 0 THEN 'CONCAT_NULL_YIELDS_NULL OFF ' END,
              CASE WHEN SESSIONPROPERTY('NUMERIC_ROUNDABORT') = 1 THEN 'NUMERIC_ROUNDABORT ON ' END) AS wrong_set_options,
       CAST(CASE WHEN @queue IS NULL THEN NULL
                 WHEN EXISTS (SELECT 1 FROM [readpast].[queues] AS q WHERE q.name = @queue) THEN 1
                 ELSE 0 END AS bit) AS queue_exists,
       -- By one procedure of each: what the roles may do, a login may have been granted without being a member.
       CONCAT(CASE WHEN HAS_PERMS_BY_NAME(N'[readpast].[enqueue]', N'OBJECT', N'EXECUTE') = 1 THEN N'producer ' END,
              CASE WHEN HAS_PERMS_BY_NAME(N'[readpast].[claim]', N'OBJECT', N'EXECUTE') = 1 THEN N'worker ' END,
              CASE WHEN HAS_PERMS_BY_NAME(N'[readpast].[purge]', N'OBJECT', N'EXECUTE') = 1 THEN N'operator ' END,
              CASE WHEN HAS_PERMS_BY_NAME(N'[readpast].[peek]', N'OBJECT', N'EXECUTE') = 1 THEN N'monitor ' END) AS roles;
GO

-- 470_set_schedule.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Sets a schedule: a new one, or all of an existing one but its pause. Where the expression and the time zone stay as they are, so does the next
-- time: a program may set its schedules whenever it starts.
--
-- T-SQL cannot read a cron expression. What stands in @cron and @time_zone is checked by the worker that has the duties, within about a second; where
-- it is wrong, schedules shows the error, nothing is fired, and the worker logs and counts it. (Queue::set_schedule checks before it calls this.)
-- @cron has five fields (minute, hour, day of month, month, day of week) or six (second first).
-- Result: created.
CREATE OR ALTER PROCEDURE [readpast].[set_schedule]
    @queue          nvarchar(129),
    @name           nvarchar(129),
    @cron           varchar(257),
    @time_zone      varchar(65)      = 'UTC',  -- a name of the IANA database, such as Europe/Berlin
    @payload        varbinary(max)   = NULL,   -- the job: as enqueue has it
    @text           nvarchar(max)    = NULL,
    @priority       smallint         = 0,
    @max_attempts   int              = NULL,
    @dedup_key      nvarchar(257)    = NULL,   -- NULL: each job has a key of its own, from the schedule's name and the time
    @correlation_id uniqueidentifier = NULL,
    @kind           varchar(65)      = NULL,
    @time_limit_ms  bigint           = NULL,
    @make_up        int              = 1,      -- of the times that were missed for more than a minute, the last so many are made up for; 0: none
    @jitter_ms      int              = 0,      -- each job starts up to so much later than its time, at random; up to a day
    @headers        nvarchar(1301)   = NULL,
    @group_key      nvarchar(129)    = NULL
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @delivery varchar(13), @created bit = 0, @message nvarchar(2048);

SELECT @queue_id = queue_id, @delivery = delivery FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @name IS NULL OR LEN(@name) = 0 OR DATALENGTH(@name) > 256 OR DATALENGTH(@name) <> DATALENGTH(LTRIM(RTRIM(@name)))
    THROW 58003, N'the name of a schedule must have 1 to 128 characters, without spaces at its ends', 1;
IF @cron IS NULL OR LEN(@cron) = 0 OR DATALENGTH(@cron) > 256
    THROW 58003, N'cron must have 1 to 256 characters', 1;
IF @time_zone IS NULL OR LEN(@time_zone) = 0 OR DATALENGTH(@time_zone) > 64
    THROW 58003, N'time_zone must have 1 to 64 characters', 1;
IF @make_up IS NULL OR @make_up < 0 OR @make_up > 1000
BEGIN
    SET @message = CONCAT(N'make_up is ', @make_up, N'; it must be 0 (times that were missed are passed over) to 1000');
    THROW 58003, @message, 1;
END;
IF @jitter_ms IS NULL OR @jitter_ms < 0 OR @jitter_ms > 86400000
BEGIN
    SET @message = CONCAT(N'jitter_ms is ', @jitter_ms, N'; it must be 0 to 86400000 (a day)');
    THROW 58003, @message, 1;
END;
-- As enqueue has it: what it refuses must not be found out at the schedule's first time.
IF (@payload IS NULL AND @text IS NULL) OR (@payload IS NOT NULL AND @text IS NOT NULL)
    THROW 58003, N'a job needs either a payload or a text', 1;
IF @max_attempts < 1
    THROW 58003, N'max_attempts must be 1 or more', 1;
IF DATALENGTH(@dedup_key) = 0 OR DATALENGTH(@dedup_key) > 512 OR DATALENGTH(@dedup_key) <> DATALENGTH(LTRIM(RTRIM(@dedup_key)))
    THROW 58003, N'dedup_key must have 1 to 256 characters, without spaces at its ends', 1;
IF DATALENGTH(@kind) = 0 OR DATALENGTH(@kind) > 64 OR @kind COLLATE Latin1_General_100_BIN2 LIKE '%[^!-~]%'
    THROW 58003, N'kind must have 1 to 64 printable ASCII characters, no spaces', 1;
IF @time_limit_ms < 1 OR @time_limit_ms > 2147483647
BEGIN
    SET @message = CONCAT(N'time_limit_ms is ', @time_limit_ms, N'; it must be 1 to 2147483647 (24 days)');
    THROW 58003, @message, 1;
END;
IF @headers IS NOT NULL
    EXEC [readpast].[check_headers] @headers;
IF DATALENGTH(@group_key) = 0 OR DATALENGTH(@group_key) > 256 OR DATALENGTH(@group_key) <> DATALENGTH(LTRIM(RTRIM(@group_key)))
    THROW 58003, N'group_key must have 1 to 128 characters, without spaces at its ends', 1;
IF @group_key IS NOT NULL AND @delivery = 'at_most_once'
    THROW 58003, N'a queue with delivery at_most_once has no groups: its jobs are not acknowledged', 1;

BEGIN TRANSACTION;
-- HOLDLOCK: two sessions that set the same new schedule meet here, not at a duplicate key.
IF NOT EXISTS (SELECT 1 FROM [readpast].[schedules] WITH (ROWLOCK, UPDLOCK, HOLDLOCK) WHERE queue_id = @queue_id AND name = @name)
BEGIN
    INSERT [readpast].[schedules]
        (queue_id, name, cron, time_zone, make_up, jitter_ms, priority, max_attempts, time_limit_ms, kind, dedup_key, correlation_id, headers, group_key,
         payload_utf16, payload, next_at, look_at)
    VALUES
        (@queue_id, @name, @cron, @time_zone, @make_up, @jitter_ms, ISNULL(@priority, 0), @max_attempts, @time_limit_ms, @kind, @dedup_key,
         @correlation_id, @headers, @group_key, CASE WHEN @text IS NULL THEN 0 ELSE 1 END, ISNULL(@payload, CAST(@text AS varbinary(max))), @now, @now);
    SET @created = 1;
END;
ELSE
    UPDATE [readpast].[schedules] WITH (ROWLOCK)
    SET next_at = CASE WHEN cron = @cron AND time_zone = @time_zone THEN next_at ELSE @now END, look_at = @now,
        cron = @cron, time_zone = @time_zone, make_up = @make_up, jitter_ms = @jitter_ms, priority = ISNULL(@priority, 0),
        max_attempts = @max_attempts, time_limit_ms = @time_limit_ms, kind = @kind, dedup_key = @dedup_key, correlation_id = @correlation_id,
        headers = @headers, group_key = @group_key,
        payload_utf16 = CASE WHEN @text IS NULL THEN 0 ELSE 1 END, payload = ISNULL(@payload, CAST(@text AS varbinary(max))),
        revision = revision + 1
    WHERE queue_id = @queue_id AND name = @name;
-- The queue may have been deleted since it was looked for, see enqueue.
IF NOT EXISTS (SELECT 1 FROM [readpast].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id))) WHERE queue_id = @queue_id)
    SET @queue_id = (SELECT queue_id FROM [readpast].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id)))
                     WHERE queue_id = @queue_id);
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N''' any more; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
COMMIT TRANSACTION;

SELECT @created AS created;
GO

-- 472_delete_schedule.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Deletes a schedule. Jobs that it has enqueued stay. Result: deleted (0: there is no such schedule).
CREATE OR ALTER PROCEDURE [readpast].[delete_schedule]
    @queue nvarchar(129),
    @name  nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

DELETE [readpast].[schedules] WITH (ROWLOCK) WHERE queue_id = @queue_id AND name = @name;

SELECT CAST(@@ROWCOUNT AS bit) AS deleted;
GO

-- 474_pause_schedule.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Stops a schedule: its times pass by, until it is resumed. Jobs that it has enqueued stay.
CREATE OR ALTER PROCEDURE [readpast].[pause_schedule]
    @queue nvarchar(129),
    @name  nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

UPDATE [readpast].[schedules] WITH (ROWLOCK)
SET paused = 1, revision = revision + 1
WHERE queue_id = @queue_id AND name = @name;
IF @@ROWCOUNT = 0
BEGIN
    SET @message = CONCAT(N'there is no schedule ''', @name, N''' in queue ''', @queue, N'''; set it with [readpast].[set_schedule]');
    THROW 58003, @message, 1;
END;
GO

-- 476_resume_schedule.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Lets a paused schedule go on with its next time from now on. What has passed meanwhile is not made up for. One that is not paused stays as it is.
CREATE OR ALTER PROCEDURE [readpast].[resume_schedule]
    @queue nvarchar(129),
    @name  nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

UPDATE [readpast].[schedules] WITH (ROWLOCK)
SET next_at  = CASE WHEN paused = 1 THEN @now ELSE next_at END,
    look_at  = CASE WHEN paused = 1 THEN @now ELSE look_at END,
    revision = revision + 1,
    paused   = 0
WHERE queue_id = @queue_id AND name = @name;
IF @@ROWCOUNT = 0
BEGIN
    SET @message = CONCAT(N'there is no schedule ''', @name, N''' in queue ''', @queue, N'''; set it with [readpast].[set_schedule]');
    THROW 58003, @message, 1;
END;
GO

-- 478_run_schedule_now.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Enqueues the job of a schedule now, beside its times, which stay as they are; of a paused one, too.
-- Result: job_id, duplicate (1: an unfinished job has the same key, and none was added).
CREATE OR ALTER PROCEDURE [readpast].[run_schedule_now]
    @queue nvarchar(129),
    @name  nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @payload varbinary(max), @text nvarchar(max), @priority smallint, @max_attempts int,
    @time_limit_ms int, @kind varchar(64), @dedup_key nvarchar(256), @correlation_id uniqueidentifier, @headers nvarchar(1300), @group_key nvarchar(128), @job_id bigint, @duplicate bit,
    @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

SELECT @payload = CASE WHEN payload_utf16 = 0 THEN payload END, @text = CASE WHEN payload_utf16 = 1 THEN CAST(payload AS nvarchar(max)) END,
    @priority = priority, @max_attempts = max_attempts, @time_limit_ms = time_limit_ms, @kind = kind, @correlation_id = correlation_id,
    @headers = headers, @group_key = group_key,
    @dedup_key = ISNULL(dedup_key, CONCAT(name, N'@', CONVERT(varchar(23), @now, 126), N'Z'))
FROM [readpast].[schedules]
WHERE queue_id = @queue_id AND name = @name;
IF @@ROWCOUNT = 0
BEGIN
    SET @message = CONCAT(N'there is no schedule ''', @name, N''' in queue ''', @queue, N'''; set it with [readpast].[set_schedule]');
    THROW 58003, @message, 1;
END;

EXEC [readpast].[enqueue] @queue = @queue, @payload = @payload, @text = @text, @priority = @priority, @max_attempts = @max_attempts,
    @dedup_key = @dedup_key, @correlation_id = @correlation_id, @kind = @kind, @time_limit_ms = @time_limit_ms, @headers = @headers, @group_key = @group_key,
    @job_id = @job_id OUTPUT, @duplicate = @duplicate OUTPUT;

SELECT @job_id AS job_id, @duplicate AS duplicate;
GO

-- 480_list_schedules.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Shows the schedules of a queue, by name. Reads without locks.
-- Result: name, cron, time_zone, make_up, jitter_ms, priority, max_attempts, time_limit_ms, kind, dedup_key, correlation_id, payload_utf16, payload,
-- paused, next_at, last_at, error, headers, group_key. (next_at: for about a second after it was set or resumed, when that was.)
CREATE OR ALTER PROCEDURE [readpast].[list_schedules]
    @queue nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

SELECT s.name, s.cron, s.time_zone, s.make_up, s.jitter_ms, s.priority, s.max_attempts, s.time_limit_ms, s.kind, s.dedup_key, s.correlation_id,
       s.payload_utf16, s.payload, s.paused, s.next_at, s.last_at, s.error, s.headers, s.group_key
FROM [readpast].[schedules] AS s WITH (NOLOCK)
WHERE s.queue_id = @queue_id
ORDER BY s.name;
GO

-- 490_create_batch.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Creates a batch: jobs that belong together, in any queues, to be enqueued with its number (@batch_id of enqueue; batch_id in enqueue_batch's @details).
-- When it is sealed (seal_batch) and all of its jobs have ended, its follow-up is enqueued, once, with the header readpast-batch that has the counts.
-- Takes part in the caller's transaction. No result set: the number comes back in @batch_id.
--
-- Batches nest: the follow-up of this one can belong to another, @parent_id, which then does not end before. The parent must be there already, so that
-- there are no circles.
-- A call that is repeated because its answer was lost makes a second batch. One without a parent does no harm; one with a parent keeps that from
-- ending until it is sealed or cancelled, too.
CREATE OR ALTER PROCEDURE [readpast].[create_batch]
    @queue          nvarchar(129),            -- of the follow-up
    @name           nvarchar(129)    = NULL,  -- for people: up to 128 characters
    @payload        varbinary(max)   = NULL,  -- the follow-up: as enqueue has it; neither a payload nor a text: there is none
    @text           nvarchar(max)    = NULL,
    @priority       smallint         = 0,
    @max_attempts   int              = NULL,
    @correlation_id uniqueidentifier = NULL,
    @kind           varchar(65)      = NULL,
    @time_limit_ms  bigint           = NULL,
    @headers        nvarchar(1301)   = NULL,
    @parent_id      bigint           = NULL,
    @batch_id       bigint           = NULL OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @delivery varchar(13), @message nvarchar(2048);

SELECT @queue_id = queue_id, @delivery = delivery FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF DATALENGTH(@name) > 256
    THROW 58003, N'name must have up to 128 characters', 1;
IF @payload IS NOT NULL AND @text IS NOT NULL
    THROW 58003, N'a follow-up has either a payload or a text', 1;
-- As enqueue has it: what it refuses must not be found out when the batch ends.
IF @max_attempts < 1
    THROW 58003, N'max_attempts must be 1 or more', 1;
IF DATALENGTH(@kind) = 0 OR DATALENGTH(@kind) > 64 OR @kind COLLATE Latin1_General_100_BIN2 LIKE '%[^!-~]%'
    THROW 58003, N'kind must have 1 to 64 printable ASCII characters, no spaces', 1;
IF @time_limit_ms < 1 OR @time_limit_ms > 2147483647
BEGIN
    SET @message = CONCAT(N'time_limit_ms is ', @time_limit_ms, N'; it must be 1 to 2147483647 (24 days)');
    THROW 58003, @message, 1;
END;
IF @headers IS NOT NULL
    EXEC [readpast].[check_headers] @headers;
IF @parent_id IS NOT NULL AND @payload IS NULL AND @text IS NULL
    THROW 58003, N'a batch belongs to another by its follow-up: with parent_id it needs a payload or a text', 1;
IF @parent_id IS NOT NULL AND @delivery = 'at_most_once'
    THROW 58003, N'a queue with delivery at_most_once has no jobs of batches: its jobs are not acknowledged', 1;

BEGIN TRANSACTION;
EXEC [readpast].[lock_batch] @parent_id;
INSERT [readpast].[batches] WITH (ROWLOCK)
    (queue_id, name, parent_id, created_at, priority, max_attempts, time_limit_ms, kind, correlation_id, headers, payload_utf16, payload)
VALUES
    (@queue_id, @name, @parent_id, @now, ISNULL(@priority, 0), @max_attempts, @time_limit_ms, @kind, @correlation_id, @headers,
     CASE WHEN @text IS NULL THEN 0 ELSE 1 END, ISNULL(@payload, CAST(@text AS varbinary(max))));
SET @batch_id = CAST(SCOPE_IDENTITY() AS bigint);
INSERT [readpast].[batch_counts] WITH (ROWLOCK) (batch_id, queue_id) VALUES (@batch_id, @queue_id);
-- The queue may have been deleted since it was looked for, see enqueue.
IF NOT EXISTS (SELECT 1 FROM [readpast].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id))) WHERE queue_id = @queue_id)
    SET @queue_id = (SELECT queue_id FROM [readpast].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id)))
                     WHERE queue_id = @queue_id);
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N''' any more; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @parent_id IS NOT NULL
BEGIN
    INSERT [readpast].[batch_additions] WITH (ROWLOCK) (batch_id, jobs) VALUES (@parent_id, 1);
    EXEC [readpast].[link_queue] @queue_id;
END;
COMMIT TRANSACTION;
GO

-- 492_seal_batch.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Seals a batch: no job can be added any more, and it ends when all that it has have ended, at once where they have. Waits for the transactions in which
-- jobs are being added. Takes part in the caller's transaction. Sealing it twice has no further effect.
-- Result: members, ended.
CREATE OR ALTER PROCEDURE [readpast].[seal_batch]
    @batch_id bigint,
    @report   bit = 1
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @members bigint, @is_complete bit = 0, @message nvarchar(2048);

BEGIN TRANSACTION;
UPDATE [readpast].[batches] WITH (ROWLOCK)
SET sealed_at = SYSUTCDATETIME()
WHERE batch_id = @batch_id AND sealed_at IS NULL
OPTION (MAXDOP 1);
IF @@ROWCOUNT > 0
BEGIN
    -- All of them are committed now, or this transaction's own.
    SET @members = (SELECT ISNULL(SUM(CAST(a.jobs AS bigint)), 0)
                    FROM [readpast].[batch_additions] AS a WITH (ROWLOCK, READCOMMITTEDLOCK)
                    WHERE a.batch_id = @batch_id);
    DELETE [readpast].[batch_additions] WITH (ROWLOCK) WHERE batch_id = @batch_id;
    UPDATE [readpast].[batch_counts] WITH (ROWLOCK)
    SET members = @members, @is_complete = CASE WHEN done + dead + cancelled >= @members THEN 1 ELSE 0 END
    WHERE batch_id = @batch_id;
    IF @is_complete = 1
        EXEC [readpast].[end_batch] @batch_id;
END;
ELSE IF NOT EXISTS (SELECT 1 FROM [readpast].[batches] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE batch_id = @batch_id)
BEGIN
    SET @message = CONCAT(N'there is no batch ', @batch_id, N'; create one with [readpast].[create_batch] (a week after its end, a batch is forgotten)');
    THROW 58021, @message, 1;
END;
COMMIT TRANSACTION;

IF @report = 1
    SELECT c.members, CAST(CASE WHEN c.ended_at IS NULL THEN 0 ELSE 1 END AS bit) AS ended
    FROM [readpast].[batch_counts] AS c WITH (ROWLOCK, READCOMMITTEDLOCK)
    WHERE c.batch_id = @batch_id;
GO

-- 494_cancel_batch.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Cancels a batch: seals it and cancels up to @max of its unfinished jobs, as cancel does, whatever their queues; then those of the batches whose
-- follow-ups belong to it. When all of them have ended, the follow-up is enqueued all the same, and its counts say what happened; so is that of a batch
-- below it whose last job was running. Run it until it returns nothing, outside of a transaction: it would lock counts before jobs.
-- Reads without locks (NOLOCK) which jobs there are, because one that is just being claimed must not escape; cancel waits for it.
-- Results, one for each queue: as cancel.
CREATE OR ALTER PROCEDURE [readpast].[cancel_batch]
    @batch_id bigint,
    @why      nvarchar(1001) = NULL,
    @max      int            = 1000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @next bigint, @queue_id int, @queue nvarchar(128);
DECLARE @batches TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED, is_seen bit NOT NULL);
DECLARE @jobs TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, queue_id int NOT NULL);
DECLARE @list [readpast].[id_list];

IF @max IS NULL OR @max < 1 OR @max > 1000
    THROW 58003, N'max must be 1 to 1000', 1;

INSERT @batches (batch_id, is_seen) VALUES (@batch_id, 0);
-- All of them first: one that has no jobs ends when it is sealed, and its follow-up is a job of another.
WHILE 1 = 1
BEGIN
    SET @next = (SELECT MIN(batch_id) FROM @batches WHERE is_seen = 0);
    IF @next IS NULL
        BREAK;
    UPDATE @batches SET is_seen = 1 WHERE batch_id = @next;
    EXEC [readpast].[seal_batch] @batch_id = @next, @report = 0;
    INSERT @batches (batch_id, is_seen)
    SELECT b.batch_id, 0
    FROM [readpast].[batches] AS b WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (batches_parent))
    WHERE b.parent_id = @next AND b.parent_id IS NOT NULL
    OPTION (MAXDOP 1);
END;

INSERT @jobs (job_id, queue_id)
SELECT TOP (@max) j.job_id, j.queue_id
FROM @batches AS b
INNER LOOP JOIN [readpast].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_batch (batch_id))) ON j.batch_id = b.batch_id
WHERE j.batch_id IS NOT NULL AND j.ended = 0 AND j.cancelling IS NULL
OPTION (MAXDOP 1);

WHILE EXISTS (SELECT 1 FROM @jobs)
BEGIN
    SET @queue_id = (SELECT MIN(queue_id) FROM @jobs);
    SET @queue = (SELECT name FROM [readpast].[queues] WHERE queue_id = @queue_id);
    DELETE @list;
    INSERT @list (job_id) SELECT job_id FROM @jobs WHERE queue_id = @queue_id;
    EXEC [readpast].[cancel] @queue = @queue, @why = @why, @jobs = @list;
    DELETE @jobs WHERE queue_id = @queue_id;
END;
GO

-- 496_list_batches.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Batches: one by its number, or a page of those whose follow-ups belong to a queue, the newest first; the next page begins below the last number of
-- this one (@before). A few seeks for each; reads without locks (NOLOCK).
-- Result: batch_id, name, parent_id, queue (of the follow-up), created_at, sealed_at, ended_at, members, done, dead, cancelled, follow_up_id
-- (NULL: it is not enqueued yet, or there is none).
CREATE OR ALTER PROCEDURE [readpast].[list_batches]
    @batch_id bigint        = NULL,
    @queue    nvarchar(129) = NULL,
    @open     bit           = 0,     -- 1: only those that have not ended
    @before   bigint        = NULL,
    @max      int           = 100
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int, @message nvarchar(2048);
DECLARE @page TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED);

IF @batch_id IS NULL
BEGIN
    SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
    IF @queue_id IS NULL
    BEGIN
        SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
        THROW 58001, @message, 1;
    END;
END;
IF @max IS NULL OR @max < 0 OR @max > 1000
    THROW 58003, N'max must be 0 to 1000', 1;
SET @before = ISNULL(@before, 9223372036854775807);

IF @batch_id IS NOT NULL
    INSERT @page (batch_id) VALUES (@batch_id);
ELSE IF @open = 1
    INSERT @page (batch_id)
    SELECT TOP (@max) c.batch_id
    FROM [readpast].[batch_counts] AS c WITH (NOLOCK, INDEX (batch_counts_ended))
    WHERE c.queue_id = @queue_id AND c.ended_at IS NULL AND c.batch_id < @before
    ORDER BY c.batch_id DESC
    OPTION (MAXDOP 1);
ELSE
    INSERT @page (batch_id)
    SELECT TOP (@max) c.batch_id
    FROM [readpast].[batch_counts] AS c WITH (NOLOCK, INDEX (batch_counts_queue))
    WHERE c.queue_id = @queue_id AND c.batch_id < @before
    ORDER BY c.batch_id DESC
    OPTION (MAXDOP 1);

SELECT b.batch_id, b.name, b.parent_id, q.name AS queue, b.created_at, b.sealed_at, c.ended_at,
       COALESCE(c.members, (SELECT SUM(CAST(a.jobs AS bigint)) FROM [readpast].[batch_additions] AS a WITH (NOLOCK) WHERE a.batch_id = b.batch_id), 0)
           AS members,
       c.done, c.dead, c.cancelled, c.follow_up_id
FROM @page AS p
INNER LOOP JOIN [readpast].[batches] AS b WITH (NOLOCK, FORCESEEK (batches_pk (batch_id))) ON b.batch_id = p.batch_id
INNER LOOP JOIN [readpast].[batch_counts] AS c WITH (NOLOCK, FORCESEEK (batch_counts_pk (batch_id))) ON c.batch_id = p.batch_id
INNER JOIN [readpast].[queues] AS q ON q.queue_id = b.queue_id
ORDER BY p.batch_id DESC
OPTION (MAXDOP 1);
GO

-- 500_begin_audit.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Notes that somebody is about to do something to a queue or its jobs, for those who ask later who it was. The program that does it says so before, and
-- how it ended after (end_audit). It belongs outside of the transaction of what is done, which would take the note back with itself.
-- Deletes a few notes of more than 400 days, the oldest first, and skips those that are locked: so many that they cannot pile up.
-- No result set: the number of the note comes back in @audit_id.
CREATE OR ALTER PROCEDURE [readpast].[begin_audit]
    @who      nvarchar(257),          -- the person as the program knows them: 1 to 256 characters. The login is noted beside
    @action   varchar(33),            -- what is done, as a word: 1 to 32 printable ASCII characters, no spaces
    @queue    nvarchar(129) = NULL,   -- by its name; it need not exist (any more)
    @what     nvarchar(max) = NULL,   -- JSON, up to 100,000 characters: the filter, or the jobs, or other settings
    @audit_id bigint        = NULL OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();

IF @who IS NULL OR DATALENGTH(@who) = 0 OR DATALENGTH(@who) > 512
    THROW 58003, N'who must have 1 to 256 characters', 1;
IF @action IS NULL OR DATALENGTH(@action) = 0 OR DATALENGTH(@action) > 32 OR @action COLLATE Latin1_General_100_BIN2 LIKE '%[^!-~]%'
    THROW 58003, N'action must have 1 to 32 printable ASCII characters, no spaces', 1;
IF DATALENGTH(@queue) > 256
    THROW 58003, N'queue must have up to 128 characters', 1;
IF DATALENGTH(@what) > 200000
    THROW 58003, N'what must have up to 100000 characters', 1;
IF ISJSON(@what) = 0
    THROW 58003, N'what must be a JSON object or array', 1;

-- (In Azure SQL Database ORIGINAL_LOGIN is NULL.)
INSERT [readpast].[audit] WITH (ROWLOCK) (began_at, who, login, action, queue, what)
VALUES (@now, @who, ISNULL(ORIGINAL_LOGIN(), USER_NAME()), @action, @queue, @what);
SET @audit_id = CAST(SCOPE_IDENTITY() AS bigint);

IF (SELECT TOP (1) began_at FROM [readpast].[audit] WITH (NOLOCK) ORDER BY audit_id) < DATEADD(DAY, -400, @now)
BEGIN
    WITH oldest AS
    (
        SELECT TOP (100) began_at FROM [readpast].[audit] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (audit_pk))
        ORDER BY audit_id
    )
    DELETE FROM oldest WHERE began_at < DATEADD(DAY, -400, @now)
    OPTION (MAXDOP 1);
END;
GO

-- 502_end_audit.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Notes how an action has ended that begin_audit has noted. Of several calls the first counts. Another login's note cannot be completed.
-- No result set.
CREATE OR ALTER PROCEDURE [readpast].[end_audit]
    @audit_id bigint,
    @jobs     bigint        = NULL,  -- how many were changed, where that makes sense
    @outcome  nvarchar(401) = NULL   -- up to 400 characters; for example the error; what is longer is cut. NULL: it went well, and there is no more to say
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @login nvarchar(128) = ISNULL(ORIGINAL_LOGIN(), USER_NAME()), @message nvarchar(2048);

IF @jobs < 0
    THROW 58003, N'jobs must be 0 or more', 1;
-- Half of a character beyond the first 65,536 (0xD800 to 0xDBFF, the second byte first) must not be the end.
IF DATALENGTH(@outcome) > 800
    SET @outcome = CAST(SUBSTRING(CAST(@outcome AS varbinary(802)), 1,
                                  CASE WHEN SUBSTRING(CAST(@outcome AS varbinary(802)), 800, 1) BETWEEN 0xD8 AND 0xDB THEN 798 ELSE 800 END)
                        AS nvarchar(400));
UPDATE a
SET ended_at = SYSUTCDATETIME(), jobs = @jobs, outcome = @outcome
FROM [readpast].[audit] AS a WITH (ROWLOCK, INDEX (audit_pk))
WHERE audit_id = @audit_id AND login = @login AND ended_at IS NULL;
IF @@ROWCOUNT = 0
    AND NOT EXISTS (SELECT 1 FROM [readpast].[audit] WITH (FORCESEEK (audit_pk (audit_id))) WHERE audit_id = @audit_id AND login = @login)
BEGIN
    SET @message = CONCAT(N'this login has begun no action that is noted as ', @audit_id);
    THROW 58003, @message, 1;
END;
GO

-- 504_list_audit.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- What people have done, the newest first: of one queue, by its name, which need not exist any more, or, with NULL, of all and of none. The next page
-- begins below the last number of this one (@before). A seek; reads without locks (NOLOCK).
-- Result: audit_id, began_at, ended_at (NULL: it was broken off, or is under way), who, login, action, queue, what (JSON), jobs, outcome. Later versions
-- add columns at the end.
CREATE OR ALTER PROCEDURE [readpast].[list_audit]
    @queue  nvarchar(129) = NULL,
    @before bigint        = NULL,
    @max    int           = 100
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;

IF @max IS NULL OR @max < 0 OR @max > 1000
    THROW 58003, N'max must be 0 to 1000', 1;
SET @before = ISNULL(@before, 9223372036854775807);
IF @queue IS NULL
    SELECT TOP (@max) audit_id, began_at, ended_at, who, login, action, queue, what, jobs, outcome
    FROM [readpast].[audit] WITH (NOLOCK, FORCESEEK (audit_pk (audit_id)))
    WHERE audit_id < @before
    ORDER BY audit_id DESC
    OPTION (MAXDOP 1);
ELSE
    SELECT TOP (@max) audit_id, began_at, ended_at, who, login, action, queue, what, jobs, outcome
    FROM [readpast].[audit] WITH (NOLOCK, FORCESEEK (audit_queue (queue, audit_id)))
    WHERE queue = @queue AND audit_id < @before
    ORDER BY audit_id DESC
    OPTION (MAXDOP 1);
GO

-- 900_roles.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The roles. Each may run the procedures that are named here, pass the table types that they take, and do nothing else; procedures that are named
-- nowhere (check_headers, next_priority, lower_marks, note_attempts, sweep, look, call_sink, tend, claim_limited, link_queue, lock_batch,
-- end_batch, note_ends, note_requeued, lock_groups, advance_groups, delete_empty_queue, note_history, thin_history) are called by the others only. Nobody may touch a table:
-- procedures and tables have one owner, so that SQL Server asks only whether the caller may run the procedure (ownership chaining).
--
-- README.md has the same as a table, "Who may do what". What a later version takes away it must REVOKE.
IF DATABASE_PRINCIPAL_ID(N'readpast_producer') IS NULL
    CREATE ROLE [readpast_producer] AUTHORIZATION dbo;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
IF DATABASE_PRINCIPAL_ID(N'readpast_worker') IS NULL
    CREATE ROLE [readpast_worker] AUTHORIZATION dbo;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
IF DATABASE_PRINCIPAL_ID(N'readpast_operator') IS NULL
    CREATE ROLE [readpast_operator] AUTHORIZATION dbo;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
IF DATABASE_PRINCIPAL_ID(N'readpast_monitor') IS NULL
    CREATE ROLE [readpast_monitor] AUTHORIZATION dbo;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Adds jobs, and waits for them.
GRANT EXECUTE ON OBJECT::[readpast].[enqueue] TO [readpast_producer];
GRANT EXECUTE ON OBJECT::[readpast].[enqueue_batch] TO [readpast_producer];
GRANT EXECUTE ON OBJECT::[readpast].[outcomes] TO [readpast_producer];
GRANT EXECUTE ON OBJECT::[readpast].[create_batch] TO [readpast_producer];
GRANT EXECUTE ON OBJECT::[readpast].[seal_batch] TO [readpast_producer];
GRANT EXECUTE ON OBJECT::[readpast].[list_batches] TO [readpast_producer];
GRANT EXECUTE ON OBJECT::[readpast].[find_job] TO [readpast_producer];
GRANT EXECUTE ON OBJECT::[readpast].[schema_info] TO [readpast_producer];
GRANT EXECUTE ON TYPE::[readpast].[enqueue_list] TO [readpast_producer];
GRANT EXECUTE ON TYPE::[readpast].[detail_list] TO [readpast_producer];
GRANT EXECUTE ON TYPE::[readpast].[id_list] TO [readpast_producer];
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Runs jobs.
GRANT EXECUTE ON OBJECT::[readpast].[claim] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[await_jobs] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[finish] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[finish_with] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[finish_one] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[release] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[recover] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[reap] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[register_worker] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[heartbeat] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[unregister_worker] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[note_progress] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[checkpoints] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[promote] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[sample] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[unfinished] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[expire] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[due_schedules] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[fire_schedule] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[fail_schedule] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[stats] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[schema_info] TO [readpast_worker];
GRANT EXECUTE ON TYPE::[readpast].[finish_list] TO [readpast_worker];
GRANT EXECUTE ON TYPE::[readpast].[follow_up_list] TO [readpast_worker];
GRANT EXECUTE ON TYPE::[readpast].[job_list] TO [readpast_worker];
GRANT EXECUTE ON TYPE::[readpast].[attempt_list] TO [readpast_worker];
GRANT EXECUTE ON TYPE::[readpast].[member_list] TO [readpast_worker];
GRANT EXECUTE ON TYPE::[readpast].[progress_list] TO [readpast_worker];
-- What finish_with and call_sink declare.
GRANT EXECUTE ON TYPE::[readpast].[enqueue_list] TO [readpast_worker];
GRANT EXECUTE ON TYPE::[readpast].[detail_list] TO [readpast_worker];
GRANT EXECUTE ON TYPE::[readpast].[sink_list] TO [readpast_worker];
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Sees everything, mends and throws away, makes queues, and adds jobs.
GRANT EXECUTE ON OBJECT::[readpast].[create_queue] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[enqueue] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[enqueue_batch] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[delete_queue] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[stats] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[list_workers] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[list_errors] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[begin_audit] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[end_audit] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[list_audit] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[list_history] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[backlog] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[sample] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[unfinished] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[pause] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[resume] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[requeue] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[cancel] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[promote_now] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[set_priority] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[outcomes] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[purge] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[create_batch] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[seal_batch] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[cancel_batch] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[list_batches] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[peek] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[progress_of] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[find_job] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[set_schedule] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[delete_schedule] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[pause_schedule] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[resume_schedule] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[run_schedule_now] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[list_schedules] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[peek_attempts] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[schema_info] TO [readpast_operator];
GRANT EXECUTE ON TYPE::[readpast].[enqueue_list] TO [readpast_operator];
GRANT EXECUTE ON TYPE::[readpast].[id_list] TO [readpast_operator];
GRANT EXECUTE ON TYPE::[readpast].[detail_list] TO [readpast_operator];
-- What cancel, purge and requeue declare.
GRANT EXECUTE ON TYPE::[readpast].[member_list] TO [readpast_operator];
-- create_queue looks for it, and the catalog shows nobody what they may not use.
GRANT EXECUTE ON TYPE::[readpast].[sink_list] TO [readpast_operator];
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Sees everything and changes nothing.
GRANT EXECUTE ON OBJECT::[readpast].[stats] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[list_workers] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[list_errors] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[list_audit] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[list_history] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[backlog] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[sample] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[unfinished] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[peek] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[progress_of] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[find_job] TO [readpast_monitor];
GRANT EXECUTE ON TYPE::[readpast].[id_list] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[list_schedules] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[peek_attempts] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[list_batches] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[schema_info] TO [readpast_monitor];
GO

-- 990_end.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- End of the installation: from here on the schema counts as version 2.
IF NOT EXISTS (SELECT 1 FROM [readpast].[schema_version] WHERE version = 2)
    INSERT [readpast].[schema_version] (version, min_compatible) VALUES (2, 1);
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
SET LOCK_TIMEOUT -1;
EXEC sys.sp_releaseapplock @Resource = N'readpast.install', @LockOwner = N'Session';
GO
SET NOEXEC OFF;
GO
SET LOCK_TIMEOUT -1;
IF APPLOCK_MODE(N'public', N'readpast.install', N'Session') <> N'NoLock'
    EXEC sys.sp_releaseapplock @Resource = N'readpast.install', @LockOwner = N'Session';
GO
