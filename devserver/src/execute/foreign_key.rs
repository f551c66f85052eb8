//! Foreign keys: a row needs its partner, and a partner that goes takes its rows along or may not go.
//!
//! Everything is looked at after the statement has changed its rows, so that rows can come and go together. Whoever
//! inserts reads the partner under an S lock: it waits for a session that has changed or deleted it. Whoever deletes
//! reads the referring rows under S locks: without an index on the referring columns that is the whole table, and one
//! row that somebody has locked stops it, as in SQL Server. These locks are taken under READ UNCOMMITTED and row
//! versions too.
//!
//! Source: "Primary and foreign key constraints" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/tables/primary-and-foreign-key-constraints.md).

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::Run;
use crate::plan::table_hints::{Access, TableHints};
use crate::plan::table_rules::{Cascade, ForeignKeys, Lookup, Reference, Referrer};
use crate::storage::{Direction, Found, LockMode, Scan, SeekRange};
use crate::tsql::ast::IsolationLevel;
use crate::value::{Value, compare};

impl Lookup {
    /// The rows with a key, at most `most` of them.
    fn find(&self, key: &[Value], access: Access, most: usize, run: &mut Run<'_>) -> SqlResult<Vec<Found>> {
        let level = match run.state.options.isolation {
            IsolationLevel::ReadUncommitted | IsolationLevel::Snapshot => IsolationLevel::ReadCommitted,
            other => other,
        };
        let hints = TableHints { isolation: Some((level, true)), ..TableHints::default() };
        let locks = hints.lock_plan(level, false, access)?;
        let range = SeekRange {
            equal: self.sought.iter().map(|&position| key[position].clone()).collect(),
            ..SeekRange::default()
        };
        let storage = run.storage()?;
        let (latch, tx) = (&mut storage.latch, &mut storage.tx);
        let mut scan = Scan::open(latch, tx, self.table.id, self.index, &range, Direction::Forward, locks, false)?;
        let mut found = Vec::new();
        while found.len() < most {
            let Some(row) = scan.next(latch, tx)? else { break };
            let values = row.row.values(&self.table);
            let is_it = self.columns.iter().zip(key).all(|(column, wanted)| {
                let collation = self.table.columns[*column].collation;
                !values[*column].is_null() && compare(&values[*column], wanted, collation).is_eq()
            });
            if is_it {
                found.push(row);
            } else {
                scan.release_last(latch, tx);
            }
        }
        Ok(found)
    }

    fn is_there(&self, key: &[Value], run: &mut Run<'_>) -> SqlResult<bool> {
        Ok(!self.find(key, Access::Read, 1, run)?.is_empty())
    }
}

/// The key in some columns of a row; `None` if one of them is NULL, which refers to nothing.
fn key_of(row: &[Value], columns: &[usize]) -> Option<Vec<Value>> {
    let key: Vec<Value> = columns.iter().map(|column| row[*column].clone()).collect();
    (!key.iter().any(Value::is_null)).then_some(key)
}

fn conflict(verb: &str, kind: &str, name: &str, lookup: &Lookup, run: &Run<'_>) -> SqlError {
    let table = &lookup.table;
    let column = match lookup.columns[..] {
        [column] => format!(", column '{}'", table.columns[column].name),
        _ => String::new(),
    };
    SqlError::new(
        547,
        format!(
            "The {verb} statement conflicted with the {kind} constraint \"{name}\". The conflict occurred in database \
             \"{}\", table \"{}.{}\"{column}.",
            run.database.name, table.schema, table.name
        ),
    )
}

impl Reference {
    pub fn check(&self, verb: &str, row: &[Value], run: &mut Run<'_>) -> SqlResult<()> {
        let Some(key) = key_of(row, &self.columns) else { return Ok(()) };
        if self.partner.is_there(&key, run)? {
            return Ok(());
        }
        let kind = if self.same_table { "FOREIGN KEY SAME TABLE" } else { "FOREIGN KEY" };
        Err(conflict(verb, kind, &self.name, &self.partner, run))
    }
}

impl Referrer {
    /// Nobody refers to the key any more, or it is there again.
    fn check(&self, verb: &str, key: &[Value], run: &mut Run<'_>) -> SqlResult<()> {
        if !self.rows.is_there(key, run)? || self.partner.is_there(key, run)? {
            return Ok(());
        }
        let kind = if self.same_table { "SAME TABLE REFERENCE" } else { "REFERENCE" };
        Err(conflict(verb, kind, &self.name, &self.rows, run))
    }

    /// Deletes the rows that refer to `key`.
    fn follow(&self, cascade: &Cascade, verb: &str, key: &[Value], run: &mut Run<'_>) -> SqlResult<()> {
        let child = &self.rows.table;
        let found = self.rows.find(key, Access::Change, usize::MAX, run)?;
        if found.is_empty() {
            return Ok(());
        }
        // "If any tables in the cascading chain are not affected … AFTER triggers do not fire" there.
        if cascade.has_trigger {
            return Err(SqlError::not_supported(format!(
                "deleting rows of '{}', which has triggers, by the foreign key '{}'",
                child.name, self.name
            )));
        }
        let storage = run.storage()?;
        storage.latch.lock_as_planned(&mut storage.tx, child, LockMode::IntentExclusive)?;
        let mut deleted = Vec::with_capacity(found.len());
        for row in found {
            storage.latch.delete(&mut storage.tx, child.id, &row.key)?;
            deleted.push(row.row.values(child));
        }
        cascade.keys.rows_deleted(verb, &deleted, run)
    }
}

impl ForeignKeys {
    /// A row is there that was not, or has other values: its partners must be there.
    pub fn check_row(&self, verb: &str, row: &[Value], run: &mut Run<'_>) -> SqlResult<()> {
        for reference in &self.references {
            reference.check(verb, row, run)?;
        }
        Ok(())
    }

    /// Rows are gone.
    pub fn rows_deleted(&self, verb: &str, rows: &[Vec<Value>], run: &mut Run<'_>) -> SqlResult<()> {
        for referrer in &self.referrers {
            for row in rows {
                let Some(key) = key_of(row, &referrer.columns) else { continue };
                match &referrer.cascade {
                    None => referrer.check(verb, &key, run)?,
                    Some(cascade) => referrer.follow(cascade, verb, &key, run)?,
                }
            }
        }
        Ok(())
    }

    /// Rows have changed: the old and the new ones.
    pub fn rows_updated(&self, verb: &str, rows: &[(Vec<Value>, Vec<Value>)], run: &mut Run<'_>) -> SqlResult<()> {
        for referrer in &self.referrers {
            for (old, new) in rows {
                let Some(key) = key_of(old, &referrer.columns) else { continue };
                if key_of(new, &referrer.columns).as_ref() == Some(&key) {
                    continue;
                }
                if referrer.cascades_updates && referrer.rows.is_there(&key, run)? {
                    return Err(SqlError::not_supported(format!(
                        "changing a key that rows of '{}' refer to, with ON UPDATE CASCADE",
                        referrer.rows.table.name
                    )));
                }
                referrer.check(verb, &key, run)?;
            }
        }
        Ok(())
    }
}
