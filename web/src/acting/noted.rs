//! Logs and audits each action.

use readpast::admin::{Admin, AuditId, JobChange, NewAudit};
use readpast::{Error, Queue};

use crate::app::App;
use crate::failure::Failure;
use crate::security::visitor::Visitor;

/// The longest visitor name that the audit accepts, in UTF-16 units. A proxy may send any length.
const MAX_NAME: usize = 256;

/// An action in progress.
pub struct Noted {
    audit: AuditId,
    who: String,
    doing: NewAudit,
    queue: Queue,
}

/// The audit entry of an action on something other than jobs.
pub fn note(visitor: &Visitor, action: &str) -> NewAudit {
    NewAudit::new(name(visitor), action)
}

/// The audit entry of a change of jobs.
pub fn note_of(visitor: &Visitor, change: &JobChange) -> NewAudit {
    NewAudit::of(name(visitor), change)
}

impl Noted {
    /// Adds the audit entry. If that fails, the action must not run.
    ///
    /// # Errors
    ///
    /// [`Failure::NotAllowed`] if the visitor or the SQL Server login may not act.
    pub async fn begin(app: &App, visitor: &Visitor, queue: &Queue, doing: NewAudit) -> Result<Noted, Failure> {
        app.must_let_act(visitor).await?;
        let audit = queue.admin().begin_audit(&doing).await?;
        let who = name(visitor);
        tracing::info!(who, %doing, queue = queue.name(), "action started");
        Ok(Noted { audit, who, doing, queue: queue.clone() })
    }

    /// The handle that the action uses.
    pub fn admin(&self) -> Admin<'_> {
        self.queue.admin().with_audit(self.audit)
    }

    /// Adds the outcome to the entry, and returns the result unchanged.
    pub async fn end<T>(self, done: Result<T, Error>, jobs: impl FnOnce(&T) -> Option<u64>) -> Result<T, Error> {
        match &done {
            Ok(answer) => self.end_with(jobs(answer), None).await,
            Err(error) => self.end_with(None, Some(&error.to_string())).await,
        }
        done
    }

    /// Adds the number of changed jobs and a remark to the entry.
    pub async fn end_with(self, jobs: Option<u64>, outcome: Option<&str>) {
        let Noted { audit, who, doing, queue } = self;
        tracing::info!(who, %doing, queue = queue.name(), jobs, outcome, "action finished");
        if let Err(error) = queue.admin().end_audit(audit, jobs, outcome).await {
            tracing::warn!(who, %doing, %error, "could not save the outcome in the audit");
        }
    }
}

/// The visitor's name, cut to the length that the audit accepts.
pub fn name(visitor: &Visitor) -> String {
    let mut units = 0;
    let fits = |c: &char| {
        units += c.len_utf16();
        units <= MAX_NAME
    };
    visitor.name.chars().take_while(fits).collect()
}
