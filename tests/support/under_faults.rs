//! Worker processes that are killed, and whose connections are cut, stalled and reset in the middle of
//! acknowledgements: for what must happen once all the same.

use std::collections::HashSet;

use super::child::{ChildWorker, Event, Ledger};
use super::proxy::Proxy;
use super::{Fixture, until};

/// Three worker processes that reach SQL Server by a proxy.
pub struct UnderFaults<'a> {
    fixture: &'a Fixture,
    proxy: Proxy,
    ledger: Ledger,
    workers: Vec<ChildWorker>,
}

impl UnderFaults<'_> {
    /// Starts them. Before them there is one whose first acknowledgement never arrives; it is killed before it sends it
    /// again, so that some jobs certainly run again.
    pub async fn start(fixture: &Fixture) -> UnderFaults<'_> {
        let proxy = Proxy::start(fixture.url()).await;
        proxy.stall_request("finish");
        let mut fleet = UnderFaults { fixture, proxy, ledger: Ledger::new(), workers: Vec::new() };
        let mut first = fleet.worker("3000").await;
        until("an acknowledgement is held", || fleet.proxy.has_sprung()).await;
        first.kill().await;
        for _ in 0..3 {
            let worker = fleet.worker("1000").await;
            fleet.workers.push(worker);
        }
        fleet
    }

    /// Starts one that waits for so many milliseconds for an answer.
    async fn worker(&self, command_timeout_ms: &str) -> ChildWorker {
        let url = self.proxy.connection_string();
        let settings = [
            ("URL", url.as_str()),
            ("WORKER_LEASE_MS", "3000"),
            ("WORKER_HEARTBEAT_INTERVAL_MS", "300"),
            ("WORKER_REAP_INTERVAL_MS", "100"),
            ("CONNECTION_CONNECT_TIMEOUT_MS", "3000"),
            ("CONNECTION_COMMAND_TIMEOUT_MS", command_timeout_ms),
        ];
        ChildWorker::start(self.fixture, &self.ledger, &settings).await
    }

    /// Spreads so many faults over `jobs` jobs: each time a connection or an acknowledgement comes to grief, and one of
    /// the processes is killed and replaced.
    pub async fn strike(&mut self, jobs: usize, times: usize) {
        for time in 1..=times {
            let reached = time * 2 * jobs / (times + 1);
            until("some more jobs have run", || self.ledger.lines() >= reached).await;
            match time % 4 {
                0 => self.proxy.cut(),
                1 => self.proxy.reset_answer("finish", fastrand::usize(..30)),
                2 => self.proxy.stall_answer("finish", 0),
                _ => self.proxy.reset_request("finish", fastrand::usize(..200)),
            }
            let victim = fastrand::usize(..self.workers.len());
            self.workers[victim].kill().await;
            self.workers[victim] = self.worker("1000").await;
        }
    }

    /// Stops them in order, and returns what they did; fails where no job has run to its end more than once.
    pub async fn stop(self) -> Vec<Event> {
        for worker in self.workers {
            worker.stop().await;
        }
        let events = self.ledger.events();
        let mut ends = events.iter().filter_map(|event| match event {
            Event::End { job_id, failed: false } => Some(job_id),
            _ => None,
        });
        let mut ended = HashSet::new();
        let ran_again = ends.any(|job_id| !ended.insert(*job_id));
        assert!(ran_again, "some jobs have run to their end more than once");
        events
    }
}
