//! `readpast enqueue`: one job, or one per line of standard input.
//!
//! standard input ─ [`lines`]: a thread reads, chunks are cut ─▶ `Queue::enqueue_many`, one transaction per chunk. With
//! `--resume`: `Queue::enqueue_part`, and [`resume`] saves the position in a file.
//!
//! With `--resume` each chunk is a part of a batch, numbered by its first line. SQL Server records the part in the
//! transaction that adds its jobs, so each part is added once. The file may lag behind, because chunks that were
//! already added are skipped. Every run must cut the same chunks, so the cuts depend on the lines alone.

mod lines;
mod resume;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use readpast::{Enqueued, Error, NewJob, Queue};
use serde::Serialize;

use self::lines::{Chunk, Format, Lines, Place, Reading};
use self::resume::Resume;
use crate::connection::Common;
use crate::exit::{Exit, failure, library_error, say};
use crate::interrupt::Interrupt;
use crate::job_options::JobOptions;
use crate::output::Output;
use crate::progress::Progress;
use crate::texts;

/// Add jobs: one, or one for each line of standard input.
///
/// Lines are enqueued in order, in transactions of up to 1,000; a line waits at most 200 ms for others. Empty lines are
/// skipped. With `--format json`, each line is an object with `payload` (text or any other JSON value) or
/// `payload_hex`. It can also have `kind`, `priority`, `delay_s`, `due_at`, `start_within_s`, `start_by`, `key`, `group`,
/// `batch`, `correlation_id`, `headers`, `max_attempts`, `time_limit_s`, `after` (an array of job ids), `on_dead` and
/// `needs` (such as `{"memory": 3221225472, "gpu": 1}`, in bytes), which override the options.
///
/// With `--resume FILE`, repeat the command with the same input after any failure: each line is enqueued exactly once,
/// in one batch, which is sealed at the end. A transaction then waits for 1,000 lines or the end of the input, so
/// endless input does not work. The last line must end with a newline. Only one process at a time can use FILE (locked
/// by FILE.lock). `enqueued` counts the jobs of all runs.
///
/// A full queue (`--max-depth` of `queue set`) refuses jobs; with `--wait`, the command waits for room.
///
/// Role: producer or operator.
#[derive(Debug, Args)]
pub struct Enqueue {
    queue: String,
    /// Payload of one job; without it and --file, standard input is read
    #[arg(conflicts_with = "file")]
    payload: Option<String>,
    /// File whose bytes are the payload of one job
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Format of the lines of standard input
    #[arg(long, default_value = "text", conflicts_with_all = ["payload", "file"])]
    format: Format,
    /// Save progress in this file and resume from it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["payload", "file", "batch"])]
    resume: Option<PathBuf>,
    /// Print the id of each job instead of the counts, in the order of the lines; with --json, also whether it is a
    /// duplicate
    #[arg(long, conflicts_with_all = ["payload", "file", "resume"])]
    ids: bool,
    /// Deduplication key of one job; not added while another job with this key is unfinished
    #[arg(long)]
    key: Option<String>,
    /// While the queue is full, wait for room instead of failing
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    options: JobOptions,
}

/// How often `--wait` tries again.
const NEXT_TRY: Duration = Duration::from_millis(500);

/// The counts of this run so far.
#[derive(Debug, Default, Serialize)]
struct Total {
    enqueued: u64,
    duplicates: u64,
    /// Lines read.
    lines: u64,
}

impl Enqueue {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let queue = common.queue(&self.queue).await?;
        let payload = match (&self.payload, &self.file) {
            (Some(payload), _) => Some(NewJob::text(payload)),
            (None, Some(file)) => {
                let bytes = std::fs::read(file)
                    .map_err(|error| failure(Exit::Usage, format!("{}: {error}", file.display())))?;
                Some(NewJob::bytes(bytes))
            }
            (None, None) => None,
        };
        match payload {
            Some(job) => self.enqueue_one(job, &queue, output).await,
            None if self.key.is_some() => {
                Err(failure(Exit::Usage, "--key needs one job; for lines, use --format json and the member \"key\""))
            }
            None => self.enqueue_lines(&queue, output).await,
        }
    }

    async fn enqueue_one(self, job: NewJob, queue: &Queue, output: Output) -> Result<Exit> {
        let mut job = self.options.apply(job);
        if let Some(key) = self.key {
            job = job.dedup_key(key);
        }
        let enqueued = loop {
            match queue.enqueue(&job).await {
                Err(Error::QueueFull { .. }) if self.wait => tokio::time::sleep(NEXT_TRY).await,
                answer => break answer?,
            }
        };
        output.one(&enqueued, || match enqueued.duplicate {
            false => format!("job {}", enqueued.job_id),
            true => format!("job {} has this key and is unfinished: nothing was added", enqueued.job_id),
        })?;
        Ok(Exit::Ok)
    }

    async fn enqueue_lines(self, queue: &Queue, output: Output) -> Result<Exit> {
        let mut interrupt = Interrupt::watch();
        let mut resume = match self.resume {
            Some(path) => Some(Resume::open(path, queue).await?),
            None => None,
        };
        let waits = self.wait;
        let mut options = self.options;
        let mut begin = Place::default();
        if let Some(resume) = &resume {
            options.batch = Some(resume.batch());
            begin = resume.place();
        }
        let is_repeatable = resume.is_some();
        let mut lines = Lines::read(Reading { format: self.format, options, begin, is_repeatable });
        let mut total = Total { lines: begin.lines, ..Total::default() };
        let progress = Progress::new("enqueued", None);
        while let Some(chunk) = lines.next(&mut interrupt).await {
            let chunk = chunk.inspect_err(|_| total.report(&progress))?;
            let mut printed = Ok(());
            match &mut resume {
                None => {
                    let (enqueued, answer) = enqueue_chunk(queue, &chunk, waits, &mut interrupt).await;
                    if self.ids {
                        progress.beside(|| printed = print_ids(&enqueued, output));
                    }
                    answer.map_err(|error| {
                        total.report(&progress);
                        explained(error, &chunk, enqueued.len(), &interrupt)
                    })?;
                    total.add(&enqueued);
                }
                Some(resume) => {
                    let answer = resume_chunk(resume, queue, &chunk, waits, &mut interrupt).await;
                    total.add(&answer.inspect_err(|_| total.report(&progress))?.unwrap_or_default());
                }
            }
            total.lines = chunk.end.lines;
            printed.map_err(|error| {
                total.report(&progress);
                let lines = format!("the ids of lines {} to {}", chunk.first_line, chunk.end.lines);
                // Not as an error of the output: that of a closed pipe counts as success.
                failure(Exit::Failed, format!("{lines} cannot be printed: {error:#}"))
            })?;
            progress.advance(chunk.jobs.len() as u64);
        }
        progress.end();
        if interrupt.is_pressed() {
            total.report(&progress);
            if let Some((first, last)) = lines.left() {
                let _ = writeln!(io::stderr(), "readpast: lines {first} to {last} were read but not enqueued");
            }
            return Ok(Exit::Interrupted);
        }
        if self.ids {
            return Ok(Exit::Ok);
        }
        if let Some(resume) = resume {
            total.enqueued = resume.seal(queue).await?;
        }
        output.one(&total, || {
            let Total { enqueued, duplicates, lines } = &total;
            let duplicates = match duplicates {
                0 => String::new(),
                some => format!(", {} skipped", texts::counted(*some, "duplicate")),
            };
            let (jobs, lines) = (texts::counted(*enqueued, "job"), texts::counted(*lines, "line"));
            format!("{jobs} enqueued{duplicates}; {lines} read")
        })?;
        Ok(Exit::Ok)
    }
}

impl Total {
    fn add(&mut self, enqueued: &[Enqueued]) {
        let duplicates = enqueued.iter().filter(|job| job.duplicate).count() as u64;
        self.duplicates += duplicates;
        self.enqueued += enqueued.len() as u64 - duplicates;
    }

    /// After a failure, says from which line to continue.
    fn report(&self, progress: &Progress) {
        progress.end();
        let lines = if self.lines == 1 { "line".to_owned() } else { format!("{} lines", texts::number(self.lines)) };
        say(&format!("{} enqueued, from the first {lines}", texts::counted(self.enqueued, "job")));
    }
}

/// Prints each id in a line.
fn print_ids(enqueued: &[Enqueued], output: Output) -> Result<()> {
    let mut lines = String::new();
    for job in enqueued {
        match output.is_json() {
            true => lines += &serde_json::to_string(job)?,
            false => lines += &job.job_id.to_string(),
        }
        lines.push('\n');
    }
    output.bytes(lines.as_bytes())
}

/// Enqueues a chunk. Returns its jobs, or after an error the first of them.
async fn enqueue_chunk(
    queue: &Queue,
    chunk: &Chunk,
    waits: bool,
    interrupt: &mut Interrupt,
) -> (Vec<Enqueued>, Result<(), Error>) {
    let mut added = Vec::new();
    loop {
        let (next, answer) = match queue.enqueue_many(&chunk.jobs[added.len()..]).await {
            Ok(last) => (last, Ok(())),
            Err(Error::EnqueuedInPart { enqueued, cause, .. }) => (enqueued, Err(*cause)),
            Err(cause) => (Vec::new(), Err(cause)),
        };
        added.extend(next);
        match answer {
            Err(cause) if waits && is_full(&cause) && has_waited(interrupt).await => {}
            answer => return (added, answer),
        }
    }
}

/// Enqueues a chunk with `--resume`. Returns `None` if an earlier run has done so.
async fn resume_chunk(
    resume: &mut Resume,
    queue: &Queue,
    chunk: &Chunk,
    waits: bool,
    interrupt: &mut Interrupt,
) -> Result<Option<Vec<Enqueued>>> {
    loop {
        let error = match resume.enqueue(chunk, queue).await {
            Err(error) if library_error(&error).is_some_and(is_full) => error,
            answer => return answer,
        };
        if !(waits && has_waited(interrupt).await) {
            let is_interrupted = interrupt.is_pressed();
            return Err(if is_interrupted { failure(Exit::Interrupted, format!("{error:#}")) } else { error });
        }
    }
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::QueueFull { .. })
}

/// Waits until the next try. Returns false if Ctrl-C was pressed.
async fn has_waited(interrupt: &mut Interrupt) -> bool {
    tokio::time::timeout(NEXT_TRY, interrupt.pressed()).await.is_err()
}

/// The error of a chunk of which only the first jobs are in the queue, or none.
fn explained(error: Error, chunk: &Chunk, added: usize, interrupt: &Interrupt) -> anyhow::Error {
    let (first, last) = (chunk.first_line, chunk.end.lines);
    let lines = match added {
        0 => format!("lines {first} to {last}"),
        _ => format!("the jobs of lines {first} to {last} except the first {added}"),
    };
    match error {
        Error::QueueFull { .. } if interrupt.is_pressed() => {
            failure(Exit::Interrupted, format!("{lines} were not enqueued: {error}"))
        }
        Error::EnqueueInDoubt { .. } => anyhow::Error::new(error).context(format!(
            "it is unknown whether {lines} were enqueued (with --resume it would be safe to repeat them)"
        )),
        error if added > 0 => anyhow::Error::new(error).context(format!("{lines} were not enqueued")),
        error => error.into(),
    }
}
