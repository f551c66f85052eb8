//! A queue's settings: `create_queue`, `delete_queue`, `pause` and `resume`.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::connection::{Columns, Session, int, ms};
use crate::error::Error;
use crate::job::{ClaimOrder, CompletionPolicy, Delivery};
use crate::time::{TEN_YEARS, json_seconds};

/// A queue's settings, for [`Admin::create`](crate::admin::Admin::create). A setting that is not set keeps its value,
/// or has its default in a new queue. The JSON form contains the settings that are set, in the format of
/// [`QueueStats`](super::queue_stats::QueueStats).
///
/// ```
/// use std::time::Duration;
///
/// use readpast::admin::{CompletionPolicy, Keep, QueueOptions};
///
/// let day = Duration::from_secs(86_400);
/// let options = QueueOptions::default().completion(CompletionPolicy::Archive).keep_done(Keep::For(30 * day));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[must_use = "options do nothing until they are passed to Admin::create"]
pub struct QueueOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_order: Option<ClaimOrder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion: Option<CompletionPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<Delivery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(rename = "keep_done_s", skip_serializing_if = "Option::is_none")]
    keep_done: Option<Keep>,
    #[serde(rename = "keep_dead_s", skip_serializing_if = "Option::is_none")]
    keep_dead: Option<Keep>,
    /// The sink; `Some(None)` removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    sink: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_passes: Option<bool>,
    /// The limit; `Some(None)` removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_running: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Option<Rate>>,
    /// The dead queue; `Some(None)` removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_queue: Option<Option<String>>,
    /// The limit; `Some(None)` removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_depth: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    halt_groups: Option<bool>,
    /// The time; `Some(None)` removes it.
    #[serde(rename = "age_after_s", serialize_with = "json_age", skip_serializing_if = "Option::is_none")]
    age_after: Option<Option<Duration>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fair: Option<bool>,
}

impl QueueOptions {
    /// Sets the order in which jobs are claimed. Default: [`ClaimOrder::Fifo`]. A queue can change to or from
    /// [`ClaimOrder::Lifo`] only while it has no jobs.
    pub fn claim_order(mut self, claim_order: ClaimOrder) -> QueueOptions {
        self.claim_order = Some(claim_order);
        self
    }

    /// Sets what happens to done jobs. Default: [`CompletionPolicy::Delete`].
    pub fn completion(mut self, completion: CompletionPolicy) -> QueueOptions {
        self.completion = Some(completion);
        self
    }

    /// Sets what a claim guarantees. Default: [`Delivery::AtLeastOnce`].
    pub fn delivery(mut self, delivery: Delivery) -> QueueOptions {
        self.delivery = Some(delivery);
        self
    }

    /// Sets after how many attempts a job becomes dead, unless the job says otherwise; 1 or more. Default: 5.
    pub fn max_attempts(mut self, max_attempts: u32) -> QueueOptions {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// Sets how long done jobs stay, in the table (`annotate`) or in the archive. Default: [`Keep::Forever`].
    pub fn keep_done(mut self, keep: Keep) -> QueueOptions {
        self.keep_done = Some(keep);
        self
    }

    /// Sets how long dead jobs stay. Default: [`Keep::Forever`].
    pub fn keep_dead(mut self, keep: Keep) -> QueueOptions {
        self.keep_dead = Some(keep);
        self
    }

    /// Sets the queue's sink: your procedure, called with the done jobs inside the transaction that finishes them. The
    /// sink's writes and the outcomes are committed together or not at all, and only once, however often a job has run.
    /// Default: none.
    ///
    /// Its one parameter is of the table type `sink_list` of readpast's schema, with the columns `job_id`, `kind`,
    /// `correlation_id`, `fence` and `output`:
    ///
    /// ```sql
    /// CREATE PROCEDURE dbo.add_up @done readpast.sink_list READONLY AS
    /// INSERT dbo.results (job_id, value) SELECT job_id, CAST(output AS int) FROM @done;
    /// ```
    ///
    /// Name the sink with its schema, as in `dbo.add_up`. It must exist when the settings are sent, and the login must
    /// have EXECUTE or VIEW DEFINITION on it. The sink must neither commit nor roll back. If the sink raises an error,
    /// the finish is rolled back, too. The worker then sends the finish in smaller and smaller parts, until it has
    /// found the job whose result the sink rejects. That job's attempt fails with the sink's error; the other jobs are
    /// done. After a deadlock or another transient error, the call is repeated. See `sql/README.md`, "Sinks and
    /// follow-ups".
    ///
    /// Queues with [`Delivery::AtMostOnce`] cannot have a sink, because their jobs are not finished. A worker learns
    /// only at its start that its queue has a sink. It then also splits finish calls that time out, down to one job.
    /// Restart the workers after giving a queue its first sink.
    pub fn sink(mut self, procedure: impl Into<String>) -> QueueOptions {
        self.sink = Some(Some(procedure.into()));
        self
    }

    /// Sets how many jobs of one group ([`NewJob::group_key`](crate::job::NewJob::group_key)) run at once, across all
    /// workers: 1 to 1,000. Default: 1, so that they run in order. If a group already has jobs, a new limit takes
    /// effect when the next job of the group is added or finishes.
    pub fn group_limit(mut self, jobs: u32) -> QueueOptions {
        self.group_limit = Some(jobs);
        self
    }

    /// Sets whether a retried or snoozed job of a group passes its turn on. The job then gets the next free turn after
    /// it is due. Default: no. The job keeps its turn, and the jobs behind it wait. A job that was lost with its
    /// worker, or released before it started, always keeps its turn.
    pub fn retry_passes(mut self, passes: bool) -> QueueOptions {
        self.retry_passes = Some(passes);
        self
    }

    /// Sets how many jobs all workers of the queue together hold at once: 1 to 100,000, or `None` for no limit
    /// (default). A held job is one that is claimed and not finished yet.
    ///
    /// Claims of a limited queue run one after the other, because each claim counts the held jobs. Queues with
    /// [`Delivery::AtMostOnce`] cannot have this limit.
    pub fn max_running(mut self, jobs: impl Into<Option<u32>>) -> QueueOptions {
        self.max_running = Some(jobs.into());
        self
    }

    /// Sets how many jobs all workers of the queue together claim in any interval of a given length, by SQL Server's
    /// clock, or `None` for no limit (default). A job that is claimed again counts again. Claims of a limited queue run
    /// one after the other. Queues with [`Delivery::AtMostOnce`] cannot have this limit.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use readpast::admin::{QueueOptions, Rate};
    ///
    /// let options = QueueOptions::default().max_running(8).rate(Rate::new(100, Duration::from_secs(60)));
    /// ```
    pub fn rate(mut self, rate: impl Into<Option<Rate>>) -> QueueOptions {
        self.rate = Some(rate.into());
        self
    }

    /// Sets the queue that jobs go to instead of becoming dead, with their error and attempts, or `None` if they stay
    /// here as dead (default). There they are ready at once and have all their attempts again. A worker of that queue
    /// can report, repair or [move](crate::handler::JobError::move_to) them. Cancelled jobs stay. For this queue's
    /// metrics and history, the jobs are dead.
    ///
    /// The dead queue must exist. Neither queue can have [`Delivery::AtMostOnce`]. A job that cannot go there, because
    /// an unfinished job there has its deduplication key, because it was moved ten times already, or because the dead
    /// queue was deleted, is dead here. The dead queue's own dead jobs go to its own dead queue, if it has one. If the
    /// queues form a circle, the limit of ten moves ends it. [`delete`](crate::admin::Admin::delete) rejects a dead
    /// queue as long as it is one.
    pub fn dead_queue(mut self, queue: impl Into<Option<String>>) -> QueueOptions {
        self.dead_queue = Some(queue.into());
        self
    }

    /// Sets that a ready job counts as one priority higher for each such time that it has waited: a second to a year,
    /// or `None` for never (default). With a minute, a job of priority 10 goes before every job of priority 0 that
    /// becomes ready more than ten minutes after it, so that it cannot starve. Within a priority, jobs go by id. A job
    /// that is retried, snoozed or put off waits anew. The priority itself does not change.
    ///
    /// One worker claims at a time, and reads as many jobs of each priority as it may take. Queues with
    /// [`ClaimOrder::Lifo`], [`Delivery::AtMostOnce`], [`max_running`](Self::max_running) or a [`rate`](Self::rate)
    /// cannot have this, and workers then take the jobs of a group one by one.
    pub fn age_after(mut self, time: impl Into<Option<Duration>>) -> QueueOptions {
        self.age_after = Some(time.into());
        self
    }

    /// Sets whether groups share the queue. Default: no, and the jobs of each group take turns. In a fair queue, each
    /// [group](crate::job::NewJob::group_key) with waiting jobs gets as many jobs claimed as every other, however many wait
    /// in each, or a share in proportion to its weight ([`set_group_weight`](crate::admin::Admin::set_group_weight)). The
    /// only group with jobs gets all workers.
    ///
    /// Within a group, jobs are claimed in the order of their ids, whatever their priorities, and several run at once. They
    /// are waiting, not ready, until they are claimed. Jobs without a group are claimed before all others. A retried or
    /// snoozed job waits in its group again, whatever [`retry_passes`](Self::retry_passes) says.
    ///
    /// One worker claims at a time. Queues with [`ClaimOrder::Lifo`], [`Delivery::AtMostOnce`],
    /// [`max_running`](Self::max_running), a [`rate`](Self::rate), [`age_after`](Self::age_after),
    /// [`halt_groups`](Self::halt_groups) or a [`group_limit`](Self::group_limit) above 1 cannot be fair. After a change
    /// to `false`, the next job of a group can start beside those that run already.
    pub fn fair(mut self, fair: bool) -> QueueOptions {
        self.fair = Some(fair);
        self
    }

    /// Sets how many unfinished jobs the queue takes: 1 or more, or `None` for no limit (default). A full queue refuses
    /// new jobs with [`Error::QueueFull`](crate::Error::QueueFull), also while no worker runs. A caller's transaction
    /// stays usable. Not refused are jobs that are retried, requeued, moved, or run again, and follow-ups.
    ///
    /// The limit can be exceeded: a count, which reads an index entry of each unfinished job, is used for 20 times the
    /// time that it took, and for up to a minute as long as the jobs added since then cannot exceed the limit. Jobs that
    /// calls under way add, and requeued and moved ones, are noticed only by the next count.
    pub fn max_depth(mut self, jobs: impl Into<Option<u32>>) -> QueueOptions {
        self.max_depth = Some(jobs.into());
        self
    }

    /// Sets whether a dead job halts its group. Default: no, and the next job of the group has its turn. With `true`, a
    /// dead job keeps its turn until it is requeued, skipped ([`JobChange::Skip`](super::JobChange::Skip)) or purged,
    /// so that with a [`group_limit`](Self::group_limit) of 1 no job starts before the one in front of it is done. It is
    /// kept whatever [`keep_dead`](Self::keep_dead) says. Workers claim the jobs of a group one by one then. After
    /// `false`, groups that are halted stay so until their dead jobs are requeued, skipped or purged.
    pub fn halt_groups(mut self, halts: bool) -> QueueOptions {
        self.halt_groups = Some(halts);
        self
    }

    /// Removes the [`sink`](Self::sink).
    pub fn without_sink(mut self) -> QueueOptions {
        self.sink = Some(None);
        self
    }
}

fn json_age<S: Serializer>(time: &Option<Option<Duration>>, serializer: S) -> Result<S::Ok, S::Error> {
    json_seconds(&time.flatten(), serializer)
}

/// A number of jobs per interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Rate {
    /// The number of jobs: 1 or more.
    pub jobs: u32,
    /// The length of the interval: 100 ms to a day, rounded up to whole milliseconds. It is enforced to within a
    /// hundredth, and never exceeded.
    #[serde(rename = "interval_s", serialize_with = "crate::time::json_seconds_of")]
    pub interval: Duration,
}

impl Rate {
    /// Allows `jobs` jobs in any interval of this length.
    pub fn new(jobs: u32, interval: Duration) -> Rate {
        Rate { jobs, interval }
    }

    /// Makes a rate of the columns `rate_jobs` and `rate_ms`.
    pub(crate) fn of(jobs: Option<u32>, interval: Option<Duration>) -> Option<Rate> {
        Some(Rate { jobs: jobs?, interval: interval? })
    }
}

/// How long finished jobs stay, counted from when they finished. The elected worker deletes older ones, a thousand at a
/// time, once a minute. While no worker runs, nothing is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Keep {
    /// Until an operator purges them.
    Forever,
    /// 1 s to ten years (315,360,000 s), rounded up to whole seconds.
    For(Duration),
}

/// The format of the columns `keep_done_s` and `keep_dead_s`: seconds, or null for forever.
impl Serialize for Keep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Keep::Forever => serializer.serialize_none(),
            Keep::For(duration) => serializer.serialize_some(&duration.as_secs()),
        }
    }
}

impl Session {
    /// Creates a queue or changes its settings; returns whether it is new.
    pub(crate) async fn create_queue(&mut self, queue: &str, options: &QueueOptions) -> Result<bool, Error> {
        let keep_done_s = kept_s("keep_done", options.keep_done)?;
        let keep_dead_s = kept_s("keep_dead", options.keep_dead)?;
        let mut command = self.action("create_queue");
        command.bind_param("@queue", queue);
        if let Some(claim_order) = options.claim_order {
            command.bind_param("@claim_order", claim_order.word());
        }
        if let Some(completion) = options.completion {
            command.bind_param("@completion", completion.word());
        }
        if let Some(delivery) = options.delivery {
            command.bind_param("@delivery", delivery.word());
        }
        if let Some(max_attempts) = options.max_attempts {
            command.bind_param("@max_attempts", int(max_attempts));
        }
        command.bind_param("@keep_done_s", keep_done_s);
        command.bind_param("@keep_dead_s", keep_dead_s);
        match &options.sink {
            None => {}
            Some(None) => command.bind_param("@sink", ""),
            Some(Some(sink)) if sink.trim().is_empty() => {
                return Err(Error::Refused { message: "sink is ''; it must be the name of a procedure".to_owned() });
            }
            Some(Some(sink)) => command.bind_param("@sink", sink.as_str()),
        }
        if let Some(group_limit) = options.group_limit {
            command.bind_param("@group_limit", int(group_limit));
        }
        if let Some(retry_passes) = options.retry_passes {
            command.bind_param("@retry_passes", retry_passes);
        }
        command.bind_param("@max_running", limit("max_running", "1 to 100000", options.max_running)?);
        match options.rate {
            None => {}
            Some(None) => command.bind_param("@rate_jobs", 0),
            Some(Some(rate)) if rate.jobs == 0 => {
                let message = "rate has 0 jobs; it must have 1 or more, or be None for no limit".to_string();
                return Err(Error::Refused { message });
            }
            Some(Some(rate)) => {
                command.bind_param("@rate_jobs", int(rate.jobs));
                command.bind_param("@rate_ms", ms(rate.interval));
            }
        }
        match &options.dead_queue {
            None => {}
            Some(Some(queue)) if queue.is_empty() => {
                return Err(Error::Refused { message: "dead_queue is ''; it must be the name of a queue".to_owned() });
            }
            Some(queue) => command.bind_param("@dead_queue", queue.as_deref().unwrap_or_default()),
        }
        command.bind_param("@max_depth", limit("max_depth", "1 or more", options.max_depth)?);
        match options.age_after {
            None => {}
            Some(Some(time)) if time.is_zero() => {
                let message = "age_after is 0; it must be a second to a year, or None for never".to_owned();
                return Err(Error::Refused { message });
            }
            Some(time) => command.bind_param("@age_after_ms", time.map_or(0, ms)),
        }
        if let Some(halts) = options.halt_groups {
            command.bind_param("@halt_groups", halts);
        }
        if let Some(fair) = options.fair {
            command.bind_param("@fair", fair);
        }
        let mut row = self.row("create_queue", command).await?;
        row.required::<i32>("queue_id")?;
        row.required("created")
    }
}

/// The parameter of `create_queue`: 0 is no limit, NULL keeps the setting.
fn limit(name: &str, allowed: &str, jobs: Option<Option<u32>>) -> Result<Option<i32>, Error> {
    if jobs == Some(Some(0)) {
        return Err(Error::Refused { message: format!("{name} is 0; it must be {allowed}, or None for no limit") });
    }
    Ok(jobs.map(|jobs| int(jobs.unwrap_or(0))))
}

/// The parameter of `create_queue`: 0 is forever, NULL keeps the setting.
fn kept_s(name: &str, keep: Option<Keep>) -> Result<Option<i32>, Error> {
    let duration = match keep {
        None => return Ok(None),
        Some(Keep::Forever) => return Ok(Some(0)),
        Some(Keep::For(duration)) => duration,
    };
    // Rounded up, so that no job is deleted too early.
    let max = TEN_YEARS.as_secs();
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    match i32::try_from(seconds) {
        Ok(in_int) if (1..=max).contains(&seconds) => Ok(Some(in_int)),
        _ => Err(Error::Refused {
            message: format!("{name} is {seconds} s; it must be 1 s to {max} s (ten years), or for ever"),
        }),
    }
}

pub(crate) fn read_keep(row: &mut Columns, name: &str) -> Result<Keep, Error> {
    let seconds: Option<i32> = row.optional(name)?;
    Ok(match seconds {
        None => Keep::Forever,
        Some(seconds) => Keep::For(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
    })
}

/// What [`Admin::delete`](crate::admin::Admin::delete) deleted besides the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Deleted {
    /// How many jobs, including those in the archive.
    pub jobs: u64,
}

impl Session {
    /// Deletes the queue. With `with_jobs`, first deletes up to `max` of its jobs. Returns how many jobs were deleted,
    /// and whether the queue is gone.
    pub(crate) async fn delete_queue(
        &mut self,
        queue: &str,
        with_jobs: bool,
        max: usize,
    ) -> Result<(u32, bool), Error> {
        let mut command = self.action("delete_queue");
        command.bind_param("@queue", queue);
        command.bind_param("@with_jobs", with_jobs);
        command.bind_param("@max", int(max));
        let mut row = self.row("delete_queue", command).await?;
        Ok((row.count("jobs")?, row.required("is_gone")?))
    }
}

impl Session {
    /// Runs `pause` or `resume`.
    pub(crate) async fn set_paused(&mut self, queue: &str, paused: bool) -> Result<(), Error> {
        let name = if paused { "pause" } else { "resume" };
        let mut command = self.action(name);
        command.bind_param("@queue", queue);
        self.run(name, command).await?;
        Ok(())
    }
}
