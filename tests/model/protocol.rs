//! Two worker processes, the table between them, and everything that can go wrong: every interleaving of their steps,
//! by stateright.
//!
//! A step is one call of a procedure by one process, or a fault. A process that is stopped for a while (SIGSTOP, a
//! suspended machine) needs no step: it takes none while the others do. Faults, and with them the number of states, are
//! bounded by a budget.

use stateright::{Model, Property};

use super::table::{Lease, Outcome, Rules, State, Table, WorkerId};

pub const JOBS: usize = 3;
const PROCESSES: usize = 2;
/// Claims of one job that are looked at; more bring nothing new.
const MAX_FENCE: u8 = 2;
const BATCH: usize = 2;
/// The job that may also fail, be given back or be cancelled. For the others to do so as well is the same with other
/// names, and many more states.
const VARIED: usize = 0;
/// The process that may also stop in order. For the other to do so as well is the same with other names.
const STOPPING: usize = 0;

pub struct Protocol {
    pub rules: Rules,
    /// How many faults at the most.
    pub faults: u8,
    /// How many jobs, [`JOBS`] at the most.
    pub jobs: usize,
    /// Whether a process may stop in order, and SQL Server may be away. With all jobs, that would be six times as many
    /// states.
    pub with_ends: bool,
}

/// A job in a process's memory: waiting, running or with a result, which is all the same to the table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Held {
    job: usize,
    fence: u8,
    worker: WorkerId,
}

/// A finish that was given up but is still under way to the server.
type LateFinish = (WorkerId, usize, u8, Outcome);

/// A release of strays that was given up but is still under way.
type LateRelease = (WorkerId, Vec<(usize, u8)>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Process {
    /// `None`: it has crashed.
    worker: Option<WorkerId>,
    held: Vec<Held>,
    /// It will look for jobs of a claim whose answer was lost.
    looks: bool,
    late_claim: Option<WorkerId>,
    late_finish: Option<LateFinish>,
    late_release: Option<LateRelease>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct System {
    pub table: Table,
    processes: Vec<Process>,
    next_worker: WorkerId,
    faults: u8,
    /// How many acknowledgements took effect, by job and fence.
    acknowledged: [[u8; MAX_FENCE as usize + 2]; JOBS],
    /// Which jobs were acknowledged as done.
    done: [bool; JOBS],
    /// It was cancelled: while it waited (`false`) or while it ran.
    cancelled: Option<bool>,
    reaped_while_held: bool,
    released_while_held: bool,
    reaped_for_an_outage: bool,
}

/// What becomes of a call and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    Answered,
    /// It runs, and the caller never learns it.
    AnswerLost,
    /// The caller gives it up; it runs at some later time, or never.
    Late,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    Claim(usize, Fate),
    /// `recover`, and `release` of what it lists.
    Recover(usize, Fate),
    Finish(usize, Held, Outcome, Fate),
    Release(usize, Held),
    Heartbeat(usize),
    LeaseRunsOut(WorkerId),
    Reap,
    Requeue,
    /// Of the job that may be cancelled.
    Cancel,
    Crash(usize),
    /// It ends in order: it holds nothing and unregisters.
    Stop(usize),
    /// SQL Server is away for longer than a lease, and everybody with it.
    Outage,
    /// A crashed process starts again; with or without `take_over`.
    RegisterWorker(usize, bool),
    LateClaim(usize),
    LateFinish(usize),
    LateRelease(usize),
}

impl Step {
    fn is_fault(&self) -> bool {
        match self {
            Step::Claim(_, fate) | Step::Recover(_, fate) | Step::Finish(_, _, _, fate) => *fate != Fate::Answered,
            Step::LeaseRunsOut(_) | Step::Crash(_) | Step::Outage | Step::Requeue | Step::Cancel => true,
            _ => false,
        }
    }
}

impl System {
    fn new_worker(&mut self, process: usize, take_over: &[WorkerId]) {
        let worker = self.next_worker;
        self.next_worker += 1;
        self.table.register_worker(worker, take_over);
        self.processes[process].worker = Some(worker);
    }

    /// What a process does when it learns that its lease is lost: it registers anew. What it holds it still has; the
    /// results will be refused.
    fn lease_lost(&mut self, process: usize) {
        self.processes[process].looks = false;
        self.new_worker(process, &[]);
    }

    fn finish(&mut self, (worker, job, fence, outcome): LateFinish) {
        // Which claim it changes is seen in the table: without the check of the fence it may be another than the one
        // that was meant.
        let in_force = self.table.rows[job].fence;
        if self.table.finish(worker, job, fence, outcome) {
            self.acknowledged[job][usize::from(in_force)] += 1;
            if fence != in_force {
                self.acknowledged[job][usize::from(fence)] += 1;
            }
            self.done[job] |= outcome == Outcome::Done;
        }
    }
}

impl Model for Protocol {
    type State = System;
    type Action = Step;

    fn init_states(&self) -> Vec<System> {
        let mut system = System {
            table: Table::new(self.jobs, self.rules),
            processes: vec![Process::default(); PROCESSES],
            next_worker: 0,
            faults: 0,
            acknowledged: Default::default(),
            done: Default::default(),
            cancelled: None,
            reaped_while_held: false,
            released_while_held: false,
            reaped_for_an_outage: false,
        };
        for process in 0..PROCESSES {
            system.new_worker(process, &[]);
        }
        vec![system]
    }

    fn actions(&self, system: &System, steps: &mut Vec<Step>) {
        for (number, process) in system.processes.iter().enumerate() {
            if process.late_claim.is_some() {
                steps.push(Step::LateClaim(number));
            }
            if process.late_finish.is_some() {
                steps.push(Step::LateFinish(number));
            }
            if process.late_release.is_some() {
                steps.push(Step::LateRelease(number));
            }
            if process.worker.is_none() {
                steps.extend([Step::RegisterWorker(number, false), Step::RegisterWorker(number, true)]);
                continue;
            }
            steps.extend([Step::Heartbeat(number), Step::Crash(number)]);
            // Strays are looked for once more before the end; a claim that is still on its way then is the reaper's.
            let may_stop = self.with_ends && number == STOPPING;
            if may_stop && process.held.is_empty() && (!process.looks || process.late_claim.is_some()) {
                steps.push(Step::Stop(number));
            }
            // A worker looks for strays before it claims again.
            if process.looks {
                steps.push(Step::Recover(number, Fate::Answered));
                if process.late_release.is_none() {
                    steps.push(Step::Recover(number, Fate::Late));
                }
            } else if process.held.len() < BATCH {
                steps.extend([Step::Claim(number, Fate::Answered), Step::Claim(number, Fate::AnswerLost)]);
                if process.late_claim.is_none() {
                    steps.push(Step::Claim(number, Fate::Late));
                }
            }
            for held in &process.held {
                let finish = |outcome, fate| Step::Finish(number, held.clone(), outcome, fate);
                steps.extend([finish(Outcome::Done, Fate::Answered), finish(Outcome::Done, Fate::AnswerLost)]);
                if process.late_finish.is_none() {
                    steps.push(finish(Outcome::Done, Fate::Late));
                }
                if held.job == VARIED {
                    steps.extend([finish(Outcome::Retry, Fate::Answered), Step::Release(number, held.clone())]);
                }
            }
        }
        for (worker, lease) in &system.table.workers {
            if *lease == Lease::Held {
                steps.push(Step::LeaseRunsOut(*worker));
            }
        }
        steps.extend([Step::Reap, Step::Requeue, Step::Cancel]);
        if self.with_ends && !system.table.was_away {
            steps.push(Step::Outage);
        }
        if system.faults >= self.faults {
            steps.retain(|step| !step.is_fault());
        }
    }

    fn next_state(&self, before: &System, step: Step) -> Option<System> {
        let mut system = before.clone();
        system.faults += u8::from(step.is_fault());
        match step {
            Step::Claim(number, fate) => {
                let worker = system.processes[number].worker?;
                let holds_nothing = system.processes[number].held.is_empty();
                if fate == Fate::Late {
                    system.processes[number].late_claim = Some(worker);
                    system.processes[number].looks = true;
                } else {
                    match system.table.claim(worker, BATCH, holds_nothing) {
                        Err(_) if fate == Fate::Answered => system.lease_lost(number),
                        Err(_) => return None,
                        Ok(_) if fate == Fate::AnswerLost => system.processes[number].looks = true,
                        Ok(jobs) => {
                            let held = jobs.into_iter().map(|(job, fence)| Held { job, fence, worker });
                            system.processes[number].held.extend(held);
                        }
                    }
                }
            }
            Step::Recover(number, fate) => {
                let worker = system.processes[number].worker?;
                let held = &system.processes[number].held;
                let known: Vec<_> = held.iter().map(|held| (held.job, held.fence)).collect();
                let strays = system.table.recover(worker, &known);
                if fate == Fate::Late {
                    // It looks again, so that the strays are given back in time, and this call finds what came after
                    // them.
                    let jobs = if self.rules.recover_changes_nothing { strays } else { known };
                    system.processes[number].late_release = Some((worker, jobs));
                } else {
                    for (job, fence) in strays {
                        system.table.release(worker, job, fence);
                    }
                    let process = &mut system.processes[number];
                    process.looks = self.rules.looks_again && process.late_claim == Some(worker);
                }
            }
            Step::Finish(number, job, outcome, fate) => {
                let call = (job.worker, job.job, job.fence, outcome);
                match fate {
                    Fate::Late => system.processes[number].late_finish = Some(call),
                    _ => system.finish(call),
                }
                if fate == Fate::Answered || !self.rules.keeps_results {
                    system.processes[number].held.retain(|held| *held != job);
                }
            }
            Step::Release(number, job) => {
                system.table.release(job.worker, job.job, job.fence);
                system.processes[number].held.retain(|held| *held != job);
            }
            Step::Heartbeat(number) => {
                let worker = system.processes[number].worker?;
                if system.table.heartbeat(worker).is_err() {
                    system.lease_lost(number);
                }
            }
            Step::LeaseRunsOut(worker) => system.table.lease_runs_out(worker),
            Step::Reap => {
                let leases = system.table.workers.clone();
                let lost = system.table.reap();
                system.reaped_while_held |= lost.iter().any(|worker| leases[worker] == Lease::Held);
                system.reaped_for_an_outage |= lost.iter().any(|worker| leases[worker] == Lease::Unserved);
            }
            Step::Outage => system.table.outage(),
            Step::Cancel => system.cancelled = Some(system.table.cancel(VARIED)?),
            Step::Stop(number) => {
                let process = &mut system.processes[number];
                system.table.unregister_worker(process.worker.take()?);
                process.looks = false;
            }
            Step::Requeue => {
                system.table.requeue();
            }
            Step::Crash(number) => {
                let process = &mut system.processes[number];
                process.worker = None;
                process.held.clear();
                process.looks = false;
            }
            Step::RegisterWorker(number, take_over) => {
                // The processes have names of their own: those that claimed under this one are its predecessors.
                let others: Vec<_> = system.processes.iter().filter_map(|process| process.worker).collect();
                let before = system.table.workers.keys().filter(|worker| !others.contains(worker)).copied();
                let predecessors: Vec<_> = if take_over { before.collect() } else { Vec::new() };
                system.new_worker(number, &predecessors);
            }
            Step::LateClaim(number) => {
                // It may have found its worker registered long ago.
                let worker = system.processes[number].late_claim.take()?;
                system.table.claim_checked(worker, BATCH, false);
            }
            Step::LateFinish(number) => {
                let call = system.processes[number].late_finish.take()?;
                system.finish(call);
            }
            Step::LateRelease(number) => {
                let (worker, mut jobs) = system.processes[number].late_release.take()?;
                if !self.rules.recover_changes_nothing {
                    // What the call finds when it arrives, and not when it was sent.
                    jobs = system.table.recover(worker, &jobs);
                }
                for (job, fence) in jobs {
                    system.table.release(worker, job, fence);
                }
                let process = &system.processes[number];
                let is_away = |held: &Held| {
                    let (before, now) = (&before.table.rows[held.job], &system.table.rows[held.job]);
                    held.fence == before.fence && before.state == State::Claimed && now.state != State::Claimed
                };
                system.released_while_held |= process.held.iter().any(is_away);
            }
        }
        for process in &mut system.processes {
            process.held.sort();
        }
        (system != *before).then_some(system)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        vec![
            Property::always("no job is lost", |_, system: &System| {
                system.table.rows.iter().enumerate().all(|(job, row)| match (row.state, row.worker) {
                    (State::Claimed, Some(worker)) => system.will_come_back(job, row.fence, worker),
                    (State::Claimed, None) => false,
                    _ => true,
                })
            }),
            Property::always("at most one acknowledgement per fence takes effect", |_, system: &System| {
                system.acknowledged.iter().flatten().all(|times| *times <= 1)
            }),
            Property::always("what is acknowledged as done stays done", |_, system: &System| {
                system.done.iter().zip(&system.table.rows).all(|(done, row)| !done || row.state == State::Done)
            }),
            Property::always("nothing is done that was not acknowledged", |_, system: &System| {
                system.done.iter().zip(&system.table.rows).all(|(done, row)| *done || row.state != State::Done)
            }),
            Property::always("a sink's writes are those of the jobs that are done", |_, system: &System| {
                system.table.rows.iter().all(|row| row.written == u8::from(row.state == State::Done))
            }),
            Property::always("what is cancelled while it waits never starts", |_, system: &System| {
                system.cancelled != Some(false) || system.table.rows[VARIED].state == State::Cancelled
            }),
            Property::always("what is cancelled while it runs ends as done or cancelled", |_, system: &System| {
                let may_be = [State::Claimed, State::Done, State::Cancelled];
                system.cancelled != Some(true) || may_be.contains(&system.table.rows[VARIED].state)
            }),
            Property::always("no worker is reaped while its lease holds", |_, system: &System| {
                !system.reaped_while_held
            }),
            Property::always("nothing is released that its worker holds", |_, system: &System| {
                !system.released_while_held
            }),
            Property::always("no worker is reaped for an outage", |_, system: &System| !system.reaped_for_an_outage),
            // That the model is not so narrow that nothing happens in it.
            Property::sometimes("all jobs are done", |_, system: &System| {
                system.table.rows.iter().all(|row| row.state == State::Done)
            }),
            Property::sometimes("a job dies", |_, system: &System| {
                system.table.rows.iter().any(|row| row.state == State::Dead)
            }),
            Property::sometimes("a job is cancelled after its run", |_, system: &System| {
                system.cancelled == Some(true) && system.table.rows[VARIED].state == State::Cancelled
            }),
            Property::sometimes("a result comes too late", |_, system: &System| {
                let mut held = system.processes.iter().flat_map(|process| &process.held);
                held.any(|held| system.table.rows[held.job].fence > held.fence)
            }),
            Property::sometimes("a job is claimed as often as is looked at", |_, system: &System| {
                system.table.rows.iter().any(|row| row.fence == MAX_FENCE)
            }),
        ]
    }

    fn within_boundary(&self, system: &System) -> bool {
        // Each process registers once, and once more after a fault.
        let workers = PROCESSES + usize::from(self.faults);
        usize::from(system.next_worker) <= workers && system.table.rows.iter().all(|row| row.fence <= MAX_FENCE)
    }
}

impl System {
    /// Whether somebody will finish, release or reap a claimed job: its worker is a process that knows of it or will
    /// look, or it is a registration that nobody renews any more, so that its lease runs out.
    fn will_come_back(&self, job: usize, fence: u8, worker: WorkerId) -> bool {
        let is_registered = self.table.workers.contains_key(&worker);
        match self.processes.iter().find(|process| process.worker == Some(worker)) {
            Some(process) => {
                process.looks
                    || process.held.iter().any(|held| (held.job, held.fence, held.worker) == (job, fence, worker))
            }
            None => is_registered,
        }
    }
}
