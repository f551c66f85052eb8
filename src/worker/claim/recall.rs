//! Takes postponed jobs back when there is room for them.

use crate::connection::Session;
use crate::error::Error;
use crate::id::{Fence, JobId};
use crate::worker::lease::Registration;
use crate::worker::run::Executor;

/// Makes postponed jobs ready for which there is room by now, or `all`, so that the next claim takes them.
///
/// # Errors
///
/// A transient error, after which the same jobs can be recalled. Jobs that cannot be recalled for any other reason come
/// back when they are due.
pub(super) async fn recall(
    session: &mut Session,
    executor: &Executor,
    queue: &str,
    registration: &Registration,
    all: bool,
) -> Result<(), Error> {
    loop {
        // The postponement of a job that is still held is not confirmed. Its confirmation wakes the prefetcher.
        let is_confirmed = |(job_id, fence): &(JobId, Fence)| !registration.holds(*job_id, *fence);
        let jobs: Vec<_> = executor.recallable(all).into_iter().filter(is_confirmed).collect();
        if jobs.is_empty() {
            return Ok(());
        }
        let recalled = match session.recall(queue, registration.worker_id, &jobs).await {
            Ok(recalled) => recalled,
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                tracing::warn!(jobs = jobs.len(), %error, "cannot recall postponed jobs; they come back when they are due");
                Vec::new()
            }
        };
        tracing::debug!(jobs = jobs.len(), recalled = recalled.len(), "recalled postponed jobs");
        executor.recalled(&jobs, &recalled);
        if recalled.len() == jobs.len() {
            return Ok(());
        }
        // Others have the rest, which may keep further jobs from being asked for.
    }
}
