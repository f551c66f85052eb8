//! The program, run from outside as a user runs it, against the dev server or, with READPAST_URL set, a real one.

mod adopt;
mod audit;
mod batches;
mod bench;
mod changes;
#[cfg(unix)]
mod check_program;
mod enqueue;
#[cfg(feature = "entra")]
mod entra;
mod errors;
mod health;
mod hostile_text;
#[cfg(unix)]
mod job_logs;
mod jobs;
mod json;
#[cfg(unix)]
mod prove;
#[cfg(unix)]
mod python;
mod queues;
mod readme;
mod roles;
#[cfg(unix)]
mod samples;
mod schedules;
mod schema;
#[path = "../../tests/support/server.rs"]
mod server;
#[cfg(target_os = "linux")]
mod service_manager;
mod stats;
mod support;
mod waiting;
mod web;
#[cfg(unix)]
mod work_ahead;
#[cfg(unix)]
mod work_ends;
#[cfg(unix)]
mod work_jobs;
#[cfg(unix)]
mod work_keep;
#[cfg(unix)]
mod work_kill;
#[cfg(target_os = "linux")]
mod work_memory;
#[cfg(unix)]
mod work_payloads;
#[cfg(target_os = "linux")]
mod work_placement;
#[cfg(target_os = "linux")]
mod work_recycling;
#[cfg(target_os = "linux")]
mod work_usage;
#[cfg(unix)]
mod worker_process;
#[cfg(unix)]
mod worker_wishes;
mod workers;

// On Windows a terminal cannot be asked whether it is as before, and nobody sends signals.
#[cfg(unix)]
mod dev_server;
#[cfg(unix)]
mod kerberos;
#[cfg(unix)]
mod proxy;
#[cfg(unix)]
mod pty;
#[cfg(unix)]
mod top;
#[cfg(unix)]
mod watching;
