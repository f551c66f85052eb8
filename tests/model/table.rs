//! What SQL Server does: the tables' rows and the procedures over them, as far as the protocol between workers and
//! table goes. A method is named after its procedure, and `mod.rs` runs both on the same steps.

use std::collections::BTreeMap;

/// A worker's registration: new at each start and after each lost lease.
pub type WorkerId = u8;

pub const MAX_ATTEMPTS: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    Ready,
    Scheduled,
    Claimed,
    Done,
    Dead,
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row {
    pub state: State,
    pub fence: u8,
    pub attempt: u8,
    pub alone: bool,
    /// It is to be cancelled when its run has ended.
    pub cancelling: bool,
    /// How often the sink has written its result.
    pub written: u8,
    /// Who holds it or held it last.
    pub worker: Option<WorkerId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lease {
    Held,
    RanOut,
    /// It ran out while SQL Server was away.
    Unserved,
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    Done,
    /// Again at once.
    Retry,
    /// Again when it is due.
    RetryLater,
    /// Again at once, and the attempt does not count.
    Snooze,
    /// Again when it is due, and the attempt does not count.
    SnoozeLater,
    Dead,
}

#[derive(Debug, PartialEq, Eq)]
pub struct LeaseLost;

/// What can be taken out of the protocol, to see that it is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// `finish` and `release` compare the fence.
    pub fence_is_checked: bool,
    /// `reap` gives back the jobs of workers whose lease has run out, and of nobody else.
    pub reap_waits_for_the_lease: bool,
    /// A worker looks for the jobs of a lost claim for as long as the claim can still arrive.
    pub looks_again: bool,
    /// A worker keeps a result until its acknowledgement is answered.
    pub keeps_results: bool,
    /// What a worker does not know of is listed, and given back by its fences: not by a call that does both.
    pub recover_changes_nothing: bool,
    /// A worker that unregisters is marked lost, and not forgotten.
    pub unregistered_workers_stay: bool,
    /// After an outage reap gives new leases and calls nobody lost.
    pub reap_spares_after_an_outage: bool,
    /// Whoever ends a run, however it ends, looks whether the job was to be cancelled.
    pub cancelling_is_looked_at: bool,
    /// What the sink writes is committed with the acknowledgement, or not at all.
    pub sink_is_in_the_transaction: bool,
}

pub const ALL_RULES: Rules = Rules {
    fence_is_checked: true,
    reap_waits_for_the_lease: true,
    looks_again: true,
    keeps_results: true,
    recover_changes_nothing: true,
    unregistered_workers_stay: true,
    reap_spares_after_an_outage: true,
    cancelling_is_looked_at: true,
    sink_is_in_the_transaction: true,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Table {
    pub rows: Vec<Row>,
    pub workers: BTreeMap<WorkerId, Lease>,
    pub paused: bool,
    /// Nobody was served for longer than a lease, and no reap has noticed it yet.
    pub was_away: bool,
    pub rules: Rules,
}

impl Table {
    /// A table with so many ready jobs; a job's id is its place.
    pub fn new(jobs: usize, rules: Rules) -> Table {
        let state = State::Ready;
        let ready = Row { state, fence: 0, attempt: 0, alone: false, cancelling: false, written: 0, worker: None };
        Table { rows: vec![ready; jobs], workers: BTreeMap::new(), paused: false, was_away: false, rules }
    }

    fn is_registered(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|lease| *lease != Lease::Lost)
    }

    fn holds(&self, job: usize, worker: WorkerId) -> bool {
        let row = &self.rows[job];
        row.state == State::Claimed && row.worker == Some(worker)
    }

    fn holds_under(&self, job: usize, worker: WorkerId, fence: u8) -> bool {
        self.holds(job, worker) && (!self.rules.fence_is_checked || self.rows[job].fence == fence)
    }

    /// Jobs with their fences.
    pub fn claim(&mut self, worker: WorkerId, max: usize, alone: bool) -> Result<Vec<(usize, u8)>, LeaseLost> {
        if !self.is_registered(worker) {
            return Err(LeaseLost);
        }
        Ok(self.claim_checked(worker, max, alone))
    }

    /// A claim that has found its worker registered, perhaps some time ago.
    pub fn claim_checked(&mut self, worker: WorkerId, max: usize, alone: bool) -> Vec<(usize, u8)> {
        if self.paused {
            return Vec::new();
        }
        let alone_waits = self.rows.iter().any(|row| row.state == State::Ready && row.alone);
        let (wanted, max) = if alone && alone_waits { (true, 1) } else { (false, max) };
        let mut claimed = Vec::new();
        for (job, row) in self.rows.iter_mut().enumerate() {
            if claimed.len() < max && row.state == State::Ready && row.alone == wanted {
                row.state = State::Claimed;
                row.fence += 1;
                row.attempt += 1;
                row.worker = Some(worker);
                claimed.push((job, row.fence));
            }
        }
        claimed
    }

    /// Whether the job was still this worker's under this fence, and is changed now.
    pub fn finish(&mut self, worker: WorkerId, job: usize, fence: u8, outcome: Outcome) -> bool {
        let is_held = self.holds_under(job, worker, fence);
        let is_cancelled = self.is_cancelled(job);
        let row = &mut self.rows[job];
        if outcome == Outcome::Done && (is_held || !self.rules.sink_is_in_the_transaction) {
            row.written += 1;
        }
        if !is_held {
            return false;
        }
        row.cancelling = false;
        row.state = match outcome {
            Outcome::Done => State::Done,
            _ if is_cancelled => State::Cancelled,
            Outcome::Dead => State::Dead,
            Outcome::Retry | Outcome::RetryLater if row.attempt >= MAX_ATTEMPTS => State::Dead,
            Outcome::Retry | Outcome::Snooze => State::Ready,
            Outcome::RetryLater | Outcome::SnoozeLater => State::Scheduled,
        };
        if matches!(outcome, Outcome::Snooze | Outcome::SnoozeLater) {
            row.attempt -= 1;
        }
        true
    }

    pub fn release(&mut self, worker: WorkerId, job: usize, fence: u8) -> bool {
        let is_held = self.holds_under(job, worker, fence);
        if is_held {
            self.give_back_unstarted(job);
        }
        is_held
    }

    /// Jobs with their fences. It changes nothing.
    pub fn recover(&self, worker: WorkerId, known: &[(usize, u8)]) -> Vec<(usize, u8)> {
        let held = (0..self.rows.len()).filter(|job| self.holds(*job, worker));
        held.map(|job| (job, self.rows[job].fence)).filter(|held| !known.contains(held)).collect()
    }

    fn give_back_unstarted(&mut self, job: usize) {
        let is_cancelled = self.is_cancelled(job);
        let row = &mut self.rows[job];
        row.state = if is_cancelled { State::Cancelled } else { State::Ready };
        row.cancelling = false;
        row.attempt -= 1;
    }

    /// Whether the end of its run cancels it.
    fn is_cancelled(&self, job: usize) -> bool {
        self.rows[job].cancelling && self.rules.cancelling_is_looked_at
    }

    /// Whether it runs, and its worker is to be told. `None`: it has ended.
    pub fn cancel(&mut self, job: usize) -> Option<bool> {
        let row = &mut self.rows[job];
        match row.state {
            State::Done | State::Dead | State::Cancelled => return None,
            State::Claimed => row.cancelling = true,
            State::Ready | State::Scheduled => row.state = State::Cancelled,
        }
        Some(row.cancelling)
    }

    /// The workers that it marked lost.
    pub fn reap(&mut self) -> Vec<WorkerId> {
        let mut lost = Vec::new();
        let spares = std::mem::take(&mut self.was_away) && self.rules.reap_spares_after_an_outage;
        for (worker, lease) in &mut self.workers {
            if spares && matches!(lease, Lease::RanOut | Lease::Unserved) {
                *lease = Lease::Held;
            } else if matches!(lease, Lease::RanOut | Lease::Unserved)
                || *lease == Lease::Held && !self.rules.reap_waits_for_the_lease
            {
                *lease = Lease::Lost;
                lost.push(*worker);
            }
        }
        let looks = self.rules.cancelling_is_looked_at;
        for row in &mut self.rows {
            let is_lost = row.worker.is_some_and(|worker| self.workers.get(&worker) == Some(&Lease::Lost));
            if row.state != State::Claimed || !is_lost {
                continue;
            }
            let is_last = row.attempt >= MAX_ATTEMPTS;
            row.state = match () {
                _ if row.cancelling && looks => State::Cancelled,
                _ if row.alone && is_last => State::Dead,
                _ => State::Ready,
            };
            row.cancelling = false;
            if !row.alone && is_last {
                row.attempt = MAX_ATTEMPTS - 1;
            }
            row.alone |= row.attempt >= MAX_ATTEMPTS - 1;
        }
        lost
    }

    /// With `take_over`, the others of the same name are lost at once.
    pub fn register_worker(&mut self, worker: WorkerId, take_over: &[WorkerId]) {
        self.workers.insert(worker, Lease::Held);
        for other in take_over {
            self.workers.entry(*other).and_modify(|lease| *lease = Lease::Lost);
        }
        if !take_over.is_empty() {
            self.reap();
        }
    }

    pub fn heartbeat(&mut self, worker: WorkerId) -> Result<(), LeaseLost> {
        if !self.is_registered(worker) {
            return Err(LeaseLost);
        }
        self.workers.insert(worker, Lease::Held);
        Ok(())
    }

    pub fn unregister_worker(&mut self, worker: WorkerId) {
        if self.rules.unregistered_workers_stay || (0..self.rows.len()).any(|job| self.holds(job, worker)) {
            self.workers.entry(worker).and_modify(|lease| *lease = Lease::Lost);
        } else {
            self.workers.remove(&worker);
        }
    }

    /// All that is scheduled is due.
    pub fn promote(&mut self) -> usize {
        self.change(State::Scheduled, |row| row.state = State::Ready)
    }

    /// One job, which may also be cancelled.
    pub fn requeue_one(&mut self, job: usize) -> usize {
        let row = &mut self.rows[job];
        let comes_back = matches!(row.state, State::Dead | State::Cancelled);
        if comes_back {
            (row.state, row.attempt, row.alone) = (State::Ready, 0, false);
        }
        usize::from(comes_back)
    }

    pub fn requeue(&mut self) -> usize {
        self.change(State::Dead, |row| (row.state, row.attempt, row.alone) = (State::Ready, 0, false))
    }

    fn change(&mut self, from: State, to: impl Fn(&mut Row)) -> usize {
        let mut changed = 0;
        for row in self.rows.iter_mut().filter(|row| row.state == from) {
            to(row);
            changed += 1;
        }
        changed
    }

    /// SQL Server is away for longer than a lease.
    pub fn outage(&mut self) {
        self.was_away = true;
        for lease in self.workers.values_mut().filter(|lease| **lease == Lease::Held) {
            *lease = Lease::Unserved;
        }
    }

    /// Time passes without a heartbeat.
    pub fn lease_runs_out(&mut self, worker: WorkerId) {
        self.workers.entry(worker).and_modify(|lease| {
            if *lease == Lease::Held {
                *lease = Lease::RanOut;
            }
        });
    }
}
