//! Worker processes, and the ledger in which they note what they run: `tests/child_worker/main.rs`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use uuid::Uuid;

use super::Fixture;

/// A worker process. It is killed when this is dropped.
pub struct ChildWorker {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl ChildWorker {
    /// Starts one for the fixture's queue, with settings as `("WORKER_LEASE_MS", "1000")`; returns when it claims.
    pub async fn start(fixture: &Fixture, ledger: &Ledger, settings: &[(&str, &str)]) -> ChildWorker {
        let mut command = Command::new(program());
        command.arg(&ledger.path).env("READPAST_URL", fixture.url());
        command.env("READPAST_SCHEMA", fixture.schema()).env("READPAST_QUEUE", &fixture.config.queue.name);
        for (name, value) in settings {
            command.env(format!("READPAST_{name}"), value);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("the child starts");
        let output = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        let mut worker = ChildWorker { child, output };
        assert_eq!(worker.next_line().await.as_deref(), Some("ready"));
        worker
    }

    async fn next_line(&mut self) -> Option<String> {
        self.output.next_line().await.expect("the child's output is text")
    }

    /// `kill -9`.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("the child can be killed");
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the child can be asked").is_some()
    }

    /// Stops the process as a suspended virtual machine stops: nothing runs, connections stay.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Sends any other signal.
    pub fn signal(&self, name: &str) {
        let id = self.id();
        shell(&format!("kill -{name} {id}"));
    }

    /// Sends it twice, with nothing in between.
    pub fn signal_twice(&self, name: &str) {
        let id = self.id();
        shell(&format!("kill -{name} {id}; kill -{name} {id}"));
    }

    fn id(&self) -> u32 {
        self.child.id().expect("the child has not ended")
    }

    /// How much memory it has in use (Linux only), in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// How much memory it has had in use at the most (Linux only), in bytes.
    pub fn peak_resident_bytes(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("Linux tells");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it has memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of kB") * 1024
    }

    /// Asks it to stop, and waits for its end.
    pub async fn stop(mut self) -> Did {
        drop(self.child.stdin.take());
        self.ended().await
    }

    /// Waits for its end.
    pub async fn ended(mut self) -> Did {
        let line = self.next_line().await.expect("the child says what it did");
        assert!(self.child.wait().await.expect("the child ends").success());
        let mut numbers =
            line.split(' ').map(|pair| pair.split_once('=').expect("key=value").1.parse().expect("a number"));
        let mut next = || numbers.next().expect("three numbers");
        Did { done: next(), released: next(), lost: next() }
    }
}

fn shell(command: &str) {
    let sent = std::process::Command::new("sh").arg("-c").arg(command).status();
    assert!(sent.expect("there is a shell").success(), "{command}");
}

/// What a worker process did, as [`readpast::WorkerStats`] counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Did {
    pub done: u64,
    pub released: u64,
    pub lost: u64,
}

fn program() -> PathBuf {
    let tests = std::env::current_exe().expect("this program has a path");
    let target = tests.parent().and_then(Path::parent).expect("it lies in target/<profile>/deps");
    let program = target.join("examples").join("child_worker").with_extension(std::env::consts::EXE_EXTENSION);
    assert!(program.exists(), "build it: cargo build --example child_worker");
    program
}

/// What worker processes have run, in a file that outlives them. Removed when this is dropped.
pub struct Ledger {
    path: PathBuf,
    counted: Mutex<Counted>,
}

/// How much of a ledger was read, and how many lines that was.
struct Counted {
    file: File,
    lines: usize,
}

/// A start of a job, as the handler saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub fence: i32,
    pub attempt: i32,
    /// The worker's name.
    pub worker: String,
}

/// A line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Start {
        job_id: i64,
        worker: String,
    },
    /// `failed`: to be retried.
    End {
        job_id: i64,
        failed: bool,
    },
    Killed {
        worker: String,
    },
}

/// What the ledger says about one job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    pub starts: Vec<Start>,
    /// How many of them came to their end.
    pub ends: usize,
}

impl Ledger {
    pub fn new() -> Ledger {
        let path = std::env::temp_dir().join(format!("readpast-ledger-{}", Uuid::new_v4().simple()));
        std::fs::write(&path, "").expect("the folder for temporary files can be written");
        let file = File::open(&path).expect("the ledger can be read");
        Ledger { path, counted: Mutex::new(Counted { file, lines: 0 }) }
    }

    /// Whole lines only: the last one may be half written.
    fn text(&self) -> String {
        let mut text = std::fs::read_to_string(&self.path).expect("the ledger can be read");
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        text
    }

    /// By job id.
    pub fn read(&self) -> HashMap<i64, Runs> {
        let mut jobs: HashMap<i64, Runs> = HashMap::new();
        for line in self.text().lines() {
            let words: Vec<&str> = line.splitn(5, ' ').collect();
            let [event, job_id, fence, attempt, worker] = words[..] else { panic!("not a line of a ledger: {line}") };
            if event == "killed" {
                continue;
            }
            let runs = jobs.entry(job_id.parse().expect("a job's id")).or_default();
            match event {
                "start" => runs.starts.push(Start {
                    fence: fence.parse().expect("a fence"),
                    attempt: attempt.parse().expect("an attempt"),
                    worker: worker.to_string(),
                }),
                _ => runs.ends += 1,
            }
        }
        jobs
    }

    /// Whether a run of a job has started.
    pub fn has_started(&self, job_id: i64) -> bool {
        self.text().contains(&format!("start {job_id} "))
    }

    /// Notes that a worker was killed.
    pub fn note_killed(&self, worker: &str) {
        let file = File::options().append(true).open(&self.path).expect("the ledger can be written");
        (&file).write_all(format!("killed 0 0 0 {worker}\n").as_bytes()).expect("the ledger can be written");
    }

    /// What happened, in this order.
    pub fn events(&self) -> Vec<Event> {
        let event = |line: &str| {
            let words: Vec<&str> = line.splitn(5, ' ').collect();
            let (job_id, worker) = (words[1].parse().expect("a job's id"), words[4].to_string());
            match words[0] {
                "start" => Event::Start { job_id, worker },
                "killed" => Event::Killed { worker },
                end => Event::End { job_id, failed: end == "failed" },
            }
        };
        self.text().lines().map(event).collect()
    }

    /// How often each row of an adopted table was handled.
    pub fn rows(&self) -> HashMap<String, u32> {
        let text = std::fs::read_to_string(self.path_of_rows()).unwrap_or_default();
        let mut rows = HashMap::new();
        for line in text.lines() {
            *rows.entry(line.to_string()).or_default() += 1;
        }
        rows
    }

    fn path_of_rows(&self) -> String {
        format!("{}.rows", self.path.display())
    }

    /// How many lines there are: two for each run that came to its end.
    pub fn lines(&self) -> usize {
        let mut counted = self.counted.lock();
        let mut new = Vec::new();
        counted.file.read_to_end(&mut new).expect("the ledger can be read");
        counted.lines += new.iter().filter(|byte| **byte == b'\n').count();
        counted.lines
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(self.path_of_rows());
    }
}
