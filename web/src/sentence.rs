//! Entries of the audit as sentences: `maria paused prices, because “the disk is full”, 3 min ago`.

use askama::Template;
use readpast::admin::AuditRow;
use readpast::crates::serde_json::{Map, Value};

use crate::acting::job_action::WHY;
use crate::links::link;
use crate::texts::{counted, in_one_direction};
use crate::time::Time;

/// Job ids and other values shown of a list.
const SHOWN_VALUES: usize = 10;

/// Characters shown of a text, which may be a program's own.
const SHOWN_TEXT: usize = 300;

/// The object of an action.
#[derive(Clone, Copy)]
enum Object {
    Queue,
    AllQueues,
    Settings,
    GroupWeight,
    NewJob,
    Jobs,
    Schedule,
    Batch,
    Worker,
    Copy,
}

impl Object {
    /// Whether the number of jobs tells whether anything was changed.
    fn is_of_jobs(self) -> bool {
        matches!(self, Object::NewJob | Object::Jobs | Object::Schedule)
    }
}

/// The actions of the web UI, the CLI and the procedures: infinitive, past tense, object, and what follows it.
const ACTIONS: [(&str, &str, &str, Object, &str); 29] = [
    ("pause", "pause", "paused", Object::Queue, ""),
    ("resume", "resume", "resumed", Object::Queue, ""),
    ("create_queue", "create", "created", Object::Queue, ""),
    ("delete_queue", "delete", "deleted", Object::Queue, ""),
    ("set_queue", "change", "changed", Object::Settings, ""),
    ("set_group_weight", "set", "set", Object::GroupWeight, ""),
    ("pause_all", "pause", "paused", Object::AllQueues, ""),
    ("resume_all", "resume", "resumed", Object::AllQueues, ""),
    ("confirm_copy", "let", "let", Object::Copy, " run its jobs"),
    ("enqueue", "enqueue", "enqueued", Object::NewJob, ""),
    ("requeue", "requeue", "requeued", Object::Jobs, ""),
    ("cancel", "cancel", "cancelled", Object::Jobs, ""),
    ("purge", "delete", "deleted", Object::Jobs, ""),
    ("promote", "make", "made", Object::Jobs, " ready"),
    ("run_again", "enqueue", "enqueued", Object::Jobs, " again"),
    ("skip", "skip", "skipped", Object::Jobs, ""),
    ("set_priority", "give", "gave", Object::Jobs, " priority "),
    ("set_schedule", "set", "set", Object::Schedule, ""),
    ("pause_schedule", "pause", "paused", Object::Schedule, ""),
    ("resume_schedule", "resume", "resumed", Object::Schedule, ""),
    ("run_schedule", "run", "ran", Object::Schedule, ""),
    ("delete_schedule", "delete", "deleted", Object::Schedule, ""),
    ("cancel_batch", "cancel", "cancelled", Object::Batch, ""),
    ("ask_worker", "ask", "asked", Object::Worker, ""),
    ("quiet_worker", "ask", "asked", Object::Worker, ""),
    ("resume_worker", "ask", "asked", Object::Worker, ""),
    ("stop_worker", "ask", "asked", Object::Worker, ""),
    ("set_worker_threads", "ask", "asked", Object::Worker, ""),
    ("debug_worker", "ask", "asked", Object::Worker, ""),
];

#[derive(Template)]
#[template(path = "sentence.html")]
pub struct Sentence {
    who: String,
    parts: Vec<Part>,
    at: Time,
    /// How it failed, or was stopped.
    outcome: Option<String>,
    /// A remark about its end if there is no outcome.
    end: &'static str,
}

/// A part of a sentence.
enum Part {
    Words(String),
    Text(String),
    Link(String, String),
}

/// A sentence being built. Mentioned details are removed from `what`.
struct Draft<'a> {
    row: &'a AuditRow,
    what: Map<String, Value>,
    parts: Vec<Part>,
}

impl Sentence {
    pub fn new(row: &AuditRow) -> Sentence {
        let what = match &row.what {
            Some(Value::Object(what)) => what.clone(),
            Some(other) => Map::from_iter([(String::new(), other.clone())]),
            None => Map::new(),
        };
        let action = ACTIONS.iter().find(|(action, ..)| *action == row.action);
        // Of other actions, such as the end of a queue or a batch, the jobs are not the effect.
        let is_of_jobs = action.is_some_and(|(.., object, _)| object.is_of_jobs());
        let changed_nothing = row.jobs == Some(0) && is_of_jobs && what.get("filter").is_none();
        let mut draft = Draft { row, what, parts: Vec::new() };
        let has_ended_well = row.ended_at.is_some() && (row.outcome.is_none() || row.jobs > Some(0));
        match action {
            Some((_, infinitive, past, object, then)) => {
                draft.words(&match has_ended_well && !changed_nothing {
                    true => format!(" {past} "),
                    false if row.ended_at.is_some() => format!(" tried to {infinitive} "),
                    false => format!(" began to {infinitive} "),
                });
                draft.object(*object);
                draft.words(then);
                if row.action == "set_priority" {
                    draft.named("priority");
                }
            }
            // Another program's.
            None => {
                draft.words(": ");
                draft.text(&row.action.replace('_', " "));
                if row.queue.is_some() {
                    draft.words(", ");
                    draft.queue();
                }
            }
        }
        draft.details();
        let end = match row.ended_at {
            Some(_) if changed_nothing => "; nothing was changed",
            Some(_) => "",
            None => "; in progress, or interrupted",
        };
        let (who, at, outcome) = (foreign(&row.who), Time(row.began_at), row.outcome.as_deref().map(foreign));
        Sentence { who, parts: draft.parts, at, outcome, end }
    }
}

impl Draft<'_> {
    fn words(&mut self, words: &str) {
        self.parts.push(Part::Words(words.to_owned()));
    }

    fn text(&mut self, text: &str) {
        self.parts.push(Part::Text(foreign(text)));
    }

    /// Mentions a detail.
    fn take(&mut self, name: &str) -> Option<String> {
        self.what.remove(name).as_ref().map(words).filter(|text| !text.is_empty())
    }

    fn queue(&mut self) {
        match &self.row.queue {
            Some(name) => {
                let link = link("queue", [("queue", name.as_str())]);
                self.parts.push(Part::Link(foreign(name), link));
            }
            None => self.words("several queues"),
        }
    }

    fn object(&mut self, object: Object) {
        match object {
            Object::Queue => {
                self.queue();
                if self.take("with_jobs").as_deref() == Some("true") {
                    self.words(" with its jobs");
                }
                return;
            }
            Object::AllQueues => return self.words("all queues"),
            Object::Copy => return self.words("this copy of a database"),
            Object::NewJob => {
                self.words("a job in ");
                return self.queue();
            }
            Object::Settings => self.words("the settings"),
            Object::GroupWeight => {
                self.words("the weight of group ");
                self.named("group_key");
            }
            Object::Jobs => self.jobs(),
            Object::Schedule => {
                self.words("schedule ");
                self.named("schedule");
            }
            Object::Batch => {
                self.words("batch ");
                self.named("batch");
            }
            Object::Worker => {
                self.words("worker ");
                self.named("worker");
                self.what.remove("worker_id");
            }
        }
        if self.row.queue.is_some() {
            self.words(" of ");
            self.queue();
        }
        let aim = match object {
            Object::GroupWeight => "weight",
            Object::Worker if self.what.contains_key("asked") => "asked",
            _ => return,
        };
        self.words(" to ");
        self.named(aim);
    }

    /// A detail that should be there.
    fn named(&mut self, name: &str) {
        let text = self.take(name).unwrap_or_else(|| "?".to_owned());
        self.text(&text);
    }

    fn jobs(&mut self) {
        let named = self.what.remove("named").and_then(|named| named.as_u64());
        let ids = self.what.get("jobs").and_then(Value::as_array).map(Vec::as_slice);
        match (ids, &self.row.queue, self.row.jobs.or(named)) {
            (Some([Value::Number(id)]), Some(queue), _) => {
                let id = id.to_string();
                let link = link("job", [("queue", queue.as_str()), ("id", id.as_str())]);
                self.parts.push(Part::Link(format!("job {id}"), link));
                self.what.remove("jobs");
            }
            (_, _, Some(count)) => self.words(&counted(count, "job")),
            (_, _, None) => self.words("jobs"),
        }
    }

    /// The reason, and in brackets what else is known.
    fn details(&mut self) {
        let why = self.take("why").filter(|why| why != WHY);
        let rest = words(&Value::Object(std::mem::take(&mut self.what)));
        if !rest.is_empty() {
            self.words(" (");
            self.text(&rest);
            self.words(")");
        }
        if let Some(why) = why {
            self.words(", because “");
            self.text(&why);
            self.words("”");
        }
    }
}

/// The beginning of others' text. It is isolated as well (`<bdi>`), but an isolate ends at a character of the text that
/// says so.
fn foreign(text: &str) -> String {
    match text.char_indices().nth(SHOWN_TEXT) {
        Some((end, _)) => in_one_direction(&text[..end]) + "…",
        None => in_one_direction(text),
    }
}

/// JSON as text: `dead, error timeout`.
fn words(what: &Value) -> String {
    match what {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let rest = if values.len() > SHOWN_VALUES { ", …" } else { "" };
            values.iter().take(SHOWN_VALUES).map(words).collect::<Vec<_>>().join(", ") + rest
        }
        Value::Object(fields) => {
            let word = |(name, value): (&String, &Value)| match name.as_str() {
                "filter" | "settings" | "state" | "" => words(value),
                name => format!("{} {}", name.replace('_', " "), words(value)),
            };
            let mut fields: Vec<_> = fields.iter().filter(|(_, value)| !value.is_null()).collect();
            fields.sort_by_key(|(name, _)| *name != "state");
            fields.into_iter().map(word).collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}
