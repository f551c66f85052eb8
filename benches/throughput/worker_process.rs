//! A worker of no-op jobs with one thread, in a process of its own: this very program, started again in that role. Over
//! its standard input and output it is asked what it has done; it ends when its standard input does.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use readpast::config::WorkerConfig;
use readpast::{Handlers, Queue, Worker};

use super::bench::Bench;
use super::usage;

/// Set for the process that is to be a worker, to the connection string; its argument is the queue.
const ROLE: &str = "READPAST_BENCH_WORKER";

/// Plays the worker, if that is what this process was started for; returns whether it was.
pub fn played_worker() -> bool {
    let (Ok(url), Some(queue)) = (std::env::var(ROLE), std::env::args().nth(1)) else {
        return false;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let worker = runtime.block_on(async {
        let queue = Queue::connect(&super::bench::config(&url, &queue)).await.expect("the library connects");
        let mut config = WorkerConfig::default();
        config.threads = 1;
        let handlers = Handlers::any(|_job, _context| Ok(()));
        Worker::builder(&queue, handlers).config(&config).start().await.expect("the worker starts")
    });
    let monitor = worker.monitor();
    for line in std::io::stdin().lock().lines() {
        if line.is_err() {
            break;
        }
        println!("{} {}", monitor.stats().done, usage::cpu().as_micros());
    }
    runtime.block_on(worker.shutdown()).expect("the worker ends");
    true
}

/// Such a process. Dropping it ends it, and waits for its end.
pub struct WorkerProcess {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl WorkerProcess {
    pub fn start(bench: &Bench, queue: &str) -> WorkerProcess {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .arg(queue)
            .env(ROLE, &bench.server.url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it was piped"));
        WorkerProcess { child, questions, answers }
    }

    /// How many jobs are acknowledged, and the CPU time of the process, both since its start.
    pub fn done(&mut self) -> (u64, Duration) {
        let questions = self.questions.as_mut().expect("it is open until the end");
        questions.write_all(b"?\n").and_then(|()| questions.flush()).expect("the worker is alive");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the worker answers");
        let (done, cpu) = answer.trim_end().split_once(' ').expect("jobs and CPU time");
        (done.parse().expect("a number"), Duration::from_micros(cpu.parse().expect("microseconds")))
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.questions = None;
        let _ = self.child.wait();
    }
}
