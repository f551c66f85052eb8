//! Names to ordinals: what the binding of one statement knows, and how tables and columns are found.
//!
//! Expressions are bound in [`crate::bind::expression`], functions in [`crate::bind::function_call`], queries in
//! [`crate::bind::query`], FROM in [`crate::bind::source`].

use std::sync::Arc;

use crate::catalog::catalog::DBO;
use crate::catalog::database::Database;
use crate::catalog::object::{Object, View};
use crate::catalog::principal::SecurableId;
use crate::catalog::system_view::SystemView;
use crate::catalog::user_type::UserType;
use crate::error::{SqlError, SqlResult};
use crate::execute::session_state::SessionState;
use crate::plan::cell::{PermissionNeed, Uses};
use crate::plan::declarations::Declarations;
use crate::plan::options::PlanOptions;
use crate::plan::query::{AggregateCall, OutputColumn, TableHandle, TablePlace, WindowFunction};
use crate::plan::scalar::{CollationLabel, Node, Scalar, SlotSet, slot_bit};
use crate::storage::{Latch, ObjectId, TableSchema, fold};
use crate::tsql::ast::{ColumnRef, Cte, Expr, Ident, ObjectName, TableHint, TypeArguments, TypeName};
use crate::value::{Collation, Length, SqlType};

/// A column that can be named.
#[derive(Debug, Clone)]
pub struct VisibleColumn {
    pub name: Arc<str>,
    pub scalar: Scalar,
    pub identity: bool,
}

/// A table, derived table, CTE … with the name under which its columns can be reached.
#[derive(Debug, Clone)]
pub struct VisibleSource {
    pub name: Arc<str>,
    /// Of a table without alias: `schema.table.column` reaches it too.
    pub schema: Option<Arc<str>>,
    pub columns: Vec<VisibleColumn>,
    /// The slots of its tables.
    pub slots: SlotSet,
    /// Set on a table or on what was merged over tables: an UPDATE or DELETE can name it.
    pub updatable: bool,
}

/// Where in a query an expression stands, as far as aggregates are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clause {
    /// WHERE, ON, VALUES, SET …: 147.
    NoAggregates,
    /// The argument of an aggregate: 130.
    InAggregate,
    /// The select list, HAVING, ORDER BY.
    Aggregates,
}

/// What a query offers to its expressions.
#[derive(Debug)]
pub struct QueryScope {
    pub sources: Vec<VisibleSource>,
    /// ON sees only the sources of its own join.
    pub visible_from: usize,
    pub clause: Clause,
    pub aggregate_slot: Option<usize>,
    pub group_by: Vec<Scalar>,
    pub aggregates: Vec<AggregateCall>,
    pub window_slot: Option<usize>,
    pub windows: Vec<WindowFunction>,
    pub windows_allowed: bool,
}

impl QueryScope {
    pub fn new() -> QueryScope {
        QueryScope {
            sources: Vec::new(),
            visible_from: 0,
            clause: Clause::NoAggregates,
            aggregate_slot: None,
            group_by: Vec::new(),
            aggregates: Vec::new(),
            window_slot: None,
            windows: Vec::new(),
            windows_allowed: false,
        }
    }
}

/// The binding of one statement.
pub struct Binder<'a> {
    pub database: &'a Database,
    pub latch: &'a Latch<'a>,
    pub state: &'a SessionState,
    pub declarations: &'a Declarations,
    /// Names without schema are looked for here first, then in `dbo`.
    pub default_schema: Arc<str>,
    /// The queries around the current place, the innermost last.
    pub scopes: Vec<QueryScope>,
    /// The CTEs that are visible, the latest last; each sees those before it.
    pub ctes: Vec<Cte>,
    pub slots: usize,
    pub options: PlanOptions,
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
    /// The default of a column is being bound: NEWSEQUENTIALID may stand there.
    pub in_default: bool,
    /// A default, CHECK or computed column is being bound: 1046 for a subquery.
    pub without_subqueries: bool,
    /// The calls of NEXT VALUE FOR that were bound.
    pub next_values: NextValues,
    /// The recursive CTEs whose members are being bound.
    pub recursions: Vec<Recursion>,
    /// The parameters of the function that is being bound.
    pub function_arguments: Option<crate::bind::binder::Arguments>,
    /// The views being expanded, so that one that contains itself ends.
    pub view_depth: usize,
    /// The table hints on the views that are being bound: those of the tables they refer to.
    pub view_hints: Vec<TableHint>,
    /// The slots of system views.
    pub system_slots: SlotSet,
    /// The slot of `$action` while the OUTPUT clause of a MERGE is bound.
    pub merge_action: Option<usize>,
}

/// What a table name means.
pub enum ResolvedTable {
    Table(TableHandle),
    View(Arc<View>),
    System(SystemView),
}

/// A name as messages show it: the parts as written, joined by points.
pub fn display_name(name: &ObjectName) -> String {
    let mut text = String::new();
    let parts = [&name.server, &name.database, &name.schema];
    for part in parts {
        match part {
            Some(part) => {
                text.push_str(part);
                text.push('.');
            }
            None if !text.is_empty() => text.push('.'),
            None => {}
        }
    }
    text.push_str(&name.name);
    text
}

pub fn invalid_object(name: &ObjectName) -> SqlError {
    SqlError::new(208, format!("Invalid object name '{}'.", display_name(name)))
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
            scopes: Vec::new(),
            ctes: Vec::new(),
            slots: 0,
            options: PlanOptions::default(),
            needs: Vec::new(),
            uses_temporary: false,
            uses: Uses::Nothing,
            used_columns: Vec::new(),
            cte_in_progress: Vec::new(),
            recursions: Vec::new(),
            function_arguments: None,
            in_default: false,
            without_subqueries: false,
            next_values: NextValues::default(),
            outer_columns: Vec::new(),
            view_depth: 0,
            view_hints: Vec::new(),
            system_slots: 0,
            merge_action: None,
        }
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
        let catalog = self.database.catalog.read();
        let Some(schema_entry) = catalog.schema(&schema.schema) else { return };
        let on = SecurableId::Object { id: schema.id, schema: schema_entry.id };
        self.needs.push(PermissionNeed {
            permission,
            on,
            schema: Arc::clone(&schema.schema),
            name: Arc::clone(&schema.name),
        });
    }

    /// The schemas in which a name without schema is looked for.
    fn schemas_to_search(&self, name: &ObjectName) -> SqlResult<Vec<Arc<str>>> {
        if name.server.is_some() {
            return Err(SqlError::not_supported("linked servers"));
        }
        if let Some(database) = &name.database
            && fold(database) != fold(&self.database.name)
        {
            return Err(SqlError::not_supported(format!(
                "the name {}: objects of other databases than the current one",
                display_name(name)
            )));
        }
        if let Some(schema) = &name.schema {
            return Ok(vec![Arc::clone(schema)]);
        }
        let own = Arc::clone(&self.default_schema);
        if fold(&own) == DBO { Ok(vec![own]) } else { Ok(vec![own, DBO.into()]) }
    }

    /// The permanent or temporary table of a name.
    pub fn find_table(&mut self, name: &ObjectName) -> SqlResult<Option<ObjectId>> {
        self.uses = Uses::Database;
        if name.name.starts_with('#') {
            if name.database.as_deref().is_some_and(|database| fold(database) != "tempdb") {
                return Err(SqlError::not_supported(format!("the name {}", display_name(name))));
            }
            self.uses_temporary = true;
            return Ok(self.state.temporary_table(&name.name));
        }
        for schema in self.schemas_to_search(name)? {
            if let Some(id) = self.latch.find_table(&schema, &name.name) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    pub fn find_object(&self, name: &ObjectName) -> SqlResult<Option<Object>> {
        let catalog = self.database.catalog.read();
        for schema in self.schemas_to_search(name)? {
            if let Some(object) = catalog.object(&schema, &name.name) {
                return Ok(Some(object.clone()));
            }
        }
        Ok(None)
    }

    pub fn table_handle(&self, id: ObjectId) -> SqlResult<TableHandle> {
        match self.latch.schema(id) {
            Some(schema) => Ok(TableHandle { schema: Arc::clone(schema), place: TablePlace::Stored(id) }),
            None => Err(SqlError::new(208, "Invalid object name.")),
        }
    }

    /// What a name in FROM means, CTEs excepted; 208.
    pub fn resolve_table(&mut self, name: &ObjectName) -> SqlResult<ResolvedTable> {
        self.uses = Uses::Database;
        if let Some(schema) = &name.schema {
            let schema = fold(schema);
            if schema == "sys" || schema == "information_schema" {
                return match SystemView::find(&schema, &name.name) {
                    Some(view) => Ok(ResolvedTable::System(view)),
                    None => Err(SqlError::not_supported(format!("the system view {}", display_name(name)))),
                };
            }
        }
        if let Some(id) = self.find_table(name)? {
            return Ok(ResolvedTable::Table(self.table_handle(id)?));
        }
        match self.find_object(name)? {
            Some(Object::View(view)) => Ok(ResolvedTable::View(view)),
            Some(Object::Synonym(synonym)) => match self.find_object(&synonym.target)? {
                // "A synonym cannot be the base object for another synonym."
                Some(Object::Synonym(_)) => {
                    Err(SqlError::new(5313, format!("Synonym '{}' refers to an invalid object.", display_name(name))))
                }
                _ => self.resolve_table(&synonym.target),
            },
            _ => match crate::catalog::view::list::find_compatible(name.schema.as_deref(), &name.name) {
                Some(view) => Ok(ResolvedTable::System(SystemView::Catalog(view))),
                None => Err(invalid_object(name)),
            },
        }
    }

    /// A stored table that is changed; 208, and 4405-like refusals for what is no table.
    pub fn resolve_base_table(&mut self, name: &ObjectName) -> SqlResult<TableHandle> {
        match self.resolve_table(name)? {
            ResolvedTable::Table(handle) => Ok(handle),
            ResolvedTable::View(_) => Err(SqlError::not_supported(format!("changing the view {}", display_name(name)))),
            ResolvedTable::System(_) => Err(SqlError::new(259, "Ad hoc updates to system catalogs are not allowed.")),
        }
    }

    /// The columns of a stored table in a slot.
    pub fn table_columns(schema: &TableSchema, slot: usize) -> Vec<VisibleColumn> {
        let mut columns = Vec::with_capacity(schema.columns.len());
        for (ordinal, column) in schema.columns.iter().enumerate() {
            let label = if column.sql_type.is_character() {
                CollationLabel::Implicit(column.collation)
            } else {
                CollationLabel::Coercible
            };
            let scalar =
                Scalar { node: Node::Column { slot, ordinal }, ty: column.sql_type, nullable: column.nullable, label };
            let identity = column.identity.is_some();
            columns.push(VisibleColumn { name: Arc::clone(&column.name), scalar, identity });
        }
        columns
    }

    /// The columns of a computed row in a slot.
    pub fn output_columns(columns: &[OutputColumn], slot: usize) -> Vec<VisibleColumn> {
        let mut visible = Vec::with_capacity(columns.len());
        for (ordinal, column) in columns.iter().enumerate() {
            let label = if column.ty.is_character() {
                CollationLabel::Implicit(column.collation)
            } else {
                CollationLabel::Coercible
            };
            let scalar =
                Scalar { node: Node::Column { slot, ordinal }, ty: column.ty, nullable: column.nullable, label };
            visible.push(VisibleColumn { name: Arc::clone(&column.name), scalar, identity: column.identity });
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

    /// A column by name: in the innermost query that has one. 207, 209, 4104.
    pub fn resolve_column(&mut self, column: &ColumnRef) -> SqlResult<Scalar> {
        let name = fold(&column.name);
        let mut table_known = false;
        let mut found: Option<Scalar> = None;
        let mut distance = 0;
        'scopes: for (of, scope) in self.scopes.iter().rev().enumerate() {
            distance = of;
            for source in &scope.sources[scope.visible_from..] {
                if let Some(table) = &column.table {
                    if !names_source(table, source) {
                        continue;
                    }
                    table_known = true;
                }
                for candidate in &source.columns {
                    if !same_name(&candidate.name, &name) {
                        continue;
                    }
                    if found.is_some() {
                        return Err(SqlError::new(209, format!("Ambiguous column name '{}'.", column.name)));
                    }
                    found = Some(candidate.scalar.clone());
                }
            }
            if found.is_some() || table_known {
                break 'scopes;
            }
        }
        match found {
            Some(scalar) => {
                self.note_used(&scalar);
                if distance > 0 {
                    self.outer_columns.push(scalar.clone());
                }
                Ok(scalar)
            }
            None => Err(match &column.table {
                Some(table) if !table_known => SqlError::new(
                    4104,
                    format!(
                        "The multi-part identifier \"{}.{}\" could not be bound.",
                        display_name(table),
                        column.name
                    ),
                ),
                // Its views have fewer columns than SQL Server's.
                _ if self.reaches_system_view(column) => {
                    SqlError::not_supported(format!("the column '{}', which may be one of a system view", column.name))
                }
                _ => SqlError::new(207, format!("Invalid column name '{}'.", column.name)),
            }),
        }
    }

    fn reaches_system_view(&self, column: &ColumnRef) -> bool {
        let sources = self.scopes.iter().flat_map(|scope| &scope.sources[scope.visible_from..]);
        sources
            .filter(|source| column.table.as_ref().is_none_or(|table| names_source(table, source)))
            .any(|source| source.slots & self.system_slots != 0)
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

    /// A type by name: a system type or an alias of this database.
    pub fn resolve_type(&self, name: &TypeName) -> SqlResult<SqlType> {
        if let Some(ty) = system_type(name)? {
            return Ok(ty);
        }
        match self.find_user_type(&name.name)? {
            Some(user_type) => match &user_type.kind {
                crate::catalog::user_type::UserTypeKind::Alias { base, .. } => Ok(*base),
                crate::catalog::user_type::UserTypeKind::Table { .. } => Err(SqlError::new(
                    350,
                    format!("The column \"{}\" does not have a valid data type.", display_name(&name.name)),
                )),
            },
            None => Err(type_not_found(&name.name)),
        }
    }

    pub fn find_user_type(&self, name: &ObjectName) -> SqlResult<Option<Arc<UserType>>> {
        let catalog = self.database.catalog.read();
        for schema in self.schemas_to_search(name)? {
            if let Some(user_type) = catalog.user_type(&schema, &name.name) {
                return Ok(Some(Arc::clone(user_type)));
            }
        }
        Ok(None)
    }

    /// The expression of a column's default.
    pub fn bind_default(&mut self, expr: &Expr) -> SqlResult<Scalar> {
        self.in_default = true;
        // Where the statement itself must not take a value, a default still may.
        let next_values = self.next_values;
        // A default and the sequence that it takes numbers of have one owner, so that nobody needs a right on it.
        let needs = self.needs.len();
        let scalar = self.forbidding_subqueries(|binder| binder.bind_expr(expr));
        self.needs.truncate(needs);
        self.next_values = next_values;
        self.in_default = false;
        scalar
    }

    pub fn forbidding_subqueries<T>(&mut self, bind: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        let outer = std::mem::replace(&mut self.without_subqueries, true);
        let bound = bind(self);
        self.without_subqueries = outer;
        bound
    }

    pub fn collation(&self, name: &Ident) -> SqlResult<Collation> {
        if fold(name) == "database_default" {
            return Ok(Collation::default());
        }
        Collation::parse(name)
    }
}

/// Whether names are equal; the second is folded already.
pub fn same_name(name: &str, folded: &str) -> bool {
    name == folded || (name.len() == folded.len() && name.eq_ignore_ascii_case(folded)) || fold(name) == folded
}

/// Whether `table` in `table.column` means this source.
pub fn names_source(table: &ObjectName, source: &VisibleSource) -> bool {
    if fold(&table.name) != fold(&source.name) {
        return false;
    }
    match (&table.schema, &source.schema) {
        (None, _) => true,
        (Some(written), Some(schema)) => fold(written) == fold(schema),
        (Some(_), None) => false,
    }
}

pub fn type_not_found(name: &ObjectName) -> SqlError {
    SqlError::new(2715, format!("Column, parameter, or variable #1: Cannot find data type {}.", display_name(name)))
        .state(3)
}

/// A system type with its length, precision or scale; `None` if the name is none of them.
pub fn system_type(name: &TypeName) -> SqlResult<Option<SqlType>> {
    let object = &name.name;
    if let Some(schema) = &object.schema
        && fold(schema) != "sys"
    {
        return Ok(None);
    }
    let word = fold(&object.name);
    let no_arguments = |ty: SqlType| match name.arguments {
        TypeArguments::None => Ok(Some(ty)),
        _ => Err(SqlError::new(
            2716,
            format!("Column, parameter, or variable #1: Cannot specify a column width on data type {word}."),
        )),
    };
    let length = |limit: u16| match name.arguments {
        TypeArguments::None => Ok(1),
        TypeArguments::One(length) if length >= 1 && length <= u32::from(limit) => Ok(length as u16),
        _ => Err(bad_length(&word, limit)),
    };
    let variable_length = |limit: u16| match name.arguments {
        TypeArguments::None => Ok(Length::Limit(1)),
        TypeArguments::Max => Ok(Length::Max),
        TypeArguments::One(length) if length >= 1 && length <= u32::from(limit) => Ok(Length::Limit(length as u16)),
        _ => Err(bad_length(&word, limit)),
    };
    let scale = || match name.arguments {
        TypeArguments::None => Ok(7),
        TypeArguments::One(scale) if scale <= 7 => Ok(scale as u8),
        _ => Err(SqlError::new(1002, "Line 1: Specified scale is invalid.").severity(15)),
    };
    let ty = match word.as_str() {
        "bit" => return no_arguments(SqlType::Bit),
        "tinyint" => return no_arguments(SqlType::TinyInt),
        "smallint" => return no_arguments(SqlType::SmallInt),
        "int" | "integer" => return no_arguments(SqlType::Int),
        "bigint" => return no_arguments(SqlType::BigInt),
        "date" => return no_arguments(SqlType::Date),
        "datetime" => return no_arguments(SqlType::DateTime),
        "uniqueidentifier" => return no_arguments(SqlType::UniqueIdentifier),
        "rowversion" | "timestamp" => return no_arguments(SqlType::RowVersion),
        "real" => return no_arguments(SqlType::Real),
        "sysname" => return no_arguments(SqlType::NVarChar(Length::Limit(128))),
        "float" => match name.arguments {
            TypeArguments::None => SqlType::Float,
            TypeArguments::One(bits @ 1..=53) => {
                if bits <= 24 {
                    SqlType::Real
                } else {
                    SqlType::Float
                }
            }
            _ => {
                return Err(SqlError::new(
                    2750,
                    "Column or parameter #1: Specified column precision is greater than the maximum precision of 53.",
                ));
            }
        },
        "decimal" | "numeric" | "dec" => {
            let (precision, scale) = match name.arguments {
                TypeArguments::None => (18, 0),
                TypeArguments::One(precision) => (precision, 0),
                TypeArguments::Two(precision, scale) => (precision, scale),
                TypeArguments::Max => (0, 0),
            };
            if !(1..=38).contains(&precision) || scale > precision {
                return Err(SqlError::new(
                    2750,
                    format!(
                        "Column or parameter #1: Specified column precision {precision} is greater than the maximum precision of 38."
                    ),
                ));
            }
            SqlType::Decimal { precision: precision as u8, scale: scale as u8 }
        }
        "char" | "character" => SqlType::Char(length(8000)?),
        "nchar" => SqlType::NChar(length(4000)?),
        "binary" => SqlType::Binary(length(8000)?),
        "varchar" => SqlType::VarChar(variable_length(8000)?),
        "nvarchar" => SqlType::NVarChar(variable_length(4000)?),
        "varbinary" => SqlType::VarBinary(variable_length(8000)?),
        "time" => SqlType::Time(scale()?),
        "datetime2" => SqlType::DateTime2(scale()?),
        "datetimeoffset" => SqlType::DateTimeOffset(scale()?),
        "money" | "smallmoney" | "smalldatetime" | "text" | "ntext" | "image" | "xml" | "sql_variant"
        | "hierarchyid" | "geography" | "geometry" | "cursor" | "table" => {
            return Err(SqlError::not_supported(format!("the data type {word}")));
        }
        _ => return Ok(None),
    };
    Ok(Some(ty))
}

fn bad_length(word: &str, limit: u16) -> SqlError {
    SqlError::new(
        131,
        format!("The size given to the type '{word}' exceeds the maximum allowed for any data type ({limit})."),
    )
    .severity(15)
    .state(2)
}

/// In CAST and CONVERT a length that is not written is 30.
pub fn system_type_for_cast(name: &TypeName) -> SqlResult<Option<SqlType>> {
    if name.arguments != TypeArguments::None {
        return system_type(name);
    }
    Ok(match system_type(name)? {
        Some(SqlType::Char(_)) => Some(SqlType::Char(30)),
        Some(SqlType::NChar(_)) => Some(SqlType::NChar(30)),
        Some(SqlType::VarChar(_)) => Some(SqlType::VarChar(Length::Limit(30))),
        Some(SqlType::NVarChar(_)) => Some(SqlType::NVarChar(Length::Limit(30))),
        Some(SqlType::Binary(_)) => Some(SqlType::Binary(30)),
        Some(SqlType::VarBinary(_)) => Some(SqlType::VarBinary(Length::Limit(30))),
        other => other,
    })
}

/// The parameters of the function that is being bound, by folded name.
pub type Arguments = Vec<(String, Scalar)>;

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
