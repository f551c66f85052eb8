-- Removes readpast from a database, with all its jobs. First stop the workers, and remove the members of its five roles
-- (ALTER ROLE ... DROP MEMBER): a role with members cannot be dropped (error 15144), so nothing is dropped then. sqlcmd
-- -b -S SERVER -d DATABASE -v schema=readpast -i uninstall.sql Every login sees the schemas. But only a login that may
-- see the whole database sees all tables, role members and sinks ("Metadata visibility configuration",
-- docs/relational-databases/security/metadata-visibility-configuration.md).
IF SCHEMA_ID(N'$(schema)') IS NOT NULL
    AND ISNULL(HAS_PERMS_BY_NAME(QUOTENAME(DB_NAME()), N'DATABASE', N'VIEW DEFINITION'), 0) = 0
    THROW 58003, N'this login may not see all objects of schema $(schema); uninstall readpast as a db_owner', 1;
IF SCHEMA_ID(N'$(schema)') IS NOT NULL AND OBJECT_ID(N'[$(schema)].[schema_version]', N'U') IS NULL
    THROW 58003, N'readpast is not installed in schema $(schema); choose the schema of an installation', 1;
-- Nested, because only an installed schema has the table in the second condition.
IF OBJECT_ID(N'[$(schema)].[adoption]', N'U') IS NOT NULL
BEGIN
    IF EXISTS (SELECT 1 FROM [$(schema)].[jobs])
        THROW 58003, N'schema $(schema) holds rows of an adopted table; run readpast adopt --remove instead', 1;
END;
IF EXISTS (SELECT 1
           FROM sys.database_role_members AS m
           INNER JOIN sys.database_principals AS r ON r.principal_id = m.role_principal_id
           WHERE r.name IN (N'$(schema)_autoscaler', N'$(schema)_monitor', N'$(schema)_operator',
               N'$(schema)_producer', N'$(schema)_worker'))
    THROW 58003, N'roles of schema $(schema) have members; remove them first: ALTER ROLE ... DROP MEMBER ...', 1;
IF EXISTS (SELECT 1 FROM sys.parameters WHERE user_type_id = TYPE_ID(N'[$(schema)].[sink_list]'))
    THROW 58003, N'sinks use the table type [$(schema)].[sink_list]; drop these procedures first', 1;
DROP VIEW IF EXISTS [$(schema)].[queues_now], [$(schema)].[jobs_now], [$(schema)].[workers_now];
DROP PROCEDURE IF EXISTS [$(schema)].[do_duties], [$(schema)].[list_audit], [$(schema)].[end_audit], [$(schema)].[begin_audit], [$(schema)].[note_action],
    [$(schema)].[list_batches], [$(schema)].[cancel_batch], [$(schema)].[seal_batch], [$(schema)].[create_batch],
    [$(schema)].[list_schedules], [$(schema)].[run_schedule_now], [$(schema)].[resume_schedule],
    [$(schema)].[pause_schedule], [$(schema)].[delete_schedule], [$(schema)].[set_schedule], [$(schema)].[schema_info],
    [$(schema)].[list_errors], [$(schema)].[find_job], [$(schema)].[progress_of], [$(schema)].[list_graph], [$(schema)].[list_edges], [$(schema)].[job_logs], [$(schema)].[peek_attempts],
    [$(schema)].[peek], [$(schema)].[list_groups], [$(schema)].[set_group_weight], [$(schema)].[worker_wish], [$(schema)].[delete_queue], [$(schema)].[delete_empty_queue], [$(schema)].[purge],
    [$(schema)].[set_priority], [$(schema)].[skip], [$(schema)].[run_again], [$(schema)].[promote_now], [$(schema)].[outcomes], [$(schema)].[cancel],
    [$(schema)].[requeue], [$(schema)].[note_requeued], [$(schema)].[confirm_copy], [$(schema)].[resume_all],
    [$(schema)].[pause_all], [$(schema)].[list_holds], [$(schema)].[check_home], [$(schema)].[set_hold], [$(schema)].[resume], [$(schema)].[pause],
    [$(schema)].[backlog], [$(schema)].[list_kinds], [$(schema)].[list_history], [$(schema)].[list_workers],
    [$(schema)].[stats], [$(schema)].[fail_schedule], [$(schema)].[fire_schedule], [$(schema)].[due_schedules],
    [$(schema)].[expire], [$(schema)].[thin_history], [$(schema)].[unfinished], [$(schema)].[sample],
    [$(schema)].[promote], [$(schema)].[most_resources], [$(schema)].[peaks_by_kind],
    [$(schema)].[unregister_worker], [$(schema)].[note_kinds],
    [$(schema)].[note_history], [$(schema)].[parents], [$(schema)].[checkpoints], [$(schema)].[note_progress], [$(schema)].[heartbeat],
    [$(schema)].[register_worker],
    [$(schema)].[reap], [$(schema)].[tend], [$(schema)].[recover], [$(schema)].[recall], [$(schema)].[release], [$(schema)].[finish_one],
    [$(schema)].[finish_with], [$(schema)].[finish_mended], [$(schema)].[finish], [$(schema)].[call_sink],
    [$(schema)].[wake_moved], [$(schema)].[move_jobs], [$(schema)].[await_jobs], [$(schema)].[look],
    [$(schema)].[claim], [$(schema)].[claim_runs], [$(schema)].[claim_limited], [$(schema)].[claim_aged], [$(schema)].[claim_fair],
    [$(schema)].[claim_once],
    [$(schema)].[note_attempts], [$(schema)].[note_refused], [$(schema)].[cancel_expired], [$(schema)].[sweep], [$(schema)].[lower_marks],
    [$(schema)].[widen_gap], [$(schema)].[next_priority], [$(schema)].[advance_edges], [$(schema)].[note_edges], [$(schema)].[enqueue_batch], [$(schema)].[advance_groups],
    [$(schema)].[note_ends], [$(schema)].[lock_groups], [$(schema)].[end_batch], [$(schema)].[lock_batch],
    [$(schema)].[watch_parents], [$(schema)].[link_queue], [$(schema)].[enqueue], [$(schema)].[room],
    [$(schema)].[latest_start], [$(schema)].[check_job], [$(schema)].[create_queue],
    [$(schema)].[check_needs], [$(schema)].[check_text], [$(schema)].[raise], [$(schema)].[mend_text],
    [$(schema)].[refuse], [$(schema)].[unknown_queue];
DROP TYPE IF EXISTS [$(schema)].[kind_list];
DROP TYPE IF EXISTS [$(schema)].[progress_list];
DROP TYPE IF EXISTS [$(schema)].[id_list];
DROP TYPE IF EXISTS [$(schema)].[job_list];
DROP TYPE IF EXISTS [$(schema)].[sink_list];
DROP TYPE IF EXISTS [$(schema)].[change_list];
DROP TYPE IF EXISTS [$(schema)].[follow_up_list];
DROP TYPE IF EXISTS [$(schema)].[member_list];
DROP TYPE IF EXISTS [$(schema)].[attempt_list];
DROP TYPE IF EXISTS [$(schema)].[usage_list];
DROP TYPE IF EXISTS [$(schema)].[finish_list];
DROP TYPE IF EXISTS [$(schema)].[edge_list];
DROP TYPE IF EXISTS [$(schema)].[detail_list];
DROP TYPE IF EXISTS [$(schema)].[enqueue_list];
DROP TABLE IF EXISTS [$(schema)].[refused_rows], [$(schema)].[adoption], [$(schema)].[audit],
    [$(schema)].[kind_history], [$(schema)].[history], [$(schema)].[claim_rates], [$(schema)].[claim_places],
    [$(schema)].[edge_events], [$(schema)].[edges], [$(schema)].[linked_queues], [$(schema)].[group_events], [$(schema)].[group_rounds],
    [$(schema)].[name_wishes], [$(schema)].[group_weights], [$(schema)].[groups], [$(schema)].[batch_counts],
    [$(schema)].[batch_additions], [$(schema)].[batches], [$(schema)].[schedules], [$(schema)].[progress],
    [$(schema)].[cancellations], [$(schema)].[attempts], [$(schema)].[logs], [$(schema)].[marks], [$(schema)].[depths], [$(schema)].[duties],
    [$(schema)].[samples], [$(schema)].[workers], [$(schema)].[archive], [$(schema)].[jobs];
DROP SEQUENCE IF EXISTS [$(schema)].[job_ids];
DROP TABLE IF EXISTS [$(schema)].[holds], [$(schema)].[homes], [$(schema)].[queues], [$(schema)].[schema_version];
DROP ROLE IF EXISTS [$(schema)_autoscaler];
DROP ROLE IF EXISTS [$(schema)_monitor];
DROP ROLE IF EXISTS [$(schema)_operator];
DROP ROLE IF EXISTS [$(schema)_producer];
DROP ROLE IF EXISTS [$(schema)_worker];
DROP SCHEMA IF EXISTS [$(schema)];
GO
