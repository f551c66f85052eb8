//! `money` and `smallmoney`. Sources (MicrosoftDocs/sql-docs): "money and smallmoney",
//! docs/t-sql/data-types/money-and-smallmoney-transact-sql.md; "CAST and CONVERT", docs/t-sql/functions/
//! cast-and-convert-transact-sql.md (styles, rounding, results that are too short); "Data type precedence" and
//! "Precision, scale, and length", docs/t-sql/data-types/.

use crate::session::tests::harness::{errors, ok, rows, run, session};

/// One expression, as text with all its places.
fn shown(session: &mut crate::session::client_session::Session, expression: &str) -> String {
    let row = rows(session, &format!("SELECT CONVERT(varchar(60), {expression}, 2)"));
    row[0].trim_start_matches("ROW(String(\"").trim_end_matches("\"))").to_string()
}

#[test]
fn an_amount_is_rounded_to_four_places() {
    let (_e, mut s) = session();
    // "this conversion returns $10.3497"
    assert_eq!(shown(&mut s, "CAST(10.3496847 AS money)"), "10.3497");
    assert_eq!(shown(&mut s, "CAST(-0.00005 AS smallmoney)"), "-0.0001");
    assert_eq!(shown(&mut s, "CAST(4 AS money)"), "4.0000");
    assert_eq!(shown(&mut s, "CAST(1.5E0 AS money)"), "1.5000");
    assert_eq!(shown(&mut s, "$1.5"), "1.5000");
    assert_eq!(shown(&mut s, "-$12"), "-12.0000");
    assert_eq!(shown(&mut s, "CAST(922337203685477.5807 AS money)"), "922337203685477.5807");
    assert_eq!(shown(&mut s, "CAST(-214748.3648 AS smallmoney)"), "-214748.3648");
    assert_eq!(errors(&mut s, "SELECT CAST(922337203685477.5808 AS money)"), [8115]);
    assert_eq!(errors(&mut s, "SELECT CAST(214748.3648 AS smallmoney)"), [8115]);
    assert_eq!(errors(&mut s, "SELECT CAST(CAST(214748 AS bigint) * 10000000000 AS money)"), [8115]);
    let tokens = run(&mut s, "SELECT CAST(922337203685477.5808 AS money)").join("\n");
    assert!(tokens.contains("Arithmetic overflow error converting numeric to data type money."), "{tokens}");
}

#[test]
fn texts_become_amounts() {
    let (_e, mut s) = session();
    for (text, expected) in
        [("$1,234.56", "1234.5600"), ("-$0.5", "-0.5000"), ("12", "12.0000"), ("", "0.0000"), (" 1.00004 ", "1.0000")]
    {
        assert_eq!(shown(&mut s, &format!("CAST(N'{text}' AS money)")), expected);
    }
    let tokens = run(&mut s, "SELECT CAST('abc' AS money)").join("\n");
    let message = "Cannot convert a char value to money. The char value has incorrect syntax.";
    assert!(tokens.contains("ERROR(235") && tokens.contains(message), "{tokens}");
    assert_eq!(errors(&mut s, "SELECT CAST('abc' AS smallmoney)"), [293]);
    assert_eq!(errors(&mut s, "SELECT CAST('922337203685478' AS money)"), [8115]);
    assert_eq!(rows(&mut s, "SELECT TRY_CAST('abc' AS money)"), ["ROW(Null)"]);
    // What SQL Server makes of these is not documented.
    for unsure in ["1.00005", "1,2", "$", "1.2.3"] {
        assert_eq!(errors(&mut s, &format!("SELECT CAST('{unsure}' AS money)")), [59_000], "{unsure}");
    }
    assert_eq!(rows(&mut s, "SELECT ISNUMERIC('$1,234.56'), ISNUMERIC($1)"), ["ROW(Int(1), Int(1))"]);
}

#[test]
fn amounts_become_texts_in_the_styles_of_money() {
    let (_e, mut s) = session();
    assert_eq!(
        rows(
            &mut s,
            "DECLARE @m money = 4235.9819, @n money = -1234567.895, @s smallmoney = 3148.29
             SELECT CAST(@m AS varchar), CONVERT(nvarchar(20), @m, 1), CONVERT(varchar(20), @m, 2),
                    CONVERT(varchar(20), @m, 126), CONVERT(varchar(20), @m, 7), CONVERT(varchar(20), @n, 1),
                    CAST(@s AS varchar)"
        ),
        ["ROW(String(\"4235.98\"), String(\"4,235.98\"), String(\"4235.9819\"), String(\"4235.9819\"), \
          String(\"4235.98\"), String(\"-1,234,567.90\"), String(\"3148.29\"))"]
    );
    let tokens = run(&mut s, "SELECT CAST($1234.5 AS varchar(6))").join("\n");
    let message = "There is insufficient result space to convert a money value to varchar.";
    assert!(tokens.contains("ERROR(234") && tokens.contains(message), "{tokens}");
    // The chart of conversions is a picture, whose versions differ here.
    assert_eq!(errors(&mut s, "DECLARE @t varchar(20) = $1"), [59_000]);
}

#[test]
fn amounts_become_numbers() {
    let (_e, mut s) = session();
    assert_eq!(
        rows(
            &mut s,
            "SELECT CAST($10.5 AS int), CAST(-$10.5 AS bigint), CAST($0.0001 AS bit), CAST($1.5 AS float),
                    CAST(CAST($3148.29 AS decimal) AS varchar), CAST(CAST($1.2345 AS decimal(9, 2)) AS varchar)"
        ),
        ["ROW(Int(11), BigInt(-11), Bit(true), Float(1.5), String(\"3148\"), String(\"1.23\"))"]
    );
    assert_eq!(errors(&mut s, "SELECT CAST($12345.67 AS decimal(5, 2))"), [8115]);
    assert_eq!(errors(&mut s, "SELECT CAST($3000000000 AS int)"), [237]);
    assert_eq!(errors(&mut s, "SELECT CAST($300000 AS smallmoney)"), [237]);
    assert_eq!(rows(&mut s, "SELECT CAST($1.5 AS datetime)"), rows(&mut s, "SELECT CAST(1.5 AS datetime)"));
    assert_eq!(errors(&mut s, "SELECT CAST($1 AS date)"), [529]);
}

#[test]
fn arithmetic_stays_money_below_decimal_and_float() {
    let (_e, mut s) = session();
    let base = |expression: &str| {
        format!(
            "DECLARE @v sql_variant = {expression}
             SELECT SQL_VARIANT_PROPERTY(@v, 'Precision'), SQL_VARIANT_PROPERTY(@v, 'Scale'), CAST(@v AS float)"
        )
    };
    for (expression, precision, scale, value) in [
        ("$1.5 + 2", 19, 4, "3.5"),
        ("$10 / 3", 19, 4, "3.3333"),
        ("$2 / $3", 19, 4, "0.6666"),
        ("$1.5 * 3", 19, 4, "4.5"),
        ("$10.5 % 3", 19, 4, "1.5"),
        ("CAST(1.5 AS smallmoney) - CAST(1 AS smallint)", 10, 4, "0.5"),
        ("CAST(1.5 AS smallmoney) + $1", 19, 4, "2.5"),
        // decimal(19, 4) and decimal(2, 1) by the table of "Precision, scale, and length".
        ("$1.5 + 1.5", 20, 4, "3.0"),
        ("CAST(1.5 AS smallmoney) * 1.5", 13, 5, "2.25"),
        ("$1.5 * 2E0", 53, 0, "3.0"),
    ] {
        let row = rows(&mut s, &base(expression)).join("");
        let number = |n: i32| format!("Int({n})");
        assert!(row.contains(&number(precision)) && row.contains(&number(scale)), "{expression}: {row}");
        assert!(row.contains(&format!("Float({value})")), "{expression}: {row}");
    }
    let base_type = "SELECT CAST(SQL_VARIANT_PROPERTY($1 + 1, 'BaseType') AS sysname),
                            CAST(SQL_VARIANT_PROPERTY(-CAST(1 AS smallmoney), 'BaseType') AS sysname)";
    assert_eq!(rows(&mut s, base_type), ["ROW(String(\"money\"), String(\"smallmoney\"))"]);
    assert_eq!(errors(&mut s, "SELECT $922337203685477 * 1000"), [8115]);
    assert_eq!(errors(&mut s, "SELECT $1 / 0"), [8134]);
    assert_eq!(errors(&mut s, "SELECT $1 & 1"), [402]);
    assert_eq!(shown(&mut s, "$18.4172 * $1.1562"), "21.2940");
    assert_eq!(shown(&mut s, "-$1.2 * $0.0001"), "-0.0001");
    assert_eq!(errors(&mut s, "SELECT $1.5 * $0.0001"), [59_000]);
    assert_eq!(
        rows(&mut s, "SELECT CAST(CEILING($123.45) AS float), CAST(FLOOR(-$123.45) AS float), CAST(ABS(-$1) AS float)"),
        ["ROW(Float(124.0), Float(-124.0), Float(1.0))"]
    );
    assert_eq!(shown(&mut s, "ROUND($123.456, 1)"), "123.5000");
}

#[test]
fn a_table_keeps_amounts_in_order() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE prices (price money NOT NULL PRIMARY KEY, fee smallmoney NULL DEFAULT $0.25)
         INSERT prices (price) VALUES (1.5), (-$7), ('20'), (3)
         CREATE INDEX by_fee ON prices (fee)
         UPDATE prices SET fee = price * 2 WHERE price > 1.4",
    );
    assert_eq!(
        rows(&mut s, "SELECT CAST(price AS float), CAST(fee AS float) FROM prices ORDER BY price DESC"),
        [
            "ROW(Float(20.0), Float(40.0))",
            "ROW(Float(3.0), Float(6.0))",
            "ROW(Float(1.5), Float(3.0))",
            "ROW(Float(-7.0), Float(0.25))"
        ]
    );
    for condition in
        ["price = 1.5", "price = $1.5", "price = '1.5'", "price = 1.5E0", "fee = 3", "fee < $3.5 AND price > 0"]
    {
        let found = rows(&mut s, &format!("SELECT CAST(price AS float) FROM prices WHERE {condition}"));
        assert_eq!(found, ["ROW(Float(1.5))"], "{condition}");
    }
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM prices WHERE price = 1.50001"), ["ROW(Int(0))"]);
    assert_eq!(errors(&mut s, "INSERT prices (price) VALUES (3.00001)"), [2627]);
    // SUM and AVG of either type are money (docs/t-sql/functions/sum-transact-sql.md, avg-transact-sql.md).
    assert_eq!(
        rows(
            &mut s,
            "SELECT CAST(SQL_VARIANT_PROPERTY(SUM(fee), 'BaseType') AS sysname), CAST(SUM(fee) AS float),
                    CAST(AVG(fee) AS float), CAST(MIN(price) AS float), CAST(MAX(price) AS float) FROM prices"
        ),
        ["ROW(String(\"money\"), Float(49.25), Float(12.3125), Float(-7.0), Float(20.0))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT COUNT(DISTINCT fee) FROM prices GROUP BY price % 1"),
        ["ROW(Int(3))", "ROW(Int(1))"]
    );
}

/// Source: "sys.types" and "COLUMNS" (docs/relational-databases/system-catalog-views/,
/// …/system-information-schema-views/).
#[test]
fn the_catalog_knows_both_types() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE prices (price money NOT NULL, fee smallmoney NULL)
         CREATE TYPE amounts AS TABLE (amount money)
         CREATE TYPE fee FROM smallmoney",
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT name, system_type_id, user_type_id, max_length, precision, scale FROM sys.types
             WHERE name LIKE '%money' ORDER BY name"
        ),
        [
            "ROW(String(\"money\"), TinyInt(60), Int(60), SmallInt(8), TinyInt(19), TinyInt(4))",
            "ROW(String(\"smallmoney\"), TinyInt(122), Int(122), SmallInt(4), TinyInt(10), TinyInt(4))"
        ]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT system_type_id, max_length, precision, scale FROM sys.columns
             WHERE object_id = OBJECT_ID('prices') ORDER BY column_id"
        ),
        [
            "ROW(TinyInt(60), SmallInt(8), TinyInt(19), TinyInt(4))",
            "ROW(TinyInt(122), SmallInt(4), TinyInt(10), TinyInt(4))"
        ]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT DATA_TYPE, NUMERIC_PRECISION, NUMERIC_SCALE
             FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'prices' ORDER BY ORDINAL_POSITION"
        ),
        ["ROW(String(\"money\"), TinyInt(19), Int(4))", "ROW(String(\"smallmoney\"), TinyInt(10), Int(4))"]
    );
    ok(
        &mut s,
        "CREATE PROCEDURE add_up @amounts amounts READONLY, @fee fee, @sum money OUTPUT AS SELECT @sum = SUM(amount) + @fee FROM @amounts",
    );
    assert_eq!(
        rows(
            &mut s,
            "DECLARE @amounts amounts, @sum money
             INSERT @amounts VALUES (1), ($2.5)
             EXEC add_up @amounts, 0.25, @sum OUTPUT
             SELECT CAST(@sum AS float)"
        ),
        ["ROW(Float(3.75))"]
    );
}
