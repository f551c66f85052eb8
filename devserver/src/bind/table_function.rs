//! Functions in FROM: STRING_SPLIT, GENERATE_SERIES and fn_helpcollations. OPENJSON has a file of its own.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::conversion::implicit;
use crate::bind::derived_table::rename;
use crate::bind::name::display_name;
use crate::bind::query_scope::VisibleColumn;
use crate::error::{SqlError, SqlResult};
use crate::plan::collation_label::CollationLabel;
use crate::plan::query::ColumnOrigin;
use crate::plan::relation::Relation;
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table_function::{FunctionColumn, TableFunction};
use crate::storage::fold;
use crate::tsql::ast::{Expr, Ident, ObjectName};
use crate::value::{Length, SqlType, Value};

const HELP_COLLATIONS: &str = "fn_helpcollations";

/// Whether a name with a schema is one that is found without a schema too.
pub fn is_of_the_system(name: &ObjectName) -> bool {
    name.schema.as_ref().is_some_and(|schema| fold(schema) == "sys") && fold(&name.name) == HELP_COLLATIONS
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
        if name.schema.is_some() && !is_of_the_system(name) {
            return Err(unknown(name));
        }
        match folded.as_str() {
            "string_split" | "generate_series" => self.check_level_of(&folded, &name.name)?,
            _ => {}
        }
        match folded.as_str() {
            "string_split" => self.bind_string_split(arguments, alias, columns),
            HELP_COLLATIONS => self.bind_help_collations(arguments, alias, columns),
            "generate_series" => self.bind_generate_series(arguments, alias, columns),
            _ => Err(unknown(name)),
        }
    }

    /// Below its compatibility level a function is no function: "SQL Server can't find and run" it.
    ///
    /// Source: "OPENJSON", "STRING_SPLIT" and "GENERATE_SERIES" (MicrosoftDocs/sql-docs, docs/t-sql/functions/).
    pub(super) fn check_level_of(&self, function: &str, written: &str) -> SqlResult<()> {
        let needed = if function == "generate_series" { 160 } else { 130 };
        if self.database.compatibility_level() >= needed {
            return Ok(());
        }
        Err(SqlError::new(208, format!("Invalid object name '{written}'.")))
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

    /// Source: "sys.fn_helpcollations" (MicrosoftDocs/sql-docs,
    /// docs/relational-databases/system-functions/sys-fn-helpcollations-transact-sql.md).
    fn bind_help_collations(
        &mut self,
        arguments: &[Expr],
        alias: Option<&Ident>,
        columns: &[Ident],
    ) -> SqlResult<Relation> {
        if !arguments.is_empty() {
            let message = "Procedure or function sys.fn_helpcollations has too many arguments specified.";
            return Err(SqlError::new(8144, message));
        }
        let described = vec![
            FunctionColumn { nullable: false, ..FunctionColumn::new("name", SqlType::NVarChar(Length::Limit(128))) },
            FunctionColumn::new("description", SqlType::NVarChar(Length::Limit(1000))),
        ];
        self.add_function(TableFunction::HelpCollations, described, HELP_COLLATIONS, alias, columns)
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
                origin: ColumnOrigin::Computed,
            });
        }
        let alias: Ident = alias.cloned().unwrap_or_else(|| name.into());
        let visible = rename(visible, &alias, columns)?;
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
