//! Window functions.
//!
//! Source: "SELECT - OVER Clause" (MicrosoftDocs/sql-docs, docs/t-sql/queries/select-over-clause-transact-sql.md) and
//! the pages of the functions in docs/t-sql/functions/.

use crate::session::client_session::Session;
use crate::session::tests::harness::{errors, ok, rows, session};

fn sales(s: &mut Session) {
    ok(
        s,
        "CREATE TABLE sales (who char(1) NOT NULL, day int NOT NULL, n int NOT NULL);
         INSERT sales VALUES ('a', 1, 10), ('a', 2, 20), ('a', 2, 30), ('a', 4, 40), ('b', 1, 5), ('b', 3, 7)",
    );
}

/// The single integers of the result.
fn numbers(s: &mut Session, expression: &str) -> Vec<String> {
    let found = rows(s, &format!("SELECT {expression} FROM sales ORDER BY who, day, n"));
    found
        .iter()
        .map(|row| row.trim_start_matches("ROW(").trim_end_matches("))").rsplit('(').next().unwrap_or("").to_string())
        .map(|text| if text.starts_with("Null") { "-".to_string() } else { text })
        .collect()
}

#[test]
fn running_totals_take_peers_along_and_rows_do_not() {
    let (_e, mut s) = session();
    sales(&mut s);
    let cases = [
        ("SUM(n) OVER (PARTITION BY who ORDER BY day)", ["10", "60", "60", "100", "5", "12"]),
        (
            "SUM(n) OVER (PARTITION BY who ORDER BY day, n ROWS UNBOUNDED PRECEDING)",
            ["10", "30", "60", "100", "5", "12"],
        ),
        (
            "SUM(n) OVER (PARTITION BY who ORDER BY day, n ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
            ["30", "60", "90", "70", "12", "12"],
        ),
        (
            "SUM(n) OVER (PARTITION BY who ORDER BY day RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
            ["100", "90", "90", "40", "12", "7"],
        ),
        (
            "COUNT(*) OVER (PARTITION BY who ORDER BY day, n ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING)",
            ["2", "1", "0", "0", "0", "0"],
        ),
        (
            "MAX(n) OVER (PARTITION BY who ORDER BY day, n ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING)",
            ["-", "-", "10", "20", "-", "-"],
        ),
        ("SUM(n) OVER ()", ["112"; 6]),
    ];
    for (expression, expected) in cases {
        assert_eq!(numbers(&mut s, expression), expected, "{expression}");
    }
}

#[test]
fn neighbours_and_ends() {
    let (_e, mut s) = session();
    sales(&mut s);
    let cases = [
        ("LAG(n) OVER (PARTITION BY who ORDER BY day, n)", ["-", "10", "20", "30", "-", "5"]),
        ("LEAD(n, 2, -1) OVER (PARTITION BY who ORDER BY day, n)", ["30", "40", "-1", "-1", "-1", "-1"]),
        ("FIRST_VALUE(n) OVER (PARTITION BY who ORDER BY day DESC)", ["40", "40", "40", "40", "7", "7"]),
        (
            "LAST_VALUE(n) OVER (PARTITION BY who ORDER BY day, n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
            ["40", "40", "40", "40", "7", "7"],
        ),
        ("NTILE(4) OVER (ORDER BY who, day, n)", ["1", "1", "2", "2", "3", "4"]),
        ("RANK() OVER (PARTITION BY who ORDER BY day)", ["1", "2", "2", "4", "1", "2"]),
        ("DENSE_RANK() OVER (PARTITION BY who ORDER BY day)", ["1", "2", "2", "3", "1", "2"]),
        ("CAST(10 * CUME_DIST() OVER (PARTITION BY who ORDER BY day) AS int)", ["2", "7", "7", "10", "5", "10"]),
        ("CAST(9 * PERCENT_RANK() OVER (PARTITION BY who ORDER BY day) AS int)", ["0", "3", "3", "9", "0", "9"]),
    ];
    for (expression, expected) in cases {
        assert_eq!(numbers(&mut s, expression), expected, "{expression}");
    }
}

#[test]
fn windows_are_computed_over_groups() {
    let (_e, mut s) = session();
    sales(&mut s);
    assert_eq!(
        rows(
            &mut s,
            "SELECT who, COUNT(*), SUM(COUNT(*)) OVER (), ROW_NUMBER() OVER (ORDER BY SUM(n) DESC) FROM sales GROUP BY who ORDER BY who"
        ),
        ["ROW(String(\"a\"), Int(4), Int(6), BigInt(1))", "ROW(String(\"b\"), Int(2), Int(6), BigInt(2))"]
    );
    assert_eq!(errors(&mut s, "SELECT who, SUM(n) OVER () FROM sales GROUP BY who"), [8120]);
}

#[test]
fn what_over_refuses() {
    let (_e, mut s) = session();
    sales(&mut s);
    for (expression, number) in [
        ("LAG(n) OVER (PARTITION BY who)", 4112),
        ("LAG(n, -1) OVER (ORDER BY n)", 8730),
        ("NTILE(0) OVER (ORDER BY n)", 5310),
        ("ROW_NUMBER() OVER (ORDER BY n ROWS UNBOUNDED PRECEDING)", 10752),
        ("SUM(n) OVER (ROWS UNBOUNDED PRECEDING)", 10756),
        ("SUM(n) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)", 4194),
        ("SUM(n) OVER (ORDER BY n ROWS BETWEEN CURRENT ROW AND 1 PRECEDING)", 4193),
        ("COUNT(DISTINCT n) OVER ()", 10759),
        ("ROW_NUMBER()", 10753),
    ] {
        assert_eq!(errors(&mut s, &format!("SELECT {expression} FROM sales")), [number], "{expression}");
    }
    assert_eq!(errors(&mut s, "SELECT 1 FROM sales WHERE ROW_NUMBER() OVER (ORDER BY n) = 1"), [4108]);
}

// "NEXT VALUE FOR" (docs/t-sql/functions/next-value-for-transact-sql.md): one value for each row, however often it is
// named.
#[test]
fn a_sequence_gives_one_value_to_a_row() {
    let (_e, mut s) = session();
    sales(&mut s);
    ok(&mut s, "CREATE SEQUENCE numbers AS int START WITH 1");
    assert_eq!(
        rows(&mut s, "SELECT NEXT VALUE FOR numbers, NEXT VALUE FOR numbers + 100 FROM (VALUES (1), (2)) AS v (x)"),
        ["ROW(Int(1), Int(101))", "ROW(Int(2), Int(102))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT n, NEXT VALUE FOR numbers OVER (ORDER BY n DESC) FROM sales WHERE who = 'b' ORDER BY n"),
        ["ROW(Int(5), Int(4))", "ROW(Int(7), Int(3))"]
    );
    ok(
        &mut s,
        "CREATE TABLE t (id int NOT NULL DEFAULT (NEXT VALUE FOR numbers), x int); INSERT t (x) VALUES (1), (2)",
    );
    assert_eq!(rows(&mut s, "SELECT id, x FROM t ORDER BY id"), ["ROW(Int(5), Int(1))", "ROW(Int(6), Int(2))"]);
}
