//! Binds FROM: every table, derived table, CTE and view becomes a [`Relation`] and a name to reach its columns by.
//!
//! What is merged over tables keeps their columns as its expressions, so that conditions reach the indexes below it and
//! an UPDATE can change rows through it.

use std::sync::Arc;

use crate::bind::aggregate::nested_aggregate;
use crate::bind::binder::Binder;
use crate::bind::conversion::no_text_or_image;
use crate::bind::name::ResolvedTable;
use crate::bind::query_scope::{Clause, QueryScope, VisibleColumn, VisibleSource};
use crate::error::{SqlError, SqlResult};
use crate::plan::cached_plan::Uses;
use crate::plan::collation_label::CollationLabel;
use crate::plan::query::{ColumnOrigin, QueryPlan, TableHandle, TableLocation};
use crate::plan::relation::{JoinRelation, Relation, TableRelation};
use crate::plan::scalar::{Node, Scalar, slot_bit};
use crate::plan::table_hints::{Access, TableHints};
use crate::storage::{Lifetime, fold};
use crate::tsql::ast::{Ident, JoinKind, ObjectName, Query, TableHint, TableSource};

impl Binder<'_> {
    /// Binds the whole FROM clause into the innermost scope.
    pub fn bind_from(&mut self, sources: &[TableSource]) -> SqlResult<Relation> {
        let mut relation: Option<Relation> = None;
        for source in sources {
            let next = self.bind_source(source, true)?;
            relation = Some(match relation {
                None => next,
                Some(left) => Relation::cross(left, next),
            });
        }
        Ok(relation.unwrap_or(Relation::Unit))
    }

    pub fn scope(&mut self) -> &mut QueryScope {
        self.scopes.last_mut().expect("FROM is bound within a query")
    }

    /// Adds a name to the innermost scope.
    pub(crate) fn add_source(&mut self, source: VisibleSource) -> SqlResult<()> {
        let scope = self.scope();
        let name = fold(&source.name);
        let taken = scope.sources.iter().any(|other| {
            fold(&other.name) == name
                && match (&other.schema, &source.schema) {
                    (Some(a), Some(b)) => fold(a) == fold(b),
                    _ => true,
                }
        });
        if taken {
            return Err(SqlError::not_supported(format!("the name '{}' for two sources in FROM", source.name)));
        }
        scope.sources.push(source);
        Ok(())
    }

    /// `inserted` and `deleted` of a trigger, which are declared among its variables.
    pub(super) fn logical_table(&self, name: &ObjectName) -> Option<Ident> {
        let is_plain = name.schema.is_none() && name.database.is_none() && !name.name.starts_with('@');
        if !is_plain {
            return None;
        }
        self.declarations.find(&name.name).map(|(_, variable)| Arc::clone(&variable.name))
    }

    /// `mergeable`: not on the side of an outer join that can become NULL.
    pub(super) fn bind_source(&mut self, source: &TableSource, mergeable: bool) -> SqlResult<Relation> {
        match source {
            TableSource::Table { name, alias, hints } => {
                if let Some(cte) = self.find_cte(name)? {
                    if !hints.is_empty() {
                        return Err(SqlError::not_supported("table hints on a CTE"));
                    }
                    return self.bind_cte(cte, alias.as_ref().unwrap_or(&name.name), mergeable);
                }
                if let Some(logical) = self.logical_table(name) {
                    let exposed = alias.clone().or_else(|| Some(Arc::clone(&name.name)));
                    return self.bind_source(&TableSource::Variable { name: logical, alias: exposed }, mergeable);
                }
                self.bind_table(name, alias.as_ref(), hints, mergeable)
            }
            TableSource::Variable { name, alias } => {
                self.uses = self.uses.max(Uses::OwnTables);
                let (place, variable) = self.declarations.table(name)?;
                let schema = variable.ty.template().expect("a table variable has a table").clone();
                let slot = self.new_slot()?;
                if !name.starts_with('@') {
                    schema
                        .columns
                        .iter()
                        .try_for_each(|column| no_text_or_image(column.sql_type, "a trigger's tables"))?;
                }
                let columns = self.visible_columns(&schema, slot)?;
                self.add_source(VisibleSource {
                    name: Arc::clone(alias.as_ref().unwrap_or(name)),
                    schema: None,
                    columns,
                    slots: slot_bit(slot),
                    updatable: true,
                })?;
                let table = TableHandle { schema, place: TableLocation::Variable(place) };
                Ok(Relation::Table(TableRelation { slot, table, hints: TableHints::default(), access: Access::Read }))
            }
            TableSource::Derived { query, alias, columns } => {
                // A derived table does not see the tables beside it.
                let beside = std::mem::take(&mut self.scope().sources);
                let bound = self.bind_query(query, false);
                self.scope().sources = beside;
                self.add_derived(bound?, alias, columns, mergeable)
            }
            TableSource::Values { rows, alias, columns } => self.bind_values(rows, alias, columns),
            TableSource::Function { name, arguments, alias, columns } => {
                self.bind_table_function(name, arguments, alias.as_ref(), columns)
            }
            TableSource::OpenJson { json, alias } => self.bind_open_json(json, alias.as_ref()),
            TableSource::Join { kind, loops, left, right, on } => {
                let scope = self.scope();
                let first = scope.sources.len();
                let left_mergeable = mergeable && *kind != JoinKind::Right;
                let right_mergeable = mergeable && *kind != JoinKind::Left;
                let left = self.bind_source(left, left_mergeable)?;
                let right = self.bind_source(right, right_mergeable)?;
                let mut conditions = Vec::new();
                if let Some(on) = on {
                    let visible_from = std::mem::replace(&mut self.scope().visible_from, first);
                    let bound = self.bind_condition(on);
                    self.scope().visible_from = visible_from;
                    bound?.into_conjuncts(&mut conditions);
                }
                Ok(Relation::Join(Box::new(JoinRelation { kind: *kind, loops: *loops, left, right, on: conditions })))
            }
            TableSource::Apply { outer, left, right } => {
                let left = self.bind_source(left, mergeable)?;
                let right = match &**right {
                    // Here the derived table does see what stands to its left.
                    TableSource::Derived { query, alias, columns } => {
                        let bound = self.bind_query(query, false)?;
                        self.add_derived(bound, alias, columns, mergeable && !*outer)?
                    }
                    other => self.bind_source(other, mergeable && !*outer)?,
                };
                // The right side is read for each row to its left.
                let kind = if *outer { JoinKind::Left } else { JoinKind::Cross };
                Ok(Relation::Join(Box::new(JoinRelation { kind, loops: *outer, left, right, on: Vec::new() })))
            }
        }
    }

    fn bind_table(
        &mut self,
        name: &ObjectName,
        alias: Option<&Ident>,
        hints: &[TableHint],
        mergeable: bool,
    ) -> SqlResult<Relation> {
        let exposed = Arc::clone(alias.unwrap_or(&name.name));
        match self.resolve_table(name)? {
            ResolvedTable::Table(table) => {
                if table.schema.lifetime == Lifetime::Permanent {
                    self.need("SELECT", &Arc::clone(&table.schema));
                }
                let slot = self.new_slot()?;
                let columns = self.visible_columns(&table.schema, slot)?;
                let schema = alias.is_none().then(|| Arc::clone(&table.schema.schema));
                self.add_source(VisibleSource {
                    name: exposed,
                    schema,
                    columns,
                    slots: slot_bit(slot),
                    updatable: true,
                })?;
                let hints = TableHints::of(&[&self.view_hints, hints].concat(), Access::Read)?;
                Ok(Relation::Table(TableRelation { slot, table, hints, access: Access::Read }))
            }
            ResolvedTable::View(view) => {
                let chooses = |hint: &TableHint| matches!(hint, TableHint::Index(_) | TableHint::ForceSeek(_));
                if hints.iter().any(chooses) {
                    return Err(SqlError::not_supported("hints on a view that choose an index"));
                }
                if self.view_depth == 32 {
                    return Err(SqlError::new(4429, "View or function contains a self-reference.").severity(16));
                }
                let scopes = std::mem::take(&mut self.scopes);
                let mut ctes = std::mem::replace(&mut self.ctes, view.select.ctes.clone());
                let outer_schema = std::mem::replace(&mut self.default_schema, Arc::clone(&view.schema));
                self.view_depth += 1;
                let outer_hints = self.view_hints.len();
                self.view_hints.extend_from_slice(hints);
                self.need_object("SELECT", view.id, &view.schema, &view.name);
                let bound = self.owned(&view.schema, |binder| binder.bind_query(&view.select.query, false));
                self.view_depth -= 1;
                self.view_hints.truncate(outer_hints);
                self.default_schema = outer_schema;
                std::mem::swap(&mut self.ctes, &mut ctes);
                self.scopes = scopes;
                let schema = alias.is_none().then(|| Arc::clone(&view.schema));
                let bound = bound?;
                Self::check_columns_as_made(name, &bound, &view.described)?;
                let relation = self.add_view(bound, schema, &exposed, &[], mergeable)?;
                let slots = self.scope().sources.last().map_or(0, |source| source.slots);
                self.views.push((slots, view));
                Ok(relation)
            }
            ResolvedTable::System(view) => {
                let slot = self.new_slot()?;
                self.system_slots |= slot_bit(slot);
                let columns: Vec<VisibleColumn> = view
                    .columns()
                    .iter()
                    .enumerate()
                    .filter(|(_, (name, _))| self.database.server.product.has_system_column(name))
                    .map(|(ordinal, &(name, ty))| VisibleColumn {
                        name: name.into(),
                        scalar: Scalar {
                            node: Node::Column { slot, ordinal },
                            ty,
                            nullable: true,
                            label: CollationLabel::Coercible,
                        },
                        origin: ColumnOrigin::Computed,
                    })
                    .collect();
                self.add_source(VisibleSource {
                    name: exposed,
                    schema: name.schema.clone(),
                    columns,
                    slots: slot_bit(slot),
                    updatable: false,
                })?;
                let is_unlocked = |hint: &TableHint| matches!(hint, TableHint::NoLock | TableHint::ReadUncommitted);
                let unlocked = self.view_hints.iter().chain(hints).any(is_unlocked);
                Ok(Relation::View { slot, view, unlocked })
            }
        }
    }

    /// A query in an expression: it sees everything around it.
    pub fn bind_subquery(&mut self, query: &Query) -> SqlResult<QueryPlan> {
        if self.without_subqueries {
            let message = "Subqueries are not allowed in this context. Only scalar expressions are allowed.";
            return Err(SqlError::new(1046, message).severity(15));
        }
        self.uses = self.uses.max(Uses::OwnTables);
        if self.scopes.last().is_some_and(|scope| scope.clause == Clause::InAggregate) {
            return Err(nested_aggregate());
        }
        let clause = self.set_clause(Clause::NoAggregates);
        let bound = self.bind_query(query, false);
        self.set_clause(clause);
        let plan = self.finish(bound?)?;
        Ok(plan)
    }
}
