//! Jobs that wait for others, and the sessions that add, end, cancel, delete and bring them back, statement by
//! statement: every interleaving, with what each statement locks, waits for, skips (READPAST) or reads uncommitted
//! (NOLOCK).
//!
//! Two statements are one step here where nobody can see the state between them.

use stateright::{Model, Property};

/// A job is claimed at most this often. More claims lead to nothing new.
const MAX_RUNS: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum State {
    /// Not there yet.
    #[default]
    Absent,
    /// Waits for its parents.
    Held,
    Ready,
    Claimed,
    Done,
    Dead,
    Cancelled,
    /// Its row is deleted; whether it was done.
    Gone(bool),
}

impl State {
    fn has_row(self) -> bool {
        !matches!(self, State::Absent | State::Gone(_))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnDead {
    Hold,
    Cancel,
    Run,
}

/// How a parent has ended, as an event or a closed edge has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum End {
    /// It had no row when a child named it.
    Unknown,
    Done,
    Dead,
    /// Or deleted without being done.
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum EdgeState {
    Absent,
    Open,
    Closed(End),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Event {
    job: usize,
    end: End,
    is_gone: bool,
    /// Left by a call that found something locked; for `promote`.
    tried: bool,
}

/// The rules of the protocol. Without any one of them, a property fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// An enqueue reads the parents after it has added the edges.
    pub edges_come_first: bool,
    /// It waits for sessions that are changing a parent.
    pub enqueue_waits_for_parents: bool,
    /// It reads the parents again after it has linked their queue.
    pub parents_are_read_again: bool,
    /// A procedure that ends a job looks for edges after the change.
    pub ends_look_afterwards: bool,
    /// It finds edges that are not committed.
    pub uncommitted_edges_count: bool,
    /// Events are committed with what has happened.
    pub events_are_committed_with_it: bool,
    /// One session at a time closes edges.
    pub one_closes_edges: bool,
    /// What a job is now counts, not what an event says.
    pub rows_are_read: bool,
    /// Events of jobs that are locked are left for the next call.
    pub locked_jobs_are_left: bool,
    /// Only an event of its deletion, or of a child that found no row, tells that a job is gone, and how it ended.
    pub deletions_are_known: bool,
    /// An event stays as long as its edges are locked or not committed.
    pub events_stay_for_open_edges: bool,
    /// `promote` does what is left.
    pub promote_advances: bool,
    /// The end of a cancelled child is noted, too.
    pub cancelled_children_are_noted: bool,
}

pub const ALL_RULES: Rules = Rules {
    edges_come_first: true,
    enqueue_waits_for_parents: true,
    parents_are_read_again: true,
    ends_look_afterwards: true,
    uncommitted_edges_count: true,
    events_are_committed_with_it: true,
    one_closes_edges: true,
    rows_are_read: true,
    locked_jobs_are_left: true,
    deletions_are_known: true,
    events_stay_for_open_edges: true,
    promote_advances: true,
    cancelled_children_are_noted: true,
};

#[derive(Debug, Clone, Copy)]
pub struct Edges {
    pub rules: Rules,
    pub jobs: usize,
    /// Parent, child.
    pub edges: &'static [(usize, usize, OnDead)],
    pub sessions: usize,
    /// At most this many failures and operators' calls.
    pub faults: u8,
    /// Whether done jobs are deleted.
    pub deletes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// `enqueue` in a transaction of the caller's.
    Add(usize),
    /// `finish`: done or dead.
    Finish(usize, bool),
    Cancel(usize),
    /// `purge`, of what is not running.
    Delete(usize),
    Requeue(usize),
    /// `advance_edges`; with `promote`, also what was left before.
    Advance(bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ended {
    event: Event,
    /// The row was read, or is gone.
    is_known: bool,
    /// Its edges would be closed with the wrong end.
    is_wrong: bool,
}

/// A session: the call that it is in, its variables and what its transaction has done.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Session {
    call: Option<Call>,
    /// How many of the call's statements have run.
    statement: u8,
    /// enqueue: the parents as it has read them. `None`: not ended.
    parents: Vec<(usize, Option<End>)>,
    /// advance_edges: the ends of parents.
    ends: Vec<Ended>,
    /// advance_edges: some edge was closed, or the event of some job was left over from the last round.
    has_progress: bool,

    /// The rows and edges that it has changed, as they were.
    before: Vec<(usize, State)>,
    edges_before: Vec<(usize, EdgeState)>,
    /// Events that it has added.
    noted: Vec<Event>,
    /// Events that it has deleted.
    taken: Vec<Event>,
    has_linked: bool,
    has_edges: bool,
    /// enqueue: it has seen that the parents' queue is in linked_queues.
    is_linked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct System {
    /// As a NOLOCK read sees them.
    rows: Vec<State>,
    runs: Vec<u8>,
    /// An operator has said that it need not wait.
    is_requeued: Vec<bool>,
    edges: Vec<EdgeState>,
    /// Who has locked the row.
    locks: Vec<Option<usize>>,
    /// Committed events.
    events: Vec<Event>,
    /// The queue is in linked_queues, perhaps not committed.
    is_linked: bool,
    sessions: Vec<Session>,
    faults: u8,
    has_closed_wrongly: bool,
    has_started_early: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    Claim(usize),
    /// A session calls a procedure: its first statement, unless it has to wait.
    Call(Call),
    /// A session's next statement.
    Next(usize),
    /// A connection breaks, or a producer rolls back.
    Kill(usize),
    /// A call leaves the edges to `promote`: another session closes edges, or it is in a caller's transaction.
    GiveUp(usize),
}

/// A statement that waits for another session.
struct Waits;

impl System {
    fn committed(&self, job: usize) -> State {
        let mut images = self.sessions.iter().flat_map(|session| &session.before);
        images.find(|(changed, _)| *changed == job).map_or(self.rows[job], |(_, row)| *row)
    }

    fn committed_edge(&self, edge: usize) -> EdgeState {
        let mut images = self.sessions.iter().flat_map(|session| &session.edges_before);
        images.find(|(changed, _)| *changed == edge).map_or(self.edges[edge], |(_, state)| *state)
    }

    fn is_locked(&self, session: usize, job: usize) -> bool {
        self.locks[job].is_some_and(|other| other != session)
    }

    fn change(&mut self, session: usize, job: usize, state: State) {
        self.locks[job] = Some(session);
        let before = &mut self.sessions[session].before;
        if before.iter().all(|(changed, _)| *changed != job) {
            before.push((job, self.rows[job]));
        }
        self.rows[job] = state;
    }

    fn change_edge(&mut self, session: usize, edge: usize, state: EdgeState) {
        let before = &mut self.sessions[session].edges_before;
        if before.iter().all(|(changed, _)| *changed != edge) {
            before.push((edge, self.edges[edge]));
        }
        self.edges[edge] = state;
    }

    fn note(&mut self, session: usize, event: Event) {
        self.sessions[session].noted.push(event);
    }

    fn add_events(&mut self, events: Vec<Event>) {
        self.events.extend(events);
        self.events.sort_unstable();
        self.events.dedup();
    }

    fn commit(&mut self, session: usize) {
        let done = std::mem::take(&mut self.sessions[session]);
        self.add_events(done.noted);
        self.unlock(session);
    }

    fn roll_back(&mut self, session: usize) {
        let undone = std::mem::take(&mut self.sessions[session]);
        for (job, row) in undone.before {
            self.rows[job] = row;
        }
        for (edge, state) in undone.edges_before {
            self.edges[edge] = state;
        }
        self.add_events(undone.taken);
        self.is_linked &= !undone.has_linked;
        self.unlock(session);
    }

    fn unlock(&mut self, session: usize) {
        for lock in &mut self.locks {
            lock.take_if(|locked_by| *locked_by == session);
        }
    }

    fn is_quiet(&self) -> bool {
        self.sessions.iter().all(|session| session.call.is_none())
    }
}

impl Edges {
    fn run_statement(&self, system: &mut System, session: usize) -> Result<(), Waits> {
        let statement = system.sessions[session].statement;
        system.sessions[session].statement += 1;
        match system.sessions[session].call.expect("it is in a call") {
            Call::Add(job) => self.add(system, session, job, statement),
            Call::Finish(job, is_done) => {
                let done = if self.deletes { State::Gone(true) } else { State::Done };
                let to = if is_done { done } else { State::Dead };
                self.end(system, session, statement, job, to, |row| row == State::Claimed)
            }
            Call::Cancel(job) => self.end(system, session, statement, job, State::Cancelled, |row| {
                matches!(row, State::Held | State::Ready)
            }),
            Call::Delete(job) => {
                let to = State::Gone(system.rows[job] == State::Done);
                self.end(system, session, statement, job, to, |row| row.has_row() && row != State::Claimed)
            }
            Call::Requeue(job) => self.requeue(system, session, job, statement),
            Call::Advance(promotes) => self.advance(system, session, statement, promotes),
        }
    }

    fn of_child(&self, job: usize) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.edges.len()).filter(move |edge| self.edges[*edge].1 == job)
    }

    fn of_parent(&self, job: usize) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.edges.len()).filter(move |edge| self.edges[*edge].0 == job)
    }

    /// `enqueue` and `watch_parents`.
    fn add(&self, system: &mut System, session: usize, job: usize, statement: u8) -> Result<(), Waits> {
        let add_edges = |system: &mut System| {
            self.of_child(job).for_each(|edge| system.change_edge(session, edge, EdgeState::Open));
        };
        match statement {
            0 => {
                system.change(session, job, State::Held);
                if self.rules.edges_come_first {
                    add_edges(system);
                }
            }
            1 => {
                let parents: Vec<usize> = self.of_child(job).map(|edge| self.edges[edge].0).collect();
                let waits = self.rules.enqueue_waits_for_parents;
                if waits && parents.iter().any(|parent| system.is_locked(session, *parent)) {
                    return Err(Waits);
                }
                let read = |parent: usize| {
                    let row = if waits { system.rows[parent] } else { system.committed(parent) };
                    let end = match row {
                        State::Absent | State::Gone(_) => Some(End::Unknown),
                        row => end_of(row),
                    };
                    (parent, end)
                };
                system.sessions[session].parents = parents.into_iter().map(read).collect();
            }
            2 => {
                let parents = std::mem::take(&mut system.sessions[session].parents);
                // A dead or cancelled one may be requeued.
                let may_end = |end: &Option<End>| !matches!(end, Some(End::Unknown | End::Done));
                if !system.sessions[session].is_linked && parents.iter().any(|(_, end)| may_end(end)) {
                    let mut others = system.sessions.iter().enumerate();
                    if others.any(|(number, other)| number != session && other.has_linked) {
                        return Err(Waits);
                    }
                    system.sessions[session].has_linked = !system.is_linked;
                    (system.is_linked, system.sessions[session].is_linked) = (true, true);
                    if self.rules.parents_are_read_again {
                        system.sessions[session].statement = 1;
                        return Ok(());
                    }
                }
                if !self.rules.edges_come_first {
                    add_edges(system);
                }
                for (job, end) in parents {
                    if let Some(end) = end {
                        system.note(session, Event { job, end, is_gone: false, tried: false });
                    }
                }
            }
            _ => self.commit_and_advance(system, session),
        }
        Ok(())
    }

    /// `finish`, `cancel`, `purge`; and `note_edges`.
    fn end(
        &self,
        system: &mut System,
        session: usize,
        statement: u8,
        job: usize,
        to: State,
        is_found: impl Fn(State) -> bool,
    ) -> Result<(), Waits> {
        let asks_link = matches!(system.sessions[session].call, Some(Call::Finish(..)));
        let looks = |system: &mut System, row| {
            let is_seen = |edge: usize| {
                let edge =
                    if self.rules.uncommitted_edges_count { system.edges[edge] } else { system.committed_edge(edge) };
                edge != EdgeState::Absent
            };
            let is_gone = matches!(row, State::Gone(_));
            if (system.is_linked || !asks_link)
                && (self.of_parent(job).any(is_seen) || is_gone && self.of_child(job).any(is_seen))
            {
                let (end, is_gone) = match row {
                    State::Gone(is_done) => (if is_done { End::Done } else { End::Cancelled }, true),
                    row => (end_of(row).expect("it has ended"), false),
                };
                system.note(session, Event { job, end, is_gone, tried: false });
            }
        };
        let changes = u8::from(!self.rules.ends_look_afterwards);
        match statement {
            2 => self.commit_and_advance(system, session),
            1 if changes == 0 => looks(system, system.rows[job]),
            0 if changes == 1 => looks(system, to),
            _ if system.is_locked(session, job) => return Err(Waits),
            _ if is_found(system.rows[job]) => system.change(session, job, to),
            _ => system.roll_back(session),
        }
        Ok(())
    }

    fn requeue(&self, system: &mut System, session: usize, job: usize, statement: u8) -> Result<(), Waits> {
        if statement > 0 {
            system.commit(session);
        } else if system.is_locked(session, job) {
            return Err(Waits);
        } else if matches!(system.rows[job], State::Dead | State::Cancelled) {
            system.change(session, job, State::Ready);
            system.is_requeued[job] = true;
        } else {
            system.roll_back(session);
        }
        Ok(())
    }

    fn advance(&self, system: &mut System, session: usize, statement: u8, promotes: bool) -> Result<(), Waits> {
        match statement {
            // The application lock, and the events.
            0 => {
                let is_due = |event: &Event| promotes || !event.tried;
                if !system.events.iter().any(is_due) {
                    system.roll_back(session);
                    return Ok(());
                }
                if self.rules.one_closes_edges {
                    let mut others = system.sessions.iter().enumerate();
                    if others.any(|(number, other)| number != session && other.has_edges) {
                        return Err(Waits);
                    }
                    system.sessions[session].has_edges = true;
                }
                // The event of its deletion may know how a job ended that had no row when a child named it.
                let named: Vec<usize> = (system.events.iter())
                    .filter(|event| is_due(event) && event.end == End::Unknown)
                    .map(|event| event.job)
                    .collect();
                let (taken, left) =
                    system.events.drain(..).partition(|event| is_due(event) || named.contains(&event.job));
                (system.events, system.sessions[session].taken) = (left, taken);
            }
            // What the jobs are now.
            1 => self.read_ends(system, session),
            // The edges and the children.
            2 => self.close(system, session),
            // The events that stay.
            3 => {
                let ends = std::mem::take(&mut system.sessions[session].ends);
                let mut left: Vec<Event> = Vec::new();
                for Ended { event, is_known, .. } in ends {
                    let is_open = |edge: usize| {
                        let holds = is_known && event.end == End::Dead && self.edges[edge].2 == OnDead::Hold;
                        system.edges[edge] == EdgeState::Open && !holds
                    };
                    let is_there = |edge: usize| system.edges[edge] != EdgeState::Absent;
                    let has_edges = self.of_parent(event.job).any(is_open)
                        || event.is_gone && self.of_child(event.job).any(is_there);
                    if self.rules.events_stay_for_open_edges && has_edges {
                        left.push(event);
                    }
                }
                let has_progress =
                    system.sessions[session].has_progress || left.len() < system.sessions[session].taken.len();
                system.sessions[session].noted.extend(left);
                system.commit(session);
                if has_progress {
                    system.sessions[session].call = Some(Call::Advance(promotes));
                }
            }
            _ => unreachable!("it has committed"),
        }
        Ok(())
    }

    fn read_ends(&self, system: &mut System, session: usize) {
        let taken = system.sessions[session].taken.clone();
        let mut jobs: Vec<usize> = taken.iter().map(|event| event.job).collect();
        jobs.dedup();
        for job in jobs {
            let tells = |event: &&Event| {
                let is_last = event.is_gone || event.end == End::Unknown;
                event.job == job && (is_last || !self.rules.deletions_are_known || !self.rules.rows_are_read)
            };
            let ends = || taken.iter().filter(tells).map(|event| event.end);
            let is_gone = ends().next().is_some();
            let said = match ends().max() {
                None | Some(End::Unknown) => End::Done,
                _ if ends().any(|end| end == End::Done) => End::Done,
                Some(last) => last,
            };
            let row = system.rows[job];
            let is_read = self.rules.rows_are_read && row.has_row() && !system.is_locked(session, job);
            let is_known = is_read || is_gone || !self.rules.locked_jobs_are_left;
            let Some(end) = (if is_read { end_of(row) } else { Some(said) }) else { continue };
            let is_true = match (end, system.committed(job)) {
                (End::Done, State::Done | State::Gone(true)) | (End::Dead, State::Dead) => true,
                // Nothing tells of a job that was deleted before a child named it.
                (End::Done, State::Gone(false)) => !ends().any(|end| end == End::Cancelled),
                (End::Cancelled, row) => matches!(row, State::Cancelled | State::Gone(false)),
                _ => false,
            };
            let event = Event { job, end, is_gone: is_gone && !is_read, tried: true };
            system.sessions[session].ends.push(Ended { event, is_known, is_wrong: is_known && !is_true });
        }
    }

    fn close(&self, system: &mut System, session: usize) {
        let mut closed: Vec<(usize, bool)> = Vec::new();
        let ends = system.sessions[session].ends.clone();
        for Ended { event: Event { job, end, .. }, is_wrong, .. } in ends.iter().copied().filter(|ended| ended.is_known)
        {
            for edge in self.of_parent(job) {
                let (_, child, on_dead) = self.edges[edge];
                let is_free = system.committed_edge(edge) == EdgeState::Open
                    && !system.is_locked(session, child)
                    && system.rows[child].has_row();
                if system.edges[edge] == EdgeState::Open && is_free && (end != End::Dead || on_dead != OnDead::Hold) {
                    let cancels = match end {
                        End::Cancelled => on_dead != OnDead::Run,
                        End::Dead => on_dead == OnDead::Cancel,
                        End::Done | End::Unknown => false,
                    };
                    system.has_closed_wrongly |= is_wrong;
                    system.locks[child] = Some(session);
                    system.change_edge(session, edge, EdgeState::Closed(end));
                    closed.push((child, cancels));
                }
            }
        }
        // The edges of children that are gone.
        let mut has_deleted = false;
        for job in ends.iter().filter(|ended| ended.event.is_gone).map(|ended| ended.event.job) {
            for edge in self.of_child(job) {
                let is_there = system.edges[edge] != EdgeState::Absent;
                if is_there && system.committed_edge(edge) == system.edges[edge] {
                    system.change_edge(session, edge, EdgeState::Absent);
                    has_deleted = true;
                }
            }
        }
        system.sessions[session].has_progress = has_deleted || !closed.is_empty();
        for (child, cancels) in &closed {
            if *cancels && system.rows[*child] == State::Held {
                system.change(session, *child, State::Cancelled);
                if self.rules.cancelled_children_are_noted {
                    let has_children = self.of_parent(*child).any(|edge| system.edges[edge] != EdgeState::Absent);
                    if has_children {
                        let end = End::Cancelled;
                        system.note(session, Event { job: *child, end, is_gone: false, tried: false });
                    }
                }
            }
        }
        for (child, _) in closed {
            // (Edges of a child change only under its lock, so changed ones are this session's.)
            let is_open = |edge: usize| {
                system.committed_edge(edge) == EdgeState::Open
                    && !system.sessions[session].edges_before.iter().any(|(mine, _)| *mine == edge)
            };
            if system.rows[child] == State::Held && !self.of_child(child).any(is_open) {
                system.change(session, child, State::Ready);
            }
        }
    }

    /// Commits, then advances the edges, as most procedures do.
    fn commit_and_advance(&self, system: &mut System, session: usize) {
        let noted = if self.rules.events_are_committed_with_it {
            None
        } else {
            Some(std::mem::take(&mut system.sessions[session].noted))
        };
        let has_noted = !system.sessions[session].noted.is_empty();
        system.commit(session);
        if let Some(noted) = noted {
            system.sessions[session] =
                Session { call: Some(Call::Advance(false)), noted, statement: 3, ..Session::default() };
        } else if has_noted {
            system.sessions[session].call = Some(Call::Advance(false));
        }
    }

    /// `promote`, when nobody else is there, until it changes nothing.
    fn promote(&self, system: &mut System) {
        loop {
            let before = system.clone();
            system.sessions[0].call = Some(Call::Advance(true));
            while system.sessions[0].call.is_some() {
                assert!(self.run_statement(system, 0).is_ok(), "it waits for nobody");
            }
            if *system == before {
                return;
            }
        }
    }

    /// Whether a held child has a reason to wait: one of its parents may still end as it wants.
    fn may_wait(&self, system: &System, job: usize) -> bool {
        let waits_for = |edge: usize| {
            let (parent, _, on_dead) = self.edges[edge];
            let parent = system.rows[parent];
            let is_held = parent == State::Dead && on_dead == OnDead::Hold;
            system.edges[edge] == EdgeState::Open
                && (is_held || matches!(parent, State::Held | State::Ready | State::Claimed))
        };
        self.of_child(job).any(waits_for)
    }
}

fn end_of(row: State) -> Option<End> {
    match row {
        State::Done => Some(End::Done),
        State::Dead => Some(End::Dead),
        State::Cancelled => Some(End::Cancelled),
        _ => None,
    }
}

impl Model for Edges {
    type State = System;
    type Action = Step;

    fn init_states(&self) -> Vec<System> {
        let is_child = |job: usize| self.of_child(job).next().is_some();
        vec![System {
            rows: (0..self.jobs).map(|job| if is_child(job) { State::Absent } else { State::Ready }).collect(),
            runs: vec![0; self.jobs],
            is_requeued: vec![false; self.jobs],
            edges: vec![EdgeState::Absent; self.edges.len()],
            locks: vec![None; self.jobs],
            events: Vec::new(),
            is_linked: false,
            sessions: vec![Session::default(); self.sessions],
            faults: 0,
            has_closed_wrongly: false,
            has_started_early: false,
        }]
    }

    fn actions(&self, system: &System, steps: &mut Vec<Step>) {
        let may_fail = system.faults < self.faults;
        for (number, session) in system.sessions.iter().enumerate() {
            let Some(call) = session.call else { continue };
            steps.push(Step::Next(number));
            if may_fail {
                steps.push(Step::Kill(number));
            }
            if matches!(call, Call::Advance(_)) && session.statement == 0 {
                steps.push(Step::GiveUp(number));
            }
        }
        let is_free = |job: usize| system.locks[job].is_none() && system.runs[job] < MAX_RUNS;
        let is_claimable = |job: &usize| system.rows[*job] == State::Ready && is_free(*job);
        steps.extend((0..self.jobs).filter(is_claimable).map(Step::Claim));
        if system.sessions.iter().all(|session| session.call.is_some()) {
            return;
        }
        if !system.events.is_empty() && self.rules.promote_advances {
            steps.push(Step::Call(Call::Advance(true)));
        }
        for job in 0..self.jobs {
            let is_known = |parent: usize| system.committed(parent) != State::Absent;
            match system.committed(job) {
                State::Absent if self.of_child(job).all(|edge| is_known(self.edges[edge].0)) => {
                    steps.push(Step::Call(Call::Add(job)));
                }
                State::Claimed => {
                    steps.push(Step::Call(Call::Finish(job, true)));
                    if may_fail {
                        steps.push(Step::Call(Call::Finish(job, false)));
                    }
                }
                State::Dead | State::Cancelled if may_fail => steps.push(Step::Call(Call::Requeue(job))),
                State::Held | State::Ready if may_fail => steps.push(Step::Call(Call::Cancel(job))),
                _ => {}
            }
            if may_fail && system.committed(job).has_row() && system.committed(job) != State::Claimed {
                steps.push(Step::Call(Call::Delete(job)));
            }
        }
    }

    fn next_state(&self, before: &System, step: Step) -> Option<System> {
        let mut system = before.clone();
        match step {
            Step::Claim(job) => {
                let is_open = |edge: usize| before.edges[edge] == EdgeState::Open;
                system.has_started_early |= !before.is_requeued[job] && self.of_child(job).any(is_open);
                (system.rows[job], system.runs[job]) = (State::Claimed, before.runs[job] + 1);
            }
            Step::Call(call) => {
                let session = system.sessions.iter().position(|session| session.call.is_none())?;
                // The same call is not made twice at once.
                if system.sessions.iter().any(|other| other.call == Some(call)) {
                    return None;
                }
                let is_rare = !matches!(call, Call::Add(_) | Call::Finish(_, true) | Call::Advance(_));
                system.faults += u8::from(is_rare);
                system.sessions[session].call = Some(call);
                self.run_statement(&mut system, session).ok()?;
            }
            Step::Next(session) => self.run_statement(&mut system, session).ok()?,
            Step::Kill(session) => {
                system.faults += 1;
                system.roll_back(session);
            }
            Step::GiveUp(session) => system.roll_back(session),
        }
        Some(system)
    }

    fn properties(&self) -> Vec<Property<Edges>> {
        vec![
            Property::always("no child starts before its parents have ended", |_, system: &System| {
                !system.has_started_early
            }),
            Property::always("an edge is closed by how its parent has ended", |_, system: &System| {
                !system.has_closed_wrongly
            }),
            Property::always("no child waits without a reason", |model, system: &System| {
                let any_is_stuck = |system: &System| {
                    (0..model.jobs).any(|job| system.rows[job] == State::Held && !model.may_wait(system, job))
                };
                if !system.is_quiet() || !any_is_stuck(system) {
                    return true;
                }
                let mut after = system.clone();
                if model.rules.promote_advances {
                    model.promote(&mut after);
                }
                !any_is_stuck(&after)
            }),
            Property::always("no session waits for ever", |model, system: &System| {
                let moves = |session: usize| {
                    let mut after = system.clone();
                    let call = after.sessions[session].call;
                    matches!(call, Some(Call::Advance(_))) || model.run_statement(&mut after, session).is_ok()
                };
                let mut busy =
                    (0..model.sessions).filter(|session| system.sessions[*session].call.is_some()).peekable();
                busy.peek().is_none() || busy.any(moves)
            }),
            // Guards against a model in which nothing happens.
            Property::sometimes("all are done", |_, system: &System| {
                system.rows.iter().all(|row| matches!(row, State::Done | State::Gone(true)))
            }),
            Property::sometimes("a child waits", |_, system: &System| {
                system.is_quiet() && system.rows.contains(&State::Held)
            }),
        ]
    }
}
