//! Binds sys.dm_db_index_operational_stats.

use crate::bind::binder::Binder;
use crate::bind::conversion::implicit;
use crate::bind::name::display_name;
use crate::error::{SqlError, SqlResult};
use crate::plan::cell::Uses;
use crate::plan::index_activity::{COUNTS, NAME};
use crate::plan::relation::Relation;
use crate::plan::scalar::{Scalar, slot_bit};
use crate::plan::table_function::{FunctionColumn, TableFunction};
use crate::storage::fold;
use crate::tsql::ast::{Expr, Ident, ObjectName};
use crate::value::SqlType;

/// Whether a name in FROM means it.
pub fn is_meant(name: &ObjectName) -> bool {
    name.schema.as_ref().is_some_and(|schema| fold(schema) == "sys") && fold(&name.name) == NAME
}

impl Binder<'_> {
    /// Its arguments: database, object, index and partition.
    pub fn bind_index_activity(
        &mut self,
        name: &ObjectName,
        arguments: &[Expr],
        alias: Option<&Ident>,
        columns: &[Ident],
    ) -> SqlResult<Relation> {
        let [database, object, index, partition] = arguments else {
            let message = format!(
                "An insufficient number of arguments were supplied for the procedure or function {}.",
                display_name(name)
            );
            return Err(SqlError::new(313, message).state(3));
        };
        let mut bound = Vec::with_capacity(4);
        for argument in [database, object, index, partition] {
            bound.push(implicit(self.bind_expr(argument)?, SqlType::Int)?);
        }
        let arguments: [Scalar; 4] = bound.try_into().expect("there were four");
        let mut described = vec![
            FunctionColumn::new("database_id", SqlType::SmallInt),
            FunctionColumn::new("object_id", SqlType::Int),
            FunctionColumn::new("index_id", SqlType::Int),
            FunctionColumn::new("partition_number", SqlType::Int),
        ];
        described.extend(COUNTS.iter().map(|(name, _)| FunctionColumn::new(name, SqlType::BigInt)));
        self.uses = Uses::Database;
        let function = TableFunction::IndexActivity(Box::new(arguments));
        let relation = self.add_function(function, described, NAME, alias, columns)?;
        if let Relation::Function { slot, .. } = &relation {
            self.system_slots |= slot_bit(*slot);
        }
        Ok(relation)
    }
}
