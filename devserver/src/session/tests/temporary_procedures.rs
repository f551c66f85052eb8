//! `#p` and `##p` procedures.
//!
//! Source: "CREATE PROCEDURE", arguments (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-procedure-transact-sql.md).

use crate::session::tests::harness::{engine, errors, login, ok, rows, run};

#[test]
fn a_local_one_is_for_its_session() {
    let engine = engine();
    let mut maker = login(&engine, "sa", "secret");
    let mut other = login(&engine, "sa", "secret");
    ok(&mut maker, "CREATE TABLE jobs (id int)");
    ok(
        &mut maker,
        "CREATE PROCEDURE #add @id int, @count int OUTPUT AS INSERT jobs VALUES (@id); SELECT @count = COUNT(*) FROM jobs",
    );
    ok(&mut other, "CREATE PROCEDURE #add AS SELECT 'the other one'");
    assert_eq!(
        rows(
            &mut maker,
            "DECLARE @n int; EXEC #add 7, @n OUTPUT; EXEC tempdb..#ADD @id = 8, @count = @n OUTPUT; SELECT @n"
        ),
        ["ROW(Int(2))"]
    );
    assert_eq!(rows(&mut other, "EXEC #add"), ["ROW(String(\"the other one\"))"]);
    assert_eq!(errors(&mut maker, "CREATE PROCEDURE #add AS SELECT 1"), [2714]);
    ok(&mut maker, "ALTER PROCEDURE #add AS SELECT 3");
    assert_eq!(rows(&mut maker, "EXEC #add"), ["ROW(Int(3))"]);
    // It stands in tempdb.
    assert_eq!(
        rows(&mut maker, "SELECT COUNT(*) FROM sys.procedures; SELECT OBJECT_ID('#add')"),
        ["ROW(Int(0))", "ROW(Null)"]
    );
    ok(&mut maker, "IF OBJECT_ID('tempdb..#add', 'P') IS NOT NULL DROP PROCEDURE #add");
    assert_eq!(errors(&mut maker, "EXEC #add"), [2812]);
    assert_eq!(errors(&mut maker, "DROP PROCEDURE #add"), [3701]);
    ok(&mut maker, "DROP PROCEDURE IF EXISTS #add");
    other.reset(false);
    assert_eq!(errors(&mut other, "EXEC #add"), [2812]);
}

#[test]
fn it_calls_itself_and_is_called_from_within_others() {
    let engine = engine();
    let mut s = login(&engine, "sa", "secret");
    ok(
        &mut s,
        "CREATE PROCEDURE #count @n int, @sum int OUTPUT AS
         IF @n = 0 RETURN;
         SET @sum += @n; SET @n -= 1;
         EXEC #count @n, @sum OUTPUT",
    );
    ok(&mut s, "CREATE PROCEDURE calls AS DECLARE @sum int = 0; EXEC #count 10, @sum OUTPUT; SELECT @sum");
    assert_eq!(rows(&mut s, "EXEC calls"), ["ROW(Int(55))"]);
    assert_eq!(errors(&mut s, "DECLARE @sum int = 0; EXEC #count 40, @sum OUTPUT"), [217]);
    // It belongs to the connection, not to the text that makes it.
    ok(&mut s, "EXEC('CREATE PROCEDURE #made AS SELECT 1')");
    assert_eq!(rows(&mut s, "EXEC #made"), ["ROW(Int(1))"]);
    assert_eq!(errors(&mut login(&engine, "sa", "secret"), "EXEC calls"), [2812]);
}

#[test]
fn a_global_one_is_for_everybody_until_its_maker_ends() {
    let engine = engine();
    let mut maker = login(&engine, "sa", "secret");
    let mut other = login(&engine, "sa", "secret");
    ok(&mut maker, "CREATE PROCEDURE ##p AS SELECT 7");
    assert_eq!(rows(&mut other, "EXEC ##p"), ["ROW(Int(7))"]);
    assert_eq!(errors(&mut other, "CREATE PROCEDURE ##P AS SELECT 1"), [2714]);
    assert_eq!(errors(&mut other, "CREATE TABLE ##p (id int)"), [2714]);
    ok(&mut other, "DROP PROCEDURE ##p");
    assert_eq!(errors(&mut maker, "EXEC ##p"), [2812]);
    ok(&mut maker, "CREATE PROCEDURE ##p AS SELECT 8");
    drop(maker);
    assert_eq!(errors(&mut other, "EXEC ##p"), [2812]);
    ok(&mut other, "CREATE PROCEDURE ##p AS SELECT 9");
    let mut elsewhere = login(&engine, "sa", "secret");
    ok(&mut elsewhere, "CREATE DATABASE elsewhere; USE elsewhere");
    for sql in ["EXEC ##p", "CREATE PROCEDURE ##p AS SELECT 1"] {
        let tokens = run(&mut elsewhere, sql);
        assert!(tokens.iter().any(|token| token.contains("a session in another database has made")), "{tokens:?}");
    }
    assert_eq!(errors(&mut other, "USE elsewhere"), [59000]);
}

#[test]
fn a_rollback_takes_its_making_and_its_end_back() {
    let engine = engine();
    let mut s = login(&engine, "sa", "secret");
    for name in ["#p", "##p"] {
        ok(&mut s, "BEGIN TRANSACTION");
        ok(&mut s, &format!("CREATE PROCEDURE {name} AS SELECT 1"));
        ok(&mut s, &format!("EXEC {name}; ROLLBACK"));
        assert_eq!(errors(&mut s, &format!("EXEC {name}")), [2812]);
        ok(&mut s, &format!("CREATE PROCEDURE {name} AS SELECT 2"));
        ok(&mut s, &format!("BEGIN TRANSACTION; DROP PROCEDURE {name}; ROLLBACK"));
        assert_eq!(rows(&mut s, &format!("EXEC {name}")), ["ROW(Int(2))"]);
    }
}
