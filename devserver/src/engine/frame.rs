//! What a statement has in its hands while it runs: the latch, its transaction, its session ([`Run`]) and the row in
//! each of its slots ([`Frame`]).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Database;
use super::query::TablePlace;
use super::scope::Activation;
use super::state::SessionState;
use crate::error::{SqlError, SqlResult};
use crate::storage::{Key, Latch, ObjectId, Transaction};
use crate::value::{Day, Ticks, Value};

/// The values of a row.
pub type Values = Arc<[Value]>;

/// Whether whoever produces rows shall go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Stop,
}

/// The surroundings of a running statement.
pub struct Run<'a> {
    /// `None` for expressions that need nothing of the database.
    pub storage: Option<Storage<'a>>,
    pub database: &'a Arc<Database>,
    pub state: &'a mut SessionState,
    pub scope: &'a mut Activation,
    /// The time of the statement: the same wherever it asks.
    pub now: (Day, Ticks),
}

pub struct Storage<'a> {
    pub latch: Latch<'a>,
    pub tx: Transaction,
}

impl<'a> Run<'a> {
    pub fn storage(&mut self) -> SqlResult<&mut Storage<'a>> {
        self.storage.as_mut().ok_or_else(|| SqlError::not_supported("a table in this place"))
    }

    pub fn table_id(&self, place: TablePlace) -> ObjectId {
        match place {
            TablePlace::Stored(id) => id,
            TablePlace::Variable(variable) => self.scope.table(variable),
        }
    }
}

/// The rows of a statement that is being computed.
#[derive(Default)]
pub struct Frame {
    pub rows: Vec<Values>,
    /// The locator of the row in the target's slot.
    pub target: Option<Key>,
    /// How many rows have been kept for later, as rows to change or in the hands of an operator. A row of the target that
    /// nobody has kept when its turn is over does not qualify.
    pub kept: u64,
    /// Derived tables that do not depend on other rows, by slot.
    pub derived: HashMap<usize, Arc<Vec<Values>>>,
    /// The results of subqueries that do not depend on the rows around them, by the address of their plan.
    pub subqueries: HashMap<usize, SubqueryResult>,
}

/// What a subquery gave, once and for all rows.
#[derive(Clone)]
pub enum SubqueryResult {
    Value(Value),
    Exists(bool),
    /// For IN: the key bytes of the values.
    Set {
        keys: Arc<HashSet<Vec<u8>>>,
        has_null: bool,
    },
}

impl Frame {
    pub fn new(slots: usize) -> Frame {
        let empty: Values = Arc::new([]);
        Frame { rows: vec![empty; slots], target: None, kept: 0, derived: HashMap::new(), subqueries: HashMap::new() }
    }

    /// Keeps the rows of some slots, to be put back by [`Frame::restore`].
    pub fn save(&mut self, slots: &[usize]) -> SavedRows {
        self.kept += 1;
        SavedRows {
            rows: slots.iter().map(|&slot| Arc::clone(&self.rows[slot])).collect(),
            target: self.target.clone(),
        }
    }

    pub fn restore(&mut self, slots: &[usize], saved: SavedRows) {
        for (&slot, row) in slots.iter().zip(saved.rows) {
            self.rows[slot] = row;
        }
        self.target = saved.target;
    }

    /// Puts a row of NULLs into each slot.
    pub fn set_null(&mut self, slots: &[(usize, usize)]) {
        for &(slot, width) in slots {
            self.rows[slot] = vec![Value::Null; width].into();
        }
    }
}

/// See [`Frame::save`].
#[derive(Clone)]
pub struct SavedRows {
    rows: Vec<Values>,
    target: Option<Key>,
}
