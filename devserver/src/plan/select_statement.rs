//! SELECT as a statement: what becomes of the rows of its query.

use crate::plan::query::QueryPlan;
use crate::tsql::ast::Identity;
use crate::tsql::ast::ObjectName;

/// A SELECT statement.
#[derive(Debug)]
pub struct SelectStatementPlan {
    pub query: QueryPlan,
    /// By which columns of the result, from 1, the rows are ordered.
    pub order: Vec<u16>,
    /// `SELECT @a = …`: the variables.
    pub variables: Option<Vec<usize>>,
    pub into: Option<IntoTable>,
}

/// Where the rows of a SELECT go.
#[derive(Debug)]
pub struct IntoTable {
    pub name: ObjectName,
    /// The column that takes the identity property of the column it is selected from.
    pub identity: Option<(usize, Identity)>,
}
