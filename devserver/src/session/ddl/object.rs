//! The way to all DDL, and CREATE, ALTER and DROP of types, procedures, views, sequences, schemas and databases.
//!
//! Tables and indexes change in the storage ([`crate::session::ddl::table`]), everything else in the catalog; both go back with
//! the transaction.

use std::cmp::Ordering;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::bind::binder::{Binder, display_name, system_type};
use crate::bind::compile::variable_type;
use crate::bind::{foreign_key_definition, table_definition};
use crate::catalog::catalog::{Object, Procedure, Sequence, UserTypeKind, View, already_there};
use crate::catalog::parameter::{Parameter, VariableType};
use crate::catalog::principal::DBO_USER;
use crate::error::{SqlError, SqlResult};
use crate::execute::variables::Activation;
use crate::plan::cell::Uses;
use crate::plan::declarations::Declarations;
use crate::plan::query::OutputColumn;
use crate::session::ddl::foreign_key;
use crate::session::session::Session;
use crate::storage::{self, ObjectId, TableSchema, fold};
use crate::tsql::ast::{
    CreateProcedure, CreateSequence, CreateType, CreateView, Creation, Drop, DropKind, ExecuteAsClause, Ident,
    ObjectName, ParameterDef, StatementKind, TypeKind,
};
use crate::value::{SqlType, now_utc};

impl Session {
    pub(crate) fn run_ddl(&mut self, statement: &StatementKind, scope: &mut Activation) -> SqlResult<()> {
        let is_temporary = match statement {
            StatementKind::CreateTable(create) => create.name.name.starts_with('#'),
            StatementKind::CreateIndex(create) => create.table.name.starts_with('#'),
            StatementKind::Drop(drop) => drop.names.iter().all(|name| name.name.starts_with('#')),
            StatementKind::TruncateTable(name) => name.name.starts_with('#'),
            StatementKind::AlterDatabase(_) => true,
            StatementKind::SetIdentityInsert { .. } => true,
            _ => false,
        };
        self.check_ddl_allowed(is_temporary)?;
        match statement {
            StatementKind::CreateTable(create) => self.create_table(create, scope),
            StatementKind::CreateIndex(create) => self.create_index(create, scope),
            StatementKind::CreateType(create) => self.create_type(create),
            StatementKind::CreateProcedure(create) => self.create_procedure(create),
            StatementKind::CreateView(create) => self.create_view(create),
            StatementKind::TransferToSchema { schema, object, of_type } => {
                self.transfer_to_schema(schema, object, *of_type, scope)
            }
            StatementKind::CreateFunction(create) => self.create_function(create),
            StatementKind::CreateSynonym { name, target } => self.create_synonym(name, target),
            StatementKind::CreateTrigger(create) => self.create_trigger(create),
            StatementKind::SwitchTriggers(switch) => self.switch_triggers(switch),
            StatementKind::CreateSequence(create) => self.create_sequence(create),
            StatementKind::CreateSchema(create) => {
                let name = create.name.as_ref().or(create.owner.as_ref()).expect("the parser asks for one of them");
                self.create_schema(name, create.owner.as_deref())
            }
            StatementKind::CreateRole { name, owner } => self.create_role(name, owner.as_deref()),
            StatementKind::CreateUser(create) => self.create_user(create),
            StatementKind::CreateLogin { name, password, default_database } => {
                self.create_login(name, password.as_ref(), default_database.as_deref())
            }
            StatementKind::AlterLogin { name, password } => self.alter_login(name, password),
            StatementKind::CreateDatabase { name, collation } => {
                if !self.is_administrator() {
                    return Err(
                        SqlError::new(262, "CREATE DATABASE permission denied in database 'master'.").severity(14)
                    );
                }
                self.check_not_in_trigger("CREATE DATABASE")?;
                if self.tx.is_some() {
                    return Err(SqlError::new(
                        226,
                        "CREATE DATABASE statement not allowed within multi-statement transaction.",
                    )
                    .state(6));
                }
                if let Some(collation) = collation
                    && crate::value::Collation::parse(collation)? != crate::value::Collation::default()
                {
                    return Err(SqlError::not_supported("a database with another collation than the server's"));
                }
                self.engine.create_database(name)
            }
            StatementKind::AlterTable(alter) => self.alter_table(alter, scope),
            StatementKind::AlterIndex(alter) => self.alter_index(alter, scope),
            StatementKind::AlterDatabase(alter) => self.alter_database(alter),
            StatementKind::AlterRole { role, add, member } => self.alter_role(role, member, *add),
            StatementKind::Drop(drop) => self.drop_objects(drop, scope),
            StatementKind::DropIndex(drop) => {
                for (name, table) in &drop.indexes {
                    self.drop_index(name, table, drop.if_exists, scope)?;
                }
                Ok(())
            }
            StatementKind::TruncateTable(name) => {
                let table = self.find_stored_table(name)?;
                let schema = self.stored_schema(table)?;
                self.check_alter_object(table, &schema.schema, cannot_find("truncate the table", name))?;
                foreign_key::check_not_referenced(&self.database.storage.latch(), &schema, || {
                    SqlError::new(
                        4712,
                        format!(
                            "Cannot truncate table '{}' because it is being referenced by a FOREIGN KEY constraint.",
                            display_name(name)
                        ),
                    )
                })?;
                self.table_change(scope, move |latch, tx| latch.truncate_table(tx, table))
            }
            StatementKind::Permission(permission) => self.change_permission(permission),
            StatementKind::SetIdentityInsert { table, on } => self.set_identity_insert(table, *on),
            other => Err(SqlError::not_supported(format!("this statement ({})", statement_name(other)))),
        }
    }

    /// 3930 and 3906: nothing may be made or changed now.
    pub(crate) fn check_ddl_allowed(&self, is_temporary: bool) -> SqlResult<()> {
        if self.state.doomed {
            return Err(SqlError::new(
                3930,
                "The current transaction cannot be committed and cannot support operations that write to the log file. \
                 Roll back the transaction.",
            ));
        }
        if !is_temporary && self.database.is_read_only() {
            return Err(SqlError::new(
                3906,
                format!("Failed to update database \"{}\" because the database is read-only.", self.database.name),
            ));
        }
        Ok(())
    }

    /// Changes tables in the storage, as one statement.
    pub(crate) fn table_change<T>(
        &mut self,
        scope: &mut Activation,
        f: impl FnOnce(&mut storage::Latch<'_>, &mut storage::Transaction) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let result = self.with_run(Uses::Database, scope, |run| {
            let storage = run.storage()?;
            f(&mut storage.latch, &mut storage.tx)
        });
        self.schema_changed();
        result
    }

    /// For the dates in the catalog views.
    pub(crate) fn note_table_change(&self, table: ObjectId) {
        self.database.catalog.write().note_table_change(table, now_utc());
    }

    /// Binds something outside of a plan.
    pub(crate) fn with_binder<T>(&self, f: impl FnOnce(&mut Binder<'_>) -> SqlResult<T>) -> SqlResult<T> {
        let latch = self.database.storage.latch();
        let declarations = Declarations::default();
        f(&mut Binder::new(&self.database, &latch, &self.state, &declarations))
    }

    pub(crate) fn new_object_id(&self) -> ObjectId {
        self.database.storage.latch().new_object_id()
    }

    /// The schema an object is created in: it must be there, and the user may change it.
    pub(crate) fn schema_for(&self, name: &ObjectName) -> SqlResult<Arc<str>> {
        if name.server.is_some() || name.database.as_ref().is_some_and(|name| fold(name) != fold(&self.database.name)) {
            return Err(SqlError::not_supported("creating objects in another database"));
        }
        let schema = name.schema.clone().unwrap_or_else(|| Arc::clone(&self.state.default_schema));
        self.check_alter_schema(&schema)?;
        // The name as the schema was created with.
        let catalog = self.database.catalog.read();
        Ok(catalog.schema(&schema).map_or(schema, |entry| Arc::clone(&entry.name)))
    }

    /// 2714 if a table, procedure, view or sequence of the name is there.
    pub(crate) fn check_free(&self, schema: &str, name: &str) -> SqlResult<()> {
        let is_table = self.database.storage.latch().find_table(schema, name).is_some();
        if is_table || self.database.catalog.read().object(schema, name).is_some() {
            return Err(already_there(name));
        }
        Ok(())
    }

    /// A permanent or temporary table by name; 4902-like errors are the caller's.
    pub(crate) fn lookup_table(&self, name: &ObjectName) -> SqlResult<Option<ObjectId>> {
        self.with_binder(|binder| binder.find_table(name))
    }

    pub(crate) fn find_stored_table(&self, name: &ObjectName) -> SqlResult<ObjectId> {
        match self.lookup_table(name)? {
            Some(id) => Ok(id),
            None => Err(cannot_find("find the object", name)),
        }
    }

    pub(crate) fn stored_schema(&self, table: ObjectId) -> SqlResult<Arc<TableSchema>> {
        let latch = self.database.storage.latch();
        latch.schema(table).cloned().ok_or_else(|| SqlError::new(208, "Invalid object name."))
    }

    fn create_type(&mut self, create: &CreateType) -> SqlResult<()> {
        self.check_create("CREATE TYPE")?;
        let schema = self.schema_for(&create.name)?;
        let name = Arc::clone(&create.name.name);
        let kind = match &create.kind {
            TypeKind::Table(definition) => {
                foreign_key_definition::refuse(&definition.constraints)?;
                let template =
                    self.with_binder(|binder| table_definition::template(binder, &name, &schema, definition))?;
                UserTypeKind::Table { template: Arc::new(template), object: self.new_object_id() }
            }
            TypeKind::Alias { base, nullable } => match system_type(base)? {
                Some(base) => UserTypeKind::Alias { base, nullable: nullable.unwrap_or(true) },
                None => return Err(crate::bind::binder::type_not_found(&base.name)),
            },
        };
        let undo = self.database.catalog.write().add_type(schema, name, kind)?;
        self.keep_undo(undo);
        Ok(())
    }

    fn create_procedure(&mut self, create: &CreateProcedure) -> SqlResult<()> {
        if let Some(execute_as) = &create.execute_as
            && *execute_as != ExecuteAsClause::Caller
        {
            return Err(SqlError::not_supported("EXECUTE AS in a procedure"));
        }
        if create.name.name.starts_with('#') {
            return Err(SqlError::not_supported("temporary procedures"));
        }
        let schema = match &create.name.schema {
            Some(schema) => Arc::clone(schema),
            None => Arc::clone(&self.state.default_schema),
        };
        let existing = self.database.catalog.read().procedure(&schema, &create.name.name).cloned();
        match (&existing, create.creation) {
            (Some(_), Creation::Create) => return Err(already_there(&create.name.name)),
            (None, Creation::Alter) => return Err(crate::bind::binder::invalid_object(&create.name)),
            (Some(procedure), _) => {
                self.check_alter_object(
                    procedure.id,
                    &procedure.schema,
                    crate::bind::binder::invalid_object(&create.name),
                )?;
            }
            (None, _) => self.check_create("CREATE PROCEDURE")?,
        }
        let schema = self.schema_for(&create.name)?;
        if existing.is_none() {
            self.check_free(&schema, &create.name.name)?;
        }
        let (parameters, declarations) = self.bind_parameters(&create.parameters)?;
        let name = Arc::clone(&create.name.name);
        let full_name: Arc<str> = format!("{schema}.{name}").into();
        self.compile(&create.body, declarations, &schema).map_err(|mut error| {
            error.procedure.get_or_insert_with(|| Arc::clone(&full_name));
            error
        })?;
        let now = now_utc();
        let procedure = Procedure {
            id: existing.as_ref().map_or_else(|| self.new_object_id(), |procedure| procedure.id),
            schema,
            name,
            full_name,
            parameters,
            body: Arc::clone(&create.body),
            text: Arc::clone(&create.text),
            created_at: existing.as_ref().map_or(now, |procedure| procedure.created_at),
            modified_at: now,
        };
        let undo = self.database.catalog.write().put_object(Object::Procedure(Arc::new(procedure)));
        self.keep_undo(undo);
        Ok(())
    }

    pub(crate) fn bind_parameters(&self, definitions: &[ParameterDef]) -> SqlResult<(Vec<Parameter>, Declarations)> {
        let mut parameters = Vec::with_capacity(definitions.len());
        let mut declarations = Declarations::default();
        for definition in definitions {
            let parameter = self.with_binder(|binder| {
                let ty = variable_type(binder, &definition.data_type)?;
                let default = match (&definition.default, &ty) {
                    (Some(default), VariableType::Scalar(ty)) => {
                        let scalar = binder.bind_expr(default)?;
                        let converted = crate::bind::expression::implicit(scalar, *ty)?;
                        match converted.as_constant() {
                            Some(constant) => Some(constant.clone()),
                            None => return Err(SqlError::not_supported("a parameter's default that is no constant")),
                        }
                    }
                    _ => None,
                };
                Ok(Parameter { name: Arc::clone(&definition.name), ty, default, output: definition.output })
            })?;
            let is_table = parameter.ty.template().is_some();
            if is_table && !definition.read_only {
                return Err(SqlError::new(
                    352,
                    format!(
                        "The table-valued parameter \"{}\" must be declared with the READONLY option.",
                        definition.name
                    ),
                )
                .severity(15));
            }
            if !is_table && definition.read_only {
                return Err(SqlError::new(
                    346,
                    format!(
                        "The parameter \"{}\" can not be declared READONLY since it is not a table-valued parameter.",
                        definition.name
                    ),
                )
                .severity(15));
            }
            declarations.declare(Arc::clone(&parameter.name), parameter.ty.clone(), is_table)?;
            parameters.push(parameter);
        }
        Ok((parameters, declarations))
    }

    fn create_view(&mut self, create: &CreateView) -> SqlResult<()> {
        if create.schema_binding || create.check_option {
            return Err(SqlError::not_supported("views WITH SCHEMABINDING or CHECK OPTION"));
        }
        self.check_create("CREATE VIEW")?;
        let schema = self.schema_for(&create.name)?;
        let existing = self.database.catalog.read().object(&schema, &create.name.name).cloned();
        let id = match (existing, create.creation) {
            (Some(Object::View(view)), Creation::Alter | Creation::CreateOrAlter) => view.id,
            (None, Creation::Create | Creation::CreateOrAlter) => {
                self.check_free(&schema, &create.name.name)?;
                self.new_object_id()
            }
            (None, Creation::Alter) => return Err(crate::bind::binder::invalid_object(&create.name)),
            (Some(_), _) => return Err(already_there(&create.name.name)),
        };
        self.with_binder(|binder| {
            binder.ctes.clone_from(&create.select.ctes);
            let bound = binder.bind_query(&create.select.query, false)?;
            let plan = binder.finish(bound)?;
            if binder.uses_temporary {
                let message = "Views or functions are not allowed on temporary tables. Table names that begin with '#' \
                               denote temporary tables.";
                return Err(SqlError::new(4508, message));
            }
            check_view_columns(&create.name.name, &create.columns, &plan.columns)
        })?;
        let view = View {
            id,
            schema,
            name: Arc::clone(&create.name.name),
            columns: create.columns.clone(),
            select: create.select.clone(),
            text: Arc::clone(&create.text),
            created_at: now_utc(),
        };
        let undo = self.database.catalog.write().put_object(Object::View(Arc::new(view)));
        self.keep_undo(undo);
        Ok(())
    }

    fn create_sequence(&mut self, create: &CreateSequence) -> SqlResult<()> {
        self.check_create("CREATE SEQUENCE")?;
        let schema = self.schema_for(&create.name)?;
        self.check_free(&schema, &create.name.name)?;
        let ty = match &create.data_type {
            Some(ty) => self.with_binder(|binder| binder.resolve_type(ty))?,
            None => SqlType::BigInt,
        };
        let (lowest, highest) = match ty {
            SqlType::TinyInt => (0, 255),
            SqlType::SmallInt => (i64::from(i16::MIN), i64::from(i16::MAX)),
            SqlType::Int => (i64::from(i32::MIN), i64::from(i32::MAX)),
            SqlType::BigInt => (i64::MIN, i64::MAX),
            SqlType::Decimal { scale: 0, .. } => {
                return Err(SqlError::not_supported(format!("a sequence of type {ty}")));
            }
            _ => {
                return Err(SqlError::new(
                    11702,
                    format!(
                        "The sequence object '{}' must be of data type int, bigint, smallint, tinyint, or decimal or numeric \
                         with a scale of 0, or any user-defined data type that is based on one of the above integer data \
                         types.",
                        create.name.name
                    ),
                ));
            }
        };
        let increment = create.increment.unwrap_or(1);
        let (min, max) = (create.min.unwrap_or(lowest), create.max.unwrap_or(highest));
        let start = create.start.unwrap_or(if increment > 0 { min } else { max });
        if increment == 0 {
            return Err(SqlError::new(
                11700,
                format!("The increment for sequence object '{}' cannot be zero.", create.name.name),
            ));
        }
        let arguments = [("START WITH", create.start), ("MINVALUE", create.min), ("MAXVALUE", create.max)];
        let outside =
            arguments.iter().find(|(_, given)| given.is_some_and(|given| !(lowest..=highest).contains(&given)));
        if let Some((argument, _)) = outside {
            return Err(SqlError::new(
                11708,
                format!("An invalid value was specified for argument '{argument}' for the given data type."),
            ));
        }
        if min >= max {
            return Err(SqlError::new(
                11705,
                format!(
                    "The minimum value for sequence object '{}' must be less than its maximum value.",
                    create.name.name
                ),
            ));
        }
        if !(min..=max).contains(&start) {
            return Err(SqlError::new(
                11703,
                format!(
                    "The start value for sequence object '{}' must be between the minimum and maximum value of the \
                     sequence object.",
                    create.name.name
                ),
            ));
        }
        let sequence = Sequence {
            id: self.new_object_id(),
            schema,
            name: Arc::clone(&create.name.name),
            ty,
            start,
            increment,
            min,
            max,
            cycle: create.cycle,
            next: Mutex::new(Some(start)),
        };
        let undo = self.database.catalog.write().put_object(Object::Sequence(Arc::new(sequence)));
        self.keep_undo(undo);
        Ok(())
    }

    fn create_schema(&mut self, name: &Arc<str>, owner: Option<&str>) -> SqlResult<()> {
        self.check_create("CREATE SCHEMA")?;
        let undo = {
            let mut catalog = self.database.catalog.write();
            let owner = match owner {
                Some(owner) => match catalog.principals.find(owner) {
                    Some(principal) => principal.id,
                    None => return Err(cannot_find_principal(owner)),
                },
                None => self.state.user,
            };
            // Ownership chaining is only imitated for one owner.
            if owner != DBO_USER && !catalog.principals.is_owner(owner) {
                return Err(SqlError::not_supported("a schema that does not belong to dbo"));
            }
            catalog.add_schema(Arc::clone(name), DBO_USER)?
        };
        self.keep_undo(undo);
        Ok(())
    }

    fn drop_objects(&mut self, drop: &Drop, scope: &mut Activation) -> SqlResult<()> {
        for name in &drop.names {
            match drop.kind {
                DropKind::Table => self.drop_table(name, drop.if_exists, scope)?,
                DropKind::Procedure
                | DropKind::View
                | DropKind::Sequence
                | DropKind::Trigger
                | DropKind::Function
                | DropKind::Synonym => {
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
            DropKind::Synonym => "synonym",
            _ => "sequence object",
        };
        let found = found.filter(|object| {
            matches!(
                (kind, object),
                (DropKind::Procedure, Object::Procedure(_))
                    | (DropKind::View, Object::View(_))
                    | (DropKind::Trigger, Object::Trigger(_))
                    | (DropKind::Function, Object::Function(_))
                    | (DropKind::Synonym, Object::Synonym(_))
                    | (DropKind::Sequence, Object::Sequence(_))
            )
        });
        let missing = || cannot_find(&format!("drop the {word}"), name);
        let Some(object) = found else {
            return if if_exists { Ok(()) } else { Err(missing()) };
        };
        self.check_alter_object(object.id(), object.schema(), missing())?;
        let undo = self.database.catalog.write().remove_object(object.schema(), object.name());
        if let Some(undo) = undo {
            self.keep_undo(undo);
        }
        Ok(())
    }

    fn drop_type(&mut self, name: &ObjectName, if_exists: bool) -> SqlResult<()> {
        let Some(found) = self.with_binder(|binder| binder.find_user_type(name))? else {
            if if_exists {
                return Ok(());
            }
            return Err(SqlError::new(
                218,
                format!(
                    "Could not find the type '{}'. Either it does not exist or you do not have the necessary permission.",
                    display_name(name)
                ),
            ));
        };
        if !self.is_owner() {
            return Err(SqlError::new(
                218,
                format!(
                    "Could not find the type '{}'. Either it does not exist or you do not have the necessary permission.",
                    display_name(name)
                ),
            ));
        }
        let undo = {
            let mut catalog = self.database.catalog.write();
            if let UserTypeKind::Table { template, .. } = &found.kind {
                let user = catalog.objects().find(|object| match object {
                    Object::Procedure(procedure) => procedure
                        .parameters
                        .iter()
                        .any(|parameter| parameter.ty.template().is_some_and(|used| Arc::ptr_eq(used, template))),
                    _ => false,
                });
                if let Some(user) = user {
                    return Err(SqlError::new(
                        3732,
                        format!(
                            "Cannot drop type '{}' because it is being referenced by object '{}'. There may be other \
                             objects that reference this type.",
                            display_name(name),
                            user.name()
                        ),
                    ));
                }
            }
            catalog.remove_type(&found.schema, &found.name)
        };
        if let Some(undo) = undo {
            self.keep_undo(undo);
        }
        Ok(())
    }

    fn drop_schema(&mut self, name: &ObjectName, if_exists: bool) -> SqlResult<()> {
        let missing = || {
            SqlError::new(
                15151,
                format!(
                    "Cannot drop the schema '{}', because it does not exist or you do not have permission.",
                    name.name
                ),
            )
        };
        let is_there = self.database.catalog.read().schema(&name.name).is_some();
        if !is_there {
            return if if_exists { Ok(()) } else { Err(missing()) };
        }
        if !self.is_owner() {
            return Err(missing());
        }
        let table = {
            let latch = self.database.storage.latch();
            latch
                .tables()
                .iter()
                .find(|table| fold(&table.schema) == fold(&name.name))
                .map(|table| Arc::clone(&table.name))
        };
        let undo = {
            let mut catalog = self.database.catalog.write();
            if let Some(object) = table.or_else(|| catalog.first_in_schema(&name.name)) {
                return Err(SqlError::new(
                    3729,
                    format!("Cannot drop schema '{}' because it is being referenced by object '{object}'.", name.name),
                ));
            }
            catalog.remove_schema(&name.name)
        };
        if let Some(undo) = undo {
            self.keep_undo(undo);
        }
        Ok(())
    }
}

/// "Cannot … because it does not exist or you do not have permission."
pub(crate) fn cannot_find(what: &str, name: &ObjectName) -> SqlError {
    let severity = if what.starts_with("drop") { 11 } else { 16 };
    let number = match what {
        "find the object" => 1088,
        "truncate the table" => 4701,
        _ => 3701,
    };
    let message = match number {
        1088 => format!(
            "Cannot find the object \"{}\" because it does not exist or you do not have permissions.",
            display_name(name)
        ),
        4701 => format!(
            "Cannot find the object \"{}\" because it does not exist or you do not have permissions.",
            display_name(name)
        ),
        _ => {
            format!("Cannot {what} '{}', because it does not exist or you do not have permission.", display_name(name))
        }
    };
    SqlError::new(number, message).severity(severity).state(5)
}

pub(crate) fn cannot_find_principal(name: &str) -> SqlError {
    SqlError::new(
        15151,
        format!("Cannot find the principal '{name}', because it does not exist or you do not have permission."),
    )
}

fn statement_name(statement: &StatementKind) -> String {
    let debug = format!("{statement:?}");
    debug.split(['(', '{', ' ']).next().unwrap_or_default().to_string()
}

/// A view's columns have names, each once: 4511, 4506; with a list, one for each: 8158, 8159.
fn check_view_columns(view: &str, list: &[Ident], columns: &[OutputColumn]) -> SqlResult<()> {
    if list.is_empty() {
        return check_module_columns(view, columns, |position| {
            SqlError::new(
                4511,
                format!("Create View or Function failed because no column name was specified for column {position}."),
            )
        });
    }
    let (number, word) = match columns.len().cmp(&list.len()) {
        Ordering::Greater => (8158, "more"),
        Ordering::Less => (8159, "fewer"),
        Ordering::Equal => return check_different(view, list),
    };
    Err(SqlError::new(number, format!("'{view}' has {word} columns than were specified in the column list.")))
}

pub(crate) fn check_module_columns(
    module: &str,
    columns: &[OutputColumn],
    nameless: impl FnOnce(usize) -> SqlError,
) -> SqlResult<()> {
    if let Some(position) = columns.iter().position(|column| column.name.is_empty()) {
        return Err(nameless(position + 1));
    }
    let names: Vec<Ident> = columns.iter().map(|column| Arc::clone(&column.name)).collect();
    check_different(module, &names)
}

fn check_different(module: &str, names: &[Ident]) -> SqlResult<()> {
    for (position, name) in names.iter().enumerate() {
        if names[..position].iter().any(|other| fold(other) == fold(name)) {
            return Err(SqlError::new(
                4506,
                format!(
                    "Column names in each view or function must be unique. Column name '{name}' in view or function \
                     '{module}' is specified more than once."
                ),
            ));
        }
    }
    Ok(())
}
