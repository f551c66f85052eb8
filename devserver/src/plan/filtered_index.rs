//! Whether a query's conditions imply the filter of an index for every value that variables may have.

use crate::plan::relation::TableRelation;
use crate::plan::scalar::{CompareOp, Condition, Scalar, flipped};
use crate::storage::{Filter, FilterTerm};
use crate::value::{Collation, Value, compare};

/// Whether the conditions make sure that only rows of the filtered index qualify.
pub(super) fn is_implied(filter: &Filter, relation: &TableRelation, conditions: &[&Condition]) -> bool {
    filter.terms.iter().all(|term| conditions.iter().any(|condition| implies(condition, term, relation)))
}

fn implies(condition: &Condition, term: &FilterTerm, relation: &TableRelation) -> bool {
    let column = term.column();
    let collation = relation.table.schema.columns[column].collation;
    let is_column = |scalar: &Scalar| scalar.as_column() == Some((relation.slot, column));
    match condition {
        Condition::Compare { op, left, right, .. } => {
            let (op, other) = if is_column(left) {
                (*op, right)
            } else if is_column(right) {
                (flipped(*op), left)
            } else {
                return false;
            };
            // A comparison is never true for NULL, whatever it compares with.
            if let FilterTerm::IsNotNull { .. } = term {
                return true;
            }
            match other.as_constant() {
                Some(constant) if !constant.is_null() => compare_implies(op, constant, term, collation),
                _ => false,
            }
        }
        Condition::InList { value, list, .. } if is_column(value) => match term {
            FilterTerm::IsNotNull { .. } => true,
            _ => list.iter().all(|item| match item.as_constant() {
                Some(constant) if !constant.is_null() => compare_implies(CompareOp::Equal, constant, term, collation),
                _ => false,
            }),
        },
        Condition::IsNull(value) => is_column(value) && matches!(term, FilterTerm::IsNull { .. }),
        Condition::Not(inner) => match &**inner {
            Condition::IsNull(value) => is_column(value) && matches!(term, FilterTerm::IsNotNull { .. }),
            _ => false,
        },
        _ => false,
    }
}

/// Whether `column op constant` implies the term.
fn compare_implies(op: CompareOp, constant: &Value, term: &FilterTerm, collation: Collation) -> bool {
    match term {
        FilterTerm::IsNotNull { .. } => true,
        FilterTerm::IsNull { .. } => false,
        FilterTerm::In { constants, .. } => {
            op == CompareOp::Equal && constants.iter().any(|other| compare(constant, other, collation).is_eq())
        }
        FilterTerm::Compare { operator, constant: limit, .. } => {
            let order = compare(constant, limit, collation);
            match (op, operator) {
                (CompareOp::Equal, CompareOp::Equal) => order.is_eq(),
                (CompareOp::Equal, CompareOp::NotEqual) => order.is_ne(),
                (CompareOp::Equal, CompareOp::Less) => order.is_lt(),
                (CompareOp::Equal, CompareOp::LessOrEqual) => order.is_le(),
                (CompareOp::Equal, CompareOp::Greater) => order.is_gt(),
                (CompareOp::Equal, CompareOp::GreaterOrEqual) => order.is_ge(),
                (CompareOp::Less, CompareOp::Less | CompareOp::LessOrEqual)
                | (CompareOp::LessOrEqual, CompareOp::LessOrEqual) => order.is_le(),
                (CompareOp::LessOrEqual, CompareOp::Less) => order.is_lt(),
                (CompareOp::Greater, CompareOp::Greater | CompareOp::GreaterOrEqual)
                | (CompareOp::GreaterOrEqual, CompareOp::GreaterOrEqual) => order.is_ge(),
                (CompareOp::GreaterOrEqual, CompareOp::Greater) => order.is_gt(),
                (CompareOp::NotEqual, CompareOp::NotEqual) => order.is_eq(),
                (CompareOp::Less, CompareOp::NotEqual) => order.is_le(),
                (CompareOp::Greater, CompareOp::NotEqual) => order.is_ge(),
                _ => false,
            }
        }
    }
}
