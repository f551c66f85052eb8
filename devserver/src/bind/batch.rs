//! From statements to steps: variables become places, and every query, condition and expression gets a
//! [`CachedPlan`].
//!
//! A batch or procedure is compiled as a whole before its first statement runs, so that a wrong column name in the last
//! statement keeps the first from running, as in SQL Server. A table that is not there yet is no error (deferred name
//! resolution): the statement is bound when it is reached.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::cached_plan::Surroundings;
use crate::bind::foreign_key_definition;
use crate::bind::table_definition;
use crate::bind::type_name::variable_type;
use crate::catalog::parameter::VariableType;
use crate::catalog::user_type::UserType;
use crate::error::{SqlError, SqlResult};
use crate::plan::batch::{ArgumentSource, CompiledBatch, ExecuteStep, Step, StepKind};
use crate::plan::cached_plan::{CachedPlan, Plan, Source};
use crate::plan::cursor::{CursorSource, CursorStep};
use crate::plan::declarations::Declarations;
use crate::plan::planner::IMPOSSIBLE_HINTS;
use crate::plan::scalar::Scalar;
use crate::storage::TableSchema;
use crate::tsql::ast::{
    Argument, ArgumentValue, AssignOp, Execute, ExecuteTarget, Expr, Ident, InsertSource, Literal, RaiseError,
    SelectStatement, Statement, StatementKind, VariableDeclaration,
};
use crate::value::{BinaryOp, Length, SqlType};

/// A missing table is no reason to refuse the batch, nor is what depends on SET IDENTITY_INSERT.
fn is_deferred(error: &SqlError) -> bool {
    matches!(error.number, 208 | 544 | 545)
}

/// Compiles the statements of a batch, procedure or dynamic text.
pub struct Compiler<'a> {
    surroundings: Surroundings<'a>,
    version: u64,
    /// A module is being created: its statements are not optimized before it runs.
    creates: bool,
    /// What RETURN returns.
    returns: SqlType,
    /// A table that is missing is an error at once.
    is_final: bool,
    declarations: Declarations,
    table_variables: Vec<(usize, Arc<TableSchema>)>,
    table_types: Vec<Arc<UserType>>,
    loops: u32,
    in_catch: u32,
}

impl<'a> Compiler<'a> {
    /// `declarations`: the parameters.
    pub fn new(surroundings: Surroundings<'a>, declarations: Declarations, version: u64) -> Compiler<'a> {
        Compiler {
            surroundings,
            version,
            creates: false,
            returns: SqlType::Int,
            is_final: false,
            declarations,
            table_variables: Vec::new(),
            table_types: Vec::new(),
            loops: 0,
            in_catch: 0,
        }
    }

    /// For CREATE PROCEDURE or TRIGGER: a hint that no plan can follow is an error of the first execution.
    pub fn creating(self) -> Compiler<'a> {
        Compiler { creates: true, ..self }
    }

    /// For the body of a function. `is_final`: it is about to run.
    pub fn for_function(self, returns: SqlType, is_final: bool) -> Compiler<'a> {
        Compiler { returns, is_final, creates: !is_final, ..self }
    }

    pub fn compile(mut self, statements: &[Statement]) -> SqlResult<CompiledBatch> {
        let steps = self.steps(statements)?;
        Ok(CompiledBatch {
            steps,
            declarations: self.declarations,
            table_variables: self.table_variables,
            table_types: self.table_types,
            schema: Arc::clone(self.surroundings.schema),
            owner: self.surroundings.owner,
        })
    }

    fn steps(&mut self, statements: &[Statement]) -> SqlResult<Vec<Step>> {
        let mut steps = Vec::with_capacity(statements.len());
        for statement in statements {
            steps.push(self.step(statement)?);
        }
        Ok(steps)
    }

    fn step(&mut self, statement: &Statement) -> SqlResult<Step> {
        let kind = self.kind(&statement.kind).map_err(|error| error.at_line(statement.line))?;
        Ok(Step { line: statement.line, kind })
    }

    /// A cached plan, bound at once if that is possible already.
    fn cached(&self, source: Source) -> SqlResult<CachedPlan> {
        let cached = CachedPlan::new(source);
        let (bound, looks) = self.surroundings.bind(&cached, &self.declarations, self.version);
        // The statement waits for the other transaction, when it is reached.
        let waits = looks.changed_by_other.is_some() && !self.creates && self.surroundings.calls.is_none();
        if waits {
            return Ok(cached);
        }
        let latch = self.surroundings.latch;
        latch.put_looks(latch.take_looks().and(looks));
        match bound {
            Ok(_) => Ok(cached),
            Err(error)
                if (is_deferred(&error) && !self.is_final) || (self.creates && error.number == IMPOSSIBLE_HINTS) =>
            {
                Ok(cached)
            }
            Err(error) => Err(error),
        }
    }

    fn expr(&self, expr: &Expr, ty: Option<SqlType>) -> SqlResult<CachedPlan> {
        self.cached(Source::Expr(expr.clone(), ty))
    }

    fn kind(&mut self, kind: &StatementKind) -> SqlResult<StepKind> {
        Ok(match kind {
            StatementKind::Insert(insert) => match &insert.source {
                InsertSource::Execute(execute) => {
                    let execute = self.execute(execute)?;
                    StepKind::InsertExecute(self.cached(Source::Statement(kind.clone()))?, Box::new(execute))
                }
                _ => StepKind::Query(self.cached(Source::Statement(kind.clone()))?),
            },
            StatementKind::Select(_)
            | StatementKind::Update(_)
            | StatementKind::Delete(_)
            | StatementKind::Merge(_) => StepKind::Query(self.cached(Source::Statement(kind.clone()))?),
            StatementKind::Block(statements) => StepKind::Block(self.steps(statements)?),
            StatementKind::If { condition, then, otherwise } => {
                let condition = self.cached(Source::Condition(condition.clone()))?;
                let then = Box::new(self.step(then)?);
                let otherwise = match otherwise {
                    Some(otherwise) => Some(Box::new(self.step(otherwise)?)),
                    None => None,
                };
                StepKind::If { condition, then, otherwise }
            }
            StatementKind::While { condition, body } => {
                let condition = self.cached(Source::Condition(condition.clone()))?;
                self.loops += 1;
                let body = self.step(body);
                self.loops -= 1;
                StepKind::While { condition, body: Box::new(body?) }
            }
            StatementKind::Break | StatementKind::Continue if self.loops == 0 => {
                let word = if *kind == StatementKind::Break { "BREAK" } else { "CONTINUE" };
                return Err(SqlError::not_supported(format!("{word} outside WHILE")));
            }
            StatementKind::Break => StepKind::Break,
            StatementKind::Continue => StepKind::Continue,
            StatementKind::Return(value) => StepKind::Return(match value {
                Some(value) => Some(self.expr(value, Some(self.returns))?),
                None => None,
            }),
            StatementKind::TryCatch { body, handler } => {
                let body = self.steps(body)?;
                self.in_catch += 1;
                let handler = self.steps(handler);
                self.in_catch -= 1;
                StepKind::TryCatch { body, handler: handler? }
            }
            StatementKind::Throw(None) => {
                if self.in_catch == 0 {
                    return Err(SqlError::not_supported("THROW without arguments outside CATCH"));
                }
                StepKind::Rethrow
            }
            StatementKind::Throw(Some(arguments)) => {
                let (number, message, state) = &**arguments;
                StepKind::Throw {
                    number: self.expr(number, Some(SqlType::Int))?,
                    message: self.expr(message, Some(SqlType::NVarChar(Length::Limit(2048))))?,
                    state: self.expr(state, Some(SqlType::TinyInt))?,
                }
            }
            StatementKind::RaiseError(raise) => self.raise_error(raise)?,
            StatementKind::Print(message) => StepKind::Print(self.expr(message, Some(SqlType::NVarChar(Length::Max)))?),
            StatementKind::Declare(declarations) => self.declare(declarations)?,
            StatementKind::DeclareTable { name, definition } => {
                foreign_key_definition::refuse(&definition.constraints)?;
                let template = {
                    let mut binder = self.binder();
                    table_definition::template(&mut binder, name, "dbo", definition)?
                };
                let template = Arc::new(template);
                let place =
                    self.declarations.declare(Arc::clone(name), VariableType::Table(Arc::clone(&template)), false)?;
                self.table_variables.push((place, template));
                StepKind::Declare(Vec::new())
            }
            StatementKind::SetVariable { name, op, value } => self.set_variable(name, *op, value)?,
            StatementKind::SetLockTimeout(value) => StepKind::SetLockTimeout(self.expr(value, Some(SqlType::BigInt))?),
            StatementKind::SetDeadlockPriority(value) => {
                StepKind::SetDeadlockPriority(self.expr(value, Some(SqlType::BigInt))?)
            }
            StatementKind::WaitForDelay(value) => StepKind::WaitForDelay(self.expr(value, None)?),
            StatementKind::Execute(execute) => StepKind::Execute(Box::new(self.execute(execute)?)),
            StatementKind::DeclareCursor { name, local, select } => {
                let source = self.cursor_source(*local, select)?;
                StepKind::Cursor(Box::new(CursorStep::Declare { name: Arc::clone(name), source }))
            }
            StatementKind::OpenCursor(name) => StepKind::Cursor(Box::new(CursorStep::Open(name.clone()))),
            StatementKind::CloseCursor(name) => StepKind::Cursor(Box::new(CursorStep::Close(name.clone()))),
            StatementKind::DeallocateCursor(name) => StepKind::Cursor(Box::new(CursorStep::Deallocate(name.clone()))),
            StatementKind::Fetch { cursor, into } => {
                let into = into.iter().map(|name| self.declarations.scalar(name)).collect::<SqlResult<_>>()?;
                StepKind::Cursor(Box::new(CursorStep::Fetch { cursor: cursor.clone(), into }))
            }
            StatementKind::CheckIdentity(statement) => StepKind::CheckIdentity {
                table: self.expr(&statement.table, Some(SqlType::SYSNAME))?,
                value: self.expr(&statement.value, None)?,
            },
            StatementKind::SetToDefault => StepKind::Nothing,
            // What clients set at login, and what bears on nothing that is imitated here.
            StatementKind::SetTextSize(size) => text_size(size)?,
            // The language that is already set.
            StatementKind::SetLanguage(value) => {
                only_text(value, "us_english", "SET LANGUAGE")?;
                StepKind::SetLanguage
            }
            StatementKind::SetDateFormat(value) => only_text(value, "mdy", "SET DATEFORMAT")?,
            other => StepKind::Other(Arc::new(other.clone())),
        })
    }

    fn binder(&self) -> Binder<'_> {
        let Surroundings { database, latch, state, schema, owner, calls } = self.surroundings;
        Surroundings { database, latch, state, schema, owner, calls }.binder(&self.declarations)
    }

    fn declare(&mut self, list: &[VariableDeclaration]) -> SqlResult<StepKind> {
        let mut values = Vec::new();
        for declaration in list {
            let ty = variable_type(&self.binder(), &declaration.data_type)?;
            let place = self.declarations.declare(Arc::clone(&declaration.name), ty.clone(), false)?;
            match (&ty, &declaration.value) {
                (VariableType::Scalar(ty), Some(value)) => values.push((place, Some(self.expr(value, Some(*ty))?))),
                (VariableType::Scalar(_), None) => {}
                (VariableType::Table(template), _) => self.table_variables.push((place, Arc::clone(template))),
                (VariableType::TableType { user_type, template }, _) => {
                    let owner = self.surroundings.database.catalog.read().owner_in(&user_type.schema);
                    if self.surroundings.owner.is_none() || self.surroundings.owner != owner {
                        self.table_types.push(Arc::clone(user_type));
                    }
                    self.table_variables.push((place, Arc::clone(template)));
                }
            }
        }
        Ok(StepKind::Declare(values))
    }

    fn cursor_source(&self, is_local: bool, select: &SelectStatement) -> SqlResult<Arc<CursorSource>> {
        let mut select = select.clone();
        if select.query.order_by.is_empty() {
            // The cursor goes on in the middle of a join, which a table of hashes does not allow.
            select.loop_joins = true;
        }
        let select = StatementKind::Select(Box::new(select));
        Ok(Arc::new(CursorSource {
            cached: self.cached(Source::Statement(select))?,
            declarations: self.declarations.clone(),
            schema: Arc::clone(self.surroundings.schema),
            owner: self.surroundings.owner,
            is_local,
        }))
    }

    fn set_variable(&mut self, name: &Ident, op: AssignOp, value: &Expr) -> SqlResult<StepKind> {
        let (place, ty) = self.declarations.scalar(name)?;
        let expr = match op {
            AssignOp::Set => value.clone(),
            AssignOp::Compound(op) => compound(name, op, value),
        };
        Ok(StepKind::Set(place, self.expr(&expr, Some(ty))?))
    }

    fn raise_error(&mut self, raise: &RaiseError) -> SqlResult<StepKind> {
        let mut arguments = Vec::with_capacity(raise.arguments.len());
        for argument in &raise.arguments {
            arguments.push(self.expr(argument, None)?);
        }
        let message = self.expr(&raise.message, None)?;
        if let Some(bound) = message.kept(self.version)
            && let Plan::Scalar(Scalar { ty, .. }) = &bound.plan
            && !ty.is_character()
        {
            return Err(SqlError::not_supported("RAISERROR with a message number"));
        }
        Ok(StepKind::RaiseError {
            message,
            severity: self.expr(&raise.severity, Some(SqlType::Int))?,
            state: self.expr(&raise.state, Some(SqlType::Int))?,
            arguments,
        })
    }

    fn execute(&mut self, execute: &Execute) -> SqlResult<ExecuteStep> {
        let return_place = match &execute.return_variable {
            Some(name) => Some(self.declarations.scalar(name)?.0),
            None => None,
        };
        let mut arguments = Vec::with_capacity(execute.arguments.len());
        for argument in &execute.arguments {
            arguments.push(self.argument(argument)?);
        }
        let target = match &execute.target {
            ExecuteTarget::Procedure(name) => crate::plan::batch::ExecuteTarget::Procedure(name.clone()),
            ExecuteTarget::Variable(name) => {
                crate::plan::batch::ExecuteTarget::Variable(self.declarations.scalar(name)?.0)
            }
            ExecuteTarget::Text(expr) => crate::plan::batch::ExecuteTarget::Text(Box::new(
                self.expr(expr, Some(SqlType::NVarChar(Length::Max)))?,
            )),
        };
        Ok(ExecuteStep { return_place, target, arguments })
    }

    fn argument(&mut self, argument: &Argument) -> SqlResult<crate::plan::batch::Argument> {
        let value = match &argument.value {
            ArgumentValue::Constant(expr) => ArgumentSource::Value(Box::new(self.expr(expr, None)?)),
            ArgumentValue::Default => ArgumentSource::Default,
            ArgumentValue::Variable { name, output } => {
                let Some((place, variable)) = self.declarations.find(name) else {
                    return Err(SqlError::new(137, format!("Must declare the scalar variable \"{name}\"."))
                        .severity(15)
                        .state(2));
                };
                match &variable.ty {
                    VariableType::Scalar(_) if *output => {
                        let (place, ty) = self.declarations.scalar(name)?;
                        ArgumentSource::Variable { place, ty, output: true }
                    }
                    VariableType::Scalar(ty) => ArgumentSource::Variable { place, ty: *ty, output: *output },
                    VariableType::Table(_) | VariableType::TableType { .. } => {
                        if *output {
                            return Err(SqlError::not_supported(format!(
                                "the table-valued parameter {name} as OUTPUT"
                            )));
                        }
                        ArgumentSource::Table { place, ty: variable.ty.clone() }
                    }
                }
            }
        };
        Ok(crate::plan::batch::Argument { name: argument.name.clone(), value })
    }
}

fn only_text(value: &Expr, only: &str, what: &str) -> SqlResult<StepKind> {
    match value {
        Expr::Literal(Literal::String { value, .. }) if value.eq_ignore_ascii_case(only) => Ok(StepKind::Nothing),
        _ => Err(SqlError::not_supported(format!("{what} with anything but {only}"))),
    }
}

/// What drivers set at login: the client gets values of any length.
fn text_size(value: &Expr) -> SqlResult<StepKind> {
    match value {
        Expr::Literal(Literal::Int(i32::MAX)) => Ok(StepKind::Nothing),
        _ => Err(SqlError::not_supported("SET TEXTSIZE with anything but 2147483647")),
    }
}

/// `@v op value`.
fn compound(name: &Ident, op: BinaryOp, value: &Expr) -> Expr {
    Expr::Binary { op, left: Box::new(Expr::Variable(Arc::clone(name))), right: Box::new(value.clone()) }
}
