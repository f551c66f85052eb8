//! Any sequence of statements leaves rows and indexes consistent, and every failure leaves what was before.
//!
//! After each statement of a random script:
//! - every index of every table holds exactly the table's rows (`storage::check_live`; ghosts too when no transaction
//!   is open and none are kept, `storage::check_consistency`);
//! - a statement that failed changed nothing, or, where the transaction went with it, everything is as at its begin;
//! - half of the scripts keep ghosts from some time on (`Faults::keep_ghosts`), which changes none of this;
//! - after ROLLBACK everything is as at BEGIN TRANSACTION, after ROLLBACK to a savepoint as when that was set.

use std::sync::Arc;

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{rows, run, session};
use crate::storage::{check_consistency, check_live};

const SCRIPTS: u64 = 60;
const STATEMENTS: usize = 60;

/// Small domains, so that keys collide, filters change their mind and conditions meet rows.
const SCHEMA: &[&str] = &[
    "CREATE TABLE dbo.a (id int NOT NULL, k int NOT NULL, n int NULL, s nvarchar(20) NULL, \
     twice AS (n * 2), CONSTRAINT pk_a PRIMARY KEY CLUSTERED (id), CONSTRAINT ck_a CHECK (k < 20))",
    "CREATE INDEX ix_a_k ON dbo.a (k DESC) INCLUDE (s)",
    "CREATE UNIQUE INDEX ux_a_n ON dbo.a (n) WHERE n IS NOT NULL",
    "CREATE TABLE dbo.b (k int NOT NULL, n int NULL, s nvarchar(20) NULL, CONSTRAINT uq_b UNIQUE (k, n))",
    "CREATE INDEX ix_b_s ON dbo.b (s) WHERE k > 5",
    "CREATE TABLE dbo.c (k int NOT NULL, n int NULL, at rowversion)",
    "CREATE CLUSTERED INDEX cx_c ON dbo.c (k)",
];

const DUMPS: &[&str] = &[
    "SELECT id, k, n, s, twice FROM dbo.a ORDER BY id",
    "SELECT k, n, s FROM dbo.b ORDER BY k, n, s",
    "SELECT k, n FROM dbo.c ORDER BY k, n",
];

type Dump = Vec<Vec<String>>;

struct Script {
    random: fastrand::Rng,
    engine: Arc<Engine>,
    session: Session,
    /// What was there at BEGIN TRANSACTION, while one is open.
    at_begin: Option<Dump>,
    /// What was there at the savepoints, the latest last.
    at_savepoints: Vec<(usize, Dump)>,
    extra_index: bool,
    /// Ghosts may be kept in this script, and are now.
    may_keep_ghosts: bool,
    keeps_ghosts: bool,
}

impl Script {
    fn new(seed: u64) -> Script {
        let (engine, mut session) = session();
        for statement in SCHEMA {
            rows(&mut session, statement);
        }
        let random = fastrand::Rng::with_seed(seed);
        Script {
            random,
            engine,
            session,
            at_begin: None,
            at_savepoints: Vec::new(),
            extra_index: false,
            may_keep_ghosts: seed % 2 == 1,
            keeps_ghosts: false,
        }
    }

    fn dump(&mut self) -> Dump {
        DUMPS.iter().map(|query| rows(&mut self.session, query)).collect()
    }

    fn number(&mut self) -> String {
        if self.random.u8(..8) == 0 { "NULL".into() } else { self.random.u8(..12).to_string() }
    }

    fn key(&mut self) -> u8 {
        self.random.u8(..25)
    }

    fn text(&mut self) -> String {
        match self.random.u8(..4) {
            0 => "NULL".into(),
            1 => "N'ü😀'".into(),
            _ => format!("N'{}'", "x".repeat(self.random.usize(..25))),
        }
    }

    fn condition(&mut self) -> String {
        let key = self.key();
        match self.random.u8(..7) {
            0 => format!("k = {key}"),
            1 => format!("k BETWEEN {key} AND {}", key.saturating_add(5)),
            2 => "n IS NULL".into(),
            3 => format!("n > {}", key / 2),
            4 => format!("n IN (SELECT k FROM dbo.c WHERE k < {key})"),
            5 => "k % 3 = 0".into(),
            _ => "1 = 1".into(),
        }
    }

    /// A statement that changes rows, with the chance to fail halfway.
    fn change(&mut self) -> String {
        let (k, n, s, condition) = (self.key(), self.number(), self.text(), self.condition());
        let table = ["dbo.a", "dbo.b", "dbo.c"][self.random.usize(..3)];
        let top = if self.random.bool() { format!("TOP ({}) ", self.random.u8(..4)) } else { String::new() };
        match self.random.u8(..13) {
            0 | 1 => format!(
                "INSERT dbo.a (id, k, n, s) VALUES ({}, {k}, {n}, {s}), ({}, {}, {n} + 1, {s})",
                self.key(),
                self.key(),
                k / 2
            ),
            2 => format!("INSERT dbo.b (k, n, s) VALUES ({k}, {n}, {s}), ({}, {n}, NULL)", self.key()),
            3 => format!("INSERT dbo.c (k, n) SELECT k, n FROM dbo.a WHERE {condition}"),
            4 => format!("INSERT dbo.a (id, k, n) SELECT k + {k}, k, n + 1 FROM dbo.b WHERE {condition}"),
            5 => format!("UPDATE {top}{table} SET k = k + {} WHERE {condition}", self.random.u8(..4)),
            6 => format!("UPDATE {top}{table} SET n = {n} WHERE {condition}"),
            7 => format!("UPDATE dbo.a SET id = id + 1, s = {s} WHERE {condition}"),
            8 => format!("UPDATE {table} SET n = 10 / (k - {k}) WHERE {condition}"),
            9 => format!("DELETE {top}{table} OUTPUT deleted.k INTO dbo.c (k) WHERE {condition}"),
            10 => format!("DELETE {top}FROM {table} WHERE {condition}"),
            11 => format!(
                "MERGE dbo.a AS t USING dbo.b AS s ON t.id = s.k \
                 WHEN MATCHED AND s.n > 5 THEN UPDATE SET k = s.k, n = s.n + {k} \
                 WHEN NOT MATCHED THEN INSERT (id, k, n) VALUES (s.k, s.k, s.n);"
            ),
            _ => format!("WITH q AS (SELECT TOP (3) * FROM {table} ORDER BY k, n) UPDATE q SET k = {k}, n = {n}"),
        }
    }

    fn definition(&mut self) -> String {
        match self.random.u8(..4) {
            0 => "DELETE dbo.c".into(),
            1 => "ALTER TABLE dbo.b ADD extra int NULL; ALTER TABLE dbo.b DROP COLUMN extra".into(),
            _ if self.extra_index => {
                self.extra_index = false;
                "DROP INDEX IF EXISTS ix_extra ON dbo.c".into()
            }
            _ => {
                self.extra_index = true;
                "IF INDEXPROPERTY(OBJECT_ID(N'dbo.c'), N'ix_extra', N'IndexID') IS NULL \
                 CREATE INDEX ix_extra ON dbo.c (n DESC, k) WHERE n > 3"
                    .into()
            }
        }
    }

    /// Runs a statement; what it did is checked against what was there before.
    fn execute(&mut self, sql: &str) {
        let before = self.dump();
        let was_open = self.transaction_count() > 0;
        let tokens = run(&mut self.session, sql);
        let error = tokens.iter().find(|token| token.starts_with("ERROR"));
        self.check_indexes(sql);
        let after = self.dump();
        let is_open = self.transaction_count() > 0;
        if let Some(error) = error {
            assert!(!error.contains("59000"), "the test wants what the dev server does not know: {sql}\n{error}");
            let expected = if was_open && !is_open { self.at_begin.take().expect("it was open") } else { before };
            assert_eq!(after, expected, "{sql} failed with {error} and changed something");
        }
        if !is_open {
            self.at_begin = None;
            self.at_savepoints.clear();
        }
    }

    fn transaction_count(&mut self) -> i32 {
        let count = rows(&mut self.session, "SELECT @@TRANCOUNT");
        count[0].trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("ROW(n)")
    }

    fn check_indexes(&mut self, sql: &str) {
        let nothing_open = self.transaction_count() == 0;
        let database = self.engine.find_database("readpast").expect("it is there from the start");
        let latch = database.storage.latch();
        for schema in latch.tables() {
            let table = latch.table(schema.id).expect("it was listed");
            let checked = if nothing_open && !self.keeps_ghosts { check_consistency(table) } else { check_live(table) };
            checked.unwrap_or_else(|problem| panic!("after {sql}: {problem}"));
        }
    }

    fn step(&mut self) {
        if self.may_keep_ghosts && self.random.u8(..10) == 0 {
            self.keeps_ghosts = true;
            self.engine.faults.keep_ghosts();
        }
        match self.random.u8(..20) {
            0 if self.at_begin.is_none() => {
                self.at_begin = Some(self.dump());
                self.execute("BEGIN TRANSACTION");
            }
            0 | 1 => {
                if self.at_begin.is_some() {
                    self.execute("COMMIT");
                }
            }
            2 => {
                if let Some(at_begin) = self.at_begin.take() {
                    self.execute("ROLLBACK");
                    assert_eq!(self.dump(), at_begin, "ROLLBACK left a change");
                }
            }
            3 if self.at_begin.is_some() => {
                let number = self.at_savepoints.len();
                let dump = self.dump();
                self.execute(&format!("SAVE TRANSACTION s{number}"));
                self.at_savepoints.push((number, dump));
            }
            4 if !self.at_savepoints.is_empty() => {
                let place = self.random.usize(..self.at_savepoints.len());
                self.at_savepoints.truncate(place + 1);
                let (number, dump) = self.at_savepoints[place].clone();
                self.execute(&format!("ROLLBACK TRANSACTION s{number}"));
                assert_eq!(self.dump(), dump, "ROLLBACK to s{number} left a change");
            }
            5 => {
                let on = if self.random.bool() { "ON" } else { "OFF" };
                self.execute(&format!("SET XACT_ABORT {on}"));
            }
            6 if self.at_begin.is_none() => {
                let definition = self.definition();
                self.execute(&definition);
            }
            7 => {
                let change = self.change();
                let caught =
                    format!("BEGIN TRY {change}; END TRY BEGIN CATCH IF XACT_STATE() = -1 ROLLBACK; END CATCH");
                self.execute(&caught);
            }
            _ => {
                let change = self.change();
                self.execute(&change);
            }
        }
    }
}

#[test]
fn random_statements_leave_every_index_consistent_and_failures_leave_nothing() {
    for seed in 0..SCRIPTS {
        let mut script = Script::new(seed);
        for _ in 0..STATEMENTS {
            script.step();
        }
        script.execute("IF @@TRANCOUNT > 0 ROLLBACK");
    }
}
