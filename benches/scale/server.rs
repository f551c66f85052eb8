//! SQL Server as far as the workers' decisions depend on it: who gets which jobs, leases, duties, and those who wait.
//! The rules are those of `sql/`; a call takes the time of its procedure on one of a few schedulers.

use std::collections::{BTreeMap, BTreeSet};

use crate::restated::{ALL_PLACES, DUTIES, GAP, MAINTENANCE_BATCH, PLACES, UNSERVED};
use crate::world::{MS, Micros, SECOND};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Procedure {
    Login,
    RegisterWorker,
    Claim,
    AwaitJobs,
    Finish,
    Release,
    Recover,
    Heartbeat,
    Promote,
    Reap,
    Sample,
    Expire,
}

pub const PROCEDURES: [(Procedure, &str); 12] = [
    (Procedure::Login, "logins"),
    (Procedure::RegisterWorker, "register_worker"),
    (Procedure::Claim, "claim"),
    (Procedure::AwaitJobs, "await_jobs"),
    (Procedure::Finish, "finish"),
    (Procedure::Release, "release"),
    (Procedure::Recover, "recover"),
    (Procedure::Heartbeat, "heartbeat"),
    (Procedure::Promote, "promote"),
    (Procedure::Reap, "reap"),
    (Procedure::Sample, "sample"),
    (Procedure::Expire, "expire"),
];

/// How many calls SQL Server carries out at once.
const SCHEDULERS: usize = 64;

/// What a call takes, and how much more for each job: a guess at a server with flash. The decisions hardly depend on it
/// (docs/scale.md says which figures do).
fn takes(procedure: Procedure, jobs: usize) -> Micros {
    let jobs = jobs as Micros;
    match procedure {
        Procedure::Login => 5 * MS,
        Procedure::Claim | Procedure::Finish | Procedure::Release => MS + 10 * jobs,
        Procedure::AwaitJobs => 100,
        _ => 500,
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    RegisterWorker,
    Claim(usize),
    AwaitJobs { least: Micros, most: Micros },
    Finish(Vec<u32>),
    Release(Vec<u32>),
    Recover,
    Heartbeat,
    Promote,
    Reap,
    Sample,
    Expire,
}

impl Call {
    pub fn procedure(&self) -> Procedure {
        match self {
            Call::RegisterWorker => Procedure::RegisterWorker,
            Call::Claim(_) => Procedure::Claim,
            Call::AwaitJobs { .. } => Procedure::AwaitJobs,
            Call::Finish(_) => Procedure::Finish,
            Call::Release(_) => Procedure::Release,
            Call::Recover => Procedure::Recover,
            Call::Heartbeat => Procedure::Heartbeat,
            Call::Promote => Procedure::Promote,
            Call::Reap => Procedure::Reap,
            Call::Sample => Procedure::Sample,
            Call::Expire => Procedure::Expire,
        }
    }

    pub fn jobs(&self) -> usize {
        match self {
            Call::Claim(jobs) => *jobs,
            Call::Finish(jobs) | Call::Release(jobs) => jobs.len(),
            _ => 0,
        }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    Done,
    /// The connection broke, or none could be made.
    Failed,
    LeaseLost,
    Claimed(Vec<u32>),
    Awaited {
        found: bool,
        waited: bool,
    },
    Elected(bool),
    /// There is more to reap, and whether any job was given back.
    Reaped {
        more: bool,
        any: bool,
    },
}

#[derive(Debug, Clone, Default)]
pub struct Job {
    pub takes: Micros,
    pub ready_again_at: Option<Micros>,
    pub started_at: Option<Micros>,
    pub ended_at: Option<Micros>,
}

#[derive(Debug, Default)]
struct Queue {
    /// In the order in which they are claimed.
    ready: BTreeSet<u32>,
    /// How many sessions wait in SQL Server for jobs.
    waiting: usize,
    worker_with_duties: Option<usize>,
    duties_until: Micros,
    tended_at: Micros,
    workers: BTreeSet<usize>,
    lost: BTreeSet<usize>,
}

#[derive(Debug, Clone, Default)]
struct Row {
    queue: usize,
    lease_until: Micros,
    unserved: u8,
    lost: bool,
    held: BTreeSet<u32>,
}

pub struct Server {
    pub jobs: Vec<Job>,
    queues: Vec<Queue>,
    workers: Vec<Row>,
    lease: Micros,
    /// From when to when it is away.
    outage: Option<(Micros, Micros)>,
    places_epoch: u64,
    /// When each scheduler is free.
    free_at: [Micros; SCHEDULERS],
    /// Calls of each procedure in each second.
    pub calls: Vec<BTreeMap<Procedure, u32>>,
    pub leases_lost: usize,
    /// How often a job was given back by the reaper.
    pub reaped: usize,
}

impl Server {
    pub fn new(queues: usize, workers: usize, lease: Micros) -> Server {
        let queues: Vec<Queue> = (0..queues).map(|_| Queue::default()).collect();
        let rows = (0..workers).map(|worker| Row { queue: worker % queues.len(), ..Row::default() }).collect();
        Server {
            jobs: Vec::new(),
            queues,
            workers: rows,
            lease,
            outage: None,
            places_epoch: 0,
            free_at: [0; SCHEDULERS],
            calls: Vec::new(),
            leases_lost: 0,
            reaped: 0,
        }
    }

    pub fn goes_away(&mut self, from: Micros, until: Micros) {
        self.outage = Some((from, until));
    }

    pub fn is_away(&self, now: Micros) -> bool {
        self.outage.is_some_and(|(from, until)| now >= from && now < until)
    }

    /// Connections from before that are broken.
    pub fn up_since(&self, now: Micros) -> Micros {
        self.outage.filter(|(from, _)| now >= *from).map_or(0, |(from, _)| from)
    }

    /// How often it has been started, as those who wait in it see.
    pub fn epoch(&self, now: Micros) -> u64 {
        u64::from(self.up_since(now) > 0)
    }

    pub fn enqueue(&mut self, queue: usize, jobs: usize, mut takes: impl FnMut(usize) -> Micros) {
        for job in 0..jobs {
            self.queues[queue].ready.insert(self.jobs.len() as u32);
            self.jobs.push(Job { takes: takes(job), ..Job::default() });
        }
    }

    /// What a worker holds, as SQL Server sees it.
    pub fn held(&self, worker: usize) -> Vec<u32> {
        self.workers[worker].held.iter().copied().collect()
    }

    pub fn waiting(&self) -> usize {
        self.queues.iter().map(|queue| queue.waiting).sum()
    }

    pub fn worker_with_duties(&self, queue: usize) -> Option<usize> {
        self.queues[queue].worker_with_duties
    }

    pub fn count(&mut self, now: Micros, procedure: Procedure) {
        let second = (now / SECOND) as usize;
        if self.calls.len() <= second {
            self.calls.resize(second + 1, BTreeMap::new());
        }
        *self.calls[second].entry(procedure).or_default() += 1;
    }

    /// When a call that arrives then is carried out.
    pub fn serve(&mut self, arrives: Micros, procedure: Procedure, jobs: usize) -> Micros {
        let free = self.free_at.iter_mut().min().expect("there are schedulers");
        *free = arrives.max(*free) + takes(procedure, jobs);
        *free
    }

    /// A place among those that wait for jobs of the queue. (Which ones it may take is not restated.)
    pub fn takes_place(&mut self, now: Micros, worker: usize) -> bool {
        // Those that waited when it went away do no more.
        let epoch = self.epoch(now);
        if std::mem::replace(&mut self.places_epoch, epoch) != epoch {
            self.queues.iter_mut().for_each(|queue| queue.waiting = 0);
        }
        let are_left = self.waiting() < ALL_PLACES;
        let queue = &mut self.queues[self.workers[worker].queue];
        let free = are_left && queue.waiting < PLACES;
        queue.waiting += usize::from(free);
        free
    }

    pub fn leaves_place(&mut self, worker: usize) {
        self.queues[self.workers[worker].queue].waiting -= 1;
    }

    pub fn finds_jobs(&self, worker: usize) -> bool {
        !self.queues[self.workers[worker].queue].ready.is_empty()
    }

    /// Carries a call out.
    pub fn execute(&mut self, now: Micros, worker: usize, call: Call) -> Answer {
        let queue = self.workers[worker].queue;
        match call {
            Call::RegisterWorker => {
                let row = &mut self.workers[worker];
                row.lost = false;
                row.unserved = 0;
                row.lease_until = now + self.lease;
                self.queues[queue].workers.insert(worker);
                Answer::Done
            }
            Call::Claim(_) | Call::Heartbeat if self.workers[worker].lost => Answer::LeaseLost,
            Call::Claim(most) => {
                let mut claimed = Vec::new();
                while claimed.len() < most
                    && let Some(job) = self.queues[queue].ready.pop_first()
                {
                    self.workers[worker].held.insert(job);
                    claimed.push(job);
                }
                Answer::Claimed(claimed)
            }
            Call::Finish(jobs) => {
                for job in jobs {
                    if self.workers[worker].held.remove(&job) {
                        self.jobs[job as usize].ended_at = Some(now);
                    }
                }
                Answer::Done
            }
            Call::Release(jobs) => {
                for job in jobs {
                    if self.workers[worker].held.remove(&job) {
                        self.queues[queue].ready.insert(job);
                    }
                }
                Answer::Done
            }
            Call::Heartbeat => {
                let row = &mut self.workers[worker];
                row.lease_until = now + self.lease;
                row.unserved = 0;
                let queue = &mut self.queues[queue];
                if queue.duties_until < now {
                    queue.worker_with_duties = Some(worker);
                    queue.duties_until = now + DUTIES;
                }
                Answer::Elected(queue.worker_with_duties == Some(worker) && queue.duties_until >= now)
            }
            Call::Promote => {
                let duties = &self.queues[queue];
                let elected = duties.worker_with_duties == Some(worker) || duties.duties_until < now;
                if elected {
                    self.tend(now, queue);
                    let queue = &mut self.queues[queue];
                    queue.worker_with_duties = Some(worker);
                    queue.duties_until = now + DUTIES;
                }
                Answer::Elected(elected)
            }
            Call::Reap => {
                self.tend(now, queue);
                self.reap(now, queue)
            }
            Call::AwaitJobs { .. } | Call::Recover | Call::Sample | Call::Expire => Answer::Done,
        }
    }

    /// `sql/290_tend.sql`.
    fn tend(&mut self, now: Micros, queue: usize) {
        let gap = now - self.queues[queue].tended_at;
        if gap > GAP && gap > self.lease / 2 {
            for worker in &self.queues[queue].workers {
                let row = &mut self.workers[*worker];
                if !row.lost && row.unserved < UNSERVED && row.lease_until < now + self.lease / 2 {
                    row.lease_until = now + self.lease;
                    row.unserved += 1;
                }
            }
        }
        self.queues[queue].tended_at = now;
    }

    /// `sql/300_reap.sql`.
    fn reap(&mut self, now: Micros, queue: usize) -> Answer {
        let ran_out = |worker: &&usize| !self.workers[**worker].lost && self.workers[**worker].lease_until < now;
        let lost: Vec<usize> =
            self.queues[queue].workers.iter().filter(ran_out).take(MAINTENANCE_BATCH).copied().collect();
        for worker in &lost {
            self.workers[*worker].lost = true;
            self.queues[queue].lost.insert(*worker);
        }
        self.leases_lost += lost.len();
        let mut given_back = Vec::new();
        for worker in &self.queues[queue].lost {
            let held = &mut self.workers[*worker].held;
            while given_back.len() < MAINTENANCE_BATCH
                && let Some(job) = held.pop_first()
            {
                given_back.push(job);
            }
        }
        self.queues[queue].lost.retain(|worker| !self.workers[*worker].held.is_empty());
        for job in &given_back {
            self.jobs[*job as usize].ready_again_at = Some(now);
            self.jobs[*job as usize].started_at = None;
            self.queues[queue].ready.insert(*job);
        }
        self.reaped += given_back.len();
        let more = given_back.len() >= MAINTENANCE_BATCH || lost.len() >= MAINTENANCE_BATCH;
        Answer::Reaped { more, any: !given_back.is_empty() }
    }
}
