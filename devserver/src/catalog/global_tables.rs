//! Which database has which `##temp` table.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::error::{SqlError, SqlResult};
use crate::storage::{ObjectId, fold};

/// By folded name: the database in whose storage the table stands, and its number there.
#[derive(Default)]
pub(crate) struct GlobalTables(Mutex<HashMap<String, (i32, ObjectId)>>);

impl GlobalTables {
    /// A table is there. False if a session in another database has made one of the name.
    pub(crate) fn add(&self, name: &str, database: i32, table: ObjectId) -> bool {
        let mut tables = self.0.lock();
        let name = fold(name);
        if tables.get(&name).is_some_and(|(home, _)| *home != database) {
            return false;
        }
        tables.insert(name, (database, table));
        true
    }

    /// It is gone.
    pub(crate) fn remove(&self, name: &str, table: ObjectId) {
        let mut tables = self.0.lock();
        let name = fold(name);
        if tables.get(&name).is_some_and(|(_, known)| *known == table) {
            tables.remove(&name);
        }
    }

    /// A session of `database` asks for a name.
    pub(crate) fn check(&self, name: &str, database: i32) -> SqlResult<()> {
        let home = self.0.lock().get(&fold(name)).map(|(home, _)| *home);
        if home.is_some_and(|home| home != database) {
            return Err(SqlError::not_supported(format!(
                "the global temporary table {name}, which a session in another database has made"
            )));
        }
        Ok(())
    }
}
