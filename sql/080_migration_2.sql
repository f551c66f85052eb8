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
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[schema_version] WHERE version >= 2)
BEGIN
    BEGIN TRY
        IF COL_LENGTH(N'[$(schema)].[jobs]', N'time_limit_ms') IS NULL
            ALTER TABLE [$(schema)].[jobs] ADD time_limit_ms int NULL;
        IF COL_LENGTH(N'[$(schema)].[jobs]', N'checkpointed') IS NULL
            ALTER TABLE [$(schema)].[jobs] ADD checkpointed bit NULL;
        IF COL_LENGTH(N'[$(schema)].[archive]', N'time_limit_ms') IS NULL
            ALTER TABLE [$(schema)].[archive] ADD time_limit_ms int NULL;
        -- Two names of 128 characters in brackets, where each ] is two.
        IF COL_LENGTH(N'[$(schema)].[queues]', N'sink') IS NULL
            ALTER TABLE [$(schema)].[queues] ADD sink nvarchar(517) NULL;
        IF COL_LENGTH(N'[$(schema)].[jobs]', N'cancelling') IS NULL
            ALTER TABLE [$(schema)].[jobs] ADD cancelling bit NULL;
        IF COL_LENGTH(N'[$(schema)].[samples]', N'cancelled') IS NULL
            ALTER TABLE [$(schema)].[samples] ADD cancelled bigint NULL;
        IF COL_LENGTH(N'[$(schema)].[jobs]', N'headers') IS NULL
            ALTER TABLE [$(schema)].[jobs] ADD headers nvarchar(1500) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[$(schema)].[jobs]', N'batch_id') IS NULL
            ALTER TABLE [$(schema)].[jobs] ADD batch_id bigint NULL;
        IF COL_LENGTH(N'[$(schema)].[jobs]', N'group_key') IS NULL
            ALTER TABLE [$(schema)].[jobs] ADD group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[$(schema)].[jobs]', N'in_turn') IS NULL
            ALTER TABLE [$(schema)].[jobs] ADD in_turn bit NULL;
        IF COL_LENGTH(N'[$(schema)].[jobs]', N'plain') IS NULL
            ALTER TABLE [$(schema)].[jobs] ADD plain bit NULL;
        IF COL_LENGTH(N'[$(schema)].[archive]', N'headers') IS NULL
            ALTER TABLE [$(schema)].[archive] ADD headers nvarchar(1500) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[$(schema)].[archive]', N'batch_id') IS NULL
            ALTER TABLE [$(schema)].[archive] ADD batch_id bigint NULL;
        IF COL_LENGTH(N'[$(schema)].[archive]', N'group_key') IS NULL
            ALTER TABLE [$(schema)].[archive] ADD group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[$(schema)].[samples]', N'waiting') IS NULL
            ALTER TABLE [$(schema)].[samples] ADD waiting bigint NULL;
        IF COL_LENGTH(N'[$(schema)].[samples]', N'open_batches') IS NULL
            ALTER TABLE [$(schema)].[samples] ADD open_batches bigint NULL;
        IF COL_LENGTH(N'[$(schema)].[queues]', N'group_limit') IS NULL
            ALTER TABLE [$(schema)].[queues] ADD group_limit int NOT NULL CONSTRAINT queues_group_limit DEFAULT 1;
        IF COL_LENGTH(N'[$(schema)].[queues]', N'retry_passes') IS NULL
            ALTER TABLE [$(schema)].[queues] ADD retry_passes bit NOT NULL CONSTRAINT queues_retry_passes DEFAULT 0;
        IF COL_LENGTH(N'[$(schema)].[queues]', N'max_running') IS NULL
            ALTER TABLE [$(schema)].[queues] ADD max_running int NULL;
        IF COL_LENGTH(N'[$(schema)].[queues]', N'rate_jobs') IS NULL
            ALTER TABLE [$(schema)].[queues] ADD rate_jobs int NULL;
        IF COL_LENGTH(N'[$(schema)].[queues]', N'rate_ms') IS NULL
            ALTER TABLE [$(schema)].[queues] ADD rate_ms bigint NULL;
        -- One statement: where the last column is there, all are.
        IF COL_LENGTH(N'[$(schema)].[workers]', N'limited_by') IS NULL
            ALTER TABLE [$(schema)].[workers]
            ADD reported_at datetime2(3) NULL, running int NULL, done bigint NULL, failed bigint NULL, done_per_s real NULL, failed_per_s real NULL,
                limited_by varchar(16) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[$(schema)].[workers]', N'noted_times') IS NULL
            ALTER TABLE [$(schema)].[workers]
            ADD report_no bigint NULL, dead bigint NULL, times varchar(1400) COLLATE Latin1_General_100_BIN2 NULL,
                noted_done bigint NULL, noted_failed bigint NULL, noted_dead bigint NULL,
                noted_times varchar(1400) COLLATE Latin1_General_100_BIN2 NULL;
        IF COL_LENGTH(N'[$(schema)].[samples]', N'notes') IS NULL
            ALTER TABLE [$(schema)].[samples] ADD notes int NOT NULL CONSTRAINT samples_notes DEFAULT 0;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() = 1222
            THROW 58012, N'a table of schema $(schema) is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
        THROW;
    END CATCH;
END;
GO
-- The unfinished jobs of a batch, and those that wait for their turn in a group, in the order in which they get it.
BEGIN TRY
    DECLARE @online nvarchar(20) = CASE WHEN CAST(SERVERPROPERTY(N'EngineEdition') AS int) IN (3, 5, 8) THEN N', ONLINE = ON' END;
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_batch', 'IndexID') IS NULL
    BEGIN
        IF @online IS NOT NULL
            EXEC (N'CREATE NONCLUSTERED INDEX jobs_batch ON [$(schema)].[jobs] (batch_id, job_id) WHERE batch_id IS NOT NULL AND ended = 0
                    WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF' + @online + N')');
        ELSE
            CREATE NONCLUSTERED INDEX jobs_batch ON [$(schema)].[jobs] (batch_id, job_id) WHERE batch_id IS NOT NULL AND ended = 0
                WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);
    END;
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_waiting', 'IndexID') IS NULL
    BEGIN
        IF @online IS NOT NULL
            EXEC (N'CREATE NONCLUSTERED INDEX jobs_waiting ON [$(schema)].[jobs] (queue_id, group_key, job_id) WHERE state = 6
                    WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF' + @online + N')');
        ELSE
            CREATE NONCLUSTERED INDEX jobs_waiting ON [$(schema)].[jobs] (queue_id, group_key, job_id) WHERE state = 6
                WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);
    END;
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() = 1222
        THROW 58012, N'a table of schema $(schema) is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
    THROW;
END CATCH;
GO
