//! A worker under simulated time. What decides is the worker's own code, included from `src/`: [`Pauses`] and
//! `jittered` (looks at an empty queue, tries after errors, timers), [`CallSize`], [`Demand`] (how many jobs to claim,
//! when, and what to give back) and [`InFlight`] (when the prefetcher is woken). What stands around it there, the
//! waiting and the calls, is restated: here the threads, in `worker/` the rest, each section with its file.

mod beside;
#[path = "../../src/worker/state/call_size.rs"]
#[allow(dead_code, unused_imports, reason = "only what the simulation needs is used here, and no tests")]
mod call_size;
mod claim;
#[path = "../../src/worker/claim/demand.rs"]
#[allow(dead_code, unused_imports, reason = "only what the simulation needs is used here, and no tests")]
mod demand;
mod finish;
#[path = "../../src/worker/state/in_flight.rs"]
#[allow(dead_code, unused_imports, reason = "only what the simulation needs is used here, and no tests")]
mod in_flight;
pub mod one_pool;
#[path = "../../src/time/pauses.rs"]
#[allow(dead_code, unused_imports, reason = "only what the simulation needs is used here, and no tests")]
mod pauses;
#[path = "../../src/worker/run/worker_turns.rs"]
#[allow(dead_code, unused_imports, reason = "only what the simulation needs is used here, and no tests")]
mod worker_turns;

use std::collections::VecDeque;
use std::time::Duration;

use readpast::config::WorkerConfig;

use crate::restated::{
    FINISH_AGAIN, FINISH_SESSIONS, FURTHER_SHARE, LONGEST_SLEEP, RENEW_AGAIN, SHARE_OF_LOOKS, SHORTEST_LOOK, WAIT,
};
use crate::server::{Answer, Call};
use crate::world::{Connection, Event, MS, Micros, Task, World};

use call_size::CallSize;
use demand::Demand;
use in_flight::{InFlight, Stage};
use pauses::Pauses;
use state::RunTimes;

/// The sums of `src/worker/state/tally.rs` that [`Demand`] reads.
mod state {
    pub(super) use super::in_flight::{InFlight, Stage};

    #[derive(Debug, Clone, Copy, Default)]
    pub struct RunTimes {
        pub jobs: u64,
        pub total: std::time::Duration,
    }
}

/// The size of a payload.
const PAYLOAD: usize = 200;

pub struct Worker {
    id: usize,
    config: WorkerConfig,
    is_alive: bool,
    in_flight: InFlight,
    run_times: RunTimes,
    unstarted: VecDeque<u32>,
    prefetch: Prefetch,
    watch: Watch,
    lease: Lease,
    maintenance: Maintenance,
    finish: Finish,
}

/// `src/worker/claim/prefetcher.rs`.
struct Prefetch {
    connection: Connection,
    demand: Demand,
    limit: CallSize,
    empty: Pauses,
    failed: Pauses,
    answer_lost: bool,
    asked: usize,
    asked_at: Micros,
    /// Somebody has said that there may be jobs.
    expected: bool,
    phase: Phase,
    timer: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Starting,
    /// For room.
    WaitsForRoom,
    Calls,
    /// After an error.
    Pauses,
    /// For jobs, until then.
    WaitsForJobs {
        until: Micros,
    },
}

/// `src/worker/claim/watcher.rs`.
struct Watch {
    connection: Connection,
    /// At which shortest interval looks are wanted; `None`: nobody wants to know.
    asked: Option<Micros>,
    state: Watching,
    failed: Pauses,
    timer: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Watching {
    Nothing,
    Calls,
    /// There was no place for it.
    Pauses,
    PausesAfterError,
}

/// `src/worker/lease/lease_keeper.rs`.
struct Lease {
    connection: Connection,
    pauses: Pauses,
    is_registered: bool,
    sent_at: Micros,
    timer: u64,
}

/// `src/worker/duties/maintenance.rs`.
struct Maintenance {
    connection: Connection,
    is_elected: bool,
    /// When promote, reap, sample and expire are due.
    due_at: [Micros; 4],
    /// Which is looked at next.
    next: usize,
    timer: u64,
}

/// `src/worker/finish/finisher.rs`.
struct Finish {
    connections: [Connection; FINISH_SESSIONS],
    ended: VecDeque<u32>,
    /// What each session has sent.
    sent: [Option<Sent>; FINISH_SESSIONS],
    repeats: [Pauses; FINISH_SESSIONS],
    /// The session that collects, and until when; `None`: until a job ends.
    collects: Option<(usize, Option<Micros>)>,
    look_at: Option<Micros>,
    given_back: VecDeque<u32>,
    timer: u64,
}

struct Sent {
    jobs: Vec<u32>,
    given_back: Vec<u32>,
}

fn duration(micros: Micros) -> Duration {
    Duration::from_micros(micros)
}

fn micros(duration: Duration) -> Micros {
    duration.as_micros() as Micros
}

impl Worker {
    pub fn new(id: usize, config: &WorkerConfig, world: &World) -> Worker {
        let [poll_min, poll_max] = [config.poll_min, config.poll_max];
        let interval = config.heartbeat_interval.as_millis() as u64 * MS;
        let repeats = || Pauses::new(duration(FINISH_AGAIN.0), duration(FINISH_AGAIN.1));
        Worker {
            id,
            is_alive: true,
            in_flight: InFlight::default(),
            run_times: RunTimes::default(),
            unstarted: VecDeque::new(),
            prefetch: Prefetch {
                connection: Connection::default(),
                demand: Demand::new(config, config.threads, world.instant()),
                limit: CallSize::new(config.batch_size),
                empty: Pauses::new(poll_min, poll_max),
                failed: Pauses::for_errors(),
                answer_lost: false,
                asked: 0,
                asked_at: 0,
                expected: false,
                phase: Phase::Starting,
                timer: 0,
            },
            watch: Watch {
                connection: Connection::default(),
                asked: None,
                state: Watching::Nothing,
                failed: Pauses::for_errors(),
                timer: 0,
            },
            lease: Lease {
                connection: Connection::default(),
                pauses: Pauses::new(duration(RENEW_AGAIN), duration(interval.min(LONGEST_SLEEP))),
                is_registered: false,
                sent_at: 0,
                timer: 0,
            },
            maintenance: Maintenance {
                connection: Connection::default(),
                is_elected: false,
                due_at: [0; 4],
                next: 0,
                timer: 0,
            },
            finish: Finish {
                connections: Default::default(),
                ended: VecDeque::new(),
                sent: Default::default(),
                repeats: [repeats(), repeats()],
                collects: None,
                look_at: None,
                given_back: VecDeque::new(),
                timer: 0,
            },
            config: config.clone(),
        }
    }

    pub fn is_alive(&self) -> bool {
        self.is_alive
    }

    pub fn running(&self) -> usize {
        self.in_flight.running()
    }

    /// How many jobs have ended here.
    pub fn jobs_run(&self) -> u64 {
        self.run_times.jobs
    }

    /// How many sessions SQL Server keeps for it.
    pub fn sessions(&self, now: Micros) -> usize {
        let finish = self.finish.connections.iter();
        let others = [&self.prefetch.connection, &self.watch.connection, &self.lease.connection];
        let all = finish.chain(others).chain([&self.maintenance.connection]);
        all.filter(|connection| connection.is_held(now)).count()
    }

    pub fn on(&mut self, event: Event, world: &mut World) {
        match event {
            Event::Served(task, call) => self.served(task, call, world),
            Event::Looks { share, since, epoch } => self.looks(share, since, epoch, world),
            _ if !self.is_alive => {}
            Event::Dies => self.is_alive = false,
            Event::Starts => self.renews(world),
            Event::JobEnds(job) => self.job_ends(job, world),
            Event::Timer(task, timer) => match task {
                Task::Claim if timer == self.prefetch.timer => self.prefetch_wakes(true, world),
                Task::Watch if timer == self.watch.timer => self.watch_wakes(world),
                Task::Lease if timer == self.lease.timer => self.renews(world),
                Task::Maintain if timer == self.maintenance.timer => self.maintains(world),
                Task::Finish(FINISH_SESSIONS) if timer == self.finish.timer => self.collected(world),
                Task::Finish(session) if session < FINISH_SESSIONS && timer == 0 => self.sends(session, world),
                _ => {}
            },
            Event::Answered(task, answer) => match task {
                Task::Claim => self.claim_answered(answer, world),
                Task::Watch => self.watch_answered(answer, world),
                Task::Lease => self.renewed(answer, world),
                Task::Maintain => self.maintained(answer, world),
                Task::Finish(session) => self.finished(session, answer, world),
            },
        }
        if self.is_alive && self.is_in_demand() {
            self.prefetch_wakes(false, world);
        }
    }

    /// A call has arrived in SQL Server, whatever became of the worker meanwhile.
    fn served(&mut self, task: Task, call: Call, world: &mut World) {
        let now = world.now;
        if world.server.is_away(now) {
            self.connection(task).breaks();
            return world.answer(self.id, task, Answer::Failed);
        }
        let answer = match call {
            Call::AwaitJobs { least, most } if world.server.takes_place(now, self.id) => {
                let others = world.server.waiting() as Micros - 1;
                let share = (SHARE_OF_LOOKS + others * FURTHER_SHARE).min(most).max(least).max(SHORTEST_LOOK);
                let epoch = world.server.epoch(now);
                return world.at(now + share, self.id, Event::Looks { share, since: now, epoch });
            }
            Call::AwaitJobs { .. } => Answer::Awaited { found: world.server.finds_jobs(self.id), waited: false },
            call => world.server.execute(now, self.id, call),
        };
        world.answer(self.id, task, answer);
    }

    /// `sql/235_await_jobs.sql`: between two delays.
    fn looks(&mut self, share: Micros, since: Micros, epoch: u64, world: &mut World) {
        let now = world.now;
        if world.server.epoch(now) != epoch {
            self.watch.connection.breaks();
            return world.answer(self.id, Task::Watch, Answer::Failed);
        }
        let found = world.server.finds_jobs(self.id);
        if found || now - since >= WAIT || !self.is_alive {
            world.server.leaves_place(self.id);
            return world.answer(self.id, Task::Watch, Answer::Awaited { found, waited: true });
        }
        world.at(now + share, self.id, Event::Looks { share, since, epoch });
    }

    fn connection(&mut self, task: Task) -> &mut Connection {
        match task {
            Task::Claim => &mut self.prefetch.connection,
            Task::Watch => &mut self.watch.connection,
            Task::Lease => &mut self.lease.connection,
            Task::Maintain => &mut self.maintenance.connection,
            Task::Finish(session) => &mut self.finish.connections[session],
        }
    }

    fn call(&mut self, task: Task, call: Call, world: &mut World) {
        let id = self.id;
        world.call(id, task, self.connection(task), call);
    }

    // ---- src/worker/run/executor.rs: threads take what waits ----

    fn start_jobs(&mut self, world: &mut World) {
        while self.in_flight.running() < self.config.threads
            && let Some(job) = self.unstarted.pop_front()
        {
            self.in_flight.enter(Stage::Running, 1);
            self.in_flight.leave(Stage::Unstarted);
            let row = &mut world.server.jobs[job as usize];
            row.started_at = Some(world.now);
            let ends_at = world.now + row.takes;
            world.at(ends_at, self.id, Event::JobEnds(job));
        }
    }

    fn job_ends(&mut self, job: u32, world: &mut World) {
        self.run_times.jobs += 1;
        self.run_times.total += duration(world.server.jobs[job as usize].takes);
        self.in_flight.enter(Stage::AwaitingFinish, 1);
        self.in_flight.leave(Stage::Running);
        self.finish.ended.push_back(job);
        self.start_jobs(world);
        self.has_ended(world);
    }
}
