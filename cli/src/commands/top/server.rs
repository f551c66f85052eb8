//! Requests to the server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use readpast::admin::{
    FailedAttempt, JobChange, JobFilter, JobProgress, JobRow, JobState, QueueActivity, Target, WorkerRow,
};
use readpast::{Config, Error, JobId, Queue};
use tokio::sync::Mutex;

use super::readings::{
    AttemptLine, DeadLine, JobDetail, Overview, QueueDetail, QueueLine, RunningLine, SCHEDULED, WorkerLine, group_dead,
};
use super::screen::{Answer, Deed};
use crate::audit::{note, note_of, noted};
use crate::commands::workers::in_use;
use crate::connection;
use crate::texts;

/// Ended workers are shown for this long.
const ENDED: Duration = Duration::from_secs(3_600);

/// Running jobs shown.
const RUNNING: usize = 50;

/// Dead jobs that are read and grouped: the last ones.
const DEAD: usize = 200;

/// Bytes shown of a payload and an output.
const SHOWN_BYTES: usize = 64 << 10;

/// Characters of an error's first line in lists and groups.
const ERROR: usize = 200;

/// The queues of a schema. Clones share their connections.
#[derive(Clone)]
pub struct Server {
    config: Arc<Config>,
    schema: Queue,
    /// The queues by name, each connected on first use.
    queues: Arc<Mutex<HashMap<String, Queue>>>,
    /// The last shown job with its payload and output, which are read again only after the job has changed.
    job: Arc<Mutex<Option<JobRow>>>,
}

impl Server {
    pub async fn connect(config: Config) -> Result<Server, Error> {
        let schema = connection::schema(&config).await?;
        Ok(Server { config: Arc::new(config), schema, queues: Arc::default(), job: Arc::default() })
    }

    async fn queue(&self, name: &str) -> Result<Queue, Error> {
        if let Some(queue) = self.queues.lock().await.get(name) {
            return Ok(queue.clone());
        }
        let queue = connection::queue(&self.config, name).await?;
        self.queues.lock().await.insert(name.to_owned(), queue.clone());
        Ok(queue)
    }

    pub async fn overview(&self) -> Result<Overview, Error> {
        let (queues, workers) =
            tokio::try_join!(self.schema.admin().all_stats(None), self.schema.admin().all_workers(ENDED))?;
        let queues = queues.into_iter().map(|stats| queue_line(QueueActivity::new(stats, Some(&workers))));
        let queues = queues.collect();
        // An ended worker is listed until its jobs have been returned.
        let workers = workers.iter().filter(|worker| worker.is_live() || worker.held > 0).map(worker_line).collect();
        Ok(Overview { queues, workers })
    }

    pub async fn queue_detail(&self, name: String) -> Answer {
        let answer = self.read_queue(&name).await.map_err(|error| words(&error));
        Answer::Queue(name, answer)
    }

    async fn read_queue(&self, name: &str) -> Result<QueueDetail, Error> {
        let queue = self.queue(name).await?;
        let (running, dead, waiting) = tokio::try_join!(
            read_jobs(&queue, JobFilter::from(JobState::Claimed), RUNNING),
            read_jobs(&queue, JobFilter::from(JobState::Dead).newest_first(), DEAD),
            queue.admin().failures_to_retry(SCHEDULED),
        )?;
        let postponed = waiting.groups.iter().filter(|group| group.was_put_off_for_other_workers());
        let ids: Vec<JobId> = running.iter().map(|job| job.job_id).collect();
        let progress = if ids.is_empty() { Vec::new() } else { queue.admin().progress_of(&ids).await? };
        let workers = if ids.is_empty() { Vec::new() } else { queue.admin().workers(std::time::Duration::MAX).await? };
        Ok(QueueDetail {
            running: running.iter().map(|job| running_line(job, &workers, &progress)).collect(),
            dead_read: dead.len() as u64,
            dead: group_dead(dead.iter().map(dead_line).collect()),
            postponed: postponed.map(|group| format!("{} {}", group.count, group.example_error)).collect(),
        })
    }

    pub async fn job_detail(&self, name: String, id: i64) -> Answer {
        let answer = self.read_job(&name, JobId(id)).await.map_err(|error| words(&error));
        let answer = answer.and_then(|job| job.ok_or_else(|| format!("job {id} is gone, or locked at the moment")));
        Answer::Job(name, id, answer)
    }

    async fn read_job(&self, name: &str, id: JobId) -> Result<Option<JobDetail>, Error> {
        let queue = self.queue(name).await?;
        let (job, attempts) = tokio::try_join!(self.read_row(&queue, id), queue.admin().attempts(id))?;
        Ok(job.map(|job| job_detail(&job, &attempts)))
    }

    async fn read_row(&self, queue: &Queue, id: JobId) -> Result<Option<JobRow>, Error> {
        let Some(now) = queue.admin().job(id, Some(0)).await? else { return Ok(None) };
        let mut known = self.job.lock().await;
        if let Some(known) = known.as_ref().filter(|known| is_same(known, &now)) {
            return Ok(Some(known.clone()));
        }
        *known = queue.admin().job(id, Some(SHOWN_BYTES)).await?;
        Ok(known.clone())
    }

    pub async fn carry_out(&self, deed: Deed) -> Answer {
        let done = match &deed {
            Deed::Pause { queue } => self.pause(queue).await,
            Deed::Resume { queue } => self.resume(queue).await,
            Deed::Requeue { queue, jobs } => self.requeue(queue, Some(jobs)).await,
            Deed::RequeueAll { queue, .. } => self.requeue(queue, None).await,
        };
        Answer::Done(deed, done.map_err(|error| words(&error)))
    }

    async fn pause(&self, name: &str) -> Result<String, Error> {
        let queue = self.queue(name).await?;
        noted(&queue, note("pause"), |admin| admin.pause(), |()| None).await?;
        Ok(format!("{name} is paused; running jobs continue"))
    }

    async fn resume(&self, name: &str) -> Result<String, Error> {
        let queue = self.queue(name).await?;
        noted(&queue, note("resume"), |admin| admin.resume(), |()| None).await?;
        Ok(format!("{name} is resumed"))
    }

    /// Requeues all dead jobs, or some.
    async fn requeue(&self, name: &str, jobs: Option<&[i64]>) -> Result<String, Error> {
        let queue = self.queue(name).await?;
        let jobs = jobs.map(|ids| ids.iter().copied().map(JobId).collect::<Vec<_>>());
        let note = note_of(&JobChange::Requeue);
        let note = match &jobs {
            None => note.filter(&JobFilter::from(JobState::Dead)),
            Some(jobs) => note.jobs(jobs),
        };
        let target = jobs.map_or(Target::from(JobState::Dead), Target::from);
        let requeueing =
            noted(&queue, note, |admin| admin.change(&JobChange::Requeue, target), |requeued| Some(requeued.changed));
        let requeued = requeueing.await?.changed;
        Ok(match requeued {
            0 => "nothing was requeued: the jobs are no longer dead".to_owned(),
            _ => format!("requeued {} of {name}", texts::counted(requeued, "job")),
        })
    }
}

/// An error in one line; for a missing permission, the role that has it.
pub fn words(error: &Error) -> String {
    match error {
        Error::PermissionDenied { remedy, .. } => format!("your login may not do this; {remedy}"),
        _ => error.to_string(),
    }
}

/// The first jobs of a filter, without payloads.
async fn read_jobs(queue: &Queue, filter: JobFilter, max: usize) -> Result<Vec<JobRow>, Error> {
    let filter = filter.cut_at(0);
    let (mut jobs, mut after) = (Vec::new(), None);
    while jobs.len() < max {
        let page = queue.admin().list(&filter, after.as_ref(), max - jobs.len()).await?;
        jobs.extend(page.jobs);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(jobs)
}

/// Whether a job is unchanged, apart from payload and output.
fn is_same(known: &JobRow, now: &JobRow) -> bool {
    let mut now = now.clone();
    now.payload = known.payload.clone();
    now.output = known.output.clone();
    *known == now
}

fn queue_line(activity: QueueActivity) -> QueueLine {
    let QueueActivity { stats, done_per_s, failed_per_s, limits, .. } = activity;
    QueueLine {
        name: stats.queue,
        paused: stats.paused,
        ready: stats.ready,
        running: stats.claimed,
        scheduled: stats.scheduled,
        waiting: stats.waiting,
        dead: stats.dead,
        cancelled: stats.cancelled,
        workers: stats.workers,
        oldest: stats.oldest_ready,
        in_per_s: None,
        done_per_s,
        failed_per_s,
        limits,
    }
}

fn worker_line(worker: &WorkerRow) -> WorkerLine {
    WorkerLine {
        id: worker.worker_id.to_string(),
        queue: worker.queue.clone(),
        name: worker.name.clone(),
        lease_left: worker.is_live().then_some(worker.lease_left),
        held: worker.held,
        held_since: worker.oldest_claimed_at.map(texts::short_time),
        running: worker.running,
        done_per_s: worker.done_per_s,
        failed_per_s: worker.failed_per_s,
        limited_by: worker.limited_by.clone(),
        in_use: worker.in_use.is_some().then(|| in_use(worker)),
    }
}

fn running_line(job: &JobRow, workers: &[WorkerRow], progress: &[JobProgress]) -> RunningLine {
    let worker = workers.iter().find(|worker| Some(worker.worker_id) == job.worker_id);
    let progress = progress.iter().find(|progress| progress.job_id == job.job_id);
    RunningLine {
        id: job.job_id.0,
        kind: texts::or_dash(job.kind.as_ref()),
        attempt: job.attempt,
        since: texts::or_dash(job.claimed_at.map(texts::short_time)),
        worker: texts::or_dash(worker.map(|worker| &worker.name)),
        progress: progress.map(progress_text).unwrap_or_default(),
    }
}

fn progress_text(progress: &JobProgress) -> String {
    let percent = progress.fraction.map(|fraction| format!("{:.0}%", fraction * 100.0));
    let parts = [percent, progress.text.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn dead_line(job: &JobRow) -> DeadLine {
    DeadLine {
        id: job.job_id.0,
        kind: texts::or_dash(job.kind.as_ref()),
        error: texts::first_line(job.error.as_deref().unwrap_or("-"), ERROR),
        ended: texts::or_dash(job.finished_at.map(texts::short_time)),
    }
}

fn job_detail(job: &JobRow, attempts: &[FailedAttempt]) -> JobDetail {
    let mut fields = vec![
        ("state", job.state.to_string()),
        ("kind", texts::or_dash(job.kind.as_ref())),
        ("attempt", job.attempt.to_string()),
        ("priority", job.priority.to_string()),
        ("enqueued", texts::time(job.enqueued_at)),
        ("due", texts::time(job.due_at)),
    ];
    let optional = [
        ("start by", job.start_by.map(texts::time)),
        ("claimed", job.claimed_at.map(texts::time)),
        ("ended", job.finished_at.map(texts::time)),
        ("run", job.run.map(texts::age)),
        ("CPU time", job.usage.cpu.map(texts::age)),
        ("peak memory", job.usage.peak_memory.map(texts::size)),
        ("time limit", job.time_limit.map(texts::age)),
        ("needs", job.needs.as_ref().map(ToString::to_string)),
        ("key", job.dedup_key.clone()),
        ("group", job.group_key.clone()),
        ("batch", job.batch_id.map(|batch| batch.to_string())),
        ("correlation id", job.correlation_id.map(|id| id.to_string())),
        ("worker id", job.worker_id.map(|id| id.to_string())),
    ];
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    for (name, value) in job.headers.iter().flatten() {
        fields.push(("header", format!("{name} = {value}")));
    }
    JobDetail {
        state: job.state.to_string(),
        fields,
        error: job.error.clone(),
        payload: shown(&job.payload, job.payload_text().as_deref(), job.payload_bytes),
        output: job
            .output
            .as_ref()
            .map(|output| shown(output, job.output_text(), job.output_bytes.unwrap_or_default())),
        attempts: attempts.iter().map(attempt_line).collect(),
    }
}

/// Describes a payload or output, of which only the beginning may be known.
fn shown(beginning: &[u8], text: Option<&str>, length: u64) -> String {
    match text {
        None => bytes(beginning, length),
        Some(text) if (beginning.len() as u64) < length => {
            let (part, all) = (texts::number(beginning.len() as u64), texts::counted(length, "byte"));
            format!("{text}\n… the first {part} of {all}; `readpast job` shows all")
        }
        Some(text) => text.to_owned(),
    }
}

/// Binary data: its size and its beginning.
fn bytes(bytes: &[u8], length: u64) -> String {
    const BEGINNING: usize = 256;
    let hex: Vec<String> = bytes.iter().take(BEGINNING).map(|byte| format!("{byte:02x}")).collect();
    let rest = if bytes.len() > BEGINNING { " …" } else { "" };
    format!("{}, not text:\n{}{rest}", texts::counted(length, "byte"), hex.join(" "))
}

fn attempt_line(attempt: &FailedAttempt) -> AttemptLine {
    AttemptLine {
        attempt: attempt.attempt,
        failed_at: texts::time(attempt.failed_at),
        worker: attempt.worker.clone(),
        run: attempt.run.map_or_else(|| "? (its worker was lost)".to_owned(), texts::age),
        error: texts::or_dash(attempt.error.as_ref()),
    }
}
