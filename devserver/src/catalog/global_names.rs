//! Which database has which `##temp` table or procedure.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::error::{SqlError, SqlResult};
use crate::storage::{ObjectId, fold};

/// By folded name: the database where the thing stands, and its number there.
#[derive(Default)]
pub(crate) struct GlobalNames(Mutex<HashMap<String, (i32, ObjectId)>>);

impl GlobalNames {
    /// It is there. False if a session in another database has made something of the name.
    pub(crate) fn add(&self, name: &str, database: i32, id: ObjectId) -> bool {
        let mut names = self.0.lock();
        let name = fold(name);
        if names.get(&name).is_some_and(|(home, _)| *home != database) {
            return false;
        }
        names.insert(name, (database, id));
        true
    }

    /// It is gone.
    pub(crate) fn remove(&self, name: &str, id: ObjectId) {
        let mut names = self.0.lock();
        let name = fold(name);
        if names.get(&name).is_some_and(|(_, known)| *known == id) {
            names.remove(&name);
        }
    }

    /// A session of `database` asks for a name.
    pub(crate) fn check(&self, name: &str, database: i32) -> SqlResult<()> {
        let home = self.0.lock().get(&fold(name)).map(|(home, _)| *home);
        if home.is_some_and(|home| home != database) {
            return Err(SqlError::not_supported(format!(
                "the global temporary object {name}, which a session in another database has made"
            )));
        }
        Ok(())
    }
}
