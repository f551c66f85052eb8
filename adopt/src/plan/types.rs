//! What a column makes of a value.

use crate::catalog::{Column, Family, Table};
use crate::expression::{Known, Value};
use crate::mapping::Set;

/// What a column holds to which a value is assigned, as far as that is known ("Data type conversion", "decimal and
/// numeric", "bit"): a whole number is cut off behind the point, a bit is 1 for all but 0, and what is rounded or has
/// several spellings is something.
pub(super) fn stored(column: &Column, value: &Value) -> Option<Known> {
    let known = Known::of(value)?;
    // Numbers as they are compared here are exact up to this.
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

/// What a column of the table holds after these have been set, the first before the others.
pub(super) fn held<'s>(table: &Table, sets: impl IntoIterator<Item = &'s Set>, name: &str) -> Option<Known> {
    let set = sets.into_iter().find(|set| set.column.it.eq_ignore_ascii_case(name))?;
    stored(table.column(name)?, &set.value)
}

/// Whether each value of the one column is one of the other, but for the length of texts and bytes ("CAST and CONVERT
/// (Transact-SQL)").
pub(super) fn converts(from: &Column, to: &Column) -> bool {
    let days_and_hours = |one: &Column, other: &Column| one.type_name == "date" && other.type_name == "time";
    // What does not fit is refused, or becomes an asterisk.
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

/// The same of families.
pub(super) fn families_convert(from: Family, to: Family) -> bool {
    let is_text = |family: Family| matches!(family, Family::WideText | Family::Text);
    let is_number = |family: Family| matches!(family, Family::Integer | Family::Decimal | Family::Bit);
    from == to && from != Family::Other
        || is_number(from) && is_number(to)
        || is_text(to) && from != Family::Bytes && from != Family::Other
}

/// Whether a text or bytes of the one may not fit into the other. (-1: as long as there can be.)
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
