//! What the tests of the parser share.

use crate::error::SqlResult;
use crate::tsql::ast::{Expr, Literal, Predicate, QueryBody, Select, Statement, StatementKind};
use crate::tsql::parser::tokens::Parser;

pub fn batches(script: &str) -> impl Iterator<Item = &str> {
    script.split("\nGO\n")
}

/// Statements wherever they stand: RETURN may have a value.
pub fn parse_batch(text: &str) -> SqlResult<Vec<Statement>> {
    Parser::new(text)?.batch()
}

pub fn error_number(text: &str) -> i32 {
    match parse_batch(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.number,
    }
}

pub fn only_statement(text: &str) -> StatementKind {
    let mut statements = parse_batch(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0).kind
}

pub fn only_select(text: &str) -> Select {
    let StatementKind::Select(statement) = only_statement(text) else {
        panic!("no SELECT: {text}");
    };
    let QueryBody::Select(select) = statement.query.body else {
        panic!("a set operation: {text}");
    };
    *select
}

/// An expression with every operation in parentheses.
pub fn grouped(expr: &Expr) -> String {
    match expr {
        Expr::Literal(Literal::Int(value)) => value.to_string(),
        Expr::Column(column) => column.name.to_string(),
        Expr::Unary { op, operand } => format!("({op:?} {})", grouped(operand)),
        Expr::Binary { op, left, right } => format!("({} {op:?} {})", grouped(left), grouped(right)),
        Expr::Collate { expr, collation } => format!("({} collate {collation})", grouped(expr)),
        other => format!("{other:?}"),
    }
}

pub fn grouped_condition(condition: &Predicate) -> String {
    let list = |terms: &[Predicate], word: &str| {
        let terms: Vec<String> = terms.iter().map(grouped_condition).collect();
        format!("[{}]", terms.join(word))
    };
    match condition {
        Predicate::And(terms) => list(terms, " and "),
        Predicate::Or(terms) => list(terms, " or "),
        Predicate::Not(inner) => format!("not {}", grouped_condition(inner)),
        Predicate::Compare { op, left, right } => format!("{} {op:?} {}", grouped(left), grouped(right)),
        other => format!("{other:?}"),
    }
}
