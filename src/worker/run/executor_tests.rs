//! The executor's decisions about jobs that cannot start.

use std::any::Any;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::config::{MemorySize, WorkerConfig};
use crate::error::BoxError;
use crate::handler::{Context, Handlers, KindOptions, Output, Permit, SharedLimit};
use crate::job::{Job, Needs, NewJob};
use crate::procedures::worker::read_for_test;
use crate::worker::finish;
use crate::worker::run::admission::Admission;
use crate::worker::run::handlers_and_hooks::Hooks;
use crate::worker::run::ledger::Need;
use crate::worker::run::worker_turns::Jobs;
use crate::worker::state::{Machine, MachineMemory};

const LEASE: Duration = Duration::from_secs(60);

fn pumping(pool: &Arc<FairPool>) -> impl Fn() + Send + Sync + 'static {
    let pool = pool.clone();
    move || pool.pump()
}

#[tokio::test]
async fn after_a_suspension_nothing_is_started_until_a_heartbeat_was_answered() {
    let clock = Arc::new(LeaseValidity::default());
    clock.renewed(clock.now(), LEASE);
    let state = Arc::new(WorkerState::for_test(WorkerConfig::default()));
    let (executor, starts) = counting_executor(&state, &clock);
    let registration = Arc::new(Registration::for_test(clock.clone()));
    assert!(registration.is_held());

    clock.shift(LEASE);
    assert!(!registration.is_held() && clock.is_in_doubt(), "at once, without a look at SQL Server");
    assert!(clock.age() >= LEASE);
    let claimed = HeldJob::claimed(&registration, &state.in_flight, vec![Job::for_test(NewJob::text(""))]);
    let claimed_at = Instant::now();
    executor.submit(claimed.into_iter().map(|(job, held)| Claimed::new(job, held, claimed_at, None)).collect());
    executor.pump();
    tokio::time::sleep(Duration::from_millis(20)).await; // a start would take microseconds
    assert_eq!(starts.load(Ordering::Acquire), 0);

    clock.renewed(clock.now(), LEASE);
    executor.pump();
    state.in_flight.idle().await;
    assert_eq!(starts.load(Ordering::Acquire), 1);
}

#[tokio::test]
async fn what_comes_after_it_was_closed_is_given_back_and_not_started() {
    let clock = Arc::new(LeaseValidity::default());
    clock.renewed(clock.now(), LEASE);
    let state = Arc::new(WorkerState::for_test(WorkerConfig::default()));
    let (executor, starts) = counting_executor(&state, &clock);
    let registration = Arc::new(Registration::for_test(clock));
    executor.close();
    let claimed = HeldJob::claimed(&registration, &state.in_flight, vec![Job::for_test(NewJob::text(""))]);
    let claimed_at = Instant::now();
    executor.submit(claimed.into_iter().map(|(job, held)| Claimed::new(job, held, claimed_at, None)).collect());
    state.in_flight.idle().await;
    assert_eq!(starts.load(Ordering::Acquire), 0);
}

#[tokio::test]
async fn what_was_held_back_for_the_output_of_another_starts_when_that_is_confirmed() {
    let clock = Arc::new(LeaseValidity::default());
    clock.renewed(clock.now(), LEASE);
    let config = WorkerConfig { max_in_flight_bytes: 1_000, ..WorkerConfig::default() };
    let state = Arc::new(WorkerState::for_test(config));
    let pool = FairPool::own(1, None).unwrap();
    let (sender, finisher, _large) = finish::channel(&state, pumping(&pool));
    let mut handlers = Handlers::any(|_, _| Ok(Output::bytes(vec![1; 800])));
    handlers.check(&state.config).unwrap();
    let code = DroppedElsewhere::new(HandlersAndHooks { handlers, hooks: Hooks::default() });
    let executor = Executor::new(&state, pool, code, clock.clone(), sender);
    let registration = Arc::new(Registration::for_test(clock));
    // Without a row, so that no server is needed.
    let job = || Job { fence: Fence::NONE, ..Job::for_test(NewJob::text("")) };
    let claimed = HeldJob::claimed(&registration, &state.in_flight, vec![job(), job()]);
    let claimed_at = Instant::now();
    executor.submit(claimed.into_iter().map(|(job, held)| Claimed::new(job, held, claimed_at, None)).collect());
    while state.in_flight.awaiting_finish() == 0 || executor.load().in_use.all() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(state.in_flight.unstarted(), 1);
    let confirming = tokio::spawn(finisher.run_session(state.session()));
    let both = async {
        state.in_flight.idle().await;
        state.in_flight.flushed().await;
    };
    tokio::time::timeout(LEASE, both).await.expect("the second has started");
    confirming.abort();
}

#[tokio::test]
async fn a_payload_is_not_copied_between_the_driver_and_the_handler() {
    let clock = Arc::new(LeaseValidity::default());
    clock.renewed(clock.now(), LEASE);
    let state = Arc::new(WorkerState::for_test(WorkerConfig::default()));
    let (sender, seen) = std::sync::mpsc::channel();
    let executor = executor_of(&state, &clock, move |job, _| {
        sender.send(job.payload().as_ptr() as usize)?;
        Ok(())
    });
    let registration = Arc::new(Registration::for_test(clock));
    let payload = vec![1; 1_000_000];
    let address = payload.as_ptr() as usize;
    let claimed = HeldJob::claimed(&registration, &state.in_flight, vec![read_for_test(payload)]);
    let claimed_at = Instant::now();
    executor.submit(claimed.into_iter().map(|(job, held)| Claimed::new(job, held, claimed_at, None)).collect());
    assert_eq!(seen.recv().unwrap(), address);
}

/// Jobs of kind `limited` share one place. Jobs of kind `long` run until the gate opens, and another worker holds
/// their place.
struct Limited {
    state: Arc<WorkerState>,
    registration: Arc<Registration>,
    executor: Executor,
    starts: std::sync::mpsc::Receiver<()>,
    gate: std::sync::mpsc::Sender<()>,
    taken: Permit,
    _outcomes: Box<dyn Any>,
}

impl Limited {
    fn new() -> Limited {
        let clock = Arc::new(LeaseValidity::default());
        clock.renewed(clock.now(), LEASE);
        let state = Arc::new(WorkerState::for_test(WorkerConfig::default()));
        let (started, starts) = std::sync::mpsc::channel();
        let (gate, opened) = std::sync::mpsc::channel();
        let opened = parking_lot::Mutex::new(opened);
        let long = move |_: &Job, _: &Context| {
            started.send(()).unwrap();
            let _ = opened.lock().recv();
            Ok(())
        };
        let mut handlers = Handlers::new()
            .kind("limited", |_, _| -> Result<(), crate::error::BoxError> { panic!("it has no place") })
            .options("limited", KindOptions::new().at_most(1))
            .kind("long", long);
        handlers.check(&state.config).unwrap();
        let places: Arc<SharedLimit> = handlers.places().flatten().next().unwrap().clone();
        let other = places.join(FairPool::own(1, None).unwrap());
        assert!(places.change(|line, now| line.take_place(other, now)));
        let taken = Permit::new(&places, other);
        let pool = FairPool::own(1, None).unwrap();
        let (finisher, batches, large) = finish::channel(&state, pumping(&pool));
        let code = DroppedElsewhere::new(HandlersAndHooks { handlers, hooks: Hooks::default() });
        let registration = Arc::new(Registration::for_test(clock.clone()));
        let executor = Executor::new(&state, pool, code, clock, finisher);
        let _outcomes = Box::new((batches, large));
        Limited { state, registration, executor, starts, gate, taken, _outcomes }
    }

    fn claimed(&self, kind: &str) -> Claimed {
        let job = Job::for_test(NewJob::text("").kind(kind));
        let (job, held) = HeldJob::claimed(&self.registration, &self.state.in_flight, vec![job]).remove(0);
        Claimed::new(job, held, Instant::now(), None)
    }

    fn admit(&self) {
        let claimed = self.claimed("limited");
        let handler = self.executor.starter.code.handlers.find(claimed.job.kind()).unwrap();
        self.executor.starter.start_if_admitted(handler, claimed);
    }

    /// Counts the unstarted jobs, the parked jobs, and the released or finished jobs.
    fn jobs(&self) -> (usize, usize, usize) {
        let in_flight = &self.state.in_flight;
        (in_flight.unstarted(), in_flight.parked(), in_flight.awaiting_finish())
    }
}

#[tokio::test]
async fn what_could_have_a_place_and_finds_no_thread_is_given_back_by_an_orderly_stop() {
    let limited = Limited::new();
    limited.admit();
    assert_eq!(limited.jobs(), (0, 1, 0));
    limited.executor.submit(vec![limited.claimed("long")]);
    limited.starts.recv().unwrap();
    drop(limited.taken);
    limited.executor.close();
    let in_flight = &limited.state.in_flight;
    assert_eq!((in_flight.unstarted(), in_flight.parked(), in_flight.awaiting_finish()), (0, 0, 1));
    limited.gate.send(()).unwrap();
    in_flight.idle().await;
}

/// A thread may have checked before whether the worker is closed.
#[tokio::test]
async fn what_is_to_wait_after_those_that_waited_were_given_back_is_given_back_as_well() {
    let limited = Limited::new();
    limited.executor.close();
    limited.admit();
    assert_eq!(limited.jobs(), (0, 0, 1), "it does not wait for another worker's job");
}

/// Claims jobs with these needs, without a row, so that no server is needed.
fn with_needs(state: &WorkerState, registration: &Arc<Registration>, needs: &[Needs]) -> Vec<Claimed> {
    let job = |needs: &Needs| {
        let job = Job::for_test(NewJob::text("").needs(needs.clone()));
        Job { fence: Fence::NONE, ..job }
    };
    let claimed = HeldJob::claimed(registration, &state.in_flight, needs.iter().map(job).collect());
    let claimed_at = Instant::now();
    let hand_on = |(job, held)| Claimed::new(job, held, claimed_at, None);
    claimed.into_iter().map(hand_on).collect()
}

#[tokio::test]
async fn nothing_starts_while_the_machine_is_short_of_memory() {
    let machine = Machine::new("short-of-memory");
    machine.has_memory(8 << 20, 1 << 20);
    let mut config = WorkerConfig::default();
    config.resources.min_free_memory = MemorySize::Bytes(2 << 30);
    let mut state = WorkerState::for_test(config);
    state.memory = Arc::new(MachineMemory::at(&machine.0));
    let (state, clock) = (Arc::new(state), Arc::new(LeaseValidity::default()));
    clock.renewed(clock.now(), LEASE);
    let (executor, starts) = counting_executor(&state, &clock);
    let resources = executor.starter.resources.clone();
    resources.measure();
    let registration = Arc::new(Registration::for_test(clock));
    executor.submit(with_needs(&state, &registration, &[Needs::new(), Needs::new().memory(1)]));
    assert_eq!((executor.is_short_of_memory(), Jobs::waiting(&*executor.starter)), (true, 0), "no turn in vain");
    machine.has_memory(8 << 20, 3 << 20);
    assert_eq!(starts.load(Ordering::Acquire), 0);
    resources.measure();
    executor.pump();
    state.in_flight.idle().await;
    assert_eq!(starts.load(Ordering::Acquire), 2);
}

#[tokio::test]
async fn a_job_that_needs_more_than_the_worker_has_is_not_run() {
    let clock = Arc::new(LeaseValidity::default());
    clock.renewed(clock.now(), LEASE);
    let mut config = WorkerConfig::default();
    config.resources.memory = MemorySize::Bytes(1 << 30);
    config.resources.tokens.insert("gpu".to_owned(), 1);
    let state = Arc::new(WorkerState::for_test(config));
    let (executor, starts) = counting_executor(&state, &clock);
    let registration = Arc::new(Registration::for_test(clock));
    let needs = [
        Needs::new().memory((1 << 30) + 1),
        Needs::new().threads(2),
        Needs::new().token("gpu", 2),
        Needs::new().token("licence", 1),
        Needs::new().memory(1 << 30).threads(1).token("gpu", 1),
    ];
    executor.submit(with_needs(&state, &registration, &needs));
    state.in_flight.idle().await;
    assert_eq!((starts.load(Ordering::Acquire), state.in_flight.parked()), (1, 0));
}

fn counting_executor(state: &Arc<WorkerState>, clock: &Arc<LeaseValidity>) -> (Executor, Arc<AtomicUsize>) {
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = starts.clone();
    let executor = executor_of(state, clock, move |_, _| {
        counted.fetch_add(1, Ordering::AcqRel);
        Ok(())
    });
    (executor, starts)
}

fn executor_of(
    state: &Arc<WorkerState>,
    clock: &Arc<LeaseValidity>,
    handler: impl Fn(&Job, &Context) -> Result<(), BoxError> + Send + Sync + 'static,
) -> Executor {
    let pool = FairPool::own(1, None).unwrap();
    let (finisher, ..) = finish::channel(state, pumping(&pool));
    let mut handlers = Handlers::any(handler);
    handlers.check(&state.config).unwrap();
    let code = DroppedElsewhere::new(HandlersAndHooks { handlers, hooks: Hooks::default() });
    Executor::new(state, pool, code, clock.clone(), finisher)
}

/// An executor with one GiB, all of which a job has, and the need of another job for it.
fn all_memory_taken(reserve_after: Duration) -> (Arc<WorkerState>, Executor, Arc<Registration>, Claimed, Need) {
    let clock = Arc::new(LeaseValidity::default());
    clock.renewed(clock.now(), LEASE);
    let mut config = WorkerConfig::default();
    config.resources.memory = MemorySize::Bytes(1 << 30);
    config.resources.reserve_after = reserve_after;
    let state = Arc::new(WorkerState::for_test(config));
    let (executor, _) = counting_executor(&state, &clock);
    let registration = Arc::new(Registration::for_test(clock));
    let need = executor.starter.resources.need(&Needs::new().memory(1 << 30)).unwrap().unwrap();
    let first = with_fence(&state, &registration, 1);
    let Admission::Starts(has_memory) = executor.starter.resources.admit(0, need.clone(), first) else { panic!() };
    (state, executor, registration, has_memory, need)
}

fn with_fence(state: &WorkerState, registration: &Arc<Registration>, fence: i32) -> Claimed {
    let job = Job { fence: Fence(fence), ..Job::for_test(NewJob::text("")) };
    let (job, held) = HeldJob::claimed(registration, &state.in_flight, vec![job]).remove(0);
    Claimed::new(job, held, Instant::now(), None)
}

#[tokio::test]
async fn what_waits_for_resources_in_vain_is_ended_before_its_turn() {
    let (state, executor, registration, has_memory, need) = all_memory_taken(LEASE);
    let JobStarter { resources, .. } = &*executor.starter;
    let id = has_memory.job.id();
    let losses: [&dyn Fn(); 2] =
        [&|| registration.cancellations().ask(id, Fence(2)), &|| registration.cancellations().lose_lease()];
    for lose in losses {
        let claimed = with_fence(&state, &registration, 2);
        assert!(matches!(resources.admit(0, need.clone(), claimed), Admission::Waits));
        executor.starter.end_those_that_are_over();
        assert_eq!(state.in_flight.parked(), 1);
        lose();
        executor.starter.end_those_that_are_over();
        assert_eq!((state.in_flight.parked(), resources.any_waits()), (0, false));
        registration.cancellations().forget(id, Fence(2));
    }
}

#[tokio::test]
async fn a_job_that_has_waited_for_long_keeps_its_place_while_it_waits_for_resources() {
    for (reserve_after, keeps) in [(LEASE, false), (Duration::ZERO, true)] {
        let (state, executor, registration, _has_memory, need) = all_memory_taken(reserve_after);
        let places = Arc::new(SharedLimit::new(1));
        let [own, other] = [(); 2].map(|()| places.join(FairPool::own(1, None).unwrap()));
        assert!(places.change(|line, now| line.take_place(own, now)));
        let mut claimed = with_fence(&state, &registration, 2);
        claimed.permit = Some(Permit::new(&places, own));
        assert!(matches!(executor.starter.resources.admit(0, need, claimed), Admission::Waits));
        assert_eq!(places.change(|line, now| line.take_place(other, now)), !keeps);
    }
}
