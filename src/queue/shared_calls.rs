//! [`SharedCalls`]: jobs that several callers of [`Queue::enqueue`] hand in at the same time are sent in one call.
//!
//! While fewer than [`MOST_AT_ONCE`] calls are under way, a caller sends its own job, without any delay. Otherwise a
//! copy of the job joins the waiting jobs. When a call ends, the waiting jobs are sent by the next call. That call runs
//! in a task of its own, so a caller that is dropped affects no other.
//!
//! If a shared call fails and certainly added no job, each caller sends its own job again. So a job that SQL Server
//! rejects fails alone.

use std::collections::BTreeMap;
use std::io;
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
use crate::procedures::producer::{chunk_length, is_large};

/// How many calls are under way before further jobs wait. While SQL Server executes one call, the next one is built and
/// sent.
const MOST_AT_ONCE: usize = 2;

/// The longest time that a job waits for other jobs' calls. After that it is sent on another connection, because those
/// in use may be broken.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The calls of `enqueue` under way for a queue and its clones, and the jobs that wait for one of them to end.
#[derive(Default)]
pub(super) struct SharedCalls {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: usize,
    /// By the order of their arrival.
    waiting: BTreeMap<u64, Waiting>,
    arrivals: u64,
}

struct Waiting {
    job: NewJob,
    deadline: Instant,
    caller: oneshot::Sender<Answer>,
    /// The caller's runtime.
    runtime: Handle,
}

/// What a caller hears of the call that took its job.
enum Answer {
    Ended(Result<Enqueued, Error>),
    /// No job was added: send yours alone.
    NothingAdded,
}

impl State {
    /// Takes the jobs of the next call: those that fit one chunk, all with details or all without, because a call with
    /// details makes claims of all its jobs read them.
    fn take(&mut self) -> Vec<Waiting> {
        let Some((_, first)) = self.waiting.first_key_value() else { return Vec::new() };
        let has_details = has_details(&first.job);
        let alike = || self.waiting.iter().filter(|(_, waiting)| has_details == self::has_details(&waiting.job));
        let length = chunk_length(alike().map(|(_, waiting)| &waiting.job));
        let places: Vec<u64> = alike().take(length).map(|(&place, _)| place).collect();
        places.into_iter().filter_map(|place| self.waiting.remove(&place)).collect()
    }
}

/// Whether the job may be sent with those of other callers. A job with a deduplication key or a batch may have to wait
/// for a lock that another transaction holds, and the others would wait with it. A large one has a call of its own
/// anyway.
fn may_share(job: &NewJob) -> bool {
    job.dedup_key.is_none() && job.batch.is_none() && !is_large(job)
}

fn has_details(job: &NewJob) -> bool {
    job.time_limit.is_some() || job.headers.is_some() || job.group_key.is_some()
}

/// A call under way. When it ends, or is dropped, the waiting jobs are sent.
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
        send_waiting(&self.0, state);
    }
}

/// A job among the waiting ones. A caller that is dropped withdraws it, unless a call has taken it.
struct Place<'a> {
    queue: &'a Queue,
    number: u64,
}

impl Place<'_> {
    fn send_if_still_waiting(&self) {
        let state = self.queue.shared_calls.state.lock();
        if state.waiting.contains_key(&self.number) {
            send_waiting(self.queue, state);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue.shared_calls.state.lock().waiting.remove(&self.number);
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
        loop {
            match tokio::time::timeout(LONGEST_WAIT, &mut answer).await {
                Ok(Ok(Answer::Ended(result))) => return result,
                Ok(Ok(Answer::NothingAdded)) => return self.enqueue_alone(job, tries).await,
                Ok(Err(_dropped)) => return Err(in_doubt(&runtime_stopped())),
                Err(_elapsed) => place.send_if_still_waiting(),
            }
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
            state.waiting.insert(number, Waiting { job, deadline, caller, runtime: Handle::current() });
            return Begun::Waiting(Place { queue: self, number }, answer);
        }
    }

    async fn enqueue_alone(&self, job: &NewJob, tries: EnqueueTries) -> Result<Enqueued, Error> {
        let enqueued = self.enqueue_chunk(std::slice::from_ref(job), tries).await?;
        enqueued.into_iter().next().ok_or_else(|| Error::Protocol { message: "enqueue returned no row".to_string() })
    }
}

/// Sends the waiting jobs, if there are any, in a task.
fn send_waiting(queue: &Queue, mut state: MutexGuard<'_, State>) {
    let waiting = state.take();
    let Some(first) = waiting.first() else { return };
    let (runtime, deadline) = (first.runtime.clone(), first.deadline);
    let under_way = UnderWay::new(queue, &mut state);
    // A runtime that is shutting down drops the task at once, which ends the call.
    drop(state);
    runtime.spawn(enqueue_together(under_way, waiting, deadline));
}

async fn enqueue_together(under_way: UnderWay, waiting: Vec<Waiting>, deadline: Instant) {
    let UnderWay(queue) = &under_way;
    let tries = EnqueueTries::until(deadline, queue.command_timeout());
    let (jobs, callers): (Vec<_>, Vec<_>) = waiting.into_iter().map(|waiting| (waiting.job, waiting.caller)).unzip();
    let answers = match queue.enqueue_chunk(&jobs, tries).await {
        Ok(enqueued) => enqueued.into_iter().map(|enqueued| Answer::Ended(Ok(enqueued))).collect(),
        Err(error) => callers.iter().map(|_| answer_of(&error)).collect::<Vec<_>>(),
    };
    for (caller, answer) in callers.into_iter().zip(answers) {
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

/// What each caller hears if the call has failed. A transient error means that the time for retries is over.
fn answer_of(error: &Error) -> Answer {
    match error {
        Error::EnqueueInDoubt { cause, .. } => Answer::Ended(Err(in_doubt(cause))),
        transient if transient.is_transient() => Answer::Ended(Err(transient.clone())),
        _ => Answer::NothingAdded,
    }
}

fn in_doubt(cause: &Error) -> Error {
    Error::EnqueueInDoubt { jobs: 1, cause: Box::new(cause.clone()) }
}

fn runtime_stopped() -> Error {
    let message = "the tokio runtime of another caller, which sent this job together with its own, has stopped";
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
        let queue = queue();
        let job = NewJob::text("x");
        let stopped = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut begun: Vec<Begun<'_>> = {
            let _entered = stopped.enter();
            (0..MOST_AT_ONCE + 2).map(|_| queue.begin_call(&job, Instant::now())).collect()
        };
        assert_eq!(under_way_and_waiting(&queue), (MOST_AT_ONCE, 2));
        drop(begun.pop());
        assert_eq!(under_way_and_waiting(&queue), (MOST_AT_ONCE, 1), "the caller that is gone took its job back");
        drop(stopped);
        drop(begun.remove(0));
        assert_eq!(under_way_and_waiting(&queue), (MOST_AT_ONCE - 1, 0), "a stopped runtime sends nothing");
        drop(begun);
        assert_eq!(under_way_and_waiting(&queue), (0, 0));
    }

    #[test]
    fn jobs_with_details_are_sent_apart_from_those_without() {
        let queue = queue();
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let _entered = runtime.enter();
        let plain = NewJob::text("plain");
        let _under_way: Vec<Begun<'_>> = (0..MOST_AT_ONCE).map(|_| queue.begin_call(&plain, Instant::now())).collect();
        let jobs = [plain.clone(), plain.clone().header("a", "b"), plain.clone(), plain.clone().group_key("g")];
        let _waiting: Vec<Begun<'_>> = jobs.iter().map(|job| queue.begin_call(job, Instant::now())).collect();
        let mut state = queue.shared_calls.state.lock();
        let mut taken = || state.take().into_iter().map(|waiting| waiting.job).collect::<Vec<_>>();
        assert_eq!(taken(), [jobs[0].clone(), jobs[2].clone()]);
        assert_eq!(taken(), [jobs[1].clone(), jobs[3].clone()]);
        assert!(taken().is_empty());
    }

    #[test]
    fn keys_batches_and_large_payloads_have_calls_of_their_own() {
        let plain = NewJob::text("x");
        assert!(may_share(&plain));
        for alone in [plain.clone().dedup_key("k"), plain.batch(crate::id::BatchId(1)), NewJob::bytes([0; 65_536])] {
            assert!(!may_share(&alone), "{alone:?}");
        }
    }
}
