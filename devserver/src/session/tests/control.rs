//! WAITFOR and others. Source: MicrosoftDocs/sql-docs, docs/t-sql/language-elements/waitfor-transact-sql.md.

use crate::session::tests::harness::{check, ok, run, session};

#[test]
fn waitfor_takes_nothing_but_a_time() {
    check("WAITFOR DELAY '25:00' => error 148");
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
