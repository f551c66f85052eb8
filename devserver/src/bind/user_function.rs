//! Calls of user-defined functions.
//!
//! A function is bound where it is called, like a view: its parameters are the arguments' own bound expressions, which
//! know their slots and so mean the same inside the function as outside. SQL Server inlines scalar functions of one
//! RETURN the same way ("Scalar UDF inlining", MicrosoftDocs/sql-docs,
//! docs/relational-databases/user-defined-functions/scalar-udf-inlining.md) and table-valued functions of one SELECT
//! always. Functions of several statements are called ([`crate::bind::function_body`]).

use std::sync::Arc;

use crate::bind::binder::{Arguments, Binder};
use crate::bind::block::BoundQuery;
use crate::bind::conversion::implicit;
use crate::bind::function_body::bind_statements;
use crate::bind::name::{display_name, invalid_object};
use crate::catalog::object::{Function, Object};
use crate::catalog::parameter::{Parameter, VariableType};
use crate::catalog::principal::SecurableId;
use crate::error::{SqlError, SqlResult};
use crate::plan::cell::Uses;
use crate::plan::collation_label::CollationLabel;
use crate::plan::scalar::{Node, Scalar};
use crate::storage::fold;
use crate::tsql::ast::{Expr, FunctionBody, ObjectName};
use crate::tsql::mentions;
use crate::value::{SqlType, Value};

pub fn scalar_type(parameter: &Parameter) -> SqlResult<SqlType> {
    match parameter.ty {
        VariableType::Scalar(ty) => Ok(ty),
        _ => Err(SqlError::not_supported("table-valued parameters of functions")),
    }
}

/// What DEFAULT means for a parameter ("CREATE FUNCTION", docs/t-sql/statements/create-function-transact-sql.md).
fn default_of(parameter: &Parameter, function: &str) -> SqlResult<Scalar> {
    match &parameter.default {
        Some(value) => Ok(Scalar::constant(value.clone(), scalar_type(parameter)?)),
        None => {
            let message = format!("DEFAULT for {} of {function}, which has no default", parameter.name);
            Err(SqlError::not_supported(message))
        }
    }
}

/// What would give another value each time it is asked for: an argument can stand in several places.
fn is_volatile(scalar: &Scalar) -> bool {
    let mut found = false;
    scalar.visit(&mut |node| found |= node.is_volatile());
    found
}

/// Whether a function is SQL Server's own: nobody else can make one in this schema, and few of them are here.
fn is_in_sys(name: &ObjectName) -> bool {
    name.schema.as_ref().is_some_and(|schema| fold(schema) == "sys")
}

/// NULL as a parameter's value: unlike the constant NULL it has a type, and may stand where that may not (ISNULL).
pub fn null_of(ty: SqlType) -> Scalar {
    let constant = Scalar { node: Node::Constant(Value::Null), ty, nullable: true, label: CollationLabel::Coercible };
    let node = Node::Convert { operand: Box::new(constant), style: None, explicit: false, attempt: false };
    Scalar { node, ty, nullable: true, label: CollationLabel::Coercible }
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
        let found = self.user_function(name)?.and_then(|function| function.returns.map(|returns| (function, returns)));
        let Some((function, returns)) = found else {
            if is_in_sys(name) {
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
        self.function_calls += 1;
        self.check_reading_allowed(&function)?;
        self.check_own_function(&function)?;
        let arguments = self.bind_function_arguments(&function, arguments)?;
        self.need_object("EXECUTE", function.id, &function.schema, &function.name);
        self.uses = Uses::Database;
        if let FunctionBody::Statements { body, .. } = &function.body {
            let values = arguments.into_iter().map(|(_, scalar)| scalar).collect();
            let called = bind_statements(self, &function, returns, body, true)?;
            self.functions.push(called);
            let place = self.functions.len() - 1;
            return Ok(Scalar {
                node: Node::UserFunction { id: function.id, place, arguments: values },
                ty: returns,
                nullable: true,
                label: CollationLabel::Coercible,
            });
        }
        self.bind_scalar_body(&function.schema, returns, &function.body, arguments)
    }

    /// A function that reads tables would have to be called in a CHECK after the row has come into its table, as the
    /// example of "Unique constraints and check constraints" has it (MicrosoftDocs/sql-docs,
    /// docs/relational-databases/tables/unique-constraints-and-check-constraints.md); one of a single RETURN would
    /// become a subquery in a default or computed column.
    fn check_reading_allowed(&self, function: &Function) -> SqlResult<()> {
        let in_check = self.is_in_check();
        let in_definition = self.without_subqueries && matches!(function.body, FunctionBody::Scalar { .. });
        if !(in_check || in_definition) || !mentions(&function.text, "FROM") {
            return Ok(());
        }
        let name = format!("{}.{}", function.schema, function.name);
        Err(SqlError::not_supported(match in_check {
            true => format!("a CHECK that calls {name}, which reads tables"),
            false => format!("a default or computed column that calls {name}, which is one RETURN and reads tables"),
        }))
    }

    /// Whether a table's user needs a permission on a function of another owner in the table's definition, no page
    /// says.
    fn check_own_function(&self, function: &Function) -> SqlResult<()> {
        let in_definition = self.without_subqueries || self.is_in_check();
        if !in_definition {
            return Ok(());
        }
        if self.owner == self.database.catalog.read().owner_in(&function.schema) {
            return self.check_referenced_function(function);
        }
        Err(SqlError::not_supported(format!(
            "a default, CHECK or computed column that calls {}.{}, which belongs to another owner",
            function.schema, function.name
        )))
    }

    /// REFERENCES on a function is needed "to create or alter tables with references to user-defined functions in the
    /// CHECK constraint, DEFAULT clause, or computed column definition" (SQL Server Books Online, on the permissions on
    /// functions); no page has the error. What the function itself calls is its owner's affair.
    fn check_referenced_function(&self, function: &Function) -> SqlResult<()> {
        if !self.defining || self.function_arguments.is_some() || self.calls.is_some() {
            return Ok(());
        }
        let catalog = self.database.catalog.read();
        let Some(schema) = catalog.schema(&function.schema) else { return Ok(()) };
        let on = SecurableId::Object { id: function.id, schema: schema.id };
        if catalog.permits(self.state.user, "REFERENCES", on)? {
            return Ok(());
        }
        Err(SqlError::not_supported(format!(
            "a default, CHECK or computed column that calls {}.{} without REFERENCES on it",
            function.schema, function.name
        )))
    }

    fn bind_function_arguments(&mut self, function: &Function, arguments: &[Expr]) -> SqlResult<Arguments> {
        let full_name = format!("{}.{}", function.schema, function.name);
        if arguments.len() < function.parameters.len() {
            return Err(SqlError::new(
                313,
                format!("An insufficient number of arguments were supplied for the procedure or function {full_name}."),
            )
            .state(3));
        }
        if arguments.len() > function.parameters.len() {
            return Err(SqlError::new(
                8144,
                format!("Procedure or function {full_name} has too many arguments specified."),
            )
            .state(3));
        }
        let mut bound = Vec::with_capacity(arguments.len());
        for (parameter, argument) in function.parameters.iter().zip(arguments) {
            let scalar = match argument {
                Expr::Default => default_of(parameter, &full_name)?,
                argument => self.bind_expr(argument)?,
            };
            if is_volatile(&scalar) {
                return Err(SqlError::not_supported(format!(
                    "NEWID, RAND or NEXT VALUE FOR as an argument of {full_name}"
                )));
            }
            let mut scalar = implicit(scalar, scalar_type(parameter)?)?;
            if scalar.as_constant().is_some_and(Value::is_null) {
                scalar = null_of(scalar.ty);
            }
            scalar.label = CollationLabel::Coercible;
            bound.push((fold(&parameter.name), scalar));
        }
        Ok(bound)
    }

    /// Binds `f` as if it stood alone with these parameters: it sees no column, CTE or variable of the caller's, and
    /// names without schema are looked for in the function's.
    fn within_function<T>(
        &mut self,
        schema: &Arc<str>,
        arguments: Arguments,
        f: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        if self.view_depth == 32 {
            return Err(SqlError::new(4429, "View or function contains a self-reference.").severity(16));
        }
        let scopes = std::mem::take(&mut self.scopes);
        let ctes = std::mem::take(&mut self.ctes);
        let outer = self.function_arguments.replace(arguments);
        let outer_schema = std::mem::replace(&mut self.default_schema, Arc::clone(schema));
        self.view_depth += 1;
        let result = self.owned(schema, f);
        self.view_depth -= 1;
        self.default_schema = outer_schema;
        self.function_arguments = outer;
        self.ctes = ctes;
        self.scopes = scopes;
        result
    }

    /// `schema`: the function's. `ty`: what it returns.
    pub fn bind_scalar_body(
        &mut self,
        schema: &Arc<str>,
        ty: SqlType,
        body: &FunctionBody,
        arguments: Arguments,
    ) -> SqlResult<Scalar> {
        let FunctionBody::Scalar { value, .. } = body else {
            unreachable!("the caller has seen that the function returns a value")
        };
        let scalar = self.within_function(schema, arguments, |binder| binder.bind_expr(value))?;
        implicit(scalar, ty)
    }

    /// `function(arguments)` in FROM: the query, and what it is called.
    pub fn bind_inline_function(&mut self, name: &ObjectName, arguments: &[Expr]) -> SqlResult<BoundQuery> {
        let Some(function) = self.user_function(name)?.filter(|function| function.returns.is_none()) else {
            if is_in_sys(name) {
                return Err(SqlError::not_supported(format!("the table-valued function {}", display_name(name))));
            }
            return Err(invalid_object(name));
        };
        let arguments = self.bind_function_arguments(&function, arguments)?;
        self.need_object("SELECT", function.id, &function.schema, &function.name);
        self.uses = Uses::Database;
        let bound = self.bind_inline_body(&function.schema, &function.body, arguments)?;
        Self::check_columns_as_made(name, &bound, &function.described, &[])?;
        Ok(bound)
    }

    /// `schema`: the function's.
    pub fn bind_inline_body(
        &mut self,
        schema: &Arc<str>,
        body: &FunctionBody,
        arguments: Arguments,
    ) -> SqlResult<BoundQuery> {
        let FunctionBody::Inline(select) = body else {
            unreachable!("the caller has seen that the function returns a table")
        };
        self.within_function(schema, arguments, |binder| {
            binder.ctes.clone_from(&select.ctes);
            binder.bind_query(&select.query, false)
        })
    }

    /// A parameter of the function that is being bound; `None` outside of functions.
    pub fn function_argument(&self, name: &str) -> Option<SqlResult<Scalar>> {
        let arguments = self.function_arguments.as_ref()?;
        let folded = fold(name);
        let found = arguments.iter().find(|(parameter, _)| *parameter == folded);
        Some(match found {
            Some((_, scalar)) => Ok(scalar.clone()),
            None => {
                Err(SqlError::new(137, format!("Must declare the scalar variable \"{name}\".")).severity(15).state(2))
            }
        })
    }
}
