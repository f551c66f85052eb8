//! What a database knows beside its tables: schemas, procedures, views, types and sequences. Tables stand in the
//! storage, principals and permissions in [`crate::catalog::principal`].
//!
//! Every change returns an [`Undo`], which a transaction keeps until it ends.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::object::{Object, Procedure, Schema};
use crate::catalog::principal::{DBO_USER, Principal, PrincipalKind, Principals, SecurableId};
use crate::catalog::user_type::UserType;
use crate::error::{SqlError, SqlResult};
use crate::storage::{ObjectId, TableSchema, fold};
use crate::value::{Day, Ticks};

/// The schema without which no database is.
pub const DBO: &str = "dbo";

/// Takes a change of the catalog back.
pub type Undo = Box<dyn FnOnce(&mut Catalog) + Send>;

/// Schema and name, folded.
type ObjectKey = (String, String);

fn key(schema: &str, name: &str) -> ObjectKey {
    (fold(schema), fold(name))
}

/// The catalog of one database.
#[derive(Debug, Clone)]
pub struct Catalog {
    schemas: Vec<Schema>,
    next_schema_id: i32,
    objects: HashMap<ObjectKey, Object>,
    types: HashMap<ObjectKey, Arc<UserType>>,
    /// When tables were made and last changed.
    table_dates: HashMap<ObjectId, (Moment, Moment)>,
    next_type_id: i32,
    pub principals: Principals,
}

/// A day and the time of it.
pub type Moment = (Day, Ticks);

/// The id of schema `sys` in every database.
pub const SYS_SCHEMA_ID: i32 = 4;

impl Catalog {
    pub(crate) fn new() -> Catalog {
        let fixed = [(1, DBO, 1), (2, "guest", 2), (3, "INFORMATION_SCHEMA", 3), (SYS_SCHEMA_ID, "sys", 4)];
        let schemas = fixed.iter().map(|&(id, name, owner)| Schema { id, name: name.into(), owner }).collect();
        Catalog {
            schemas,
            next_schema_id: 5,
            objects: HashMap::new(),
            types: HashMap::new(),
            table_dates: HashMap::new(),
            // The first number of a user-defined type in sys.types is 257.
            next_type_id: 257,
            principals: Principals::new(),
        }
    }

    /// The same for another database. The two share what never changes; each has sequences
    /// of its own.
    pub(super) fn copy(&self) -> Catalog {
        let mut copy = self.clone();
        for object in copy.objects.values_mut() {
            if let Object::Sequence(sequence) = object {
                *sequence = Arc::new(sequence.named(Arc::clone(&sequence.schema), Arc::clone(&sequence.name)));
            }
        }
        copy
    }

    pub fn schemas(&self) -> &[Schema] {
        &self.schemas
    }

    pub fn schema(&self, name: &str) -> Option<&Schema> {
        let name = fold(name);
        self.schemas.iter().find(|schema| fold(&schema.name) == name)
    }

    pub fn schema_by_id(&self, id: i32) -> Option<&Schema> {
        self.schemas.iter().find(|schema| schema.id == id)
    }

    pub fn add_schema(&mut self, name: Arc<str>, owner: i32) -> SqlResult<Undo> {
        if self.schema(&name).is_some() {
            return Err(already_there(&name));
        }
        let id = self.next_schema_id;
        self.next_schema_id += 1;
        self.schemas.push(Schema { id, name, owner });
        Ok(Box::new(move |catalog| catalog.schemas.retain(|schema| schema.id != id)))
    }

    /// Who owns a schema and with it what is in it.
    pub fn owner_in(&self, schema: &str) -> Option<i32> {
        self.schema(schema).map(|schema| schema.owner)
    }

    /// Gives a schema to another owner: what was granted and denied on it and in it is forgotten.
    pub fn set_schema_owner(&mut self, id: i32, owner: i32) -> Undo {
        let Some(schema) = self.schemas.iter_mut().find(|schema| schema.id == id) else { return Box::new(|_| {}) };
        let before = std::mem::replace(&mut schema.owner, owner);
        let permissions = self.principals.drop_permissions_in(id);
        Box::new(move |catalog| {
            permissions(catalog);
            if let Some(schema) = catalog.schemas.iter_mut().find(|schema| schema.id == id) {
                schema.owner = before;
            }
        })
    }

    /// Who owns something.
    pub fn owner_of(&self, securable: SecurableId) -> i32 {
        let schema = match securable {
            SecurableId::Database => None,
            SecurableId::Schema(schema) | SecurableId::Object { schema, .. } | SecurableId::Type { schema, .. } => {
                self.schema_by_id(schema)
            }
        };
        schema.map_or(DBO_USER, |schema| schema.owner)
    }

    /// Whether a user may change a role: its members, or whether it is there.
    pub fn may_alter_role(&self, user: i32, role: &Principal) -> SqlResult<bool> {
        let is_fixed = role.kind == (PrincipalKind::Role { fixed: true });
        Ok(self.principals.is_owner(user)
            || !is_fixed && self.permits(user, "ALTER ANY ROLE", SecurableId::Database)?)
    }

    /// Whether a user has a permission.
    pub fn permits(&self, user: i32, permission: &str, on: SecurableId) -> SqlResult<bool> {
        self.principals.permits(user, permission, on, self.owner_of(on))
    }

    pub fn remove_schema(&mut self, name: &str) -> Option<Undo> {
        let name = fold(name);
        let position = self.schemas.iter().position(|schema| fold(&schema.name) == name)?;
        let removed = self.schemas.remove(position);
        Some(Box::new(move |catalog| catalog.schemas.push(removed)))
    }

    /// The first object or type that stands in a schema: it cannot be dropped then.
    pub fn first_in_schema(&self, schema: &str) -> Option<Arc<str>> {
        let schema = fold(schema);
        let object = self.objects.values().find(|object| fold(object.schema()) == schema);
        if let Some(object) = object {
            return Some(Arc::clone(object.name()));
        }
        self.types.values().find(|user_type| fold(&user_type.schema) == schema).map(|found| Arc::clone(&found.name))
    }

    pub fn object(&self, schema: &str, name: &str) -> Option<&Object> {
        self.objects.get(&key(schema, name))
    }

    pub fn object_by_id(&self, id: ObjectId) -> Option<&Object> {
        self.objects().find(|object| object.id() == id)
    }

    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.values()
    }

    pub fn procedure(&self, schema: &str, name: &str) -> Option<&Arc<Procedure>> {
        match self.object(schema, name)? {
            Object::Procedure(procedure) => Some(procedure),
            _ => None,
        }
    }

    /// Adds an object or puts it in the place of the one with its name.
    pub fn put_object(&mut self, object: Object) -> Undo {
        let key = key(object.schema(), object.name());
        let before = self.objects.insert(key.clone(), object);
        Box::new(move |catalog| {
            match before {
                Some(before) => catalog.objects.insert(key, before),
                None => catalog.objects.remove(&key),
            };
        })
    }

    pub fn remove_object(&mut self, schema: &str, name: &str) -> Option<Undo> {
        let key = key(schema, name);
        let removed = self.objects.remove(&key)?;
        Some(Box::new(move |catalog| {
            catalog.objects.insert(key, removed);
        }))
    }

    pub fn table_dates(&self, table: ObjectId) -> Option<(Moment, Moment)> {
        self.table_dates.get(&table).copied()
    }

    /// A table was made or changed. A rollback leaves the date of a table that is gone, which nobody asks for.
    pub fn note_table_change(&mut self, table: ObjectId, now: Moment) {
        self.table_dates.entry(table).or_insert((now, now)).1 = now;
    }

    pub fn user_type(&self, schema: &str, name: &str) -> Option<&Arc<UserType>> {
        self.types.get(&key(schema, name))
    }

    pub fn user_types(&self) -> impl Iterator<Item = &Arc<UserType>> {
        self.types.values()
    }

    pub fn add_type(
        &mut self,
        schema: Arc<str>,
        name: Arc<str>,
        template: Arc<TableSchema>,
        object: ObjectId,
    ) -> SqlResult<Undo> {
        let key = key(&schema, &name);
        if self.types.contains_key(&key) {
            return Err(SqlError::not_supported(format!("a second type '{schema}.{name}'")));
        }
        let id = self.next_type_id;
        self.next_type_id += 1;
        self.types.insert(key.clone(), Arc::new(UserType { id, schema, name, template, object }));
        Ok(Box::new(move |catalog| {
            catalog.types.remove(&key);
        }))
    }

    pub fn remove_type(&mut self, schema: &str, name: &str) -> Option<Undo> {
        let key = key(schema, name);
        let removed = self.types.remove(&key)?;
        Some(Box::new(move |catalog| {
            catalog.types.insert(key, removed);
        }))
    }
}

/// 2714, for everything that is called an object.
pub fn already_there(name: &str) -> SqlError {
    SqlError::new(2714, format!("There is already an object named '{name}' in the database.")).state(6)
}
