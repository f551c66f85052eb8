//! What the binding of one statement knows: the database, the variables, the queries around the current place, and what
//! the statement was found to need.
//!
//! Each file of the folder adds the methods for its own part of the language.

use std::sync::Arc;

use crate::bind::query_scope::{QueryScope, VisibleColumn};
use crate::catalog::database::Database;
use crate::catalog::object::View;
use crate::catalog::principal::SecurableId;
use crate::error::{SqlError, SqlResult};
use crate::execute::session_state::SessionState;
use crate::plan::batch::{CalledFunctions, FunctionPlan};
use crate::plan::cached_plan::{PermissionNeed, Uses};
use crate::plan::collation_label::CollationLabel;
use crate::plan::declarations::Declarations;
use crate::plan::query::{ColumnOrigin, OutputColumn};
use crate::plan::scalar::{Condition, Node, Scalar, SlotSet, slot_bit};
use crate::storage::{Latch, ObjectId, TableSchema};
use crate::tsql::ast::{Cte, Expr, Ident, Predicate, TableHint};
use crate::value::SqlType;

/// The binding of one statement.
pub struct Binder<'a> {
    pub database: &'a Database,
    pub latch: &'a Latch<'a>,
    pub state: &'a SessionState,
    pub declarations: &'a Declarations,
    /// Names without schema are looked for here first, then in `dbo`.
    pub default_schema: Arc<str>,
    /// Who owns the module, view, function or table in whose definition this stands: what else is theirs needs no
    /// permission. `None`: a batch.
    pub owner: Option<i32>,
    /// The queries around the current place, the innermost last.
    pub scopes: Vec<QueryScope>,
    /// The CTEs that are visible, the latest last; each sees those before it.
    pub ctes: Vec<Cte>,
    pub slots: usize,
    /// OPTION (LOOP JOIN).
    pub loop_joins: bool,
    pub needs: Vec<PermissionNeed>,
    /// It reads a `#temp` table: the plan is good for this session only.
    pub uses_temporary: bool,
    pub uses: Uses,
    /// The columns used of each slot.
    pub used_columns: Vec<Vec<bool>>,
    /// The CTEs that are being bound: one that uses itself is recursive.
    pub cte_in_progress: Vec<usize>,
    /// The columns that subqueries have read from the queries around them, in the order they were met.
    pub outer_columns: Vec<Scalar>,
    /// A default, CHECK or computed column is being bound: 1046 for a subquery.
    pub without_subqueries: bool,
    /// A CHECK is being bound.
    pub in_check: bool,
    /// The calls of NEXT VALUE FOR that were bound.
    pub next_values: NextValues,
    /// The recursive CTEs whose members are being bound.
    pub recursions: Vec<Recursion>,
    /// The functions in whose bodies this stands.
    pub calls: Option<&'a CallChain<'a>>,
    /// The functions that were called so far.
    pub functions: Vec<Arc<FunctionPlan>>,
    /// The views being expanded, so that one that contains itself ends.
    pub view_depth: usize,
    /// The slots of tables that views stand over, and these views, from the inside out.
    pub views: Vec<(SlotSet, Arc<View>)>,
    /// The table hints on the views that are being bound: those of the tables they refer to.
    pub view_hints: Vec<TableHint>,
    /// The slots of system views.
    pub system_slots: SlotSet,
}

/// A function that is being bound, and those within whose bodies it is called.
pub struct CallChain<'a> {
    pub function: ObjectId,
    pub outer: Option<&'a CallChain<'a>>,
}

impl<'a> Binder<'a> {
    pub fn new(
        database: &'a Database,
        latch: &'a Latch<'a>,
        state: &'a SessionState,
        declarations: &'a Declarations,
    ) -> Binder<'a> {
        Binder {
            database,
            latch,
            state,
            declarations,
            default_schema: Arc::clone(&state.default_schema),
            owner: None,
            scopes: Vec::new(),
            ctes: Vec::new(),
            slots: 0,
            loop_joins: false,
            needs: Vec::new(),
            uses_temporary: false,
            uses: Uses::Nothing,
            used_columns: Vec::new(),
            cte_in_progress: Vec::new(),
            recursions: Vec::new(),
            calls: None,
            functions: Vec::new(),
            without_subqueries: false,
            in_check: false,
            next_values: NextValues::default(),
            outer_columns: Vec::new(),
            view_depth: 0,
            views: Vec::new(),
            view_hints: Vec::new(),
            system_slots: 0,
        }
    }

    /// The functions that what was bound calls.
    pub fn called_functions(&mut self) -> CalledFunctions {
        let functions = std::mem::take(&mut self.functions);
        if functions.is_empty() { None } else { Some(functions.into()) }
    }

    /// A new slot; a statement has at most 64.
    pub fn new_slot(&mut self) -> SqlResult<usize> {
        if self.slots == SlotSet::BITS as usize {
            return Err(SqlError::not_supported("a statement with more than 64 tables and derived tables"));
        }
        self.slots += 1;
        self.used_columns.push(Vec::new());
        Ok(self.slots - 1)
    }

    pub fn need(&mut self, permission: &'static str, schema: &TableSchema) {
        self.need_object(permission, schema.id, &schema.schema, &schema.name);
    }

    /// Notes that a permission is needed, unless what is named and what names it have one owner.
    pub fn need_object(&mut self, permission: &'static str, id: ObjectId, schema: &Arc<str>, name: &Arc<str>) {
        let catalog = self.database.catalog.read();
        let Some(entry) = catalog.schema(schema) else { return };
        if self.owner == Some(entry.owner) {
            return;
        }
        let on = SecurableId::Object { id, schema: entry.id };
        self.needs.push(PermissionNeed { permission, on, schema: Arc::clone(schema), name: Arc::clone(name) });
    }

    /// Notes the permission to change the table in a slot: it is needed on the view through which that is reached.
    pub fn need_change(&mut self, permission: &'static str, slot: usize, schema: &TableSchema) {
        let outer = self.owner;
        let through = self.views.iter().rev().filter(|(slots, _)| slots & slot_bit(slot) != 0);
        for view in through.map(|(_, view)| Arc::clone(view)).collect::<Vec<_>>() {
            self.need_object(permission, view.id, &view.schema, &view.name);
            self.owner = self.database.catalog.read().owner_in(&view.schema);
        }
        self.need(permission, schema);
        self.owner = outer;
    }

    /// Binds what stands in the definition of something in a schema: its owner is the next link of the chain.
    pub fn owned<T>(&mut self, schema: &str, bind: impl FnOnce(&mut Self) -> T) -> T {
        let owner = self.database.catalog.read().owner_in(schema);
        let outer = std::mem::replace(&mut self.owner, owner);
        let bound = bind(self);
        self.owner = outer;
        bound
    }

    /// The columns of a stored table in a slot.
    pub fn table_columns(schema: &TableSchema, slot: usize) -> Vec<VisibleColumn> {
        let mut columns = Vec::with_capacity(schema.columns.len());
        for (ordinal, column) in schema.columns.iter().enumerate() {
            let label = if column.sql_type.has_collation() {
                CollationLabel::Implicit(column.collation)
            } else {
                CollationLabel::Coercible
            };
            let scalar =
                Scalar { node: Node::Column { slot, ordinal }, ty: column.sql_type, nullable: column.nullable, label };
            let origin = if column.identity.is_some() {
                ColumnOrigin::Identity
            } else if column.computed.is_some() || column.sql_type == SqlType::RowVersion {
                ColumnOrigin::Computed
            } else {
                ColumnOrigin::Table
            };
            columns.push(VisibleColumn { name: Arc::clone(&column.name), scalar, origin });
        }
        columns
    }

    /// The columns of a stored table in a slot, where they are read: computed ones stand as their expressions.
    pub fn visible_columns(&mut self, schema: &TableSchema, slot: usize) -> SqlResult<Vec<VisibleColumn>> {
        let mut columns = Binder::table_columns(schema, slot);
        if schema.columns.iter().any(|column| column.computed.is_some()) {
            self.bind_virtual_columns(schema, slot, &mut columns)?;
        }
        Ok(columns)
    }

    /// The columns of a computed row in a slot.
    pub fn output_columns(columns: &[OutputColumn], slot: usize) -> Vec<VisibleColumn> {
        let mut visible = Vec::with_capacity(columns.len());
        for (ordinal, column) in columns.iter().enumerate() {
            let label = if column.ty.has_collation() {
                CollationLabel::Implicit(column.collation)
            } else {
                CollationLabel::Coercible
            };
            let scalar =
                Scalar { node: Node::Column { slot, ordinal }, ty: column.ty, nullable: column.nullable, label };
            visible.push(VisibleColumn { name: Arc::clone(&column.name), scalar, origin: column.origin });
        }
        visible
    }

    /// Notes which columns are read, so that an index can be found to cover them.
    pub fn note_used(&mut self, scalar: &Scalar) {
        let used = &mut self.used_columns;
        scalar.visit(&mut |node| {
            if let Node::Column { slot, ordinal } = node {
                let columns = &mut used[*slot];
                if columns.len() <= *ordinal {
                    columns.resize(*ordinal + 1, false);
                }
                columns[*ordinal] = true;
            }
        });
    }

    /// The slots that belong to the current query.
    pub fn own_slots(&self) -> SlotSet {
        let scope = self.scopes.last().expect("a query is being bound");
        let mut slots = scope.sources.iter().fold(0, |slots, source| slots | source.slots);
        for slot in [scope.aggregate_slot, scope.window_slot].into_iter().flatten() {
            slots |= slot_bit(slot);
        }
        slots
    }

    /// The expression of a column's default.
    pub fn bind_default(&mut self, expr: &Expr) -> SqlResult<Scalar> {
        // Where the statement itself must not take a value, a default still may.
        let next_values = self.next_values;
        let scalar = self.forbidding_subqueries(|binder| binder.bind_expr(expr));
        self.next_values = next_values;
        scalar
    }

    /// The condition of a CHECK.
    pub fn bind_check(&mut self, predicate: &Predicate) -> SqlResult<Condition> {
        let outer = std::mem::replace(&mut self.in_check, true);
        let bound = self.bind_condition(predicate);
        self.in_check = outer;
        bound
    }

    pub fn forbidding_subqueries<T>(&mut self, bind: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        let outer = std::mem::replace(&mut self.without_subqueries, true);
        let bound = bind(self);
        self.without_subqueries = outer;
        bound
    }
}

/// The recursive CTE whose members are being bound.
#[derive(Debug, Clone)]
pub struct Recursion {
    pub place: usize,
    pub name: Ident,
    pub columns: Vec<OutputColumn>,
    pub column_names: Vec<Ident>,
    pub working: usize,
}

/// How many were met so far in the statement that is being bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextValues {
    pub all: usize,
    pub without_over: usize,
}
