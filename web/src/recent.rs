//! The last hours of all queues: read once a minute, for the problems and the charts of the overview.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use readpast::Queue;
use readpast::admin::{FailureGroup, HistoryRow, QueueStats, ScheduleRow};

use crate::attention::{self, Lately, is_late};
use crate::chart::{self, Spark};
use crate::last_hour::LastHour;

/// The span of the small charts, their parts, and how often the history is read: it gets a row per minute.
const SPAN: Duration = Duration::from_secs(3 * 3_600);
const PART: Duration = Duration::from_secs(5 * 60);
const INTERVAL: Duration = Duration::from_secs(60);

/// Dead jobs whose errors are grouped: those of one queue, once a minute.
const FAILURES: usize = 1_000;

/// Failed attempts are counted over this time.
const FAILED: Duration = Duration::from_secs(15 * 60);

/// The backlog is compared over twice this time, as the alert ReadpastBacklogGrowing does.
const HALF_GROWTH: Duration = Duration::from_secs(30 * 60);

/// What the last hours tell of a queue.
#[derive(Debug, Clone, Default)]
pub struct Recent {
    pub lately: Lately,
    /// A small chart of the jobs that ended; `None` if there are too few values.
    pub spark: Option<Arc<Spark>>,
    /// Attempts in the last 15 minutes, and those of them that failed.
    pub attempts: u64,
    pub failed: u64,
    /// Ready jobs an hour ago, half an hour ago, and now; `None` if the history is shorter.
    pub backlog: Option<[u64; 3]>,
    /// Schedules that are late or cannot be fired.
    pub schedules: Vec<BadSchedule>,
    /// Why jobs died, the most frequent reason first; `None` if it was not read lately.
    pub reasons: Option<Arc<Vec<FailureGroup>>>,
}

#[derive(Debug, Clone)]
pub struct BadSchedule {
    pub name: String,
    /// Why it cannot be fired; `None` if it is only late.
    pub error: Option<String>,
}

/// The last hours of all queues.
#[derive(Default)]
pub struct History {
    read_at: Option<Instant>,
    queues: HashMap<String, Arc<Recent>>,
    pub last_hour: Arc<LastHour>,
    /// When the failures of a queue were last read.
    reasons_read_at: HashMap<String, Instant>,
}

impl History {
    pub fn is_due(&self) -> bool {
        self.read_at.is_none_or(|at| at.elapsed() >= INTERVAL)
    }

    pub fn of(&self, queue: &str) -> Arc<Recent> {
        self.queues.get(queue).cloned().unwrap_or_default()
    }

    /// Reads the history, the schedules, the kinds of the busiest queues and, for one queue, the failures.
    pub async fn read(&mut self, queue: &Queue, stats: &[QueueStats]) -> Result<(), readpast::Error> {
        let rows = queue.admin().all_history(SPAN).await?;
        self.read_at = Some(Instant::now());
        let before = self.queues.clone();
        let mut queues: HashMap<String, Recent> = HashMap::new();
        for rows in rows.chunk_by(|a, b| a.queue == b.queue) {
            queues.insert(rows[0].queue.clone(), Recent::new(rows, attention::now()));
        }
        for stats in stats {
            // An adopted table has no schedules.
            let schedules = queue.named(&stats.queue)?.admin().schedules().await.unwrap_or_default();
            let recent = queues.entry(stats.queue.clone()).or_default();
            recent.note_schedules(schedules, attention::now());
            recent.reasons = before.get(&stats.queue).and_then(|recent| recent.reasons.clone());
            if recent.lately.more_dead(stats) == 0 {
                recent.reasons = None;
                self.reasons_read_at.remove(&stats.queue);
            }
        }
        if let Some(name) = self.next_with_dead(&queues, stats) {
            self.reasons_read_at.insert(name.clone(), Instant::now());
            let failures = queue.named(&name)?.admin().failures(FAILURES).await;
            let recent = queues.entry(name).or_default();
            recent.reasons = failures.ok().map(|failures| Arc::new(failures.groups));
        }
        self.queues = queues.into_iter().map(|(name, recent)| (name, Arc::new(recent))).collect();
        self.last_hour = Arc::new(LastHour::read(queue, &rows).await);
        Ok(())
    }

    /// Of the queues in which jobs died lately, the one whose failures were read longest ago.
    fn next_with_dead(&self, queues: &HashMap<String, Recent>, stats: &[QueueStats]) -> Option<String> {
        let has_more =
            |stats: &&QueueStats| queues.get(&stats.queue).is_some_and(|recent| recent.lately.more_dead(stats) > 0);
        let with_dead = stats.iter().filter(has_more).map(|stats| stats.queue.clone());
        with_dead.min_by_key(|name| self.reasons_read_at.get(name).copied())
    }
}

impl Recent {
    /// `rows` are those of the queue, the latest last.
    fn new(rows: &[HistoryRow], now: SystemTime) -> Recent {
        let mut recent = Recent { lately: Lately::new(rows, &[], now), ..Recent::default() };
        let last = rows.last().map_or(now, |row| row.at);
        let ago = |duration: Duration| last.checked_sub(duration).unwrap_or(SystemTime::UNIX_EPOCH);
        for row in rows.iter().filter(|row| row.at >= ago(FAILED)) {
            recent.attempts += row.done + row.failed;
            recent.failed += row.failed;
        }
        let is_early_enough = rows.first().is_some_and(|row| row.at <= ago(2 * HALF_GROWTH));
        let ready_at = |time: SystemTime| rows.iter().find(|row| row.at >= time).map_or(0, |row| row.ready);
        recent.backlog = is_early_enough.then(|| [2 * HALF_GROWTH, HALF_GROWTH, Duration::ZERO].map(ago).map(ready_at));
        recent.spark = chart::spark(rows, SPAN, PART).map(Arc::new);
        recent
    }

    fn note_schedules(&mut self, schedules: Vec<ScheduleRow>, now: SystemTime) {
        let bad: Vec<ScheduleRow> = schedules.into_iter().filter(|row| is_late(row, now)).collect();
        self.lately.late_schedules = bad.len();
        self.schedules = bad.into_iter().map(|row| BadSchedule { name: row.name, error: row.error }).collect();
    }

    /// Whether the backlog is over 1,000 and has grown by more than 0.1 jobs per second for an hour: the thresholds of
    /// the alert ReadpastBacklogGrowing.
    pub fn backlog_grows(&self) -> bool {
        let least = HALF_GROWTH.as_secs() / 10;
        self.backlog
            .is_some_and(|[first, middle, last]| last > 1_000 && middle > first + least && last > middle + least)
    }
}
