//! `readpast audit`: who did what.

use anyhow::Result;
use clap::Args;
use readpast::admin::AuditRow;

use crate::connection::Common;
use crate::exit::Exit;
use crate::output::Output;
use crate::texts;

/// Entries per call.
const PAGE: usize = 500;

/// Show who did what to queues and jobs, newest first.
///
/// Includes actions in the web UI, and of scripts that record them. Entries are kept for at least 400 days.
///
/// Role: operator or monitor.
#[derive(Debug, Args)]
pub struct Audit {
    /// Only actions on this queue, even if it has been deleted
    queue: Option<String>,
    /// Maximum number of entries to show
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
}

impl Audit {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let queue = match &self.queue {
            Some(name) => common.queue(name).await?,
            None => common.schema().await?,
        };
        let mut notes: Vec<AuditRow> = Vec::new();
        while notes.len() < self.limit {
            let (before, max) = (notes.last().map(|note| note.audit_id), PAGE.min(self.limit - notes.len()));
            let page = match &self.queue {
                Some(_) => queue.admin().audits(before, max).await?,
                None => queue.admin().all_audits(before, max).await?,
            };
            if page.is_empty() {
                break;
            }
            notes.extend(page);
        }
        output.many(
            &notes,
            "there are no audit entries",
            &["began", "ended", "who", "login", "action", "queue", "jobs", "what", "outcome"],
            &["login", "ended", "what", "outcome", "jobs"],
            |note: &AuditRow| {
                vec![
                    texts::time(note.began_at),
                    texts::or_dash(note.ended_at.map(texts::time)),
                    note.who.clone(),
                    note.login.clone(),
                    note.action.clone(),
                    texts::or_dash(note.queue.as_ref()),
                    texts::or_dash(note.jobs.map(texts::number)),
                    note.what.as_ref().map(|what| what.to_string()).unwrap_or_default(),
                    note.outcome.clone().unwrap_or_default(),
                ]
            },
        )?;
        Ok(Exit::Ok)
    }
}
