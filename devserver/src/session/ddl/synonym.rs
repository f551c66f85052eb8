//! CREATE SYNONYM.

use std::sync::Arc;

use crate::catalog::object::{Object, Synonym};
use crate::error::SqlResult;
use crate::session::client_session::Session;
use crate::tsql::ast::ObjectName;
use crate::value::now_utc;

impl Session {
    /// The target need not be there: it is looked for when the synonym is used.
    pub(crate) fn create_synonym(&mut self, name: &ObjectName, target: &ObjectName) -> SqlResult<()> {
        self.check_create("CREATE SYNONYM")?;
        let schema = self.schema_for(name)?;
        self.check_free(&schema, &name.name)?;
        let synonym = Synonym {
            id: self.new_object_id(),
            schema,
            name: Arc::clone(&name.name),
            target: target.clone(),
            created_at: now_utc(),
        };
        let undo = self.database.catalog.write().put_object(Object::Synonym(Arc::new(synonym)));
        self.keep_undo(undo);
        Ok(())
    }
}
