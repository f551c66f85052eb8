//! System procedures: `sp_executesql`, the `sp_prepare` family, and application locks.

use std::time::Duration;

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::application_lock::application_mode;
use crate::plan::cell::Uses;
use crate::session::outcome::{Failure, Origin, cancelled};
use crate::session::output::Output;
use crate::session::procedure::{Passed, PassedArgument, Returned};
use crate::session::session::Session;
use crate::storage::{LockOwner, fold};
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
        "sp_reset_connection" => SystemProcedure::ResetConnection,
        _ => return None,
    })
}

/// The value of a parameter, by name or by position; `None` if it was not passed.
fn argument<'a>(arguments: &'a [PassedArgument], position: usize, name: &str) -> Option<&'a Value> {
    let by_name =
        arguments.iter().find(|argument| argument.name.as_deref().is_some_and(|given| fold(given) == fold(name)));
    let found = by_name.or_else(|| arguments.get(position).filter(|argument| argument.name.is_none()))?;
    match &found.value {
        Passed::Value { value, .. } => Some(value),
        Passed::Table { .. } | Passed::Default => None,
    }
}

fn text_argument(arguments: &[PassedArgument], position: usize, name: &str, procedure: &str) -> SqlResult<String> {
    match argument(arguments, position, name) {
        Some(Value::String(text)) => Ok(text.to_string()),
        Some(Value::Null) => Ok(String::new()),
        Some(_) => {
            Err(SqlError::new(214, format!("Procedure expects parameter '{name}' of type 'ntext/nchar/nvarchar'."))
                .state(2))
        }
        None => Err(SqlError::new(
            201,
            format!("Procedure or function '{procedure}' expects parameter '{name}', which was not supplied."),
        )
        .state(4)),
    }
}

fn handle_argument(arguments: &[PassedArgument]) -> SqlResult<i32> {
    match argument(arguments, 0, "@handle").and_then(Value::as_i64).and_then(|handle| i32::try_from(handle).ok()) {
        Some(handle) => Ok(handle),
        None => Err(SqlError::new(214, "Procedure expects parameter '@handle' of type 'int'.").state(2)),
    }
}

impl Session {
    pub(crate) fn call_system_procedure(
        &mut self,
        procedure: SystemProcedure,
        arguments: Vec<PassedArgument>,
        activation: &mut Activation,
        line: u32,
        out: &mut Output<'_>,
    ) -> Result<Option<Returned>, Failure> {
        if let Some(error) = unknown_parameter(procedure, &arguments) {
            return self.fail(error, Origin::Statement, activation, line, out).map(|_| None);
        }
        let result = match procedure {
            SystemProcedure::ExecuteSql => {
                // Statement and declaration come first, under whatever names; the rest are the statement's parameters.
                let text = text_argument(&arguments, 0, "@stmt", "sp_executesql")
                    .or_else(|_| text_argument(&arguments, 0, "@statement", "sp_executesql"));
                let text = match text.or_else(|error| first_text(&arguments, 0).ok_or(error)) {
                    Ok(text) => text,
                    Err(error) => return self.fail(error, Origin::Statement, activation, line, out).map(|_| None),
                };
                let declared = argument(&arguments, 1, "@params")
                    .and_then(Value::as_str)
                    .map(str::to_string)
                    .or_else(|| first_text(&arguments, 1))
                    .unwrap_or_default();
                let rest = arguments.get(2..).unwrap_or_default();
                return self.execute_text(&text, &declared, rest, 2, activation, line, out);
            }
            SystemProcedure::Execute => {
                let prepared = handle_argument(&arguments).and_then(|handle| self.prepared(handle));
                let prepared = match prepared {
                    Ok(prepared) => prepared,
                    Err(error) => return self.fail(error, Origin::Statement, activation, line, out).map(|_| None),
                };
                let rest = arguments.get(1..).unwrap_or_default();
                return self.execute_text(&prepared.text, &prepared.declared, rest, 1, activation, line, out);
            }
            SystemProcedure::PrepExec => {
                let declared =
                    argument(&arguments, 1, "@params").and_then(Value::as_str).unwrap_or_default().to_string();
                let text = match text_argument(&arguments, 2, "@stmt", "sp_prepexec") {
                    Ok(text) => text,
                    Err(error) => return self.fail(error, Origin::Statement, activation, line, out).map(|_| None),
                };
                let handle = self.prepare(&declared, &text);
                let rest = arguments.get(3..).unwrap_or_default();
                let returned = self.execute_text(&text, &declared, rest, 3, activation, line, out)?;
                return Ok(returned.map(|mut returned| {
                    returned.outputs.insert(0, (0, Value::Int(handle), SqlType::Int));
                    returned
                }));
            }
            SystemProcedure::Prepare => {
                let declared =
                    argument(&arguments, 1, "@params").and_then(Value::as_str).unwrap_or_default().to_string();
                text_argument(&arguments, 2, "@stmt", "sp_prepare").map(|text| {
                    let handle = self.prepare(&declared, &text);
                    Returned { status: 0, outputs: vec![(0, Value::Int(handle), SqlType::Int)] }
                })
            }
            SystemProcedure::Unprepare => {
                handle_argument(&arguments).and_then(|handle| self.unprepare(handle)).map(|()| Returned::default())
            }
            SystemProcedure::GetAppLock => self.get_application_lock(&arguments, activation),
            SystemProcedure::ReleaseAppLock => self.release_application_lock(&arguments, activation),
            SystemProcedure::Rename => {
                let object = text_argument(&arguments, 0, "@objname", "sp_rename");
                let new_name = text_argument(&arguments, 1, "@newname", "sp_rename");
                let kind = argument(&arguments, 2, "@objtype").and_then(Value::as_str).map(str::to_string);
                let renamed = object.and_then(|object| {
                    let new_name = new_name?;
                    self.rename(&object, &new_name, kind.as_deref(), activation)
                });
                if renamed.is_ok() {
                    let caution =
                        "Caution: Changing any part of an object name could break scripts and stored procedures.";
                    out.info(15477, 0, 1, caution, Some("sp_rename"), line);
                }
                renamed.map(|()| Returned::default())
            }
            SystemProcedure::ResetConnection => {
                self.reset(false);
                Ok(Returned::default())
            }
        };
        match result {
            Ok(returned) => Ok(Some(returned)),
            Err(error) => self.fail(error, Origin::Statement, activation, line, out).map(|_| None),
        }
    }

    /// sp_getapplock: 0 granted, 1 granted after waiting, -1 time-out, -2 cancelled, -3 deadlock victim, -999 error.
    ///
    /// Source: "sp_getapplock" (MicrosoftDocs/sql-docs,
    /// docs/relational-databases/system-stored-procedures/sp-getapplock-transact-sql.md).
    fn get_application_lock(
        &mut self,
        arguments: &[PassedArgument],
        activation: &mut Activation,
    ) -> SqlResult<Returned> {
        let resource = text_argument(arguments, 0, "@Resource", "sp_getapplock")?;
        let mode = text_argument(arguments, 1, "@LockMode", "sp_getapplock")?;
        let invalid = Ok(Returned { status: -999, outputs: Vec::new() });
        let Some(mode) = application_mode(&mode) else {
            return invalid;
        };
        let Some(owner) = lock_owner(argument(arguments, 2, "@LockOwner")) else { return invalid };
        let timeout = argument(arguments, 3, "@LockTimeout").and_then(Value::as_i64);
        if timeout.is_some_and(|timeout| timeout < -1) || argument(arguments, 0, "@Resource") == Some(&Value::Null) {
            return invalid;
        }
        self.check_transaction_for(owner)?;
        let timeout = match timeout {
            Some(milliseconds) => u64::try_from(milliseconds).ok().map(Duration::from_millis),
            None => self.state.options.lock_timeout,
        };
        let granted = self.with_run(Uses::Database, activation, |run| {
            let storage = run.storage()?;
            storage.latch.lock_application(&mut storage.tx, owner, &resource, mode, timeout)
        });
        let status = match granted {
            Ok(true) => 0,
            Ok(false) => 1,
            Err(error) if error.number == 1222 => -1,
            Err(error) if error.number == 1205 => -3,
            Err(error) if error.number == cancelled().number => return Err(error),
            Err(error) => return Err(error),
        };
        Ok(Returned { status, outputs: Vec::new() })
    }

    fn release_application_lock(
        &mut self,
        arguments: &[PassedArgument],
        activation: &mut Activation,
    ) -> SqlResult<Returned> {
        let resource = text_argument(arguments, 0, "@Resource", "sp_releaseapplock")?;
        let Some(owner) = lock_owner(argument(arguments, 1, "@LockOwner")) else {
            return Ok(Returned { status: -999, outputs: Vec::new() });
        };
        self.check_transaction_for(owner)?;
        let released = self.with_run(Uses::Database, activation, |run| {
            let storage = run.storage()?;
            Ok(storage.latch.unlock_application(&storage.tx, owner, &resource))
        })?;
        if released {
            return Ok(Returned::default());
        }
        Err(SqlError::new(
            1223,
            format!(
                "Cannot release the application lock (Database Principal: 'public', Resource: '{resource}') because it \
                 is not currently held."
            ),
        ))
    }

    fn check_transaction_for(&self, owner: LockOwner) -> SqlResult<()> {
        if owner == LockOwner::Session || self.state.transaction_count > 0 {
            return Ok(());
        }
        Err(SqlError::new(
            15422,
            "Application locks can be acquired or released only inside a transaction when the lock owner is Transaction.",
        ))
    }
}

/// Parameters that the procedure does not have; those of a statement that is executed have any name.
fn unknown_parameter(procedure: SystemProcedure, arguments: &[PassedArgument]) -> Option<SqlError> {
    let (name, known): (&str, &[&str]) = match procedure {
        SystemProcedure::GetAppLock => {
            ("sp_getapplock", &["@resource", "@lockmode", "@lockowner", "@locktimeout", "@dbprincipal"])
        }
        SystemProcedure::ReleaseAppLock => ("sp_releaseapplock", &["@resource", "@lockowner", "@dbprincipal"]),
        _ => return None,
    };
    if arguments.len() > known.len() {
        let message = format!("Procedure or function {name} has too many arguments specified.");
        return Some(SqlError::new(8144, message).state(2));
    }
    for argument in arguments {
        let Some(given) = &argument.name else { continue };
        if !known.contains(&fold(given).as_str()) {
            return Some(SqlError::new(8145, format!("{given} is not a parameter for procedure {name}.")));
        }
    }
    let principal = argument(arguments, known.len() - 1, "@DbPrincipal").and_then(Value::as_str);
    if principal.is_some_and(|principal| fold(principal) != "public") {
        return Some(SqlError::not_supported("application locks of another database principal than public"));
    }
    None
}

fn lock_owner(value: Option<&Value>) -> Option<LockOwner> {
    match value.and_then(Value::as_str).map(fold).as_deref() {
        None | Some("transaction") => Some(LockOwner::Transaction),
        Some("session") => Some(LockOwner::Session),
        Some(_) => None,
    }
}

fn first_text(arguments: &[PassedArgument], position: usize) -> Option<String> {
    match &arguments.get(position)?.value {
        Passed::Value { value: Value::String(text), .. } => Some(text.to_string()),
        _ => None,
    }
}
