//! What the program does to queues and jobs is noted in SQL Server with the user of the operating system, whom the
//! login does not show: before it is done, and how it ended.

use std::env;

use readpast::admin::{AuditId, JobChange, NewAudit};
use readpast::{Error, Queue};

use crate::exit::say;

/// A note of something that is being done.
pub struct Audit {
    queue: Queue,
    id: AuditId,
}

impl Audit {
    /// Notes what is about to be done to a queue. Without the note it is not to be done.
    pub async fn begin(queue: &Queue, note: &NewAudit) -> Result<Audit, Error> {
        let id = queue.admin().begin_audit(note).await?;
        Ok(Audit { queue: queue.clone(), id })
    }

    /// Notes how it ended. Where that is not possible, it has happened all the same.
    pub async fn end(self, jobs: Option<u64>, outcome: Option<&str>) {
        if let Err(error) = self.queue.admin().end_audit(self.id, jobs, outcome).await {
            say(&format!("could not save the outcome in the audit: {error}"));
        }
    }
}

/// Does something to a queue, and notes it. `jobs` tells from the answer how many jobs were changed.
pub async fn noted<T>(
    queue: &Queue,
    note: NewAudit,
    doing: impl Future<Output = Result<T, Error>>,
    jobs: impl FnOnce(&T) -> Option<u64>,
) -> Result<T, Error> {
    let audit = Audit::begin(queue, &note).await?;
    let done = doing.await;
    match &done {
        Ok(answer) => audit.end(jobs(answer), None).await,
        Err(error) => audit.end(None, Some(&error.to_string())).await,
    }
    done
}

/// A note of something that is not done to jobs.
pub fn note(action: &str) -> NewAudit {
    NewAudit::new(user(), action)
}

/// A note of a change of jobs.
pub fn note_of(change: &JobChange) -> NewAudit {
    NewAudit::of(user(), change)
}

/// The user of the operating system, as the environment has it.
fn user() -> String {
    let names = ["SUDO_USER", "LOGNAME", "USER", "USERNAME"];
    let name = names.iter().find_map(|name| env::var(name).ok().filter(|user| !user.is_empty()));
    #[cfg(unix)]
    let name = name.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    #[cfg(not(unix))]
    let name = name.unwrap_or_else(|| "unknown".to_owned());
    name.chars().take(128).collect()
}
