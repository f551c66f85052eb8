//! Gives queries and row lists in FROM a name and columns: derived tables, CTEs, views, functions, VALUES. A query
//! without DISTINCT, GROUP BY or a set operation is merged into the statement.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::block::{Block, BoundQuery};
use crate::bind::conversion::{column_types, implicit};
use crate::bind::name::display_name;
use crate::bind::query_scope::{VisibleColumn, VisibleSource};
use crate::error::{SqlError, SqlResult};
use crate::plan::collation_label::CollationLabel;
use crate::plan::query::{ColumnOrigin, OutputColumn};
use crate::plan::relation::{BlockRelation, Relation};
use crate::plan::scalar::{Node, Scalar, slot_bit};
use crate::storage::{Column, fold};
use crate::tsql::ast::{Expr, Ident, ObjectName};

/// Gives the columns the names written behind the alias.
pub(crate) fn rename(
    mut visible: Vec<VisibleColumn>,
    alias: &Ident,
    columns: &[Ident],
) -> SqlResult<Vec<VisibleColumn>> {
    if !columns.is_empty() {
        if columns.len() != visible.len() {
            return Err(SqlError::not_supported(format!("a list of fewer or more columns than '{alias}' has")));
        }
        for (column, name) in visible.iter_mut().zip(columns) {
            column.name = Arc::clone(name);
        }
    }
    for (position, column) in visible.iter().enumerate() {
        let name = fold(&column.name);
        if name.is_empty() || visible[..position].iter().any(|other| fold(&other.name) == name) {
            return Err(SqlError::not_supported(format!("columns of '{alias}' without a name, or two of one name")));
        }
    }
    Ok(visible)
}

impl Binder<'_> {
    /// Gives a bound query a name in the innermost scope.
    pub(super) fn add_derived(
        &mut self,
        bound: BoundQuery,
        alias: &Ident,
        columns: &[Ident],
        mergeable: bool,
    ) -> SqlResult<Relation> {
        self.add_view(bound, None, alias, columns, mergeable)
    }

    /// The same for a view, whose columns can be reached by `schema.view.column` too.
    pub(super) fn add_view(
        &mut self,
        bound: BoundQuery,
        schema: Option<Ident>,
        name: &Ident,
        columns: &[Ident],
        mergeable: bool,
    ) -> SqlResult<Relation> {
        match bound {
            BoundQuery::Block(block) if mergeable && block.is_mergeable() => {
                self.merge_block(*block, schema, name, columns)
            }
            bound => {
                let plan = self.finish(bound)?;
                let slot = self.new_slot()?;
                let columns = rename(Binder::output_columns(&plan.columns, slot), name, columns)?;
                let name = Arc::clone(name);
                let slots = slot_bit(slot);
                self.add_source(VisibleSource { name, schema, columns, slots, updatable: false })?;
                Ok(Relation::Derived { slot, query: Arc::new(plan) })
            }
        }
    }

    /// The columns of a view are those of its creation, whatever its `*` stands for today: other ones are refused.
    ///
    /// Source: "sp_refreshview" (MicrosoftDocs/sql-docs,
    /// docs/relational-databases/system-stored-procedures/sp-refreshview-transact-sql.md): "persistent metadata for a
    /// view can become outdated because of changes to the underlying objects".
    pub(super) fn check_columns_as_made(name: &ObjectName, bound: &BoundQuery, made: &[Column]) -> SqlResult<()> {
        let now: Vec<&Ident> = match bound {
            BoundQuery::Block(block) => block.items.iter().map(|item| &item.name).collect(),
            BoundQuery::Plan(plan) => plan.columns.iter().map(|column| &column.name).collect(),
        };
        let is_same = |(now, made): (&&Ident, &Column)| fold(now) == fold(&made.name);
        if now.len() != made.len() || !now.iter().zip(made).all(is_same) {
            return Err(SqlError::not_supported(format!(
                "the view {}, whose SELECT * has other columns than when it was made",
                display_name(name)
            )));
        }
        Ok(())
    }

    /// Makes the columns of a query's result visible in the innermost scope, and gives the slot they stand in.
    /// `query`: what messages call the query whose columns get the names of `list`.
    pub(crate) fn add_result(
        &mut self,
        columns: &[OutputColumn],
        query: &Ident,
        list: &[Ident],
        alias: &Ident,
    ) -> SqlResult<usize> {
        let slot = self.new_slot()?;
        let columns = rename(Binder::output_columns(columns, slot), query, list)?;
        self.add_visible(alias, columns, slot)?;
        Ok(slot)
    }

    /// Makes columns that no statement can change visible under a name.
    pub(crate) fn add_visible(&mut self, alias: &Ident, columns: Vec<VisibleColumn>, slot: usize) -> SqlResult<()> {
        self.add_source(VisibleSource {
            name: Arc::clone(alias),
            schema: None,
            columns,
            slots: slot_bit(slot),
            updatable: false,
        })
    }

    fn merge_block(
        &mut self,
        block: Block,
        schema: Option<Ident>,
        alias: &Ident,
        columns: &[Ident],
    ) -> SqlResult<Relation> {
        let mut visible = Vec::with_capacity(block.items.len());
        for item in &block.items {
            visible.push(VisibleColumn {
                name: Arc::clone(&item.name),
                scalar: item.scalar.clone(),
                origin: item.origin,
            });
        }
        let visible = rename(visible, alias, columns)?;
        let window = block.windows;
        let relation = if block.conditions.is_empty() && window.is_none() && block.limit.is_none() {
            block.relation
        } else {
            Relation::Block(Box::new(BlockRelation {
                input: block.relation,
                conditions: block.conditions,
                window,
                sort: block.sort,
                limit: block.limit,
            }))
        };
        self.add_source(VisibleSource {
            name: Arc::clone(alias),
            schema,
            columns: visible,
            slots: relation.slots(),
            updatable: true,
        })?;
        Ok(relation)
    }

    pub(super) fn bind_values(&mut self, rows: &[Vec<Expr>], alias: &Ident, columns: &[Ident]) -> SqlResult<Relation> {
        let width = rows.first().map_or(0, Vec::len);
        let mut bound: Vec<Vec<Scalar>> = Vec::with_capacity(rows.len());
        for row in rows {
            let mut values = Vec::with_capacity(width);
            for expr in row {
                values.push(self.bind_expr(expr)?);
            }
            bound.push(values);
        }
        let types = column_types(&bound, width)?;
        let slot = self.new_slot()?;
        let mut visible = Vec::with_capacity(width);
        for (ordinal, ty) in types.iter().enumerate() {
            let nullable = bound.iter().any(|row| row[ordinal].nullable);
            visible.push(VisibleColumn {
                name: "".into(),
                scalar: Scalar {
                    node: Node::Column { slot, ordinal },
                    ty: *ty,
                    nullable,
                    label: CollationLabel::Coercible,
                },
                origin: ColumnOrigin::Computed,
            });
        }
        self.add_visible(alias, rename(visible, alias, columns)?, slot)?;
        let mut rows = Vec::with_capacity(bound.len());
        for row in bound {
            let mut values = Vec::with_capacity(width);
            for (value, ty) in row.into_iter().zip(&types) {
                values.push(implicit(value, *ty)?);
            }
            rows.push(values);
        }
        Ok(Relation::Values { slot, rows })
    }
}
