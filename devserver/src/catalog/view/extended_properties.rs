//! sys.extended_properties, and what fn_listextendedproperty finds in it.
//!
//! Sources: "sys.extended_properties" and "sys.fn_listextendedproperty" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-catalog-views/extended-properties-catalog-views-sys-extended-properties.md,
//! docs/relational-databases/system-functions/sys-fn-listextendedproperty-transact-sql.md).

use std::sync::Arc;

use crate::catalog::extended_property::{ExtendedProperty, PropertyOwner};
use crate::catalog::object::Object;
use crate::catalog::view::columns::{INT, NAME, TINY, WORD, text};
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::error::{SqlError, SqlResult};
use crate::storage::{Column, ObjectId, fold};
use crate::value::{SqlType, Value};

pub(crate) static VIEWS: &[CatalogView] = &[CatalogView {
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
    rows: extended_properties,
}];

/// A table or view as the owner of properties.
struct Owner<'a> {
    schema: &'a Arc<str>,
    name: &'a Arc<str>,
    kind: &'static str,
    columns: &'a [Column],
}

fn owner<'a>(facts: &'a Facts<'_>, id: ObjectId) -> Option<Owner<'a>> {
    if let Some(table) = facts.table(id) {
        return Some(Owner { schema: &table.schema, name: &table.name, kind: "TABLE", columns: &table.columns });
    }
    match facts.catalog.object_by_id(id)? {
        Object::View(view) => {
            Some(Owner { schema: &view.schema, name: &view.name, kind: "VIEW", columns: &view.described })
        }
        _ => None,
    }
}

fn column<'a>(owner: &Owner<'a>, folded: &str) -> Option<(usize, &'a Column)> {
    owner.columns.iter().enumerate().find(|(_, column)| fold(&column.name) == *folded)
}

fn extended_properties(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for property in facts.catalog.extended_properties() {
        let (class, description, major, minor) = match &property.owner {
            PropertyOwner::Database => (0, "DATABASE", 0, 0),
            PropertyOwner::Schema(id) if facts.catalog.schema_by_id(*id).is_some() => (3, "SCHEMA", *id, 0),
            PropertyOwner::Object(id) if owner(facts, *id).is_some() => (1, "OBJECT_OR_COLUMN", *id, 0),
            PropertyOwner::Column(id, name) => match owner(facts, *id).as_ref().and_then(|owner| column(owner, name)) {
                Some((ordinal, _)) => (1, "OBJECT_OR_COLUMN", *id, ordinal as i32 + 1),
                None => continue,
            },
            _ => continue,
        };
        rows.push(vec![
            Value::TinyInt(class),
            text(description),
            Value::Int(major),
            Value::Int(minor),
            text(&property.name),
            property.value.clone(),
        ]);
    }
    rows
}

/// The arguments of fn_listextendedproperty: a name, then three times a type and a name.
pub type Wanted = [Option<String>; 7];

/// The rows of fn_listextendedproperty: "When the object type is specified and the value of the corresponding object
/// name is NULL or default, fn_listextendedproperty returns all extended properties for all objects of the type
/// specified"; where a higher level has no type and name, there are none.
pub fn list(facts: &Facts<'_>, wanted: &Wanted) -> SqlResult<Vec<Vec<Value>>> {
    let [name, kind_0, name_0, kind_1, name_1, kind_2, name_2] = wanted;
    let [kind_0, kind_1, kind_2] = [kind_0, kind_1, kind_2].map(|kind| kind.as_deref().map(fold));
    for (kind, known) in [(&kind_0, &["schema"][..]), (&kind_1, &["table", "view"]), (&kind_2, &["column"])] {
        if let Some(kind) = kind.as_deref().filter(|kind| !known.contains(kind)) {
            return Err(SqlError::not_supported(format!("fn_listextendedproperty of {}", kind.to_uppercase())));
        }
    }
    let is_complete = match (&kind_0, &kind_1, &kind_2) {
        (None, None, None) => name_0.is_none() && name_1.is_none() && name_2.is_none(),
        (Some(_), None, None) => name_1.is_none() && name_2.is_none(),
        (Some(_), Some(_), None) => name_0.is_some() && name_2.is_none(),
        (Some(_), Some(_), Some(_)) => name_0.is_some() && name_1.is_some(),
        _ => false,
    };
    if !is_complete {
        return Ok(Vec::new());
    }
    let matches = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| fold(wanted) == fold(name));
    let shown = |property: &ExtendedProperty| -> Option<(Value, Value)> {
        match &property.owner {
            PropertyOwner::Database if kind_0.is_none() => Some((Value::Null, Value::Null)),
            PropertyOwner::Schema(id) if kind_0.is_some() && kind_1.is_none() => {
                let schema = facts.catalog.schema_by_id(*id)?;
                matches(name_0, &schema.name).then(|| (text("SCHEMA"), text(&schema.name)))
            }
            PropertyOwner::Object(id) | PropertyOwner::Column(id, _) if kind_1.is_some() => {
                let owner = owner(facts, *id)?;
                let kind = kind_1.as_ref().is_some_and(|kind| kind.eq_ignore_ascii_case(owner.kind));
                if !kind || !matches(name_0, owner.schema) || !matches(name_1, owner.name) {
                    return None;
                }
                match (&property.owner, &kind_2) {
                    (PropertyOwner::Object(_), None) => Some((text(owner.kind), text(owner.name))),
                    (PropertyOwner::Column(_, name), Some(_)) => {
                        let (_, column) = column(&owner, name)?;
                        matches(name_2, &column.name).then(|| (text("COLUMN"), text(&column.name)))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    };
    let mut rows = Vec::new();
    for property in facts.catalog.extended_properties() {
        if matches(name, &property.name)
            && let Some((kind, of)) = shown(property)
        {
            rows.push(vec![kind, of, text(&property.name), property.value.clone()]);
        }
    }
    Ok(rows)
}
