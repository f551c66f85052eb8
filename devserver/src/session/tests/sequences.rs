//! Numbers from a sequence: their order, their rights, and that no rollback gives them back.
//!
//! Source: "NEXT VALUE FOR" (MicrosoftDocs/sql-docs, docs/t-sql/functions/next-value-for-transact-sql.md).

use crate::session::tests::harness::check;

#[test]
fn sequences_give_numbers() {
    check(
        "CREATE SCHEMA q AUTHORIZATION dbo => ok
         IF OBJECT_ID(N'q.ids', N'SO') IS NULL
             CREATE SEQUENCE q.ids AS bigint START WITH 1 INCREMENT BY 1 CACHE 1000 => ok
         CREATE TYPE q.list AS TABLE (ordinal int NOT NULL PRIMARY KEY, k varchar(10) NULL) => ok
         CREATE TABLE q.jobs (job_id bigint NOT NULL PRIMARY KEY, ordinal int NOT NULL, k varchar(10) NULL) => ok
         CREATE PROCEDURE q.put @l q.list READONLY AS
             SET NOCOUNT ON;
             DECLARE @new TABLE (job_id bigint NOT NULL PRIMARY KEY, ordinal int NOT NULL);
             DECLARE @last bigint;
             INSERT @new (job_id, ordinal)
             SELECT NEXT VALUE FOR q.ids OVER (ORDER BY l.ordinal), l.ordinal
             FROM @l AS l
             WHERE NOT EXISTS (SELECT 1 FROM q.jobs AS j WHERE j.k = l.k)
             ORDER BY l.ordinal DESC;
             INSERT q.jobs (job_id, ordinal, k) SELECT n.job_id, n.ordinal, l.k FROM @new AS n
             JOIN @l AS l ON l.ordinal = n.ordinal;
             SET @last = NEXT VALUE FOR q.ids;
             SELECT job_id, ordinal, @last FROM @new ORDER BY job_id; => ok
         CREATE LOGIN u WITH PASSWORD = 'u'; CREATE USER u FOR LOGIN u;
             GRANT EXECUTE ON q.put TO u; GRANT EXECUTE ON TYPE::q.list TO u => ok
         == over decides which row gets which number
         DECLARE @l q.list; INSERT @l VALUES (30, 'c'), (10, 'a'), (20, NULL); EXEC q.put @l => BigInt(1), 10, BigInt(4)
             | BigInt(2), 20, BigInt(4) | BigInt(3), 30, BigInt(4)
         -- A row that WHERE rejects takes no number.
         DECLARE @l q.list; INSERT @l VALUES (1, 'a'), (2, 'b'), (3, 'c'); EXEC q.put @l => BigInt(5), 2, BigInt(6)
         DECLARE @l q.list; INSERT @l VALUES (1, NULL), (2, NULL), (3, NULL);
             INSERT q.jobs (job_id, ordinal) OUTPUT inserted.job_id, inserted.ordinal
             SELECT NEXT VALUE FOR q.ids OVER (ORDER BY l.ordinal DESC), l.ordinal FROM @l AS l => BigInt(9), 1
             | BigInt(8), 2 | BigInt(7), 3
         SELECT job_id, ordinal FROM q.jobs WHERE job_id > 6 ORDER BY job_id => BigInt(7), 3 | BigInt(8), 2
             | BigInt(9), 1
         INSERT q.jobs (job_id, ordinal) SELECT NEXT VALUE FOR q.ids, ordinal FROM q.jobs
             ORDER BY ordinal => error 59000
         == a rollback gives no number back
         BEGIN TRAN; DECLARE @x bigint; SET @x = NEXT VALUE FOR q.ids; ROLLBACK => ok
         DECLARE @x bigint = NEXT VALUE FOR q.ids; SELECT @x => BigInt(2)
         DECLARE @x bigint; SELECT @x = NEXT VALUE FOR q.ids; SELECT @x => BigInt(3)
         SELECT OBJECT_ID(N'q.ids', N'SO') - OBJECT_ID(N'q.ids') => 0
         DROP SEQUENCE IF EXISTS q.ids; DROP SEQUENCE IF EXISTS q.ids => ok
         SELECT OBJECT_ID(N'q.ids', N'SO') => NULL
         == whoever takes numbers needs update unless a procedure of the owner does
         u: DECLARE @l q.list; INSERT @l VALUES (1, 'a'); EXEC q.put @l => BigInt(1), 1, BigInt(2)
         u: SELECT NEXT VALUE FOR q.ids ;; DECLARE @x bigint; SET @x = NEXT VALUE FOR q.ids => error 229
         GRANT UPDATE ON OBJECT::q.ids TO u => ok
         u: SELECT NEXT VALUE FOR q.ids => ok",
    );
}

#[test]
fn a_sequence_counts_in_several_sessions_at_once() {
    check(
        "CREATE SEQUENCE ids AS bigint START WITH 1 INCREMENT BY 1 CACHE 1000 => ok
         BEGIN TRAN; DECLARE @x bigint; SET @x = NEXT VALUE FOR ids => ok
         -- Nobody waits for the other's transaction.
         2: SET LOCK_TIMEOUT 0; SELECT NEXT VALUE FOR ids => BigInt(2)
         COMMIT => ok",
    );
}
