//! A queue's depth and settings, for operators.

use std::time::Duration;

use serde::Serialize;

use crate::connection::{Columns, Session};
use crate::error::Error;
use crate::job::{ClaimOrder, CompletionPolicy, Delivery, JobState};
use crate::procedures::schema_info::Held;
use crate::time::json_seconds;

use super::queue_options::{Keep, Rate, read_keep};

const STATS: &str = "stats";

/// A queue's settings and how many jobs it has. The jobs are counted without locks, so the numbers are approximate
/// while jobs change state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct QueueStats {
    /// The queue's name.
    pub queue: String,
    /// The order in which jobs are claimed.
    pub claim_order: ClaimOrder,
    /// What happens to done jobs.
    pub completion: CompletionPolicy,
    /// What a claim guarantees.
    pub delivery: Delivery,
    /// After how many attempts a job becomes dead.
    pub max_attempts: u32,
    /// Whether the queue is paused.
    pub paused: bool,
    /// What holds all queues of the schema, if anything. The queue then counts as paused.
    pub held: Option<Held>,
    /// Ready jobs.
    pub ready: u64,
    /// Scheduled jobs.
    pub scheduled: u64,
    /// Jobs waiting for their turn in their groups or, in a fair queue, to be claimed; and jobs waiting for other jobs.
    pub waiting: u64,
    /// Claimed jobs.
    pub claimed: u64,
    /// Done jobs that are kept (`annotate`).
    pub done: u64,
    /// Dead jobs.
    pub dead: u64,
    /// Cancelled jobs.
    pub cancelled: u64,
    /// Jobs in the archive.
    pub archived: u64,
    /// Workers with a lease.
    pub workers: u64,
    /// How long the oldest ready job has been ready.
    /// In a fair queue, the jobs that wait in groups count, too.
    #[serde(rename = "oldest_ready_s", serialize_with = "json_seconds")]
    pub oldest_ready: Option<Duration>,
    /// How long done jobs stay.
    #[serde(rename = "keep_done_s")]
    pub keep_done: Keep,
    /// How long dead jobs stay.
    #[serde(rename = "keep_dead_s")]
    pub keep_dead: Keep,
    /// The procedure that is called with the done jobs, if there is one
    /// ([`QueueOptions::sink`](super::queue_options::QueueOptions::sink)).
    pub sink: Option<String>,
    /// The queue that dead jobs go to, if they do
    /// ([`QueueOptions::dead_queue`](super::queue_options::QueueOptions::dead_queue)).
    pub dead_queue: Option<String>,
    /// How many jobs of one group run at once
    /// ([`QueueOptions::group_limit`](super::queue_options::QueueOptions::group_limit)).
    pub group_limit: u32,
    /// Whether a retried job passes its turn on
    /// ([`QueueOptions::retry_passes`](super::queue_options::QueueOptions::retry_passes)).
    pub retry_passes: bool,
    /// How many jobs all workers together hold at once, or `None` if there is no limit
    /// ([`QueueOptions::max_running`](super::queue_options::QueueOptions::max_running)).
    pub max_running: Option<u32>,
    /// How many jobs all workers together claim per interval, or `None` if there is no limit
    /// ([`QueueOptions::rate`](super::queue_options::QueueOptions::rate)).
    pub rate: Option<Rate>,
    /// How many unfinished jobs the queue takes, or `None` if there is no limit
    /// ([`QueueOptions::max_depth`](super::queue_options::QueueOptions::max_depth)).
    pub max_depth: Option<u32>,
    /// Whether a dead job halts its group
    /// ([`QueueOptions::halt_groups`](super::queue_options::QueueOptions::halt_groups)).
    pub halt_groups: bool,
    /// After which time a ready job counts as one priority higher, or `None` for never
    /// ([`QueueOptions::age_after`](super::queue_options::QueueOptions::age_after)).
    #[serde(rename = "age_after_s", serialize_with = "json_seconds")]
    pub age_after: Option<Duration>,
    /// Whether groups share the queue ([`QueueOptions::fair`](super::queue_options::QueueOptions::fair)).
    pub fair: bool,
}

impl QueueStats {
    /// All jobs that are not done: a job counts from its enqueueing until it is done, even if it has failed.
    pub fn not_done(&self) -> u64 {
        self.unfinished() + self.dead + self.cancelled
    }

    /// The jobs that a claim could take: the ready ones and, in a fair queue, those that wait in groups (and those that wait
    /// for other jobs, which the counts do not tell apart).
    pub fn claimable(&self) -> u64 {
        self.ready + if self.fair { self.waiting } else { 0 }
    }

    /// The unfinished jobs: ready, scheduled, waiting and claimed ones.
    pub fn unfinished(&self) -> u64 {
        self.ready + self.scheduled + self.waiting + self.claimed
    }

    /// How many jobs are in a state.
    pub fn jobs(&self, state: JobState) -> u64 {
        match state {
            JobState::Ready => self.ready,
            JobState::Scheduled => self.scheduled,
            JobState::Waiting => self.waiting,
            JobState::Claimed => self.claimed,
            JobState::Done => self.done,
            JobState::Dead => self.dead,
            JobState::Cancelled => self.cancelled,
            JobState::Archived => self.archived,
        }
    }

    fn read(mut row: Columns) -> Result<QueueStats, Error> {
        Ok(QueueStats {
            queue: row.required("queue")?,
            claim_order: row.one_of("claim_order", &ClaimOrder::WORDS)?,
            completion: row.one_of("completion", &CompletionPolicy::WORDS)?,
            delivery: row.one_of("delivery", &Delivery::WORDS)?,
            max_attempts: row.count("max_attempts")?,
            paused: row.required("paused")?,
            held: row.optional_one_of("held", &Held::WORDS)?,
            ready: row.big_count("ready")?,
            scheduled: row.big_count("scheduled")?,
            claimed: row.big_count("claimed")?,
            done: row.big_count("done")?,
            dead: row.big_count("dead")?,
            archived: row.big_count("archived")?,
            workers: row.big_count("workers")?,
            oldest_ready: row.optional_ms("oldest_ready_ms")?,
            keep_done: read_keep(&mut row, "keep_done_s")?,
            keep_dead: read_keep(&mut row, "keep_dead_s")?,
            sink: row.optional("sink")?,
            cancelled: row.big_count("cancelled")?,
            waiting: row.big_count("waiting")?,
            group_limit: row.count("group_limit")?,
            retry_passes: row.required("retry_passes")?,
            max_running: row.optional_count("max_running")?,
            rate: Rate::of(row.optional_count("rate_jobs")?, row.optional_ms("rate_ms")?),
            dead_queue: row.optional("dead_queue")?,
            max_depth: row.optional_count("max_depth")?,
            halt_groups: row.required("halt_groups")?,
            age_after: row.optional_ms("age_after_ms")?,
            fair: row.required("fair")?,
        })
    }
}

impl Session {
    /// Counts the queue's jobs. With `most`, counting stops at this many in each state.
    pub(crate) async fn stats(&mut self, queue: &str, most: Option<u64>) -> Result<QueueStats, Error> {
        let mut command = self.command(STATS);
        command.bind_param("@queue", queue);
        if let Some(most) = most {
            command.bind_param("@most", i64::try_from(most).unwrap_or(i64::MAX));
        }
        QueueStats::read(self.row(STATS, command).await?)
    }

    /// Counts the jobs of every queue. With `most`, counting stops at this many in each state.
    pub(crate) async fn all_stats(&mut self, most: Option<u64>) -> Result<Vec<QueueStats>, Error> {
        let mut command = self.command(STATS);
        if let Some(most) = most {
            command.bind_param("@most", i64::try_from(most).unwrap_or(i64::MAX));
        }
        self.rows(STATS, command).await?.into_iter().map(QueueStats::read).collect()
    }
}
