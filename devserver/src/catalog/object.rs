//! The objects of a catalog: schemas, procedures, triggers, functions, views and sequences.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalog::parameter::Parameter;
use crate::error::{SqlError, SqlResult};
use crate::storage::{Column, ObjectId};
use crate::tsql::ast::{SelectStatement, Statement, TriggerEvent};
use crate::value::{Day, SqlType, Ticks};

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
    pub select: SelectStatement,
    /// Its columns as they were when it was made.
    pub described: Arc<[Column]>,
    pub text: Arc<str>,
    pub created_at: (Day, Ticks),
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
    /// The next value; `None` when the sequence is used up.
    pub next: Mutex<Option<i64>>,
}

impl Sequence {
    /// The same under a name, which goes on from the same value by itself.
    pub fn named(&self, schema: Arc<str>, name: Arc<str>) -> Sequence {
        Sequence {
            id: self.id,
            schema,
            name,
            ty: self.ty,
            start: self.start,
            increment: self.increment,
            min: self.min,
            max: self.max,
            next: Mutex::new(*self.next.lock()),
        }
    }

    /// The next value.
    pub fn next_value(&self) -> SqlResult<i64> {
        let mut next = self.next.lock();
        let Some(value) = *next else {
            return Err(SqlError::not_supported(format!("values of the sequence '{}' beyond its last one", self.name)));
        };
        *next = value.checked_add(self.increment).filter(|next| (self.min..=self.max).contains(next));
        Ok(value)
    }
}

/// An AFTER trigger.
#[derive(Debug, Clone)]
pub struct Trigger {
    /// Its name, text and body, and how errors name it.
    pub procedure: Arc<Procedure>,
    /// Or the view.
    pub table: ObjectId,
    pub events: Vec<TriggerEvent>,
    /// It runs instead of the statement, not after it.
    pub instead_of: bool,
    pub disabled: bool,
}

/// A user-defined scalar function.
#[derive(Debug)]
pub struct Function {
    pub id: ObjectId,
    pub schema: Arc<str>,
    pub name: Arc<str>,
    pub parameters: Vec<Parameter>,
    pub returns: SqlType,
    pub body: Arc<[Statement]>,
    pub text: Arc<str>,
    pub created_at: (Day, Ticks),
    pub modified_at: (Day, Ticks),
}

/// An object that a name can mean, tables excepted.
#[derive(Debug, Clone)]
pub enum Object {
    Trigger(Arc<Trigger>),
    Function(Arc<Function>),
    Procedure(Arc<Procedure>),
    View(Arc<View>),
    Sequence(Arc<Sequence>),
}

impl Object {
    /// The columns of a view.
    pub fn columns(&self) -> &[Column] {
        match self {
            Object::View(view) => &view.described,
            _ => &[],
        }
    }

    pub fn id(&self) -> ObjectId {
        match self {
            Object::Procedure(procedure) => procedure.id,
            Object::Trigger(trigger) => trigger.procedure.id,
            Object::Function(function) => function.id,
            Object::View(view) => view.id,
            Object::Sequence(sequence) => sequence.id,
        }
    }

    pub fn name(&self) -> &Arc<str> {
        match self {
            Object::Procedure(procedure) => &procedure.name,
            Object::Trigger(trigger) => &trigger.procedure.name,
            Object::Function(function) => &function.name,
            Object::View(view) => &view.name,
            Object::Sequence(sequence) => &sequence.name,
        }
    }

    pub fn schema(&self) -> &Arc<str> {
        match self {
            Object::Procedure(procedure) => &procedure.schema,
            Object::Trigger(trigger) => &trigger.procedure.schema,
            Object::Function(function) => &function.schema,
            Object::View(view) => &view.schema,
            Object::Sequence(sequence) => &sequence.schema,
        }
    }
}
