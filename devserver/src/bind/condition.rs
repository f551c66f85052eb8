//! Binds search conditions.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::conversion::{comparable, constant_of_type, implicit, no_text_or_image};
use crate::bind::expression::is_null;
use crate::error::{SqlError, SqlResult};
use crate::plan::collation_label::CollationLabel;
use crate::plan::scalar::{CompareOp, Condition, LikeCondition, Scalar, compares_alike, comparison_collation};
use crate::tsql::ast::{Expr, Predicate};
use crate::value::{Collation, Length, Pattern, SqlType, Value};

pub fn compare_condition(op: CompareOp, left: Scalar, right: Scalar) -> SqlResult<Condition> {
    no_text_or_image(left.ty, "a comparison")?;
    no_text_or_image(right.ty, "a comparison")?;
    let collation = if left.ty.is_character() && right.ty.is_character() {
        comparison_collation(&left, &right, operation(op))?
    } else {
        Collation::default()
    };
    let (left, right) = comparable(left, right)?;
    Ok(Condition::Compare { op, left, right, collation })
}

/// What messages call a comparison.
fn operation(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Equal => "equal to",
        CompareOp::NotEqual => "not equal to",
        CompareOp::Less => "less than",
        CompareOp::LessOrEqual => "less than or equal to",
        CompareOp::Greater => "greater than",
        CompareOp::GreaterOrEqual => "greater than or equal to",
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
            Some((other, other_collation)) if other != column || other_collation != collation => return None,
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

impl Binder<'_> {
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
            Predicate::Not(term) => Ok(Condition::Not(Box::new(self.bind_condition(term)?))),
            Predicate::Compare { op, left, right } => self.bind_compare(*op, left, right),
            Predicate::Between { negated, value, low, high } => {
                let from = self.bind_compare(CompareOp::GreaterOrEqual, value, low)?;
                let to = self.bind_compare(CompareOp::LessOrEqual, value, high)?;
                let between = Condition::And(vec![from, to]);
                Ok(negate_if(*negated, between))
            }
            Predicate::InList { negated, value, list } => {
                let condition = self.bind_in_list(value, list)?;
                Ok(negate_if(*negated, condition))
            }
            Predicate::InQuery { negated, value, query } => {
                let value_is_null = is_null(value);
                let mut value = self.bind_expr(value)?;
                let plan = self.bind_subquery(query)?;
                if plan.columns.len() != 1 {
                    return Err(only_one_expression());
                }
                let column = &plan.columns[0];
                if value_is_null {
                    value.ty = column.ty;
                }
                let item_label = if column.ty.is_character() {
                    CollationLabel::Implicit(column.collation)
                } else {
                    CollationLabel::Coercible
                };
                let item = Scalar { label: item_label, ..Scalar::constant(Value::Null, column.ty) };
                no_text_or_image(value.ty, "IN")?;
                no_text_or_image(column.ty, "IN")?;
                let collation = if value.ty.is_character() && column.ty.is_character() {
                    comparison_collation(&value, &item, operation(CompareOp::Equal))?
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
            Predicate::Like { negated, value, pattern } => {
                let value = self.bind_text(value)?;
                let pattern = self.bind_text(pattern)?;
                let collation = comparison_collation(&value, &pattern, "like")?;
                let unicode = value.ty.is_unicode() || pattern.ty.is_unicode();
                let constant = pattern.as_constant().and_then(Value::as_str);
                let prepared = constant.map(|pattern| Pattern::new(pattern, unicode, collation));
                let like = LikeCondition { value, pattern, unicode, collation, prepared };
                Ok(negate_if(*negated, Condition::Like(Box::new(like))))
            }
            Predicate::IsNull { negated, value } => {
                let value = self.bind_expr(value)?;
                Ok(negate_if(*negated, Condition::IsNull(value)))
            }
            Predicate::Exists(query) => Ok(Condition::Exists(Arc::new(self.bind_subquery(query)?))),
        }
    }

    /// `left op right`, where the constant NULL has the type of the other side.
    pub(super) fn bind_compare(&mut self, op: CompareOp, left: &Expr, right: &Expr) -> SqlResult<Condition> {
        let (left_is_null, right_is_null) = (is_null(left), is_null(right));
        let mut left = self.bind_expr(left)?;
        let mut right = self.bind_expr(right)?;
        if left_is_null {
            left.ty = right.ty;
        } else if right_is_null {
            right.ty = left.ty;
        }
        compare_condition(op, left, right)
    }

    /// An operand of LIKE: everything that is no text is converted to it.
    fn bind_text(&mut self, expr: &Expr) -> SqlResult<Scalar> {
        let scalar = self.bind_expr(expr)?;
        if scalar.ty.is_character() {
            return Ok(scalar);
        }
        no_text_or_image(scalar.ty, "LIKE")?;
        if scalar.ty == SqlType::Variant {
            return Err(SqlError::not_supported("LIKE with a sql_variant"));
        }
        implicit(scalar, SqlType::VarChar(Length::Limit(8000)))
    }

    fn bind_in_list(&mut self, value: &Expr, list: &[Expr]) -> SqlResult<Condition> {
        let value_is_null = is_null(value);
        let mut value = self.bind_expr(value)?;
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            items.push(self.bind_expr(item)?);
        }
        if value_is_null && let Some((_, item)) = list.iter().zip(&items).find(|(written, _)| !is_null(written)) {
            value.ty = item.ty;
        }
        let mut collation = Collation::default();
        for item in &items {
            no_text_or_image(value.ty, "a comparison")?;
            no_text_or_image(item.ty, "a comparison")?;
            if value.ty.is_character() && item.ty.is_character() {
                collation = comparison_collation(&value, item, operation(CompareOp::Equal))?;
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

pub(super) fn only_one_expression() -> SqlError {
    SqlError::new(
        116,
        "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
    )
}
