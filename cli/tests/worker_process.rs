//! `readpast work` as a process that goes on, and what a test sees of the programs that it runs.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use readpast::admin::{CompletionPolicy, JobRow, JobState, QueueOptions};
use readpast::{JobId, NewJob, Queue};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

use crate::support::{Fixture, Run};

/// How long a test waits for something that is to happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A queue that keeps what jobs leave behind, and a directory in which programs leave traces.
pub struct WorkFixture {
    pub fixture: Fixture,
    pub queue: Queue,
    directory: TempDir,
}

impl WorkFixture {
    pub async fn new(test_name: &str) -> WorkFixture {
        let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
        let fixture = Fixture::with(test_name, options).await;
        let queue = fixture.queue("work").await;
        WorkFixture { fixture, queue, directory: tempfile::tempdir().unwrap() }
    }

    /// The path of a file in the test's directory, for a command line.
    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// `readpast work work` with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_with(&[], arguments)
    }

    /// The same, with these first. Leases are short, and failed jobs are tried again at once.
    fn command_with(&self, first: &[&str], arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = self.fixture.command(&["work", "work"]);
        command.args(first).args(arguments).current_dir(self.directory.path());
        for (name, value) in [
            ("CONNECTION_CONNECT_TIMEOUT_MS", "3000"),
            ("CONNECTION_COMMAND_TIMEOUT_MS", "3000"),
            ("WORKER_LEASE_MS", "3000"),
            ("WORKER_HEARTBEAT_INTERVAL_MS", "300"),
            ("WORKER_REAP_INTERVAL_MS", "200"),
            ("WORKER_PROMOTE_INTERVAL_MS", "50"),
            ("WORKER_RETRY_BASE_MS", "10"),
        ] {
            command.env(format!("READPAST_{name}"), value);
        }
        command
    }

    /// Runs jobs to the end of the queue.
    pub fn drain(&self, arguments: &[impl AsRef<OsStr>]) -> Run {
        crate::support::run(&mut self.command_with(&["--drain"], arguments))
    }

    /// A worker that goes on.
    pub fn start(&self, arguments: &[impl AsRef<OsStr>]) -> WorkerProcess {
        WorkerProcess::start(self.command_with(&[], arguments))
    }

    pub async fn enqueue(&self, job: NewJob) -> JobId {
        self.queue.enqueue(&job).await.unwrap().job_id
    }

    /// The job as it stands in the table. (While it is locked, nothing is shown.)
    pub async fn row(&self, job_id: JobId) -> JobRow {
        let give_up = std::time::Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(row) = self.queue.admin().job(job_id, None).await.unwrap() {
                return row;
            }
            assert!(std::time::Instant::now() < give_up, "the queue keeps its jobs");
        }
    }

    /// The output of a job that is done, as text.
    pub async fn output(&self, job_id: JobId) -> String {
        let row = self.row(job_id).await;
        assert_eq!(row.state, JobState::Done, "{row:?}");
        String::from_utf8(row.output.unwrap_or_default()).unwrap()
    }

    /// Runs one job to its end, with a program that is to be called once.
    pub async fn run_one(&self, job: NewJob, arguments: &[&str]) -> JobRow {
        let job_id = self.enqueue(job.max_attempts(1)).await;
        self.drain(arguments).ok();
        self.row(job_id).await
    }

    /// Waits until a program has written a file with a whole line, and returns that line.
    pub fn line_of(&self, name: &str) -> String {
        let path = PathBuf::from(self.path(name));
        let mut text = String::new();
        wait_for(&format!("a line in {name}"), || {
            text = std::fs::read_to_string(&path).unwrap_or_default();
            text.ends_with('\n')
        });
        text.trim_end().to_owned()
    }

    /// The same, for a process id.
    pub fn process_of(&self, name: &str) -> Process {
        Process(Pid::from_raw(self.line_of(name).parse().unwrap()).unwrap())
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// A process that a test looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(pub Pid);

impl Process {
    /// A process that has ended and that nobody has waited for counts as ended.
    pub fn runs(self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.0.as_raw_pid()));
        let is_zombie = status.is_ok_and(|line| line.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')));
        test_kill_process(self.0).is_ok() && !is_zombie
    }

    pub fn wait_for_end(self) {
        wait_for(&format!("the end of {self:?}"), || !self.runs());
    }

    pub fn signal(self, signal: Signal) {
        kill_process(self.0, signal).unwrap();
    }
}

/// Whether there is such a program; where it is missing, the test says so and counts nothing.
pub fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        skip(&format!("there is no {program} here"));
    }
    there
}

/// Says why a test counts nothing.
pub fn skip(why: &str) {
    // Not by a macro, whose output nobody would see.
    std::io::stderr().write_all(format!("SKIPPED: {why}\n").as_bytes()).unwrap();
}

/// Waits until `condition` holds; fails the test after half a minute.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < give_up, "waited for this in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `readpast work`, running. It is killed when this is dropped.
pub struct WorkerProcess {
    child: Child,
    logged: Arc<Mutex<String>>,
    reading: Option<JoinHandle<()>>,
}

impl WorkerProcess {
    pub fn start(mut command: Command) -> WorkerProcess {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let logged = Arc::new(Mutex::new(String::new()));
        let (lines, log) = (BufReader::new(child.stderr.take().unwrap()).lines(), logged.clone());
        let reading = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                log.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        WorkerProcess { child, logged, reading: Some(reading) }
    }

    pub fn process(&self) -> Process {
        Process(Pid::from_child(&self.child))
    }

    pub fn signal(&self, signal: Signal) {
        self.process().signal(signal);
    }

    /// Another signal: two that come within 100 ms are one.
    pub fn signal_again(&self, signal: Signal) {
        std::thread::sleep(Duration::from_millis(300));
        self.signal(signal);
    }

    /// What it has logged so far.
    pub fn logged(&self) -> String {
        self.logged.lock().unwrap().clone()
    }

    /// The small process beside it.
    pub fn guard(&self) -> Process {
        let of_threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let children = of_threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")));
        let children: Vec<String> = children.filter_map(Result::ok).collect(); // a thread may have ended
        let pids = children.iter().flat_map(|pids| pids.split_whitespace());
        let processes = pids.map(|pid| Process(Pid::from_raw(pid.parse().unwrap()).unwrap()));
        let is_guard = |process: &Process| {
            let name = std::fs::read_to_string(format!("/proc/{}/comm", process.0.as_raw_pid()));
            name.is_ok_and(|name| name.trim() == "rp-guard") && process.runs()
        };
        processes.into_iter().find(is_guard).expect("it has a guard")
    }

    /// Waits for its end.
    pub fn end(mut self) -> Run {
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        self.reading.take().unwrap().join().unwrap();
        Run { code, stdout, stderr: self.logged() }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
