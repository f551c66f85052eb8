//! sp_tablecollations_100, which no page describes: bulk copy clients of Microsoft ask it for the collations of the
//! columns they are about to fill.
//!
//! Source: SqlBulkCopy.cs of dotnet/SqlClient, which takes a row for each column and reads the fourth of its columns.

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::metadata_function::{object_id, visible_table};
use crate::plan::cached_plan::Uses;
use crate::plan::query::{ColumnOrigin, OutputColumn};
use crate::session::call::argument::PassedArgument;
use crate::session::call::system_argument::text_argument;
use crate::session::client_session::Session;
use crate::session::result_target::ResultTarget;
use crate::tds::token::DoneKind;
use crate::value::{Collation, SqlType, Value};

impl Session {
    pub(crate) fn table_collations(
        &mut self,
        arguments: &[PassedArgument],
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> SqlResult<()> {
        let name = text_argument(arguments, 0, "@object", "sp_tablecollations_100")?;
        let schema = self.with_run(Uses::Database, activation, |run| {
            let table = visible_table(&name, run)?;
            if table.is_none() && !object_id(&Value::String(name.as_str().into()), &Value::Null, run)?.is_null() {
                return Err(SqlError::not_supported("sp_tablecollations_100 of what is no table"));
            }
            Ok(table)
        })?;
        let columns = schema.iter().flat_map(|schema| &schema.columns).enumerate();
        let rows: Vec<Vec<Value>> = columns
            .map(|(ordinal, column)| {
                let collation = Some(column.collation).filter(|_| column.sql_type.has_collation());
                vec![
                    Value::Int(ordinal as i32 + 1),
                    Value::String(column.name.as_ref().into()),
                    collation.map_or(Value::Null, |collation| Value::Bytes(collation.tds_bytes().into())),
                    collation.map_or(Value::Null, |collation| Value::String(collation.name().into())),
                ]
            })
            .collect();
        let described = [
            ("colid", SqlType::Int, false),
            ("name", SqlType::SYSNAME, true),
            ("tds_collation", SqlType::Binary(5), true),
            ("collation", SqlType::SYSNAME, true),
        ]
        .map(|(name, ty, nullable)| OutputColumn {
            name: name.into(),
            ty,
            nullable,
            shown_nullable: nullable,
            origin: ColumnOrigin::Computed,
            collation: Collation::default(),
        });
        let count = rows.len() as u64;
        out.result_set(&described, &[1], rows);
        self.state.row_count = count as i64;
        self.statement_done(out, DoneKind::Select, Some(count));
        Ok(())
    }
}
