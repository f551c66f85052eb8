//! SELECT … INTO: makes the table.

use crate::error::SqlResult;
use crate::execute::activation::Activation;
use crate::plan::query::OutputColumn;
use crate::plan::select_statement::IntoTable;
use crate::session::client_session::Session;
use crate::storage::ObjectId;

impl Session {
    /// Makes the table; its number.
    pub(crate) fn make_into(
        &mut self,
        into: &IntoTable,
        columns: &[OutputColumn],
        activation: &mut Activation,
    ) -> SqlResult<ObjectId> {
        if into.is_temporary() {
            return self.store_table(&into.name, activation, |_, schema| into.schema(columns, schema));
        }
        self.changing_names(|session| {
            session.lock_new_name(&into.name)?;
            session.store_table(&into.name, activation, |_, schema| into.schema(columns, schema))
        })
    }
}
