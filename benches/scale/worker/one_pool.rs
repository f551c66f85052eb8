//! Queues that share the threads of one process: whose turn it is, by `src/worker/run/worker_turns.rs` itself.

use std::any::Any;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::worker_turns::{Charge, Jobs, WorkerTurns};

/// A queue of the process: its weight, and how long its jobs take.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    pub weight: u32,
    pub job: Duration,
}

/// There is always another job.
struct Endless(#[allow(dead_code, reason = "so that no two have one address")] u8);

impl Jobs for Endless {
    fn waiting(&self) -> usize {
        usize::MAX >> 8
    }

    fn run(&self, _: Instant) {}

    fn panicked(&self, _: Box<dyn Any + Send>) {}
}

/// Which part of the threads' time each queue gets.
pub fn shares_of_time(threads: usize, queues: &[Share], time: Duration) -> Vec<f64> {
    let mut members = WorkerTurns::default();
    let jobs: Vec<Arc<dyn Jobs>> = queues.iter().map(|_| Arc::new(Endless(1)) as Arc<dyn Jobs>).collect();
    for (queue, jobs) in queues.iter().zip(&jobs) {
        let weak: Weak<dyn Jobs> = Arc::downgrade(jobs);
        members.join(weak, f64::from(queue.weight));
    }
    let begun = Instant::now();
    let mut spent = vec![Duration::ZERO; queues.len()];
    let mut running: Vec<(Instant, usize, Charge)> = Vec::new();
    let mut now = begun;
    while now < begun + time {
        while running.len() < threads {
            let (Some((next, charge)), _) = members.begin_turn(usize::MAX, now) else { break };
            let queue = jobs.iter().position(|jobs| Arc::ptr_eq(jobs, &next)).expect("one of them");
            spent[queue] += queues[queue].job;
            running.push((now + queues[queue].job, queue, charge));
        }
        let first = (0..running.len()).min_by_key(|place| running[*place].0).expect("a thread is busy");
        let (ended_at, _, charge) = running.swap_remove(first);
        now = ended_at;
        members.end_turn(charge, now);
        members.look(now); // as the end of a slot does
    }
    let all: Duration = spent.iter().sum();
    spent.iter().map(|spent| spent.as_secs_f64() / all.as_secs_f64()).collect()
}
