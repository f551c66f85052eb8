//! What running jobs report: read once per second for each attempt, for all browsers that show it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::JobState;
use readpast::{Fence, JobId, Queue};
use tokio::sync::watch;

use crate::app::App;
use crate::failure::Failure;
use crate::pages::job::Live;
use crate::render;

/// How often an attempt is read.
const INTERVAL: Duration = Duration::from_secs(1);

/// A run of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Attempt {
    queue: String,
    job: JobId,
    fence: Fence,
}

/// The attempts that browsers show. A reader without browsers ends at its next turn.
#[derive(Default)]
pub struct RunningJobs {
    read: Mutex<HashMap<Attempt, watch::Receiver<Option<Arc<str>>>>>,
    /// All readers take turns, so they hold at most one of the connections for pages.
    turn: tokio::sync::Mutex<()>,
}

/// Reads one attempt.
struct Reader {
    app: App,
    queue: Queue,
    attempt: Attempt,
    /// What was last sent. Nothing is sent if only ages change, because the script updates them.
    sent: Option<Live>,
    /// The last reading found no row of the job.
    has_missed: bool,
    html: watch::Sender<Option<Arc<str>>>,
}

/// Receives the HTML of an attempt, the latest first. Ends with the attempt, or when SQL Server cannot be read.
pub fn listen(app: &App, queue: Queue, job: JobId, fence: Fence) -> watch::Receiver<Option<Arc<str>>> {
    let attempt = Attempt { queue: queue.name().to_owned(), job, fence };
    let mut read = app.running_jobs.read.lock();
    // A reader also ends with its runtime.
    if let Some(html) = read.get(&attempt).filter(|html| html.has_changed().is_ok()) {
        return html.clone();
    }
    let (html, receiver) = watch::channel(None);
    read.insert(attempt.clone(), receiver.clone());
    tokio::spawn(Reader { app: app.clone(), queue, attempt, sent: None, has_missed: false, html }.read());
    receiver
}

impl Reader {
    async fn read(mut self) {
        let app = self.app.clone();
        loop {
            let goes_on = {
                let _alone = app.running_jobs.turn.lock().await;
                if self.ends_alone() {
                    return;
                }
                match app.connections.of_page().await {
                    Ok(_turn) => self.read_once().await.unwrap_or_else(|failure| {
                        tracing::debug!(?failure, job = %self.attempt.job, "a running job could not be read");
                        false
                    }),
                    // Pages are slow. The browsers keep what they have.
                    Err(_) => true,
                }
            };
            // Waits at the end, too, so that browsers that reconnect cause at most one reading per second.
            tokio::time::sleep(INTERVAL).await;
            if !goes_on {
                app.running_jobs.read.lock().remove(&self.attempt);
                return;
            }
        }
    }

    /// Whether no browser shows the attempt any more. The next one then gets a new reader.
    fn ends_alone(&self) -> bool {
        let mut read = self.app.running_jobs.read.lock();
        let is_alone = self.html.receiver_count() == 1;
        if is_alone {
            read.remove(&self.attempt);
        }
        is_alone
    }

    /// Reads the attempt, sends its HTML if it has changed, and returns whether it still runs.
    async fn read_once(&mut self) -> Result<bool, Failure> {
        let (admin, Attempt { job, fence, .. }) = (self.queue.admin(), &self.attempt);
        let mut logs = admin.logs(*job, 1).await?;
        logs.retain(|log| log.is_running && log.fence == *fence);
        let has_missed = std::mem::take(&mut self.has_missed);
        // Not every attempt has a log.
        let is_over = match logs.is_empty() {
            true => match admin.job(*job, Some(0)).await? {
                Some(row) => row.state != JobState::Claimed || row.fence != *fence,
                // It is deleted, or locked at the moment.
                None => {
                    self.has_missed = true;
                    has_missed
                }
            },
            false => false,
        };
        let progress = admin.progress_of(&[*job]).await?;
        let live = Live::new(progress.first(), logs.pop(), is_over);
        let is_news = match &self.sent {
            _ if is_over => true,
            // Readings leave out a log that is being written.
            Some(sent) if sent.has_log() && !live.has_log() => false,
            Some(sent) => !sent.says_the_same(&live),
            None => !self.has_missed,
        };
        if is_news {
            self.html.send_replace(Some(render::part(&live).ok_or(Failure::Internal)?));
            self.sent = Some(live);
        }
        Ok(!is_over)
    }
}
