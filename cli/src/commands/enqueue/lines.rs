//! Reads standard input as jobs, in chunks of one transaction each.
//!
//! a thread reads lines and makes jobs ─ pieces ─▶ [`Lines`] cuts chunks
//!
//! Memory holds the current chunk, the next one, [`READ_AHEAD`] pieces, and one long line.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read};
use std::mem;
use std::sync::mpsc as blocking;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use readpast::crates::uuid::Uuid;
use readpast::{Needs, NewJob};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::exit::{Exit, failure};
use crate::interrupt::Interrupt;
use crate::job_options::{JobOptions, OnDead, time};
use crate::json_object;
use readpast_web::hex;

/// The limits of a chunk, in jobs, bytes of lines and parents; a long line is its own chunk. `Queue::enqueue_part` accepts
/// one transaction: 1,000 jobs, 8 MiB, 10,000 parents, and 65,535 bytes for a payload that is not sent alone. Changing
/// these numbers breaks existing files of `--resume`, because it cuts other chunks.
const CHUNK_JOBS: usize = 1_000;
const CHUNK_BYTES: u64 = 4 << 20;
const CHUNK_PARENTS: usize = 10_000;
const LONG_LINE_BYTES: u64 = 65_000;

/// The longest line: the largest payload in hexadecimal digits, with some fields.
const MAX_LINE_BYTES: u64 = 600 << 20;

/// How long a line waits for others, if chunks need not be the same in every run.
const PATIENCE: Duration = Duration::from_millis(200);

/// Pieces read ahead while SQL Server works, and their size, except for a long line.
const READ_AHEAD: usize = 16;
const PIECE_BYTES: usize = 256 << 10;

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// the payload
    Text,
    /// an object with the payload and other members
    Json,
}

/// A position in the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub lines: u64,
    pub bytes: u64,
    /// The checksum of the bytes before the position.
    pub crc32: u32,
}

/// The jobs of consecutive lines, which are enqueued in one transaction.
#[derive(Debug)]
pub struct Chunk {
    pub jobs: Vec<NewJob>,
    /// The number of the first line, counted from 1.
    pub first_line: u64,
    /// Where the next chunk begins.
    pub end: Place,
    /// The input ended here: with more lines, the chunk would have more jobs.
    pub is_last: bool,
}

/// The fields of a line of JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobLine {
    payload: Option<Box<RawValue>>,
    payload_hex: Option<String>,
    kind: Option<String>,
    priority: Option<i16>,
    delay_s: Option<f64>,
    due_at: Option<String>,
    start_within_s: Option<f64>,
    start_by: Option<String>,
    key: Option<String>,
    group: Option<String>,
    batch: Option<i64>,
    #[serde(default)]
    after: Vec<i64>,
    on_dead: Option<OnDead>,
    correlation_id: Option<Uuid>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    max_attempts: Option<u32>,
    time_limit_s: Option<f64>,
    needs: Option<Needs>,
}

/// Its fields, each with what it must be.
const FIELDS: [(&str, &str); 18] = [
    ("payload", "a text or any other JSON"),
    ("payload_hex", "a text"),
    ("kind", "a text"),
    ("priority", "an integer from -32768 to 32767"),
    ("delay_s", "a number of seconds"),
    ("due_at", "a time such as \"2027-01-31T04:00:00Z\""),
    ("start_within_s", "a number of seconds"),
    ("start_by", "a time such as \"2027-01-31T04:00:00Z\""),
    ("key", "a text"),
    ("group", "a text"),
    ("batch", "the number of a batch"),
    ("after", "an array of job ids"),
    ("on_dead", "hold, cancel or run"),
    ("correlation_id", "a UUID"),
    ("headers", "an object of texts"),
    ("max_attempts", "an integer"),
    ("time_limit_s", "a number of seconds"),
    ("needs", "an object of integers such as {\"memory\": 3221225472, \"threads\": 4, \"gpu\": 1}"),
];

pub struct Reading {
    pub format: Format,
    pub options: JobOptions,
    pub begin: Place,
    /// Whether every run must cut the same chunks. Then no chunk is cut by a timeout, and a last line without a newline
    /// is rejected.
    pub is_repeatable: bool,
}

struct Line {
    /// The job, or `None` for an empty line.
    job: Option<NewJob>,
    bytes: u64,
    /// Whether the line is long, and holds the place of a long line.
    is_long: bool,
    behind: Place,
}

/// The chunks of an input.
pub struct Lines {
    pieces: mpsc::Receiver<Result<Vec<Line>>>,
    long_lines: blocking::Receiver<()>,
    patience: Option<Duration>,
    /// Lines read but not in a chunk.
    lines: VecDeque<Line>,
    /// The chunk being filled.
    chunk: Chunk,
    chunk_bytes: u64,
    chunk_parents: usize,
    /// When the chunk is due, whatever its size.
    due: Option<Instant>,
}

impl Lines {
    /// Starts reading standard input.
    pub fn read(reading: Reading) -> Lines {
        // The standard library's own buffer has 8 KiB.
        Lines::of(|| BufReader::with_capacity(PIECE_BYTES, io::stdin().lock()), reading)
    }

    fn of<R: Read>(input: impl FnOnce() -> BufReader<R> + Send + 'static, reading: Reading) -> Lines {
        let (sender, pieces) = mpsc::channel(READ_AHEAD);
        let (long_line, long_lines) = blocking::sync_channel(1);
        let Reading { format, options, begin, is_repeatable } = reading;
        // This needs a thread, because only the end of the process can interrupt a read of standard input.
        thread::spawn(move || {
            let reader =
                Reader { input: input(), format, options, must_end: is_repeatable, place: Place::default(), long_line };
            reader.read(begin, &sender);
        });
        Lines {
            pieces,
            long_lines,
            patience: (!is_repeatable).then_some(PATIENCE),
            lines: VecDeque::new(),
            chunk: Chunk { jobs: Vec::new(), first_line: begin.lines + 1, end: begin, is_last: false },
            chunk_bytes: 0,
            chunk_parents: 0,
            due: None,
        }
    }

    /// The next chunk with jobs; `None` at the end and after Ctrl-C.
    pub async fn next(&mut self, interrupt: &mut Interrupt) -> Option<Result<Chunk>> {
        loop {
            if interrupt.is_pressed() {
                return None;
            }
            if self.fill() {
                return Some(Ok(self.cut(false)));
            }
            let due = self.due;
            tokio::select! {
                biased;
                () = interrupt.pressed() => return None,
                piece = self.pieces.recv() => match piece {
                    Some(Ok(lines)) => self.lines.extend(lines),
                    Some(Err(error)) => return Some(Err(error)),
                    None => return (!self.chunk.jobs.is_empty()).then(|| Ok(self.cut(true))),
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => return Some(Ok(self.cut(false))),
            }
        }
    }

    /// The first and last of the lines that were read but not returned in a chunk.
    pub fn left(&mut self) -> Option<(u64, u64)> {
        while let Ok(Ok(lines)) = self.pieces.try_recv() {
            self.lines.extend(lines);
        }
        let last = self.lines.back().map_or(self.chunk.end.lines, |line| line.behind.lines);
        (last >= self.chunk.first_line).then_some((self.chunk.first_line, last))
    }

    /// Moves lines into the chunk. Returns whether it is full.
    fn fill(&mut self) -> bool {
        while self.chunk.jobs.len() < CHUNK_JOBS
            && let Some(line) = self.lines.pop_front()
        {
            let parents = line.job.as_ref().map_or(0, NewJob::parents);
            let is_too_much = line.is_long
                || self.chunk_bytes + line.bytes > CHUNK_BYTES
                || self.chunk_parents + parents > CHUNK_PARENTS;
            if is_too_much && !self.chunk.jobs.is_empty() {
                self.lines.push_front(line);
                return true;
            }
            if line.is_long {
                let _ = self.long_lines.try_recv(); // it is the chunk under way: the next one may be read
            }
            self.chunk.end = line.behind;
            self.chunk_bytes += line.bytes;
            self.chunk_parents += parents;
            let Some(job) = line.job else { continue };
            if self.chunk.jobs.is_empty() {
                self.due = self.patience.map(|patience| Instant::now() + patience);
            }
            self.chunk.jobs.push(job);
            if line.is_long {
                return true;
            }
        }
        self.chunk.jobs.len() == CHUNK_JOBS
    }

    /// Takes the chunk, and begins the next one.
    fn cut(&mut self, is_last: bool) -> Chunk {
        let end = self.chunk.end;
        let next = Chunk { jobs: Vec::new(), first_line: end.lines + 1, end, is_last: false };
        (self.chunk_bytes, self.chunk_parents, self.due) = (0, 0, None);
        Chunk { is_last, ..mem::replace(&mut self.chunk, next) }
    }
}

/// Reads lines, in a thread.
struct Reader<R> {
    input: BufReader<R>,
    format: Format,
    options: JobOptions,
    /// Rejects a last line without a newline.
    must_end: bool,
    /// The position after the last line.
    place: Place,
    /// The channel has one place, so only one long line is read ahead.
    long_line: blocking::SyncSender<()>,
}

impl<R: Read> Reader<R> {
    /// Reads lines and sends them in pieces, until the end or an error, or until no receiver is left. A piece is sent
    /// when it is full, or when the next line is not complete yet.
    fn read(mut self, begin: Place, sender: &mpsc::Sender<Result<Vec<Line>>>) {
        if let Err(error) = self.skip_to(begin) {
            let _ = sender.blocking_send(Err(error));
            return;
        }
        let (mut piece, mut bytes) = (Vec::new(), 0);
        loop {
            let line = self.job_line();
            let goes_on = matches!(line, Ok(Some(_)));
            let error = match line {
                Ok(Some(line)) => {
                    bytes += line.bytes;
                    piece.push(line);
                    None
                }
                Ok(None) => None,
                Err(error) => Some(error),
            };
            let has_line = self.input.buffer().contains(&b'\n');
            if (!goes_on || !has_line || piece.len() == CHUNK_JOBS || bytes >= PIECE_BYTES as u64)
                && sender.blocking_send(Ok(mem::take(&mut piece))).is_err()
            {
                return;
            }
            if let Some(error) = error {
                let _ = sender.blocking_send(Err(error));
            }
            if !goes_on {
                return;
            }
            if piece.is_empty() {
                bytes = 0;
            }
        }
    }

    /// Skips the input that an earlier run has enqueued.
    fn skip_to(&mut self, begin: Place) -> Result<()> {
        while self.place.lines < begin.lines && self.line()?.is_some() {}
        if self.place != begin {
            let message = "the input differs from the input that the file of --resume was made for: it begins differently, or is shorter";
            return Err(failure(Exit::Usage, message));
        }
        Ok(())
    }

    /// The next line with its job.
    fn job_line(&mut self) -> Result<Option<Line>> {
        let before = self.place.bytes;
        let Some((line, is_long)) = self.line()? else { return Ok(None) };
        let behind = self.place;
        let job = match line.trim_ascii().is_empty() {
            true => None,
            false => {
                let job = job(line, self.format, &self.options);
                let job = job.and_then(|job| job.check().map(|()| job).map_err(|error| error.to_string()));
                Some(job.map_err(|problem| failure(Exit::Usage, format!("line {}: {problem}", behind.lines)))?)
            }
        };
        Ok(Some(Line { job, bytes: behind.bytes - before, is_long, behind }))
    }

    /// The next line without its newline, and whether it is long.
    fn line(&mut self) -> Result<Option<(Vec<u8>, bool)>> {
        let mut line = Vec::new();
        (&mut self.input).take(LONG_LINE_BYTES).read_until(b'\n', &mut line)?;
        let is_long = line.len() as u64 == LONG_LINE_BYTES && !line.ends_with(b"\n");
        if is_long {
            self.take_place();
            (&mut self.input).take(MAX_LINE_BYTES - LONG_LINE_BYTES).read_until(b'\n', &mut line)?;
        }
        let length = line.len() as u64;
        if length == 0 {
            return Ok(None);
        }
        let mut hasher = crc32fast::Hasher::new_with_initial(self.place.crc32);
        hasher.update(&line);
        let Place { lines, bytes, .. } = self.place;
        self.place = Place { lines: lines + 1, bytes: bytes + length, crc32: hasher.finalize() };
        if length == MAX_LINE_BYTES {
            return Err(failure(
                Exit::Usage,
                format!("line {} is longer than {MAX_LINE_BYTES} bytes", self.place.lines),
            ));
        }
        if self.must_end && !line.ends_with(b"\n") {
            let message = format!(
                "line {}, the last one, has no line end: its rest may be missing, and with --resume nothing could be added \
                 later. If the input is whole, end it with a line end; run the same command again",
                self.place.lines
            );
            return Err(failure(Exit::Usage, message));
        }
        for end in [b'\n', b'\r'] {
            line.pop_if(|last| *last == end);
        }
        Ok(Some((line, is_long)))
    }

    /// Waits until no other long line is outside a chunk.
    fn take_place(&self) {
        let _ = self.long_line.send(()); // an error: nobody wants the line now, which the next piece finds out
    }
}

fn job(line: Vec<u8>, format: Format, options: &JobOptions) -> Result<NewJob, String> {
    match format {
        Format::Text => Ok(options.apply(NewJob::bytes(line))),
        Format::Json => json_object::read::<JobLine>(&line, &FIELDS)?.job(options),
    }
}

impl JobLine {
    fn job(self, options: &JobOptions) -> Result<NewJob, String> {
        let job = match (self.payload, self.payload_hex) {
            (Some(json), None) => match serde_json::from_str::<String>(json.get()) {
                Ok(text) => NewJob::text(text),
                Err(_) => NewJob::text(json.get()),
            },
            (None, Some(digits)) => {
                let bytes = hex::bytes(digits.strip_prefix("0x").unwrap_or(&digits));
                NewJob::bytes(bytes.ok_or("payload_hex must be pairs of hexadecimal digits")?)
            }
            _ => return Err("it must have payload or payload_hex".to_owned()),
        };
        let seconds = |name: &str, seconds: f64| {
            Duration::try_from_secs_f64(seconds).map_err(|_| format!("{name} is {seconds}; it must be 0 or more"))
        };
        let mut own = options.clone();
        own.kind = self.kind.or(own.kind);
        own.priority = self.priority.or(own.priority);
        if let Some(delay) = self.delay_s {
            (own.delay, own.at) = (Some(seconds("delay_s", delay)?), None);
        }
        if let Some(at) = self.due_at {
            (own.delay, own.at) = (None, Some(time(&at).map_err(|problem| format!("due_at is '{at}'; {problem}"))?));
        }
        if self.start_within_s.is_some() && self.start_by.is_some() {
            return Err("start_within_s and start_by are both set; set one of them".to_owned());
        }
        if let Some(limit) = self.start_within_s {
            (own.start_within, own.start_by) = (Some(seconds("start_within_s", limit)?), None);
        }
        if let Some(at) = self.start_by {
            let at = time(&at).map_err(|problem| format!("start_by is '{at}'; {problem}"))?;
            (own.start_within, own.start_by) = (None, Some(at));
        }
        own.group = self.group.or(own.group);
        if let (Some(batch), Some(own)) = (self.batch, own.batch)
            && batch != own
        {
            return Err(format!("batch is {batch}; the jobs of this run belong to batch {own}"));
        }
        own.batch = self.batch.or(own.batch);
        own.after.extend(self.after);
        own.on_dead = self.on_dead.or(own.on_dead);
        own.correlation_id = self.correlation_id.or(own.correlation_id);
        own.headers.extend(self.headers);
        own.max_attempts = self.max_attempts.or(own.max_attempts);
        if let Some(limit) = self.time_limit_s {
            own.time_limit = Some(seconds("time_limit_s", limit)?);
        }
        let mut job = own.apply(job);
        if let Some(needs) = self.needs {
            job = job.needs(needs.over(&own.needs().unwrap_or_default()));
        }
        Ok(match self.key {
            Some(key) => job.dedup_key(key),
            None => job,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn reading(is_repeatable: bool) -> Reading {
        Reading { format: Format::Text, options: JobOptions::default(), begin: Place::default(), is_repeatable }
    }

    fn of_text(text: String, begin: Place) -> Lines {
        Lines::of(|| BufReader::new(io::Cursor::new(text)), Reading { begin, ..reading(true) })
    }

    /// The first line, the number of jobs and the end of each chunk.
    async fn chunks(lines: &mut Lines) -> Vec<(u64, usize, Place)> {
        let mut interrupt = Interrupt::watch();
        let mut chunks = Vec::new();
        while let Some(chunk) = lines.next(&mut interrupt).await {
            let chunk = chunk.unwrap();
            chunks.push((chunk.first_line, chunk.jobs.len(), chunk.end));
        }
        chunks
    }

    #[tokio::test]
    async fn a_chunk_ends_after_a_thousand_jobs_and_a_second_run_cuts_the_same_ones() {
        let text: String =
            (0..2_500).map(|line| if line % 7 == 0 { "\r\n".to_owned() } else { format!("{line}\n") }).collect();
        let all = chunks(&mut of_text(text.clone(), Place::default())).await;
        assert_eq!(all.iter().map(|(_, jobs, _)| *jobs).collect::<Vec<_>>(), [1_000, 1_000, 142]);
        assert_eq!(chunks(&mut of_text(text.clone(), all[0].2)).await, all[1..]);
        for other in [text.replace("17\n", "18\n"), "1\n".to_owned()] {
            let chunk = of_text(other, all[0].2).next(&mut Interrupt::watch()).await;
            assert!(chunk.unwrap().unwrap_err().to_string().contains("the input differs"));
        }
    }

    #[tokio::test]
    async fn a_chunk_is_one_transaction_of_the_library() {
        let lengths = [60_000, 70_000, 1, 2, 60_000].into_iter().chain([60_000; 80]);
        let text: String = lengths.map(|length| "x".repeat(length) + "\n").collect();
        let all = chunks(&mut of_text(text, Place::default())).await;
        let all: Vec<_> = all.into_iter().map(|(first, jobs, end)| (first, jobs, end.lines)).collect();
        assert_eq!(all, [(1, 1, 1), (2, 1, 2), (3, 71, 73), (74, 12, 85)]);
    }

    #[tokio::test]
    async fn lines_without_jobs_end_nothing_however_many_and_long_they_are() {
        let text = format!("a\n{}\n{}b\n", " ".repeat(100_000), "\n".repeat(3_000));
        let all = chunks(&mut of_text(text, Place::default())).await;
        assert_eq!(all.iter().map(|(first, jobs, _)| (*first, *jobs)).collect::<Vec<_>>(), [(1, 1), (2, 1)]);
    }

    /// An endless input, which counts the bytes read.
    struct Endless {
        taken: std::sync::Arc<std::sync::atomic::AtomicUsize>,
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            // Lines of 10 MiB.
            for byte in &mut *buffer {
                let at = self.taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                *byte = if at.is_multiple_of(10 << 20) { b'\n' } else { b'x' };
            }
            Ok(buffer.len())
        }
    }

    #[tokio::test]
    async fn of_long_lines_one_is_read_ahead() {
        let taken = std::sync::Arc::default();
        let input = Endless { taken: std::sync::Arc::clone(&taken) };
        let mut lines = Lines::of(|| BufReader::new(input), reading(false));
        let mut interrupt = Interrupt::watch();
        let megabytes = || taken.load(std::sync::atomic::Ordering::Relaxed) >> 20;
        for chunk in 1..=3 {
            lines.next(&mut interrupt).await.unwrap().unwrap();
            // It has read the next line, and only so much of the line after that as shows that it is long.
            let give_up = Instant::now() + Duration::from_secs(60);
            while megabytes() < (chunk + 1) * 10 {
                assert!(Instant::now() < give_up);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            for _ in 0..100 {
                thread::yield_now();
                assert_eq!(megabytes(), (chunk + 1) * 10);
            }
        }
    }

    #[tokio::test]
    async fn what_a_live_input_has_brought_waits_for_more_only_where_chunks_must_be_the_same() {
        let mut interrupt = Interrupt::watch();
        for is_repeatable in [false, true] {
            let (mut writer, input) = UnixStream::pair().unwrap();
            let mut lines = Lines::of(|| BufReader::new(input), reading(is_repeatable));
            writer.write_all(b"1\n2\nthe beginning of 3").unwrap();
            if is_repeatable {
                writer.write_all(b"\n").unwrap();
                drop(writer);
                let chunk = lines.next(&mut interrupt).await.unwrap().unwrap();
                assert_eq!((chunk.jobs.len(), chunk.is_last), (3, true));
                continue;
            }
            let chunk = lines.next(&mut interrupt).await.unwrap().unwrap();
            assert_eq!((chunk.first_line, chunk.jobs.len(), chunk.is_last), (1, 2, false));
            assert_eq!(lines.left(), None);
            writer.write_all(b"\n4").unwrap();
            drop(writer);
            let chunk = lines.next(&mut interrupt).await.unwrap().unwrap();
            assert_eq!((chunk.first_line, chunk.jobs.len(), chunk.is_last), (3, 2, true));
        }
    }

    #[tokio::test]
    async fn a_last_line_without_an_end_is_refused_where_nothing_could_be_added_to_it_later() {
        let mut lines = of_text("1\n2".to_owned(), Place::default());
        let error = lines.next(&mut Interrupt::watch()).await.unwrap().unwrap_err().to_string();
        assert!(error.starts_with("line 2, the last one, has no line end"), "{error}");
    }

    #[test]
    fn a_line_of_json_has_what_belongs_to_the_job() {
        let line = r#"{"payload":{"a":1},"kind":"resize","priority":-5,"key":"k","headers":{"tenant":"acme"},"needs":{"threads":4,"gpu":2},"due_at":"2027-01-01T00:00:00Z"}"#;
        let at = time("2027-01-01T00:00:00Z").unwrap();
        let expected = NewJob::text(r#"{"a":1}"#)
            .kind("resize")
            .priority(-5)
            .dedup_key("k")
            .header("tenant", "acme")
            .needs(Needs::new().memory(1024).threads(4).token("gpu", 2))
            .due_at(at);
        let options = JobOptions {
            kind: Some("other".to_owned()),
            delay: Some(Duration::from_secs(1)),
            memory: Some(1024),
            tokens: vec![("gpu".to_owned(), 1)],
            ..JobOptions::default()
        };
        assert_eq!(job(line.into(), Format::Json, &options).unwrap(), expected);
        assert_eq!(
            job(br#"{"payload_hex":"0x00fF"}"#.into(), Format::Json, &JobOptions::default()).unwrap(),
            NewJob::bytes([0, 255])
        );
        for (line, says) in [
            ("{}", "payload or payload_hex"),
            (r#"{"payload":1,"colour":2}"#, "unknown field 'colour'"),
            (r#"{"payload":1,"delay_s":-1}"#, "delay_s is -1"),
            (r#"{"payload_hex":"0"}"#, "hexadecimal"),
            ("[]", "it must be a JSON object"),
        ] {
            let problem = job(line.into(), Format::Json, &JobOptions::default()).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
