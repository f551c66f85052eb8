//! The dev server in a process of its own, so that its CPU time is its alone: this program again, which tells over its
//! standard output how much it has used and which procedures were called. It ends when its standard input does.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use readpast_devserver::DevServer;

/// Set for the process that is to be the server; the schema whose calls it counts.
const ROLE: &str = "READPAST_BENCH_SERVER";

/// What a page may read again and again.
const COUNTED: [&str; 6] = ["stats", "sample", "list_workers", "list_history", "peek", "list_errors"];

/// Plays the server, if that is what this process was started for; returns whether it was.
pub fn played_server() -> bool {
    let Some(schema) = std::env::var_os(ROLE).and_then(|schema| schema.into_string().ok()) else { return false };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(DevServer::builder().tls(false).start()).expect("the dev server starts");
    let calls = Arc::new(AtomicU64::new(0));
    for procedure in COUNTED {
        let calls = calls.clone();
        server.faults().on_call(&format!("{schema}.{procedure}"), move |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            None
        });
    }
    println!("{}", server.connection_string());
    for line in std::io::stdin().lock().lines() {
        if line.is_err() {
            break;
        }
        println!("{} {}", cpu().as_micros(), calls.load(Ordering::Relaxed));
    }
    true
}

/// The CPU time of this process, in steps of 10 ms.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program stands in brackets, and may contain spaces.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// The server, as its clients see it.
pub struct Server {
    /// Its connection string.
    pub url: String,
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Server {
    pub fn start(schema: &str) -> Server {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.env(ROLE, schema).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program can be started again");
        let questions = child.stdin.take().expect("it was piped");
        let mut answers = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut url = String::new();
        answers.read_line(&mut url).expect("the server prints its connection string");
        Server { url: url.trim_end().to_owned(), child, questions, answers }
    }

    /// Its CPU time and the calls so far.
    pub fn used(&mut self) -> (Duration, u64) {
        self.questions.write_all(b"?\n").and_then(|()| self.questions.flush()).expect("the server is alive");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the server answers");
        let (cpu, calls) = answer.trim_end().split_once(' ').expect("CPU time and calls");
        (Duration::from_micros(cpu.parse().expect("microseconds")), calls.parse().expect("a number"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}
