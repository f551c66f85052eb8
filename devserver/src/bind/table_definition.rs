//! From the parentheses of CREATE TABLE, CREATE TYPE and DECLARE @t TABLE to a [`TableSchema`].

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::conversion::implicit;
use crate::bind::index_definition::{index_options, inline_index, key_columns};
use crate::bind::query_scope::{QueryScope, VisibleSource};
use crate::bind::type_name::type_not_found_at;
use crate::error::{SqlError, SqlResult};
use crate::plan::scalar::{Node, slot_bit};
use crate::storage::{
    CLUSTERED, Check, Column, FIRST_NONCLUSTERED, Index, Lifetime, NamedText, TableSchema, Uniqueness, fold,
};
use crate::tsql::ast::{ColumnDefinition, ColumnKind, ConstraintKind, TableConstraint, TableDefinition, TypeName};
use crate::tsql::{parse_expression, parse_predicate};
use crate::value::{Collation, SqlType, Value};

/// A constraint's name if none was written: recognisable, and different for each.
pub fn generated_name(prefix: &str, table: &str, column: &str) -> Arc<str> {
    // SQL Server takes a few letters of each and appends eight hexadecimal digits.
    let hash = format!("{prefix}{table}{column}")
        .bytes()
        .fold(0x811C_9DC5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let table: String = table.chars().take(9).collect();
    let column: String = column.chars().take(8).collect();
    if column.is_empty() {
        format!("{prefix}__{table}__{hash:08X}").into()
    } else {
        format!("{prefix}__{table}__{column}__{hash:08X}").into()
    }
}

/// The schema of a table, with its indexes in order and numbered.
pub fn template(
    binder: &mut Binder<'_>,
    name: &str,
    schema_name: &str,
    definition: &TableDefinition,
) -> SqlResult<TableSchema> {
    let mut schema = TableSchema::new(schema_name, name, Lifetime::Variable);
    for (position, column) in definition.columns.iter().enumerate() {
        if definition.columns[..position].iter().any(|other| fold(&other.name) == fold(&column.name)) {
            return Err(SqlError::new(
                2705,
                format!(
                    "Column names in each table must be unique. Column name '{}' in table '{name}' is specified more \
                     than once.",
                    column.name
                ),
            )
            .state(3));
        }
        let mut column = bind_column(binder, &schema, column, position + 1)?;
        if let Some(text) = column.computed.clone() {
            set_computed(binder, &schema, &mut column, &text)?;
        }
        schema.columns.push(column);
    }
    if schema.columns.iter().filter(|column| column.identity.is_some()).count() > 1 {
        return Err(SqlError::not_supported("several identity columns"));
    }
    let is_primary =
        |constraint: &&TableConstraint| matches!(constraint.kind, ConstraintKind::Key { primary: true, .. });
    if definition.constraints.iter().filter(is_primary).count() > 1 {
        return Err(SqlError::new(8110, format!("Cannot add multiple PRIMARY KEY constraints to table '{name}'.")));
    }
    add_constraints(&mut schema, &definition.columns, &definition.constraints).map_err(constraint_failed)?;
    for index in &definition.indexes {
        let index = inline_index(&schema, index)?;
        schema.indexes.push(index);
    }
    schema.indexes.sort_by_key(|index| !index.is_clustered());
    let mut next = FIRST_NONCLUSTERED;
    for index in &mut schema.indexes {
        if !index.is_clustered() {
            index.id = next;
            next += 1;
        }
    }
    check_checks(binder, &schema).map_err(constraint_failed)?;
    check_column_checks(binder, &schema, &definition.constraints).map_err(constraint_failed)?;
    Ok(schema)
}

/// The type that a name means for a column of a table.
pub fn column_type(binder: &Binder<'_>, name: &TypeName, place: usize) -> SqlResult<SqlType> {
    binder.resolve_type(name).map_err(
        |error| {
            if error.number == 2715 { type_not_found_at(place, &name.name) } else { error }
        },
    )
}

/// One column, the `place`-th of its statement; the type of a computed one is still to be found.
pub fn bind_column(
    binder: &mut Binder<'_>,
    schema: &TableSchema,
    column: &ColumnDefinition,
    place: usize,
) -> SqlResult<Column> {
    let (sql_type, computed) = match &column.kind {
        ColumnKind::Typed(name) => (column_type(binder, name, place)?, None),
        ColumnKind::Computed { text, .. } => (SqlType::Int, Some(Arc::clone(text))),
    };
    let collation = match &column.collation {
        Some(collation) => binder.collation(collation)?,
        None => Collation::default(),
    };
    let is_padded = (sql_type.is_character() && !sql_type.is_unicode()) || sql_type.is_binary();
    if is_padded && !binder.state.options.ansi_padding && sql_type != SqlType::RowVersion {
        return Err(SqlError::not_supported(
            "columns of char, varchar, binary and varbinary made under ANSI_PADDING OFF",
        ));
    }
    let identity = column.identity;
    if identity.is_some() {
        let is_integral = sql_type.is_integer() || matches!(sql_type, SqlType::Decimal { scale: 0, .. });
        if !is_integral {
            return Err(SqlError::not_supported(format!("the type of the identity column '{}'", column.name)));
        }
        if column.nullable == Some(true) {
            return Err(SqlError::not_supported(format!("the nullable identity column '{}'", column.name)));
        }
    }
    if column.default.is_some() {
        check_takes_default(identity.is_some(), sql_type)?;
    }
    if column.is_sparse {
        check_is_sparse(column, sql_type)?;
    }
    let nullable = column.nullable.unwrap_or(identity.is_none() && sql_type != SqlType::RowVersion);
    let default = match &column.default {
        Some(default) => {
            let scalar = binder.owned(&schema.schema, |binder| binder.bind_default(&default.expr))?;
            implicit(scalar, sql_type)?;
            let name = match &default.constraint {
                Some(name) => Arc::clone(name),
                None => generated_name("DF", &schema.name, &column.name),
            };
            Some(NamedText { name, text: Arc::clone(&default.text) })
        }
        None => None,
    };
    Ok(Column {
        name: Arc::clone(&column.name),
        sql_type,
        nullable,
        is_sparse: column.is_sparse,
        collation,
        identity,
        default,
        computed,
        value_when_absent: Value::Null,
    })
}

/// What keeps a constraint or its index from being made is followed by 1750, "See previous errors".
///
/// Source: docs/relational-databases/errors-events/database-engine-events-and-errors-1000-to-1999.md
/// (MicrosoftDocs/sql-docs).
pub fn constraint_failed(error: SqlError) -> SqlError {
    match error.number {
        1505 | 1711 | 1767 | 1769 | 1770 | 1781 | 1784 | 1787 | 1902 | 1911 | 1913 | 2714 | 8111 => {
            SqlError::new(1750, "Could not create constraint or index. See previous errors.").because([error])
        }
        _ => error,
    }
}

/// Columns that always get a value of their own take no default.
fn check_takes_default(is_identity: bool, ty: SqlType) -> SqlResult<()> {
    if is_identity || ty == SqlType::RowVersion {
        return Err(SqlError::not_supported("a default of an identity or rowversion column"));
    }
    Ok(())
}

/// Source: "Use sparse columns" (MicrosoftDocs/sql-docs, docs/relational-databases/tables/use-sparse-columns.md).
fn check_is_sparse(column: &ColumnDefinition, ty: SqlType) -> SqlResult<()> {
    let has_no_null = column.nullable == Some(false) || column.default.is_some() || column.identity.is_some();
    if has_no_null || ty == SqlType::RowVersion || ty.is_text_or_image() {
        return Err(SqlError::not_supported(format!("the sparse column '{}'", column.name)));
    }
    Ok(())
}

pub(super) fn table_scope(schema: &TableSchema, slot: usize) -> QueryScope {
    let mut scope = QueryScope::new();
    scope.sources.push(VisibleSource {
        name: Arc::clone(&schema.name),
        schema: None,
        columns: Binder::table_columns(schema, slot),
        slots: slot_bit(slot),
        updatable: false,
    });
    scope
}

/// What a computed column has of its expression: type, collation, and whether it can be NULL. "An expression that is
/// nullable can be turned into a nonnullable one by specifying ISNULL with the check_expression constant, where the
/// constant is a nonnull value" ("CREATE TABLE", MicrosoftDocs/sql-docs,
/// docs/t-sql/statements/create-table-transact-sql.md).
pub fn set_computed(binder: &mut Binder<'_>, schema: &TableSchema, column: &mut Column, text: &str) -> SqlResult<()> {
    let slot = binder.new_slot()?;
    binder.scopes.push(table_scope(schema, slot));
    let scalar = parse_expression(text).and_then(|expr| {
        binder.without_next_value(|binder| {
            binder.owned(&schema.schema, |binder| binder.forbidding_subqueries(|binder| binder.bind_expr(&expr)))
        })
    });
    binder.scopes.pop();
    let scalar = scalar?;
    if scalar.ty == SqlType::Variant || scalar.ty.is_text_or_image() {
        return Err(SqlError::not_supported(format!("a computed column of the type {}", scalar.ty)));
    }
    let mut computed = None;
    scalar.visit(&mut |node| {
        if let Node::Column { ordinal, .. } = node {
            computed = computed.or(schema.columns.get(*ordinal).filter(|column| column.computed.is_some()));
        }
    });
    if let Some(computed) = computed {
        return Err(SqlError::not_supported(format!("the computed column '{}' in a computed column", computed.name)));
    }
    if let Node::Function(call) = &scalar.node
        && call.function.name == "ISNULL"
        && call.arguments.get(1).and_then(|given| given.as_constant()).is_some_and(|constant| !constant.is_null())
    {
        column.nullable = false;
    }
    (column.sql_type, column.collation) = (scalar.ty, scalar.collation());
    Ok(())
}

/// CHECKs must bind.
pub fn check_checks(binder: &mut Binder<'_>, schema: &TableSchema) -> SqlResult<()> {
    if schema.checks.is_empty() {
        return Ok(());
    }
    let slot = binder.new_slot()?;
    for check in &schema.checks {
        binder.scopes.push(table_scope(schema, slot));
        let bound = parse_predicate(&check.text).and_then(|predicate| {
            binder.without_next_value(|binder| {
                binder.owned(&schema.schema, |binder| {
                    binder.forbidding_subqueries(|binder| binder.bind_check(&predicate))
                })
            })
        });
        binder.scopes.pop();
        let mut not_persisted = None;
        bound?.visit(&mut |node| {
            if let Node::Column { slot: of, ordinal } = node
                && *of == slot
            {
                let column = schema.columns.get(*ordinal);
                not_persisted = not_persisted.or(column.filter(|column| column.computed.is_some()));
            }
        });
        if let Some(column) = not_persisted {
            return Err(SqlError::not_supported(format!("the computed column '{}' in a CHECK", column.name)));
        }
    }
    Ok(())
}

/// The CHECK of a column names that column only: 8141 in SQL Server.
fn check_column_checks(
    binder: &mut Binder<'_>,
    schema: &TableSchema,
    constraints: &[TableConstraint],
) -> SqlResult<()> {
    for constraint in constraints {
        let ConstraintKind::Check { condition, column: Some(name), .. } = &constraint.kind else { continue };
        let slot = binder.new_slot()?;
        binder.scopes.push(table_scope(schema, slot));
        let bound = binder.bind_condition(condition);
        binder.scopes.pop();
        let own = schema.column_named(name);
        let mut names_another = false;
        bound?.visit(&mut |node| {
            names_another |= matches!(node, Node::Column { ordinal, .. } if Some(*ordinal) != own);
        });
        if names_another {
            return Err(SqlError::not_supported(format!("another column in the CHECK of the column '{name}'")));
        }
    }
    Ok(())
}

/// Adds keys, checks and defaults to a table.
pub fn add_constraints(
    schema: &mut TableSchema,
    definitions: &[ColumnDefinition],
    constraints: &[TableConstraint],
) -> SqlResult<()> {
    let mut has_clustered = schema.clustered().is_some()
        || constraints
            .iter()
            .any(|constraint| matches!(&constraint.kind, ConstraintKind::Key { clustered: Some(true), .. }));
    for constraint in constraints {
        match &constraint.kind {
            ConstraintKind::Key { primary, clustered, columns, options } => {
                let key = key_columns(schema, columns, false)?;
                let is_clustered = match clustered {
                    Some(clustered) => *clustered,
                    // A primary key is clustered unless something else is.
                    None => *primary && !has_clustered,
                };
                has_clustered |= is_clustered;
                if *primary {
                    if schema.indexes.iter().any(|index| index.uniqueness == Uniqueness::PrimaryKey) {
                        return Err(SqlError::not_supported("a second primary key"));
                    }
                    for column in &key {
                        let definition = definitions.get(column.column);
                        let computed = &schema.columns[column.column];
                        if computed.computed.is_some() {
                            return Err(SqlError::not_supported("a PRIMARY KEY of a computed column"));
                        }
                        let explicitly_null = definition.is_some_and(|definition| definition.nullable == Some(true));
                        if explicitly_null {
                            return Err(SqlError::not_supported("a PRIMARY KEY of a nullable column"));
                        }
                        schema.columns[column.column].nullable = false;
                    }
                }
                let name = match &constraint.name {
                    Some(name) => Arc::clone(name),
                    None => generated_name(if *primary { "PK" } else { "UQ" }, &schema.name, &columns[0].name),
                };
                let uniqueness = if *primary { Uniqueness::PrimaryKey } else { Uniqueness::UniqueConstraint };
                let options = index_options(options)?;
                let id = if is_clustered { CLUSTERED } else { 0 };
                schema.indexes.push(Index { id, name, key, uniqueness, included: Vec::new(), filter: None, options });
            }
            ConstraintKind::Check { text, .. } => {
                let name = match &constraint.name {
                    Some(name) => Arc::clone(name),
                    None => generated_name("CK", &schema.name, &schema.checks.len().to_string()),
                };
                schema.checks.push(Check { name, text: Arc::clone(text), not_trusted: false });
            }
            // See `foreign_key_ddl`.
            ConstraintKind::ForeignKey { .. } => {}
            ConstraintKind::Default { text, column, .. } => {
                let Some(ordinal) = schema.column_named(column) else {
                    return Err(SqlError::not_supported(format!(
                        "a default of the column '{column}', which is not there"
                    )));
                };
                let given = &schema.columns[ordinal];
                check_takes_default(given.identity.is_some(), given.sql_type)?;
                if schema.columns[ordinal].default.is_some() {
                    return Err(SqlError::new(1781, "Column already has a DEFAULT bound to it."));
                }
                let name = match &constraint.name {
                    Some(name) => Arc::clone(name),
                    None => generated_name("DF", &schema.name, column),
                };
                schema.columns[ordinal].default = Some(NamedText { name, text: Arc::clone(text) });
            }
        }
    }
    Ok(())
}
