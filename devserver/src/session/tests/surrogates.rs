//! Halves of surrogate pairs, which are characters like any other: none of the collations here knows supplementary
//! characters. Sources: "Collation and Unicode support", supplementary characters
//! (docs/relational-databases/collations/collation-and-unicode-support.md); "NCHAR" and "STRING_SPLIT"
//! (docs/t-sql/functions/).

use crate::session::tests::harness::{errors, ok, rows, session};

/// The one row of a query, as its values.
fn row(sql: &str) -> String {
    let (_e, mut s) = session();
    rows(&mut s, sql).concat()
}

#[test]
fn a_half_is_kept_measured_and_converted() {
    let half = "DECLARE @h nvarchar(9) = LEFT(N'😀', 1);";
    assert_eq!(
        row(&format!("{half} SELECT LEN(@h), DATALENGTH(@h), CAST(@h AS varchar(9)), CAST(@h AS varbinary(9))")),
        "ROW(Int(1), Int(2), String(\"?\"), Bytes([61, 216]))"
    );
    assert_eq!(
        row("SELECT CAST(CAST(0x3DD8 AS nvarchar(9)) AS varbinary(9)), CAST(NCHAR(56832) AS varbinary(9))"),
        "ROW(Bytes([61, 216]), Bytes([0, 222]))"
    );
    assert_eq!(
        row(&format!(
            "{half} SELECT @h + NCHAR(0xDE00), CONCAT(@h, NCHAR(0xDE00)), LEN(@h + NCHAR(0xDE00)), CAST(@h + NCHAR(0xDE00) AS varchar(9))"
        )),
        "ROW(String(\"😀\"), String(\"😀\"), Int(2), String(\"??\"))"
    );
    assert_eq!(row("SELECT CAST(SUBSTRING(N'a😀b', 3, 2) AS varbinary(9))"), "ROW(Bytes([0, 222, 98, 0]))");
}

#[test]
fn halves_are_compared_sorted_and_searched() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (c nvarchar(9) COLLATE Latin1_General_BIN2 NOT NULL, n int NOT NULL)");
    ok(
        &mut s,
        "INSERT t VALUES (NCHAR(0xFFFF), 6), (N'😀', 3), (NCHAR(0xD83D), 2), (NCHAR(0xE000), 5), (N'a', 1), (NCHAR(0xDE00), 4)",
    );
    let in_order: Vec<String> = (1..=6).map(|n| format!("ROW(Int({n}))")).collect();
    assert_eq!(rows(&mut s, "SELECT n FROM t ORDER BY c"), in_order);
    ok(&mut s, "CREATE UNIQUE INDEX i ON t (c)");
    assert_eq!(rows(&mut s, "SELECT n FROM t WITH (INDEX (i)) WHERE c > N'' ORDER BY c"), in_order);
    assert_eq!(rows(&mut s, "SELECT n FROM t WHERE c = NCHAR(0xD83D)"), ["ROW(Int(2))"]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t WHERE c > NCHAR(0xD83D)"), ["ROW(Int(4))"]);
    assert_eq!(rows(&mut s, "SELECT n FROM t WHERE c LIKE NCHAR(0xD83D) + N'_'"), ["ROW(Int(3))"]);
    assert_eq!(errors(&mut s, "INSERT t VALUES (LEFT(N'😀', 1), 7)"), [2601]);
    ok(&mut s, "INSERT t VALUES (NCHAR(0xD83E), 7)");
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM (SELECT DISTINCT LEFT(c, 1) AS c FROM t) AS d"), ["ROW(Int(6))"]);
    assert_eq!(
        rows(&mut s, "SELECT CHARINDEX(NCHAR(0xDE00), N'a😀'), PATINDEX(N'%[' + NCHAR(0xDE00) + N']', N'a😀')"),
        ["ROW(Int(3), Int(3))"]
    );
}

#[test]
fn a_half_separates_parts_and_a_pair_is_no_single_character() {
    let (_e, mut s) = session();
    assert_eq!(
        rows(&mut s, "SELECT CAST(value AS varbinary(9)) FROM STRING_SPLIT(N'😀😀', NCHAR(0xDE00))"),
        ["ROW(Bytes([61, 216]))", "ROW(Bytes([61, 216]))", "ROW(Bytes([]))"]
    );
    assert_eq!(errors(&mut s, "SELECT value FROM STRING_SPLIT(N'a', N'😀')"), [214]);
}

#[test]
fn json_escapes_halves() {
    assert_eq!(row(r#"SELECT CAST(value AS varbinary(9)) FROM OPENJSON(N'["\ud83d"]')"#), "ROW(Bytes([61, 216]))");
    assert_eq!(row(r#"SELECT value FROM OPENJSON(N'["\ud83d\ude00"]')"#), "ROW(String(\"😀\"))");
    // These two characters stand for halves in here, and would be taken for a pair.
    let (_e, mut s) = session();
    for json in [r#"{"a":"\udbfe\udc00\udbff\udfff"}"#, r#"{"\udbfe\udc00":1}"#] {
        assert_eq!(errors(&mut s, &format!("SELECT [key], value FROM OPENJSON(N'{json}')")), [59000], "{json}");
    }
}
