//! The audit: `begin_audit`, `end_audit` and `list_audit`.

use std::fmt;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::connection::{Columns, Session, big, int};
use crate::error::Error;
use crate::id::{AuditId, JobId};
use crate::time::{json_time, json_time_of};

use super::job_changes::JobChange;
use super::job_filter::JobFilter;

/// The longest outcome that is kept, in UTF-16 units.
const MAX_OUTCOME: usize = 400;

/// How many of the named jobs an entry lists, so that its size is bounded.
const MAX_JOBS: usize = 1_000;

/// An audit entry for an action that is about to start ([`Admin::begin_audit`](crate::admin::Admin::begin_audit)).
///
/// ```
/// use readpast::admin::{JobChange, JobFilter, JobState, NewAudit};
/// use serde_json::json;
///
/// let filter = JobFilter::from(JobState::Dead).kind("resize");
/// let requeue = NewAudit::of("maria@example.com", &JobChange::Requeue).filter(&filter);
/// let pause = NewAudit::new("maria@example.com", "pause").what(json!({ "until": "noon" }));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a note does nothing until it is passed to Queue::begin_audit"]
pub struct NewAudit {
    who: String,
    action: String,
    what: Option<Value>,
    pub(crate) of_no_queue: bool,
}

impl NewAudit {
    /// Creates an entry. `who` is the program's name for the person who performs the action: 1 to 256 UTF-16 units.
    /// `action` is one word of 1 to 32 printable ASCII characters without spaces. The program's login is recorded as
    /// well.
    pub fn new(who: impl Into<String>, action: impl Into<String>) -> NewAudit {
        NewAudit { who: who.into(), action: action.into(), what: None, of_no_queue: false }
    }

    /// Creates an entry for a change of jobs, with its [word](JobChange::word), the reason of a cancellation (`why`) or
    /// the new `priority`.
    pub fn of(who: impl Into<String>, change: &JobChange) -> NewAudit {
        let audit = NewAudit::new(who, change.word());
        match change {
            JobChange::Cancel { why } => audit.with("why", why.as_str().into()),
            JobChange::SetPriority(priority) => audit.with("priority", (*priority).into()),
            _ => audit,
        }
    }

    /// Sets the details of the action, such as settings or a schedule: an object or an array, up to 100,000 UTF-16
    /// units as text. Replaces earlier details.
    pub fn what(mut self, what: Value) -> NewAudit {
        self.what = Some(what);
        self
    }

    /// Adds the filter that selects the jobs, as `filter`.
    pub fn filter(self, filter: &JobFilter) -> NewAudit {
        self.with("filter", json!(filter))
    }

    /// Adds the jobs: the first 1,000 as `jobs`, and their number as `named`.
    pub fn jobs(self, jobs: &[JobId]) -> NewAudit {
        let noted = &jobs[..jobs.len().min(MAX_JOBS)];
        self.with("jobs", json!(noted)).with("named", jobs.len().into())
    }

    /// Declares that the action concerns no queue or several queues. The entry then names no queue.
    pub fn of_no_queue(mut self) -> NewAudit {
        self.of_no_queue = true;
        self
    }

    fn with(mut self, name: &str, value: Value) -> NewAudit {
        let mut what = match self.what {
            Some(Value::Object(what)) => what,
            _ => Map::new(),
        };
        what.insert(name.to_owned(), value);
        self.what = Some(Value::Object(what));
        self
    }
}

/// The action and its details: `requeue {"filter":{"state":"dead"}}`.
impl fmt::Display for NewAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.action)?;
        self.what.as_ref().map_or(Ok(()), |what| write!(f, " {what}"))
    }
}

/// An audit entry. All times are SQL Server's.
///
/// Serialized as JSON, times are in RFC 3339 format.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditRow {
    /// The number of the entry.
    pub audit_id: AuditId,
    /// When the entry was made, before the action started.
    #[serde(serialize_with = "json_time_of")]
    pub began_at: SystemTime,
    /// When the action ended, or `None` if it is in progress or was interrupted.
    #[serde(serialize_with = "json_time")]
    pub ended_at: Option<SystemTime>,
    /// Who performed the action, according to the program.
    pub who: String,
    /// The login that the program used, or the database's user in Azure SQL Database.
    pub login: String,
    /// The action.
    pub action: String,
    /// The queue, which may no longer exist, or `None` if the action concerned no queue or several.
    pub queue: Option<String>,
    /// The details of the action, or a text if they are JSON that cannot be parsed here, for example because it is
    /// nested too deeply.
    pub what: Option<Value>,
    /// How many jobs were changed.
    pub jobs: Option<u64>,
    /// How the action failed, or `None` if it succeeded or has not ended.
    pub outcome: Option<String>,
}

impl AuditRow {
    fn read(mut row: Columns) -> Result<AuditRow, Error> {
        Ok(AuditRow {
            audit_id: AuditId(row.required("audit_id")?),
            began_at: row.required_time("began_at")?,
            ended_at: row.optional_time("ended_at")?,
            who: row.required("who")?,
            login: row.required("login")?,
            action: row.required("action")?,
            queue: row.optional("queue")?,
            what: row.optional::<String>("what")?.map(json),
            jobs: row.optional_big_count("jobs")?,
            outcome: row.optional("outcome")?,
        })
    }
}

impl Session {
    pub(crate) async fn begin_audit(&mut self, queue: Option<&str>, audit: &NewAudit) -> Result<AuditId, Error> {
        let what = audit.what.as_ref().map(Value::to_string);
        let mut command = self.command("begin_audit");
        command.bind_param("@who", audit.who.as_str());
        command.bind_param("@action", audit.action.as_str());
        command.bind_param("@queue", queue);
        command.bind_param("@what", what.as_deref());
        command.bind_out_param("@audit_id", 0_i64); // the value gives the parameter its type
        let answer = self.run("begin_audit", command).await?;
        let missing = || Error::Protocol { message: "begin_audit returned no audit_id".to_string() };
        answer.try_return_value("@audit_id").ok().flatten().map(AuditId).ok_or_else(missing)
    }

    pub(crate) async fn end_audit(
        &mut self,
        audit: AuditId,
        jobs: Option<u64>,
        outcome: Option<&str>,
    ) -> Result<(), Error> {
        let mut command = self.command("end_audit");
        command.bind_param("@audit_id", audit.0);
        command.bind_param("@jobs", jobs.map(big));
        command.bind_param("@outcome", outcome.map(|outcome| beginning(outcome, MAX_OUTCOME)));
        self.run("end_audit", command).await?;
        Ok(())
    }

    pub(crate) async fn list_audit(
        &mut self,
        queue: Option<&str>,
        before: Option<AuditId>,
        max: usize,
    ) -> Result<Vec<AuditRow>, Error> {
        let mut command = self.command("list_audit");
        command.bind_param("@queue", queue);
        command.bind_param("@before", before.map(|audit| audit.0));
        command.bind_param("@max", int(max));
        self.rows("list_audit", command).await?.into_iter().map(AuditRow::read).collect()
    }
}

fn json(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// Returns the longest beginning of a text that fits into `max_units` UTF-16 units without splitting a character.
fn beginning(text: &str, max_units: usize) -> &str {
    let mut units = 0;
    let end = text.char_indices().find(|(_, character)| {
        units += character.len_utf16();
        units > max_units
    });
    end.map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_does_not_hide_the_note() {
        assert_eq!(json("{\"jobs\": [7]}".to_owned()), serde_json::json!({ "jobs": [7] }));
        let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
        assert_eq!(json(deep.clone()), Value::String(deep));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(beginning("abc", 3), "abc");
        assert_eq!(beginning("abcd", 3), "abc");
        assert_eq!(beginning("ab😀", 4), "ab😀");
        assert_eq!(beginning("ab😀", 3), "ab");
        assert_eq!(beginning("", 0), "");
    }
}
