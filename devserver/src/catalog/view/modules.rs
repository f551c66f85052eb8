//! Procedures, functions and triggers, with their parameters and texts.

use std::sync::Arc;

use crate::catalog::object::{Object, Trigger};
use crate::catalog::parameter::{Parameter, VariableType};
use crate::catalog::system_type::type_number;
use crate::catalog::view::column_types::{
    BIT, CODE, ColumnDescription, INT, NAME, TEXT, TINY, WHEN, WORD, bit, date, nvarchar, object_columns, text,
};
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::value::{SqlType, Value};

pub(crate) static VIEWS: &[CatalogView] = &[
    CatalogView {
        schema: "sys",
        name: "synonyms",
        columns: object_columns!(("base_object_name", nvarchar(1035))),
        // Nobody can make one.
        rows: |_| Vec::new(),
    },
    CatalogView { schema: "sys", name: "parameters", columns: PARAMETER_COLUMNS, rows: parameters },
    CatalogView {
        schema: "sys",
        name: "sql_modules",
        columns: &[("object_id", INT), ("definition", TEXT)],
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
    ("is_nullable", BIT),
];

fn all_triggers<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = &'f Arc<Trigger>> {
    facts.catalog.objects().filter_map(|object| match object {
        Object::Trigger(trigger) => Some(trigger),
        _ => None,
    })
}

/// The procedures and functions with their parameters; a scalar function has one more, its result.
pub(crate) fn routines<'f>(
    facts: &'f Facts<'_>,
) -> impl Iterator<Item = (&'f Object, &'f [Parameter], Option<SqlType>)> {
    facts.catalog.objects().filter_map(|object| match object {
        Object::Procedure(procedure) => Some((object, &procedure.parameters[..], None)),
        Object::Function(function) => Some((object, &function.parameters[..], Some(function.returns))),
        _ => None,
    })
}

fn parameters(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (object, parameters, returns) in routines(facts) {
        let result = returns.map(|ty| (Arc::from(""), Some(ty), 0, true, 0));
        let own = parameters.iter().enumerate().map(|(position, parameter)| {
            let (ty, type_id) = match &parameter.ty {
                VariableType::Scalar(ty) => (Some(*ty), i32::from(type_number(*ty))),
                VariableType::TableType { user_type, .. } => (None, user_type.id),
                VariableType::Table(_) => (None, 0),
            };
            (Arc::clone(&parameter.name), ty, position as i32 + 1, parameter.output, type_id)
        });
        for (name, ty, position, output, type_id) in result.into_iter().chain(own) {
            let (length, precision, scale) = ty.map_or((-1, 0, 0), SqlType::facts);
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
                bit(true),
            ]);
        }
    }
    rows
}

/// The text of a module.
pub(crate) fn definition(object: &Object) -> Option<&Arc<str>> {
    match object {
        Object::Procedure(procedure) => Some(&procedure.text),
        Object::View(view) => Some(&view.text),
        Object::Trigger(trigger) => Some(&trigger.procedure.text),
        Object::Function(function) => Some(&function.text),
        Object::Sequence(_) => None,
    }
}

fn sql_modules(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let texts = facts.catalog.objects().filter_map(|object| Some((object.id(), definition(object)?)));
    texts.map(|(id, definition)| vec![Value::Int(id), text(definition)]).collect()
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
            bit(trigger.instead_of),
        ]
    });
    rows.collect()
}
