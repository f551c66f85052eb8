//! Defaults, checks, computed columns and filters in the form in which SQL Server shows them: names in brackets,
//! numbers in parentheses, functions in small letters, IN and BETWEEN as the comparisons they mean.
//!
//! No page describes the form. What is known here is what the AdventureWorks database (microsoft/sql-server-samples)
//! has in its script and what is scripted of it; everything else is shown as it was written.

use crate::tsql::ast::{
    BinaryOp, ColumnRef, CompareOp, Expr, FunctionCall, Literal, ObjectName, Predicate, TypeArguments, TypeName,
    UnaryOp,
};
use crate::tsql::{parse_expression, parse_predicate};
use crate::value::datetime::DatePart;

/// Functions that keep their name and their arguments.
const KEPT_FUNCTIONS: &[&str] = &[
    "abs",
    "app_name",
    "charindex",
    "datalength",
    "dateadd",
    "datediff",
    "getdate",
    "getutcdate",
    "host_name",
    "isjson",
    "isnull",
    "json_value",
    "left",
    "len",
    "lower",
    "ltrim",
    "newid",
    "newsequentialid",
    "replace",
    "right",
    "rtrim",
    "substring",
    "suser_sname",
    "sysdatetime",
    "sysdatetimeoffset",
    "sysutcdatetime",
    "upper",
];

const KEPT_TYPES: &[&str] = &[
    "bigint",
    "binary",
    "bit",
    "char",
    "date",
    "datetime",
    "decimal",
    "float",
    "int",
    "nchar",
    "nvarchar",
    "smallint",
    "tinyint",
    "uniqueidentifier",
    "varbinary",
    "varchar",
];

/// A default or a computed column, in the parentheses that are around it.
pub(crate) fn shown_expression(text: &str) -> String {
    let normal = parse_expression(text).ok().and_then(|expr| expression(&expr));
    format!("({})", normal.as_deref().unwrap_or(text))
}

/// A CHECK, in the parentheses that are around it.
pub(crate) fn shown_condition(text: &str) -> String {
    let known = parse_predicate(text).ok().filter(|_| !has_grouped_operand(text));
    let normal = known.and_then(|predicate| condition(&predicate));
    format!("({})", normal.as_deref().unwrap_or(text))
}

fn expression(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Column(column) => bracketed_column(column),
        Expr::Literal(Literal::Null) => Some("NULL".to_string()),
        Expr::Literal(_) | Expr::Unary { .. } => constant(expr),
        Expr::Binary { op, left, right } => arithmetic(*op, left, right),
        Expr::Cast { attempt: false, expr, to } => Some(format!("CONVERT({},{})", type_name(to)?, expression(expr)?)),
        Expr::Convert { attempt: false, to, expr, style } => {
            let style = match style {
                Some(style) => format!(",{}", constant(style)?),
                None => String::new(),
            };
            Some(format!("CONVERT({},{}{style})", type_name(to)?, expression(expr)?))
        }
        Expr::Function(call) => function(call),
        Expr::NextValueFor { sequence, over: None } => Some(format!("NEXT VALUE FOR {}", bracketed_object(sequence)?)),
        _ => None,
    }
}

/// An operand of the same kind stands in parentheses, on the left as well; how one that binds closer stands is not
/// known.
fn arithmetic(op: BinaryOp, left: &Expr, right: &Expr) -> Option<String> {
    let operand = |expr: &Expr| match expr {
        Expr::Binary { op: inner, .. } if precedence(*inner)? > precedence(op)? => None,
        Expr::Binary { .. } => Some(format!("({})", expression(expr)?)),
        expr => expression(expr),
    };
    precedence(op)?;
    let sign = match op {
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Modulo => "%",
        _ => return None,
    };
    Some(format!("{}{sign}{}", operand(left)?, operand(right)?))
}

fn precedence(op: BinaryOp) -> Option<u8> {
    match op {
        BinaryOp::Add | BinaryOp::Subtract => Some(1),
        BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo => Some(2),
        _ => None,
    }
}

fn function(call: &FunctionCall) -> Option<String> {
    if call.distinct || call.star || call.over.is_some() {
        return None;
    }
    let name = match call.name.schema {
        Some(_) => bracketed_object(&call.name)?,
        None => match call.name.name.to_ascii_lowercase() {
            name if name == "current_timestamp" => "getdate".to_string(),
            name if KEPT_FUNCTIONS.contains(&name.as_str()) => name,
            _ => return None,
        },
    };
    let mut arguments = Vec::with_capacity(call.arguments.len());
    for argument in &call.arguments {
        arguments.push(match argument {
            Expr::DatePart(part) => date_part(*part)?.to_string(),
            argument => expression(argument)?,
        });
    }
    Some(format!("{name}({})", arguments.join(",")))
}

fn date_part(part: DatePart) -> Option<&'static str> {
    Some(match part {
        DatePart::Year => "year",
        DatePart::Month => "month",
        DatePart::Day => "day",
        DatePart::Hour => "hour",
        DatePart::Minute => "minute",
        DatePart::Second => "second",
        _ => return None,
    })
}

fn type_name(ty: &TypeName) -> Option<String> {
    let name = ty.name.name.to_ascii_lowercase();
    if ty.name.schema.is_some() || !KEPT_TYPES.contains(&name.as_str()) {
        return None;
    }
    let arguments = match ty.arguments {
        // In a conversion such a type has a length all the same.
        TypeArguments::None if name.ends_with("char") || name.ends_with("binary") => return None,
        TypeArguments::None if matches!(name.as_str(), "decimal" | "float") => return None,
        TypeArguments::None => String::new(),
        TypeArguments::Max => "(max)".to_string(),
        TypeArguments::One(length) => format!("({length})"),
        TypeArguments::Two(precision, scale) => format!("({precision},{scale})"),
    };
    Some(format!("[{name}]{arguments}"))
}

/// Whether `AND (… AND …)` or `OR (… OR …)` stands in a condition: there the parentheses may stay.
fn has_grouped_operand(text: &str) -> bool {
    let mut groups: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut before = String::new();
    let mut in_string = false;
    for character in text.to_ascii_lowercase().chars().chain([' ']) {
        if character == '\'' {
            in_string = !in_string;
        }
        if character.is_alphanumeric() || character == '_' || in_string {
            word.push(character);
            continue;
        }
        if !word.is_empty() {
            before = std::mem::take(&mut word);
            if groups.last() == Some(&before) {
                return true;
            }
        }
        match character {
            '(' => groups.push(if matches!(before.as_str(), "and" | "or") { before.clone() } else { String::new() }),
            ')' => {
                groups.pop();
                before = ")".to_string();
            }
            _ => {}
        }
    }
    false
}

fn condition(predicate: &Predicate) -> Option<String> {
    match predicate {
        Predicate::And(terms) => {
            let mut shown = Vec::with_capacity(terms.len());
            for (position, term) in terms.iter().enumerate() {
                if position > 0 && matches!(term, Predicate::Between { .. }) {
                    return None;
                }
                let text = condition(term)?;
                let is_disjunction = match term {
                    Predicate::Or(_) => true,
                    Predicate::InList { list, .. } => list.len() > 1,
                    _ => false,
                };
                shown.push(if is_disjunction { format!("({text})") } else { text });
            }
            Some(shown.join(" AND "))
        }
        Predicate::Or(terms) => {
            let is_list = |term: &Predicate| matches!(term, Predicate::InList { list, .. } if list.len() > 1);
            if terms.iter().skip(1).any(is_list) {
                return None;
            }
            let shown: Option<Vec<String>> = terms.iter().map(condition).collect();
            Some(shown?.join(" OR "))
        }
        Predicate::Compare { op, left, right } => comparison(*op, left, right),
        Predicate::Between { negated: false, value, low, high } => {
            let low = comparison(CompareOp::GreaterOrEqual, value, low)?;
            Some(format!("{low} AND {}", comparison(CompareOp::LessOrEqual, value, high)?))
        }
        // The last one comes first.
        Predicate::InList { negated: false, value, list } => {
            let terms: Option<Vec<String>> =
                list.iter().rev().map(|item| comparison(CompareOp::Equal, value, item)).collect();
            Some(terms?.join(" OR "))
        }
        Predicate::Like { negated, value, pattern } => {
            let not = if *negated { "NOT " } else { "" };
            Some(format!("{not}{} like {}", simple(value)?, simple(pattern)?))
        }
        Predicate::IsNull { negated, value } => {
            Some(format!("{} IS {}NULL", simple(value)?, if *negated { "NOT " } else { "" }))
        }
        _ => None,
    }
}

fn comparison(op: CompareOp, left: &Expr, right: &Expr) -> Option<String> {
    Some(format!("{}{}{}", simple(left)?, comparison_sign(op), simple(right)?))
}

/// An operand of a condition. How arithmetic stands there is not known.
fn simple(expr: &Expr) -> Option<String> {
    if let Expr::Binary { .. } = expr { None } else { expression(expr) }
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

/// `None` for what is not of a schema of this database.
fn bracketed_object(name: &ObjectName) -> Option<String> {
    if name.server.is_some() || name.database.is_some() {
        return None;
    }
    Some(format!("{}.{}", bracketed(name.schema.as_deref()?), bracketed(&name.name)))
}

/// A constant other than NULL, maybe with a sign. `None` for a float, whose form is not known here.
pub(crate) fn constant(expr: &Expr) -> Option<String> {
    let (sign, literal) = match expr {
        Expr::Unary { op: UnaryOp::Minus, operand } => ("-", &**operand),
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
        Literal::Binary(bytes) if sign.is_empty() => {
            bytes.iter().fold("0x".to_string(), |text, byte| format!("{text}{byte:02X}"))
        }
        _ => return None,
    })
}
