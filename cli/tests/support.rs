//! What every test stands on: one server for all, a schema of its own on it, and the program, run to its end. On the
//! dev server most schemas stand in a database of their own (`server.rs`).
//!
//! `READPAST_URL` set ─▶ that SQL Server; otherwise the dev server, started by the first test that asks. A test that
//! fails leaves its schema behind, to be looked at.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use readpast::admin::QueueOptions;
use readpast::crates::tiberius::{Client, Config as DriverConfig};
use readpast::{Config, Context, Handlers, Job, JobError, Queue, Worker};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use crate::server::{self, real_server_url, server_url, unique};

/// A schema of a test's own.
pub struct Fixture {
    pub url: String,
    pub schema: String,
}

/// How a run of the program ended.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Standard output of a run that went well.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// Standard output of a run with `--json` that went well, object by object.
    pub fn json(self) -> Vec<serde_json::Value> {
        self.ok().lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// What was said of a run that ended with this code.
    pub fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.stderr
    }
}

impl Fixture {
    /// A schema with a queue `work`.
    pub async fn new(test_name: &str) -> Fixture {
        Fixture::with(test_name, QueueOptions::default()).await
    }

    /// A schema with a queue `work` that has these settings.
    pub async fn with(test_name: &str, options: QueueOptions) -> Fixture {
        let fixture = match real_server_url() {
            Some(_) => {
                let fixture = Fixture::not_installed(test_name).await;
                fixture.queue("work").await.admin().install().await.expect("the schema is installed");
                fixture
            }
            None => {
                Fixture { url: server::installed_database(&unique(test_name)).await, schema: server::SCHEMA.to_owned() }
            }
        };
        fixture.queue("work").await.admin().create(options).await.expect("the queue is created");
        fixture
    }

    /// The name of a schema in which nothing is installed yet.
    pub async fn not_installed(test_name: &str) -> Fixture {
        Fixture { url: server_url().await, schema: unique(&format!("cli_{test_name}")) }
    }

    /// The settings of the library for this schema.
    pub fn config(&self, queue: &str) -> Config {
        let mut config = Config::default();
        config.connection.url = self.url.as_str().into();
        config.connection.schema = self.schema.clone();
        config.queue.name = queue.to_owned();
        config
    }

    /// The library's queue, for what a test prepares and looks at.
    pub async fn queue(&self, name: &str) -> Queue {
        Queue::connect(&self.config(name)).await.expect("the library connects")
    }

    /// The program with these arguments; nothing of this process's settings but where the server is.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_as(&self.url, arguments)
    }

    /// The same, for another login.
    pub fn command_as(&self, url: &str, arguments: &[&str]) -> Command {
        let mut command = self.command_of(env!("CARGO_BIN_EXE_readpast"), arguments);
        command.env("READPAST_URL", url);
        command
    }

    /// Another program, a shell for example, that finds `readpast` and its settings.
    pub fn command_of(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("READPAST_")) {
            command.env_remove(name);
        }
        let folder = Path::new(env!("CARGO_BIN_EXE_readpast")).parent().unwrap().to_path_buf();
        let others = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&others))).unwrap();
        command.env("PATH", path).env("READPAST_URL", &self.url).env("READPAST_SCHEMA", &self.schema);
        command.env("TZ", "UTC").env("NO_COLOR", "1").env("COLUMNS", "200").stdin(Stdio::null()).args(arguments);
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Run {
        run(&mut self.command(arguments))
    }

    /// Runs the program to its end, with something on its standard input.
    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Run {
        run_with_input(&mut self.command(arguments), input)
    }

    /// Runs the program to its end; with the most memory that it had resident, in KiB.
    pub fn run_measured(&self, arguments: &[&str]) -> (Run, u64) {
        let mut command = self.command(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        let watch = std::thread::spawn(move || {
            let mut most = 0;
            // It ends with the process, whose file has then no memory.
            while let Some(now) = peak_kib(&std::fs::read_to_string(&status).unwrap_or_default()) {
                most = now;
                std::thread::sleep(Duration::from_millis(5));
            }
            most
        });
        let run = ended(child.wait_with_output().unwrap());
        (run, watch.join().unwrap())
    }

    /// Runs what is ready in a queue with a handler that refuses all of it for good.
    pub async fn kill_all(&self, queue: &str) {
        let refuse = |_: &Job, _: &Context| -> Result<(), readpast::BoxError> {
            Err(JobError::dead("it cannot be read").into())
        };
        let worker = Worker::builder(&self.queue(queue).await, Handlers::any(refuse)).start().await.unwrap();
        worker.drain().await.unwrap();
    }

    /// The connection string of a new login that is a member of one role of the schema (`producer`, `worker`,
    /// `operator`, `monitor`) or of none.
    pub async fn login(&self, role: Option<&str>) -> String {
        let name = unique(&format!("login_{}", role.unwrap_or("nobody")));
        let password = "Ab1!4rdvark-9zebra";
        let mut statements = vec![
            format!("CREATE LOGIN [{name}] WITH PASSWORD = '{password}'"),
            format!("CREATE USER [{name}] FOR LOGIN [{name}]"),
        ];
        statements.extend(role.map(|role| format!("ALTER ROLE [{}_{role}] ADD MEMBER [{name}]", self.schema)));
        for statement in statements {
            self.sql(&statement).await;
        }
        format!("{};User ID={name};Password={password}", self.url)
    }

    /// Another program's connection.
    pub async fn client(&self) -> Client<Compat<TcpStream>> {
        let config = DriverConfig::from_ado_string(&self.url).expect("a connection string");
        let socket = TcpStream::connect(config.get_addr()).await.expect("the server listens");
        Client::connect(config, socket.compat_write()).await.expect("it lets us in")
    }

    /// Another program's connection: one statement.
    pub async fn sql(&self, statement: &str) {
        self.script(statement).await;
    }

    /// A script as sqlcmd takes it, in one session.
    pub async fn script(&self, script: &str) {
        let mut client = self.client().await;
        for batch in script.replace("$(schema)", &self.schema).split("\nGO\n") {
            let answer = client.simple_query(batch).await.expect(batch);
            answer.into_results().await.expect(batch);
        }
    }
}

/// Runs a program to its end.
pub fn run(command: &mut Command) -> Run {
    run_with_input(command, b"")
}

/// Runs a program to its end, with something on its standard input.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Run {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input)); // an error: it has ended without reading all
        child.wait_with_output().unwrap()
    });
    ended(output)
}

fn ended(output: std::process::Output) -> Run {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().unwrap_or(-1);
    Run { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The most memory that a process had resident, by its file `status`.
fn peak_kib(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Compares with the file of this name in `snapshots`, where times, ids and durations do not count.
pub fn snapshot(name: &str, text: &str) {
    let filters = [
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<date>     <time>"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<a number of 128 bits>"),
        (r"\b\d+(\.\d+)?(ms|s)\b", "<ms>"),
        (r"cli_\w+_[0-9a-f]{12}", "<schema>"),
    ];
    insta::with_settings!({filters => filters, prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!(name, text);
    });
}

/// A new folder for a test's files.
pub fn temporary_folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Waits until a condition holds, looking again and again; fails the test after a minute.
pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !condition().await {
        assert!(Instant::now() < give_up, "waited for this in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
