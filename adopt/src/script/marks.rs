//! The marks of the templates, whose values come from a plan.

use crate::plan::Plan;

/// The errors with which SQL Server rejects a row's values: conversions, constraints, texts that are too long.
pub(super) const REFUSALS: &str = "220, 232, 241, 242, 244, 245, 248, 295, 511, 513, 515, 517, 535, 536, 537, 547, 1946, 2601, 2627, 2628, 8114, 8115, 8134, 8152, 8169, 8170";

#[derive(Debug)]
pub(super) struct Marks<'a> {
    pub(super) plan: &'a Plan,
}
