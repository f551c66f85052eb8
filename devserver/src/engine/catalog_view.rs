//! The catalog views of tables, columns, constraints, modules and types, and INFORMATION_SCHEMA: a list of views, each
//! with its columns and what computes its rows.
//!
//! Source: "Catalog views" (MicrosoftDocs/sql-docs, docs/relational-databases/system-catalog-views/) and "Information
//! schema views" (docs/relational-databases/system-information-schema-views/), a page for each view. Columns about what
//! the dev server does not have (files, pages, replication, encryption) are left out.

use std::collections::HashMap;
use std::sync::Arc;

use super::Database;
use super::catalog::{Catalog, Function, Object, Procedure, SYS_SCHEMA_ID, Synonym, Trigger, UserTypeKind, View};
use super::frame::Run;
use super::lock_view::hobt_id;
use super::scope::{Parameter, VariableType};
use super::system_view::{
    ColumnDescription, SYSNAME, SYSTEM_TYPES, bit, constraints, date, text, type_facts, type_number,
};
use crate::error::SqlResult;
use crate::storage::{
    Column, HEAP, Index, IndexId, Lifetime, LockEscalation, ObjectId, ReferentialAction, TableSchema, Uniqueness, fold,
};
use crate::tsql::ast::TriggerEvent;
use crate::value::{Collation, Length, SqlType, Value};

/// A view of the catalog.
pub struct CatalogView {
    schema: &'static str,
    name: &'static str,
    pub columns: &'static [ColumnDescription],
    rows: fn(&Facts<'_>) -> Vec<Vec<Value>>,
}

impl std::fmt::Debug for CatalogView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

impl PartialEq for CatalogView {
    fn eq(&self, other: &CatalogView) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for CatalogView {}

/// What the views are computed from.
struct Facts<'a> {
    database: &'a Database,
    catalog: &'a Catalog,
    tables: &'a [Arc<TableSchema>],
    /// The rows or entries of each index.
    counts: HashMap<(ObjectId, IndexId), i64>,
    /// The last identity value of each table.
    identities: HashMap<ObjectId, i64>,
}

/// By folded schema and name.
pub fn find(schema: &str, name: &str) -> Option<&'static CatalogView> {
    VIEWS.iter().find(|view| view.schema == schema && view.name == name)
}

pub fn rows(view: &CatalogView, run: &mut Run<'_>) -> SqlResult<Vec<Vec<Value>>> {
    let storage = run.storage()?;
    let tables: Vec<Arc<TableSchema>> =
        storage.latch.tables().into_iter().filter(|table| table.lifetime == Lifetime::Permanent).collect();
    let (mut counts, mut identities) = (HashMap::new(), HashMap::new());
    for schema in &tables {
        let Some(table) = storage.latch.table(schema.id) else { continue };
        counts.insert((schema.id, schema.row_index()), table.row_count() as i64);
        for index in schema.indexes.iter().filter(|index| !index.is_clustered()) {
            counts.insert((schema.id, index.id), table.index_entry_count(index.id).unwrap_or(0) as i64);
        }
        if let Some(last) = table.identity_given() {
            identities.insert(schema.id, last);
        }
    }
    let database = Arc::clone(run.database);
    let catalog = database.catalog.read();
    Ok((view.rows)(&Facts { database: &database, catalog: &catalog, tables: &tables, counts, identities }))
}

impl Facts<'_> {
    fn schema_id(&self, name: &str) -> Value {
        self.catalog.schema(name).map_or(Value::Null, |schema| Value::Int(schema.id))
    }

    /// When a table was made and last changed.
    fn dates(&self, table: ObjectId) -> (Value, Value) {
        match self.catalog.table_dates(table) {
            Some((created, modified)) => (date(created), date(modified)),
            None => (Value::Null, Value::Null),
        }
    }

    fn table(&self, id: ObjectId) -> Option<&Arc<TableSchema>> {
        self.tables.iter().find(|table| table.id == id)
    }
}

const NAME: SqlType = SqlType::NVarChar(Length::Limit(128));
const TEXT: SqlType = SqlType::NVarChar(Length::Max);
const WORD: SqlType = SqlType::NVarChar(Length::Limit(60));
const CODE: SqlType = SqlType::Char(2);
const INT: SqlType = SqlType::Int;
const BIT: SqlType = SqlType::Bit;
const TINY: SqlType = SqlType::TinyInt;
const BIG: SqlType = SqlType::BigInt;
const WHEN: SqlType = SqlType::DateTime;

const fn varchar(length: u16) -> SqlType {
    SqlType::VarChar(Length::Limit(length))
}

const fn nvarchar(length: u16) -> SqlType {
    SqlType::NVarChar(Length::Limit(length))
}

/// The columns of sys.objects, which many views begin with.
macro_rules! object_columns {
    ($($more:expr),* $(,)?) => {
        &[
            ("name", NAME), ("object_id", INT), ("principal_id", INT), ("schema_id", INT), ("parent_object_id", INT),
            ("type", CODE), ("type_desc", WORD), ("create_date", WHEN), ("modify_date", WHEN), ("is_ms_shipped", BIT),
            ("is_published", BIT), ("is_schema_published", BIT), $($more),*
        ]
    };
}

static VIEWS: &[CatalogView] = &[
    CatalogView { schema: "sys", name: "objects", columns: object_columns!(), rows: objects },
    CatalogView { schema: "sys", name: "all_objects", columns: object_columns!(), rows: objects },
    CatalogView {
        schema: "sys",
        name: "tables",
        columns: object_columns!(
            ("max_column_id_used", INT),
            ("uses_ansi_nulls", BIT),
            ("lock_escalation", TINY),
            ("lock_escalation_desc", WORD),
            ("is_filetable", BIT),
            ("is_memory_optimized", BIT),
            ("temporal_type", TINY),
            ("temporal_type_desc", WORD),
            ("history_table_id", INT),
            ("is_external", BIT),
            ("is_node", BIT),
            ("is_edge", BIT),
        ),
        rows: tables,
    },
    CatalogView {
        schema: "sys",
        name: "views",
        columns: object_columns!(("has_opaque_metadata", BIT), ("with_check_option", BIT)),
        rows: views,
    },
    CatalogView { schema: "sys", name: "procedures", columns: object_columns!(), rows: procedures },
    CatalogView {
        schema: "sys",
        name: "synonyms",
        columns: object_columns!(("base_object_name", nvarchar(1035))),
        rows: synonyms,
    },
    CatalogView {
        schema: "sys",
        name: "key_constraints",
        columns: object_columns!(("unique_index_id", INT), ("is_system_named", BIT), ("is_enforced", BIT)),
        rows: key_constraints,
    },
    CatalogView {
        schema: "sys",
        name: "check_constraints",
        columns: object_columns!(
            ("is_disabled", BIT),
            ("is_not_for_replication", BIT),
            ("is_not_trusted", BIT),
            ("parent_column_id", INT),
            ("definition", TEXT),
            ("uses_database_collation", BIT),
            ("is_system_named", BIT),
        ),
        rows: check_constraints,
    },
    CatalogView {
        schema: "sys",
        name: "default_constraints",
        columns: object_columns!(("parent_column_id", INT), ("definition", TEXT), ("is_system_named", BIT)),
        rows: default_constraints,
    },
    CatalogView {
        schema: "sys",
        name: "foreign_keys",
        columns: object_columns!(
            ("referenced_object_id", INT),
            ("is_disabled", BIT),
            ("is_not_for_replication", BIT),
            ("is_not_trusted", BIT),
            ("delete_referential_action", TINY),
            ("delete_referential_action_desc", WORD),
            ("update_referential_action", TINY),
            ("update_referential_action_desc", WORD),
            ("is_system_named", BIT),
        ),
        rows: foreign_keys,
    },
    CatalogView {
        schema: "sys",
        name: "foreign_key_columns",
        columns: &[
            ("constraint_object_id", INT),
            ("constraint_column_id", INT),
            ("parent_object_id", INT),
            ("parent_column_id", INT),
            ("referenced_object_id", INT),
            ("referenced_column_id", INT),
        ],
        rows: foreign_key_columns,
    },
    CatalogView { schema: "sys", name: "columns", columns: COLUMN_COLUMNS, rows: columns },
    CatalogView { schema: "sys", name: "all_columns", columns: COLUMN_COLUMNS, rows: columns },
    CatalogView {
        schema: "sys",
        name: "identity_columns",
        columns: &[
            ("object_id", INT),
            ("name", NAME),
            ("column_id", INT),
            ("system_type_id", TINY),
            ("user_type_id", INT),
            ("is_identity", BIT),
            ("seed_value", BIG),
            ("increment_value", BIG),
            ("last_value", BIG),
            ("is_not_for_replication", BIT),
        ],
        rows: identity_columns,
    },
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
            ("uses_database_collation", BIT),
        ],
        rows: computed_columns,
    },
    CatalogView {
        schema: "sys",
        name: "indexes",
        columns: &[
            ("object_id", INT),
            ("name", NAME),
            ("index_id", INT),
            ("type", TINY),
            ("type_desc", WORD),
            ("is_unique", BIT),
            ("ignore_dup_key", BIT),
            ("is_primary_key", BIT),
            ("is_unique_constraint", BIT),
            ("is_disabled", BIT),
            ("is_hypothetical", BIT),
            ("allow_row_locks", BIT),
            ("has_filter", BIT),
            ("filter_definition", TEXT),
        ],
        rows: indexes,
    },
    CatalogView {
        schema: "sys",
        name: "index_columns",
        columns: &[
            ("object_id", INT),
            ("index_id", INT),
            ("index_column_id", INT),
            ("column_id", INT),
            ("key_ordinal", TINY),
            ("partition_ordinal", TINY),
            ("is_descending_key", BIT),
            ("is_included_column", BIT),
        ],
        rows: index_columns,
    },
    CatalogView {
        schema: "sys",
        name: "dm_db_partition_stats",
        columns: &[
            ("partition_id", BIG),
            ("object_id", INT),
            ("index_id", INT),
            ("partition_number", INT),
            ("row_count", BIG),
        ],
        rows: partition_stats,
    },
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
    CatalogView { schema: "sys", name: "parameters", columns: PARAMETER_COLUMNS, rows: parameters },
    CatalogView { schema: "sys", name: "all_parameters", columns: PARAMETER_COLUMNS, rows: parameters },
    CatalogView {
        schema: "sys",
        name: "sql_modules",
        columns: &[
            ("object_id", INT),
            ("definition", TEXT),
            ("uses_ansi_nulls", BIT),
            ("uses_quoted_identifier", BIT),
            ("is_schema_bound", BIT),
            ("is_recompiled", BIT),
            ("null_on_null_input", BIT),
            ("execute_as_principal_id", INT),
        ],
        rows: sql_modules,
    },
    CatalogView {
        schema: "sys",
        name: "triggers",
        columns: &[
            ("name", NAME),
            ("object_id", INT),
            ("parent_class", TINY),
            ("parent_class_desc", WORD),
            ("parent_id", INT),
            ("type", CODE),
            ("type_desc", WORD),
            ("create_date", WHEN),
            ("modify_date", WHEN),
            ("is_ms_shipped", BIT),
            ("is_disabled", BIT),
            ("is_not_for_replication", BIT),
            ("is_instead_of_trigger", BIT),
        ],
        rows: triggers,
    },
    CatalogView {
        schema: "sys",
        name: "trigger_events",
        columns: &[("object_id", INT), ("type", INT), ("type_desc", WORD)],
        rows: trigger_events,
    },
    CatalogView {
        schema: "sys",
        name: "sequences",
        columns: object_columns!(
            ("start_value", BIG),
            ("increment", BIG),
            ("minimum_value", BIG),
            ("maximum_value", BIG),
            ("is_cycling", BIT),
            ("system_type_id", TINY),
            ("user_type_id", INT),
            ("is_exhausted", BIT),
        ),
        rows: sequences,
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
            ("value", nvarchar(4000)),
        ],
        // Nobody can add one.
        rows: |_| Vec::new(),
    },
    CatalogView {
        schema: "sys",
        name: "sysobjects",
        columns: &[
            ("name", NAME),
            ("id", INT),
            ("xtype", CODE),
            ("uid", SqlType::SmallInt),
            ("parent_obj", INT),
            ("crdate", WHEN),
            ("type", CODE),
        ],
        rows: sysobjects,
    },
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
            ("MATCH_OPTION", varchar(7)),
            ("UPDATE_RULE", varchar(11)),
            ("DELETE_RULE", varchar(11)),
        ],
        rows: information_referential_constraints,
    },
];

const COLUMN_COLUMNS: &[ColumnDescription] = &[
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
    ("is_hidden", BIT),
    ("is_masked", BIT),
];

const PARAMETER_COLUMNS: &[ColumnDescription] = &[
    ("object_id", INT),
    ("name", NAME),
    ("parameter_id", INT),
    ("system_type_id", TINY),
    ("user_type_id", INT),
    ("max_length", SqlType::SmallInt),
    ("precision", TINY),
    ("scale", TINY),
    ("is_output", BIT),
    ("is_cursor_ref", BIT),
    ("has_default_value", BIT),
    ("is_readonly", BIT),
    ("is_nullable", BIT),
];

// Objects

/// The columns of sys.objects.
fn object_row(
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
fn catalog_row(facts: &Facts<'_>, object: &Object) -> Vec<Value> {
    let modules = |procedure: &Procedure| (date(procedure.created_at), date(procedure.modified_at));
    let (kind, dates, parent) = match object {
        Object::Procedure(procedure) => (("P ", "SQL_STORED_PROCEDURE"), modules(procedure), 0),
        Object::View(view) => (("V ", "VIEW"), (date(view.created_at), date(view.created_at)), 0),
        Object::Trigger(trigger) => (("TR", "SQL_TRIGGER"), modules(&trigger.procedure), trigger.table),
        Object::Function(function) => {
            let kind = match function.returns {
                Some(_) => ("FN", "SQL_SCALAR_FUNCTION"),
                None => ("IF", "SQL_INLINE_TABLE_VALUED_FUNCTION"),
            };
            (kind, (date(function.created_at), date(function.modified_at)), 0)
        }
        Object::Synonym(synonym) => (("SN", "SYNONYM"), (date(synonym.created_at), date(synonym.created_at)), 0),
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
        if let UserTypeKind::Table { object, .. } = &user_type.kind {
            let name = format!("TT_{}_{object:08X}", user_type.name);
            let dates = (Value::Null, Value::Null);
            rows.push(object_row(&name, (*object, 0), Value::Int(SYS_SCHEMA_ID), ("TT", "TYPE_TABLE"), dates));
        }
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
        row.extend([
            Value::Int(table.columns.len() as i32),
            bit(true),
            Value::TinyInt(escalation),
            text(escalation_name),
            bit(false),
            bit(false),
            Value::TinyInt(0),
            text("NON_TEMPORAL_TABLE"),
            Value::Null,
            bit(false),
            bit(false),
            bit(false),
        ]);
        row
    });
    rows.collect()
}

fn all_views<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = (&'f Object, &'f Arc<View>)> {
    facts.catalog.objects().filter_map(|object| match object {
        Object::View(view) => Some((object, view)),
        _ => None,
    })
}

fn all_triggers<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = &'f Arc<Trigger>> {
    facts.catalog.objects().filter_map(|object| match object {
        Object::Trigger(trigger) => Some(trigger),
        _ => None,
    })
}

fn views(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let rows = all_views(facts).map(|(object, _)| {
        let mut row = catalog_row(facts, object);
        row.extend([bit(false), bit(false)]);
        row
    });
    rows.collect()
}

fn procedures(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let objects = facts.catalog.objects().filter(|object| matches!(object, Object::Procedure(_)));
    objects.map(|object| catalog_row(facts, object)).collect()
}

fn quoted(synonym: &Synonym) -> String {
    let target = &synonym.target;
    let parts = [target.server.as_ref(), target.database.as_ref(), target.schema.as_ref(), Some(&target.name)];
    let parts: Vec<String> = parts.into_iter().flatten().map(|part| format!("[{part}]")).collect();
    parts.join(".")
}

fn synonyms(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for object in facts.catalog.objects() {
        if let Object::Synonym(synonym) = object {
            let mut row = catalog_row(facts, object);
            row.push(text(quoted(synonym)));
            rows.push(row);
        }
    }
    rows
}

/// The rows of sys.objects for the constraints of some kinds, each with its table.
fn constraint_rows<'f>(facts: &'f Facts<'_>, codes: &'f [&str]) -> Vec<(&'f Arc<TableSchema>, Arc<str>, Vec<Value>)> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for constraint in constraints(table).into_iter().filter(|constraint| codes.contains(&constraint.code)) {
            let row = object_row(
                constraint.name,
                (constraint.id, table.id),
                facts.schema_id(&table.schema),
                (constraint.code, constraint.description),
                facts.dates(table.id),
            );
            rows.push((table, Arc::clone(constraint.name), row));
        }
    }
    rows
}

/// Names that the server has made end in two underscores and eight hexadecimal digits.
fn is_system_named(name: &str) -> Value {
    let Some((_, digits)) = name.rsplit_once("__") else { return bit(false) };
    bit(digits.len() == 8 && digits.chars().all(|digit| digit.is_ascii_hexdigit()))
}

fn key_constraints(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let rows = constraint_rows(facts, &["PK", "UQ"]).into_iter().map(|(table, name, mut row)| {
        let index = table.index_named(&name).or_else(|| table.disabled_index_named(&name));
        row.push(index.map_or(Value::Null, |index| Value::Int(i32::from(index.id))));
        row.extend([is_system_named(&name), bit(true)]);
        row
    });
    rows.collect()
}

fn check_constraints(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (table, name, mut row) in constraint_rows(facts, &["C "]) {
        let Some(check) = table.checks.iter().find(|check| check.name == name) else { continue };
        row.extend([
            bit(check.disabled),
            bit(false),
            bit(check.not_trusted),
            Value::Int(0),
            text(format!("({})", check.text)),
            bit(true),
            is_system_named(&name),
        ]);
        rows.push(row);
    }
    rows
}

fn default_constraints(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (table, name, mut row) in constraint_rows(facts, &["D "]) {
        for (ordinal, column) in table.columns.iter().enumerate() {
            if let Some(default) = column.default.as_ref().filter(|default| default.name == name) {
                row.extend([
                    Value::Int(ordinal as i32 + 1),
                    text(format!("({})", default.text)),
                    is_system_named(&name),
                ]);
                rows.push(std::mem::take(&mut row));
                break;
            }
        }
    }
    rows
}

fn action(action: ReferentialAction) -> (u8, &'static str) {
    match action {
        ReferentialAction::NoAction => (0, "NO_ACTION"),
        ReferentialAction::Cascade => (1, "CASCADE"),
        ReferentialAction::SetNull => (2, "SET_NULL"),
        ReferentialAction::SetDefault => (3, "SET_DEFAULT"),
    }
}

fn foreign_keys(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (table, name, mut row) in constraint_rows(facts, &["F "]) {
        let Some(key) = table.foreign_keys.iter().find(|key| key.name == name) else { continue };
        let ((delete, delete_name), (update, update_name)) = (action(key.on_delete), action(key.on_update));
        row.extend([
            Value::Int(key.referenced.unwrap_or(table.id)),
            bit(key.disabled),
            bit(false),
            bit(key.not_trusted),
            Value::TinyInt(delete),
            text(delete_name),
            Value::TinyInt(update),
            text(update_name),
            is_system_named(&name),
        ]);
        rows.push(row);
    }
    rows
}

fn foreign_key_columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let number = |table: &TableSchema, column: &str| {
        table.column_named(column).map_or(Value::Null, |ordinal| Value::Int(ordinal as i32 + 1))
    };
    for (table, name, row) in constraint_rows(facts, &["F "]) {
        let Some(key) = table.foreign_keys.iter().find(|key| key.name == name) else { continue };
        let Some(referenced) = facts.table(key.referenced.unwrap_or(table.id)) else { continue };
        for (position, (column, partner)) in key.columns.iter().zip(&key.referenced_columns).enumerate() {
            rows.push(vec![
                row[1].clone(),
                Value::Int(position as i32 + 1),
                Value::Int(table.id),
                number(table, column),
                Value::Int(referenced.id),
                number(referenced, partner),
            ]);
        }
    }
    rows
}

// Columns and indexes

fn columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        push_columns(&mut rows, table, table.id);
    }
    for user_type in facts.catalog.user_types() {
        if let UserTypeKind::Table { template, object } = &user_type.kind {
            push_columns(&mut rows, template, *object);
        }
    }
    rows
}

fn push_columns(rows: &mut Vec<Vec<Value>>, table: &TableSchema, id: ObjectId) {
    for (ordinal, column) in table.columns.iter().enumerate() {
        let (length, precision, scale) = type_facts(column.sql_type);
        let number = type_number(column.sql_type);
        let default = column.default.as_ref();
        let default = default.and_then(|default| super::system_view::constraint_id(table, &default.name));
        rows.push(vec![
            Value::Int(id),
            text(&column.name),
            Value::Int(ordinal as i32 + 1),
            Value::TinyInt(number),
            Value::Int(i32::from(number)),
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
            bit(false),
            bit(false),
            Value::TinyInt(0),
            text("NOT_APPLICABLE"),
            bit(false),
            bit(false),
        ]);
    }
}

fn collation(column: &Column) -> Value {
    if column.sql_type.is_character() { text(column.collation.name()) } else { Value::Null }
}

fn identity_columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for (ordinal, column) in table.columns.iter().enumerate() {
            let Some(identity) = column.identity else { continue };
            let number = type_number(column.sql_type);
            rows.push(vec![
                Value::Int(table.id),
                text(&column.name),
                Value::Int(ordinal as i32 + 1),
                Value::TinyInt(number),
                Value::Int(i32::from(number)),
                bit(true),
                Value::BigInt(identity.seed),
                Value::BigInt(identity.increment),
                facts.identities.get(&table.id).map_or(Value::Null, |last| Value::BigInt(*last)),
                bit(false),
            ]);
        }
    }
    rows
}

fn computed_columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for (ordinal, column) in table.columns.iter().enumerate() {
            let Some(definition) = &column.computed else { continue };
            let number = type_number(column.sql_type);
            rows.push(vec![
                Value::Int(table.id),
                text(&column.name),
                Value::Int(ordinal as i32 + 1),
                Value::TinyInt(number),
                Value::Int(i32::from(number)),
                bit(column.nullable),
                bit(true),
                text(format!("({definition})")),
                bit(true),
            ]);
        }
    }
    rows
}

fn indexes(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        if table.clustered().is_none() {
            rows.push(index_row(table.id, None, false));
        }
        rows.extend(table.indexes.iter().map(|index| index_row(table.id, Some(index), false)));
        rows.extend(table.disabled_indexes.iter().map(|index| index_row(table.id, Some(index), true)));
    }
    rows
}

fn index_row(table: ObjectId, index: Option<&Index>, disabled: bool) -> Vec<Value> {
    let (kind, description) = match index {
        None => (0, "HEAP"),
        Some(index) if index.is_clustered() => (1, "CLUSTERED"),
        Some(_) => (2, "NONCLUSTERED"),
    };
    let filter = index.and_then(|index| index.filter.as_ref());
    vec![
        Value::Int(table),
        index.map_or(Value::Null, |index| text(&index.name)),
        Value::Int(index.map_or(0, |index| i32::from(index.id))),
        Value::TinyInt(kind),
        text(description),
        bit(index.is_some_and(Index::is_unique)),
        bit(index.is_some_and(|index| index.ignore_dup_key)),
        bit(index.is_some_and(|index| index.uniqueness == Uniqueness::PrimaryKey)),
        bit(index.is_some_and(|index| index.uniqueness == Uniqueness::UniqueConstraint)),
        bit(disabled),
        bit(false),
        bit(true),
        bit(filter.is_some()),
        filter.map_or(Value::Null, |filter| text(format!("({})", filter.text))),
    ]
}

fn index_columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for index in table.indexes.iter().chain(&table.disabled_indexes) {
            let key = index.key.iter().map(|key| (key.column, key.descending, false));
            let included = index.included.iter().map(|column| (*column, false, true));
            for (position, (column, descending, is_included)) in key.chain(included).enumerate() {
                rows.push(vec![
                    Value::Int(table.id),
                    Value::Int(i32::from(index.id)),
                    Value::Int(position as i32 + 1),
                    Value::Int(column as i32 + 1),
                    Value::TinyInt(if is_included { 0 } else { position as u8 + 1 }),
                    Value::TinyInt(0),
                    bit(descending),
                    bit(is_included),
                ]);
            }
        }
    }
    rows
}

fn counted_indexes(facts: &Facts<'_>) -> impl Iterator<Item = (ObjectId, IndexId, i64)> {
    facts.tables.iter().flat_map(|table| {
        let heap = table.clustered().is_none().then_some(HEAP);
        let ids = heap.into_iter().chain(table.indexes.iter().map(|index| index.id));
        ids.map(|index| (table.id, index, facts.counts.get(&(table.id, index)).copied().unwrap_or(0)))
    })
}

fn partition_stats(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let rows = counted_indexes(facts).map(|(table, index, count)| {
        let id = Value::BigInt(hobt_id(table, index));
        vec![id, Value::Int(table), Value::Int(i32::from(index)), Value::Int(1), Value::BigInt(count)]
    });
    rows.collect()
}

// Types, schemas, modules

fn types(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let mut push = |name: &str, system: u8, id: i32, schema: Value, facts: (i16, u8, u8), kind: (bool, bool, bool)| {
        let (length, precision, scale) = facts;
        let (nullable, is_user, is_table) = kind;
        let has_collation = matches!(system, 167 | 175 | 231 | 239);
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
            other => system_facts(other),
        };
        push(name, *id, i32::from(*id), sys.clone(), facts, (*name != "timestamp", false, false));
    }
    push("sysname", 231, SYSNAME, sys, (256, 0, 0), (false, false, false));
    for user_type in facts.catalog.user_types() {
        let schema = facts.schema_id(&user_type.schema);
        match &user_type.kind {
            UserTypeKind::Table { .. } => {
                push(&user_type.name, 243, user_type.id, schema, (-1, 0, 0), (false, true, true));
            }
            UserTypeKind::Alias { base, nullable } => {
                let number = type_number(*base);
                push(&user_type.name, number, user_type.id, schema, type_facts(*base), (*nullable, true, false));
            }
        }
    }
    rows
}

fn system_facts(name: &str) -> (i16, u8, u8) {
    let ty = match name {
        "uniqueidentifier" => SqlType::UniqueIdentifier,
        "date" => SqlType::Date,
        "tinyint" => SqlType::TinyInt,
        "smallint" => SqlType::SmallInt,
        "int" => SqlType::Int,
        "real" => SqlType::Real,
        "datetime" => SqlType::DateTime,
        "float" => SqlType::Float,
        "bit" => SqlType::Bit,
        "bigint" => SqlType::BigInt,
        _ => return (0, 0, 0),
    };
    type_facts(ty)
}

fn table_types(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for user_type in facts.catalog.user_types() {
        if let UserTypeKind::Table { object, .. } = &user_type.kind {
            rows.push(vec![
                text(&user_type.name),
                Value::TinyInt(243),
                Value::Int(user_type.id),
                facts.schema_id(&user_type.schema),
                bit(true),
                bit(true),
                Value::Int(*object),
                bit(false),
            ]);
        }
    }
    rows
}

fn schemas(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let schemas = facts.catalog.schemas().iter();
    schemas.map(|schema| vec![text(&schema.name), Value::Int(schema.id), Value::Int(schema.owner)]).collect()
}

/// The procedures and functions with their parameters; a scalar function has one more, its result.
fn routines<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = (&'f Object, &'f [Parameter], Option<SqlType>)> {
    facts.catalog.objects().filter_map(|object| match object {
        Object::Procedure(procedure) => Some((object, &procedure.parameters[..], None)),
        Object::Function(function) => Some((object, &function.parameters[..], function.returns)),
        _ => None,
    })
}

fn parameters(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (object, parameters, returns) in routines(facts) {
        let result = returns.map(|ty| (Arc::from(""), Some(ty), 0, true, false, 0));
        let own = parameters.iter().enumerate().map(|(position, parameter)| {
            let (ty, type_id) = match &parameter.ty {
                VariableType::Scalar(ty) => (Some(*ty), i32::from(type_number(*ty))),
                VariableType::TableType { user_type, .. } => (None, user_type.id),
                VariableType::Table(_) => (None, 0),
            };
            (Arc::clone(&parameter.name), ty, position as i32 + 1, parameter.output, ty.is_none(), type_id)
        });
        for (name, ty, position, output, read_only, type_id) in result.into_iter().chain(own) {
            let (length, precision, scale) = ty.map_or((-1, 0, 0), type_facts);
            let number = ty.map_or(243, type_number);
            rows.push(vec![
                Value::Int(object.id()),
                text(name),
                Value::Int(position),
                Value::TinyInt(number),
                Value::Int(if type_id == 0 { i32::from(number) } else { type_id }),
                Value::SmallInt(length),
                Value::TinyInt(precision),
                Value::TinyInt(scale),
                bit(output),
                bit(false),
                // SQL Server knows this of CLR modules only.
                bit(false),
                bit(read_only),
                bit(true),
            ]);
        }
    }
    rows
}

/// The text of a module.
fn definition(object: &Object) -> Option<&Arc<str>> {
    match object {
        Object::Procedure(procedure) => Some(&procedure.text),
        Object::View(view) => Some(&view.text),
        Object::Trigger(trigger) => Some(&trigger.procedure.text),
        Object::Function(function) => Some(&function.text),
        Object::Sequence(_) | Object::Synonym(_) => None,
    }
}

fn sql_modules(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for object in facts.catalog.objects() {
        let Some(definition) = definition(object) else { continue };
        rows.push(vec![
            Value::Int(object.id()),
            text(definition),
            bit(true),
            bit(true),
            bit(false),
            bit(false),
            bit(false),
            Value::Null,
        ]);
    }
    rows
}

fn triggers(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let rows = all_triggers(facts).map(|trigger| {
        let procedure = &trigger.procedure;
        vec![
            text(&procedure.name),
            Value::Int(procedure.id),
            Value::TinyInt(1),
            text("OBJECT_OR_COLUMN"),
            Value::Int(trigger.table),
            text("TR"),
            text("SQL_TRIGGER"),
            date(procedure.created_at),
            date(procedure.modified_at),
            bit(false),
            bit(trigger.disabled),
            bit(false),
            bit(false),
        ]
    });
    rows.collect()
}

fn trigger_events(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for trigger in all_triggers(facts) {
        for event in &trigger.events {
            let (number, name) = match event {
                TriggerEvent::Insert => (1, "INSERT"),
                TriggerEvent::Update => (2, "UPDATE"),
                TriggerEvent::Delete => (3, "DELETE"),
            };
            rows.push(vec![Value::Int(trigger.procedure.id), Value::Int(number), text(name)]);
        }
    }
    rows
}

fn sequences(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for object in facts.catalog.objects() {
        let Object::Sequence(sequence) = object else { continue };
        let number = type_number(sequence.ty);
        let mut row = catalog_row(facts, object);
        row.extend([
            Value::BigInt(sequence.start),
            Value::BigInt(sequence.increment),
            Value::BigInt(sequence.min),
            Value::BigInt(sequence.max),
            bit(sequence.cycle),
            Value::TinyInt(number),
            Value::Int(i32::from(number)),
            bit(sequence.next.lock().is_none()),
        ]);
        rows.push(row);
    }
    rows
}

fn sysobjects(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let rows = objects(facts).into_iter().map(|row| {
        let uid = match row[3] {
            Value::Int(schema) => Value::SmallInt(schema as i16),
            _ => Value::Null,
        };
        vec![row[0].clone(), row[1].clone(), row[5].clone(), uid, row[4].clone(), row[7].clone(), row[5].clone()]
    });
    rows.collect()
}

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
        None => Value::Null,
    }
}

fn information_columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for (ordinal, column) in table.columns.iter().enumerate() {
            let ty = column.sql_type;
            let (bytes, precision, scale) = type_facts(ty);
            let is_text = ty.is_character();
            let is_exact = ty.is_integer() || matches!(ty, SqlType::Decimal { .. });
            let is_float = matches!(ty, SqlType::Real | SqlType::Float);
            let character_set = match (is_text, ty.is_unicode()) {
                (true, true) => text("UNICODE"),
                (true, false) => text("iso_1"),
                _ => Value::Null,
            };
            rows.push(vec![
                text(&facts.database.name),
                text(&table.schema),
                text(&table.name),
                text(&column.name),
                Value::Int(ordinal as i32 + 1),
                column.default.as_ref().map_or(Value::Null, |default| text(format!("({})", default.text))),
                text(if column.nullable { "YES" } else { "NO" }),
                text(ty.name()),
                maximum_length(ty),
                if ty.length().is_some() { Value::Int(i32::from(bytes)) } else { Value::Null },
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
                Value::Null,
                Value::Null,
                Value::Null,
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

fn information_check_constraints(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for check in &table.checks {
            rows.push(vec![
                text(&facts.database.name),
                text(&table.schema),
                text(&check.name),
                text(format!("({})", check.text)),
            ]);
        }
    }
    rows
}

fn information_referential_constraints(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for key in &table.foreign_keys {
            let rule = |taken: ReferentialAction| text(action(taken).1.replace('_', " "));
            rows.push(vec![
                text(&facts.database.name),
                text(&table.schema),
                text(&key.name),
                text("SIMPLE"),
                rule(key.on_update),
                rule(key.on_delete),
            ]);
        }
    }
    rows
}

/// Views of the days before schemas, which are found under `sys` and `dbo` alike.
pub fn find_compatible(schema: Option<&str>, name: &str) -> Option<&'static CatalogView> {
    let is_place = schema.is_none_or(|schema| matches!(fold(schema).as_str(), "dbo" | "sys"));
    let name = fold(name);
    (is_place && name == "sysobjects").then(|| find("sys", &name)).flatten()
}
