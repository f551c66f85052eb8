//! `@@VERSION`, SERVERPROPERTY and DATABASEPROPERTYEX.

use crate::catalog::release::Release;
use crate::catalog::server::Product;
use crate::error::{SqlError, SqlResult};
use crate::execute::frame::Run;
use crate::execute::function_value::text;
use crate::storage::fold;
use crate::value::{Collation, Value};

/// `@@VERSION`, in the form that clients take apart: the product and its number, the processor, the build's date, a
/// copyright, the edition and the operating system. The last two lines say whose server it is.
///
/// Source: "@@VERSION" (MicrosoftDocs/sql-docs, docs/t-sql/functions/version-transact-sql-configuration-functions.md).
pub fn version(product: Product) -> String {
    let release = Release::of(product);
    let processor = match std::env::consts::ARCH {
        _ if product.is_azure() => String::new(),
        "x86_64" => " (X64)".to_owned(),
        other => format!(" ({other})"),
    };
    format!(
        "Microsoft {} ({}) - {}{processor} \n\t{} \n\tCopyright (C) 2026 the readpast developers\n\treadpast dev server \
         {}, a stand-in for SQL Server, on {}",
        release.name(),
        release.level,
        release.number(),
        release.built_at,
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS
    )
}

pub fn server_property(property: &Value, product: Product) -> SqlResult<Value> {
    Ok(match property.as_str().map(fold).as_deref() {
        Some("productmajorversion") => text(product.major_version.to_string()),
        Some("servername") => text("readpast-devserver"),
        Some("isfulltextinstalled") => Value::Int(0),
        Some("productminorversion") => text("0"),
        Some("productversion") => text(Release::of(product).number()),
        Some("productlevel") => text(Release::of(product).level),
        Some("engineedition") => Value::Int(product.engine_edition.into()),
        Some("edition") if product.is_azure() => text("SQL Azure"),
        Some("edition") => text("readpast dev server"),
        _ => {
            return Err(SqlError::not_supported(format!(
                "SERVERPROPERTY of '{}'",
                property.as_str().unwrap_or("NULL")
            )));
        }
    })
}

pub fn database_property(name: &Value, property: &Value, run: &Run<'_>) -> SqlResult<Value> {
    let (Some(name), Some(property)) = (name.as_str(), property.as_str().map(fold)) else { return Ok(Value::Null) };
    let Some(database) = run.database.server.database_named(name) else { return Ok(Value::Null) };
    Ok(match property.as_str() {
        "updateability" => text(if database.options.is_read_only() { "READ_ONLY" } else { "READ_WRITE" }),
        "status" => text("ONLINE"),
        "collation" => text(Collation::default().name()),
        "recovery" => text(database.recovery_model),
        "useraccess" => text("MULTI_USER"),
        "serviceobjective" if run.database.server.product.is_azure() => {
            text(run.database.server.product.service_objective)
        }
        other => return Err(SqlError::not_supported(format!("DATABASEPROPERTYEX of '{other}'"))),
    })
}
