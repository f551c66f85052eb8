//! The table whose rows UPDATE and DELETE change: which of the tables in FROM it is, and what SET may name.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::name::{ResolvedTable, display_name};
use crate::bind::query_scope::{VisibleColumn, VisibleSource, names_source};
use crate::error::{SqlError, SqlResult};
use crate::plan::query::{Limit, Operator, TableHandle, TableLocation};
use crate::plan::relation::Relation;
use crate::plan::scalar::slot_bit;
use crate::plan::table_hints::{Access, TableHints};
use crate::storage::fold;
use crate::tsql::ast::{ColumnRef, Ident, IsolationLevel, ObjectName, TableHint, TableSource, TargetName};

/// The target of an UPDATE or DELETE in its FROM clause.
pub(super) struct Target {
    pub(super) relation: Relation,
    pub(super) slot: usize,
    pub(super) table: TableHandle,
    /// The columns by which the statement knows the target: the table's or the CTE's.
    pub(super) columns: Vec<VisibleColumn>,
    pub(super) may_repeat: bool,
}

/// The tables and table variables of a FROM clause that have an alias.
fn collect_aliased<'a>(source: &'a TableSource, found: &mut Vec<(&'a TableSource, &'a Ident)>) {
    match source {
        TableSource::Table { alias: Some(alias), .. } | TableSource::Variable { alias: Some(alias), .. } => {
            found.push((source, alias));
        }
        TableSource::Join { left, right, .. } | TableSource::Apply { left, right, .. } => {
            collect_aliased(left, found);
            collect_aliased(right, found);
        }
        _ => {}
    }
}

/// Whether a source is a table of the FROM clause with hints behind it.
fn has_own_hints(from: &[TableSource], source: &VisibleSource) -> bool {
    from.iter().any(|element| match element {
        TableSource::Table { name, alias, hints } => {
            !hints.is_empty() && fold(alias.as_ref().unwrap_or(&name.name)) == fold(&source.name)
        }
        TableSource::Join { left, right, .. } | TableSource::Apply { left, right, .. } => {
            has_own_hints(std::slice::from_ref(left), source) || has_own_hints(std::slice::from_ref(right), source)
        }
        _ => false,
    })
}

/// WHERE CURRENT OF, which stands alone.
pub(super) fn current_row(slot: usize, from: &[TableSource], limit: &Limit) -> SqlResult<Operator> {
    if !from.is_empty() || !limit.is_none() {
        return Err(SqlError::not_supported("WHERE CURRENT OF together with FROM or TOP"));
    }
    Ok(Operator::Current { slot })
}

pub(crate) fn read_only_table(name: &str) -> SqlError {
    SqlError::new(10700, format!("The table-valued parameter \"{name}\" is READONLY and cannot be modified."))
}

/// "You cannot directly modify the data in the tables" `inserted` and `deleted` of a trigger: 286. Source: "Use the
/// inserted and deleted tables" (MicrosoftDocs/sql-docs,
/// docs/relational-databases/triggers/use-the-inserted-and-deleted-tables.md); the error's text in
/// docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md.
pub(super) fn logical_table_changed() -> SqlError {
    SqlError::new(286, "The logical tables INSERTED and DELETED cannot be updated.")
}

pub(crate) fn assigned_twice(column: &str) -> SqlError {
    SqlError::not_supported(format!("assigning the column '{column}' twice"))
}

pub(crate) fn computed_column(name: &str) -> SqlError {
    SqlError::not_supported(format!("changing '{name}', which is a computed column"))
}

impl Binder<'_> {
    /// Finds the target of an UPDATE or DELETE among the tables of its FROM clause, or makes it one.
    pub(super) fn bind_target(
        &mut self,
        name: &TargetName,
        hints: &[TableHint],
        from: &[TableSource],
        columns_changed: &[&ColumnRef],
    ) -> SqlResult<Target> {
        let target_hints = TableHints::of_target(hints)?;
        let own_source;
        let (sources, position): (&[TableSource], Option<usize>) = if from.is_empty() {
            own_source = [match name {
                TargetName::Table(name) => TableSource::Table { name: name.clone(), alias: None, hints: Vec::new() },
                TargetName::Variable(name) => TableSource::Variable { name: Arc::clone(name), alias: None },
            }];
            (&own_source, Some(0))
        } else {
            (from, None)
        };
        // They are also those of all that the target's view or CTE reads.
        let in_from = position.is_none();
        if !in_from {
            self.view_hints.extend_from_slice(hints);
        }
        let bound = self.without_next_value(|binder| binder.bind_from(sources));
        self.view_hints.clear();
        let mut relation = bound?;
        let position = match position {
            Some(position) => position,
            None => match self.find_target_source(name, from)? {
                Some(position) => position,
                None => {
                    // The target stands beside the FROM clause: each of its rows meets each of FROM's. What derived
                    // tables, CTEs and views in there read of the same table is not the target.
                    let target = self.bind_from(&[match name {
                        TargetName::Table(name) => {
                            TableSource::Table { name: name.clone(), alias: None, hints: Vec::new() }
                        }
                        TargetName::Variable(name) => TableSource::Variable { name: Arc::clone(name), alias: None },
                    }])?;
                    relation = Relation::cross(target, relation);
                    self.scope().sources.len() - 1
                }
            },
        };
        let source = self.scope().sources[position].clone();
        let not_updatable = || SqlError::not_supported(format!("changes through '{}' of several tables", source.name));
        if !source.updatable {
            return Err(SqlError::not_supported(format!(
                "changing rows through '{}', which has DISTINCT, GROUP BY or a set operation",
                source.name
            )));
        }
        let slot = if columns_changed.is_empty() {
            let mut slots = Vec::new();
            relation.table_slots(&mut slots);
            slots.retain(|slot| source.slots & slot_bit(*slot) != 0);
            match slots[..] {
                [slot] => slot,
                _ => return Err(not_updatable()),
            }
        } else {
            let mut found: Option<usize> = None;
            for column in columns_changed {
                let (slot, _) = self.target_column(&source, column)?;
                if found.is_some_and(|found| found != slot) {
                    return Err(not_updatable());
                }
                found = Some(slot);
            }
            found.ok_or_else(not_updatable)?
        };
        let is_joined = relation.slot_list().len() > 1;
        if in_from {
            let mut slots = Vec::new();
            relation.table_slots(&mut slots);
            slots.retain(|other| *other != slot && source.slots & slot_bit(*other) != 0);
            for slot in slots {
                if let Some(beside) = relation.table_in(slot) {
                    beside.hints.add_of_target(&target_hints)?;
                }
            }
        }
        let Some(table) = relation.table_in(slot) else { return Err(not_updatable()) };
        table.access = Access::Change;
        table.hints.check_target_in_from(in_from && has_own_hints(from, &source))?;
        // "The … query optimizer ignores the READUNCOMMITTED and NOLOCK hints in the FROM clause that apply to the
        // target table."
        if table.hints.isolation == Some((IsolationLevel::ReadUncommitted, false)) {
            table.hints.isolation = None;
        }
        if in_from {
            table.hints.add_of_target(&target_hints)?;
        }
        let handle = table.table.clone();
        self.check_not_logical(&handle)?;
        if let TargetName::Variable(name) = name
            && self.declarations.table(name).is_ok_and(|(_, variable)| variable.read_only)
        {
            return Err(read_only_table(name));
        }
        Ok(Target { relation, slot, table: handle, columns: source.columns, may_repeat: is_joined })
    }

    /// 286 for `inserted` and `deleted`.
    pub(super) fn check_not_logical(&self, table: &TableHandle) -> SqlResult<()> {
        match table.place {
            TableLocation::Variable(place) if !self.declarations.get(place).name.starts_with('@') => {
                Err(logical_table_changed())
            }
            _ => Ok(()),
        }
    }

    /// The column of a table that is changed under a name of the target.
    pub(crate) fn target_column(&self, source: &VisibleSource, column: &ColumnRef) -> SqlResult<(usize, usize)> {
        if let Some(table) = &column.table
            && !names_source(table, source)
        {
            return Err(SqlError::new(
                4104,
                format!("The multi-part identifier \"{}.{}\" could not be bound.", display_name(table), column.name),
            ));
        }
        let name = fold(&column.name);
        match source.columns.iter().find(|column| fold(&column.name) == name) {
            Some(found) => match found.scalar.column_place() {
                Some(place) => Ok(place),
                None => Err(SqlError::not_supported(format!("changing what '{}' computes", source.name))),
            },
            None => Err(SqlError::new(207, format!("Invalid column name '{}'.", column.name))),
        }
    }

    /// The FROM element under an alias that is the target's table, where it is the only one. "If the object being
    /// updated is the same as the object in the FROM clause and there is only one reference to the object in the FROM
    /// clause, an object alias may or may not be specified" ("UPDATE", MicrosoftDocs/sql-docs,
    /// docs/t-sql/queries/update-transact-sql.md).
    fn find_aliased_target(&mut self, target: &TargetName, from: &[TableSource]) -> SqlResult<Option<usize>> {
        let mut aliased = Vec::new();
        for source in from {
            collect_aliased(source, &mut aliased);
        }
        let mut found = None;
        for (source, alias) in aliased {
            let is_target = match (target, source) {
                (TargetName::Table(target), TableSource::Table { name, .. }) => self.is_same_object(target, name)?,
                (TargetName::Variable(target), TableSource::Variable { name, .. }) => fold(target) == fold(name),
                _ => false,
            };
            if !is_target {
                continue;
            }
            let (TargetName::Table(ObjectName { name, .. }) | TargetName::Variable(name)) = target;
            if found.is_some() {
                return Err(SqlError::new(8154, format!("The table '{name}' is ambiguous.")));
            }
            let alias = fold(alias);
            found = self.scope().sources.iter().position(|source| fold(&source.name) == alias);
        }
        Ok(found)
    }

    fn is_same_object(&mut self, a: &ObjectName, b: &ObjectName) -> SqlResult<bool> {
        match (self.find_cte(a)?, self.find_cte(b)?) {
            (None, None) => {}
            (a, b) => return Ok(a == b),
        }
        Ok(match (self.resolve_table(a)?, self.resolve_table(b)?) {
            (ResolvedTable::Table(a), ResolvedTable::Table(b)) => a.place == b.place,
            (ResolvedTable::View(a), ResolvedTable::View(b)) => a.id == b.id,
            _ => false,
        })
    }

    /// Whether a name without schema means what stands in a schema.
    fn means_schema(&mut self, name: &ObjectName, schema: &str) -> SqlResult<bool> {
        let found = match self.resolve_table(name) {
            Ok(ResolvedTable::Table(table)) => Arc::clone(&table.schema.schema),
            Ok(ResolvedTable::View(view)) => Arc::clone(&view.schema),
            Ok(ResolvedTable::System(_)) | Err(_) => return Ok(false),
        };
        Ok(fold(&found) == fold(schema))
    }

    /// The FROM element that the target's name means: an alias, a table without alias, or else the table by its alias.
    fn find_target_source(&mut self, name: &TargetName, from: &[TableSource]) -> SqlResult<Option<usize>> {
        let (wanted, schema): (&str, Option<&Ident>) = match name {
            TargetName::Table(ObjectName { schema, name, .. }) => (name, schema.as_ref()),
            TargetName::Variable(name) => (name, None),
        };
        let folded = fold(wanted);
        let scope = self.scope();
        let mut matches = scope.sources.iter().enumerate().filter(|(_, source)| {
            fold(&source.name) == folded
                && match (schema, &source.schema) {
                    (Some(a), Some(b)) => fold(a) == fold(b),
                    (Some(_), None) => false,
                    (None, _) => true,
                }
        });
        match (matches.next(), matches.next()) {
            (Some((position, source)), None) => {
                // What has no alias is the table of its schema; a name alone may mean another one.
                let of_schema = source.schema.clone();
                if let (TargetName::Table(name), None, Some(of_schema)) = (name, schema, of_schema)
                    && !self.means_schema(name, &of_schema)?
                {
                    return Err(SqlError::not_supported(format!(
                        "the target {wanted} beside {of_schema}.{wanted} in FROM"
                    )));
                }
                Ok(Some(position))
            }
            (Some(_), Some(_)) => Err(SqlError::new(8154, format!("The table '{wanted}' is ambiguous."))),
            (None, _) => self.find_aliased_target(name, from),
        }
    }
}
