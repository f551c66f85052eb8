//! The server's logins.

use crate::catalog::view::column_types::{BIT, INT, NAME, WHEN, WORD, bit, date, text};
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::value::{SqlType, Value};

pub(crate) static VIEWS: &[CatalogView] = &[CatalogView {
    schema: "sys",
    name: "sql_logins",
    columns: &[
        ("name", NAME),
        ("principal_id", INT),
        ("type", SqlType::Char(1)),
        ("type_desc", WORD),
        ("is_disabled", BIT),
        ("create_date", WHEN),
    ],
    rows: sql_logins,
}];

/// Those with a password here: the others are known by Windows or an external provider.
fn sql_logins(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let logins = facts.database.server.logins.read();
    let rows = logins.iter().filter(|login| login.password.is_some()).map(|login| {
        vec![text(&login.name), Value::Int(login.id), text("S"), text("SQL_LOGIN"), bit(false), date(login.created_at)]
    });
    rows.collect()
}
