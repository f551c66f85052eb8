//! CREATE and ALTER FUNCTION; where a function is called, [`crate::bind::user_function`] binds it.

use std::sync::Arc;

use crate::bind::function_body::{bind_statements, check_statements};
use crate::bind::user_function::{null_of, scalar_type};
use crate::catalog::catalog::already_there;
use crate::catalog::object::{Function, Object};
use crate::catalog::parameter::Parameter;
use crate::error::{SqlError, SqlResult};
use crate::plan::declarations::Declarations;
use crate::session::client_session::Session;
use crate::session::ddl::module_columns::{check_module_columns, described};
use crate::storage::fold;
use crate::tsql::ast::{CreateFunction, Creation, FunctionBody};
use crate::value::now_utc;

impl Session {
    pub(crate) fn create_function(&mut self, create: &CreateFunction) -> SqlResult<()> {
        self.check_create("CREATE FUNCTION")?;
        let schema = self.schema_for(&create.name)?;
        let existing = self.database.catalog.read().object(&schema, &create.name.name).cloned();
        let existing = match (existing, create.creation) {
            (Some(Object::Function(function)), Creation::Alter | Creation::CreateOrAlter) => Some(function),
            (Some(_), _) => return Err(already_there(&create.name.name)),
            (None, Creation::Alter) => return Err(crate::bind::name::invalid_object(&create.name)),
            (None, _) => {
                self.check_free(&schema, &create.name.name)?;
                None
            }
        };
        let (parameters, _): (Vec<Parameter>, Declarations) = self.bind_parameters(&create.parameters, None)?;
        let mut arguments = Vec::with_capacity(parameters.len());
        for parameter in &parameters {
            arguments.push((fold(&parameter.name), null_of(scalar_type(parameter)?)));
        }
        let mut columns = Arc::default();
        let returns = self.with_binder(|binder| match &create.body {
            FunctionBody::Scalar { returns, .. } => {
                let returns = binder.resolve_type(returns)?;
                binder.bind_scalar_body(&schema, returns, &create.body, arguments)?;
                Ok(Some(returns))
            }
            FunctionBody::Statements { returns, body } => {
                check_statements(body)?;
                Ok(Some(binder.resolve_type(returns)?))
            }
            FunctionBody::Inline(_) => {
                let bound = binder.bind_inline_body(&schema, &create.body, arguments)?;
                let plan = binder.finish(bound)?;
                let name = &create.name.name;
                check_module_columns(name, &plan.columns, |position| {
                    SqlError::new(
                        4514,
                        format!("CREATE FUNCTION failed because a column name is not specified for column {position}."),
                    )
                })?;
                columns = described(&[], &plan.columns);
                Ok(None)
            }
        })?;
        let now = now_utc();
        let function = Function {
            id: existing.as_ref().map_or_else(|| self.new_object_id(), |function| function.id),
            schema,
            name: Arc::clone(&create.name.name),
            parameters,
            returns,
            described: columns,
            body: create.body.clone(),
            text: Arc::clone(&create.text),
            created_at: existing.as_ref().map_or(now, |function| function.created_at),
            modified_at: now,
        };
        let function = Arc::new(function);
        let undo = self.database.catalog.write().put_object(Object::Function(Arc::clone(&function)));
        if let (FunctionBody::Statements { body, .. }, Some(returns)) = (&function.body, function.returns) {
            // It may call itself, and so must be there.
            let bound = self.with_binder(|binder| bind_statements(binder, &function, returns, body, false));
            if let Err(error) = bound {
                undo(&mut self.database.catalog.write());
                return Err(error);
            }
        }
        self.keep_undo(undo);
        Ok(())
    }
}
