//! Binds scalar expressions.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::condition::only_one_expression;
use crate::bind::conversion::{check_variant, common_type, implicit, no_text_or_image, untyped_null};
use crate::bind::name::invalid_object;
use crate::bind::next_value_forbidden::next_value_here;
use crate::bind::type_name::system_type_for_cast;
use crate::catalog::object::Object;
use crate::error::{SqlError, SqlResult};
use crate::plan::cached_plan::Uses;
use crate::plan::collation_label::CollationLabel;
use crate::plan::query::WindowKind;
use crate::plan::scalar::{CompareOp, Condition, Node, Scalar};
use crate::tsql::ast::{Expr, Literal, TypeName};
use crate::value::{self, BinaryOp, Length, SqlType, Value};

/// The longest `varbinary(n)`; a longer constant is `varbinary(max)`.
const MAX_BINARY: usize = 8000;

pub fn literal(literal: &Literal) -> SqlResult<Scalar> {
    Ok(match literal {
        Literal::Null => Scalar::null(),
        Literal::Int(number) => Scalar::constant(Value::Int(*number), SqlType::Int),
        Literal::Decimal(digits) => {
            let (value, ty) = value::literal::number(digits)?;
            Scalar::constant(value, ty)
        }
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
            | Expr::Coalesce(_) => self.without_next_value(|b| b.bind_conditional(expr)),

            Expr::Literal(constant) => literal(constant),
            Expr::Column(column) => self.resolve_column(column),
            Expr::Variable(name) => {
                let (place, ty) = self.declarations.scalar(name)?;
                Ok(Scalar { node: Node::Variable(place), ty, nullable: true, label: CollationLabel::Coercible })
            }
            Expr::GlobalVariable(name) => self.bind_global_variable(name),
            Expr::Negative(operand) => self.bind_negative(operand),
            Expr::Binary { op, left, right } => {
                let left = self.bind_expr(left)?;
                let right = self.bind_expr(right)?;
                bind_binary(*op, left, right)
            }
            Expr::Cast { attempt, expr, to } => self.bind_convert(*attempt, expr, to, None),
            Expr::Convert { attempt, to, expr, style } => self.bind_convert(*attempt, expr, to, style.as_deref()),
            Expr::Function(call) => self.bind_function(call),
            Expr::DatePart(_) => Err(SqlError::not_supported("a date part in this place")),
            Expr::Default => Err(SqlError::not_supported("DEFAULT as an argument of a system function")),
            Expr::Collate { expr, collation } => {
                let mut scalar = self.bind_expr(expr)?;
                no_text_or_image(scalar.ty, "COLLATE")?;
                if !scalar.ty.is_character() {
                    return Err(SqlError::not_supported(format!("COLLATE of {}", scalar.ty.name())));
                }
                scalar.label = CollationLabel::Explicit(self.collation(collation)?);
                Ok(scalar)
            }
            Expr::NextValueFor { .. } if self.calls.is_some() => Err(next_value_here()),
            Expr::NextValueFor { sequence: name, over } => {
                self.uses = Uses::Database;
                self.next_values.all += 1;
                self.next_values.without_over += usize::from(over.is_none());
                let found = self.find_object(name)?;
                if let Some(Object::Sequence(sequence)) = &found {
                    self.need_object("UPDATE", sequence.id, &sequence.schema, &sequence.name);
                }
                match found {
                    Some(Object::Sequence(sequence)) if over.is_some() => {
                        let window = over.as_ref().expect("looked at just now");
                        let kind = WindowKind::NextValue(sequence.id);
                        let bound = self.bind_over(kind, window, SqlType::BigInt, CollationLabel::Coercible)?;
                        implicit(bound, sequence.ty)
                    }
                    Some(Object::Sequence(sequence)) => Ok(Scalar {
                        node: Node::NextValue(sequence.id),
                        ty: sequence.ty,
                        nullable: false,
                        label: CollationLabel::Coercible,
                    }),
                    _ => Err(invalid_object(name)),
                }
            }
            Expr::Subquery(query) => {
                let plan = self.bind_subquery(query)?;
                if plan.columns.len() != 1 {
                    return Err(only_one_expression());
                }
                let column = &plan.columns[0];
                no_text_or_image(column.ty, "a subquery")?;
                let label = if column.ty.has_collation() {
                    CollationLabel::Implicit(column.collation)
                } else {
                    CollationLabel::Coercible
                };
                Ok(Scalar { ty: column.ty, nullable: true, label, node: Node::Subquery(Arc::new(plan)) })
            }
        }
    }

    /// What evaluates some of its parts only.
    fn bind_conditional(&mut self, expr: &Expr) -> SqlResult<Scalar> {
        match expr {
            Expr::SimpleCase { operand, branches, otherwise } => {
                let mut bound = Vec::with_capacity(branches.len());
                for (value, result) in branches {
                    let condition = self.bind_compare(CompareOp::Equal, operand, value)?;
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
                    return Err(SqlError::not_supported("NULLIF of the constant NULL"));
                }
                let result = self.bind_expr(value)?;
                let condition = self.bind_compare(CompareOp::Equal, value, other)?;
                let null = Scalar { ty: result.ty, ..Scalar::null() };
                let (ty, label) = (result.ty, result.label);
                let node = Node::Case { branches: vec![(condition, null)], otherwise: Some(Box::new(result)) };
                Ok(Scalar { node, ty, nullable: true, label })
            }
            Expr::Coalesce(arguments) => {
                if arguments.iter().all(is_null) {
                    return Err(SqlError::not_supported("COALESCE of nothing but constants NULL"));
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

    fn bind_negative(&mut self, operand: &Expr) -> SqlResult<Scalar> {
        let operand = self.bind_expr(operand)?;
        no_text_or_image(operand.ty, "an operator")?;
        let ty = value::negative_type(operand.ty)?;
        if let Some(constant) = operand.as_constant()
            && let Ok(result) = value::negative(constant, operand.ty)
        {
            return Ok(Scalar::constant(result, ty));
        }
        let (nullable, label) = (operand.nullable, operand.label);
        Ok(Scalar { node: Node::Negative(Box::new(operand)), ty, nullable, label })
    }

    pub(super) fn finish_case(
        &mut self,
        branches: Vec<(Condition, Scalar)>,
        otherwise: Option<&Expr>,
    ) -> SqlResult<Scalar> {
        let otherwise = match otherwise {
            Some(otherwise) => Some(self.bind_expr(otherwise)?),
            None => None,
        };
        let results: Vec<&Scalar> = branches.iter().map(|(_, result)| result).chain(&otherwise).collect();
        let all_null = results.iter().all(|result| matches!(result.node, Node::Constant(Value::Null)));
        if all_null {
            return Err(SqlError::not_supported("CASE with nothing but constants NULL"));
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
        check_variant(&operand, ty)?;
        let nullable = operand.nullable || attempt;
        let label = if operand.ty.has_collation() { operand.label } else { CollationLabel::Coercible };
        // A conversion that fails is an error of the moment it is computed, not of the binding.
        if let (Some(constant), None) = (operand.as_constant(), &style)
            && operand.ty != SqlType::DateTime
            && let Ok(converted) = value::convert(constant.clone(), operand.ty, ty, None, true)
        {
            return Ok(Scalar { nullable, label, ..Scalar::constant(converted, ty) });
        }
        let node = Node::Convert { operand: Box::new(operand), style, explicit: true, attempt };
        Ok(Scalar { node, ty, nullable, label })
    }
}

/// `left op right`.
pub fn bind_binary(op: BinaryOp, left: Scalar, right: Scalar) -> SqlResult<Scalar> {
    let (left_type, right_type) = (left.ty, right.ty);
    no_text_or_image(left_type, "an operator")?;
    no_text_or_image(right_type, "an operator")?;
    let left = untyped_null(left, right_type);
    let right = untyped_null(right, left.ty);
    let ty = value::binary_type(op, left.ty, right.ty)?;
    let label = if ty.is_character() { left.label.combine_in(right.label, "add")? } else { CollationLabel::Coercible };
    label.check_resolved()?;
    let nullable = left.nullable || right.nullable;
    if let (Some(a), Some(b)) = (left.as_constant(), right.as_constant())
        && let Ok(result) = value::binary(op, a, left.ty, b, right.ty, ty)
    {
        return Ok(Scalar { label, ..Scalar::constant(result, ty) });
    }
    Ok(Scalar { node: Node::Binary(op, Box::new(left), Box::new(right)), ty, nullable, label })
}
