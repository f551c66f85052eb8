//! What both ways of running programs have in common.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use readpast::{Context, JobError};

use super::ending::{Why, pause};
use super::error_tail::ErrorTail;
use super::guard::Guard;
use super::process;
use super::program::Program;
use super::starting::Starting;

/// Which program is run, and within which limits.
pub struct Runner {
    pub program: Program,
    pub starting: Starting,
    pub guard: Arc<Guard>,
    /// Between the polite end and the other one.
    pub grace: Duration,
    /// Of one job, in bytes.
    pub max_output: usize,
}

const STOPPED: &str = "ended because the worker stops";
const LEASE_LOST: &str = "ended because the worker has lost its lease";
const CANCELLED: &str = "ended because the job was cancelled";

/// Whether a job's error says that its run was ended and decides nothing about it: the worker gives it back, no longer
/// holds it, or it is cancelled.
pub fn was_taken_away(error: &str) -> bool {
    [STOPPED, LEASE_LOST, CANCELLED].iter().any(|why| error.starts_with(why))
}

/// The error of a job whose program was ended before its time.
pub fn ended_early(why: Why, context: &Context, errors: &ErrorTail) -> JobError {
    match why {
        Why::TimeLimit => {
            let own = context.job().time_limit().map(|limit| format!(" of {}", humantime::format_duration(limit)));
            let what = format!("ended at its time limit{}", own.unwrap_or_default());
            JobError::retry(errors.after(&what))
        }
        // Somebody else has the job by then, or nobody wants it: only the log and, where it was cancelled, its row say
        // so.
        Why::Stopped => JobError::retry(errors.after(STOPPED)),
        Why::LeaseLost => JobError::retry(errors.after(LEASE_LOST)),
        Why::Cancelled | Why::OutputTooLong => JobError::retry(errors.after(CANCELLED)),
    }
}

/// How long after the end of a program the worker may learn that it is to end, too: a service manager tells all
/// processes at once, and theirs may be the first to act. (Short: a thread waits, also for a program that ends so by
/// itself.)
const TOLD_AT_ONCE: Duration = Duration::from_millis(200);

/// Whether a program has ended because the whole service, or everything in a terminal, was told to.
pub fn was_told_to_end(status: ExitStatus, context: &Context) -> bool {
    if !process::was_asked_to_end(status) {
        return false;
    }
    pause(context, TOLD_AT_ONCE);
    context.is_stopping()
}
