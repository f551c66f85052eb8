//! sp_addextendedproperty, sp_updateextendedproperty and sp_dropextendedproperty, of the database, schemas, tables,
//! views and their columns.
//!
//! Source: their pages (MicrosoftDocs/sql-docs, docs/relational-databases/system-stored-procedures/); 15097, 15135,
//! 15217, 15233 and 15600 in
//! docs/relational-databases/errors-events/database-engine-events-and-errors-15000-to-15999.md.

use std::sync::Arc;

use crate::catalog::extended_property::PropertyOwner;
use crate::catalog::object::Object;
use crate::catalog::principal::SecurableId;
use crate::error::{SqlError, SqlResult};
use crate::session::call::argument::{Passed, PassedArgument, Returned};
use crate::session::call::system_argument::argument;
use crate::session::client_session::Session;
use crate::storage::fold;
use crate::tsql::ast::ObjectName;
use crate::value::units::units;
use crate::value::{self, SqlType, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertyChange {
    Add,
    Update,
    Drop,
}

impl PropertyChange {
    pub fn procedure(self) -> &'static str {
        match self {
            PropertyChange::Add => "sp_addextendedproperty",
            PropertyChange::Update => "sp_updateextendedproperty",
            PropertyChange::Drop => "sp_dropextendedproperty",
        }
    }

    pub fn parameters(self) -> &'static [&'static str] {
        match self {
            PropertyChange::Drop => &WITHOUT_VALUE,
            PropertyChange::Add | PropertyChange::Update => &PARAMETERS,
        }
    }
}

const PARAMETERS: [&str; 8] =
    ["@name", "@value", "@level0type", "@level0name", "@level1type", "@level1name", "@level2type", "@level2name"];
const WITHOUT_VALUE: [&str; 7] =
    ["@name", "@level0type", "@level0name", "@level1type", "@level1name", "@level2type", "@level2name"];

/// What the documentation lists for each level; of these the first ones are here.
const KINDS: [(&[&str], &[&str]); 3] = [
    (
        &["schema"],
        &[
            "assembly",
            "contract",
            "event notification",
            "filegroup",
            "message type",
            "partition function",
            "partition scheme",
            "plan guide",
            "remote service binding",
            "route",
            "service",
            "trigger",
            "type",
            "user",
        ],
    ),
    (
        &["table", "view"],
        &[
            "aggregate",
            "default",
            "function",
            "logical file name",
            "procedure",
            "queue",
            "rule",
            "synonym",
            "table_type",
            "type",
            "xml schema collection",
        ],
    ),
    (&["column"], &["constraint", "event notification", "index", "parameter", "trigger"]),
];

/// "The size of value cannot be more than 7,500 bytes."
const LONGEST_VALUE: usize = 7_500;

impl Session {
    pub(crate) fn change_extended_property(
        &mut self,
        change: PropertyChange,
        arguments: &[PassedArgument],
    ) -> SqlResult<Returned> {
        let names = change.parameters();
        let invalid = || {
            let message =
                format!("An invalid parameter or option was specified for procedure '{}'.", change.procedure());
            SqlError::new(15600, message).severity(15)
        };
        let given = |parameter: &str| {
            let position = names.iter().position(|name| *name == parameter)?;
            argument(arguments, position, parameter)?.as_str().map(str::to_string)
        };
        if argument(arguments, 0, "@name").is_none() {
            let message = format!(
                "Procedure or function '{}' expects parameter '@name', which was not supplied.",
                change.procedure()
            );
            return Err(SqlError::new(201, message).state(4));
        }
        let name: Arc<str> = given("@name").ok_or_else(invalid)?.into();
        let mut levels: Vec<(String, String)> = Vec::new();
        for (level, (known, elsewhere)) in KINDS.iter().enumerate() {
            let kind = given(&format!("@level{level}type"));
            let of = given(&format!("@level{level}name"));
            let (kind, of) = match (kind, of) {
                (None, None) => continue,
                (Some(kind), Some(of)) if levels.len() == level => (fold(&kind), of),
                _ => return Err(invalid()),
            };
            if elsewhere.contains(&kind.as_str()) {
                return Err(SqlError::not_supported(format!("extended properties of {}", kind.to_uppercase())));
            }
            if !known.contains(&kind.as_str()) {
                return Err(invalid());
            }
            levels.push((kind, of));
        }
        let label = match &levels[..] {
            [] => "object specified".to_string(),
            levels => levels.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join("."),
        };
        self.changing_security(|session| session.set_property(change, arguments, &levels, &label, name))?;
        Ok(Returned::default())
    }

    fn set_property(
        &mut self,
        change: PropertyChange,
        arguments: &[PassedArgument],
        levels: &[(String, String)],
        label: &str,
        name: Arc<str>,
    ) -> SqlResult<()> {
        let owner = self.property_owner(levels, label)?;
        let is_there = self.database.catalog.read().extended_property(&owner, &name).is_some();
        let value = match change {
            PropertyChange::Drop => None,
            PropertyChange::Add | PropertyChange::Update => Some(property_value(arguments)?),
        };
        if is_there && change == PropertyChange::Add {
            let message = format!("Property cannot be added. Property '{name}' already exists for '{label}'.");
            return Err(SqlError::new(15233, message));
        }
        if !is_there && change != PropertyChange::Add {
            let message =
                format!("Property cannot be updated or deleted. Property '{name}' does not exist for '{label}'.");
            return Err(SqlError::new(15217, message));
        }
        let undo = self.database.catalog.write().set_extended_property(owner, name, value);
        self.keep_undo(undo);
        Ok(())
    }

    /// 15135 for what does not exist, or is not the caller's.
    fn property_owner(&mut self, levels: &[(String, String)], label: &str) -> SqlResult<PropertyOwner> {
        let missing = || {
            SqlError::new(
                15135,
                format!(
                    "Object is invalid. Extended properties are not permitted on '{label}', or the object does not exist."
                ),
            )
        };
        let is_owner = self.is_owner();
        let only_owner = || {
            SqlError::not_supported(
                "extended properties of the database or a schema, from somebody else than their owners",
            )
        };
        let [(_, schema), rest @ ..] = levels else {
            return if is_owner { Ok(PropertyOwner::Database) } else { Err(only_owner()) };
        };
        let found = self.database.catalog.read().schema(schema).map(|schema| schema.id);
        let schema_id = found.ok_or_else(missing)?;
        let [(kind, name), rest @ ..] = rest else {
            let catalog = self.database.catalog.read();
            let may_alter = catalog.permits(self.state.user, "ALTER", SecurableId::Schema(schema_id))?;
            return if may_alter { Ok(PropertyOwner::Schema(schema_id)) } else { Err(only_owner()) };
        };
        if name.starts_with('#') {
            return Err(SqlError::not_supported("extended properties of temporary tables"));
        }
        let full = ObjectName {
            server: None,
            database: None,
            schema: Some(schema.as_str().into()),
            name: name.as_str().into(),
        };
        let (id, columns) = if kind == "table" {
            let table = self.lookup_table(&full)?.ok_or_else(missing)?;
            (table, self.stored_schema(table)?.columns.clone())
        } else {
            match self.database.catalog.read().object(schema, name) {
                Some(Object::View(view)) => (view.id, view.described.to_vec()),
                _ => return Err(missing()),
            }
        };
        self.check_alter_object(id, schema, missing())?;
        let [(_, column)] = rest else { return Ok(PropertyOwner::Object(id)) };
        let column = fold(column);
        match columns.iter().any(|other| fold(&other.name) == column) {
            true => Ok(PropertyOwner::Column(id, column)),
            false => Err(missing()),
        }
    }
}

/// The value as a `sql_variant`; NULL if none was passed.
fn property_value(arguments: &[PassedArgument]) -> SqlResult<Value> {
    let by_name = arguments.iter().find(|passed| passed.name.as_deref().is_some_and(|name| fold(name) == "@value"));
    let passed = by_name.or_else(|| arguments.get(1).filter(|passed| passed.name.is_none()));
    let Some(Passed::Value { value, ty }) = passed.map(|passed| &passed.value) else { return Ok(Value::Null) };
    let width = if ty.is_unicode() { 2 } else { 1 };
    if value.as_str().is_some_and(|text| units(text).count() * width > LONGEST_VALUE) {
        let message = "The size associated with an extended property cannot be more than 7,500 bytes.";
        return Err(SqlError::new(15097, message));
    }
    value::convert(value.clone(), *ty, SqlType::Variant, None, false)
}
