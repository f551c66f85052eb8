//! DBCC CHECKIDENT and SCOPE_IDENTITY: "DBCC CHECKIDENT" (MicrosoftDocs/sql-docs,
//! docs/t-sql/database-console-commands/dbcc-checkident-transact-sql.md).

use crate::session::tests::harness::{check, session};

#[test]
fn the_counter_is_reseeded() {
    check(
        r#"CREATE TABLE jobs (id int IDENTITY (1, 1) NOT NULL, v int NOT NULL) => ok
         == the counter is reported
         INSERT jobs (v) VALUES (1), (1), (1); DBCC CHECKIDENT ([dbo.jobs], RESEED, 10) => tokens DONE(count=3, more)
             | INFO(7998, Checking identity information: current identity value '3'.)
             | INFO(2528, DBCC execution completed. If DBCC printed error messages, contact your system administrator.)
             | DONE()
         INSERT jobs (v) OUTPUT inserted.id VALUES (1) => 11
         == a new value is the first of an unused table and the last of a used one
         DBCC CHECKIDENT (jobs, RESEED, 10); DBCC CHECKIDENT (jobs, RESEED, 7) => ok
         INSERT jobs (v) OUTPUT inserted.id VALUES (1) => 7
         DBCC CHECKIDENT (jobs, RESEED, 10); INSERT jobs (v) OUTPUT inserted.id VALUES (1) => 11
         DELETE jobs; DBCC CHECKIDENT (jobs, RESEED, 0); INSERT jobs (v) OUTPUT inserted.id VALUES (1) => 1
         DBCC CHECKIDENT (jobs, RESEED, -5); INSERT jobs (v) OUTPUT inserted.id VALUES (1) => -4
         DECLARE @t nvarchar(20) = N'jobs', @v int = 30; DBCC CHECKIDENT (@t, RESEED, @v) => ok
         INSERT jobs (v) OUTPUT inserted.id VALUES (1) => 31
         == a new value goes back with its transaction
         INSERT jobs (v) VALUES (1) ;; BEGIN TRAN; DBCC CHECKIDENT (jobs, RESEED, 50); ROLLBACK => ok
         INSERT jobs (v) OUTPUT inserted.id VALUES (1) => 2
         == what has no counter is refused
         CREATE TABLE plain (id int NOT NULL); CREATE TABLE small (id tinyint IDENTITY NOT NULL, v int) => ok
         DBCC CHECKIDENT ('nowhere', RESEED, 1) => error 2501
         DBCC CHECKIDENT (plain, RESEED, 1) => error 7997
         DBCC CHECKIDENT (small, RESEED, 256) => error 2560
         DBCC CHECKDB ;; DBCC CHECKIDENT (small) => error 59000
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
    let last = "SELECT CAST(SCOPE_IDENTITY() AS int)";
    s.check(&format!(
        "CREATE TABLE jobs (id int IDENTITY (1, 1) NOT NULL, v int NOT NULL) => ok
         {last} => NULL
         INSERT jobs (v) VALUES (1), (2) => ok
         {last} => 2
         -- What dynamic text and procedures insert is another scope's, and they do not see this one.
         EXEC ('INSERT jobs (v) VALUES (3)') => ok
         {last} => 2
         EXEC ('{last}') => NULL"
    ));
    s.reset(false);
    s.check(&format!("{last} => NULL"));
}
