//! Values and predicates, and their T-SQL.

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    /// The number as written: digits, perhaps with a decimal point.
    Number(String),
    Text(String),
    /// A binary literal: `0x…`.
    Binary(String),
    Column(String),
    /// A word for a property of the job: `{error}`.
    Word(Word),
    /// `part`: the unit of DATEADD and DATEDIFF.
    Call {
        name: &'static str,
        part: Option<String>,
        arguments: Vec<Value>,
    },
    Pair {
        left: Box<Value>,
        operator: char,
        right: Box<Value>,
    },
    Negative(Box<Value>),
    /// A conversion to another type. Mappings contain no casts; [`Predicate::fitted`] adds them.
    Cast {
        value: Box<Value>,
        to: CastTo,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CastTo {
    /// The collation that a text gets before the cast. Without it, the cast would use the database's code page.
    pub(crate) collation: Option<String>,
    pub(crate) sql_type: String,
}

/// The properties of the job that a mapping can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Error,
    Attempt,
    Worker,
    JobId,
    ClaimedAt,
    DueAt,
    Output,
}

pub(crate) const WORDS: [(&str, Word); 7] = [
    ("error", Word::Error),
    ("attempt", Word::Attempt),
    ("worker", Word::Worker),
    ("job_id", Word::JobId),
    ("claimed_at", Word::ClaimedAt),
    ("due_at", Word::DueAt),
    ("output", Word::Output),
];

/// A condition that is true, false or unknown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Predicate {
    Compare { left: Value, operator: &'static str, right: Value },
    IsNull { value: Value, not: bool },
    In { value: Value, list: Vec<Value>, not: bool },
    Between { value: Value, low: Value, high: Value, not: bool },
    Like { value: Value, pattern: Value, not: bool },
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Box<Predicate>),
}

/// The functions that return the current time.
pub(crate) const CLOCKS: [&str; 5] = ["GETDATE", "GETUTCDATE", "SYSDATETIME", "SYSUTCDATETIME", "SYSDATETIMEOFFSET"];

/// How to write columns and words in a part of the script.
pub(crate) struct Terms<'a> {
    pub(crate) column: &'a dyn Fn(&str) -> String,
    pub(crate) word: &'a dyn Fn(Word) -> String,
}

impl Value {
    pub(crate) fn sql(&self, terms: &Terms<'_>) -> String {
        match self {
            Value::Null => "NULL".to_string(),
            Value::Number(text) | Value::Binary(text) => text.clone(),
            Value::Text(text) if text.is_ascii() => format!("'{}'", text.replace('\'', "''")),
            Value::Text(text) => crate::names::literal(text),
            Value::Column(name) => (terms.column)(name),
            Value::Word(word) => (terms.word)(*word),
            Value::Call { name, part, arguments } => {
                let mut list: Vec<String> = part.iter().cloned().collect();
                list.extend(arguments.iter().map(|argument| argument.sql(terms)));
                format!("{name}({})", list.join(", "))
            }
            Value::Pair { left, operator, right } => {
                format!("({} {operator} {})", left.sql(terms), right.sql(terms))
            }
            // A space, because two minus signs begin a comment.
            Value::Negative(inner) => format!("(- {})", inner.sql(terms)),
            Value::Cast { value, to: CastTo { collation, sql_type } } => {
                let collation = collation.as_ref().map_or(String::new(), |collation| format!(" COLLATE {collation}"));
                format!("CAST({}{collation} AS {sql_type})", value.sql(terms))
            }
        }
    }

    /// The same value with other names of columns.
    pub(crate) fn renamed<E>(&self, rename: &dyn Fn(&str) -> Result<String, E>) -> Result<Value, E> {
        Ok(match self {
            Value::Column(name) => Value::Column(rename(name)?),
            Value::Call { name, part, arguments } => {
                let arguments = arguments.iter().map(|argument| argument.renamed(rename)).collect::<Result<_, E>>()?;
                Value::Call { name, part: part.clone(), arguments }
            }
            Value::Pair { left, operator, right } => Value::Pair {
                left: Box::new(left.renamed(rename)?),
                operator: *operator,
                right: Box::new(right.renamed(rename)?),
            },
            Value::Negative(inner) => Value::Negative(Box::new(inner.renamed(rename)?)),
            Value::Cast { value, to } => Value::Cast { value: Box::new(value.renamed(rename)?), to: to.clone() },
            other => other.clone(),
        })
    }

    pub(crate) fn visit<'v>(&'v self, found: &mut dyn FnMut(&'v Value)) {
        found(self);
        match self {
            Value::Call { arguments, .. } => arguments.iter().for_each(|argument| argument.visit(found)),
            Value::Pair { left, right, .. } => {
                left.visit(found);
                right.visit(found);
            }
            Value::Negative(inner) | Value::Cast { value: inner, .. } => inner.visit(found),
            _ => {}
        }
    }

    pub(crate) fn columns(&self) -> Vec<&str> {
        let mut columns = Vec::new();
        self.visit(&mut |value| {
            if let Value::Column(name) = value {
                columns.push(name.as_str());
            }
        });
        columns
    }

    pub(crate) fn words(&self) -> Vec<Word> {
        let mut words = Vec::new();
        self.visit(&mut |value| {
            if let Value::Word(word) = value {
                words.push(*word);
            }
        });
        words
    }

    /// Whether computing the value may fail for a row: a division by zero, a negative length, a difference that is too
    /// large. (Overflows at the limits of numbers and times do not count.)
    pub(crate) fn can_fail(&self) -> bool {
        self.has(&|value| match value {
            Value::Pair { operator: '/' | '%', right, .. } => match right.as_ref() {
                Value::Number(number) => number.chars().all(|digit| matches!(digit, '0' | '.')),
                _ => true,
            },
            Value::Call { name: "LEFT" | "RIGHT" | "SUBSTRING", arguments, .. } => {
                arguments.iter().skip(1).any(|length| !matches!(length, Value::Number(_)))
            }
            Value::Call { name: "DATEDIFF", part, .. } => {
                matches!(part.as_deref(), Some("SECOND" | "MILLISECOND")) && !value.columns().is_empty()
            }
            _ => false,
        })
    }

    /// Whether the value contains a clock with an offset to UTC.
    pub(crate) fn has_offset(&self) -> bool {
        self.has(&|value| matches!(value, Value::Call { name: "SYSDATETIMEOFFSET", .. }))
    }

    pub(crate) fn tells_time(&self) -> bool {
        self.has(&|value| matches!(value, Value::Call { name, .. } if CLOCKS.contains(name)))
    }

    fn has(&self, is_one: &dyn Fn(&Value) -> bool) -> bool {
        let mut has = false;
        self.visit(&mut |value| has |= is_one(value));
        has
    }

    pub(super) fn is_constant(&self) -> bool {
        match self {
            Value::Null | Value::Number(_) | Value::Text(_) | Value::Binary(_) => true,
            Value::Negative(inner) => inner.is_constant(),
            _ => false,
        }
    }
}

/// Converts a value, given the value with which it is compared.
type MapValue<'a, E> = dyn Fn(&Value, Option<&Value>) -> Result<Value, E> + 'a;

impl Predicate {
    pub(crate) fn sql(&self, terms: &Terms<'_>) -> String {
        let not = |not: &bool| if *not { "NOT " } else { "" };
        let inside = |part: &Predicate| match part {
            Predicate::All(_) | Predicate::Any(_) => format!("({})", part.sql(terms)),
            _ => part.sql(terms),
        };
        match self {
            Predicate::Compare { left, operator, right } => {
                format!("{} {operator} {}", left.sql(terms), right.sql(terms))
            }
            Predicate::IsNull { value, not: is_not } => format!("{} IS {}NULL", value.sql(terms), not(is_not)),
            Predicate::In { value, list, not: is_not } => {
                let list: Vec<String> = list.iter().map(|value| value.sql(terms)).collect();
                format!("{} {}IN ({})", value.sql(terms), not(is_not), list.join(", "))
            }
            Predicate::Between { value, low, high, not: is_not } => {
                format!("{} {}BETWEEN {} AND {}", value.sql(terms), not(is_not), low.sql(terms), high.sql(terms))
            }
            Predicate::Like { value, pattern, not: is_not } => {
                format!("{} {}LIKE {}", value.sql(terms), not(is_not), pattern.sql(terms))
            }
            Predicate::All(parts) => parts.iter().map(inside).collect::<Vec<_>>().join(" AND "),
            Predicate::Any(parts) => parts.iter().map(inside).collect::<Vec<_>>().join(" OR "),
            Predicate::Not(inner) => format!("NOT ({})", inner.sql(terms)),
        }
    }

    /// The same predicate with other names of columns.
    pub(crate) fn renamed<E>(&self, rename: &dyn Fn(&str) -> Result<String, E>) -> Result<Predicate, E> {
        self.mapped(&|value, _| value.renamed(rename))
    }

    /// The same predicate with values cast to the type that `fit` returns for a column and the compared value.
    pub(crate) fn fitted(&self, fit: &dyn Fn(&str, &Value) -> Option<CastTo>) -> Predicate {
        let beside = |value: &Value, beside: Option<&Value>| -> Result<Value, std::convert::Infallible> {
            let to = match beside {
                Some(Value::Column(name)) => fit(name, value),
                _ => None,
            };
            Ok(match to {
                Some(to) => Value::Cast { value: Box::new(value.clone()), to },
                None => value.clone(),
            })
        };
        let Ok(fitted) = self.mapped(&beside);
        fitted
    }

    /// The same predicate with other values; `map` receives each value and the compared value.
    fn mapped<E>(&self, map: &MapValue<'_, E>) -> Result<Predicate, E> {
        let all = |parts: &[Predicate]| parts.iter().map(|part| part.mapped(map)).collect::<Result<Vec<_>, E>>();
        Ok(match self {
            Predicate::Compare { left, operator, right } => {
                Predicate::Compare { left: map(left, Some(right))?, operator, right: map(right, Some(left))? }
            }
            Predicate::IsNull { value, not } => Predicate::IsNull { value: map(value, None)?, not: *not },
            Predicate::In { value, list, not } => Predicate::In {
                value: map(value, None)?,
                list: list.iter().map(|one| map(one, Some(value))).collect::<Result<_, E>>()?,
                not: *not,
            },
            Predicate::Between { value, low, high, not } => Predicate::Between {
                value: map(value, None)?,
                low: map(low, Some(value))?,
                high: map(high, Some(value))?,
                not: *not,
            },
            Predicate::Like { value, pattern, not } => {
                Predicate::Like { value: map(value, None)?, pattern: map(pattern, Some(value))?, not: *not }
            }
            Predicate::All(parts) => Predicate::All(all(parts)?),
            Predicate::Any(parts) => Predicate::Any(all(parts)?),
            Predicate::Not(inner) => Predicate::Not(Box::new(inner.mapped(map)?)),
        })
    }

    /// The values in the predicate.
    pub(crate) fn values(&self) -> Vec<&Value> {
        match self {
            Predicate::Compare { left, right, .. } => vec![left, right],
            Predicate::IsNull { value, .. } => vec![value],
            Predicate::In { value, list, .. } => std::iter::once(value).chain(list).collect(),
            Predicate::Between { value, low, high, .. } => vec![value, low, high],
            Predicate::Like { value, pattern, .. } => vec![value, pattern],
            Predicate::All(parts) | Predicate::Any(parts) => parts.iter().flat_map(Predicate::values).collect(),
            Predicate::Not(inner) => inner.values(),
        }
    }

    pub(crate) fn columns(&self) -> Vec<&str> {
        self.values().into_iter().flat_map(Value::columns).collect()
    }

    /// The conditions that must all be true.
    pub(crate) fn conjuncts(&self) -> Vec<&Predicate> {
        match self {
            Predicate::All(parts) => parts.iter().flat_map(Predicate::conjuncts).collect(),
            other => vec![other],
        }
    }
}
