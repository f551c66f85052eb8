//! A fleet of workers on one simulated SQL Server.

use readpast::config::WorkerConfig;

use crate::server::{PROCEDURES, Procedure, Server};
use crate::worker::Worker;
use crate::world::{Event, MS, Micros, SECOND, World};

/// Workers start one after the other, as a deployment has them.
pub const STARTING: Micros = 10 * SECOND;

pub struct Fleet {
    pub world: World,
    pub workers: Vec<Worker>,
}

/// Four threads, and the rest as it is by default.
pub fn config() -> WorkerConfig {
    let mut config = WorkerConfig::default();
    config.threads = 4;
    config
}

impl Fleet {
    /// Workers of these queues, in turn, that start within the first ten seconds.
    pub fn new(workers: usize, queues: usize, config: &WorkerConfig, seed: u64) -> Fleet {
        fastrand::seed(seed);
        let mut world = World::new(Server::new(queues, workers, config.lease.as_millis() as u64 * MS));
        let workers: Vec<Worker> = (0..workers).map(|id| Worker::new(id, config, &world)).collect();
        for worker in 0..workers.len() {
            world.at(fastrand::u64(0..STARTING), worker, Event::Starts);
        }
        Fleet { world, workers }
    }

    /// Jobs that take so long on the mean, a half more or less.
    pub fn enqueue(&mut self, queue: usize, jobs: usize, takes: Micros) {
        self.world.server.enqueue(queue, jobs, |_| takes / 2 + fastrand::u64(0..=takes));
    }

    pub fn run_until(&mut self, time: Micros) {
        while let Some((worker, event)) = self.world.next(time) {
            self.workers[worker].on(event, &mut self.world);
        }
    }

    /// Runs until a condition holds, looked at every `step`; `None`: not before `limit`.
    pub fn run_until_so(&mut self, step: Micros, limit: Micros, is_so: impl Fn(&Fleet) -> bool) -> Option<Micros> {
        while !is_so(self) {
            if self.world.now >= limit {
                return None;
            }
            self.run_until(self.world.now + step);
        }
        Some(self.world.now)
    }

    pub fn running(&self) -> usize {
        self.workers.iter().filter(|worker| worker.is_alive()).map(Worker::running).sum()
    }

    pub fn sessions(&self) -> usize {
        self.workers.iter().map(|worker| worker.sessions(self.world.now)).sum()
    }

    /// Calls of a procedure in each of these seconds.
    pub fn calls_in(&self, procedure: Procedure, from: Micros, until: Micros) -> Vec<u32> {
        let seconds = (from / SECOND) as usize..(until / SECOND) as usize;
        let calls = |second: usize| self.world.server.calls.get(second).and_then(|calls| calls.get(&procedure));
        seconds.map(|second| calls(second).copied().unwrap_or(0)).collect()
    }

    /// Calls a second, on the mean.
    pub fn rate(&self, procedure: Procedure, from: Micros, until: Micros) -> f64 {
        let calls = self.calls_in(procedure, from, until);
        f64::from(calls.iter().sum::<u32>()) / calls.len() as f64
    }

    /// Calls of all procedures, logins left out, in each of these seconds.
    pub fn all_calls_in(&self, from: Micros, until: Micros) -> Vec<u32> {
        let mut sums = vec![0; ((until - from) / SECOND) as usize];
        for (procedure, _) in PROCEDURES.iter().filter(|(procedure, _)| *procedure != Procedure::Login) {
            for (sum, calls) in sums.iter_mut().zip(self.calls_in(*procedure, from, until)) {
                *sum += calls;
            }
        }
        sums
    }

    /// How many jobs ended in this time.
    pub fn ended(&self, from: Micros, until: Micros) -> usize {
        let in_time = |at: Micros| at >= from && at < until;
        self.world.server.jobs.iter().filter(|job| job.ended_at.is_some_and(in_time)).count()
    }
}
