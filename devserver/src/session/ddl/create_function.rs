//! CREATE and ALTER FUNCTION; where a function is called, [`crate::bind::user_function`] binds it.

use std::sync::Arc;

use crate::bind::function_body::{bind_function_body, check_statements};
use crate::bind::user_function::scalar_type;
use crate::catalog::object::{Function, Object};
use crate::catalog::parameter::Parameter;
use crate::error::{SqlError, SqlResult};
use crate::plan::declarations::Declarations;
use crate::session::client_session::Session;
use crate::tsql::ast::CreateFunction;
use crate::value::{SqlType, now_utc};

impl Session {
    pub(crate) fn create_function(&mut self, create: &CreateFunction) -> SqlResult<()> {
        check_definition(create)?;
        self.check_create("CREATE FUNCTION")?;
        let schema = self.schema_for(&create.name)?;
        let existing = self.replaced(&schema, &create.name, create.creation, |object| match object {
            Object::Function(function) => Some(Arc::clone(function)),
            _ => None,
        })?;
        let (parameters, _): (Vec<Parameter>, Declarations) = self.bind_parameters(&create.parameters, None)?;
        for parameter in &parameters {
            check_type(scalar_type(parameter)?)?;
        }
        check_statements(&create.body)?;
        let returns = self.with_binder(|binder| binder.resolve_type(&create.returns))?;
        check_type(returns)?;
        let now = now_utc();
        let function = Function {
            id: existing.as_ref().map_or_else(|| self.new_object_id(), |function| function.id),
            schema,
            name: Arc::clone(&create.name.name),
            parameters,
            returns,
            body: Arc::clone(&create.body),
            text: Arc::clone(&create.text),
            created_at: existing.as_ref().map_or(now, |function| function.created_at),
            modified_at: now,
        };
        let function = Arc::new(function);
        let undo = self.database.catalog.write().put_object(Object::Function(Arc::clone(&function)));
        // It is there already: a call of itself is refused as such.
        let bound = self.with_binder(|binder| bind_function_body(binder, &function, false));
        if let Err(error) = bound {
            undo(&mut self.database.catalog.write());
            return Err(error);
        }
        self.keep_undo(undo);
        Ok(())
    }
}

/// What shows in the text alone.
fn check_definition(create: &CreateFunction) -> SqlResult<()> {
    if create.name.name.starts_with('#') {
        return Err(SqlError::not_supported("functions whose names begin with #"));
    }
    if create.parameters.iter().any(|parameter| parameter.output) {
        let message = "Cannot use the OUTPUT option in a DECLARE, CREATE AGGREGATE or CREATE FUNCTION statement.";
        return Err(SqlError::new(181, message).severity(15));
    }
    Ok(())
}

/// `rowversion` is none of the types that a parameter or result may have, nor are `text`, `ntext` and `image` of a
/// result.
fn check_type(ty: SqlType) -> SqlResult<()> {
    match ty {
        SqlType::RowVersion => Err(SqlError::not_supported("timestamp as the type of a function or its parameter")),
        ty if ty.is_text_or_image() => {
            Err(SqlError::not_supported(format!("{ty} as the type of a function or its parameter")))
        }
        _ => Ok(()),
    }
}
