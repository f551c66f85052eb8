//! CREATE and ALTER FUNCTION; where a function is called, [`crate::bind::user_function`] binds it.

use std::sync::Arc;

use crate::bind::function_body::{bind_statements, check_statements};
use crate::bind::user_function::{null_of, scalar_type};
use crate::catalog::catalog::already_there;
use crate::catalog::object::{Function, Object};
use crate::catalog::parameter::Parameter;
use crate::error::{SqlError, SqlResult};
use crate::plan::declarations::Declarations;
use crate::plan::next_value_forbidden::ForbiddenPlace;
use crate::session::client_session::Session;
use crate::session::ddl::module_columns::{check_module_columns, described};
use crate::session::ddl::object_dependents::other_kind;
use crate::storage::fold;
use crate::tsql::ast::{CreateFunction, Creation, FunctionBody};
use crate::tsql::{calls, mentions};
use crate::value::{SqlType, now_utc};

impl Session {
    pub(crate) fn create_function(&mut self, create: &CreateFunction) -> SqlResult<()> {
        check_definition(create)?;
        self.check_create("CREATE FUNCTION")?;
        let schema = self.schema_for(&create.name)?;
        let existing = self.database.catalog.read().object(&schema, &create.name.name).cloned();
        let existing = match (existing, create.creation) {
            (Some(Object::Function(function)), Creation::Alter | Creation::CreateOrAlter) => Some(function),
            (Some(_), Creation::Alter) => return Err(other_kind(&create.name)),
            (Some(_), _) => return Err(already_there(&create.name.name)),
            (None, Creation::Alter) if self.is_something(&create.name)? => {
                return Err(other_kind(&create.name));
            }
            (None, Creation::Alter) => return Err(crate::bind::name::invalid_object(&create.name)),
            (None, _) => {
                self.check_free(&schema, &create.name.name)?;
                None
            }
        };
        if let Some(existing) = &existing {
            if existing.returns.is_none() != matches!(create.body, FunctionBody::Inline(_)) {
                return Err(other_kind(&create.name));
            }
            self.check_not_called("ALTER", &create.name, existing)?;
        }
        let (parameters, _): (Vec<Parameter>, Declarations) = self.bind_parameters(&create.parameters, None)?;
        let mut arguments = Vec::with_capacity(parameters.len());
        for parameter in &parameters {
            let ty = scalar_type(parameter)?;
            check_type(ty)?;
            arguments.push((fold(&parameter.name), null_of(ty)));
        }
        if let FunctionBody::Scalar { returns, .. } | FunctionBody::Statements { returns, .. } = &create.body {
            self.check_named_type(returns)?;
        }
        let mut columns = Arc::default();
        let returns = self.with_binder(|binder| {
            let calls_before = binder.function_calls;
            let returns = match &create.body {
                FunctionBody::Scalar { returns, .. } => {
                    let returns = binder.resolve_type(returns)?;
                    binder.without_next_value(ForbiddenPlace::Nested, |binder| {
                        binder.bind_scalar_body(&schema, returns, &create.body, arguments.clone())
                    })?;
                    Some(returns)
                }
                FunctionBody::Statements { returns, body } => {
                    check_statements(body)?;
                    Some(binder.resolve_type(returns)?)
                }
                FunctionBody::Inline(_) => {
                    let bound = binder.bind_inline_body(&schema, &create.body, arguments.clone())?;
                    let plan = binder.finish(bound)?;
                    let name = &create.name.name;
                    check_module_columns(name, &plan.columns, |position| {
                        SqlError::new(
                            4514,
                            format!(
                                "CREATE FUNCTION failed because a column name is not specified for column {position}."
                            ),
                        )
                    })?;
                    columns = described(&[], &plan.columns);
                    None
                }
            };
            if binder.uses_temporary {
                return Err(SqlError::new(2772, "Cannot access temporary tables from within a function."));
            }
            if create.schema_binding && binder.function_calls > calls_before {
                return Err(bound_to_schema());
            }
            returns.map_or(Ok(()), check_type)?;
            Ok(returns)
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

/// What shows in the text alone.
fn check_definition(create: &CreateFunction) -> SqlResult<()> {
    if create.name.name.starts_with('#') {
        return Err(SqlError::not_supported("functions whose names begin with #"));
    }
    if create.parameters.iter().any(|parameter| parameter.output) {
        let message = "Cannot use the OUTPUT option in a DECLARE, CREATE AGGREGATE or CREATE FUNCTION statement.";
        return Err(SqlError::new(181, message).severity(15));
    }
    // With its schema, the function's own name looks like a call where it stands before its parameters.
    let calls = calls(&create.text);
    let own = (create.name.schema.as_deref().map(fold), fold(&create.name.name));
    let of_itself =
        calls.iter().filter(|(schema, name)| *name == own.1 && own.0.as_ref().is_none_or(|own| own == schema));
    let heading = usize::from(own.0.is_some());
    if matches!(create.body, FunctionBody::Scalar { .. }) && of_itself.count() > heading {
        return Err(SqlError::not_supported("a function that is one RETURN and calls itself"));
    }
    if create.schema_binding && (calls.len() > heading || mentions(&create.text, "FROM")) {
        return Err(bound_to_schema());
    }
    Ok(())
}

fn bound_to_schema() -> SqlError {
    SqlError::not_supported("functions WITH SCHEMABINDING that name tables or other functions")
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
