//! Runs compiled batches, bodies and dynamic text: control of flow, TRY and CATCH.

use crate::error::SqlResult;
use crate::execute::activation::Activation;
use crate::plan::batch::{CompiledBatch, Step, StepKind};
use crate::session::client_session::Session;
use crate::session::outcome::{Control, Failure, Origin, SimpleFailure, StepResult, cancelled};
use crate::session::result_target::ResultTarget;

impl Session {
    /// Runs a compiled batch with its variables; the table variables are made and dropped here.
    pub fn run_compiled(
        &mut self,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> StepResult {
        activation.grow(compiled.declarations.len());
        if let Err(error) = self.make_table_variables(compiled, activation) {
            self.drop_table_variables(activation);
            return self.fail(error, Origin::Statement, activation, 0, out);
        }
        let result = self.run_steps(&compiled.steps, compiled, activation, out);
        self.drop_table_variables(activation);
        result
    }

    fn make_table_variables(&mut self, compiled: &CompiledBatch, activation: &mut Activation) -> SqlResult<()> {
        for user_type in &compiled.table_types {
            self.check_type(user_type)?;
        }
        for (place, template) in &compiled.table_variables {
            let id = self.create_table_variable(template)?;
            activation.tables[*place] = Some(id);
            activation.owned_tables.push(id);
        }
        Ok(())
    }

    pub fn run_steps(
        &mut self,
        steps: &[Step],
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> StepResult {
        for step in steps {
            match self.run_step(step, compiled, activation, out)? {
                Control::Next => {}
                control => return Ok(control),
            }
        }
        Ok(Control::Next)
    }

    fn run_step(
        &mut self,
        step: &Step,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> StepResult {
        let line = step.line;
        self.engine.faults.gate().pass();
        // Between statements is the moment to notice that nobody waits for the answer any more.
        if self.is_cancelled() {
            return self.fail(cancelled(), Origin::Statement, activation, line, out);
        }
        if self.state.options.no_exec && !step.ends_no_exec() {
            return Ok(Control::Next);
        }
        match &step.kind {
            StepKind::Block(steps) => self.run_steps(steps, compiled, activation, out),
            StepKind::If { condition, then, otherwise } => {
                let holds = match self.eval_condition(condition, compiled, activation) {
                    Ok(holds) => holds,
                    Err((error, origin)) => return self.fail(error, origin, activation, line, out),
                };
                // IF is a statement of its own to @@ROWCOUNT and @@ERROR.
                self.state.row_count = 0;
                self.state.error = 0;
                match (holds, otherwise) {
                    (true, _) => self.run_step(then, compiled, activation, out),
                    (false, Some(otherwise)) => self.run_step(otherwise, compiled, activation, out),
                    (false, None) => Ok(Control::Next),
                }
            }
            StepKind::While { condition, body } => loop {
                match self.eval_condition(condition, compiled, activation) {
                    Ok(true) => {}
                    Ok(false) => return Ok(Control::Next),
                    Err((error, origin)) => return self.fail(error, origin, activation, line, out),
                }
                match self.run_step(body, compiled, activation, out)? {
                    Control::Next | Control::Continue => {}
                    Control::Break => return Ok(Control::Next),
                    control @ Control::Return(_) => return Ok(control),
                }
                if self.is_cancelled() {
                    return self.fail(cancelled(), Origin::Statement, activation, line, out);
                }
            },
            StepKind::Break => Ok(Control::Break),
            StepKind::Continue => Ok(Control::Continue),
            StepKind::Return(None) => Ok(Control::Return(None)),
            StepKind::Return(Some(cached)) => match self.eval_cached(cached, compiled, activation) {
                Ok(value) => Ok(Control::Return(Some(value.as_i64().unwrap_or(0) as i32))),
                Err((error, origin)) => self.fail(error, origin, activation, line, out),
            },
            StepKind::TryCatch { body, handler } => self.run_try(body, handler, compiled, activation, out),
            StepKind::Rethrow => {
                let error = self.state.caught.last().cloned().expect("THROW without arguments stands in CATCH only");
                self.fail(error, Origin::Throw, activation, line, out)
            }
            _ => {
                let result = self.run_simple(step, compiled, activation, out);
                match result {
                    Ok(control) => Ok(control),
                    Err(SimpleFailure::Error(error, origin)) => self.fail(error, origin, activation, line, out),
                    Err(SimpleFailure::Passed(failure)) => Err(failure),
                }
            }
        }
    }

    fn run_try(
        &mut self,
        body: &[Step],
        handler: &[Step],
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> StepResult {
        let level = self.state.nest_level;
        self.try_levels.push(level);
        let result = self.run_steps(body, compiled, activation, out);
        self.try_levels.pop();
        let error = match result {
            Err(Failure::Raised { error, binding_level }) if binding_level != Some(level) => error,
            other => return other,
        };
        self.state.error = error.number;
        self.state.caught.push(error);
        let result = self.run_steps(handler, compiled, activation, out);
        self.state.caught.pop();
        result
    }
}
