//! All views of the catalog.

use crate::catalog::view::facts::CatalogView;
use crate::catalog::view::{constraints, indexes, information_schema, logins, modules, tables, types};
use crate::storage::fold;

pub fn all() -> impl Iterator<Item = &'static CatalogView> {
    [
        tables::VIEWS,
        constraints::VIEWS,
        indexes::VIEWS,
        types::VIEWS,
        modules::VIEWS,
        information_schema::VIEWS,
        logins::VIEWS,
    ]
    .into_iter()
    .flatten()
}

/// By folded schema and name.
pub fn find(schema: &str, name: &str) -> Option<&'static CatalogView> {
    all().find(|view| view.schema == schema && view.name == name)
}

/// Views of the days before schemas, which are found under `sys` and `dbo` alike.
pub fn find_compatible(schema: Option<&str>, name: &str) -> Option<&'static CatalogView> {
    let is_place = schema.is_none_or(|schema| matches!(fold(schema).as_str(), "dbo" | "sys"));
    let name = fold(name);
    (is_place && name == "sysobjects").then(|| find("sys", &name)).flatten()
}
