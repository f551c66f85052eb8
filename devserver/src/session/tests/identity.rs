//! DBCC CHECKIDENT and SCOPE_IDENTITY: "DBCC CHECKIDENT" (MicrosoftDocs/sql-docs,
//! docs/t-sql/database-console-commands/dbcc-checkident-transact-sql.md).

use crate::session::client_session::Session;
use crate::session::tests::harness::{check, ok, rows, run, session};

const TABLE: &str = "CREATE TABLE jobs (id int IDENTITY (1, 1) NOT NULL, v int NOT NULL)";
const DONE: &str = "DBCC execution completed. If DBCC printed error messages, contact your system administrator.";

/// The messages of a statement.
fn messages(s: &mut Session, sql: &str) -> Vec<String> {
    run(s, sql).into_iter().filter(|token| token.starts_with("INFO")).collect()
}

/// The number that the next row gets.
fn next(s: &mut Session) -> String {
    rows(s, "INSERT jobs (v) OUTPUT inserted.id VALUES (1)").concat()
}

#[test]
fn the_counter_is_reported() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "INSERT jobs (v) VALUES (1), (1), (1)");
    let reported = messages(&mut s, "DBCC CHECKIDENT ([dbo.jobs], RESEED, 10)");
    assert!(reported[0].contains("7998"), "{reported:?}");
    assert!(reported[0].contains("current identity value '3'."), "{reported:?}");
    assert!(reported[1].contains("2528") && reported[1].contains(DONE), "{reported:?}");
    assert_eq!(next(&mut s), "ROW(Int(11))");
}

#[test]
fn a_new_value_is_the_first_of_an_unused_table_and_the_last_of_a_used_one() {
    let cases = [
        ("DBCC CHECKIDENT (jobs, RESEED, 10); DBCC CHECKIDENT (jobs, RESEED, 7)", 7),
        ("INSERT jobs (v) VALUES (1); DBCC CHECKIDENT (jobs, RESEED, 10)", 11),
        ("INSERT jobs (v) VALUES (1); DELETE jobs; DBCC CHECKIDENT (jobs, RESEED, 0)", 1),
        ("INSERT jobs (v) VALUES (1); TRUNCATE TABLE jobs; DBCC CHECKIDENT (jobs, RESEED, 0)", 0),
        ("INSERT jobs (v) VALUES (1); DBCC CHECKIDENT (jobs, RESEED, -5)", -4),
        ("DECLARE @t nvarchar(20) = N'jobs', @v int = 30; DBCC CHECKIDENT (@t, RESEED, @v)", 30),
        ("DBCC CHECKIDENT (jobs, RESEED, 9); TRUNCATE TABLE jobs", 1),
    ];
    for (sql, expected) in cases {
        let (_e, mut s) = session();
        ok(&mut s, TABLE);
        ok(&mut s, sql);
        assert_eq!(next(&mut s), format!("ROW(Int({expected}))"), "{sql}");
    }
}

#[test]
fn the_counter_is_reseeded() {
    check(
        r#"== a new value goes back with its transaction
         CREATE TABLE jobs (id int IDENTITY (1, 1) NOT NULL, v int NOT NULL) => ok
         INSERT jobs (v) VALUES (1) => ok
         BEGIN TRAN; DBCC CHECKIDENT (jobs, RESEED, 50); ROLLBACK => ok
         INSERT jobs (v) OUTPUT inserted.id VALUES (1) => 2
         == what has no counter is refused
         CREATE TABLE plain (id int NOT NULL); CREATE TABLE small (id tinyint IDENTITY NOT NULL, v int) => ok
         DBCC CHECKIDENT ('nowhere', RESEED, 1) => error 2501
         DBCC CHECKIDENT (plain, RESEED, 1) => error 7997
         DBCC CHECKIDENT (small, RESEED, 256) => error 2560
         DBCC CHECKDB => error 59000
         DBCC CHECKIDENT (small) => error 59000
         == a table variable counts
         -- "Returns the last identity value inserted into an identity column in the same scope": of a table variable as
         -- of any table. Source: "SCOPE_IDENTITY" (docs/t-sql/functions/scope-identity-transact-sql.md).
         CREATE TABLE plain (id int IDENTITY, a int); INSERT plain (a) VALUES (1) => ok
         DECLARE @t TABLE (id int IDENTITY (9, 1), a int); INSERT @t (a) VALUES (1);
             SELECT CAST(SCOPE_IDENTITY() AS int), CAST(@@IDENTITY AS int) => 9, 9
         -- What OUTPUT puts into one is not the statement's.
         DECLARE @t TABLE (id int IDENTITY (70, 1), a int); INSERT plain (a) OUTPUT inserted.a INTO @t (a) VALUES (1);
             SELECT CAST(SCOPE_IDENTITY() AS int), CAST(@@IDENTITY AS int) => 2, 2"#,
    );
}

/// Source: "SCOPE_IDENTITY" (docs/t-sql/functions/scope-identity-transact-sql.md): a scope is a module, and the batches
/// of a session are no modules apart.
#[test]
fn the_batches_of_a_session_are_one_scope() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    let last = "SELECT CAST(SCOPE_IDENTITY() AS int)";
    assert_eq!(rows(&mut s, last), ["ROW(Null)"]);
    ok(&mut s, "INSERT jobs (v) VALUES (1), (2)");
    assert_eq!(rows(&mut s, last), ["ROW(Int(2))"]);
    // What dynamic text and procedures insert is another scope's, and they do not see this one.
    ok(&mut s, "EXEC ('INSERT jobs (v) VALUES (3)')");
    assert_eq!(rows(&mut s, last), ["ROW(Int(2))"]);
    assert_eq!(rows(&mut s, &format!("EXEC ('{last}')")), ["ROW(Null)"]);
    s.reset(false);
    assert_eq!(rows(&mut s, last), ["ROW(Null)"]);
}
