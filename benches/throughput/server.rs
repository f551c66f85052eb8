//! The server that is measured against: the dev server in a process of its own or, with `READPAST_URL`, a SQL Server.
//!
//! The process is this very program, started again in the role of the server; over its standard input and output it is
//! asked for its CPU time. It ends when its standard input does, so that it cannot outlive the bench.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use readpast_devserver::DevServer;

use super::{distance, usage};

/// Set for the process that is to be the server.
const ROLE: &str = "READPAST_BENCH_SERVER";

/// Plays the server, if that is what this process was started for; returns whether it was.
pub fn played_server() -> bool {
    if std::env::var_os(ROLE).is_none() {
        return false;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // Without TLS, as the peers' connections on this machine are.
    let server = runtime.block_on(DevServer::builder().tls(false).start()).expect("the dev server starts");
    println!("{}", server.connection_string());
    println!("{}", distance::start(server.address()));
    for line in std::io::stdin().lock().lines() {
        if line.is_err() {
            break;
        }
        println!("{} {}", usage::cpu().as_micros(), usage::resident_bytes().unwrap_or(0));
    }
    true
}

/// The server, as its clients see it.
pub struct Server {
    /// Its connection string.
    pub url: String,
    /// The same, over a longer way (`distance.rs`); where the server is not ours, its own way is what is measured.
    pub far_url: Option<String>,
    child: Option<ServerProcess>,
}

struct ServerProcess {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Server {
    pub fn start() -> Server {
        match std::env::var("READPAST_URL") {
            Ok(url) if !url.is_empty() => Server { url, far_url: None, child: None },
            _ => Server::start_dev_server(),
        }
    }

    fn start_dev_server() -> Server {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .env(ROLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let questions = child.stdin.take().expect("it was piped");
        let mut answers = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut url = String::new();
        answers.read_line(&mut url).expect("the server prints its connection string");
        assert!(!url.is_empty(), "the server process ended at its start");
        let mut far_port = String::new();
        answers.read_line(&mut far_port).expect("the server prints a port");
        let url = url.trim_end().to_owned();
        // The last of several equal keys counts.
        let far_url = Some(format!("{url};Server=tcp:127.0.0.1,{}", far_port.trim_end()));
        Server { url, far_url, child: Some(ServerProcess { child, questions, answers }) }
    }

    pub fn is_dev_server(&self) -> bool {
        self.child.is_some()
    }

    /// The server's CPU time so far; zero where it is not ours (its DMVs tell then, see `dmv.rs`).
    pub fn cpu(&mut self) -> Duration {
        let Some(process) = &mut self.child else {
            return Duration::ZERO;
        };
        process.questions.write_all(b"?\n").and_then(|()| process.questions.flush()).expect("the server is alive");
        let mut answer = String::new();
        process.answers.read_line(&mut answer).expect("the server answers");
        let (cpu, _) = answer.split_once(' ').expect("CPU time and memory");
        Duration::from_micros(cpu.parse().expect("microseconds"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
