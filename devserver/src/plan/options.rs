//! What OPTION (…) asks of a plan.

use crate::tsql::ast::QueryHint;

/// Options of a statement that bear on its plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlanOptions {
    pub force_order: bool,
    pub loop_joins: bool,
    /// OPTION (RECOMPILE): the values of variables are known to the plan.
    pub recompile: bool,
}

impl PlanOptions {
    pub fn of(hints: &[QueryHint]) -> PlanOptions {
        let mut options = PlanOptions::default();
        for hint in hints {
            match hint {
                QueryHint::ForceOrder => options.force_order = true,
                QueryHint::LoopJoin => options.loop_joins = true,
                QueryHint::Recompile => options.recompile = true,
                // They bear on the cost of a plan, never on its result, and the dev server's plans are what they are.
                QueryHint::MaxDop(_)
                | QueryHint::Fast(_)
                | QueryHint::KeepPlan
                | QueryHint::KeepFixedPlan
                | QueryHint::OptimizeForUnknown
                | QueryHint::OptimizeFor(_) => {}
            }
        }
        options
    }
}
