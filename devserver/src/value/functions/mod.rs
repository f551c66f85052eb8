//! The built-in scalar functions, as a table from names to [`Function`]s.
//!
//! Binding a call asks the table for the function, checks the number of arguments and gets the type of the result;
//! then every row evaluates it over values. What is syntax is not here: CASE, COALESCE, NULLIF, IIF, CAST, CONVERT,
//! and CURRENT_TIMESTAMP, which is GETDATE without parentheses. Nor are functions whose results cannot be matched or
//! are not needed: RAND, CHECKSUM, BINARY_CHECKSUM, COMPRESS, DECOMPRESS, FORMAT.
//! Each function behaves as its page in docs/t-sql/functions/ of MicrosoftDocs/sql-docs says.

mod date;
pub mod digest;
pub mod format_message;
mod identity;
pub mod json;
pub mod json_modify;
mod number;
mod search;
mod text;

use super::convert::convert;
use super::{Collation, DatePart, Day, Length, SqlType, Ticks, Value};
use crate::error::{SqlError, SqlResult};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

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
    /// The keyword that stands first in DATEADD, DATEDIFF, DATEPART and DATENAME; it is not among the arguments.
    pub date_part: Option<DatePart>,
}

/// A built-in scalar function.
pub struct Function {
    /// The name, in capitals.
    pub name: &'static str,
    arity: Arity,
    nulls: Nulls,
    takes_date_part: bool,
    result: fn(&[Argument<'_>]) -> SqlResult<SqlType>,
    evaluate: fn(&Arguments<'_>) -> SqlResult<Value>,
}

/// How many arguments a function takes.
#[derive(Debug, Clone, Copy)]
enum Arity {
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
struct Arguments<'a> {
    values: &'a [Value],
    types: &'a [SqlType],
    call: &'a Call,
}

impl Function {
    const fn new(
        name: &'static str,
        arity: Arity,
        result: fn(&[Argument<'_>]) -> SqlResult<SqlType>,
        evaluate: fn(&Arguments<'_>) -> SqlResult<Value>,
    ) -> Function {
        Function { name, arity, nulls: Nulls::Propagate, takes_date_part: false, result, evaluate }
    }

    /// The same function, which decides itself what NULL means.
    const fn passing_nulls(mut self) -> Function {
        self.nulls = Nulls::Pass;
        self
    }

    /// The same function, with a date part keyword in front of its arguments.
    const fn with_date_part(mut self) -> Function {
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
    /// 174 or 189 if the number is wrong.
    pub fn check_arity(&self, count: usize) -> SqlResult<()> {
        let keyword = usize::from(self.takes_date_part);
        let name = self.name.to_ascii_lowercase();
        match self.arity {
            Arity::Exactly(expected) if count != expected => {
                let expected = expected + keyword;
                let message = format!("The {name} function requires {expected} argument(s).");
                Err(SqlError::new(174, message).severity(15))
            }
            Arity::Between(least, most) if !(least..=most).contains(&count) => {
                let message = format!("The {name} function requires {least} to {most} arguments.");
                Err(SqlError::new(189, message).severity(15))
            }
            _ => Ok(()),
        }
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

/// The function of a name, in any case.
pub fn lookup(name: &str) -> Option<&'static Function> {
    static TABLE: LazyLock<HashMap<&'static str, &'static Function>> = LazyLock::new(|| {
        let groups = [
            date::FUNCTIONS,
            digest::FUNCTIONS,
            format_message::FUNCTIONS,
            identity::FUNCTIONS,
            json::FUNCTIONS,
            json_modify::FUNCTIONS,
            number::FUNCTIONS,
            search::FUNCTIONS,
            text::FUNCTIONS,
        ];
        groups.into_iter().flatten().map(|function| (function.name, function)).collect()
    });
    TABLE.get(name.to_ascii_uppercase().as_str()).copied()
}

impl Arguments<'_> {
    fn count(&self) -> usize {
        self.values.len()
    }

    /// An argument as text: as it is, or converted as an assignment to `nvarchar(max)` would.
    fn text(&self, at: usize) -> SqlResult<Arc<str>> {
        Ok(self.text_or_null(at)?.unwrap_or_default())
    }

    fn text_or_null(&self, at: usize) -> SqlResult<Option<Arc<str>>> {
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

    fn integer(&self, at: usize) -> SqlResult<i64> {
        let converted = convert(self.values[at].clone(), self.types[at], SqlType::BigInt, None, false)?;
        Ok(converted.as_i64().unwrap_or_default())
    }

    fn int(&self, at: usize) -> SqlResult<i32> {
        let converted = convert(self.values[at].clone(), self.types[at], SqlType::Int, None, false)?;
        Ok(converted.as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or_default())
    }

    fn float(&self, at: usize) -> SqlResult<f64> {
        match convert(self.values[at].clone(), self.types[at], SqlType::Float, None, false)? {
            Value::Float(number) => Ok(number),
            _ => Ok(0.0),
        }
    }
}

/// A text as the value of an expression of a character type, cut to the type's length.
fn text_value(text: &str, ty: SqlType) -> SqlResult<Value> {
    match ty.length().and_then(Length::limit) {
        Some(limit) => Ok(Value::String(Arc::from(super::convert::split_units(text, limit)?.0))),
        None => Ok(Value::String(Arc::from(text))),
    }
}

/// 8116: an argument's type is not one the function takes. `position` counts from 1.
fn invalid_argument(ty: SqlType, position: usize, function: &str) -> SqlError {
    let ty = ty.message_name();
    SqlError::new(8116, format!("Argument data type {ty} is invalid for argument {position} of {function} function."))
}

// Result types that many functions share.

fn always_int(_: &[Argument<'_>]) -> SqlResult<SqlType> {
    Ok(SqlType::Int)
}

fn always_float(_: &[Argument<'_>]) -> SqlResult<SqlType> {
    Ok(SqlType::Float)
}

/// `varchar` or `nvarchar` as the first argument is Unicode or not, with its length.
fn variable_text_of_first(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    Ok(variable_text(arguments[0].ty))
}

fn variable_text(ty: SqlType) -> SqlType {
    if ty.is_unicode() { SqlType::NVarChar(ty.text_length()) } else { SqlType::VarChar(ty.text_length()) }
}

/// The longest text of a kind that is not `(max)`, or `(max)` if `ty` is.
fn longest_text(unicode: bool, is_max: bool) -> SqlType {
    match (unicode, is_max) {
        (true, true) => SqlType::NVarChar(Length::Max),
        (false, true) => SqlType::VarChar(Length::Max),
        (true, false) => SqlType::NVarChar(Length::Limit(super::types::MAX_UNIT_LENGTH)),
        (false, false) => SqlType::VarChar(Length::Limit(super::types::MAX_BYTE_LENGTH)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::value::datetime::day_from_date;

    pub fn varchar(text: &str) -> (Value, SqlType) {
        crate::value::literal::string(text, false)
    }

    pub fn nvarchar(text: &str) -> (Value, SqlType) {
        crate::value::literal::string(text, true)
    }

    pub fn int(number: i32) -> (Value, SqlType) {
        (Value::Int(number), SqlType::Int)
    }

    pub fn null() -> (Value, SqlType) {
        (Value::Null, SqlType::Int)
    }

    pub fn number(digits: &str) -> (Value, SqlType) {
        match digits.strip_prefix('-') {
            None => crate::value::literal::number(digits).unwrap(),
            Some(digits) => {
                let (value, ty) = crate::value::literal::number(digits).unwrap();
                (crate::value::unary(crate::value::UnaryOp::Minus, &value, ty).unwrap(), ty)
            }
        }
    }

    /// A value of a type, written as text.
    pub fn typed(text: &str, ty: SqlType) -> (Value, SqlType) {
        let (value, from) = varchar(text);
        (convert(value, from, ty, None, true).unwrap(), ty)
    }

    /// Calls a function on constants: the result and its type.
    pub fn call_typed(
        name: &str,
        date_part: Option<&str>,
        arguments: &[(Value, SqlType)],
    ) -> SqlResult<(Value, SqlType)> {
        let function = lookup(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        function.check_arity(arguments.len())?;
        let bound: Vec<Argument> =
            arguments.iter().map(|(value, ty)| Argument { ty: *ty, constant: Some(value) }).collect();
        let result = function.result_type(&bound)?;
        let (values, types): (Vec<Value>, Vec<SqlType>) = arguments.iter().cloned().unzip();
        let date_part = date_part.map(|word| DatePart::parse(word, name)).transpose()?;
        let now = (day_from_date(2024, 5, 6).unwrap(), 123_456_789);
        let call = Call { now, collation: Collation::default(), date_part };
        Ok((function.eval(&values, &types, &call)?, result))
    }

    /// The text of a call's result, or the number of its error.
    pub fn call(name: &str, arguments: &[(Value, SqlType)]) -> Result<String, i32> {
        call_with_part(name, None, arguments)
    }

    pub fn call_with_part(name: &str, part: Option<&str>, arguments: &[(Value, SqlType)]) -> Result<String, i32> {
        let (value, ty) = call_typed(name, part, arguments).map_err(|error| error.number)?;
        let text = convert(value, ty, SqlType::NVarChar(Length::Max), None, true).map_err(|error| error.number)?;
        Ok(text.as_str().unwrap_or("NULL").to_string())
    }

    #[test]
    fn the_number_of_arguments_is_checked() {
        let error = lookup("len").unwrap().check_arity(2).unwrap_err();
        assert_eq!((error.number, error.message.as_str()), (174, "The len function requires 1 argument(s)."));
        let error = lookup("ROUND").unwrap().check_arity(1).unwrap_err();
        assert_eq!((error.number, error.message.as_str()), (189, "The round function requires 2 to 3 arguments."));
        let error = lookup("DateAdd").unwrap().check_arity(1).unwrap_err();
        assert_eq!(error.message, "The dateadd function requires 3 argument(s).");
        assert!(lookup("CHECKSUM").is_none());
    }
}
