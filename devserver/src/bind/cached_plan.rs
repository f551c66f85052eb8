//! Binds what a compiled batch keeps: one statement, condition or expression, when the batch is compiled and again when
//! the catalog has changed.

use std::sync::Arc;

use crate::bind::binder::{Binder, CallChain};
use crate::bind::conversion::implicit;
use crate::bind::select_statement::bind_select_statement;
use crate::catalog::database::Database;
use crate::error::{SqlError, SqlResult};
use crate::execute::session_state::SessionState;
use crate::plan::cached_plan::{BoundPlan, CachedPlan, Plan, Source};
use crate::plan::change::{BoundAction, BoundClause, OutputPlan};
use crate::plan::declarations::Declarations;
use crate::plan::trigger::TriggerTarget;
use crate::storage::{Latch, Looks, TableSchema};
use crate::tsql::ast::{StatementKind, TriggerEvent};

/// What binding needs to know of the world.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub database: &'a Database,
    pub latch: &'a Latch<'a>,
    pub state: &'a SessionState,
    /// Names without schema are looked for here first.
    pub schema: &'a Arc<str>,
    /// See [`Binder::owner`].
    pub owner: Option<i32>,
    /// See [`Binder::calls`].
    pub calls: Option<&'a CallChain<'a>>,
}

impl<'a> Surroundings<'a> {
    pub(super) fn binder(self, declarations: &'a Declarations) -> Binder<'a> {
        let mut binder = Binder::new(self.database, self.latch, self.state, declarations);
        binder.default_schema = Arc::clone(self.schema);
        binder.owner = self.owner;
        binder.calls = self.calls;
        binder
    }

    /// Binds a cached plan anew. Also says what the lookups of its names have met; those of a function's body are its
    /// caller's.
    pub fn bind(
        self,
        cached: &CachedPlan,
        declarations: &'a Declarations,
        version: u64,
    ) -> (SqlResult<Arc<BoundPlan>>, Looks) {
        if self.calls.is_some() {
            return (self.bind_plan(cached, declarations, version), Looks::default());
        }
        let before = self.latch.take_looks();
        let bound = self.bind_plan(cached, declarations, version);
        let looks = self.latch.take_looks();
        self.latch.put_looks(before);
        (bound, looks)
    }

    fn bind_plan(self, cached: &CachedPlan, declarations: &'a Declarations, version: u64) -> SqlResult<Arc<BoundPlan>> {
        let Surroundings { latch, state, calls, .. } = self;
        let mut binder = self.binder(declarations);
        let plan = bind_source(&mut binder, &cached.source)?;
        let triggers = bind_fired_triggers(&binder, &plan)?;
        let bound = Arc::new(BoundPlan {
            plan,
            functions: binder.called_functions(),
            slots: binder.slots,
            needs: std::mem::take(&mut binder.needs),
            uses: binder.uses,
            triggers,
            version,
        });
        if calls.is_some() && binder.uses_temporary {
            return Err(SqlError::new(2772, "Cannot access temporary tables from within a function."));
        }
        // What another session would bind otherwise is not kept; a function's body is kept by whoever calls it.
        let is_common = || !binder.uses_temporary && state.identity_insert.is_none() && latch.looks_are_common();
        if calls.is_some() || is_common() {
            cached.keep(&bound);
        }
        Ok(bound)
    }
}

fn bind_source(binder: &mut Binder<'_>, source: &Source) -> SqlResult<Plan> {
    Ok(match source {
        Source::Expr(expr, ty) => {
            let scalar = binder.bind_expr(expr)?;
            Plan::Scalar(match ty {
                Some(ty) => implicit(scalar, *ty)?,
                None => scalar,
            })
        }
        Source::Condition(predicate) => Plan::Condition(binder.bind_condition(predicate)?),
        Source::Statement(StatementKind::Select(select)) => Plan::Select(bind_select_statement(binder, select)?),
        Source::Statement(StatementKind::Insert(insert)) => Plan::Insert(Box::new(binder.bind_insert(insert)?)),
        Source::Statement(StatementKind::Update(update)) => Plan::Update(Box::new(binder.bind_update(update)?)),
        Source::Statement(StatementKind::Delete(delete)) => Plan::Delete(Box::new(binder.bind_delete(delete)?)),
        Source::Statement(StatementKind::Merge(merge)) => Plan::Merge(Box::new(binder.bind_merge(merge)?)),
        Source::Statement(_) => return Err(SqlError::not_supported("this statement in a batch")),
    })
}

/// The triggers that a statement fires.
fn bind_fired_triggers(binder: &Binder<'_>, plan: &Plan) -> SqlResult<Option<TriggerTarget>> {
    let (schema, events, outputs): (&TableSchema, Vec<TriggerEvent>, &[OutputPlan]) = match plan {
        Plan::Insert(plan) => (&plan.target.table.schema, vec![TriggerEvent::Insert], &plan.output),
        Plan::Update(plan) => (&plan.table.schema, vec![TriggerEvent::Update], &plan.output),
        Plan::Delete(plan) => (&plan.table.schema, vec![TriggerEvent::Delete], &plan.output),
        Plan::Merge(plan) => {
            let event = |clause: &BoundClause| match clause.action {
                BoundAction::Insert(..) => TriggerEvent::Insert,
                BoundAction::Update(_) => TriggerEvent::Update,
            };
            (&plan.table.schema, plan.clauses.iter().map(event).collect(), &plan.output)
        }
        Plan::Scalar(_) | Plan::Condition(_) | Plan::Select(_) => return Ok(None),
    };
    for into in outputs.iter().filter_map(|output| output.into.as_ref()) {
        binder.check_no_triggers(&into.table.schema)?;
    }
    let sends_output = outputs.iter().any(|output| output.into.is_none());
    let target = binder.bind_triggers(schema, &events, sends_output)?;
    if target.is_some() && matches!(plan, Plan::Merge(_)) {
        return Err(SqlError::not_supported("MERGE of a table with triggers"));
    }
    if target.as_ref().is_some_and(|target| target.instead_of.is_some()) && !outputs.is_empty() {
        return Err(SqlError::not_supported("OUTPUT INTO of a statement with an INSTEAD OF trigger"));
    }
    Ok(target)
}
