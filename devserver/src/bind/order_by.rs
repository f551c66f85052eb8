//! Binds ORDER BY: of a SELECT, by expressions and by the names and positions of its columns; of a set operation, by
//! the latter only.

use crate::bind::binder::Binder;
use crate::bind::block::Item;
use crate::bind::conversion::no_text_or_image;
use crate::error::{SqlError, SqlResult};
use crate::plan::query::{OutputColumn, OutputSort, SortKey};
use crate::plan::scalar::Scalar;
use crate::storage::fold;
use crate::tsql::ast::{Expr, Literal, OrderItem};

fn bad_position() -> SqlError {
    SqlError::not_supported("ORDER BY a position beyond the select list")
}

/// ORDER BY of a set operation: by name or position of a result column.
pub(super) fn output_sort(order_by: &[OrderItem], columns: &[OutputColumn]) -> SqlResult<Vec<OutputSort>> {
    let mut sort = Vec::with_capacity(order_by.len());
    for item in order_by {
        let column = match &item.expr {
            Expr::Literal(Literal::Int(position)) => {
                let position = usize::try_from(*position).unwrap_or(0);
                if position == 0 || position > columns.len() {
                    return Err(bad_position());
                }
                position - 1
            }
            Expr::Column(column) if column.table.is_none() => {
                let name = fold(&column.name);
                match columns.iter().position(|column| fold(&column.name) == name) {
                    Some(position) => position,
                    None => return Err(SqlError::new(207, format!("Invalid column name '{}'.", column.name))),
                }
            }
            _ => return Err(SqlError::not_supported("ORDER BY an expression or a table's column after UNION")),
        };
        no_text_or_image(columns[column].ty, "ORDER BY")?;
        sort.push(OutputSort { column, descending: item.descending });
    }
    Ok(sort)
}

impl Binder<'_> {
    /// Whether an expression is a constant as it is written, and not because what a derived table has under a name, or
    /// what a function was given, is one. `scalar`: as it was bound.
    pub(super) fn is_written_constant(&mut self, expr: &Expr, scalar: &Scalar) -> bool {
        if scalar.as_constant().is_none() {
            return false;
        }
        let scopes = std::mem::take(&mut self.scopes);
        let alone = self.bind_expr(expr);
        self.scopes = scopes;
        alone.is_ok_and(|alone| alone.as_constant().is_some())
    }

    pub(super) fn bind_order_by(&mut self, order_by: &[OrderItem], items: &[Item]) -> SqlResult<Vec<SortKey>> {
        let mut sort: Vec<SortKey> = Vec::with_capacity(order_by.len());
        for item in order_by {
            let scalar = match &item.expr {
                Expr::Literal(Literal::Int(position)) => {
                    let position = usize::try_from(*position).unwrap_or(0);
                    match position.checked_sub(1).and_then(|position| items.get(position)) {
                        Some(item) => item.scalar.clone(),
                        None => return Err(bad_position()),
                    }
                }
                Expr::Literal(_) => return Err(SqlError::not_supported("ORDER BY a constant")),
                Expr::Negative(operand) if matches!(**operand, Expr::Literal(_)) => {
                    return Err(SqlError::not_supported("ORDER BY a number with a sign"));
                }
                Expr::Column(column) if column.table.is_none() => {
                    let name = fold(&column.name);
                    let mut named = items.iter().filter(|item| fold(&item.name) == name);
                    match (named.next(), named.next()) {
                        (Some(item), None) => item.scalar.clone(),
                        (Some(first), Some(second)) if first.scalar != second.scalar => {
                            return Err(SqlError::new(209, format!("Ambiguous column name '{}'.", column.name)));
                        }
                        (Some(item), Some(_)) => item.scalar.clone(),
                        (None, _) => self.bind_expr(&item.expr)?,
                    }
                }
                expr => {
                    let scalar = self.bind_expr(expr)?;
                    if self.is_written_constant(expr, &scalar) {
                        return Err(SqlError::not_supported("ORDER BY a constant"));
                    }
                    scalar
                }
            };
            scalar.label.check_resolved()?;
            no_text_or_image(scalar.ty, "ORDER BY")?;
            let repeated = sort.iter().any(|key| key.scalar == scalar && scalar.column_place().is_some());
            if repeated {
                return Err(SqlError::not_supported("a column twice in ORDER BY"));
            }
            sort.push(SortKey { scalar, descending: item.descending });
        }
        Ok(sort)
    }
}
