//! How expressions and statements get what they need to run: permissions, a transaction, the latch, a mark to go back
//! to.

use std::sync::Arc;

use crate::error::{STALE_PLAN, SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::frame::{Frame, Run, Storage};
use crate::plan::batch::CompiledBatch;
use crate::plan::cached_plan::{BoundPlan, CachedPlan, Plan, Uses};
use crate::session::client_session::Session;
use crate::session::outcome::Origin;
use crate::tsql::ast::IsolationLevel;
use crate::value::{SqlType, Value};

impl Session {
    /// Runs `f` with what it needs. With tables it is a statement: with a transaction of its own if none is open, and
    /// taken back if it fails.
    pub fn with_run<T>(
        &mut self,
        uses: Uses,
        activation: &mut Activation,
        f: impl FnOnce(&mut Run<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let database = Arc::clone(&self.database);
        let now = self.engine.faults.now();
        if uses == Uses::Nothing {
            let mut run = Run { storage: None, database: &database, state: &mut self.state, activation, now };
            return f(&mut run);
        }
        let is_autocommit = self.tx.is_none();
        let mut tx = match self.tx.take() {
            Some(tx) => tx,
            None => self.new_transaction(),
        };
        tx.lock_timeout = self.state.options.lock_timeout;
        tx.deadlock_priority = self.state.options.deadlock_priority;
        tx.under_snapshot = self.state.options.isolation == IsolationLevel::Snapshot;
        let mut latch = database.storage.statement_latch(&mut self.own_tables);
        if uses == Uses::Database {
            latch.take();
        }
        let mark = latch.begin_statement(&mut tx);
        let storage = Storage { latch, tx };
        let mut run = Run { storage: Some(storage), database: &database, state: &mut self.state, activation, now };
        let result = f(&mut run);
        let storage = run.storage.take().expect("it was put in above");
        drop(run);
        let Storage { mut latch, mut tx } = storage;
        match &result {
            Ok(_) => latch.end_statement(&mut tx, mark),
            Err(_) => latch.rollback_statement(&mut tx, mark),
        }
        if !is_autocommit {
            self.tx = Some(tx);
        } else if !latch.was_taken() {
            // It has left nothing that could be committed.
        } else if result.is_ok() {
            latch.commit(tx);
        } else {
            latch.rollback(tx);
        }
        result
    }

    pub fn eval_cached(
        &mut self,
        cached: &CachedPlan,
        compiled: &CompiledBatch,
        activation: &mut Activation,
    ) -> Result<Value, (SqlError, Origin)> {
        self.with_newest_plan(cached, compiled, |session, bound| {
            let Plan::Scalar(scalar) = &bound.plan else { unreachable!("the plan was made for an expression") };
            session.with_run(bound.uses, activation, |run| scalar.eval(run, &mut Frame::of(bound)))
        })
    }

    /// Evaluates a cached plan; again if another session has dropped an index that its plan uses.
    fn with_newest_plan<T>(
        &mut self,
        cached: &CachedPlan,
        compiled: &CompiledBatch,
        mut evaluate: impl FnMut(&mut Session, &BoundPlan) -> SqlResult<T>,
    ) -> Result<T, (SqlError, Origin)> {
        loop {
            let version = self.version();
            let bound = self.bound(cached, compiled).map_err(|error| (error, Origin::Binding))?;
            self.check_permissions(&bound.needs).map_err(|error| (error, Origin::Statement))?;
            match evaluate(self, &bound) {
                Err(error) if error.number == STALE_PLAN && self.version() != version => {}
                result => return result.map_err(|error| (error, Origin::Statement)),
            }
        }
    }

    pub(crate) fn eval_condition(
        &mut self,
        cached: &CachedPlan,
        compiled: &CompiledBatch,
        activation: &mut Activation,
    ) -> Result<bool, (SqlError, Origin)> {
        self.with_newest_plan(cached, compiled, |session, bound| {
            let Plan::Condition(condition) = &bound.plan else { unreachable!("the plan was made for a condition") };
            session.with_run(bound.uses, activation, |run| condition.holds(run, &mut Frame::of(bound)))
        })
    }

    /// The value of an EXEC argument with its type.
    pub fn eval_typed(
        &mut self,
        cached: &CachedPlan,
        compiled: &CompiledBatch,
        activation: &mut Activation,
    ) -> Result<(Value, SqlType), (SqlError, Origin)> {
        let bound = self.bound(cached, compiled).map_err(|error| (error, Origin::Binding))?;
        let Plan::Scalar(scalar) = &bound.plan else { unreachable!("the plan was made for an expression") };
        let value = self.eval_cached(cached, compiled, activation)?;
        Ok((value, scalar.ty))
    }
}

pub(crate) fn cell_type(cached: &CachedPlan, version: u64) -> Option<SqlType> {
    match &cached.kept(version)?.plan {
        Plan::Scalar(scalar) => Some(scalar.ty),
        _ => None,
    }
}
