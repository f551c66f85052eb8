//! INSERT BULK as a plan: the rows come from the client.

use crate::plan::batch::CalledFunctions;
use crate::plan::cached_plan::PermissionNeed;
use crate::plan::change::InsertTarget;
use crate::value::SqlType;

#[derive(Debug)]
pub struct BulkLoadPlan {
    pub target: InsertTarget,
    /// For each column of the target's list the type that the client has announced.
    pub types: Vec<SqlType>,
    /// NULL stays where a column has a default.
    pub keep_nulls: bool,
    /// Identity values are given, which takes ALTER on the table.
    pub needs_alter: Option<PermissionNeed>,
    pub needs: Vec<PermissionNeed>,
    pub slots: usize,
    pub functions: CalledFunctions,
}
