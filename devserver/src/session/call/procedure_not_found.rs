//! What is said of a procedure that nobody has made: 2812, or, of one that may be SQL Server's own, that it is not here.

use crate::catalog::object_name::ParsedName;
use crate::error::SqlError;
use crate::storage::fold;

/// The error for calling `name`, which is no procedure here. SQL Server has some hundred of the two prefixes.
pub fn not_found(name: &str) -> SqlError {
    let system = ParsedName::parse(name).filter(|parsed| {
        parsed.schema.as_deref().is_none_or(|schema| matches!(fold(schema).as_str(), "sys" | "dbo"))
            && ["sp_", "xp_"].iter().any(|prefix| fold(&parsed.name).starts_with(prefix))
    });
    match system {
        Some(system) => SqlError::not_supported(format!("the system procedure {}", fold(&system.name))),
        None => SqlError::new(2812, format!("Could not find stored procedure '{name}'.")).state(62),
    }
}
