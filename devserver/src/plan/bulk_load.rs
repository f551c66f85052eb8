//! INSERT BULK as a plan: the rows come from the client.

use crate::plan::batch::CalledFunctions;
use crate::plan::cell::PermissionNeed;
use crate::plan::change::InsertTarget;
use crate::plan::table_rules::ForeignKeys;
use crate::plan::trigger::TriggerTarget;
use crate::value::SqlType;

#[derive(Debug)]
pub struct BulkLoadPlan {
    /// Without its checks, if they are not asked for.
    pub target: InsertTarget,
    /// For each column of the target's list the type that the client has announced.
    pub types: Vec<SqlType>,
    /// Empty, if they are not asked for.
    pub foreign_keys: ForeignKeys,
    /// NULL stays where a column has a default.
    pub keep_nulls: bool,
    pub table_lock: bool,
    /// The rows are said to come in the order of the clustered index.
    pub in_key_order: bool,
    /// There are constraints that nobody will have looked at.
    pub distrusts: bool,
    /// Constraints, triggers or identity are passed over, which takes ALTER on the table.
    pub needs_alter: Option<PermissionNeed>,
    pub needs: Vec<PermissionNeed>,
    pub triggers: Option<TriggerTarget>,
    pub slots: usize,
    pub functions: CalledFunctions,
}
