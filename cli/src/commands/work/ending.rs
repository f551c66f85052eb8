//! How a run is ended before its time: politely first.

use std::time::{Duration, Instant};

use readpast::Context;

use super::process::Process;

/// How often it is looked whether a run is to be ended. Nobody notices that much, and it costs nothing.
const LOOK: Duration = Duration::from_millis(50);

/// Why a run is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its time limit has passed.
    TimeLimit,
    /// The worker stops at once, or its deadline to stop has passed.
    Stopped,
    /// The worker's lease is lost.
    LeaseLost,
    /// Somebody has cancelled it.
    Cancelled,
    /// Its output is longer than it may be.
    OutputTooLong,
}

impl Why {
    /// Of a job that is to end.
    fn of(context: &Context) -> Why {
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

/// The end of one run: nothing yet, then SIGTERM, then SIGKILL.
pub struct Ending {
    grace: Duration,
    begun: Option<(Why, Instant)>,
}

impl Ending {
    pub fn new(grace: Duration) -> Ending {
        Ending { grace, begun: None }
    }

    /// Looks whether the run is to be ended, and goes on with its end. Returns for how long to wait for the program
    /// until the next look.
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

    /// Whether there is more to come from a program: it runs, or it has been asked to end, and what it had started may
    /// still be at it.
    pub fn goes_on(&self, process: &Process) -> bool {
        let within_grace = self.begun.is_some_and(|(_, begun)| begun.elapsed() < self.grace);
        !process.has_ended() || (within_grace && !process.is_closed())
    }

    /// Why it was ended, if it was.
    pub fn why(&self) -> Option<Why> {
        self.begun.map(|(why, _)| why)
    }
}

/// Whether the time limit has passed.
pub fn is_over(context: &Context) -> bool {
    context.time_left() == Some(Duration::ZERO)
}

/// Waits with a job in hand. Returns early, and false, when the job is not to be started any more.
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
