//! RAISERROR: an error or a message of the program's own.

use std::sync::Arc;

use crate::error::SqlError;
use crate::execute::activation::Activation;
use crate::plan::batch::CompiledBatch;
use crate::plan::cached_plan::CachedPlan;
use crate::session::client_session::Session;
use crate::session::outcome::{Origin, SimpleFailure};
use crate::session::result_target::ResultTarget;
use crate::tds::token::DoneKind;
use crate::value::{self, Value};

impl Session {
    #[allow(clippy::too_many_arguments)] // The parts of RAISERROR.
    pub(crate) fn raise_error(
        &mut self,
        message: &CachedPlan,
        severity: &CachedPlan,
        state: &CachedPlan,
        arguments: &[CachedPlan],
        line: u32,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), SimpleFailure> {
        let text = self.eval_cached(message, compiled, activation)?;
        let severity = self.eval_cached(severity, compiled, activation)?.as_i64().unwrap_or(0).clamp(0, 25) as u8;
        let state = self.eval_cached(state, compiled, activation)?.as_i64().unwrap_or(0);
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let value = self.eval_cached(argument, compiled, activation)?;
            if matches!(value, Value::Variant(_)) {
                return Err(SqlError::not_supported("RAISERROR with a sql_variant").into());
            }
            values.push(value);
        }
        let Some(text) = text.as_str() else {
            return Err(SqlError::not_supported("RAISERROR with a message number or NULL").into());
        };
        if severity > 18 {
            return Err(SqlError::not_supported("RAISERROR above severity 18").into());
        }
        let text = value::builtin::format_message::format_message(text, &values)?;
        // "Values … negative … or larger than 255 … default to 1": see RAISERROR, *state*.
        let state = u8::try_from(state).unwrap_or(1);
        if severity <= 10 {
            let procedure = activation.procedure.as_ref().map(|procedure| Arc::clone(&procedure.full_name));
            out.info(50000, severity, state, &text, procedure.as_deref(), line);
            self.statement_done(out, DoneKind::Other, None);
            return Ok(());
        }
        let error = SqlError::new(50000, text).severity(severity).state(state);
        Err(SimpleFailure::Error(error, Origin::RaiseError))
    }
}
