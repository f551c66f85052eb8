//! A session without a connection.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::engine::EngineOptions;
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

/// Runs a script whose batches are parted by GO, as sqlcmd does; none of them may fail.
pub fn script(session: &mut Session, sql: &str) {
    for batch in sql.split("\nGO") {
        rows(session, batch.trim());
    }
}

/// Waits until another session waits for a lock; fails the test after half a minute.
pub fn until_one_waits(engine: &Engine) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while engine.waiting_count() != 1 {
        assert!(Instant::now() < give_up, "nobody waits");
        thread::sleep(Duration::from_millis(1));
    }
}
