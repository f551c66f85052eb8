//! Refuses NEXT VALUE FOR where it is not clear how many values a statement takes from the sequence: in WHERE and its
//! like, in what is nested or conditional, beside DISTINCT, TOP, or ORDER BY without OVER. SQL Server has an error for
//! each (11719 to 11742).
//!
//! Source: "NEXT VALUE FOR", limitations and restrictions (MicrosoftDocs/sql-docs,
//! docs/t-sql/functions/next-value-for-transact-sql.md).

use crate::bind::binder::Binder;
use crate::error::{SqlError, SqlResult};
use crate::plan::scalar::{Node, Scalar};

impl Binder<'_> {
    /// Binds what must not contain NEXT VALUE FOR.
    pub fn without_next_value<T>(&mut self, bind: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        let before = self.next_values;
        let bound = bind(self)?;
        if self.next_values != before { Err(next_value_here()) } else { Ok(bound) }
    }
}

pub fn next_value_here() -> SqlError {
    SqlError::not_supported("NEXT VALUE FOR in this place")
}

pub fn takes_next_value(scalar: &Scalar) -> bool {
    let mut found = false;
    scalar.visit(&mut |node| found |= matches!(node, Node::NextValue(_)));
    found
}
