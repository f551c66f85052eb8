//! The worker processes of the soak: started, killed, paused and stopped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::connection::Common;

use super::ledger::Ledger;

/// How long a process may take to stop. Its jobs take milliseconds, but SQL Server may be out of reach.
const PATIENCE: Duration = Duration::from_secs(60);

/// The processes. Dropping them kills them.
pub struct Fleet {
    pub ledger: Ledger,
    ledger_path: PathBuf,
    url: String,
    arguments: Vec<String>,
    members: Vec<(u32, Child)>,
    started: u32,
    /// Processes that ended although nobody asked.
    pub failed: Vec<String>,
}

impl Fleet {
    /// Without members. `url` is how they reach SQL Server, and `folder` is for the ledger.
    pub fn new(url: &str, schema: &str, common: &Common, folder: &Path) -> Result<Fleet> {
        let ledger_path = folder.join("ledger");
        let mut arguments = vec!["--schema".to_owned(), schema.to_owned()];
        if let Some(config) = &common.config {
            arguments.extend(["--config".to_owned(), config.display().to_string()]);
        }
        let ledger = Ledger::open(&ledger_path).context("cannot write the ledger")?;
        Ok(Fleet {
            ledger,
            ledger_path,
            url: url.to_owned(),
            arguments,
            members: Vec::new(),
            started: 0,
            failed: Vec::new(),
        })
    }

    pub fn ledger_path(&self) -> &Path {
        &self.ledger_path
    }

    fn log_path(&self) -> PathBuf {
        self.ledger_path.with_extension("log")
    }

    /// The last line that a member wrote to standard error.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        text.lines().last().unwrap_or("nothing").to_owned()
    }

    pub fn add(&mut self) -> Result<()> {
        self.started += 1;
        let log = File::options().append(true).create(true).open(self.log_path())?;
        let child = Command::new(std::env::current_exe()?)
            .args(["prove-worker", "--number", &self.started.to_string(), "--ledger"])
            .arg(&self.ledger_path)
            .args(&self.arguments)
            // Not as an argument: other users of this machine can see those.
            .env("READPAST_URL", &self.url)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start a worker process")?;
        self.members.push((self.started, child));
        Ok(())
    }

    /// Replaces the members that have ended by themselves.
    pub fn replace_failed(&mut self) -> Result<()> {
        for place in (0..self.members.len()).rev() {
            if let Some(status) = self.members[place].1.try_wait()? {
                let (number, _) = self.members.remove(place);
                self.failed.push(format!("w{number}: {status}"));
                self.add()?;
            }
        }
        Ok(())
    }

    /// Kills the oldest member and starts another.
    pub fn kill_one(&mut self) -> Result<()> {
        let (number, mut child) = self.members.remove(0);
        child.kill()?;
        child.wait()?;
        self.ledger.note_process("killed", number)?;
        self.add()
    }

    /// Stops the oldest member for a time, if this system can.
    pub async fn pause_one(&mut self, time: Duration) -> Result<()> {
        let (number, child) = &self.members[0];
        signal(child, true)?;
        self.ledger.note_process("paused", *number)?;
        tokio::time::sleep(time).await;
        signal(child, false)
    }

    /// Asks the oldest member to stop, and starts another at once. Returns the one that stops.
    pub fn stop_one(&mut self) -> Result<Stopping> {
        let (number, mut child) = self.members.remove(0);
        drop(child.stdin.take());
        self.add()?;
        Ok(Stopping(number, child))
    }

    /// Asks all members to stop, and waits for them.
    pub async fn stop(&mut self) -> Result<()> {
        let mut stopping = Vec::new();
        for (number, mut child) in self.members.drain(..) {
            drop(child.stdin.take());
            stopping.push(Stopping(number, child));
        }
        for each in stopping {
            each.ended(&mut self.failed).await?;
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for (_, child) in &mut self.members {
            let _ = child.kill().and_then(|()| child.wait().map(drop)); // it may have ended
        }
    }
}

/// A process that was asked to stop. Dropping it kills it.
pub struct Stopping(u32, Child);

impl Stopping {
    /// Waits for its end, and notes a failure.
    pub async fn ended(mut self, failed: &mut Vec<String>) -> Result<()> {
        let begin = Instant::now();
        loop {
            match self.1.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => failed.push(format!("w{}: {status}", self.0)),
                None if begin.elapsed() > PATIENCE => failed.push(format!("w{}: did not stop", self.0)),
                None => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            }
            return Ok(());
        }
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        let _ = self.1.kill().and_then(|()| self.1.wait().map(drop)); // it may have ended
    }
}

#[cfg(unix)]
fn signal(child: &Child, stops: bool) -> Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let id = Pid::from_raw(child.id() as i32).context("the process has no id")?;
    kill_process(id, if stops { Signal::STOP } else { Signal::CONT })?;
    Ok(())
}

#[cfg(not(unix))]
fn signal(_: &Child, _: bool) -> Result<()> {
    anyhow::bail!("this system cannot stop a process for a while")
}
