//! What a database knows beside its tables: schemas, procedures, views, types and sequences. Tables stand in the
//! storage, principals and permissions in [`crate::catalog::principal`].
//!
//! Every change returns an [`Undo`], which a transaction keeps until it ends.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalog::parameter::Parameter;
use crate::catalog::principal::Principals;
use crate::error::{SqlError, SqlResult};
use crate::storage::{ObjectId, TableSchema, fold};
use crate::tsql::ast::{FunctionBody, ObjectName, SelectStatement, Statement, TriggerEvent};
use crate::value::{Day, SqlType, Ticks};

/// The schema without which no database is.
pub const DBO: &str = "dbo";

/// Takes a change of the catalog back.
pub type Undo = Box<dyn FnOnce(&mut Catalog) + Send>;

/// Schema and name, folded.
type ObjectKey = (String, String);

fn key(schema: &str, name: &str) -> ObjectKey {
    (fold(schema), fold(name))
}

/// A schema.
#[derive(Debug, Clone)]
pub struct Schema {
    pub id: i32,
    pub name: Arc<str>,
    /// The principal that owns it.
    pub owner: i32,
}

/// A stored procedure.
#[derive(Debug)]
pub struct Procedure {
    pub id: ObjectId,
    pub schema: Arc<str>,
    pub name: Arc<str>,
    /// `schema.name`: how errors and ERROR_PROCEDURE() name it since SQL Server 2017.
    pub full_name: Arc<str>,
    pub parameters: Vec<Parameter>,
    pub body: Arc<[Statement]>,
    pub text: Arc<str>,
    pub created_at: (Day, Ticks),
    pub modified_at: (Day, Ticks),
}

/// A view.
#[derive(Debug)]
pub struct View {
    pub id: ObjectId,
    pub schema: Arc<str>,
    pub name: Arc<str>,
    pub columns: Vec<Arc<str>>,
    pub select: SelectStatement,
    pub text: Arc<str>,
    pub created_at: (Day, Ticks),
}

/// A user-defined type.
#[derive(Debug)]
pub struct UserType {
    pub id: i32,
    pub schema: Arc<str>,
    pub name: Arc<str>,
    pub kind: UserTypeKind,
}

#[derive(Debug)]
pub enum UserTypeKind {
    /// The template of the tables declared with it.
    Table {
        template: Arc<TableSchema>,
        object: ObjectId,
    },
    Alias {
        base: SqlType,
        nullable: bool,
    },
}

/// A sequence; its values are not taken back by a rollback.
#[derive(Debug)]
pub struct Sequence {
    pub id: ObjectId,
    pub schema: Arc<str>,
    pub name: Arc<str>,
    pub ty: SqlType,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
    /// The next value; `None` when the sequence is used up.
    pub next: Mutex<Option<i64>>,
}

impl Sequence {
    /// The next value; 11728 when there is none.
    pub fn next_value(&self) -> SqlResult<i64> {
        let mut next = self.next.lock();
        let Some(value) = *next else {
            return Err(SqlError::new(
                11728,
                format!(
                    "The sequence object '{}' has reached its minimum or maximum value. Restart the sequence object \
                     to allow new values to be generated.",
                    self.name
                ),
            ));
        };
        let following = value.checked_add(self.increment).filter(|next| (self.min..=self.max).contains(next));
        let restart = if self.increment > 0 { self.min } else { self.max };
        *next = following.or(self.cycle.then_some(restart));
        Ok(value)
    }
}

/// An AFTER trigger.
#[derive(Debug, Clone)]
pub struct Trigger {
    /// Its name, text and body, and how errors name it.
    pub procedure: Arc<Procedure>,
    pub table: ObjectId,
    pub events: Vec<TriggerEvent>,
    pub disabled: bool,
}

/// Another name for an object.
#[derive(Debug)]
pub struct Synonym {
    pub id: ObjectId,
    pub schema: Arc<str>,
    pub name: Arc<str>,
    pub target: ObjectName,
    pub created_at: (Day, Ticks),
}

/// A user-defined function.
#[derive(Debug)]
pub struct Function {
    pub id: ObjectId,
    pub schema: Arc<str>,
    pub name: Arc<str>,
    pub parameters: Vec<Parameter>,
    /// The type of a scalar function; an inline table-valued one has none.
    pub returns: Option<SqlType>,
    pub body: FunctionBody,
    pub text: Arc<str>,
    pub created_at: (Day, Ticks),
    pub modified_at: (Day, Ticks),
}

/// An object that a name can mean, tables excepted.
#[derive(Debug, Clone)]
pub enum Object {
    Trigger(Arc<Trigger>),
    Function(Arc<Function>),
    Synonym(Arc<Synonym>),
    Procedure(Arc<Procedure>),
    View(Arc<View>),
    Sequence(Arc<Sequence>),
}

impl Object {
    pub fn id(&self) -> ObjectId {
        match self {
            Object::Procedure(procedure) => procedure.id,
            Object::Trigger(trigger) => trigger.procedure.id,
            Object::Function(function) => function.id,
            Object::Synonym(synonym) => synonym.id,
            Object::View(view) => view.id,
            Object::Sequence(sequence) => sequence.id,
        }
    }

    pub fn name(&self) -> &Arc<str> {
        match self {
            Object::Procedure(procedure) => &procedure.name,
            Object::Trigger(trigger) => &trigger.procedure.name,
            Object::Function(function) => &function.name,
            Object::Synonym(synonym) => &synonym.name,
            Object::View(view) => &view.name,
            Object::Sequence(sequence) => &sequence.name,
        }
    }

    pub fn schema(&self) -> &Arc<str> {
        match self {
            Object::Procedure(procedure) => &procedure.schema,
            Object::Trigger(trigger) => &trigger.procedure.schema,
            Object::Function(function) => &function.schema,
            Object::Synonym(synonym) => &synonym.schema,
            Object::View(view) => &view.schema,
            Object::Sequence(sequence) => &sequence.schema,
        }
    }
}

/// The catalog of one database.
#[derive(Debug)]
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
    pub fn new() -> Catalog {
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
        self.objects.values().find(|object| object.id() == id)
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

    pub fn user_type_by_id(&self, id: i32) -> Option<&Arc<UserType>> {
        self.types.values().find(|user_type| user_type.id == id)
    }

    pub fn user_types(&self) -> impl Iterator<Item = &Arc<UserType>> {
        self.types.values()
    }

    pub fn add_type(&mut self, schema: Arc<str>, name: Arc<str>, kind: UserTypeKind) -> SqlResult<Undo> {
        let key = key(&schema, &name);
        if self.types.contains_key(&key) {
            return Err(SqlError::new(
                219,
                format!("The type '{schema}.{name}' already exists, or you do not have permission to create it."),
            ));
        }
        let id = self.next_type_id;
        self.next_type_id += 1;
        self.types.insert(key.clone(), Arc::new(UserType { id, schema, name, kind }));
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
