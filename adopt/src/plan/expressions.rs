//! Checks the predicate and the values to set: names, types, and that no other reader takes a held row.

use crate::catalog::{Column, Family};
use crate::error::Error;
use crate::expression::{Predicate, Value, WORDS, Word};
use crate::mapping::{End, Set};

use super::families::family_of;
use super::plan::Plan;
use super::types::{converts, families_convert, held, shown_type};

/// The sections in which words are allowed.
const IN_CLAIM: &[Word] = &[Word::Worker];

const IN_FAILED: &[Word] = &[Word::Error, Word::Attempt, Word::Worker, Word::JobId, Word::ClaimedAt, Word::DueAt];

impl Plan {
    /// Checks that the values that a claim sets exclude other readers from the row, and that the values of failed, done
    /// and dead do not make the row ready again.
    pub(super) fn check_marks(&self) -> Result<(), Error> {
        let Some(ready) = self.mapping.ready.as_ref().filter(|_| !self.mapping.takes_out()) else { return Ok(()) };
        let never_ready = |sets: &[Set]| {
            ready.it.is_never_true(&|name| held(&self.table, sets.iter().chain(self.mapping.claim_sets()), name))
        };
        if !never_ready(&[]) {
            let message = "a row could still be ready after claim.set: set a column of the predicate to a value for \
                           which the predicate is false, so that no other reader takes the row";
            return self.refused(self.mapping.claim.line, message);
        }
        let ends = [("done.set", &self.mapping.done), ("dead.set", &self.mapping.dead)];
        let ends = ends.into_iter().filter_map(|(name, end)| match &end.it {
            End::Set(sets) => Some((name, sets, end.line)),
            _ => None,
        });
        let failed = &self.mapping.failed;
        let failed = ("failed.set", failed, failed.first().map_or(1, |set| set.column.line));
        for (name, sets, line) in ends.chain([failed]) {
            let after_failures: Vec<Set> = sets.iter().chain(failed.1).cloned().collect();
            if !never_ready(sets) || !never_ready(&after_failures) {
                let message = format!("the row could be ready again after {name}, and would be run again at once");
                return self.refused(line, message);
            }
        }
        Ok(())
    }

    pub(super) fn check_words(&self, key: &str, value: &Value, line: usize, allowed: &[Word]) -> Result<(), Error> {
        let Some(word) = value.words().into_iter().find(|word| !allowed.contains(word)) else { return Ok(()) };
        let names = |words: &[Word]| {
            let named = WORDS.iter().filter(|(_, known)| words.contains(known));
            named.map(|(name, _)| format!("{{{name}}}")).collect::<Vec<_>>().join(", ")
        };
        let what = if allowed.is_empty() {
            "no words are allowed".to_string()
        } else {
            format!("only {} is allowed", names(allowed))
        };
        self.refused(line, format!("{key} has {}; {what} here", names(&[word])))
    }

    pub(super) fn check_expressions(&self) -> Result<(), Error> {
        if let Some(ready) = &self.mapping.ready {
            for value in ready.it.values() {
                self.check_words("ready", value, ready.line, &[])?;
                self.check_family_of("ready", value, ready.line)?;
                if value.can_fail() {
                    let message = "ready could fail for a row, and with it each claim, because such a row cannot be found and skipped; \
                                   use no division by a column, no LEFT, RIGHT or SUBSTRING with a column as length, no difference in seconds";
                    return self.refused(ready.line, message);
                }
            }
            self.check_comparisons(&ready.it, ready.line)?;
        }
        self.check_sets("claim.set", self.mapping.claim_sets(), IN_CLAIM)?;
        self.check_sets("failed.set", &self.mapping.failed, IN_FAILED)
    }

    /// Rejects comparisons of a column with a literal of another family: SQL Server would convert the column of every
    /// row, and fail on the first value that cannot be converted.
    pub(super) fn check_comparisons(&self, predicate: &Predicate, line: usize) -> Result<(), Error> {
        match predicate {
            Predicate::All(parts) | Predicate::Any(parts) => {
                parts.iter().try_for_each(|part| self.check_comparisons(part, line))
            }
            Predicate::Not(inner) => self.check_comparisons(inner, line),
            _ => {
                let values = predicate.values();
                for column in &values {
                    let Value::Column(name) = column else { continue };
                    let Some(column) = self.table.column(name) else { continue };
                    for value in &values {
                        self.check_literal("ready", column, value, line)?;
                    }
                }
                Ok(())
            }
        }
    }

    pub(super) fn check_literal(&self, key: &str, column: &Column, value: &Value, line: usize) -> Result<(), Error> {
        let family = column.family();
        let (fits, what) = match value {
            Value::Number(_) | Value::Negative(_) => {
                (matches!(family, Family::Integer | Family::Decimal | Family::Bit), "a number")
            }
            Value::Text(_) => {
                (matches!(family, Family::WideText | Family::Text | Family::Guid | Family::Time), "a text")
            }
            Value::Binary(_) => (matches!(family, Family::Bytes | Family::Integer), "bytes"),
            Value::Word(Word::Error | Word::Worker) => (matches!(family, Family::WideText | Family::Text), "a text"),
            Value::Word(Word::Attempt | Word::JobId) => {
                (matches!(family, Family::Integer | Family::Decimal), "a number")
            }
            Value::Word(Word::ClaimedAt | Word::DueAt) => (family == Family::Time, "a time"),
            Value::Word(Word::Output) => (family == Family::Bytes, "bytes"),
            _ => (true, ""),
        };
        let whole = match value {
            Value::Number(number) => number.parse::<f64>().ok(),
            Value::Negative(inner) => match inner.as_ref() {
                Value::Number(number) => number.parse::<f64>().ok().map(|number| -number),
                _ => None,
            },
            _ => None,
        };
        if let Some((least, most)) = column.integers()
            && whole.is_some_and(|number| number < least || number > most)
        {
            return self.refused(
                line,
                format!("{key} has a number for {} that no {} can have", column.name, shown_type(column)),
            );
        }
        if let (Value::Text(text), Some(most)) = (value, column.most_characters())
            && text.chars().count() > most.unsigned_abs() as usize
        {
            return self
                .refused(line, format!("{key} has '{text}' for {}, which is {}", column.name, shown_type(column)));
        }
        if fits {
            return Ok(());
        }
        self.refused(line, format!("{key} has {what} for {}, which is {}", column.name, shown_type(column)))
    }

    pub(super) fn check_sets(&self, key: &str, sets: &[Set], words: &[Word]) -> Result<(), Error> {
        self.check_twice(key, sets)?;
        for set in sets {
            let column = self.column(&set.column)?;
            self.check_set(key, &column, set, words)?;
        }
        Ok(())
    }

    pub(super) fn check_twice(&self, key: &str, sets: &[Set]) -> Result<(), Error> {
        let is_same = |one: &Set, other: &Set| one.column.it.eq_ignore_ascii_case(&other.column.it);
        let twice = sets.iter().enumerate().find(|(at, set)| sets[..*at].iter().any(|other| is_same(other, set)));
        match twice {
            Some((_, set)) => self.refused(set.column.line, format!("{key} has {} twice", set.column.it)),
            None => Ok(()),
        }
    }

    pub(super) fn check_set(&self, key: &str, column: &Column, set: &Set, words: &[Word]) -> Result<(), Error> {
        let line = set.column.line;
        self.check_words(key, &set.value, line, words)?;
        let why = match column {
            _ if column.is_computed => Some("it is computed"),
            _ if column.is_identity => Some("it is an identity column"),
            _ if column.is_given() => Some("SQL Server gives it its value"),
            _ if set.value == Value::Null && !column.is_nullable => Some("it cannot be NULL"),
            _ if column.family() == Family::Other => Some("its type cannot be set here"),
            _ => None,
        };
        if let Some(why) = why {
            return self.refused(line, format!("{key} sets {} ({}): {why}", column.name, shown_type(column)));
        }
        self.check_literal(key, column, &set.value, line)?;
        self.check_conversion(key, column, &set.value, line)
    }

    /// The family of an expression. Rejects an expression that would be converted row by row.
    pub(super) fn check_family_of(&self, key: &str, value: &Value, line: usize) -> Result<Option<Family>, Error> {
        match family_of(&self.table, value) {
            Ok(family) => Ok(family),
            Err(why) => self.refused(line, format!("{key} would fail for a row that cannot be converted: {why}")),
        }
    }

    /// Checks that every value of an expression is valid in the column. (`check_literal` has checked the literals.)
    fn check_conversion(&self, key: &str, column: &Column, value: &Value, line: usize) -> Result<(), Error> {
        let family = self.check_family_of(key, value, line)?;
        let source = match value {
            Value::Column(name) => self.table.column(name),
            _ => None,
        };
        let is_literal = matches!(value, Value::Number(_) | Value::Negative(_) | Value::Text(_) | Value::Binary(_));
        let fits = match (source, family) {
            (Some(source), _) => converts(source, column),
            (None, Some(family)) => is_literal || families_convert(family, column.family()),
            (None, None) => true,
        };
        if fits {
            return Ok(());
        }
        let what = source
            .map_or_else(|| "something".to_string(), |source| format!("{} ({})", source.name, shown_type(source)));
        self.refused(
            line,
            format!(
                "{key} puts {what} into {} ({}), which SQL Server cannot convert, or not always",
                column.name,
                shown_type(column)
            ),
        )
    }
}
