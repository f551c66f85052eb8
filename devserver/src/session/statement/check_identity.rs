//! DBCC CHECKIDENT (…, RESEED, …): sets the identity counter of a table.
//!
//! Sources: "DBCC CHECKIDENT" (MicrosoftDocs/sql-docs,
//! docs/t-sql/database-console-commands/dbcc-checkident-transact-sql.md), and its "Database engine events and errors"
//! for 2501, 2528, 2560, 7997 and 7998.

use crate::catalog::object_name::ParsedName;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::session::client_session::Session;
use crate::session::result_target::ResultTarget;
use crate::value::{SqlType, Value, convert};

impl Session {
    pub(crate) fn check_identity(
        &mut self,
        table: &str,
        value: &Value,
        line: u32,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> SqlResult<()> {
        let not_found = || {
            SqlError::new(
                2501,
                format!("Cannot find a table or object with the name \"{table}\". Check the system catalog."),
            )
            .state(45)
        };
        let name = ParsedName::parse(table).ok_or_else(not_found)?.to_object_name();
        let id = self.lookup_table(&name)?.ok_or_else(not_found)?;
        let schema = self.stored_schema(id)?;
        if !self.is_owner() && self.owner_in(&schema.schema) != Some(self.state.user) {
            return Err(SqlError::not_supported(
                "DBCC CHECKIDENT by others than the owners of the database and of the schema",
            ));
        }
        self.check_ddl_allowed(table.starts_with('#'))?;
        let Some(column) = schema.columns.iter().position(|column| column.identity.is_some()) else {
            return Err(SqlError::new(7997, format!("'{}' does not contain an identity column.", schema.name)));
        };
        let value = reseed_value(value, schema.columns[column].sql_type)?;
        let before = self.table_change(activation, |latch, tx| latch.reseed_identity(tx, id, value))?;
        let before = before.map_or("NULL".to_owned(), |value| value.to_string());
        let message = format!("Checking identity information: current identity value '{before}'.");
        out.info(7998, 0, 1, &message, None, line);
        let completed = "DBCC execution completed. If DBCC printed error messages, contact your system administrator.";
        out.info(2528, 0, 1, completed, None, line);
        Ok(())
    }
}

/// The new value as the column's type has it; 2560 if it is no integer of that range.
fn reseed_value(value: &Value, column: SqlType) -> SqlResult<i64> {
    let wrong = || SqlError::new(2560, "Parameter 3 is incorrect for this DBCC statement.").state(9);
    let whole = match value {
        Value::Decimal(decimal) if decimal.scale == 0 => i64::try_from(decimal.mantissa).map_err(|_| wrong())?,
        Value::Bit(_) => return Err(wrong()),
        _ => value.as_i64().ok_or_else(wrong)?,
    };
    convert(Value::BigInt(whole), SqlType::BigInt, column, None, false).map_err(|_| wrong())?;
    Ok(whole)
}
