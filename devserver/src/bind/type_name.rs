//! Names of types and collations.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::conversion::no_text_or_image;
use crate::bind::name::display_name;
use crate::catalog::parameter::VariableType;
use crate::catalog::user_type::UserType;
use crate::error::{SqlError, SqlResult};
use crate::storage::{CatalogName, fold};
use crate::tsql::ast::{Ident, ObjectName, TypeArguments, TypeName};
use crate::value::{Collation, DecimalName, Length, SqlType};

pub fn type_not_found(name: &ObjectName) -> SqlError {
    type_not_found_at(1, name)
}

/// `place`: that of the column in its statement, from 1. The types of SQL Server 2025 ("json data type" and "Vector
/// data type", MicrosoftDocs/sql-docs, docs/t-sql/data-types/) are refused by name, whatever the version.
pub fn type_not_found_at(place: usize, name: &ObjectName) -> SqlError {
    let is_of_the_system = name.schema.as_deref().is_none_or(|schema| fold(schema) == "sys");
    if is_of_the_system && matches!(fold(&name.name).as_str(), "json" | "vector") {
        return SqlError::not_supported(format!("the type {}", fold(&name.name)));
    }
    let message = format!("Column, parameter, or variable #{place}: Cannot find data type {}.", display_name(name));
    SqlError::new(2715, message).state(3)
}

/// A system type with its length, precision or scale; `None` if the name is none of them.
pub fn system_type(name: &TypeName) -> SqlResult<Option<SqlType>> {
    let object = &name.name;
    if let Some(schema) = &object.schema
        && fold(schema) != "sys"
    {
        return Ok(None);
    }
    let word = fold(&object.name);
    // The parser has checked what stands in the parentheses.
    let length = match name.arguments {
        TypeArguments::One(length) => length as u16,
        _ => 1,
    };
    let variable_length = match name.arguments {
        TypeArguments::Max => Length::Max,
        _ => Length::Limit(length),
    };
    let scale = match name.arguments {
        TypeArguments::One(scale) => scale as u8,
        _ => 7,
    };
    let ty = match word.as_str() {
        "bit" => SqlType::Bit,
        "tinyint" => SqlType::TinyInt,
        "smallint" => SqlType::SmallInt,
        "int" | "integer" => SqlType::Int,
        "bigint" => SqlType::BigInt,
        "date" => SqlType::Date,
        "datetime" => SqlType::DateTime,
        "uniqueidentifier" => SqlType::UniqueIdentifier,
        "sql_variant" => SqlType::Variant,
        "rowversion" | "timestamp" => SqlType::RowVersion,
        "real" => SqlType::Real,
        "sysname" => SqlType::SYSNAME,
        "float" => SqlType::Float,
        "decimal" | "numeric" | "dec" => {
            let (precision, scale) = match name.arguments {
                TypeArguments::None => (18, 0),
                TypeArguments::One(precision) => (precision, 0),
                TypeArguments::Two(precision, scale) => (precision, scale),
                TypeArguments::Max => return Ok(None),
            };
            let name = if word == "numeric" { DecimalName::Numeric } else { DecimalName::Decimal };
            SqlType::Decimal { precision: precision as u8, scale: scale as u8, name }
        }
        "char" | "character" => SqlType::Char(length),
        "nchar" => SqlType::NChar(length),
        "binary" => SqlType::Binary(length),
        "varchar" => SqlType::VarChar(variable_length),
        "nvarchar" => SqlType::NVarChar(variable_length),
        "varbinary" => SqlType::VarBinary(variable_length),
        "time" => SqlType::Time(scale),
        "datetime2" => SqlType::DateTime2(scale),
        "datetimeoffset" => SqlType::DateTimeOffset(scale),
        "text" => SqlType::Text,
        "ntext" => SqlType::NText,
        "image" => SqlType::Image,
        "xml" | "hierarchyid" | "geography" | "geometry" | "cursor" | "table" | "money" | "smallmoney"
        | "smalldatetime" => {
            return Err(SqlError::not_supported(format!("the data type {word}")));
        }
        _ => return Ok(None),
    };
    Ok(Some(ty))
}

/// In CAST and CONVERT a length that is not written is 30.
pub fn system_type_for_cast(name: &TypeName) -> SqlResult<Option<SqlType>> {
    if name.arguments != TypeArguments::None {
        return system_type(name);
    }
    Ok(match system_type(name)? {
        Some(SqlType::Char(_)) => Some(SqlType::Char(30)),
        Some(SqlType::NChar(_)) => Some(SqlType::NChar(30)),
        Some(SqlType::VarChar(_)) => Some(SqlType::VarChar(Length::Limit(30))),
        Some(SqlType::NVarChar(_)) => Some(SqlType::NVarChar(Length::Limit(30))),
        Some(SqlType::Binary(_)) => Some(SqlType::Binary(30)),
        Some(SqlType::VarBinary(_)) => Some(SqlType::VarBinary(Length::Limit(30))),
        other => other,
    })
}

impl Binder<'_> {
    /// A system type by name.
    pub fn resolve_type(&self, name: &TypeName) -> SqlResult<SqlType> {
        if let Some(ty) = system_type(name)? {
            return Ok(ty);
        }
        match self.find_user_type(&name.name)? {
            Some(_) => Err(SqlError::not_supported(format!("the type {} in this place", display_name(&name.name)))),
            None => Err(type_not_found(&name.name)),
        }
    }

    pub fn find_user_type(&self, name: &ObjectName) -> SqlResult<Option<Arc<UserType>>> {
        let catalog = self.database.catalog.read();
        for schema in self.schemas_to_search(name)? {
            self.latch.look_at(self.state.spid, || CatalogName::user_type(&schema, &name.name));
            if let Some(user_type) = catalog.user_type(&schema, &name.name) {
                return Ok(Some(Arc::clone(user_type)));
            }
        }
        Ok(None)
    }

    pub fn collation(&self, name: &Ident) -> SqlResult<Collation> {
        if fold(name) == "database_default" {
            return Ok(Collation::default());
        }
        Collation::parse(name)
    }
}

/// The type of a variable or parameter.
pub fn variable_type(binder: &Binder<'_>, name: &TypeName) -> SqlResult<VariableType> {
    if let Some(ty) = system_type(name)? {
        no_text_or_image(ty, "a variable or parameter")?;
        return Ok(VariableType::Scalar(ty));
    }
    match binder.find_user_type(&name.name)? {
        Some(user_type) => {
            let template = Arc::clone(&user_type.template);
            Ok(VariableType::TableType { user_type, template })
        }
        None => Err(type_not_found(&name.name)),
    }
}
