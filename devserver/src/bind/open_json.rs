//! Binds OPENJSON.
//!
//! Source: "OPENJSON" (MicrosoftDocs/sql-docs, docs/t-sql/functions/openjson-transact-sql.md).

use crate::bind::binder::Binder;
use crate::bind::conversion::implicit;
use crate::error::{SqlError, SqlResult};
use crate::plan::relation::Relation;
use crate::plan::table_function::{FunctionColumn, JsonColumn, OpenJson, TableFunction};
use crate::tsql::ast::{Expr, Ident, OpenJsonColumn};
use crate::value::builtin::json::path::Path;
use crate::value::{Collation, Length, SqlType};

impl Binder<'_> {
    pub fn bind_open_json(
        &mut self,
        json: &Expr,
        path: Option<&Expr>,
        columns: &[OpenJsonColumn],
        alias: Option<&Ident>,
    ) -> SqlResult<Relation> {
        self.check_level_of("openjson", "OPENJSON")?;
        let json = self.bind_expr(json)?;
        let collation = json.collation();
        let json = implicit(json, SqlType::NVarChar(Length::Max))?;
        let path = match path {
            Some(path) => {
                let path = self.bind_expr(path)?;
                Some(implicit(path, SqlType::NVarChar(Length::Max))?)
            }
            None => None,
        };
        let mut described = Vec::new();
        let with = if columns.is_empty() {
            let binary = Collation::parse("Latin1_General_BIN2")?;
            let key = FunctionColumn::new("key", SqlType::NVarChar(Length::Limit(4000)));
            described.push(FunctionColumn { collation: binary, ..key });
            let value = FunctionColumn::new("value", SqlType::NVarChar(Length::Max));
            described.push(FunctionColumn { collation, ..value });
            described.push(FunctionColumn { nullable: false, ..FunctionColumn::new("type", SqlType::Int) });
            None
        } else {
            let mut with = Vec::with_capacity(columns.len());
            for column in columns {
                let bound = self.bind_json_column(column)?;
                described.push(FunctionColumn { collation, ..FunctionColumn::new(&column.name, bound.ty) });
                with.push(bound);
            }
            Some(with)
        };
        let call = OpenJson { json, path, columns: with };
        self.add_function(TableFunction::OpenJson(Box::new(call)), described, "OPENJSON", alias, &[])
    }

    fn bind_json_column(&mut self, column: &OpenJsonColumn) -> SqlResult<JsonColumn> {
        let ty = self.resolve_type(&column.data_type)?;
        if column.as_json && ty != SqlType::NVarChar(Length::Max) {
            return Err(SqlError::new(
                13618,
                "AS JSON option can be specified only for column of nvarchar(max) type in WITH clause.",
            ));
        }
        if ty.is_binary() || ty.is_text_or_image() {
            return Err(SqlError::not_supported(format!("a column of {ty} in OPENJSON … WITH")));
        }
        let path = match &column.path {
            Some(path) => Path::parse(path)?,
            None => Path::of_key(&column.name),
        };
        Ok(JsonColumn { path, ty, as_json: column.as_json })
    }
}
