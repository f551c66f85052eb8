//! Recursive CTEs, and set operations whose columns have to be converted.
//!
//! Source: "WITH common_table_expression" (MicrosoftDocs/sql-docs,
//! docs/t-sql/queries/with-common-table-expression-transact-sql.md).

use crate::session::tests::harness::{errors, ok, rows, session};

#[test]
fn numbers_and_trees() {
    let (_e, mut s) = session();
    assert_eq!(
        rows(
            &mut s,
            "WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT SUM(i), COUNT(*) FROM n"
        ),
        ["ROW(Int(15), Int(5))"]
    );
    ok(
        &mut s,
        "CREATE TABLE staff (id int PRIMARY KEY, boss int NULL, name varchar(10));
         INSERT staff VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 1, 'c'), (4, 3, 'd'), (5, 4, 'e')",
    );
    assert_eq!(
        rows(
            &mut s,
            "WITH reports AS (
                 SELECT id, name, 0 AS level FROM staff WHERE boss IS NULL
                 UNION ALL
                 SELECT s.id, s.name, r.level + 1 FROM staff AS s INNER JOIN reports AS r ON s.boss = r.id)
             SELECT name, level FROM reports ORDER BY level, name"
        ),
        [
            "ROW(String(\"a\"), Int(0))",
            "ROW(String(\"b\"), Int(1))",
            "ROW(String(\"c\"), Int(1))",
            "ROW(String(\"d\"), Int(2))",
            "ROW(String(\"e\"), Int(3))"
        ]
    );
    ok(
        &mut s,
        "WITH under AS (SELECT id FROM staff WHERE id = 3 UNION ALL SELECT s.id FROM under AS u JOIN staff AS s ON s.boss = u.id)
         DELETE staff WHERE id IN (SELECT id FROM under)",
    );
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM staff"), ["ROW(Int(2))"]);
}

#[test]
fn the_recursion_ends_at_its_limit() {
    let (_e, mut s) = session();
    let count = |to: u32| {
        format!("WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {to}) SELECT COUNT(*) FROM n")
    };
    assert_eq!(rows(&mut s, &count(101)), ["ROW(Int(101))"]);
    assert_eq!(errors(&mut s, &count(102)), [530]);
    ok(&mut s, "SELECT TOP (5) i INTO five FROM (SELECT 1 AS i) AS x");
    assert_eq!(
        rows(
            &mut s,
            "WITH n AS (SELECT 1 AS i UNION ALL SELECT i FROM n) SELECT COUNT(*) FROM (SELECT TOP (7) i FROM n) AS x"
        ),
        ["ROW(Int(7))"]
    );
}

#[test]
fn what_a_recursive_cte_must_not_have() {
    let (_e, mut s) = session();
    let refused = |member: &str| format!("WITH n AS (SELECT 1 AS i UNION ALL {member}) SELECT i FROM n");
    for (member, number) in [
        ("SELECT DISTINCT i + 1 FROM n WHERE i < 3", 59000),
        ("SELECT TOP (1) i + 1 FROM n WHERE i < 3", 59000),
        ("SELECT MAX(i) FROM n GROUP BY i", 59000),
        ("SELECT v.x FROM (VALUES (1)) AS v (x) LEFT JOIN n ON n.i = v.x", 59000),
        ("SELECT CAST(i AS bigint) FROM n WHERE i < 3", 240),
        ("SELECT i, i FROM n", 59000),
    ] {
        assert_eq!(errors(&mut s, &refused(member)), [number], "{member}");
    }
    assert_eq!(errors(&mut s, "WITH n AS (SELECT i FROM n) SELECT i FROM n"), [59000]);
    assert_eq!(errors(&mut s, "WITH n AS (SELECT i FROM n UNION ALL SELECT 1) SELECT i FROM n"), [59000]);
}

#[test]
fn set_operations_convert_what_was_compared_before() {
    let (_e, mut s) = session();
    assert_eq!(
        rows(&mut s, "SELECT DISTINCT n FROM (VALUES (1), (1), (2)) AS v (n) UNION ALL SELECT CAST(3 AS bigint)"),
        ["ROW(BigInt(1))", "ROW(BigInt(2))", "ROW(BigInt(3))"]
    );
    assert_eq!(
        rows(
            &mut s,
            "(SELECT 1 AS n UNION SELECT 1) UNION ALL SELECT CAST(7 AS smallint) UNION ALL SELECT 2.5 ORDER BY 1"
        ),
        [
            "ROW(Decimal(Decimal { mantissa: 10, precision: 11, scale: 1 }))",
            "ROW(Decimal(Decimal { mantissa: 25, precision: 11, scale: 1 }))",
            "ROW(Decimal(Decimal { mantissa: 70, precision: 11, scale: 1 }))"
        ]
    );
}
