//! Names and types, as they are written.

use std::sync::Arc;

/// A name without its brackets or quotes, in the writer's letter case. Variables keep their `@`, temporary tables
/// their `#`.
pub type Ident = Arc<str>;

/// A name of one to four parts: `server.database.schema.name`. An empty middle part (`tempdb..#t`) is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectName {
    pub server: Option<Ident>,
    pub database: Option<Ident>,
    pub schema: Option<Ident>,
    pub name: Ident,
}

/// A column, with the table or alias before it if there was one (`inserted.job_id`, `dbo.t.c`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ColumnRef {
    pub table: Option<ObjectName>,
    pub name: Ident,
}

/// A type as written; whether it exists is the executor's question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeName {
    /// `int`, `sys.sysname`, `readpast.finish_list`. System types are not folded in case.
    pub name: ObjectName,
    pub arguments: TypeArguments,
}

/// What stood in parentheses after a type's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeArguments {
    None,
    /// `(max)`.
    Max,
    /// `(n)`: a length, a precision or a scale, depending on the type.
    One(u32),
    /// `(precision, scale)`.
    Two(u32, u32),
}
