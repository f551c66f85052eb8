//! Defaults, checks, computed columns and filters in the form in which SQL Server shows them: names in brackets,
//! numbers in parentheses, functions in small letters, IN as the comparisons it means.
//!
//! No page describes the form. What is known here is what the AdventureWorks database (microsoft/sql-server-samples)
//! has in its script and what is scripted of it; everything else is shown as it was written.

use crate::tsql::ast::{ColumnRef, CompareOp, Expr, Literal, Predicate};
use crate::tsql::{has_group_behind, parse_expression, parse_predicate};

/// Functions without arguments that keep their name.
const KEPT_FUNCTIONS: &[&str] = &[
    "app_name",
    "getdate",
    "getutcdate",
    "host_name",
    "newid",
    "newsequentialid",
    "suser_sname",
    "sysdatetime",
    "sysdatetimeoffset",
    "sysutcdatetime",
];

/// A default or a computed column, in the parentheses that are around it.
pub(crate) fn shown_expression(text: &str) -> String {
    let normal = parse_expression(text).ok().and_then(|expr| expression(&expr));
    format!("({})", normal.as_deref().unwrap_or(text))
}

/// A CHECK, in the parentheses that are around it. Behind OR those that were written may stay.
pub(crate) fn shown_condition(text: &str) -> String {
    let known = parse_predicate(text).ok().filter(|_| !has_group_behind(text, "or"));
    let normal = known.and_then(|predicate| condition(&predicate));
    format!("({})", normal.as_deref().unwrap_or(text))
}

fn expression(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Column(column) => bracketed_column(column),
        Expr::Literal(Literal::Null) => Some("NULL".to_string()),
        Expr::Function(call) if call.name.schema.is_none() && call.arguments.is_empty() => {
            let name = match call.name.name.to_ascii_lowercase() {
                name if name == "current_timestamp" => "getdate".to_string(),
                name => name,
            };
            KEPT_FUNCTIONS.contains(&name.as_str()).then(|| format!("{name}()"))
        }
        _ => constant(expr),
    }
}

fn condition(predicate: &Predicate) -> Option<String> {
    match predicate {
        Predicate::Or(terms) => {
            let is_list = |term: &Predicate| matches!(term, Predicate::InList { list, .. } if list.len() > 1);
            if terms.iter().skip(1).any(is_list) {
                return None;
            }
            let shown: Option<Vec<String>> = terms.iter().map(condition).collect();
            Some(shown?.join(" OR "))
        }
        Predicate::Compare { op, left, right } => comparison(*op, left, right),
        // The last one comes first.
        Predicate::InList { negated: false, value, list } => {
            let terms: Option<Vec<String>> =
                list.iter().rev().map(|item| comparison(CompareOp::Equal, value, item)).collect();
            Some(terms?.join(" OR "))
        }
        _ => None,
    }
}

fn comparison(op: CompareOp, left: &Expr, right: &Expr) -> Option<String> {
    Some(format!("{}{}{}", expression(left)?, comparison_sign(op), expression(right)?))
}

pub(crate) fn comparison_sign(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Equal => "=",
        CompareOp::NotEqual => "<>",
        CompareOp::Less => "<",
        CompareOp::LessOrEqual => "<=",
        CompareOp::Greater => ">",
        CompareOp::GreaterOrEqual => ">=",
    }
}

fn bracketed(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

/// `None` for a column with its table.
pub(crate) fn bracketed_column(column: &ColumnRef) -> Option<String> {
    column.table.is_none().then(|| bracketed(&column.name))
}

/// A constant other than NULL, maybe with a sign. `None` for what has no form that is known here.
pub(crate) fn constant(expr: &Expr) -> Option<String> {
    let (sign, literal) = match expr {
        Expr::Negative(operand) => ("-", &**operand),
        other => ("", other),
    };
    let Expr::Literal(literal) = literal else { return None };
    Some(match literal {
        Literal::Int(number) => format!("({sign}{number})"),
        // An integer too large for int is a numeric, and looks like one.
        Literal::Decimal(digits) if digits.contains('.') => format!("({sign}{digits})"),
        Literal::Decimal(digits) => format!("({sign}{digits}.)"),
        Literal::String { value, national } if sign.is_empty() => {
            format!("{}'{}'", if *national { "N" } else { "" }, value.replace('\'', "''"))
        }
        _ => return None,
    })
}
