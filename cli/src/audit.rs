//! Writes audit entries to SQL Server. Each action is recorded before it runs, and its outcome afterwards. An entry
//! names the operating system's user, because the login does not identify the person.

use std::env;

use readpast::admin::{Admin, AuditId, JobChange, NewAudit};
use readpast::{Error, Queue};

use crate::exit::say;

/// The entry of an action in progress.
pub struct Audit {
    queue: Queue,
    id: AuditId,
}

impl Audit {
    /// Adds the entry. Without it the action must not run.
    pub async fn begin(queue: &Queue, note: &NewAudit) -> Result<Audit, Error> {
        let id = queue.admin().begin_audit(note).await?;
        Ok(Audit { queue: queue.clone(), id })
    }

    /// The handle that the action uses.
    pub fn admin(&self) -> Admin<'_> {
        self.queue.admin().with_audit(self.id)
    }

    /// Adds the outcome. If that fails, only prints a message, because the action has already happened.
    pub async fn end(self, jobs: Option<u64>, outcome: Option<&str>) {
        if let Err(error) = self.queue.admin().end_audit(self.id, jobs, outcome).await {
            say(&format!("could not save the outcome in the audit: {error}"));
        }
    }
}

/// Runs an action with its entry. `jobs` takes the number of changed jobs from the result.
pub async fn noted<'q, T, F>(
    queue: &'q Queue,
    note: NewAudit,
    action: impl FnOnce(Admin<'q>) -> F,
    jobs: impl FnOnce(&T) -> Option<u64>,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let audit = Audit::begin(queue, &note).await?;
    let done = action(queue.admin().with_audit(audit.id)).await;
    match &done {
        Ok(answer) => audit.end(jobs(answer), None).await,
        Err(error) => audit.end(None, Some(&error.to_string())).await,
    }
    done
}

/// The entry of an action on something other than jobs.
pub fn note(action: &str) -> NewAudit {
    NewAudit::new(user(), action)
}

/// The entry of a change of jobs.
pub fn note_of(change: &JobChange) -> NewAudit {
    NewAudit::of(user(), change)
}

/// The operating system's user, as the environment names it.
fn user() -> String {
    let names = ["SUDO_USER", "LOGNAME", "USER", "USERNAME"];
    let name = names.iter().find_map(|name| env::var(name).ok().filter(|user| !user.is_empty()));
    #[cfg(unix)]
    let name = name.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    #[cfg(not(unix))]
    let name = name.unwrap_or_else(|| "unknown".to_owned());
    name.chars().take(128).collect()
}
