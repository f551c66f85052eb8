//! What is bound and kept: a statement, condition or expression of a compiled batch, with its plan.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalog::principal::SecurableId;
use crate::plan::batch::CalledFunctions;
use crate::plan::change::{DeletePlan, InsertPlan, MergePlan, UpdatePlan};
use crate::plan::query::OutputColumn;
use crate::plan::scalar::{Condition, Scalar};
use crate::plan::select_statement::SelectStatementPlan;
use crate::plan::trigger::TriggerTarget;
use crate::tsql::ast::{DmlCondition, Expr, Ident, Predicate, StatementKind};
use crate::value::SqlType;

/// Something to be bound and kept.
#[derive(Debug)]
pub struct CachedPlan {
    pub source: Source,
    /// The plan, with the version of the catalog it was made under.
    plan: Mutex<Option<Arc<BoundPlan>>>,
}

impl CachedPlan {
    /// The cursor of WHERE CURRENT OF.
    pub fn current_of(&self) -> Option<&Ident> {
        let condition = match &self.source {
            Source::Statement(StatementKind::Update(update)) => &update.condition,
            Source::Statement(StatementKind::Delete(delete)) => &delete.condition,
            _ => return None,
        };
        match condition {
            Some(DmlCondition::CurrentOf(name)) => Some(name),
            _ => None,
        }
    }

    pub fn new(source: Source) -> CachedPlan {
        CachedPlan { source, plan: Mutex::new(None) }
    }

    /// The plan, if it is still good.
    pub fn kept(&self, version: u64) -> Option<Arc<BoundPlan>> {
        let kept = self.plan.lock();
        kept.as_ref().filter(|plan| plan.uses == Uses::Nothing || plan.version == version).cloned()
    }

    pub fn keep(&self, bound: &Arc<BoundPlan>) {
        *self.plan.lock() = Some(Arc::clone(bound));
    }
}

#[derive(Debug)]
pub enum Source {
    /// An expression, converted to a type if one is given.
    Expr(Expr, Option<SqlType>),
    Condition(Predicate),
    Statement(StatementKind),
}

/// The plan of one statement, condition or expression.
#[derive(Debug)]
pub struct BoundPlan {
    pub plan: Plan,
    pub slots: usize,
    pub needs: Vec<PermissionNeed>,
    /// If anything, a change of the catalog makes the plan stale.
    pub uses: Uses,
    /// The functions of several statements that it calls.
    pub functions: CalledFunctions,
    /// The triggers that the statement fires.
    pub triggers: Option<TriggerTarget>,
    pub version: u64,
}

#[derive(Debug)]
pub enum Plan {
    Scalar(Scalar),
    Condition(Condition),
    Select(SelectStatementPlan),
    Insert(Box<InsertPlan>),
    Update(Box<UpdatePlan>),
    Delete(Box<DeletePlan>),
    Merge(Box<MergePlan>),
}

impl Plan {
    /// The columns of the result set that the client gets, if the statement has one.
    pub fn client_columns(&self) -> Option<&[OutputColumn]> {
        let output = match self {
            Plan::Scalar(_) | Plan::Condition(_) => return None,
            Plan::Select(select) => {
                let is_sent = select.variables.is_none() && select.into.is_none();
                return is_sent.then_some(&select.query.columns);
            }
            Plan::Insert(plan) => &plan.output,
            Plan::Update(plan) => &plan.output,
            Plan::Delete(plan) => &plan.output,
            Plan::Merge(plan) => &plan.output,
        };
        output.iter().find(|output| output.into.is_none()).map(|output| output.columns.as_slice())
    }

    /// By which columns of the client's result set, from 1, its rows are ordered.
    pub fn client_order(&self) -> &[u16] {
        match self {
            Plan::Select(select) => &select.order,
            _ => &[],
        }
    }
}

/// What a statement or an expression needs of the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Uses {
    Nothing,
    /// Table variables, which nobody else sees.
    OwnTables,
    /// Tables, or a function that looks into the catalog: it runs under the latch.
    Database,
}

/// A permission that a statement needs; none for what belongs to the owner of that which names it (ownership chaining).
#[derive(Debug, Clone)]
pub struct PermissionNeed {
    pub permission: &'static str,
    pub on: SecurableId,
    /// Schema and name, for the message.
    pub schema: Arc<str>,
    pub name: Arc<str>,
}
