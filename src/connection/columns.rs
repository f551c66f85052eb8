//! Reads the rows of a procedure's response, column by column.

use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use tiberius::{ColumnData, FromSqlOwned, Row};

use crate::error::Error;
use crate::time::from_datetime2;

use super::answer_size_limit::Answer;

/// The rows of a procedure's only result set.
pub(crate) fn into_rows(call: &'static str, answer: Answer) -> Vec<Columns> {
    columns(call, answer.into_results().pop().unwrap_or_default())
}

/// The rows of all result sets of a procedure whose result sets have the same columns.
pub(crate) fn all_rows(call: &'static str, answer: Answer) -> impl Iterator<Item = Columns> {
    answer.into_results().into_iter().flatten().map(move |row| Columns::new(call, row))
}

pub(crate) fn columns(call: &'static str, rows: Vec<Row>) -> Vec<Columns> {
    rows.into_iter().map(|row| Columns::new(call, row)).collect()
}

pub(crate) fn one_row(call: &'static str, mut rows: Vec<Columns>) -> Result<Columns, Error> {
    match rows.pop() {
        Some(row) if rows.is_empty() => Ok(row),
        _ => Err(Error::Protocol { message: format!("{call} did not return exactly one row") }),
    }
}

/// A row, read column by column in the order of the procedure's result. What a claim calls is inline: it reads eleven
/// columns of each job.
#[derive(Debug)]
pub(crate) struct Columns {
    call: &'static str,
    values: std::vec::IntoIter<ColumnData<'static>>,
}

impl Columns {
    fn new(call: &'static str, row: Row) -> Columns {
        Columns { call, values: row.into_iter() }
    }

    #[cfg(test)]
    pub(crate) fn for_test(values: Vec<ColumnData<'static>>) -> Columns {
        Columns { call: "test", values: values.into_iter() }
    }

    /// The next column, which may be NULL. `name` is for the error.
    #[inline]
    pub(crate) fn optional<T: FromSqlOwned>(&mut self, name: &str) -> Result<Option<T>, Error> {
        let value = self.next(name)?;
        T::from_sql_owned(value).map_err(|error| self.unexpected(name, &error.to_string()))
    }

    #[inline]
    pub(crate) fn required<T: FromSqlOwned>(&mut self, name: &str) -> Result<T, Error> {
        self.optional(name)?.ok_or_else(|| self.unexpected(name, "it is NULL"))
    }

    #[inline]
    pub(crate) fn count(&mut self, name: &str) -> Result<u32, Error> {
        let number: i32 = self.required(name)?;
        u32::try_from(number).map_err(|_| self.unexpected(name, "it is negative"))
    }

    pub(crate) fn optional_count(&mut self, name: &str) -> Result<Option<u32>, Error> {
        let number: Option<i32> = self.optional(name)?;
        number.map(|number| u32::try_from(number).map_err(|_| self.unexpected(name, "it is negative"))).transpose()
    }

    pub(crate) fn big_count(&mut self, name: &str) -> Result<u64, Error> {
        let number: i64 = self.required(name)?;
        u64::try_from(number).map_err(|_| self.unexpected(name, "it is negative"))
    }

    pub(crate) fn optional_big_count(&mut self, name: &str) -> Result<Option<u64>, Error> {
        let number: Option<i64> = self.optional(name)?;
        number.map(|number| u64::try_from(number).map_err(|_| self.unexpected(name, "it is negative"))).transpose()
    }

    /// The next column, which contains elapsed milliseconds. A negative value counts as zero: SQL Server's clock was
    /// set back.
    #[inline]
    pub(crate) fn optional_ms(&mut self, name: &str) -> Result<Option<Duration>, Error> {
        let ms: Option<i64> = self.optional(name)?;
        Ok(ms.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))))
    }

    pub(crate) fn optional_count_ms(&mut self, name: &str) -> Result<Option<Duration>, Error> {
        let ms: Option<i32> = self.optional(name)?;
        let limit =
            |ms| u64::try_from(ms).map(Duration::from_millis).map_err(|_| self.unexpected(name, "it is negative"));
        ms.map(limit).transpose()
    }

    #[inline]
    pub(crate) fn required_ms(&mut self, name: &str) -> Result<Duration, Error> {
        self.optional_ms(name)?.ok_or_else(|| self.unexpected(name, "it is NULL"))
    }

    pub(crate) fn optional_us(&mut self, name: &str) -> Result<Option<Duration>, Error> {
        let us: Option<i64> = self.optional(name)?;
        Ok(us.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0))))
    }

    /// The next column, a `datetime2` in UTC.
    pub(crate) fn optional_time(&mut self, name: &str) -> Result<Option<SystemTime>, Error> {
        match self.next(name)? {
            ColumnData::DateTime2(time) => Ok(time.map(from_datetime2)),
            other => Err(self.unexpected(name, &format!("it is {}, not a datetime2", kind(&other)))),
        }
    }

    pub(crate) fn required_time(&mut self, name: &str) -> Result<SystemTime, Error> {
        self.optional_time(name)?.ok_or_else(|| self.unexpected(name, "it is NULL"))
    }

    /// The next column, which contains one of `words`. Returns the meaning of the word.
    pub(crate) fn one_of<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<T, Error> {
        self.optional_one_of(name, words)?.ok_or_else(|| self.unexpected(name, "it is NULL"))
    }

    pub(crate) fn optional_one_of<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Error> {
        let Some(text) = self.optional::<String>(name)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => Err(self.unexpected(name, &format!("it is '{text}'"))),
        }
    }

    pub(crate) fn optional_json<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Error> {
        let text: Option<String> = self.optional(name)?;
        let parse = |text: String| {
            serde_json::from_str(&text)
                .map_err(|error| self.unexpected(name, &format!("it is not the expected JSON: {error}")))
        };
        text.map(parse).transpose()
    }

    /// Whether there are no more columns.
    pub(crate) fn is_over(&self) -> bool {
        self.values.len() == 0
    }

    pub(crate) fn skip(&mut self, columns: usize) {
        self.values.by_ref().take(columns).for_each(drop);
    }

    #[inline]
    fn next(&mut self, name: &str) -> Result<ColumnData<'static>, Error> {
        self.values.next().ok_or_else(|| self.unexpected(name, "it is missing"))
    }

    #[cold]
    fn unexpected(&self, name: &str, reason: &str) -> Error {
        Error::Protocol { message: format!("column {name} of {}: {reason}", self.call) }
    }
}

/// The type of a value, without the value, which may be a payload.
fn kind(value: &ColumnData<'_>) -> &'static str {
    match value {
        ColumnData::String(_) => "text",
        ColumnData::Binary(_) => "binary",
        ColumnData::DateTime(_) => "a datetime",
        _ => "of another type",
    }
}
