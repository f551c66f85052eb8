use crate::error::SqlResult;
use crate::value::builtin::definition::{Argument, Call};
use crate::value::builtin::lookup::lookup;
use crate::value::collation::Collation;
use crate::value::convert::cast::convert;
use crate::value::datetime::DatePart;
use crate::value::datetime::day_from_date;
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;

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

/// A value of a type, written as text.
pub fn typed(text: &str, ty: SqlType) -> (Value, SqlType) {
    let (value, from) = varchar(text);
    (convert(value, from, ty, None, true).unwrap(), ty)
}

/// Calls a function on constants: the result and its type.
pub fn call_typed(name: &str, date_part: Option<&str>, arguments: &[(Value, SqlType)]) -> SqlResult<(Value, SqlType)> {
    let function = lookup(name).unwrap_or_else(|| panic!("{name} is not in the table"));
    function.check_arity(arguments.len())?;
    let bound: Vec<Argument> =
        arguments.iter().map(|(value, ty)| Argument { ty: *ty, constant: Some(value) }).collect();
    let result = function.result_type(&bound)?;
    let (values, types): (Vec<Value>, Vec<SqlType>) = arguments.iter().cloned().unzip();
    let date_part = date_part.map(|word| DatePart::parse(word).unwrap());
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
    for (name, count) in [("len", 2), ("CHARINDEX", 1), ("DateAdd", 1)] {
        assert_eq!(lookup(name).unwrap().check_arity(count).unwrap_err().number, 59_000, "{name}");
    }
    assert!(lookup("CHECKSUM").is_none());
}
