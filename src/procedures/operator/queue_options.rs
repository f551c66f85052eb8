//! A queue's settings: `create_queue`, `delete_queue`, `pause` and `resume`.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::connection::{Columns, Session, int, ms};
use crate::error::Error;
use crate::job::{ClaimOrder, CompletionPolicy, Delivery};
use crate::time::TEN_YEARS;

/// A queue's settings, for [`Admin::create`](crate::admin::Admin::create). What is not set stays as it is; for a new
/// queue it is the default. As JSON they are what is set, as [`QueueStats`](super::queue_stats::QueueStats) has it.
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
#[must_use = "options do nothing until they are passed to Queue::create"]
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
    /// `Some(None)`: it is taken away.
    #[serde(skip_serializing_if = "Option::is_none")]
    sink: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_passes: Option<bool>,
    /// `Some(None)`: there is none any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_running: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Option<Rate>>,
}

impl QueueOptions {
    /// In which order jobs are claimed. Default: [`ClaimOrder::Fifo`]. To and from [`ClaimOrder::Lifo`], a queue can
    /// change only while it has no jobs.
    pub fn claim_order(mut self, claim_order: ClaimOrder) -> QueueOptions {
        self.claim_order = Some(claim_order);
        self
    }

    /// What becomes of done jobs. Default: [`CompletionPolicy::Delete`].
    pub fn completion(mut self, completion: CompletionPolicy) -> QueueOptions {
        self.completion = Some(completion);
        self
    }

    /// What a claim promises. Default: [`Delivery::AtLeastOnce`].
    pub fn delivery(mut self, delivery: Delivery) -> QueueOptions {
        self.delivery = Some(delivery);
        self
    }

    /// After how many attempts a job is dead, unless the job says otherwise; 1 and more. Default: 5.
    pub fn max_attempts(mut self, max_attempts: u32) -> QueueOptions {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// How long done jobs stay, in the table (`annotate`) or in the archive. Default: [`Keep::Forever`].
    pub fn keep_done(mut self, keep: Keep) -> QueueOptions {
        self.keep_done = Some(keep);
        self
    }

    /// How long dead jobs stay. Default: [`Keep::Forever`].
    pub fn keep_dead(mut self, keep: Keep) -> QueueOptions {
        self.keep_dead = Some(keep);
        self
    }

    /// The queue's sink: a procedure of yours that is called with the jobs that are done, inside the transaction in
    /// which they are acknowledged. What it writes and the acknowledgement are committed together or not at all, once,
    /// however often a job has run. Default: none.
    ///
    /// Its one parameter is of the table type `sink_list` of readpast's schema, with the columns `job_id`, `kind`,
    /// `correlation_id`, `fence` and `output`:
    ///
    /// ```sql
    /// CREATE PROCEDURE dbo.add_up @done readpast.sink_list READONLY AS
    /// INSERT dbo.results (job_id, value) SELECT job_id, CAST(output AS int) FROM @done;
    /// ```
    ///
    /// Name it with its schema, as in `dbo.add_up`. It is looked for when this is sent: the login must have EXECUTE or
    /// VIEW DEFINITION on it. It must neither commit nor roll back; where it raises an error, the acknowledgement is
    /// rolled back too, and repeated in smaller and smaller parts until the job is found whose result it refuses. That
    /// job's attempt has failed, with the sink's error, and the others are done. After a deadlock or another error that
    /// passes, the call is repeated. See `sql/README.md`, "Results in the acknowledgement's transaction".
    ///
    /// Not for queues with [`Delivery::AtMostOnce`], whose jobs are not acknowledged. A worker learns of it at its
    /// start, and calls that do not come back in time are then sent in smaller parts, down to one job; start workers
    /// anew after giving a queue its first sink.
    pub fn sink(mut self, procedure: impl Into<String>) -> QueueOptions {
        self.sink = Some(Some(procedure.into()));
        self
    }

    /// How many jobs of one group ([`NewJob::group_key`](crate::job::NewJob::group_key)) run at once: 1 to 1,000,
    /// across all workers. Default: 1, so that they run in their order. A group that has jobs goes by a new limit when
    /// the next of them comes or ends.
    pub fn group_limit(mut self, jobs: u32) -> QueueOptions {
        self.group_limit = Some(jobs);
        self
    }

    /// Whether a job of a group that is retried or snoozed gives its turn away, and gets the next one that is free when
    /// it is due. Default: no, it keeps its turn, and those behind it wait. One that was lost with its worker, or given
    /// back before it started, keeps it in any case.
    pub fn retry_passes(mut self, passes: bool) -> QueueOptions {
        self.retry_passes = Some(passes);
        self
    }

    /// How many jobs all workers of the queue together hold at once: 1 to 100,000; `None`: as many as they like
    /// (default). A held job is one that was claimed and is not acknowledged yet.
    ///
    /// Claims of the queue then go one after the other and count what is held. Not for queues with
    /// [`Delivery::AtMostOnce`].
    pub fn max_running(mut self, jobs: impl Into<Option<u32>>) -> QueueOptions {
        self.max_running = Some(jobs.into());
        self
    }

    /// How many jobs all workers of the queue together claim in any interval of a length, by SQL Server's clock;
    /// `None`: as many as they like (default). A job that is claimed again counts again. Claims of the queue then go
    /// one after the other. Not for queues with [`Delivery::AtMostOnce`].
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

    /// Takes the [`sink`](Self::sink) away.
    pub fn without_sink(mut self) -> QueueOptions {
        self.sink = Some(None);
        self
    }
}

/// So many jobs in any interval of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Rate {
    /// 1 and more.
    pub jobs: u32,
    /// 100 ms to a day, in whole milliseconds: a part of one counts as one. It is kept to a hundredth, on the safe
    /// side.
    #[serde(rename = "interval_s", serialize_with = "crate::time::seconds_of")]
    pub interval: Duration,
}

impl Rate {
    /// `jobs` in any `interval`.
    pub fn new(jobs: u32, interval: Duration) -> Rate {
        Rate { jobs, interval }
    }

    /// From the columns `rate_jobs` and `rate_ms`.
    pub(crate) fn of(jobs: Option<u32>, interval: Option<Duration>) -> Option<Rate> {
        Some(Rate { jobs: jobs?, interval: interval? })
    }
}

/// How long finished jobs stay, counted from their end. What is older is deleted by one of the queue's workers, a
/// thousand at a time, once a minute; while no worker runs, nothing is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Keep {
    /// Until an operator purges them.
    Forever,
    /// 1 s to ten years (315,360,000 s). In whole seconds: a part of one counts as one.
    For(Duration),
}

/// As the columns `keep_done_s` and `keep_dead_s` have it: seconds, or null for ever.
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
        let mut command = self.command("create_queue");
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
        match options.max_running {
            None => {}
            Some(Some(0)) => {
                let message = "max_running is 0; it must be 1 to 100000, or None for no limit".to_string();
                return Err(Error::Refused { message });
            }
            Some(max_running) => command.bind_param("@max_running", int(max_running.unwrap_or(0))),
        }
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
        let mut row = self.row("create_queue", command).await?;
        row.required::<i32>("queue_id")?;
        row.required("created")
    }
}

/// As `create_queue` has it: 0 is for ever, NULL leaves it as it is.
fn kept_s(name: &str, keep: Option<Keep>) -> Result<Option<i32>, Error> {
    let duration = match keep {
        None => return Ok(None),
        Some(Keep::Forever) => return Ok(Some(0)),
        Some(Keep::For(duration)) => duration,
    };
    // A part of a second counts as one: nothing is deleted too early.
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

/// What [`Admin::delete`](crate::admin::Admin::delete) has deleted beside the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Deleted {
    /// Its jobs, those in the archive among them.
    pub jobs: u64,
}

impl Session {
    /// Deletes the queue, or with `with_jobs` up to `max` of its jobs before; returns how many jobs, and whether the
    /// queue is gone.
    pub(crate) async fn delete_queue(
        &mut self,
        queue: &str,
        with_jobs: bool,
        max: usize,
    ) -> Result<(u32, bool), Error> {
        let mut command = self.command("delete_queue");
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
        let mut command = self.command(name);
        command.bind_param("@queue", queue);
        self.run(name, command).await?;
        Ok(())
    }
}
