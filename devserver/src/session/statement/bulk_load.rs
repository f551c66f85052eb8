//! INSERT BULK and the rows that follow it in a message of their own.

use std::sync::Arc;

use crate::error::{STALE_PLAN, SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::bulk_load::run_bulk_load;
use crate::execute::frame::Frame;
use crate::plan::bulk_load::BulkLoadPlan;
use crate::plan::cached_plan::Uses;
use crate::session::client_session::{AwaitedRows, Session};
use crate::session::outcome::SimpleFailure;
use crate::session::result_target::ResultTarget;
use crate::tds::request::BulkData;
use crate::tds::token::DoneKind;
use crate::tsql::ast::InsertBulk;

impl Session {
    /// INSERT BULK: what is wrong with it is said now, the rows come with the client's next message.
    pub(crate) fn insert_bulk(&mut self, insert: &InsertBulk) -> SqlResult<()> {
        if self.state.nest_level > 0 {
            return Err(SqlError::not_supported("INSERT BULK in procedures and dynamic text"));
        }
        let plan = self.bulk_load_plan(insert)?;
        let schema = Arc::clone(&plan.target.table.schema);
        self.awaited_rows = Some(AwaitedRows { insert: insert.clone(), schema });
        Ok(())
    }

    fn bulk_load_plan(&self, insert: &InsertBulk) -> SqlResult<BulkLoadPlan> {
        let plan = self.with_binder(|binder| binder.bind_bulk_load(insert))?;
        self.check_permissions(&plan.needs)?;
        if let Some(need) = &plan.needs_alter {
            self.check_permissions(std::slice::from_ref(need)).map_err(|_| {
                SqlError::not_supported("INSERT BULK that gives identity values, without ALTER on the table")
            })?;
        }
        Ok(plan)
    }

    /// The rows, as one statement.
    pub(crate) fn load_rows(
        &mut self,
        awaited: &AwaitedRows,
        payload: &[u8],
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), SimpleFailure> {
        let plan = self.bulk_load_plan(&awaited.insert)?;
        if !Arc::ptr_eq(&plan.target.table.schema, &awaited.schema) {
            return Err(schema_has_changed().into());
        }
        let mut data = BulkData::open(payload, &plan.types)?;
        let types = data.types();
        let result = self.with_run(Uses::Database, activation, |run| {
            let mut frame = Frame { functions: plan.functions.clone(), ..Frame::new(plan.slots) };
            run_bulk_load(&plan, &types, &mut || data.next_row(), run, &mut frame)
        });
        let result = result.map_err(|error| if error.number == STALE_PLAN { schema_has_changed() } else { error })?;
        if result.ignored_duplicates {
            out.info(3604, 0, 1, "Duplicate key was ignored.", None, 0);
        }
        self.state.row_count = result.count as i64;
        self.statement_done(out, DoneKind::Insert, Some(result.count));
        Ok(())
    }

    /// The failure of a bulk load is that of a batch of one statement.
    pub(crate) fn load_failed(
        &mut self,
        failure: SimpleFailure,
        activation: &Activation,
        out: &mut ResultTarget<'_>,
    ) -> bool {
        match failure {
            SimpleFailure::Error(error, origin) => self.fail(error, origin, activation, 1, out).is_err(),
            SimpleFailure::Passed(_) => true,
        }
    }
}

/// Source: "Database Engine events and errors (4000 to 4999)".
fn schema_has_changed() -> SqlError {
    SqlError::new(4891, "Insert bulk failed due to a schema change of the target table.")
}

/// The next message was not the rows.
pub fn rows_expected() -> SqlError {
    SqlError::new(4022, "Bulk load data was expected but not sent. The batch will be terminated.")
}

pub fn rows_not_expected() -> SqlError {
    SqlError::not_supported("the rows of a bulk load without INSERT BULK")
}
