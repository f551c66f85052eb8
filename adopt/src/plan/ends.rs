//! Checks the changes of a row when its job finishes.

use crate::catalog::{Column, Family, Index, Table};
use crate::error::Error;
use crate::expression::{Value, Word, read_predicate};
use crate::mapping::{End, Set};
use crate::names::bracketed;

use super::plan::{Plan, no_column};
use super::types::{held, is_longer, shown_type};

/// The sections in which words are allowed.
const IN_DONE: &[Word] = &[Word::Attempt, Word::Worker, Word::JobId, Word::ClaimedAt, Word::Output];

const IN_DEAD: &[Word] = &[Word::Error, Word::Attempt, Word::Worker, Word::JobId, Word::ClaimedAt];

impl Plan {
    pub(super) fn check_ends(&mut self) -> Result<(), Error> {
        for (name, end, words) in
            [("done", self.mapping.done.it.clone(), IN_DONE), ("dead", self.mapping.dead.it.clone(), IN_DEAD)]
        {
            match &end {
                End::Delete => {}
                End::Set(sets) => self.check_sets(&format!("{name}.set"), sets, words)?,
                End::Move { table, values } => {
                    let Some(other) = self.others.iter().find(|other| other.name == table.it).cloned() else {
                        return self.refused(
                            table.line,
                            format!(
                                "{name}.move is {}: the table does not exist, or this login may not see it",
                                table.it
                            ),
                        );
                    };
                    self.check_move(name, table.line, &other, values, words)?;
                }
            }
        }
        let deletes = self.mapping.takes_out() || !matches!(self.mapping.done.it, End::Set(_));
        // "DELETE (Transact-SQL)", "Locking behavior": a heap keeps pages that deletes under row locks have emptied.
        if deletes && !self.table.indexes.iter().any(|index| index.is_clustered) {
            self.notes.push(format!(
                "{0} is a heap, which keeps and reads the pages that deletes have emptied: rebuild it from time to time \
                 (ALTER TABLE {1} REBUILD), or give it a clustered index",
                self.table.name,
                self.table.name.sql()
            ));
        }
        if let Some(key) = self.table.references.first().filter(|_| deletes) {
            if self.mapping.takes_out() {
                let message = format!(
                    "{key} refers to {}: a referenced row cannot be deleted, or the delete cascades; use claim.set",
                    self.table.name
                );
                return self.refused(self.mapping.claim.line, message);
            }
            self.notes
                .push(format!("{key} refers to the table: a referenced row cannot be deleted, so its job would fail"));
        }
        self.refuse_limits()?;
        self.note_constraints();
        if self.mapping.takes_out() && matches!(self.mapping.dead.it, End::Set(_)) {
            self.notes
                .push("only the adoption keeps the row of a dead job, until it is requeued or purged".to_string());
        }
        Ok(())
    }

    /// Rejects a table with a unique index that contains only taken rows: of several rows with the same key, only one
    /// could be claimed, and the claims of the others would be rejected.
    fn refuse_limits(&self) -> Result<(), Error> {
        for index in self.table.indexes.iter().filter(|index| index.is_unique) {
            let Some(filter) = &index.filter else { continue };
            let Ok(filter) = read_predicate(filter) else { continue };
            let mut sets = self.mapping.claim_sets().iter();
            let is_in_it = |set: &Set| filter.columns().iter().any(|name| name.eq_ignore_ascii_case(&set.column.it));
            // If a claim removes rows from the index, the index rejects nothing.
            let stays_out = filter.is_never_true(&|name| held(&self.table, self.mapping.claim_sets(), name));
            if sets.any(is_in_it) && !stays_out {
                return self.refused(
                    self.mapping.claim.line,
                    format!(
                        "the unique index {} contains only taken rows, so only one of several rows with the same {} could be \
                         claimed, and the others would be rejected; DROP INDEX {} ON {}",
                        index.name,
                        index.key.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
                        bracketed(&index.name),
                        self.table.name.sql()
                    ),
                );
            }
        }
        Ok(())
    }

    /// Adds notes about constraints that may reject the values set by the mapping.
    pub(super) fn note_constraints(&mut self) {
        let ends = [&self.mapping.done.it, &self.mapping.dead.it].into_iter().filter_map(|end| match end {
            End::Set(sets) => Some(sets.as_slice()),
            _ => None,
        });
        let all = ends.chain([self.mapping.claim_sets(), self.mapping.failed.as_slice()]);
        let set: Vec<String> = all.flatten().map(|set| set.column.it.clone()).collect();
        if set.is_empty() {
            return;
        }
        let checks = self.table.constraints.iter().filter(|name| name.starts_with("the check constraint"));
        let checks = checks.map(|name| format!("{name} is on the table"));
        let is_set = |index: &&Index| {
            // If the other columns are unique, the index stays unique whatever the value of this column.
            let is_in_key = |name: &String| index.key.iter().any(|(column, _)| column == name);
            let is_unique_anyway = self.mapping.key.iter().all(|at| is_in_key(&at.it))
                || self.table.columns.iter().any(|column| column.is_identity && is_in_key(&column.name));
            index.is_unique && !is_unique_anyway && set.iter().any(is_in_key)
        };
        let indexes = self.table.indexes.iter().filter(|index| index.filter.is_none()).filter(is_set);
        let indexes = indexes.map(|index| format!("the unique index {} includes a column that is set", index.name));
        let notes = checks.chain(indexes).map(|what| {
            format!("{what}: if it rejects claim.set for a row, claims skip the row; if it rejects other values, the row stays unchanged; in both cases the job is dead and its error says why")
        });
        self.notes.extend(notes.collect::<Vec<_>>());
    }

    pub(super) fn check_move(
        &mut self,
        name: &str,
        line: usize,
        other: &Table,
        values: &[Set],
        words: &[Word],
    ) -> Result<(), Error> {
        if !other.is_owned_by_dbo {
            let message = format!(
                "{name}.move is {}, which does not belong to dbo; ALTER AUTHORIZATION ON OBJECT::{} TO dbo",
                other.name,
                other.name.sql()
            );
            return self.refused(line, message);
        }
        // "OUTPUT clause (Transact-SQL)": the table of OUTPUT INTO cannot have enabled triggers, check constraints, or
        // be on either side of a foreign key.
        let in_the_way = other.triggers.first().map(|name| format!("the trigger {name}"));
        if let Some(what) = in_the_way.or_else(|| other.constraints.iter().chain(&other.references).next().cloned())
            && !self.mapping.takes_out()
        {
            return self.refused(
                line,
                format!(
                    "{name}.move is {}, which has {what}: SQL Server moves rows (OUTPUT INTO) only to tables without triggers, \
                     check constraints and foreign keys; drop it, or use done.set and move the rows by a job of your own",
                    other.name
                ),
            );
        }
        self.check_twice(&format!("{name}.with"), values)?;
        for set in values {
            let Some(column) = other.column(&set.column.it) else {
                return self.refused(set.column.line, no_column(other, &set.column.it));
            };
            self.check_set(&format!("{name}.with"), column, set, words)?;
            let source = match &set.value {
                Value::Column(source) => self.table.column(source),
                _ => None,
            };
            if let Some(source) =
                source.filter(|source| source.family() == Family::WideText && column.family() == Family::Text)
            {
                self.notes.push(format!(
                    "{name}.with puts {} ({}) into {} ({}): characters that its code page lacks become question marks",
                    source.name,
                    shown_type(source),
                    column.name,
                    shown_type(column)
                ));
            }
            if let Some(source) = source.filter(|source| is_longer(source, column)) {
                self.notes.push(format!(
                    "{name}.with puts {} ({}) into {} ({}): a value that is too long is rejected, and its job fails",
                    source.name,
                    shown_type(source),
                    column.name,
                    shown_type(column)
                ));
            }
        }
        let is_missing = |column: &&Column| {
            !column.is_nullable
                && !column.has_default
                && !column.is_identity
                && !column.is_given()
                && !values.iter().any(|set| set.column.it.eq_ignore_ascii_case(&column.name))
        };
        match other.columns.iter().find(is_missing) {
            Some(column) => self.refused(
                line,
                format!(
                    "{name}.with lacks {}, which {} needs: it cannot be NULL and has no default",
                    column.name, other.name
                ),
            ),
            None => Ok(()),
        }
    }
}
