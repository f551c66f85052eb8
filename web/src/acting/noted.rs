//! Who does what to how many: in the log and in the table `audit`.

use readpast::admin::{AuditId, JobChange, NewAudit};
use readpast::{Error, Queue};

use crate::app::App;
use crate::failure::Failure;
use crate::security::visitor::Visitor;

/// The longest name of a visitor that the audit takes, in UTF-16 units. A proxy may send any.
const MAX_NAME: usize = 256;

/// Something that is being done.
pub struct Noted {
    audit: AuditId,
    who: String,
    doing: NewAudit,
    queue: Queue,
}

/// A note of something that is not done to jobs.
pub fn note(visitor: &Visitor, action: &str) -> NewAudit {
    NewAudit::new(name(visitor), action)
}

/// A note of a change of jobs.
pub fn note_of(visitor: &Visitor, change: &JobChange) -> NewAudit {
    NewAudit::of(name(visitor), change)
}

impl Noted {
    /// Before anything is done: where it cannot be noted, it is not done.
    ///
    /// # Errors
    ///
    /// Where the connection's login may not act: [`Failure::NotAllowed`].
    pub async fn begin(app: &App, visitor: &Visitor, queue: &Queue, doing: NewAudit) -> Result<Noted, Failure> {
        if !app.readings.login_may_act().await {
            return Err(Failure::NotAllowed);
        }
        let audit = queue.admin().begin_audit(&doing).await?;
        let who = name(visitor);
        tracing::info!(who, %doing, queue = queue.name(), "started on the page");
        Ok(Noted { audit, who, doing, queue: queue.clone() })
    }

    /// How it has ended: well, perhaps with so many jobs, or with an error, which is passed on.
    pub async fn end<T>(self, done: Result<T, Error>, jobs: impl FnOnce(&T) -> Option<u64>) -> Result<T, Error> {
        match &done {
            Ok(answer) => self.end_with(jobs(answer), None).await,
            Err(error) => self.end_with(None, Some(&error.to_string())).await,
        }
        done
    }

    /// How it has ended: with so many jobs, and whether there is more to say.
    pub async fn end_with(self, jobs: Option<u64>, outcome: Option<&str>) {
        let Noted { audit, who, doing, queue } = self;
        tracing::info!(who, %doing, queue = queue.name(), jobs, outcome, "finished on the page");
        if let Err(error) = queue.admin().end_audit(audit, jobs, outcome).await {
            tracing::warn!(who, %doing, %error, "could not save the outcome in the audit");
        }
    }
}

/// As much of a visitor's name as the audit takes.
pub fn name(visitor: &Visitor) -> String {
    let mut units = 0;
    let fits = |c: &char| {
        units += c.len_utf16();
        units <= MAX_NAME
    };
    visitor.name.chars().take_while(fits).collect()
}
