//! Producers that wait.

#[path = "../../src/queue/waiters.rs"]
#[allow(dead_code, reason = "the model has no clock")]
mod waiters;

use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::thread::spawn;

use crate::id::JobId;
use crate::job::JobEnd;

use waiters::Waiters;

/// As the task of `src/queue/wait.rs`: it looks until nobody waits. Each look finds that all jobs have ended.
fn look(waiters: &Waiters) {
    loop {
        let (jobs, _) = waiters.begin_look();
        if jobs.is_empty() {
            return;
        }
        waiters.tell(jobs.into_iter().map(|job_id| (job_id, JobEnd)).collect());
    }
}

/// Three that come at any time are each told the end.
pub fn waiters() {
    let waiters = Arc::new(Waiters::default());
    let all = (0..3).map(|number| {
        let waiters = waiters.clone();
        spawn(move || {
            let waiting = waiters.list(JobId(number % 2));
            let task = waiting.needs_task.then(|| spawn(move || look(&waiters)));
            block_on(waiting.end).expect("it is told, not let go");
            task.into_iter().for_each(|task| task.join().unwrap());
        })
    });
    all.collect::<Vec<_>>().into_iter().for_each(|waiting| waiting.join().unwrap());
}
