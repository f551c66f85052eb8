//! Tables, views, their columns, and all objects.

use std::sync::Arc;

use crate::catalog::catalog::SYS_SCHEMA_ID;
use crate::catalog::constraint::{constraint_id, constraints};
use crate::catalog::normal_form::shown_expression;
use crate::catalog::object::{Object, Procedure, View};
use crate::catalog::system_type::type_number;
use crate::catalog::view::column_types::{
    BIT, CODE, ColumnDescription, INT, NAME, TEXT, TINY, WHEN, WORD, bit, date, object_columns, text,
};
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::storage::{Column, ObjectId, TableSchema};
use crate::tsql::ast::LockEscalation;
use crate::value::{SqlType, Value};

pub(crate) static VIEWS: &[CatalogView] = &[
    CatalogView { schema: "sys", name: "objects", columns: object_columns!(), rows: objects },
    CatalogView { schema: "sys", name: "all_objects", columns: object_columns!(), rows: objects },
    CatalogView {
        schema: "sys",
        name: "tables",
        columns: object_columns!(
            ("lock_escalation", TINY),
            ("lock_escalation_desc", WORD),
            ("is_memory_optimized", BIT),
            ("temporal_type", TINY),
            ("history_table_id", INT),
        ),
        rows: tables,
    },
    CatalogView { schema: "sys", name: "columns", columns: COLUMN_COLUMNS, rows: columns },
    CatalogView { schema: "sys", name: "all_columns", columns: COLUMN_COLUMNS, rows: columns },
    CatalogView {
        schema: "sys",
        name: "computed_columns",
        columns: &[
            ("object_id", INT),
            ("name", NAME),
            ("column_id", INT),
            ("system_type_id", TINY),
            ("user_type_id", INT),
            ("is_nullable", BIT),
            ("is_computed", BIT),
            ("definition", TEXT),
            ("is_persisted", BIT),
        ],
        rows: computed_columns,
    },
    CatalogView {
        schema: "sys",
        name: "security_predicates",
        columns: &[("object_id", INT), ("target_object_id", INT), ("operation", INT)],
        // There are no security policies.
        rows: |_| Vec::new(),
    },
    CatalogView {
        schema: "sys",
        name: "extended_properties",
        columns: &[
            ("class", TINY),
            ("class_desc", WORD),
            ("major_id", INT),
            ("minor_id", INT),
            ("name", NAME),
            ("value", SqlType::Variant),
        ],
        // Nobody can add one.
        rows: |_| Vec::new(),
    },
    CatalogView {
        schema: "sys",
        name: "sysobjects",
        columns: &[("name", NAME), ("id", INT), ("xtype", CODE), ("uid", SqlType::SmallInt), ("type", CODE)],
        rows: sysobjects,
    },
];

pub(crate) const COLUMN_COLUMNS: &[ColumnDescription] = &[
    ("object_id", INT),
    ("name", NAME),
    ("column_id", INT),
    ("system_type_id", TINY),
    ("user_type_id", INT),
    ("max_length", SqlType::SmallInt),
    ("precision", TINY),
    ("scale", TINY),
    ("collation_name", NAME),
    ("is_nullable", BIT),
    ("is_ansi_padded", BIT),
    ("is_identity", BIT),
    ("is_computed", BIT),
    ("is_filestream", BIT),
    ("is_xml_document", BIT),
    ("xml_collection_id", INT),
    ("default_object_id", INT),
    ("rule_object_id", INT),
    ("is_sparse", BIT),
    ("is_column_set", BIT),
    ("generated_always_type", TINY),
    ("generated_always_type_desc", WORD),
    ("encryption_type", INT),
    ("is_hidden", BIT),
    ("is_masked", BIT),
];

// Objects

/// The columns of sys.objects.
pub(crate) fn object_row(
    name: &str,
    (id, parent): (ObjectId, ObjectId),
    schema: Value,
    (code, description): (&str, &str),
    (created, modified): (Value, Value),
) -> Vec<Value> {
    vec![
        text(name),
        Value::Int(id),
        Value::Null,
        schema,
        Value::Int(parent),
        text(code),
        text(description),
        created,
        modified,
        bit(false),
        bit(false),
        bit(false),
    ]
}

fn table_row(facts: &Facts<'_>, table: &TableSchema) -> Vec<Value> {
    object_row(&table.name, (table.id, 0), facts.schema_id(&table.schema), ("U ", "USER_TABLE"), facts.dates(table.id))
}

/// The rows of sys.objects for what stands in the catalog.
pub(crate) fn catalog_row(facts: &Facts<'_>, object: &Object) -> Vec<Value> {
    let modules = |procedure: &Procedure| (date(procedure.created_at), date(procedure.modified_at));
    let (kind, dates, parent) = match object {
        Object::Procedure(procedure) => (("P ", "SQL_STORED_PROCEDURE"), modules(procedure), 0),
        Object::View(view) => (("V ", "VIEW"), (date(view.created_at), date(view.created_at)), 0),
        Object::Trigger(trigger) => (("TR", "SQL_TRIGGER"), modules(&trigger.procedure), trigger.table),
        Object::Function(function) => {
            (("FN", "SQL_SCALAR_FUNCTION"), (date(function.created_at), date(function.modified_at)), 0)
        }
        Object::Sequence(_) => (("SO", "SEQUENCE_OBJECT"), (Value::Null, Value::Null), 0),
    };
    object_row(object.name(), (object.id(), parent), facts.schema_id(object.schema()), kind, dates)
}

fn objects(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        rows.push(table_row(facts, table));
        for constraint in constraints(table) {
            rows.push(object_row(
                constraint.name,
                (constraint.id, table.id),
                facts.schema_id(&table.schema),
                (constraint.code, constraint.description),
                facts.dates(table.id),
            ));
        }
    }
    for user_type in facts.catalog.user_types() {
        let object = user_type.object;
        let name = format!("TT_{}_{object:08X}", user_type.name);
        let dates = (Value::Null, Value::Null);
        rows.push(object_row(&name, (object, 0), Value::Int(SYS_SCHEMA_ID), ("TT", "TYPE_TABLE"), dates));
    }
    rows.extend(facts.catalog.objects().map(|object| catalog_row(facts, object)));
    rows
}

fn tables(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let rows = facts.tables.iter().map(|table| {
        let (escalation, escalation_name) = match table.lock_escalation {
            LockEscalation::Table => (0, "TABLE"),
            LockEscalation::Disable => (1, "DISABLE"),
            LockEscalation::Auto => (2, "AUTO"),
        };
        let mut row = table_row(facts, table);
        row.extend([Value::TinyInt(escalation), text(escalation_name), bit(false), Value::TinyInt(0), Value::Null]);
        row
    });
    rows.collect()
}

pub(crate) fn all_views<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = (&'f Object, &'f Arc<View>)> {
    facts.catalog.objects().filter_map(|object| match object {
        Object::View(view) => Some((object, view)),
        _ => None,
    })
}

// Columns and indexes

pub(crate) fn columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        push_columns(&mut rows, table.id, &table.columns, Some(table));
    }
    for object in facts.catalog.objects() {
        push_columns(&mut rows, object.id(), object.columns(), None);
    }
    for user_type in facts.catalog.user_types() {
        push_columns(&mut rows, user_type.object, &user_type.template.columns, Some(&user_type.template));
    }
    rows
}

fn push_columns(rows: &mut Vec<Vec<Value>>, id: ObjectId, columns: &[Column], table: Option<&TableSchema>) {
    for (ordinal, column) in columns.iter().enumerate() {
        let (length, precision, scale) = column.sql_type.facts();
        let default = column.default.as_ref();
        let default = default.zip(table).and_then(|(default, table)| constraint_id(table, &default.name));
        let mut row = column_row(id, ordinal, column);
        row.extend([
            Value::SmallInt(length),
            Value::TinyInt(precision),
            Value::TinyInt(scale),
            collation(column),
            bit(column.nullable),
            bit(column.sql_type.is_character() || column.sql_type.is_binary()),
            bit(column.identity.is_some()),
            bit(column.computed.is_some()),
            bit(false),
            bit(false),
            Value::Int(0),
            Value::Int(default.unwrap_or(0)),
            Value::Int(0),
            bit(column.is_sparse),
            bit(false),
            Value::TinyInt(0),
            text("NOT_APPLICABLE"),
            Value::Null,
            bit(false),
            bit(false),
        ]);
        rows.push(row);
    }
}

/// What `sys.columns` and the views that inherit from it begin with.
fn column_row(table: ObjectId, ordinal: usize, column: &Column) -> Vec<Value> {
    let number = type_number(column.sql_type);
    vec![
        Value::Int(table),
        text(&column.name),
        Value::Int(ordinal as i32 + 1),
        Value::TinyInt(number),
        Value::Int(i32::from(number)),
    ]
}

pub(crate) fn collation(column: &Column) -> Value {
    if column.sql_type.has_collation() { text(column.collation.name()) } else { Value::Null }
}

fn computed_columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for (ordinal, column) in table.columns.iter().enumerate() {
            let Some(definition) = &column.computed else { continue };
            let mut row = column_row(table.id, ordinal, column);
            row.extend([bit(column.nullable), bit(true), text(shown_expression(definition)), bit(false)]);
            rows.push(row);
        }
    }
    rows
}

/// Source: "sys.sysobjects" (MicrosoftDocs/sql-docs,
/// docs/relational-databases/system-compatibility-views/sys-sysobjects-transact-sql.md).
fn sysobjects(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let rows = objects(facts).into_iter().map(|row| {
        let uid = match row[3] {
            Value::Int(schema) => Value::SmallInt(schema as i16),
            _ => Value::Null,
        };
        let kind = if matches!(row[5].as_str(), Some("PK" | "UQ")) { text("K ") } else { row[5].clone() };
        vec![row[0].clone(), row[1].clone(), row[5].clone(), uid, kind]
    });
    rows.collect()
}
