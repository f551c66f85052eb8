//! Foreign keys as they are defined: what they refer to, and what that rules out.
//!
//! Source: "Create foreign key relationships" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/tables/create-foreign-key-relationships.md); the errors are those of
//! docs/relational-databases/errors-events/database-engine-events-and-errors-1000-to-1999.md.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::name::display_name;
use crate::bind::table_definition::generated_name;
use crate::bind::trigger::triggers_of;
use crate::catalog::principal::SecurableId;
use crate::error::{SqlError, SqlResult};
use crate::storage::{ForeignKey, Index, Latch, ObjectId, TableSchema, Uniqueness, fold};
use crate::tsql::ast::{ConstraintKind, Ident, ObjectName, TableConstraint};
use crate::value::SqlType;

/// The foreign keys among the constraints of a permanent table, which may be about to be made.
pub fn foreign_keys(
    binder: &mut Binder<'_>,
    schema: &TableSchema,
    constraints: &[TableConstraint],
) -> SqlResult<Vec<ForeignKey>> {
    let mut keys: Vec<ForeignKey> = Vec::new();
    for constraint in constraints {
        let ConstraintKind::ForeignKey { columns, table, referenced, cascades, cascades_updates } = &constraint.kind
        else {
            continue;
        };
        let name = match &constraint.name {
            Some(name) => Arc::clone(name),
            None => generated_name("FK", &schema.name, &columns[0]),
        };
        let partner = partner(binder, schema, table, &name)?;
        let columns = column_names(schema, columns, &name, 1769, "referencing")?;
        let primary_key = partner.indexes.iter().find(|index| index.uniqueness == Uniqueness::PrimaryKey);
        let referenced_columns = match primary_key.filter(|_| referenced.is_empty()) {
            Some(key) => key.key.iter().map(|key| Arc::clone(&partner.columns[key.column].name)).collect(),
            None => column_names(&partner, referenced, &name, 1770, "referenced")?,
        };
        if columns.len() != referenced_columns.len() {
            return Err(SqlError::not_supported(format!(
                "the foreign key '{name}' with fewer or more columns than it refers to"
            )));
        }
        let key = ForeignKey {
            name,
            columns,
            referenced: (partner.id != schema.id).then_some(partner.id),
            referenced_columns,
            cascades: *cascades,
            cascades_updates: *cascades_updates,
            not_trusted: false,
        };
        if !partner.indexes.iter().any(|index| serves(&partner, index, &key)) {
            return Err(SqlError::not_supported(format!("the foreign key '{}' to columns that are no key", key.name)));
        }
        check_columns(schema, &partner, &key)?;
        check_instead_of(binder, schema, &key)?;
        keys.push(key);
        check_cascades(binder.latch, schema, &keys)?;
    }
    Ok(keys)
}

/// Foreign keys are for permanent tables; a temporary table is made without them, as SQL Server does it.
pub fn refuse(constraints: &[TableConstraint]) -> SqlResult<()> {
    let has_one = constraints.iter().any(|constraint| matches!(constraint.kind, ConstraintKind::ForeignKey { .. }));
    if has_one {
        Err(SqlError::new(156, "Incorrect syntax near the keyword 'REFERENCES'.").severity(15))
    } else {
        Ok(())
    }
}

/// The table that is referred to, maybe the one that is about to be made; 1767.
fn partner(binder: &mut Binder<'_>, schema: &TableSchema, name: &ObjectName, key: &str) -> SqlResult<Arc<TableSchema>> {
    let found = binder.find_table(name)?;
    let is_itself = fold(&name.name) == fold(&schema.name)
        && name.schema.as_ref().is_none_or(|written| fold(written) == fold(&schema.schema));
    let partner = match found {
        Some(id) => {
            let partner = binder.table_handle(id)?.schema;
            check_references(binder, &partner)?;
            Some(partner)
        }
        None if is_itself => Some(Arc::new(schema.clone())),
        None => None,
    };
    partner.filter(|partner| !partner.name.starts_with('#')).ok_or_else(|| {
        SqlError::new(1767, format!("Foreign key '{key}' references invalid table '{}'.", display_name(name)))
    })
}

/// "The REFERENCES permission on a table is needed to create a FOREIGN KEY constraint that references that table"
/// ("Permissions", MicrosoftDocs/sql-docs, docs/relational-databases/security/permissions-database-engine.md); no page
/// has the error.
fn check_references(binder: &Binder<'_>, table: &TableSchema) -> SqlResult<()> {
    let catalog = binder.database.catalog.read();
    let Some(schema) = catalog.schema(&table.schema) else { return Ok(()) };
    let on = SecurableId::Object { id: table.id, schema: schema.id };
    if catalog.permits(binder.state.user, "REFERENCES", on)? {
        return Ok(());
    }
    let name = format!("{}.{}", table.schema, table.name);
    Err(SqlError::not_supported(format!("a foreign key to {name} without the permission REFERENCES on it")))
}

fn column_names(table: &TableSchema, names: &[Ident], key: &str, number: i32, role: &str) -> SqlResult<Vec<Arc<str>>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let Some(ordinal) = table.column_named(name) else {
            return Err(SqlError::new(
                number,
                format!("Foreign key '{key}' references invalid column '{name}' in {role} table '{}'.", table.name),
            ));
        };
        columns.push(Arc::clone(&table.columns[ordinal].name));
    }
    Ok(columns)
}

/// Whether an index makes the referenced columns unique.
pub fn serves(table: &TableSchema, index: &Index, key: &ForeignKey) -> bool {
    index.serves(table, &key.referenced_columns)
}

/// SQL Server has 1787 for some of these.
fn check_instead_of(binder: &Binder<'_>, schema: &TableSchema, key: &ForeignKey) -> SqlResult<()> {
    let triggers = triggers_of(&binder.database.catalog.read().objects().collect::<Vec<_>>(), schema.id);
    if !(key.cascades || key.cascades_updates) || !triggers.iter().any(|trigger| trigger.instead_of) {
        return Ok(());
    }
    Err(SqlError::not_supported("a foreign key that cascades on a table with an INSTEAD OF trigger"))
}

/// The columns must be of the same type.
fn check_columns(schema: &TableSchema, partner: &TableSchema, key: &ForeignKey) -> SqlResult<()> {
    for (name, referenced) in key.columns.iter().zip(&key.referenced_columns) {
        let (Some(column), Some(other)) = (schema.column_named(name), partner.column_named(referenced)) else {
            continue;
        };
        if schema.columns[column].computed.is_some() {
            return Err(SqlError::not_supported(format!("the computed column '{name}' in a foreign key")));
        }
        let (column, other) = (&schema.columns[column], &partner.columns[other]);
        if !is_same_type(column.sql_type, other.sql_type) {
            return Err(SqlError::not_supported(format!(
                "the foreign key '{}' between columns of two types",
                key.name
            )));
        }
        if column.sql_type.is_character() && column.collation != other.collation {
            return Err(SqlError::not_supported(format!("a foreign key between collations, '{}'", key.name)));
        }
    }
    Ok(())
}

/// The length of a text may differ, nothing else.
fn is_same_type(a: SqlType, b: SqlType) -> bool {
    let is_text = a.is_character() || a.is_binary();
    a == b || (is_text && std::mem::discriminant(&a) == std::mem::discriminant(&b))
}

/// 1785: a deleted or changed row may reach no table by two ways, nor its own.
fn check_cascades(latch: &Latch<'_>, schema: &TableSchema, keys: &[ForeignKey]) -> SqlResult<()> {
    // (parent, child) of every key that changes rows along; the table to be made has the number 0.
    let mut edges: Vec<(ObjectId, ObjectId)> = Vec::new();
    let mut add = |table: ObjectId, key: &ForeignKey| {
        if key.cascades || key.cascades_updates {
            edges.push((key.referenced.unwrap_or(table), table));
        }
    };
    for table in latch.tables() {
        table.foreign_keys.iter().for_each(|key| add(table.id, key));
    }
    keys.iter().for_each(|key| add(schema.id, key));
    for &(root, _) in &edges {
        let (mut reached, mut open) = (vec![root], vec![root]);
        while let Some(parent) = open.pop() {
            for (_, child) in edges.iter().filter(|(of, _)| *of == parent) {
                if reached.contains(child) {
                    return Err(SqlError::not_supported(
                        "cascades of foreign keys in a cycle or on several paths to a table",
                    ));
                }
                reached.push(*child);
                open.push(*child);
            }
        }
    }
    Ok(())
}
