//! Binds select lists.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::block::Item;
use crate::bind::query_scope::{VisibleColumn, names_source};
use crate::error::{SqlError, SqlResult};
use crate::plan::query::ColumnOrigin;
use crate::plan::scalar::Scalar;
use crate::storage::fold;
use crate::tsql::ast::{Expr, SelectItem};

impl Binder<'_> {
    pub fn bind_items(&mut self, items: &[SelectItem]) -> SqlResult<Vec<Item>> {
        let mut bound = Vec::with_capacity(items.len());
        for item in items {
            match item {
                SelectItem::Wildcard { table } => {
                    let scope = self.scopes.last().expect("the query's own scope");
                    let mut columns: Vec<VisibleColumn> = Vec::new();
                    let mut known = false;
                    for source in &scope.sources {
                        if table.as_ref().is_none_or(|table| names_source(table, source)) {
                            known = true;
                            columns.extend(source.columns.iter().cloned());
                        }
                    }
                    if !known {
                        return Err(SqlError::not_supported("* of a name that is not in FROM"));
                    }
                    for column in columns {
                        self.note_used(&column.scalar);
                        bound.push(Item {
                            name: column.name,
                            scalar: column.scalar,
                            origin: column.origin,
                            variable: None,
                        });
                    }
                }
                SelectItem::Expr { expr, alias } => {
                    let scalar = self.bind_expr(expr)?;
                    scalar.label.check_resolved()?;
                    let name = match (alias, expr) {
                        (Some(alias), _) => Arc::clone(alias),
                        (None, Expr::Column(column)) => Arc::clone(&column.name),
                        _ => "".into(),
                    };
                    let origin = match expr {
                        Expr::Column(column) => self.origin(&column.name, &scalar),
                        _ => ColumnOrigin::Computed,
                    };
                    bound.push(Item { name, scalar, origin, variable: None });
                }
                SelectItem::Assign { variable, op, value } => {
                    let (place, scalar) = self.bind_assignment(variable, *op, value)?;
                    bound.push(Item { name: "".into(), scalar, origin: ColumnOrigin::Computed, variable: Some(place) });
                }
            }
        }
        Ok(bound)
    }

    fn origin(&self, name: &str, scalar: &Scalar) -> ColumnOrigin {
        let (Some(place), Some(scope)) = (scalar.as_column(), self.scopes.last()) else {
            return ColumnOrigin::Computed;
        };
        let name = fold(name);
        let mut columns = scope.sources.iter().flat_map(|source| &source.columns);
        let column = columns.find(|column| column.scalar.as_column() == Some(place) && fold(&column.name) == name);
        column.map_or(ColumnOrigin::Computed, |column| column.origin)
    }
}
