//! Functions in FROM: OPENJSON, STRING_SPLIT and GENERATE_SERIES. They compute their rows for each row to their left
//! (CROSS APPLY), or once.

use std::sync::Arc;

use crate::bind::binder::{Binder, VisibleColumn, display_name};
use crate::bind::expression::implicit;
use crate::bind::source::Relation;
use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Frame, Run};
use crate::execute::index_activity;
use crate::execute::open_json::{self, OpenJson};
use crate::plan::scalar::{CollationLabel, Node, Scalar, SlotSet};
use crate::storage::fold;
use crate::tsql::ast::{Expr, Ident, ObjectName};
use crate::value::{Collation, Length, SqlType, Value};

/// A call in FROM, bound.
#[derive(Debug)]
pub enum TableFunction {
    OpenJson(Box<OpenJson>),
    /// The text and the separator, both as nvarchar(max); `ordinal`: a second column counts the parts.
    StringSplit {
        text: Scalar,
        separator: Scalar,
        ordinal: bool,
    },
    /// Start, stop and step as bigint, and the type of the values.
    GenerateSeries {
        bounds: [Scalar; 3],
        ty: SqlType,
    },
    /// sys.dm_db_index_operational_stats.
    IndexActivity(Box<[Scalar; 4]>),
}

impl TableFunction {
    fn arguments(&self) -> Vec<&Scalar> {
        match self {
            TableFunction::OpenJson(call) => [Some(&call.json), call.path.as_ref()].into_iter().flatten().collect(),
            TableFunction::StringSplit { text, separator, .. } => vec![text, separator],
            TableFunction::GenerateSeries { bounds, .. } => bounds.iter().collect(),
            TableFunction::IndexActivity(arguments) => arguments.iter().collect(),
        }
    }

    /// The slots its arguments read.
    pub fn slots(&self) -> SlotSet {
        self.arguments().into_iter().fold(0, |slots, argument| slots | argument.slots())
    }

    /// How many columns it has.
    pub fn width(&self) -> usize {
        match self {
            TableFunction::OpenJson(call) => call.width(),
            TableFunction::StringSplit { ordinal, .. } => 1 + usize::from(*ordinal),
            TableFunction::GenerateSeries { .. } => 1,
            TableFunction::IndexActivity(_) => index_activity::WIDTH,
        }
    }

    pub fn rows(&self, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Vec<Value>>> {
        match self {
            TableFunction::OpenJson(call) => open_json::rows(call, run, frame),
            TableFunction::StringSplit { text, separator, ordinal } => {
                split(&text.eval(run, frame)?, &separator.eval(run, frame)?, *ordinal)
            }
            TableFunction::GenerateSeries { bounds: [start, stop, step], ty } => {
                let bounds = [start.eval(run, frame)?, stop.eval(run, frame)?, step.eval(run, frame)?];
                series(&bounds, *ty)
            }
            TableFunction::IndexActivity(arguments) => index_activity::rows(arguments, run, frame),
        }
    }
}

/// A column of a function's result.
pub struct FunctionColumn {
    pub name: Arc<str>,
    pub ty: SqlType,
    pub collation: Collation,
    pub nullable: bool,
}

impl FunctionColumn {
    pub fn new(name: &str, ty: SqlType) -> FunctionColumn {
        FunctionColumn { name: name.into(), ty, collation: Collation::default(), nullable: true }
    }
}

impl Binder<'_> {
    /// A table-valued function that SQL Server brings with it.
    pub fn bind_table_function(
        &mut self,
        name: &ObjectName,
        arguments: &[Expr],
        alias: Option<&Ident>,
        columns: &[Ident],
    ) -> SqlResult<Relation> {
        let folded = fold(&name.name);
        if name.schema.is_some() {
            return Err(unknown(name));
        }
        match folded.as_str() {
            "string_split" => self.bind_string_split(arguments, alias, columns),
            "generate_series" => self.bind_generate_series(arguments, alias, columns),
            _ => Err(unknown(name)),
        }
    }

    /// Source: "STRING_SPLIT" (MicrosoftDocs/sql-docs, docs/t-sql/functions/string-split-transact-sql.md).
    fn bind_string_split(
        &mut self,
        arguments: &[Expr],
        alias: Option<&Ident>,
        columns: &[Ident],
    ) -> SqlResult<Relation> {
        check_arity("string_split", arguments.len(), 2, 3)?;
        let text = self.bind_expr(&arguments[0])?;
        let separator = self.bind_expr(&arguments[1])?;
        for (position, argument) in [&text, &separator].into_iter().enumerate() {
            let is_null = argument.as_constant().is_some_and(Value::is_null);
            if !argument.ty.is_character() && !is_null {
                return Err(SqlError::new(
                    8116,
                    format!(
                        "Argument data type {} is invalid for argument {} of string_split function.",
                        argument.ty.message_name(),
                        position + 1
                    ),
                ));
            }
        }
        let ordinal = match arguments.get(2) {
            None => false,
            Some(flag) => match self.bind_expr(flag)?.as_constant() {
                Some(Value::Null) => false,
                Some(constant) if matches!(constant.as_i64(), Some(0 | 1)) => constant.as_i64() == Some(1),
                Some(_) => {
                    return Err(SqlError::new(
                        4199,
                        "Argument value is invalid for argument 3 of string_split function.",
                    ));
                }
                None => {
                    return Err(SqlError::new(
                        8748,
                        "The enable_ordinal argument for string_split only supports constant values (not variables or \
                         columns).",
                    ));
                }
            },
        };
        let ty = match (text.ty.is_unicode(), text.ty.is_max()) {
            (true, true) => SqlType::NVarChar(Length::Max),
            (true, false) => SqlType::NVarChar(text.ty.length().unwrap_or(Length::Limit(1))),
            (false, true) => SqlType::VarChar(Length::Max),
            (false, false) => SqlType::VarChar(text.ty.length().unwrap_or(Length::Limit(1))),
        };
        let mut described = vec![FunctionColumn { collation: text.collation(), ..FunctionColumn::new("value", ty) }];
        if ordinal {
            described.push(FunctionColumn::new("ordinal", SqlType::BigInt));
        }
        let text = implicit(text, ty)?;
        let separator = implicit(separator, SqlType::NVarChar(Length::Max))?;
        self.add_function(
            TableFunction::StringSplit { text, separator, ordinal },
            described,
            "string_split",
            alias,
            columns,
        )
    }

    /// Source: "GENERATE_SERIES" (MicrosoftDocs/sql-docs, docs/t-sql/functions/generate-series-transact-sql.md).
    fn bind_generate_series(
        &mut self,
        arguments: &[Expr],
        alias: Option<&Ident>,
        columns: &[Ident],
    ) -> SqlResult<Relation> {
        check_arity("generate_series", arguments.len(), 2, 3)?;
        let start = self.bind_expr(&arguments[0])?;
        let stop = self.bind_expr(&arguments[1])?;
        let ty = start.ty;
        if !ty.is_integer() || stop.ty != ty {
            return Err(SqlError::not_supported("GENERATE_SERIES over anything but two integers of one type"));
        }
        let step = match arguments.get(2) {
            Some(step) => {
                let step = self.bind_expr(step)?;
                if step.ty != ty {
                    return Err(SqlError::not_supported("GENERATE_SERIES with a step of another type than its start"));
                }
                step
            }
            // 1, or -1 if the start is the greater: see `series`.
            None => Scalar::null(),
        };
        let bounds =
            [implicit(start, SqlType::BigInt)?, implicit(stop, SqlType::BigInt)?, implicit(step, SqlType::BigInt)?];
        if arguments.len() == 3 && bounds[2].as_constant().is_some_and(Value::is_null) {
            return Err(SqlError::not_supported("GENERATE_SERIES with a step of NULL"));
        }
        let described = vec![FunctionColumn::new("value", ty)];
        self.add_function(TableFunction::GenerateSeries { bounds, ty }, described, "generate_series", alias, columns)
    }

    /// Gives a bound function a slot and a name in the innermost scope.
    pub fn add_function(
        &mut self,
        function: TableFunction,
        described: Vec<FunctionColumn>,
        name: &str,
        alias: Option<&Ident>,
        columns: &[Ident],
    ) -> SqlResult<Relation> {
        let slot = self.new_slot()?;
        let mut visible = Vec::with_capacity(described.len());
        for (ordinal, column) in described.into_iter().enumerate() {
            let label = if column.ty.is_character() {
                CollationLabel::Implicit(column.collation)
            } else {
                CollationLabel::Coercible
            };
            visible.push(VisibleColumn {
                name: column.name,
                scalar: Scalar {
                    node: Node::Column { slot, ordinal },
                    ty: column.ty,
                    nullable: column.nullable,
                    label,
                },
                identity: false,
            });
        }
        let alias: Ident = alias.cloned().unwrap_or_else(|| name.into());
        let visible = crate::bind::source::rename(visible, &alias, columns)?;
        self.add_visible(&alias, visible, slot)?;
        Ok(Relation::Function { slot, function: Arc::new(function) })
    }
}

fn unknown(name: &ObjectName) -> SqlError {
    SqlError::not_supported(format!("the table-valued function {}", display_name(name)))
}

fn check_arity(name: &str, count: usize, least: usize, most: usize) -> SqlResult<()> {
    if (least..=most).contains(&count) {
        return Ok(());
    }
    Err(SqlError::new(189, format!("The {name} function requires {least} to {most} arguments.")).severity(15))
}

fn split(text: &Value, separator: &Value, ordinal: bool) -> SqlResult<Vec<Vec<Value>>> {
    let Some(separator) = separator.as_str().filter(|separator| separator.chars().count() == 1) else {
        return Err(
            SqlError::new(214, "Procedure expects parameter 'separator' of type 'nchar(1)/nvarchar(1)'.").state(11)
        );
    };
    let Some(text) = text.as_str() else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for (position, part) in text.split(separator).enumerate() {
        let mut row = vec![Value::String(part.into())];
        if ordinal {
            row.push(Value::BigInt(position as i64 + 1));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn series(bounds: &[Value; 3], ty: SqlType) -> SqlResult<Vec<Vec<Value>>> {
    let (Some(start), Some(stop)) = (bounds[0].as_i64(), bounds[1].as_i64()) else { return Ok(Vec::new()) };
    let step = bounds[2].as_i64().unwrap_or(if start > stop { -1 } else { 1 });
    if step == 0 {
        return Err(SqlError::new(4199, "Argument value 0 is invalid for argument 3 of generate_series function."));
    }
    let mut rows = Vec::new();
    let mut next = Some(start);
    while let Some(value) = next.filter(|value| if step > 0 { *value <= stop } else { *value >= stop }) {
        rows.push(vec![crate::value::convert(Value::BigInt(value), SqlType::BigInt, ty, None, false)?]);
        next = value.checked_add(step);
    }
    Ok(rows)
}
