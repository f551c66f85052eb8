//! Map and reduce: the words of a folder's files, one job a file, and a last job that adds up what they found.
//!
//!     cargo run --release --example map_reduce                # 10,000 small files that it makes itself
//!     cargo run --release --example map_reduce -- src         # the files of a folder
//!     cargo run --release --example map_reduce -- 500         # 500 files that it makes itself
//!
//! The files are one batch, and the sum is its follow-up: enqueued once, when the last file has ended. What a file's
//! job has found stays in its row (CompletionPolicy::Annotate), and the sum reads it there: a file that was read twice,
//! because a worker died before its acknowledgement arrived, has one row. The process you start is the producer; it
//! starts two workers, kills one of them without warning four times, and counts the words once more itself, to compare.
//! Without READPAST_URL it also runs the dev server.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use readpast::admin::{CompletionPolicy, JobFilter, JobState, QueueOptions};
use readpast::{BatchId, BoxError, Config, Handlers, JobError, Json, NewBatch, NewJob, Queue, Worker};
use readpast_devserver::DevServer;
use serde::{Deserialize, Serialize};

/// The sums are jobs of a queue of their own: the jobs of this one are files and nothing else.
const FILES: &str = "files";
const SUMS: &str = "sums";

/// As if each file came from a slow disk: small ones would all be read before the second kill.
const READING: Duration = Duration::from_millis(2);

/// What was found in a file, or in all of them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Found {
    files: u64,
    words: u64,
}

fn count(path: &Path) -> std::io::Result<Found> {
    let text = std::fs::read(path)?;
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
    Ok(Found { files: 1, words: words as u64 })
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let config = Config::load(None)?;
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("worker") => work(config, arguments.next().ok_or("which worker?")?).await,
        Some(argument) => match argument.parse() {
            Ok(files) => made_and_counted(config, files).await,
            Err(_) => map_reduce(config, Path::new(argument)).await,
        },
        None => made_and_counted(config, 10_000).await,
    }
}

async fn connect(config: &Config, queue: &str) -> Result<Queue, BoxError> {
    let mut config = config.clone();
    config.queue.name = queue.into();
    Ok(Queue::connect(&config).await?)
}

/// A worker process: it reads files and, when they have ended, adds up.
async fn work(mut config: Config, name: String) -> Result<(), BoxError> {
    config.worker.name = name;
    config.worker.take_over = true; // the next worker of this name does not wait until the lease has run out
    let (files, sums) = (connect(&config, FILES).await?, connect(&config, SUMS).await?);
    let mapper = Worker::builder(
        &files,
        Handlers::any(|job, _| {
            std::thread::sleep(READING);
            Ok(Json(count(Path::new(job.text()?.as_ref()))?))
        }),
    );
    let rows = files.clone();
    let reducer = Worker::builder(
        &sums,
        Handlers::any(move |job, context| {
            let end = job.batch_end().ok_or(JobError::dead("it follows no batch"))?;
            if end.dead + end.cancelled > 0 {
                return Err(JobError::dead(format!("{} files could not be read", end.dead + end.cancelled)).into());
            }
            let found = context.block_on(add_up(&rows, end.batch_id))?;
            // A row that is locked at the moment is left out, for example by a late acknowledgement of a killed worker.
            if found.files != end.done {
                return Err(format!("{} of {} files were there; once more", found.files, end.done).into());
            }
            Ok::<_, BoxError>(Json(found))
        }),
    );
    let (mapper, reducer) = (mapper.start().await?, reducer.start().await?);
    tokio::try_join!(mapper.run(), reducer.run())?;
    Ok(())
}

/// The sum of what the jobs of a batch have left behind, page by page.
async fn add_up(files: &Queue, batch: BatchId) -> Result<Found, BoxError> {
    let mut total = Found::default();
    let mut after = None;
    loop {
        let page = files.admin().list(&JobFilter::from(JobState::Done), after.as_ref(), 1_000).await?;
        for job in page.jobs.iter().filter(|job| job.batch_id == Some(batch)) {
            let found: Found = serde_json::from_slice(job.output.as_deref().unwrap_or_default())?;
            total.files += found.files;
            total.words += found.words;
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(total),
        }
    }
}

/// Makes files with a number of words that one can work out, and removes them at the end.
async fn made_and_counted(config: Config, files: usize) -> Result<(), BoxError> {
    let folder = std::env::temp_dir().join(format!("readpast-map-reduce-{}", std::process::id()));
    for file in 0..files {
        let folder = folder.join((file / 100).to_string());
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("{file}.txt")), "to be or not to be\n".repeat(1 + file % 50))?;
    }
    let ended = map_reduce(config, &folder).await;
    std::fs::remove_dir_all(&folder)?;
    ended
}

fn files_of(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files_of(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

async fn map_reduce(mut config: Config, folder: &Path) -> Result<(), BoxError> {
    let mut paths = Vec::new();
    files_of(&folder.canonicalize()?, &mut paths)?;
    let server = DevServer::start().await?;
    let url = std::env::var("READPAST_URL").unwrap_or_else(|_| server.connection_string());
    config.connection.url = url.as_str().into();
    let (files, sums) = (connect(&config, FILES).await?, connect(&config, SUMS).await?);
    files.admin().install().await?;
    for queue in [&files, &sums] {
        queue.admin().create(QueueOptions::default().completion(CompletionPolicy::Annotate).max_attempts(20)).await?;
    }

    let began = Instant::now();
    let mut workers = [start_worker(&url, "a")?, start_worker(&url, "b")?];
    let batch = sums.create_batch(&NewBatch::new().name("words").then(NewJob::text("add up"))).await?;
    for chunk in paths.chunks(1_000) {
        let jobs = chunk.iter().map(|path| NewJob::text(path.to_string_lossy()).batch(batch));
        files.enqueue_many(&jobs.collect::<Vec<_>>()).await?;
    }
    files.seal_batch(batch).await?;
    println!("{} files are enqueued", paths.len());

    let mut kills = 0;
    let follow_up = loop {
        let row = files.batch(batch).await?.ok_or("the batch is gone")?;
        // Spread over the batch.
        if kills < 4 && row.jobs - row.unfinished() >= row.jobs * (kills + 1) / 5 {
            kills += 1;
            println!("kill {kills}: {} done, {} left", row.done, row.unfinished());
            workers[0] = start_worker(&url, "a")?;
        }
        match row.follow_up_id {
            Some(follow_up) => break follow_up,
            None => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let sum = loop {
        match sums.admin().job(follow_up, None).await? {
            Some(job) if job.state == JobState::Done => break job,
            Some(job) if job.state == JobState::Dead => return Err(job.error.unwrap_or_default().into()),
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    drop(workers);
    let total: Found = serde_json::from_slice(&sum.output.unwrap_or_default())?;
    println!("{} words in {} files, in {:.1} s", total.words, total.files, began.elapsed().as_secs_f64());

    let mut expected = Found::default();
    for path in &paths {
        expected.words += count(path)?.words;
        expected.files += 1;
    }
    if total != expected {
        return Err(format!("without the queue there are {} words in {} files", expected.words, expected.files).into());
    }
    println!("which is right");
    Ok(())
}

/// A worker in a process of its own, which is killed when this is dropped.
struct WorkerProcess(Child);

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it has ended by itself
        let _ = self.0.wait();
    }
}

fn start_worker(url: &str, name: &str) -> std::io::Result<WorkerProcess> {
    Command::new(std::env::current_exe()?).args(["worker", name]).env("READPAST_URL", url).spawn().map(WorkerProcess)
}
