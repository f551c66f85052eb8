//! To and from `money` and `smallmoney`, which are counted in ten-thousandths of their unit.
//!
//! Sources (MicrosoftDocs/sql-docs): "money and smallmoney",
//! docs/t-sql/data-types/money-and-smallmoney-transact-sql.md; the styles and what is rounded:
//! docs/t-sql/functions/cast-and-convert-transact-sql.md; the texts of the errors:
//! docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md.

use crate::error::{SqlError, SqlResult};
use crate::value::convert::error::{money_space, not_supported, overflow};
use crate::value::convert::number::integer_value;
use crate::value::decimal::{Decimal, power_of_ten};
use crate::value::types::{MAX_PRECISION, MONEY_SCALE, SqlType};
use crate::value::values::Value;

/// Ten-thousandths as a value of `money` or `smallmoney`, if they fit.
pub(in crate::value) fn money_value(units: i128, to: SqlType) -> Option<Value> {
    match to {
        SqlType::SmallMoney => i32::try_from(units).ok().map(Value::small_money),
        _ => i64::try_from(units).ok().map(Value::money),
    }
}

pub(super) fn to_money(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let units = match value {
        Value::Decimal(v) => v.resize(MAX_PRECISION, MONEY_SCALE).map(|decimal| decimal.mantissa),
        Value::Real(v) => float_units(f64::from(*v)),
        Value::Float(v) => float_units(*v),
        Value::String(text) => match money_units(text) {
            Ok(units) => Some(units),
            Err(MoneyText::Malformed) => return Err(wrong_syntax(to)),
            Err(MoneyText::Unsure) => {
                return Err(SqlError::not_supported(format!("conversion of '{text}' to {}", to.name())));
            }
        },
        _ => match value.as_i64() {
            Some(number) => Some(i128::from(number) * power_of_ten(MONEY_SCALE)),
            None => return Err(not_supported(from, to)),
        },
    };
    units.and_then(|units| money_value(units, to)).ok_or_else(|| too_large(value, from, to))
}

fn float_units(value: f64) -> Option<i128> {
    Decimal::from_f64(value, MAX_PRECISION, MONEY_SCALE).map(|decimal| decimal.mantissa)
}

/// 235 and 293.
fn wrong_syntax(to: SqlType) -> SqlError {
    match to {
        SqlType::SmallMoney => {
            SqlError::new(293, "Cannot convert char value to smallmoney. The char value has incorrect syntax.").state(0)
        }
        _ => SqlError::new(235, "Cannot convert a char value to money. The char value has incorrect syntax.").state(0),
    }
}

/// 8115; 220, 232 and 237 for what has messages of its own.
fn too_large(value: &Value, from: SqlType, to: SqlType) -> SqlError {
    let name = to.name();
    match value {
        Value::TinyInt(_) | Value::SmallInt(_) | Value::Int(_) => {
            let number = value.as_i64().unwrap_or_default();
            SqlError::new(220, format!("Arithmetic overflow error for data type {name}, value = {number}.")).state(3)
        }
        Value::Real(number) => float_too_large(f64::from(*number), name),
        Value::Float(number) => float_too_large(*number, name),
        Value::Decimal(_) if from.is_money() => no_space(name).state(3),
        Value::Decimal(_) => overflow(from.message_name(), to).state(4),
        _ => overflow("expression", to),
    }
}

fn float_too_large(number: f64, name: &str) -> SqlError {
    SqlError::new(232, format!("Arithmetic overflow error for type {name}, value = {number:.6}.")).state(2)
}

/// 237.
fn no_space(to: &str) -> SqlError {
    SqlError::new(237, money_space(to).message)
}

/// Rounded, half away from zero.
pub(super) fn money_to_integer(money: &Decimal, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let whole = money.resize(MAX_PRECISION, 0).map_or(0, |decimal| decimal.mantissa);
    integer_value(whole, to).ok_or_else(|| match to {
        SqlType::Int => no_space(to.name()),
        _ => SqlError::not_supported(format!("the overflow of {} in {}", from.name(), to.name())),
    })
}

/// Why a text is no amount here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::value) enum MoneyText {
    /// It has what no amount has.
    Malformed,
    /// What SQL Server makes of it is not documented.
    Unsure,
}

/// Reads `[+-][$][digits[,ddd]…][.digits]` as ten-thousandths. An empty text is 0.
pub(in crate::value) fn money_units(text: &str) -> Result<i128, MoneyText> {
    let text = text.trim_matches(' ');
    if text.is_empty() {
        return Ok(0);
    }
    let can_be_in_an_amount = |c: char| !c.is_alphabetic();
    if !text.chars().all(can_be_in_an_amount) {
        return Err(MoneyText::Malformed);
    }
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let amount = unsigned.strip_prefix(['$', '£', '¥', '€']).unwrap_or(unsigned).trim_start_matches(' ');
    let (integral, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    let integral = without_commas(integral).ok_or(MoneyText::Unsure)?;
    let only_digits = integral.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
    if !only_digits || (integral.is_empty() && fraction.is_empty()) {
        return Err(MoneyText::Unsure);
    }
    let places = usize::from(MONEY_SCALE);
    // Whether further places are rounded or cut is documented for numbers, not for texts.
    if fraction.as_bytes().get(places).is_some_and(|&digit| digit >= b'5') {
        return Err(MoneyText::Unsure);
    }
    let kept = &fraction[..fraction.len().min(places)];
    let digits = format!("{integral}{kept:0<places$}");
    let units: i128 = digits.parse().map_err(|_| MoneyText::Unsure)?;
    Ok(if is_negative { -units } else { units })
}

/// Digits whose commas stand before every three of them.
fn without_commas(integral: &str) -> Option<String> {
    if !integral.contains(',') {
        return Some(integral.to_owned());
    }
    let mut groups = integral.split(',');
    let first = groups.next().filter(|first| (1..=3).contains(&first.len()))?;
    let mut digits = first.to_owned();
    for group in groups {
        if group.len() != 3 {
            return None;
        }
        digits.push_str(group);
    }
    Some(digits)
}

pub(in crate::value) fn is_money_text(text: &str) -> bool {
    !text.is_empty() && money_units(text).is_ok_and(|units| money_value(units, SqlType::Money).is_some())
}

/// "money and smallmoney styles": 1 has commas and two places, 2 and 126 have four places, every other one has two.
pub(super) fn format_money(money: &Decimal, style: Option<i32>) -> String {
    let style = style.unwrap_or(0);
    if matches!(style, 2 | 126) {
        return money.to_string();
    }
    let short = money.resize(MAX_PRECISION, 2).map_or_else(|| money.to_string(), |decimal| decimal.to_string());
    if style != 1 {
        return short;
    }
    let (integral, fraction) = short.split_once('.').unwrap_or((&short, "00"));
    let (sign, digits) = integral.strip_prefix('-').map_or(("", integral), |digits| ("-", digits));
    let mut grouped = String::with_capacity(short.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}.{fraction}")
}
