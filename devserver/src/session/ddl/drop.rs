//! DROP of whatever has a name.

use crate::catalog::object::Object;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot_find;
use crate::tsql::ast::{Drop, DropKind, ObjectName};

impl Session {
    pub(crate) fn drop_objects(&mut self, drop: &Drop, activation: &mut Activation) -> SqlResult<()> {
        for name in &drop.names {
            match drop.kind {
                DropKind::Table => self.drop_table(name, drop.if_exists, activation)?,
                DropKind::Procedure | DropKind::View | DropKind::Sequence | DropKind::Trigger | DropKind::Function => {
                    self.drop_object(drop.kind, name, drop.if_exists)?;
                }
                DropKind::Type => self.drop_type(name, drop.if_exists)?,
                DropKind::Schema => self.drop_schema(name, drop.if_exists)?,
                DropKind::Role | DropKind::User => self.drop_principal(drop.kind, name, drop.if_exists)?,
                DropKind::Login => self.drop_login(&name.name)?,
                DropKind::Database => {
                    if !self.is_administrator() {
                        return Err(cannot_find("drop the database", name));
                    }
                    if self.tx.is_some() {
                        let message = "DROP DATABASE statement not allowed within multi-statement transaction.";
                        return Err(SqlError::new(226, message).state(6));
                    }
                    if !self.engine.drop_database(&name.name)? && !drop.if_exists {
                        return Err(cannot_find("drop the database", name));
                    }
                }
            }
        }
        Ok(())
    }

    fn drop_object(&mut self, kind: DropKind, name: &ObjectName, if_exists: bool) -> SqlResult<()> {
        let found = self.with_binder(|binder| binder.find_object(name))?;
        let word = match kind {
            DropKind::Procedure => "procedure",
            DropKind::View => "view",
            DropKind::Trigger => "trigger",
            DropKind::Function => "function",
            _ => "sequence object",
        };
        let found = found.filter(|object| {
            matches!(
                (kind, object),
                (DropKind::Procedure, Object::Procedure(_))
                    | (DropKind::View, Object::View(_))
                    | (DropKind::Trigger, Object::Trigger(_))
                    | (DropKind::Function, Object::Function(_))
                    | (DropKind::Sequence, Object::Sequence(_))
            )
        });
        let missing = || cannot_find(&format!("drop the {word}"), name);
        let Some(object) = found else {
            self.check_no_other_kind("DROP", name)?;
            return if if_exists { Ok(()) } else { Err(missing()) };
        };
        self.check_alter_object(object.id(), object.schema(), missing())?;
        if let Object::Sequence(_) = &object {
            self.check_no_default_takes(name, &object)?;
        }
        let undo = self.database.catalog.write().remove_object(object.schema(), object.name());
        if let Some(undo) = undo {
            self.keep_undo(undo);
        }
        Ok(())
    }
}
