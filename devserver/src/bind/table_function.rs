//! Functions in FROM: STRING_SPLIT, GENERATE_SERIES and OPENJSON.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::conversion::implicit;
use crate::bind::derived_table::rename;
use crate::bind::name::{display_name, invalid_object};
use crate::bind::query_scope::VisibleColumn;
use crate::error::{SqlError, SqlResult};
use crate::plan::collation_label::CollationLabel;
use crate::plan::query::ColumnOrigin;
use crate::plan::relation::Relation;
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table_function::{FunctionColumn, TableFunction};
use crate::storage::fold;
use crate::tsql::ast::{Expr, Ident, ObjectName};
use crate::value::{Collation, Length, SqlType, Value};

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
        if let Some(schema) = &name.schema {
            // There are no table-valued functions of users.
            return Err(if fold(schema) == "sys" { unknown(name) } else { invalid_object(name) });
        }
        match folded.as_str() {
            "string_split" => self.bind_string_split(arguments, alias, columns),
            "generate_series" => self.bind_generate_series(arguments, alias, columns),
            _ => Err(unknown(name)),
        }
    }

    /// Below its compatibility level a function is no function: "SQL Server can't find and run" it.
    ///
    /// Source: "OPENJSON", "STRING_SPLIT" and "GENERATE_SERIES" (MicrosoftDocs/sql-docs, docs/t-sql/functions/).
    pub(super) fn check_level_of(&self, function: &str) -> SqlResult<()> {
        let needed = if function == "GENERATE_SERIES" { 160 } else { 130 };
        if self.database.compatibility_level() >= needed {
            return Ok(());
        }
        Err(SqlError::new(208, format!("Invalid object name '{function}'.")))
    }

    fn check_two(&self, function: &str, arguments: &[Expr]) -> SqlResult<()> {
        self.check_level_of(function)?;
        match arguments.len() {
            2 => Ok(()),
            given => Err(SqlError::not_supported(format!("{function} with {given} arguments"))),
        }
    }

    /// Source: "STRING_SPLIT" (MicrosoftDocs/sql-docs, docs/t-sql/functions/string-split-transact-sql.md).
    fn bind_string_split(
        &mut self,
        arguments: &[Expr],
        alias: Option<&Ident>,
        columns: &[Ident],
    ) -> SqlResult<Relation> {
        self.check_two("STRING_SPLIT", arguments)?;
        let text = self.bind_expr(&arguments[0])?;
        let separator = self.bind_expr(&arguments[1])?;
        for argument in [&text, &separator] {
            let is_null = argument.as_constant().is_some_and(Value::is_null);
            if !argument.ty.is_character() && !is_null {
                return Err(SqlError::not_supported("arguments of STRING_SPLIT that are no text"));
            }
        }
        let ty = match (text.ty.is_unicode(), text.ty.is_max()) {
            (true, true) => SqlType::NVarChar(Length::Max),
            (true, false) => SqlType::NVarChar(text.ty.length().unwrap_or(Length::Limit(1))),
            (false, true) => SqlType::VarChar(Length::Max),
            (false, false) => SqlType::VarChar(text.ty.length().unwrap_or(Length::Limit(1))),
        };
        let described = vec![FunctionColumn { collation: text.collation(), ..FunctionColumn::new("value", ty) }];
        let text = implicit(text, ty)?;
        let separator = implicit(separator, SqlType::NVarChar(Length::Max))?;
        self.add_function(TableFunction::StringSplit { text, separator }, described, "string_split", alias, columns)
    }

    /// Source: "GENERATE_SERIES" (MicrosoftDocs/sql-docs, docs/t-sql/functions/generate-series-transact-sql.md).
    fn bind_generate_series(
        &mut self,
        arguments: &[Expr],
        alias: Option<&Ident>,
        columns: &[Ident],
    ) -> SqlResult<Relation> {
        self.check_two("GENERATE_SERIES", arguments)?;
        let start = self.bind_expr(&arguments[0])?;
        let stop = self.bind_expr(&arguments[1])?;
        let ty = start.ty;
        if !ty.is_integer() || stop.ty != ty {
            return Err(SqlError::not_supported("GENERATE_SERIES over anything but two integers of one type"));
        }
        let bounds = [implicit(start, SqlType::BigInt)?, implicit(stop, SqlType::BigInt)?];
        let described = vec![FunctionColumn::new("value", ty)];
        self.add_function(TableFunction::GenerateSeries { bounds, ty }, described, "generate_series", alias, columns)
    }

    /// Source: "OPENJSON" (MicrosoftDocs/sql-docs, docs/t-sql/functions/openjson-transact-sql.md).
    pub fn bind_open_json(&mut self, json: &Expr, alias: Option<&Ident>) -> SqlResult<Relation> {
        self.check_level_of("OPENJSON")?;
        let json = self.bind_expr(json)?;
        let value = FunctionColumn::new("value", SqlType::NVarChar(Length::Max));
        let value = FunctionColumn { collation: json.collation(), ..value };
        let json = implicit(json, SqlType::NVarChar(Length::Max))?;
        let key = FunctionColumn::new("key", SqlType::NVarChar(Length::Limit(4000)));
        let key = FunctionColumn { collation: Collation::parse("Latin1_General_BIN2")?, ..key };
        let kind = FunctionColumn { nullable: false, ..FunctionColumn::new("type", SqlType::Int) };
        self.add_function(TableFunction::OpenJson(json), vec![key, value, kind], "OPENJSON", alias, &[])
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
