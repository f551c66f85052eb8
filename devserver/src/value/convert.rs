//! Conversion between the data types: CAST and CONVERT, the implicit conversions, and storing into a column.
//!
//! [`check_conversion`] answers from the types alone whether a conversion exists; [`convert`] checks again and does
//! it; [`assign`] does it for a column, where text that does not fit is an error instead of being cut.
//! Source: docs/t-sql/functions/cast-and-convert-transact-sql.md (chart of conversions, truncating and rounding,
//! styles) of MicrosoftDocs/sql-docs. Text is held as Rust strings, so that a cut or a conversion that would leave
//! half of a surrogate pair is refused.

use super::codepage;
use super::datetime::{
    self, DAY_1900, TICKS_PER_DAY, TICKS_PER_MILLISECOND, round_instant, round_ticks, round_to_datetime, shift_minutes,
    three_hundredths_from_ticks, ticks_from_three_hundredths,
};
use super::datetime_text::{self, DateOrder, DateTimeText, DateTimeTextError};
use super::decimal::ParseDecimalError;
use super::types::operand_clash;
use super::{Day, Decimal, Length, SqlType, Ticks, Value};
use crate::error::{SqlError, SqlResult};
use std::sync::Arc;
use uuid::Uuid;

/// How a conversion can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Implicit,
    Explicit,
    Never,
}

/// The types that share a row and a column in the chart of conversions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Binary,
    Text,
    UnicodeText,
    DateTime,
    /// `datetime2` and `datetimeoffset`.
    LongDateTime,
    Date,
    Time,
    Decimal,
    Float,
    /// Integers and `bit`.
    Integer,
    RowVersion,
    Uuid,
    Variant,
}

fn group(ty: SqlType) -> Group {
    match ty {
        SqlType::Binary(_) | SqlType::VarBinary(_) => Group::Binary,
        SqlType::Char(_) | SqlType::VarChar(_) => Group::Text,
        SqlType::NChar(_) | SqlType::NVarChar(_) => Group::UnicodeText,
        SqlType::DateTime => Group::DateTime,
        SqlType::DateTime2(_) | SqlType::DateTimeOffset(_) => Group::LongDateTime,
        SqlType::Date => Group::Date,
        SqlType::Time(_) => Group::Time,
        SqlType::Decimal { .. } => Group::Decimal,
        SqlType::Real | SqlType::Float => Group::Float,
        SqlType::Bit | SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt => Group::Integer,
        SqlType::RowVersion => Group::RowVersion,
        SqlType::UniqueIdentifier => Group::Uuid,
        SqlType::Variant => Group::Variant,
    }
}

/// The chart of conversions.
fn rule(from: SqlType, to: SqlType) -> Rule {
    use Group::*;
    let (from, to) = (group(from), group(to));
    if from == to {
        return Rule::Implicit;
    }
    match (from, to) {
        (Variant, RowVersion) => Rule::Never,
        (Variant, _) => Rule::Explicit,
        (_, Variant) => Rule::Implicit,

        (Binary, Date | Time | LongDateTime) => Rule::Explicit,
        (Binary, Float) => Rule::Never,
        (Binary, _) => Rule::Implicit,

        (Text | UnicodeText, Binary) => Rule::Explicit,
        (Text, RowVersion) => Rule::Explicit,
        (UnicodeText, RowVersion) => Rule::Never,
        (Text | UnicodeText, _) => Rule::Implicit,

        (DateTime | LongDateTime | Date | Time, Binary) => Rule::Explicit,
        (DateTime | LongDateTime | Date | Time, Text | UnicodeText) => Rule::Implicit,
        (Date, Time) | (Time, Date) => Rule::Never,
        (DateTime | LongDateTime | Date | Time, DateTime | LongDateTime | Date | Time) => Rule::Implicit,
        (DateTime, Decimal | Float | Integer | RowVersion) => Rule::Explicit,
        (DateTime | LongDateTime | Date | Time, _) => Rule::Never,

        (Decimal | Float | Integer, Date | Time | LongDateTime | Uuid) => Rule::Never,
        (Float, RowVersion) => Rule::Never,
        (Decimal | Float | Integer, _) => Rule::Implicit,

        (RowVersion, Date | Time | LongDateTime | Float | Uuid | UnicodeText) => Rule::Never,
        (RowVersion, _) => Rule::Implicit,

        (Uuid, Binary | Text | UnicodeText) => Rule::Implicit,
        (Uuid, _) => Rule::Never,
    }
}

/// The types whose values tell their type well enough to become a `sql_variant`.
fn fits_variant(ty: SqlType) -> bool {
    (ty.is_character() && !ty.is_max())
        || ty.is_integer()
        || matches!(ty, SqlType::Bit | SqlType::Float | SqlType::UniqueIdentifier)
}

/// The base type of a value that is a `sql_variant`.
pub fn variant_base(value: &Value) -> Option<SqlType> {
    Some(match value {
        Value::Bit(_) => SqlType::Bit,
        Value::TinyInt(_) => SqlType::TinyInt,
        Value::SmallInt(_) => SqlType::SmallInt,
        Value::Int(_) => SqlType::Int,
        Value::BigInt(_) => SqlType::BigInt,
        Value::Float(_) => SqlType::Float,
        Value::Uuid(_) => SqlType::UniqueIdentifier,
        Value::String(_) => SqlType::NVarChar(Length::Limit(super::types::MAX_UNIT_LENGTH)),
        _ => return None,
    })
}

/// Whether there is a conversion between two types, asked when a statement is bound.
///
/// # Errors
/// 529 where there is none for CAST and CONVERT, 206 where there is none at all, 257 where CONVERT is needed.
pub fn check_conversion(from: SqlType, to: SqlType, explicit: bool) -> SqlResult<()> {
    if to == SqlType::Variant && from != to && !fits_variant(from) {
        return Err(SqlError::not_supported(format!("a sql_variant of the type {from}")));
    }
    match (rule(from, to), explicit) {
        (Rule::Implicit, _) | (Rule::Explicit, true) => Ok(()),
        (Rule::Explicit, false) => Err(SqlError::new(
            257,
            format!(
                "Implicit conversion from data type {} to {} is not allowed. Use the CONVERT function to run this query.",
                from.message_name(),
                to.message_name()
            ),
        )
        .state(3)),
        (Rule::Never, true) => Err(SqlError::new(
            529,
            format!(
                "Explicit conversion from data type {} to {} is not allowed.",
                from.message_name(),
                to.message_name()
            ),
        )),
        (Rule::Never, false) => Err(operand_clash(from, to)),
    }
}

/// Converts a value as CAST and CONVERT (`explicit`) or an assignment to a variable or parameter does. Text and
/// bytes that are too long are cut; fixed-length types are filled up.
///
/// # Errors
/// Those of [`check_conversion`], and SQL Server's errors for values that do not convert: 244, 245, 248, 8114 (not a
/// number, too large a number), 220, 232, 8115 (overflow), 241, 242 (no such date), 8169, 8170 (uniqueidentifier).
pub fn convert(value: Value, from: SqlType, to: SqlType, style: Option<i32>, explicit: bool) -> SqlResult<Value> {
    if style.is_none() && (from == to || is_as_it_must_be(&value, from, to)) {
        return Ok(value);
    }
    // Most conversions are of this kind: a small column against a constant.
    match (to, &value) {
        (SqlType::Int, Value::TinyInt(number)) => return Ok(Value::Int(i32::from(*number))),
        (SqlType::Int, Value::SmallInt(number)) => return Ok(Value::Int(i32::from(*number))),
        (SqlType::BigInt, Value::Int(number)) => return Ok(Value::BigInt(i64::from(*number))),
        _ => {}
    }
    check_conversion(from, to, explicit)?;
    if value.is_null() {
        return Ok(value);
    }
    if from == SqlType::Variant {
        let base = variant_base(&value).expect("a sql_variant is made by a conversion or a function");
        return convert(value, base, to, style, explicit);
    }
    match to {
        SqlType::Variant => Ok(value),
        SqlType::Bit => to_bit(&value, from),
        SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt => to_integer(&value, from, to),
        SqlType::Decimal { precision, scale } => to_decimal(&value, from, precision, scale),
        SqlType::Real | SqlType::Float => to_float(&value, from, to),
        SqlType::Char(_) | SqlType::VarChar(_) | SqlType::NChar(_) | SqlType::NVarChar(_) => {
            let text = to_text(&value, from, to, style)?;
            fit_text(text, from, to)
        }
        SqlType::Binary(_) | SqlType::VarBinary(_) | SqlType::RowVersion => {
            let bytes = to_bytes(&value, from, to, style)?;
            Ok(fit_bytes(bytes, from, to))
        }
        SqlType::Date | SqlType::Time(_) | SqlType::DateTime | SqlType::DateTime2(_) | SqlType::DateTimeOffset(_) => {
            to_date_or_time(&value, from, to, style)
        }
        SqlType::UniqueIdentifier => to_uuid(&value),
    }
}

/// Whether a value needs no more than another type's name: a text or bytes that fit. (A text has at most as many UTF-16
/// units as it has bytes here.)
fn is_as_it_must_be(value: &Value, from: SqlType, to: SqlType) -> bool {
    let fits = |length: usize, most: Length| most.limit().is_none_or(|most| length <= most);
    match (value, from, to) {
        (Value::String(text), SqlType::NVarChar(_) | SqlType::NChar(_), SqlType::NVarChar(most)) => {
            fits(text.len(), most)
        }
        (Value::Bytes(bytes), SqlType::VarBinary(_) | SqlType::Binary(_), SqlType::VarBinary(most)) => {
            fits(bytes.len(), most)
        }
        _ => false,
    }
}

/// What can go wrong on the way into a column.
#[derive(Debug, Clone, PartialEq)]
pub enum AssignError {
    /// Text or bytes are longer than the column; this part of them would fit.
    Truncation { kept: String },
    /// The value does not convert.
    Other(SqlError),
}

impl AssignError {
    /// The error to report: 2628 with the names filled in, or the conversion's error. `table` is
    /// `database.schema.table`.
    pub fn for_column(self, table: &str, column: &str) -> SqlError {
        match self {
            AssignError::Truncation { kept } => SqlError::new(
                2628,
                format!(
                    "String or binary data would be truncated in table '{table}', column '{column}'. \
                     Truncated value: '{kept}'."
                ),
            ),
            AssignError::Other(error) => error,
        }
    }
}

impl From<SqlError> for AssignError {
    fn from(error: SqlError) -> Self {
        AssignError::Other(error)
    }
}

/// Converts a value for a column of type `to`, as INSERT, UPDATE and MERGE do: implicitly, and without cutting
/// anything but trailing blanks.
///
/// # Errors
/// [`AssignError::Truncation`] if text or bytes are too long; otherwise the errors of [`convert`].
pub fn assign(value: Value, from: SqlType, to: SqlType) -> Result<Value, AssignError> {
    if from == to || is_as_it_must_be(&value, from, to) {
        return Ok(value);
    }
    if !to.is_character() && !to.is_binary() {
        return Ok(convert(value, from, to, None, false)?);
    }
    check_conversion(from, to, false)?;
    if value.is_null() {
        return Ok(value);
    }
    if to.is_character() {
        let Some(limit) = to.length().and_then(Length::limit) else {
            return Ok(convert(value, from, to, None, false)?);
        };
        let text = to_text(&value, from, to, None)?;
        let trimmed_length = utf16_length(text.trim_end_matches(' '));
        let is_too_long = trimmed_length > limit;
        if is_too_long && matches!(group(from), Group::Integer | Group::Decimal | Group::Float | Group::Uuid) {
            // CAST may answer `*`; nothing is documented for a column, so that the stricter answer is given.
            return Err(text_overflow(from, to).into());
        }
        if is_too_long {
            let (kept, _) = split_units(&text, limit)?;
            return Err(AssignError::Truncation { kept: kept.to_string() });
        }
        return Ok(fit_text(text, from, to)?);
    }
    let bytes = to_bytes(&value, from, to, None)?;
    let limit = to.length().and_then(Length::limit).unwrap_or(usize::MAX);
    if bytes.len() > limit {
        if group(from) != Group::Binary {
            return Err(SqlError::not_supported(format!("storing {from} into {to}, which is too short")).into());
        }
        return Err(AssignError::Truncation { kept: hex(&bytes[..limit]) });
    }
    Ok(fit_bytes(bytes, from, to))
}

// ---------------------------------------------------------------------------------------------------- numbers

fn to_bit(value: &Value, from: SqlType) -> SqlResult<Value> {
    let bit = match value {
        Value::Bit(v) => *v,
        Value::TinyInt(_) | Value::SmallInt(_) | Value::Int(_) | Value::BigInt(_) => value.as_i64() != Some(0),
        Value::Decimal(v) => v.mantissa != 0,
        Value::Real(v) => *v != 0.0,
        Value::Float(v) => *v != 0.0,
        Value::String(text) => {
            let text = text.trim_matches(' ');
            match parse_integer(text) {
                Ok(number) => number != 0,
                Err(_) if text.eq_ignore_ascii_case("true") => true,
                Err(_) if text.eq_ignore_ascii_case("false") => false,
                Err(_) => return Err(not_convertible(from, text, SqlType::Bit)),
            }
        }
        Value::Bytes(bytes) if bytes.len() == 1 => bytes[0] != 0,
        _ => return Err(not_supported(from, SqlType::Bit)),
    };
    Ok(Value::Bit(bit))
}

fn to_integer(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let wide = match value {
        Value::Decimal(v) => v.trunc(),
        Value::Real(v) => float_to_integer(f64::from(*v), from, to)?,
        Value::Float(v) => float_to_integer(*v, from, to)?,
        Value::String(text) => {
            let text = text.trim_matches(' ');
            let number = match parse_integer(text) {
                Ok(number) => number,
                Err(IntegerText::Malformed) => return Err(not_convertible(from, text, to)),
                Err(IntegerText::Overflow) => return Err(text_integer_overflow(from, text, to)),
            };
            return integer_value(number, to).ok_or_else(|| text_integer_overflow(from, text, to));
        }
        Value::Bytes(bytes) => bytes_to_integer(bytes, to),
        Value::DateTime(day, ticks) if from == SqlType::DateTime => {
            // Days since 1900, rounded ("datetime to int" in the table of truncation and rounding).
            let half_day_passed = *ticks >= TICKS_PER_DAY / 2;
            i128::from(*day) - i128::from(DAY_1900) + i128::from(half_day_passed)
        }
        _ => match value.as_i64() {
            Some(number) => i128::from(number),
            None => return Err(not_supported(from, to)),
        },
    };
    integer_value(wide, to).ok_or_else(|| {
        let is_small_source = matches!(from, SqlType::SmallInt | SqlType::Int | SqlType::TinyInt);
        let name = to.name();
        if is_small_source {
            return SqlError::new(220, format!("Arithmetic overflow error for data type {name}, value = {wide}."));
        }
        match from {
            SqlType::Decimal { .. } => overflow(from.message_name(), to),
            _ => overflow("expression", to),
        }
    })
}

/// An integer in its type, if it fits.
pub(super) fn integer_value(number: i128, to: SqlType) -> Option<Value> {
    match to {
        SqlType::TinyInt => u8::try_from(number).ok().map(Value::TinyInt),
        SqlType::SmallInt => i16::try_from(number).ok().map(Value::SmallInt),
        SqlType::Int => i32::try_from(number).ok().map(Value::Int),
        SqlType::BigInt => i64::try_from(number).ok().map(Value::BigInt),
        _ => None,
    }
}

fn float_to_integer(value: f64, from: SqlType, to: SqlType) -> SqlResult<i128> {
    // Casting saturates, and every saturated value is out of range for every integer type.
    let truncated = value.trunc() as i128;
    if to != SqlType::BigInt && integer_value(truncated, to).is_none() {
        let name = to.name();
        return Err(SqlError::new(232, format!("Arithmetic overflow error for type {name}, value = {value:.6}.")));
    }
    if integer_value(truncated, to).is_none() {
        return Err(overflow(from.message_name(), to));
    }
    Ok(truncated)
}

/// The last bytes, filled up in front: binary numbers are written with the highest byte first.
fn bytes_to_integer(bytes: &[u8], to: SqlType) -> i128 {
    let width = to.max_bytes().expect("integers have a size");
    let used = &bytes[bytes.len().saturating_sub(width)..];
    let unsigned = used.iter().fold(0i128, |sum, &byte| sum << 8 | i128::from(byte));
    let bits = 8 * width;
    let is_negative = to != SqlType::TinyInt && unsigned >> (bits - 1) & 1 == 1;
    if is_negative { unsigned - (1 << bits) } else { unsigned }
}

enum IntegerText {
    Malformed,
    Overflow,
}

/// An empty text is 0. A lone sign, which SQL Server takes for 0 too, is refused here.
fn parse_integer(text: &str) -> Result<i128, IntegerText> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(IntegerText::Malformed);
    }
    text.parse().map_err(|_| IntegerText::Overflow)
}

fn to_decimal(value: &Value, from: SqlType, precision: u8, scale: u8) -> SqlResult<Value> {
    let to = SqlType::Decimal { precision, scale };
    let decimal = match value {
        Value::Decimal(v) => v.resize(precision, scale),
        Value::Real(v) => Decimal::from_f64(f64::from(*v), precision, scale),
        Value::Float(v) => Decimal::from_f64(*v, precision, scale),
        Value::String(text) => match Decimal::parse(text, precision, scale) {
            Ok(decimal) => Some(decimal),
            Err(ParseDecimalError::Overflow) => None,
            Err(ParseDecimalError::Malformed) => return Err(error_converting(from, to)),
        },
        _ => match value.as_i64() {
            Some(number) => Decimal { mantissa: i128::from(number), precision: 19, scale: 0 }.resize(precision, scale),
            None => return Err(not_supported(from, to)),
        },
    };
    match decimal {
        Some(decimal) => Ok(Value::Decimal(Box::new(decimal))),
        None => Err(overflow(from.message_name(), to)),
    }
}

fn to_float(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let float = match value {
        Value::Real(v) => f64::from(*v),
        Value::Float(v) => *v,
        Value::Decimal(v) => v.to_f64(),
        Value::String(text) => parse_float(text).ok_or_else(|| error_converting(from, to))?,
        Value::DateTime(day, ticks) if from == SqlType::DateTime => {
            let days = f64::from(*day) - f64::from(DAY_1900);
            days + three_hundredths_from_ticks(*ticks) as f64 / (300.0 * 86_400.0)
        }
        _ => match value.as_i64() {
            Some(number) => number as f64,
            None => return Err(not_supported(from, to)),
        },
    };
    float_value(float, to).ok_or_else(|| match to {
        SqlType::Real if float.is_finite() => {
            SqlError::new(232, format!("Arithmetic overflow error for type real, value = {float:.6}."))
        }
        _ => overflow(from.message_name(), to),
    })
}

/// A finite number as `real` or `float`.
pub(super) fn float_value(float: f64, to: SqlType) -> Option<Value> {
    if to == SqlType::Real {
        let real = float as f32;
        return real.is_finite().then_some(Value::Real(real));
    }
    float.is_finite().then_some(Value::Float(float))
}

fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(' ');
    if text.is_empty() {
        return Some(0.0);
    }
    // Rust would also read "inf" and "nan".
    let only_number_characters =
        text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    if only_number_characters { text.parse().ok() } else { None }
}

// ------------------------------------------------------------------------------------------------------- text

/// The length in UTF-16 units.
pub(super) fn utf16_length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

/// Splits a text after a number of UTF-16 units; past its end, the second part is empty.
///
/// # Errors
/// A refusal if the split lies within a surrogate pair.
pub(super) fn split_units(text: &str, units: usize) -> SqlResult<(&str, &str)> {
    if text.is_ascii() {
        return Ok(text.split_at(units.min(text.len())));
    }
    let mut seen = 0;
    for (at, character) in text.char_indices() {
        if seen == units {
            return Ok(text.split_at(at));
        }
        seen += character.len_utf16();
        if seen > units {
            return Err(SqlError::not_supported("text that is cut within a surrogate pair"));
        }
    }
    Ok((text, ""))
}

/// The text of a value, before it is cut to the length of `to`; for `char` and `varchar`, in their code page.
fn to_text(value: &Value, from: SqlType, to: SqlType, style: Option<i32>) -> SqlResult<Arc<str>> {
    let text = match value {
        Value::String(text) => Arc::clone(text),
        Value::Bit(v) => Arc::from(if *v { "1" } else { "0" }),
        Value::TinyInt(_) | Value::SmallInt(_) | Value::Int(_) | Value::BigInt(_) => {
            Arc::from(value.as_i64().unwrap_or(0).to_string())
        }
        Value::Decimal(v) => Arc::from(v.to_string()),
        Value::Real(v) => Arc::from(format_float(f64::from(*v), style)?),
        Value::Float(v) => Arc::from(format_float(*v, style)?),
        Value::Bytes(bytes) => Arc::from(bytes_to_text(bytes, to, style)?),
        Value::Date(day) => Arc::from(datetime_text::format(from, *day, 0, 0, style)?),
        Value::Time(ticks) => Arc::from(datetime_text::format(from, DAY_1900, *ticks, 0, style)?),
        Value::DateTime(day, ticks) => Arc::from(datetime_text::format(from, *day, *ticks, 0, style)?),
        Value::DateTimeOffset(day, ticks, offset) => {
            let (day, ticks) = local_time(*day, *ticks, *offset)?;
            Arc::from(datetime_text::format(from, day, ticks, *offset, style)?)
        }
        Value::Uuid(id) => Arc::from(&*id.hyphenated().encode_upper(&mut Uuid::encode_buffer())),
        Value::Null => return Err(not_supported(from, to)),
    };
    if to.is_unicode() {
        return Ok(text);
    }
    Ok(codepage::to_varchar(&text).map_or(text, Arc::from))
}

/// Cuts or fills up a text to the declared length.
fn fit_text(text: Arc<str>, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let Some(limit) = to.length().and_then(Length::limit) else {
        return Ok(Value::String(text));
    };
    let length = utf16_length(&text);
    if length > limit {
        // "Truncating and rounding results": numbers are not cut.
        match group(from) {
            Group::Integer if from != SqlType::BigInt && !to.is_unicode() => {
                let star = pad_text("*", 1, to);
                return Ok(Value::String(star));
            }
            Group::Integer | Group::Decimal | Group::Float => return Err(text_overflow(from, to)),
            Group::Uuid => {
                let name = to.name();
                let message = format!("Insufficient result space to convert uniqueidentifier value to {name}.");
                return Err(SqlError::new(8170, message).state(2));
            }
            _ => {}
        }
        let (kept, _) = split_units(&text, limit)?;
        return Ok(Value::String(Arc::from(kept)));
    }
    Ok(Value::String(match to {
        SqlType::Char(_) | SqlType::NChar(_) if length < limit => pad_text(&text, length, to),
        _ => text,
    }))
}

fn pad_text(text: &str, length: usize, to: SqlType) -> Arc<str> {
    match to {
        SqlType::Char(n) | SqlType::NChar(n) => Arc::from(format!("{text}{}", " ".repeat(usize::from(n) - length))),
        _ => Arc::from(text),
    }
}

/// "float and real styles": 0 shows at most 6 digits, 1 shows 8, 2 shows 16 and 3 shows 17, always with an exponent.
fn format_float(value: f64, style: Option<i32>) -> SqlResult<String> {
    match style.unwrap_or(0) {
        0 => Ok(format_general(value)),
        1 => Ok(three_digit_exponent(&format!("{value:.7e}"), false)),
        2 => Ok(three_digit_exponent(&format!("{value:.15e}"), false)),
        3 => Ok(three_digit_exponent(&format!("{value:.16e}"), false)),
        other => Err(SqlError::not_supported(format!("style {other} for float"))),
    }
}

fn format_general(value: f64) -> String {
    const DIGITS: i32 = 6;
    if value == 0.0 {
        return "0".to_string();
    }
    let scientific = format!("{value:.5e}");
    let exponent: i32 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    if !(-4..DIGITS).contains(&exponent) {
        return three_digit_exponent(&scientific, true);
    }
    let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
    let fixed = format!("{value:.decimals$}");
    if fixed.contains('.') { fixed.trim_end_matches('0').trim_end_matches('.').to_string() } else { fixed }
}

fn three_digit_exponent(scientific: &str, trim: bool) -> String {
    let (significand, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let significand = if trim && significand.contains('.') {
        significand.trim_end_matches('0').trim_end_matches('.')
    } else {
        significand
    };
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{significand}e{sign}{digits:0>3}")
}

fn bytes_to_text(bytes: &[u8], to: SqlType, style: Option<i32>) -> SqlResult<String> {
    match style.unwrap_or(0) {
        1 => return Ok(hex(bytes)),
        2 => return Ok(hex(bytes)[2..].to_string()),
        0 => {}
        other => return Err(invalid_binary_style(other)),
    }
    if !to.is_unicode() {
        return Ok(codepage::decode(bytes));
    }
    // An odd last byte is the lower half of a unit: 0x41 becomes N'A'.
    let units: Vec<u16> =
        bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])).collect();
    String::from_utf16(&units)
        .map_err(|_| SqlError::not_supported("binary data with half a surrogate pair as nvarchar"))
}

/// `0x` and upper-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        text += &format!("{byte:02X}");
    }
    text
}

// ------------------------------------------------------------------------------------------------------ bytes

/// The bytes of a value, before they are cut to the length of `to`.
fn to_bytes(value: &Value, from: SqlType, to: SqlType, style: Option<i32>) -> SqlResult<Arc<[u8]>> {
    let bytes: Arc<[u8]> = match value {
        Value::Bytes(bytes) => Arc::clone(bytes),
        Value::String(text) => Arc::from(text_to_bytes(text, from, to, style)?),
        Value::Bit(v) => Arc::from([u8::from(*v)]),
        Value::TinyInt(v) => Arc::from([*v]),
        Value::SmallInt(v) => Arc::from(v.to_be_bytes()),
        Value::Int(v) => Arc::from(v.to_be_bytes()),
        Value::BigInt(v) => Arc::from(v.to_be_bytes()),
        Value::Uuid(id) => Arc::from(id.to_bytes_le()),
        // What the server stores of the other types is not promised to stay the same between its versions.
        _ => return Err(not_supported(from, to)),
    };
    let is_short = to.max_bytes().is_some_and(|limit| limit < bytes.len());
    if is_short && matches!(value, Value::Uuid(_)) {
        return Err(not_supported(from, to));
    }
    Ok(bytes)
}

fn text_to_bytes(text: &str, from: SqlType, to: SqlType, style: Option<i32>) -> SqlResult<Vec<u8>> {
    let digits = match style.unwrap_or(0) {
        0 if from.is_unicode() => {
            let mut bytes = Vec::with_capacity(2 * text.len());
            for unit in text.encode_utf16() {
                bytes.extend_from_slice(&unit.to_le_bytes());
            }
            return Ok(bytes);
        }
        0 => return Ok(codepage::encode(text)),
        1 => text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")),
        2 => Some(text),
        other => return Err(invalid_binary_style(other)),
    };
    digits.and_then(bytes_from_hex).ok_or_else(|| error_converting(from, to))
}

/// The bytes of an even number of hexadecimal digits.
pub(super) fn bytes_from_hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

/// Numbers keep their last bytes and are filled up in front; everything else keeps its first and is filled up
/// behind.
fn fit_bytes(bytes: Arc<[u8]>, from: SqlType, to: SqlType) -> Value {
    let (limit, is_fixed) = match to {
        SqlType::Binary(n) => (usize::from(n), true),
        SqlType::RowVersion => (8, true),
        _ => (to.length().and_then(Length::limit).unwrap_or(usize::MAX), false),
    };
    let is_number = group(from) == Group::Integer;
    if bytes.len() > limit {
        let kept = if is_number { &bytes[bytes.len() - limit..] } else { &bytes[..limit] };
        return Value::Bytes(Arc::from(kept));
    }
    if !is_fixed || bytes.len() == limit {
        return Value::Bytes(bytes);
    }
    let padding = vec![0; limit - bytes.len()];
    let padded = if is_number { [&padding, &*bytes].concat() } else { [&*bytes, &padding].concat() };
    Value::Bytes(Arc::from(padded))
}

// --------------------------------------------------------------------------------------------- dates and times

fn local_time(day: Day, ticks: Ticks, offset: i16) -> SqlResult<(Day, Ticks)> {
    shift_minutes(day, ticks, offset).ok_or_else(|| overflow("datetimeoffset", SqlType::DateTime2(7)))
}

fn to_date_or_time(value: &Value, from: SqlType, to: SqlType, style: Option<i32>) -> SqlResult<Value> {
    let (day, ticks, offset) = match value {
        Value::String(text) => {
            let read = read_date_or_time(text, from, to, style)?;
            (read.day, read.ticks, read.offset.unwrap_or(0))
        }
        Value::Date(day) => (*day, 0, 0),
        Value::Time(ticks) => (DAY_1900, *ticks, 0),
        Value::DateTime(day, ticks) => (*day, *ticks, 0),
        Value::DateTimeOffset(day, ticks, offset) => {
            let (day, ticks) = local_time(*day, *ticks, *offset)?;
            (day, ticks, *offset)
        }
        _ if to == SqlType::DateTime => return number_to_datetime(value, from),
        _ => return Err(not_supported(from, to)),
    };
    let too_large = || overflow(from.message_name(), to);
    match to {
        SqlType::Date => Ok(Value::Date(day)),
        // Rounding up at midnight begins the day anew.
        SqlType::Time(scale) => Ok(Value::Time(round_ticks(ticks, scale) % TICKS_PER_DAY)),
        SqlType::DateTime2(scale) => {
            let (day, ticks) = round_instant(day, ticks, scale).ok_or_else(too_large)?;
            Ok(Value::DateTime(day, ticks))
        }
        SqlType::DateTimeOffset(scale) => {
            let (day, ticks) = round_instant(day, ticks, scale).ok_or_else(too_large)?;
            let (day, ticks) = shift_minutes(day, ticks, -offset).ok_or_else(too_large)?;
            Ok(Value::DateTimeOffset(day, ticks, offset))
        }
        _ => {
            // "The fractional precision is truncated" to milliseconds before it is rounded to 1/300 s. A text has no
            // more than milliseconds, and a `datetime` is already rounded.
            let ticks =
                if from == SqlType::DateTime { ticks } else { ticks / TICKS_PER_MILLISECOND * TICKS_PER_MILLISECOND };
            let (day, ticks) = round_to_datetime(day, ticks).ok_or_else(|| out_of_range(from, to))?;
            Ok(Value::DateTime(day, ticks))
        }
    }
}

fn read_date_or_time(text: &str, from: SqlType, to: SqlType, style: Option<i32>) -> SqlResult<DateTimeText> {
    let order = match style.unwrap_or(0) {
        0 | 1 | 100 | 101 | 110 | 108 | 109 | 114 => DateOrder::MonthDayYear,
        3 | 4 | 5 | 103 | 104 | 105 => DateOrder::DayMonthYear,
        20 | 21 | 23 | 25 | 102 | 111 | 112 | 120 | 121 | 126 | 127 => DateOrder::YearMonthDay,
        other => return Err(SqlError::not_supported(format!("style {other} for reading dates"))),
    };
    let unreadable =
        || SqlError::new(241, "Conversion failed when converting date and/or time from character string.".to_string());
    let read = match datetime_text::parse(text, order) {
        Ok(read) => read,
        Err(DateTimeTextError::OutOfRange) if to == SqlType::DateTime => return Err(out_of_range(from, to)),
        Err(_) => return Err(unreadable()),
    };
    let has_too_much = to == SqlType::DateTime
        && (read.fraction_digits > 3 || (read.offset.is_some() && !(style == Some(127) && read.offset == Some(0))));
    if has_too_much { Err(unreadable()) } else { Ok(read) }
}

/// A number is a number of days since 1900-01-01; its fraction is the time of day.
fn number_to_datetime(value: &Value, from: SqlType) -> SqlResult<Value> {
    let to = SqlType::DateTime;
    let (days, fraction) = match value {
        Value::Decimal(v) => {
            let (whole, unit) = (v.trunc(), super::decimal::power_of_ten(v.scale));
            let fraction = (v.mantissa % unit) as f64 / unit as f64;
            (whole as f64, fraction)
        }
        Value::Real(v) => (f64::from(*v).trunc(), f64::from(*v).fract()),
        Value::Float(v) => (v.trunc(), v.fract()),
        _ => match value.as_i64() {
            Some(days) => (days as f64, 0.0),
            None => return Err(not_supported(from, to)),
        },
    };
    const PER_DAY: i64 = 300 * 86_400;
    let total = (days as i64).checked_mul(PER_DAY).map(|whole| whole + (fraction * PER_DAY as f64).round() as i64);
    let since_year_one = total.and_then(|total| total.checked_add(i64::from(DAY_1900) * PER_DAY));
    let in_range = since_year_one.filter(|&total| {
        let day = total.div_euclid(PER_DAY);
        (i64::from(datetime::DAY_1753)..=i64::from(datetime::LAST_DAY)).contains(&day)
    });
    let Some(total) = in_range else {
        return Err(overflow("expression", to));
    };
    let day = Day::try_from(total / PER_DAY).map_err(|_| overflow("expression", to))?;
    let ticks = ticks_from_three_hundredths(total.unsigned_abs() % PER_DAY.unsigned_abs());
    Ok(Value::DateTime(day, ticks))
}

// ------------------------------------------------------------------------------------------------------- uuid

fn to_uuid(value: &Value) -> SqlResult<Value> {
    let id = match value {
        Value::Uuid(id) => Some(*id),
        Value::String(text) => parse_uuid(text),
        Value::Bytes(bytes) => {
            let mut stored = [0; 16];
            let length = bytes.len().min(16);
            stored[..length].copy_from_slice(&bytes[..length]);
            Some(Uuid::from_bytes_le(stored))
        }
        _ => None,
    };
    id.map(Value::Uuid).ok_or_else(|| {
        SqlError::new(8169, "Conversion failed when converting from a character string to uniqueidentifier.").state(2)
    })
}

/// 36 characters, with or without braces; what follows them is ignored
/// (docs/t-sql/data-types/uniqueidentifier-transact-sql.md, "Converting uniqueidentifier data").
fn parse_uuid(text: &str) -> Option<Uuid> {
    const LENGTH: usize = 36;
    let inner = match text.strip_prefix('{') {
        Some(rest) if rest.as_bytes().get(LENGTH) == Some(&b'}') => rest,
        Some(_) => return None,
        None => text,
    };
    // `parse_str` also reads forms without hyphens, but none of them has 36 characters.
    Uuid::parse_str(inner.get(..LENGTH)?).ok()
}

// ----------------------------------------------------------------------------------------------------- errors

/// 8115.
pub(super) fn overflow(from_name: &str, to: SqlType) -> SqlError {
    let to = to.message_name();
    SqlError::new(8115, format!("Arithmetic overflow error converting {from_name} to data type {to}.")).state(2)
}

fn text_overflow(from: SqlType, to: SqlType) -> SqlError {
    let from_name = if group(from) == Group::Integer { "expression" } else { from.message_name() };
    overflow(from_name, to)
}

/// 8114.
fn error_converting(from: SqlType, to: SqlType) -> SqlError {
    let (from, to) = (from.message_name(), to.message_name());
    SqlError::new(8114, format!("Error converting data type {from} to {to}.")).state(5)
}

/// 245, or 8114 for `bigint`.
fn not_convertible(from: SqlType, text: &str, to: SqlType) -> SqlError {
    if to == SqlType::BigInt {
        return error_converting(from, to);
    }
    let (from, to) = (from.name(), to.name());
    SqlError::new(245, format!("Conversion failed when converting the {from} value '{text}' to data type {to}."))
}

/// 248 for `int`, 244 for the smaller ones, 8115 for `bigint`.
fn text_integer_overflow(from: SqlType, text: &str, to: SqlType) -> SqlError {
    let from = from.name();
    let small = |name: &str| {
        SqlError::new(
            244,
            format!(
                "The conversion of the {from} value '{text}' overflowed an {name} column. Use a larger integer column."
            ),
        )
    };
    match to {
        SqlType::TinyInt => small("INT1"),
        SqlType::SmallInt => small("INT2").state(2),
        SqlType::Int => {
            SqlError::new(248, format!("The conversion of the {from} value '{text}' overflowed an int column."))
        }
        _ => overflow("expression", to),
    }
}

/// 242.
fn out_of_range(from: SqlType, to: SqlType) -> SqlError {
    let (from, to) = (from.name(), to.name());
    SqlError::new(
        242,
        format!("The conversion of a {from} data type to a {to} data type resulted in an out-of-range value."),
    )
    .state(3)
}

fn invalid_binary_style(style: i32) -> SqlError {
    SqlError::not_supported(format!("style {style} between binary and character types"))
}

fn not_supported(from: SqlType, to: SqlType) -> SqlError {
    SqlError::not_supported(format!("conversion of a value of type {from} to {to}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::literal;

    const VARCHAR_MAX: SqlType = SqlType::VarChar(Length::Max);

    fn varchar(n: u16) -> SqlType {
        SqlType::VarChar(Length::Limit(n))
    }

    fn nvarchar(n: u16) -> SqlType {
        SqlType::NVarChar(Length::Limit(n))
    }

    fn decimal(precision: u8, scale: u8) -> SqlType {
        SqlType::Decimal { precision, scale }
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
        let cases = [
            ("", SqlType::Int, "0"),
            (" -12 ", SqlType::Int, "-12"),
            ("+5", SqlType::BigInt, "5"),
            ("true", SqlType::Bit, "1"),
            ("0", SqlType::Bit, "0"),
            ("17", SqlType::Bit, "1"),
            ("1.555", decimal(5, 2), "1.56"),
            ("1e3", SqlType::Float, "1000"),
        ];
        for (value, to, expected) in cases {
            assert_eq!(cast(value, to).as_deref(), Ok(expected), "{value:?} to {to}");
        }
    }

    #[test]
    fn texts_that_are_no_numbers_fail_as_in_sql_server() {
        let cases = [
            ("abc", SqlType::Int, 245, "Conversion failed when converting the varchar value 'abc' to data type int."),
            ("1.5", SqlType::Int, 245, "Conversion failed when converting the varchar value '1.5' to data type int."),
            (
                "9999999999",
                SqlType::Int,
                248,
                "The conversion of the varchar value '9999999999' overflowed an int column.",
            ),
            (
                "256",
                SqlType::TinyInt,
                244,
                "The conversion of the varchar value '256' overflowed an INT1 column. Use a larger integer column.",
            ),
            ("abc", SqlType::BigInt, 8114, "Error converting data type varchar to bigint."),
            ("", decimal(5, 2), 8114, "Error converting data type varchar to numeric."),
            ("1234.5", decimal(5, 2), 8115, "Arithmetic overflow error converting varchar to data type numeric."),
            ("nan", SqlType::Float, 8114, "Error converting data type varchar to float."),
            ("yes", SqlType::Bit, 245, "Conversion failed when converting the varchar value 'yes' to data type bit."),
        ];
        for (value, to, number, message) in cases {
            assert_eq!(cast(value, to), Err((number, message.to_string())), "{value:?} to {to}");
        }
    }

    // "Truncating and rounding results" in docs/t-sql/functions/cast-and-convert-transact-sql.md
    #[test]
    fn numbers_are_cut_or_rounded_by_type() {
        let decimal_value = |text: &str| Value::Decimal(Box::new(Decimal::parse(text, 6, 4).unwrap()));
        let from = decimal(6, 4);
        for (value, to, expected) in [
            ("10.6496", SqlType::Int, "10"),
            ("-10.6496", SqlType::Int, "-10"),
            ("10.6496", decimal(18, 0), "11"),
            ("-10.6496", decimal(18, 0), "-11"),
        ] {
            let converted = convert(decimal_value(value), from, to, None, true).unwrap();
            assert_eq!(show(converted, to).unwrap(), expected);
        }
        let noon = Value::DateTime(DAY_1900 + 1, TICKS_PER_DAY / 2);
        assert_eq!(convert(noon, SqlType::DateTime, SqlType::Int, None, true), Ok(Value::Int(2)));
    }

    #[test]
    fn number_overflow_names_the_types() {
        let cases = [
            (Value::Int(40_000), SqlType::Int, SqlType::SmallInt, 220),
            (Value::BigInt(1 << 40), SqlType::BigInt, SqlType::Int, 8115),
            (Value::Int(1000), SqlType::Int, decimal(3, 0), 8115),
            (Value::Float(3e9), SqlType::Float, SqlType::Int, 232),
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
        assert_eq!(convert(Value::Int(123), SqlType::Int, varchar(2), None, true), Ok(text("*")));
        assert_eq!(convert(Value::Int(123), SqlType::Int, nvarchar(2), None, true).unwrap_err().number, 8115);
        assert_eq!(convert(text("a😀"), nvarchar(3), nvarchar(2), None, true).unwrap_err().number, 59_000);
    }

    #[test]
    fn a_column_takes_no_text_that_is_too_long() {
        let error = assign(text("abcdef"), varchar(6), varchar(3)).unwrap_err().for_column("db.dbo.t", "c");
        assert_eq!(error.number, 2628);
        assert_eq!(
            error.message,
            "String or binary data would be truncated in table 'db.dbo.t', column 'c'. Truncated value: 'abc'."
        );
        assert_eq!(assign(text("abc   "), varchar(6), varchar(3)), Ok(text("abc")));
        let bytes = Value::Bytes(Arc::from([1, 2, 3]));
        let two = SqlType::VarBinary(Length::Limit(2));
        let three = SqlType::VarBinary(Length::Limit(3));
        assert_eq!(assign(bytes.clone(), three, two), Err(AssignError::Truncation { kept: "0x0102".into() }));
        assert_eq!(assign(bytes.clone(), three, SqlType::VarBinary(Length::Max)), Ok(bytes));
    }

    #[test]
    fn conversions_that_do_not_exist() {
        let cases = [
            (varchar(5), SqlType::VarBinary(Length::Max), false, 257),
            (SqlType::DateTime, SqlType::Int, false, 257),
            (SqlType::UniqueIdentifier, SqlType::Int, false, 206),
            (SqlType::Date, SqlType::Int, true, 529),
            (SqlType::RowVersion, nvarchar(10), true, 529),
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
        assert_eq!(convert(text("0x4E616D65"), varchar(10), binary, Some(1), true), Ok(name.clone()));
        assert_eq!(convert(text("4E616D65"), varchar(8), binary, Some(2), true), Ok(name));
        assert_eq!(convert(text("4E6"), varchar(3), binary, Some(2), true).unwrap_err().number, 8114);
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
            ("2007-05-08 12:35:29.1234567 +12:15", SqlType::Time(7), "12:35:29.1234567"),
            ("2007-05-08 12:35:29.1234567 +12:15", SqlType::Date, "2007-05-08"),
            ("2007-05-08 12:35:29.123", SqlType::DateTime, "May  8 2007 12:35PM"),
            ("2007-05-08 12:35:29.1234567 +12:15", SqlType::DateTime2(7), "2007-05-08 12:35:29.1234567"),
            ("2007-05-08 12:35:29.1234567 +12:15", SqlType::DateTimeOffset(7), "2007-05-08 12:35:29.1234567 +12:15"),
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
        let value = convert(Value::Float(1.5), SqlType::Float, SqlType::DateTime, None, false).unwrap();
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
        assert_eq!(convert(value.clone(), from, varchar(10), None, true).unwrap_err().number, 8170);
        let bytes = convert(value.clone(), from, SqlType::Binary(16), None, false).unwrap();
        assert_eq!(bytes.as_bytes().map(|b| b[..4].to_vec()), Some(vec![0x25, 0x47, 0x98, 0x0E]));
        assert_eq!(convert(bytes, SqlType::Binary(16), from, None, false), Ok(value));
    }

    #[test]
    fn floats_print_with_six_digits() {
        let cases = [
            (0.1, "0.1"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (123_456_789.0, "1.23457e+008"),
            (1e-5, "1e-005"),
            (999_999.5, "1e+006"),
            (0.0, "0"),
        ];
        for (value, expected) in cases {
            assert_eq!(show(Value::Float(value), SqlType::Float).unwrap(), expected);
        }
        // "Always 17 digits. Use for lossless conversion."
        let seventeen = convert(Value::Float(0.1), SqlType::Float, varchar(30), Some(3), true).unwrap();
        assert_eq!(seventeen, text("1.0000000000000001e-001"));
        let sixteen = convert(Value::Float(0.1), SqlType::Float, varchar(30), Some(2), true).unwrap();
        assert_eq!(sixteen, text("1.000000000000000e-001"));
    }
}
