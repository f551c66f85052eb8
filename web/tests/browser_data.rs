//! A schema in which every page has something to show: jobs in every state, workers, a batch, schedules, an audit,
//! history.

use std::fmt::Write;
use std::time::Duration;

use readpast::admin::{CompletionPolicy, JobChange, JobState, NewAudit, QueueOptions, Schedule};
use readpast::crates::serde_json;
use readpast::{BoxError, Context, Handlers, Job, JobError, Json, NewBatch, NewJob, Queue, Worker};
use readpast_web::Options;
use serde_json::json;

use crate::support_browser::{Site, until};

/// With its workers, which end with it.
pub struct Furnished {
    pub site: Site,
    /// A dead job of `invoices` with two failed attempts.
    dead: String,
    /// A job of `render` that runs until its worker is told to stop.
    running: String,
    /// A done job of `thumbnails` with an output.
    done: String,
    /// The id of the worker of `render`.
    renderer: String,
    workers: Vec<Worker>,
}

/// Why invoices fail. Two are as long as errors are that come with a stack trace.
const ERRORS: [&str; 4] = [
    "exit code 1: pypdf.errors.PdfReadError: EOF marker not found\nTraceback (most recent call last):\n  File \
     \"/app/invoice.py\", line 42, in main\n    pages = len(PdfReader(path).pages)\n  File \
     \"/usr/lib/python3/dist-packages/pypdf/_reader.py\", line 310, in __init__\n    raise PdfReadError(\"EOF marker not \
     found\")\npypdf.errors.PdfReadError: EOF marker not found",
    "no account for \"customer {}\"",
    "timeout after 30 s: 10.0.0.{} does not answer",
    "cannot write /var/invoices/2026/11/{}.pdf: no space left on device\n   at Invoices.Store.Write(Stream content)\n   \
     at Invoices.Handler.RunAsync(Job job, CancellationToken cancellationToken)",
];

const CUSTOMERS: [&str; 6] = ["Ada", "Brian", "Chen", "Dora", "Emeka", "Frida"];

fn order(number: usize) -> serde_json::Value {
    let customer = CUSTOMERS[number % CUSTOMERS.len()];
    json!({
        "number": number,
        "customer": { "name": customer, "city": "Zürich" },
        "lines": [{ "article": "A-1002", "count": number % 7 + 1, "price": 12.5 }, { "article": "B-7", "count": 1, "price": 99 }],
        "paid": false,
    })
}

impl Furnished {
    /// `days` of history.
    pub async fn start(name: &str, days: u32) -> Furnished {
        let mut site = Site::empty(name, Options::default()).await;
        site.config.worker.name = "node-1".to_owned();
        let invoices = site.create_queue("invoices", QueueOptions::default().max_attempts(2)).await;
        let annotate = QueueOptions::default().completion(CompletionPolicy::Annotate);
        let thumbnails = site.create_queue("thumbnails", annotate).await;
        let render = site.create_queue("render", QueueOptions::default()).await;
        let mail = site.create_queue("mail", QueueOptions::default()).await;
        site.work(&invoices, invoicing(true)).await.shutdown().await.unwrap(); // it has been here
        failed_invoices(&site, &invoices).await;
        let done = thumbnails_done(&site, &thumbnails).await;
        let mut workers = vec![site.work(&invoices, invoicing(false)).await, site.work(&render, rendering()).await];
        let running = render_jobs(&render).await;
        waiting_jobs(&invoices, &mail).await;
        // Rates are there when a worker has said something twice.
        workers.push(site.work(&thumbnails, thumbnailing()).await);
        schedules(&invoices).await;
        batch(&thumbnails).await;
        audit(&invoices, &mail).await;
        let now = last_minute();
        for (queue, size) in [("invoices", 400.0), ("thumbnails", 1_500.0), ("mail", 60.0)] {
            history(&site, queue, size, now, days).await;
        }
        let dead = first_id(&invoices, JobState::Dead).await;
        let running_there =
            async || render.admin().job(running, None).await.unwrap().is_some_and(|job| job.state == JobState::Claimed);
        until("a job is rendered", running_there).await;
        let renderer = render.admin().workers(Duration::ZERO).await.unwrap()[0].worker_id.to_string();
        Furnished { site, dead, running: running.to_string(), done, renderer, workers }
    }

    /// The address of a page of each sort, and of each state of jobs.
    pub fn pages(&self) -> Vec<String> {
        let mut pages: Vec<String> = [
            "overview",
            "queue?queue=invoices",
            "queue?queue=invoices&span=day",
            "queue?queue=render",
            "workers",
            "schedules",
            "batches?all=1",
            "audit",
            "jobs?queue=invoices&state=dead&error=account",
            "confirm?queue=invoices&state=dead&action=requeue&scope=all",
            "new_job?queue=invoices",
            "settings?queue=invoices",
            "schedule",
            "schedule?queue=invoices&schedule=nightly+report",
            "delete_schedule?queue=invoices&schedule=nightly+report",
            "confirm?queue=invoices&state=ready&action=set_priority&scope=all",
            "jobs?queue=invoices&state=nonsense",
            "queue?queue=nobody",
        ]
        .map(str::to_owned)
        .into();
        let states =
            ["ready", "scheduled", "dead", "cancelled"].map(|state| format!("jobs?queue=invoices&state={state}"));
        pages.extend(states);
        pages.push("jobs?queue=render&state=claimed".to_owned());
        pages.push("jobs?queue=render&state=waiting".to_owned());
        pages.push("jobs?queue=thumbnails&state=done".to_owned());
        pages.extend([self.dead_job(), self.running_job()]);
        pages.push(format!("job?queue=thumbnails&id={}", self.done));
        pages.push(format!("new_job?queue=invoices&like={}", self.dead));
        pages.extend([self.worker("worker"), self.worker("stop_worker")]);
        pages
    }

    pub fn dead_job(&self) -> String {
        format!("job?queue=invoices&id={}", self.dead)
    }

    /// A page about the worker of `render`.
    pub fn worker(&self, page: &str) -> String {
        format!("{page}?queue=render&id={}", self.renderer)
    }

    pub fn running_job(&self) -> String {
        format!("job?queue=render&id={}", self.running)
    }

    pub async fn end(self) {
        for worker in self.workers {
            worker.shutdown().await.unwrap();
        }
    }
}

async fn first_id(queue: &Queue, state: JobState) -> String {
    let page = queue.admin().list(&state.into(), None, 1).await.unwrap();
    page.jobs[0].job_id.to_string()
}

/// Fails each invoice with one of the errors, or takes a moment for it.
fn invoicing(fails: bool) -> Handlers {
    Handlers::any(move |job: &Job, context: &Context| -> Result<(), BoxError> {
        let order: serde_json::Value = job.json()?;
        let number = order["number"].as_u64().unwrap_or_default();
        match fails {
            true => {
                let error = ERRORS[number as usize * 7 / 5 % ERRORS.len()].replace("{}", &number.to_string());
                Err(JobError::retry_in(Duration::ZERO, error).into())
            }
            false => work(context, Duration::from_millis(200)),
        }
    })
}

/// Until the worker stops.
fn rendering() -> Handlers {
    Handlers::any(|_: &Job, context: &Context| -> Result<(), BoxError> {
        context.progress(0.42, "frame 1,008 of 2,400");
        work(context, Duration::from_secs(3_600))
    })
}

fn thumbnailing() -> Handlers {
    Handlers::any(|_: &Job, _: &Context| -> Result<Json<serde_json::Value>, BoxError> {
        Ok(Json(json!({ "width": 320, "height": 200, "bytes": 18_233 })))
    })
}

fn work(context: &Context, length: Duration) -> Result<(), BoxError> {
    let begun = std::time::Instant::now();
    while begun.elapsed() < length {
        if context.is_stopping() || context.is_cancelled() {
            return Err(JobError::snooze(Duration::ZERO, "the worker ends").into());
        }
        std::thread::sleep(Duration::from_millis(5)); // its work
    }
    Ok(())
}

async fn failed_invoices(site: &Site, queue: &Queue) {
    let job = |number| NewJob::json(&order(number)).unwrap().kind("invoice").header("tenant", "acme");
    let jobs: Vec<NewJob> = (0..64).map(job).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    site.work(queue, invoicing(true)).await.drain().await.unwrap();
}

async fn thumbnails_done(site: &Site, queue: &Queue) -> String {
    let jobs: Vec<NewJob> = (0..120).map(|number| NewJob::text(format!("IMG_{number:04}.jpg")).kind("jpeg")).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    site.work(queue, thumbnailing()).await.drain().await.unwrap();
    first_id(queue, JobState::Done).await
}

/// One runs; others of its group wait, and the film is cut when all are rendered.
async fn render_jobs(queue: &Queue) -> readpast::JobId {
    let job = |number| NewJob::text(format!("scene {number}, 2,400 frames")).kind("film").group_key("trailer");
    let jobs: Vec<NewJob> = (1..5).map(job).collect();
    let scenes: Vec<_> = queue.enqueue_many(&jobs).await.unwrap().iter().map(|job| job.job_id).collect();
    let cut = queue.enqueue(&NewJob::text("the film").kind("cut").after(scenes.clone())).await.unwrap().job_id;
    queue.enqueue(&NewJob::text("the film").kind("publish").after([cut])).await.unwrap();
    scenes[0]
}

async fn waiting_jobs(invoices: &Queue, mail: &Queue) {
    let job = |number| NewJob::json(&order(number)).unwrap().kind("invoice");
    let ready: Vec<NewJob> = (1_000..2_204).map(job).collect();
    invoices.enqueue_many(&ready).await.unwrap();
    let later = |number| job(number).delay(Duration::from_secs(3_600)).dedup_key(format!("invoice-{number}"));
    let scheduled: Vec<NewJob> = (3_000..3_087).map(later).collect();
    let scheduled = invoices.enqueue_many(&scheduled).await.unwrap();
    for job in &scheduled[..3] {
        invoices.admin().change(&JobChange::cancel("the customer has paid"), job.job_id).await.unwrap();
    }
    mail.admin().pause().await.unwrap();
    mail.enqueue_many(&(0..312).map(|number| NewJob::text(format!("letter {number}"))).collect::<Vec<_>>())
        .await
        .unwrap();
}

async fn schedules(queue: &Queue) {
    let job = NewJob::text("all").kind("report");
    let nightly = Schedule::new("nightly report", "0 30 3 * * *", job.clone()).time_zone("Europe/Zurich");
    queue.admin().set_schedule(&nightly).await.unwrap();
    queue.admin().set_schedule(&Schedule::new("month end", "0 0 6 1 * *", job)).await.unwrap();
    queue.admin().pause_schedule("month end").await.unwrap();
}

async fn batch(queue: &Queue) {
    let follow_up = NewJob::text("tell the customer");
    let batch = queue.create_batch(&NewBatch::new().name("album 2026-11").then(follow_up)).await.unwrap();
    let job =
        |number: u64| NewJob::text(format!("DSC_{number:04}.raw")).delay(Duration::from_secs(number / 30 * 3_600));
    let jobs: Vec<NewJob> = (0..80).map(|number| job(number).batch(batch)).collect();
    queue.enqueue_many(&jobs).await.unwrap();
}

async fn audit(invoices: &Queue, mail: &Queue) {
    for (queue, who, action, what, jobs) in [
        (invoices, "ada", "requeue", json!({ "filter": { "state": "dead", "error": "timeout" } }), Some(1_204)),
        (invoices, "brian", "cancel", json!({ "jobs": [4_711], "named": 1 }), Some(1)),
        (mail, "ada", "pause", json!({ "why": "the relay moves" }), None),
    ] {
        let note = NewAudit::new(who, action).what(what);
        let note = queue.admin().begin_audit(&note).await.unwrap();
        queue.admin().end_audit(note, jobs, None).await.unwrap();
    }
}

/// The last whole minute, counted from 1970.
#[expect(clippy::disallowed_methods, reason = "the dev server is on this machine")]
fn last_minute() -> u64 {
    jiff::Timestamp::now().as_second() as u64 / 60 - 1
}

/// A row for each minute of the last day, and one for ten minutes before, as workers would have written them: more by
/// day than by night, with an hour in which a third failed.
async fn history(site: &Site, queue: &str, size: f64, now: u64, days: u32) {
    let mut rows = Vec::new();
    let day = 24 * 60;
    for ago in (0..day.min(u64::from(days) * day)).step_by(1) {
        rows.push(history_row(now - ago, 1, size));
    }
    for ago in (day..u64::from(days) * day).step_by(10) {
        rows.push(history_row((now - ago) / 10 * 10, 10, size));
    }
    for rows in rows.chunks(400) {
        let rows = rows.join(",\n");
        site.sql(&format!(
            "INSERT INTO [$(schema)].[history] (queue_id, at, minutes, ready, scheduled, waiting, claimed, dead, cancelled, \
             workers, done, failed, died, times)\nSELECT q.queue_id, v.at, v.minutes, v.ready, v.scheduled, 0, v.claimed, \
             v.dead, 0, 1, v.done, v.failed, v.died, v.times FROM [$(schema)].[queues] AS q CROSS JOIN (VALUES\n{rows}) AS \
             v (at, minutes, ready, scheduled, claimed, dead, done, failed, died, times) WHERE q.name = N'{queue}' \
             AND NOT EXISTS (SELECT * FROM [$(schema)].[history] AS own WHERE own.queue_id = q.queue_id AND own.at = v.at)"
        ))
        .await;
    }
}

fn history_row(minute: u64, minutes: u64, size: f64) -> String {
    // Pseudo-random, and the same each time.
    let noise = (minute.wrapping_mul(2_654_435_761) >> 7) % 1_000;
    let hour = minute as f64 / 60.0;
    let tide = 1.0 + 0.75 * ((hour - 8.0) / 24.0 * std::f64::consts::TAU).sin();
    let load = size * tide * (0.8 + noise as f64 / 2_500.0) * minutes as f64;
    let is_bad_hour = (minute / 60) % 17 == 5;
    let failed = load * if is_bad_hour { 0.3 } else { 0.02 };
    let (done, died) = (load - failed, failed / 4.0);
    let depth = size * 2.0 * tide.powi(3) * (0.9 + noise as f64 / 5_000.0);
    let dead = 20.0 + (minute % (24 * 60)) as f64 / 36.0;
    let slow = if is_bad_hour { 3 } else { 0 };
    let mut times = String::from("{");
    for (letter, middle) in [("w", 9 + slow + (tide * 2.0) as u32), ("r", 5 + slow)] {
        for (bucket, share) in [(middle - 1, 0.3), (middle, 0.5), (middle + 1, 0.16), (middle + 3, 0.04)] {
            let jobs = (load * share) as u64;
            if jobs > 0 {
                let _ = write!(times, "\"{letter}{bucket}\":{jobs},");
            }
        }
    }
    let times = format!("{}}}", times.trim_end_matches(','));
    let at = jiff::Timestamp::from_second(minute as i64 * 60).unwrap().strftime("%Y-%m-%dT%H:%M:%S");
    let [done, failed, died, depth, dead] = [done, failed, died, depth, dead].map(|value| value.round());
    format!("('{at}', {minutes}, {depth}, 87, 8, {dead}, {done}, {failed}, {died}, '{times}')")
}
