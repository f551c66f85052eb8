//! What a built-in function is: its name, its arguments, the type of its result and how it is evaluated.

use crate::error::{SqlError, SqlResult};
use crate::value::collation::Collation;
use crate::value::convert::cast::convert;
use crate::value::datetime::{DatePart, Day, Ticks};
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;
use std::sync::Arc;

/// An argument when a call is bound: its type, and its value where it is a constant (a NULL constant is
/// `Some(Value::Null)`).
#[derive(Debug, Clone, Copy)]
pub struct Argument<'a> {
    pub ty: SqlType,
    pub constant: Option<&'a Value>,
}

/// What a call is evaluated under.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// The time of the statement, UTC. The server's time zone is UTC, as that of Azure SQL is.
    pub now: (Day, Ticks),
    /// The collation for searching in text (CHARINDEX, PATINDEX, REPLACE).
    pub collation: Collation,
    /// The keyword that stands first in DATEADD and DATEDIFF; it is not among the arguments.
    pub date_part: Option<DatePart>,
}

/// A built-in scalar function.
pub struct Builtin {
    /// The name, in capitals.
    pub name: &'static str,
    arity: Arity,
    nulls: Nulls,
    takes_date_part: bool,
    result: fn(&[Argument<'_>]) -> SqlResult<SqlType>,
    evaluate: fn(&Arguments<'_>) -> SqlResult<Value>,
}

impl PartialEq for Builtin {
    fn eq(&self, other: &Builtin) -> bool {
        self.name == other.name
    }
}

/// How many arguments a function takes.
#[derive(Debug, Clone, Copy)]
pub(in crate::value) enum Arity {
    Exactly(usize),
    Between(usize, usize),
}

/// What a NULL among the arguments does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nulls {
    /// The result is NULL.
    Propagate,
    /// The function decides.
    Pass,
}

/// The arguments of one evaluation.
pub(in crate::value) struct Arguments<'a> {
    pub(in crate::value) values: &'a [Value],
    pub(in crate::value) types: &'a [SqlType],
    pub(in crate::value) call: &'a Call,
}

impl Builtin {
    pub(in crate::value) const fn new(
        name: &'static str,
        arity: Arity,
        result: fn(&[Argument<'_>]) -> SqlResult<SqlType>,
        evaluate: fn(&Arguments<'_>) -> SqlResult<Value>,
    ) -> Builtin {
        Builtin { name, arity, nulls: Nulls::Propagate, takes_date_part: false, result, evaluate }
    }

    /// The same function, which decides itself what NULL means.
    pub(in crate::value) const fn passing_nulls(mut self) -> Builtin {
        self.nulls = Nulls::Pass;
        self
    }

    /// The same function, with a date part keyword in front of its arguments.
    pub(in crate::value) const fn with_date_part(mut self) -> Builtin {
        self.takes_date_part = true;
        self
    }

    /// Whether a date part keyword stands first in the parentheses.
    pub fn takes_date_part(&self) -> bool {
        self.takes_date_part
    }

    /// Checks the number of arguments, the date part keyword not counted.
    ///
    /// # Errors
    /// A refusal of another number than the function takes here; newer versions of SQL Server know some.
    pub fn check_arity(&self, count: usize) -> SqlResult<()> {
        let (least, most) = match self.arity {
            Arity::Exactly(expected) => (expected, expected),
            Arity::Between(least, most) => (least, most),
        };
        if (least..=most).contains(&count) {
            return Ok(());
        }
        Err(SqlError::not_supported(format!("the function {} with such a number of arguments", self.name)))
    }

    /// The type of the result.
    ///
    /// # Errors
    /// 8116 and the like for an argument of a type that the function does not take.
    pub fn result_type(&self, arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
        (self.result)(arguments)
    }

    /// Evaluates a call whose number of arguments has been checked.
    ///
    /// # Errors
    /// The function's own, and those of converting an argument to the type it takes.
    pub fn eval(&self, values: &[Value], types: &[SqlType], call: &Call) -> SqlResult<Value> {
        if self.nulls == Nulls::Propagate && values.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        (self.evaluate)(&Arguments { values, types, call })
    }
}

impl Arguments<'_> {
    pub(in crate::value) fn count(&self) -> usize {
        self.values.len()
    }

    /// An argument as text: as it is, or converted as an assignment to `nvarchar(max)` would.
    pub(in crate::value) fn text(&self, at: usize) -> SqlResult<Arc<str>> {
        Ok(self.text_or_null(at)?.unwrap_or_default())
    }

    pub(in crate::value) fn text_or_null(&self, at: usize) -> SqlResult<Option<Arc<str>>> {
        let (value, ty) = (&self.values[at], self.types[at]);
        match value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(Arc::clone(text))),
            _ => match convert(value.clone(), ty, SqlType::VarChar(Length::Max), None, false)? {
                Value::String(text) => Ok(Some(text)),
                _ => Ok(None),
            },
        }
    }

    pub(in crate::value) fn integer(&self, at: usize) -> SqlResult<i64> {
        let converted = convert(self.values[at].clone(), self.types[at], SqlType::BigInt, None, false)?;
        Ok(converted.as_i64().unwrap_or_default())
    }

    pub(in crate::value) fn int(&self, at: usize) -> SqlResult<i32> {
        let converted = convert(self.values[at].clone(), self.types[at], SqlType::Int, None, false)?;
        Ok(converted.as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or_default())
    }

    pub(in crate::value) fn float(&self, at: usize) -> SqlResult<f64> {
        match convert(self.values[at].clone(), self.types[at], SqlType::Float, None, false)? {
            Value::Float(number) => Ok(number),
            _ => Ok(0.0),
        }
    }
}
