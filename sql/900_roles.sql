-- The roles (README.md, "Who may do what"). Each role may execute the procedures listed here and pass their table
-- types. All other procedures are called only by procedures. No role needs permissions on tables, because procedures
-- and tables have one owner (ownership chaining). A later version must REVOKE the permissions that it removes.
IF DATABASE_PRINCIPAL_ID(N'$(schema)_producer') IS NULL
    CREATE ROLE [$(schema)_producer] AUTHORIZATION dbo;
GO
IF DATABASE_PRINCIPAL_ID(N'$(schema)_worker') IS NULL
    CREATE ROLE [$(schema)_worker] AUTHORIZATION dbo;
GO
IF DATABASE_PRINCIPAL_ID(N'$(schema)_operator') IS NULL
    CREATE ROLE [$(schema)_operator] AUTHORIZATION dbo;
GO
IF DATABASE_PRINCIPAL_ID(N'$(schema)_monitor') IS NULL
    CREATE ROLE [$(schema)_monitor] AUTHORIZATION dbo;
GO
IF DATABASE_PRINCIPAL_ID(N'$(schema)_autoscaler') IS NULL
    CREATE ROLE [$(schema)_autoscaler] AUTHORIZATION dbo;
GO

-- Adds jobs and waits for them.
GRANT EXECUTE ON OBJECT::[$(schema)].[enqueue] TO [$(schema)_producer];
GRANT EXECUTE ON OBJECT::[$(schema)].[enqueue_batch] TO [$(schema)_producer];
GRANT EXECUTE ON OBJECT::[$(schema)].[outcomes] TO [$(schema)_producer];
GRANT EXECUTE ON OBJECT::[$(schema)].[create_batch] TO [$(schema)_producer];
GRANT EXECUTE ON OBJECT::[$(schema)].[seal_batch] TO [$(schema)_producer];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_batches] TO [$(schema)_producer];
GRANT EXECUTE ON OBJECT::[$(schema)].[find_job] TO [$(schema)_producer];
GRANT EXECUTE ON OBJECT::[$(schema)].[schema_info] TO [$(schema)_producer];
GRANT EXECUTE ON TYPE::[$(schema)].[enqueue_list] TO [$(schema)_producer];
GRANT EXECUTE ON TYPE::[$(schema)].[detail_list] TO [$(schema)_producer];
GRANT EXECUTE ON TYPE::[$(schema)].[edge_list] TO [$(schema)_producer];
GRANT EXECUTE ON TYPE::[$(schema)].[id_list] TO [$(schema)_producer];
-- The table type of variables in cancel_expired and advance_edges.
GRANT EXECUTE ON TYPE::[$(schema)].[member_list] TO [$(schema)_producer];
GO

-- Runs jobs.
GRANT EXECUTE ON OBJECT::[$(schema)].[claim] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[await_jobs] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[finish] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[finish_with] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[finish_one] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[release] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[recall] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[recover] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[reap] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[register_worker] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[heartbeat] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[unregister_worker] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[note_progress] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[note_kinds] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[peaks_by_kind] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[most_resources] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[checkpoints] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[parents] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[promote] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[sample] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[unfinished] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[expire] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[due_schedules] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[fire_schedule] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[fail_schedule] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[stats] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[schema_info] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[finish_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[usage_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[follow_up_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[change_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[job_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[attempt_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[member_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[progress_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[kind_list] TO [$(schema)_worker];
-- Table types of variables in finish_with and call_sink.
GRANT EXECUTE ON TYPE::[$(schema)].[enqueue_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[detail_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[edge_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[id_list] TO [$(schema)_worker];
GRANT EXECUTE ON TYPE::[$(schema)].[sink_list] TO [$(schema)_worker];
GO

-- Sees everything, changes jobs, creates queues and adds jobs.
GRANT EXECUTE ON OBJECT::[$(schema)].[create_queue] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[enqueue] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[enqueue_batch] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[delete_queue] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[stats] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_workers] TO [$(schema)_operator];
GRANT SELECT ON OBJECT::[$(schema)].[queues_now] TO [$(schema)_operator];
GRANT SELECT ON OBJECT::[$(schema)].[jobs_now] TO [$(schema)_operator];
GRANT SELECT ON OBJECT::[$(schema)].[workers_now] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_holds] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_errors] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[begin_audit] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[end_audit] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_audit] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_history] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_kinds] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_groups] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[backlog] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[sample] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[unfinished] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[pause] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[resume] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[do_duties] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[pause_all] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[resume_all] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[confirm_copy] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[requeue] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[cancel] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[promote_now] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[run_again] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[skip] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[set_priority] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[set_group_weight] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[worker_wish] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[outcomes] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[purge] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[create_batch] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[seal_batch] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[cancel_batch] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_batches] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[peek] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_edges] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_graph] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[progress_of] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[find_job] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[set_schedule] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[delete_schedule] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[pause_schedule] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[resume_schedule] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[run_schedule_now] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_schedules] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[peek_attempts] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[job_logs] TO [$(schema)_operator];
GRANT EXECUTE ON OBJECT::[$(schema)].[schema_info] TO [$(schema)_operator];
GRANT EXECUTE ON TYPE::[$(schema)].[enqueue_list] TO [$(schema)_operator];
GRANT EXECUTE ON TYPE::[$(schema)].[id_list] TO [$(schema)_operator];
GRANT EXECUTE ON TYPE::[$(schema)].[detail_list] TO [$(schema)_operator];
GRANT EXECUTE ON TYPE::[$(schema)].[edge_list] TO [$(schema)_operator];
-- Table types of variables in cancel, purge and requeue.
GRANT EXECUTE ON TYPE::[$(schema)].[member_list] TO [$(schema)_operator];
-- For create_queue, because the catalog shows only objects that the caller may use.
GRANT EXECUTE ON TYPE::[$(schema)].[sink_list] TO [$(schema)_operator];
GO

-- Sees everything and changes nothing.
GRANT EXECUTE ON OBJECT::[$(schema)].[stats] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_workers] TO [$(schema)_monitor];
GRANT SELECT ON OBJECT::[$(schema)].[queues_now] TO [$(schema)_monitor];
GRANT SELECT ON OBJECT::[$(schema)].[jobs_now] TO [$(schema)_monitor];
GRANT SELECT ON OBJECT::[$(schema)].[workers_now] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_holds] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_errors] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_audit] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_history] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_kinds] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_groups] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[backlog] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[sample] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[unfinished] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[peek] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_edges] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_graph] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[progress_of] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[find_job] TO [$(schema)_monitor];
GRANT EXECUTE ON TYPE::[$(schema)].[id_list] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_schedules] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[peek_attempts] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[job_logs] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[list_batches] TO [$(schema)_monitor];
GRANT EXECUTE ON OBJECT::[$(schema)].[schema_info] TO [$(schema)_monitor];
GO

-- For an autoscaler, whose password is stored in the cluster: may only ask for the number of workers, and verify.
GRANT EXECUTE ON OBJECT::[$(schema)].[backlog] TO [$(schema)_autoscaler];
GRANT EXECUTE ON OBJECT::[$(schema)].[schema_info] TO [$(schema)_autoscaler];
GO
