//! Defaults in the form in which SQL Server shows them, as far as it is known here: numbers in parentheses, functions
//! without arguments in small letters. Everything else is shown as it was written.

use crate::tsql::ast::{Expr, FunctionCall, Literal, UnaryOp};
use crate::tsql::parse_expression;

/// Functions that keep their name.
const KEPT_FUNCTIONS: &[&str] =
    &["getdate", "getutcdate", "newid", "sysdatetime", "sysdatetimeoffset", "sysutcdatetime"];

/// A default, in the parentheses that are around it.
pub(crate) fn shown_default(text: &str) -> String {
    let normal = match parse_expression(text) {
        Ok(Expr::Literal(Literal::Null)) => Some("NULL".to_string()),
        Ok(Expr::Function(call)) => function(&call),
        Ok(other) => constant(&other),
        Err(_) => None,
    };
    format!("({})", normal.as_deref().unwrap_or(text))
}

fn function(call: &FunctionCall) -> Option<String> {
    if call.name.schema.is_some() || !call.arguments.is_empty() {
        return None;
    }
    match call.name.name.to_ascii_lowercase() {
        name if name == "current_timestamp" => Some("getdate()".to_string()),
        name => KEPT_FUNCTIONS.contains(&name.as_str()).then(|| format!("{name}()")),
    }
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
