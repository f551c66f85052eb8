//! All integration tests, one file a concern. They run against the dev server or, with `READPAST_URL`, against that SQL Server.

mod support;

mod at_most_once;
mod bad_input;
mod caller_transaction;
mod completion_policies;
mod dashboard;
mod deduplication;
mod delayed_start;
mod draining;
mod errors;
mod exactly_once_claims;
mod fairness;
mod fencing;
mod handlers;
mod install;
mod killed_workers;
mod leases;
mod limits;
mod logs;
mod metrics;
mod model;
mod network_faults;
mod no_job_lost;
mod orders;
mod payloads;
mod poison_jobs;
mod procedures;
mod prometheus;
mod readme;
mod readpast;
mod retries;
mod secrets;
mod server_errors;
mod shutdown;
mod wake_up;
