//! What all stages of one worker have: the settings, the way to SQL Server, and the few things that each of them
//! reports to.

use std::sync::Arc;

use crate::config::WorkerConfig;
use crate::job_notes::Notes;
use crate::metrics::WorkerMetrics;
use crate::queue::Queue;
use crate::queue::connector::Connector;
use crate::queue::lasting_session::Session;

use super::claim_signals::Arrivals;
use super::duty_failures::DutyFailures;
use super::in_flight_counts::InFlight;
use super::outage::Outage;
use super::report::bottleneck_time::LimitedBy;
use super::report::pulse::Pulse;
use super::report::tally::Tally;
use super::stop::StopHandle;

/// Made once, before the stages.
pub(super) struct StageContext {
    /// The queue's name.
    pub(super) queue: String,
    pub(super) config: WorkerConfig,
    /// How many jobs run at once.
    pub(super) threads: usize,
    /// Its share of the threads, beside that of others.
    pub(super) weight: u32,
    connector: Arc<Connector>,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) tally: Arc<Tally>,
    pub(super) limited_by: LimitedBy,
    pub(super) pulse: Pulse,
    pub(super) arrivals: Arrivals,
    pub(super) duty_failures: DutyFailures,
    pub(super) notes: Arc<Notes>,
    pub(super) outage: Arc<Outage>,
    pub(super) stop: StopHandle,
    pub(super) metrics: WorkerMetrics,
}

impl StageContext {
    pub(super) fn new(queue: &Queue, config: WorkerConfig, threads: usize, weight: u32) -> StageContext {
        StageContext::with(queue.connector(), queue.name(), config, threads, weight)
    }

    fn with(connector: Arc<Connector>, queue: &str, config: WorkerConfig, threads: usize, weight: u32) -> StageContext {
        let outage = Arc::<Outage>::default();
        let (in_flight, tally) = (Arc::<InFlight>::default(), Arc::<Tally>::default());
        StageContext {
            queue: queue.to_owned(),
            config,
            threads,
            weight,
            connector,
            limited_by: LimitedBy::new(threads, in_flight.clone(), tally.clone()),
            pulse: Pulse::new(),
            in_flight,
            tally,
            arrivals: Arrivals::default(),
            duty_failures: DutyFailures::new(outage.clone()),
            notes: Arc::default(),
            outage,
            stop: StopHandle::new(),
            metrics: WorkerMetrics::new(queue),
        }
    }

    /// The names of the schema and of the queue.
    pub(super) fn place(&self) -> (String, String) {
        (self.connector.schema().to_owned(), self.queue.clone())
    }

    /// A connection to be.
    pub(super) fn session(&self) -> Session {
        Session::new(self.connector.clone())
    }
}

#[cfg(test)]
impl StageContext {
    /// Of a worker whose server nobody asks.
    pub(super) fn for_test(config: WorkerConfig) -> StageContext {
        let url = "Server=tcp:localhost,1433;Database=none;User ID=none;Password=none".into();
        let connection = crate::config::ConnectionConfig { url, ..Default::default() };
        let connector = Arc::new(Connector::new(&connection, "test").unwrap());
        StageContext::with(connector, "test", config, 1, 1)
    }
}
