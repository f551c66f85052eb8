//! `sql_variant`: what it cannot hold, and how its values compare.
//!
//! Source: "sql_variant" (MicrosoftDocs/sql-docs, docs/t-sql/data-types/sql-variant-transact-sql.md).

use crate::error::SqlError;
use crate::value::collation::Collation;
use crate::value::compare::{compare, encode_key};
use crate::value::datetime::{Day, Ticks};
use crate::value::types::{Length, SqlType, operand_clash};
use crate::value::values::{Value, Variant};
use std::cmp::Ordering;

/// Why a type's values cannot become a `sql_variant`: `explicit` in CAST and CONVERT.
pub(super) fn cannot_hold(ty: SqlType, explicit: bool) -> Option<SqlError> {
    match ty {
        _ if ty.is_max() && explicit => Some(SqlError::not_supported(format!("CAST of {ty} as sql_variant"))),
        // The message has the length here: it is the reason.
        _ if ty.is_max() => {
            Some(SqlError::new(206, format!("Operand type clash: {ty} is incompatible with sql_variant")).state(2))
        }
        SqlType::Text | SqlType::NText | SqlType::Image if !explicit => Some(operand_clash(ty, SqlType::Variant)),
        SqlType::RowVersion if explicit => Some(SqlError::not_supported("CAST of rowversion as sql_variant")),
        SqlType::RowVersion => Some(operand_clash(ty, SqlType::Variant)),
        // How it compares with a date, to which it does not convert, is not documented.
        SqlType::Time(_) => Some(SqlError::not_supported("a sql_variant of the type time")),
        _ => None,
    }
}

/// The families of types, the highest last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Uuid,
    Binary,
    Text,
    Exact,
    Approximate,
    Date,
}

fn family(value: &Value) -> Family {
    match value {
        Value::Uuid(_) => Family::Uuid,
        Value::Bytes(_) => Family::Binary,
        Value::String(_) => Family::Text,
        Value::Bit(_)
        | Value::TinyInt(_)
        | Value::SmallInt(_)
        | Value::Int(_)
        | Value::BigInt(_)
        | Value::Decimal(_) => Family::Exact,
        Value::Real(_) | Value::Float(_) => Family::Approximate,
        Value::Date(_) | Value::DateTime(..) | Value::DateTimeOffset(..) => Family::Date,
        Value::Null | Value::Time(_) | Value::Variant(_) => unreachable!("no sql_variant holds it"),
    }
}

/// Of two families the higher one is the greater; within a family the values count.
pub(super) fn compare_variants(a: &Variant, b: &Variant, collation: Collation) -> Ordering {
    let (a, b) = (&a.value, &b.value);
    let order = family(a).cmp(&family(b));
    if order.is_ne() {
        return order;
    }
    match family(a) {
        Family::Uuid | Family::Binary | Family::Text => compare(a, b, collation),
        Family::Exact => exact(a).cmp(&exact(b)),
        Family::Approximate => compare(&approximate(a), &approximate(b), collation),
        Family::Date => moment(a).cmp(&moment(b)),
    }
}

/// The key bytes of a value, which agree with [`compare_variants`].
pub(super) fn encode_variant(variant: &Variant, collation: Collation, out: &mut Vec<u8>) {
    let value = &variant.value;
    let family = family(value);
    out.push(family as u8);
    match family {
        Family::Uuid | Family::Binary | Family::Text => encode_key(value, variant.base, collation, false, out),
        Family::Exact => {
            let (integral, fraction) = exact(value);
            out.extend((integral ^ i128::MIN).to_be_bytes());
            out.extend(fraction.to_be_bytes());
        }
        Family::Approximate => encode_key(&approximate(value), SqlType::Float, collation, false, out),
        Family::Date => {
            let (day, ticks) = moment(value);
            out.extend(day.to_be_bytes());
            out.extend(ticks.to_be_bytes());
        }
    }
}

/// An exact number: the integer below it, and what is above that in 10^-38ths.
fn exact(value: &Value) -> (i128, i128) {
    match value {
        Value::Decimal(number) => {
            let unit = 10_i128.pow(u32::from(number.scale));
            let fraction = number.mantissa.rem_euclid(unit) * 10_i128.pow(u32::from(38 - number.scale));
            (number.mantissa.div_euclid(unit), fraction)
        }
        _ => (i128::from(value.as_i64().expect("the other exact numbers are integers")), 0),
    }
}

fn approximate(value: &Value) -> Value {
    match value {
        Value::Real(number) => Value::Float(f64::from(*number)),
        other => other.clone(),
    }
}

/// A point of time, of a `datetimeoffset` in UTC.
fn moment(value: &Value) -> (Day, Ticks) {
    match *value {
        Value::Date(day) => (day, 0),
        Value::DateTime(day, ticks) | Value::DateTimeOffset(day, ticks, _) => (day, ticks),
        _ => unreachable!("it is of the family"),
    }
}

/// A text of the server's own as a `sql_variant`: as a name.
pub fn of_text(text: &str) -> Value {
    Value::variant(SqlType::NVarChar(Length::Limit(128)), Value::String(text.into()))
}

pub fn of_int(number: i32) -> Value {
    Value::variant(SqlType::Int, Value::Int(number))
}
