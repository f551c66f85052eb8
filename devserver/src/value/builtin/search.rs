//! Functions that search in text, under the collation of the call.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::{Between, Exactly};
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::builtin::result::{longest_text, text_value};
use crate::value::like::Pattern;
use crate::value::types::{Length, SqlType};
use crate::value::units::{RESERVED, from_units, units};
use crate::value::values::Value;

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("CHARINDEX", Between(2, 3), place_type, char_index),
    Builtin::new("PATINDEX", Exactly(2), place_type, pat_index),
    Builtin::new("REPLACE", Exactly(3), replace_type, replace),
];

/// `bigint` where the text that is searched is of a `(max)` type.
fn place_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    Ok(if arguments[1].ty.is_max() { SqlType::BigInt } else { SqlType::Int })
}

/// A place counted from 0, as the function answers: counted from 1, and 0 for no place.
fn place_value(place: Option<usize>, searched: SqlType) -> SqlResult<Value> {
    let place = place.map_or(0, |at| at + 1);
    let too_long = || SqlError::not_supported("a text of more than 2 GB");
    if searched.is_max() {
        return Ok(Value::BigInt(i64::try_from(place).map_err(|_| too_long())?));
    }
    Ok(Value::Int(i32::try_from(place).map_err(|_| too_long())?))
}

fn char_index(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let collation = arguments.call.collation;
    let wanted: Vec<u16> = collation.folded_units(&arguments.text(0)?).collect();
    let text: Vec<u16> = collation.folded_units(&arguments.text(1)?).collect();
    let start = if arguments.count() > 2 { arguments.integer(2)? } else { 1 };
    let from = usize::try_from(start.saturating_sub(1).max(0)).unwrap_or(usize::MAX).min(text.len());
    let place = find(&text[from..], &wanted).map(|at| from + at);
    place_value(place, arguments.types[1])
}

/// The first place of `wanted`; an empty text is found nowhere.
fn find(text: &[u16], wanted: &[u16]) -> Option<usize> {
    if wanted.is_empty() {
        return None;
    }
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn pat_index(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let unicode = arguments.types.iter().any(|ty| ty.is_unicode());
    let pattern = Pattern::new(&arguments.text(0)?, unicode, arguments.call.collation);
    place_value(pattern.find(&arguments.text(1)?), arguments.types[1])
}

fn replace_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    let unicode = arguments.iter().any(|argument| argument.ty.is_unicode());
    Ok(longest_text(unicode, arguments[0].ty.is_max()))
}

fn replace(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let collation = arguments.call.collation;
    let text = arguments.text(0)?;
    let folded: Vec<u16> = collation.folded_units(&text).collect();
    let wanted: Vec<u16> = collation.folded_units(&arguments.text(1)?).collect();
    let replacement: Vec<u16> = units(&arguments.text(2)?).collect();
    let original: Vec<u16> = units(&text).collect();
    let mut replaced = Vec::with_capacity(original.len());
    let mut at = 0;
    while let Some(next) = find(&folded[at..], &wanted) {
        replaced.extend_from_slice(&original[at..at + next]);
        replaced.extend_from_slice(&replacement);
        at += next + wanted.len();
    }
    replaced.extend_from_slice(&original[at..]);
    let whole = from_units(replaced).ok_or_else(|| SqlError::not_supported(RESERVED))?;
    let unicode = arguments.types.iter().any(|ty| ty.is_unicode());
    let is_max = arguments.types[0].length() == Some(Length::Max);
    text_value(&whole, longest_text(unicode, is_max))
}
