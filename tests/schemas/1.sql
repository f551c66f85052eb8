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
IF @installed > 1
BEGIN
    EXEC sys.sp_releaseapplock @Resource = N'readpast.install', @LockOwner = N'Session';
    SET @message = CONCAT(N'schema readpast has version ', @installed, N', these scripts would install version 1; use the scripts of the newer release');
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
-- A job: one row. state: 0 ready, 1 scheduled, 2 claimed, 3 done, 4 dead.
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
        ended          bit              NOT NULL CONSTRAINT jobs_ended DEFAULT 0,  -- 1: done or dead; see jobs_dedup
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

    -- Done (annotated) and dead jobs in the order in which they ended, for peek, purge and requeue; no worker reads it.
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
-- What one worker of a queue does for all of them (promote, reap, sample, sweep, expire), and who that is. A row for each queue, made with it.
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

-- 110_finish_list.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Acknowledgements. outcome: 0 done, 1 retry, 2 dead.
-- The clustered key gives the order in which rows are locked, so that two finishers cannot deadlock.
IF TYPE_ID(N'[readpast].[finish_list]') IS NULL
    CREATE TYPE [readpast].[finish_list] AS TABLE
    (
        job_id   bigint         NOT NULL PRIMARY KEY CLUSTERED,
        fence    int            NOT NULL,
        outcome  tinyint        NOT NULL,
        retry_ms bigint         NULL,  -- outcome 1: how long to wait; NULL or 0: ready at once
        run_us   bigint         NULL,
        error    nvarchar(4000) NULL,
        output   varbinary(max) NULL   -- outcome 0, policies annotate and archive
    );
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

-- 200_create_queue.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Creates a queue, or changes the settings of an existing one; NULL leaves a setting as it is (for a new queue: the default).
-- What is no longer to be kept is deleted by the workers, see expire.
-- Result: queue_id, created.
-- Parameters are wider than the longest value, so that a longer one is refused and not cut.
CREATE OR ALTER PROCEDURE [readpast].[create_queue]
    @queue        nvarchar(129),
    @claim_order  varchar(32) = NULL,  -- fifo (default), lifo, any
    @completion   varchar(32) = NULL,  -- delete (default), annotate, archive
    @delivery     varchar(32) = NULL,  -- at_least_once (default), at_most_once
    @max_attempts int         = NULL,  -- 5 by default; 1 and more
    @keep_done_s  int         = NULL,  -- how many seconds done jobs are kept (annotate, archive), up to ten years; 0: for ever (default)
    @keep_dead_s  int         = NULL   -- the same of dead jobs
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @message nvarchar(2048);

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

DECLARE @queue_id int, @old_order varchar(4), @created bit = 0;

BEGIN TRANSACTION;
-- HOLDLOCK on the unique name: two sessions that create the same queue meet here, not at a duplicate key.
SELECT @queue_id = queue_id, @old_order = claim_order
FROM [readpast].[queues] WITH (UPDLOCK, HOLDLOCK)
WHERE name = @queue;

IF @queue_id IS NULL
BEGIN
    INSERT [readpast].[queues] (name, claim_order, completion, delivery, max_attempts, keep_done_s, keep_dead_s)
    VALUES (@queue, ISNULL(@claim_order, 'fifo'), ISNULL(@completion, 'delete'), ISNULL(@delivery, 'at_least_once'), ISNULL(@max_attempts, 5),
            NULLIF(@keep_done_s, 0), NULLIF(@keep_dead_s, 0));
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
             OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND ended = 1))
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
        keep_dead_s  = CASE WHEN @keep_dead_s IS NULL THEN keep_dead_s ELSE NULLIF(@keep_dead_s, 0) END
    WHERE queue_id = @queue_id;
END;
COMMIT TRANSACTION;

SELECT @queue_id AS queue_id, @created AS created;
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
    @kind           varchar(65)      = NULL   -- what sort of job, for the worker to choose the handler: up to 64 printable ASCII characters
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
-- The caller's may be another: .NET's TransactionScope has SERIALIZABLE by default, under which the look for the key would lock a range.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @lifo bit, @due datetime2(3), @new_id bigint, @tries int = 0, @message nvarchar(2048);

SELECT @queue_id = queue_id, @lifo = CASE WHEN claim_order = 'lifo' THEN 1 ELSE 0 END
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

-- A time in the past is now: due_at says since when a job has been ready. DATEADD counts in int: whole seconds and the rest.
SET @due = COALESCE(CASE WHEN @due_at > @now THEN @due_at END, DATEADD(MILLISECOND, @delay_ms % 1000, DATEADD(SECOND, @delay_ms / 1000, @now)), @now);
SET @job_id = NULL;
SET @duplicate = 0;

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
                (job_id, queue_id, state, lifo, priority, max_attempts, enqueued_at, due_at, correlation_id, kind, dedup_key, payload_utf16, payload)
            VALUES
                (@new_id, @queue_id, CASE WHEN @due > @now THEN 1 ELSE 0 END, @lifo, ISNULL(@priority, 0), @max_attempts, @now, @due,
                 @correlation_id, @kind, @dedup_key, CASE WHEN @text IS NULL THEN 0 ELSE 1 END,
                 ISNULL(@payload, CAST(@text AS varbinary(max))));
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

-- Jobs with higher numbers may have been claimed meanwhile: then claims begin beyond this one (see marks). In a caller's transaction, the sweep
-- finds it after the commit.
IF @duplicate = 0 AND EXISTS (SELECT 1 FROM [readpast].[marks] WITH (NOLOCK) WHERE queue_id = @queue_id AND job_id > @job_id)
    EXEC [readpast].[lower_marks] @queue_id, @job_id;
GO

-- 220_enqueue_batch.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Enqueues many jobs in one round trip; they get ascending ids in the order of their ordinals.
-- Takes part in the caller's transaction. Result (unless @report = 0, for triggers): ordinal, job_id, duplicate; a duplicate's
-- job_id is that of the job that was unfinished at that moment, or of the earlier one in the same batch, that has its key.
--
-- Keys lock nothing but themselves, see enqueue. Jobs without a key are added by one INSERT; those with a key one by one in the order of their keys,
-- so that two batches with keys in common wait for each other and never in a circle. (An INSERT ... SELECT ... ORDER BY promises no order.)
-- Where a key came in between the look and the insert, the rejected row keeps its lock on that key's entry until the transaction ends; so the batch's
-- own transaction is begun anew.
CREATE OR ALTER PROCEDURE [readpast].[enqueue_batch]
    @queue  nvarchar(129),
    @jobs   [readpast].[enqueue_list] READONLY,
    @report bit = 1
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;  -- the caller's may be another, see enqueue
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @lifo bit, @has_keys bit = 0, @is_own bit = 0, @again bit = 1, @key nvarchar(256), @last_key nvarchar(256),
    @ordinal int, @new_id bigint, @job_id bigint, @tries int = 0, @first_id bigint, @message nvarchar(2048);
DECLARE @numbered TABLE
(
    ordinal   int    NOT NULL PRIMARY KEY CLUSTERED,
    own_id    bigint NOT NULL,
    job_id    bigint NOT NULL,
    duplicate bit    NOT NULL
);
-- The first of each key, in the order of the keys.
DECLARE @keyed TABLE (dedup_key nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED, ordinal int NOT NULL);

SELECT @queue_id = queue_id, @lifo = CASE WHEN claim_order = 'lifo' THEN 1 ELSE 0 END
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

INSERT @numbered (ordinal, own_id, job_id, duplicate)
SELECT n.ordinal, NEXT VALUE FOR [readpast].[job_ids] OVER (ORDER BY n.ordinal), 0, 0
FROM @jobs AS n;
UPDATE @numbered SET job_id = own_id;
SET @first_id = (SELECT MIN(job_id) FROM @numbered);

IF @has_keys = 1
BEGIN
    INSERT @keyed (dedup_key, ordinal)
    SELECT n.dedup_key, MIN(n.ordinal) FROM @jobs AS n WHERE n.dedup_key IS NOT NULL GROUP BY n.dedup_key;
    IF @@TRANCOUNT = 0
        SET @is_own = 1;
END;

WHILE @again = 1
BEGIN
    SET @again = 0;
    IF @is_own = 1
        BEGIN TRANSACTION;
    INSERT [readpast].[jobs] WITH (ROWLOCK)
        (job_id, queue_id, state, lifo, priority, max_attempts, enqueued_at, due_at, correlation_id, kind, payload_utf16, payload)
    SELECT i.job_id,
           @queue_id,
           CASE WHEN n.due_at > @now OR n.delay_ms > 0 THEN 1 ELSE 0 END,
           @lifo,
           ISNULL(n.priority, 0),
           n.max_attempts,
           @now,
           -- DATEADD counts in int: whole seconds and the rest.
           COALESCE(CASE WHEN n.due_at > @now THEN n.due_at END, DATEADD(MILLISECOND, n.delay_ms % 1000, DATEADD(SECOND, n.delay_ms / 1000, @now)), @now),
           n.correlation_id,
           n.kind,
           CASE WHEN n.text IS NULL THEN 0 ELSE 1 END,
           ISNULL(n.payload, CAST(n.text AS varbinary(max)))
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
        SET @new_id = (SELECT own_id FROM @numbered WHERE ordinal = @ordinal);
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
                     payload)
                SELECT @new_id,
                       @queue_id,
                       CASE WHEN n.due_at > @now OR n.delay_ms > 0 THEN 1 ELSE 0 END,
                       @lifo,
                       ISNULL(n.priority, 0),
                       n.max_attempts,
                       @now,
                       COALESCE(CASE WHEN n.due_at > @now THEN n.due_at END, DATEADD(MILLISECOND, n.delay_ms % 1000, DATEADD(SECOND, n.delay_ms / 1000, @now)), @now),
                       n.correlation_id,
                       n.kind,
                       n.dedup_key,
                       CASE WHEN n.text IS NULL THEN 0 ELSE 1 END,
                       ISNULL(n.payload, CAST(n.text AS varbinary(max)))
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
    IF @is_own = 1 AND @again = 0
        COMMIT TRANSACTION;
END;

-- Jobs with higher numbers may have been claimed meanwhile, see enqueue.
IF EXISTS (SELECT 1 FROM [readpast].[marks] WITH (NOLOCK) WHERE queue_id = @queue_id AND job_id > @first_id)
    EXEC [readpast].[lower_marks] @queue_id, @first_id;

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
-- NOLOCK sees the uncommitted job, which the mark must not pass. Where there is much to read over, it takes a twentieth of the time at the most.
CREATE OR ALTER PROCEDURE [readpast].[sweep]
    @queue_id int
AS
SET NOCOUNT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @next smallint = -32768, @priority smallint, @mark bigint, @lowered int, @head bigint,
    @missed bigint, @raised bigint, @newest bigint,
    @met int = 0, @sweep_ms int, @is_lifo bit = 0;

-- Not in a caller's transaction, which would keep the marks locked.
IF @@TRANCOUNT > 0
    OR EXISTS (SELECT 1 FROM [readpast].[duties] WHERE queue_id = @queue_id AND sweep_ms > 50 AND swept_at <= @now
                   AND swept_at > DATEADD(MILLISECOND, -20 * sweep_ms, @now))
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

SET @sweep_ms = DATEDIFF(MILLISECOND, @now, SYSUTCDATETIME());
UPDATE [readpast].[duties] WITH (ROWLOCK)
SET swept_at = @now, sweep_ms = @sweep_ms
WHERE queue_id = @queue_id AND (sweep_ms > 50 OR @sweep_ms > 50);
GO

-- 230_claim.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Claims up to @max ready jobs of a queue for a worker, and returns them.
--
-- Results, one for each priority that was looked at (none where nothing is ready), in no particular order (OUTPUT has none): job_id, fence,
-- attempt, max_attempts, priority, waited_ms (since it was due), age_ms (since it was enqueued), kind, payload_utf16, payload (with
-- @payloads = 0: its length in bytes, as eight bytes, the highest first), details (JSON: an object with dedup_key, correlation_id;
-- NULL where the job has none of them: a column of its own for each would cost every other job, too).
-- Later versions add columns at the end, and members to details.
-- Return status: 1 when a job waits that must run alone (see reap), otherwise 0. Asked for with @alone = 1, such a job comes first, and
-- by itself.
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
    @paused bit, @alone_waits bit = 0, @room int = @max, @at_least smallint = -32768, @priority smallint, @from_id bigint, @mark_lowered int,
    @claimed int, @message nvarchar(2048);

SELECT @queue_id = queue_id, @claim_order = claim_order, @delivery = delivery, @max_attempts = max_attempts, @paused = paused
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

IF @alone = 1 AND @alone_waits = 1
BEGIN
    WITH next_jobs AS
    (
        SELECT TOP (1)
               job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
               kind, payload_utf16, payload
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
           CASE WHEN inserted.dedup_key IS NOT NULL OR inserted.correlation_id IS NOT NULL
                THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.dedup_key, 'json') + N'"', N'null'),
                                 N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), inserted.correlation_id) + N'"', N'null'),
                                 N'}') AS nvarchar(4000))
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
                   kind, payload_utf16, payload
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
               CASE WHEN inserted.dedup_key IS NOT NULL OR inserted.correlation_id IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), inserted.correlation_id) + N'"', N'null'),
                                     N'}') AS nvarchar(4000))
                    END AS details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, attempt, max_attempts, priority, due_at, enqueued_at, dedup_key, correlation_id, kind, payload_utf16, payload
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0
            ORDER BY priority, job_id DESC
        )
        DELETE next_jobs
        OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
               deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.kind, deleted.payload_utf16,
               CASE WHEN @payloads = 1 THEN deleted.payload ELSE CAST(DATALENGTH(deleted.payload) AS binary(8)) END AS payload,
               CASE WHEN deleted.dedup_key IS NOT NULL OR deleted.correlation_id IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(deleted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), deleted.correlation_id) + N'"', N'null'),
                                     N'}') AS nvarchar(4000))
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
                   kind, payload_utf16, payload
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
               CASE WHEN inserted.dedup_key IS NOT NULL OR inserted.correlation_id IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), inserted.correlation_id) + N'"', N'null'),
                                     N'}') AS nvarchar(4000))
                    END AS details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE IF @delivery = 'at_least_once'
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
                   kind, payload_utf16, payload
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
        )
        UPDATE next_jobs
        SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
               inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.kind, inserted.payload_utf16,
               CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
               CASE WHEN inserted.dedup_key IS NOT NULL OR inserted.correlation_id IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(inserted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), inserted.correlation_id) + N'"', N'null'),
                                     N'}') AS nvarchar(4000))
                    END AS details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE IF @claim_order = 'fifo'
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, attempt, max_attempts, priority, due_at, enqueued_at, dedup_key, correlation_id, kind, payload_utf16, payload
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
            ORDER BY job_id
        )
        DELETE next_jobs
        OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
               deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.kind, deleted.payload_utf16,
               CASE WHEN @payloads = 1 THEN deleted.payload ELSE CAST(DATALENGTH(deleted.payload) AS binary(8)) END AS payload,
               CASE WHEN deleted.dedup_key IS NOT NULL OR deleted.correlation_id IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(deleted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), deleted.correlation_id) + N'"', N'null'),
                                     N'}') AS nvarchar(4000))
                    END AS details
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    ELSE
        WITH next_jobs AS
        (
            SELECT TOP (@room)
                   job_id, attempt, max_attempts, priority, due_at, enqueued_at, dedup_key, correlation_id, kind, payload_utf16, payload
            FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
        )
        DELETE next_jobs
        OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
               deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
               DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.kind, deleted.payload_utf16,
               CASE WHEN @payloads = 1 THEN deleted.payload ELSE CAST(DATALENGTH(deleted.payload) AS binary(8)) END AS payload,
               CASE WHEN deleted.dedup_key IS NOT NULL OR deleted.correlation_id IS NOT NULL
                    THEN CAST(CONCAT(N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(deleted.dedup_key, 'json') + N'"', N'null'),
                                     N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), deleted.correlation_id) + N'"', N'null'),
                                     N'}') AS nvarchar(4000))
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

-- 240_finish.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Acknowledges a batch of jobs that a worker has run. A job changes only while it is claimed by this worker under this fence.
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
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @completion varchar(8), @max_attempts int, @first_ready bigint,
    @message nvarchar(2048);
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, dead bit NOT NULL);

SELECT @queue_id = queue_id, @completion = completion, @max_attempts = max_attempts
FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF EXISTS (SELECT 1 FROM @jobs WHERE outcome > 2 OR retry_ms < 0 OR retry_ms > 315360000000)
    THROW 58003, N'outcome must be 0 (done), 1 (retry) or 2 (dead), retry_ms between 0 and 315360000000 (ten years)', 1;

BEGIN TRANSACTION;
IF @completion = 'delete'
    DELETE j
    OUTPUT deleted.job_id, 0 INTO @found (job_id, dead)
    FROM @jobs AS f
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    WHERE f.outcome = 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
ELSE IF @completion = 'annotate'
    UPDATE j
    SET state = 3, ended = 1, finished_at = @now, run_us = f.run_us, output = f.output
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
           deleted.payload_utf16, deleted.payload, deleted.error, f.output
    INTO [readpast].[archive]
         (job_id, queue_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, correlation_id,
          kind, dedup_key, payload_utf16, payload, error, output)
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

IF EXISTS (SELECT 1 FROM @jobs WHERE outcome > 0)
    UPDATE j
    SET state       = CASE WHEN f.outcome = 2 OR j.attempt >= COALESCE(j.max_attempts, @max_attempts) THEN 4
                           WHEN f.retry_ms > 0 THEN 1
                           ELSE 0 END,
        ended       = CASE WHEN f.outcome = 2 OR j.attempt >= COALESCE(j.max_attempts, @max_attempts) THEN 1 ELSE 0 END,
        due_at      = DATEADD(MILLISECOND, ISNULL(f.retry_ms, 0) % 1000, DATEADD(SECOND, ISNULL(f.retry_ms, 0) / 1000, @now)),
        finished_at = @now,
        run_us      = f.run_us,
        error       = f.error
    OUTPUT inserted.job_id, CASE WHEN inserted.state = 4 AND f.outcome = 1 THEN 1 ELSE 0 END INTO @found (job_id, dead)
    FROM @jobs AS f
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    WHERE f.outcome > 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
COMMIT TRANSACTION;

IF EXISTS (SELECT 1 FROM @jobs WHERE outcome = 1 AND ISNULL(retry_ms, 0) = 0)
BEGIN
    SET @first_ready = (SELECT MIN(job_id) FROM @jobs WHERE outcome = 1 AND ISNULL(retry_ms, 0) = 0);
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

-- 245_finish_one.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Acknowledges one job, as finish does: for callers that cannot pass a table-valued parameter, or not a row as large as this one's
-- output (the driver of the Rust crate takes no value over 65,535 bytes into one). Takes part in the caller's transaction.
-- Result: as finish.
CREATE OR ALTER PROCEDURE [readpast].[finish_one]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @job_id    bigint,
    @fence     int,
    @outcome   tinyint        = 0,     -- 0 done, 1 retry, 2 dead
    @retry_ms  bigint         = NULL,  -- outcome 1: how long to wait; NULL or 0: ready at once
    @run_us    bigint         = NULL,
    @error     nvarchar(4000) = NULL,
    @output    varbinary(max) = NULL   -- outcome 0, policies annotate and archive
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @jobs [readpast].[finish_list];

INSERT @jobs (job_id, fence, outcome, retry_ms, run_us, error, output)
VALUES (@job_id, @fence, @outcome, @retry_ms, @run_us, @error, @output);

EXEC [readpast].[finish] @queue = @queue, @worker_id = @worker_id, @jobs = @jobs;
GO

-- 250_release.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Gives back claimed jobs that were not started: ready again at once, the attempt not counted.
-- Result: job_id of every job that was no longer this worker's under this fence.
CREATE OR ALTER PROCEDURE [readpast].[release]
    @worker_id uniqueidentifier,
    @jobs      [readpast].[job_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @queue_id int = (SELECT queue_id FROM [readpast].[workers] WHERE worker_id = @worker_id), @first_ready bigint;

UPDATE j
SET state = 0, attempt = j.attempt - 1
OUTPUT inserted.job_id INTO @found (job_id)
FROM @jobs AS r
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = r.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = r.fence
OPTION (MAXDOP 1, KEEPFIXED PLAN);

SET @first_ready = (SELECT MIN(job_id) FROM @found);
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
-- Where nobody has promoted or reaped for a while, SQL Server was away; the workers then have a new lease each (tend).
-- Results: workers_lost, jobs_ready, jobs_dead; then of each worker that was marked lost, worker_id and name.
CREATE OR ALTER PROCEDURE [readpast].[reap]
    @queue       nvarchar(129),
    @max         int = 1000,
    @report      bit = 1,
    @jobs_reaped int = NULL OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3), @elected bit, @queue_id int, @max_attempts int, @first_ready bigint, @message nvarchar(2048);
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, worker_id uniqueidentifier NOT NULL, name nvarchar(128) NOT NULL);
DECLARE @lost TABLE (worker_id uniqueidentifier NOT NULL PRIMARY KEY CLUSTERED, name nvarchar(128) NOT NULL);
DECLARE @given_back TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, state tinyint NOT NULL);

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

-- Found in the index, changed by their keys: a row before its index entry, as finish does.
INSERT @held (job_id, worker_id, name)
SELECT TOP (@max) j.job_id, w.worker_id, w.name
FROM [readpast].[workers] AS w WITH (READPAST, READCOMMITTEDLOCK)
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_claimed (queue_id, worker_id)))
    ON j.queue_id = w.queue_id AND j.worker_id = w.worker_id
WHERE w.queue_id = @queue_id AND w.lost_at IS NOT NULL AND j.queue_id = @queue_id AND j.state = 2
OPTION (MAXDOP 1, KEEPFIXED PLAN);

UPDATE j
SET state       = CASE WHEN j.alone = 1 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts) THEN 4 ELSE 0 END,
    ended       = CASE WHEN j.alone = 1 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts) THEN 1 ELSE 0 END,
    attempt     = CASE WHEN j.alone = 0 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts)
                       THEN COALESCE(j.max_attempts, @max_attempts) - 1 ELSE j.attempt END,
    alone       = CASE WHEN j.attempt >= COALESCE(j.max_attempts, @max_attempts) - 1 THEN 1 ELSE j.alone END,
    finished_at = @now,
    error       = CONCAT(N'worker ', h.name, N' was lost while it held the job (attempt ', j.attempt, N')')
OUTPUT inserted.job_id, inserted.state INTO @given_back (job_id, state)
FROM @held AS h
INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
    ON j.job_id = h.job_id
WHERE j.state = 2 AND j.worker_id = h.worker_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @jobs_reaped = @@ROWCOUNT;

SET @first_ready = (SELECT MIN(job_id) FROM @given_back WHERE state = 0);
IF @first_ready IS NOT NULL
    EXEC [readpast].[lower_marks] @queue_id, @first_ready;

-- A day is longer than any claim of a lost worker can still be running.
DELETE w
FROM [readpast].[workers] AS w WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
WHERE w.queue_id = @queue_id AND w.lost_at < DATEADD(DAY, -1, @now)
    AND NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS j WITH (ROWLOCK, INDEX (jobs_claimed))
                    WHERE j.queue_id = @queue_id AND j.state = 2 AND j.worker_id = w.worker_id);

IF @report = 1
BEGIN
    SELECT (SELECT COUNT(*) FROM @lost) AS workers_lost,
           (SELECT COUNT(*) FROM @given_back WHERE state = 0) AS jobs_ready,
           (SELECT COUNT(*) FROM @given_back WHERE state = 4) AS jobs_dead;
    SELECT worker_id, name FROM @lost;
END;
GO

-- 310_register_worker.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Registers a worker for a queue and starts its lease. Run again with the same id, it renews the lease.
-- With @take_over = 1, other workers of the queue with the same name are marked lost and their jobs given back at once: for a process
-- that is the only one of its name and knows that its predecessor is gone.
-- Result: claim_order, completion, delivery, max_attempts, paused, taken_over (jobs given back).
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
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @message nvarchar(2048), @taken_over int = 0;

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

IF @take_over = 1
BEGIN
    UPDATE [readpast].[workers] WITH (ROWLOCK)
    SET lost_at = @now
    WHERE queue_id = @queue_id AND name = @name AND worker_id <> @worker_id AND lost_at IS NULL;

    EXEC [readpast].[reap] @queue = @queue, @report = 0, @jobs_reaped = @taken_over OUTPUT;
END;

SELECT claim_order, completion, delivery, max_attempts, paused, @taken_over AS taken_over
FROM [readpast].[queues] WHERE queue_id = @queue_id;
GO

-- 320_heartbeat.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Renews the lease of a worker: one row, however many jobs it holds. A lease that ran out but was not reaped yet is renewed too.
-- Error 58002 when the worker was marked lost: its jobs may run elsewhere.
-- Where nobody has the duties of the queue (see duties), this worker takes them over: from then on it calls promote every second, and reap, sample and
-- expire at their times.
-- Result: elected (this worker has the duties), min_compatible (the oldest release that works with this schema), and the last sample of the queue's
-- depth as sample returns it; NULL where there is none yet.
CREATE OR ALTER PROCEDURE [readpast].[heartbeat]
    @worker_id uniqueidentifier
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int;

UPDATE [readpast].[workers] WITH (ROWLOCK)
SET lease_until = DATEADD(MILLISECOND, lease_ms, @now), unserved = 0, @queue_id = queue_id
WHERE worker_id = @worker_id AND lost_at IS NULL;
IF @@ROWCOUNT = 0
    THROW 58002, N'this worker is not registered for the queue, or its lease was lost; register anew', 1;

-- NOLOCK: it must not wait here. In doubt the next one finds out.
IF EXISTS (SELECT 1 FROM [readpast].[duties] WITH (NOLOCK) WHERE queue_id = @queue_id AND (until < @now OR until > DATEADD(SECOND, 10, @now)))
    UPDATE [readpast].[duties] WITH (ROWLOCK)
    SET worker_id = @worker_id, until = DATEADD(SECOND, 3, @now)
    WHERE queue_id = @queue_id AND (until < @now OR until > DATEADD(SECOND, 10, @now));  -- the latter: the clock was set back

SELECT CAST(CASE WHEN d.worker_id = @worker_id AND d.until >= @now THEN 1 ELSE 0 END AS bit) AS elected,
       (SELECT TOP (1) v.min_compatible FROM [readpast].[schema_version] AS v ORDER BY v.version DESC) AS min_compatible,
       s.ready, s.scheduled, s.claimed, s.dead, s.workers, q.paused,
       DATEDIFF_BIG(MILLISECOND, s.oldest_due_at, s.sampled_at) AS oldest_ready_ms,
       DATEDIFF_BIG(MILLISECOND, s.sampled_at, SYSUTCDATETIME()) AS sample_age_ms
FROM [readpast].[queues] AS q
INNER JOIN [readpast].[duties] AS d WITH (NOLOCK) ON d.queue_id = q.queue_id
LEFT JOIN [readpast].[samples] AS s WITH (NOLOCK) ON s.queue_id = q.queue_id
WHERE q.queue_id = @queue_id;
GO

-- 330_unregister_worker.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Ends a worker: it is marked lost, and jobs that it still holds are left to the next reap. Its row stays for a day, even where it holds nothing: a
-- claim of it may still be on its way, and only by this row does reap find the jobs of it. Duties that it had pass to the next heartbeat.
CREATE OR ALTER PROCEDURE [readpast].[unregister_worker]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();

UPDATE [readpast].[workers] WITH (ROWLOCK) SET lost_at = @now WHERE worker_id = @worker_id AND lost_at IS NULL;

UPDATE d
SET until = @now
FROM [readpast].[queues] AS q
INNER JOIN [readpast].[duties] AS d WITH (ROWLOCK) ON d.queue_id = q.queue_id
WHERE q.name = @queue AND d.worker_id = @worker_id AND d.until > @now;
GO

-- 340_promote.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Makes scheduled jobs ready whose time has come, up to @max. Any number of sessions may run it at once: each skips what another has locked.
-- With @worker_id, it does so only for the worker that has the duties of the queue (see duties), and keeps them for three more seconds.
-- Result: promoted, elected (the worker has the duties; 1 without @worker_id).
CREATE OR ALTER PROCEDURE [readpast].[promote]
    @queue     nvarchar(129),
    @max       int              = 1000,
    @worker_id uniqueidentifier = NULL
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3), @elected bit, @queue_id int, @first_ready bigint, @promoted int, @message nvarchar(2048);
DECLARE @due TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

EXEC [readpast].[tend] @queue_id, @worker_id, @now OUTPUT, @elected OUTPUT;
IF @worker_id IS NOT NULL AND @elected = 0
BEGIN
    SELECT 0 AS promoted, CAST(0 AS bit) AS elected;
    RETURN;
END;

WITH due_jobs AS
(
    SELECT TOP (@max) job_id, state
    FROM [readpast].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND due_at <= @now
    ORDER BY due_at
)
UPDATE due_jobs
SET state = 0
OUTPUT inserted.job_id INTO @due (job_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @promoted = @@ROWCOUNT;

IF @promoted > 0
BEGIN
    SET @first_ready = (SELECT MIN(job_id) FROM @due);
    EXEC [readpast].[lower_marks] @queue_id, @first_ready;
END;
EXEC [readpast].[sweep] @queue_id;

SELECT @promoted AS promoted, CAST(1 AS bit) AS elected;
GO

-- 350_sample.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Returns the depth of a queue as last sampled, and takes a new sample first where the last one is older than @max_age_ms. The worker that has the
-- duties of the queue calls it at its interval; the others get the sample with their heartbeat. Of several callers one at a time pays for a sample.
--
-- Cheap at any depth, at the price of precision: of each priority the first 10,000 ready jobs are counted, and where there are more, the
-- rest is estimated from the job_ids, which are dense; of scheduled, claimed and dead jobs 100,000 are counted at the most. The oldest
-- ready job is looked for among those that were counted. At most 100 priorities are looked at. Exact numbers: the procedure stats.
-- Result: ready, scheduled, claimed, dead, workers, paused, oldest_ready_ms (NULL: nothing is ready), sample_age_ms (NULL: there is no
-- sample yet, because another worker is taking the first).
CREATE OR ALTER PROCEDURE [readpast].[sample]
    @queue      nvarchar(129),
    @max_age_ms int = 10000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @paused bit, @claim_order varchar(4), @is_mine int, @message nvarchar(2048);

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
WHERE queue_id = @queue_id AND begun_at <= DATEADD(MILLISECOND, -@max_age_ms, @now);
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
        workers       = (SELECT COUNT_BIG(*) FROM [readpast].[workers] AS w WITH (NOLOCK)
                         WHERE w.queue_id = @queue_id AND w.lost_at IS NULL AND w.lease_until >= @now),
        oldest_due_at = @oldest
    WHERE queue_id = @queue_id;
END;

SELECT s.ready, s.scheduled, s.claimed, s.dead, s.workers, @paused AS paused,
       DATEDIFF_BIG(MILLISECOND, s.oldest_due_at, s.sampled_at) AS oldest_ready_ms,
       DATEDIFF_BIG(MILLISECOND, s.sampled_at, SYSUTCDATETIME()) AS sample_age_ms
FROM [readpast].[samples] AS s
WHERE s.queue_id = @queue_id;
GO

-- 360_unfinished.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Says whether a queue has jobs that are not finished: ready, scheduled or claimed, by whichever worker. For a worker that drains it.
--
-- A few seeks at any depth. Reads without locks (NOLOCK), one state after the other: a job that moves from one to another meanwhile can be
-- in none of them. So "nothing" counts when it was said twice in a row.
-- Result: unfinished.
CREATE OR ALTER PROCEDURE [readpast].[unfinished]
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

SELECT CAST(CASE WHEN EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_ready))
                              WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
                   OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_ready_lifo))
                              WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
                   OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_ready_alone))
                              WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
                   OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_scheduled))
                              WHERE queue_id = @queue_id AND state = 1)
                   OR EXISTS (SELECT 1 FROM [readpast].[jobs] WITH (NOLOCK, INDEX (jobs_claimed))
                              WHERE queue_id = @queue_id AND state = 2)
                 THEN 1 ELSE 0 END AS bit) AS unfinished;
GO

-- 370_expire.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Deletes up to @max finished jobs that the queue no longer keeps (create_queue: @keep_done_s, @keep_dead_s), the oldest first. Run it until it
-- returns less than @max; the worker that has the duties of the queue does so every minute. Result: expired.
-- As purge: first the ids, then the rows in the order of their ids; what others have locked is skipped both times, and goes the next time.
CREATE OR ALTER PROCEDURE [readpast].[expire]
    @queue nvarchar(129),
    @max   int = 1000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @keep_done_s int, @keep_dead_s int, @before datetime2(3), @expired int = 0,
    @message nvarchar(2048);
-- IGNORE_DUP_KEY: a job that moves within an index while it is read may be met twice.
DECLARE @old TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON));

SELECT @queue_id = queue_id, @keep_done_s = keep_done_s, @keep_dead_s = keep_dead_s FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @max IS NULL OR @max < 1
    THROW 58003, N'max must be 1 or more', 1;

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
        FROM @old AS o
        INNER LOOP JOIN [readpast].[archive] AS a WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (archive_pk))
            ON a.job_id = o.job_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @expired = @expired + @@ROWCOUNT;
        DELETE @old;
    END;
END;

IF @keep_dead_s IS NOT NULL
BEGIN
    SET @before = DATEADD(SECOND, -@keep_dead_s, @now);
    INSERT @old (job_id)
    SELECT TOP (@max - @expired) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = 4 AND ended = 1 AND finished_at <= @before
    ORDER BY finished_at, job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @@ROWCOUNT > 0
    BEGIN
        DELETE j
        FROM @old AS o
        INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
            ON j.job_id = o.job_id
        WHERE j.queue_id = @queue_id AND j.state = 4 AND j.finished_at <= @before
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @expired = @expired + @@ROWCOUNT;
    END;
END;

SELECT @expired AS expired;
GO

-- 400_stats.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Counts the jobs of one queue or, with NULL, of each. Reads without locks (NOLOCK): it neither waits nor makes anybody wait, and what
-- it returns is a sample, not a balance. Reads every entry of the small indexes once.
-- Result: queue, claim_order, completion, delivery, max_attempts, paused, ready, scheduled, claimed, done, dead, archived, workers,
-- oldest_ready_ms (NULL: nothing is ready), keep_done_s, keep_dead_s (NULL: for ever).
CREATE OR ALTER PROCEDURE [readpast].[stats]
    @queue nvarchar(129) = NULL
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @message nvarchar(2048);

IF @queue IS NOT NULL AND NOT EXISTS (SELECT 1 FROM [readpast].[queues] WHERE name = @queue)
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;

SELECT q.name AS queue, q.claim_order, q.completion, q.delivery, q.max_attempts, q.paused,
       r.ready,
       (SELECT COUNT_BIG(*) FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
        WHERE j.queue_id = q.queue_id AND j.state = 1) AS scheduled,
       (SELECT COUNT_BIG(*) FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_claimed))
        WHERE j.queue_id = q.queue_id AND j.state = 2) AS claimed,
       (SELECT COUNT_BIG(*) FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
        WHERE j.queue_id = q.queue_id AND j.state = 3 AND j.ended = 1) AS done,
       (SELECT COUNT_BIG(*) FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
        WHERE j.queue_id = q.queue_id AND j.state = 4 AND j.ended = 1) AS dead,
       (SELECT COUNT_BIG(*) FROM [readpast].[archive] AS a WITH (NOLOCK, INDEX (archive_finished))
        WHERE a.queue_id = q.queue_id) AS archived,
       (SELECT COUNT_BIG(*) FROM [readpast].[workers] AS w WITH (NOLOCK)
        WHERE w.queue_id = q.queue_id AND w.lost_at IS NULL AND w.lease_until >= @now) AS workers,
       DATEDIFF_BIG(MILLISECOND, r.oldest, @now) AS oldest_ready_ms, q.keep_done_s, q.keep_dead_s
FROM [readpast].[queues] AS q
CROSS APPLY (SELECT SUM(i.ready) AS ready, MIN(i.oldest) AS oldest
             FROM (SELECT COUNT_BIG(*) AS ready, MIN(j.due_at) AS oldest FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                   WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.lifo = 0 AND j.alone = 0
                   UNION ALL
                   SELECT COUNT_BIG(*), MIN(j.due_at) FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_lifo))
                   WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.lifo = 1 AND j.alone = 0
                   UNION ALL
                   SELECT COUNT_BIG(*), MIN(j.due_at) FROM [readpast].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
                   WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.alone = 1) AS i) AS r
WHERE @queue IS NULL OR q.name = @queue
ORDER BY q.name;
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

-- 430_requeue.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Makes dead jobs ready again: one (@job_id) or up to @max, the oldest first. The attempt starts at 0 again, the fence goes on growing.
-- A job whose de-duplication key belongs to an unfinished job by now stays dead; of several dead jobs with one key, the newest comes back.
-- Run it until it returns less than @max. Result: requeued.
--
-- First the ids, by reading alone; then the rows, each before its index entries, as all procedures but claim and promote lock them. Jobs without a
-- key come back by one statement. Of those with a key each is a transaction of its own, because its key's new entry in jobs_dedup may have to wait
-- for a producer's: waiting for one while holding another could deadlock with a producer that enqueues several.
CREATE OR ALTER PROCEDURE [readpast].[requeue]
    @queue  nvarchar(129),
    @job_id bigint = NULL,
    @max    int    = 1000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @requeued int = 0, @rounds int = 0, @found int, @listed int = 0,
    @id bigint, @last_id bigint, @first_ready bigint, @message nvarchar(2048);
-- has_key: NULL when it was tried. IGNORE_DUP_KEY: a job that moves within an index while it is read may be met twice.
DECLARE @dead TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON), has_key bit NULL);
DECLARE @ready TABLE (job_id bigint NOT NULL);

SELECT @queue_id = queue_id FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @max IS NULL OR @max < 1
    THROW 58003, N'max must be 1 or more', 1;

-- Again, where fewer came back than were found, because others had some of them locked or a producer took a key meanwhile: for as many behind those.
-- Ten times, so that it ends whatever others do.
WHILE @rounds < 10
BEGIN
    SET @rounds = @rounds + 1;

    -- The keys are looked for with NOLOCK: an enqueue that is not committed counts already, and nobody waits for its transaction.
    IF @job_id IS NULL
        INSERT @dead (job_id, has_key)
        SELECT TOP (@max - @requeued) j.job_id, CASE WHEN j.dedup_key IS NULL THEN 0 ELSE 1 END
        FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
        WHERE j.queue_id = @queue_id AND j.state = 4 AND j.ended = 1 AND NOT EXISTS (SELECT 1 FROM @dead AS d WHERE d.job_id = j.job_id)
            AND (j.dedup_key IS NULL
                 OR NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS u WITH (NOLOCK, INDEX (jobs_dedup))
                                WHERE u.queue_id = @queue_id AND u.dedup_key = j.dedup_key AND u.dedup_key IS NOT NULL AND u.ended = 0)
                    AND NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS n WITH (NOLOCK, INDEX (jobs_dead_keys))
                                    WHERE n.queue_id = @queue_id AND n.dedup_key = j.dedup_key AND n.dedup_key IS NOT NULL AND n.state = 4
                                        AND n.job_id > j.job_id))
        ORDER BY j.finished_at, j.job_id
        OPTION (MAXDOP 1);
    ELSE
        INSERT @dead (job_id, has_key)
        SELECT j.job_id, 1
        FROM [readpast].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
        WHERE j.job_id = @job_id AND j.queue_id = @queue_id AND j.state = 4
            AND (j.dedup_key IS NULL
                 OR NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS u WITH (NOLOCK, INDEX (jobs_dedup))
                                WHERE u.queue_id = @queue_id AND u.dedup_key = j.dedup_key AND u.dedup_key IS NOT NULL AND u.ended = 0)
                    AND NOT EXISTS (SELECT 1 FROM [readpast].[jobs] AS n WITH (NOLOCK, INDEX (jobs_dead_keys))
                                    WHERE n.queue_id = @queue_id AND n.dedup_key = j.dedup_key AND n.dedup_key IS NOT NULL AND n.state = 4
                                        AND n.job_id > j.job_id))
        OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    SET @listed = @listed + @found;

    IF EXISTS (SELECT 1 FROM @dead WHERE has_key = 0)
    BEGIN
        UPDATE j
        SET state = 0, ended = 0, attempt = 0, alone = 0, due_at = @now
        OUTPUT inserted.job_id INTO @ready (job_id)
        FROM @dead AS d
        INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
            ON j.job_id = d.job_id
        WHERE d.has_key = 0 AND j.queue_id = @queue_id AND j.state = 4
        OPTION (MAXDOP 1);
        SET @requeued = @requeued + @@ROWCOUNT;
    END;

    SET @last_id = 0;
    WHILE 1 = 1
    BEGIN
        SET @id = NULL;
        SELECT TOP (1) @id = job_id FROM @dead WHERE has_key = 1 AND job_id > @last_id ORDER BY job_id;
        IF @id IS NULL
            BREAK;
        SET @last_id = @id;
        UPDATE @dead SET has_key = NULL WHERE job_id = @id;
        SET XACT_ABORT OFF;
        BEGIN TRY
            UPDATE j
            SET state = 0, ended = 0, attempt = 0, alone = 0, due_at = @now
            OUTPUT inserted.job_id INTO @ready (job_id)
            FROM [readpast].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk))
            WHERE j.job_id = @id AND j.queue_id = @queue_id AND j.state = 4
            OPTION (MAXDOP 1);
            SET @requeued = @requeued + @@ROWCOUNT;
        END TRY
        BEGIN CATCH
            -- A producer has enqueued the key meanwhile: the job stays dead. Any other error rolls the caller's transaction back, as everywhere.
            SET XACT_ABORT ON;
            IF ERROR_NUMBER() <> 2601 OR XACT_STATE() = -1
                THROW;
        END CATCH;
        SET XACT_ABORT ON;
    END;

    IF @found = 0 OR @requeued = @listed OR @requeued >= @max OR @job_id IS NOT NULL
        BREAK;
END;

IF @requeued > 0
BEGIN
    SET @first_ready = (SELECT MIN(job_id) FROM @ready);
    EXEC [readpast].[lower_marks] @queue_id, @first_ready;
END;

SELECT @requeued AS requeued;
GO

-- 440_purge.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Deletes up to @max jobs in one state, the oldest first; run it until it returns less than @max.
-- @state: done, dead, archived (@older_than_s seconds and more after they finished), or ready, scheduled (@older_than_s seconds and more
-- after they were enqueued). Claimed jobs cannot be purged. Result: purged.
--
-- First the ids, by reading alone; then the rows in the order of their ids, each before its index entries, as all procedures but claim and promote
-- lock them. What others have locked is skipped both times (READPAST).
--
-- No index has the age of ready jobs, but their ids grow with it: within a priority, the first job that is not old enough ends the search (a page of
-- @max jobs that begins with an old one is searched to its end). So a million jobs of which none is old enough cost a look at each priority. Jobs
-- whose enqueueing had to wait for another with its key, or for a clock that was set back, may be older than their ids say: they go a little later.
-- Scheduled jobs stand by the time that they are due, which says nothing about their age: with an age, all of them may be read.
CREATE OR ALTER PROCEDURE [readpast].[purge]
    @queue        nvarchar(129),
    @state        varchar(32),
    @older_than_s int = 0,
    @max          int = 1000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @before datetime2(3), @queue_id int, @claim_order varchar(4), @number tinyint, @purged int = 0, @rounds int = 0, @found int, @listed int = 0,
    @at_least smallint, @priority smallint, @enqueued_at datetime2(3), @message nvarchar(2048);
-- IGNORE_DUP_KEY: a job that moves within an index while it is read may be met twice.
DECLARE @old TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON));

SELECT @queue_id = queue_id, @claim_order = claim_order FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @state IS NULL OR @state NOT IN ('done', 'dead', 'archived', 'ready', 'scheduled')
BEGIN
    SET @message = CONCAT(N'state is ''', @state, N'''; it must be done, dead, archived, ready or scheduled');
    THROW 58003, @message, 1;
END;
IF @older_than_s IS NULL OR @older_than_s < 0 OR @max IS NULL OR @max < 1
    THROW 58003, N'older_than_s must be 0 or more, max 1 or more', 1;
SET @before = DATEADD(SECOND, -@older_than_s, SYSUTCDATETIME());
SET @number = CASE @state WHEN 'ready' THEN 0 WHEN 'scheduled' THEN 1 WHEN 'done' THEN 3 WHEN 'dead' THEN 4 END;

-- Again, where fewer were deleted than were found, because others had some of them locked: for as many behind those. Ten times, so that it ends
-- whatever others do.
WHILE @rounds < 10
BEGIN
    SET @rounds = @rounds + 1;

    IF @state = 'done'
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
        WHERE queue_id = @queue_id AND state = 3 AND ended = 1 AND finished_at <= @before
            AND NOT EXISTS (SELECT 1 FROM @old AS o WHERE o.job_id = j.job_id)
        ORDER BY finished_at, job_id
        OPTION (MAXDOP 1);
    ELSE IF @state = 'dead'
        INSERT @old (job_id)
        SELECT TOP (@max - @purged) job_id FROM [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
        WHERE queue_id = @queue_id AND state = 4 AND ended = 1 AND finished_at <= @before
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

    SET @at_least = CASE WHEN @state = 'ready' THEN -32768 END;
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

    IF @state = 'archived'
        DELETE a
        FROM @old AS o
        INNER LOOP JOIN [readpast].[archive] AS a WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (archive_pk))
            ON a.job_id = o.job_id
        OPTION (MAXDOP 1);
    ELSE
        -- A dead job that came back and died again meanwhile is a young one.
        DELETE j
        FROM @old AS o
        INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
            ON j.job_id = o.job_id
        WHERE j.queue_id = @queue_id AND j.state = @number AND (@number < 3 OR j.finished_at <= @before)
        OPTION (MAXDOP 1);
    SET @purged = @purged + @@ROWCOUNT;
    SET @listed = @listed + @found;
    IF @found = 0 OR @purged = @listed OR @purged >= @max
        BREAK;
END;

SELECT @purged AS purged;
GO

-- 450_peek.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Looks at jobs without claiming or waiting (READPAST): jobs that are locked at the moment are left out. Either a page of the jobs in one state,
-- or one job by its id, whatever its state.
-- @state: ready, scheduled, claimed, done, dead, archived. Pages are as the index of the state has them: ready in the order of the claims (those that
-- must run alone, then by priority and id; in a lifo queue the newest first), scheduled by (due_at, job_id), done, dead and archived by (finished_at,
-- job_id), claimed by job_id. The next page begins after the last row of this one, which is named by its job_id (@after) and what else the order
-- needs. A page may be short; after the last job comes one with no row.
--
-- A page at any depth costs its rows: two seeks, first for the rest of the same time or priority, then for what follows. An OR of the two, or >= and
-- a filter, would read the same time's million jobs for each page again. Only the claimed jobs are sorted, by id: as many as the workers hold.
-- First the ids, from entries of the index alone; then the rows. So it holds one lock at a time, and never waits.
--
-- Result: job_id, state, priority, alone, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, kind, dedup_key,
-- correlation_id, payload_utf16, payload, payload_text, error, output, output_text.
-- The texts are for reading in a tool: UTF-16 as it is, bytes if they are printable ASCII (tabs and line ends, too). NULL where they are not: UTF-8
-- beyond ASCII cannot be decoded before SQL Server 2019.
CREATE OR ALTER PROCEDURE [readpast].[peek]
    @queue          nvarchar(129),
    @state          varchar(32)   = NULL,
    @after          bigint       = NULL,  -- NULL: the first page
    @max            int          = 100,
    @after_time     datetime2(3) = NULL,  -- scheduled: due_at; done, dead, archived: finished_at
    @after_priority smallint     = NULL,  -- ready
    @after_alone    bit          = 0,     -- ready
    @job_id         bigint       = NULL,  -- this one, instead of a state
    @texts          bit          = 1      -- 0: payload_text and output_text are NULL, for programs that read the bytes
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @claim_order varchar(4), @found int = 0, @is_archived bit = 0, @message nvarchar(2048);
DECLARE @page TABLE (place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED, job_id bigint NOT NULL);
-- What is not plain text, when it is looked for in the characters' own order (BIN2).
DECLARE @not_text nvarchar(20) = CONCAT(N'%[^ -~', NCHAR(9), NCHAR(10), NCHAR(13), N']%');

SELECT @queue_id = queue_id, @claim_order = claim_order FROM [readpast].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [readpast].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @job_id IS NULL AND (@state IS NULL OR @state NOT IN ('ready', 'scheduled', 'claimed', 'done', 'dead', 'archived'))
BEGIN
    SET @message = CONCAT(N'state is ''', @state, N'''; it must be ready, scheduled, claimed, done, dead or archived');
    THROW 58003, @message, 1;
END;
IF @job_id IS NOT NULL AND (@state IS NOT NULL OR @after IS NOT NULL)
    THROW 58003, N'job_id is for one job, whatever its state: it cannot stand beside state and after', 1;
IF @max IS NULL OR @max < 0
    THROW 58003, N'max must be 0 or more', 1;
IF @after IS NOT NULL AND (@state = 'ready' AND @after_priority IS NULL
                           OR @state IN ('scheduled', 'done', 'dead', 'archived') AND @after_time IS NULL)
    THROW 58003, N'after is not enough for the next page: give after_priority, too (ready), or after_time (scheduled, done, dead, archived)', 1;

IF @after IS NULL
BEGIN
    SET @after = 0;
    SET @after_time = '00010101';
    SET @after_priority = -32768;
    SET @after_alone = 1;
END;

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
        INSERT @page (job_id)
        SELECT TOP (@max) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1 AND priority = @after_priority AND job_id > @after
        ORDER BY job_id
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
        INSERT @page (job_id)
        SELECT TOP (@max - @found) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
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
        INSERT @page (job_id)
        SELECT TOP (@max - @found) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND priority = @after_priority AND job_id < @after
        ORDER BY job_id DESC
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
        INSERT @page (job_id)
        SELECT TOP (@max - @found) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND priority > @after_priority
        ORDER BY priority, job_id DESC
        OPTION (MAXDOP 1);
    END;
    ELSE
    BEGIN
        INSERT @page (job_id)
        SELECT TOP (@max - @found) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority = @after_priority AND job_id > @after
        ORDER BY job_id
        OPTION (MAXDOP 1);
        SET @found = @found + @@ROWCOUNT;
        INSERT @page (job_id)
        SELECT TOP (@max - @found) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND priority > @after_priority
        ORDER BY priority, job_id
        OPTION (MAXDOP 1);
    END;
END;
ELSE IF @state = 'scheduled'
BEGIN
    INSERT @page (job_id)
    SELECT TOP (@max) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND due_at = @after_time AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id)
    SELECT TOP (@max - @found) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND due_at > @after_time
    ORDER BY due_at, job_id
    OPTION (MAXDOP 1);
END;
ELSE IF @state = 'claimed'
    INSERT @page (job_id)
    SELECT TOP (@max) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_claimed))
    WHERE queue_id = @queue_id AND state = 2 AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
ELSE IF @state = 'done'
BEGIN
    INSERT @page (job_id)
    SELECT TOP (@max) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = 3 AND ended = 1 AND finished_at = @after_time AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id)
    SELECT TOP (@max - @found) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = 3 AND ended = 1 AND finished_at > @after_time
    ORDER BY finished_at, job_id
    OPTION (MAXDOP 1);
END;
ELSE IF @state = 'dead'
BEGIN
    INSERT @page (job_id)
    SELECT TOP (@max) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = 4 AND ended = 1 AND finished_at = @after_time AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id)
    SELECT TOP (@max - @found) job_id FROM [readpast].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = 4 AND ended = 1 AND finished_at > @after_time
    ORDER BY finished_at, job_id
    OPTION (MAXDOP 1);
END;
ELSE
BEGIN
    SET @is_archived = 1;
    INSERT @page (job_id)
    SELECT TOP (@max) job_id FROM [readpast].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND finished_at = @after_time AND job_id > @after
    ORDER BY job_id
    OPTION (MAXDOP 1);
    SET @found = @@ROWCOUNT;
    INSERT @page (job_id)
    SELECT TOP (@max - @found) job_id FROM [readpast].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND finished_at > @after_time
    ORDER BY finished_at, job_id
    OPTION (MAXDOP 1);
END;

-- The bytes as text go by nvarchar: COLLATE on varchar converts between code pages, and letters may become others on the way. (What is no ASCII in
-- the database's code page is none in Unicode.)
IF @is_archived = 1
    SELECT j.job_id, CAST('archived' AS varchar(9)) AS state, j.priority, CAST(0 AS bit) AS alone, j.attempt, j.fence, j.enqueued_at, j.due_at,
           j.worker_id, j.claimed_at, j.finished_at, j.run_us, j.kind, j.dedup_key, j.correlation_id, j.payload_utf16, j.payload,
           CASE WHEN @texts = 0 THEN NULL
                WHEN j.payload_utf16 = 1 THEN CAST(j.payload AS nvarchar(max))
                WHEN CAST(CAST(j.payload AS varchar(max)) AS nvarchar(max)) COLLATE Latin1_General_100_BIN2 NOT LIKE @not_text
                    THEN CAST(CAST(j.payload AS varchar(max)) AS nvarchar(max)) END AS payload_text,
           j.error, j.output,
           CASE WHEN @texts = 0 THEN NULL
                WHEN CAST(CAST(j.output AS varchar(max)) AS nvarchar(max)) COLLATE Latin1_General_100_BIN2 NOT LIKE @not_text
                    THEN CAST(CAST(j.output AS varchar(max)) AS nvarchar(max)) END AS output_text
    FROM @page AS p
    INNER LOOP JOIN [readpast].[archive] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_pk)) ON j.job_id = p.job_id
    WHERE j.queue_id = @queue_id
    ORDER BY p.place
    OPTION (MAXDOP 1);
ELSE
    SELECT j.job_id,
           CAST(CASE j.state WHEN 0 THEN 'ready' WHEN 1 THEN 'scheduled' WHEN 2 THEN 'claimed' WHEN 3 THEN 'done' ELSE 'dead' END
                AS varchar(9)) AS state,
           j.priority, j.alone, j.attempt, j.fence, j.enqueued_at, j.due_at, j.worker_id, j.claimed_at, j.finished_at, j.run_us, j.kind, j.dedup_key,
           j.correlation_id, j.payload_utf16, j.payload,
           CASE WHEN @texts = 0 THEN NULL
                WHEN j.payload_utf16 = 1 THEN CAST(j.payload AS nvarchar(max))
                WHEN CAST(CAST(j.payload AS varchar(max)) AS nvarchar(max)) COLLATE Latin1_General_100_BIN2 NOT LIKE @not_text
                    THEN CAST(CAST(j.payload AS varchar(max)) AS nvarchar(max)) END AS payload_text,
           j.error, j.output,
           CASE WHEN @texts = 0 THEN NULL
                WHEN CAST(CAST(j.output AS varchar(max)) AS nvarchar(max)) COLLATE Latin1_General_100_BIN2 NOT LIKE @not_text
                    THEN CAST(CAST(j.output AS varchar(max)) AS nvarchar(max)) END AS output_text
    FROM @page AS p
    INNER LOOP JOIN [readpast].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_pk)) ON j.job_id = p.job_id
    WHERE j.queue_id = @queue_id
        AND (@job_id IS NOT NULL
             OR j.state = CASE @state WHEN 'ready' THEN 0 WHEN 'scheduled' THEN 1 WHEN 'claimed' THEN 2 WHEN 'done' THEN 3 WHEN 'dead' THEN 4 END)
    ORDER BY p.place
    OPTION (MAXDOP 1);
GO

-- 460_schema_info.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- What a client needs to know before it starts: the installed version, what of the database or the session would make the other procedures
-- fail, and whether a queue exists. A client of version v works with this schema where min_compatible <= v <= version.
-- Result: version, min_compatible, database_name, read_only, read_committed_snapshot, wrong_set_options (empty when all is well),
-- queue_exists (NULL without @queue). Later versions add columns at the end.
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
                 ELSE 0 END AS bit) AS queue_exists;
GO

-- 900_roles.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The roles. Each may run the procedures that are named here, pass the table types that they take, and do nothing else; procedures that are named
-- nowhere (next_priority, lower_marks, sweep, look, tend) are called by the others only. Nobody may touch a table: procedures and tables have
-- one owner, so that SQL Server asks only whether the caller may run the procedure (ownership chaining).
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
-- Adds jobs.
GRANT EXECUTE ON OBJECT::[readpast].[enqueue] TO [readpast_producer];
GRANT EXECUTE ON OBJECT::[readpast].[enqueue_batch] TO [readpast_producer];
GRANT EXECUTE ON OBJECT::[readpast].[schema_info] TO [readpast_producer];
GRANT EXECUTE ON TYPE::[readpast].[enqueue_list] TO [readpast_producer];
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Runs jobs.
GRANT EXECUTE ON OBJECT::[readpast].[claim] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[await_jobs] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[finish] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[finish_one] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[release] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[recover] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[reap] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[register_worker] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[heartbeat] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[unregister_worker] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[promote] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[sample] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[unfinished] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[expire] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[stats] TO [readpast_worker];
GRANT EXECUTE ON OBJECT::[readpast].[schema_info] TO [readpast_worker];
GRANT EXECUTE ON TYPE::[readpast].[finish_list] TO [readpast_worker];
GRANT EXECUTE ON TYPE::[readpast].[job_list] TO [readpast_worker];
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Sees everything, mends and throws away, makes queues, and adds jobs.
GRANT EXECUTE ON OBJECT::[readpast].[create_queue] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[enqueue] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[enqueue_batch] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[stats] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[sample] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[unfinished] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[pause] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[resume] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[requeue] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[purge] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[peek] TO [readpast_operator];
GRANT EXECUTE ON OBJECT::[readpast].[schema_info] TO [readpast_operator];
GRANT EXECUTE ON TYPE::[readpast].[enqueue_list] TO [readpast_operator];
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Sees everything and changes nothing.
GRANT EXECUTE ON OBJECT::[readpast].[stats] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[sample] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[unfinished] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[peek] TO [readpast_monitor];
GRANT EXECUTE ON OBJECT::[readpast].[schema_info] TO [readpast_monitor];
GO

-- 990_end.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- End of the installation: from here on the schema counts as version 1.
IF NOT EXISTS (SELECT 1 FROM [readpast].[schema_version] WHERE version = 1)
    INSERT [readpast].[schema_version] (version, min_compatible) VALUES (1, 1);
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
