//! CREATE and ALTER VIEW.

use std::sync::Arc;

use crate::catalog::object::{Object, View};
use crate::error::{SqlError, SqlResult};
use crate::plan::query::{ColumnOrigin, OutputColumn};
use crate::session::client_session::Session;
use crate::storage::{Column, fold};
use crate::tsql::ast::{CreateView, Identity};
use crate::value::{Value, now_utc};

impl Session {
    pub(crate) fn create_view(&mut self, create: &CreateView) -> SqlResult<()> {
        if create.name.name.starts_with('#') {
            return Err(SqlError::not_supported("temporary views"));
        }
        self.check_create("CREATE VIEW")?;
        let schema = self.schema_for(&create.name)?;
        let existing = self.replaced(&schema, &create.name, create.creation, |object| match object {
            Object::View(view) => Some(Arc::clone(view)),
            _ => None,
        })?;
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
            check_names(&create.name.name, &plan.columns)?;
            Ok(plan.columns.iter().map(described).collect())
        })?;
        let view = View {
            id: existing.map_or_else(|| self.new_object_id(), |view| view.id),
            schema,
            name: Arc::clone(&create.name.name),
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

/// A view's columns have names, each once: 4511, 4506.
fn check_names(view: &str, columns: &[OutputColumn]) -> SqlResult<()> {
    for (position, OutputColumn { name, .. }) in columns.iter().enumerate() {
        if name.is_empty() {
            let position = position + 1;
            let message =
                format!("Create View or Function failed because no column name was specified for column {position}.");
            return Err(SqlError::new(4511, message));
        }
        if columns[..position].iter().any(|other| fold(&other.name) == fold(name)) {
            let message = format!(
                "Column names in each view or function must be unique. Column name '{name}' in view or function '{view}' \
                 is specified more than once."
            );
            return Err(SqlError::new(4506, message));
        }
    }
    Ok(())
}

/// A column as the catalog shows it.
fn described(column: &OutputColumn) -> Column {
    Column {
        name: Arc::clone(&column.name),
        sql_type: column.ty,
        nullable: column.shown_nullable,
        collation: column.collation,
        // Whether it is one: start and step are the table's (sys.identity_columns).
        identity: (column.origin == ColumnOrigin::Identity).then_some(Identity { seed: 0, increment: 0 }),
        default: None,
        computed: None,
        is_sparse: false,
        value_when_absent: Value::Null,
    }
}
