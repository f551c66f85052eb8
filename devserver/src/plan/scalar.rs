//! Bound expressions: what the binder makes of the syntax tree. Every name is an ordinal, every type is known, and
//! conversions that T-SQL makes implicitly stand in the tree. [`crate::execute::evaluate`] computes them.

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::plan::collation_label::{CollationLabel, collation_conflict};
use crate::plan::query::QueryPlan;
use crate::plan::system_function::SystemFunction;
use crate::value::builtin::new_id::CHECKSUM_OF_NEWID;
use crate::value::{BinaryOp, Builtin, Collation, DatePart, Pattern, SqlType, Value};

/// The collation two operands are compared with; 468 where there is none.
pub fn comparison_collation(left: &Scalar, right: &Scalar, operation: &str) -> SqlResult<Collation> {
    use CollationLabel::*;
    if let (Implicit(a), Implicit(b)) = (left.label, right.label)
        && a != b
    {
        return Err(collation_conflict(a, b, operation));
    }
    match left.label.combine_in(right.label, operation)? {
        Implicit(collation) | Explicit(collation) => Ok(collation),
        Coercible => Ok(Collation::default()),
        Conflict => Err(SqlError::not_supported("a comparison of text whose collations conflict")),
    }
}

/// An expression with what is known of its result. Two are equal if they compute the same thing from the same columns: so
/// GROUP BY recognises its expressions.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar {
    pub node: Node,
    pub ty: SqlType,
    pub nullable: bool,
    pub label: CollationLabel,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    Constant(Value),
    /// A column of the row that stands in a slot of the statement.
    Column {
        slot: usize,
        ordinal: usize,
    },
    /// A computed column of the row that stands in a slot: its expression, which is evaluated when it is read.
    Computed {
        slot: usize,
        ordinal: usize,
        value: Box<Scalar>,
    },
    /// A local variable or parameter, by its place among the declarations.
    Variable(usize),
    Negative(Box<Scalar>),
    Binary(BinaryOp, Box<Scalar>, Box<Scalar>),
    /// CAST, CONVERT and implicit conversions, to the type of the expression. `attempt`: NULL instead of an error.
    Convert {
        operand: Box<Scalar>,
        style: Option<Box<Scalar>>,
        explicit: bool,
        attempt: bool,
    },
    /// CASE, IIF and NULLIF; the results have the type of the expression already.
    Case {
        branches: Vec<(Condition, Scalar)>,
        otherwise: Option<Box<Scalar>>,
    },
    /// COALESCE; the arguments have the type of the expression already.
    Coalesce(Vec<Scalar>),
    Function(Box<FunctionNode>),
    System(SystemFunction, Vec<Scalar>),
    /// `(SELECT …)` as a value.
    Subquery(Arc<QueryPlan>),
    /// `NEXT VALUE FOR`: the number of the sequence.
    NextValue(i32),
    /// A scalar function of several statements.
    UserFunction {
        /// Its place among the functions that the plan calls ([`crate::plan::cached_plan::BoundPlan::functions`]).
        place: usize,
        arguments: Vec<Scalar>,
    },
}

impl Node {
    /// See [`Scalar::is_apart`].
    pub fn is_apart(&self) -> bool {
        !matches!(self, Node::System(..) | Node::NextValue(_) | Node::Subquery(_) | Node::UserFunction { .. })
    }

    /// The slots it reads itself, apart from what the nodes below it read. A computed column reads its row even where
    /// its expression has no columns: in an outer join it is NULL where there is no row.
    fn own_slots(&self) -> SlotSet {
        match self {
            Node::Column { slot, .. } | Node::Computed { slot, .. } => slot_bit(*slot),
            Node::Subquery(plan) => plan.outer_slots,
            _ => 0,
        }
    }

    /// It gives another value each time it is asked.
    pub fn is_volatile(&self) -> bool {
        match self {
            Node::NextValue(_) => true,
            Node::Function(call) => matches!(call.function.name, "NEWID" | CHECKSUM_OF_NEWID),
            _ => false,
        }
    }
}

/// A call of a function that depends on its arguments (and the clock) only.
#[derive(Clone, PartialEq)]
pub struct FunctionNode {
    pub function: &'static Builtin,
    pub arguments: Vec<Scalar>,
    pub types: Vec<SqlType>,
    pub date_part: Option<DatePart>,
    pub collation: Collation,
}

impl std::fmt::Debug for FunctionNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?})", self.function.name, self.arguments)
    }
}

/// A comparison's operator.
pub use crate::tsql::ast::CompareOp;

/// A bound search condition.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    /// Both sides have the same type.
    Compare {
        op: CompareOp,
        left: Scalar,
        right: Scalar,
        collation: Collation,
    },
    /// All have the same type.
    InList {
        value: Scalar,
        list: Vec<Scalar>,
        collation: Collation,
    },
    /// `value IN (SELECT …)`; the value has the type of the query's column.
    InQuery {
        value: Scalar,
        query: Arc<QueryPlan>,
        collation: Collation,
    },
    Like(Box<LikeCondition>),
    IsNull(Scalar),
    Exists(Arc<QueryPlan>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct LikeCondition {
    pub value: Scalar,
    pub pattern: Scalar,
    /// One side is of a Unicode type, which changes how trailing blanks count.
    pub unicode: bool,
    pub collation: Collation,
    /// The pattern, if it is a constant.
    pub prepared: Option<Pattern>,
}

/// The slots an expression reads. A statement has at most 64.
pub type SlotSet = u64;

pub fn slot_bit(slot: usize) -> SlotSet {
    1 << slot
}

impl Scalar {
    pub fn constant(value: Value, ty: SqlType) -> Scalar {
        let nullable = value == Value::Null;
        Scalar { node: Node::Constant(value), ty, nullable, label: CollationLabel::Coercible }
    }

    pub fn null() -> Scalar {
        Scalar::constant(Value::Null, SqlType::Int)
    }

    /// The value of a constant expression.
    pub fn as_constant(&self) -> Option<&Value> {
        match &self.node {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The slot and ordinal of a plain column.
    pub fn as_column(&self) -> Option<(usize, usize)> {
        match self.node {
            Node::Column { slot, ordinal } => Some((slot, ordinal)),
            _ => None,
        }
    }

    /// The slot and ordinal of a plain column or of a computed one.
    pub fn column_place(&self) -> Option<(usize, usize)> {
        match self.node {
            Node::Computed { slot, ordinal, .. } => Some((slot, ordinal)),
            _ => self.as_column(),
        }
    }

    pub fn collation(&self) -> Collation {
        match self.label {
            CollationLabel::Implicit(collation) | CollationLabel::Explicit(collation) => collation,
            CollationLabel::Coercible | CollationLabel::Conflict => Collation::default(),
        }
    }

    /// The slots the expression reads, those of subqueries included.
    pub fn slots(&self) -> SlotSet {
        let mut slots = 0;
        self.visit(&mut |node| slots |= node.own_slots());
        slots
    }

    /// It is computed from rows and variables alone, with nothing of the database.
    pub fn is_apart(&self) -> bool {
        let mut is_apart = true;
        self.visit(&mut |node| is_apart &= node.is_apart());
        is_apart
    }

    /// It has the same value for each row of a statement that sets no variables. The clock does not go on meanwhile.
    pub fn is_constant_in_statement(&self) -> bool {
        let mut is_constant = true;
        self.visit(&mut |node| {
            is_constant &= node.is_apart() && !node.is_volatile() && node.own_slots() == 0;
        });
        is_constant
    }

    /// Calls `f` for this node and every node below it. Subqueries' own nodes are not visited, their outer columns are
    /// in [`QueryPlan::outer_slots`]; the plans in conditions are passed as a subquery node.
    pub fn visit(&self, f: &mut dyn FnMut(&Node)) {
        f(&self.node);
        match &self.node {
            Node::Constant(_) | Node::Column { .. } | Node::Variable(_) | Node::Subquery(_) | Node::NextValue(_) => {}
            Node::Negative(operand) | Node::Computed { value: operand, .. } => operand.visit(f),
            Node::Binary(_, left, right) => {
                left.visit(f);
                right.visit(f);
            }
            Node::Convert { operand, style, .. } => {
                operand.visit(f);
                if let Some(style) = style {
                    style.visit(f);
                }
            }
            Node::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    condition.visit(f);
                    result.visit(f);
                }
                if let Some(otherwise) = otherwise {
                    otherwise.visit(f);
                }
            }
            Node::Coalesce(arguments) | Node::System(_, arguments) | Node::UserFunction { arguments, .. } => {
                for argument in arguments {
                    argument.visit(f);
                }
            }
            Node::Function(call) => {
                for argument in &call.arguments {
                    argument.visit(f);
                }
            }
        }
    }

    /// Replaces nodes from the top down: where `f` gives a new expression, it stands in the place of the old one and
    /// is not looked into again.
    pub fn replace(&mut self, f: &mut dyn FnMut(&Scalar) -> SqlResult<Option<Scalar>>) -> SqlResult<()> {
        if let Some(replacement) = f(self)? {
            *self = replacement;
            return Ok(());
        }
        match &mut self.node {
            Node::Constant(_) | Node::Column { .. } | Node::Variable(_) | Node::Subquery(_) | Node::NextValue(_) => {}
            Node::Negative(operand) | Node::Computed { value: operand, .. } => operand.replace(f)?,
            Node::Binary(_, left, right) => {
                left.replace(f)?;
                right.replace(f)?;
            }
            Node::Convert { operand, style, .. } => {
                operand.replace(f)?;
                if let Some(style) = style {
                    style.replace(f)?;
                }
            }
            Node::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    condition.replace(f)?;
                    result.replace(f)?;
                }
                if let Some(otherwise) = otherwise {
                    otherwise.replace(f)?;
                }
            }
            Node::Coalesce(arguments) | Node::System(_, arguments) | Node::UserFunction { arguments, .. } => {
                for argument in arguments {
                    argument.replace(f)?;
                }
            }
            Node::Function(call) => {
                for argument in &mut call.arguments {
                    argument.replace(f)?;
                }
            }
        }
        Ok(())
    }
}

impl Condition {
    pub fn slots(&self) -> SlotSet {
        let mut slots = 0;
        self.visit(&mut |node| slots |= node.own_slots());
        slots
    }

    /// See [`Scalar::visit`].
    pub fn visit(&self, f: &mut dyn FnMut(&Node)) {
        match self {
            Condition::And(terms) | Condition::Or(terms) => {
                for term in terms {
                    term.visit(f);
                }
            }
            Condition::Not(term) => term.visit(f),
            Condition::Compare { left, right, .. } => {
                left.visit(f);
                right.visit(f);
            }
            Condition::InList { value, list, .. } => {
                value.visit(f);
                for item in list {
                    item.visit(f);
                }
            }
            Condition::InQuery { value, query, .. } => {
                value.visit(f);
                f(&Node::Subquery(Arc::clone(query)));
            }
            Condition::Like(like) => {
                like.value.visit(f);
                like.pattern.visit(f);
            }
            Condition::IsNull(value) => value.visit(f),
            Condition::Exists(query) => f(&Node::Subquery(Arc::clone(query))),
        }
    }

    /// See [`Scalar::replace`].
    pub fn replace(&mut self, f: &mut dyn FnMut(&Scalar) -> SqlResult<Option<Scalar>>) -> SqlResult<()> {
        match self {
            Condition::And(terms) | Condition::Or(terms) => {
                for term in terms {
                    term.replace(f)?;
                }
            }
            Condition::Not(term) => term.replace(f)?,
            Condition::Compare { left, right, .. } => {
                left.replace(f)?;
                right.replace(f)?;
            }
            Condition::InList { value, list, .. } => {
                value.replace(f)?;
                for item in list {
                    item.replace(f)?;
                }
            }
            Condition::InQuery { value, .. } => value.replace(f)?,
            Condition::Like(like) => {
                like.value.replace(f)?;
                like.pattern.replace(f)?;
            }
            Condition::IsNull(value) => value.replace(f)?,
            Condition::Exists(_) => {}
        }
        Ok(())
    }

    /// Splits conditions joined by AND.
    pub fn into_conjuncts(self, out: &mut Vec<Condition>) {
        match self {
            Condition::And(terms) => {
                for term in terms {
                    term.into_conjuncts(out);
                }
            }
            other => out.push(other),
        }
    }
}

/// Whether values of the two types can be compared as they are, because they are represented alike.
pub fn compares_alike(a: SqlType, b: SqlType) -> bool {
    use SqlType::*;
    if a == b || (a.is_character() && b.is_character()) || (a.is_binary() && b.is_binary()) {
        return true;
    }
    matches!((a, b), (Time(_), Time(_)) | (DateTime2(_), DateTime2(_)) | (DateTimeOffset(_), DateTimeOffset(_)))
}

pub(super) fn flipped(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Less => CompareOp::Greater,
        CompareOp::LessOrEqual => CompareOp::GreaterOrEqual,
        CompareOp::Greater => CompareOp::Less,
        CompareOp::GreaterOrEqual => CompareOp::LessOrEqual,
        CompareOp::Equal | CompareOp::NotEqual => op,
    }
}
