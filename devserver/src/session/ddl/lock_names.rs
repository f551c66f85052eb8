//! The names whose meaning a DDL statement changes. They are locked before it looks at anything, until its transaction
//! ends; whoever else wants to know or change what they mean waits.

use std::sync::Arc;

use crate::catalog::catalog::DBO;
use crate::catalog::object::Object;
use crate::error::SqlResult;
use crate::execute::activation::Activation;
use crate::plan::cached_plan::Uses;
use crate::session::client_session::Session;
use crate::session::ddl::index::only_adds_index;
use crate::storage::{CatalogName, LockMode, ObjectId, fold};
use crate::tsql::ast::{Drop, DropKind, ObjectName, StatementKind};

/// Whether a statement changes what names mean that other sessions may use.
fn changes_names(statement: &StatementKind) -> bool {
    let is_shared = |name: &ObjectName| !name.name.starts_with('#');
    match statement {
        StatementKind::CreateTable(create) => is_shared(&create.name),
        StatementKind::CreateIndex(create) => is_shared(&create.table),
        StatementKind::CreateStatistics(create) => is_shared(&create.table),
        StatementKind::AlterTable(alter) => is_shared(&alter.table),
        StatementKind::AlterIndex(alter) => is_shared(&alter.table),
        StatementKind::DropIndex(drop) => drop.indexes.iter().any(|(_, table)| is_shared(table)),
        StatementKind::CreateProcedure(create) => is_shared(&create.name),
        StatementKind::CreateType(_)
        | StatementKind::CreateView(_)
        | StatementKind::CreateFunction(_)
        | StatementKind::CreateTrigger(_)
        | StatementKind::SwitchTriggers(_)
        | StatementKind::CreateSequence(_)
        | StatementKind::CreateSchema(_) => true,
        StatementKind::Drop(drop) if !changes_security(statement) => {
            !matches!(drop.kind, DropKind::Database | DropKind::Login) && drop.names.iter().any(is_shared)
        }
        _ => changes_security(statement),
    }
}

/// Whether a statement changes who is there, who owns what, or what is granted and denied.
fn changes_security(statement: &StatementKind) -> bool {
    match statement {
        StatementKind::Permission(_)
        | StatementKind::CreateUser(_)
        | StatementKind::CreateRole { .. }
        | StatementKind::AlterRole { .. }
        | StatementKind::AlterAuthorization { .. }
        | StatementKind::CreateSchema(_) => true,
        StatementKind::Drop(drop) => matches!(drop.kind, DropKind::User | DropKind::Role | DropKind::Schema),
        _ => false,
    }
}

impl Session {
    /// Runs a DDL statement with its names locked.
    pub(crate) fn with_names_locked(
        &mut self,
        statement: &StatementKind,
        run: impl FnOnce(&mut Session) -> SqlResult<()>,
    ) -> SqlResult<()> {
        if !changes_names(statement) {
            return run(self);
        }
        self.changing_names(|session| {
            session.lock_names_of(statement)?;
            run(session)
        })
    }

    /// Runs what locks and changes names: as one statement, which leaves no locks on names if it fails.
    pub(crate) fn changing_names<T>(&mut self, f: impl FnOnce(&mut Session) -> SqlResult<T>) -> SqlResult<T> {
        let before = self.tx.as_ref().map(|tx| self.database.storage.latch().locked_names(tx));
        let result = self.atomically(f);
        if let (Err(_), Some(keep), Some(tx)) = (&result, before, &self.tx) {
            self.database.storage.latch().unlock_names(tx, keep);
        }
        result
    }

    /// Runs what changes who is there, who owns what, what is granted and denied, or an extended property: one after
    /// the other in a database, up to the end of their transactions.
    pub(crate) fn changing_security<T>(&mut self, f: impl FnOnce(&mut Session) -> SqlResult<T>) -> SqlResult<T> {
        self.changing_names(|session| {
            session.lock_name(CatalogName::security())?;
            f(session)
        })
    }

    fn lock_names_of(&mut self, statement: &StatementKind) -> SqlResult<()> {
        if changes_security(statement) {
            self.lock_name(CatalogName::security())?;
        }
        match statement {
            StatementKind::CreateTable(create) => self.lock_new_name(&create.name),
            StatementKind::CreateProcedure(create) => self.lock_new_name(&create.name),
            StatementKind::CreateView(create) => self.lock_new_name(&create.name),
            StatementKind::CreateFunction(create) => self.lock_new_name(&create.name),
            StatementKind::CreateSequence(create) => self.lock_new_name(&create.name),
            StatementKind::CreateType(create) => {
                let schema = create.name.schema.as_ref().unwrap_or(&self.state.default_schema);
                self.lock_name(CatalogName::user_type(schema, &create.name.name))
            }
            StatementKind::CreateSchema(create) => self.lock_name(CatalogName::schema(&create.name)),
            StatementKind::CreateTrigger(create) => match self.lock_existing_name(&create.table)? {
                Some(schema) => self.lock_name(CatalogName::object(&schema, &create.name.name)),
                None => Ok(()),
            },
            StatementKind::CreateIndex(create) if only_adds_index(create) => {
                self.lock_existing_name_with(&create.table, LockMode::Shared).map(|_| ())
            }
            StatementKind::CreateIndex(create) => self.lock_existing_name(&create.table).map(|_| ()),
            StatementKind::CreateStatistics(create) => self.lock_existing_name(&create.table).map(|_| ()),
            StatementKind::AlterTable(alter) => self.lock_existing_name(&alter.table).map(|_| ()),
            StatementKind::AlterIndex(alter) => self.lock_existing_name(&alter.table).map(|_| ()),
            StatementKind::SwitchTriggers(switch) => self.lock_existing_name(&switch.table).map(|_| ()),
            StatementKind::DropIndex(drop) => {
                for (_, table) in &drop.indexes {
                    self.lock_existing_name(table)?;
                }
                Ok(())
            }
            StatementKind::AlterAuthorization { schema, .. } => self.lock_name(CatalogName::schema(schema)),
            StatementKind::Drop(drop) => self.lock_dropped_names(drop),
            _ => Ok(()),
        }
    }

    fn lock_dropped_names(&mut self, drop: &Drop) -> SqlResult<()> {
        for name in &drop.names {
            match drop.kind {
                DropKind::Schema => {
                    self.lock_name(CatalogName::schema(&name.name))?;
                    // What others put into it, or take out of it.
                    self.with_names(|latch, tx| latch.wait_for_names(tx, |changed| changed.is_in(&name.name)))?;
                }
                DropKind::Type => {
                    for schema in self.schemas_of(name) {
                        if self.lock_if_there(CatalogName::user_type(&schema, &name.name), || {
                            self.database.catalog.read().user_type(&schema, &name.name).is_some()
                        })? {
                            break;
                        }
                    }
                }
                DropKind::Trigger => self.lock_dropped_trigger(name)?,
                DropKind::User | DropKind::Role => {}
                _ => {
                    self.lock_existing_name(name)?;
                }
            }
        }
        Ok(())
    }

    /// A trigger changes with its table or view, whose locks come before that on its own name, as for CREATE TRIGGER.
    fn lock_dropped_trigger(&mut self, name: &ObjectName) -> SqlResult<()> {
        for schema in self.schemas_of(name) {
            let own_name = CatalogName::object(&schema, &name.name);
            let find = |session: &Session| session.target_of_trigger(&schema, &name.name);
            loop {
                self.waits_for(own_name.clone())?;
                let Some(target) = find(self) else { break };
                // Gone in between: then the trigger goes as well.
                let Some((target_schema, target_name)) = self.name_of_target(target) else { continue };
                if !self.lock_table_and_name(&target_schema, &target_name, LockMode::SchemaModification)? {
                    self.lock_name(CatalogName::object(&target_schema, &target_name))?;
                }
                // While it waited the name may have come to mean something else.
                if self.lock_if_there(own_name.clone(), || find(self) == Some(target))? {
                    return Ok(());
                }
            }
        }
        self.lock_existing_name(name).map(|_| ())
    }

    fn target_of_trigger(&self, schema: &str, name: &str) -> Option<ObjectId> {
        match self.database.catalog.read().object(schema, name) {
            Some(Object::Trigger(trigger)) => Some(trigger.table),
            _ => None,
        }
    }

    /// Schema and name of the table or view of a trigger.
    fn name_of_target(&self, target: ObjectId) -> Option<(Arc<str>, Arc<str>)> {
        if let Some(table) = self.database.storage.latch().schema(target) {
            return Some((Arc::clone(&table.schema), Arc::clone(&table.name)));
        }
        let catalog = self.database.catalog.read();
        catalog.object_by_id(target).map(|view| (Arc::clone(view.schema()), Arc::clone(view.name())))
    }

    /// What is created gets its name in one schema.
    pub(crate) fn lock_new_name(&self, name: &ObjectName) -> SqlResult<()> {
        let schema: Arc<str> = match &name.schema {
            _ if name.name.starts_with('#') => DBO.into(),
            Some(schema) => Arc::clone(schema),
            None => Arc::clone(&self.state.default_schema),
        };
        // Nobody may drop the schema meanwhile, or take back that it was made.
        self.waits_for(CatalogName::schema(&schema))?;
        self.lock_name(CatalogName::object(&schema, &name.name))
    }

    /// The name of an object that there is, in the first schema that has one; that schema.
    pub(crate) fn lock_existing_name(&mut self, name: &ObjectName) -> SqlResult<Option<Arc<str>>> {
        self.lock_existing_name_with(name, LockMode::SchemaModification)
    }

    /// A table gets this lock before its name. With S it gets a further index, no more.
    fn lock_existing_name_with(&mut self, name: &ObjectName, table_mode: LockMode) -> SqlResult<Option<Arc<str>>> {
        let is_elsewhere = name.database.as_ref().is_some_and(|other| fold(other) != fold(&self.database.name));
        if is_elsewhere || name.server.is_some() || name.name.starts_with('#') {
            return Ok(None);
        }
        for schema in self.schemas_of(name) {
            let is_there = self.lock_table_and_name(&schema, &name.name, table_mode)?
                || self.lock_if_there(CatalogName::object(&schema, &name.name), || {
                    self.database.catalog.read().object(&schema, &name.name).is_some()
                })?;
            if is_there {
                return Ok(Some(schema));
            }
        }
        Ok(None)
    }

    /// The lock on a table comes before that on its name, so that a transaction that has used the table, for whose end
    /// this one waits, can go on using it. False if there is no such table.
    fn lock_table_and_name(&mut self, schema: &str, name: &str, table_mode: LockMode) -> SqlResult<bool> {
        let full_name = CatalogName::object(schema, name);
        let find = |session: &Session| session.database.storage.latch().find_table(schema, name);
        loop {
            self.waits_for(full_name.clone())?;
            let Some(table) = find(self) else { return Ok(false) };
            self.with_run(Uses::Database, &mut Activation::default(), |run| {
                let storage = run.storage()?;
                storage.latch.lock_table(&mut storage.tx, table, table_mode, true)
            })?;
            // While it waited the name may have come to mean something else.
            if table_mode == LockMode::Shared {
                if find(self) == Some(table) {
                    self.with_names(|latch, tx| latch.lock_name_for_index(tx, full_name, table))?;
                    return Ok(true);
                }
                continue;
            }
            if find(self) == Some(table) && self.lock_if_there(full_name.clone(), || find(self) == Some(table))? {
                return Ok(true);
            }
        }
    }

    fn schemas_of(&self, name: &ObjectName) -> Vec<Arc<str>> {
        match &name.schema {
            Some(schema) => vec![Arc::clone(schema)],
            None if fold(&self.state.default_schema) == DBO => vec![DBO.into()],
            None => vec![Arc::clone(&self.state.default_schema), DBO.into()],
        }
    }

    fn lock_if_there(&self, name: CatalogName, is_there: impl FnOnce() -> bool) -> SqlResult<bool> {
        let before = self.with_names(|latch, tx| Ok(latch.locked_names(tx)))?;
        self.lock_name(name)?;
        let is_there = is_there();
        if !is_there {
            self.with_names(|latch, tx| {
                latch.unlock_names(tx, before);
                Ok(())
            })?;
        }
        Ok(is_there)
    }

    /// Locks a name until the transaction ends, in which this must be.
    pub(crate) fn lock_name(&self, name: CatalogName) -> SqlResult<()> {
        debug_assert!(self.tx.is_some(), "a lock that no transaction has would never go");
        self.with_names(|latch, tx| latch.lock_name(tx, name))
    }
}
