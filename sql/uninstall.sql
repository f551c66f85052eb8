-- Removes readpast from a database, with all its jobs. Stop the workers first, and remove the members of its five roles (ALTER ROLE ... DROP MEMBER):
-- a role that has some cannot be dropped (error 15144), and then nothing is.
--     sqlcmd -b -S SERVER -d DATABASE -v schema=readpast -i uninstall.sql
-- Everybody sees which schemas there are. But to a login that may not see all of the database, the tables, the roles' members and the sinks would not
-- be there ("Metadata visibility configuration", docs/relational-databases/security/metadata-visibility-configuration.md).
IF SCHEMA_ID(N'$(schema)') IS NOT NULL AND ISNULL(HAS_PERMS_BY_NAME(QUOTENAME(DB_NAME()), N'DATABASE', N'VIEW DEFINITION'), 0) = 0
    THROW 58003, N'this login may not see what is in the schema $(schema), nor who uses it; uninstall readpast as a member of db_owner', 1;
IF SCHEMA_ID(N'$(schema)') IS NOT NULL AND OBJECT_ID(N'[$(schema)].[schema_version]', N'U') IS NULL
    THROW 58003, N'readpast was never installed in the schema $(schema): what is in it is somebody else''s', 1;
-- Nested: only an installed schema has the table of the second condition.
IF OBJECT_ID(N'[$(schema)].[adoption]', N'U') IS NOT NULL
BEGIN
    IF EXISTS (SELECT 1 FROM [$(schema)].[jobs])
        THROW 58003, N'schema $(schema) is the adoption of a table and holds rows of it, which would be lost; readpast adopt --remove gives them back first', 1;
END;
IF EXISTS (SELECT 1
           FROM sys.database_role_members AS m
           INNER JOIN sys.database_principals AS r ON r.principal_id = m.role_principal_id
           WHERE r.name IN (N'$(schema)_autoscaler', N'$(schema)_monitor', N'$(schema)_operator', N'$(schema)_producer', N'$(schema)_worker'))
    THROW 58003, N'the roles $(schema)_producer, _worker, _operator, _monitor and _autoscaler have members and could not be dropped; remove them first: ALTER ROLE ... DROP MEMBER ...', 1;
IF EXISTS (SELECT 1 FROM sys.parameters WHERE user_type_id = TYPE_ID(N'[$(schema)].[sink_list]'))
    THROW 58003, N'procedures that are not readpast''s, the sinks, use the table type [$(schema)].[sink_list], which could not be dropped; drop them first', 1;
DROP PROCEDURE IF EXISTS [$(schema)].[list_audit];
DROP PROCEDURE IF EXISTS [$(schema)].[end_audit];
DROP PROCEDURE IF EXISTS [$(schema)].[begin_audit];
DROP PROCEDURE IF EXISTS [$(schema)].[list_batches];
DROP PROCEDURE IF EXISTS [$(schema)].[cancel_batch];
DROP PROCEDURE IF EXISTS [$(schema)].[seal_batch];
DROP PROCEDURE IF EXISTS [$(schema)].[create_batch];
DROP PROCEDURE IF EXISTS [$(schema)].[list_schedules];
DROP PROCEDURE IF EXISTS [$(schema)].[run_schedule_now];
DROP PROCEDURE IF EXISTS [$(schema)].[resume_schedule];
DROP PROCEDURE IF EXISTS [$(schema)].[pause_schedule];
DROP PROCEDURE IF EXISTS [$(schema)].[delete_schedule];
DROP PROCEDURE IF EXISTS [$(schema)].[set_schedule];
DROP PROCEDURE IF EXISTS [$(schema)].[schema_info];
DROP PROCEDURE IF EXISTS [$(schema)].[list_errors];
DROP PROCEDURE IF EXISTS [$(schema)].[find_job];
DROP PROCEDURE IF EXISTS [$(schema)].[progress_of];
DROP PROCEDURE IF EXISTS [$(schema)].[peek_attempts];
DROP PROCEDURE IF EXISTS [$(schema)].[peek];
DROP PROCEDURE IF EXISTS [$(schema)].[delete_queue];
DROP PROCEDURE IF EXISTS [$(schema)].[delete_empty_queue];
DROP PROCEDURE IF EXISTS [$(schema)].[purge];
DROP PROCEDURE IF EXISTS [$(schema)].[set_priority];
DROP PROCEDURE IF EXISTS [$(schema)].[promote_now];
DROP PROCEDURE IF EXISTS [$(schema)].[outcomes];
DROP PROCEDURE IF EXISTS [$(schema)].[cancel];
DROP PROCEDURE IF EXISTS [$(schema)].[requeue];
DROP PROCEDURE IF EXISTS [$(schema)].[note_requeued];
DROP PROCEDURE IF EXISTS [$(schema)].[resume];
DROP PROCEDURE IF EXISTS [$(schema)].[pause];
DROP PROCEDURE IF EXISTS [$(schema)].[backlog];
DROP PROCEDURE IF EXISTS [$(schema)].[list_history];
DROP PROCEDURE IF EXISTS [$(schema)].[list_workers];
DROP PROCEDURE IF EXISTS [$(schema)].[stats];
DROP PROCEDURE IF EXISTS [$(schema)].[fail_schedule];
DROP PROCEDURE IF EXISTS [$(schema)].[fire_schedule];
DROP PROCEDURE IF EXISTS [$(schema)].[due_schedules];
DROP PROCEDURE IF EXISTS [$(schema)].[expire];
DROP PROCEDURE IF EXISTS [$(schema)].[thin_history];
DROP PROCEDURE IF EXISTS [$(schema)].[unfinished];
DROP PROCEDURE IF EXISTS [$(schema)].[sample];
DROP PROCEDURE IF EXISTS [$(schema)].[promote];
DROP PROCEDURE IF EXISTS [$(schema)].[unregister_worker];
DROP PROCEDURE IF EXISTS [$(schema)].[note_history];
DROP PROCEDURE IF EXISTS [$(schema)].[checkpoints];
DROP PROCEDURE IF EXISTS [$(schema)].[note_progress];
DROP PROCEDURE IF EXISTS [$(schema)].[heartbeat];
DROP PROCEDURE IF EXISTS [$(schema)].[register_worker];
DROP PROCEDURE IF EXISTS [$(schema)].[reap];
DROP PROCEDURE IF EXISTS [$(schema)].[tend];
DROP PROCEDURE IF EXISTS [$(schema)].[recover];
DROP PROCEDURE IF EXISTS [$(schema)].[release];
DROP PROCEDURE IF EXISTS [$(schema)].[finish_one];
DROP PROCEDURE IF EXISTS [$(schema)].[finish_with];
DROP PROCEDURE IF EXISTS [$(schema)].[finish_mended];
DROP PROCEDURE IF EXISTS [$(schema)].[finish];
DROP PROCEDURE IF EXISTS [$(schema)].[call_sink];
DROP PROCEDURE IF EXISTS [$(schema)].[await_jobs];
DROP PROCEDURE IF EXISTS [$(schema)].[look];
DROP PROCEDURE IF EXISTS [$(schema)].[claim];
DROP PROCEDURE IF EXISTS [$(schema)].[claim_limited];
DROP PROCEDURE IF EXISTS [$(schema)].[claim_once];
DROP PROCEDURE IF EXISTS [$(schema)].[note_attempts];
DROP PROCEDURE IF EXISTS [$(schema)].[note_refused];
DROP PROCEDURE IF EXISTS [$(schema)].[sweep];
DROP PROCEDURE IF EXISTS [$(schema)].[lower_marks];
DROP PROCEDURE IF EXISTS [$(schema)].[widen_gap];
DROP PROCEDURE IF EXISTS [$(schema)].[next_priority];
DROP PROCEDURE IF EXISTS [$(schema)].[enqueue_batch];
DROP PROCEDURE IF EXISTS [$(schema)].[advance_groups];
DROP PROCEDURE IF EXISTS [$(schema)].[note_ends];
DROP PROCEDURE IF EXISTS [$(schema)].[lock_groups];
DROP PROCEDURE IF EXISTS [$(schema)].[end_batch];
DROP PROCEDURE IF EXISTS [$(schema)].[lock_batch];
DROP PROCEDURE IF EXISTS [$(schema)].[link_queue];
DROP PROCEDURE IF EXISTS [$(schema)].[enqueue];
DROP PROCEDURE IF EXISTS [$(schema)].[check_job];
DROP PROCEDURE IF EXISTS [$(schema)].[create_queue];
DROP PROCEDURE IF EXISTS [$(schema)].[check_text];
DROP PROCEDURE IF EXISTS [$(schema)].[raise];
DROP PROCEDURE IF EXISTS [$(schema)].[mend_text];
DROP PROCEDURE IF EXISTS [$(schema)].[refuse];
DROP PROCEDURE IF EXISTS [$(schema)].[unknown_queue];
DROP TYPE IF EXISTS [$(schema)].[progress_list];
DROP TYPE IF EXISTS [$(schema)].[id_list];
DROP TYPE IF EXISTS [$(schema)].[job_list];
DROP TYPE IF EXISTS [$(schema)].[sink_list];
DROP TYPE IF EXISTS [$(schema)].[follow_up_list];
DROP TYPE IF EXISTS [$(schema)].[member_list];
DROP TYPE IF EXISTS [$(schema)].[attempt_list];
DROP TYPE IF EXISTS [$(schema)].[finish_list];
DROP TYPE IF EXISTS [$(schema)].[detail_list];
DROP TYPE IF EXISTS [$(schema)].[enqueue_list];
DROP TABLE IF EXISTS [$(schema)].[refused_rows];
DROP TABLE IF EXISTS [$(schema)].[adoption];
DROP TABLE IF EXISTS [$(schema)].[audit];
DROP TABLE IF EXISTS [$(schema)].[history];
DROP TABLE IF EXISTS [$(schema)].[claim_rates];
DROP TABLE IF EXISTS [$(schema)].[claim_places];
DROP TABLE IF EXISTS [$(schema)].[linked_queues];
DROP TABLE IF EXISTS [$(schema)].[group_events];
DROP TABLE IF EXISTS [$(schema)].[groups];
DROP TABLE IF EXISTS [$(schema)].[batch_counts];
DROP TABLE IF EXISTS [$(schema)].[batch_additions];
DROP TABLE IF EXISTS [$(schema)].[batches];
DROP TABLE IF EXISTS [$(schema)].[schedules];
DROP TABLE IF EXISTS [$(schema)].[progress];
DROP TABLE IF EXISTS [$(schema)].[cancellations];
DROP TABLE IF EXISTS [$(schema)].[attempts];
DROP TABLE IF EXISTS [$(schema)].[marks];
DROP TABLE IF EXISTS [$(schema)].[duties];
DROP TABLE IF EXISTS [$(schema)].[samples];
DROP TABLE IF EXISTS [$(schema)].[workers];
DROP TABLE IF EXISTS [$(schema)].[archive];
DROP TABLE IF EXISTS [$(schema)].[jobs];
DROP SEQUENCE IF EXISTS [$(schema)].[job_ids];
DROP TABLE IF EXISTS [$(schema)].[queues];
DROP TABLE IF EXISTS [$(schema)].[schema_version];
DROP ROLE IF EXISTS [$(schema)_autoscaler];
DROP ROLE IF EXISTS [$(schema)_monitor];
DROP ROLE IF EXISTS [$(schema)_operator];
DROP ROLE IF EXISTS [$(schema)_producer];
DROP ROLE IF EXISTS [$(schema)_worker];
DROP SCHEMA IF EXISTS [$(schema)];
GO
