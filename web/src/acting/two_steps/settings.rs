//! The settings of a queue.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use readpast::admin::{QueueOptions, QueueStats};
use readpast::crates::serde_json::json;
use readpast::{Error, Queue};

use super::form::{Change, CheckPage, Field, FormPage, Group, Input, typed_fields};
use super::setting::{self, Setting};
use super::typed::{Step, Typed};
use crate::acting::act::to_its_end;
use crate::acting::noted::{Noted, note};
use crate::app::App;
use crate::counts::MOST;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::links::{link, see_other};
use crate::security::forms::Form;
use crate::security::visitor::Visitor;
use crate::texts::counted;

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let fields = Fields::of(&uri);
    let name = fields.required("queue")?;
    let frame = frame(&app, visitor, name).await?;
    let stats = app.queue(name).await?.admin().stats(Some(1)).await?;
    let mut now = vec![("queue".to_owned(), name.to_owned())];
    now.extend(setting::all().map(|setting| (setting.name.to_owned(), (setting.now)(&stats))));
    form(&app, frame, &Typed::new(now.into_iter().collect()), &stats).await
}

async fn frame(app: &App, visitor: Visitor, queue: &str) -> Result<Frame, Failure> {
    Frame::to_act(app, visitor, "overview", format!("Settings of {queue}")).await
}

/// All settings as they are. A form that was made of others is out of date.
fn seen(stats: &QueueStats) -> String {
    setting::all().map(|setting| (setting.now)(stats)).collect::<Vec<_>>().join("\n")
}

async fn form(app: &App, frame: Frame, typed: &Typed, stats: &QueueStats) -> Result<Response, Failure> {
    let reading = app.all_queues().await?;
    let others = reading.queues.iter().map(|line| line.activity.stats.queue.clone());
    let others: Vec<String> = others.filter(|name| *name != stats.queue).collect();
    let groups = setting::GROUPS.map(|(title, settings)| {
        let fields = settings.iter().map(|setting| field(setting, typed, stats, &others));
        Group::open(title, fields.collect())
    });
    let mut hidden = typed_fields(typed, &["queue"]);
    hidden.push(("seen", seen(stats)));
    Ok(FormPage {
        frame,
        action: "set_queue",
        lead: "What you change is shown once more before it is done.".to_owned(),
        hidden,
        groups: groups.into(),
        back: link("queue", [("queue", stats.queue.as_str())]),
        typed,
    }
    .response())
}

fn field(setting: &Setting, typed: &Typed, stats: &QueueStats, others: &[String]) -> Field {
    let choices = || setting.words.iter().map(|word| ((*word).to_owned(), (*word).to_owned())).collect();
    let input = match setting.name {
        "dead_queue" => Input::Suggested(others.to_vec()),
        _ if setting.words.is_empty() => Input::Line,
        _ => Input::Choice(choices()),
    };
    let now = (setting.now)(stats);
    let mark = match () {
        () if now != typed.text(setting.name) => Some(format!("now: {now}")),
        () if now != setting.default => Some(format!("default: {}", setting.default)),
        () => None,
    };
    Field { mark, ..Field::new(setting.name, setting.label, setting.hint, input) }
}

pub async fn send(State(app): State<App>, form: Form) -> Result<Response, Failure> {
    to_its_end(app, form, step).await
}

async fn step(app: App, sent: Form) -> Result<Response, Failure> {
    let Form { visitor, fields } = sent;
    let mut typed = Typed::new(fields);
    let name = typed.text("queue").to_owned();
    let frame = frame(&app, visitor.clone(), &name).await?;
    let _turn = app.connections.of_page().await?;
    let queue = app.queue(&name).await?;
    let stats = queue.admin().stats(Some(MOST)).await?;
    if typed.step() == Step::Back {
        return form(&app, frame, &typed, &stats).await;
    }
    if typed.lines("seen") != seen(&stats) {
        typed.say(
            "",
            "Somebody has changed these settings meanwhile. Nothing was done: compare what is marked, and go on.",
        );
    }
    let (options, changes) = read(&mut typed, &stats);
    if typed.is_right() && changes.is_empty() {
        typed.say("", "Nothing is changed.");
    }
    if !typed.is_right() {
        return form(&app, frame, &typed, &stats).await;
    }
    if typed.step() == Step::Check {
        return Ok(check(frame, &stats, &typed, changes));
    }
    match set(&app, &visitor, &queue, options).await {
        Ok(()) => {
            let said: Vec<String> =
                changes.iter().map(|change| format!("{} {} → {}", change.name, change.old, change.new)).collect();
            app.sessions.say(&visitor.session, format!("Settings of {name} are changed: {}.", said.join(", ")));
            Ok(see_other(&link("queue", [("queue", name.as_str())])))
        }
        Err(failure) => {
            let said = failure.into_text();
            // SQL Server's sentence begins with the setting.
            let of = setting::all().find(|setting| said.starts_with(setting.name));
            typed.say(of.map_or("", |setting| setting.name), said);
            form(&app, frame, &typed, &stats).await
        }
    }
}

/// The settings that were changed, for the library and for the second step.
fn read(typed: &mut Typed, stats: &QueueStats) -> (QueueOptions, Vec<Change>) {
    let (mut options, mut changes) = (QueueOptions::default(), Vec::new());
    for setting in setting::all() {
        let (old, new) = ((setting.now)(stats), typed.text(setting.name).trim().to_owned());
        if old == new {
            continue;
        }
        match (setting.set)(options.clone(), &new) {
            Ok(with) => options = with,
            Err(what) => typed.say(setting.name, what),
        }
        changes.push(Change { name: setting.label, old, new, effect: setting.effect });
    }
    (options, changes)
}

async fn set(app: &App, visitor: &Visitor, queue: &Queue, options: QueueOptions) -> Result<(), Failure> {
    let what = json!({ "settings": options });
    let noted = Noted::begin(app, visitor, queue, note(visitor, "set_queue").what(what)).await?;
    let set: Result<bool, Error> = noted.admin().create(options).await;
    noted.end(set, |_| None).await?;
    Ok(())
}

fn check(frame: Frame, stats: &QueueStats, typed: &Typed, changes: Vec<Change>) -> Response {
    let more = |jobs: u64| if jobs >= MOST { "+" } else { "" };
    let (unfinished, claimed) = (stats.unfinished(), stats.claimed);
    let has = format!(
        "Queue {} has {}{}; {claimed}{} of them claimed.",
        stats.queue,
        counted(unfinished, "unfinished job"),
        more(unfinished),
        more(claimed)
    );
    let mut names: Vec<&str> = setting::all().map(|setting| setting.name).collect();
    names.extend(["queue", "seen"]);
    let changed = |name: &str| {
        typed.text(name) != "forever"
            && setting::all().any(|setting| setting.name == name && (setting.now)(stats) != typed.text(name))
    };
    let mut warnings = Vec::new();
    for (name, jobs) in [("keep_done", "Done"), ("keep_dead", "Dead and cancelled")] {
        if changed(name) {
            let time = typed.text(name);
            warnings.push(format!(
                "{jobs} jobs that ended more than {time} ago will be deleted, and cannot be brought back."
            ));
        }
    }
    CheckPage {
        frame,
        action: "set_queue",
        label: "Change the settings",
        will_be: vec![has],
        warnings,
        facts: Vec::new(),
        changes,
        payload: None,
        times: None,
        hidden: typed_fields(typed, &names),
    }
    .response()
}
