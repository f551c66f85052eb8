//! What statements do under SET FMTONLY ON: they say of which columns their results are.
//!
//! Source: "SET FMTONLY" (MicrosoftDocs/sql-docs, docs/t-sql/statements/set-fmtonly-transact-sql.md).

use crate::error::SqlError;
use crate::execute::activation::Activation;
use crate::plan::batch::{CompiledBatch, ExecuteTarget, Step, StepKind};
use crate::plan::cached_plan::CachedPlan;
use crate::session::client_session::Session;
use crate::session::outcome::{Control, Origin, StepResult};
use crate::session::result_target::ResultTarget;
use crate::tds::token::DoneKind;
use crate::tsql::ast::StatementKind;

impl Session {
    /// `None` for what is done as ever. What conditions, calls and the like do is not documented.
    pub(crate) fn format_only(
        &mut self,
        step: &Step,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Option<StepResult> {
        let result = match &step.kind {
            StepKind::Block(_) | StepKind::Nothing => return None,
            StepKind::Other(statement) if matches!(**statement, StatementKind::SetOptions { .. }) => return None,
            // Its own statements are described.
            StepKind::Execute(execute) if matches!(execute.target, ExecuteTarget::Text(_)) => return None,
            StepKind::Declare(_) => Ok(()),
            StepKind::Query(cached) => self.describe_query(cached, compiled, out),
            _ => Err((SqlError::not_supported("this statement under SET FMTONLY ON"), Origin::Statement)),
        };
        Some(match result {
            Ok(()) => Ok(Control::Next),
            Err((error, origin)) => self.fail(error, origin, activation, step.line, out),
        })
    }

    fn describe_query(
        &mut self,
        cached: &CachedPlan,
        compiled: &CompiledBatch,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), (SqlError, Origin)> {
        let bound = self.bound(cached, compiled).map_err(|error| (error, Origin::Binding))?;
        self.check_permissions(&bound.needs).map_err(|error| (error, Origin::Statement))?;
        match bound.plan.client_columns() {
            Some(columns) => {
                out.result_set(columns, bound.plan.client_order(), Vec::new());
                self.statement_done(out, DoneKind::Select, Some(0));
            }
            None => self.statement_done(out, DoneKind::Other, None),
        }
        Ok(())
    }
}
