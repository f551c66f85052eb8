use std::sync::Arc;

use crate::error::{NOT_SUPPORTED, SqlError, SqlResult};
use crate::value::convert::cast::convert;
use crate::value::convert::chart::check_conversion;
use crate::value::convert::column::assign;
use crate::value::datetime::{DAY_1900, TICKS_PER_DAY};
use crate::value::decimal::Decimal;
use crate::value::literal;
use crate::value::types::{Length, SqlType};
use crate::value::units::units;
use crate::value::values::Value;
use uuid::Uuid;

const VARCHAR_MAX: SqlType = SqlType::VarChar(Length::Max);

fn varchar(n: u16) -> SqlType {
    SqlType::VarChar(Length::Limit(n))
}

fn nvarchar(n: u16) -> SqlType {
    SqlType::NVarChar(Length::Limit(n))
}

fn decimal(precision: u8, scale: u8) -> SqlType {
    SqlType::decimal(precision, scale)
}

fn text(value: &str) -> Value {
    Value::String(Arc::from(value))
}

/// CAST of a varchar constant to a type, then to text again.
fn cast(value: &str, to: SqlType) -> Result<String, (i32, String)> {
    let (value, from) = literal::string(value, false);
    let report = |error: SqlError| (error.number, error.message);
    let converted = convert(value, from, to, None, true).map_err(report)?;
    show(converted, to).map_err(report)
}

fn show(value: Value, ty: SqlType) -> SqlResult<String> {
    Ok(convert(value, ty, VARCHAR_MAX, None, true)?.as_str().unwrap_or("NULL").to_string())
}

#[test]
fn texts_become_numbers() {
    let cases = [("", SqlType::Int, "0"), (" -12 ", SqlType::Int, "-12"), ("+5", SqlType::BigInt, "5")];
    for (value, to, expected) in cases {
        assert_eq!(cast(value, to).as_deref(), Ok(expected), "{value:?} to {to}");
    }
}

#[test]
fn texts_that_are_no_numbers_fail_as_in_sql_server() {
    let cases = [
        ("abc", SqlType::Int, 245, "Conversion failed when converting the varchar value 'abc' to data type int."),
        ("1.5", SqlType::Int, 245, "Conversion failed when converting the varchar value '1.5' to data type int."),
        ("abc", SqlType::BigInt, 8114, "Error converting data type varchar to bigint."),
    ];
    for (value, to, number, message) in cases {
        assert_eq!(cast(value, to), Err((number, message.to_string())), "{value:?} to {to}");
    }
    for (value, to) in
        [("9999999999", SqlType::Int), ("256", SqlType::TinyInt), ("yes", SqlType::Bit), ("1", decimal(5, 2))]
    {
        assert_eq!(cast(value, to).unwrap_err().0, NOT_SUPPORTED, "{value:?} to {to}");
    }
}

// "Truncating and rounding results" in docs/t-sql/functions/cast-and-convert-transact-sql.md
#[test]
fn numbers_are_cut_or_rounded_by_type() {
    let decimal_value = |text: &str| Value::Decimal(Box::new(Decimal::parse(text, 6, 4).unwrap()));
    let from = decimal(6, 4);
    for (value, to, expected) in [("10.6496", SqlType::Int, "10"), ("10.6496", decimal(18, 0), "11")] {
        let converted = convert(decimal_value(value), from, to, None, true).unwrap();
        assert_eq!(show(converted, to).unwrap(), expected);
    }
}

#[test]
fn number_overflow_names_the_types() {
    let cases = [
        (Value::Int(40_000), SqlType::Int, SqlType::SmallInt, 220),
        (Value::BigInt(1 << 40), SqlType::BigInt, SqlType::Int, 8115),
        (Value::Int(1000), SqlType::Int, decimal(3, 0), 8115),
        (Value::Float(3e9), SqlType::Float, SqlType::Int, NOT_SUPPORTED),
        (Value::Int(-1), SqlType::Int, SqlType::TinyInt, 220),
    ];
    for (value, from, to, number) in cases {
        assert_eq!(convert(value, from, to, None, false).unwrap_err().number, number, "{from} to {to}");
    }
}

#[test]
fn text_is_cut_and_filled_up_by_cast() {
    assert_eq!(convert(text("abcdef"), varchar(6), varchar(3), None, true), Ok(text("abc")));
    assert_eq!(convert(text("ab"), varchar(2), SqlType::Char(4), None, true), Ok(text("ab  ")));
    assert_eq!(convert(text("日本"), nvarchar(2), varchar(10), None, false), Ok(text("??")));
    assert_eq!(convert(Value::Int(123), SqlType::Int, varchar(2), None, true).unwrap_err().number, NOT_SUPPORTED);
    let cut = convert(text("a😀"), nvarchar(3), nvarchar(2), None, true).unwrap();
    assert_eq!(units(cut.as_str().unwrap()).collect::<Vec<_>>(), [0x61, 0xD83D], "half a surrogate pair");
}

#[test]
fn a_column_takes_no_text_that_is_too_long() {
    let cut = |kept: String| SqlError::new(2628, kept);
    assert_eq!(assign(text("abcdef"), varchar(6), varchar(3), cut).unwrap_err().message, "abc");
    assert_eq!(assign(text("abc   "), varchar(6), varchar(3), cut), Ok(text("abc")));
    let bytes = Value::Bytes(Arc::from([1, 2, 3]));
    let two = SqlType::VarBinary(Length::Limit(2));
    let three = SqlType::VarBinary(Length::Limit(3));
    assert_eq!(assign(bytes.clone(), three, two, cut).unwrap_err().message, "0x0102");
    assert_eq!(assign(bytes.clone(), three, SqlType::VarBinary(Length::Max), cut), Ok(bytes));
}

#[test]
fn conversions_that_do_not_exist() {
    let cases = [
        (varchar(5), SqlType::VarBinary(Length::Max), false, 257),
        (SqlType::DateTime, SqlType::Int, true, NOT_SUPPORTED),
        (SqlType::UniqueIdentifier, SqlType::Int, false, 206),
        (SqlType::Date, SqlType::Int, true, 529),
        (SqlType::RowVersion, nvarchar(10), true, NOT_SUPPORTED),
    ];
    for (from, to, explicit, number) in cases {
        assert_eq!(check_conversion(from, to, explicit).unwrap_err().number, number, "{from} to {to}");
    }
    let error = check_conversion(varchar(5), SqlType::VarBinary(Length::Max), false).unwrap_err();
    assert_eq!(
        error.message,
        "Implicit conversion from data type varchar to varbinary is not allowed. \
         Use the CONVERT function to run this query."
    );
}

// docs/t-sql/functions/cast-and-convert-transact-sql.md, "Binary styles"; example "Using CONVERT with binary and
// character data"
#[test]
fn bytes_and_text() {
    let name = Value::Bytes(Arc::from(*b"Name"));
    let binary = SqlType::Binary(4);
    assert_eq!(convert(name.clone(), binary, SqlType::Char(8), Some(0), true), Ok(text("Name    ")));
    assert_eq!(convert(name.clone(), binary, varchar(20), Some(1), true), Ok(text("0x4E616D65")));
    assert_eq!(convert(name.clone(), binary, varchar(20), Some(2), true), Ok(text("4E616D65")));
    assert_eq!(convert(text("4E"), varchar(2), binary, Some(2), true).unwrap_err().number, NOT_SUPPORTED);
    let utf16 = Value::Bytes(Arc::from([0x41, 0x00]));
    let varbinary = SqlType::VarBinary(Length::Limit(30));
    assert_eq!(convert(text("A"), nvarchar(1), varbinary, None, true), Ok(utf16));
    let short = SqlType::VarBinary(Length::Limit(2));
    assert_eq!(convert(Value::Int(258), SqlType::Int, short, None, true), Ok(Value::Bytes(Arc::from([1, 2]))));
    assert_eq!(convert(Value::Bytes(Arc::from([1, 2])), short, SqlType::Int, None, false), Ok(Value::Int(258)));
    let minus_one = Value::Bytes(Arc::from([0xFF; 8]));
    assert_eq!(convert(minus_one, SqlType::Binary(8), SqlType::BigInt, None, true), Ok(Value::BigInt(-1)));
}

// The examples of docs/t-sql/data-types/datetime2-transact-sql.md and datetime-transact-sql.md
#[test]
fn dates_and_times_convert() {
    let cases = [
        ("2007-05-08 12:35:29.1234567", SqlType::Time(7), "12:35:29.1234567"),
        ("2007-05-08 12:35:29.1234567", SqlType::Date, "2007-05-08"),
        ("2007-05-08 12:35:29.1234567", SqlType::DateTime2(7), "2007-05-08 12:35:29.1234567"),
        ("2007-05-08 12:35:29.1234567", SqlType::DateTimeOffset(7), "2007-05-08 12:35:29.1234567 +00:00"),
        ("2007-05-08 12:35:29.96", SqlType::DateTime2(1), "2007-05-08 12:35:30.0"),
        ("2007-12-31 23:59:59.99", SqlType::DateTime2(0), "2008-01-01 00:00:00"),
    ];
    for (value, to, expected) in cases {
        assert_eq!(cast(value, to).as_deref(), Ok(expected), "{value} to {to}");
    }
    let (value, from) = literal::string("2016-10-23 12:45:37.333", false);
    let datetime = convert(value, from, SqlType::DateTime, None, false).unwrap();
    let long = convert(datetime, SqlType::DateTime, SqlType::DateTime2(7), None, false).unwrap();
    assert_eq!(show(long, SqlType::DateTime2(7)).unwrap(), "2016-10-23 12:45:37.3333333");
    assert_eq!(cast("2023-02-30", SqlType::DateTime).unwrap_err().0, 242);
    assert_eq!(cast("1752-12-31", SqlType::DateTime).unwrap_err().0, 242);
    assert_eq!(cast("2023-02-30", SqlType::DateTime2(7)).unwrap_err().0, 241);
    assert_eq!(cast("2023-02-03 10:00:00.1234", SqlType::DateTime).unwrap_err().0, 241);
}

#[test]
fn numbers_are_days_since_1900() {
    let day_and_a_half = Value::Decimal(Box::new(Decimal { mantissa: 15, precision: 2, scale: 1 }));
    let value = convert(day_and_a_half, decimal(2, 1), SqlType::DateTime, None, false).unwrap();
    assert_eq!(value, Value::DateTime(DAY_1900 + 1, TICKS_PER_DAY / 2));
    let value = convert(Value::Int(-1), SqlType::Int, SqlType::DateTime, None, false).unwrap();
    assert_eq!(value, Value::DateTime(DAY_1900 - 1, 0));
}

// docs/t-sql/data-types/uniqueidentifier-transact-sql.md
#[test]
fn uniqueidentifiers_convert() {
    let id = "0E984725-C51C-4BF4-9960-E1C80E27ABA0";
    assert_eq!(cast(&format!("{id}wrong"), SqlType::UniqueIdentifier).as_deref(), Ok(id));
    assert_eq!(cast(&format!("{{{id}}}"), SqlType::UniqueIdentifier).as_deref(), Ok(id));
    assert_eq!(cast("nonsense", SqlType::UniqueIdentifier).unwrap_err().0, 8169);
    let value = Value::Uuid(Uuid::parse_str(id).unwrap());
    let from = SqlType::UniqueIdentifier;
    assert_eq!(convert(value.clone(), from, varchar(10), None, true).unwrap_err().number, NOT_SUPPORTED);
    let bytes = convert(value, from, SqlType::Binary(16), None, false).unwrap();
    assert_eq!(bytes.as_bytes().map(|b| b[..4].to_vec()), Some(vec![0x25, 0x47, 0x98, 0x0E]));
    assert_eq!(convert(bytes, SqlType::Binary(16), from, None, false).unwrap_err().number, NOT_SUPPORTED);
}

// "Always 17 digits. Use for lossless conversion."
#[test]
fn floats_print_with_all_digits() {
    let print = |style| convert(Value::Float(0.1), SqlType::Float, varchar(30), style, true);
    assert_eq!(print(Some(3)), Ok(text("1.0000000000000001e-001")));
    assert_eq!(print(None).unwrap_err().number, NOT_SUPPORTED);
}
