//! Remote procedure calls: a procedure by name, `sp_executesql`, and the family of `sp_prepare`.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::type_name::variable_type;
use crate::catalog::object_name::ParsedName;
use crate::catalog::parameter::VariableType;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::plan::cell::Uses;
use crate::plan::declarations::Declarations;
use crate::session::outcome::{Control, Failure, Origin};
use crate::session::output::Output;
use crate::session::procedure::{Passed, PassedArgument, Returned, convert_parameter};
use crate::session::session::{Prepared, Session};
use crate::session::unknown_procedure;
use crate::storage::{ObjectId, TableSchema};
use crate::tds::request::{RpcCall, RpcParameter, RpcProcedure, RpcValue, TableColumn};
use crate::tsql::ast::ObjectName;
use crate::tsql::parse_parameter_list;
use crate::value::{self, SqlType, Value};

const SP_EXECUTESQL: u16 = 10;
const SP_PREPARE: u16 = 11;
const SP_EXECUTE: u16 = 12;
const SP_PREPEXEC: u16 = 13;
const SP_UNPREPARE: u16 = 15;

impl Session {
    /// Runs one call with its answer.
    pub(crate) fn call(&mut self, call: RpcCall, out: &mut Output<'_>) -> Result<(), Failure> {
        let mut activation = Activation { check_permissions: true, ..Activation::default() };
        out.writer().enter_procedure();
        let result = self.call_in(call, &mut activation, out);
        self.drop_table_variables(&mut activation);
        out.writer().leave_procedure();
        match result {
            Err(Failure::EndScope) => Ok(()),
            other => other,
        }
    }

    fn call_in(&mut self, call: RpcCall, activation: &mut Activation, out: &mut Output<'_>) -> Result<(), Failure> {
        let name = match &call.procedure {
            RpcProcedure::Name(name) => match ParsedName::parse(name) {
                Some(name) => name.to_object_name(),
                None => {
                    let error = unknown_procedure::not_found(name);
                    return self.report(error, activation, out);
                }
            },
            RpcProcedure::Id(id) => match *id {
                SP_EXECUTESQL => system_name("sp_executesql"),
                SP_PREPARE => system_name("sp_prepare"),
                SP_EXECUTE => system_name("sp_execute"),
                SP_PREPEXEC => system_name("sp_prepexec"),
                SP_UNPREPARE => system_name("sp_unprepare"),
                other => {
                    let error = SqlError::not_supported(format!("the system procedure number {other}"));
                    return self.report(error, activation, out);
                }
            },
        };
        let mut arguments = Vec::with_capacity(call.parameters.len());
        let mut described = Vec::with_capacity(call.parameters.len());
        for parameter in call.parameters {
            described.push((parameter.name.clone().unwrap_or_default(), parameter.by_ref));
            match self.pass_parameter(parameter, activation) {
                Ok(argument) => arguments.push(argument),
                Err(error) => return self.report(error, activation, out),
            }
        }
        let schema = Arc::clone(&self.state.default_schema);
        let returned = self.call_procedure(&name, arguments, &schema, activation, 1, out)?;
        let Some(Returned { status, outputs }) = returned else { return Ok(()) };
        out.writer().return_status(status);
        for (position, value, ty) in outputs {
            let (name, _) = &described[position];
            out.writer().return_value(name, position as u16, ty, &value);
        }
        Ok(())
    }

    fn pass_parameter(&mut self, parameter: RpcParameter, activation: &mut Activation) -> SqlResult<PassedArgument> {
        let RpcParameter { name, by_ref, value } = parameter;
        let value = match value {
            RpcValue::Default => Passed::Default,
            RpcValue::UntypedNull => Passed::Value { value: Value::Null, ty: SqlType::Int },
            RpcValue::Scalar { sql_type, value } => Passed::Value { value, ty: sql_type },
            RpcValue::Table { type_schema, type_name, columns, rows } => {
                let type_name = ObjectName {
                    server: None,
                    database: None,
                    schema: type_schema.as_deref().filter(|schema| !schema.is_empty()).map(Arc::from),
                    name: type_name.as_str().into(),
                };
                let (table, ty) = self.table_parameter(&type_name, &columns, rows, activation)?;
                activation.owned_tables.push(table);
                Passed::Table { table, ty }
            }
        };
        let name = name.filter(|name| !name.is_empty()).map(Arc::from);
        Ok(PassedArgument { name, value, output: by_ref })
    }

    /// Makes the table of a table-valued parameter and fills it.
    fn table_parameter(
        &mut self,
        name: &ObjectName,
        columns: &[TableColumn],
        rows: Vec<Vec<Value>>,
        activation: &Activation,
    ) -> SqlResult<(ObjectId, VariableType)> {
        let user_type = {
            let catalog = self.database.catalog.read();
            let schemas = match &name.schema {
                Some(schema) => vec![Arc::clone(schema)],
                None => vec![Arc::clone(&self.state.default_schema), crate::catalog::catalog::DBO.into()],
            };
            schemas.iter().find_map(|schema| catalog.user_type(schema, &name.name).cloned())
        };
        if let Some(user_type) = &user_type {
            self.check_type(user_type, activation)?;
        }
        let found = user_type.and_then(|user_type| match &user_type.kind {
            crate::catalog::user_type::UserTypeKind::Table { template, .. } => {
                Some((Arc::clone(&user_type), Arc::clone(template)))
            }
            crate::catalog::user_type::UserTypeKind::Alias { .. } => None,
        });
        let Some((user_type, template)) = found else { return Err(crate::bind::type_name::type_not_found(name)) };
        let ty = VariableType::TableType { user_type, template: Arc::clone(&template) };
        let table = self.create_table_variable(&template)?;
        let filled = self.fill_table(table, &template, columns, rows);
        match filled {
            Ok(()) => Ok((table, ty)),
            Err(error) => {
                self.own_tables.remove(table);
                Err(error)
            }
        }
    }

    fn fill_table(
        &mut self,
        table: ObjectId,
        template: &TableSchema,
        columns: &[TableColumn],
        rows: Vec<Vec<Value>>,
    ) -> SqlResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if columns.len() != template.columns.len() {
            return Err(SqlError::new(
                500,
                format!(
                    "Trying to pass a table-valued parameter with {} column(s) where the corresponding user-defined \
                     table type requires {} column(s).",
                    columns.len(),
                    template.columns.len()
                ),
            ));
        }
        if template.columns.iter().any(|column| column.identity.is_some() || column.computed.is_some()) {
            return Err(SqlError::not_supported(
                "a table-valued parameter whose type has identity or computed columns",
            ));
        }
        let mut nothing = Activation::default();
        // Defaults and checks come from the type.
        let declarations = Declarations::default();
        let rules = {
            let database = Arc::clone(&self.database);
            let latch = database.storage.latch();
            let mut binder = Binder::new(&database, &latch, &self.state, &declarations);
            let slot = binder.new_slot()?;
            binder.bind_rules(template, slot)?
        };
        self.with_run(Uses::OwnTables, &mut nothing, |run| {
            let mut frame = crate::execute::frame::Frame::new(1);
            for mut values in rows {
                for (ordinal, (value, described)) in values.iter_mut().zip(columns).enumerate() {
                    let column = &template.columns[ordinal];
                    if described.default {
                        if let Some(default) = &rules.defaults[ordinal] {
                            *value = default.eval(run, &mut frame)?;
                        }
                        continue;
                    }
                    let given = std::mem::replace(value, Value::Null);
                    *value = value::assign(given, described.sql_type, column.sql_type)
                        .map_err(|error| error.for_column(&template.name, &column.name))?;
                    if value.is_null() && !column.nullable {
                        return Err(SqlError::new(
                            515,
                            format!(
                                "Cannot insert the value NULL into column '{}', table '{}'; column does not allow nulls. \
                                 INSERT fails.",
                                column.name, template.name
                            ),
                        )
                        .state(2));
                    }
                }
                for (name, condition) in &rules.checks {
                    frame.rows[rules.slot] = values.as_slice().into();
                    if condition.test(run, &mut frame)? == Some(false) {
                        return Err(SqlError::new(
                            547,
                            format!("The INSERT statement conflicted with the CHECK constraint \"{name}\"."),
                        ));
                    }
                }
                let storage = run.own_storage()?;
                storage.latch.insert(&mut storage.tx, table, &values)?;
            }
            Ok(())
        })
    }

    /// sp_executesql: text with parameters. Output values are put back by position among the given arguments.
    #[allow(clippy::too_many_arguments)] // A text, its parameters, its caller and its answer.
    pub(crate) fn execute_text(
        &mut self,
        text: &str,
        declared: &str,
        arguments: &[PassedArgument],
        first: usize,
        activation: &mut Activation,
        line: u32,
        out: &mut Output<'_>,
    ) -> Result<Option<Returned>, Failure> {
        let bound = self.bind_declared(declared, arguments);
        let (declarations, callee, places) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                return self.fail(error, Origin::Statement, activation, line, out).map(|_| None);
            }
        };
        let types: Vec<Option<SqlType>> = (0..declarations.len())
            .map(|place| match declarations.get(place).ty {
                VariableType::Scalar(ty) => Some(ty),
                _ => None,
            })
            .collect();
        let (control, callee) = match self.run_text(text, declared, declarations, callee, line, activation, out) {
            Ok(done) => done,
            Err(Failure::EndScope) => return Ok(Some(Returned { status: self.state.error, outputs: Vec::new() })),
            Err(failure) => return Err(failure),
        };
        let mut outputs = Vec::new();
        for (position, argument) in arguments.iter().enumerate() {
            let place = places[position];
            if let (true, Some(ty)) = (argument.output, types[place]) {
                outputs.push((first + position, callee.values[place].clone(), ty));
            }
        }
        let status = match control {
            Control::Return(Some(status)) => status,
            _ => 0,
        };
        Ok(Some(Returned { status, outputs }))
    }

    /// The variables of a parameter list with their values, and for each argument the place of its parameter.
    fn bind_declared(
        &mut self,
        declared: &str,
        arguments: &[PassedArgument],
    ) -> SqlResult<(Declarations, Activation, Vec<usize>)> {
        let parameters = parse_parameter_list(declared)?;
        let mut declarations = Declarations::default();
        let mut defaults = Vec::with_capacity(parameters.len());
        {
            let database = Arc::clone(&self.database);
            let latch = database.storage.latch();
            let nothing = Declarations::default();
            let mut binder = Binder::new(&database, &latch, &self.state, &nothing);
            for parameter in &parameters {
                let ty = variable_type(&binder, &parameter.data_type)?;
                let is_table = ty.template().is_some();
                defaults.push(match (&parameter.default, &ty) {
                    (Some(default), VariableType::Scalar(ty)) => {
                        let bound = binder.bind_expr(default)?;
                        crate::bind::conversion::implicit(bound, *ty)?.as_constant().cloned()
                    }
                    _ => None,
                });
                declarations.declare(Arc::clone(&parameter.name), ty, is_table)?;
            }
        }
        let mut callee = Activation::default();
        callee.grow(declarations.len());
        let mut given = vec![false; declarations.len()];
        let mut places = Vec::with_capacity(arguments.len());
        for (position, argument) in arguments.iter().enumerate() {
            let place = match &argument.name {
                Some(name) => declarations.find(name).map(|(place, _)| place),
                None => Some(position).filter(|position| *position < declarations.len()),
            };
            let Some(place) = place else {
                return Err(match &argument.name {
                    Some(name) => SqlError::new(8145, format!("{name} is not a parameter for procedure .")).state(2),
                    None => SqlError::new(8144, "Procedure or function  has too many arguments specified.").state(2),
                });
            };
            if argument.output && !parameters[place].output {
                return Err(SqlError::new(
                    8162,
                    format!(
                        "The formal parameter \"{}\" was not declared as an OUTPUT parameter, but the actual parameter \
                         passed in requested output.",
                        parameters[place].name
                    ),
                )
                .state(2));
            }
            places.push(place);
            match (&declarations.get(place).ty, &argument.value) {
                (_, Passed::Default) => continue,
                (VariableType::Scalar(ty), Passed::Value { value, ty: from }) => {
                    callee.values[place] = convert_parameter(value.clone(), *from, *ty)?;
                }
                (wanted, Passed::Table { table, .. }) if wanted.template().is_some() => {
                    callee.tables[place] = Some(*table);
                }
                _ => {
                    return Err(
                        SqlError::new(206, "Operand type clash between a table and a scalar parameter.").state(2)
                    );
                }
            }
            given[place] = true;
        }
        for (place, is_given) in given.iter().enumerate() {
            if *is_given {
                continue;
            }
            let variable = declarations.get(place);
            match (&variable.ty, &defaults[place]) {
                (VariableType::Scalar(_), Some(default)) => callee.values[place] = default.clone(),
                (VariableType::Scalar(_), None) => {
                    return Err(SqlError::new(
                        8178,
                        format!(
                            "The parameterized query '({declared})' expects the parameter '{}', which was not supplied.",
                            variable.name
                        ),
                    ));
                }
                (ty, _) => {
                    let template = ty.template().expect("it is no scalar").clone();
                    let table = self.create_table_variable(&template)?;
                    callee.tables[place] = Some(table);
                    callee.owned_tables.push(table);
                }
            }
        }
        Ok((declarations, callee, places))
    }

    /// sp_prepare: keeps the text under a number.
    pub(crate) fn prepare(&mut self, declared: &str, text: &str) -> i32 {
        let handle = self.next_handle;
        self.next_handle += 1;
        self.prepared.push((handle, Prepared { declared: declared.into(), text: text.into() }));
        handle
    }

    pub(crate) fn prepared(&self, handle: i32) -> SqlResult<Prepared> {
        match self.prepared.iter().find(|(number, _)| *number == handle) {
            Some((_, prepared)) => Ok(prepared.clone()),
            None => Err(SqlError::new(8179, format!("Could not find prepared statement with handle {handle}."))),
        }
    }

    pub(crate) fn unprepare(&mut self, handle: i32) -> SqlResult<()> {
        self.prepared(handle)?;
        self.prepared.retain(|(number, _)| *number != handle);
        Ok(())
    }
}

fn system_name(name: &str) -> ObjectName {
    ObjectName { server: None, database: None, schema: None, name: name.into() }
}
