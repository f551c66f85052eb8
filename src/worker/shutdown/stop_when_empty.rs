//! Stops a worker when its queue has no unfinished job, and meanwhile logs what the worker is waiting for.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::procedures::worker::Unfinished;
use crate::worker::state::WorkerState;

/// After how long without a job the log says what the drain is waiting for, and how often it repeats this.
const TELL_AFTER: Duration = Duration::from_secs(5);

const TELL_EVERY: Duration = Duration::from_secs(60);

/// The longest interval between checks while only scheduled jobs are left.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Stops the worker when a claim found nothing and SQL Server reports, twice in a row, that nothing is left. One report
/// is not enough: SQL Server reads one state after the other, and can miss a job that moves between them meanwhile.
/// With `due_within`, the drain does not wait for jobs that are due later.
///
/// While other workers still run jobs, or while jobs are scheduled, makes the prefetcher claim again after each pause.
pub(in crate::worker) async fn stop_when_empty(state: Arc<WorkerState>, due_within: Option<Duration>) {
    let WorkerState { queue, config, arrivals, stop, .. } = &*state;
    let poll_max = config.poll_max;
    let started_at = Instant::now();
    let mut session = state.session();
    let mut waiting = DrainWait::default();
    let mut empty_readings = 0;
    while empty_readings < 2 {
        arrivals.nothing_found().await;
        // This worker postponed jobs that had to wait for others of their kind: they now count as ready.
        let turns_in = state.tally.turns_in();
        let due_within = due_within.map(|within| within.saturating_sub(started_at.elapsed()).max(turns_in));
        let mut pause = poll_max;
        match session.unfinished(queue, due_within).await {
            Ok(left) if left.is_empty() => empty_readings += 1,
            Ok(left) => {
                empty_readings = 0;
                let (limited, quiet) = (arrivals.are_limited(), *state.quiet.borrow());
                waiting.goes_on(WaitsFor { left: &left, limited, quiet }, state.tally.run_times().jobs);
                if let Some(next_due) = left.next_due
                    && !left.ready
                    && !left.claimed
                {
                    pause = pause.max(next_due.min(LOOK_EVERY)); // new jobs are claimed all the same
                }
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "cannot check whether the queue is empty; retrying")
            }
            Err(error) => return stop.fail(error),
        }
        if empty_readings == 0 {
            stop.pause(pause).await;
        }
        arrivals.expect();
    }
    stop.stop();
}

/// How long no job has run, and when the log last said so.
#[derive(Default)]
struct DrainWait {
    since: Option<Instant>,
    told_at: Option<Instant>,
    /// How many jobs had run when the time without a job began.
    jobs_run: u64,
}

impl DrainWait {
    /// Called when jobs are left, but none can be claimed.
    fn goes_on(&mut self, waits_for: WaitsFor<'_>, jobs_run: u64) {
        let now = Instant::now();
        if self.since.is_none() || self.jobs_run != jobs_run {
            *self = DrainWait { since: Some(now), told_at: None, jobs_run };
        }
        let is_due = match (self.told_at, self.since) {
            (Some(told_at), _) => now - told_at >= TELL_EVERY,
            (None, since) => since.is_some_and(|since| now - since >= TELL_AFTER),
        };
        if is_due {
            self.told_at = Some(now);
            tracing::info!(%waits_for, next_due_s = waits_for.left.next_due.map(|due| due.as_secs()), "the queue is not drained yet");
        }
    }
}

/// Describes what a drain is waiting for.
struct WaitsFor<'a> {
    left: &'a Unfinished,
    /// The queue's own limits keep claims from jobs.
    limited: bool,
    /// An operator has asked this worker to claim nothing.
    quiet: bool,
}

impl fmt::Display for WaitsFor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitsFor { left: Unfinished { ready, scheduled, claimed, waiting, paused, next_due: _ }, limited, quiet } =
            self;
        let claims = !paused && !quiet;
        let reasons = [
            (*ready && *paused, "the queue to be resumed"),
            (*ready && !paused && *quiet, "this worker to be resumed (readpast worker resume)"),
            (*ready && claims && *limited, "jobs that the queue's limits keep back"),
            (*ready && claims && !limited, "jobs that another session has locked, or that must run alone"),
            (*claimed, "jobs that other workers hold"),
            (*scheduled, "jobs that are scheduled"),
            (*waiting, "jobs that wait for their turn in their groups"),
        ];
        let named: Vec<&str> = reasons.into_iter().filter(|(is_so, _)| *is_so).map(|(_, reason)| reason).collect();
        f.write_str(&named.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_said_in_words() {
        let left =
            Unfinished { ready: true, scheduled: true, claimed: false, waiting: false, paused: true, next_due: None };
        let waits_for = |left| WaitsFor { left, limited: false, quiet: false }.to_string();
        assert_eq!(waits_for(&left), "the queue to be resumed; jobs that are scheduled");
        let resumed = Unfinished { paused: false, scheduled: false, ..left };
        let limited = WaitsFor { left: &resumed, limited: true, quiet: false };
        assert_eq!(limited.to_string(), "jobs that the queue's limits keep back");
        let quiet = WaitsFor { left: &resumed, limited: true, quiet: true };
        assert_eq!(quiet.to_string(), "this worker to be resumed (readpast worker resume)");
        let left =
            Unfinished { ready: false, scheduled: false, claimed: true, waiting: false, paused: false, next_due: None };
        assert_eq!(waits_for(&left), "jobs that other workers hold");
    }

    #[test]
    fn a_wait_is_told_after_a_while_and_begins_anew_when_a_job_was_run() {
        let left =
            Unfinished { ready: false, scheduled: true, claimed: false, waiting: false, paused: false, next_due: None };
        fn waits_for(left: &Unfinished) -> WaitsFor<'_> {
            WaitsFor { left, limited: false, quiet: false }
        }
        let mut waiting = DrainWait::default();
        waiting.goes_on(waits_for(&left), 3);
        assert!(waiting.told_at.is_none());
        waiting.since = waiting.since.map(|since| since - TELL_AFTER);
        waiting.goes_on(waits_for(&left), 3);
        assert!(waiting.told_at.is_some());
        waiting.goes_on(waits_for(&left), 4);
        assert!(waiting.told_at.is_none());
    }
}
