-- Migration to version 2: a job can have a time limit of its own (time_limit_ms, NULL: as its worker has it), and note checkpoints while it runs
-- (checkpointed: 1 where the table progress has one; a bit beside others takes no room of its own); a claimed one can have been asked to be
-- cancelled (cancelling, NULL: no), and cancelled ones are counted; a queue can have a sink (NULL: none).
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
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() = 1222
            THROW 58012, N'a table of schema $(schema) is being read or changed by another session, for longer than the installation may make others wait; run the scripts again when it has ended', 1;
        THROW;
    END CATCH;
END;
GO
