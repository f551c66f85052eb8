//! The syntax tree of T-SQL: what the parser hands to the executor. It is purely syntactic: no name is resolved, no
//! type is known, and every name stands as it was written (without its brackets or quotes).
//!
//! Search conditions ([`Predicate`]) and scalar expressions ([`Expr`]) are different types, as in T-SQL, where
//! a condition is no value.

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

// ---------------------------------------------------------------------------------------------------------------
// Scalar expressions

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Null,
    /// An integer that fits `int`.
    Int(i32),
    /// Digits with an optional point: a number with a point, or an integer too large for `int`, which T-SQL types as
    /// `numeric`. At most 38 digits.
    Decimal(Arc<str>),
    /// A number with an exponent.
    Float(f64),
    /// `'…'`, or `N'…'` if `national`.
    String {
        value: Arc<str>,
        national: bool,
    },
    /// `0x…`.
    Binary(Arc<[u8]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnaryOp {
    Plus,
    Minus,
    BitNot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    BitAnd,
    BitOr,
    BitXor,
}

/// A scalar expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    Literal(Literal),
    Column(ColumnRef),
    /// `@name`, with the `@`.
    Variable(Ident),
    /// `@@name`, with the `@@`.
    GlobalVariable(Ident),
    Unary {
        op: UnaryOp,
        operand: Box<Expr>,
    },
    Binary {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `CASE operand WHEN value THEN result … [ELSE otherwise] END`.
    SimpleCase {
        operand: Box<Expr>,
        branches: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    /// `CASE WHEN condition THEN result … [ELSE otherwise] END`.
    SearchedCase {
        branches: Vec<(Predicate, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    /// `CAST(expr AS type)`, or `TRY_CAST` if `attempt`.
    Cast {
        attempt: bool,
        expr: Box<Expr>,
        to: TypeName,
    },
    /// `CONVERT(type, expr [, style])`, or `TRY_CONVERT` if `attempt`.
    Convert {
        attempt: bool,
        to: TypeName,
        expr: Box<Expr>,
        style: Option<Box<Expr>>,
    },
    /// `COALESCE(a, b, …)`: at least two.
    Coalesce(Vec<Expr>),
    NullIf(Box<Expr>, Box<Expr>),
    Iif {
        condition: Box<Predicate>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    /// Every other function, aggregate or window function.
    Function(Box<FunctionCall>),
    /// The first argument of `DATEADD`, `DATEDIFF`, `DATEDIFF_BIG`, `DATEPART` and `DATENAME`; stands nowhere else.
    DatePart(crate::value::DatePart),
    /// `expr COLLATE name`.
    Collate {
        expr: Box<Expr>,
        collation: Ident,
    },
    /// `NEXT VALUE FOR sequence [OVER (ORDER BY …)]`.
    NextValueFor {
        sequence: ObjectName,
        over: Option<Box<Window>>,
    },
    /// `(SELECT …)` as a value.
    Subquery(Box<Query>),
    /// `$action` in the OUTPUT clause of MERGE.
    MergeAction,
}

/// `name([DISTINCT] arguments) [WITHIN GROUP (ORDER BY …)] [OVER (…)]`.
///
/// `CURRENT_TIMESTAMP`, `CURRENT_USER`, `SESSION_USER`, `SYSTEM_USER` and `USER` stand here too, without arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall {
    pub name: ObjectName,
    pub distinct: bool,
    /// `COUNT(*)`, `COUNT_BIG(*)`: there are no arguments then.
    pub star: bool,
    pub arguments: Vec<Expr>,
    pub within_group: Vec<OrderItem>,
    pub over: Option<Window>,
}

/// `OVER (PARTITION BY … ORDER BY … ROWS …)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    pub partition_by: Vec<Expr>,
    pub order_by: Vec<OrderItem>,
    pub frame: Option<WindowFrame>,
}

/// `ROWS BETWEEN start AND end`, or RANGE if not `rows`. Without BETWEEN the end is the current row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowFrame {
    pub rows: bool,
    pub start: FrameBound,
    pub end: FrameBound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(u32),
    CurrentRow,
    Following(u32),
    UnboundedFollowing,
}

// ---------------------------------------------------------------------------------------------------------------
// Search conditions

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOp {
    Equal,
    /// `<>` or `!=`.
    NotEqual,
    Less,
    /// `<=` or `!>`.
    LessOrEqual,
    Greater,
    /// `>=` or `!<`.
    GreaterOrEqual,
}

/// A search condition: true, false or unknown.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// Two or more, in the order written.
    And(Vec<Predicate>),
    /// Two or more, in the order written.
    Or(Vec<Predicate>),
    Not(Box<Predicate>),
    Compare {
        op: CompareOp,
        left: Expr,
        right: Expr,
    },
    Between {
        negated: bool,
        value: Expr,
        low: Expr,
        high: Expr,
    },
    InList {
        negated: bool,
        value: Expr,
        list: Vec<Expr>,
    },
    InQuery {
        negated: bool,
        value: Expr,
        query: Box<Query>,
    },
    Like {
        negated: bool,
        value: Expr,
        pattern: Expr,
        escape: Option<Expr>,
    },
    IsNull {
        negated: bool,
        value: Expr,
    },
    Exists(Box<Query>),
    /// `UPDATE(column)` in a trigger: does the statement set the column?
    Updated(Ident),
}

// ---------------------------------------------------------------------------------------------------------------
// Queries

/// A SELECT statement with what may stand around the query only at its outermost level.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectStatement {
    pub ctes: Vec<Cte>,
    pub query: Query,
    pub options: Vec<QueryHint>,
}

/// `name [(columns)] AS (query)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Cte {
    pub name: Ident,
    /// Empty: the names of the query's columns.
    pub columns: Vec<Ident>,
    pub query: Query,
}

/// A query expression with its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    pub body: QueryBody,
    pub order_by: Vec<OrderItem>,
    pub offset: Option<Offset>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum QueryBody {
    Select(Box<Select>),
    SetOperation { op: SetOperator, left: Box<QueryBody>, right: Box<QueryBody> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOperator {
    Union,
    UnionAll,
    Except,
    Intersect,
}

/// One SELECT without its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Select {
    pub distinct: bool,
    pub top: Option<Top>,
    pub items: Vec<SelectItem>,
    /// `INTO table`: creates it.
    pub into: Option<ObjectName>,
    /// What stood between the commas; empty without FROM.
    pub from: Vec<TableSource>,
    pub condition: Option<Predicate>,
    pub group_by: Vec<Expr>,
    pub having: Option<Predicate>,
}

/// `TOP (count) [WITH TIES]`. `PERCENT` is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    pub count: Expr,
    pub with_ties: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SelectItem {
    /// `*` or `t.*`.
    Wildcard { table: Option<ObjectName> },
    /// `expr [AS alias]` or `alias = expr`.
    Expr { expr: Expr, alias: Option<Ident> },
    /// `@v = expr`, `@v += expr`.
    Assign { variable: Ident, op: AssignOp, value: Expr },
}

/// `=`, or a compound assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssignOp {
    Set,
    /// `+=` and its like: the target becomes `target op value`.
    Compound(BinaryOp),
}

#[derive(Debug, Clone, PartialEq)]
pub struct OrderItem {
    pub expr: Expr,
    pub descending: bool,
}

/// `OFFSET skip ROWS [FETCH NEXT fetch ROWS ONLY]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Offset {
    pub skip: Expr,
    pub fetch: Option<Expr>,
}

/// What can stand in FROM.
#[derive(Debug, Clone, PartialEq)]
pub enum TableSource {
    /// A table, view, synonym, CTE, or `inserted`/`deleted`.
    Table { name: ObjectName, alias: Option<Ident>, hints: Vec<TableHint> },
    /// A table variable or table-valued parameter.
    Variable { name: Ident, alias: Option<Ident> },
    /// `(SELECT …) alias [(columns)]`.
    Derived { query: Box<Query>, alias: Ident, columns: Vec<Ident> },
    /// `(VALUES (…), (…)) alias (columns)`.
    Values { rows: Vec<Vec<Expr>>, alias: Ident, columns: Vec<Ident> },
    /// A table-valued function, without or with column names.
    Function { name: ObjectName, arguments: Vec<Expr>, alias: Option<Ident>, columns: Vec<Ident> },
    /// `OPENJSON(json [, path]) [WITH (columns)] alias`; `columns` is empty without WITH.
    OpenJson { json: Expr, path: Option<Expr>, columns: Vec<OpenJsonColumn>, alias: Option<Ident> },
    Join {
        kind: JoinKind,
        hint: Option<JoinHint>,
        left: Box<TableSource>,
        right: Box<TableSource>,
        /// `None` for CROSS JOIN only.
        on: Option<Predicate>,
    },
    /// `left CROSS APPLY right`, or `OUTER APPLY`.
    Apply { outer: bool, left: Box<TableSource>, right: Box<TableSource> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Cross,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinHint {
    Loop,
    Hash,
    Merge,
}

/// A column of `OPENJSON … WITH (name type ['path'] [AS JSON])`.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenJsonColumn {
    pub name: Ident,
    pub data_type: TypeName,
    pub path: Option<Arc<str>>,
    pub as_json: bool,
}

/// A table hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableHint {
    NoLock,
    ReadUncommitted,
    ReadCommitted,
    ReadCommittedLock,
    RepeatableRead,
    Serializable,
    HoldLock,
    Snapshot,
    ReadPast,
    RowLock,
    PagLock,
    TabLock,
    TabLockX,
    UpdLock,
    XLock,
    NoWait,
    NoExpand,
    ForceScan,
    /// `FORCESEEK` or `FORCESEEK (index (columns))`.
    ForceSeek(Option<(IndexRef, Vec<Ident>)>),
    /// `INDEX (a, b)`, `INDEX = a`.
    Index(Vec<IndexRef>),
}

/// An index in a hint: by name, or by number (0 the heap or clustered index scan, 1 the clustered index).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexRef {
    Name(Ident),
    Number(u32),
}

/// A hint in `OPTION (…)`.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryHint {
    MaxDop(u32),
    MaxRecursion(u32),
    Fast(u32),
    Recompile,
    ForceOrder,
    KeepPlan,
    KeepFixedPlan,
    RobustPlan,
    LoopJoin,
    HashJoin,
    MergeJoin,
    HashGroup,
    OrderGroup,
    HashUnion,
    MergeUnion,
    ConcatUnion,
    OptimizeForUnknown,
    /// `OPTIMIZE FOR (@v = literal, @w UNKNOWN)`: `None` is UNKNOWN.
    OptimizeFor(Vec<(Ident, Option<Expr>)>),
}

// ---------------------------------------------------------------------------------------------------------------
// Data modification

/// What INSERT, UPDATE, DELETE and MERGE change, and what `OUTPUT … INTO` writes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub name: TargetName,
    pub hints: Vec<TableHint>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TargetName {
    /// A table, a CTE, or (UPDATE and DELETE) an alias of the FROM clause.
    Table(ObjectName),
    /// A table variable.
    Variable(Ident),
}

/// `OUTPUT items [INTO target [(columns)]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Never [`SelectItem::Assign`].
    pub items: Vec<SelectItem>,
    pub into: Option<OutputInto>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OutputInto {
    pub target: TargetName,
    /// Empty: all columns of the target.
    pub columns: Vec<Ident>,
}

/// A value in VALUES or SET: an expression or `DEFAULT`.
#[derive(Debug, Clone, PartialEq)]
pub enum NewValue {
    Expr(Expr),
    Default,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    pub ctes: Vec<Cte>,
    pub top: Option<Top>,
    pub target: Target,
    /// `None` without a column list.
    pub columns: Option<Vec<Ident>>,
    /// At most one with INTO, followed by at most one without.
    pub output: Vec<Output>,
    pub source: InsertSource,
    pub options: Vec<QueryHint>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum InsertSource {
    Values(Vec<Vec<NewValue>>),
    DefaultValues,
    Query(Box<Query>),
    Execute(Box<Execute>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    pub ctes: Vec<Cte>,
    pub top: Option<Top>,
    pub target: Target,
    pub assignments: Vec<Assignment>,
    pub output: Vec<Output>,
    pub from: Vec<TableSource>,
    pub condition: Option<DmlCondition>,
    pub options: Vec<QueryHint>,
}

/// One element of SET in an UPDATE: `column op value`, `@v op value`, or `@v = column op value` (both are there then).
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    pub variable: Option<Ident>,
    pub column: Option<ColumnRef>,
    pub op: AssignOp,
    pub value: NewValue,
}

#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a statement has one, and hardly ever the small variant")]
pub enum DmlCondition {
    Search(Predicate),
    /// `WHERE CURRENT OF cursor`.
    CurrentOf(CursorName),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    pub ctes: Vec<Cte>,
    pub top: Option<Top>,
    pub target: Target,
    pub output: Vec<Output>,
    pub from: Vec<TableSource>,
    pub condition: Option<DmlCondition>,
    pub options: Vec<QueryHint>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Merge {
    pub ctes: Vec<Cte>,
    pub top: Option<Top>,
    pub target: Target,
    pub alias: Option<Ident>,
    pub source: TableSource,
    pub on: Predicate,
    pub clauses: Vec<MergeClause>,
    pub output: Vec<Output>,
    pub options: Vec<QueryHint>,
}

/// `WHEN … [AND condition] THEN action`.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeClause {
    pub when: MergeWhen,
    pub condition: Option<Predicate>,
    pub action: MergeAction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeWhen {
    Matched,
    NotMatchedByTarget,
    NotMatchedBySource,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MergeAction {
    Update(Vec<Assignment>),
    Delete,
    /// `values` is `None` for DEFAULT VALUES.
    Insert {
        columns: Option<Vec<Ident>>,
        values: Option<Vec<NewValue>>,
    },
}

// ---------------------------------------------------------------------------------------------------------------
// Data definition

/// What stands in the parentheses of CREATE TABLE, CREATE TYPE … AS TABLE and DECLARE @t TABLE.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TableDefinition {
    pub columns: Vec<ColumnDefinition>,
    /// Table constraints, and the columns' own PRIMARY KEY, UNIQUE, CHECK and REFERENCES, in the order written.
    pub constraints: Vec<TableConstraint>,
    /// Inline indexes, those of columns included.
    pub indexes: Vec<InlineIndex>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDefinition {
    pub name: Ident,
    pub kind: ColumnKind,
    /// `Some(true)` for NULL, `Some(false)` for NOT NULL, `None` when neither was written.
    pub nullable: Option<bool>,
    pub collation: Option<Ident>,
    pub identity: Option<Identity>,
    pub default: Option<DefaultDefinition>,
    pub row_guid: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ColumnKind {
    Typed(TypeName),
    /// `AS expr [PERSISTED]`.
    Computed {
        expr: Expr,
        text: Arc<str>,
        persisted: bool,
    },
}

/// `IDENTITY (seed, increment)`, (1, 1) if not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub seed: i64,
    pub increment: i64,
}

/// `[CONSTRAINT name] DEFAULT expr`.
#[derive(Debug, Clone, PartialEq)]
pub struct DefaultDefinition {
    pub constraint: Option<Ident>,
    pub expr: Expr,
    /// The expression as written.
    pub text: Arc<str>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TableConstraint {
    pub name: Option<Ident>,
    pub kind: ConstraintKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ConstraintKind {
    /// PRIMARY KEY if `primary`, UNIQUE if not.
    Key {
        primary: bool,
        /// `None`: neither CLUSTERED nor NONCLUSTERED was written.
        clustered: Option<bool>,
        columns: Vec<IndexColumn>,
        options: Vec<IndexOption>,
    },
    Check {
        condition: Box<Predicate>,
        /// The condition as written.
        text: Arc<str>,
        /// Of a column's own constraint: it may name no other column.
        column: Option<Ident>,
    },
    ForeignKey {
        columns: Vec<Ident>,
        table: ObjectName,
        /// Empty: the primary key.
        referenced: Vec<Ident>,
        on_delete: ReferentialAction,
        on_update: ReferentialAction,
    },
    /// `ALTER TABLE … ADD [CONSTRAINT name] DEFAULT expr FOR column`.
    Default { expr: Expr, text: Arc<str>, column: Ident },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferentialAction {
    NoAction,
    Cascade,
    SetNull,
    SetDefault,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexColumn {
    pub name: Ident,
    pub descending: bool,
}

/// `INDEX name [UNIQUE] [CLUSTERED | NONCLUSTERED] (columns) …` inside a table definition.
#[derive(Debug, Clone, PartialEq)]
pub struct InlineIndex {
    pub name: Ident,
    pub unique: bool,
    pub clustered: bool,
    pub columns: Vec<IndexColumn>,
    pub include: Vec<Ident>,
    pub filter: Option<Filter>,
    pub options: Vec<IndexOption>,
}

/// The WHERE of a filtered index.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    pub condition: Predicate,
    /// The condition as written.
    pub text: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexOption {
    PadIndex(bool),
    FillFactor(u32),
    SortInTempdb(bool),
    IgnoreDupKey(bool),
    StatisticsNoRecompute(bool),
    StatisticsIncremental(bool),
    DropExisting(bool),
    Online(bool),
    AllowRowLocks(bool),
    AllowPageLocks(bool),
    OptimizeForSequentialKey(bool),
    MaxDop(u32),
    DataCompression(Compression),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Row,
    Page,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    pub name: ObjectName,
    pub definition: TableDefinition,
    pub compression: Option<Compression>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateIndex {
    pub name: Ident,
    pub unique: bool,
    pub clustered: bool,
    pub table: ObjectName,
    pub columns: Vec<IndexColumn>,
    pub include: Vec<Ident>,
    pub filter: Option<Filter>,
    pub options: Vec<IndexOption>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateType {
    pub name: ObjectName,
    pub kind: TypeKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TypeKind {
    Table(TableDefinition),
    /// `FROM base [NULL | NOT NULL]`.
    Alias {
        base: TypeName,
        nullable: Option<bool>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct AlterTable {
    pub table: ObjectName,
    pub action: AlterTableAction,
}

#[derive(Debug, Clone, PartialEq)]
pub enum AlterTableAction {
    /// `[WITH CHECK | WITH NOCHECK] ADD …`: the columns, constraints and indexes; `with_values` if a column's default
    /// is also to fill the rows that are there (`DEFAULT … WITH VALUES`), which matters to nullable columns only.
    Add {
        definition: TableDefinition,
        with_values: Vec<Ident>,
        check: Option<bool>,
    },
    /// `DROP …`, in the order written.
    Drop(Vec<AlterTableDrop>),
    AlterColumn {
        name: Ident,
        data_type: TypeName,
        collation: Option<Ident>,
        nullable: Option<bool>,
    },
    SetLockEscalation(LockEscalation),
    /// `[WITH CHECK | NOCHECK] CHECK | NOCHECK CONSTRAINT names`; an empty list is ALL.
    CheckConstraint {
        enable: bool,
        names: Vec<Ident>,
        check: Option<bool>,
    },
    Rebuild(Vec<IndexOption>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlterTableDrop {
    Column { name: Ident, if_exists: bool },
    Constraint { name: Ident, if_exists: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockEscalation {
    Auto,
    Table,
    Disable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterIndex {
    /// `None` for ALL.
    pub name: Option<Ident>,
    pub table: ObjectName,
    pub action: AlterIndexAction,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlterIndexAction {
    Rebuild(Vec<IndexOption>),
    Reorganize,
    Disable,
    Set(Vec<IndexOption>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterDatabase {
    /// `None` for CURRENT.
    pub name: Option<Ident>,
    pub options: Vec<DatabaseOption>,
    /// `WITH ROLLBACK IMMEDIATE`, `WITH ROLLBACK AFTER n` and `WITH NO_WAIT`.
    pub termination: Option<Termination>,
}

/// A database option, by its name in capitals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseOption {
    pub name: Ident,
    pub value: DatabaseOptionValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseOptionValue {
    /// `SINGLE_USER`, `READ_ONLY`: the name is all.
    Bare,
    On,
    Off,
    /// `RECOVERY SIMPLE`, `DELAYED_DURABILITY = ALLOWED`: in capitals.
    Word(Ident),
    /// `COMPATIBILITY_LEVEL = 150`.
    Number(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Termination {
    RollbackImmediate,
    RollbackAfter(u32),
    NoWait,
}

/// `DROP kind [IF EXISTS] names`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drop {
    pub kind: DropKind,
    pub if_exists: bool,
    pub names: Vec<ObjectName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropKind {
    Table,
    Procedure,
    View,
    Type,
    Schema,
    Sequence,
    Role,
    User,
    Login,
    Database,
    Synonym,
    Function,
    Trigger,
}

/// `DROP INDEX [IF EXISTS] name ON table, …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropIndex {
    pub if_exists: bool,
    pub indexes: Vec<(Ident, ObjectName)>,
}

/// CREATE, ALTER or CREATE OR ALTER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    Create,
    Alter,
    CreateOrAlter,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateProcedure {
    pub creation: Creation,
    pub name: ObjectName,
    pub parameters: Vec<ParameterDef>,
    pub recompile: bool,
    pub execute_as: Option<ExecuteAsClause>,
    /// The lines of its statements count from the start of the batch, as `ERROR_LINE()` does.
    pub body: Arc<[Statement]>,
    /// The text of the whole batch: `OBJECT_DEFINITION`.
    pub text: Arc<str>,
}

/// `EXECUTE AS` in a module's WITH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecuteAsClause {
    Caller,
    SelfUser,
    Owner,
    User(Ident),
}

/// A parameter of a procedure or of `sp_executesql`.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterDef {
    /// With its `@`.
    pub name: Ident,
    pub data_type: TypeName,
    /// A constant.
    pub default: Option<Expr>,
    pub output: bool,
    pub read_only: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    pub creation: Creation,
    pub name: ObjectName,
    pub columns: Vec<Ident>,
    pub schema_binding: bool,
    /// Its `options` are empty.
    pub select: SelectStatement,
    pub check_option: bool,
    /// The text of the whole batch.
    pub text: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TriggerEvent {
    Insert,
    Update,
    Delete,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateTrigger {
    pub creation: Creation,
    pub name: ObjectName,
    pub table: ObjectName,
    /// FOR and AFTER mean the same.
    pub instead_of: bool,
    pub events: Vec<TriggerEvent>,
    /// As in [`CreateProcedure`].
    pub body: Arc<[Statement]>,
    pub text: Arc<str>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateFunction {
    pub creation: Creation,
    pub name: ObjectName,
    pub parameters: Vec<ParameterDef>,
    pub body: FunctionBody,
    pub text: Arc<str>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FunctionBody {
    /// `RETURNS type BEGIN RETURN expr END`. Bodies of more statements are refused.
    Scalar { returns: TypeName, value: Expr },
    /// `RETURNS TABLE AS RETURN (query)`.
    Inline(Box<SelectStatement>),
}

/// `ENABLE TRIGGER names ON table` and its like; an empty list is ALL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchTriggers {
    pub enable: bool,
    pub names: Vec<Ident>,
    pub table: ObjectName,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateSequence {
    pub name: ObjectName,
    pub data_type: Option<TypeName>,
    pub start: Option<i64>,
    pub increment: Option<i64>,
    pub min: Option<i64>,
    pub max: Option<i64>,
    pub cycle: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSchema {
    /// `None`: named after the owner (`CREATE SCHEMA AUTHORIZATION owner`).
    pub name: Option<Ident>,
    pub owner: Option<Ident>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateUser {
    pub name: Ident,
    pub source: UserSource,
    pub default_schema: Option<Ident>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserSource {
    /// Neither was written: the login of the same name.
    SameLogin,
    Login(Ident),
    WithoutLogin,
    Password(Arc<str>),
    ExternalProvider,
}

/// GRANT, DENY or REVOKE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    pub action: PermissionAction,
    /// In capitals, words parted by one blank: `EXECUTE`, `VIEW DEFINITION`. `EXEC` is resolved.
    pub permissions: Vec<Ident>,
    /// `None`: on the database.
    pub on: Option<Securable>,
    pub principals: Vec<Ident>,
    pub with_grant_option: bool,
    /// REVOKE GRANT OPTION FOR.
    pub grant_option_for: bool,
    pub cascade: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionAction {
    Grant,
    Deny,
    Revoke,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Securable {
    pub class: SecurableClass,
    pub name: ObjectName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurableClass {
    /// `OBJECT::` or nothing.
    Object,
    Schema,
    Type,
    Database,
    Role,
    User,
}

// ---------------------------------------------------------------------------------------------------------------
// Control of flow and session

#[derive(Debug, Clone, PartialEq)]
pub struct VariableDeclaration {
    /// With its `@`.
    pub name: Ident,
    pub data_type: TypeName,
    pub value: Option<Expr>,
}

/// A session option that is ON or OFF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOption {
    NoCount,
    XactAbort,
    AnsiDefaults,
    AnsiNulls,
    AnsiNullDfltOff,
    AnsiNullDfltOn,
    AnsiPadding,
    AnsiWarnings,
    ArithAbort,
    ArithIgnore,
    ConcatNullYieldsNull,
    CursorCloseOnCommit,
    FmtOnly,
    ForcePlan,
    ImplicitTransactions,
    NoExec,
    NumericRoundAbort,
    ParseOnly,
    QuotedIdentifier,
    StatisticsIo,
    StatisticsTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Snapshot,
    Serializable,
}

/// The name after `BEGIN TRAN` and its like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionName {
    Name(Ident),
    Variable(Ident),
}

/// `[EXEC[UTE]] [@r =] target arguments`.
#[derive(Debug, Clone, PartialEq)]
pub struct Execute {
    pub return_variable: Option<Ident>,
    pub target: ExecuteTarget,
    pub arguments: Vec<Argument>,
    pub recompile: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ExecuteTarget {
    Procedure(ObjectName),
    /// `EXEC @name`: the procedure's name is in the variable.
    Variable(Ident),
    /// `EXEC ('text' + @v)`: there are no arguments then.
    Text(Expr),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// With its `@`, if passed by name.
    pub name: Option<Ident>,
    pub value: ArgumentValue,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ArgumentValue {
    /// A constant (a bare word is a string constant), a signed number, or a global variable.
    Constant(Expr),
    Variable {
        name: Ident,
        output: bool,
    },
    Default,
}

/// A cursor by name or in a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CursorName {
    Name { name: Ident, global: bool },
    Variable(Ident),
}

#[derive(Debug, Clone, PartialEq)]
pub struct CursorDefinition {
    /// In capitals, in the order written: `LOCAL`, `FAST_FORWARD`, `STATIC`, …
    pub options: Vec<Ident>,
    pub select: SelectStatement,
    /// `FOR UPDATE [OF columns]`; an empty list is all columns.
    pub for_update: Option<Vec<Ident>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fetch {
    pub direction: FetchDirection,
    pub cursor: CursorName,
    pub into: Vec<Ident>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FetchDirection {
    Next,
    Prior,
    First,
    Last,
    Absolute(Expr),
    Relative(Expr),
}

#[derive(Debug, Clone, PartialEq)]
pub struct RaiseError {
    /// A string, a message number or a variable.
    pub message: Expr,
    pub severity: Expr,
    pub state: Expr,
    pub arguments: Vec<Expr>,
    pub nowait: bool,
    pub log: bool,
    pub set_error: bool,
}

/// `DBCC CHECKIDENT (table, …)`.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckIdentity {
    /// The table's name as text.
    pub table: Expr,
    pub check: IdentityCheck<Expr>,
    /// WITH NO_INFOMSGS.
    pub silent: bool,
}

/// What DBCC CHECKIDENT does with the counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IdentityCheck<V> {
    /// NORESEED.
    Report,
    /// Nothing said, or RESEED without a value: the counter goes to the column's maximum if it lies behind.
    Correct,
    Reseed(V),
}

/// A statement and the line of its first word, counted from 1 in its batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    pub line: u32,
    pub kind: StatementKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StatementKind {
    Select(Box<SelectStatement>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Merge(Box<Merge>),
    TruncateTable(ObjectName),
    /// `DBCC CHECKIDENT`.
    CheckIdentity(Box<CheckIdentity>),

    CreateTable(Box<CreateTable>),
    CreateIndex(Box<CreateIndex>),
    CreateType(Box<CreateType>),
    CreateProcedure(Box<CreateProcedure>),
    CreateView(Box<CreateView>),
    CreateTrigger(Box<CreateTrigger>),
    CreateFunction(Box<CreateFunction>),
    /// `CREATE SYNONYM name FOR target`.
    CreateSynonym {
        name: ObjectName,
        target: ObjectName,
    },
    SwitchTriggers(SwitchTriggers),
    /// `ALTER SCHEMA schema TRANSFER object`, or a type's if `of_type`.
    TransferToSchema {
        schema: Ident,
        object: ObjectName,
        of_type: bool,
    },
    CreateSchema(CreateSchema),
    CreateSequence(Box<CreateSequence>),
    /// `CREATE ROLE name [AUTHORIZATION owner]`.
    CreateRole {
        name: Ident,
        owner: Option<Ident>,
    },
    CreateUser(CreateUser),
    /// `CREATE LOGIN name WITH PASSWORD = '…' [, DEFAULT_DATABASE = name]`. CHECK_POLICY and CHECK_EXPIRATION are
    /// read and left out: the dev server has no password policy. Without a password: `FROM WINDOWS`, `FROM EXTERNAL
    /// PROVIDER`.
    CreateLogin {
        name: Ident,
        password: Option<Arc<str>>,
        default_database: Option<Ident>,
    },
    /// `ALTER LOGIN name WITH PASSWORD = '…'`.
    AlterLogin {
        name: Ident,
        password: Arc<str>,
    },
    CreateDatabase {
        name: Ident,
        collation: Option<Ident>,
    },
    AlterTable(Box<AlterTable>),
    AlterIndex(AlterIndex),
    AlterDatabase(AlterDatabase),
    /// `ALTER ROLE role ADD MEMBER member`, or DROP MEMBER if not `add`.
    AlterRole {
        role: Ident,
        add: bool,
        member: Ident,
    },
    Drop(Drop),
    DropIndex(DropIndex),
    Permission(Permission),
    Use(Ident),
    /// `KILL session`
    Kill(u32),

    /// `BEGIN … END`.
    Block(Vec<Statement>),
    If {
        condition: Predicate,
        then: Box<Statement>,
        otherwise: Option<Box<Statement>>,
    },
    While {
        condition: Predicate,
        body: Box<Statement>,
    },
    Break,
    Continue,
    Goto(Ident),
    /// `name:`.
    Label(Ident),
    Return(Option<Expr>),
    TryCatch {
        body: Vec<Statement>,
        handler: Vec<Statement>,
    },
    /// `THROW` alone, or with number, message and state (constants or variables).
    Throw(Option<Box<(Expr, Expr, Expr)>>),
    RaiseError(Box<RaiseError>),
    Print(Expr),
    Declare(Vec<VariableDeclaration>),
    /// `DECLARE @t TABLE (…)`.
    DeclareTable {
        name: Ident,
        definition: Box<TableDefinition>,
    },
    /// `DECLARE name CURSOR …`.
    DeclareCursor {
        name: Ident,
        definition: Box<CursorDefinition>,
    },
    /// `SET @v = CURSOR …`.
    SetCursor {
        name: Ident,
        definition: Box<CursorDefinition>,
    },
    /// `SET @v = expr`, `SET @v += expr`.
    SetVariable {
        name: Ident,
        op: AssignOp,
        value: Expr,
    },
    /// `SET a, b ON`.
    SetOptions {
        options: Vec<SessionOption>,
        on: bool,
    },
    SetIsolationLevel(IsolationLevel),
    /// Milliseconds; -1 waits without end. A constant (maybe signed) or a variable.
    SetLockTimeout(Expr),
    /// LOW, NORMAL and HIGH are -5, 0 and 5. A constant (maybe signed) or a variable.
    SetDeadlockPriority(Expr),
    SetIdentityInsert {
        table: ObjectName,
        on: bool,
    },
    SetContextInfo(Expr),
    SetRowCount(Expr),
    /// A constant (maybe signed).
    SetTextSize(Expr),
    SetDateFirst(Expr),
    /// A string: `us_english`, `mdy`.
    SetLanguage(Expr),
    SetDateFormat(Expr),
    BeginTransaction(Option<TransactionName>),
    CommitTransaction(Option<TransactionName>),
    RollbackTransaction(Option<TransactionName>),
    SaveTransaction(TransactionName),
    Execute(Box<Execute>),
    /// `EXECUTE AS USER = 'name'`, or LOGIN if `login`.
    ExecuteAs {
        login: bool,
        name: Expr,
    },
    Revert,
    /// A string constant or a variable.
    WaitForDelay(Expr),
    WaitForTime(Expr),
    OpenCursor(CursorName),
    Fetch(Box<Fetch>),
    CloseCursor(CursorName),
    DeallocateCursor(CursorName),
}
