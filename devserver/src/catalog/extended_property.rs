//! Extended properties: values under names on the database, its schemas, tables, views and columns.
//!
//! Source: "sp_addextendedproperty" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-stored-procedures/sp-addextendedproperty-transact-sql.md).

use std::sync::Arc;

use crate::catalog::catalog::{Catalog, Undo};
use crate::storage::{ObjectId, fold};
use crate::value::Value;

/// What has the property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyOwner {
    Database,
    Schema(i32),
    /// A table or view.
    Object(ObjectId),
    /// A column, by its folded name.
    Column(ObjectId, String),
}

#[derive(Debug, Clone)]
pub struct ExtendedProperty {
    pub owner: PropertyOwner,
    pub name: Arc<str>,
    /// A `sql_variant`, or NULL.
    pub value: Value,
}

impl Catalog {
    pub fn extended_properties(&self) -> &[ExtendedProperty] {
        &self.extended_properties
    }

    pub fn extended_property(&self, owner: &PropertyOwner, name: &str) -> Option<&ExtendedProperty> {
        let name = fold(name);
        self.extended_properties.iter().find(|property| property.owner == *owner && fold(&property.name) == name)
    }

    /// Gives it a value; `None` takes it away.
    pub fn set_extended_property(&mut self, owner: PropertyOwner, name: Arc<str>, value: Option<Value>) -> Undo {
        let folded = fold(&name);
        let place =
            self.extended_properties.iter().position(|other| other.owner == owner && fold(&other.name) == folded);
        let before = match (place, value) {
            (Some(place), Some(value)) => Some(std::mem::replace(&mut self.extended_properties[place].value, value)),
            (Some(place), None) => Some(self.extended_properties.remove(place).value),
            (None, Some(value)) => {
                self.extended_properties.push(ExtendedProperty {
                    owner: owner.clone(),
                    name: Arc::clone(&name),
                    value,
                });
                None
            }
            (None, None) => None,
        };
        Box::new(move |catalog| drop(catalog.set_extended_property(owner, name, before)))
    }

    /// The properties of a column that has another name now (`to`), or is gone.
    pub fn move_extended_properties(&mut self, table: ObjectId, column: &str, to: Option<&str>) -> Vec<Undo> {
        let owner = PropertyOwner::Column(table, fold(column));
        let (moved, kept) =
            std::mem::take(&mut self.extended_properties).into_iter().partition(|property| property.owner == owner);
        self.extended_properties = kept;
        let moved: Vec<ExtendedProperty> = moved;
        let mut undo: Vec<Undo> = Vec::new();
        for property in moved {
            if let Some(to) = to {
                let new_owner = PropertyOwner::Column(table, fold(to));
                let name = Arc::clone(&property.name);
                undo.push(self.set_extended_property(new_owner, name, Some(property.value.clone())));
            }
            undo.push(Box::new(|catalog| catalog.extended_properties.push(property)));
        }
        undo
    }
}
