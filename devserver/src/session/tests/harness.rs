//! A session without a connection.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::engine::EngineOptions;
use crate::storage::check_consistency;
use crate::tds::login::LoginRequest;
use crate::tds::token::ResponseWriter;

pub fn engine() -> Arc<Engine> {
    Engine::new(EngineOptions { password: "secret".into(), ..EngineOptions::default() })
}

pub fn login(engine: &Arc<Engine>, user: &str, password: &str) -> Session {
    login_to(engine, user, password, "readpast")
}

/// A session in a database; in the login's own where that is empty.
pub fn login_to(engine: &Arc<Engine>, user: &str, password: &str, database: &str) -> Session {
    let request = LoginRequest {
        user: user.into(),
        password: Some(password.into()),
        database: database.into(),
        app_name: "test".into(),
        host_name: "here".into(),
    };
    engine.login(&request).expect("the login is known")
}

/// Runs a batch and gives its tokens.
pub fn run(session: &mut Session, sql: &str) -> Vec<String> {
    let mut writer = ResponseWriter::for_test();
    session.run_batch(sql, &mut writer);
    writer.tokens()
}

/// The rows of a batch that must not fail.
pub fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let tokens = run(session, sql);
    let failed = tokens.iter().any(|token| token.starts_with("ERROR"));
    assert!(!failed, "{sql}\n{tokens:#?}");
    tokens.into_iter().filter(|token| token.starts_with("ROW")).collect()
}

/// A server and a session of `sa`.
pub fn session() -> (Arc<Engine>, Session) {
    let engine = engine();
    let session = login(&engine, "sa", "secret");
    (engine, session)
}

/// The numbers of the errors of a batch, in order.
pub fn errors(session: &mut Session, sql: &str) -> Vec<i32> {
    let tokens = run(session, sql);
    let errors = tokens.iter().filter_map(|token| token.strip_prefix("ERROR("));
    errors.map(|error| error.split(',').next().and_then(|number| number.parse().ok()).expect("a number")).collect()
}

/// Runs a batch that must not fail.
pub fn ok(session: &mut Session, sql: &str) {
    rows(session, sql);
}

/// Waits until another session waits for a lock; fails the test after half a minute.
pub fn until_one_waits(engine: &Engine) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while engine.waiting_count() != 1 {
        assert!(Instant::now() < give_up, "nobody waits");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a script on a server of its own. A section of the script begins with `== ` and what it shows, and has a server
/// of its own too, on which what stands above the first section runs before it.
///
/// The batches are those of [`Session::check`]. One that begins with a name and a colon runs in another session: that
/// of the login of this name and password, or of `sa` if the name is a number.
pub fn check(script: &str) {
    let (shared, sections) = script.split_once("== ").unwrap_or((script, ""));
    for section in sections.split("== ") {
        let (heading, text) = section.split_once('\n').unwrap_or_default();
        let engine = engine();
        let mut sessions = HashMap::new();
        for (batch, expected) in batches(shared).iter().chain(&batches(text)) {
            let (name, sql) = match batch.split_once(": ") {
                Some((name, sql)) if name.chars().all(char::is_alphanumeric) => (name, sql),
                _ => ("", batch.as_str()),
            };
            let (user, password) = if name.chars().all(char::is_numeric) { ("sa", "secret") } else { (name, name) };
            let session = sessions.entry(name.to_owned()).or_insert_with(|| login(&engine, user, password));
            check_batch(session, sql, expected, heading);
        }
        check_all(&sessions);
    }
}

/// Every index agrees with its table, unless a transaction is open.
fn check_all(sessions: &HashMap<String, Session>) {
    let Some(session) = sessions.values().next() else { return };
    if sessions.values().any(|session| session.tx.is_some()) {
        return;
    }
    let latch = session.database.storage.latch();
    for schema in latch.tables() {
        let table = latch.table(schema.id).expect("it was listed");
        check_consistency(table).unwrap_or_else(|problem| panic!("{problem}"));
    }
}

impl Session {
    /// Runs the batches of a script. Each goes up to ` => ` and the rows and errors that it must give, parted by ` | `:
    /// those of an error are `error`, its number, and perhaps a part of its text. `ok` stands for any rows but no
    /// error, `none` for neither. `tokens` comes before all tokens of the answer. Lines that begin with `|` have more of
    /// them. Several batches that give the same are parted by ` ;; `. The last batch may end without a `=>`.
    pub fn check(&mut self, script: &str) {
        for (sql, expected) in batches(script) {
            check_batch(self, &sql, &expected, "");
        }
    }
}

/// The batches of a script, each with what it must give.
fn batches(script: &str) -> Vec<(String, String)> {
    let mut batches: Vec<(String, String)> = Vec::new();
    let mut sql = String::new();
    for line in script.lines().map(str::trim) {
        if let (Some(_), Some((_, expected))) = (line.strip_prefix('|'), batches.last_mut()) {
            expected.extend([" ", line]);
        } else if let Some((end, expected)) = line.rsplit_once("=> ") {
            sql.push_str(end.trim_end());
            batches.push((mem::take(&mut sql), expected.to_owned()));
        } else if !(sql.is_empty() && line.starts_with("--")) {
            sql.extend([line, "\n"]);
        }
    }
    if !sql.trim().is_empty() {
        batches.push((sql, "ok".to_owned()));
    }
    batches
}

fn check_batch(session: &mut Session, sql: &str, expected: &str, heading: &str) {
    sql.split(";;").for_each(|sql| check_one(session, sql.trim(), expected, heading));
}

fn check_one(session: &mut Session, sql: &str, expected: &str, heading: &str) {
    let tokens = run(session, sql);
    let content = |token: &str, name: &str| Some(token.strip_prefix(name)?.strip_suffix(')')?.to_owned());
    let outcome = |token: &String| {
        content(token, "ROW(").or_else(|| Some(format!("error {}", content(token, "ERROR(")?.replacen(',', "", 1))))
    };
    let found: Vec<String> = tokens.iter().filter_map(outcome).collect();
    let is_error = |outcome: &String| outcome.starts_with("error ");
    let is_same = |(found, expected): (&String, &str)| match expected.strip_prefix("error ") {
        Some(error) => {
            let (number, text) = error.split_once(' ').unwrap_or((error, ""));
            found.starts_with(&format!("error {number} ")) && found.contains(text)
        }
        None => found == expected,
    };
    let found = if expected.starts_with("tokens ") { tokens } else { found };
    let is_expected = match expected {
        "ok" => !found.iter().any(is_error),
        "none" => found.is_empty(),
        _ if expected.starts_with("tokens ") => expected["tokens ".len()..] == found.join(" | "),
        _ => {
            let expected: Vec<&str> = expected.split(" | ").collect();
            found.len() == expected.len() && found.iter().zip(expected).all(is_same)
        }
    };
    assert!(is_expected, "{heading}\n{sql}\n  expected: {expected}\n  found: {}", found.join(" | "));
}
