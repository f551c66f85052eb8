//! Finds the family of an expression's type, and rejects expressions that would convert the values of rows.

use crate::catalog::{Family, Table};
use crate::expression::{CLOCKS, Value, Word};

/// The family of an expression over a table's columns; `None` for NULL, which takes the family of its context. The
/// error names the part that would be converted row by row ("Data type precedence (Transact-SQL)"), as the end of a
/// sentence.
pub(super) fn family_of(table: &Table, value: &Value) -> Result<Option<Family>, String> {
    let of = |value: &Value| family_of(table, value);
    let must = |value: &Value, families: &[Family], what: &str| match of(value)? {
        Some(family) if !families.contains(&family) => Err(format!("it has {} where {what} belongs", shown(value))),
        _ => Ok(()),
    };
    const NUMBERS: &[Family] = &[Family::Integer, Family::Decimal, Family::Bit];
    const TEXTS: &[Family] = &[Family::WideText, Family::Text];
    Ok(match value {
        Value::Null => None,
        Value::Number(number) if number.contains('.') => Some(Family::Decimal),
        Value::Number(_) => Some(Family::Integer),
        Value::Text(_) => Some(Family::WideText),
        Value::Binary(_) => Some(Family::Bytes),
        Value::Column(name) => table.column(name).map(|column| column.family()),
        Value::Word(word) => Some(match word {
            Word::Error | Word::Worker => Family::WideText,
            Word::Attempt | Word::JobId => Family::Integer,
            Word::ClaimedAt | Word::DueAt => Family::Time,
            Word::Output => Family::Bytes,
        }),
        Value::Negative(inner) => {
            must(inner, NUMBERS, "a number")?;
            of(inner)?
        }
        Value::Cast { value, .. } => of(value)?,
        Value::Pair { left, operator, right } => match (of(left)?, of(right)?) {
            // A datetime can also be used as a number of days.
            (Some(Family::Time), _) if "+-".contains(*operator) => {
                must(right, NUMBERS, "a number of days")?;
                Some(Family::Time)
            }
            (Some(family), _) if *operator == '+' && TEXTS.contains(&family) => {
                must(right, TEXTS, "a text")?;
                Some(family)
            }
            (left_family, right_family) => {
                must(left, NUMBERS, "a number")?;
                must(right, NUMBERS, "a number")?;
                if right_family == Some(Family::Decimal) { right_family } else { left_family.or(right_family) }
            }
        },
        Value::Call { name, arguments, .. } => match (*name, arguments.as_slice()) {
            (clock, _) if CLOCKS.contains(&clock) => Some(Family::Time),
            ("DATEADD", [count, time]) => {
                must(count, NUMBERS, "a number")?;
                must(time, &[Family::Time], "a time")?;
                Some(Family::Time)
            }
            ("DATEDIFF", times) => {
                times.iter().try_for_each(|time| must(time, &[Family::Time], "a time"))?;
                Some(Family::Integer)
            }
            ("LEN" | "DATALENGTH", _) => Some(Family::Integer),
            ("ABS", [number]) => {
                must(number, NUMBERS, "a number")?;
                of(number)?
            }
            ("NEWID", _) => Some(Family::Guid),
            ("ISNULL" | "NULLIF" | "COALESCE", values) => {
                let mut common = None;
                for value in values {
                    let family = of(value)?;
                    // A literal is converted once, not for each row.
                    let is_literal =
                        matches!(value, Value::Text(_)) && common.is_some_and(|one| !NUMBERS.contains(&one));
                    match (common, family) {
                        (None, family) => common = family,
                        (Some(one), Some(other)) => {
                            let alike = [NUMBERS, TEXTS].iter().any(|all| all.contains(&one) && all.contains(&other));
                            if one != other && !alike && !is_literal {
                                return Err(format!("{name} mixes {} with other types", shown(value)));
                            }
                        }
                        (Some(_), None) => {}
                    }
                }
                common
            }
            (_, parts) => {
                parts.iter().try_for_each(|part| of(part).map(|_| ()))?;
                Some(Family::WideText)
            }
        },
    })
}

fn shown(value: &Value) -> String {
    value.sql(&crate::expression::Terms { column: &|name| name.to_string(), word: &|_| "a word".to_string() })
}
