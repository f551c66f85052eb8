//! A new job: empty, or like one that has run.

use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use readpast::admin::{JobFilter, JobRow, JobState, QueueStats};
use readpast::crates::serde_json::{self, Value, json};
use readpast::{Enqueued, Error, JobId, NewJob, Queue};

use super::form::{CheckPage, Field, FormPage, Group, Input, typed_facts, typed_fields};
use super::job_fields;
use super::typed::{Step, Typed, whole};
use crate::acting::act::to_its_end;
use crate::acting::noted::{Noted, note};
use crate::app::App;
use crate::attention;
use crate::counts::MOST;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::hex;
use crate::links::{link, see_other};
use crate::payload_view::View;
use crate::security::forms::Form;
use crate::security::visitor::Visitor;
use crate::texts::{self, counted};

/// How long the second step looks for an unfinished job with the same key. No index covers keys.
const LOOKING: Duration = Duration::from_secs(2);

/// The fields beside those of [`job_fields`]. A file is sent as `file`, and again as `kept` by the pages that follow.
const FIELDS: [&str; 6] = ["like", "copyable", "queue", "key", "due", "kept"];

/// When a job is due.
#[derive(Debug, Clone, Copy)]
enum Due {
    In(Duration),
    At(SystemTime),
}

/// What was typed beside the attributes of the job.
struct Wanted {
    payload: Vec<u8>,
    due: Option<Due>,
    /// The payload is that of this job.
    copied_from: Option<JobId>,
}

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let frame = Frame::to_act(&app, visitor, "jobs", "New job").await?;
    let fields = Fields::of(&uri);
    let typed = match fields.parsed("like")?.map(JobId) {
        Some(id) => like(&app, &app.queue(fields.required("queue")?).await?, id).await?,
        None => Typed::new(fields),
    };
    form(&app, frame, &typed).await
}

/// The fields of a job like this one.
async fn like(app: &App, queue: &Queue, id: JobId) -> Result<Typed, Failure> {
    let bytes = if app.options.hide_payloads { 0 } else { job_fields::MAX_PAYLOAD + 1 };
    let job = queue.admin().job(id, Some(bytes)).await?;
    let job = job.ok_or_else(|| Failure::NotFound(format!("Queue '{}' has no job {id}.", queue.name())))?;
    let mut fields = vec![("like", id.to_string()), ("queue", queue.name().to_owned())];
    match shown_payload(&job) {
        Some(payload) => fields.push(("payload", payload)),
        None => fields.extend([("copyable", id.to_string()), ("copy", id.to_string())]),
    }
    let priority = (job.priority != 0).then(|| job.priority.to_string());
    let optional = [
        ("kind", job.kind),
        ("key", job.dedup_key),
        ("group", job.group_key),
        ("priority", priority),
        ("time_limit", job.time_limit.map(texts::exact)),
        ("headers", job_fields::header_lines(job.headers.as_ref())),
    ];
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    Ok(Typed::new(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

/// The payload, if a field of a form can hold it unchanged.
fn shown_payload(job: &JobRow) -> Option<String> {
    let is_whole = job.payload.len() as u64 == job.payload_bytes;
    job.payload_text().filter(|text| is_whole && job_fields::fits(text)).map(|text| text.into_owned())
}

async fn form(app: &App, frame: Frame, typed: &Typed) -> Result<Response, Failure> {
    let reading = app.all_queues().await?;
    let queues = reading.queues.iter().map(|line| line.activity.stats.queue.clone());
    let queues = queues.map(|name| (name.clone(), name)).collect();
    let like = typed.text("like");
    let queue = match typed.text("queue") {
        "" => None,
        name => Some(app.queue(name).await?),
    };
    let copied =
        (!typed.is_empty("copyable")).then(|| (like.to_owned(), format!("The payload of job {like}, as it is")));
    let mut what = vec![Field::new("queue", "Queue", "", Input::Choice(queues))];
    what.extend(job_fields::what(queue.as_ref(), copied).await?);
    if let Some(bytes) = kept(typed).filter(|bytes| job_fields::must_fit(bytes.len()).is_ok()) {
        let label = format!("The file that was chosen, {}", texts::bytes(bytes.len() as u64));
        let tick = Input::Tick(typed.text("kept").to_owned());
        what.push(Field::new("kept", label, "Untick it to choose another, or none.", tick));
    }
    let hint = "At most 64 KiB, sent byte for byte. For more, use readpast enqueue.";
    what.push(Field::new("file", "Or a file", hint, Input::File(job_fields::MAX_PAYLOAD)));
    let due = "A delay such as 90s or 1h 30m, or a time in UTC such as 2026-11-23T10:20. Empty: now.";
    let mut more = vec![
        Field::new("key", "Key", "Nothing is added while an unfinished job of the queue has it.", Input::Line),
        Field::new("due", "Due", due, Input::Line),
    ];
    more.extend(job_fields::more());
    let back = match typed.text("queue") {
        "" => "overview".to_owned(),
        queue if like.is_empty() => link("queue", [("queue", queue)]),
        queue => link("job", [("queue", queue), ("id", like)]),
    };
    let lead = match like {
        "" => String::new(),
        like => format!("It starts as job {like} was, and is a job of its own. Job {like} stays as it is."),
    };
    Ok(FormPage {
        frame,
        action: "enqueue",
        lead,
        hidden: typed_fields(typed, &["like", "copyable"]),
        groups: vec![Group::open("What it does", what), Group::folded("More", more, typed)],
        back,
        typed,
    }
    .response())
}

pub async fn send(State(app): State<App>, form: Form) -> Result<Response, Failure> {
    to_its_end(app, form, step).await
}

async fn step(app: App, sent: Form) -> Result<Response, Failure> {
    let Form { visitor, fields } = sent;
    let frame = Frame::to_act(&app, visitor.clone(), "jobs", "New job").await?;
    let _turn = app.connections.of_page().await?;
    let mut typed = Typed::new(fields.renamed("file", "kept"));
    if typed.step() == Step::Back {
        return form(&app, frame, &typed).await;
    }
    let queue = app.queue(typed.text("queue")).await?;
    // A copied payload is in memory until it is enqueued, so few are at the same time.
    let is_copied = typed.step() == Step::Do && !typed.is_empty("copy");
    let _place = is_copied.then(|| app.connections.download()).transpose()?;
    let wanted = read(&mut typed);
    let copied = if typed.is_right() { copied_payload(&app, &mut typed, wanted.copied_from).await? } else { None };
    if !typed.is_right() {
        return form(&app, frame, &typed).await;
    }
    if typed.step() == Step::Check {
        return check(frame, &queue, &typed, &wanted, copied).await;
    }
    let job = NewJob::bytes(copied.map_or(wanted.payload, payload));
    let job = attributes(&mut typed, job);
    match enqueue(&app, &visitor, &queue, &typed, &job).await {
        Ok(Enqueued { job_id, duplicate, .. }) => {
            let said = match duplicate {
                false => format!("Enqueued as job {job_id}."),
                true => format!("Nothing was added: unfinished job {job_id} has the same key."),
            };
            app.sessions.say(&visitor.session, said);
            Ok(see_other(&link("job", [("queue", queue.name()), ("id", &job_id.to_string())])))
        }
        Err(failure) => {
            typed.say("", failure.into_text());
            form(&app, frame, &typed).await
        }
    }
}

/// The bytes of the file.
fn kept(typed: &Typed) -> Option<Vec<u8>> {
    typed.text("kept").strip_prefix("0x").and_then(hex::bytes)
}

/// The payload as it was typed, or the file.
fn typed_payload(typed: &mut Typed) -> Vec<u8> {
    let text = job_fields::payload(typed);
    let Some(file) = kept(typed) else {
        if !typed.is_empty("kept") {
            typed.say("file", "the form did not send this as a file");
        }
        return text.into_bytes();
    };
    typed.must("file", job_fields::must_fit(file.len()));
    if typed.count("kept") > 1 {
        typed.say("file", "there are two files; to replace the one above, untick it and choose the other again");
    } else if !text.is_empty() || !typed.is_empty("copy") {
        typed.say("file", "there are two payloads; keep one of them");
    }
    file
}

fn read(typed: &mut Typed) -> Wanted {
    let payload = typed_payload(typed);
    let copied_from = typed.read("copy", |text| whole(text, "the id of a job")).map(JobId);
    let due = typed.read("due", read_due);
    let _ = attributes(typed, NewJob::text("")); // says what is wrong with them
    Wanted { payload, due, copied_from }
}

fn attributes(typed: &mut Typed, job: NewJob) -> NewJob {
    let job = typed.job_part("due", job, read_due, |job, due| match due {
        Due::In(delay) => job.delay(delay),
        Due::At(time) => job.due_at(time),
    });
    job_fields::attributes(typed, job)
}

fn read_due(text: &str) -> Result<Due, String> {
    let neither = |_| "write a delay as 90s, 5m or 1h 30m, or a time as 2026-11-23T10:20 (UTC)".to_owned();
    texts::read_duration(text).map(Due::In).or_else(|_| texts::read_time(text).map(Due::At)).map_err(neither)
}

/// The job whose payload is copied: before the last step without its payload, then with it.
async fn copied_payload(app: &App, typed: &mut Typed, id: Option<JobId>) -> Result<Option<JobRow>, Failure> {
    let Some(id) = id else { return Ok(None) };
    let cut_at = (typed.step() == Step::Check).then_some(0);
    let queue = app.schema().admin().queue_of(id).await?;
    let row = match &queue {
        Some(queue) => app.queue(queue).await?.admin().job(id, cut_at).await?,
        None => None,
    };
    let Some(row) = row else {
        typed.say("copy", format!("job {id} is gone, and its payload with it"));
        return Ok(None);
    };
    // Another handler might show it, for example in an error.
    let stays =
        queue.as_deref() == Some(typed.text("queue")) && row.kind.as_deref().unwrap_or_default() == typed.text("kind");
    if app.options.hide_payloads && !stays {
        typed.say("kind", job_fields::STAYS.to_owned());
        return Ok(None);
    }
    Ok(Some(row))
}

/// The payload of another job. One in UTF-16 becomes UTF-8, as all that are enqueued here.
fn payload(row: JobRow) -> Vec<u8> {
    match row.payload_text().filter(|_| row.payload_utf16) {
        Some(text) => text.into_owned().into_bytes(),
        None => row.payload,
    }
}

async fn enqueue(
    app: &App,
    visitor: &Visitor,
    queue: &Queue,
    typed: &Typed,
    job: &NewJob,
) -> Result<Enqueued, Failure> {
    let given = |name| (!typed.is_empty(name)).then(|| typed.text(name));
    // What it does not have is not listed.
    let what: serde_json::Map<String, Value> =
        ["kind", "key", "group", "priority", "due", "attempts", "time_limit", "start_within", "like", "copy"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), json!(given(name)?))))
            .collect();
    let noted = Noted::begin(app, visitor, queue, note(visitor, "enqueue").what(what.into())).await?;
    let enqueued = queue.enqueue(job).await;
    Ok(noted.end(enqueued, |enqueued| Some(u64::from(!enqueued.duplicate))).await?)
}

async fn check(
    frame: Frame,
    queue: &Queue,
    typed: &Typed,
    wanted: &Wanted,
    copied: Option<JobRow>,
) -> Result<Response, Failure> {
    let stats = queue.admin().stats(Some(MOST)).await?;
    let mut will_be = vec![outlook(&stats, typed, wanted.due)];
    if let Some(row) = &copied {
        will_be.push(format!("Its payload is that of job {}: {}.", row.job_id, texts::bytes(row.payload_bytes)));
    }
    if !typed.is_empty("key") {
        let key = typed.text("key");
        let found = tokio::time::timeout(LOOKING, unfinished(queue, key)).await.ok().transpose()?.flatten();
        will_be.push(match found {
            Some(id) => format!("Unfinished job {id} has the key {key}: nothing is added while it is unfinished."),
            None => format!("If an unfinished job has the key {key} by then, nothing is added."),
        });
    }
    let mut warnings = warnings(&stats);
    if let Some(Due::At(time)) = wanted.due
        && time < attention::now()
    {
        warnings.push("This time is past.".to_owned());
    }
    warnings.extend(unknown_kind(queue, typed.text("kind")).await?);
    let (payload, text) = (&wanted.payload, str::from_utf8(&wanted.payload).ok());
    warnings.extend(text.and_then(job_fields::broken_json));
    Ok(CheckPage {
        frame,
        action: "enqueue",
        label: "Enqueue",
        will_be,
        warnings,
        facts: typed_facts(typed, &[&[("key", "Key"), ("due", "Due")], &job_fields::LABELS[..]].concat()),
        changes: Vec::new(),
        payload: copied.is_none().then(|| View::new(payload, text, payload.len() as u64)),
        times: None,
        hidden: typed_fields(typed, &[&FIELDS[..], &job_fields::NAMES].concat()),
    }
    .response())
}

/// Where the job will be.
fn outlook(stats: &QueueStats, typed: &Typed, due: Option<Due>) -> String {
    let queue = &stats.queue;
    match due {
        Some(Due::In(delay)) => {
            return format!("It will be in {queue}, scheduled: it becomes ready after {}.", texts::exact(delay));
        }
        Some(Due::At(time)) if time >= attention::now() => {
            return format!("It will be in {queue}, scheduled: it becomes ready at {} (UTC).", texts::utc(time));
        }
        _ => {}
    }
    if !typed.is_empty("group") {
        return format!(
            "It will be in {queue}, waiting for its turn in group {}, or ready at once.",
            typed.text("group")
        );
    }
    let more = if stats.ready >= MOST { "+" } else { "" };
    match stats.ready {
        0 => format!("It will be in {queue}, ready at once. No other job is ready."),
        ready => format!("It will be in {queue}, ready at once; {}{more} ready already.", are_ready(ready)),
    }
}

fn are_ready(ready: u64) -> String {
    format!("{} {}", counted(ready, "job"), if ready == 1 { "is" } else { "are" })
}

/// An unfinished job with this key.
async fn unfinished(queue: &Queue, key: &str) -> Result<Option<JobId>, Error> {
    for state in [JobState::Claimed, JobState::Ready, JobState::Waiting, JobState::Scheduled] {
        let found = queue.admin().list_ids(&JobFilter::from(state).dedup_key(key), None, 1).await?;
        if let Some(id) = found.jobs.first() {
            return Ok(Some(*id));
        }
    }
    Ok(None)
}

/// Why the job may not run soon.
fn warnings(stats: &QueueStats) -> Vec<String> {
    let mut warnings = Vec::new();
    if stats.paused {
        warnings.push("The queue is paused: nothing is claimed until it is resumed.".to_owned());
    }
    if stats.workers == 0 {
        warnings.push("No worker of this queue runs: the job waits until one starts.".to_owned());
    }
    if let Some(max) = stats.max_depth.filter(|max| stats.unfinished() >= u64::from(*max)) {
        warnings.push(format!("The queue is full: it takes {}.", counted(max.into(), "unfinished job")));
    }
    warnings
}

/// Says that nobody has seen the kind. Workers do not tell which kinds they have handlers for.
async fn unknown_kind(queue: &Queue, kind: &str) -> Result<Option<String>, Failure> {
    if kind.is_empty() {
        return Ok(None);
    }
    let kinds = queue.admin().kinds(job_fields::WEEK).await?;
    let is_known = kinds.iter().any(|row| row.is_other || row.is_partial || row.kind.as_deref() == Some(kind));
    let warning = "No job of this kind waits here or has run here within a week. Check its spelling.";
    Ok((!is_known).then(|| warning.to_owned()))
}
