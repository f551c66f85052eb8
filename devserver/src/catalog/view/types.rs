//! Types, schemas and sequences.

use crate::catalog::catalog::SYS_SCHEMA_ID;
use crate::catalog::system_type::{SYSNAME, SYSTEM_TYPES};
use crate::catalog::view::column_types::{BIT, INT, NAME, TINY, bit, text};
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::value::{Collation, SqlType, Value};

pub(crate) static VIEWS: &[CatalogView] = &[
    CatalogView {
        schema: "sys",
        name: "types",
        columns: &[
            ("name", NAME),
            ("system_type_id", TINY),
            ("user_type_id", INT),
            ("schema_id", INT),
            ("principal_id", INT),
            ("max_length", SqlType::SmallInt),
            ("precision", TINY),
            ("scale", TINY),
            ("collation_name", NAME),
            ("is_nullable", BIT),
            ("is_user_defined", BIT),
            ("is_assembly_type", BIT),
            ("default_object_id", INT),
            ("rule_object_id", INT),
            ("is_table_type", BIT),
        ],
        rows: types,
    },
    CatalogView {
        schema: "sys",
        name: "table_types",
        columns: &[
            ("name", NAME),
            ("system_type_id", TINY),
            ("user_type_id", INT),
            ("schema_id", INT),
            ("is_user_defined", BIT),
            ("is_table_type", BIT),
            ("type_table_object_id", INT),
            ("is_memory_optimized", BIT),
        ],
        rows: table_types,
    },
    CatalogView {
        schema: "sys",
        name: "schemas",
        columns: &[("name", NAME), ("schema_id", INT), ("principal_id", INT)],
        rows: schemas,
    },
];

// Types, schemas, modules

fn types(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let mut push = |name: &str, system: u8, id: i32, schema: Value, facts: (i16, u8, u8), kind: (bool, bool, bool)| {
        let (length, precision, scale) = facts;
        let (nullable, is_user, is_table) = kind;
        let has_collation = matches!(system, 35 | 99 | 167 | 175 | 231 | 239);
        rows.push(vec![
            text(name),
            Value::TinyInt(system),
            Value::Int(id),
            schema,
            Value::Null,
            Value::SmallInt(length),
            Value::TinyInt(precision),
            Value::TinyInt(scale),
            if has_collation { text(Collation::default().name()) } else { Value::Null },
            bit(nullable),
            bit(is_user),
            bit(false),
            Value::Int(0),
            Value::Int(0),
            bit(is_table),
        ]);
    };
    let sys = Value::Int(SYS_SCHEMA_ID);
    for (name, id) in SYSTEM_TYPES {
        // The sizes that a type has at most, see "sys.types".
        let facts = match *name {
            "char" | "varchar" | "nchar" | "nvarchar" | "binary" | "varbinary" => (8000, 0, 0),
            "decimal" | "numeric" => (17, 38, 38),
            "time" => (5, 16, 7),
            "datetime2" => (8, 27, 7),
            "datetimeoffset" => (10, 34, 7),
            "timestamp" => (8, 0, 0),
            "money" => (8, 19, 4),
            "smallmoney" => (4, 10, 4),
            "smalldatetime" => (4, 16, 0),
            other => system_facts(other),
        };
        push(name, *id, i32::from(*id), sys.clone(), facts, (*name != "timestamp", false, false));
    }
    push("sysname", 231, SYSNAME, sys, (256, 0, 0), (false, false, false));
    for user_type in facts.catalog.user_types() {
        let schema = facts.schema_id(&user_type.schema);
        push(&user_type.name, 243, user_type.id, schema, (-1, 0, 0), (false, true, true));
    }
    rows
}

fn system_facts(name: &str) -> (i16, u8, u8) {
    let ty = match name {
        "image" | "text" | "ntext" => SqlType::Text,
        "uniqueidentifier" => SqlType::UniqueIdentifier,
        "date" => SqlType::Date,
        "tinyint" => SqlType::TinyInt,
        "smallint" => SqlType::SmallInt,
        "int" => SqlType::Int,
        "real" => SqlType::Real,
        "datetime" => SqlType::DateTime,
        "float" => SqlType::Float,
        "bit" => SqlType::Bit,
        "sql_variant" => SqlType::Variant,
        "bigint" => SqlType::BigInt,
        _ => return (0, 0, 0),
    };
    ty.facts()
}

fn table_types(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for user_type in facts.catalog.user_types() {
        rows.push(vec![
            text(&user_type.name),
            Value::TinyInt(243),
            Value::Int(user_type.id),
            facts.schema_id(&user_type.schema),
            bit(true),
            bit(true),
            Value::Int(user_type.object),
            bit(false),
        ]);
    }
    rows
}

fn schemas(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let schemas = facts.catalog.schemas().iter();
    schemas.map(|schema| vec![text(&schema.name), Value::Int(schema.id), Value::Int(schema.owner)]).collect()
}
