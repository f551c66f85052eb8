//! A duplicate key that is caught: whose transaction goes on, and whose is lost.
//!
//! Sources: "SET XACT_ABORT" (MicrosoftDocs/sql-docs, docs/t-sql/statements/set-xact-abort-transact-sql.md),
//! "TRY…CATCH" (docs/t-sql/language-elements/try-catch-transact-sql.md), "SET statements" (a procedure's settings end
//! with it).

use crate::session::tests::harness::{errors, ok, rows, script, session};

const XACT_ABORT: &str = "(16384 & @@OPTIONS)";

/// A table with a unique key, and a procedure that takes a duplicate for an answer.
const SETUP: &str = "CREATE TABLE t (id int NOT NULL PRIMARY KEY, k varchar(10) NULL)
GO
CREATE UNIQUE INDEX by_k ON t (k) WHERE k IS NOT NULL
GO
CREATE PROCEDURE put @id int, @k varchar(10), @number int = NULL OUTPUT, @state smallint = NULL OUTPUT AS
SET NOCOUNT ON;
SET XACT_ABORT OFF;
BEGIN TRY
    INSERT t VALUES (@id, @k);
END TRY
BEGIN CATCH
    SELECT @number = ERROR_NUMBER(), @state = XACT_STATE();
    IF ERROR_NUMBER() NOT IN (2601, 2627)
    BEGIN
        SET XACT_ABORT ON;
        THROW;
    END;
    RETURN 1;
END CATCH;
RETURN 0;";

#[test]
fn a_procedure_with_xact_abort_off_leaves_the_callers_transaction_whole() {
    let (_e, mut s) = session();
    script(&mut s, SETUP);
    let caller = format!(
        "SET XACT_ABORT ON; BEGIN TRAN; DECLARE @r int, @n int, @x smallint;
         EXEC put 1, 'a'; EXEC @r = put 2, 'a', @n OUTPUT, @x OUTPUT;
         SELECT @r, @n, @x, XACT_STATE(), @@TRANCOUNT, {XACT_ABORT};
         EXEC @r = put 1, 'b', @n OUTPUT; SELECT @r, @n;
         EXEC put 3, 'c'; COMMIT; SELECT id FROM t"
    );
    assert_eq!(
        rows(&mut s, &caller),
        [
            "ROW(Int(1), Int(2601), SmallInt(1), SmallInt(1), Int(1), Int(16384))",
            "ROW(Int(1), Int(2627))",
            "ROW(Int(1))",
            "ROW(Int(3))"
        ]
    );
}

#[test]
fn with_xact_abort_on_the_transaction_can_only_be_rolled_back() {
    let (_e, mut s) = session();
    script(&mut s, SETUP);
    ok(&mut s, "EXEC put 1, 'a'");
    let doomed = |handler: &str| {
        format!(
            "SET XACT_ABORT ON; BEGIN TRAN; BEGIN TRY INSERT t VALUES (2, 'a') END TRY BEGIN CATCH {handler} END CATCH"
        )
    };
    assert_eq!(rows(&mut s, &doomed("SELECT XACT_STATE(); ROLLBACK")), ["ROW(SmallInt(-1))"]);
    assert_eq!(errors(&mut s, &doomed("INSERT t VALUES (5, NULL)")), [3930]);
    assert_eq!(errors(&mut s, &doomed("COMMIT")), [3930]);
    assert_eq!(errors(&mut s, &doomed("PRINT 'caught'")), [3998]);
    assert_eq!(rows(&mut s, "SELECT @@TRANCOUNT, COUNT(*) FROM t"), ["ROW(Int(0), Int(1))"]);
}

#[test]
fn another_error_that_is_thrown_under_xact_abort_rolls_back() {
    let (_e, mut s) = session();
    script(&mut s, SETUP);
    ok(&mut s, "ALTER TABLE t ADD CONSTRAINT short CHECK (LEN(k) < 3)");
    let failing = "SET XACT_ABORT OFF; BEGIN TRAN; EXEC put 1, 'a'; EXEC put 2, 'long'; SELECT 'not reached'";
    assert_eq!(errors(&mut s, failing), [547]);
    assert_eq!(
        rows(&mut s, &format!("SELECT @@TRANCOUNT, {XACT_ABORT}, COUNT(*) FROM t")),
        ["ROW(Int(0), Int(0), Int(0))"]
    );
}

#[test]
fn within_a_trigger_the_setting_decides_too() {
    let (_e, mut s) = session();
    script(&mut s, SETUP);
    script(
        &mut s,
        "CREATE TABLE orders (id int PRIMARY KEY)
GO
CREATE TRIGGER enqueue_orders ON orders AFTER INSERT AS
SET NOCOUNT ON;
DECLARE @id int, @r int, @x smallint, @twin int;
SELECT @id = MAX(id) FROM inserted;
EXEC @r = put @id, 'a', NULL, @x OUTPUT;
SET @twin = @id + 100;
EXEC @r = put @twin, 'a', NULL, @x OUTPUT;
SELECT @r, @x",
    );
    assert_eq!(
        rows(
            &mut s,
            "BEGIN TRAN; INSERT orders VALUES (1); SELECT XACT_STATE(), @@TRANCOUNT; COMMIT; SELECT id FROM t"
        ),
        ["ROW(Int(1), SmallInt(1))", "ROW(SmallInt(1), Int(1))", "ROW(Int(1))"]
    );
    // A trigger begins with XACT_ABORT ON, whatever the session has.
    script(
        &mut s,
        "CREATE TRIGGER doomed ON orders AFTER DELETE AS
SET NOCOUNT ON;
BEGIN TRY INSERT t VALUES (7, 'a') END TRY BEGIN CATCH SELECT XACT_STATE() END CATCH",
    );
    assert_eq!(errors(&mut s, "SET XACT_ABORT OFF; BEGIN TRAN; DELETE orders"), [3616]);
    assert_eq!(rows(&mut s, "SELECT @@TRANCOUNT, COUNT(*) FROM orders"), ["ROW(Int(0), Int(1))"]);
}

#[test]
fn a_savepoint_takes_back_what_came_before_the_duplicate() {
    let (_e, mut s) = session();
    script(&mut s, SETUP);
    let saved = "SET XACT_ABORT OFF; BEGIN TRAN; EXEC put 1, 'a'; SAVE TRANSACTION batch; EXEC put 2, 'b';
         BEGIN TRY INSERT t VALUES (3, 'c'), (4, 'a') END TRY
         BEGIN CATCH IF XACT_STATE() = 1 ROLLBACK TRANSACTION batch END CATCH;
         EXEC put 5, 'c'; COMMIT; SELECT id FROM t";
    assert_eq!(rows(&mut s, saved), ["ROW(Int(1))", "ROW(Int(5))"]);
    let doomed = "SET XACT_ABORT ON; BEGIN TRAN; SAVE TRANSACTION batch;
         BEGIN TRY INSERT t VALUES (6, 'a') END TRY BEGIN CATCH ROLLBACK TRANSACTION batch END CATCH";
    assert_eq!(errors(&mut s, doomed), [3931]);
}
