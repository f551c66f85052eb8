//! CREATE and ALTER VIEW.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::catalog::catalog::already_there;
use crate::catalog::object::{Object, View};
use crate::error::{SqlError, SqlResult};
use crate::plan::query::OutputColumn;
use crate::session::client_session::Session;
use crate::session::ddl::module_columns::{check_different, check_module_columns, described};
use crate::session::ddl::object_dependents::other_kind;
use crate::tsql::ast::{CreateView, Creation, Ident};
use crate::value::now_utc;

impl Session {
    pub(crate) fn create_view(&mut self, create: &CreateView) -> SqlResult<()> {
        if create.name.name.starts_with('#') {
            let message = format!("{}: Temporary views are not allowed.", create.name.name);
            return Err(SqlError::new(4103, message).severity(15));
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
            (None, Creation::Alter) if self.is_something(&create.name)? => {
                return Err(other_kind(&create.name));
            }
            (None, Creation::Alter) => return Err(crate::bind::name::invalid_object(&create.name)),
            (Some(_), Creation::Alter) => return Err(other_kind(&create.name)),
            (Some(_), _) => return Err(already_there(&create.name.name)),
        };
        let columns = self.with_binder(|binder| {
            binder.default_schema = Arc::clone(&schema);
            binder.ctes.clone_from(&create.select.ctes);
            let bound = binder.bind_query(&create.select.query, false)?;
            let plan = binder.finish(bound)?;
            if binder.uses_temporary {
                let message = "Views or functions are not allowed on temporary tables. Table names that begin with '#' \
                               denote temporary tables.";
                return Err(SqlError::new(4508, message));
            }
            check_view_columns(&create.name.name, &create.columns, &plan.columns)?;
            Ok(described(&create.columns, &plan.columns))
        })?;
        let view = View {
            id,
            schema,
            name: Arc::clone(&create.name.name),
            columns: create.columns.clone(),
            select: create.select.clone(),
            described: columns,
            text: Arc::clone(&create.text),
            created_at: now_utc(),
        };
        let undo = self.database.catalog.write().put_object(Object::View(Arc::new(view)));
        self.keep_undo(undo);
        Ok(())
    }
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
