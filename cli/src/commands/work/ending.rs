//! Ends a run early, gracefully first.

use std::time::{Duration, Instant};

use readpast::Context;

use super::process::Process;

/// How often to check whether a run must end. A check is cheap.
const LOOK: Duration = Duration::from_millis(50);

/// Why a run is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    TimeLimit,
    /// The worker stops immediately, or its shutdown deadline has passed.
    Stopped,
    LeaseLost,
    Cancelled,
    /// The output is too long.
    OutputTooLong,
}

impl Why {
    /// Why this job must end.
    pub fn of(context: &Context) -> Why {
        if is_over(context) {
            Why::TimeLimit
        } else if context.is_stopping_now() {
            Why::Stopped
        } else if context.is_lease_lost() {
            Why::LeaseLost
        } else {
            Why::Cancelled
        }
    }
}

/// How far the end of a run has come: not begun, SIGTERM sent, or SIGKILL sent.
pub struct Ending {
    grace: Duration,
    begun: Option<(Why, Instant)>,
}

impl Ending {
    pub fn new(grace: Duration) -> Ending {
        Ending { grace, begun: None }
    }

    /// Checks whether the run must end, and continues its end. Returns how long to wait before the next check.
    pub fn look(&mut self, process: &mut Process, context: &Context) -> Duration {
        if self.begun.is_none() && context.is_cancelled() {
            self.begin(process, Why::of(context));
        }
        let until_next = match self.begun {
            None => context.time_left(),
            Some((_, begun)) if begun.elapsed() < self.grace => Some(self.grace - begun.elapsed()),
            Some(_) => {
                process.kill();
                None
            }
        };
        until_next.map_or(LOOK, |until| until.min(LOOK))
    }

    /// Asks the program to end.
    pub fn begin(&mut self, process: &mut Process, why: Why) {
        if self.begun.is_none() {
            self.begun = Some((why, Instant::now()));
            process.ask_to_end();
        }
    }

    /// Whether more output can come: the program is running, or its children have not exited yet.
    pub fn goes_on(&self, process: &Process) -> bool {
        let within_grace = self.begun.is_some_and(|(_, begun)| begun.elapsed() < self.grace);
        !process.has_ended() || (within_grace && !process.is_closed())
    }

    pub fn why(&self) -> Option<Why> {
        self.begun.map(|(why, _)| why)
    }
}

pub fn is_over(context: &Context) -> bool {
    context.time_left() == Some(Duration::ZERO)
}

/// Pauses before a job starts. Returns false, possibly early, if the job may no longer start.
pub fn pause(context: &Context, pause: Duration) -> bool {
    let until = Instant::now() + pause;
    while !context.is_cancelled() && !context.is_stopping() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
    false
}
