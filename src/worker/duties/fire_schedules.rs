//! Firing the schedules of a queue: what the worker that has the duties does when `promote` says that one is due.
//!
//! ```text
//! promote ──one is due──▶ due_schedules ──▶ plan ──▶ fire_schedule, once for each time
//!                                            └─cannot be read─▶ fail_schedule
//! ```

use std::time::Instant;

use crate::connection::Session;
use crate::error::{Error, LOCK_TIME_OUT};
use crate::procedures::worker::DueSchedule;
use crate::time::rfc3339;
use crate::worker::state::{Duty, WorkerState};

use super::firing_plan::FiringPlan;
use super::patience::Patience;

/// How many schedules are looked at in one turn.
const BATCH: usize = 100;

/// Fires what is due. Returns whether there is more. No error of a schedule stops the worker, which has other things to
/// do.
pub(in crate::worker) async fn fire_schedules(
    state: &WorkerState,
    session: &mut Session,
    patience: &mut Patience,
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
    let mut is_refused = false;
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
                is_refused = true;
                state.duty_failures.failed_here(Duty::Schedules, error.clone(), sql_error, &state.metrics);
                failed(state, session, patience, &schedule, &error).await;
            }
            Err(FireFailure::Schedule(error)) => failed(state, session, patience, &schedule, &error).await,
        }
    }
    if !is_refused {
        state.duty_failures.succeeded(Duty::Schedules);
    }
    has_more
}

/// Why a schedule was not fired.
enum FireFailure {
    /// SQL Server did not answer, or what failed passes by itself, as a deadlock does. The next one might fail as well.
    Server(Error),
    /// This worker may not fire it, or is built without what it takes; another may succeed.
    Worker(String, Option<i32>),
    /// It cannot be read, or SQL Server refuses it.
    Schedule(String),
}

/// Fires one schedule's times; returns whether there are more of them. Each changes its revision, under which a later
/// one's failure is noted.
async fn fire(
    state: &WorkerState,
    session: &mut Session,
    patience: &mut Patience,
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
            // (Somebody's open transaction may hold this schedule only: the others shall not wait for its end.)
            Some(LOCK_TIME_OUT) => FireFailure::Schedule(error.to_string()),
            number if matches!(error, Error::PermissionDenied { .. } | Error::NotInstalled { .. }) => {
                FireFailure::Worker(error.to_string(), number)
            }
            Some(_) if !error.is_transient() => FireFailure::Schedule(error.to_string()),
            _ => FireFailure::Server(error),
        })?;
        // Somebody else has fired or changed it, or is about to. If anything is left to do, it is due again.
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

async fn failed(state: &WorkerState, session: &mut Session, patience: &Patience, due: &DueSchedule, error: &str) {
    state.metrics.schedule_failures.increment(1);
    // Once, and not with every try.
    if due.error.as_deref() != Some(error) {
        tracing::error!(schedule = due.name, error, "cannot fire the schedule; retrying every ten seconds");
    }
    if let Err(error) = session.within(patience.limit()).fail_schedule(&state.queue, due, error).await {
        state.duty_failures.failed(Duty::Schedules, &error, &state.metrics);
        let sql_error = error.sql_number();
        tracing::warn!(schedule = due.name, sql_error, %error, "could not save why the schedule cannot be fired");
    }
}
