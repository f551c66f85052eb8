//! Constants, scalar expressions and search conditions.

use std::cmp::Ordering;

use crate::tsql::ast::name::{ColumnRef, Ident, ObjectName, TypeName};
use crate::tsql::ast::query::{OrderItem, Query};
use crate::value::BinaryOp;
use std::sync::Arc;

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Null,
    /// An integer that fits `int`.
    Int(i32),
    /// Digits with an optional point: a number with a point, or an integer too large for `int`, which T-SQL types as
    /// `numeric`. At most 38 digits.
    Decimal(Arc<str>),
    /// `'…'`, or `N'…'` if `national`.
    String {
        value: Arc<str>,
        national: bool,
    },
    /// `0x…`.
    Binary(Arc<[u8]>),
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
    /// `-expr`.
    Negative(Box<Expr>),
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
    /// The first argument of `DATEADD`, `DATEDIFF` and `DATEDIFF_BIG`; stands nowhere else.
    DatePart(crate::value::datetime::DatePart),
    /// DEFAULT, which is an argument of a function and nothing else.
    Default,
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
}

/// `name([DISTINCT] arguments) [OVER (…)]`.
///
/// `CURRENT_TIMESTAMP`, `CURRENT_USER`, `SESSION_USER`, `SYSTEM_USER` and `USER` stand here too, without arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall {
    pub name: ObjectName,
    pub distinct: bool,
    /// `COUNT(*)`, `COUNT_BIG(*)`: there are no arguments then.
    pub star: bool,
    pub arguments: Vec<Expr>,
    pub over: Option<Window>,
}

/// `OVER (PARTITION BY … ORDER BY …)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    pub partition_by: Vec<Expr>,
    pub order_by: Vec<OrderItem>,
}

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

impl CompareOp {
    /// Whether it holds between two values of this order.
    pub fn holds_for(self, order: Ordering) -> bool {
        match self {
            CompareOp::Equal => order.is_eq(),
            CompareOp::NotEqual => order.is_ne(),
            CompareOp::Less => order.is_lt(),
            CompareOp::LessOrEqual => order.is_le(),
            CompareOp::Greater => order.is_gt(),
            CompareOp::GreaterOrEqual => order.is_ge(),
        }
    }
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
    },
    IsNull {
        negated: bool,
        value: Expr,
    },
    Exists(Box<Query>),
}
