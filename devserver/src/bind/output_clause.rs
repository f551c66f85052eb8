//! Binds OUTPUT clauses.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::block::Item;
use crate::bind::conversion::no_text_or_image;
use crate::bind::foreign_key::referring_keys;
use crate::bind::insert_target::count_mismatch;
use crate::bind::query_scope::{QueryScope, VisibleColumn, VisibleSource};
use crate::error::{SqlError, SqlResult};
use crate::plan::change::OutputPlan;
use crate::plan::query::OutputColumn;
use crate::plan::scalar::{Node, Scalar, SlotSet, slot_bit};
use crate::storage::Lifetime;
use crate::tsql::ast::{Output, SelectItem};
use crate::value::SqlType;

/// The same columns over another slot.
pub(crate) fn moved_columns(columns: &[VisibleColumn], from: usize, to: usize) -> Vec<VisibleColumn> {
    let mut moved = columns.to_vec();
    for column in &mut moved {
        let replaced = column.scalar.replace(&mut |scalar| match scalar.node {
            Node::Column { slot, ordinal } if slot == from => {
                Ok(Some(Scalar { node: Node::Column { slot: to, ordinal }, ..scalar.clone() }))
            }
            _ => Ok(None),
        });
        if let Node::Computed { slot, .. } = &mut column.scalar.node
            && *slot == from
        {
            *slot = to;
        }
        debug_assert!(replaced.is_ok(), "the replacement never fails");
    }
    moved
}

pub(crate) fn output_slots(outputs: &[OutputPlan], new_row: usize) -> Vec<usize> {
    let mut slots = 0;
    for scalar in outputs.iter().flat_map(|output| &output.items) {
        slots |= scalar.slots();
    }
    slots_of(slots, new_row)
}

pub(super) fn slots_of(set: SlotSet, new_row: usize) -> Vec<usize> {
    (0..64).filter(|&slot| slot != new_row && set & slot_bit(slot) != 0).collect()
}

/// "SELECT permissions are required on any columns retrieved" ("OUTPUT Clause", MicrosoftDocs/sql-docs,
/// docs/t-sql/queries/output-clause-transact-sql.md).
pub(super) fn reads_columns(outputs: &[OutputPlan]) -> bool {
    outputs.iter().flat_map(|output| &output.items).any(|item| item.slots() != 0)
}

impl Binder<'_> {
    /// `deleted` and `inserted`: the columns under those names. `beside`: the other tables of the statement.
    pub(crate) fn bind_outputs(
        &mut self,
        outputs: &[Output],
        deleted: Option<Vec<VisibleColumn>>,
        inserted: Option<Vec<VisibleColumn>>,
        beside: Vec<VisibleSource>,
    ) -> SqlResult<Vec<OutputPlan>> {
        let mut plans = Vec::with_capacity(outputs.len());
        for output in outputs {
            let mut scope = QueryScope::new();
            for (name, columns) in [("deleted", &deleted), ("inserted", &inserted)] {
                if let Some(columns) = columns {
                    scope.sources.push(VisibleSource {
                        name: name.into(),
                        schema: None,
                        columns: columns.clone(),
                        slots: 0,
                        updatable: false,
                    });
                }
            }
            scope.sources.extend(beside.iter().cloned());
            self.scopes.push(scope);
            let items = self.bind_output_items(&output.items);
            self.scopes.pop();
            let items = items?;
            for item in &items {
                no_text_or_image(item.scalar.ty, "an OUTPUT clause")?;
                let mut has_subquery = false;
                item.scalar.visit(&mut |node| has_subquery |= matches!(node, Node::Subquery(_)));
                if has_subquery {
                    return Err(SqlError::new(10705, "Subqueries are not allowed in the OUTPUT clause.").severity(15));
                }
            }
            let columns: Vec<OutputColumn> = items
                .iter()
                .map(|item| OutputColumn {
                    name: Arc::clone(&item.name),
                    ty: item.scalar.ty,
                    nullable: item.scalar.nullable,
                    shown_nullable: item.scalar.nullable,
                    origin: item.origin,
                    collation: item.scalar.collation(),
                })
                .collect();
            let into = match &output.into {
                Some(into) => {
                    let table = self.target_table(&into.target)?;
                    if table.schema.lifetime == Lifetime::Permanent {
                        self.need("INSERT", &Arc::clone(&table.schema));
                    }
                    if !table.schema.checks.is_empty() {
                        return Err(SqlError::not_supported(format!(
                            "OUTPUT INTO '{}', which has a CHECK",
                            table.schema.name
                        )));
                    }
                    if !table.schema.foreign_keys.is_empty() || !referring_keys(self.latch, &table.schema).is_empty() {
                        return Err(SqlError::not_supported(format!(
                            "OUTPUT INTO '{}', which has or serves a foreign key",
                            table.schema.name
                        )));
                    }
                    let named = (!into.columns.is_empty()).then_some(&into.columns[..]);
                    let target = self.insert_target(table, named)?;
                    if target.ordinals.len() != items.len() {
                        return Err(count_mismatch(items.len(), target.ordinals.len(), named.is_some()));
                    }
                    let types: Vec<(SqlType, bool)> = items
                        .iter()
                        .map(|item| {
                            (item.scalar.ty, item.scalar.as_constant().is_some_and(|constant| constant.is_null()))
                        })
                        .collect();
                    self.check_insertable(&target, &types)?;
                    Some(target)
                }
                None => None,
            };
            plans.push(OutputPlan::new(items.into_iter().map(|item| item.scalar).collect(), columns, into));
        }
        Ok(plans)
    }

    fn bind_output_items(&mut self, items: &[SelectItem]) -> SqlResult<Vec<Item>> {
        // Without a prefix, `*` and columns do not say whether they mean the old or the new row.
        for item in items {
            if matches!(item, SelectItem::Wildcard { table: None }) {
                return Err(SqlError::new(102, "Incorrect syntax near '*'.").severity(15));
            }
        }
        self.bind_items(items)
    }

    /// The tables of the FROM clause that are not the target.
    pub(super) fn sources_beside(&mut self, target: usize) -> Vec<VisibleSource> {
        let sources = &self.scope().sources;
        sources.iter().filter(|source| source.slots & slot_bit(target) == 0).cloned().collect()
    }
}
