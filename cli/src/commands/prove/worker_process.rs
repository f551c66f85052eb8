//! A worker in a process of its own, for the soak: the hidden command `prove-worker`, and the processes that run it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use readpast::{BoxError, Context, Handlers, Job, Output, Worker};
use tokio::task::JoinSet;

use crate::connection::{self, Common};
use crate::exit::Exit;

use super::ledger::{FOLLOW_UP, LIMITED, Ledger, Line, QUEUES};

/// Short, so that a lost lease is noticed soon.
pub const LEASE: Duration = Duration::from_secs(4);

/// How long a process waits for SQL Server when it starts.
const PATIENCE: Duration = Duration::from_secs(60);

/// One worker per queue of the soak. Stops when its standard input ends, so also when `prove` is gone.
#[derive(Debug, Args)]
pub struct ProveWorker {
    #[arg(long)]
    ledger: PathBuf,
    #[arg(long)]
    number: u32,
}

impl ProveWorker {
    pub async fn run(self, common: &Common) -> Result<Exit> {
        let mut config = common.config()?;
        config.connection.connect_timeout = LEASE;
        config.connection.command_timeout = LEASE;
        config.worker.name = format!("w{}", self.number);
        config.worker.threads = 4;
        config.worker.lease = LEASE;
        config.worker.heartbeat_interval = Duration::from_millis(500);
        config.worker.reap_interval = Duration::from_millis(500);
        config.worker.retry.base = Duration::from_millis(100);
        config.worker.retry.max = Duration::from_millis(100);
        let ledger = Arc::new(Ledger::open(&self.ledger)?);
        let begin = Instant::now();
        // SQL Server may be out of reach on purpose.
        let queue = loop {
            match connection::schema(&config).await {
                Ok(queue) => break queue,
                Err(error) if begin.elapsed() > PATIENCE => return Err(error.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        };
        let (mut stops, mut workers) = (Vec::new(), JoinSet::new());
        for name in QUEUES {
            let (ledger, worker) = (ledger.clone(), self.number);
            let handlers = Handlers::any(move |job, context| work(&ledger, worker, job, context));
            let worker = Worker::builder(&queue.named(name)?, handlers).config(&config.worker).start().await?;
            stops.push(worker.stop_handle());
            workers.spawn(worker.run());
        }
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new()); // an error ends the wait, too
            stops.iter().for_each(readpast::StopHandle::stop);
        });
        while let Some(ended) = workers.join_next().await {
            ended??;
        }
        Ok(Exit::Ok)
    }
}

/// The handler. It notes its start before it does anything, and its end before its worker hears of it.
fn work(ledger: &Ledger, worker: u32, job: &Job, _: &Context) -> Result<Output, BoxError> {
    let text = job.text()?;
    let (number, key) = text.split_once(' ').ok_or("the payload is no number and key")?;
    let number: u64 = number.parse()?;
    let kind = job.kind().unwrap_or(FOLLOW_UP);
    let (id, fence) = (job.id().0, job.fence().0);
    let note = |event| ledger.note(Line { event, kind, job: id, fence, worker, number, key });
    note("start")?;
    match kind {
        LIMITED => std::thread::sleep(Duration::from_millis(20)),
        _ => std::thread::sleep(Duration::from_millis(number % 7)),
    }
    // A tenth of each queue's jobs; a follow-up has number 0.
    if number / QUEUES.len() as u64 % 10 == 7 && job.attempt() == 1 {
        note("failed")?;
        return Err("as it was told".into());
    }
    note("end")?;
    Ok(Output::bytes(format!("{fence}")))
}

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

    pub fn add(&mut self) -> Result<()> {
        self.started += 1;
        let log = File::options().append(true).create(true).open(self.ledger_path.with_extension("log"))?;
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
