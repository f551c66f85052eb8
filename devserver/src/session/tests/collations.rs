//! Names of collations, and the shift operators.

use crate::session::tests::harness::{errors, ok, rows, session};

// Sources: "COLLATE", docs/t-sql/statements/collations.md; "Windows collation name",
// docs/t-sql/statements/windows-collation-name-transact-sql.md.
#[test]
fn a_collation_is_known_refused_by_name_or_invalid() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (a varchar(10) COLLATE Latin1_General_CI_AS, b nvarchar(10) COLLATE Latin1_General_100_CI_AS)",
    );
    ok(&mut s, "INSERT t VALUES ('Abc', N'Abc')");
    assert_eq!(rows(&mut s, "SELECT 1 AS found FROM t WHERE a = 'aBC' AND b = N'ABC'"), ["ROW(Int(1))"]);
    assert_eq!(
        rows(&mut s, "SELECT collation_name FROM sys.columns WHERE object_id = OBJECT_ID('t') ORDER BY column_id"),
        ["ROW(String(\"Latin1_General_CI_AS\"))", "ROW(String(\"Latin1_General_100_CI_AS\"))"]
    );
    // Of two columns neither has the say.
    assert_eq!(errors(&mut s, "SELECT 1 FROM t WHERE a = b"), [468]);
    assert_eq!(errors(&mut s, "SELECT 'a' COLLATE SQL_Latin1_General_CP1_CS_AS"), [59000]);
    assert_eq!(errors(&mut s, "CREATE TABLE u (a varchar(10) COLLATE Turkish_100_CI_AS)"), [59000]);
    assert_eq!(errors(&mut s, "SELECT 'a' COLLATE utf8_general_ci"), [448]);
    assert_eq!(errors(&mut s, "CREATE TABLE u (a varchar(10) COLLATE nothing)"), [448]);
}

// Source: "Collation and Unicode support" (docs/relational-databases/collations/collation-and-unicode-support.md),
// case-sensitive: "lowercase letters sort ahead of their uppercase versions".
#[test]
fn a_case_sensitive_collation_tells_cases_apart() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (id int NOT NULL, a varchar(10) COLLATE Latin1_General_CS_AS NOT NULL PRIMARY KEY)");
    ok(&mut s, "INSERT t VALUES (1, 'b'), (2, 'B'), (3, 'a'), (4, 'A'), (5, 'ab'), (6, 'aB'), (7, 'Ab')");
    assert_eq!(errors(&mut s, "INSERT t VALUES (8, 'B ')"), [2627]);
    let ids = |s: &mut _, sql: &str| -> String {
        rows(s, sql).iter().map(|row| row.trim_start_matches("ROW(Int(").trim_end_matches("))").to_owned()).collect()
    };
    assert_eq!(ids(&mut s, "SELECT id FROM t ORDER BY a"), "3456712");
    assert_eq!(ids(&mut s, "SELECT id FROM t ORDER BY a + '' DESC"), "2176543");
    assert_eq!(ids(&mut s, "SELECT id FROM t WHERE a = 'B'"), "2");
    assert_eq!(ids(&mut s, "SELECT id FROM t WHERE a IN ('A', 'AB', 'aB') ORDER BY id"), "46");
    assert_eq!(ids(&mut s, "SELECT id FROM t WHERE a >= 'aB' AND a < 'B' ORDER BY a"), "671");
    assert_eq!(ids(&mut s, "SELECT id FROM t WHERE a LIKE 'A%' ORDER BY a"), "47");
    assert_eq!(ids(&mut s, "SELECT id FROM t WHERE CHARINDEX('B', a) > 0 ORDER BY id"), "26");
    assert_eq!(ids(&mut s, "SELECT COUNT(DISTINCT a) FROM t"), "7");
    assert_eq!(ids(&mut s, "SELECT COUNT(*) FROM t GROUP BY a HAVING a = 'b'"), "1");
    assert_eq!(ids(&mut s, "SELECT COUNT(*) FROM t GROUP BY a COLLATE Latin1_General_CI_AS ORDER BY 1"), "223");
    assert_eq!(ids(&mut s, "SELECT x.id FROM t AS x JOIN (VALUES ('B')) AS v (b) ON v.b = x.a"), "2");
    assert_eq!(ids(&mut s, "SELECT COUNT(*) FROM t WHERE a = 'B' COLLATE Latin1_General_CI_AS"), "2");
    assert_eq!(ids(&mut s, "SELECT CASE WHEN 'a' COLLATE Latin1_General_100_CS_AS = 'A' THEN 1 ELSE 2 END"), "2");
    assert_eq!(ids(&mut s, "SELECT LEN(REPLACE(a, 'B', 'xxx')) FROM t WHERE id = 6"), "4");
    ok(&mut s, "CREATE TABLE i (a varchar(10) COLLATE Latin1_General_CI_AS)");
    assert_eq!(errors(&mut s, "SELECT 1 FROM t JOIN i ON i.a = t.a"), [468]);
    assert_eq!(
        errors(&mut s, "SELECT 1 WHERE 'a' COLLATE Latin1_General_CS_AS = 'a' COLLATE Latin1_General_CI_AS"),
        [468]
    );
    assert_eq!(
        rows(&mut s, "SELECT collation_name FROM sys.columns WHERE object_id = OBJECT_ID('t') AND name = 'a'"),
        ["ROW(String(\"Latin1_General_CS_AS\"))"]
    );
    assert_eq!(errors(&mut s, "CREATE DATABASE d COLLATE Latin1_General_CS_AS"), [59000]);
}

// Sources: "Collation precedence" (docs/t-sql/statements/collation-precedence-transact-sql.md); 468 and 1757:
// docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md, …-1000-to-1999.md.
#[test]
fn two_collations_meet() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (i varchar(9) COLLATE Latin1_General_CI_AS PRIMARY KEY, c varchar(9) COLLATE Latin1_General_CS_AS)",
    );
    ok(&mut s, "INSERT t VALUES ('a', 'A'), ('b', 'b')");
    for (comparison, operation) in [
        ("i = c", "equal to"),
        ("i <> c", "not equal to"),
        ("i < c", "less than"),
        ("i LIKE c", "like"),
        ("i IN (c)", "equal to"),
    ] {
        let tokens = crate::session::tests::harness::run(&mut s, &format!("SELECT 1 FROM t WHERE {comparison}"));
        let text = format!(
            "ERROR(468, Cannot resolve the collation conflict between \"Latin1_General_CI_AS\" and \"Latin1_General_CS_AS\" in the {operation} operation."
        );
        assert!(tokens[0].starts_with(&text), "{tokens:?}");
    }
    let both = "SELECT i COLLATE Latin1_General_CI_AS + c COLLATE Latin1_General_CS_AS FROM t";
    let tokens = crate::session::tests::harness::run(&mut s, both);
    assert!(tokens[0].contains("ERROR(468") && tokens[0].contains("in the add operation."), "{tokens:?}");
    // What has no collation cannot stand where one is needed.
    for query in [
        "SELECT i + c FROM t",
        "SELECT CASE WHEN i = 'a' THEN i ELSE c END FROM t",
        "SELECT 1 FROM t ORDER BY COALESCE(i, c)",
        "SELECT COUNT(*) FROM t GROUP BY COALESCE(c, i)",
        "SELECT MAX(COALESCE(c, i)) FROM t",
        "SELECT i FROM t UNION ALL SELECT c FROM t",
    ] {
        assert_eq!(errors(&mut s, query), [59000], "{query}");
    }
    assert_eq!(
        rows(&mut s, "SELECT LEN(i + c COLLATE Latin1_General_CI_AS) FROM t WHERE i = c COLLATE Latin1_General_CI_AS")
            .len(),
        2
    );
    assert_eq!(rows(&mut s, "SELECT CASE WHEN i = 'a' THEN i ELSE c END COLLATE Latin1_General_CI_AS FROM t").len(), 2);
    // A constant takes the collation of the column that it meets.
    assert_eq!(rows(&mut s, "SELECT 'a' AS x UNION SELECT c FROM t").len(), 3);
    assert_eq!(rows(&mut s, "SELECT 'A' UNION SELECT i FROM t").len(), 2);
    assert_eq!(
        errors(&mut s, "CREATE TABLE u (c varchar(9) COLLATE Latin1_General_CS_AS REFERENCES t (i))"),
        [1757, 1750]
    );
}
