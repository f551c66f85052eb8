//! System procedures: which there are, and the way of a call to what does it.

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::function_value::as_variant;
use crate::session::call::argument::{PassedArgument, Returned};
use crate::session::call::system_argument::{argument, first_text, handle_argument, text_argument};
use crate::session::client_session::Session;
use crate::session::outcome::{Failure, SimpleFailure};
use crate::session::result_target::ResultTarget;
use crate::storage::fold;
use crate::tsql::ast::ObjectName;
use crate::value::{SqlType, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemProcedure {
    ExecuteSql,
    Prepare,
    Execute,
    PrepExec,
    Unprepare,
    GetAppLock,
    ReleaseAppLock,
    ResetConnection,
    Rename,
    AddRoleMember,
    SetSessionContext,
}

/// The system procedure of a name: those are found in every database, and before the user's.
pub fn find(name: &ObjectName) -> Option<SystemProcedure> {
    if let Some(schema) = &name.schema
        && !matches!(fold(schema).as_str(), "sys" | "dbo")
    {
        return None;
    }
    Some(match fold(&name.name).as_str() {
        "sp_executesql" => SystemProcedure::ExecuteSql,
        "sp_prepare" => SystemProcedure::Prepare,
        "sp_execute" => SystemProcedure::Execute,
        "sp_prepexec" => SystemProcedure::PrepExec,
        "sp_unprepare" => SystemProcedure::Unprepare,
        "sp_getapplock" => SystemProcedure::GetAppLock,
        "sp_releaseapplock" => SystemProcedure::ReleaseAppLock,
        "sp_rename" => SystemProcedure::Rename,
        "sp_addrolemember" => SystemProcedure::AddRoleMember,
        "sp_set_session_context" => SystemProcedure::SetSessionContext,
        "sp_reset_connection" => SystemProcedure::ResetConnection,
        _ => return None,
    })
}

impl Session {
    pub(crate) fn call_system_procedure(
        &mut self,
        procedure: SystemProcedure,
        arguments: Vec<PassedArgument>,
        activation: &mut Activation,
        line: u32,
        out: &mut ResultTarget<'_>,
    ) -> Result<Option<Returned>, Failure> {
        match self.run_system_procedure(procedure, &arguments, activation, line, out) {
            Ok(returned) => Ok(returned),
            Err(SimpleFailure::Error(error, origin)) => self.fail(error, origin, activation, line, out).map(|_| None),
            Err(SimpleFailure::Passed(failure)) => Err(failure),
        }
    }

    fn run_system_procedure(
        &mut self,
        procedure: SystemProcedure,
        arguments: &[PassedArgument],
        activation: &mut Activation,
        line: u32,
        out: &mut ResultTarget<'_>,
    ) -> Result<Option<Returned>, SimpleFailure> {
        check_parameters(procedure, arguments)?;
        let declared = argument(arguments, 1, "@params").and_then(Value::as_str).map(str::to_string);
        let rest = |first: usize| arguments.get(first..).unwrap_or_default();
        let returned = match procedure {
            SystemProcedure::ExecuteSql => {
                // Statement and declaration come first, under whatever names; the rest are the statement's parameters.
                let text = text_argument(arguments, 0, "@stmt", "sp_executesql")
                    .or_else(|_| text_argument(arguments, 0, "@statement", "sp_executesql"))
                    .or_else(|error| first_text(arguments, 0).ok_or(error))?;
                let declared = declared.or_else(|| first_text(arguments, 1)).unwrap_or_default();
                let executed = self.execute_text(&text, &declared, rest(2), 2, activation, line, out);
                return executed.map_err(SimpleFailure::Passed);
            }
            SystemProcedure::Execute => {
                let prepared = handle_argument(arguments).and_then(|handle| self.prepared(handle))?;
                let executed = self.execute_text(&prepared.text, &prepared.declared, rest(1), 1, activation, line, out);
                return executed.map_err(SimpleFailure::Passed);
            }
            SystemProcedure::PrepExec => {
                let text = text_argument(arguments, 2, "@stmt", "sp_prepexec")?;
                let declared = declared.unwrap_or_default();
                let handle = self.prepare(&declared, &text);
                let executed = self.execute_text(&text, &declared, rest(3), 3, activation, line, out);
                let Some(mut returned) = executed.map_err(SimpleFailure::Passed)? else { return Ok(None) };
                returned.outputs.insert(0, (0, Value::Int(handle), SqlType::Int));
                returned
            }
            SystemProcedure::Prepare => {
                let text = text_argument(arguments, 2, "@stmt", "sp_prepare")?;
                let handle = self.prepare(&declared.unwrap_or_default(), &text);
                Returned { outputs: vec![(0, Value::Int(handle), SqlType::Int)], ..Returned::default() }
            }
            SystemProcedure::Unprepare => {
                self.unprepare(handle_argument(arguments)?)?;
                Returned::default()
            }
            SystemProcedure::GetAppLock => self.get_application_lock(arguments, activation)?,
            SystemProcedure::ReleaseAppLock => self.release_application_lock(arguments, activation)?,
            SystemProcedure::Rename => {
                let object = text_argument(arguments, 0, "@objname", "sp_rename")?;
                let new_name = text_argument(arguments, 1, "@newname", "sp_rename")?;
                let kind = argument(arguments, 2, "@objtype").and_then(Value::as_str);
                self.rename(&object, &new_name, kind, activation)?;
                let caution = "Caution: Changing any part of an object name could break scripts and stored procedures.";
                out.info(15477, 0, 1, caution, Some("sp_rename"), line);
                Returned::default()
            }
            SystemProcedure::AddRoleMember => self.add_role_member(arguments)?,
            SystemProcedure::SetSessionContext => {
                let key = text_argument(arguments, 0, "@key", "sp_set_session_context")?;
                // "The maximum key size is 128 bytes"; its error is not documented.
                if key.encode_utf16().count() > 64 {
                    return Err(SqlError::not_supported("a key of a session's context of more than 128 bytes").into());
                }
                let value = argument(arguments, 1, "@value").cloned().unwrap_or(Value::Null);
                let value = match value {
                    Value::Null => Value::Null,
                    value @ (Value::Int(_) | Value::String(_)) => as_variant(value),
                    _ => return Err(SqlError::not_supported("sp_set_session_context with this type of value").into()),
                };
                self.state.context.insert(key, value);
                Returned::default()
            }
            SystemProcedure::ResetConnection => {
                self.reset(false);
                out.writer().transaction_reset();
                Returned::default()
            }
        };
        Ok(Some(returned))
    }
}

/// Parameters that the procedure does not have; those of a statement that is executed have any name.
fn check_parameters(procedure: SystemProcedure, arguments: &[PassedArgument]) -> SqlResult<()> {
    let (name, known): (&str, &[&str]) = match procedure {
        SystemProcedure::GetAppLock => {
            ("sp_getapplock", &["@resource", "@lockmode", "@lockowner", "@locktimeout", "@dbprincipal"])
        }
        SystemProcedure::ReleaseAppLock => ("sp_releaseapplock", &["@resource", "@lockowner", "@dbprincipal"]),
        // A key that is read-only cannot be changed again, which nobody asks for.
        SystemProcedure::SetSessionContext => ("sp_set_session_context", &["@key", "@value"]),
        SystemProcedure::AddRoleMember => ("sp_addrolemember", &["@rolename", "@membername"]),
        _ => return Ok(()),
    };
    if arguments.len() > known.len() {
        let message = format!("Procedure or function {name} has too many arguments specified.");
        return Err(SqlError::new(8144, message).state(2));
    }
    for argument in arguments {
        let Some(given) = &argument.name else { continue };
        if !known.contains(&fold(given).as_str()) {
            return Err(SqlError::new(8145, format!("{given} is not a parameter for procedure {name}.")));
        }
    }
    if known.last() != Some(&"@dbprincipal") {
        return Ok(());
    }
    let principal = argument(arguments, known.len() - 1, "@DbPrincipal").and_then(Value::as_str);
    if principal.is_some_and(|principal| fold(principal) != "public") {
        return Err(SqlError::not_supported("application locks of another database principal than public"));
    }
    Ok(())
}
