//! Simulated time: what happens next, and SQL Server at the other end of the network.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::server::{Answer, Call, Procedure, Server};

/// Microseconds since the simulation began.
pub type Micros = u64;

pub const MS: Micros = 1_000;
pub const SECOND: Micros = 1_000_000;

/// A round trip in one data centre. (benches/throughput measures with the same.)
const ROUND_TRIP: Micros = 500;

/// A task of a worker, each with a connection of its own (`src/worker/worker.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    Claim,
    Watch,
    Lease,
    Maintain,
    Finish(usize),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    Starts,
    /// A timer; void when the task has set another since.
    Timer(Task, u64),
    /// SQL Server carries a call out.
    Served(Task, Call),
    /// SQL Server looks for an idle worker that waits in it; the delay before this look, and since when it waits.
    Looks {
        share: Micros,
        since: Micros,
        epoch: u64,
    },
    Answered(Task, Answer),
    JobEnds(u32),
    /// As if the process were killed.
    Dies,
}

/// What the server did, and what is to come.
pub struct World {
    pub now: Micros,
    pub server: Server,
    events: BinaryHeap<Reverse<(Micros, u64, usize, Event)>>,
    sequence: u64,
    epoch: Instant,
}

impl World {
    pub fn new(server: Server) -> World {
        World { now: 0, server, events: BinaryHeap::new(), sequence: 0, epoch: Instant::now() }
    }

    /// Simulated time for those who reckon with the real type.
    pub fn instant(&self) -> Instant {
        self.epoch + Duration::from_micros(self.now)
    }

    pub fn at(&mut self, time: Micros, worker: usize, event: Event) {
        self.sequence += 1; // what is due at the same time comes in the order in which it was said
        self.events.push(Reverse((time, self.sequence, worker, event)));
    }

    /// The next event up to `until`, and its worker. Time goes on to it.
    pub fn next(&mut self, until: Micros) -> Option<(usize, Event)> {
        if self.events.peek().is_none_or(|Reverse((time, ..))| *time > until) {
            self.now = until;
            return None;
        }
        let Reverse((time, _, worker, event)) = self.events.pop()?;
        self.now = time;
        Some((worker, event))
    }

    /// Sends a call on a connection; makes it anew where it is gone. The answer comes as an event.
    pub fn call(&mut self, worker: usize, task: Task, connection: &mut Connection, call: Call) {
        let mut arrives = self.now + ROUND_TRIP / 2;
        let is_open = connection.is_open(self.now, &self.server);
        if !is_open && connection.knows_it(self.now) {
            self.server.count(self.now, Procedure::Login);
            if self.server.is_away(self.now) {
                // Refused at once: the machine is there, and nothing listens.
                return self.at(self.now + ROUND_TRIP, worker, Event::Answered(task, Answer::Failed));
            }
            arrives = self.server.serve(arrives, Procedure::Login, 0) + ROUND_TRIP;
        } else if !is_open || self.server.is_away(self.now) {
            connection.breaks();
            return self.at(self.now + ROUND_TRIP, worker, Event::Answered(task, Answer::Failed));
        }
        connection.used(self.now);
        self.server.count(self.now, call.procedure());
        let done = self.server.serve(arrives, call.procedure(), call.jobs());
        self.at(done, worker, Event::Served(task, call));
    }

    /// SQL Server sends an answer.
    pub fn answer(&mut self, worker: usize, task: Task, answer: Answer) {
        self.at(self.now + ROUND_TRIP / 2, worker, Event::Answered(task, answer));
    }
}

/// A connection as its owner sees it (`src/connection/session.rs`): one that failed is made anew by the next call,
/// and so is one that idled for long.
#[derive(Debug, Default)]
pub struct Connection {
    used_at: Option<Micros>,
}

impl Connection {
    fn is_open(&self, now: Micros, server: &Server) -> bool {
        self.used_at.is_some_and(|used_at| used_at >= server.up_since(now)) && !self.knows_it(now)
    }

    /// Whether the owner knows that there is none.
    fn knows_it(&self, now: Micros) -> bool {
        self.used_at.is_none_or(|used_at| now - used_at > crate::restated::MAX_IDLE)
    }

    /// Whether SQL Server keeps a session for it.
    pub fn is_held(&self, now: Micros) -> bool {
        !self.knows_it(now)
    }

    pub fn used(&mut self, now: Micros) {
        self.used_at = Some(now);
    }

    pub fn breaks(&mut self) {
        self.used_at = None;
    }
}
