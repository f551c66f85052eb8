//! A worker in a process of its own, for the tests that kill, stop and starve one: `tests/support/child.rs` starts it.
//!
//!     child_worker LEDGER
//!
//! Settings come from the environment (`READPAST_…`). Every start and every end of a run is appended to the ledger, one
//! line by one `write`, so that what stands there has happened, however the process ends. A payload begins with what
//! the handler is to do: a number of microseconds to sleep, `abort`, which ends the process at once, `echo`, which
//! gives the payload back as the output, `leave` with the number of bytes of its output, `fail` or `panic` with a
//! number of attempts, which it does that often before it succeeds, `stick`, which does not end on its first attempt, or
//! `dead`. A payload `row …`, or one that is a JSON object, is noted in a file of its own, LEDGER.rows, when it was
//! handled. Its standard output says `ready` when it claims and, at its end, what it did; the end of its standard input
//! asks it to stop.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::Duration;

use readpast::{BoxError, Config, Handlers, Job, JobError, Output, Queue, Worker};
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("the ledger's path is missing")?;
    let file = OpenOptions::new().append(true).create(true).open(&path)?;
    let config = Config::load(None)?;
    let queue = Queue::connect(&config).await?;
    let rows = OpenOptions::new().append(true).create(true).open(format!("{path}.rows"))?;
    let ledger = Ledger { file, rows, worker: config.worker.name.clone() };
    let worker = Worker::builder(&queue, Handlers::any(move |job, _| work(&ledger, job))).start().await?;
    println!("ready");
    let stop = worker.stop_handle();
    stop.stop_on_signals()?;
    tokio::spawn(async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(_)) = lines.next_line().await {}
        stop.stop();
    });
    let stats = worker.run().await?.stats;
    println!("done={} released={} lost={}", stats.done, stats.released, stats.lost);
    Ok(())
}

struct Ledger {
    file: File,
    /// Rows of adopted tables that were handled.
    rows: File,
    worker: String,
}

impl Ledger {
    fn note(&self, event: &str, job: &Job) -> std::io::Result<()> {
        let line = format!("{event} {} {} {} {}\n", job.id(), job.fence(), job.attempt(), self.worker);
        // One write, and the file is open for appending: lines of several processes do not mix.
        (&self.file).write_all(line.as_bytes())
    }
}

fn work(ledger: &Ledger, job: &Job) -> Result<Option<Output>, BoxError> {
    ledger.note("start", job)?;
    let text = job.text()?;
    match text.split(' ').next().unwrap_or_default() {
        "abort" => std::process::abort(),
        "leave" => {
            let bytes = text.split(' ').nth(1).unwrap_or_default().parse()?;
            ledger.note("end", job)?;
            return Ok(Some(Output::bytes(vec![b' '; bytes])));
        }
        "echo" => {
            ledger.note("end", job)?;
            return Ok(Some(Output::bytes(job.payload())));
        }
        "fail" | "panic" if job.attempt() > text.split(' ').nth(1).unwrap_or_default().parse()? => {}
        "fail" => {
            ledger.note("failed", job)?;
            return Err("as it was told".into());
        }
        "panic" => {
            ledger.note("failed", job)?;
            std::panic::resume_unwind(Box::new("as it was told")); // says nothing on standard error
        }
        "dead" => {
            ledger.note("end", job)?;
            return Err(JobError::dead("as it was told").into());
        }
        "stick" if job.attempt() == 1 => loop {
            std::thread::park();
        },
        "0" | "stick" => {}
        first if first == "row" || first.starts_with('{') => {
            std::thread::sleep(Duration::from_micros(200));
            (&ledger.rows).write_all(format!("{text}\n").as_bytes())?;
        }
        micros => std::thread::sleep(Duration::from_micros(micros.parse()?)),
    }
    ledger.note("end", job)?;
    Ok(None)
}
