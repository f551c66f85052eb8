//! Binds sys.dm_db_index_operational_stats and sys.dm_db_index_physical_stats.

use crate::bind::binder::Binder;
use crate::bind::conversion::implicit;
use crate::bind::name::display_name;
use crate::error::{SqlError, SqlResult};
use crate::plan::cell::Uses;
use crate::plan::index_function::IndexFunction;
use crate::plan::relation::Relation;
use crate::plan::scalar::slot_bit;
use crate::plan::table_function::{FunctionColumn, TableFunction};
use crate::storage::fold;
use crate::tsql::ast::{Expr, Ident, ObjectName};

/// Which of them a name in FROM means.
pub fn meant(name: &ObjectName) -> Option<IndexFunction> {
    let schema = name.schema.as_ref().filter(|schema| fold(schema) == "sys");
    schema.and_then(|_| IndexFunction::by_name(&fold(&name.name)))
}

impl Binder<'_> {
    pub fn bind_index_function(
        &mut self,
        function: IndexFunction,
        name: &ObjectName,
        arguments: &[Expr],
        alias: Option<&Ident>,
        columns: &[Ident],
    ) -> SqlResult<Relation> {
        let parameters = function.parameters();
        if arguments.len() < parameters.len() {
            let message = format!(
                "An insufficient number of arguments were supplied for the procedure or function {}.",
                display_name(name)
            );
            return Err(SqlError::new(313, message).state(3));
        }
        if arguments.len() > parameters.len() {
            let message = format!("Procedure or function {} has too many arguments specified.", display_name(name));
            return Err(SqlError::new(8144, message).state(3));
        }
        let mut bound = Vec::with_capacity(parameters.len());
        for (argument, ty) in arguments.iter().zip(parameters) {
            bound.push(implicit(self.bind_expr(argument)?, *ty)?);
        }
        let described = function.columns().into_iter().map(|(name, ty)| FunctionColumn::new(name, ty)).collect();
        self.uses = Uses::Database;
        let call = TableFunction::OfIndexes { function, arguments: bound };
        let relation = self.add_function(call, described, function.name(), alias, columns)?;
        if let Relation::Function { slot, .. } = &relation {
            self.system_slots |= slot_bit(*slot);
        }
        Ok(relation)
    }
}
