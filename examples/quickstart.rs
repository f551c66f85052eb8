//! The main job on real input: one job for every file of a folder, worked off on every core.
//!
//!     cargo run --release --example quickstart             # this checkout
//!     cargo run --release --example quickstart -- DIR      # any folder
//!     cargo run --release --example quickstart -- --every 5 DIR   # again every five seconds, until Ctrl-C: something to watch
//!
//! Starts the dev server unless READPAST_URL names a SQL Server. Enqueues one job for each file, computes the SHA-256
//! and the best-level DEFLATE size of its content, stores both as the job's output, and reads them back from the
//! database. Ctrl-C stops in order, twice at once. Exits 0 only when every file is accounted for.

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use indicatif::{ProgressBar, ProgressStyle};
use readpast::{
    BoxError, CompletionPolicy, Config, Context, Handlers, JobState, Json, NewJob, Progress, Queue, QueueOptions,
    TypedJob, Worker,
};
use readpast_devserver::DevServer;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The payload of a job.
#[derive(Serialize, Deserialize)]
struct FileJob {
    path: PathBuf,
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

/// Its output.
#[derive(Serialize, Deserialize)]
struct FileFacts {
    path: PathBuf,
    bytes: u64,
    sha256: String,
    deflated: u64,
}

/// A file that was worked off, as the database tells it.
struct Finished {
    facts: FileFacts,
    run: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    match quickstart().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether every file is accounted for.
async fn quickstart() -> Result<bool, Box<dyn Error>> {
    let arguments = Arguments::read()?;
    let folder = arguments.folder;
    let mut files = Vec::new();
    list_files(&folder, &mut files).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;

    let mut config = Config::load(None)?;
    // Kept until the end: the dev server stops when it is dropped.
    let _dev_server = if config.connection.url.is_empty() {
        let server = DevServer::start().await?;
        config.connection.url = server.connection_string().into();
        println!("server: the built-in dev server (set READPAST_URL to use a SQL Server)");
        Some(server)
    } else {
        println!("server: READPAST_URL");
        None
    };
    config.queue.name = "quickstart".into();
    config.worker.retry.base_ms = 100;

    let queue = Queue::connect(&config).await?;
    queue.install().await?;
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate).max_attempts(3);
    queue.create(options).await?;
    queue.verify().await?;
    for state in [JobState::Ready, JobState::Scheduled, JobState::Done, JobState::Dead] {
        queue.purge(state, Duration::ZERO).await?;
    }

    let enqueue_started = Instant::now();
    enqueue(&queue, &files).await?;
    println!("enqueued {} jobs in {:.2} s", files.len(), enqueue_started.elapsed().as_secs_f64());

    let worker = Worker::builder(&queue, Handlers::new().job::<FileJob>()).start().await?;
    worker.stop_handle().stop_on_signals()?;
    if let Some(pause) = arguments.every {
        tokio::spawn(keep_enqueueing(queue.clone(), files, pause));
        worker.run().await?;
        return Ok(true);
    }
    let display = Display::new();
    let summary = worker.drain_with(display.interval(), |progress| display.show(progress)).await?;
    display.bar.finish_and_clear();

    let finished = read_back(&queue).await?;
    let dead = queue.list(&JobState::Dead.into(), None, 1_000).await?.jobs;
    print_table(&finished, &folder);
    for job in dead.iter().take(10) {
        let error = job.error.as_deref().unwrap_or_default();
        println!("dead: job {} after {} attempts: {error}", job.job_id, job.attempt);
    }

    let stats = queue.stats().await?;
    let unfinished = stats.ready + stats.scheduled + stats.claimed;
    if unfinished > 0 {
        println!("{unfinished} jobs are not finished: the run was stopped");
    }
    let accounted = stats.done + stats.dead + unfinished;
    let lost = (files.len() as u64).saturating_sub(accounted);
    let seconds = summary.elapsed.as_secs_f64();
    println!(
        "done={} retried={} dead={} lost={lost} seconds={seconds:.2} jobs_per_second={:.0}",
        stats.done,
        summary.stats.retried,
        stats.dead,
        summary.stats.done as f64 / seconds
    );
    Ok(lost == 0 && unfinished == 0 && finished.len() as u64 == stats.done)
}

/// What stands on the command line.
struct Arguments {
    every: Option<Duration>,
    folder: PathBuf,
}

impl Arguments {
    fn read() -> Result<Arguments, String> {
        let mut arguments = std::env::args_os().skip(1).peekable();
        let mut every = None;
        if arguments.next_if(|argument| argument == "--every").is_some() {
            let seconds = arguments.next().and_then(|seconds| seconds.to_str()?.parse().ok());
            let seconds: u16 = seconds.ok_or("--every wants a number of seconds, such as --every 5")?;
            every = Some(Duration::from_secs(seconds.into()));
        }
        let folder = arguments.next().map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        Ok(Arguments { every, folder })
    }
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
        let old = Duration::from_secs(60);
        let result = async {
            queue.purge(JobState::Done, old).await?;
            queue.purge(JobState::Dead, old).await?;
            enqueue(&queue, &files).await
        };
        if let Err(error) = result.await {
            eprintln!("error: {error}");
        }
    }
}

/// Every regular file under `folder`, without build folders, git's own and symbolic links.
fn list_files(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let path = entry.path();
        if kind.is_file() && path.to_str().is_some() {
            files.push(path);
        } else if kind.is_file() {
            eprintln!("skipped, because its name is not Unicode: {}", path.display());
        } else if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
            list_files(&path, files)?;
        }
    }
    Ok(())
}

/// A bar on a terminal, plain lines elsewhere.
struct Display {
    bar: ProgressBar,
    on_terminal: bool,
}

impl Display {
    fn new() -> Display {
        let on_terminal = std::io::stderr().is_terminal();
        let bar = if on_terminal { ProgressBar::new(0) } else { ProgressBar::hidden() };
        bar.set_style(ProgressStyle::with_template("{wide_bar} {msg}").expect("the template is valid"));
        Display { bar, on_terminal }
    }

    fn interval(&self) -> Duration {
        if self.on_terminal { Duration::from_millis(100) } else { Duration::from_secs(1) }
    }

    fn show(&self, progress: &Progress) {
        self.bar.set_length(progress.finished + progress.unfinished.unwrap_or_default());
        self.bar.set_position(progress.finished);
        self.bar.set_message(progress.to_string());
        if !self.on_terminal {
            println!("{progress}");
        }
    }
}

/// Every finished job's output, page by page.
async fn read_back(queue: &Queue) -> Result<Vec<Finished>, Box<dyn Error>> {
    let mut finished = Vec::new();
    let mut next = None;
    loop {
        let page = queue.list(&JobState::Done.into(), next.as_ref(), 1_000).await?;
        for job in &page.jobs {
            let output = job.output.as_deref().ok_or("a finished job has no output")?;
            let facts = serde_json::from_slice(output)?;
            finished.push(Finished { facts, run: job.run.unwrap_or_default() });
        }
        if page.next.is_none() {
            return Ok(finished);
        }
        next = page.next;
    }
}

fn print_table(finished: &[Finished], folder: &Path) {
    let mut by_time: Vec<&Finished> = finished.iter().collect();
    by_time.sort_by_key(|file| std::cmp::Reverse(file.run));
    // Tiny files say nothing about compression.
    let mut by_ratio: Vec<&Finished> = finished.iter().filter(|file| file.facts.bytes >= 1_024).collect();
    by_ratio.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    println!();
    println!("{:<20} {:>10} {:>12} {:>7}  {:<12}  file", "", "ms", "bytes", "ratio", "sha256");
    print_rows("slowest", folder, by_time.iter().take(3));
    print_rows("most compressible", folder, by_ratio.iter().take(3));
    print_rows("least compressible", folder, by_ratio.iter().rev().take(3));
    println!();
}

fn ratio(file: &Finished) -> f64 {
    file.facts.deflated as f64 / file.facts.bytes as f64
}

fn print_rows<'a>(title: &str, folder: &Path, files: impl Iterator<Item = &'a &'a Finished>) {
    for file in files {
        let FileFacts { path, bytes, sha256, .. } = &file.facts;
        let run_ms = file.run.as_secs_f64() * 1e3;
        let ratio = ratio(file);
        let path = path.strip_prefix(folder).unwrap_or(path);
        println!("{title:<20} {run_ms:>10.2} {bytes:>12} {ratio:>7.3}  {:<12}  {}", &sha256[..12], path.display());
    }
}
