//! Finds the conditions of a predicate that an index can serve.

use super::model::{Predicate, Value};

impl Predicate {
    /// The column that this condition fixes to one value: `a = 1`, `a IS NULL`.
    pub(crate) fn fixed_column(&self) -> Option<&str> {
        match self {
            Predicate::Compare { left: Value::Column(name), operator: "=", right } if right.is_constant() => Some(name),
            Predicate::Compare { left, operator: "=", right: Value::Column(name) } if left.is_constant() => Some(name),
            Predicate::IsNull { value: Value::Column(name), not: false } => Some(name),
            _ => None,
        }
    }

    /// The column that this condition restricts to several values: `a IN (1, 2)`.
    pub(crate) fn listed_column(&self) -> Option<&str> {
        match self {
            Predicate::In { value: Value::Column(name), list, not: false } if list.iter().all(Value::is_constant) => {
                Some(name)
            }
            _ => None,
        }
    }

    /// The column that this condition bounds: `a < GETDATE()`.
    pub(crate) fn bounded_column(&self) -> Option<&str> {
        match self {
            Predicate::Between { value: Value::Column(name), not: false, .. } => Some(name),
            _ => self.bound().map(|(name, _, _)| name),
        }
    }

    /// Takes `a < b` and similar comparisons apart: the column, whether it must be the lesser, and the other value.
    fn bound(&self) -> Option<(&str, bool, &Value)> {
        let Predicate::Compare { left, operator: operator @ ("<" | "<=" | ">" | ">="), right } = self else {
            return None;
        };
        let is_less = operator.starts_with('<');
        match (left, right) {
            (Value::Column(name), bound) if bound.columns().is_empty() => Some((name, is_less, bound)),
            (bound, Value::Column(name)) if bound.columns().is_empty() => Some((name, !is_less, bound)),
            _ => None,
        }
    }

    /// The column of the due time: `due <= GETUTCDATE()`.
    pub(crate) fn time_to_come(&self) -> Option<&str> {
        let (name, is_less, bound) = self.bound()?;
        (is_less && bound.tells_time()).then_some(name)
    }

    /// Whether this condition can be the filter of an index ("CREATE INDEX (Transact-SQL)", filter_predicate): it
    /// compares a column with a constant.
    pub(crate) fn can_filter_an_index(&self) -> bool {
        match self {
            Predicate::Compare { left: Value::Column(_), right, .. } => right.is_constant() && *right != Value::Null,
            Predicate::IsNull { value: Value::Column(_), .. } => true,
            _ => self.listed_column().is_some(),
        }
    }
}
