//! The values of variables, and what else one run of a batch or procedure has of its own.

use std::sync::Arc;

use crate::catalog::object::Procedure;
use crate::execute::open_cursor::{CurrentRow, SharedCursor};
use crate::storage::ObjectId;
use crate::value::Value;

/// One run of a batch, procedure or dynamic text: the values of its variables and what else is its own.
#[derive(Debug, Default)]
pub struct Activation {
    pub values: Vec<Value>,
    /// The tables of table variables, at the variables' places.
    pub tables: Vec<Option<ObjectId>>,
    /// Those of `tables` that end with this run (a table-valued parameter belongs to the caller).
    pub owned_tables: Vec<ObjectId>,
    /// SCOPE_IDENTITY().
    pub scope_identity: Option<i64>,
    /// The procedure that runs; `None` for a batch and for dynamic text.
    pub procedure: Option<Arc<Procedure>>,
    /// The local cursors by folded name.
    pub cursors: Vec<(String, SharedCursor)>,
    /// The row that WHERE CURRENT OF means.
    pub current_row: Option<CurrentRow>,
    /// Who owns the module that runs; `None` for a batch and for dynamic text, where ownership chains end.
    pub owner: Option<i32>,
}

impl Activation {
    /// Makes room for the variables declared since.
    pub fn grow(&mut self, declarations: usize) {
        if self.values.len() < declarations {
            self.values.resize(declarations, Value::Null);
            self.tables.resize(declarations, None);
        }
    }

    /// The table of a table variable.
    pub fn table(&self, place: usize) -> ObjectId {
        self.tables[place].expect("the tables of table variables are made before the first statement runs")
    }
}
