//! [`SharedCalls`]: jobs that several callers of [`Queue::enqueue`] hand in at the same time are sent in one call.
//!
//! While fewer than [`MOST_AT_ONCE`] calls are under way, a caller sends its own job, without any delay. Otherwise a
//! copy of the job joins the waiting jobs. When a call ends, the next one begins: it gets a connection, takes the jobs
//! that wait by then, and sends them together. It runs in a task of its own, so a caller that is dropped affects no
//! other.
//!
//! A caller sends its own job after all if no call has taken it within [`LONGEST_WAIT`], or if the call that took it
//! certainly added no job. So a job that SQL Server rejects fails alone, and each caller makes its own further tries.

use std::collections::VecDeque;
use std::io;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::enqueue_tries::EnqueueTries;
use super::queue::Queue;
use crate::error::Error;
use crate::id::Enqueued;
use crate::job::{NewJob, TraceContext};
use crate::procedures::producer::{chunk_length, has_details, is_large};

/// How many calls are under way before further jobs wait. While SQL Server executes one call, the next one is built and
/// sent.
const MOST_AT_ONCE: usize = 2;

/// The longest time that a job waits for a call to take it. The connections of the calls under way may be broken.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// How long after its own time limit a caller waits for the answer of a call that has taken its job. The call has the
/// same limit, so it has ended by then unless its runtime no longer runs.
const LONGEST_ANSWER: Duration = Duration::from_secs(2);

/// The calls of `enqueue` under way for a queue and its clones, and the jobs that wait for one of them to end.
#[derive(Default)]
pub(super) struct SharedCalls {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: usize,
    /// Whether [`begin_shared_calls`] is at work.
    begins: bool,
    /// In the order of their arrival.
    waiting: VecDeque<Waiting>,
    arrivals: u64,
}

struct Waiting {
    /// Higher than that of all earlier arrivals.
    number: u64,
    job: NewJob,
    deadline: Instant,
    caller: oneshot::Sender<Answer>,
    /// The caller's runtime.
    runtime: Handle,
}

/// What a caller is told about the call that took its job.
enum Answer {
    Ended(Result<Enqueued, Error>),
    /// No job was added: send yours alone.
    NothingAdded,
}

impl State {
    /// Takes the jobs of the next call: those that fit one chunk. If one job of a call has details, claims read details
    /// for all of them. So jobs with and without details are sent apart.
    fn take(&mut self) -> Vec<Waiting> {
        let Some(first) = self.waiting.front() else { return Vec::new() };
        let detailed = has_details(&first.job);
        let is_alike = |waiting: &Waiting| detailed == has_details(&waiting.job);
        let alike = self.waiting.iter().filter(|waiting| is_alike(waiting)).map(|waiting| &waiting.job);
        let length = chunk_length(alike);
        let mut taken = Vec::with_capacity(length);
        let mut left = VecDeque::new();
        while taken.len() < length
            && let Some(waiting) = self.waiting.pop_front()
        {
            if is_alike(&waiting) { taken.push(waiting) } else { left.push_back(waiting) }
        }
        left.into_iter().rev().for_each(|waiting| self.waiting.push_front(waiting));
        taken
    }

    /// The position of a waiting job, or the one where it belongs.
    fn position(&self, number: u64) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&number, |waiting| waiting.number)
    }
}

/// Whether the job may be sent with those of other callers. A job with a deduplication key, a group, a batch or
/// parents may have to wait for a lock that another transaction holds, and the others would wait with it. A large one has a call of its
/// own anyway.
fn may_share(job: &NewJob) -> bool {
    job.dedup_key.is_none()
        && job.group_key.is_none()
        && job.batch.is_none()
        && job.parents.is_empty()
        && !is_large(job)
}

/// A call under way. When it ends, or is dropped, the next one begins.
struct UnderWay(Queue);

impl UnderWay {
    fn new(queue: &Queue, state: &mut State) -> UnderWay {
        state.under_way += 1;
        UnderWay(queue.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.shared_calls.state.lock();
        state.under_way -= 1;
        begin_shared_calls(&self.0, state);
    }
}

/// A job among the waiting ones. A caller that is dropped withdraws it, unless a call has taken it.
struct Place<'a> {
    queue: &'a Queue,
    number: u64,
}

impl Place<'_> {
    /// Returns false if a call has taken the job.
    fn withdraw(&self) -> bool {
        let mut state = self.queue.shared_calls.state.lock();
        let withdrawn = state.position(self.number).ok().and_then(|position| state.waiting.remove(position));
        drop(state);
        withdrawn.is_some()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

enum Begun<'a> {
    UnderWay(UnderWay),
    Waiting(Place<'a>, oneshot::Receiver<Answer>),
}

impl Queue {
    /// Enqueues a valid job, alone or with those of other callers.
    pub(super) async fn enqueue_shared(&self, job: &NewJob) -> Result<Enqueued, Error> {
        let tries = EnqueueTries::within(self.command_timeout());
        if !may_share(job) {
            return self.enqueue_alone(job, tries).await;
        }
        let (place, mut answer) = match self.begin_call(job, tries.deadline()) {
            Begun::UnderWay(_until_it_ends) => return self.enqueue_alone(job, tries).await,
            Begun::Waiting(place, answer) => (place, answer),
        };
        let answer = match tokio::time::timeout(LONGEST_WAIT, &mut answer).await {
            Err(_) if place.withdraw() => Ok(Ok(Answer::NothingAdded)),
            Err(_) => tokio::time::timeout_at(tries.deadline() + LONGEST_ANSWER, answer).await,
            answered => answered,
        };
        match answer {
            Ok(Ok(Answer::Ended(result))) => result,
            Ok(Ok(Answer::NothingAdded)) => self.enqueue_alone(job, tries).await,
            Ok(Err(_)) | Err(_) => Err(in_doubt(&no_answer())),
        }
    }

    fn begin_call(&self, job: &NewJob, deadline: Instant) -> Begun<'_> {
        let mut copy = None;
        loop {
            let mut state = self.shared_calls.state.lock();
            if state.under_way < MOST_AT_ONCE {
                return Begun::UnderWay(UnderWay::new(self, &mut state));
            }
            let Some(job) = copy.take() else {
                drop(state);
                copy = Some(with_trace_context(job));
                continue;
            };
            let (caller, answer) = oneshot::channel();
            let number = state.arrivals;
            state.arrivals += 1;
            state.waiting.push_back(Waiting { number, job, deadline, caller, runtime: Handle::current() });
            return Begun::Waiting(Place { queue: self, number }, answer);
        }
    }

    async fn enqueue_alone(&self, job: &NewJob, tries: EnqueueTries) -> Result<Enqueued, Error> {
        let enqueued = self.enqueue_chunk(slice::from_ref(job), tries).await?;
        enqueued.into_iter().next().ok_or_else(|| Error::Protocol { message: "enqueue returned no row".to_string() })
    }
}

/// Begins calls for the waiting jobs, if there are any.
fn begin_shared_calls<'a>(queue: &'a Queue, mut state: MutexGuard<'a, State>) {
    // A runtime that is shutting down drops the task at once, which ends the call and comes back here. The loop then
    // begins the next one: if this function did, thousands of callers would overflow the stack.
    if state.begins {
        return;
    }
    state.begins = true;
    while state.under_way < MOST_AT_ONCE
        && let Some(first) = state.waiting.pop_front()
    {
        let runtime = first.runtime.clone();
        let under_way = UnderWay::new(queue, &mut state);
        drop(state);
        // Boxed: tokio would move the call's large future several times.
        runtime.spawn(Box::pin(enqueue_together(Leader(Some(first)), under_way)));
        state = queue.shared_calls.state.lock();
    }
    state.begins = false;
}

/// The job whose caller's runtime runs the call.
struct Leader(Option<Waiting>);

impl Leader {
    /// Takes the jobs of the call, which are this one and those that wait.
    fn take_jobs(mut self, state: &mut State) -> Vec<Waiting> {
        // Its caller may have been dropped meanwhile.
        if let Some(waiting) = self.0.take().filter(|waiting| !waiting.caller.is_closed()) {
            let (Ok(position) | Err(position)) = state.position(waiting.number);
            state.waiting.insert(position, waiting);
        }
        state.take()
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if let Some(waiting) = self.0.take() {
            // A caller that was dropped no longer listens.
            let _ = waiting.caller.send(Answer::NothingAdded);
        }
    }
}

async fn enqueue_together(leader: Leader, under_way: UnderWay) {
    let UnderWay(queue) = &under_way;
    // Without a connection, the callers try by themselves.
    let Ok(session) = queue.connected_session(&EnqueueTries::within(LONGEST_WAIT)).await else { return };
    let waiting = leader.take_jobs(&mut queue.shared_calls.state.lock());
    let Some(deadline) = waiting.iter().map(|waiting| waiting.deadline).max() else { return };
    let (jobs, callers): (Vec<_>, Vec<_>) = waiting.into_iter().map(|waiting| (waiting.job, waiting.caller)).unzip();
    // None of them has waited for longer than that, so all get their answer in time.
    let time_left = deadline.saturating_duration_since(Instant::now() + LONGEST_WAIT);
    let (enqueued, error) = match queue.enqueue_once(session, &jobs, time_left).await {
        Ok(enqueued) => (enqueued, None),
        Err(Error::EnqueuedInPart { enqueued, cause }) => (enqueued, Some(*cause)),
        Err(error) => (Vec::new(), Some(error)),
    };
    let enqueued = enqueued.into_iter().map(|enqueued| Answer::Ended(Ok(enqueued)));
    let others = error.iter().flat_map(|error| std::iter::repeat_with(|| answer_of(error)));
    for (caller, answer) in callers.into_iter().zip(enqueued.chain(others)) {
        // A caller that was dropped no longer listens.
        let _ = caller.send(answer);
    }
    // These callers often have a next job. They hand it in before the next call begins.
    tokio::task::yield_now().await;
}

/// The job with the trace context of its caller, which the call's task does not have.
fn with_trace_context(job: &NewJob) -> NewJob {
    let headers = TraceContext::current().headers_of(job).map(|headers| headers.into_owned());
    NewJob { headers, ..job.clone() }
}

fn answer_of(error: &Error) -> Answer {
    match error {
        Error::EnqueueInDoubt { cause, .. } => Answer::Ended(Err(in_doubt(cause))),
        Error::QueueFull { .. } => Answer::Ended(Err(error.clone())),
        _ => Answer::NothingAdded,
    }
}

fn in_doubt(cause: &Error) -> Error {
    Error::EnqueueInDoubt { jobs: 1, cause: Box::new(cause.clone()) }
}

fn no_answer() -> Error {
    let message = "the task that sent this job together with others has ended, or its tokio runtime has stopped";
    Error::ConnectionLost { cause: Arc::new(io::Error::other(message)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn queue() -> Queue {
        let mut config = Config::default();
        config.connection.url = "Server=nowhere;User ID=u;Password=p".into();
        Queue::new(&config).expect("the settings are valid")
    }

    fn under_way_and_waiting(queue: &Queue) -> (usize, usize) {
        let state = queue.shared_calls.state.lock();
        (state.under_way, state.waiting.len())
    }

    #[test]
    fn a_call_that_ends_or_cannot_begin_makes_room_for_the_next() {
        const WAITING: usize = 20_000; // would overflow the stack if each call's end began the next call
        let queue = queue();
        let job = NewJob::text("x");
        let stopped = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut begun: Vec<Begun<'_>> = {
            let _entered = stopped.enter();
            (0..MOST_AT_ONCE + WAITING).map(|_| queue.begin_call(&job, Instant::now())).collect()
        };
        assert_eq!(under_way_and_waiting(&queue), (MOST_AT_ONCE, WAITING));
        drop(begun.pop());
        let expected = (MOST_AT_ONCE, WAITING - 1);
        assert_eq!(under_way_and_waiting(&queue), expected, "the caller that is gone took its job back");
        drop(stopped);
        drop(begun.remove(0));
        assert_eq!(under_way_and_waiting(&queue), (MOST_AT_ONCE - 1, 0), "a stopped runtime sends nothing");
        drop(begun);
        assert_eq!(under_way_and_waiting(&queue), (0, 0));
    }

    #[test]
    fn jobs_are_taken_in_the_order_of_their_arrival_except_withdrawn_ones() {
        let queue = queue();
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let _entered = runtime.enter();
        let jobs = ["a", "b", "c", "d"].map(NewJob::text);
        let _under_way: Vec<Begun<'_>> =
            (0..MOST_AT_ONCE).map(|_| queue.begin_call(&jobs[0], Instant::now())).collect();
        let mut waiting: Vec<Begun<'_>> = jobs.iter().map(|job| queue.begin_call(job, Instant::now())).collect();
        let mut state = queue.shared_calls.state.lock();
        // As when one call begins just after another: the leader of the second one may come back first.
        let [first, second] = [(); 2].map(|()| Leader(state.waiting.pop_front()));
        drop(state);
        drop(waiting.remove(2));
        let mut state = queue.shared_calls.state.lock();
        let mut taken: Vec<NewJob> = second.take_jobs(&mut state).into_iter().map(|waiting| waiting.job).collect();
        assert_eq!(taken, [jobs[1].clone(), jobs[3].clone()]);
        taken = first.take_jobs(&mut state).into_iter().map(|waiting| waiting.job).collect();
        assert_eq!(taken, [jobs[0].clone()]);
        drop(state);
    }

    #[test]
    fn jobs_with_details_are_sent_apart_from_those_without() {
        let queue = queue();
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let _entered = runtime.enter();
        let plain = NewJob::text("plain");
        let _under_way: Vec<Begun<'_>> = (0..MOST_AT_ONCE).map(|_| queue.begin_call(&plain, Instant::now())).collect();
        let jobs = [plain.clone(), plain.clone().header("a", "b"), plain.clone(), plain.clone().header("c", "d")];
        let _waiting: Vec<Begun<'_>> = jobs.iter().map(|job| queue.begin_call(job, Instant::now())).collect();
        let mut state = queue.shared_calls.state.lock();
        let mut taken = || state.take().into_iter().map(|waiting| waiting.job).collect::<Vec<_>>();
        assert_eq!(taken(), [jobs[0].clone(), jobs[2].clone()]);
        assert_eq!(taken(), [jobs[1].clone(), jobs[3].clone()]);
        assert!(taken().is_empty());
    }

    #[test]
    fn keys_groups_batches_and_large_payloads_have_calls_of_their_own() {
        let plain = NewJob::text("x");
        assert!(may_share(&plain));
        let batch = crate::id::BatchId(1);
        let jobs = [
            plain.clone().dedup_key("k"),
            plain.clone().group_key("g"),
            plain.batch(batch),
            NewJob::bytes([0; 65_536]),
        ];
        for alone in jobs {
            assert!(!may_share(&alone), "{alone:?}");
        }
    }
}
