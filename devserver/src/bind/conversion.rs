//! Conversions that T-SQL makes by itself: to a column's type, or to the common type of several expressions.

use crate::error::{SqlError, SqlResult};
use crate::plan::collation_label::CollationLabel;
use crate::plan::scalar::{Node, Scalar, compares_alike};
use crate::value::{self, Collation, SqlType, Value};

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
    check_variant(&scalar, ty)?;
    // What becomes of a datetime is a question of the database: see `check_fraction`.
    if let Node::Constant(constant) = &scalar.node
        && scalar.ty != SqlType::DateTime
    {
        // A conversion that fails is an error of the moment it is computed, not of the binding.
        if let Ok(converted) = value::convert(constant.clone(), scalar.ty, ty, None, false) {
            return Ok(Scalar { label: scalar.label, ..Scalar::constant(converted, ty) });
        }
    }
    let (nullable, label) = (scalar.nullable, scalar.label);
    let node = Node::Convert { operand: Box::new(scalar), style: None, explicit: false, attempt: false };
    Ok(Scalar { node, ty, nullable, label })
}

/// A `sql_variant` keeps the collation of its text; here it has the server's alone.
pub(super) fn check_variant(scalar: &Scalar, ty: SqlType) -> SqlResult<()> {
    if ty == SqlType::Variant && scalar.ty.is_character() && scalar.collation() != Collation::default() {
        return Err(foreign_text());
    }
    Ok(())
}

pub(super) fn foreign_text() -> SqlError {
    SqlError::not_supported("a sql_variant of text with another collation than the server's")
}

/// An integer constant beside an integer column takes the column's type if it fits: the comparison is the same, and
/// an index on the column can be used.
pub(super) fn constant_of_type(scalar: &Scalar, ty: SqlType) -> Option<Scalar> {
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

/// Some expressions, all converted to their common type (CASE, COALESCE, IIF).
pub(super) fn common_type(scalars: &[&Scalar]) -> SqlResult<(SqlType, CollationLabel)> {
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

/// The constant NULL takes the type of what stands beside it.
pub(super) fn untyped_null(scalar: Scalar, ty: SqlType) -> Scalar {
    match scalar.node {
        Node::Constant(Value::Null) => Scalar { ty, ..scalar },
        _ => scalar,
    }
}

/// The common types of the rows of VALUES.
pub fn column_types(rows: &[Vec<Scalar>], width: usize) -> SqlResult<Vec<SqlType>> {
    let mut types = Vec::with_capacity(width);
    for ordinal in 0..width {
        let mut ty: Option<SqlType> = None;
        for row in rows {
            let scalar = &row[ordinal];
            if scalar.as_constant().is_some_and(|constant| constant.is_null()) {
                continue;
            }
            ty = Some(match ty {
                None => scalar.ty,
                Some(ty) => ty.combine(scalar.ty)?,
            });
        }
        types.push(ty.unwrap_or(SqlType::Int));
    }
    Ok(types)
}

/// `text`, `ntext` and `image` are stored, converted and sent, and nothing else is done with them.
pub(super) fn no_text_or_image(ty: SqlType, place: &str) -> SqlResult<()> {
    if ty.is_text_or_image() { Err(SqlError::not_supported(format!("{ty} in {place}"))) } else { Ok(()) }
}
