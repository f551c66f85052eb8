//! Binds scalar expressions and search conditions.

use std::sync::Arc;

use crate::bind::binder::{Binder, system_type_for_cast};
use crate::error::{SqlError, SqlResult};
use crate::plan::cell::Uses;
use crate::plan::next_value_forbidden::ForbiddenPlace;
use crate::plan::scalar::{
    CollationLabel, CompareOp, Condition, LikeCondition, Node, Scalar, compares_alike, comparison_collation,
};
use crate::tsql::ast::{self, Expr, Literal, Predicate, TypeName};
use crate::value::{self, BinaryOp, Collation, Length, Pattern, SqlType, UnaryOp, Value};

/// The longest `varbinary(n)`; a longer constant is `varbinary(max)`.
const MAX_BINARY: usize = 8000;

pub fn binary_op(op: ast::BinaryOp) -> BinaryOp {
    match op {
        ast::BinaryOp::Add => BinaryOp::Add,
        ast::BinaryOp::Subtract => BinaryOp::Subtract,
        ast::BinaryOp::Multiply => BinaryOp::Multiply,
        ast::BinaryOp::Divide => BinaryOp::Divide,
        ast::BinaryOp::Modulo => BinaryOp::Modulo,
        ast::BinaryOp::BitAnd => BinaryOp::BitAnd,
        ast::BinaryOp::BitOr => BinaryOp::BitOr,
        ast::BinaryOp::BitXor => BinaryOp::BitXor,
    }
}

pub fn literal(literal: &Literal) -> SqlResult<Scalar> {
    Ok(match literal {
        Literal::Null => Scalar::null(),
        Literal::Int(number) => Scalar::constant(Value::Int(*number), SqlType::Int),
        Literal::Decimal(digits) => {
            let (value, ty) = value::literal::number(digits)?;
            Scalar::constant(value, ty)
        }
        Literal::Float(number) => Scalar::constant(Value::Float(*number), SqlType::Float),
        Literal::String { value, national } => {
            let (value, ty) = value::literal::string(value, *national);
            Scalar::constant(value, ty)
        }
        Literal::Binary(bytes) => {
            let length = if bytes.len() > MAX_BINARY { Length::Max } else { Length::Limit(bytes.len().max(1) as u16) };
            Scalar::constant(Value::Bytes(Arc::clone(bytes)), SqlType::VarBinary(length))
        }
    })
}

/// The expression, converted implicitly to a type. Conversions of constants are made at once.
pub fn implicit(mut scalar: Scalar, ty: SqlType) -> SqlResult<Scalar> {
    if scalar.ty == ty {
        return Ok(scalar);
    }
    if let Node::Constant(Value::Null) = scalar.node {
        scalar.ty = ty;
        return Ok(scalar);
    }
    value::check_conversion(scalar.ty, ty, false)?;
    if let Node::Constant(constant) = &scalar.node {
        // A conversion that fails is an error of the moment it is computed, not of the binding.
        if let Ok(converted) = value::convert(constant.clone(), scalar.ty, ty, None, false) {
            return Ok(Scalar { label: scalar.label, ..Scalar::constant(converted, ty) });
        }
    }
    let (nullable, label) = (scalar.nullable, scalar.label);
    let node = Node::Convert { operand: Box::new(scalar), style: None, explicit: false, attempt: false };
    Ok(Scalar { node, ty, nullable, label })
}

/// An integer constant beside an integer column takes the column's type if it fits: the comparison is the same, and
/// an index on the column can be used.
fn constant_of_type(scalar: &Scalar, ty: SqlType) -> Option<Scalar> {
    let is_integral = |ty: SqlType| ty.is_integer() || ty == SqlType::Bit;
    if !is_integral(scalar.ty) || !is_integral(ty) {
        return None;
    }
    let number = scalar.as_constant()?.as_i64()?;
    if ty == SqlType::Bit && !(0..=1).contains(&number) {
        return None;
    }
    let converted = value::convert(scalar.as_constant()?.clone(), scalar.ty, ty, None, false).ok()?;
    Some(Scalar::constant(converted, ty))
}

/// Both sides of a comparison, brought to one type.
pub fn comparable(left: Scalar, right: Scalar) -> SqlResult<(Scalar, Scalar)> {
    if compares_alike(left.ty, right.ty) {
        return Ok((left, right));
    }
    if left.as_column().is_some()
        && let Some(right) = constant_of_type(&right, left.ty)
    {
        return Ok((left, right));
    }
    if right.as_column().is_some()
        && let Some(left) = constant_of_type(&left, right.ty)
    {
        return Ok((left, right));
    }
    let ty = left.ty.comparison_type(right.ty)?;
    Ok((implicit(left, ty)?, implicit(right, ty)?))
}

pub fn compare_condition(op: CompareOp, left: Scalar, right: Scalar) -> SqlResult<Condition> {
    let collation = if left.ty.is_character() && right.ty.is_character() {
        comparison_collation(&left, &right)?
    } else {
        Collation::default()
    };
    let (left, right) = comparable(left, right)?;
    Ok(Condition::Compare { op, left, right, collation })
}

/// Some expressions, all converted to their common type (CASE, COALESCE, IIF).
fn common_type(scalars: &[&Scalar]) -> SqlResult<(SqlType, CollationLabel)> {
    let mut ty: Option<SqlType> = None;
    let mut label = CollationLabel::Coercible;
    for scalar in scalars {
        if let Some(Value::Null) = scalar.as_constant() {
            continue;
        }
        ty = Some(match ty {
            None => scalar.ty,
            Some(ty) => ty.combine(scalar.ty)?,
        });
        label = label.combine(scalar.label)?;
    }
    Ok((ty.unwrap_or(SqlType::Int), label))
}

/// The constant NULL as written.
pub fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(Literal::Null))
}

impl Binder<'_> {
    pub fn bind_expr(&mut self, expr: &Expr) -> SqlResult<Scalar> {
        match expr {
            Expr::SimpleCase { .. }
            | Expr::SearchedCase { .. }
            | Expr::Iif { .. }
            | Expr::NullIf(..)
            | Expr::Coalesce(_) => self.without_next_value(ForbiddenPlace::Conditional, |b| b.bind_conditional(expr)),

            Expr::Literal(constant) => literal(constant),
            Expr::Column(column) => self.resolve_column(column),
            Expr::Variable(name) if self.function_arguments.is_some() => {
                self.function_argument(name).expect("a function is being bound")
            }
            Expr::Variable(name) => {
                let (place, ty) = self.declarations.scalar(name)?;
                Ok(Scalar { node: Node::Variable(place), ty, nullable: true, label: CollationLabel::Coercible })
            }
            Expr::GlobalVariable(name) => self.bind_global_variable(name),
            Expr::Unary { op, operand } => self.bind_unary(*op, operand),
            Expr::Binary { op, left, right } => {
                let left = self.bind_expr(left)?;
                let right = self.bind_expr(right)?;
                bind_binary(binary_op(*op), left, right)
            }
            Expr::Cast { attempt, expr, to } => self.bind_convert(*attempt, expr, to, None),
            Expr::Convert { attempt, to, expr, style } => self.bind_convert(*attempt, expr, to, style.as_deref()),
            Expr::Function(call) => self.bind_function(call),
            Expr::DatePart(_) => Err(SqlError::not_supported("a date part in this place")),
            Expr::Collate { expr, collation } => {
                let mut scalar = self.bind_expr(expr)?;
                if !scalar.ty.is_character() {
                    return Err(SqlError::new(
                        447,
                        format!("Expression type {} is invalid for COLLATE clause.", scalar.ty.name()),
                    ));
                }
                scalar.label = CollationLabel::Explicit(self.collation(collation)?);
                Ok(scalar)
            }
            Expr::NextValueFor { sequence: name, over } => {
                self.uses = Uses::Database;
                self.next_values.all += 1;
                self.next_values.without_over += usize::from(over.is_none());
                let found = self.find_object(name)?;
                if let Some(crate::catalog::object::Object::Sequence(sequence)) = &found {
                    self.need_object("UPDATE", sequence.id, &sequence.schema, &sequence.name);
                }
                match found {
                    Some(crate::catalog::object::Object::Sequence(sequence)) if over.is_some() => {
                        let window = over.as_ref().expect("looked at just now");
                        let kind = crate::plan::query::WindowKind::NextValue(sequence.id);
                        let bound = self.bind_over(kind, window, SqlType::BigInt, CollationLabel::Coercible)?;
                        implicit(bound, sequence.ty)
                    }
                    Some(crate::catalog::object::Object::Sequence(sequence)) => Ok(Scalar {
                        node: Node::NextValue(sequence.id),
                        ty: sequence.ty,
                        nullable: false,
                        label: CollationLabel::Coercible,
                    }),
                    _ => Err(crate::bind::binder::invalid_object(name)),
                }
            }
            Expr::Subquery(query) => {
                let plan = self.bind_subquery(query)?;
                if plan.columns.len() != 1 {
                    return Err(only_one_expression());
                }
                let column = &plan.columns[0];
                let label = if column.ty.is_character() {
                    CollationLabel::Implicit(column.collation)
                } else {
                    CollationLabel::Coercible
                };
                Ok(Scalar { ty: column.ty, nullable: true, label, node: Node::Subquery(Arc::new(plan)) })
            }
            Expr::MergeAction => self.bind_merge_action(),
        }
    }

    /// What evaluates some of its parts only.
    fn bind_conditional(&mut self, expr: &Expr) -> SqlResult<Scalar> {
        match expr {
            Expr::SimpleCase { operand, branches, otherwise } => {
                let mut bound = Vec::with_capacity(branches.len());
                for (value, result) in branches {
                    let operand = self.bind_expr(operand)?;
                    let value = self.bind_expr(value)?;
                    let condition = compare_condition(CompareOp::Equal, operand, value)?;
                    bound.push((condition, self.bind_expr(result)?));
                }
                self.finish_case(bound, otherwise.as_deref())
            }
            Expr::SearchedCase { branches, otherwise } => {
                let mut bound = Vec::with_capacity(branches.len());
                for (condition, result) in branches {
                    bound.push((self.bind_condition(condition)?, self.bind_expr(result)?));
                }
                self.finish_case(bound, otherwise.as_deref())
            }
            Expr::Iif { condition, then, otherwise } => {
                let branches = vec![(self.bind_condition(condition)?, self.bind_expr(then)?)];
                self.finish_case(branches, Some(otherwise))
            }
            Expr::NullIf(value, other) => {
                if is_null(value) {
                    return Err(SqlError::new(
                        4151,
                        "The type of the first argument to NULLIF cannot be the NULL constant because the type of the \
                         first argument has to be known.",
                    ));
                }
                let result = self.bind_expr(value)?;
                let left = self.bind_expr(value)?;
                let right = self.bind_expr(other)?;
                let condition = compare_condition(CompareOp::Equal, left, right)?;
                let null = Scalar { ty: result.ty, ..Scalar::null() };
                let (ty, label) = (result.ty, result.label);
                let node = Node::Case { branches: vec![(condition, null)], otherwise: Some(Box::new(result)) };
                Ok(Scalar { node, ty, nullable: true, label })
            }
            Expr::Coalesce(arguments) => {
                if arguments.iter().all(is_null) {
                    return Err(SqlError::new(
                        4127,
                        "At least one of the arguments to COALESCE must be an expression that is not the NULL constant.",
                    ));
                }
                let mut bound = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    bound.push(self.bind_expr(argument)?);
                }
                let (ty, label) = common_type(&bound.iter().collect::<Vec<_>>())?;
                let nullable = bound.iter().all(|argument| argument.nullable);
                let mut converted = Vec::with_capacity(bound.len());
                for argument in bound {
                    converted.push(implicit(argument, ty)?);
                }
                Ok(Scalar { node: Node::Coalesce(converted), ty, nullable, label })
            }
            _ => unreachable!("bind_expr has seen to it"),
        }
    }

    fn bind_unary(&mut self, op: ast::UnaryOp, operand: &Expr) -> SqlResult<Scalar> {
        let op = match op {
            ast::UnaryOp::Plus => UnaryOp::Plus,
            ast::UnaryOp::Minus => UnaryOp::Minus,
            ast::UnaryOp::BitNot => UnaryOp::BitNot,
        };
        let operand = self.bind_expr(operand)?;
        let ty = value::unary_type(op, operand.ty)?;
        if let Some(constant) = operand.as_constant()
            && let Ok(result) = value::unary(op, constant, operand.ty)
        {
            return Ok(Scalar::constant(result, ty));
        }
        let (nullable, label) = (operand.nullable, operand.label);
        Ok(Scalar { node: Node::Unary(op, Box::new(operand)), ty, nullable, label })
    }

    fn finish_case(&mut self, branches: Vec<(Condition, Scalar)>, otherwise: Option<&Expr>) -> SqlResult<Scalar> {
        let otherwise = match otherwise {
            Some(otherwise) => Some(self.bind_expr(otherwise)?),
            None => None,
        };
        let results: Vec<&Scalar> = branches.iter().map(|(_, result)| result).chain(&otherwise).collect();
        let all_null = results.iter().all(|result| matches!(result.node, Node::Constant(Value::Null)));
        if all_null {
            return Err(SqlError::new(
                8133,
                "At least one of the result expressions in a CASE specification must be an expression other than the \
                 NULL constant.",
            ));
        }
        let (ty, label) = common_type(&results)?;
        let nullable = otherwise.is_none() || results.iter().any(|result| result.nullable);
        let mut converted = Vec::with_capacity(branches.len());
        for (condition, result) in branches {
            converted.push((condition, implicit(result, ty)?));
        }
        let otherwise = match otherwise {
            Some(otherwise) => Some(Box::new(implicit(otherwise, ty)?)),
            None => None,
        };
        Ok(Scalar { node: Node::Case { branches: converted, otherwise }, ty, nullable, label })
    }

    fn bind_convert(&mut self, attempt: bool, expr: &Expr, to: &TypeName, style: Option<&Expr>) -> SqlResult<Scalar> {
        let operand = self.bind_expr(expr)?;
        let ty = match system_type_for_cast(to)? {
            Some(ty) => ty,
            None => self.resolve_type(to)?,
        };
        let style = match style {
            Some(style) => Some(Box::new(self.bind_expr(style)?)),
            None => None,
        };
        if let Some(Value::Null) = operand.as_constant() {
            return Ok(Scalar { ty, ..operand });
        }
        value::check_conversion(operand.ty, ty, true)?;
        let nullable = operand.nullable || attempt;
        let label = if operand.ty.is_character() { operand.label } else { CollationLabel::Coercible };
        // A conversion that fails is an error of the moment it is computed, not of the binding.
        if let (Some(constant), None) = (operand.as_constant(), &style)
            && let Ok(converted) = value::convert(constant.clone(), operand.ty, ty, None, true)
        {
            return Ok(Scalar { nullable, label, ..Scalar::constant(converted, ty) });
        }
        let node = Node::Convert { operand: Box::new(operand), style, explicit: true, attempt };
        Ok(Scalar { node, ty, nullable, label })
    }

    pub fn bind_condition(&mut self, predicate: &Predicate) -> SqlResult<Condition> {
        match predicate {
            Predicate::And(terms) => {
                let mut bound = Vec::with_capacity(terms.len());
                for term in terms {
                    bound.push(self.bind_condition(term)?);
                }
                Ok(Condition::And(bound))
            }
            Predicate::Or(terms) => {
                let mut bound = Vec::with_capacity(terms.len());
                for term in terms {
                    bound.push(self.bind_condition(term)?);
                }
                Ok(as_list(&bound).unwrap_or(Condition::Or(bound)))
            }
            Predicate::Updated(column) => self.bind_updated(column),
            Predicate::Not(term) => Ok(Condition::Not(Box::new(self.bind_condition(term)?))),
            Predicate::Compare { op, left, right } => {
                let left = self.bind_expr(left)?;
                let right = self.bind_expr(right)?;
                compare_condition(*op, left, right)
            }
            Predicate::Between { negated, value, low, high } => {
                let low = self.bind_expr(low)?;
                let high = self.bind_expr(high)?;
                let from = compare_condition(CompareOp::GreaterOrEqual, self.bind_expr(value)?, low)?;
                let to = compare_condition(CompareOp::LessOrEqual, self.bind_expr(value)?, high)?;
                let between = Condition::And(vec![from, to]);
                Ok(negate_if(*negated, between))
            }
            Predicate::InList { negated, value, list } => {
                let condition = self.bind_in_list(value, list)?;
                Ok(negate_if(*negated, condition))
            }
            Predicate::InQuery { negated, value, query } => {
                let value = self.bind_expr(value)?;
                let plan = self.bind_subquery(query)?;
                if plan.columns.len() != 1 {
                    return Err(only_one_expression());
                }
                let column = &plan.columns[0];
                let item_label = if column.ty.is_character() {
                    CollationLabel::Implicit(column.collation)
                } else {
                    CollationLabel::Coercible
                };
                let item = Scalar { label: item_label, ..Scalar::constant(Value::Null, column.ty) };
                let collation = if value.ty.is_character() && column.ty.is_character() {
                    comparison_collation(&value, &item)?
                } else {
                    Collation::default()
                };
                let (value, plan) = if compares_alike(value.ty, column.ty) {
                    (value, plan)
                } else {
                    let ty = value.ty.comparison_type(column.ty)?;
                    (implicit(value, ty)?, self.with_column_types(plan, &[ty])?)
                };
                Ok(negate_if(*negated, Condition::InQuery { value, query: Arc::new(plan), collation }))
            }
            Predicate::Like { negated, value, pattern, escape } => {
                let value = self.bind_text(value)?;
                let pattern = self.bind_text(pattern)?;
                let escape = match escape {
                    Some(escape) => Some(self.bind_text(escape)?),
                    None => None,
                };
                let collation = comparison_collation(&value, &pattern)?;
                let unicode = value.ty.is_unicode() || pattern.ty.is_unicode();
                let constant_escape = match &escape {
                    Some(escape) => escape.as_constant().and_then(Value::as_str).map(Some),
                    None => Some(None),
                };
                let constant_pattern = pattern.as_constant().and_then(Value::as_str);
                let prepared = match (constant_pattern, constant_escape) {
                    (Some(pattern), Some(escape)) => Some(Pattern::new(pattern, escape, unicode, collation)?),
                    _ => None,
                };
                let like = LikeCondition { value, pattern, escape, unicode, collation, prepared };
                Ok(negate_if(*negated, Condition::Like(Box::new(like))))
            }
            Predicate::IsNull { negated, value } => {
                let value = self.bind_expr(value)?;
                Ok(negate_if(*negated, Condition::IsNull(value)))
            }
            Predicate::Exists(query) => Ok(Condition::Exists(Arc::new(self.bind_subquery(query)?))),
        }
    }

    /// An operand of LIKE: everything that is no text is converted to it.
    fn bind_text(&mut self, expr: &Expr) -> SqlResult<Scalar> {
        let scalar = self.bind_expr(expr)?;
        if scalar.ty.is_character() {
            return Ok(scalar);
        }
        implicit(scalar, SqlType::VarChar(Length::Limit(8000)))
    }

    fn bind_in_list(&mut self, value: &Expr, list: &[Expr]) -> SqlResult<Condition> {
        let value = self.bind_expr(value)?;
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            items.push(self.bind_expr(item)?);
        }
        let mut collation = Collation::default();
        for item in &items {
            if value.ty.is_character() && item.ty.is_character() {
                collation = comparison_collation(&value, item)?;
            }
        }
        if value.as_column().is_some() {
            let narrowed: Option<Vec<Scalar>> = items
                .iter()
                .map(|item| {
                    if compares_alike(value.ty, item.ty) {
                        Some(item.clone())
                    } else {
                        constant_of_type(item, value.ty)
                    }
                })
                .collect();
            if let Some(list) = narrowed {
                return Ok(Condition::InList { value, list, collation });
            }
        }
        let mut ty = value.ty;
        for item in &items {
            if !matches!(item.as_constant(), Some(Value::Null)) {
                ty = ty.comparison_type(item.ty)?;
            }
        }
        let mut converted = Vec::with_capacity(items.len());
        for item in items {
            converted.push(if compares_alike(item.ty, ty) { item } else { implicit(item, ty)? });
        }
        let value = if compares_alike(value.ty, ty) { value } else { implicit(value, ty)? };
        Ok(Condition::InList { value, list: converted, collation })
    }
}

fn negate_if(negated: bool, condition: Condition) -> Condition {
    if negated { Condition::Not(Box::new(condition)) } else { condition }
}

/// `a = 1 OR a = 2` is `a IN (1, 2)`, which an index can seek.
fn as_list(terms: &[Condition]) -> Option<Condition> {
    let mut of: Option<(&Scalar, Collation)> = None;
    let mut list = Vec::new();
    for term in terms {
        let (column, items, collation) = match term {
            Condition::Compare { op: CompareOp::Equal, left, right, collation } if left.as_column().is_some() => {
                (left, std::slice::from_ref(right), *collation)
            }
            Condition::Compare { op: CompareOp::Equal, left, right, collation } if right.as_column().is_some() => {
                (right, std::slice::from_ref(left), *collation)
            }
            Condition::InList { value, list, collation } if value.as_column().is_some() => {
                (value, list.as_slice(), *collation)
            }
            _ => return None,
        };
        match of {
            Some((other, other_collation)) if !other.same_as(column) || other_collation != collation => return None,
            _ => of = Some((column, collation)),
        }
        list.extend(items.iter().cloned());
    }
    let (value, collation) = of?;
    list.iter().all(|item| compares_alike(item.ty, value.ty)).then(|| Condition::InList {
        value: value.clone(),
        list,
        collation,
    })
}

fn only_one_expression() -> SqlError {
    SqlError::new(
        116,
        "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
    )
}

/// `left op right`.
pub fn bind_binary(op: BinaryOp, left: Scalar, right: Scalar) -> SqlResult<Scalar> {
    // An integer constant counts with the digits it has: 10 beside a decimal is decimal(2, 0).
    let sized = |scalar: Scalar, other: SqlType| -> SqlResult<Scalar> {
        match scalar.as_constant() {
            Some(constant) if !constant.is_null() && matches!(other, SqlType::Decimal { .. }) => {
                let ty = value::literal::operand_type(constant, scalar.ty);
                implicit(scalar, ty)
            }
            _ => Ok(scalar),
        }
    };
    let (left_type, right_type) = (left.ty, right.ty);
    let left = untyped_null(sized(left, right_type)?, right_type);
    let right = untyped_null(sized(right, left_type)?, left.ty);
    let ty = value::binary_type(op, left.ty, right.ty)?;
    let label = if ty.is_character() { left.label.combine(right.label)? } else { CollationLabel::Coercible };
    let nullable = left.nullable || right.nullable;
    if let (Some(a), Some(b)) = (left.as_constant(), right.as_constant())
        && let Ok(result) = value::binary(op, a, left.ty, b, right.ty, ty)
    {
        return Ok(Scalar { label, ..Scalar::constant(result, ty) });
    }
    Ok(Scalar { node: Node::Binary(op, Box::new(left), Box::new(right)), ty, nullable, label })
}

/// The constant NULL takes the type of what stands beside it.
fn untyped_null(scalar: Scalar, ty: SqlType) -> Scalar {
    match scalar.node {
        Node::Constant(Value::Null) => Scalar { ty, ..scalar },
        _ => scalar,
    }
}
