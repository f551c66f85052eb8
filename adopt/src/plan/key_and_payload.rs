//! Checks the key, the payload, and the columns that describe the job.

use crate::catalog::{Column, Family, Index};
use crate::error::Error;
use crate::expression::Value;
use crate::mapping::{At, End};
use crate::names::bracketed;

use super::plan::{LONGEST_HEADERS, Plan};
use super::types::shown_type;

/// The longest text in a key, so that the key's index stays within 1,700 bytes.
const LONGEST_KEY_TEXT: i32 = 128;

/// The most bytes of an index's key ("CREATE INDEX (Transact-SQL)"), and the most characters of a job's headers.
const LONGEST_KEY: i32 = 1_700;

impl Plan {
    /// Checks that the key identifies one row, which can be found again by one seek.
    pub(super) fn check_key(&mut self) -> Result<(), Error> {
        if self.mapping.takes_out() {
            return Ok(());
        }
        let key: Vec<Column> = self.mapping.key.iter().map(|at| self.column(at)).collect::<Result<_, _>>()?;
        for (at, column) in self.mapping.key.iter().zip(&key) {
            let is_short = column.most_characters().is_some_and(|most| most <= LONGEST_KEY_TEXT);
            let fits = match column.family() {
                Family::Integer | Family::Guid | Family::Bit | Family::Time => true,
                Family::WideText | Family::Text => is_short,
                _ => false,
            };
            if !fits {
                let message = format!(
                    "key has column {}, which is {}; it must be a whole number, a uniqueidentifier, a bit, a time, or a text of up \
                     to {LONGEST_KEY_TEXT} characters",
                    column.name,
                    shown_type(column)
                );
                return self.refused(at.line, message);
            }
            if column.is_nullable {
                return self.refused(
                    at.line,
                    format!(
                        "key has column {}, which can be NULL: a row with NULL could not be found again",
                        column.name
                    ),
                );
            }
            let sets = self.mapping.claim_sets().iter().chain(&self.mapping.failed);
            let dead = match &self.mapping.dead.it {
                End::Set(sets) => sets.as_slice(),
                _ => &[],
            };
            if let Some(set) = sets.chain(dead).find(|set| set.column.it == column.name) {
                let message = format!(
                    "{} is part of the key and must not be set: the row is found again by its key",
                    column.name
                );
                return self.refused(set.column.line, message);
            }
        }
        // In JSON, each value adds quotes, a colon and a comma.
        let characters = |column: &Column| column.most_characters().unwrap_or(40).unsigned_abs() as usize;
        let headers: usize = key.iter().map(|column| column.name.chars().count() + characters(column) + 6).sum();
        if key.iter().map(|column| column.max_length).sum::<i32>() > LONGEST_KEY || headers > LONGEST_HEADERS {
            let message = format!(
                "key has {} columns, which together are longer than {LONGEST_KEY} bytes or, with their names, than \
                 {LONGEST_HEADERS} characters; name a shorter unique key",
                key.len()
            );
            return self.refused(self.mapping.key.first().map_or(1, |at| at.line), message);
        }
        let is_unique = |index: &&Index| {
            index.is_unique
                && index.filter.is_none()
                && index.key.iter().all(|(name, _)| key.iter().any(|column| column.name == *name))
        };
        let mut found: Vec<_> = self.table.indexes.iter().filter(is_unique).collect();
        found.sort_by_key(|index| (!index.is_clustered, index.key.len()));
        match found.first() {
            Some(index) => {
                self.key_index = Some(index.name.clone());
                Ok(())
            }
            None => {
                let columns: Vec<String> = key.iter().map(|column| bracketed(&column.name)).collect();
                let (columns, table) = (columns.join(", "), self.table.name.sql());
                let line = self.mapping.key.first().map_or(1, |at| at.line);
                self.refused(
                    line,
                    format!(
                        "key is {columns}, which has no unique index, so two rows could have the same key; CREATE UNIQUE \
                         INDEX [readpast_key] ON {table} ({columns})"
                    ),
                )
            }
        }
    }

    pub(super) fn check_payload(&self) -> Result<(), Error> {
        let is_one = self.mapping.payload.len() == 1;
        for at in &self.mapping.payload {
            let column = self.column(at)?;
            match column.family() {
                Family::Other => {
                    let message = format!(
                        "payload has column {}, which is {}: this type cannot be sent; store it as nvarchar or varbinary",
                        column.name,
                        shown_type(&column)
                    );
                    return self.refused(at.line, message);
                }
                Family::Bytes if !is_one => {
                    let message = format!(
                        "payload has column {} of bytes beside others: several columns are sent as JSON, which cannot contain bytes; \
                         name it alone",
                        column.name
                    );
                    return self.refused(at.line, message);
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn check_columns(&mut self) -> Result<(), Error> {
        let columns = self.mapping.columns.clone();
        if let Some(at) = &columns.attempts {
            self.check_family("columns.attempts", at, &[Family::Integer], "a whole number")?;
        }
        if let Some(at) = &columns.error {
            self.check_family("columns.error", at, &[Family::WideText, Family::Text], "a text")?;
        }
        for (name, value) in [("columns.created", &columns.created), ("columns.due", &columns.due)] {
            if let Some(At { it: Value::Column(column), line }) = value
                && self.table.column(column).is_some_and(|column| column.type_name == "time")
            {
                return self.refused(
                    *line,
                    format!("{name} is {column}, which is a time of day; it must be a date, or have one"),
                );
            }
        }
        for (name, value, families, what) in [
            ("columns.created", &columns.created, &[Family::Time][..], "a time"),
            ("columns.due", &columns.due, &[Family::Time][..], "a time"),
            ("columns.priority", &columns.priority, &[Family::Integer, Family::Bit][..], "a whole number"),
            ("columns.kind", &columns.kind, &[Family::WideText, Family::Text][..], "a text"),
        ] {
            let Some(at) = value else { continue };
            self.check_words(name, &at.it, at.line, &[])?;
            if self.mapping.takes_out() && at.it.can_fail() {
                let message = format!(
                    "{name} could fail for a row, and with it each claim, because a claim that deletes cannot skip a row; use no \
                     division by a column, no LEFT, RIGHT or SUBSTRING with a column as length, no difference in seconds"
                );
                return self.refused(at.line, message);
            }
            let family = self.check_family_of(name, &at.it, at.line)?;
            match &at.it {
                Value::Column(column) => {
                    self.check_family(name, &At { it: column.clone(), line: at.line }, families, what)?;
                }
                _ if family.is_some_and(|family| !families.contains(&family)) => {
                    return self.refused(at.line, format!("{name} must be {what}"));
                }
                _ => {}
            }
        }
        if let Some(At { it: Value::Column(name), .. }) = &columns.created
            && self.table.column(name).is_some_and(|column| column.type_name == "datetime")
        {
            self.notes
                .push(format!("{name} is read as a time in UTC; if it is local time, convert it in columns.created"));
        }
        Ok(())
    }

    pub(super) fn check_family(
        &self,
        key: &str,
        at: &At<String>,
        families: &[Family],
        what: &str,
    ) -> Result<(), Error> {
        let column = self.column(at)?;
        if families.contains(&column.family()) {
            return Ok(());
        }
        self.refused(at.line, format!("{key} is {}, which is {}; it must be {what}", column.name, shown_type(&column)))
    }
}
