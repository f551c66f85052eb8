//! INSERT BULK and the rows that follow it in a message of their own.

use std::sync::Arc;

use crate::error::{STALE_PLAN, SqlError};
use crate::execute::activation::Activation;
use crate::plan::batch::CompiledBatch;
use crate::plan::cached_plan::{CachedPlan, Plan};
use crate::plan::change::InsertRows;
use crate::session::client_session::{AwaitedRows, Session};
use crate::session::outcome::SimpleFailure;
use crate::session::result_target::ResultTarget;
use crate::tds::token::DoneKind;

impl Session {
    /// Runs twice: without rows, which says what is wrong with the statement, and with those of the next message.
    pub(crate) fn insert_bulk(
        &mut self,
        cached: &CachedPlan,
        line: u32,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), SimpleFailure> {
        if self.state.nest_level > 0 {
            return Err(SqlError::not_supported("INSERT BULK in procedures and dynamic text").into());
        }
        let bound = self.bound(cached, compiled)?;
        let Plan::Insert(plan) = &bound.plan else { unreachable!("INSERT BULK is an INSERT") };
        let InsertRows::BulkLoad(types) = &plan.rows else { unreachable!("its rows come from the client") };
        let schema = Arc::clone(&plan.target.table.schema);
        let Some((announced, rows)) = self.arrived_rows.take() else {
            self.check_permissions(&bound.needs)?;
            self.awaited_rows = Some(AwaitedRows { sql: String::new(), types: types.clone(), schema });
            self.statement_done(out, DoneKind::Other, None);
            return Ok(());
        };
        if !Arc::ptr_eq(&schema, &announced) {
            return Err(schema_has_changed().into());
        }
        let mut values = rows.iter().flat_map(|(row, _)| row.iter().zip(&plan.target.ordinals));
        if values.any(|(value, ordinal)| value.is_null() && schema.columns[*ordinal].default.is_some()) {
            return Err(SqlError::not_supported("INSERT BULK of NULL into a column with a default").into());
        }
        match self.run_query_step(cached, Some(rows), line, compiled, activation, out) {
            Err(SimpleFailure::Error(error, _)) if error.number == STALE_PLAN => Err(schema_has_changed().into()),
            Err(SimpleFailure::Error(error, _)) if matches!(error.number, 2628 | 8115 | 8152) => {
                Err(SqlError::not_supported("INSERT BULK of a value that is too long for its column").into())
            }
            result => result,
        }
    }
}

/// Source: "Database Engine events and errors (4000 to 4999)".
fn schema_has_changed() -> SqlError {
    SqlError::new(4891, "Insert bulk failed due to a schema change of the target table.")
}
