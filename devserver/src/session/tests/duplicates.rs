//! A duplicate key that is caught: whose transaction goes on, and whose is lost.
//!
//! Sources: "SET XACT_ABORT" (MicrosoftDocs/sql-docs, docs/t-sql/statements/set-xact-abort-transact-sql.md),
//! "TRY…CATCH" (docs/t-sql/language-elements/try-catch-transact-sql.md), "SET statements" (a procedure's settings end
//! with it).

use crate::session::tests::harness::check;

#[test]
fn a_procedure_catches_a_duplicate() {
    check(
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, k varchar(10) NULL) => ok
         CREATE UNIQUE INDEX by_k ON t (k) WHERE k IS NOT NULL => ok
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
             RETURN 0; => ok
         == a procedure with xact abort off leaves the callers transaction whole
         SET XACT_ABORT ON; BEGIN TRAN; DECLARE @r int, @n int, @x smallint;
             EXEC put 1, 'a'; EXEC @r = put 2, 'a', @n OUTPUT, @x OUTPUT;
             SELECT @r, @n, @x, XACT_STATE(), @@TRANCOUNT, (16384 & @@OPTIONS);
             EXEC @r = put 1, 'b', @n OUTPUT; SELECT @r, @n;
             EXEC put 3, 'c'; COMMIT; SELECT id FROM t => 1, 2601, SmallInt(1), SmallInt(1), 1, 16384 | 1, 2627 | 1 | 3
         == with xact abort on the transaction can only be rolled back
         EXEC put 1, 'a' => ok
         SET XACT_ABORT ON; BEGIN TRAN; BEGIN TRY INSERT t VALUES (2, 'a') END TRY BEGIN CATCH SELECT XACT_STATE();
             ROLLBACK END CATCH => SmallInt(-1)
         SET XACT_ABORT ON; BEGIN TRAN; BEGIN TRY INSERT t VALUES (2, 'a') END TRY BEGIN CATCH INSERT t VALUES (5, NULL)
             END CATCH => error 3930
         SET XACT_ABORT ON; BEGIN TRAN; BEGIN TRY INSERT t VALUES (2, 'a') END TRY BEGIN CATCH COMMIT
             END CATCH => error 3930
         SET XACT_ABORT ON; BEGIN TRAN; BEGIN TRY INSERT t VALUES (2, 'a') END TRY BEGIN CATCH PRINT 'caught'
             END CATCH => error 3998
         SELECT @@TRANCOUNT, COUNT(*) FROM t => 0, 1
         == another error that is thrown under xact abort rolls back
         ALTER TABLE t ADD CONSTRAINT short CHECK (LEN(k) < 3) => ok
         SET XACT_ABORT OFF; BEGIN TRAN; EXEC put 1, 'a'; EXEC put 2, 'long'; SELECT 'not reached' => error 547
         SELECT @@TRANCOUNT, (16384 & @@OPTIONS), COUNT(*) FROM t => 0, 0, 0
         == within a trigger the setting decides too
         CREATE TABLE orders (id int PRIMARY KEY) => ok
         CREATE TRIGGER enqueue_orders ON orders AFTER INSERT AS
             SET NOCOUNT ON;
             DECLARE @id int, @r int, @x smallint, @twin int;
             SELECT @id = MAX(id) FROM inserted;
             EXEC @r = put @id, 'a', NULL, @x OUTPUT;
             SET @twin = @id + 100;
             EXEC @r = put @twin, 'a', NULL, @x OUTPUT;
             SELECT @r, @x => ok
         BEGIN TRAN; INSERT orders VALUES (1); SELECT XACT_STATE(), @@TRANCOUNT; COMMIT; SELECT id
             FROM t => 1, SmallInt(1) | SmallInt(1), 1 | 1
         -- A trigger begins with XACT_ABORT ON, whatever the session has.
         CREATE TRIGGER doomed ON orders AFTER DELETE AS
             SET NOCOUNT ON;
             BEGIN TRY INSERT t VALUES (7, 'a') END TRY BEGIN CATCH SELECT XACT_STATE() END CATCH => ok
         SET XACT_ABORT OFF; BEGIN TRAN; DELETE orders => SmallInt(-1) | error 3616
         SELECT @@TRANCOUNT, COUNT(*) FROM orders => 0, 1
         == a savepoint takes back what came before the duplicate
         SET XACT_ABORT OFF; BEGIN TRAN; EXEC put 1, 'a'; SAVE TRANSACTION batch; EXEC put 2, 'b';
             BEGIN TRY INSERT t VALUES (3, 'c'), (4, 'a') END TRY
             BEGIN CATCH IF XACT_STATE() = 1 ROLLBACK TRANSACTION batch END CATCH;
             EXEC put 5, 'c'; COMMIT; SELECT id FROM t => 1 | 5
         SET XACT_ABORT ON; BEGIN TRAN; SAVE TRANSACTION batch;
             BEGIN TRY INSERT t VALUES (6, 'a') END TRY BEGIN CATCH ROLLBACK TRANSACTION batch END CATCH => error 3931
         == the words name the constraint and the key
         INSERT t VALUES (1, 'once'), (2, NULL), (3, NULL) => ok
         INSERT t VALUES (1, NULL)
             => error 2627 Cannot insert duplicate key in object 'dbo.t'. The duplicate key value is (1).
         INSERT t VALUES (4, 'ONCE')
             => error 2601 in object 'dbo.t' with unique index 'by_k'. The duplicate key value is (ONCE).
         UPDATE t SET k = 'once' WHERE id = 2 => error 2601
         UPDATE t SET id = 1 WHERE id = 2 => error 2627
         UPDATE t SET k = 'Once' WHERE id = 1 => ok",
    );
}
