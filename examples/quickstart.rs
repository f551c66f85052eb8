//! The main job on real input: one job for every file of a folder, worked off on every core.
//!
//!     cargo run --example quickstart                      # this checkout
//!     cargo run --example quickstart -- DIR               # any folder
//!     cargo run --example quickstart -- --every 5 DIR     # again every five seconds, until Ctrl-C: something to watch
//!
//! Starts the dev server unless READPAST_URL names a SQL Server. Enqueues one job for each file, computes the SHA-256
//! and the best-level DEFLATE size of its content, stores both as the job's output, and reads them back from the
//! database. Ctrl-C stops in order, twice at once. Exits 0 only when every file is accounted for.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use indicatif::{ProgressBar, ProgressStyle};
use readpast::admin::{CompletionPolicy, JobChange, JobFilter, JobState, QueueOptions};
use readpast::{BoxError, Config, Context, Handlers, Json, NewJob, Queue, TypedJob, Worker};
use readpast_devserver::DevServer;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The payload of a job.
#[derive(Serialize, Deserialize)]
struct FileJob {
    path: PathBuf,
}

/// Its output.
#[derive(Serialize, Deserialize)]
struct FileFacts {
    path: PathBuf,
    bytes: u64,
    sha256: String,
    deflated: u64,
}

impl TypedJob for FileJob {
    const KIND: &'static str = "file";

    type Output = Json<FileFacts>;

    fn run(self, _context: &Context) -> Result<Json<FileFacts>, BoxError> {
        let content = std::fs::read(&self.path)?;
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
        deflate.write_all(&content)?;
        let deflated = deflate.finish()?.len() as u64;
        let sha256 = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Json(FileFacts { path: self.path, bytes: content.len() as u64, sha256, deflated }))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let (folder, every) = arguments()?;
    let files = list_files(&folder)?;
    let mut config = Config::load(None)?;
    // Kept until the end: the dev server stops when it is dropped.
    let dev_server = if config.connection.url.is_empty() { Some(DevServer::start().await?) } else { None };
    if let Some(server) = &dev_server {
        println!("server: the built-in dev server (set READPAST_URL to use a SQL Server)");
        config.connection.url = server.connection_string().into();
    }
    config.queue.name = "quickstart".into();
    config.worker.retry.base = Duration::from_millis(100);

    let queue = Queue::connect(&config).await?;
    queue.admin().install().await?;
    queue.admin().create(QueueOptions::default().completion(CompletionPolicy::Annotate).max_attempts(3)).await?;
    for state in [JobState::Ready, JobState::Scheduled, JobState::Done, JobState::Dead] {
        queue.admin().change(&JobChange::Purge, state).await?; // of the last run
    }

    let started = Instant::now();
    enqueue(&queue, &files).await?;
    println!("enqueued {} jobs in {:.2} s", files.len(), started.elapsed().as_secs_f64());

    let worker = Worker::builder(&queue, Handlers::new().job::<FileJob>()).start().await?;
    worker.stop_handle().stop_on_signals()?;
    if let Some(pause) = every {
        tokio::spawn(keep_enqueueing(queue.clone(), files, pause));
        worker.run().await?;
        return Ok(ExitCode::SUCCESS);
    }
    let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template("{wide_bar} {msg}")?);
    let interval = Duration::from_millis(if bar.is_hidden() { 1_000 } else { 100 }); // hidden: this is no terminal
    let summary = worker.drain_with(interval, |progress| {
        bar.set_length(progress.finished + progress.unfinished.unwrap_or_default());
        bar.set_position(progress.finished);
        bar.set_message(progress.to_string());
        if bar.is_hidden() {
            println!("{progress}");
        }
    });
    let summary = summary.await?;
    bar.finish_and_clear();

    let outputs = read_back(&queue).await?;
    print_table(&outputs, &folder);
    for job in queue.admin().list(&JobState::Dead.into(), None, 10).await?.jobs {
        println!("dead: job {} after {} attempts: {}", job.job_id, job.attempt, job.error.unwrap_or_default());
    }
    let stats = queue.admin().stats(None).await?;
    let unfinished = stats.ready + stats.scheduled + stats.claimed;
    if unfinished > 0 {
        println!("{unfinished} jobs are not finished: the run was stopped");
    }
    let lost = (files.len() as u64).saturating_sub(stats.done + stats.dead + unfinished);
    let (retried, seconds) = (summary.stats.retried, summary.elapsed.as_secs_f64());
    let rate = summary.stats.done as f64 / seconds;
    println!(
        "done={} retried={retried} dead={} lost={lost} seconds={seconds:.2} jobs_per_second={rate:.0}",
        stats.done, stats.dead
    );
    let all_accounted = lost == 0 && unfinished == 0 && outputs.len() as u64 == stats.done;
    Ok(if all_accounted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The folder, and how often.
fn arguments() -> anyhow::Result<(PathBuf, Option<Duration>)> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let mut every = None;
    if arguments.next_if(|argument| argument == "--every").is_some() {
        let seconds = arguments.next().and_then(|seconds| seconds.to_str()?.parse::<u16>().ok());
        let seconds = seconds.context("--every wants a number of seconds, such as --every 5")?;
        every = Some(Duration::from_secs(seconds.into()));
    }
    Ok((arguments.next().unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()).into(), every))
}

/// Every regular file under `folder`, without build folders, git's own and symbolic links.
fn list_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = walkdir::WalkDir::new(folder).into_iter();
    let mut files = Vec::new();
    for entry in entries.filter_entry(|entry| entry.file_name() != "target" && entry.file_name() != ".git") {
        let entry = entry?;
        match entry.path().to_str() {
            None => eprintln!("skipped, because its name is not Unicode: {}", entry.path().display()),
            Some(_) if entry.file_type().is_file() => files.push(entry.into_path()),
            Some(_) => {}
        }
    }
    Ok(files)
}

/// One job for each file.
async fn enqueue(queue: &Queue, files: &[PathBuf]) -> Result<(), readpast::Error> {
    let jobs: Result<Vec<NewJob>, _> = files.iter().map(|path| NewJob::of(&FileJob { path: path.clone() })).collect();
    queue.enqueue_many(&jobs?).await?;
    Ok(())
}

/// All files again and again; what is finished is soon purged.
async fn keep_enqueueing(queue: Queue, files: Vec<PathBuf>, pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        for state in [JobState::Done, JobState::Dead] {
            if let Err(error) = queue
                .admin()
                .change(&JobChange::Purge, JobFilter::from(state).older_than(Duration::from_secs(60)))
                .await
            {
                eprintln!("error: {error}");
            }
        }
        if let Err(error) = enqueue(&queue, &files).await {
            eprintln!("error: {error}");
        }
    }
}

/// Every finished job's output and how long it ran, page by page.
async fn read_back(queue: &Queue) -> anyhow::Result<Vec<(FileFacts, Duration)>> {
    let mut outputs = Vec::new();
    let mut next = None;
    loop {
        let page = queue.admin().list(&JobState::Done.into(), next.as_ref(), 1_000).await?;
        for job in page.jobs {
            let output = job.output.context("a finished job has no output")?;
            outputs.push((serde_json::from_slice(&output)?, job.run.unwrap_or_default()));
        }
        next = page.next;
        if next.is_none() {
            return Ok(outputs);
        }
    }
}

fn print_table(outputs: &[(FileFacts, Duration)], folder: &Path) {
    let ratio = |facts: &FileFacts| facts.deflated as f64 / facts.bytes as f64;
    let mut by_time: Vec<_> = outputs.iter().collect();
    by_time.sort_by_key(|(_, run)| std::cmp::Reverse(*run));
    // Tiny files say nothing about compression.
    let mut by_ratio: Vec<_> = outputs.iter().filter(|(facts, _)| facts.bytes >= 1_024).collect();
    by_ratio.sort_by(|(a, _), (b, _)| ratio(a).total_cmp(&ratio(b)));
    let slowest = by_time.into_iter().take(3).map(|file| ("slowest", file));
    let most = by_ratio.iter().take(3).map(|file| ("most compressible", *file));
    let least = by_ratio.iter().rev().take(3).map(|file| ("least compressible", *file));

    println!("\n{:<20} {:>10} {:>12} {:>7}  {:<12}  file", "", "ms", "bytes", "ratio", "sha256");
    for (title, (facts, run)) in slowest.chain(most).chain(least) {
        let (ms, bytes, ratio, sha256) = (run.as_secs_f64() * 1e3, facts.bytes, ratio(facts), &facts.sha256[..12]);
        let path = facts.path.strip_prefix(folder).unwrap_or(&facts.path);
        println!("{title:<20} {ms:>10.2} {bytes:>12} {ratio:>7.3}  {sha256:<12}  {}", path.display());
    }
    println!();
}
