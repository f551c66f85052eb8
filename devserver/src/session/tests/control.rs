//! WAITFOR, SET ROWCOUNT. Source: MicrosoftDocs/sql-docs, docs/t-sql/language-elements/waitfor-transact-sql.md and
//! docs/t-sql/statements/set-rowcount-transact-sql.md.

use crate::session::tests::harness::{errors, ok, rows, run, session};

#[test]
fn set_rowcount_stops_statements_early() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE q (id int NOT NULL PRIMARY KEY, taken int NOT NULL DEFAULT 0); INSERT q (id) VALUES (1), (2), (3), (4)",
    );
    assert_eq!(rows(&mut s, "SET ROWCOUNT 2; SELECT id FROM q ORDER BY id DESC"), ["ROW(Int(4))", "ROW(Int(3))"]);
    // It stays for the session, as the old way to take one row did it.
    assert_eq!(
        rows(
            &mut s,
            "DECLARE @id int; SET ROWCOUNT 1; UPDATE q SET @id = id, taken = 1 WHERE taken = 0; SELECT @id, @@ROWCOUNT"
        ),
        ["ROW(Int(1), Int(1))"]
    );
    ok(&mut s, "DELETE q WHERE taken = 0; INSERT q (id) SELECT id + 10 FROM q");
    // TOP wins over it in a change.
    ok(&mut s, "UPDATE TOP (3) q SET taken = 2; SET ROWCOUNT 0");
    assert_eq!(
        rows(&mut s, "SELECT id FROM q WHERE taken = 2 ORDER BY id"),
        ["ROW(Int(1))", "ROW(Int(3))", "ROW(Int(4))"]
    );
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM q"), ["ROW(Int(4))"]);
}

#[test]
fn waitfor_takes_nothing_but_a_time() {
    let (_e, mut s) = session();
    assert_eq!(errors(&mut s, "WAITFOR DELAY '25:00'"), [148]);
}

/// Source: "@@ROWCOUNT" (docs/t-sql/functions/rowcount-transact-sql.md); that the count also stands in the DONE token
/// was seen by clients' authors (github.com/denisenkom/pytds/pull/46, github.com/microsoft/mssql-rs/pull/372).
#[test]
fn an_assignment_counts_the_rows_it_has_read() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int); INSERT t VALUES (1), (2), (3)");
    for (sql, count) in [
        ("SELECT @v = 1", 1),
        ("SET @v = 1", 1),
        ("SELECT @v = a FROM t", 3),
        ("SELECT TOP (2) @v = a FROM t ORDER BY a", 2),
        ("SELECT @v = a FROM t WHERE a > 5", 0),
        ("SELECT @v = MAX(a) FROM t WHERE a > 5", 1),
    ] {
        let tokens = run(&mut s, &format!("DECLARE @v int; {sql}; SELECT @@ROWCOUNT"));
        assert_eq!(tokens[0], format!("DONE(count={count}, more)"), "{sql}");
        assert!(tokens.contains(&format!("ROW(Int({count}))")), "{sql}: {tokens:?}");
        assert_eq!(run(&mut s, &format!("DECLARE @v int; SET NOCOUNT ON; {sql}; SET NOCOUNT OFF"))[1], "DONE(more)");
    }
}

/// "A DONE token is returned for each SQL statement in the SQL batch except variable declarations" ("DONE",
/// learn.microsoft.com/openspecs/windows_protocols/ms-tds/3c06f110-98bd-4d5b-b836-b1ba66452cb7).
#[test]
fn a_declaration_is_no_statement_with_an_end_of_its_own() {
    let (_e, mut s) = session();
    assert_eq!(
        run(&mut s, "DECLARE @a int; DECLARE @v int = 1; SELECT @v AS v"),
        ["COLMETADATA(v Int)", "ROW(Int(1))", "DONE(count=1)"]
    );
}
