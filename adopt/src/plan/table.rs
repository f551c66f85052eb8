//! Checks the table itself.

use crate::catalog::Family;
use crate::error::Error;
use crate::index_choice;
use crate::index_choice::Choice;
use crate::mapping::Set;
use crate::names::bracketed;

use super::plan::{KEPT, Plan};
use super::types::{held, shown_type};

/// Schemas that an adoption must not use.
const TAKEN_SCHEMAS: [&str; 4] = ["dbo", "sys", "guest", "INFORMATION_SCHEMA"];

impl Plan {
    pub(super) fn check_schema(&self, schema: &str) -> Result<(), Error> {
        let line = self.mapping.schema.as_ref().map_or(self.mapping.table.line, |schema| schema.line);
        if TAKEN_SCHEMAS.iter().any(|taken| taken.eq_ignore_ascii_case(schema))
            || schema.eq_ignore_ascii_case(&self.table.name.schema)
        {
            return self
                .refused(line, format!("schema is {schema}, which belongs to someone else; choose an unused name"));
        }
        Ok(())
    }

    pub(super) fn check_table(&self) -> Result<(), Error> {
        let (line, name) = (self.mapping.table.line, &self.table.name);
        if let Some(speciality) = &self.table.speciality {
            let message = format!(
                "{name} is {speciality}, which is not supported; let its producer, or a trigger, add the \
                 rows to a plain table, or to a queue of readpast"
            );
            return self.refused(line, message);
        }
        if let Some(column) = self.table.columns.iter().find(|column| column.is_hidden && self.is_used(&column.name)) {
            let message = format!(
                "column {} of {name} is masked or encrypted: workers would not get its values; ALTER TABLE {} ALTER COLUMN {} \
                 DROP MASKED, or decrypt it",
                column.name,
                name.sql(),
                bracketed(&column.name)
            );
            return self.refused(line, message);
        }
        if let Some(index) = self.table.indexes.iter().find(|index| !index.has_row_locks) {
            let message = format!(
                "index {} of {name} has no row locks, so claims would wait for each other; ALTER INDEX {} ON {} SET \
                 (ALLOW_ROW_LOCKS = ON)",
                index.name,
                bracketed(&index.name),
                name.sql()
            );
            return self.refused(line, message);
        }
        if !self.table.is_owned_by_dbo {
            return self.refused(
                line,
                format!(
                    "{name} does not belong to dbo, unlike the adoption's procedures, so a worker would need permissions on \
                     the table itself; ALTER AUTHORIZATION ON OBJECT::{} TO dbo",
                    name.sql()
                ),
            );
        }
        if let Some(trigger) = self.table.triggers.first() {
            return self.refused(
                line,
                format!(
                    "{name} has the trigger {trigger}: it would run inside each claim and each finish, for \
                     hundreds of rows at once; DISABLE TRIGGER {} ON {}, or let the jobs do its work",
                    bracketed(trigger),
                    name.sql()
                ),
            );
        }
        for column in &self.table.columns {
            if self.mapping.takes_out() && column.family() == Family::Other && !column.is_given() {
                let message = format!(
                    "column {} has the type {}, which an adoption cannot keep while a job runs (claim.delete); use \
                     claim.set",
                    column.name,
                    shown_type(column)
                );
                return self.refused(self.mapping.claim.line, message);
            }
            if column.name.contains("$(")
                || column.name.contains(char::is_control)
                || column.name.chars().count() > 128 - KEPT.len() && self.mapping.takes_out()
            {
                return self
                    .refused(line, format!("column {} has a name that is not possible in a script", column.name));
            }
        }
        if name.sql().contains("$(") || name.sql().contains(char::is_control) {
            return self.refused(line, format!("{name} is not possible in a script"));
        }
        Ok(())
    }

    pub(super) fn choose_index(&mut self) -> Result<(), Error> {
        let order: Vec<(String, bool)> =
            self.mapping.order.iter().map(|ordered| (ordered.column.it.clone(), ordered.descending)).collect();
        let ready = self.mapping.ready.as_ref().map(|ready| &ready.it);
        let sets = self.mapping.claim_sets();
        let mark = |set: &Set| (set.column.it.clone(), held(&self.table, sets, &set.column.it));
        let marks: Vec<_> = sets.iter().map(mark).collect();
        let of_order = self.mapping.order.first().map(|ordered| ordered.column.line);
        let of_ready = self.mapping.ready.as_ref().map(|ready| ready.line);
        match index_choice::choose(&self.table, ready, &order, &marks) {
            Choice::AsTheyLie => Ok(()),
            Choice::Index { name, read_over } => {
                self.ready_index = Some(name);
                for (part, spared) in read_over {
                    let or = spared.map_or(String::new(), |statement| format!("; or {}{statement}", caution(&statement)));
                    self.notes
                        .push(format!("a claim reads over rows that are ready except for {part}: keep such rows few{or}"));
                }
                Ok(())
            }
            Choice::Missing(statement) => self.refused(
                of_order.or(of_ready).unwrap_or(self.mapping.table.line),
                format!(
                    "no index of {} has the ready rows together and in this order, so each claim would read, sort and \
                     lock all of them; {}{statement}",
                    self.table.name,
                    caution(&statement)
                ),
            ),
            Choice::OtherOrder { column, statement } => self.refused(
                of_order.unwrap_or(self.mapping.table.line),
                format!(
                    "ready makes rows wait until {column}, and each claim would read over all waiting rows, because they lie \
                     among ready rows; begin order with {column}, and {statement}"
                ),
            ),
            Choice::Impossible(part) => self.refused(
                of_ready.unwrap_or(self.mapping.table.line),
                format!(
                    "no index separates the rows that are ready by {part} from taken rows; compare a column that \
                     claim.set changes with literals, using =, IS NULL, IN, < or >"
                ),
            ),
        }
    }
}

/// A caution about the SET options that filtered indexes require, to be appended ("CREATE INDEX (Transact-SQL)").
fn caution(statement: &str) -> &'static str {
    if statement.contains(" WHERE ") {
        "(only if all writers of the table have QUOTED_IDENTIFIER, ANSI_NULLS and the related options ON; otherwise their writes fail) "
    } else {
        ""
    }
}
