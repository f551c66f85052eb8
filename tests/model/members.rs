//! Jobs of one group and one batch, and the sessions that add, end, cancel and bring them back, statement by statement:
//! every interleaving, with what each statement locks, waits for, skips (READPAST) or reads uncommitted (NOLOCK).
//!
//! Two statements are one step here where nobody can see the state between them.

use stateright::{Model, Property};

/// Claims of one job that are looked at; more bring nothing new.
const MAX_FENCE: u8 = 2;
/// The job that may also fail, be put off or be looked at. For the others to do so as well is the same with other
/// names.
const VARIED: usize = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum State {
    /// Not there, or not yet.
    #[default]
    Absent,
    Waiting,
    Scheduled,
    Ready,
    Claimed,
    Done,
    Dead,
    Cancelled,
}

impl State {
    pub fn has_ended(self) -> bool {
        matches!(self, State::Done | State::Dead | State::Cancelled)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    Delete,
    Annotate,
    Archive,
}

/// What a worker says of its job, to `finish`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    Done,
    /// Again at once.
    Retry,
    /// Again when it is due.
    RetryLater,
    Dead,
}

/// What can be taken out, to see that it is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// `finish` reads what its jobs belong to under the locks under which it ends them.
    pub members_are_locked: bool,
    /// `advance_groups` looks again at a group of which it had to pass over a job that somebody had locked.
    pub passed_over_is_noted: bool,
    /// One session at a time gives turns away.
    pub turns_are_given_by_one: bool,
    /// Operators keep others from giving turns away before they lock waiting jobs.
    pub operators_lock_groups: bool,
    /// Events are added in the transaction of what has happened.
    pub events_are_committed_with_it: bool,
    /// `promote` does what is left of the turns.
    pub promote_advances: bool,
    /// A job that comes back has not the turn any more.
    pub requeue_takes_the_turn: bool,
    /// A job that comes back is taken out of its batch's counts.
    pub requeue_counts_back: bool,
    /// Nothing changes in the counts of a batch that has ended.
    pub ended_batches_stay: bool,
    /// `seal_batch` waits for those who are adding jobs.
    pub seal_waits_for_producers: bool,
    /// `seal_batch` compares the counts that it holds, and not some that it has read before.
    pub seal_compares_under_a_lock: bool,
    /// `cancel` locks a job before it looks whether it runs.
    pub cancel_locks_first: bool,
    /// Whoever ends a run looks whether the job was to be cancelled.
    pub cancelling_is_looked_at: bool,
    /// The sink is called in the transaction of the acknowledgement.
    pub sink_is_in_the_transaction: bool,
}

pub const ALL_RULES: Rules = Rules {
    members_are_locked: true,
    passed_over_is_noted: true,
    turns_are_given_by_one: true,
    operators_lock_groups: true,
    events_are_committed_with_it: true,
    promote_advances: true,
    requeue_takes_the_turn: true,
    requeue_counts_back: true,
    ended_batches_stay: true,
    seal_waits_for_producers: true,
    seal_compares_under_a_lock: true,
    cancel_locks_first: true,
    cancelling_is_looked_at: true,
    sink_is_in_the_transaction: true,
};

#[derive(Debug, Clone, Copy)]
pub struct Members {
    pub rules: Rules,
    pub jobs: usize,
    pub sessions: usize,
    /// How many faults and calls out of the ordinary at the most.
    pub faults: u8,
    pub group_limit: i8,
    pub policy: Policy,
    pub retry_passes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Row {
    pub state: State,
    pub in_turn: bool,
    pub fence: u8,
    pub cancelling: bool,
    /// It was cancelled while it ran under this fence.
    was_told: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// `enqueue` in a transaction of the caller's.
    Add(usize),
    Finish(usize, u8, Outcome),
    /// `finish_with`: the first is done, and the other follows it, into its group and its batch.
    FinishWith(usize, u8, usize),
    /// `release` or `reap`.
    GiveBack(usize, u8),
    Cancel(usize),
    Requeue(usize),
    /// `purge` of unfinished jobs.
    Purge(usize),
    Seal,
    /// Any statement that locks a job in order to change it, and finds that it is not what it looks for.
    Look(usize),
    Advance,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lock {
    session: usize,
    /// X, and not U.
    changed: bool,
}

/// A session: the call that it is in, its variables and what its transaction has done.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Session {
    call: Option<Call>,
    /// How many of the call's statements have run.
    statement: u8,

    /// finish: the job belongs to something, and has the turn.
    member: Option<bool>,
    /// finish: the job was its caller's. cancel: it runs.
    found: bool,
    /// advance_groups: how many have the turn. seal_batch: how many have ended, as it has read it.
    count: i8,
    /// advance_groups: who is to get the turn.
    next: Vec<usize>,

    /// The rows that it has changed, as they were.
    before: Vec<(usize, Row)>,
    turns_before: Option<i8>,
    effect_of: Option<usize>,
    has_added: bool,
    has_sealed: bool,
    has_groups: bool,
    /// Events that it has added: the turns that they give away.
    noted: Option<i8>,
    /// Events that it has deleted.
    taken: Option<i8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Batch {
    pub sealed: bool,
    pub additions: i8,
    pub members: Option<i8>,
    pub done: i8,
    pub dead: i8,
    pub cancelled: i8,
    pub ended: bool,
    pub follow_ups: i8,
}

impl Batch {
    fn ends(&self) -> i8 {
        self.done + self.dead + self.cancelled
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct System {
    /// As a NOLOCK read sees them.
    pub rows: Vec<Row>,
    locks: Vec<Option<Lock>>,
    pub batch: Batch,
    /// The group's `in_turn`.
    pub turns: i8,
    /// Committed events: the turns that they give away.
    pub events: Option<i8>,
    /// What the sink has written, by job.
    effects: Vec<u8>,
    sessions: Vec<Session>,
    next_job: usize,
    faults: u8,
    ended_early: bool,
    passed_over: bool,
    cancelled_while_running: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A claim of the first ready job.
    Claim,
    /// The scheduled job is due.
    Promote(usize),
    /// A session calls a procedure: its first statement, if it need not wait.
    Call(Call),
    /// A session's next statement.
    Next(usize),
    /// A producer thinks again.
    RollBack(usize),
    /// A session waits no longer for those who give turns away.
    GiveUp(usize),
    /// A connection breaks off.
    Kill(usize),
}

/// A statement that waits for another session.
struct Waits;

impl System {
    fn committed(&self, job: usize) -> &Row {
        let mut images = self.sessions.iter().flat_map(|session| &session.before);
        images.find(|(changed, _)| *changed == job).map_or(&self.rows[job], |(_, row)| row)
    }

    fn others_lock(&self, session: usize, job: usize) -> Option<Lock> {
        self.locks[job].filter(|lock| lock.session != session)
    }

    fn wait_for(&self, session: usize, job: usize) -> Result<(), Waits> {
        if self.others_lock(session, job).is_some() { Err(Waits) } else { Ok(()) }
    }

    fn change(&mut self, session: usize, job: usize, change: impl FnOnce(&mut Row)) {
        self.locks[job] = Some(Lock { session, changed: true });
        let before = &mut self.sessions[session].before;
        if before.iter().all(|(changed, _)| *changed != job) {
            before.push((job, self.rows[job].clone()));
        }
        change(&mut self.rows[job]);
    }

    fn note_event(&mut self, session: usize, turns: i8) {
        let noted = &mut self.sessions[session].noted;
        *noted = Some(noted.unwrap_or(0) + turns);
    }

    fn commit(&mut self, session: usize) {
        let done = std::mem::take(&mut self.sessions[session]);
        if let Some(turns) = done.noted {
            self.events = Some(self.events.unwrap_or(0) + turns);
        }
        self.unlock(session);
    }

    fn roll_back(&mut self, session: usize) {
        let undone = std::mem::take(&mut self.sessions[session]);
        for (job, row) in undone.before {
            self.rows[job] = row;
        }
        if let Some(turns) = undone.turns_before {
            self.turns = turns;
        }
        if let Some(job) = undone.effect_of {
            self.effects[job] -= 1;
        }
        if let Some(turns) = undone.taken {
            self.events = Some(self.events.unwrap_or(0) + turns);
        }
        self.batch.additions -= i8::from(undone.has_added);
        self.batch.sealed &= !undone.has_sealed;
        self.unlock(session);
    }

    fn unlock(&mut self, session: usize) {
        for lock in &mut self.locks {
            if lock.is_some_and(|lock| lock.session == session) {
                *lock = None;
            }
        }
    }

    fn owns(&self, job: usize, fence: u8) -> bool {
        self.rows[job].state == State::Claimed && self.rows[job].fence == fence
    }

    fn others(&self, session: usize) -> impl Iterator<Item = &Session> {
        self.sessions.iter().enumerate().filter(move |(number, _)| *number != session).map(|(_, session)| session)
    }

    /// A scheduled job is due.
    pub fn promote(&mut self, job: usize) {
        let in_turn = self.rows[job].in_turn;
        self.rows[job].state = if in_turn { State::Ready } else { State::Waiting };
        if !in_turn {
            self.events = Some(self.events.unwrap_or(0));
        }
    }

    /// `end_batch`.
    fn end_batch(&mut self, session: usize) {
        self.batch.ended = true;
        self.batch.follow_ups += 1;
        // What others have not committed comes after this; but jobs that are being added belong to it.
        let has_ended = |job: usize| {
            let is_mine = self.sessions[session].before.iter().any(|(changed, _)| *changed == job);
            let row = if is_mine { &self.rows[job] } else { self.committed(job) };
            row.state.has_ended() || self.rows[job].state == State::Absent
        };
        let all_ended = (0..self.rows.len()).all(has_ended);
        self.ended_early |= !self.batch.sealed || !all_ended;
    }
}

impl Members {
    /// Up to `run` jobs: the first ready ones and, if only one job of the group may have the turn, those that wait
    /// behind it.
    pub fn claim(&self, system: &mut System, run: usize) -> Vec<usize> {
        let is_free = |job: &usize| system.locks[*job].is_none();
        let is_ready = |job: &usize| system.rows[*job].state == State::Ready && is_free(job);
        let mut claimed: Vec<usize> = (0..self.jobs).filter(is_ready).take(run).collect();
        let waiting: Vec<usize> = (0..self.jobs).filter(|job| system.rows[*job].state == State::Waiting).collect();
        if let ([head], Some(first)) = (&claimed[..], waiting.first())
            && *first > *head
            && (self.group_limit, system.turns) == (1, 1)
        {
            let behind: Vec<usize> = waiting.into_iter().take(run - 1).take_while(is_free).collect();
            system.turns += behind.len() as i8;
            claimed.extend(behind);
        }
        for job in &claimed {
            let row = &mut system.rows[*job];
            (row.state, row.in_turn, row.fence) = (State::Claimed, true, row.fence + 1);
        }
        claimed
    }

    /// A call that meets nobody, to its end; with or without `advance_groups` after its commit.
    pub fn run(&self, system: &mut System, call: Call, advances: bool) {
        system.sessions[0].call = Some(call);
        while system.sessions[0].call.is_some() {
            if system.sessions[0].call == Some(Call::Advance) && !advances {
                system.roll_back(0);
                return;
            }
            assert!(self.session(system, 0).is_ok(), "it waits for nobody");
        }
    }

    fn session(&self, system: &mut System, session: usize) -> Result<(), Waits> {
        let statement = system.sessions[session].statement;
        system.sessions[session].statement += 1;
        match system.sessions[session].call.expect("it is in a call") {
            Call::Add(job) => self.add(system, session, job, statement),
            Call::Finish(job, fence, outcome) => self.finish(system, session, statement, job, fence, outcome),
            Call::FinishWith(job, fence, next) => self.finish_with(system, session, statement, job, fence, next),
            Call::GiveBack(job, fence) => self.give_back(system, session, statement, job, fence),
            Call::Cancel(job) => self.cancel(system, session, statement, job),
            Call::Requeue(job) => self.requeue(system, session, statement, job),
            Call::Purge(job) => self.purge(system, session, statement, job),
            Call::Seal => self.seal(system, session, statement),
            Call::Look(job) => look(system, session, statement, job),
            Call::Advance => self.advance(system, session, statement),
        }
    }

    fn add(&self, system: &mut System, session: usize, job: usize, statement: u8) -> Result<(), Waits> {
        if statement > 0 {
            self.commit(system, session, true);
            return Ok(());
        }
        if system.others(session).any(|other| other.has_sealed) {
            return Err(Waits);
        }
        system.next_job += 1;
        if system.batch.sealed {
            system.roll_back(session);
            return Ok(());
        }
        system.change(session, job, |row| row.state = State::Waiting);
        system.batch.additions += 1;
        system.sessions[session].has_added = true;
        system.note_event(session, 0);
        Ok(())
    }

    fn finish(
        &self,
        system: &mut System,
        session: usize,
        statement: u8,
        job: usize,
        fence: u8,
        outcome: Outcome,
    ) -> Result<(), Waits> {
        match statement {
            0 if self.rules.members_are_locked => {
                system.wait_for(session, job)?;
                if system.owns(job, fence) {
                    system.locks[job] = Some(Lock { session, changed: false });
                    system.sessions[session].member = Some(system.rows[job].in_turn);
                }
            }
            0 => {
                let row = &system.rows[job];
                let is_there = row.state != State::Done || self.policy == Policy::Annotate;
                system.sessions[session].member = is_there.then_some(row.in_turn);
            }
            1 => {
                system.wait_for(session, job)?;
                let was_archived = self.policy == Policy::Archive
                    && system.rows[job].state == State::Done
                    && system.rows[job].fence == fence
                    && outcome == Outcome::Done;
                if !system.owns(job, fence) {
                    system.sessions[session].found = was_archived;
                    return Ok(());
                }
                system.sessions[session].found = true;
                if outcome == Outcome::Done {
                    system.effects[job] += 1;
                    if self.rules.sink_is_in_the_transaction {
                        system.sessions[session].effect_of = Some(job);
                    }
                }
                let passes = self.retry_passes;
                let is_cancelled = system.rows[job].cancelling && self.rules.cancelling_is_looked_at;
                system.change(session, job, |row| {
                    row.cancelling = false;
                    row.state = match outcome {
                        Outcome::Done => State::Done,
                        _ if is_cancelled => State::Cancelled,
                        Outcome::Dead => State::Dead,
                        Outcome::Retry if passes => State::Waiting,
                        Outcome::Retry => State::Ready,
                        Outcome::RetryLater => State::Scheduled,
                    };
                    row.in_turn &= row.state.has_ended() || !passes;
                });
            }
            _ => {
                let Session { found, member, .. } = system.sessions[session];
                if let (true, Some(in_turn)) = (found, member) {
                    self.note_end(system, session, job, in_turn);
                }
                self.commit(system, session, found && member.is_some());
            }
        }
        Ok(())
    }

    fn finish_with(
        &self,
        system: &mut System,
        session: usize,
        statement: u8,
        job: usize,
        fence: u8,
        next: usize,
    ) -> Result<(), Waits> {
        match statement {
            0 => self.add(system, session, next, 0),
            // Nothing follows what was not done; but turns are looked for all the same.
            3 if !system.sessions[session].found => {
                system.roll_back(session);
                if system.events.is_some() {
                    system.sessions[session].call = Some(Call::Advance);
                }
                Ok(())
            }
            _ => self.finish(system, session, statement - 1, job, fence, Outcome::Done),
        }
    }

    fn give_back(
        &self,
        system: &mut System,
        session: usize,
        statement: u8,
        job: usize,
        fence: u8,
    ) -> Result<(), Waits> {
        if statement > 0 {
            let found = system.sessions[session].found;
            if found {
                let had_the_turn = system.committed(job).in_turn;
                self.note_end(system, session, job, had_the_turn);
            }
            self.commit(system, session, found);
            return Ok(());
        }
        system.wait_for(session, job)?;
        if system.owns(job, fence) {
            let looks = self.rules.cancelling_is_looked_at;
            system.sessions[session].found = true;
            system.change(session, job, |row| {
                row.state = if row.cancelling && looks { State::Cancelled } else { State::Waiting };
                row.in_turn &= row.state.has_ended();
                row.cancelling = false;
            });
        }
        Ok(())
    }

    fn cancel(&self, system: &mut System, session: usize, statement: u8, job: usize) -> Result<(), Waits> {
        match statement {
            0 if self.rules.operators_lock_groups => {
                if system.others(session).any(|other| other.has_groups) {
                    return Err(Waits);
                }
                system.sessions[session].has_groups = true;
            }
            0 => {}
            1 => {
                system.wait_for(session, job)?;
                if system.rows[job].state.has_ended() {
                    system.roll_back(session);
                    return Ok(());
                }
                if self.rules.cancel_locks_first {
                    system.locks[job] = Some(Lock { session, changed: false });
                }
                system.sessions[session].found = system.rows[job].state == State::Claimed;
            }
            2 => {
                system.wait_for(session, job)?;
                let is_running = system.sessions[session].found;
                system.cancelled_while_running |= !is_running && system.rows[job].state == State::Claimed;
                system.change(session, job, |row| {
                    if is_running {
                        (row.cancelling, row.was_told) = (true, true);
                    } else {
                        row.state = State::Cancelled;
                    }
                });
            }
            _ => {
                let is_running = system.sessions[session].found;
                if !is_running {
                    let in_turn = system.rows[job].in_turn;
                    self.note_end(system, session, job, in_turn);
                }
                self.commit(system, session, !is_running);
            }
        }
        Ok(())
    }

    fn requeue(&self, system: &mut System, session: usize, statement: u8, job: usize) -> Result<(), Waits> {
        if statement == 0 {
            let before = system.rows[job].state;
            if system.others_lock(session, job).is_some() || !matches!(before, State::Dead | State::Cancelled) {
                system.roll_back(session);
                return Ok(());
            }
            let takes = self.rules.requeue_takes_the_turn;
            system.change(session, job, |row| {
                (row.state, row.was_told) = (State::Waiting, false);
                row.in_turn &= !takes;
            });
            return Ok(());
        }
        if self.rules.requeue_counts_back && !system.batch.ended {
            match system.committed(job).state {
                State::Dead => system.batch.dead -= 1,
                _ => system.batch.cancelled -= 1,
            }
        }
        system.note_event(session, 0);
        self.commit(system, session, true);
        Ok(())
    }

    fn purge(&self, system: &mut System, session: usize, statement: u8, job: usize) -> Result<(), Waits> {
        match statement {
            // It lists waiting jobs, or others: what has become another meanwhile is left alone.
            0 => {
                let is_waiting = system.committed(job).state == State::Waiting;
                system.sessions[session].found = is_waiting;
                if is_waiting && self.rules.operators_lock_groups {
                    if system.others(session).any(|other| other.has_groups) {
                        return Err(Waits);
                    }
                    system.sessions[session].has_groups = true;
                }
            }
            1 => {
                let was_waiting = system.sessions[session].found;
                let is_listed = match system.rows[job].state {
                    State::Waiting => was_waiting,
                    State::Ready | State::Scheduled => !was_waiting,
                    _ => false,
                };
                if !is_listed || system.others_lock(session, job).is_some() {
                    system.roll_back(session);
                    return Ok(());
                }
                system.change(session, job, |row| row.state = State::Cancelled);
            }
            _ => {
                let in_turn = system.rows[job].in_turn;
                self.note_end(system, session, job, in_turn);
                self.commit(system, session, true);
            }
        }
        Ok(())
    }

    fn seal(&self, system: &mut System, session: usize, statement: u8) -> Result<(), Waits> {
        match statement {
            0 => {
                let is_adding = system.others(session).any(|other| other.has_added);
                if is_adding && self.rules.seal_waits_for_producers {
                    return Err(Waits);
                }
                system.batch.sealed = true;
                system.sessions[session].has_sealed = true;
                system.sessions[session].count = system.batch.ends();
            }
            _ => {
                let uncommitted = system.others(session).filter(|other| other.has_added).count() as i8;
                let members = system.batch.additions - uncommitted;
                let ends = match self.rules.seal_compares_under_a_lock {
                    true => system.batch.ends(),
                    false => system.sessions[session].count,
                };
                system.batch.members = Some(members);
                if ends >= members {
                    system.end_batch(session);
                }
                system.commit(session);
            }
        }
        Ok(())
    }

    fn advance(&self, system: &mut System, session: usize, statement: u8) -> Result<(), Waits> {
        match statement {
            0 => {
                if let Some(turns) = system.sessions[session].noted.take() {
                    system.events = Some(system.events.unwrap_or(0) + turns);
                }
                if system.events.is_none() {
                    system.roll_back(session);
                    return Ok(());
                }
                if self.rules.turns_are_given_by_one {
                    if system.others(session).any(|other| other.has_groups) {
                        return Err(Waits);
                    }
                    system.sessions[session].has_groups = true;
                }
                let taken = system.events.take();
                system.sessions[session].taken = taken;
                system.sessions[session].count = system.turns - taken.unwrap_or(0);
            }
            1 => {
                let room = self.group_limit - system.sessions[session].count;
                let free = |job: &usize| {
                    let is_changed = system.others_lock(session, *job).is_some_and(|lock| lock.changed);
                    system.rows[*job].state == State::Waiting && !is_changed
                };
                let next: Vec<usize> = (0..self.jobs).filter(free).take(room.max(0) as usize).collect();
                let last = next.last().copied().unwrap_or(0);
                let mut earlier = (0..last).filter(|job| !next.contains(job));
                system.passed_over |= earlier.any(|job| system.committed(job).state == State::Waiting);
                system.sessions[session].next = next;
            }
            2 => {
                let next = std::mem::take(&mut system.sessions[session].next);
                let mut turns = system.sessions[session].count;
                for job in next {
                    let is_free = system.others_lock(session, job).is_none();
                    if is_free && system.rows[job].state == State::Waiting {
                        turns += 1;
                        system.change(session, job, |row| (row.state, row.in_turn) = (State::Ready, true));
                    } else if self.rules.passed_over_is_noted {
                        system.note_event(session, 0);
                    }
                }
                system.sessions[session].turns_before = Some(system.turns);
                system.turns = turns;
            }
            _ => system.commit(session),
        }
        Ok(())
    }

    /// `note_ends`. No other session sees the counts between this and the commit.
    fn note_end(&self, system: &mut System, session: usize, job: usize, in_turn: bool) {
        let state = system.rows[job].state;
        if state.has_ended() && (!system.batch.ended || !self.rules.ended_batches_stay) {
            match state {
                State::Done => system.batch.done += 1,
                State::Dead => system.batch.dead += 1,
                _ => system.batch.cancelled += 1,
            }
            if system.batch.members.is_some_and(|members| system.batch.ends() >= members) {
                system.end_batch(session);
            }
        }
        let gives_away = match state {
            State::Scheduled => self.retry_passes,
            _ => state.has_ended() || state == State::Waiting,
        };
        if in_turn && gives_away {
            system.note_event(session, 1);
        }
    }

    /// And on to the turns, as each procedure does after the commit of what has changed a job of a group.
    fn commit(&self, system: &mut System, session: usize, has_changed: bool) {
        let noted = system.sessions[session].noted;
        if !self.rules.events_are_committed_with_it {
            system.sessions[session].noted = None;
        }
        system.commit(session);
        if !has_changed {
            return;
        }
        let advances = Session { call: Some(Call::Advance), ..Session::default() };
        if !self.rules.events_are_committed_with_it {
            system.sessions[session] = Session { noted, ..advances };
        } else if system.events.is_some() {
            system.sessions[session] = advances;
        }
    }
}

fn look(system: &mut System, session: usize, statement: u8, job: usize) -> Result<(), Waits> {
    if statement == 0 {
        system.wait_for(session, job)?;
        system.locks[job] = Some(Lock { session, changed: false });
    } else {
        system.roll_back(session);
    }
    Ok(())
}

impl Model for Members {
    type State = System;
    type Action = Step;

    fn init_states(&self) -> Vec<System> {
        vec![System {
            rows: vec![Row::default(); self.jobs],
            locks: vec![None; self.jobs],
            batch: Batch::default(),
            turns: 0,
            events: None,
            effects: vec![0; self.jobs],
            sessions: vec![Session::default(); self.sessions],
            next_job: 0,
            faults: 0,
            ended_early: false,
            passed_over: false,
            cancelled_while_running: false,
        }]
    }

    fn actions(&self, system: &System, steps: &mut Vec<Step>) {
        steps.push(Step::Claim);
        let may_fail = system.faults < self.faults;
        for (number, session) in system.sessions.iter().enumerate() {
            let Some(call) = session.call else { continue };
            steps.push(Step::Next(number));
            match call {
                Call::Add(_) => steps.push(Step::RollBack(number)),
                Call::Advance if session.statement == 0 => steps.push(Step::GiveUp(number)),
                _ => {}
            }
            if may_fail && !matches!(call, Call::Look(_)) {
                steps.push(Step::Kill(number));
            }
        }
        if system.sessions.iter().all(|session| session.call.is_some()) {
            return;
        }
        if system.next_job < self.jobs {
            steps.push(Step::Call(Call::Add(system.next_job)));
        }
        if !system.batch.sealed {
            steps.push(Step::Call(Call::Seal));
        }
        if system.events.is_some() && self.rules.promote_advances {
            steps.push(Step::Call(Call::Advance));
        }
        for job in 0..self.jobs {
            let is_varied = job == VARIED;
            let row = system.committed(job);
            match row.state {
                State::Claimed => {
                    let mut outcomes = vec![Outcome::Done];
                    if is_varied {
                        outcomes.extend([Outcome::Retry, Outcome::RetryLater, Outcome::Dead]);
                    }
                    let finish = |outcome| Step::Call(Call::Finish(job, row.fence, outcome));
                    // While one is under way, its caller may have given it up, and repeats it.
                    let is_under_way = |outcome: &Outcome| {
                        let call = Some(Call::Finish(job, row.fence, *outcome));
                        system.sessions.iter().any(|session| session.call == call)
                    };
                    let brings = Call::FinishWith(job, row.fence, system.next_job);
                    let is_brought = |session: &Session| matches!(session.call, Some(Call::FinishWith(..)));
                    if system.next_job < self.jobs && !system.sessions.iter().any(is_brought) {
                        steps.push(Step::Call(brings));
                    }
                    match outcomes.iter().find(|outcome| is_under_way(outcome)) {
                        None => {
                            steps.extend(outcomes.into_iter().map(finish));
                            if may_fail && is_varied {
                                steps.push(Step::Call(Call::GiveBack(job, row.fence)));
                            }
                        }
                        Some(outcome) if may_fail => steps.push(finish(*outcome)),
                        Some(_) => {}
                    }
                }
                State::Dead | State::Cancelled if may_fail => steps.push(Step::Call(Call::Requeue(job))),
                State::Scheduled => steps.push(Step::Promote(job)),
                _ => {}
            }
            if may_fail && row.state != State::Absent {
                if !row.state.has_ended() {
                    steps.push(Step::Call(Call::Cancel(job)));
                }
                if matches!(row.state, State::Waiting | State::Ready | State::Scheduled) {
                    steps.push(Step::Call(Call::Purge(job)));
                }
                if is_varied {
                    steps.push(Step::Call(Call::Look(job)));
                }
            }
        }
    }

    fn next_state(&self, before: &System, step: Step) -> Option<System> {
        let mut system = before.clone();
        match step {
            Step::Claim => {
                let claimed = self.claim(&mut system, 1);
                if claimed.is_empty() || system.rows[claimed[0]].fence > MAX_FENCE {
                    return None;
                }
            }
            Step::Promote(job) => {
                if system.locks[job].is_some() {
                    return None;
                }
                system.promote(job);
            }
            Step::Call(call) => {
                let session = system.sessions.iter().position(|session| session.call.is_none())?;
                let is_repeated = system.sessions.iter().any(|other| other.call == Some(call));
                let is_rare = match call {
                    Call::Finish(..) => is_repeated,
                    Call::GiveBack(..) | Call::Cancel(_) | Call::Requeue(_) | Call::Purge(_) | Call::Look(_) => true,
                    Call::Add(_) | Call::FinishWith(..) | Call::Seal | Call::Advance => false,
                };
                system.faults += u8::from(is_rare);
                system.sessions[session].call = Some(call);
                self.session(&mut system, session).ok()?;
            }
            Step::Next(session) => self.session(&mut system, session).ok()?,
            Step::RollBack(session) => system.roll_back(session),
            Step::GiveUp(session) => {
                if self.session(&mut system, session).is_ok() {
                    return None;
                }
                system = before.clone();
                system.roll_back(session);
            }
            Step::Kill(session) => {
                system.faults += 1;
                system.roll_back(session);
            }
        }
        Some(system)
    }

    fn properties(&self) -> Vec<Property<Members>> {
        vec![
            Property::always("no more than the limit have the turn", |model, system: &System| {
                system.count(has_turn) <= model.group_limit as usize
            }),
            Property::always("no job is passed over", |_, system: &System| !system.passed_over),
            Property::always("turns are counted", |_, system: &System| {
                let given_away = system.events.unwrap_or(0);
                !system.is_quiet() || (system.turns - given_away) as usize == system.count(has_turn)
            }),
            Property::always("who waits gets the turn", |model, system: &System| {
                let somebody_looks = system.events.is_some() && model.rules.promote_advances;
                !system.is_quiet()
                    || somebody_looks
                    || system.count(has_turn) >= model.group_limit as usize
                    || system.count(|row| row.state == State::Waiting) == 0
            }),
            Property::always("a batch counts the ends of its jobs", |_, system: &System| {
                let (batch, count) = (&system.batch, |state| system.count(|row| row.state == state) as i8);
                !system.is_quiet()
                    || batch.ended
                    || (batch.done, batch.dead, batch.cancelled)
                        == (count(State::Done), count(State::Dead), count(State::Cancelled))
            }),
            Property::always("a batch ends only when it is sealed and all have ended", |_, system: &System| {
                !system.ended_early
            }),
            Property::always("a batch has one follow-up", |_, system: &System| system.batch.follow_ups <= 1),
            Property::always("a sealed batch ends when all have ended", |_, system: &System| {
                let is_open = |row: &Row| row.state != State::Absent && !row.state.has_ended();
                !system.is_quiet() || !system.batch.sealed || system.batch.ended || system.count(is_open) > 0
            }),
            Property::always("what runs is not cancelled without a word", |_, system: &System| {
                !system.cancelled_while_running
            }),
            Property::always("what is cancelled while it runs ends as done or cancelled", |_, system: &System| {
                let may_be = [State::Claimed, State::Done, State::Cancelled];
                system.count(|row| row.was_told && !may_be.contains(&row.state)) == 0
            }),
            Property::always("a sink's writes are those of the jobs that are done", |_, system: &System| {
                let mut rows = system.effects.iter().zip(&system.rows);
                rows.all(|(effects, row)| *effects == u8::from(row.state == State::Done))
            }),
            Property::always("nobody waits for ever", |model, system: &System| {
                let moves = |session: usize| {
                    let mut after = system.clone();
                    let call = after.sessions[session].call;
                    matches!(call, Some(Call::Advance)) || model.session(&mut after, session).is_ok()
                };
                let mut busy =
                    (0..model.sessions).filter(|session| system.sessions[*session].call.is_some()).peekable();
                busy.peek().is_none() || busy.any(moves)
            }),
            // That the model is not so narrow that nothing happens in it.
            Property::sometimes("a batch ends, and a job of it comes back", |model, system: &System| {
                model.faults == 0 || system.batch.ended && system.count(|row| row.state == State::Ready) > 0
            }),
            Property::sometimes("all are done, the last one the first time", |_, system: &System| {
                system.batch.ended && system.rows.iter().all(|row| row.state == State::Done)
            }),
            Property::sometimes("a job waits for another", |model, system: &System| {
                system.count(has_turn) == model.group_limit as usize
                    && system.count(|row| row.state == State::Waiting) > 0
            }),
        ]
    }
}

fn has_turn(row: &Row) -> bool {
    row.in_turn && !row.state.has_ended()
}

impl System {
    /// No session is in a call: all is committed.
    fn is_quiet(&self) -> bool {
        self.sessions.iter().all(|session| session.call.is_none())
    }

    /// How many jobs are so: as they are committed, or as they will be.
    fn count(&self, is_so: impl Fn(&Row) -> bool) -> usize {
        (0..self.rows.len()).filter(|job| is_so(self.committed(*job)) || is_so(&self.rows[*job])).count()
    }
}
