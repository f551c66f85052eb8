//! Types as written, and whether a system type can have the arguments it was given. The parser knows the system types
//! by name only; what it does not know may be a user's type, which is the executor's question.

use crate::error::{SqlError, SqlResult};
use crate::tsql::ast::name::{TypeArguments, TypeName};
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

/// Most digits of `decimal`.
const MAX_PRECISION: u32 = 38;

/// Most bits of the mantissa of `float`.
const MAX_FLOAT_BITS: u32 = 53;

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
            "bit" | "tinyint" | "smallint" | "int" | "integer" | "bigint" | "real" | "date" | "datetime"
            | "uniqueidentifier" | "rowversion" | "timestamp" | "sysname" | "text" | "ntext" | "image"
            | "sql_variant" => {
                let message =
                    format!("Column, parameter, or variable #1: Cannot specify a column width on data type {name}.");
                Err(self.error(2716, message))
            }
            "decimal" | "numeric" | "dec" => self.check_precision(data_type.arguments, &name),
            "float" => match data_type.arguments {
                TypeArguments::One(bits) if bits > 0 => self.check_size(bits, MAX_FLOAT_BITS, &name),
                _ => Err(self.invalid_length(data_type.arguments)),
            },
            "time" | "datetime2" | "datetimeoffset" => match data_type.arguments {
                TypeArguments::One(scale) if scale <= MAX_TIME_SCALE => Ok(()),
                TypeArguments::One(scale) => {
                    let message = format!("Line {}: Specified scale {scale} is invalid.", self.line());
                    Err(self.error(1002, message))
                }
                _ => Err(self.invalid_length(data_type.arguments)),
            },
            "varchar" | "varbinary" | "nvarchar" if data_type.arguments == TypeArguments::Max => Ok(()),
            "char" | "character" | "varchar" | "binary" | "varbinary" => {
                self.check_length(data_type.arguments, MAX_BYTES, &name)
            }
            "nchar" | "nvarchar" => self.check_length(data_type.arguments, MAX_BYTES / 2, &name),
            _ => Ok(()),
        }
    }

    fn check_precision(&self, arguments: TypeArguments, name: &str) -> SqlResult<()> {
        let (precision, scale) = match arguments {
            TypeArguments::One(precision) => (precision, 0),
            TypeArguments::Two(precision, scale) => (precision, scale),
            TypeArguments::None | TypeArguments::Max => return Err(self.invalid_length(arguments)),
        };
        if precision == 0 {
            return Err(self.invalid_length(arguments));
        }
        self.check_size(precision, MAX_PRECISION, name)?;
        if scale > precision {
            return Err(self.error(192, "The scale must be less than or equal to the precision."));
        }
        Ok(())
    }

    fn check_length(&self, arguments: TypeArguments, longest: u32, name: &str) -> SqlResult<()> {
        match arguments {
            TypeArguments::One(length) if length > 0 => self.check_size(length, longest, name),
            _ => Err(self.invalid_length(arguments)),
        }
    }

    fn check_size(&self, size: u32, largest: u32, name: &str) -> SqlResult<()> {
        if size <= largest {
            return Ok(());
        }
        let message = format!(
            "The size ({size}) given to the type '{name}' exceeds the maximum allowed for any data type ({largest})."
        );
        Err(self.error(131, message))
    }

    /// 1001 for a number that no type has; anything else is a matter of syntax.
    fn invalid_length(&self, arguments: TypeArguments) -> SqlError {
        match arguments {
            TypeArguments::One(length) | TypeArguments::Two(length, _) if length == 0 => {
                self.error(1001, format!("Line {}: Length or precision specification 0 is invalid.", self.line()))
            }
            _ => self.unexpected_at(self.next.saturating_sub(1)),
        }
    }
}
