//! A new schedule, or an existing one changed.

use std::time::SystemTime;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use readpast::admin::{Schedule, ScheduleRow};
use readpast::crates::serde_json::json;
use readpast::{NewJob, Queue};

use super::form::{Change, CheckPage, Field, FormPage, Group, Input, Times, typed_facts, typed_fields};
use super::job_fields;
use super::typed::{Step, Typed, whole};
use crate::acting::act::to_its_end;
use crate::acting::noted::{Noted, note};
use crate::app::App;
use crate::attention;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::links::see_other;
use crate::payload_view::View;
use crate::security::forms::Form;
use crate::security::visitor::Visitor;
use crate::texts;

/// The times of the preview.
const TIMES: usize = 10;

/// The fields beside those of [`job_fields`]. `change` is there if the schedule exists.
const FIELDS: [&str; 9] = ["change", "copyable", "queue", "name", "cron", "time_zone", "make_up", "jitter", "key"];

/// The labels of those that the second step repeats or compares.
const LABELS: [(&str, &str); 6] = [
    ("cron", "Times"),
    ("time_zone", "Time zone"),
    ("make_up", "Make up"),
    ("jitter", "Jitter"),
    ("key", "Key"),
    ("payload", "Payload"),
];

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let fields = Fields::of(&uri);
    let typed = match fields.get("schedule") {
        Some(name) => {
            let queue = app.queue(fields.required("queue")?).await?;
            as_it_is(&find(&queue, name).await?, &queue, app.options.hide_payloads)
        }
        None => Typed::new(fields),
    };
    form(&app, frame(&app, visitor, &typed).await?, &typed).await
}

async fn frame(app: &App, visitor: Visitor, typed: &Typed) -> Result<Frame, Failure> {
    let title = match typed.is_empty("change") {
        true => "New schedule".to_owned(),
        false => format!("Change schedule {}", typed.text("name")),
    };
    Frame::to_act(app, visitor, "schedules", title).await
}

/// The schedule of this name.
pub async fn find(queue: &Queue, name: &str) -> Result<ScheduleRow, Failure> {
    let found = queue.admin().schedules().await?.into_iter().find(|schedule| schedule.name == name);
    found.ok_or_else(|| Failure::NotFound(format!("Queue '{}' has no schedule '{name}'.", queue.name())))
}

/// The fields of an existing schedule.
fn as_it_is(row: &ScheduleRow, queue: &Queue, hides_payloads: bool) -> Typed {
    let priority = (row.priority != 0).then(|| row.priority.to_string());
    let payload = (!hides_payloads).then(|| text_of(row)).flatten().filter(|text| job_fields::fits(text));
    let fields = [
        ("change", Some("yes".to_owned())),
        ("queue", Some(queue.name().to_owned())),
        ("name", Some(row.name.clone())),
        ("cron", Some(row.cron.clone())),
        ("time_zone", Some(row.time_zone.clone())),
        ("make_up", Some(row.make_up.to_string())),
        ("jitter", (!row.jitter.is_zero()).then(|| texts::exact(row.jitter))),
        ("key", row.dedup_key.clone()),
        ("kind", row.kind.clone()),
        ("copyable", payload.is_none().then(|| "yes".to_owned())),
        ("copy", payload.is_none().then(|| "yes".to_owned())),
        ("payload", payload),
        ("group", row.group_key.clone()),
        ("priority", priority),
        ("start_within", row.start_within.map(texts::exact)),
        ("attempts", row.max_attempts.map(|attempts| attempts.to_string())),
        ("time_limit", row.time_limit.map(texts::exact)),
        ("headers", job_fields::header_lines(row.headers.as_ref())),
    ];
    Typed::new(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

/// The payload, if it is text. One that was set in T-SQL is in UTF-16.
fn text_of(row: &ScheduleRow) -> Option<String> {
    if !row.payload_utf16 {
        return String::from_utf8(row.payload.clone()).ok();
    }
    let units = row.payload.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    char::decode_utf16(units).collect::<Result<_, _>>().ok()
}

async fn form(app: &App, frame: Frame, typed: &Typed) -> Result<Response, Failure> {
    let is_new = typed.is_empty("change");
    let line = |name, label, hint| Field::new(name, label, hint, Input::Line);
    let mut when = Vec::new();
    if is_new {
        let reading = app.all_queues().await?;
        let queues = reading.queues.iter().map(|line| line.activity.stats.queue.clone());
        let queues = queues.map(|name| (name.clone(), name)).collect();
        when.push(Field::new("queue", "Queue", "", Input::Choice(queues)));
        when.push(line("name", "Name", "").required());
    }
    let cron = "Minute, hour, day of month, month, day of week, as in 30 2 * * MON-FRI. With six fields, the first is \
                the second. Or @yearly, @monthly, @weekly, @daily, @hourly.";
    when.extend([
        line("cron", "Times", cron).required(),
        line("time_zone", "Time zone", "A name of the IANA database, such as Europe/Berlin. Empty: UTC."),
        line("make_up", "Make up", "How many of the last missed times are made up for, 0 to 1000. Empty: 1."),
        line("jitter", "Jitter", "Each job is delayed at random by up to this, such as 10m. Empty: none."),
    ]);
    let queue = match typed.text("queue") {
        "" => None,
        name => Some(app.queue(name).await?),
    };
    let copied = (!typed.is_empty("copyable")).then(|| ("yes".to_owned(), "The payload that it has".to_owned()));
    let mut what = job_fields::what(queue.as_ref(), copied).await?;
    what.push(line("key", "Key", "No job is added while the last one is unfinished. Empty: each has its own key."));
    Ok(FormPage {
        frame,
        action: "set_schedule",
        lead: if is_new { String::new() } else { format!("It is a schedule of queue {}.", typed.text("queue")) },
        hidden: if is_new { Vec::new() } else { typed_fields(typed, &["change", "copyable", "queue", "name"]) },
        groups: vec![
            Group::open("When", when),
            Group::open("Its jobs", what),
            Group::folded("More about its jobs", job_fields::more(), typed),
        ],
        back: "schedules".to_owned(),
        typed,
    }
    .response())
}

pub async fn send(State(app): State<App>, form: Form) -> Result<Response, Failure> {
    to_its_end(app, form, step).await
}

async fn step(app: App, sent: Form) -> Result<Response, Failure> {
    let Form { visitor, fields } = sent;
    let mut typed = Typed::new(fields);
    let frame = frame(&app, visitor.clone(), &typed).await?;
    let _turn = app.connections.of_page().await?;
    if typed.step() == Step::Back {
        return form(&app, frame, &typed).await;
    }
    let queue = app.queue(typed.text("queue")).await?;
    let before = match typed.is_empty("change") {
        true => None,
        false => Some(find(&queue, typed.text("name")).await?),
    };
    if before.is_none() && find(&queue, typed.text("name")).await.is_ok() {
        typed.say(
            "name",
            format!("queue {} has a schedule of this name; change that one, or name it otherwise", queue.name()),
        );
    }
    let schedule = read(&mut typed, before.as_ref());
    // Another handler might show it, for example in an error.
    let moves = before.as_ref().is_some_and(|before| before.kind.as_deref().unwrap_or_default() != typed.text("kind"));
    if app.options.hide_payloads && moves && !typed.is_empty("copy") {
        typed.say("kind", job_fields::STAYS.to_owned());
    }
    let times = schedule.next_times(attention::now(), TIMES);
    if let Err(error) = times.as_ref().map_err(ToString::to_string)
        && typed.is_right()
    {
        typed.say("", error);
    }
    let (true, Ok(times)) = (typed.is_right(), times) else { return form(&app, frame, &typed).await };
    if typed.step() == Step::Check {
        return check(&app, frame, &queue, &typed, before.as_ref(), &times).await;
    }
    match set(&app, &visitor, &queue, &typed, &schedule).await {
        Ok(is_new) => {
            let past = if is_new { "set" } else { "changed" };
            app.sessions.say(&visitor.session, format!("Schedule {} is {past}.", typed.text("name")));
            Ok(see_other("schedules"))
        }
        Err(failure) => {
            typed.say("", failure.into_text());
            form(&app, frame, &typed).await
        }
    }
}

fn zone(typed: &Typed) -> &str {
    match typed.text("time_zone").trim() {
        "" => "UTC",
        zone => zone,
    }
}

/// The schedule as it was typed. What the form does not ask for stays as it was.
fn read(typed: &mut Typed, before: Option<&ScheduleRow>) -> Schedule {
    let daily = || Schedule::new("x", "@daily", NewJob::text(""));
    let (name, cron) = (typed.text("name").to_owned(), typed.text("cron").trim().to_owned());
    let zone = zone(typed).to_owned();
    for (field, alone) in [
        ("name", Schedule::new(&name, "@daily", NewJob::text(""))),
        ("cron", Schedule::new("x", &cron, NewJob::text(""))),
        ("time_zone", daily().time_zone(&zone)),
    ] {
        typed.must(field, must_be_right(&alone));
    }
    let make_up = typed.read("make_up", |text| {
        let times = whole(text, "0 to 1000")?;
        must_be_right(&daily().make_up(times)).map(|()| times)
    });
    let jitter = typed.read("jitter", |text| {
        let jitter = texts::read_duration(text)?;
        must_be_right(&daily().jitter(jitter)).map(|()| jitter)
    });
    let payload = job_fields::payload(typed).into_bytes();
    let payload = match before.filter(|_| !typed.is_empty("copy")) {
        Some(before) if before.payload_utf16 => text_of(before).map_or(before.payload.clone(), String::into_bytes),
        Some(before) => before.payload.clone(),
        None => payload,
    };
    let mut job = job_fields::attributes(typed, NewJob::bytes(payload));
    if let Some(needs) = before.and_then(|before| before.needs.clone()) {
        job = job.needs(needs);
    }
    if let Some(id) = before.and_then(|before| before.correlation_id) {
        job = job.correlation_id(id);
    }
    Schedule::new(name, cron, job).time_zone(zone).make_up(make_up.unwrap_or(1)).jitter(jitter.unwrap_or_default())
}

/// What `readpast schedule set` prints.
fn must_be_right(schedule: &Schedule) -> Result<(), String> {
    schedule.next_times(SystemTime::UNIX_EPOCH, 0).map(|_| ()).map_err(|error| error.to_string())
}

async fn set(app: &App, visitor: &Visitor, queue: &Queue, typed: &Typed, schedule: &Schedule) -> Result<bool, Failure> {
    let mut what = json!({ "schedule": typed.text("name"), "cron": typed.text("cron"), "time_zone": zone(typed) });
    for name in
        ["kind", "key", "group", "priority", "attempts", "time_limit", "start_within", "jitter", "make_up", "copy"]
    {
        if !typed.is_empty(name) {
            what[name] = typed.text(name).into();
        }
    }
    let noted = Noted::begin(app, visitor, queue, note(visitor, "set_schedule").what(what)).await?;
    let done = noted.admin().set_schedule(schedule).await;
    Ok(noted.end(done, |_| None).await?)
}

async fn check(
    app: &App,
    frame: Frame,
    queue: &Queue,
    typed: &Typed,
    before: Option<&ScheduleRow>,
    times: &[SystemTime],
) -> Result<Response, Failure> {
    let name = typed.text("name");
    let stats = queue.admin().stats(Some(1)).await?;
    let mut will_be = Vec::new();
    let mut changes = Vec::new();
    let mut warnings = Vec::new();
    match before {
        None => will_be.push(format!("Queue {} gets the schedule {name}.", queue.name())),
        Some(before) => {
            changes = differences(&as_it_is(before, queue, app.options.hide_payloads), typed);
            will_be.push(match changes.is_empty() {
                true => "Nothing changes.".to_owned(),
                false => "From its next time on, it is as changed here. Jobs that it has enqueued stay.".to_owned(),
            });
            let others = before.headers.iter().flatten().filter(|(_, value)| !value.is_string());
            warnings.extend(others.map(|(name, _)| format!("The header {name} is not text, and is lost.")));
        }
    }
    if before.is_some_and(|before| before.paused) {
        will_be.push("It stays paused.".to_owned());
    }
    if stats.workers == 0 {
        warnings.push("No worker of this queue runs: the schedule enqueues nothing until one starts.".to_owned());
    }
    let payload = typed.lines("payload");
    warnings.extend(job_fields::broken_json(&payload));
    Ok(CheckPage {
        frame,
        action: "set_schedule",
        label: "Set the schedule",
        will_be,
        warnings,
        facts: match before {
            None => typed_facts(typed, &[&LABELS[..5], &job_fields::LABELS[..]].concat()),
            Some(_) => Vec::new(),
        },
        changes,
        payload: typed.is_empty("copy").then(|| View::new(payload.as_bytes(), Some(&payload), payload.len() as u64)),
        times: Some(in_zone(times, zone(typed))),
        hidden: typed_fields(typed, &[&FIELDS[..], &job_fields::NAMES].concat()),
    }
    .response())
}

fn differences(before: &Typed, typed: &Typed) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, label) in LABELS.into_iter().chain(job_fields::LABELS) {
        let (old, new) = (before.lines(name), typed.lines(name));
        let other_payload = name == "payload" && before.is_empty("copy") != typed.is_empty("copy");
        if old != new || other_payload {
            let shown = |text: String, of: &Typed| match name {
                "payload" if !of.is_empty("copy") => "as it is".to_owned(),
                "payload" => texts::bytes(text.len() as u64),
                _ if text.is_empty() => "–".to_owned(),
                _ => text,
            };
            changes.push(Change { name: label, old: shown(old, before), new: shown(new, typed), effect: "" });
        }
    }
    changes
}

/// The times by the clocks of the zone and by UTC, with what the clocks do between them.
fn in_zone(times: &[SystemTime], name: &str) -> Times {
    let zone = TimeZone::get(name).unwrap_or(TimeZone::UTC);
    let offset = |time: SystemTime| Timestamp::try_from(time).ok().map(|time| zone.to_offset(time).seconds());
    let mut last = offset(attention::now());
    let mut rows = Vec::new();
    for time in times {
        let Ok(at) = Timestamp::try_from(*time) else { continue };
        let now = offset(*time);
        let moved = now.zip(last).map_or(0, |(now, last)| now - last);
        last = now;
        let by = || texts::exact(std::time::Duration::from_secs(moved.unsigned_abs().into()));
        let clocks = match moved {
            0 => String::new(),
            1.. => format!("after they go forward by {}", by()),
            _ => format!("after they go back by {}", by()),
        };
        let local = at.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S").to_string();
        rows.push((local, at.strftime("%a %Y-%m-%d %H:%M:%S").to_string(), clocks));
    }
    Times { zone: name.to_owned(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_say_when_clocks_are_changed() {
        let at = |text: &str| SystemTime::from(text.parse::<Timestamp>().unwrap());
        let times = [at("2099-03-28T02:00:00Z"), at("2099-03-29T02:00:00Z"), at("2099-10-25T02:00:00Z")];
        let rows = in_zone(&times, "Europe/Berlin").rows;
        assert_eq!(rows[0].0, "Sat 2099-03-28 03:00:00");
        let (local, utc, clocks) = &rows[1];
        assert_eq!((&**local, &**utc), ("Sun 2099-03-29 04:00:00", "Sun 2099-03-29 02:00:00"));
        assert_eq!(clocks, "after they go forward by 1h");
        assert_eq!(rows[2].2, "after they go back by 1h");
    }
}
