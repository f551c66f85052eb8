//! Reads the depth of all queues and their workers once a second, shared by all browsers, while at least one is
//! watching.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use askama::Template;
use parking_lot::Mutex;
use readpast::admin::{Inflow, QueueActivity, QueueStats, Role, WorkerRow};
use readpast::{Error, Queue};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::counts::{Counts, Exact, MOST};
use crate::last_hour::LastHour;
use crate::problem::{self, Problem};
use crate::recent::{History, Recent};
use crate::render;
use crate::texts::age;
use crate::time;

/// How often SQL Server is read.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reading stops after this time without a request or a listener.
const IDLE: Duration = Duration::from_secs(5);

/// How old the first reading of a page may be.
const FRESH: Duration = Duration::from_secs(3);

/// How long a page waits for a new reading. Then it shows the last one, with its age.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a page waits for a reading if there is none yet.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);

/// Ended workers are shown for this long.
const ENDED: Duration = Duration::from_secs(3_600);

/// How long the number of problems stands in the navigation of pages that are not live.
const RECENT: Duration = Duration::from_secs(60);

/// Time limit of one reading.
const LONGEST: Duration = Duration::from_secs(10);

/// How often the login's roles are read.
const ROLES_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Reading {
    at: Instant,
    /// When SQL Server was asked.
    asked_at: Instant,
    pub queues: Vec<Line>,
    pub workers: Vec<WorkerRow>,
    /// The worst first.
    pub problems: Vec<Problem>,
    pub last_hour: Arc<LastHour>,
    /// Why there is no newer reading.
    pub error: Option<String>,
    html: [OnceLock<Option<Arc<str>>>; 3],
}

/// A part of a page made from a reading.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    Overview,
    Workers,
    LastHour,
}

#[derive(Debug, Clone)]
pub struct Line {
    pub activity: QueueActivity,
    pub counts: Counts,
    /// Approximate enqueue rate; `None`: unknown.
    pub in_per_s: Option<f64>,
    pub recent: Arc<Recent>,
}

pub struct Readings {
    queue: Queue,
    latest: watch::Sender<Option<Arc<Reading>>>,
    reader: Mutex<Reader>,
    roles: Mutex<Option<(Instant, bool)>>,
    /// The last full count, if a queue is large.
    exact: Mutex<Option<Arc<Exact>>>,
    ended: watch::Sender<bool>,
}

#[derive(Default)]
struct Reader {
    task: Option<JoinHandle<()>>,
    wanted_at: Option<Instant>,
}

impl Readings {
    pub fn new(queue: Queue) -> Readings {
        Readings {
            queue,
            latest: watch::Sender::new(None),
            reader: Mutex::default(),
            roles: Mutex::new(None),
            exact: Mutex::new(None),
            ended: watch::Sender::new(false),
        }
    }

    /// Ends all listeners.
    pub fn end(&self) {
        self.ended.send_replace(true);
    }

    /// A receiver of a value that becomes true at the shutdown.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    /// The readings from now on, once a second, until the receiver is dropped.
    pub fn listen(self: &Arc<Self>) -> watch::Receiver<Option<Arc<Reading>>> {
        let receiver = self.latest.subscribe();
        self.want();
        receiver
    }

    /// A recent reading; waits for the first one. If SQL Server does not respond in time, returns the last one with an
    /// error.
    pub async fn now(self: &Arc<Self>) -> Arc<Reading> {
        let mut latest = self.listen();
        let is_fresh =
            |reading: &Option<Arc<Reading>>| reading.as_ref().is_some_and(|reading| reading.asked_at.elapsed() < FRESH);
        let patience = if latest.borrow().is_some() { PATIENCE } else { FIRST_PATIENCE };
        let fresh = match tokio::time::timeout(patience, latest.wait_for(is_fresh)).await {
            Ok(Ok(reading)) => reading.clone().ok_or("nothing has been read yet".to_owned()),
            Ok(Err(_)) => Err("the web UI is stopping".to_owned()),
            Err(_) => Err(format!("no response for {}", age(patience))),
        };
        fresh.unwrap_or_else(|error| Arc::new(Reading::failed(self.latest.borrow().as_deref(), error)))
    }

    /// How many problems the last reading has; 0 if it is not recent.
    pub fn problems(&self) -> usize {
        let latest = self.latest.borrow();
        latest.as_ref().filter(|reading| reading.at.elapsed() < RECENT).map_or(0, |reading| reading.problems.len())
    }

    /// Whether the SQL Server login may act. If the server does not respond in time, the last answer counts, or no.
    pub async fn login_may_act(&self) -> bool {
        let known = *self.roles.lock();
        if let Some((at, may_act)) = known
            && at.elapsed() < ROLES_INTERVAL
        {
            return may_act;
        }
        let may_act = match tokio::time::timeout(PATIENCE, self.queue.admin().roles()).await {
            Ok(Ok(roles)) => roles.contains(&Role::Operator),
            _ => match known {
                Some((_, may_act)) => may_act,
                None => return false,
            },
        };
        *self.roles.lock() = Some((Instant::now(), may_act));
        may_act
    }

    /// Starts a reader if none is running.
    fn want(self: &Arc<Self>) {
        let mut reader = self.reader.lock();
        reader.wanted_at = Some(Instant::now());
        // A reader also ends with its runtime.
        if reader.task.as_ref().is_none_or(JoinHandle::is_finished) {
            reader.task = Some(tokio::spawn(self.clone().read()));
        }
    }

    async fn read(self: Arc<Self>) {
        let (mut inflow, mut history) = (HashMap::new(), History::default());
        let mut counting: Option<JoinHandle<()>> = None;
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.has_ended() {
                return;
            }
            // Without a response the reading contains an error, and the next attempt uses other connections.
            let read = tokio::time::timeout(LONGEST, self.read_once(&mut inflow, &mut history)).await;
            let reading = match read {
                Ok(Ok(reading)) => {
                    let has_many = reading.queues.iter().any(|line| !line.counts.are_exact());
                    if has_many && counting.as_ref().is_none_or(JoinHandle::is_finished) {
                        counting = self.count_all_if_due();
                    }
                    reading
                }
                Ok(Err(error)) => Reading::failed(self.latest.borrow().as_deref(), error.to_string()),
                Err(_) => Reading::failed(self.latest.borrow().as_deref(), format!("no response for {}", age(LONGEST))),
            };
            self.latest.send_replace(Some(Arc::new(reading)));
        }
    }

    /// Ends the reader if no browser watches. The next request starts another.
    fn has_ended(&self) -> bool {
        let mut reader = self.reader.lock();
        let is_asked = reader.wanted_at.is_some_and(|at| at.elapsed() < IDLE);
        let is_wanted = (is_asked || self.latest.receiver_count() > 0) && !*self.ended.borrow();
        if !is_wanted {
            reader.task = None;
        }
        !is_wanted
    }

    /// Starts a full count if due. It runs alongside the readings, because it can take longer than a second.
    fn count_all_if_due(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        if self.exact.lock().as_ref().is_some_and(|exact| !exact.is_old()) {
            return None;
        }
        let readings = self.clone();
        Some(tokio::spawn(async move {
            let begin = Instant::now();
            match readings.queue.admin().all_stats(None).await {
                Ok(queues) => *readings.exact.lock() = Some(Arc::new(Exact::new(begin, queues))),
                Err(error) => tracing::debug!(%error, "not all jobs could be counted"), // the readings say it, too
            }
        }))
    }

    /// Replaces counts cut at [`MOST`] by those of the full count.
    pub fn complete(&self, stats: &mut QueueStats) -> Counts {
        let exact = self.exact.lock().clone();
        Counts::complete(stats, exact.as_ref().and_then(|exact| exact.queue(&stats.queue)))
    }

    async fn read_once(&self, inflow: &mut HashMap<String, In>, history: &mut History) -> Result<Reading, Error> {
        let (queues, workers) =
            tokio::try_join!(self.queue.admin().all_stats(Some(MOST)), self.queue.admin().all_workers(ENDED))?;
        if history.is_due() {
            history.read(&self.queue, &queues).await?;
        }
        let at = Instant::now();
        inflow.retain(|name, _| queues.iter().any(|stats| stats.queue == *name));
        let counted_at = self.exact.lock().as_ref().map(|exact| exact.at);
        let line = |mut stats| {
            let counts = self.complete(&mut stats);
            let activity = QueueActivity::new(stats, Some(&workers));
            let inflow = inflow.entry(activity.stats.queue.clone()).or_default();
            let counted_at = if counts.are_exact() { Some(at) } else { counted_at };
            let in_per_s = inflow.note(counted_at, &activity);
            let recent = history.of(&activity.stats.queue);
            Line { activity, counts, in_per_s, recent }
        };
        let queues: Vec<Line> = queues.into_iter().map(line).collect();
        let problems = problem::all(&queues, &workers);
        let last_hour = history.last_hour.clone();
        Ok(Reading { at, asked_at: at, queues, workers, problems, last_hour, error: None, html: Default::default() })
    }
}

/// The enqueue rate of a queue, from two counts of all its jobs.
#[derive(Default)]
struct In {
    inflow: Inflow,
    noted_at: Option<Instant>,
    per_s: Option<f64>,
}

impl In {
    /// Adds a count and returns the rate. `counted_at` is when all unfinished jobs were counted.
    fn note(&mut self, counted_at: Option<Instant>, activity: &QueueActivity) -> Option<f64> {
        if let Some(at) = counted_at
            && self.noted_at.is_none_or(|noted| noted < at)
        {
            self.noted_at = Some(at);
            self.per_s = self.inflow.note(at, activity.stats.not_done(), activity.done_per_s);
        }
        self.per_s
    }
}

impl Reading {
    /// A copy of the last reading, with an error.
    fn failed(before: Option<&Reading>, error: String) -> Reading {
        let (asked_at, error, html) = (Instant::now(), Some(error), Default::default());
        match before {
            Some(before) => Reading { asked_at, error, html, ..before.clone() },
            None => {
                let (queues, workers, problems) = (Vec::new(), Vec::new(), Vec::new());
                Reading { at: asked_at, asked_at, queues, workers, problems, last_hour: Arc::default(), error, html }
            }
        }
    }

    /// The HTML of a part, rendered once for all browsers that show relative times. `None`: rendering failed, which is a
    /// defect.
    pub fn html<'a, T: Template>(&'a self, part: Part, template: fn(&'a Reading) -> T) -> Option<Arc<str>> {
        let make = || render::part(&template(self));
        if time::is_exact() {
            return make();
        }
        self.html[part as usize].get_or_init(make).clone()
    }

    /// Why there is no newer reading, and how old this one is.
    pub fn trouble(&self) -> Option<String> {
        let error = self.error.clone()?;
        let is_empty = self.queues.is_empty() && self.workers.is_empty();
        Some(if is_empty { error } else { format!("{error} (what you see is {} old)", age(self.at.elapsed())) })
    }

    pub fn queue(&self, name: &str) -> Option<&Line> {
        self.queues.iter().find(|line| line.activity.stats.queue == name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static MADE: AtomicUsize = AtomicUsize::new(0);

    #[derive(Template)]
    #[template(source = "{{ error }}", ext = "html")]
    struct Said {
        error: String,
    }

    fn template(reading: &Reading) -> Said {
        MADE.fetch_add(1, Ordering::Relaxed);
        Said { error: reading.error.clone().unwrap_or_default() }
    }

    #[test]
    fn a_part_is_made_once_for_all_browsers_and_anew_of_another_reading() {
        let reading = Reading::failed(None, "the first".to_owned());
        for _ in 0..20 {
            assert_eq!(reading.html(Part::Overview, template).as_deref(), Some("the first"));
        }
        assert_eq!(MADE.load(Ordering::Relaxed), 1);
        let next = Reading::failed(Some(&reading), "the second".to_owned());
        assert_eq!(next.html(Part::Overview, template).as_deref(), Some("the second"));
    }
}
