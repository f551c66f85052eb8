//! The views of INFORMATION_SCHEMA.

use std::sync::Arc;

use crate::catalog::normal_form::shown_expression;
use crate::catalog::object::{Function, Object};
use crate::catalog::system_type::large_length;
use crate::catalog::view::column_types::{BIG, INT, NAME, TINY, WHEN, date, nvarchar, text, varchar};
use crate::catalog::view::constraints::constraint_rows;
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::catalog::view::modules::{definition, routines};
use crate::catalog::view::tables::{all_views, collation};
use crate::tsql::mentions;
use crate::value::{Length, SqlType, Value};

pub(crate) static VIEWS: &[CatalogView] = &[
    CatalogView {
        schema: "information_schema",
        name: "tables",
        columns: &[("TABLE_CATALOG", NAME), ("TABLE_SCHEMA", NAME), ("TABLE_NAME", NAME), ("TABLE_TYPE", varchar(10))],
        rows: information_tables,
    },
    CatalogView {
        schema: "information_schema",
        name: "views",
        columns: &[
            ("TABLE_CATALOG", NAME),
            ("TABLE_SCHEMA", NAME),
            ("TABLE_NAME", NAME),
            ("VIEW_DEFINITION", nvarchar(4000)),
            ("CHECK_OPTION", varchar(7)),
            ("IS_UPDATABLE", varchar(2)),
        ],
        rows: information_views,
    },
    CatalogView {
        schema: "information_schema",
        name: "columns",
        columns: &[
            ("TABLE_CATALOG", NAME),
            ("TABLE_SCHEMA", NAME),
            ("TABLE_NAME", NAME),
            ("COLUMN_NAME", NAME),
            ("ORDINAL_POSITION", INT),
            ("COLUMN_DEFAULT", nvarchar(4000)),
            ("IS_NULLABLE", varchar(3)),
            ("DATA_TYPE", NAME),
            ("CHARACTER_MAXIMUM_LENGTH", INT),
            ("NUMERIC_PRECISION", TINY),
            ("NUMERIC_SCALE", INT),
            ("DATETIME_PRECISION", SqlType::SmallInt),
            ("COLLATION_NAME", NAME),
        ],
        rows: information_columns,
    },
    CatalogView {
        schema: "information_schema",
        name: "routines",
        columns: &[
            ("SPECIFIC_CATALOG", NAME),
            ("SPECIFIC_SCHEMA", NAME),
            ("SPECIFIC_NAME", NAME),
            ("ROUTINE_CATALOG", NAME),
            ("ROUTINE_SCHEMA", NAME),
            ("ROUTINE_NAME", NAME),
            ("ROUTINE_TYPE", nvarchar(20)),
            ("DATA_TYPE", NAME),
            ("ROUTINE_BODY", nvarchar(30)),
            ("ROUTINE_DEFINITION", nvarchar(4000)),
            ("CREATED", WHEN),
            ("LAST_ALTERED", WHEN),
        ],
        rows: information_routines,
    },
    CatalogView {
        schema: "information_schema",
        name: "table_constraints",
        columns: &[
            ("CONSTRAINT_CATALOG", NAME),
            ("CONSTRAINT_SCHEMA", NAME),
            ("CONSTRAINT_NAME", NAME),
            ("TABLE_CATALOG", NAME),
            ("TABLE_SCHEMA", NAME),
            ("TABLE_NAME", NAME),
            ("CONSTRAINT_TYPE", varchar(11)),
            ("IS_DEFERRABLE", varchar(2)),
            ("INITIALLY_DEFERRED", varchar(2)),
        ],
        rows: information_table_constraints,
    },
    CatalogView {
        schema: "information_schema",
        name: "constraint_column_usage",
        columns: &[
            ("TABLE_CATALOG", NAME),
            ("TABLE_SCHEMA", NAME),
            ("TABLE_NAME", NAME),
            ("COLUMN_NAME", NAME),
            ("CONSTRAINT_CATALOG", NAME),
            ("CONSTRAINT_SCHEMA", NAME),
            ("CONSTRAINT_NAME", NAME),
        ],
        rows: information_constraint_column_usage,
    },
    CatalogView {
        schema: "information_schema",
        name: "sequences",
        columns: &[
            ("SEQUENCE_CATALOG", NAME),
            ("SEQUENCE_SCHEMA", NAME),
            ("SEQUENCE_NAME", NAME),
            ("DATA_TYPE", NAME),
            ("NUMERIC_PRECISION", TINY),
            ("NUMERIC_PRECISION_RADIX", SqlType::SmallInt),
            ("NUMERIC_SCALE", INT),
            ("START_VALUE", BIG),
            ("MINIMUM_VALUE", BIG),
            ("MAXIMUM_VALUE", BIG),
            ("INCREMENT", BIG),
            ("CYCLE_OPTION", INT),
        ],
        rows: information_sequences,
    },
];

// INFORMATION_SCHEMA

fn information_tables(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let database = &facts.database.name;
    let tables = facts.tables.iter().map(|table| (&table.schema, &table.name, "BASE TABLE"));
    let views = all_views(facts).map(|(_, view)| (&view.schema, &view.name, "VIEW"));
    let row =
        |(schema, name, kind): (&Arc<str>, &Arc<str>, &str)| vec![text(database), text(schema), text(name), text(kind)];
    tables.chain(views).map(row).collect()
}

fn information_views(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let rows = all_views(facts).map(|(_, view)| {
        vec![
            text(&facts.database.name),
            text(&view.schema),
            text(&view.name),
            text(&view.text),
            text("NONE"),
            text("NO"),
        ]
    });
    rows.collect()
}

/// CHARACTER_MAXIMUM_LENGTH; -1 for (max).
fn maximum_length(ty: SqlType) -> Value {
    match ty.length() {
        Some(Length::Max) => Value::Int(-1),
        Some(Length::Limit(length)) => Value::Int(i32::from(length)),
        None => large_length(ty).map_or(Value::Null, Value::Int),
    }
}

fn information_columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let tables = facts.tables.iter().map(|table| (&table.schema, &table.name, &table.columns[..]));
    let views = all_views(facts).map(|(_, view)| (&view.schema, &view.name, &view.described[..]));
    for (schema, name, columns) in tables.chain(views) {
        for (ordinal, column) in columns.iter().enumerate() {
            let ty = column.sql_type;
            let (_, precision, scale) = ty.facts();
            let is_exact = ty.is_integer() || matches!(ty, SqlType::Decimal { .. });
            let is_float = matches!(ty, SqlType::Real | SqlType::Float);
            rows.push(vec![
                text(&facts.database.name),
                text(schema),
                text(name),
                text(&column.name),
                Value::Int(ordinal as i32 + 1),
                column.default.as_ref().map_or(Value::Null, |default| text(shown_expression(&default.text))),
                text(if column.nullable { "YES" } else { "NO" }),
                text(ty.name()),
                maximum_length(ty),
                if is_exact || is_float { Value::TinyInt(precision) } else { Value::Null },
                if is_exact { Value::Int(i32::from(scale)) } else { Value::Null },
                match ty {
                    SqlType::Date => Value::SmallInt(0),
                    _ if ty.is_date_or_time() => Value::SmallInt(i16::from(scale)),
                    _ => Value::Null,
                },
                collation(column),
            ]);
        }
    }
    rows
}

fn information_routines(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (object, _, returns) in routines(facts) {
        let of_function = |function: &Function| (date(function.created_at), date(function.modified_at));
        let ((created, modified), kind, data_type) = match object {
            Object::Procedure(procedure) => {
                ((date(procedure.created_at), date(procedure.modified_at)), "PROCEDURE", Value::Null)
            }
            Object::Function(function) => {
                (of_function(function), "FUNCTION", text(returns.map_or("TABLE", |ty| ty.name())))
            }
            _ => continue,
        };
        let (database, schema, name) = (text(&facts.database.name), text(object.schema()), text(object.name()));
        rows.push(vec![
            database.clone(),
            schema.clone(),
            name.clone(),
            database,
            schema,
            name,
            text(kind),
            data_type,
            text("SQL"),
            definition(object).map_or(Value::Null, text),
            created,
            modified,
        ]);
    }
    rows
}

fn information_table_constraints(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (table, name, row) in constraint_rows(facts, &["PK", "UQ", "C ", "F "]) {
        let kind = match row[5].as_str() {
            Some("PK") => "PRIMARY KEY",
            Some("UQ") => "UNIQUE",
            Some("F ") => "FOREIGN KEY",
            _ => "CHECK",
        };
        let database = &facts.database.name;
        rows.push(vec![
            text(database),
            text(&table.schema),
            text(name),
            text(database),
            text(&table.schema),
            text(&table.name),
            text(kind),
            text("NO"),
            text("NO"),
        ]);
    }
    rows
}

/// The columns that a constraint is defined on: of a foreign key those that refer, of a CHECK those that it names.
fn information_constraint_column_usage(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        let mut push = |constraint: &str, column: &str| {
            let (database, schema) = (text(&facts.database.name), text(&table.schema));
            rows.push(vec![
                database.clone(),
                schema.clone(),
                text(&table.name),
                text(column),
                database,
                schema,
                text(constraint),
            ]);
        };
        for index in table.indexes.iter().filter(|index| index.is_constraint()) {
            index.key.iter().for_each(|key| push(&index.name, &table.columns[key.column].name));
        }
        for key in &table.foreign_keys {
            key.columns.iter().for_each(|column| push(&key.name, column));
        }
        for check in &table.checks {
            let named = table.columns.iter().filter(|column| mentions(&check.text, &column.name));
            named.for_each(|column| push(&check.name, &column.name));
        }
    }
    rows
}

fn information_sequences(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for object in facts.catalog.objects() {
        let Object::Sequence(sequence) = object else { continue };
        let (_, precision, scale) = sequence.ty.facts();
        rows.push(vec![
            text(&facts.database.name),
            text(&sequence.schema),
            text(&sequence.name),
            text(sequence.ty.name()),
            Value::TinyInt(precision),
            Value::SmallInt(10),
            Value::Int(i32::from(scale)),
            Value::BigInt(sequence.start),
            Value::BigInt(sequence.min),
            Value::BigInt(sequence.max),
            Value::BigInt(sequence.increment),
            Value::Int(0),
        ]);
    }
    rows
}
