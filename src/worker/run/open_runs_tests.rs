//! Which jobs a running handler gets besides its own, and how their runs end.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::config::{MemorySize, WorkerConfig};
use crate::error::Error;
use crate::handler::{Handlers, KindOptions};
use crate::id::{Fence, JobId};
use crate::job::{Job, Needs, NewJob, Outcome};
use crate::worker::finish;
use crate::worker::lease::{Behind, HeldJob, LeaseValidity, Registration};
use crate::worker::run::worker_turns::Jobs;
use crate::worker::run::{DroppedElsewhere, Executor, FairPool, HandlersAndHooks, Hooks};
use crate::worker::state::{Machine, MachineMemory, WorkerState};

const LEASE: Duration = Duration::from_secs(60);

/// An error at which the hook panics.
const POISON: &str = "the hook panics";

type Ends = Arc<Mutex<Vec<(i64, String, Duration)>>>;

/// An executor, mostly with one thread, and the ends of its jobs.
struct Fixture {
    state: Arc<WorkerState>,
    clock: Arc<LeaseValidity>,
    registration: Arc<Registration>,
    executor: Executor,
    ends: Ends,
    _outcomes: Box<dyn Any>,
}

impl Fixture {
    fn new(config: WorkerConfig, handlers: Handlers) -> Fixture {
        Fixture::with_state(WorkerState::for_test(config), handlers)
    }

    fn with_state(state: WorkerState, handlers: Handlers) -> Fixture {
        Fixture::with_threads(1, state, handlers)
    }

    fn with_threads(threads: usize, state: WorkerState, mut handlers: Handlers) -> Fixture {
        let clock = Arc::new(LeaseValidity::default());
        clock.renewed(clock.now(), LEASE);
        let state = Arc::new(state);
        let pool = FairPool::own(threads, None).unwrap();
        let pumping = pool.clone();
        let (finisher, batches, large) = finish::channel(&state, move || pumping.pump());
        handlers.check(&state.config).unwrap();
        let ends = Ends::default();
        let noted = ends.clone();
        let on_end = move |job: &Job, outcome: &Outcome, run| {
            let outcome = match outcome {
                Outcome::Done { .. } => "done".to_owned(),
                Outcome::Retry { error, .. } => error.clone(),
                other => format!("{other:?}"),
            };
            assert!(outcome != POISON, "{POISON}");
            noted.lock().push((job.id().0, outcome, run));
        };
        let hooks = Hooks { on_end: Some(Box::new(on_end)), ..Hooks::default() };
        let code = DroppedElsewhere::new(HandlersAndHooks { handlers, hooks });
        let registration = Arc::new(Registration::for_test(clock.clone()));
        let executor = Executor::new(&state, pool, code, clock.clone(), finisher);
        Fixture { state, clock, registration, executor, ends, _outcomes: Box::new((batches, large)) }
    }

    /// Claims these jobs, with ids from 1.
    fn claim(&self, jobs: Vec<Job>) -> impl Iterator<Item = (Job, HeldJob)> + use<> {
        let jobs = (1..).zip(jobs).map(|(id, job)| Job { id: JobId(id), ..job }).collect();
        HeldJob::claimed(&self.registration, &self.state.in_flight, jobs).into_iter()
    }

    fn submit(&self, jobs: Vec<Job>) {
        let (claimed, claimed_at) = (self.claim(jobs), Instant::now());
        self.executor.submit(claimed.map(|(job, held)| Claimed::new(job, held, claimed_at, None)).collect());
    }

    /// Waits until no job runs, and returns how the jobs ended.
    async fn ends(&self) -> Vec<(i64, String)> {
        tokio::time::timeout(LEASE, self.state.in_flight.idle()).await.expect("all jobs end");
        self.ends.lock().iter().map(|(id, outcome, _)| (*id, outcome.clone())).collect()
    }
}

fn plain(kind: &str) -> Job {
    Job { details: None, ..Job::for_test(NewJob::text("").kind(kind)) }
}

/// Runs everything that it gets, and notes the jobs of each call.
fn taking(calls: &Calls) -> impl Fn(JobRun<'_>) + Send + Sync + 'static {
    let calls = calls.clone();
    move |first| {
        let mut runs = vec![first];
        while let Some(next) = runs[0].next_job() {
            runs.push(next);
        }
        calls.lock().push(runs.iter().map(|run| run.context().job().id().0).collect());
        runs.into_iter().for_each(|run| run.end(Ok(())));
    }
}

type Calls = Arc<Mutex<Vec<Vec<i64>>>>;

async fn calls(config: WorkerConfig, change: impl Fn(Handlers) -> Handlers, jobs: Vec<Job>) -> Vec<Vec<i64>> {
    let calls = Calls::default();
    let other = calls.clone();
    let handlers = Handlers::new().kind_runs("a", taking(&calls)).kind("b", move |job, _| {
        other.lock().push(vec![job.id().0]);
        Ok(())
    });
    let fixture = Fixture::new(config, change(handlers));
    fixture.submit(jobs);
    fixture.ends().await;
    std::mem::take(&mut calls.lock())
}

#[tokio::test]
async fn jobs_of_other_kinds_keep_their_place() {
    let jobs = ["a", "a", "b", "a", "a", "b", "b", "a"].map(plain);
    let calls = calls(WorkerConfig::default(), |handlers| handlers, jobs.into()).await;
    assert_eq!(calls, [vec![1, 2], vec![3], vec![4, 5], vec![6], vec![7], vec![8]]);
}

#[tokio::test]
async fn only_jobs_without_further_properties_are_taken() {
    let with = |job: NewJob| Job::for_test(job.kind("a"));
    let others = [
        with(NewJob::text("").header("a", "b")),
        with(NewJob::text("").time_limit(LEASE)),
        with(NewJob::text("").group_key("g")),
        Job { fence: Fence::NONE, ..plain("a") },
    ];
    for other in others {
        let calls = calls(WorkerConfig::default(), |handlers| handlers, vec![plain("a"), other, plain("a")]).await;
        assert_eq!(calls, [vec![1], vec![2, 3]]);
    }
}

#[tokio::test]
async fn nothing_is_taken_where_kinds_have_limits_or_needs() {
    let all = || vec![plain("a"), plain("a")];
    let with = |options: KindOptions| move |handlers: Handlers| handlers.options("a", options.clone());
    for options in [
        KindOptions::new().at_most(5),
        KindOptions::new().time_limit(LEASE),
        KindOptions::new().needs(Needs::new().threads(1)),
        KindOptions::new().start_within(LEASE),
    ] {
        let calls = calls(WorkerConfig::default(), with(options), all()).await;
        assert_eq!(calls, [[1], [2]]);
    }
    let limited = WorkerConfig { job_time_limit: LEASE, ..WorkerConfig::default() };
    assert_eq!(calls(limited, |handlers| handlers, all()).await, [[1], [2]]);
    assert_eq!(calls(WorkerConfig::default(), |handlers| handlers, all()).await, [[1, 2]]);
}

/// A handler that does this with its first run.
fn with_first(act: impl Fn(&JobRun<'_>) + Send + Sync + 'static) -> Handlers {
    Handlers::new().otherwise_runs(move |first| {
        act(&first);
        first.end(Ok(()));
    })
}

#[tokio::test]
async fn nothing_is_taken_while_the_output_would_not_fit() {
    let config = WorkerConfig { max_in_flight_bytes: 1_000, ..WorkerConfig::default() };
    let fixture = Fixture::new(config, with_first(|first| assert!(first.next_job().is_none())));
    fixture.state.in_flight.learn_output(800);
    fixture.submit(vec![plain("a"), plain("a")]);
    assert_eq!(fixture.ends().await, [(1, "done".to_owned()), (2, "done".to_owned())]);
}

/// Jobs of which the first waits in its handler, which then asks for another.
struct Waiting {
    fixture: Fixture,
    gate: std::sync::mpsc::Sender<()>,
    has_asked: std::sync::mpsc::Receiver<bool>,
}

impl Waiting {
    fn new(jobs: Vec<Job>) -> Waiting {
        Waiting::with_state(WorkerState::for_test(WorkerConfig::default()), jobs)
    }

    fn with_state(state: WorkerState, jobs: Vec<Job>) -> Waiting {
        let (gate, opened) = std::sync::mpsc::channel::<()>();
        let (asked, has_asked) = std::sync::mpsc::channel();
        let opened = Mutex::new(opened);
        let fixture = Fixture::with_state(
            state,
            with_first(move |first| {
                // Until the sender is dropped.
                while opened.lock().recv().is_ok() {
                    asked.send(first.next_job().is_some()).unwrap();
                }
            }),
        );
        fixture.submit(jobs);
        Waiting { fixture, gate, has_asked }
    }

    /// Whether a further job can be taken now. Its run is dropped.
    fn takes(&self) -> bool {
        self.gate.send(()).unwrap();
        self.has_asked.recv_timeout(LEASE).unwrap()
    }
}

#[tokio::test]
async fn nothing_is_taken_while_the_lease_is_in_doubt() {
    let waiting = Waiting::new(vec![plain("a"), plain("a"), plain("a")]);
    assert!(waiting.takes());
    waiting.fixture.clock.shift(LEASE);
    assert!(!waiting.takes());
    waiting.fixture.clock.renewed(waiting.fixture.clock.now(), LEASE);
    assert!(waiting.takes());
}

#[tokio::test]
async fn nothing_is_taken_while_the_machine_is_short_of_memory() {
    let machine = Machine::new("taken-when-short");
    machine.has_memory(8 << 20, 3 << 20);
    let mut config = WorkerConfig::default();
    config.resources.min_free_memory = MemorySize::Bytes(2 << 30);
    let mut state = WorkerState::for_test(config);
    state.memory = Arc::new(MachineMemory::at(&machine.0));
    let waiting = Waiting::with_state(state, vec![plain("a"), plain("a"), plain("a")]);
    assert!(waiting.takes());
    machine.has_memory(8 << 20, 1 << 20);
    waiting.fixture.executor.starter.resources.measure();
    assert!(!waiting.takes());
}

#[tokio::test]
async fn what_a_handler_has_not_taken_is_given_back_by_an_orderly_stop() {
    let with_header = Job::for_test(NewJob::text("").header("a", "b"));
    let waiting = Waiting::new(vec![plain("a"), with_header, plain("a")]);
    assert!(!waiting.takes());
    assert!(!waiting.takes(), "the last job does not pass the one that is set aside");
    let Fixture { executor, state, .. } = &waiting.fixture;
    assert_eq!((Jobs::waiting(&*executor.starter), state.in_flight.unstarted()), (2, 2), "one is set aside");
    executor.close();
    assert_eq!((state.in_flight.unstarted(), state.in_flight.awaiting_finish()), (0, 2));
    waiting.fixture.submit(vec![plain("a")]); // it comes late
    assert!(!waiting.takes());
    let Waiting { fixture, gate, .. } = waiting;
    drop(gate);
    assert_eq!(fixture.ends().await, [(1, "done".to_owned())]);
}

#[tokio::test]
async fn nothing_is_taken_while_threads_are_kept_for_another_worker() {
    struct Other;

    impl Jobs for Other {
        fn waiting(&self) -> usize {
            0
        }

        fn reserved_threads(&self) -> Option<(usize, Instant)> {
            Some((1, Instant::now()))
        }

        fn run(&self, _: Instant) {}

        fn panicked(&self, _: Box<dyn Any + Send>) {}
    }

    let waiting = Waiting::new(vec![plain("a"), plain("a"), plain("a")]);
    assert!(waiting.takes());
    let (pool, other) = (waiting.fixture.executor.pool(), Arc::new(Other));
    let jobs: std::sync::Weak<Other> = Arc::downgrade(&other);
    pool.join(jobs, 1, 0);
    pool.pump();
    assert!(!waiting.takes());
    drop(other);
    pool.pump();
    assert!(waiting.takes());
}

/// The handler's thread may be busy for long.
#[tokio::test]
async fn the_next_job_of_a_group_starts_on_another_thread_once_its_predecessor_is_ended() {
    let (began, has_begun) = std::sync::mpsc::channel();
    let has_begun = Mutex::new(has_begun);
    let handlers = Handlers::new().otherwise_runs(move |run| {
        let is_first = run.context().job().id() == JobId(1);
        if !is_first {
            began.send(()).unwrap();
        }
        run.end(Ok(()));
        if is_first {
            has_begun.lock().recv_timeout(LEASE).unwrap();
        }
    });
    let fixture = Fixture::with_threads(2, WorkerState::for_test(WorkerConfig::default()), handlers);
    let of_group = || Job::for_test(NewJob::text("").group_key("g"));
    let mut claimed = fixture.claim(vec![of_group(), of_group()]);
    let (job, held) = claimed.next().unwrap();
    let behind = Some(Box::new(Behind::new(claimed)));
    fixture.executor.submit(vec![Claimed::new(job, held, Instant::now(), behind)]);
    assert_eq!(fixture.ends().await, [1, 2].map(|id| (id, "done".to_owned())));
    assert!(fixture.state.stop.take_failure().is_none());
}

#[tokio::test]
async fn a_lost_or_cancelled_job_is_not_taken() {
    let lose = |registration: &Registration| registration.cancellations().lose_lease();
    let cancel = |registration: &Registration| registration.cancellations().ask(JobId(3), Fence(1));
    for end in [&lose as &dyn Fn(&Registration), &cancel] {
        let waiting = Waiting::new(vec![plain("a"), plain("a"), plain("a")]);
        assert!(waiting.takes());
        end(&waiting.fixture.registration);
        assert!(!waiting.takes());
    }
}

#[tokio::test]
async fn runs_end_in_any_order_and_one_that_is_dropped_fails() {
    let handlers = Handlers::new().otherwise_runs(|first| {
        let (second, third) = (first.next_job().unwrap(), first.next_job().unwrap());
        third.end(Ok(()));
        drop(first);
        second.end::<()>(Err("no".into()));
    });
    let fixture = Fixture::new(WorkerConfig::default(), handlers);
    fixture.submit(vec![plain("a"), plain("a"), plain("a")]);
    let ends = [(3, "done"), (1, "the handler dropped the run without ending it"), (2, "no")];
    assert_eq!(fixture.ends().await, ends.map(|(id, outcome)| (id, outcome.to_owned())));
    assert_eq!(fixture.state.in_flight.running(), 0);
}

#[tokio::test]
async fn a_panic_fails_the_open_runs_and_no_others() {
    let handlers = Handlers::new().otherwise_runs(|first| {
        let _second = first.next_job().unwrap();
        first.next_job().unwrap().end(Ok(()));
        panic!("a defect");
    });
    #[cfg(feature = "prometheus")]
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let new = || Fixture::new(WorkerConfig::default(), handlers);
    #[cfg(feature = "prometheus")]
    let new = || metrics::with_local_recorder(&recorder, new);
    let fixture = new();
    fixture.submit(vec![plain("a"), plain("a"), plain("a")]);
    let mut ends = fixture.ends().await;
    ends.sort();
    let panicked = "the handler panicked: a defect";
    assert_eq!(ends, [(1, panicked), (2, panicked), (3, "done")].map(|(id, outcome)| (id, outcome.to_owned())));
    assert!(fixture.state.stop.take_failure().is_none(), "it is the handler's");
    #[cfg(feature = "prometheus")]
    {
        let shown = recorder.handle().render();
        let panics: Vec<_> = shown.lines().filter(|line| line.starts_with("readpast_panics_total{")).collect();
        assert!(panics.len() == 1 && panics[0].ends_with(" 1"), "one panic, of two runs: {panics:?}");
    }
}

#[tokio::test]
async fn a_panic_that_the_handler_catches_fails_its_run() {
    let handlers = Handlers::new().kind_runs("a", |first| {
        let further = first.next_job();
        for run in [Some(first), further].into_iter().flatten() {
            let _ = catch_unwind(AssertUnwindSafe(|| {
                assert!(run.context().job().id() != JobId(1), "a defect");
                run.end(Ok(()));
            }));
        }
    });
    let fixture = Fixture::new(WorkerConfig::default(), handlers);
    fixture.submit(vec![plain("a"), plain("a"), plain("a")]);
    let mut ends = fixture.ends().await;
    ends.sort();
    assert_eq!(ends[0], (1, "the handler panicked: it caught the panic itself".to_owned()));
    assert_eq!(ends.len(), 3);
}

/// A thread is idle or not, however many jobs another one has.
#[tokio::test]
async fn the_jobs_of_one_call_keep_one_thread_busy() {
    let busy = Arc::new(Mutex::new(Vec::new()));
    let (noted, state) = (busy.clone(), Arc::new(std::sync::OnceLock::<Arc<WorkerState>>::new()));
    let of_handler = state.clone();
    let handlers = Handlers::new().kind_runs("a", move |first| {
        let note = || {
            let in_flight = &of_handler.get().unwrap().in_flight;
            noted.lock().push((in_flight.running(), in_flight.busy_threads()));
        };
        let mut runs = vec![first];
        while let Some(next) = runs[0].next_job() {
            runs.push(next);
        }
        note();
        runs.drain(1..).for_each(|run| run.end(Ok(())));
        note();
        runs.remove(0).end(Ok(()));
    });
    let fixture = Fixture::new(WorkerConfig::default(), handlers);
    state.set(fixture.state.clone()).ok().unwrap();
    fixture.submit(vec![plain("a"), plain("a"), plain("a")]);
    fixture.ends().await;
    assert_eq!(*busy.lock(), [(3, 1), (1, 1)]);
    assert_eq!((fixture.state.in_flight.running(), fixture.state.in_flight.busy_threads()), (0, 0));
}

#[tokio::test]
async fn a_panic_of_a_hook_stops_the_worker_and_is_not_the_handler_s() {
    let handlers = Handlers::new().otherwise_runs(|first| {
        first.next_job().unwrap().end::<()>(Err(POISON.into()));
        first.end(Ok(()));
    });
    let fixture = Fixture::new(WorkerConfig::default(), handlers);
    fixture.submit(vec![plain("a"), plain("a")]);
    assert_eq!(fixture.ends().await, [(1, "done".to_owned())]);
    assert!(matches!(fixture.state.stop.take_failure(), Some(Error::Panicked { message }) if message == POISON));
}

#[tokio::test]
async fn the_runs_of_a_call_share_its_time() {
    const WORK: Duration = Duration::from_millis(20);
    let handlers = Handlers::new().otherwise_runs(|first| {
        let others = [first.next_job().unwrap(), first.next_job().unwrap()];
        std::thread::sleep(WORK);
        first.end(Ok(()));
        others.into_iter().for_each(|run| run.end(Ok(())));
    });
    let fixture = Fixture::new(WorkerConfig::default(), handlers);
    fixture.submit(vec![plain("a"), plain("a"), plain("a")]);
    fixture.ends().await;
    let runs: Vec<_> = fixture.ends.lock().iter().map(|(_, _, run)| *run).collect();
    assert!(runs[0] >= WORK && runs[1] + runs[2] < WORK, "{runs:?}");
}
