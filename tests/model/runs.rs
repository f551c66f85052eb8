//! Runs of a group: a claim takes the job that has the turn (the head) and jobs that wait behind it, and one worker
//! runs them in order. Every interleaving of claims, workers, lost workers, operators and late producers, statement by
//! statement, with what each statement locks, waits for, skips (READPAST) or reads uncommitted (NOLOCK).
//!
//! The group's limit is 1. Two statements are one step where no other session can see the state between them. Each
//! worker holds one run: a worker with two runs does what two workers do.

use stateright::{Model, Property};

use super::members::{Outcome, State};

/// How often a job is claimed. More claims lead to nothing new.
const MAX_FENCE: u8 = 2;
const WORKERS: usize = 2;

/// The rules of the protocol. Without any one of them, a property fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// A claim adds the jobs behind the head to the group's count, in its transaction.
    pub runs_are_counted: bool,
    /// A claim takes a run only if the head has the only turn.
    pub runs_need_the_only_turn: bool,
    /// A claim locks the group before it reads the count, and takes no run if another session has locked it.
    pub claim_holds_the_count: bool,
    /// `advance_groups` locks the group before it reads the count.
    pub advance_holds_the_count: bool,
    /// A run ends before the first job that still waits when its jobs are claimed, because it was locked.
    pub runs_have_no_gap: bool,
    /// A run also has the waiting jobs before its head, which came after the head got the turn.
    pub runs_begin_with_the_first: bool,
    /// A claim takes no run while an operator's transaction ends waiting jobs, because it may be rolled back.
    pub operators_prevent_runs: bool,
    /// Released and reaped jobs wait again, without the turn.
    pub given_back_jobs_wait: bool,
    /// Their event has the lowest of their ids, so that the search for the next job starts there.
    pub events_have_the_first: bool,
    /// A worker starts a job of a run only when the jobs before it have run and are done.
    pub jobs_start_in_order: bool,
    /// When a job of a run fails, the worker starts no job behind it, and releases them.
    pub failures_hand_the_rest_back: bool,
    /// The worker reports a failure only when no later job of the run is running. (A later job has started if the first
    /// result was good, and the sink rejected it.)
    pub failures_wait_for_running_jobs: bool,
    /// The worker reports a job only when the jobs before it in the run are confirmed, or together with them.
    pub ends_are_sent_in_order: bool,
    /// It also releases jobs behind a failed one that have run already.
    pub failures_hand_back_what_ran: bool,
    /// `release` and `reap` give back the later jobs of a run first, or all at once: a call of `finish` that was abandoned,
    /// or whose worker is lost, then still finds the earlier ones.
    pub later_jobs_go_back_first: bool,
}

pub const ALL_RULES: Rules = Rules {
    runs_are_counted: true,
    runs_need_the_only_turn: true,
    claim_holds_the_count: true,
    advance_holds_the_count: true,
    runs_have_no_gap: true,
    runs_begin_with_the_first: true,
    operators_prevent_runs: true,
    given_back_jobs_wait: true,
    events_have_the_first: true,
    jobs_start_in_order: true,
    failures_hand_the_rest_back: true,
    failures_wait_for_running_jobs: true,
    ends_are_sent_in_order: true,
    failures_hand_back_what_ran: true,
    later_jobs_go_back_first: true,
};

#[derive(Debug, Clone, Copy)]
pub struct Runs {
    pub rules: Rules,
    pub jobs: usize,
    /// How many jobs a claim takes.
    pub run: usize,
    pub sessions: usize,
    /// At most this many failures and operators' calls.
    pub faults: u8,
    pub retry_passes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Row {
    state: State,
    in_turn: bool,
    fence: u8,
}

/// The row of `groups`. No job below `from` waits, except jobs of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Group {
    turns: i8,
    from: usize,
}

/// The rows of `group_events`, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Event {
    turns: i8,
    first: Option<usize>,
}

/// A job under a fence.
type Claimed = (usize, u8);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// `enqueue` in a transaction of its caller's.
    Add(usize),
    Claim,
    Finish(Vec<(Claimed, Outcome)>),
    /// `release`.
    GiveBack(Vec<Claimed>),
    /// `reap` of a worker's jobs.
    Reap(Vec<Claimed>),
    /// `cancel` or `purge` in a transaction of its caller's.
    Cancel(usize),
    /// A statement that locks a job and does not change it.
    Look(usize),
    Advance,
}

/// A session in a call: its variables, and what its transaction has done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Session {
    call: Call,
    /// How many of the call's statements have run.
    statement: u8,
    /// Its client no longer waits for the answer.
    is_abandoned: bool,
    /// The rows that it has locked, before its changes.
    rows: Vec<(usize, Row)>,
    /// The group's row before its change, if it has locked the row.
    group: Option<Group>,
    /// It holds the application lock of `lock_groups`.
    gives_turns: bool,
    /// It holds the application lock that prevents runs.
    operates: bool,
    /// It holds this lock shared.
    takes_a_run: bool,
    /// Events that it has added.
    noted: Option<Event>,
    /// Events that it has deleted.
    taken: Option<Event>,
    /// advance_groups: the group as it has read it, without the turns in the events.
    read: Option<Group>,
    /// claim: from which job to which the run may go.
    range: (usize, usize),
    /// The committed waiting jobs at the time of the read.
    committed: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    Held,
    Running,
    Ran(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Entry {
    claimed: Claimed,
    phase: Phase,
    /// The worker will release it.
    goes_back: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Worker {
    Alive,
    /// It has lost its lease and does not know it yet.
    Lost,
    Crashed,
}

/// The jobs that a worker holds from one claim, in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Run {
    worker: Worker,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct System {
    /// As a NOLOCK read sees them.
    rows: Vec<Row>,
    group: Group,
    /// Committed events.
    events: Option<Event>,
    sessions: Vec<Session>,
    runs: Vec<Run>,
    faults: u8,
    /// For each job that has a turn, the earlier jobs that had a turn when it got its own. Without jobs that have given
    /// their turn away for a retry.
    earlier: Vec<Vec<usize>>,
    passed_over: bool,
    started_after_a_later_one: bool,
    started_too_early: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// A session calls a procedure, and runs its first statement.
    Call(Call),
    /// A session's next statement.
    Next(usize),
    /// A producer or an operator rolls back.
    RollBack(usize),
    /// A connection breaks, and its transaction is rolled back.
    Kill(usize),
    /// A client gives up a call, which the server still completes.
    Abandon(usize),
    /// A scheduled job becomes due.
    Promote(usize),
    /// The worker of a run starts the job at this place.
    Start(usize, usize),
    End(usize, usize, Outcome),
    /// The sink rejects the result of a job, which therefore fails.
    Refuse(usize, usize),
    /// The worker stops or cannot report a job, and releases the rest of the run from this place on.
    Stop(usize, usize),
    Crash(usize),
}

/// The statement waits for another session or has nothing to do.
struct Stays;

impl Session {
    fn new(call: Call) -> Session {
        Session {
            call,
            statement: 0,
            is_abandoned: false,
            rows: Vec::new(),
            group: None,
            gives_turns: false,
            operates: false,
            takes_a_run: false,
            noted: None,
            taken: None,
            read: None,
            range: (0, 0),
            committed: Vec::new(),
        }
    }

    fn has_locked(&self, job: usize) -> bool {
        self.rows.iter().any(|(locked, _)| *locked == job)
    }

    fn note(&mut self, event: Event) {
        add(&mut self.noted, Some(event));
    }

    /// Whether its client waits for an answer about this job.
    fn answers_for(&self, claimed: Claimed) -> bool {
        !self.is_abandoned
            && match &self.call {
                Call::Finish(ends) => ends.iter().any(|(job, _)| *job == claimed),
                Call::GiveBack(jobs) => jobs.contains(&claimed),
                _ => false,
            }
    }
}

fn add(events: &mut Option<Event>, more: Option<Event>) {
    *events = match (*events, more) {
        (Some(one), Some(other)) => {
            Some(Event { turns: one.turns + other.turns, first: one.first.into_iter().chain(other.first).min() })
        }
        (one, other) => one.or(other),
    }
}

impl Run {
    /// The jobs from this place on are behind a failed one.
    fn hand_back_from(&mut self, place: usize, rules: &Rules) {
        for entry in &mut self.entries[place..] {
            entry.goes_back |= rules.failures_hand_back_what_ran || !matches!(entry.phase, Phase::Ran(_));
        }
    }
}

impl System {
    fn committed(&self, job: usize) -> Row {
        let mut images = self.sessions.iter().flat_map(|session| &session.rows);
        images.find(|(changed, _)| *changed == job).map_or(self.rows[job], |(_, row)| *row)
    }

    /// The committed waiting jobs.
    fn waiting(&self) -> Vec<usize> {
        (0..self.rows.len()).filter(|job| self.committed(*job).state == State::Waiting).collect()
    }

    fn is_locked(&self, job: usize) -> bool {
        self.sessions.iter().any(|session| session.has_locked(job))
    }

    fn is_changed(&self, job: usize) -> bool {
        self.committed(job) != self.rows[job]
    }

    fn change(&mut self, session: usize, job: usize, change: impl FnOnce(&mut Row)) {
        self.sessions[session].rows.push((job, self.rows[job]));
        change(&mut self.rows[job]);
    }

    fn has(&self, (job, fence): Claimed) -> bool {
        self.rows[job].state == State::Claimed && self.rows[job].fence == fence
    }

    /// Whether another session has locked the group's row.
    fn group_is_locked(&self, session: usize) -> bool {
        self.others(session).any(|other| other.group.is_some())
    }

    fn others(&self, session: usize) -> impl Iterator<Item = &Session> {
        self.sessions.iter().enumerate().filter(move |(number, _)| *number != session).map(|(_, session)| session)
    }

    fn commit(&mut self, session: usize) -> Session {
        let done = self.sessions.remove(session);
        add(&mut self.events, done.noted);
        done
    }

    fn roll_back(&mut self, session: usize) {
        let undone = self.sessions.remove(session);
        for (job, row) in undone.rows {
            self.rows[job] = row;
        }
        if let Some(group) = undone.group {
            self.group = group;
        }
        add(&mut self.events, undone.taken);
    }

    /// The job has got a turn.
    fn note_turn(&mut self, job: usize) {
        self.earlier[job] = (0..job).filter(|earlier| has_turn(&self.committed(*earlier))).collect();
    }

    fn entry(&self, claimed: Claimed) -> Option<(usize, usize)> {
        let of_run = |run: &Run| run.entries.iter().position(|entry| entry.claimed == claimed);
        self.runs.iter().enumerate().find_map(|(number, run)| of_run(run).map(|place| (number, place)))
    }

    fn is_under_way(&self, claimed: Claimed) -> bool {
        self.sessions.iter().any(|session| session.answers_for(claimed))
    }

    /// Forgets what reap has taken from crashed workers. Sorts sessions and runs, because their order does not matter.
    fn tidy(&mut self) {
        let rows: Vec<Row> = (0..self.rows.len()).map(|job| self.committed(job)).collect();
        for run in self.runs.iter_mut().filter(|run| run.worker == Worker::Crashed) {
            run.entries.retain(|entry| {
                let (job, fence) = entry.claimed;
                rows[job].state == State::Claimed && rows[job].fence == fence
            });
        }
        self.runs.retain(|run| !run.entries.is_empty());
        self.runs.sort();
        self.sessions.sort();
    }

    /// The job has failed and given its turn away. It may run after later jobs.
    fn forget_order(&mut self, job: usize) {
        for earlier in &mut self.earlier {
            earlier.retain(|other| *other != job);
        }
    }
}

impl Runs {
    fn session(&self, system: &mut System, session: usize) -> Result<(), Stays> {
        let statement = system.sessions[session].statement;
        system.sessions[session].statement += 1;
        match system.sessions[session].call.clone() {
            Call::Add(job) => self.add(system, session, statement, job),
            Call::Claim => self.claim(system, session, statement),
            Call::Finish(ends) => self.finish(system, session, statement, &ends),
            Call::GiveBack(jobs) => self.give_back(system, session, statement, &jobs, true),
            Call::Reap(jobs) => self.give_back(system, session, statement, &jobs, false),
            Call::Cancel(job) => self.cancel(system, session, statement, job),
            Call::Look(job) => look(system, session, statement, job),
            Call::Advance => self.advance(system, session, statement),
        }
    }

    fn add(&self, system: &mut System, session: usize, statement: u8, job: usize) -> Result<(), Stays> {
        if statement > 0 {
            system.commit(session);
            return Ok(());
        }
        system.change(session, job, |row| row.state = State::Waiting);
        system.sessions[session].note(Event { turns: 0, first: Some(job) });
        Ok(())
    }

    fn claim(&self, system: &mut System, session: usize, statement: u8) -> Result<(), Stays> {
        match statement {
            0 => {
                let is_free = |job: &usize| system.rows[*job].state == State::Ready && !system.is_locked(*job);
                let head = (0..self.jobs).find(is_free).ok_or(Stays)?;
                system.change(session, head, |row| (row.state, row.fence) = (State::Claimed, row.fence + 1));
                let is_locked = self.rules.claim_holds_the_count && system.group_is_locked(session);
                let has_others = self.rules.runs_need_the_only_turn && system.group.turns != 1;
                let operates = |other: &Session| other.operates;
                let is_prevented = self.rules.operators_prevent_runs && system.sessions.iter().any(operates);
                if is_locked || has_others || is_prevented {
                    return self.claim(system, session, 4); // without a run
                }
                let group = system.group;
                let this = &mut system.sessions[session];
                this.takes_a_run = self.rules.operators_prevent_runs;
                this.group = self.rules.claim_holds_the_count.then_some(group);
            }
            1 => {
                let head = system.sessions[session].rows[0].0;
                let from = if self.rules.runs_begin_with_the_first { system.group.from } else { head };
                let waits = |job: &usize| system.rows[*job].state == State::Waiting;
                let Some(to) = (from..self.jobs).filter(waits).take(self.run - 1).last() else {
                    return self.claim(system, session, 4); // without a run
                };
                // Jobs before `from` have not joined the group yet: nobody has handled their event.
                let mut committed = system.waiting();
                committed.retain(|job| *job >= system.group.from);
                system.sessions[session].committed = committed;
                system.sessions[session].range = (from, to);
            }
            2 => {
                let (from, to) = system.sessions[session].range;
                let is_free = |job: &usize| system.rows[*job].state == State::Waiting && !system.is_locked(*job);
                let run: Vec<usize> = (from..=to).filter(is_free).take(self.run - 1).collect();
                if run.is_empty() {
                    return self.claim(system, session, 4); // without a run
                }
                for job in run {
                    system.change(session, job, |row| {
                        *row = Row { state: State::Claimed, in_turn: true, fence: row.fence + 1 };
                    });
                }
            }
            3 => {
                if system.group_is_locked(session) {
                    return Err(Stays);
                }
                let mut run = system.sessions[session].rows[1..].to_vec();
                let from = system.sessions[session].range.0;
                let last = run.iter().map(|(job, _)| *job).max().unwrap_or(0);
                let waits = |job: &usize| system.rows[*job].state == State::Waiting;
                let gap = (from..last).find(waits).filter(|_| self.rules.runs_have_no_gap).unwrap_or(last);
                for (job, before) in run.iter().filter(|(job, _)| *job > gap) {
                    system.rows[*job] = *before;
                }
                run.retain(|(job, _)| *job <= gap);
                let last = run.iter().map(|(job, _)| *job).max().unwrap_or(0);
                let is_passed_over = |job: &usize| *job < last && run.iter().all(|(claimed, _)| claimed != job);
                let committed = std::mem::take(&mut system.sessions[session].committed);
                system.passed_over |= committed.iter().any(is_passed_over);
                let group = system.group;
                system.sessions[session].group.get_or_insert(group);
                if self.rules.runs_are_counted {
                    system.group.turns += run.len() as i8;
                }
                if self.rules.runs_begin_with_the_first && !run.is_empty() {
                    system.group.from = last + 1;
                }
            }
            _ => {
                let mut claimed = system.commit(session).rows;
                claimed.retain(|(job, _)| system.rows[*job].state == State::Claimed); // the others were passed over
                for (job, _) in &claimed[1..] {
                    system.note_turn(*job);
                }
                claimed.sort();
                let entry = |(job, before): (usize, Row)| Entry {
                    claimed: (job, before.fence + 1),
                    phase: Phase::Held,
                    goes_back: false,
                };
                let entries = claimed.into_iter().map(entry).collect();
                system.runs.push(Run { worker: Worker::Alive, entries });
            }
        }
        Ok(())
    }

    fn finish(
        &self,
        system: &mut System,
        session: usize,
        statement: u8,
        ends: &[(Claimed, Outcome)],
    ) -> Result<(), Stays> {
        let passes = self.retry_passes;
        if statement == 0 {
            if ends.iter().any(|((job, _), _)| system.is_locked(*job)) {
                return Err(Stays);
            }
            for ((job, fence), outcome) in ends {
                if !system.has((*job, *fence)) {
                    continue;
                }
                let had_the_turn = system.rows[*job].in_turn;
                system.change(session, *job, |row| {
                    row.state = match outcome {
                        Outcome::Done => State::Done,
                        Outcome::Dead => State::Dead,
                        Outcome::Retry if passes => State::Waiting,
                        Outcome::Retry => State::Ready,
                        Outcome::RetryLater => State::Scheduled,
                    };
                    row.in_turn &= row.state.has_ended() || !passes;
                });
                let has_ended = system.rows[*job].state.has_ended();
                if had_the_turn && (has_ended || passes) {
                    system.sessions[session].note(Event { turns: 1, first: (!has_ended).then_some(*job) });
                }
            }
            return Ok(());
        }
        let done = system.commit(session);
        for ((job, fence), outcome) in ends {
            let took_effect = done.has_locked(*job);
            if took_effect && *outcome != Outcome::Done && passes {
                system.forget_order(*job);
            }
            let place = system.entry((*job, *fence)).filter(|_| !done.is_abandoned);
            let Some((run, place)) = place else { continue };
            let run = &mut system.runs[run];
            if took_effect {
                run.entries.remove(place);
            } else if !run.entries[place].goes_back {
                run.entries.remove(place);
                run.hand_back_from(place, &self.rules);
            }
        }
        Ok(())
    }

    fn give_back(
        &self,
        system: &mut System,
        session: usize,
        statement: u8,
        jobs: &[Claimed],
        waits: bool,
    ) -> Result<(), Stays> {
        if statement > 0 {
            let done = system.commit(session);
            for (job, _) in &done.rows {
                system.earlier[*job].clear();
            }
            for claimed in jobs {
                if let (Some((run, place)), true) = (system.entry(*claimed), waits && !done.is_abandoned) {
                    system.runs[run].entries.remove(place);
                }
            }
            return Ok(());
        }
        if waits && jobs.iter().any(|(job, _)| system.is_locked(*job)) {
            return Err(Stays);
        }
        let is_found = |claimed: &&Claimed| system.has(**claimed) && !system.is_locked(claimed.0);
        let mut found: Vec<Claimed> = jobs.iter().filter(is_found).copied().collect();
        if self.rules.later_jobs_go_back_first {
            let stays = |claimed: &&Claimed| system.has(**claimed) && !found.contains(claimed);
            let last = jobs.iter().rfind(stays).copied();
            found.retain(|claimed| Some(*claimed) > last);
        }
        for (job, _) in &found {
            let rules = self.rules;
            system.change(session, *job, |row| match rules.given_back_jobs_wait {
                true => (row.state, row.in_turn) = (State::Waiting, false),
                false => row.state = State::Ready,
            });
            if rules.given_back_jobs_wait {
                let first = rules.events_have_the_first.then_some(*job);
                system.sessions[session].note(Event { turns: 1, first });
            }
        }
        if found.is_empty() && !waits { Err(Stays) } else { Ok(()) }
    }

    fn cancel(&self, system: &mut System, session: usize, statement: u8, job: usize) -> Result<(), Stays> {
        if statement > 0 {
            system.commit(session);
            return Ok(());
        }
        let is_kept = |other: &Session| other.gives_turns || other.takes_a_run || other.operates;
        if system.others(session).any(is_kept) || system.is_locked(job) {
            return Err(Stays);
        }
        let had_the_turn = system.rows[job].in_turn;
        system.change(session, job, |row| row.state = State::Cancelled);
        let this = &mut system.sessions[session];
        (this.gives_turns, this.operates) = (true, true);
        if had_the_turn {
            this.note(Event { turns: 1, first: None });
        }
        Ok(())
    }

    fn advance(&self, system: &mut System, session: usize, statement: u8) -> Result<(), Stays> {
        match statement {
            0 => {
                let event = system.events.ok_or(Stays)?;
                let has_changed = |other: &Session| other.group.is_some_and(|before| before != system.group);
                let waits = match self.rules.advance_holds_the_count {
                    true => system.group_is_locked(session),
                    false => system.others(session).any(has_changed),
                };
                if waits || system.others(session).any(|other| other.gives_turns) {
                    return Err(Stays);
                }
                let Group { turns, from } = system.group;
                let is_there = turns > 0 || from < self.jobs;
                let from = event.first.unwrap_or(if is_there { from } else { 0 }).min(from);
                let committed = system.waiting();
                let this = &mut system.sessions[session];
                (this.gives_turns, this.taken) = (true, Some(event));
                this.read = Some(Group { turns: turns - event.turns, from });
                this.group = self.rules.advance_holds_the_count.then_some(system.group);
                this.committed = committed;
                system.events = None;
            }
            1 => {
                if system.group_is_locked(session) {
                    return Err(Stays);
                }
                let committed = std::mem::take(&mut system.sessions[session].committed);
                let Group { mut turns, from } = system.sessions[session].read.take().expect("it has read the group");
                let waits = |job: &usize| system.rows[*job].state == State::Waiting;
                let is_free = |job: &usize| waits(job) && !system.is_changed(*job);
                let has_free_turn = turns < 1;
                let next = (from..self.jobs).find(is_free).filter(|_| has_free_turn);
                if let Some(job) = next {
                    system.passed_over |= committed.iter().any(|earlier| *earlier < job);
                    if system.is_locked(job) {
                        system.sessions[session].note(Event { turns: 0, first: Some(from) });
                    } else {
                        turns += 1;
                        system.change(session, job, |row| (row.state, row.in_turn) = (State::Ready, true));
                    }
                }
                let group = system.group;
                system.sessions[session].group.get_or_insert(group);
                let waits = |job: &usize| system.rows[*job].state == State::Waiting;
                // Only groups with a free turn are searched.
                let first = || (from..self.jobs).find(waits).unwrap_or(self.jobs);
                let from = if has_free_turn { first() } else { from };
                system.group = Group { turns: turns.max(0), from };
            }
            _ => {
                for (job, _) in system.commit(session).rows {
                    system.note_turn(job);
                }
            }
        }
        Ok(())
    }

    /// What the worker of a run may do.
    fn worker(&self, system: &System, number: usize, steps: &mut Vec<Step>) {
        let Run { entries, worker } = &system.runs[number];
        let may_fail = system.faults < self.faults;
        let claimed: Vec<Claimed> = entries.iter().map(|entry| entry.claimed).collect();
        if *worker != Worker::Alive || may_fail {
            steps.push(Step::Call(Call::Reap(claimed.clone())));
        }
        if *worker == Worker::Crashed {
            return;
        }
        if may_fail {
            steps.push(Step::Crash(number));
        }
        let is_running = |entry: &Entry| entry.phase == Phase::Running;
        let is_under_way = |place: usize| system.is_under_way(claimed[place]);
        for (place, entry) in entries.iter().enumerate() {
            let before = &entries[..place];
            match entry.phase {
                Phase::Held if !entry.goes_back => {
                    let is_done = |entry: &Entry| entry.phase == Phase::Ran(Outcome::Done);
                    let is_next = before.iter().all(is_done) || !self.rules.jobs_start_in_order;
                    if is_next {
                        steps.push(Step::Start(number, place));
                    }
                }
                Phase::Running => {
                    steps.push(Step::End(number, place, Outcome::Done));
                    if may_fail {
                        let failures = [Outcome::Retry, Outcome::RetryLater, Outcome::Dead];
                        steps.extend(failures.map(|outcome| Step::End(number, place, outcome)));
                    }
                }
                Phase::Ran(Outcome::Done) if may_fail && !entry.goes_back && !is_under_way(place) => {
                    steps.push(Step::Refuse(number, place));
                }
                _ => {}
            }
            if may_fail && !entry.goes_back && before.iter().all(|entry| !entry.goes_back) {
                steps.push(Step::Stop(number, place));
            }
        }
        self.ends(system, entries, steps);
        let goes_back = |(place, entry): &(usize, &Entry)| {
            let is_over = !is_running(entry);
            entry.goes_back && is_over && !is_under_way(*place)
        };
        let mut back: Vec<Claimed> =
            entries.iter().enumerate().filter(goes_back).map(|(_, entry)| entry.claimed).collect();
        if self.rules.later_jobs_go_back_first {
            // (Of a job that has not run, there is no call of `finish`.)
            let stays = |entry: &&Entry| matches!(entry.phase, Phase::Ran(_)) && !back.contains(&entry.claimed);
            let last = entries.iter().rfind(stays).map(|entry| entry.claimed);
            back.retain(|claimed| Some(*claimed) > last);
        }
        if back.len() > 1 {
            let first = if self.rules.later_jobs_go_back_first { back.len() - 1 } else { 0 };
            steps.extend(back[first..].iter().map(|claimed| Step::Call(Call::GiveBack(vec![*claimed]))));
        }
        if !back.is_empty() {
            steps.push(Step::Call(Call::GiveBack(back)));
        }
    }

    /// The calls of `finish` that the worker may send.
    fn ends(&self, system: &System, entries: &[Entry], steps: &mut Vec<Step>) {
        let mut ends = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            let Phase::Ran(outcome) = entry.phase else {
                if self.rules.ends_are_sent_in_order {
                    break;
                } else {
                    continue;
                };
            };
            let runs_behind = entries[place..].iter().any(|entry| entry.phase == Phase::Running);
            let waits = outcome != Outcome::Done && runs_behind && self.rules.failures_wait_for_running_jobs;
            if entry.goes_back || waits || system.is_under_way(entry.claimed) {
                if self.rules.ends_are_sent_in_order {
                    break;
                } else {
                    continue;
                };
            }
            ends.push((entry.claimed, outcome));
            steps.push(Step::Call(Call::Finish(ends.clone())));
            if !self.rules.ends_are_sent_in_order {
                ends.clear();
            }
        }
    }
}

fn look(system: &mut System, session: usize, statement: u8, job: usize) -> Result<(), Stays> {
    if statement > 0 {
        system.roll_back(session);
    } else if system.is_locked(job) {
        return Err(Stays);
    } else {
        system.change(session, job, |_| {});
    }
    Ok(())
}

impl Model for Runs {
    type State = System;
    type Action = Step;

    /// All jobs wait, or all but one, which is added later.
    fn init_states(&self) -> Vec<System> {
        let with_late = |late: usize| {
            let row =
                |job| Row { state: if job == late { State::Absent } else { State::Waiting }, in_turn: false, fence: 0 };
            System {
                rows: (0..self.jobs).map(row).collect(),
                group: Group { turns: 0, from: self.jobs },
                events: Some(Event { turns: 0, first: Some(usize::from(late == 0)) }),
                sessions: Vec::new(),
                runs: Vec::new(),
                faults: 0,
                earlier: vec![Vec::new(); self.jobs],
                passed_over: false,
                started_after_a_later_one: false,
                started_too_early: false,
            }
        };
        (0..=self.jobs).map(with_late).collect()
    }

    fn actions(&self, system: &System, steps: &mut Vec<Step>) {
        let may_fail = system.faults < self.faults;
        for (number, session) in system.sessions.iter().enumerate() {
            steps.push(Step::Next(number));
            if matches!(session.call, Call::Add(_) | Call::Cancel(_)) {
                steps.push(Step::RollBack(number));
            } else if may_fail && !matches!(session.call, Call::Look(_)) {
                steps.push(Step::Kill(number));
            }
            if may_fail && matches!(session.call, Call::Finish(_) | Call::GiveBack(_)) && !session.is_abandoned {
                steps.push(Step::Abandon(number));
            }
        }
        let claims = system.sessions.iter().filter(|session| session.call == Call::Claim).count();
        if claims + system.runs.len() < WORKERS {
            steps.push(Step::Call(Call::Claim));
        }
        steps.push(Step::Call(Call::Advance));
        for run in 0..system.runs.len() {
            self.worker(system, run, steps);
        }
        for job in 0..self.jobs {
            match system.rows[job].state {
                State::Absent => steps.push(Step::Call(Call::Add(job))),
                State::Scheduled => steps.push(Step::Promote(job)),
                _ => {}
            }
            if may_fail {
                if matches!(system.rows[job].state, State::Waiting | State::Ready | State::Scheduled) {
                    steps.push(Step::Call(Call::Cancel(job)));
                }
                if system.rows[job].state != State::Absent {
                    steps.push(Step::Call(Call::Look(job)));
                }
            }
        }
    }

    fn next_state(&self, before: &System, step: Step) -> Option<System> {
        let mut system = before.clone();
        match step {
            Step::Call(call) => {
                if system.sessions.len() == self.sessions {
                    return None;
                }
                match &call {
                    Call::Cancel(_) | Call::Look(_) => system.faults += 1,
                    Call::Reap(jobs) => {
                        let (run, _) = system.entry(jobs[0]).expect("it is held");
                        if system.runs[run].worker == Worker::Alive {
                            system.faults += 1;
                            system.runs[run].worker = Worker::Lost;
                        }
                    }
                    _ => {}
                }
                system.sessions.push(Session::new(call));
                let session = system.sessions.len() - 1;
                self.session(&mut system, session).ok()?;
            }
            Step::Next(session) => self.session(&mut system, session).ok()?,
            Step::RollBack(session) => system.roll_back(session),
            Step::Kill(session) => {
                system.faults += 1;
                system.roll_back(session);
            }
            Step::Abandon(session) => {
                system.faults += 1;
                system.sessions[session].is_abandoned = true;
            }
            Step::Promote(job) => {
                if system.is_locked(job) {
                    return None;
                }
                let in_turn = system.rows[job].in_turn;
                system.rows[job].state = if in_turn { State::Ready } else { State::Waiting };
                if !in_turn {
                    add(&mut system.events, Some(Event { turns: 0, first: Some(job) }));
                }
            }
            Step::Start(run, place) => {
                let (job, _) = system.runs[run].entries[place].claimed;
                if system.runs[run].worker == Worker::Alive {
                    let is_done = |later: &usize| system.committed(*later).state == State::Done;
                    let mut later = (job..self.jobs).filter(is_done);
                    let has_run = |earlier: &usize| {
                        let entries = &system.runs[run].entries;
                        let ran =
                            |entry: &Entry| entry.claimed.0 == *earlier && entry.phase == Phase::Ran(Outcome::Done);
                        system.committed(*earlier).state.has_ended() || entries.iter().any(ran)
                    };
                    let is_too_early = !system.earlier[job].iter().all(has_run);
                    let is_too_late = later.any(|later| system.earlier[later].contains(&job));
                    system.started_too_early |= is_too_early;
                    system.started_after_a_later_one |= is_too_late;
                }
                system.runs[run].entries[place].phase = Phase::Running;
            }
            Step::End(run, place, outcome) => {
                let run = &mut system.runs[run];
                run.entries[place].phase = Phase::Ran(outcome);
                if outcome != Outcome::Done {
                    system.faults += 1;
                    if self.rules.failures_hand_the_rest_back {
                        run.hand_back_from(place + 1, &self.rules);
                    }
                }
            }
            Step::Refuse(run, place) => {
                system.faults += 1;
                let run = &mut system.runs[run];
                run.entries[place].phase = Phase::Ran(Outcome::Retry);
                run.hand_back_from(place + 1, &self.rules);
            }
            Step::Stop(run, place) => {
                system.faults += 1;
                for entry in &mut system.runs[run].entries[place..] {
                    entry.goes_back = true;
                }
            }
            Step::Crash(run) => {
                system.faults += 1;
                system.runs[run].worker = Worker::Crashed;
                for entry in &mut system.runs[run].entries {
                    (entry.phase, entry.goes_back) = (Phase::Held, true);
                }
            }
        }
        system.tidy();
        system.rows.iter().all(|row| row.fence <= MAX_FENCE).then_some(system)
    }

    fn properties(&self) -> Vec<Property<Runs>> {
        vec![
            Property::always("one job of a group runs at a time", |_, system: &System| {
                let is_alive = |run: &&Run| run.worker == Worker::Alive;
                let entries = system.runs.iter().filter(is_alive).flat_map(|run| &run.entries);
                entries.filter(|entry| entry.phase == Phase::Running).count() <= 1
            }),
            Property::always("no job starts after a later one is done", |_, system: &System| {
                !system.started_after_a_later_one
            }),
            Property::always("a job starts when those before it have run", |_, system: &System| {
                !system.started_too_early
            }),
            Property::always("no job is passed over", |_, system: &System| !system.passed_over),
            Property::always("turns are counted", |_, system: &System| {
                let given_away = system.events.map_or(0, |event| event.turns);
                let have_one = system.rows.iter().filter(|row| has_turn(row)).count();
                !system.sessions.is_empty() || system.group.turns - given_away == have_one as i8
            }),
            Property::always("who waits gets the turn", |_, system: &System| {
                !system.sessions.is_empty()
                    || system.events.is_some()
                    || system.rows.iter().any(has_turn)
                    || system.rows.iter().all(|row| row.state != State::Waiting)
            }),
            Property::always("what is claimed is held", |_, system: &System| {
                let is_held =
                    |(job, row): (usize, &Row)| row.state != State::Claimed || system.entry((job, row.fence)).is_some();
                !system.sessions.is_empty() || system.rows.iter().enumerate().all(is_held)
            }),
            Property::always("claims wait for nobody", |model, system: &System| {
                let mut sessions = 0..system.sessions.len();
                sessions.all(|session| {
                    system.sessions[session].call != Call::Claim || model.session(&mut system.clone(), session).is_ok()
                })
            }),
            Property::always("nobody waits for ever", |model, system: &System| {
                let moves = |session: usize| model.session(&mut system.clone(), session).is_ok();
                system.sessions.is_empty() || (0..system.sessions.len()).any(moves)
            }),
            // The model is wide enough.
            Property::sometimes("all are done", |_, system: &System| {
                system.rows.iter().all(|row| row.state == State::Done)
            }),
            Property::sometimes("a run is confirmed at once", |model, system: &System| {
                system.sessions.iter().any(|session| match &session.call {
                    Call::Finish(ends) => {
                        ends.len() == model.run && ends.iter().all(|((job, _), _)| session.has_locked(*job))
                    }
                    _ => false,
                })
            }),
            Property::sometimes("a job fails, and the rest of its run waits again", |_, system: &System| {
                let has_failed = |run: &Run| run.entries[0].phase == Phase::Ran(Outcome::Retry);
                let waits_again = |row: &Row| row.state == State::Waiting && row.fence > 0;
                system.runs.iter().any(has_failed) && system.rows.iter().any(waits_again)
            }),
            Property::sometimes("a worker crashes in the middle of a run", |_, system: &System| {
                system.runs.iter().any(|run| run.worker == Worker::Crashed && run.entries[0].claimed.0 == 1)
                    && system.rows[0].state == State::Done
            }),
        ]
    }
}

fn has_turn(row: &Row) -> bool {
    row.in_turn && !row.state.has_ended()
}
