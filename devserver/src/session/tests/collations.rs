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
    assert_eq!(errors(&mut s, "SELECT 'a' COLLATE Latin1_General_CS_AS"), [59000]);
    assert_eq!(errors(&mut s, "CREATE TABLE u (a varchar(10) COLLATE Turkish_100_CI_AS)"), [59000]);
    assert_eq!(errors(&mut s, "SELECT 'a' COLLATE utf8_general_ci"), [448]);
    assert_eq!(errors(&mut s, "CREATE TABLE u (a varchar(10) COLLATE nothing)"), [448]);
}

// Source: "sys.fn_helpcollations", docs/relational-databases/system-functions/sys-fn-helpcollations-transact-sql.md.
#[test]
fn the_collations_are_listed() {
    let (_e, mut s) = session();
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM sys.fn_helpcollations()"), ["ROW(Int(5))"]);
    assert_eq!(
        rows(&mut s, "SELECT description FROM fn_helpcollations() AS c WHERE c.name = 'Latin1_General_CI_AS'"),
        [
            "ROW(String(\"Latin1-General, case-insensitive, accent-sensitive, kanatype-insensitive, width-insensitive\"))"
        ]
    );
}

// Sources: "LEFT_SHIFT" and "RIGHT_SHIFT", docs/t-sql/functions/left-shift-transact-sql.md, right-shift-transact-sql.md.
#[test]
fn bits_are_shifted_within_their_type() {
    let (_e, mut s) = session();
    assert_eq!(
        rows(&mut s, "SELECT LEFT_SHIFT(12345, 5), RIGHT_SHIFT(12345, 5), 12345 << 5, 12345 >> 5, (1 + 2) << 3"),
        ["ROW(Int(395040), Int(385), Int(395040), Int(385), Int(24))"]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT 12345 << -5, 1 << 32, CAST(129 AS tinyint) << 1, LEFT_SHIFT(-1, 31), RIGHT_SHIFT(-1, 31), NULLIF(1, 1) << 1"
        ),
        ["ROW(Int(385), Int(0), TinyInt(2), Int(-2147483648), Int(1), Null)"]
    );
    assert_eq!(rows(&mut s, "SELECT 1 WHERE (2 >> 1) = 1 AND 1 < 2 << 4"), ["ROW(Int(1))"]);
    for mixed in ["1 + 2 << 3", "1 << 2 + 3", "1 << 2 << 3", "-1 << 2", "2 * 3 << 1"] {
        assert_eq!(errors(&mut s, &format!("SELECT {mixed}")), [59000], "{mixed}");
    }
    assert_eq!(errors(&mut s, "SELECT LEFT_SHIFT('a', 1)"), [8116]);
    assert_eq!(errors(&mut s, "SELECT LEFT_SHIFT(1, 1.5)"), [8116]);
}
