//! CREATE and ALTER PROCEDURE, and the parameters of procedures and functions.

use std::sync::Arc;

use crate::bind::name::invalid_object;
use crate::bind::type_name::{system_type, variable_type};
use crate::catalog::catalog::DBO;
use crate::catalog::object::{Object, Procedure};
use crate::catalog::parameter::{Parameter, VariableType};
use crate::error::{SqlError, SqlResult};
use crate::plan::declarations::Declarations;
use crate::session::client_session::Session;
use crate::storage::fold;
use crate::tsql::ast::{CreateProcedure, ObjectName, ParameterDef, TypeName};
use crate::value::now_utc;

impl Session {
    pub(crate) fn create_procedure(&mut self, create: &CreateProcedure) -> SqlResult<()> {
        if create.name.name.starts_with('#') {
            return Err(SqlError::not_supported("temporary procedures"));
        }
        let schema = self.schema_for(&create.name)?;
        let existing = self.replaced(&schema, &create.name, create.creation, |object| match object {
            Object::Procedure(procedure) => Some(Arc::clone(procedure)),
            _ => None,
        })?;
        match &existing {
            Some(procedure) => self.check_alter_object(procedure.id, &schema, invalid_object(&create.name))?,
            None => self.check_create("CREATE PROCEDURE")?,
        }
        let (parameters, declarations) = self.bind_parameters(&create.parameters, Some(&schema))?;
        let name = Arc::clone(&create.name.name);
        let full_name: Arc<str> = format!("{schema}.{name}").into();
        self.check_body(&create.body, declarations, &schema).map_err(|mut error| {
            error.procedure.get_or_insert_with(|| Arc::clone(&full_name));
            error
        })?;
        let now = now_utc();
        let procedure = Procedure {
            id: existing.as_ref().map_or_else(|| self.new_object_id(), |procedure| procedure.id),
            schema,
            name,
            full_name,
            parameters,
            body: Arc::clone(&create.body),
            text: Arc::clone(&create.text),
            created_at: existing.as_ref().map_or(now, |procedure| procedure.created_at),
            modified_at: now,
        };
        let undo = self.database.catalog.write().put_object(Object::Procedure(Arc::new(procedure)));
        self.keep_undo(undo);
        Ok(())
    }

    /// The name of a type with the procedure's schema, where that has such a type.
    fn type_in(&self, schema: &str, ty: &TypeName) -> SqlResult<Option<TypeName>> {
        let name = &ty.name;
        if name.schema.is_some() || name.database.is_some() || system_type(ty)?.is_some() {
            return Ok(None);
        }
        let catalog = self.database.catalog.read();
        if catalog.user_type(schema, &name.name).is_none() {
            return Ok(None);
        }
        let own = &self.state.default_schema;
        if ![DBO.to_string(), fold(schema)].contains(&fold(own)) && catalog.user_type(own, &name.name).is_some() {
            let message = format!("the type {}, which is in the procedure's schema and in that of the user", name.name);
            return Err(SqlError::not_supported(message));
        }
        let name = ObjectName { schema: Some(schema.into()), ..name.clone() };
        Ok(Some(TypeName { name, ..ty.clone() }))
    }

    /// `schema`: where types are looked for first, before the user's default schema.
    pub(crate) fn bind_parameters(
        &self,
        definitions: &[ParameterDef],
        schema: Option<&str>,
    ) -> SqlResult<(Vec<Parameter>, Declarations)> {
        let mut parameters = Vec::with_capacity(definitions.len());
        let mut declarations = Declarations::default();
        for definition in definitions {
            let named = schema.map_or(Ok(None), |schema| self.type_in(schema, &definition.data_type))?;
            let named = named.as_ref().unwrap_or(&definition.data_type);
            let parameter = self.with_binder(|binder| {
                let ty = variable_type(binder, named)?;
                let default = match (&definition.default, &ty) {
                    (Some(default), VariableType::Scalar(ty)) => {
                        let scalar = binder.bind_expr(default)?;
                        let converted = crate::bind::conversion::implicit(scalar, *ty)?;
                        match converted.as_constant() {
                            Some(constant) => Some(constant.clone()),
                            None => return Err(SqlError::not_supported("a parameter's default that is no constant")),
                        }
                    }
                    _ => None,
                };
                Ok(Parameter { name: Arc::clone(&definition.name), ty, default, output: definition.output })
            })?;
            self.check_named_type(named)?;
            let is_table = parameter.ty.template().is_some();
            if is_table && !definition.read_only {
                return Err(SqlError::not_supported(format!(
                    "the table-valued parameter {} without READONLY",
                    definition.name
                )));
            }
            if !is_table && definition.read_only {
                return Err(SqlError::not_supported("READONLY of a parameter that is no table"));
            }
            declarations.declare(Arc::clone(&parameter.name), parameter.ty.clone(), is_table)?;
            parameters.push(parameter);
        }
        Ok((parameters, declarations))
    }
}
