//! Calls of user-defined functions.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::conversion::implicit;
use crate::bind::function_body::bind_function_body;
use crate::bind::name::display_name;
use crate::catalog::object::{Function, Object};
use crate::catalog::parameter::{Parameter, VariableType};
use crate::error::{SqlError, SqlResult};
use crate::plan::cached_plan::Uses;
use crate::plan::collation_label::CollationLabel;
use crate::plan::scalar::{Node, Scalar};
use crate::storage::fold;
use crate::tsql::ast::{Expr, ObjectName};
use crate::value::SqlType;

pub fn scalar_type(parameter: &Parameter) -> SqlResult<SqlType> {
    match parameter.ty {
        VariableType::Scalar(ty) => Ok(ty),
        _ => Err(SqlError::not_supported("table-valued parameters of functions")),
    }
}

/// What would give another value each time it is asked for.
fn is_volatile(scalar: &Scalar) -> bool {
    let mut found = false;
    scalar.visit(&mut |node| found |= node.is_volatile());
    found
}

impl Binder<'_> {
    fn user_function(&self, name: &ObjectName) -> SqlResult<Option<Arc<Function>>> {
        match self.find_object(name)? {
            Some(Object::Function(function)) => Ok(Some(function)),
            _ => Ok(None),
        }
    }

    /// `schema.function(arguments)` as a value; 4121 if there is no such function.
    pub fn bind_user_function(&mut self, name: &ObjectName, arguments: &[Expr]) -> SqlResult<Scalar> {
        let Some(function) = self.user_function(name)? else {
            // Nobody else can make a function in this schema, and few of SQL Server's are here.
            if name.schema.as_ref().is_some_and(|schema| fold(schema) == "sys") {
                return Err(SqlError::not_supported(format!("the function {}", display_name(name))));
            }
            return Err(SqlError::new(
                4121,
                format!(
                    "Cannot find either column \"{}\" or the user-defined function or aggregate \"{}\", or the name is \
                     ambiguous.",
                    name.schema.as_deref().unwrap_or_default(),
                    display_name(name)
                ),
            ));
        };
        if self.without_subqueries || self.in_check {
            return Err(SqlError::not_supported("a default, CHECK or computed column that calls a function"));
        }
        let arguments = self.bind_function_arguments(&function, arguments)?;
        self.need_object("EXECUTE", function.id, &function.schema, &function.name);
        self.uses = Uses::Database;
        self.functions.push(Arc::new(bind_function_body(self, &function, true)?));
        Ok(Scalar {
            node: Node::UserFunction { place: self.functions.len() - 1, arguments },
            ty: function.returns,
            nullable: true,
            label: CollationLabel::Coercible,
        })
    }

    fn bind_function_arguments(&mut self, function: &Function, arguments: &[Expr]) -> SqlResult<Vec<Scalar>> {
        let full_name = format!("{}.{}", function.schema, function.name);
        if arguments.len() != function.parameters.len() {
            return Err(SqlError::not_supported(format!("{full_name} with {} arguments", arguments.len())));
        }
        let mut bound = Vec::with_capacity(arguments.len());
        for (parameter, argument) in function.parameters.iter().zip(arguments) {
            let scalar = self.bind_expr(argument)?;
            if is_volatile(&scalar) {
                return Err(SqlError::not_supported(format!(
                    "NEWID, RAND or NEXT VALUE FOR as an argument of {full_name}"
                )));
            }
            bound.push(implicit(scalar, scalar_type(parameter)?)?);
        }
        Ok(bound)
    }
}
