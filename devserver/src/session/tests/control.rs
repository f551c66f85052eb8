//! GOTO, WAITFOR, SET ROWCOUNT. Source: MicrosoftDocs/sql-docs, docs/t-sql/language-elements/goto-transact-sql.md,
//! waitfor-transact-sql.md and docs/t-sql/statements/set-rowcount-transact-sql.md.

use crate::session::tests::harness::{errors, ok, rows, session};

#[test]
fn goto_goes_to_its_label_forward_backward_inward_and_outward() {
    let (_e, mut s) = session();
    let back = "DECLARE @n int = 0; again: SET @n += 1; IF @n < 5 GOTO again; SELECT @n";
    assert_eq!(rows(&mut s, back), ["ROW(Int(5))"]);
    let out = "DECLARE @n int = 0
               WHILE 1 = 1 BEGIN WHILE 1 = 1 BEGIN SET @n += 1; IF @n = 3 GOTO done END END
               SET @n = 99
               done: SELECT @n";
    assert_eq!(rows(&mut s, out), ["ROW(Int(3))"]);
    let inward = "DECLARE @n int = 0
                  GOTO inside
                  IF @n = 1 BEGIN SET @n = 50; inside: SET @n += 7 END ELSE SET @n = 60
                  SELECT @n";
    assert_eq!(rows(&mut s, inward), ["ROW(Int(7))"]);
    // The usual retry loop around a deadlock victim.
    let retry = "DECLARE @tries int = 0
                 retry:
                 BEGIN TRY SET @tries += 1; IF @tries < 3 RAISERROR ('again', 16, 1); SELECT @tries END TRY
                 BEGIN CATCH IF @tries < 3 GOTO retry; THROW END CATCH";
    assert_eq!(rows(&mut s, retry), ["ROW(Int(3))"]);
    assert_eq!(rows(&mut s, "SELECT ERROR_NUMBER()"), ["ROW(Null)"]);
}

#[test]
fn goto_needs_a_label_that_can_be_reached() {
    let (_e, mut s) = session();
    assert_eq!(errors(&mut s, "GOTO nowhere"), [133]);
    assert_eq!(errors(&mut s, "a: SELECT 1; A: SELECT 2"), [132]);
    assert_eq!(
        errors(&mut s, "GOTO inside; BEGIN TRY inside: SELECT 1 END TRY BEGIN CATCH SELECT 2 END CATCH"),
        [1026]
    );
}

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
    assert_eq!(errors(&mut s, "WAITFOR TIME 'noon'"), [148]);
    assert_eq!(errors(&mut s, "WAITFOR DELAY '25:00'"), [148]);
}
