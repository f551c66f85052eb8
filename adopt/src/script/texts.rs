//! Formats names, lists and texts.

use crate::catalog::{Column, Family};
use crate::expression::Word;
use crate::names::{bracketed, literal};
use crate::plan::KEPT;

pub(super) fn lines(items: &[String], indent: usize) -> String {
    items.join(&format!(",\n{}", " ".repeat(indent)))
}

pub(super) fn kept_name(column: &str) -> String {
    let whole = format!("{KEPT}{column}");
    // SQL Server's names have at most 128 characters.
    bracketed(&whole.chars().take(128).collect::<String>())
}

/// A column of the adopted table, with the alias `t`.
pub(super) fn of_t(name: &str) -> String {
    format!("t.{}", bracketed(name))
}

/// A column of the adopted table, as OUTPUT of a claim returns it.
pub(super) fn of_deleted(name: &str) -> String {
    format!("deleted.{}", bracketed(name))
}

pub(super) fn row_column(name: &str) -> String {
    format!("k.{}", kept_name(name))
}

pub(super) fn claim_word(_: Word) -> String {
    "@worker".to_string()
}

/// A value as text: numbers, times and identifiers in one spelling, whatever the session's settings.
pub(super) fn as_text(column: &Column, name: &str) -> String {
    match column.family() {
        Family::WideText => name.to_string(),
        Family::Text => format!("CAST({name} AS nvarchar(max))"),
        Family::Guid => format!("CONVERT(nvarchar(36), {name})"),
        Family::Time => format!("CONVERT(nvarchar(40), {name}, 126)"),
        _ if matches!(column.type_name.as_str(), "float" | "real") => format!("CONVERT(nvarchar(50), {name}, 3)"),
        _ => format!("CONVERT(nvarchar(50), {name})"),
    }
}

pub(super) fn json_text(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

pub(super) fn unbracketed(name: &str) -> String {
    name[1..name.len() - 1].replace("]]", "]")
}

/// Statements that assign a text to a variable line by line, so that lines with GO or sqlcmd variables remain part of
/// the text.
pub(super) fn long_text(variable: &str, text: &str) -> String {
    assignments(variable, text, &|line| literal(line).replace("$(", "$' + N'("))
}

/// Like [`long_text`], for our own T-SQL, in which the schema's name is filled in.
pub(super) fn long_statements(variable: &str, statements: &str) -> String {
    assignments(variable, statements, &literal)
}

fn assignments(variable: &str, text: &str, written: &dyn Fn(&str) -> String) -> String {
    let mut statements = format!("DECLARE {variable} nvarchar(max) = N'';\n");
    for line in text.lines() {
        statements += &format!("SET {variable} = {variable} + {} + NCHAR(10);\n", written(line));
    }
    statements
}
