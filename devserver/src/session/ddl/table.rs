//! CREATE and DROP TABLE, and SET IDENTITY_INSERT.

use crate::bind::name::display_name;
use crate::bind::{foreign_key_definition, table_definition};
use crate::catalog::catalog::{DBO, already_there};
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::session_state::TemporaryTable;
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::{cannot_find, cannot_find_object};
use crate::session::ddl::foreign_key;
use crate::storage::{CatalogName, Lifetime, ObjectId, TableSchema, fold};
use crate::tsql::ast::{CreateTable, ObjectName};

impl Session {
    pub(crate) fn create_table(&mut self, create: &CreateTable, activation: &mut Activation) -> SqlResult<()> {
        self.store_table(&create.name, activation, |session, schema| {
            session.with_binder(|binder| {
                let mut table = table_definition::template(binder, &create.name.name, schema, &create.definition)?;
                if !create.name.name.starts_with('#') {
                    table.foreign_keys =
                        foreign_key_definition::foreign_keys(binder, &table, &create.definition.constraints)
                            .map_err(table_definition::constraint_failed)?;
                }
                Ok(table)
            })
        })?;
        Ok(())
    }

    /// Makes a permanent or temporary table; `template` gets the name of its schema.
    pub(crate) fn store_table(
        &mut self,
        name: &ObjectName,
        activation: &mut Activation,
        template: impl FnOnce(&Session, &str) -> SqlResult<TableSchema>,
    ) -> SqlResult<ObjectId> {
        if name.name.starts_with('#') {
            let taken = self
                .state
                .temporary_tables
                .iter()
                .any(|table| table.name == fold(&name.name) && table.level == self.state.nest_level);
            if taken {
                return Err(already_there(&name.name));
            }
            let mut schema = template(self, DBO)?;
            schema.lifetime = Lifetime::Temporary;
            let id = self.table_change(activation, |latch, tx| latch.create_table(tx, schema))?;
            let level = self.state.nest_level;
            self.state.temporary_tables.push(TemporaryTable { name: fold(&name.name), id, level });
            return Ok(id);
        }
        self.check_create("CREATE TABLE")?;
        let schema_name = self.schema_for(name)?;
        self.check_free(&schema_name, &name.name)?;
        let mut schema = template(self, &schema_name)?;
        schema.lifetime = Lifetime::Permanent;
        self.check_constraint_names(&schema, None).map_err(table_definition::constraint_failed)?;
        let id = self.table_change(activation, |latch, tx| latch.create_table(tx, schema))?;
        self.note_table_change(id);
        Ok(id)
    }

    /// Constraints are objects: their names are unique in a schema; 2714. `existing`: the table itself, if it is there.
    pub(crate) fn check_constraint_names(&self, schema: &TableSchema, existing: Option<ObjectId>) -> SqlResult<()> {
        let names = crate::catalog::constraint::constraint_names(schema);
        for (position, name) in names.iter().enumerate() {
            let folded = fold(name);
            let repeated = names[..position].iter().any(|other| fold(other) == folded) || fold(&schema.name) == folded;
            let (elsewhere, looks) = {
                let latch = self.database.storage.latch();
                let look_at = |table: &str| {
                    latch.look_at(self.state.spid, || CatalogName::object(&schema.schema, table));
                };
                look_at(name);
                let elsewhere = latch.find_table(&schema.schema, name).is_some()
                    || latch.tables_that_live(schema.lifetime).iter().any(|table| {
                        let is_here = Some(table.id) != existing
                            && fold(&table.schema) == fold(&schema.schema)
                            && crate::catalog::constraint::constraint_id(table, name).is_some();
                        if is_here {
                            look_at(&table.name);
                        }
                        is_here
                    });
                (elsewhere, latch.take_looks())
            };
            if self.waits_after(&looks)? {
                return self.check_constraint_names(schema, existing);
            }
            let is_object = || self.database.catalog.read().object(&schema.schema, name).is_some();
            if repeated || elsewhere || is_object() {
                return Err(already_there(name));
            }
        }
        Ok(())
    }

    pub(crate) fn drop_table(
        &mut self,
        name: &ObjectName,
        if_exists: bool,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let Some(table) = self.lookup_table(name)? else {
            self.check_no_other_kind("DROP", name)?;
            return if if_exists { Ok(()) } else { Err(cannot_find("drop the table", name)) };
        };
        if name.name.starts_with('#') {
            self.table_change(activation, |latch, tx| latch.drop_table(tx, table))?;
            let is_final = self.tx.is_none();
            if let Some(place) = self.state.temporary_tables.iter().position(|temporary| temporary.id == table) {
                let dropped = self.state.temporary_tables.remove(place);
                self.dropped_temporary.extend((!is_final).then_some(dropped));
            }
            return Ok(());
        }
        self.check_not_within_trigger(table)?;
        let schema = self.stored_schema(table)?;
        self.check_alter_object(table, &schema.schema, cannot_find("drop the table", name))?;
        foreign_key::check_not_referenced(&self.database.storage.latch(), &schema, || {
            SqlError::new(
                3726,
                format!(
                    "Could not drop object '{}' because it is referenced by a FOREIGN KEY constraint.",
                    display_name(name)
                ),
            )
        })?;
        self.atomically(|session| {
            session.drop_triggers_of(table)?;
            session.table_change(activation, |latch, tx| latch.drop_table(tx, table))
        })
    }

    pub(crate) fn set_identity_insert(&mut self, table: &ObjectName, on: bool) -> SqlResult<()> {
        let missing = || cannot_find_object(1088, table).state(11);
        let id = self.lookup_table(table)?.ok_or_else(missing)?;
        let schema = self.stored_schema(id)?;
        // "User must own the table or have ALTER permission on the table" ("SET IDENTITY_INSERT",
        // docs/t-sql/statements/set-identity-insert-transact-sql.md).
        if schema.lifetime == Lifetime::Permanent {
            self.check_alter_object(id, &schema.schema, missing())?;
        }
        if !schema.columns.iter().any(|column| column.identity.is_some()) {
            return Err(SqlError::not_supported(format!(
                "IDENTITY_INSERT of '{}', which has no identity column",
                schema.name
            )));
        }
        match (self.state.identity_insert, on) {
            (Some(other), true) if other != id => {
                return Err(SqlError::not_supported("IDENTITY_INSERT of two tables at a time"));
            }
            (_, true) => self.state.identity_insert = Some(id),
            (Some(current), false) if current == id => self.state.identity_insert = None,
            _ => {}
        }
        // Plans made for INSERT know whether the identity column takes a value.
        self.database.changed();
        Ok(())
    }
}
