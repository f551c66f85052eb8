//! Remote procedure calls: a procedure by name or number, its parameters from the wire, its results to it.

use std::cell::RefCell;
use std::sync::Arc;

use crate::catalog::object_name::ParsedName;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::session::call::argument::{Passed, PassedArgument, Returned, convert_parameter};
use crate::session::call::procedure_not_found;
use crate::session::client_session::Session;
use crate::session::outcome::Failure;
use crate::session::result_target::ResultTarget;
use crate::tds::request::{RpcCall, RpcParameter, RpcValue};
use crate::tsql::ast::ObjectName;
use crate::value::{SqlType, Value};

impl Session {
    /// Runs one call with its answer.
    pub(crate) fn call(&mut self, call: RpcCall, out: &mut ResultTarget<'_>) -> Result<(), Failure> {
        let mut activation = Activation::default();
        out.writer().enter_procedure();
        let result = self.call_in(call, &mut activation, out);
        self.drop_table_variables(&mut activation);
        out.writer().leave_procedure();
        match result {
            Err(Failure::EndScope) => Ok(()),
            other => other,
        }
    }

    fn call_in(
        &mut self,
        call: RpcCall,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), Failure> {
        let Some(name) = ParsedName::parse(&call.procedure) else {
            return self.report(procedure_not_found::not_found(&call.procedure), activation, out);
        };
        let name = name.to_object_name();
        let mut arguments = Vec::with_capacity(call.parameters.len());
        let mut described = Vec::with_capacity(call.parameters.len());
        for parameter in call.parameters {
            described.push((parameter.name.clone().unwrap_or_default(), declared_type(&parameter.value)));
            match self.pass_parameter(parameter, activation) {
                Ok(argument) => arguments.push(argument),
                Err(error) => return self.report(error, activation, out),
            }
        }
        let schema = Arc::clone(&self.state.default_schema);
        let returned = self.call_procedure(&name, arguments, &schema, activation, 1, out)?;
        let Some(Returned { status, outputs }) = returned else { return Ok(()) };
        out.writer().return_status(status);
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for (position, value, ty) in outputs {
            let declared = described[position].1.unwrap_or(ty);
            if declared == SqlType::Variant {
                let error = SqlError::not_supported("an output parameter of the type sql_variant");
                return self.report(error, activation, out);
            }
            match convert_parameter(value, ty, declared) {
                Ok(value) if declared.is_max() => large.push((position, value, declared)),
                Ok(value) => small.push((position, value, declared)),
                Err(error) => return self.report(error, activation, out),
            }
        }
        // "Large Object output parameters are reordered to appear at the end of the stream" (MS-TDS, RETURNVALUE).
        for (position, value, ty) in small.into_iter().chain(large) {
            out.writer().return_value(&described[position].0, position as u16, ty, &value);
        }
        Ok(())
    }

    fn pass_parameter(&mut self, parameter: RpcParameter, activation: &mut Activation) -> SqlResult<PassedArgument> {
        let RpcParameter { name, by_ref, value } = parameter;
        let value = match value {
            RpcValue::Default { .. } => Passed::Default,
            RpcValue::UntypedNull => Passed::Value { value: Value::Null, ty: SqlType::Int },
            RpcValue::Scalar { sql_type, value } => Passed::Value { value, ty: sql_type },
            RpcValue::Table { type_name, columns, rows, .. } if type_name.is_empty() => {
                Passed::UntypedTable { columns, rows: RefCell::new(rows) }
            }
            RpcValue::Table { type_schema, type_name, columns, rows } => {
                let type_name = ObjectName {
                    server: None,
                    database: None,
                    schema: type_schema.as_deref().filter(|schema| !schema.is_empty()).map(Arc::from),
                    name: type_name.as_str().into(),
                };
                let (table, ty) = self.table_parameter(&type_name, &columns, rows)?;
                activation.owned_tables.push(table);
                Passed::Table { table, ty }
            }
        };
        let name = name.filter(|name| !name.is_empty()).map(Arc::from);
        Ok(PassedArgument { name, value, output: by_ref })
    }
}

/// The type that the client has given a parameter, in which it wants the value back.
fn declared_type(value: &RpcValue) -> Option<SqlType> {
    match value {
        RpcValue::Scalar { sql_type, .. } => Some(*sql_type),
        RpcValue::Default { sql_type } => *sql_type,
        RpcValue::UntypedNull | RpcValue::Table { .. } => None,
    }
}
