//! The settings and errors that are common to both ways of running programs: one program for each job, and programs
//! that stay.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use readpast::{Context, Job, JobError};

use super::ending::{Why, pause};
use super::error_tail::ErrorTail;
use super::guard::Guard;
use super::memory::MemoryLimits;
use super::process;
use super::program::Program;
use super::recycling::Recycling;
use super::starting::Starting;

pub struct Runner {
    pub program: Program,
    pub starting: Starting,
    pub guard: Arc<Guard>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The maximum output of one job, in bytes.
    pub max_output: usize,
    /// `None`: programs may use any amount of memory.
    pub memory: Option<MemoryLimits>,
    pub recycling: Recycling,
}

impl Runner {
    /// The limit of the memory of a job's program.
    pub fn memory_for(&self, job: &Job) -> Option<(&MemoryLimits, u64)> {
        self.memory.as_ref().map(|limits| (limits, limits.of(job)))
    }
}

const STOPPED: &str = "ended because the worker stops";
const LEASE_LOST: &str = "ended because the worker has lost its lease";
const CANCELLED: &str = "ended because the job was cancelled";

/// Whether an error only says that the run was ended early. Such an error does not determine the job's outcome: the
/// worker releases the job or no longer holds it, or the job is cancelled.
pub fn was_taken_away(error: &str) -> bool {
    [STOPPED, LEASE_LOST, CANCELLED].iter().any(|why| error.starts_with(why))
}

/// The error of a job whose program was ended early.
pub fn ended_early(why: Why, context: &Context, errors: &ErrorTail) -> JobError {
    match why {
        Why::TimeLimit => {
            let own = context.job().time_limit().map(|limit| format!(" of {}", humantime::format_duration(limit)));
            let what = format!("ended at its time limit{}", own.unwrap_or_default());
            JobError::retry(errors.after(&what))
        }
        // Only the log and, if cancelled, the row show this error.
        Why::Stopped => JobError::retry(errors.after(STOPPED)),
        Why::LeaseLost => JobError::retry(errors.after(LEASE_LOST)),
        Why::Cancelled | Why::OutputTooLong => JobError::retry(errors.after(CANCELLED)),
    }
}

/// How long after a program's exit to wait for the signal that stops the worker, too: a service manager signals all
/// processes together, and a program may react first. The time is short, because a thread waits.
const TOLD_AT_ONCE: Duration = Duration::from_millis(200);

/// Whether a program ended because its whole service or terminal was told to end.
pub fn was_told_to_end(status: ExitStatus, context: &Context) -> bool {
    if !process::was_asked_to_end(status) {
        return false;
    }
    pause(context, TOLD_AT_ONCE);
    context.is_stopping()
}
