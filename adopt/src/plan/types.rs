//! The conversion of values by a column's type.

use crate::catalog::{Column, Family, Table};
use crate::expression::{Known, Value};
use crate::mapping::Set;

/// What is known about a column's value after an assignment ("Data type conversion", "decimal and numeric", "bit"). A
/// whole number is truncated, and a bit is 1 for everything except 0. A rounded value, or a value with several
/// spellings, is unknown (`Something`).
pub(super) fn stored(column: &Column, value: &Value) -> Option<Known> {
    let known = Known::of(value)?;
    // Numbers are compared exactly up to this value.
    let is_exact = |number: f64| number.abs() < 9e15;
    let power = |digits: i32| 10f64.powi(digits);
    Some(match (column.family(), known) {
        (_, Known::Null) => Known::Null,
        (Family::Bit, Known::Number(number)) => Known::Number(if number == 0.0 { 0.0 } else { 1.0 }),
        (Family::Integer, Known::Number(number)) if is_exact(number) => Known::Number(number.trunc()),
        (Family::Decimal, Known::Number(number))
            if matches!(column.type_name.as_str(), "decimal" | "numeric")
                && is_exact(number * power(column.scale))
                && (number * power(column.scale)).fract() == 0.0 =>
        {
            Known::Number(number)
        }
        (Family::Text | Family::WideText, Known::Text(text))
            if column.most_characters().is_none_or(|most| text.chars().count() <= most.unsigned_abs() as usize) =>
        {
            Known::Text(text)
        }
        (Family::Time, Known::Text(text)) if text.starts_with("9999-") && column.type_name != "smalldatetime" => {
            Known::EndOfTime
        }
        (Family::Time, Known::Clock) => Known::Clock,
        _ => Known::Something,
    })
}

/// What is known about a column's value after these assignments. Earlier assignments take precedence.
pub(super) fn held<'s>(table: &Table, sets: impl IntoIterator<Item = &'s Set>, name: &str) -> Option<Known> {
    let set = sets.into_iter().find(|set| set.column.it.eq_ignore_ascii_case(name))?;
    stored(table.column(name)?, &set.value)
}

/// Whether each value of one column is valid in the other, except for the length of texts and bytes ("CAST and CONVERT
/// (Transact-SQL)").
pub(super) fn converts(from: &Column, to: &Column) -> bool {
    let days_and_hours = |one: &Column, other: &Column| one.type_name == "date" && other.type_name == "time";
    // The length of the value's text. A value whose text is too long is rejected, or becomes an asterisk.
    let longest = match from.type_name.as_str() {
        "tinyint" => 3,
        "smallint" => 6,
        "int" => 11,
        "bigint" => 20,
        "uniqueidentifier" => 36,
        "money" | "smallmoney" | "decimal" | "numeric" | "float" | "real" => 41,
        _ => 0,
    };
    let is_cut = to.most_characters().is_some_and(|most| most < longest);
    let is_rounded = from.family() == Family::Decimal && matches!(to.family(), Family::Integer | Family::Bit)
        || from.family() == Family::Integer && to.family() == Family::Bit;
    !is_cut
        && !is_rounded
        && !days_and_hours(from, to)
        && !days_and_hours(to, from)
        && families_convert(from.family(), to.family())
}

/// Like [`converts`], for families of types.
pub(super) fn families_convert(from: Family, to: Family) -> bool {
    let is_text = |family: Family| matches!(family, Family::WideText | Family::Text);
    let is_number = |family: Family| matches!(family, Family::Integer | Family::Decimal | Family::Bit);
    from == to && from != Family::Other
        || is_number(from) && is_number(to)
        || is_text(to) && from != Family::Bytes && from != Family::Other
}

/// Whether a text or bytes of one column may be too long for the other. A length of -1 means unlimited.
pub(super) fn is_longer(from: &Column, to: &Column) -> bool {
    let has_length = |column: &Column| matches!(column.family(), Family::WideText | Family::Text | Family::Bytes);
    let bytes_for_each = |column: &Column| if column.family() == Family::WideText { 2 } else { 1 };
    let most = |column: &Column| match column.max_length {
        -1 => i32::MAX,
        length => length / bytes_for_each(column),
    };
    has_length(from) && has_length(to) && most(from) > most(to)
}

pub(super) fn shown_type(column: &Column) -> String {
    if column.type_name.is_empty() { "of a CLR type".to_string() } else { column.sql_type() }
}
