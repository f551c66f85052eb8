//! Evaluates predicates when the values of only some columns are known.

use super::model::{CLOCKS, Predicate, Value, Word};

impl Predicate {
    /// Whether the predicate can never be true if columns have the values of `set`, whatever the other columns contain.
    pub(crate) fn is_never_true(&self, set: &dyn Fn(&str) -> Option<Known>) -> bool {
        match self {
            Predicate::All(parts) => parts.iter().any(|part| part.is_never_true(set)),
            Predicate::Any(parts) => parts.iter().all(|part| part.is_never_true(set)),
            Predicate::Not(inner) => inner.is_never_false(set),
            Predicate::IsNull { value, not } => {
                known(value, set).is_some_and(|known| if *not { known == Known::Null } else { known != Known::Null })
            }
            Predicate::Compare { left, operator, right } => match (known(left, set), known(right, set)) {
                (Some(Known::Null), _) | (_, Some(Known::Null)) => true,
                (Some(left), Some(right)) => left.compared(operator, &right) == Some(false),
                _ => false,
            },
            Predicate::In { value, list, not: false } => {
                list.iter().all(|one| match (known(value, set), known(one, set)) {
                    (Some(Known::Null), _) | (_, Some(Known::Null)) => true,
                    (Some(value), Some(one)) => value.compare(&one).is_some_and(|order| order.is_ne()),
                    _ => false,
                })
            }
            Predicate::In { value, list, not: true } => {
                list.iter().any(|one| match (known(value, set), known(one, set)) {
                    (Some(Known::Null), _) | (_, Some(Known::Null)) => true,
                    (Some(value), Some(one)) => value.compare(&one).is_some_and(|order| order.is_eq()),
                    _ => false,
                })
            }
            Predicate::Between { value, low, high, not: false } => {
                let bounds = [(low, std::cmp::Ordering::Less), (high, std::cmp::Ordering::Greater)].map(
                    |(bound, outside)| match (known(value, set), known(bound, set)) {
                        (Some(Known::Null), _) | (_, Some(Known::Null)) => true,
                        (Some(Known::Text(_)), _) => false,
                        (Some(value), Some(bound)) => value.compare(&bound) == Some(outside),
                        _ => false,
                    },
                );
                bounds.contains(&true)
            }
            Predicate::Between { value, .. } | Predicate::Like { value, .. } => known(value, set) == Some(Known::Null),
        }
    }

    /// Whether the predicate can never be false. (Unknown is not false, and NOT unknown is not true.)
    fn is_never_false(&self, set: &dyn Fn(&str) -> Option<Known>) -> bool {
        match self {
            Predicate::All(parts) => parts.iter().all(|part| part.is_never_false(set)),
            Predicate::Any(parts) => parts.iter().any(|part| part.is_never_false(set)),
            Predicate::Not(inner) => inner.is_never_true(set),
            Predicate::IsNull { value, not } => {
                known(value, set).is_some_and(|known| if *not { known != Known::Null } else { known == Known::Null })
            }
            Predicate::Compare { left, operator, right } => match (known(left, set), known(right, set)) {
                (Some(Known::Null), _) | (_, Some(Known::Null)) => true,
                (Some(left), Some(right)) => left.compared(operator, &right) == Some(true),
                _ => false,
            },
            _ => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Known {
    Null,
    Number(f64),
    Text(String),
    /// The current time.
    Clock,
    /// A time later than any clock: 9999-12-31.
    EndOfTime,
    /// An unknown value that is not NULL.
    Something,
}

impl Known {
    /// What is known about a value that does not depend on columns.
    pub(crate) fn of(value: &Value) -> Option<Known> {
        known(value, &|_| None)
    }

    /// Whether a comparison holds, or `None` if that is unknown. The order of two different texts is unknown, because
    /// it depends on the collation.
    fn compared(&self, operator: &str, other: &Known) -> Option<bool> {
        let order = self.compare(other)?;
        let is_of_texts = matches!(self, Known::Text(_)) && order.is_ne() && !matches!(operator, "=" | "<>");
        (!is_of_texts).then(|| holds(operator, order))
    }

    fn compare(&self, other: &Known) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Known::Number(left), Known::Number(right)) => left.partial_cmp(right),
            (Known::EndOfTime, Known::Clock) => Some(std::cmp::Ordering::Greater),
            (Known::Clock, Known::EndOfTime) => Some(std::cmp::Ordering::Less),
            // The column's collation may consider different texts equal. Texts are certainly different only if they
            // differ in more than case, accents and trailing spaces.
            (Known::Text(left), Known::Text(right)) if left == right => Some(std::cmp::Ordering::Equal),
            (Known::Text(left), Known::Text(right)) if left.is_ascii() && right.is_ascii() => {
                let (left, right) = (left.trim_end().to_lowercase(), right.trim_end().to_lowercase());
                (left != right).then(|| left.cmp(&right))
            }
            _ => None,
        }
    }
}

fn holds(operator: &str, order: std::cmp::Ordering) -> bool {
    match operator {
        "=" => order.is_eq(),
        "<>" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    }
}

fn known(value: &Value, set: &dyn Fn(&str) -> Option<Known>) -> Option<Known> {
    match value {
        Value::Null => Some(Known::Null),
        Value::Number(text) => text.parse().ok().map(Known::Number),
        Value::Text(text) => Some(Known::Text(text.clone())),
        Value::Binary(_) => Some(Known::Something),
        Value::Negative(inner) => match known(inner, set)? {
            Known::Number(number) => Some(Known::Number(-number)),
            _ => None,
        },
        Value::Column(name) => set(name),
        Value::Call { name, .. } if CLOCKS.contains(name) => Some(Known::Clock),
        Value::Call { name: "NEWID", .. } => Some(Known::Something),
        Value::Call { name: "DATEADD", arguments, .. } => {
            let is_there = |value: &Value| known(value, set).is_some_and(|known| known != Known::Null);
            arguments.iter().all(is_there).then_some(Known::Something)
        }
        Value::Word(Word::Attempt | Word::Worker | Word::JobId | Word::ClaimedAt) => Some(Known::Something),
        Value::Call { .. } | Value::Pair { .. } | Value::Word(_) | Value::Cast { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::read::{read_predicate, read_value};

    #[test]
    fn it_is_known_when_a_predicate_cannot_be_true() {
        let never = |text: &str, set: &[(&str, &str)]| {
            read_predicate(text).unwrap().is_never_true(&|name| {
                set.iter()
                    .find(|(column, _)| *column == name)
                    .and_then(|(_, text)| Known::of(&read_value(text).unwrap()))
            })
        };
        assert!(never("started is null", &[("started", "getdate()")]));
        assert!(never("started is null and x = 1", &[("started", "getdate()")]));
        assert!(!never("started is null or x = 1", &[("started", "getdate()")]));
        assert!(never("status = 1", &[("status", "2")]));
        assert!(!never("status = 1", &[("status", "1")]));
        assert!(!never("status = 1", &[("other", "2")]));
        assert!(never("status in (0, 1)", &[("status", "2")]));
        assert!(!never("status in (0, 2)", &[("status", "2")]));
        assert!(never("status = 'new'", &[("status", "'done'")]));
        assert!(!never("status = 'new'", &[("status", "'NEW '")]), "equal in most collations");
        assert!(never("not status = 2", &[("status", "2")]));
        assert!(never("done = 0", &[("done", "null")]));
        assert!(!never("status < 5", &[("status", "status + 1")]));
        assert!(never("n between 1 and 3", &[("n", "4")]));
    }
}
