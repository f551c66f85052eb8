//! The labels of the metrics and all their values.

pub(super) type Labels = &'static [(&'static str, &'static [&'static str])];

pub(super) const QUEUE: Labels = &[("queue", &[])];

pub(super) const BY_KIND: Labels = &[("queue", &[]), ("kind", &[])];

pub(super) const BY_KIND_AND_OUTCOME: Labels = &[("queue", &[]), ("kind", &[]), ("outcome", &OUTCOMES)];

pub(super) const BY_REASON: Labels = &[("queue", &[]), ("reason", &REASONS)];

pub(super) const BY_DUTY: Labels = &[("queue", &[]), ("duty", &DUTIES)];

pub(super) const BY_PROCEDURE: Labels = &[("queue", &[]), ("procedure", &PROCEDURES)];

pub(super) const BY_ERROR: Labels = &[("queue", &[]), ("procedure", &PROCEDURES), ("error", &ERRORS)];

pub(super) const BY_STATE: Labels = &[("queue", &[]), ("state", &STATES)];

pub(super) const BY_LIMIT: Labels = &[("queue", &[]), ("by", &LIMITS)];

const OUTCOMES: [&str; 5] = ["done", "retry", "snooze", "moved", "dead"];

const REASONS: [&str; 4] = ["unknown_kind", "kind_limit", "too_large", "resources"];

/// The maintenance tasks of the elected worker.
pub(crate) const DUTIES: [&str; 5] = ["promote", "reap", "sample", "expire", "schedules"];

pub(super) const STATES: [&str; 6] = ["ready", "scheduled", "waiting", "claimed", "dead", "cancelled"];

pub(crate) const LIMITS: [&str; 8] = ["idle", "claim", "busy", "finish", "queue_limit", "resources", "memory", "quiet"];

/// The values of `procedure`: the procedures of the schema, `install` and `uninstall` for the scripts, and `connect`
/// for opening a connection.
pub(crate) const PROCEDURES: [&str; 76] = [
    "connect",
    "install",
    "uninstall",
    "schema_info",
    "create_queue",
    "delete_queue",
    "enqueue",
    "enqueue_batch",
    "outcomes",
    "claim",
    "checkpoints",
    "parents",
    "await_jobs",
    "recover",
    "finish",
    "finish_with",
    "finish_one",
    "release",
    "recall",
    "register_worker",
    "heartbeat",
    "unregister_worker",
    "note_progress",
    "note_kinds",
    "peaks_by_kind",
    "most_resources",
    "promote",
    "reap",
    "sample",
    "expire",
    "due_schedules",
    "fire_schedule",
    "fail_schedule",
    "unfinished",
    "stats",
    "list_workers",
    "list_history",
    "list_kinds",
    "list_groups",
    "pause",
    "resume",
    "pause_all",
    "resume_all",
    "confirm_copy",
    "list_holds",
    "requeue",
    "cancel",
    "promote_now",
    "run_again",
    "skip",
    "set_priority",
    "set_group_weight",
    "worker_wish",
    "purge",
    "peek",
    "find_job",
    "progress_of",
    "list_edges",
    "list_graph",
    "set_schedule",
    "delete_schedule",
    "pause_schedule",
    "resume_schedule",
    "run_schedule_now",
    "list_schedules",
    "peek_attempts",
    "job_logs",
    "list_errors",
    "create_batch",
    "seal_batch",
    "cancel_batch",
    "list_batches",
    "begin_audit",
    "end_audit",
    "list_audit",
    "other",
];

/// The values of `error`: SQL Server's numbers with a meaning here, and words for errors that SQL Server did not send.
pub(crate) const ERRORS: [&str; 77] = [
    "connect",
    "connection_lost",
    "credentials",
    "timed_out",
    "tls",
    "protocol",
    "other", //
    "-2",
    "64",
    "208",
    "229",
    "230",
    "233",
    "262",
    "297",
    "300",
    "596",
    "601",
    "615",
    "701",
    "845",
    "911",
    "916",
    "921",
    "922",
    "942",
    "976",
    "983",
    "1101",
    "1105",
    "1205",
    "1222",
    "1934",
    "2715",
    "2812",
    "3906",
    "3908",
    "3935",
    "4060",
    "4221",
    "6005",
    "9002",
    "9119",
    "10053",
    "10054",
    "10060",
    "10928",
    "10929",
    "10936",
    "17142",
    "18452",
    "18456",
    "18470",
    "18486",
    "18487",
    "18488",
    "37396",
    "40143",
    "40197",
    "40501",
    "40540",
    "40544",
    "40549",
    "40550",
    "40551",
    "40552",
    "40553",
    "40613",
    "49918",
    "49919",
    "49920",
    "58001",
    "58002",
    "58003",
    "58020",
    "58021",
    "58023",
];
