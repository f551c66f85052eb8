//! Binds ORDER BY: of a SELECT, by expressions and by the names and positions of its columns; of a set operation, by
//! the latter only.

use crate::bind::binder::Binder;
use crate::bind::block::Item;
use crate::bind::conversion::no_text_or_image;
use crate::bind::name::display_name;
use crate::error::{SqlError, SqlResult};
use crate::plan::query::{OutputColumn, OutputSort, SortKey};
use crate::plan::scalar::Scalar;
use crate::storage::fold;
use crate::tsql::ast::{ColumnRef, Expr, Literal, OrderItem, QueryBody, SelectItem};

fn bad_position(position: usize) -> SqlError {
    SqlError::new(
        108,
        format!("The ORDER BY position number {position} is out of range of the number of items in the select list."),
    )
    .severity(15)
}

/// The place of a column in the select list of the first query, where it stands there as it is written, table and all:
/// "the column names or column aliases must be specified in the select list of the first (left-side) query"
/// ("ORDER BY clause", MicrosoftDocs/sql-docs, docs/t-sql/queries/select-order-by-clause-transact-sql.md).
fn place_in_first(body: &QueryBody, wanted: &ColumnRef) -> Option<usize> {
    let select = match body {
        QueryBody::Select(select) => select,
        QueryBody::SetOperation { left, .. } => return place_in_first(left, wanted),
    };
    let is_meant = |column: &ColumnRef| {
        let tables = column.table.as_ref().zip(wanted.table.as_ref());
        fold(&column.name) == fold(&wanted.name)
            && tables.is_some_and(|(a, b)| fold(&display_name(a)) == fold(&display_name(b)))
    };
    for (place, item) in select.items.iter().enumerate() {
        match item {
            SelectItem::Expr { expr: Expr::Column(column), alias: None } if is_meant(column) => return Some(place),
            SelectItem::Expr { .. } => {}
            SelectItem::Wildcard { .. } | SelectItem::Assign { .. } => return None,
        }
    }
    None
}

/// ORDER BY of a set operation: by name or position of a result column. `first`: the query on the left.
pub(super) fn output_sort(
    order_by: &[OrderItem],
    columns: &[OutputColumn],
    first: &QueryBody,
) -> SqlResult<Vec<OutputSort>> {
    let mut sort = Vec::with_capacity(order_by.len());
    for item in order_by {
        let column = match &item.expr {
            Expr::Literal(Literal::Int(position)) => {
                let position = usize::try_from(*position).unwrap_or(0);
                if position == 0 || position > columns.len() {
                    return Err(bad_position(position));
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
            other => {
                let place = match other {
                    Expr::Column(column) => place_in_first(first, column),
                    _ => None,
                };
                place.ok_or_else(|| {
                    SqlError::new(
                        104,
                        "ORDER BY items must appear in the select list if the statement contains a UNION, INTERSECT or \
                         EXCEPT operator.",
                    )
                    .severity(15)
                })?
            }
        };
        no_text_or_image(columns[column].ty, "ORDER BY")?;
        sort.push(OutputSort { column, descending: item.descending });
    }
    Ok(sort)
}

/// 408 (docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md).
fn constant_at(place: usize) -> SqlError {
    SqlError::new(408, format!("A constant expression was encountered in the ORDER BY list, position {}.", place + 1))
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
        for (place, item) in order_by.iter().enumerate() {
            let scalar = match &item.expr {
                Expr::Literal(Literal::Int(position)) => {
                    let position = usize::try_from(*position).unwrap_or(0);
                    match position.checked_sub(1).and_then(|position| items.get(position)) {
                        Some(item) => item.scalar.clone(),
                        None => return Err(bad_position(position)),
                    }
                }
                Expr::Literal(_) => return Err(constant_at(place)),
                Expr::Unary { operand, .. } if matches!(**operand, Expr::Literal(_)) => {
                    return Err(SqlError::not_supported("ORDER BY a number with a sign"));
                }
                Expr::Column(column) if column.table.is_none() => {
                    let name = fold(&column.name);
                    let mut named = items.iter().filter(|item| fold(&item.name) == name);
                    match (named.next(), named.next()) {
                        (Some(item), None) => item.scalar.clone(),
                        (Some(first), Some(second)) if !first.scalar.same_as(&second.scalar) => {
                            return Err(SqlError::new(209, format!("Ambiguous column name '{}'.", column.name)));
                        }
                        (Some(item), Some(_)) => item.scalar.clone(),
                        (None, _) => self.bind_expr(&item.expr)?,
                    }
                }
                expr => {
                    let scalar = self.bind_expr(expr)?;
                    if self.is_written_constant(expr, &scalar) {
                        return Err(constant_at(place));
                    }
                    scalar
                }
            };
            scalar.label.check_resolved()?;
            no_text_or_image(scalar.ty, "ORDER BY")?;
            let repeated = sort.iter().any(|key| key.scalar.same_as(&scalar) && scalar.column_place().is_some());
            if repeated {
                return Err(SqlError::new(
                    169,
                    "A column has been specified more than once in the order by list. Columns in the order by list \
                     must be unique.",
                )
                .severity(15));
            }
            sort.push(SortKey { scalar, descending: item.descending });
        }
        Ok(sort)
    }
}
