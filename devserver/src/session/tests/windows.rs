//! Window functions.
//!
//! Source: "SELECT - OVER Clause" (MicrosoftDocs/sql-docs, docs/t-sql/queries/select-over-clause-transact-sql.md) and
//! the pages of the functions in docs/t-sql/functions/.

use crate::error::NOT_SUPPORTED;
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
fn running_totals_take_peers_along() {
    let (_e, mut s) = session();
    sales(&mut s);
    let cases = [
        ("SUM(n) OVER (PARTITION BY who ORDER BY day)", ["10", "60", "60", "100", "5", "12"]),
        ("SUM(n) OVER (PARTITION BY who)", ["100", "100", "100", "100", "12", "12"]),
        ("FIRST_VALUE(n) OVER (PARTITION BY who ORDER BY day DESC)", ["40", "40", "40", "40", "7", "7"]),
        ("SUM(n) OVER ()", ["112"; 6]),
    ];
    for (expression, expected) in cases {
        assert_eq!(numbers(&mut s, expression), expected, "{expression}");
    }
}

#[test]
fn what_over_refuses() {
    let (_e, mut s) = session();
    sales(&mut s);
    for (expression, number) in [
        ("FIRST_VALUE(n) OVER (PARTITION BY who)", 4112),
        ("ROW_NUMBER() OVER (ORDER BY n ROWS UNBOUNDED PRECEDING)", NOT_SUPPORTED),
        ("LAG(n) OVER (ORDER BY n)", NOT_SUPPORTED),
        ("SUM(COUNT(*)) OVER ()", NOT_SUPPORTED),
        ("COUNT(DISTINCT n) OVER ()", NOT_SUPPORTED),
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
}
