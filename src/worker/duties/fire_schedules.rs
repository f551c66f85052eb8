//! Firing the schedules of a queue: the elected worker does this when `promote` reports that one is due.
//! ```text
//! promote ──one is due──▶ due_schedules ──▶ plan ──▶ fire_schedule, once per due time
//!                                            └──not readable──▶ fail_schedule
//! ```

use std::time::Instant;

use crate::connection::Session;
use crate::error::{Error, LOCK_TIME_OUT};
use crate::procedures::worker::DueSchedule;
use crate::time::rfc3339;
use crate::worker::state::{Duty, WorkerState};

use super::adaptive_timeout::AdaptiveTimeout;
use super::firing_plan::FiringPlan;

/// How many schedules one turn reads.
const BATCH: usize = 100;

/// Fires the due schedules. Returns whether there are more. The error of a schedule does not stop the worker.
pub(in crate::worker) async fn fire_schedules(
    state: &WorkerState,
    session: &mut Session,
    patience: &mut AdaptiveTimeout,
) -> bool {
    let asked_at = Instant::now();
    let due = session.within(patience.limit()).due_schedules(&state.queue, BATCH).await;
    patience.after(asked_at.elapsed(), &due);
    let due = match due {
        Ok(due) => due,
        Err(error) => {
            state.duty_failures.failed(Duty::Schedules, &error, &state.metrics);
            return false;
        }
    };
    let mut any_failure = false;
    let mut has_more = due.len() >= BATCH;
    for mut schedule in due {
        if !state.stop.is_running() {
            return false;
        }
        match fire(state, session, patience, &mut schedule).await {
            Ok(more) => has_more |= more,
            Err(FireFailure::Server(error)) => {
                state.duty_failures.failed(Duty::Schedules, &error, &state.metrics);
                return false;
            }
            Err(FireFailure::Worker(error, sql_error)) => {
                any_failure = true;
                state.duty_failures.failed_here(Duty::Schedules, error.clone(), sql_error, &state.metrics);
                failed(state, session, patience, &schedule, &error).await;
            }
            Err(FireFailure::Schedule(error)) => {
                any_failure |= !failed(state, session, patience, &schedule, &error).await;
            }
        }
    }
    if !any_failure {
        state.duty_failures.succeeded(Duty::Schedules);
    }
    has_more
}

enum FireFailure {
    /// SQL Server did not respond, or the error is transient, such as a deadlock. The next schedule would probably fail
    /// as well.
    Server(Error),
    /// This worker lacks a permission or a feature; another worker may succeed.
    Worker(String, Option<i32>),
    /// The schedule cannot be read, or SQL Server rejects it.
    Schedule(String),
}

/// Fires one schedule's due times and returns whether it has more. Each firing changes the schedule's revision. A later
/// failure is recorded under the latest revision.
async fn fire(
    state: &WorkerState,
    session: &mut Session,
    patience: &mut AdaptiveTimeout,
    due: &mut DueSchedule,
) -> Result<bool, FireFailure> {
    let plan = FiringPlan::of(due).map_err(|error| match cfg!(feature = "schedules") {
        true => FireFailure::Schedule(error),
        false => FireFailure::Worker(error, None),
    })?;
    for firing in &plan.firings {
        let asked_at = Instant::now();
        let fired = session.within(patience.limit()).fire_schedule(&state.queue, due, firing).await;
        patience.after(asked_at.elapsed(), &fired);
        let fired = fired.map_err(|error| match error.sql_number() {
            // An open transaction may lock only this schedule, so the others need not wait.
            Some(LOCK_TIME_OUT) => FireFailure::Schedule(error.to_string()),
            number if matches!(error, Error::PermissionDenied { .. } | Error::NotInstalled { .. }) => {
                FireFailure::Worker(error.to_string(), number)
            }
            Some(_) if !error.is_transient() => FireFailure::Schedule(error.to_string()),
            _ => FireFailure::Server(error),
        })?;
        // Another session has fired, changed or locked the schedule. If times are left, the schedule is due again.
        let Some(revision) = fired.revision else { return Ok(false) };
        due.revision = revision;
        if firing.at.is_some() {
            state.metrics.schedule_fires.increment(1);
        }
        if fired.added {
            state.arrivals.expect();
        }
    }
    if let Some(first) = plan.passed_over {
        state.metrics.schedule_skips.increment(1);
        let first = rfc3339(first);
        tracing::warn!(
            schedule = due.name,
            first,
            "a schedule missed more times than it makes up for; the earlier ones are skipped"
        );
    }
    Ok(plan.has_more)
}

/// Saves why a schedule is not fired. Returns whether saving succeeded.
async fn failed(
    state: &WorkerState,
    session: &mut Session,
    patience: &AdaptiveTimeout,
    due: &DueSchedule,
    error: &str,
) -> bool {
    state.metrics.schedule_failures.increment(1);
    // Logged once, not with every retry.
    if due.error.as_deref() != Some(error) {
        tracing::error!(schedule = due.name, error, "cannot fire the schedule; retrying every ten seconds");
    }
    let saved = session.within(patience.limit()).fail_schedule(&state.queue, due, error).await;
    if let Err(error) = &saved {
        state.duty_failures.failed(Duty::Schedules, error, &state.metrics);
        let sql_error = error.sql_number();
        tracing::warn!(schedule = due.name, sql_error, %error, "could not save why the schedule cannot be fired");
    }
    saved.is_ok()
}
