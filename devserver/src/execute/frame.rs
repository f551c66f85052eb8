//! What a statement has in its hands while it runs: the latch, its transaction, its session ([`Run`]) and the row in
//! each of its slots ([`Frame`]).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::catalog::database::Database;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::session_state::SessionState;
use crate::plan::batch::CalledFunctions;
use crate::plan::cached_plan::BoundPlan;
use crate::plan::query::TableLocation;
use crate::storage::{Key, Latch, ObjectId, Row, TableSchema, Transaction};
use crate::value::{Day, Ticks, Value};

/// The values of a row.
pub type Values = Arc<[Value]>;

/// The row in a slot. A stored row stays as it is kept, and each value is decoded when somebody asks for it: most
/// statements look at few columns, and rows that are saved for later are copied by their reference.
#[derive(Clone)]
pub enum SlotRow {
    Values(Values),
    Stored(Row, Arc<TableSchema>),
    /// The side of an outer join that has no row: all its columns are NULL.
    Absent,
}

impl SlotRow {
    /// Puts a stored row into the slot.
    pub fn store(&mut self, row: Row, schema: &Arc<TableSchema>) {
        match self {
            // The next row of the same scan.
            SlotRow::Stored(stored, known) if Arc::ptr_eq(known, schema) => *stored = row,
            slot => *slot = SlotRow::Stored(row, Arc::clone(schema)),
        }
    }

    pub fn get(&self, ordinal: usize) -> Value {
        match self {
            SlotRow::Values(values) => values[ordinal].clone(),
            SlotRow::Stored(row, schema) => row.get(schema, ordinal),
            SlotRow::Absent => Value::Null,
        }
    }

    pub fn is_null(&self, ordinal: usize) -> bool {
        match self {
            SlotRow::Values(values) => values[ordinal].is_null(),
            SlotRow::Stored(row, schema) => row.is_null(schema, ordinal),
            SlotRow::Absent => true,
        }
    }

    pub fn to_vec(&self) -> Vec<Value> {
        match self {
            SlotRow::Values(values) => values.to_vec(),
            SlotRow::Stored(row, schema) => row.values(schema),
            SlotRow::Absent => unreachable!("only a row that is there is taken as a whole"),
        }
    }
}

impl From<Values> for SlotRow {
    fn from(values: Values) -> SlotRow {
        SlotRow::Values(values)
    }
}

impl From<Vec<Value>> for SlotRow {
    fn from(values: Vec<Value>) -> SlotRow {
        SlotRow::Values(values.into())
    }
}

impl From<&[Value]> for SlotRow {
    fn from(values: &[Value]) -> SlotRow {
        SlotRow::Values(values.into())
    }
}

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
    pub activation: &'a mut Activation,
    /// The time of the statement: the same wherever it asks.
    pub now: (Day, Ticks),
}

pub struct Storage<'a> {
    pub latch: Latch<'a>,
    pub tx: Transaction,
}

impl<'a> Run<'a> {
    /// The storage, under the latch.
    pub fn storage(&mut self) -> SqlResult<&mut Storage<'a>> {
        let storage = self.own_storage()?;
        storage.latch.take();
        Ok(storage)
    }

    /// The storage for what happens to table variables only, which needs no latch.
    pub fn own_storage(&mut self) -> SqlResult<&mut Storage<'a>> {
        self.storage.as_mut().ok_or_else(|| SqlError::not_supported("a table in this place"))
    }

    /// The storage for what happens to one table.
    pub fn storage_of(&mut self, place: TableLocation) -> SqlResult<&mut Storage<'a>> {
        match place {
            TableLocation::Stored(_) => self.storage(),
            TableLocation::Variable(_) => self.own_storage(),
        }
    }

    pub fn table_id(&self, place: TableLocation) -> ObjectId {
        match place {
            TableLocation::Stored(id) => id,
            TableLocation::Variable(variable) => self.activation.table(variable),
        }
    }
}

/// The rows of a statement that is being computed.
#[derive(Default)]
pub struct Frame {
    pub rows: Vec<SlotRow>,
    /// The functions that expressions call.
    pub functions: CalledFunctions,
    /// The locator of the row in the target's slot.
    pub target: Option<Key>,
    /// How many rows have been kept for later, as rows to change or in the hands of an operator. A row of the target
    /// that nobody has kept when its turn is over does not qualify.
    pub kept: u64,
    /// What NEXT VALUE FOR has given to the row that is being computed, by the number of the sequence.
    pub next_values: Vec<(i32, i64)>,
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
        Frame {
            rows: vec![empty.into(); slots],
            functions: None,
            target: None,
            kept: 0,
            next_values: Vec::new(),
            derived: HashMap::new(),
            subqueries: HashMap::new(),
        }
    }

    /// For the rows of a plan.
    pub fn of(plan: &BoundPlan) -> Frame {
        Frame { functions: plan.functions.clone(), ..Frame::new(plan.slots) }
    }

    /// Keeps the rows of some slots, to be put back by [`Frame::restore`].
    pub fn save(&mut self, slots: &[usize]) -> SavedRows {
        self.kept += 1;
        SavedRows { rows: slots.iter().map(|&slot| self.rows[slot].clone()).collect(), target: self.target.clone() }
    }

    pub fn restore(&mut self, slots: &[usize], saved: SavedRows) {
        for (&slot, row) in slots.iter().zip(saved.rows) {
            self.rows[slot] = row;
        }
        self.target = saved.target;
    }

    /// Puts saved rows back and saves those that are there now. The target stays.
    pub fn exchange(&mut self, slots: &[usize], saved: &mut SavedRows) {
        for (&slot, row) in slots.iter().zip(&mut saved.rows) {
            std::mem::swap(&mut self.rows[slot], row);
        }
    }

    /// Leaves each slot without a row: its columns are NULL.
    pub fn set_null(&mut self, slots: &[usize]) {
        for &slot in slots {
            self.rows[slot] = SlotRow::Absent;
        }
    }
}

/// See [`Frame::save`].
#[derive(Clone)]
pub struct SavedRows {
    rows: Vec<SlotRow>,
    target: Option<Key>,
}

/// What an operator calls for each row it has put into the frame.
pub type Emit<'e> = &'e mut dyn FnMut(&mut Run<'_>, &mut Frame) -> SqlResult<Flow>;

/// What a query calls for each row of its result.
pub type EmitRow<'e> = &'e mut dyn FnMut(&mut Run<'_>, &mut Frame, Vec<Value>) -> SqlResult<Flow>;
