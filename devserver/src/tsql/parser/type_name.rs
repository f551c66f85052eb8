//! Types as written, and whether a system type can have the arguments it was given. The parser knows the system types
//! by name only; what it does not know may be a user's type, which is the executor's question.

use crate::error::{SqlError, SqlResult};
use crate::tsql::ast::name::{TypeArguments, TypeName};
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

/// Most digits of `decimal`.
const MAX_PRECISION: u32 = 38;

/// Most digits of a second's fraction.
const MAX_TIME_SCALE: u32 = 7;

/// Longest character or binary type that is not `(max)`, in bytes.
const MAX_BYTES: u32 = 8000;

impl Parser<'_> {
    pub(super) fn type_name(&mut self) -> SqlResult<TypeName> {
        if self.is_one_of(&["DOUBLE", "NATIONAL", "CURSOR"]) {
            return Err(self.unsupported(format!("the type {}", self.keyword())));
        }
        let start = self.next;
        let name = self.object_name()?;
        if name.database.is_some() {
            return Err(self.unexpected_at(start));
        }
        let mut arguments = TypeArguments::None;
        if self.accept_symbol(Symbol::LeftParen) {
            arguments = self.type_arguments()?;
            self.expect_symbol(Symbol::RightParen)?;
        }
        let data_type = TypeName { name, arguments };
        self.check_type_arguments(&data_type)?;
        Ok(data_type)
    }

    fn type_arguments(&mut self) -> SqlResult<TypeArguments> {
        if self.accept("MAX") {
            return Ok(TypeArguments::Max);
        }
        let first = self.unsigned()?;
        if self.accept_symbol(Symbol::Comma) {
            return Ok(TypeArguments::Two(first, self.unsigned()?));
        }
        Ok(TypeArguments::One(first))
    }

    fn check_type_arguments(&self, data_type: &TypeName) -> SqlResult<()> {
        let is_system = data_type.name.schema.as_ref().is_none_or(|schema| schema.eq_ignore_ascii_case("sys"));
        if !is_system || data_type.arguments == TypeArguments::None {
            return Ok(());
        }
        let name = data_type.name.name.to_ascii_lowercase();
        match name.as_str() {
            "bit" | "tinyint" | "smallint" | "int" | "integer" | "bigint" | "real" | "float" | "date" | "datetime"
            | "uniqueidentifier" | "rowversion" | "timestamp" | "sysname" | "text" | "ntext" | "image"
            | "sql_variant" => Err(self.invalid_length(&name)),
            "decimal" | "numeric" | "dec" => match data_type.arguments {
                TypeArguments::One(1..=MAX_PRECISION) => Ok(()),
                TypeArguments::Two(precision @ 1..=MAX_PRECISION, scale) if scale <= precision => Ok(()),
                _ => Err(self.invalid_length(&name)),
            },
            "time" | "datetime2" | "datetimeoffset" => match data_type.arguments {
                TypeArguments::One(..=MAX_TIME_SCALE) => Ok(()),
                _ => Err(self.invalid_length(&name)),
            },
            "varchar" | "varbinary" | "nvarchar" if data_type.arguments == TypeArguments::Max => Ok(()),
            "char" | "character" | "varchar" | "binary" | "varbinary" => {
                self.check_length(data_type.arguments, MAX_BYTES, &name)
            }
            "nchar" | "nvarchar" => self.check_length(data_type.arguments, MAX_BYTES / 2, &name),
            _ => Ok(()),
        }
    }

    fn check_length(&self, arguments: TypeArguments, longest: u32, name: &str) -> SqlResult<()> {
        match arguments {
            TypeArguments::One(size) if (1..=longest).contains(&size) => Ok(()),
            TypeArguments::One(size) if size > longest => {
                let message = format!(
                    "The size ({size}) given to the type '{name}' exceeds the maximum allowed for any data type \
                     ({longest})."
                );
                Err(self.error(131, message))
            }
            _ => Err(self.invalid_length(name)),
        }
    }

    fn invalid_length(&self, name: &str) -> SqlError {
        self.unsupported(format!("the type {name} with this length, precision or scale"))
    }
}
