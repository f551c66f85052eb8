//! Who does what to how many: in the log and in the table `audit`.

use readpast::serde_json::Value;
use readpast::{AuditId, Error, NewAudit, Queue};

use crate::app::App;
use crate::failure::Failure;
use crate::security::visitor::Visitor;

/// The longest name of a visitor that the audit takes, in UTF-16 units. A proxy may send any.
const MAX_NAME: usize = 256;

/// Something that is being done.
pub struct Noted {
    audit: AuditId,
    who: String,
    action: String,
    queue: Queue,
    what: Value,
}

impl Noted {
    /// Before anything is done: where it cannot be noted, it is not done.
    ///
    /// # Errors
    ///
    /// Where the connection's login may not act: [`Failure::NotAllowed`].
    pub async fn begin(
        app: &App,
        visitor: &Visitor,
        action: &str,
        queue: &Queue,
        what: Value,
    ) -> Result<Noted, Failure> {
        if !app.readings.login_may_act().await {
            return Err(Failure::NotAllowed);
        }
        let (who, action) = (cut(&visitor.name), action.to_owned());
        let note = NewAudit::new(who.as_str(), action.as_str()).what(what.clone());
        let audit = queue.begin_audit(&note).await?;
        tracing::info!(who, action, queue = queue.name(), %what, "begun on the page");
        Ok(Noted { audit, who, action, queue: queue.clone(), what })
    }

    /// How it has ended: with so many jobs, or an error, which is passed on; and whether there is more to say.
    pub async fn end(self, done: Result<u64, Error>, outcome: Option<&str>) -> Result<u64, Error> {
        let Noted { audit, who, action, queue, what } = self;
        let error = done.as_ref().err().map(Error::to_string);
        match &done {
            Ok(jobs) => tracing::info!(who, action, queue = queue.name(), %what, jobs, outcome, "done on the page"),
            Err(error) => tracing::warn!(who, action, queue = queue.name(), %what, %error, "failed on the page"),
        }
        let jobs = done.as_ref().ok().copied();
        if let Err(error) = queue.end_audit(audit, jobs, error.as_deref().or(outcome)).await {
            tracing::warn!(who, action, %error, "the end could not be noted in the audit");
        }
        done
    }
}

/// As much of a name as the audit takes.
fn cut(name: &str) -> String {
    let mut units = 0;
    let fits = |c: &char| {
        units += c.len_utf16();
        units <= MAX_NAME
    };
    name.chars().take_while(fits).collect()
}
