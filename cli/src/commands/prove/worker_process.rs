//! A worker in a process of its own, for the soak: the hidden command `prove-worker`.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use readpast::{BoxError, Context, Error, Handlers, Job, Output, Worker};
use tokio::task::JoinSet;

use crate::connection::{self, Common};
use crate::exit::Exit;

use super::ledger::{FOLLOW_UP, GROUPS, LIMITED, Ledger, Line, QUEUES};

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
        config.worker.threads = 8;
        config.worker.lease = LEASE;
        config.worker.heartbeat_interval = Duration::from_millis(500);
        config.worker.reap_interval = Duration::from_millis(500);
        config.worker.retry.base = Duration::from_millis(100);
        config.worker.retry.max = Duration::from_millis(100);
        let ledger = Arc::new(Ledger::open(&self.ledger)?);
        let queue = in_time(async || connection::schema(&config).await).await?;
        let (mut stops, mut workers) = (Vec::new(), JoinSet::new());
        for name in QUEUES {
            let queue = queue.named(name)?;
            let start = async || {
                let (ledger, worker) = (ledger.clone(), self.number);
                let handlers = Handlers::any(move |job, context| work(&ledger, worker, job, context));
                Worker::builder(&queue, handlers).config(&config.worker).start().await
            };
            let worker = in_time(start).await?;
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

/// Tries again while it fails: SQL Server may be out of reach on purpose.
async fn in_time<T>(start: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    let begin = Instant::now();
    loop {
        match start().await {
            Err(_) if begin.elapsed() < PATIENCE => tokio::time::sleep(Duration::from_millis(200)).await,
            result => return result,
        }
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
    // So long that a kill meets running jobs, but short of a lease by far.
    let milliseconds = match kind {
        LIMITED => 15,
        GROUPS => number % 30,
        _ => number % 300,
    };
    std::thread::sleep(Duration::from_millis(milliseconds));
    // A tenth of each queue's jobs; a follow-up has number 0.
    if number / QUEUES.len() as u64 % 10 == 7 && job.attempt() == 1 {
        note("failed")?;
        return Err("as it was told".into());
    }
    note("end")?;
    Ok(Output::bytes(format!("{fence}")))
}
