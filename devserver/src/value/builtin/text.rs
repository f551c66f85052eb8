//! Functions that make text of text. Positions and lengths count UTF-16 units, as without supplementary-character
//! collations.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::{Between, Exactly};
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::builtin::result::{
    invalid_argument, longest_text, text_value, variable_text, variable_text_of_first,
};
use crate::value::codepage;
use crate::value::convert::cast::convert;
use crate::value::convert::text::{split_units, utf16_length};
use crate::value::types::{Length, MAX_BYTE_LENGTH, MAX_UNIT_LENGTH, SqlType};
use crate::value::units::{RESERVED, from_units, joined};
use crate::value::values::Value;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("LEN", Exactly(1), length_type, len),
    Builtin::new("DATALENGTH", Exactly(1), length_type, data_length),
    Builtin::new("LEFT", Exactly(2), cut_type, left),
    Builtin::new("SUBSTRING", Exactly(3), substring_type, substring),
    Builtin::new("LTRIM", Exactly(1), variable_text_of_first, ltrim),
    Builtin::new("RTRIM", Exactly(1), variable_text_of_first, rtrim),
    Builtin::new("REPLICATE", Exactly(2), longest_of_first, replicate),
    Builtin::new("STUFF", Exactly(4), stuff_type, stuff).passing_nulls(),
    Builtin::new("CONCAT", Between(2, 254), concat_type, concat).passing_nulls(),
    Builtin::new("NCHAR", Exactly(1), |_| Ok(SqlType::NChar(1)), nchar_of_code),
    Builtin::new("QUOTENAME", Between(1, 2), |_| Ok(SqlType::NVarChar(Length::Limit(258))), quotename),
    Builtin::new("STRING_ESCAPE", Exactly(2), |_| Ok(SqlType::NVarChar(Length::Max)), string_escape),
];

/// `bigint` for the `(max)` types, whose values can be longer than an `int`.
fn length_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    Ok(if arguments[0].ty.is_max() { SqlType::BigInt } else { SqlType::Int })
}

fn length_value(length: usize, ty: SqlType) -> SqlResult<Value> {
    let length = i64::try_from(length).map_err(|_| SqlError::not_supported("a text of more than 2^63 bytes"))?;
    if ty.is_max() {
        return Ok(Value::BigInt(length));
    }
    convert(Value::BigInt(length), SqlType::BigInt, SqlType::Int, None, false)
}

fn len(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let text = arguments.text(0)?;
    length_value(utf16_length(text.trim_end_matches(' ')), arguments.types[0])
}

fn data_length(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let ty = arguments.types[0];
    let bytes = match &arguments.values[0] {
        Value::String(text) if ty.is_unicode() => 2 * utf16_length(text),
        Value::String(text) => codepage::encode(text).len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => ty.max_bytes().unwrap_or(0),
    };
    length_value(bytes, ty)
}

/// LEFT and RIGHT: not longer than a constant second argument.
fn cut_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    Ok(shortened(variable_text(arguments[0].ty), arguments[1].constant))
}

fn shortened(ty: SqlType, constant: Option<&Value>) -> SqlType {
    let wanted = constant.and_then(Value::as_i64).and_then(|length| u16::try_from(length).ok());
    let Some(wanted) = wanted else { return ty };
    let shorter = |length: Length, cap: u16| match length {
        Length::Limit(limit) => Length::Limit(limit.min(wanted.max(1))),
        Length::Max if wanted <= cap => Length::Limit(wanted.max(1)),
        Length::Max => Length::Max,
    };
    match ty {
        SqlType::VarChar(length) => SqlType::VarChar(shorter(length, MAX_BYTE_LENGTH)),
        SqlType::NVarChar(length) => SqlType::NVarChar(shorter(length, MAX_UNIT_LENGTH)),
        SqlType::VarBinary(length) => SqlType::VarBinary(shorter(length, MAX_BYTE_LENGTH)),
        _ => ty,
    }
}

fn left(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let text = arguments.text(0)?;
    let length = usize::try_from(arguments.integer(1)?).map_err(|_| negative_length())?;
    Ok(Value::String(Arc::from(split_units(&text, length)?.0)))
}

fn negative_length() -> SqlError {
    SqlError::not_supported("a negative length in LEFT and SUBSTRING")
}

fn substring_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    let ty = arguments[0].ty;
    let whole = if ty.is_binary() {
        SqlType::VarBinary(ty.text_length())
    } else if ty.is_character() {
        variable_text(ty)
    } else {
        return Err(invalid_argument(ty, 1, "substring"));
    };
    Ok(shortened(whole, arguments[2].constant))
}

fn substring(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let (start, length) = (arguments.integer(1)?, arguments.integer(2)?);
    if length < 0 {
        return Err(negative_length());
    }
    // A start before the first character uses up length.
    let end = usize::try_from(start.saturating_add(length).saturating_sub(1).max(0)).unwrap_or(usize::MAX);
    let from = usize::try_from(start.saturating_sub(1).max(0)).unwrap_or(usize::MAX);
    if let Value::Bytes(bytes) = &arguments.values[0] {
        let (from, end) = (from.min(bytes.len()), end.min(bytes.len()));
        return Ok(Value::Bytes(Arc::from(&bytes[from..end.max(from)])));
    }
    let text = arguments.text(0)?;
    let (_, rest) = split_units(&text, from)?;
    let (kept, _) = split_units(&rest, end.saturating_sub(from))?;
    Ok(Value::String(Arc::from(kept)))
}

fn ltrim(arguments: &Arguments<'_>) -> SqlResult<Value> {
    Ok(Value::String(Arc::from(arguments.text(0)?.trim_start_matches(' '))))
}

fn rtrim(arguments: &Arguments<'_>) -> SqlResult<Value> {
    Ok(Value::String(Arc::from(arguments.text(0)?.trim_end_matches(' '))))
}

/// Up to 8,000 bytes, unless the first argument is a `(max)` type.
fn longest_of_first(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    let ty = arguments[0].ty;
    Ok(longest_text(ty.is_unicode(), ty.is_max()))
}

fn replicate(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let (text, ty) = (arguments.text(0)?, arguments.types[0]);
    let Ok(times) = usize::try_from(arguments.integer(1)?) else {
        return Ok(Value::Null);
    };
    let result = longest_text(ty.is_unicode(), ty.is_max());
    // A type with a limit cuts the result; a (max) type is limited to 2 GB.
    let limit = result.length().and_then(Length::limit);
    let useful = limit.map_or(times, |limit| times.min(limit));
    if text.len().saturating_mul(useful) > MAX_TEXT_BYTES {
        return Err(SqlError::not_supported("a text of more than 2 GB"));
    }
    text_value(&text.repeat(useful), result)
}

/// The largest value of a `(max)` type.
const MAX_TEXT_BYTES: usize = (1 << 31) - 1;

fn stuff_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    let (ty, inserted) = (arguments[0].ty, arguments[3].ty);
    if ty.is_binary() || inserted.is_binary() {
        return Err(SqlError::not_supported("STUFF of binary data"));
    }
    let unicode = ty.is_unicode() || inserted.is_unicode();
    Ok(longest_text(unicode, ty.is_max() || inserted.is_max()))
}

fn stuff(arguments: &Arguments<'_>) -> SqlResult<Value> {
    if arguments.values[..3].iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    let text = arguments.text(0)?;
    // "Providing NULL removes characters without inserting anything."
    let inserted = arguments.text_or_null(3)?.unwrap_or_default();
    let (Ok(start), Ok(length)) = (usize::try_from(arguments.integer(1)?), usize::try_from(arguments.integer(2)?))
    else {
        return Ok(Value::Null);
    };
    if start == 0 || start > utf16_length(&text) {
        return Ok(Value::Null);
    }
    let (before, rest) = split_units(&text, start - 1)?;
    let (_, after) = split_units(&rest, length)?;
    let whole = joined([&*before, &*inserted, &*after].concat())?;
    let (ty, inserted_type) = (arguments.types[0], arguments.types[3]);
    let result = longest_text(ty.is_unicode() || inserted_type.is_unicode(), ty.is_max() || inserted_type.is_max());
    if result.length().and_then(Length::limit).is_some_and(|limit| utf16_length(&whole) > limit) {
        return Err(SqlError::not_supported("a result of STUFF that is longer than its type"));
    }
    Ok(Value::String(Arc::from(whole)))
}

/// "Return types" in docs/t-sql/functions/concat-transact-sql.md.
fn concat_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    Ok(joined_type(arguments.iter().map(|argument| text_length_of(argument)), is_any_unicode(arguments)))
}

/// A NULL constant counts as an empty text.
fn text_length_of(argument: &Argument<'_>) -> Length {
    match argument.constant {
        Some(Value::Null) => Length::Limit(1),
        _ => argument.ty.text_length(),
    }
}

fn is_any_unicode(arguments: &[Argument<'_>]) -> bool {
    arguments.iter().any(|argument| argument.ty.is_unicode())
}

fn joined_type(lengths: impl Iterator<Item = Length>, unicode: bool) -> SqlType {
    let cap = if unicode { MAX_UNIT_LENGTH } else { MAX_BYTE_LENGTH };
    let length = lengths.fold(Length::Limit(0), |sum, length| sum.plus(length, cap));
    if unicode { SqlType::NVarChar(length) } else { SqlType::VarChar(length) }
}

fn concat(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let mut whole = String::new();
    for at in 0..arguments.count() {
        if let Some(text) = arguments.text_or_null(at)? {
            whole.push_str(&text);
        }
    }
    text_value(&joined(whole)?, evaluated_concat_type(arguments))
}

/// The limit a concatenation is cut to: only 8,000 bytes can cut it, so that exact lengths do not matter.
fn evaluated_concat_type(arguments: &Arguments<'_>) -> SqlType {
    let unicode = arguments.types.iter().any(|ty| ty.is_unicode());
    longest_text(unicode, arguments.types.iter().any(|ty| ty.is_max()))
}

fn nchar_of_code(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let Ok(unit) = u16::try_from(arguments.integer(0)?) else {
        return Ok(Value::Null);
    };
    let text = from_units([unit]).ok_or_else(|| SqlError::not_supported(RESERVED))?;
    Ok(Value::String(Arc::from(text)))
}

fn quotename(arguments: &Arguments<'_>) -> SqlResult<Value> {
    const MAX_NAME: usize = 128;
    let name = arguments.text(0)?;
    if utf16_length(&name) > MAX_NAME {
        return Ok(Value::Null);
    }
    let quote = if arguments.count() > 1 { arguments.text(1)? } else { Arc::from("[") };
    let (open, close) = match quote.chars().next() {
        Some('[' | ']') => ('[', ']'),
        Some(same @ ('\'' | '"')) => (same, same),
        _ => return Err(SqlError::not_supported(format!("QUOTENAME with '{quote}'"))),
    };
    let doubled = name.replace(close, &format!("{close}{close}"));
    Ok(Value::String(Arc::from(format!("{open}{doubled}{close}"))))
}

fn string_escape(arguments: &Arguments<'_>) -> SqlResult<Value> {
    if !arguments.text(1)?.eq_ignore_ascii_case("json") {
        return Err(SqlError::not_supported("STRING_ESCAPE by other rules than 'json'"));
    }
    let mut escaped = String::new();
    for character in arguments.text(0)?.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '/' => escaped.push_str("\\/"),
            '\u{8}' => escaped.push_str("\\b"),
            '\u{C}' => escaped.push_str("\\f"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            control @ '\0'..='\u{1F}' => escaped.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => escaped.push(other),
        }
    }
    Ok(Value::String(Arc::from(escaped)))
}
