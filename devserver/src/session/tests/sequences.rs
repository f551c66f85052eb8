//! Numbers from a sequence: their order, their rights, and that no rollback gives them back.
//!
//! Source: "NEXT VALUE FOR" (MicrosoftDocs/sql-docs, docs/t-sql/functions/next-value-for-transact-sql.md).

use std::sync::Arc;

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{engine, errors, login, ok, rows, script, session};

const SETUP: &str = "CREATE SCHEMA q AUTHORIZATION dbo
GO
IF OBJECT_ID(N'q.ids', N'SO') IS NULL
    CREATE SEQUENCE q.ids AS bigint START WITH 1 INCREMENT BY 1 CACHE 1000
GO
CREATE TYPE q.list AS TABLE (ordinal int NOT NULL PRIMARY KEY, k varchar(10) NULL)
GO
CREATE TABLE q.jobs (job_id bigint NOT NULL PRIMARY KEY, ordinal int NOT NULL, k varchar(10) NULL)
GO
CREATE PROCEDURE q.put @l q.list READONLY AS
SET NOCOUNT ON;
DECLARE @new TABLE (job_id bigint NOT NULL PRIMARY KEY, ordinal int NOT NULL);
DECLARE @last bigint;
INSERT @new (job_id, ordinal)
SELECT NEXT VALUE FOR q.ids OVER (ORDER BY l.ordinal), l.ordinal
FROM @l AS l
WHERE NOT EXISTS (SELECT 1 FROM q.jobs AS j WHERE j.k = l.k)
ORDER BY l.ordinal DESC;
INSERT q.jobs (job_id, ordinal, k) SELECT n.job_id, n.ordinal, l.k FROM @new AS n JOIN @l AS l ON l.ordinal = n.ordinal;
SET @last = NEXT VALUE FOR q.ids;
SELECT job_id, ordinal, @last FROM @new ORDER BY job_id;
GO
CREATE LOGIN u WITH PASSWORD = 'p'; CREATE USER u FOR LOGIN u;
GRANT EXECUTE ON q.put TO u; GRANT EXECUTE ON TYPE::q.list TO u";

fn prepared() -> (Arc<Engine>, Session, Session) {
    let engine = engine();
    let mut owner = login(&engine, "sa", "secret");
    script(&mut owner, SETUP);
    let user = login(&engine, "u", "p");
    (engine, owner, user)
}

#[test]
fn over_decides_which_row_gets_which_number() {
    let (_e, mut s, _user) = prepared();
    let put = |values: &str| format!("DECLARE @l q.list; INSERT @l VALUES {values}; EXEC q.put @l");
    assert_eq!(
        rows(&mut s, &put("(30, 'c'), (10, 'a'), (20, NULL)")),
        [
            "ROW(BigInt(1), Int(10), BigInt(4))",
            "ROW(BigInt(2), Int(20), BigInt(4))",
            "ROW(BigInt(3), Int(30), BigInt(4))"
        ]
    );
    // A row that WHERE rejects takes no number.
    assert_eq!(rows(&mut s, &put("(1, 'a'), (2, 'b'), (3, 'c')")), ["ROW(BigInt(5), Int(2), BigInt(6))"]);
    assert_eq!(
        rows(
            &mut s,
            "DECLARE @l q.list; INSERT @l VALUES (1, NULL), (2, NULL), (3, NULL);
             INSERT q.jobs (job_id, ordinal) OUTPUT inserted.job_id, inserted.ordinal
             SELECT NEXT VALUE FOR q.ids OVER (ORDER BY l.ordinal DESC), l.ordinal FROM @l AS l"
        )
        .len(),
        3
    );
    assert_eq!(
        rows(&mut s, "SELECT job_id, ordinal FROM q.jobs WHERE job_id > 6 ORDER BY job_id"),
        ["ROW(BigInt(7), Int(3))", "ROW(BigInt(8), Int(2))", "ROW(BigInt(9), Int(1))"]
    );
    assert_eq!(
        errors(
            &mut s,
            "INSERT q.jobs (job_id, ordinal) SELECT NEXT VALUE FOR q.ids, ordinal FROM q.jobs ORDER BY ordinal"
        ),
        [59000]
    );
}

#[test]
fn a_rollback_gives_no_number_back() {
    let (_e, mut s, _user) = prepared();
    ok(&mut s, "BEGIN TRAN; DECLARE @x bigint; SET @x = NEXT VALUE FOR q.ids; ROLLBACK");
    assert_eq!(rows(&mut s, "DECLARE @x bigint = NEXT VALUE FOR q.ids; SELECT @x"), ["ROW(BigInt(2))"]);
    assert_eq!(rows(&mut s, "DECLARE @x bigint; SELECT @x = NEXT VALUE FOR q.ids; SELECT @x"), ["ROW(BigInt(3))"]);
    assert_eq!(rows(&mut s, "SELECT OBJECT_ID(N'q.ids', N'SO') - OBJECT_ID(N'q.ids')"), ["ROW(Int(0))"]);
    ok(&mut s, "DROP SEQUENCE IF EXISTS q.ids; DROP SEQUENCE IF EXISTS q.ids");
    assert_eq!(rows(&mut s, "SELECT OBJECT_ID(N'q.ids', N'SO')"), ["ROW(Null)"]);
}

#[test]
fn whoever_takes_numbers_needs_update_unless_a_procedure_of_the_owner_does() {
    let (_e, mut owner, mut user) = prepared();
    assert_eq!(rows(&mut user, "DECLARE @l q.list; INSERT @l VALUES (1, 'a'); EXEC q.put @l").len(), 1);
    assert_eq!(errors(&mut user, "SELECT NEXT VALUE FOR q.ids"), [229]);
    assert_eq!(errors(&mut user, "DECLARE @x bigint; SET @x = NEXT VALUE FOR q.ids"), [229]);
    ok(&mut owner, "GRANT UPDATE ON OBJECT::q.ids TO u");
    ok(&mut user, "SELECT NEXT VALUE FOR q.ids");
}

#[test]
fn a_sequence_counts_in_several_sessions_at_once() {
    let (engine, mut s) = session();
    ok(&mut s, "CREATE SEQUENCE ids AS bigint START WITH 1 INCREMENT BY 1 CACHE 1000");
    let mut other = login(&engine, "sa", "secret");
    ok(&mut s, "BEGIN TRAN; DECLARE @x bigint; SET @x = NEXT VALUE FOR ids");
    // Nobody waits for the other's transaction.
    assert_eq!(rows(&mut other, "SET LOCK_TIMEOUT 0; SELECT NEXT VALUE FOR ids"), ["ROW(BigInt(2))"]);
    ok(&mut s, "COMMIT");
}
