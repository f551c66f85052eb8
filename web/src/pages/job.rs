//! A job, and what happens to it next.

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use readpast::JobId;
use readpast::admin::{
    AuditRow, Edge, FailedAttempt, JobEdges, JobLog, JobProgress, JobRow, JobState, Keep, QueueStats, WorkerRow,
};
use readpast::crates::serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::acting::job_action::JobAction;
use crate::app::App;
use crate::attention::now;
use crate::error_view::ErrorView;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::graph;
use crate::job_search::JobSearch;
use crate::links::link;
use crate::payload_view::{SHOWN_BYTES, View};
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::sentence::Sentence;
use crate::texts::{self, exact, number};
use crate::time::{Time, length};
use crate::timeline::Timeline;

/// The most jobs of a graph that are read, and that are drawn one by one.
const GRAPH: usize = 1_000;
const DRAWN_SINGLY: usize = 40;

/// The most edges of each side on the page.
const SHOWN_EDGES: usize = 100;

/// The newest entries of the audit that are searched for the job.
const AUDITED: usize = 100;

/// Two times of a report may differ by this much: SQL Server tells its age, which takes a moment to arrive.
const SAME: Duration = Duration::from_secs(2);

/// The newest attempts whose logs are shown.
const SHOWN_LOGS: usize = 3;

#[derive(Template)]
#[template(path = "job.html")]
struct Page<'a> {
    frame: Frame,
    queue: &'a str,
    id: String,
    job: &'a JobRow,
    next: String,
    /// Why it failed last, and a link to the dead jobs with the same line.
    error: Option<ErrorView>,
    like_it: Option<String>,
    died_at: Option<Time>,
    /// The whole error, if no attempt shows it.
    whole_error: Option<&'a str>,
    timeline: Option<Timeline>,
    used: Vec<Used>,
    times: Vec<(&'static str, Time)>,
    /// The name, value and link of each field.
    fields: Vec<(&'static str, String, Option<String>)>,
    headers: Vec<(String, String)>,
    live: Live,
    /// The address of the live part, while an attempt runs.
    reporting: Option<String>,
    /// The picture of the jobs that wait for each other, and whether it shows only the nearest ones.
    graph: Option<(String, bool)>,
    /// The jobs that it waits for, and those that wait for it, with their headings.
    edges: [(&'static str, Vec<EdgeView>); 2],
    attempts: Vec<AttemptView>,
    logs: Vec<LogView>,
    acts: Vec<Sentence>,
    hides_payloads: bool,
    payload: View,
    output: Option<View>,
    actions: Vec<JobAction>,
    /// Whether the job is unfinished, so that the page reloads it now and then.
    goes_on: bool,
}

/// What the job reports: its progress, and what the running attempt has logged.
#[derive(Template)]
#[template(path = "job_live.html")]
pub struct Live {
    progress: Option<ProgressView>,
    log: Option<LogView>,
    /// The attempt has ended, so that nothing more comes.
    pub is_over: bool,
}

struct ProgressView {
    percent: Option<u32>,
    text: String,
    noted_at: Time,
    checkpoint: Option<String>,
}

/// The job at the other end of an edge.
struct EdgeView {
    link: Option<String>,
    id: String,
    kind: String,
    /// `None` if the job's row is gone.
    state: Option<String>,
    waits: String,
    on_dead: String,
}

/// The end of an attempt's log.
#[derive(PartialEq, Eq)]
struct LogView {
    attempt: u32,
    noted_at: Time,
    is_cut: bool,
    text: String,
}

/// What people did to the job, named by its id.
fn acts(audits: &[AuditRow], job: JobId) -> Vec<Sentence> {
    let names = |row: &&AuditRow| {
        let jobs = row.what.as_ref().and_then(|what| what.get("jobs")?.as_array());
        jobs.is_some_and(|jobs| jobs.contains(&json!(job)))
    };
    audits.iter().filter(names).map(Sentence::new).collect()
}

struct AttemptView {
    number: String,
    failed_at: Time,
    worker: String,
    run: String,
    /// CPU time and peak memory, as far as known.
    used: String,
    line: ErrorView,
    error: String,
    /// The newer attempt with the same error.
    same_as: Option<String>,
}

/// What the last run used of something, and the part of it that is known, in percent.
struct Used {
    what: &'static str,
    words: String,
    percent: Option<u64>,
}

impl Live {
    pub fn new(progress: Option<&JobProgress>, log: Option<JobLog>, is_over: bool) -> Live {
        // A log alone has a row of progress, too.
        let says = |progress: &&JobProgress| {
            progress.fraction.is_some() || progress.text.is_some() || progress.checkpoint_bytes > 0
        };
        Live { progress: progress.filter(says).map(ProgressView::new), log: log.map(LogView::new), is_over }
    }

    pub fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Whether `newer` says the same, apart from how long ago it was.
    pub fn says_the_same(&self, newer: &Live) -> bool {
        let progress = match (&self.progress, &newer.progress) {
            (Some(progress), Some(newer)) => progress.says_the_same(newer),
            (None, None) => true,
            _ => false,
        };
        progress && self.log == newer.log && self.is_over == newer.is_over
    }
}

impl ProgressView {
    fn new(progress: &JobProgress) -> ProgressView {
        ProgressView {
            percent: progress.fraction.map(|fraction| (fraction * 100.0) as u32),
            text: progress.text.clone().unwrap_or_default(),
            noted_at: Time(now().checked_sub(progress.noted).unwrap_or(SystemTime::UNIX_EPOCH)),
            checkpoint: (progress.checkpoint_bytes > 0).then(|| texts::bytes(progress.checkpoint_bytes)),
        }
    }

    fn says_the_same(&self, newer: &ProgressView) -> bool {
        let later = newer.noted_at.0.duration_since(self.noted_at.0).unwrap_or_default();
        later < SAME && (self.percent, &self.text, &self.checkpoint) == (newer.percent, &newer.text, &newer.checkpoint)
    }
}

impl LogView {
    fn new(log: JobLog) -> LogView {
        LogView {
            attempt: log.attempt,
            noted_at: Time(log.noted_at),
            is_cut: log.length > log.text.len() as u64,
            text: log.text,
        }
    }
}

impl AttemptView {
    /// The attempts, the newest first.
    fn all(attempts: &[FailedAttempt], queue: &str) -> Vec<AttemptView> {
        let mut views: Vec<AttemptView> = Vec::new();
        for (index, attempt) in attempts.iter().enumerate().rev() {
            let newer = attempts.get(index + 1).filter(|newer| newer.error == attempt.error && newer.error.is_some());
            let same_as = newer.map(|newer| match views.last().and_then(|view| view.same_as.clone()) {
                Some(newest) => newest,
                None => number(newer.attempt.into()),
            });
            views.push(AttemptView::new(attempt, queue, same_as));
        }
        views
    }

    fn new(attempt: &FailedAttempt, queue: &str, same_as: Option<String>) -> AttemptView {
        let worker = match &attempt.queue {
            Some(other) if other != queue => format!("{} of queue {other}", attempt.worker),
            _ => attempt.worker.clone(),
        };
        let used =
            [attempt.usage.cpu.map(|cpu| format!("CPU {}", length(cpu))), attempt.usage.peak_memory.map(texts::bytes)];
        let error = attempt.error.clone().unwrap_or_default();
        AttemptView {
            number: number(attempt.attempt.into()),
            failed_at: Time(attempt.failed_at),
            worker,
            run: attempt.run.map_or_else(|| "its worker was lost".to_owned(), length),
            used: used.into_iter().flatten().collect::<Vec<_>>().join(" · "),
            line: ErrorView::of(if error.is_empty() { "without an error" } else { &error }),
            error,
            same_as,
        }
    }
}

impl Used {
    /// Of the last run: that of the job, or of its newest failed attempt.
    fn all(job: &JobRow, attempts: &[FailedAttempt]) -> Vec<Used> {
        let newest = attempts.last();
        let usage = newest.filter(|_| job.run.is_none()).map_or(&job.usage, |attempt| &attempt.usage);
        let run = job.run.or_else(|| newest.and_then(|attempt| attempt.run));
        let mut used = Vec::new();
        if let Some(cpu) = usage.cpu {
            let of = run.map_or_else(String::new, |run| format!(" of {}", length(run)));
            let percent =
                run.filter(|run| !run.is_zero()).map(|run| (cpu.as_secs_f64() / run.as_secs_f64() * 100.0) as u64);
            used.push(Used {
                what: "CPU",
                words: format!("{}{of}", length(cpu)),
                percent: percent.map(|part| part.min(100)),
            });
        }
        if let Some(memory) = usage.peak_memory {
            used.push(Used { what: "Memory, at most", words: texts::bytes(memory), percent: None });
        }
        used
    }
}

impl EdgeView {
    fn new(edge: &Edge) -> EdgeView {
        let id = edge.job_id.to_string();
        let link = edge.queue.as_ref().map(|queue| link("job", [("queue", queue.as_str()), ("id", id.as_str())]));
        EdgeView {
            link,
            id,
            kind: edge.kind.clone().unwrap_or_default(),
            state: edge.state.map(|state| state.to_string()),
            waits: match edge.ended {
                _ if edge.waits => "yes".to_owned(),
                Some(ended) => format!("no longer: {ended}"),
                None => "no".to_owned(),
            },
            on_dead: edge.on_dead.to_string(),
        }
    }
}

/// What happens to the job next. `stats` is of its queue, `holder` the worker that has claimed it, if known.
fn next(job: &JobRow, edges: &JobEdges, stats: Option<&QueueStats>, holder: Option<&WorkerRow>) -> String {
    let waits_for = |state| edges.parents.iter().any(|edge| edge.waits && edge.state == Some(state));
    let text = match job.state {
        JobState::Ready if job.alone => {
            "A worker that holds nothing else claims it, because workers were lost while they held it."
        }
        JobState::Ready if stats.is_some_and(|stats| stats.workers == 0) => "No worker of the queue runs.",
        JobState::Ready => "A worker claims it after the jobs before it.",
        JobState::Scheduled => "It becomes ready when it is due.",
        JobState::Waiting if waits_for(JobState::Dead) => "It waits until a dead job is requeued and done.",
        JobState::Waiting if edges.parents.iter().any(|edge| edge.waits) => {
            "It becomes ready when the jobs that it waits for are done."
        }
        JobState::Waiting if stats.is_some_and(|stats| stats.fair) => {
            "A worker claims it when its group has its share."
        }
        JobState::Waiting => "It becomes ready when its turn in its group comes.",
        JobState::Claimed if holder.is_some_and(|worker| !worker.is_live()) => {
            "The lease of its worker has expired. It becomes ready again when another worker of the queue notices."
        }
        JobState::Claimed => {
            "A worker is running it, or has it in its buffer. If the worker is lost, it becomes ready again."
        }
        JobState::Dead if job.halts_group => {
            return "It stays, and the jobs of its group wait, until it is requeued, skipped or deleted.".to_owned();
        }
        ended => return stays(ended, stats),
    };
    let paused = if stats.is_some_and(|stats| stats.paused) { " The queue is paused: nothing is claimed." } else { "" };
    format!("{text}{paused}")
}

/// How long a finished job stays.
fn stays(state: JobState, stats: Option<&QueueStats>) -> String {
    let stays = match state {
        JobState::Done => "It stays until it is deleted",
        JobState::Archived => "It stays in the archive until it is deleted",
        _ => "It stays until it is requeued or deleted",
    };
    let then = match stats.map(|stats| keep(state, stats)) {
        Some(Keep::For(duration)) => format!(", at the latest by a worker {} after its end", exact(duration)),
        Some(_) => String::new(),
        None => ", or its queue no longer keeps it".to_owned(),
    };
    format!("{stays}{then}.")
}

fn keep(state: JobState, stats: &QueueStats) -> Keep {
    match state {
        JobState::Dead | JobState::Cancelled => stats.keep_dead,
        _ => stats.keep_done,
    }
}

/// When its queue deletes a finished job; `None`: never, or unknown.
fn kept_until(job: &JobRow, stats: Option<&QueueStats>) -> Option<SystemTime> {
    match keep(job.state, stats?) {
        _ if job.halts_group => None,
        Keep::For(duration) => job.finished_at?.checked_add(duration),
        _ => None,
    }
}

/// `worker` is the name of the worker that holds the job or held it last.
fn fields_of(job: &JobRow, queue: &str, worker: Option<String>) -> Vec<(&'static str, String, Option<String>)> {
    let jobs = |search: JobSearch| Some(search.link("jobs", &[]));
    let search = JobSearch::all(queue);
    let mut fields = vec![
        ("Attempt", number(job.attempt.into()), None),
        ("Priority", job.priority.to_string(), None),
        ("Claims", number(u64::from(job.fence.0.unsigned_abs())), None),
    ];
    let mut add = |name, value: Option<String>, link: Option<String>| {
        fields.extend(value.map(|value| (name, value, link)));
    };
    add("Kind", job.kind.clone(), jobs(JobSearch { kind: job.kind.clone(), ..search.clone() }));
    add("Run", job.run.map(length), None);
    add("CPU time", job.usage.cpu.map(length), None);
    add("Peak memory", job.usage.peak_memory.map(texts::bytes), None);
    add("Time limit", job.time_limit.map(length), None);
    add("Needs", job.needs.as_ref().map(ToString::to_string), None);
    add("Key", job.dedup_key.clone(), jobs(JobSearch { key: job.dedup_key.clone(), ..search.clone() }));
    add("Group", job.group_key.clone(), jobs(JobSearch { group: job.group_key.clone(), ..search.clone() }));
    let batch = job.batch_id.map(|batch| batch.to_string());
    add("Batch", batch.clone(), batch.map(|batch| link("batches", [("batch", batch.as_str())])));
    let correlation_id = job.correlation_id.map(|id| id.to_string());
    add("Correlation id", correlation_id, jobs(JobSearch { correlation_id: job.correlation_id, ..search }));
    let id = job.worker_id.map(|worker| worker.to_string());
    let of_worker = match &id {
        Some(id) if job.state == JobState::Claimed => link("worker", [("queue", queue), ("id", id)]),
        _ => "workers".to_owned(), // its row may be gone
    };
    add("Worker", worker, Some(of_worker));
    fields
}

/// The job that a request names.
async fn read(app: &App, fields: &Fields, bytes: Option<usize>) -> Result<(readpast::Queue, JobRow), Failure> {
    let queue = app.queue(fields.required("queue")?).await?;
    let id = JobId(fields.number("id")?);
    let job = match bytes {
        Some(bytes) => queue.admin().job(id, Some(bytes)).await?,
        None => queue.admin().job(id, None).await?,
    };
    let job = job.ok_or_else(|| {
        Failure::NotFound(format!(
            "Queue '{}' has no job {id}: it is done and deleted, never existed, or is locked at the moment.",
            queue.name()
        ))
    })?;
    Ok((queue, job))
}

/// When the job was or becomes due. After the last failed attempt the stored time has no meaning.
fn due_at(job: &JobRow) -> Option<SystemTime> {
    let never_came = job.state.has_ended() && job.finished_at.is_some_and(|ended_at| job.due_at >= ended_at);
    (!never_came).then_some(job.due_at)
}

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let hides_payloads = app.options.hide_payloads;
    let bytes = if hides_payloads { 0 } else { SHOWN_BYTES };
    let (queue, job) = read(&app, &Fields::of(&uri), Some(bytes)).await?;
    let ids = [job.job_id];
    let attempts = queue.admin().attempts(job.job_id).await?;
    let progress = queue.admin().progress_of(&ids).await?;
    // A log may contain the payload, because programs may print what they read.
    let logs = if hides_payloads { Vec::new() } else { queue.admin().logs(job.job_id, SHOWN_LOGS).await? };
    let (mut running, ended): (Vec<_>, Vec<_>) = logs.into_iter().partition(|log| log.is_running);
    let reporting = (job.state == JobState::Claimed && !hides_payloads).then(|| {
        let (id, fence) = (job.job_id.to_string(), job.fence.to_string());
        link("events", [("part", "job"), ("queue", queue.name()), ("id", &id), ("fence", &fence)])
    });
    let audits = queue.admin().audits(None, AUDITED).await?;
    let edges = queue.admin().edges(job.job_id, SHOWN_EDGES).await?;
    let graph = if edges.parents.is_empty() && edges.children.is_empty() {
        None
    } else {
        let graph = queue.admin().graph(job.job_id, GRAPH).await?;
        Some((graph::svg(&graph.steps(DRAWN_SINGLY), queue.name()), graph.is_partial))
    };
    let reading = app.readings.now().await;
    let stats = reading.queue(queue.name()).map(|line| &line.activity.stats);
    let holder = reading.workers.iter().find(|worker| Some(worker.worker_id) == job.worker_id);
    // A worker that ended long ago is known by its id only.
    let worker = job.worker_id.map(|id| {
        let live = holder.map(|worker| &worker.name);
        let of_attempt = attempts.iter().find(|attempt| attempt.worker_id == id).map(|attempt| &attempt.worker);
        live.or(of_attempt).cloned().unwrap_or_else(|| id.to_string())
    });
    let times = [
        ("Enqueued", Some(job.enqueued_at)),
        (if job.state == JobState::Scheduled { "Due" } else { "Ready" }, due_at(&job)),
        ("Start by", job.start_by),
        ("Claimed", job.claimed_at),
        ("Ended", job.finished_at),
        ("Kept until", kept_until(&job, stats)),
    ];
    let headers = job.headers.iter().flatten();
    let is_in_attempt = attempts.last().is_some_and(|attempt| attempt.error == job.error);
    let error = job.error.as_deref().map(ErrorView::of);
    let like_it = error.as_ref().filter(|_| job.state == JobState::Dead).map(|error| {
        let text = error.search_text();
        let search = JobSearch::of(queue.name(), JobState::Dead);
        JobSearch { error: (!text.is_empty()).then_some(text), ..search }.link("jobs", &[])
    });
    let frame = Frame::new(&app, visitor, "jobs", format!("Job {}", job.job_id)).await;
    Ok(html(&Page {
        id: job.job_id.to_string(),
        queue: queue.name(),
        next: next(&job, &edges, stats, holder),
        error,
        like_it,
        died_at: job.finished_at.filter(|_| job.state == JobState::Dead).map(Time),
        whole_error: job.error.as_deref().filter(|_| !is_in_attempt),
        timeline: Timeline::new(&job, &attempts, now()),
        used: Used::all(&job, &attempts),
        graph,
        edges: [
            ("Waits for", edges.parents.iter().map(EdgeView::new).collect()),
            ("Jobs that wait for it", edges.children.iter().map(EdgeView::new).collect()),
        ],
        times: times.into_iter().filter_map(|(name, time)| Some((name, Time(time?)))).collect(),
        fields: fields_of(&job, queue.name(), worker),
        headers: headers.map(|(name, value)| (name.clone(), value.to_string())).collect(),
        live: Live::new(progress.first(), running.pop(), false),
        reporting,
        attempts: AttemptView::all(&attempts, queue.name()),
        acts: acts(&audits, job.job_id),
        logs: ended.into_iter().map(LogView::new).collect(),
        hides_payloads,
        payload: View::new(&job.payload, job.payload_text().as_deref(), job.payload_bytes),
        output: job
            .output
            .as_ref()
            .map(|output| View::new(output, job.output_text(), job.output_bytes.unwrap_or(output.len() as u64))),
        actions: if frame.may_act { JobAction::of(Some(job.state), job.halts_group) } else { Vec::new() },
        goes_on: !job.state.has_ended(),
        job: &job,
        frame,
    }))
}

/// How many bytes a part of a download has, and how long the browser may accept no data.
const PART: usize = 64 * 1024;
const STALLED: Duration = Duration::from_secs(30);

/// A limit for the whole download: the largest payload, 256 MiB, at 7 Mbit/s.
const LONGEST: Duration = Duration::from_secs(300);

/// Downloads a payload or output, always as a file, so that no browser takes it for a page. It is in memory until sent,
/// so few run at the same time.
pub async fn download(State(app): State<App>, _: Visitor, uri: Uri) -> Result<Response, Failure> {
    if app.options.hide_payloads {
        return Err(Failure::Hidden);
    }
    let fields = Fields::of(&uri);
    let of = fields.required("of")?;
    let place = app.connections.download()?;
    let (_, job) = read(&app, &fields, None).await?;
    let bytes = match of {
        "payload" => job.payload,
        "output" => job.output.unwrap_or_default(),
        other => return Err(Failure::bad("of", other, "it must be payload or output")),
    };
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"job-{}-{of}\"", job.job_id)),
        (header::CONTENT_LENGTH, bytes.len().to_string()),
    ];
    Ok((headers, in_parts(bytes, place)).into_response())
}

/// Sends the bytes in parts. A task holds the rest and the place, because a body is not told that the browser has
/// stopped reading.
fn in_parts(bytes: Vec<u8>, place: OwnedSemaphorePermit) -> Body {
    let (parts, taken) = mpsc::channel(1);
    tokio::spawn(async move {
        let send = async {
            for part in bytes.chunks(PART) {
                if parts.send_timeout(Ok::<_, Infallible>(part.to_vec()), STALLED).await.is_err() {
                    break;
                }
            }
        };
        if tokio::time::timeout(LONGEST, send).await.is_err() {
            tracing::warn!(bytes = bytes.len(), "a download took too long and was cut off");
        }
        drop(place);
    });
    Body::from_stream(stream::unfold(taken, async |mut taken| Some((taken.recv().await?, taken))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::StreamExt;
    use tokio::sync::Semaphore;

    use super::*;

    /// A part every 20 seconds never stalls, and would hold its place for hours.
    #[tokio::test(start_paused = true)]
    async fn a_download_that_trickles_gives_its_place_back_after_five_minutes() {
        let places = Arc::new(Semaphore::new(1));
        let place = places.clone().try_acquire_owned().unwrap();
        let (begun, mut taken) = (tokio::time::Instant::now(), 0);
        let mut parts = in_parts(vec![b'x'; 1_000 * PART], place).into_data_stream();
        while let Some(part) = parts.next().await {
            taken += part.unwrap().len();
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
        assert!((10 * PART..20 * PART).contains(&taken), "{taken}");
        assert!(begun.elapsed() < LONGEST + Duration::from_secs(60));
        assert_eq!(places.available_permits(), 1);
    }
}
