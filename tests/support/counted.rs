//! A worker whose handler counts how often each job is run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use readpast::config::WorkerConfig;
use readpast::{Handlers, JobId, Queue, Summary, Worker};

/// How often each job was started, and its highest attempt.
pub type Runs = Arc<Mutex<HashMap<JobId, (u32, u32)>>>;

pub async fn counting_worker(queue: &Queue, config: &WorkerConfig) -> (Worker, Runs) {
    let runs = Runs::default();
    let ledger = runs.clone();
    let handlers = Handlers::any(move |job, _| {
        let mut ledger = ledger.lock();
        let (times, attempt) = ledger.entry(job.id()).or_default();
        *times += 1;
        *attempt = job.attempt().max(*attempt);
        Ok(())
    });
    let worker = Worker::builder(queue, handlers).config(config).start().await.unwrap();
    (worker, runs)
}

/// Drains a queue; fails the test when it does not end.
pub async fn drained(worker: Worker) -> Summary {
    let draining = tokio::time::timeout(Duration::from_secs(90), worker.drain());
    draining.await.expect("the worker drains its queue").expect("it can go on to the end")
}

/// Fails unless so many jobs were run, each once and on its first attempt.
pub fn assert_each_once(runs: &Runs, jobs: usize) {
    let runs = runs.lock();
    assert_eq!(runs.len(), jobs, "each ran");
    for (job_id, (times, attempt)) in runs.iter() {
        assert_eq!((*times, *attempt), (1, 1), "starts and attempt of job {job_id}");
    }
}
