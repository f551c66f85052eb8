//! What OPTION (…) asks of a plan.

use crate::tsql::ast::QueryHint;

/// Options of a statement that bear on its plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlanOptions {
    pub loop_joins: bool,
    /// OPTION (RECOMPILE): the values of variables are known to the plan.
    pub recompile: bool,
}

impl PlanOptions {
    pub fn of(hints: &[QueryHint]) -> PlanOptions {
        PlanOptions {
            loop_joins: hints.contains(&QueryHint::LoopJoin),
            recompile: hints.contains(&QueryHint::Recompile),
        }
    }
}
