//! The views of INFORMATION_SCHEMA.

use std::sync::Arc;

use crate::catalog::normal_form::{shown_condition, shown_expression};
use crate::catalog::object::{Function, Object};
use crate::catalog::parameter::VariableType;
use crate::catalog::system_type::large_lengths;
use crate::catalog::view::columns::{BIG, INT, NAME, TINY, WHEN, date, nvarchar, text, varchar};
use crate::catalog::view::constraints::{action, constraint_rows};
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::catalog::view::modules::{definition, routines};
use crate::catalog::view::tables::{all_views, collation};
use crate::storage::ReferentialAction;
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
            ("CHARACTER_OCTET_LENGTH", INT),
            ("NUMERIC_PRECISION", TINY),
            ("NUMERIC_PRECISION_RADIX", SqlType::SmallInt),
            ("NUMERIC_SCALE", INT),
            ("DATETIME_PRECISION", SqlType::SmallInt),
            ("CHARACTER_SET_CATALOG", NAME),
            ("CHARACTER_SET_SCHEMA", NAME),
            ("CHARACTER_SET_NAME", NAME),
            ("COLLATION_CATALOG", NAME),
            ("COLLATION_SCHEMA", NAME),
            ("COLLATION_NAME", NAME),
            ("DOMAIN_CATALOG", NAME),
            ("DOMAIN_SCHEMA", NAME),
            ("DOMAIN_NAME", NAME),
        ],
        rows: information_columns,
    },
    CatalogView {
        schema: "information_schema",
        name: "schemata",
        columns: &[("CATALOG_NAME", NAME), ("SCHEMA_NAME", NAME), ("SCHEMA_OWNER", NAME)],
        rows: information_schemata,
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
        name: "parameters",
        columns: &[
            ("SPECIFIC_CATALOG", NAME),
            ("SPECIFIC_SCHEMA", NAME),
            ("SPECIFIC_NAME", NAME),
            ("ORDINAL_POSITION", INT),
            ("PARAMETER_MODE", nvarchar(10)),
            ("IS_RESULT", nvarchar(10)),
            ("PARAMETER_NAME", NAME),
            ("DATA_TYPE", NAME),
            ("CHARACTER_MAXIMUM_LENGTH", INT),
        ],
        rows: information_parameters,
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
        name: "key_column_usage",
        columns: &[
            ("CONSTRAINT_CATALOG", NAME),
            ("CONSTRAINT_SCHEMA", NAME),
            ("CONSTRAINT_NAME", NAME),
            ("TABLE_CATALOG", NAME),
            ("TABLE_SCHEMA", NAME),
            ("TABLE_NAME", NAME),
            ("COLUMN_NAME", NAME),
            ("ORDINAL_POSITION", INT),
        ],
        rows: information_key_column_usage,
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
        name: "check_constraints",
        columns: &[
            ("CONSTRAINT_CATALOG", NAME),
            ("CONSTRAINT_SCHEMA", NAME),
            ("CONSTRAINT_NAME", NAME),
            ("CHECK_CLAUSE", nvarchar(4000)),
        ],
        rows: information_check_constraints,
    },
    CatalogView {
        schema: "information_schema",
        name: "referential_constraints",
        columns: &[
            ("CONSTRAINT_CATALOG", NAME),
            ("CONSTRAINT_SCHEMA", NAME),
            ("CONSTRAINT_NAME", NAME),
            ("UNIQUE_CONSTRAINT_CATALOG", NAME),
            ("UNIQUE_CONSTRAINT_SCHEMA", NAME),
            ("UNIQUE_CONSTRAINT_NAME", NAME),
            ("MATCH_OPTION", varchar(7)),
            ("UPDATE_RULE", varchar(11)),
            ("DELETE_RULE", varchar(11)),
        ],
        rows: information_referential_constraints,
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
        None => large_lengths(ty).map_or(Value::Null, |(characters, _)| Value::Int(characters)),
    }
}

fn information_columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let tables = facts.tables.iter().map(|table| (&table.schema, &table.name, &table.columns[..]));
    let views = all_views(facts).map(|(_, view)| (&view.schema, &view.name, &view.described[..]));
    for (schema, name, columns) in tables.chain(views) {
        for (ordinal, column) in columns.iter().enumerate() {
            let ty = column.sql_type;
            let alias = column.alias_type.and_then(|id| facts.catalog.user_type_by_id(id));
            let (bytes, precision, scale) = ty.facts();
            let is_text = ty.has_collation();
            let is_exact = ty.is_integer() || ty.is_money() || matches!(ty, SqlType::Decimal { .. });
            let is_float = matches!(ty, SqlType::Real | SqlType::Float);
            let character_set = match (is_text, ty.is_unicode()) {
                (true, true) => text("UNICODE"),
                (true, false) => text("iso_1"),
                _ => Value::Null,
            };
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
                match large_lengths(ty) {
                    Some((_, bytes)) => Value::Int(bytes),
                    None if ty.length().is_some() => Value::Int(i32::from(bytes)),
                    None => Value::Null,
                },
                if is_exact || is_float { Value::TinyInt(precision) } else { Value::Null },
                if is_exact {
                    Value::SmallInt(10)
                } else if is_float {
                    Value::SmallInt(2)
                } else {
                    Value::Null
                },
                if is_exact { Value::Int(i32::from(scale)) } else { Value::Null },
                match ty {
                    SqlType::Date => Value::SmallInt(0),
                    _ if ty.is_date_or_time() => Value::SmallInt(i16::from(scale)),
                    _ => Value::Null,
                },
                Value::Null,
                Value::Null,
                character_set,
                Value::Null,
                Value::Null,
                collation(column),
                alias.map_or(Value::Null, |_| text(&facts.database.name)),
                alias.map_or(Value::Null, |alias| text(&alias.schema)),
                alias.map_or(Value::Null, |alias| text(&alias.name)),
            ]);
        }
    }
    rows
}

fn information_schemata(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let owner = |id: i32| facts.catalog.principals.all().iter().find(|principal| principal.id == id);
    let rows = facts.catalog.schemas().iter().map(|schema| {
        let owner = owner(schema.owner).map_or(Value::Null, |principal| text(&principal.name));
        vec![text(&facts.database.name), text(&schema.name), owner]
    });
    rows.collect()
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

fn information_parameters(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (object, parameters, returns) in routines(facts) {
        let head = || [text(&facts.database.name), text(object.schema()), text(object.name())];
        if let Some(ty) = returns {
            let mut row = head().to_vec();
            row.extend([Value::Int(0), text("OUT"), text("YES"), text(""), text(ty.name()), maximum_length(ty)]);
            rows.push(row);
        }
        for (position, parameter) in parameters.iter().enumerate() {
            let (name, length) = match &parameter.ty {
                VariableType::Scalar(ty) => (text(ty.name()), maximum_length(*ty)),
                _ => (text("table type"), Value::Null),
            };
            let mut row = head().to_vec();
            row.extend([
                Value::Int(position as i32 + 1),
                text(if parameter.output { "INOUT" } else { "IN" }),
                text("NO"),
                text(&parameter.name),
                name,
                length,
            ]);
            rows.push(row);
        }
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

fn information_key_column_usage(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (table, name, _) in constraint_rows(facts, &["PK", "UQ", "F "]) {
        let columns: Vec<Arc<str>> = match table.foreign_keys.iter().find(|key| key.name == name) {
            Some(key) => key.columns.clone(),
            None => {
                let index = table.index_named(&name).or_else(|| table.disabled_index_named(&name));
                let key = index.map(|index| &index.key[..]).unwrap_or_default();
                key.iter().map(|key| Arc::clone(&table.columns[key.column].name)).collect()
            }
        };
        for (position, column) in columns.into_iter().enumerate() {
            let database = &facts.database.name;
            rows.push(vec![
                text(database),
                text(&table.schema),
                text(&name),
                text(database),
                text(&table.schema),
                text(&table.name),
                text(column),
                Value::Int(position as i32 + 1),
            ]);
        }
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
        for index in table.indexes.iter().chain(&table.disabled_indexes).filter(|index| index.is_constraint()) {
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

fn information_check_constraints(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for check in &table.checks {
            rows.push(vec![
                text(&facts.database.name),
                text(&table.schema),
                text(&check.name),
                text(shown_condition(&check.text)),
            ]);
        }
    }
    rows
}

fn information_referential_constraints(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for key in &table.foreign_keys {
            let referenced = facts.table(key.referenced.unwrap_or(table.id));
            let index = referenced.and_then(|referenced| {
                referenced.indexes.iter().find(|index| index.serves(referenced, &key.referenced_columns))
            });
            let rule = |taken: ReferentialAction| text(action(taken).1.replace('_', " "));
            rows.push(vec![
                text(&facts.database.name),
                text(&table.schema),
                text(&key.name),
                text(&facts.database.name),
                referenced.map_or(Value::Null, |referenced| text(&referenced.schema)),
                index.map_or(Value::Null, |index| text(&index.name)),
                text("SIMPLE"),
                rule(key.on_update),
                rule(key.on_delete),
            ]);
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
            Value::Int(i32::from(sequence.cycle)),
        ]);
    }
    rows
}
