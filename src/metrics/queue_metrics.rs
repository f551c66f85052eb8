//! The metrics of a queue: calls of its producers, its connections and its depth. Handles are created once, so that
//! recording needs no lookup, formatting or allocation.

use std::time::Duration;

use metrics::{Counter, Gauge};

use crate::error::Error;
use crate::id::Enqueued;

use super::definitions::{
    CALL_ERRORS, CALL_SECONDS, CONNECTIONS, ENQUEUE_BATCH_JOBS, ENQUEUE_DUPLICATES, ENQUEUE_SECONDS, ENQUEUED_JOBS,
    Histogram, QUEUE_JOBS, QUEUE_OLDEST_READY_SECONDS, QUEUE_OPEN_BATCHES, QUEUE_PAUSED, QUEUE_SAMPLE_AGE_SECONDS,
    QUEUE_WORKERS, RECONNECTS, describe_all,
};
use super::labels::{ERRORS, PROCEDURES, STATES};

/// Metrics of a [`Queue`](crate::queue::Queue) and of its workers' connections.
#[derive(Debug)]
pub(crate) struct QueueMetrics {
    queue: String,
    enqueued_jobs: Counter,
    enqueue_duplicates: Counter,
    enqueue_seconds: Histogram,
    enqueue_batch_jobs: Histogram,
    /// One histogram for each procedure, in the order of [`PROCEDURES`].
    call_seconds: [Histogram; PROCEDURES.len()],
    connections: Counter,
    reconnects: Counter,
}

impl QueueMetrics {
    pub(crate) fn new(queue: &str) -> QueueMetrics {
        describe_all();
        let own = &[queue];
        QueueMetrics {
            queue: queue.to_owned(),
            enqueued_jobs: ENQUEUED_JOBS.counter(own),
            enqueue_duplicates: ENQUEUE_DUPLICATES.counter(own),
            enqueue_seconds: Histogram::new(&ENQUEUE_SECONDS, own),
            enqueue_batch_jobs: Histogram::new(&ENQUEUE_BATCH_JOBS, own),
            call_seconds: PROCEDURES.map(|procedure| Histogram::new(&CALL_SECONDS, &[queue, procedure])),
            connections: CONNECTIONS.counter(own),
            reconnects: RECONNECTS.counter(own),
        }
    }

    pub(crate) fn queue(&self) -> &str {
        &self.queue
    }

    pub(crate) fn enqueued(&self, jobs: &[Enqueued], took: Duration) {
        let duplicates = jobs.iter().filter(|job| job.duplicate).count();
        self.enqueued_jobs.increment((jobs.len() - duplicates) as u64);
        self.enqueue_duplicates.increment(duplicates as u64);
        self.enqueue_seconds.record(took);
        self.enqueue_batch_jobs.record(jobs.len() as f64);
    }

    pub(crate) fn answered(&self, call: &str, took: Duration) {
        self.call_seconds[procedure_index(call)].record(took);
    }

    pub(crate) fn failed(&self, call: &str, error: &Error) {
        let procedure = PROCEDURES[procedure_index(call)];
        CALL_ERRORS.counter(&[&self.queue, procedure, error_label(error)]).increment(1);
    }

    pub(crate) fn connected(&self, again: bool, took: Duration) {
        self.connections.increment(1);
        if again {
            self.reconnects.increment(1);
        }
        self.answered("connect", took);
    }
}

fn procedure_index(call: &str) -> usize {
    let known = PROCEDURES.iter().position(|procedure| *procedure == call);
    known.unwrap_or_else(|| if call.ends_with(".sql") { procedure_index("install") } else { PROCEDURES.len() - 1 })
}

fn error_label(error: &Error) -> &'static str {
    let label = match error {
        Error::Connect { .. } => "connect".to_owned(),
        Error::ConnectionLost { .. } => "connection_lost".to_owned(),
        Error::Credentials { .. } => "credentials".to_owned(),
        Error::TimedOut { .. } => "timed_out".to_owned(),
        Error::Tls { .. } => "tls".to_owned(),
        Error::Protocol { .. } | Error::UnreadableText { .. } => "protocol".to_owned(),
        error => error.sql_number().map(|number| number.to_string()).unwrap_or_default(),
    };
    ERRORS.into_iter().find(|known| *known == label).unwrap_or("other")
}

/// The last sample of the queue. Created with the first sample, so that nothing is shown before it.
#[derive(Debug)]
pub(crate) struct SampleMetrics {
    jobs: [Gauge; STATES.len()],
    oldest_ready: Gauge,
    open_batches: Gauge,
    workers: Gauge,
    paused: Gauge,
    age: Gauge,
}

impl SampleMetrics {
    pub(crate) fn new(queue: &str) -> SampleMetrics {
        let own = &[queue];
        SampleMetrics {
            jobs: STATES.map(|state| QUEUE_JOBS.gauge(&[queue, state])),
            oldest_ready: QUEUE_OLDEST_READY_SECONDS.gauge(own),
            open_batches: QUEUE_OPEN_BATCHES.gauge(own),
            workers: QUEUE_WORKERS.gauge(own),
            paused: QUEUE_PAUSED.gauge(own),
            age: QUEUE_SAMPLE_AGE_SECONDS.gauge(own),
        }
    }

    /// `jobs` in the order of [`STATES`].
    pub(crate) fn sampled(
        &self,
        jobs: [u64; STATES.len()],
        oldest_ready: Option<Duration>,
        open_batches: u64,
        workers: u64,
        paused: bool,
    ) {
        for (gauge, jobs) in self.jobs.iter().zip(jobs) {
            gauge.set(jobs as f64);
        }
        self.oldest_ready.set(oldest_ready.unwrap_or_default().as_secs_f64());
        self.open_batches.set(open_batches as f64);
        self.workers.set(workers as f64);
        self.paused.set(if paused { 1.0 } else { 0.0 });
    }

    pub(crate) fn aged(&self, age: Duration) {
        self.age.set(age.as_secs_f64());
    }
}
