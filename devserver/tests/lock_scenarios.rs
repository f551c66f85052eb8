//! Plays the scripts in `lock_scenarios/`: two and more connections against each other, step by step. Each says from
//! which page of Microsoft's documentation its expectations are. The format is described in `lock_scenarios/README.md`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use readpast_devserver::DevServer;
use tiberius::{Client, ColumnData, Config, EncryptionLevel};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

/// Whatever takes longer than this will not happen any more.
const PATIENCE: Duration = Duration::from_secs(20);

type Connection = Client<Compat<TcpStream>>;

struct Scenario {
    name: String,
    source: String,
    steps: Vec<Step>,
}

struct Step {
    line: usize,
    who: String,
    expected: String,
    sql: String,
}

/// What a batch has brought: its rows as text, or the number of its first error.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Rows(Vec<String>),
    Error(u32),
    Broken(String),
}

fn parse(text: &str) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(directive) = line.strip_prefix("--- ") else {
            if let Some(step) = scenarios.last_mut().and_then(|scenario| scenario.steps.last_mut()) {
                step.sql.push_str(line);
                step.sql.push('\n');
            }
            continue;
        };
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        let rest = rest.trim().to_string();
        match (word, scenarios.last_mut()) {
            ("scenario", _) => scenarios.push(Scenario { name: rest, source: String::new(), steps: Vec::new() }),
            (_, None) => panic!("line {}: a step before the first scenario", number + 1),
            ("source", Some(scenario)) => scenario.source = rest,
            (who, Some(scenario)) => {
                let step = Step { line: number + 1, who: who.to_string(), expected: rest, sql: String::new() };
                scenario.steps.push(step);
            }
        }
    }
    scenarios
}

fn value_text(value: ColumnData<'static>) -> String {
    let text = match value {
        ColumnData::U8(value) => value.map(|value| value.to_string()),
        ColumnData::I16(value) => value.map(|value| value.to_string()),
        ColumnData::I32(value) => value.map(|value| value.to_string()),
        ColumnData::I64(value) => value.map(|value| value.to_string()),
        ColumnData::Bit(value) => value.map(|value| u8::from(value).to_string()),
        ColumnData::String(value) => value.map(|value| value.trim_end().to_string()),
        other => panic!("a scenario reads numbers and text, not {other:?}"),
    };
    text.unwrap_or_else(|| "NULL".to_string())
}

async fn run(connection: &mut Connection, sql: String) -> Outcome {
    let results = async { connection.simple_query(sql).await?.into_results().await };
    match results.await {
        Ok(results) => {
            let row_text = |row: tiberius::Row| row.into_iter().map(value_text).collect::<Vec<_>>().join(",");
            Outcome::Rows(results.into_iter().flatten().map(row_text).collect())
        }
        Err(tiberius::error::Error::Server(error)) => Outcome::Error(error.code()),
        Err(error) => Outcome::Broken(error.to_string()),
    }
}

/// A connection, or the batch that has it.
enum Session {
    Idle(Box<Connection>),
    Running(JoinHandle<(Box<Connection>, Outcome)>),
}

struct Player<'a> {
    server: &'a DevServer,
    database: String,
    sessions: BTreeMap<String, (i32, Session)>,
}

impl Player<'_> {
    async fn connect(&self) -> (i32, Connection) {
        let mut config = Config::from_ado_string(&self.server.connection_string()).unwrap();
        config.database(&self.database);
        config.encryption(EncryptionLevel::NotSupported);
        let socket = TcpStream::connect(self.server.address()).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let mut connection = Client::connect(config, socket.compat_write()).await.unwrap();
        let row = connection.simple_query("SELECT CAST(@@SPID AS int)").await.unwrap().into_row().await.unwrap();
        (row.unwrap().get(0).unwrap(), connection)
    }

    /// Starts a batch.
    async fn start(&mut self, who: &str, sql: &str) -> Result<(), String> {
        let (spid, session) = match self.sessions.remove(who) {
            Some(session) => session,
            None => {
                let (spid, connection) = self.connect().await;
                (spid, Session::Idle(Box::new(connection)))
            }
        };
        let Session::Idle(mut connection) = session else {
            return Err(format!("{who} is still waiting"));
        };
        let sql = sql.replace("$(database)", &self.database);
        let running = tokio::spawn(async move {
            let outcome = run(&mut connection, sql).await;
            (connection, outcome)
        });
        self.sessions.insert(who.to_string(), (spid, Session::Running(running)));
        Ok(())
    }

    /// The end of the batch that runs.
    async fn finish(&mut self, who: &str) -> Result<Outcome, String> {
        let Some((spid, Session::Running(running))) = self.sessions.remove(who) else {
            return Err(format!("{who} runs nothing"));
        };
        let abort = running.abort_handle();
        match tokio::time::timeout(PATIENCE, running).await {
            Ok(Ok((connection, outcome))) => {
                self.sessions.insert(who.to_string(), (spid, Session::Idle(connection)));
                Ok(outcome)
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                abort.abort();
                Err("it goes on waiting".to_string())
            }
        }
    }

    /// Until the batch that runs waits for a lock, as the server says.
    async fn until_blocked(&mut self, who: &str) -> Result<(), String> {
        let Some((spid, Session::Running(running))) = self.sessions.get(who) else {
            return Err(format!("{who} runs nothing"));
        };
        let question =
            format!("SELECT COUNT(*) FROM sys.dm_exec_requests WHERE session_id = {spid} AND wait_type LIKE N'LCK%'");
        let (_, mut observer) = self.connect().await;
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if run(&mut observer, question.clone()).await == Outcome::Rows(vec!["1".to_string()]) {
                return Ok(());
            }
            if running.is_finished() {
                let outcome = self.finish(who).await?;
                return Err(format!("it does not block: {outcome:?}"));
            }
        }
        Err("it neither ends nor blocks".to_string())
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        let who = step.who.as_str();
        match step.expected.as_str() {
            "disconnect" => {
                self.sessions.remove(who);
                return Ok(());
            }
            "blocks" => {
                self.start(who, &step.sql).await?;
                return self.until_blocked(who).await;
            }
            "still blocked" => return self.until_blocked(who).await,
            _ => {}
        }
        let expected = match step.expected.strip_prefix("resumes") {
            Some(expected) => expected.trim(),
            None => {
                self.start(who, &step.sql).await?;
                step.expected.as_str()
            }
        };
        let outcome = self.finish(who).await?;
        let as_expected = match (expected.split_once(' ').unwrap_or((expected, "")), &outcome) {
            (("", _), Outcome::Rows(_)) => true,
            (("rows", "none"), Outcome::Rows(rows)) => rows.is_empty(),
            (("rows", list), Outcome::Rows(rows)) => list.split(" / ").eq(rows.iter().map(String::as_str)),
            (("error", number), Outcome::Error(code)) => number == code.to_string(),
            (("broken", _), Outcome::Broken(_)) => true,
            _ => false,
        };
        if as_expected { Ok(()) } else { Err(format!("{outcome:?}")) }
    }

    async fn play(&mut self, scenario: &Scenario) -> Result<(), String> {
        for step in &scenario.steps {
            if step.who != "setup" {
                // Those who wait for the database to themselves do not wait for the one that has set it up.
                self.sessions.remove("setup");
            }
            self.step(step).await.map_err(|error| {
                format!("line {}: {} {}\n{}    came: {error}", step.line, step.who, step.expected, step.sql)
            })?;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_goes_as_documented() {
    let server = DevServer::start().await.unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lock_scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    let (mut played, mut failures) = (0, String::new());
    for file in files {
        let file_name = file.file_name().unwrap().to_string_lossy().into_owned();
        for scenario in parse(&std::fs::read_to_string(&file).unwrap()) {
            played += 1;
            assert!(scenario.source.contains(".md"), "{file_name}: {} says where it is from", scenario.name);
            let home = Player { server: &server, database: "readpast".to_string(), sessions: BTreeMap::new() };
            let database = format!("scenario{played}");
            let (_, mut connection) = home.connect().await;
            run(&mut connection, format!("CREATE DATABASE {database}")).await;
            let mut player = Player { server: &server, database, sessions: BTreeMap::new() };
            if let Err(error) = player.play(&scenario).await {
                writeln!(failures, "\n{file_name}: {}\n  ({})\n  {error}", scenario.name, scenario.source).unwrap();
            }
        }
    }
    assert!(failures.is_empty(), "of {played} scenarios these went otherwise:\n{failures}");
    assert!(played >= 60, "{played} scenarios were found");
    server.shutdown().await;
}
