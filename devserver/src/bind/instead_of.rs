//! Views whose changes an INSTEAD OF trigger takes over: the view's rows stand in the place of a table's.
//!
//! Source: "CREATE TRIGGER" and "Use the inserted and deleted Tables" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-trigger-transact-sql.md,
//! docs/relational-databases/triggers/use-the-inserted-and-deleted-tables.md): "The format of the inserted and deleted
//! tables passed to an INSTEAD OF trigger defined on a view matches the select list of the SELECT statement defined for
//! the view."

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::change_target::Target;
use crate::bind::name::{ResolvedTable, display_name};
use crate::bind::query_scope::{QueryScope, VisibleColumn};
use crate::bind::trigger::triggers_of;
use crate::catalog::object::View;
use crate::error::{SqlError, SqlResult};
use crate::plan::next_value_forbidden::ForbiddenPlace;
use crate::plan::query::{TableHandle, TableLocation};
use crate::plan::relation::Relation;
use crate::plan::scalar::{SlotSet, slot_bit};
use crate::storage::{Column, Lifetime, TableSchema, fold};
use crate::tsql::ast::{Ident, ObjectName, TableHint, TableSource, TargetName, TriggerEvent};
use crate::value::Value;

/// The tables of a FROM clause, under the names by which they are known there.
fn collect_tables<'a>(source: &'a TableSource, found: &mut Vec<(&'a TableSource, &'a ObjectName, &'a Ident)>) {
    match source {
        TableSource::Table { name, alias, .. } => found.push((source, name, alias.as_ref().unwrap_or(&name.name))),
        TableSource::Join { left, right, .. } | TableSource::Apply { left, right, .. } => {
            collect_tables(left, found);
            collect_tables(right, found);
        }
        _ => {}
    }
}

impl Binder<'_> {
    /// The view of a name, if it has an enabled INSTEAD OF trigger for the event.
    fn view_with_trigger(&mut self, name: &ObjectName, event: TriggerEvent) -> SqlResult<Option<Arc<View>>> {
        if self.find_cte(name)?.is_some() {
            return Ok(None);
        }
        let Ok(ResolvedTable::View(view)) = self.resolve_table(name) else { return Ok(None) };
        Ok(self.instead_of_events(&view).contains(&event).then_some(view))
    }

    fn instead_of_events(&self, view: &View) -> Vec<TriggerEvent> {
        let triggers = triggers_of(&self.database.catalog.read().objects().collect::<Vec<_>>(), view.id);
        let enabled = triggers.iter().filter(|trigger| trigger.instead_of && !trigger.disabled);
        enabled.flat_map(|trigger| trigger.events.iter().copied()).collect()
    }

    /// Notes that changes of the tables below a view that was bound just now are its triggers' affair.
    pub(super) fn note_instead_of(&mut self, view: &View) {
        let events = self.instead_of_events(view);
        if !events.is_empty() {
            let slots = self.scope().sources.last().map_or(0, |source| source.slots);
            self.taken_over.push((slots, events));
        }
    }

    /// Refuses what would pass over the trigger of a view on its way to a table: a change through another view, a CTE
    /// or a derived table over it.
    pub(super) fn check_not_taken_over(&self, slot: usize, event: TriggerEvent) -> SqlResult<()> {
        let is_meant =
            |(slots, events): &(SlotSet, Vec<TriggerEvent>)| slots & slot_bit(slot) != 0 && events.contains(&event);
        if self.taken_over.iter().any(is_meant) {
            return Err(SqlError::not_supported("a change through what stands over a view with an INSTEAD OF trigger"));
        }
        Ok(())
    }

    /// The target of an UPDATE or DELETE, if it is a view with an INSTEAD OF trigger. 414 and 415: it stands in a join.
    pub(super) fn bind_view_with_trigger(
        &mut self,
        name: &TargetName,
        hints: &[TableHint],
        from: &[TableSource],
        event: TriggerEvent,
    ) -> SqlResult<Option<Target>> {
        let TargetName::Table(written) = name else { return Ok(None) };
        let mut tables = Vec::new();
        for source in from {
            collect_tables(source, &mut tables);
        }
        let folded = fold(&written.name);
        let in_from =
            tables.iter().find(|(_, _, exposed)| fold(exposed) == folded).map(|(source, name, _)| (*source, *name));
        let view_name = in_from.map_or(written, |(_, name)| name);
        let Some(view) = self.view_with_trigger(view_name, event)? else { return Ok(None) };
        let own_source;
        let source = match in_from {
            None if from.is_empty() => {
                own_source = TableSource::Table { name: written.clone(), alias: None, hints: hints.to_vec() };
                &own_source
            }
            Some((source, _)) if from.len() == 1 && std::ptr::eq(source, &from[0]) => source,
            _ => {
                let (number, word) = match event {
                    TriggerEvent::Delete => (415, "DELETE"),
                    _ => (414, "UPDATE"),
                };
                return Err(SqlError::new(
                    number,
                    format!(
                        "{word} is not allowed because the statement updates view \"{}\" which participates in a join \
                         and has an INSTEAD OF {word} trigger.",
                        display_name(view_name)
                    ),
                ));
            }
        };
        let relation = self.without_next_value(ForbiddenPlace::Clause, |binder| binder.bind_source(source, false))?;
        let Relation::Derived { slot, .. } = relation else {
            return Err(SqlError::not_supported("a change of this view"));
        };
        let columns = self.scope().sources.last().expect("it was added just now").columns.clone();
        let schema = Arc::new(as_table(&view, &columns));
        let table = TableHandle { schema, place: TableLocation::Stored(view.id) };
        Ok(Some(Target { relation, slot, table, columns, may_repeat: false }))
    }

    /// The target of an INSERT, if it is a view with an INSTEAD OF trigger.
    pub(super) fn view_to_insert(
        &mut self,
        name: &TargetName,
        columns: Option<&[Ident]>,
    ) -> SqlResult<Option<TableHandle>> {
        let TargetName::Table(name) = name else { return Ok(None) };
        let Some(view) = self.view_with_trigger(name, TriggerEvent::Insert)? else { return Ok(None) };
        let schema = self.view_as_table(&view)?;
        let is_given = |column: &Column| {
            columns.is_none_or(|columns| columns.iter().any(|given| fold(given) == fold(&column.name)))
        };
        if schema.columns.iter().any(|column| !column.nullable && !is_given(column)) {
            return Err(SqlError::not_supported(
                "an INSERT into a view with an INSTEAD OF trigger that leaves out a column without NULL",
            ));
        }
        Ok(Some(TableHandle { schema: Arc::new(schema), place: TableLocation::Stored(view.id) }))
    }

    /// The columns of a view, as those of a table that does nothing to its rows.
    pub fn view_as_table(&mut self, view: &View) -> SqlResult<TableSchema> {
        let name = ObjectName {
            server: None,
            database: None,
            schema: Some(Arc::clone(&view.schema)),
            name: Arc::clone(&view.name),
        };
        let source = TableSource::Table { name, alias: None, hints: Vec::new() };
        let scopes = std::mem::replace(&mut self.scopes, vec![QueryScope::new()]);
        let ctes = std::mem::take(&mut self.ctes);
        let needs = self.needs.len();
        let bound = self.bind_source(&source, false);
        self.needs.truncate(needs);
        self.ctes = ctes;
        let own = std::mem::replace(&mut self.scopes, scopes);
        bound?;
        let columns = own.first().and_then(|scope| scope.sources.last()).map(|source| source.columns.clone());
        Ok(as_table(view, &columns.unwrap_or_default()))
    }
}

fn as_table(view: &View, columns: &[VisibleColumn]) -> TableSchema {
    let mut schema = TableSchema::new(&view.schema, &view.name, Lifetime::Permanent);
    schema.id = view.id;
    for column in columns {
        schema.columns.push(Column {
            name: Arc::clone(&column.name),
            sql_type: column.scalar.ty,
            nullable: column.scalar.nullable,
            collation: column.scalar.collation(),
            identity: None,
            default: None,
            computed: None,
            value_when_absent: Value::Null,
        });
    }
    schema
}
