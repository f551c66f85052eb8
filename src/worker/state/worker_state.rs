//! The state that the stages of one worker share: the settings, the connector to SQL Server, and the parts that each
//! stage reports to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::config::{ResourcesConfig, WorkerConfig};
use crate::connection::{Connector, Session, SessionPool};
use crate::handler::ParentsOf;
use crate::job::{MEMORY, Needs, RunNotes};
use crate::metrics::WorkerMetrics;
use crate::queue::Queue;

use super::bottleneck_meter::BottleneckMeter;
use super::claim_signals::ClaimSignals;
use super::duty_failures::DutyFailures;
use super::in_flight::InFlight;
use super::kind_tally::KindTally;
use super::learned_memory::LearnedMemory;
use super::machine_memory::MachineMemory;
use super::most_resources::MostResources;
use super::outage_log::OutageLog;
use super::pulse::Pulse;
use super::run_length::RunLength;
use super::stop::StopHandle;
use super::tally::Tally;

/// The most connections that the handlers of a worker use at once.
const HANDLERS_SESSIONS: usize = 2;

/// Between two tries of a handler's call.
const PAUSE: Duration = Duration::from_millis(100);

/// The state that the stages share. It is created before the stages.
pub(in crate::worker) struct WorkerState {
    pub(in crate::worker) queue: String,
    pub(in crate::worker) config: WorkerConfig,
    /// How many jobs run at once. Operators can change it.
    threads: Arc<AtomicUsize>,
    /// The worker's share of a shared thread pool.
    pub(in crate::worker) weight: u32,
    connector: Arc<Connector>,
    pub(in crate::worker) memory: Arc<MachineMemory>,
    /// What the worker had for jobs when it started. Without memory: it is not limited.
    resources: Needs,
    /// Whether the threads have changed since.
    is_resized: AtomicBool,
    /// Whether an operator has asked the worker to claim no more jobs.
    pub(in crate::worker) quiet: watch::Sender<bool>,
    pub(in crate::worker) in_flight: Arc<InFlight>,
    pub(in crate::worker) tally: Arc<Tally>,
    pub(in crate::worker) kinds: KindTally,
    /// Set with `learn_memory`.
    pub(in crate::worker) learned: Option<LearnedMemory>,
    pub(in crate::worker) most_resources: MostResources,
    pub(in crate::worker) limited_by: BottleneckMeter,
    pub(in crate::worker) pulse: Pulse,
    pub(in crate::worker) arrivals: ClaimSignals,
    pub(in crate::worker) run_length: RunLength,
    pub(in crate::worker) duty_failures: DutyFailures,
    pub(in crate::worker) notes: Arc<RunNotes>,
    pub(in crate::worker) outage: Arc<OutageLog>,
    pub(in crate::worker) stop: StopHandle,
    /// Whether the worker stops because its process is too large.
    pub(in crate::worker) is_recycled: AtomicBool,
    pub(in crate::worker) metrics: WorkerMetrics,
}

impl WorkerState {
    pub(in crate::worker) fn new(queue: &Queue, config: WorkerConfig, threads: usize, weight: u32) -> WorkerState {
        WorkerState::with(queue.connector(), queue.name(), config, threads, weight)
    }

    fn with(connector: Arc<Connector>, queue: &str, config: WorkerConfig, threads: usize, weight: u32) -> WorkerState {
        let outage = Arc::<OutageLog>::default();
        let memory = Arc::new(MachineMemory::of_this_process());
        let resources = resources(&config.resources, memory.usable(), threads);
        let learned = config.resources.learn_memory.then(LearnedMemory::default);
        let (in_flight, tally) = (Arc::<InFlight>::default(), Arc::<Tally>::default());
        let threads = Arc::new(AtomicUsize::new(threads));
        WorkerState {
            queue: queue.to_owned(),
            config,
            limited_by: BottleneckMeter::new(threads.clone(), in_flight.clone(), tally.clone()),
            threads,
            weight,
            connector,
            memory,
            resources,
            is_resized: AtomicBool::new(false),
            quiet: watch::Sender::new(false),
            pulse: Pulse::new(),
            notes: Arc::new(RunNotes::counted_in(in_flight.noted_bytes())),
            in_flight,
            tally,
            kinds: KindTally::default(),
            learned,
            most_resources: MostResources::default(),
            arrivals: ClaimSignals::default(),
            run_length: RunLength::default(),
            duty_failures: DutyFailures::new(outage.clone()),
            outage,
            stop: StopHandle::new(),
            is_recycled: AtomicBool::new(false),
            metrics: WorkerMetrics::new(queue),
        }
    }

    /// How many jobs run at once.
    pub(in crate::worker) fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    pub(in crate::worker) fn set_threads(&self, threads: usize) {
        self.threads.store(threads, Ordering::Relaxed);
        self.is_resized.store(true, Ordering::Relaxed);
    }

    /// What the worker has for jobs. Without memory: it is not limited.
    pub(in crate::worker) fn resources(&self) -> Needs {
        self.resources.clone().threads(as_need(self.threads()))
    }

    /// The same, if the threads have changed since the worker started.
    pub(in crate::worker) fn changed_resources(&self) -> Option<Needs> {
        self.is_resized.load(Ordering::Relaxed).then(|| self.resources())
    }

    /// The memory that the worker has for jobs, if it is limited.
    pub(in crate::worker) fn memory_for_jobs(&self) -> Option<u64> {
        self.resources.get(MEMORY)
    }

    /// The names of the schema and of the queue.
    pub(in crate::worker) fn place(&self) -> (String, String) {
        (self.connector.schema().to_owned(), self.queue.clone())
    }

    /// For [`Context::parents`](crate::Context::parents), on connections of their own, because handlers have a runtime of
    /// their own.
    pub(in crate::worker) fn parents_of(&self) -> ParentsOf {
        let sessions = SessionPool::new(self.connector.clone(), HANDLERS_SESSIONS);
        let limit = self.connector.timeouts().command;
        Box::new(move |job_id| {
            let sessions = sessions.clone();
            Box::pin(async move {
                let deadline = Instant::now() + limit;
                loop {
                    let read =
                        async { sessions.lend(deadline, limit).await?.until(deadline, limit).parents(job_id).await };
                    match read.await {
                        Err(error) if error.is_transient() && Instant::now() + PAUSE < deadline => sleep(PAUSE).await,
                        read => return read,
                    }
                }
            })
        })
    }

    /// Counts jobs that have expired.
    pub(in crate::worker) fn expired(&self, jobs: u64) {
        if jobs > 0 {
            self.tally.expired(jobs);
            self.metrics.expired.increment(jobs);
        }
    }

    /// A session that is not connected yet.
    pub(in crate::worker) fn session(&self) -> Session {
        Session::new(self.connector.clone())
    }
}

/// What a worker has, of a process that may use `usable` bytes.
pub(in crate::worker) fn resources(config: &ResourcesConfig, usable: Option<u64>, threads: usize) -> Needs {
    let mut has = Needs::new().threads(as_need(threads));
    // Where the system does not tell its memory, a percentage of it is no limit.
    if usable.is_some() || config.memory.of(0) > 0 {
        has = has.memory(config.memory.of(usable.unwrap_or(u64::MAX)));
    }
    config.tokens.iter().fold(has, |has, (name, tokens)| has.token(name, *tokens))
}

fn as_need(threads: usize) -> u32 {
    u32::try_from(threads).unwrap_or(u32::MAX)
}

#[cfg(test)]
impl WorkerState {
    /// The state of a worker that calls no server.
    pub(in crate::worker) fn for_test(config: WorkerConfig) -> WorkerState {
        let url = "Server=tcp:localhost,1433;Database=none;User ID=none;Password=none".into();
        let connection = crate::config::ConnectionConfig { url, ..Default::default() };
        let connector = Arc::new(Connector::new(&connection, "test").unwrap());
        WorkerState::with(connector, "test", config, 1, 1)
    }
}
