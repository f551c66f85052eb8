//! A mapping and its table brought together: every name looked up, every type compared, and what cannot work refused
//! with the line that asks for it and with what to do about it.

use super::catalog::{Column, Family, Table};
use super::expression::{Predicate, Value, Word};
use super::index_choice::{self, Choice};
use super::mapping::{At, End, Mapping, Set};
use super::names::bracketed;
use crate::error::Error;

/// What an adoption is made from.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) mapping: Mapping,
    pub(super) table: Table,
    /// The index by which a row is found again; `None` where a claim takes it out.
    pub(super) key_index: Option<String>,
    pub(super) ready_index: Option<String>,
    /// What the person who installs it should know.
    pub(super) notes: Vec<String>,
}

/// Of a column in `jobs` that keeps a value of theirs.
pub(super) const KEPT: &str = "their_";

/// Schemas that are somebody's already.
const TAKEN_SCHEMAS: [&str; 4] = ["dbo", "sys", "guest", "INFORMATION_SCHEMA"];

/// The longest text that can be a part of a key: so that the key's index stays within 1,700 bytes.
const LONGEST_KEY_TEXT: i32 = 128;

/// Where words may stand.
const IN_CLAIM: &[Word] = &[Word::Worker];
const IN_DONE: &[Word] = &[Word::Attempt, Word::Worker, Word::JobId, Word::ClaimedAt, Word::Output];
const IN_FAILED: &[Word] = &[Word::Error, Word::Attempt, Word::Worker, Word::JobId, Word::ClaimedAt, Word::DueAt];
const IN_DEAD: &[Word] = &[Word::Error, Word::Attempt, Word::Worker, Word::JobId, Word::ClaimedAt];

impl Plan {
    /// `others`: the tables to which rows are moved, where they are there.
    ///
    /// # Errors
    ///
    /// [`Error::Mapping`] for the first thing that cannot work.
    pub(super) fn new(mapping: &Mapping, schema: &str, table: Table, others: &[Table]) -> Result<Plan, Error> {
        let mut plan = Plan { mapping: mapping.clone(), table, key_index: None, ready_index: None, notes: Vec::new() };
        plan.check_schema(schema)?;
        plan.check_table()?;
        plan.take_names()?;
        plan.check_marks()?;
        plan.check_key()?;
        plan.check_payload()?;
        plan.check_columns()?;
        plan.check_expressions()?;
        plan.check_ends(others)?;
        plan.choose_index()?;
        Ok(plan)
    }

    fn refused<T>(&self, line: usize, message: impl Into<String>) -> Result<T, Error> {
        Err(self.mapping.refusal(line, message))
    }

    fn check_schema(&self, schema: &str) -> Result<(), Error> {
        let line = self.mapping.schema.as_ref().map_or(self.mapping.table.line, |schema| schema.line);
        if TAKEN_SCHEMAS.iter().any(|taken| taken.eq_ignore_ascii_case(schema))
            || schema.eq_ignore_ascii_case(&self.table.name.schema)
        {
            return self.refused(
                line,
                format!("schema is {schema}, which is not the adoption's own; choose a name that no schema has yet"),
            );
        }
        Ok(())
    }

    fn check_table(&self) -> Result<(), Error> {
        let (line, name) = (self.mapping.table.line, &self.table.name);
        if self.table.is_special {
            let message = format!("{name} is memory-optimized or temporal, which a table for claims cannot be");
            return self.refused(line, message);
        }
        // READPAST skips locked rows, not locked pages.
        if let Some(index) = self.table.indexes.iter().find(|index| !index.has_row_locks) {
            let message = format!(
                "index {} of {name} has no row locks, so that claims would wait for each other; ALTER INDEX {} ON {} SET \
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
                    "{name} does not belong to dbo, as the adoption's procedures do, so that a worker would need rights on \
                     the table itself; ALTER AUTHORIZATION ON OBJECT::{} TO dbo",
                    name.sql()
                ),
            );
        }
        if let Some(trigger) = self.table.triggers.first() {
            return self.refused(
                line,
                format!(
                    "{name} has the trigger {trigger}: it would run inside of each claim and each acknowledgement, for \
                     hundreds of rows at once; DISABLE TRIGGER {} ON {}, or have what it does done by the jobs",
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
            if column.name.contains("$(") || column.name.chars().count() > 128 - KEPT.len() && self.mapping.takes_out()
            {
                return self.refused(line, format!("column {} has a name that a script cannot have", column.name));
            }
        }
        if name.sql().contains("$(") {
            return self.refused(line, format!("{name} is a name that a script cannot have"));
        }
        Ok(())
    }

    /// The column that a name of the mapping means.
    fn column(&self, at: &At<String>) -> Result<Column, Error> {
        match self.table.column(&at.it) {
            Some(column) => Ok(column.clone()),
            None => self.refused(at.line, no_column(&self.table, &at.it)),
        }
    }

    /// Writes the names of the mapping as the catalog has them, so that everything behind this can compare them.
    fn take_names(&mut self) -> Result<(), Error> {
        let mapping = self.mapping.clone();
        let own = |plan: &Plan, at: &At<String>| -> Result<At<String>, Error> {
            Ok(At { it: plan.column(at)?.name, line: at.line })
        };
        let list =
            |plan: &Plan, list: &[At<String>]| list.iter().map(|at| own(plan, at)).collect::<Result<Vec<_>, _>>();
        let named = |plan: &Plan, value: &Value, line: usize| {
            value.renamed(&|name| match plan.table.column(name) {
                Some(column) => Ok(column.name.clone()),
                None => {
                    let why = no_column(&plan.table, name);
                    plan.refused(line, format!("{why} (a text as a value has quotes of its own: \"'{name}'\")"))
                }
            })
        };
        let sets = |plan: &Plan, sets: &[Set]| {
            let one = |set: &Set| -> Result<Set, Error> {
                let value = named(plan, &set.value, set.column.line)?;
                Ok(Set { column: own(plan, &set.column)?, value })
            };
            sets.iter().map(one).collect::<Result<Vec<_>, Error>>()
        };
        // Of a move, the columns are the other table's, and the values of these.
        let end = |plan: &Plan, end: &End| -> Result<End, Error> {
            Ok(match end {
                End::Delete => End::Delete,
                End::Set(list) => End::Set(sets(plan, list)?),
                End::Move { table, values } => {
                    let mut moved = values.clone();
                    for set in &mut moved {
                        set.value = named(plan, &set.value, set.column.line)?;
                    }
                    End::Move { table: table.clone(), values: moved }
                }
            })
        };
        let about = |plan: &Plan, value: &Option<At<Value>>| -> Result<Option<At<Value>>, Error> {
            let Some(at) = value else { return Ok(None) };
            Ok(Some(At { it: named(plan, &at.it, at.line)?, line: at.line }))
        };
        self.mapping.key = list(self, &mapping.key)?;
        self.mapping.payload = list(self, &mapping.payload)?;
        for ordered in &mut self.mapping.order {
            ordered.column = match self.table.column(&ordered.column.it) {
                Some(column) => At { it: column.name.clone(), line: ordered.column.line },
                None => {
                    let message = no_column(&self.table, &ordered.column.it);
                    return Err(mapping.refusal(ordered.column.line, message));
                }
            };
        }
        if let Some(ready) = &mapping.ready {
            let rename =
                |name: &str| self.column(&At { it: name.to_string(), line: ready.line }).map(|column| column.name);
            self.mapping.ready = Some(At { it: ready.it.renamed(&rename)?, line: ready.line });
        }
        if let super::mapping::Claim::Set(list) = &mapping.claim.it {
            self.mapping.claim.it = super::mapping::Claim::Set(sets(self, list)?);
        }
        self.mapping.done.it = end(self, &mapping.done.it)?;
        self.mapping.dead.it = end(self, &mapping.dead.it)?;
        self.mapping.failed = sets(self, &mapping.failed)?;
        self.mapping.columns.created = about(self, &mapping.columns.created)?;
        self.mapping.columns.due = about(self, &mapping.columns.due)?;
        self.mapping.columns.priority = about(self, &mapping.columns.priority)?;
        self.mapping.columns.kind = about(self, &mapping.columns.kind)?;
        let columns = &mut self.mapping.columns;
        for at in [&mut columns.attempts, &mut columns.error].into_iter().flatten() {
            match self.table.column(&at.it) {
                Some(found) => at.it = found.name.clone(),
                None => return Err(mapping.refusal(at.line, no_column(&self.table, &at.it))),
            }
        }
        Ok(())
    }

    /// What a claim sets must keep everybody else from the row, and what failing, done and dead set must not make it
    /// ready again.
    fn check_marks(&self) -> Result<(), Error> {
        let Some(ready) = self.mapping.ready.as_ref().filter(|_| !self.mapping.takes_out()) else { return Ok(()) };
        let never_ready = |sets: &[Set]| {
            ready.it.is_never_true(&|name| {
                let set = sets.iter().chain(self.mapping.claim_sets()).find(|set| set.column.it == name);
                set.map(|set| set.value.clone())
            })
        };
        if !never_ready(&[]) {
            let message = "with what the claim sets, a row could still be ready: set a column of the predicate to a value for \
                           which that is false, so that nobody else takes the row";
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
            if !never_ready(sets) {
                let message =
                    format!("with what {name} sets, the row could be ready again, and would be run again at once");
                return self.refused(line, message);
            }
        }
        Ok(())
    }

    /// The row of a job must be found again, by one seek, and be one row.
    fn check_key(&mut self) -> Result<(), Error> {
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
                        "key has column {}, which can be NULL: a row without it could not be found again",
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
                let message =
                    format!("{} is of the key and must not be set: the row is found again by it", column.name);
                return self.refused(set.column.line, message);
            }
        }
        let is_unique = |index: &&super::catalog::Index| {
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
                        "key is {columns}, on which no unique index is, so that two rows could have the same; CREATE UNIQUE \
                         INDEX [readpast_key] ON {table} ({columns})"
                    ),
                )
            }
        }
    }

    fn check_payload(&self) -> Result<(), Error> {
        let is_one = self.mapping.payload.len() == 1;
        for at in &self.mapping.payload {
            let column = self.column(at)?;
            match column.family() {
                Family::Other => {
                    let message = format!(
                        "payload has column {}, which is {}: that cannot be sent; keep it as nvarchar or varbinary",
                        column.name,
                        shown_type(&column)
                    );
                    return self.refused(at.line, message);
                }
                Family::Bytes if !is_one => {
                    let message = format!(
                        "payload has column {} of bytes beside others: several columns are sent as JSON, which has no bytes; \
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

    /// The columns that say something about the job.
    fn check_columns(&mut self) -> Result<(), Error> {
        let columns = self.mapping.columns.clone();
        if let Some(at) = &columns.attempts {
            self.check_family("columns.attempts", at, &[Family::Integer], "a whole number")?;
        }
        if let Some(at) = &columns.error {
            self.check_family("columns.error", at, &[Family::WideText, Family::Text], "a text")?;
        }
        for (name, value, families, what) in [
            ("columns.created", &columns.created, &[Family::Time][..], "a time"),
            ("columns.due", &columns.due, &[Family::Time][..], "a time"),
            ("columns.priority", &columns.priority, &[Family::Integer, Family::Bit][..], "a whole number"),
            ("columns.kind", &columns.kind, &[Family::WideText, Family::Text][..], "a text"),
        ] {
            let Some(at) = value else { continue };
            self.check_words(name, &at.it, at.line, &[])?;
            if let Value::Column(column) = &at.it {
                self.check_family(name, &At { it: column.clone(), line: at.line }, families, what)?;
            }
        }
        if let Some(At { it: Value::Column(name), .. }) = &columns.created
            && self.table.column(name).is_some_and(|column| column.type_name == "datetime")
        {
            self.notes.push(format!(
                "{name} is taken for a time in UTC; where it is local time, convert it in columns.created"
            ));
        }
        Ok(())
    }

    fn check_family(&self, key: &str, at: &At<String>, families: &[Family], what: &str) -> Result<(), Error> {
        let column = self.column(at)?;
        if families.contains(&column.family()) {
            return Ok(());
        }
        self.refused(at.line, format!("{key} is {}, which is {}; it must be {what}", column.name, shown_type(&column)))
    }

    fn check_words(&self, key: &str, value: &Value, line: usize, allowed: &[Word]) -> Result<(), Error> {
        let Some(word) = value.words().into_iter().find(|word| !allowed.contains(word)) else { return Ok(()) };
        let names = |words: &[Word]| {
            let named = super::expression::WORDS.iter().filter(|(_, known)| words.contains(known));
            named.map(|(name, _)| format!("{{{name}}}")).collect::<Vec<_>>().join(", ")
        };
        let what = if allowed.is_empty() { "no words".to_string() } else { format!("only {}", names(allowed)) };
        self.refused(line, format!("{key} has {}; there are {what} here", names(&[word])))
    }

    fn check_expressions(&self) -> Result<(), Error> {
        if let Some(ready) = &self.mapping.ready {
            for value in ready.it.values() {
                self.check_words("ready", value, ready.line, &[])?;
            }
            self.check_comparisons(&ready.it, ready.line)?;
        }
        let sets = self.mapping.claim_sets();
        self.check_sets("claim.set", sets, IN_CLAIM)?;
        if let Some(twice) =
            sets.iter().enumerate().find(|(at, set)| sets[..*at].iter().any(|other| other.column.it == set.column.it))
        {
            return self.refused(twice.1.column.line, format!("claim.set has {} twice", twice.1.column.it));
        }
        self.check_sets("failed.set", &self.mapping.failed, IN_FAILED)
    }

    /// A column beside a literal of another family is converted, row by row, or fails on the first row that cannot be.
    fn check_comparisons(&self, predicate: &Predicate, line: usize) -> Result<(), Error> {
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

    fn check_literal(&self, key: &str, column: &Column, value: &Value, line: usize) -> Result<(), Error> {
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
        if fits {
            return Ok(());
        }
        self.refused(line, format!("{key} puts {what} beside {}, which is {}", column.name, shown_type(column)))
    }

    fn check_sets(&self, key: &str, sets: &[Set], words: &[Word]) -> Result<(), Error> {
        for set in sets {
            let column = self.column(&set.column)?;
            self.check_set(key, &column, set, words)?;
        }
        Ok(())
    }

    fn check_set(&self, key: &str, column: &Column, set: &Set, words: &[Word]) -> Result<(), Error> {
        let line = set.column.line;
        self.check_words(key, &set.value, line, words)?;
        let why = match column {
            _ if column.is_computed => Some("it is computed"),
            _ if column.is_identity => Some("it is an identity column"),
            _ if column.is_given() => Some("SQL Server gives it its value"),
            _ if set.value == Value::Null && !column.is_nullable => Some("it cannot be NULL"),
            _ if column.family() == Family::Other => Some("its type is none that can be set here"),
            _ => None,
        };
        if let Some(why) = why {
            return self.refused(line, format!("{key} sets {} ({}): {why}", column.name, shown_type(column)));
        }
        self.check_literal(key, column, &set.value, line)
    }

    fn check_ends(&mut self, others: &[Table]) -> Result<(), Error> {
        for (name, end, words) in
            [("done", self.mapping.done.it.clone(), IN_DONE), ("dead", self.mapping.dead.it.clone(), IN_DEAD)]
        {
            match &end {
                End::Delete => {}
                End::Set(sets) => self.check_sets(&format!("{name}.set"), sets, words)?,
                End::Move { table, values } => {
                    let Some(other) = others.iter().find(|other| other.name == table.it) else {
                        return self.refused(
                            table.line,
                            format!(
                                "{name}.move is {}: there is no such table, or this login may not see it",
                                table.it
                            ),
                        );
                    };
                    self.check_move(name, table.line, other, values, words)?;
                }
            }
        }
        let deletes = self.mapping.takes_out() || !matches!(self.mapping.done.it, End::Set(_));
        if let Some(key) =
            self.table.constraints.iter().find(|name| name.starts_with("the foreign key")).filter(|_| deletes)
        {
            self.notes.push(format!(
                "{key} is on the table: a row that another refers to cannot be deleted, and its job would fail"
            ));
        }
        if self.mapping.takes_out() && matches!(self.mapping.dead.it, End::Set(_)) {
            self.notes.push(
                "a row whose job is dead is kept by the adoption alone, until it is requeued or purged".to_string(),
            );
        }
        Ok(())
    }

    fn check_move(&self, name: &str, line: usize, other: &Table, values: &[Set], words: &[Word]) -> Result<(), Error> {
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
        if let Some(what) = in_the_way.or_else(|| other.constraints.first().cloned())
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
        for set in values {
            let Some(column) = other.column(&set.column.it) else {
                return self.refused(set.column.line, no_column(other, &set.column.it));
            };
            self.check_set(&format!("{name}.with"), column, set, words)?;
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

    fn choose_index(&mut self) -> Result<(), Error> {
        let order: Vec<(String, bool)> =
            self.mapping.order.iter().map(|ordered| (ordered.column.it.clone(), ordered.descending)).collect();
        let ready = self.mapping.ready.as_ref().map(|ready| &ready.it);
        let marks = |name: &str| {
            let set = self.mapping.claim_sets().iter().find(|set| set.column.it.eq_ignore_ascii_case(name));
            set.map(|set| set.value.clone())
        };
        match index_choice::choose(&self.table, ready, &order, &marks) {
            Choice::AsTheyLie => Ok(()),
            Choice::Index { name, read_over } => {
                self.ready_index = Some(name);
                for part in read_over {
                    self.notes
                        .push(format!("a claim reads over ready rows for which {part} does not hold: keep them few"));
                }
                Ok(())
            }
            Choice::Missing(statement) => {
                let line = self.mapping.order.first().map(|ordered| ordered.column.line);
                let line =
                    line.or(self.mapping.ready.as_ref().map(|ready| ready.line)).unwrap_or(self.mapping.table.line);
                self.refused(
                    line,
                    format!(
                        "no index of {} has the ready rows together and in this order, so that each claim would read, sort \
                         and lock all of them; {statement}",
                        self.table.name
                    ),
                )
            }
        }
    }

    /// The columns whose values `jobs` keeps: those of the key and those that a claim sets, or all, where it takes the
    /// row out.
    pub(super) fn kept(&self) -> Vec<&Column> {
        let is_kept = |column: &&Column| {
            if self.mapping.takes_out() {
                return !column.is_given();
            }
            self.mapping.key.iter().any(|at| at.it == column.name)
                || self.mapping.claim_sets().iter().any(|set| set.column.it == column.name)
        };
        self.table.columns.iter().filter(is_kept).collect()
    }
}

fn no_column(table: &Table, name: &str) -> String {
    let near = table.columns.iter().map(|column| column.name.as_str());
    let near = near.min_by_key(|column| strsim::damerau_levenshtein(&column.to_lowercase(), &name.to_lowercase()));
    match near {
        Some(near) if strsim::damerau_levenshtein(&near.to_lowercase(), &name.to_lowercase()) <= 2 => {
            format!("{} has no column {name}; did you mean {near}?", table.name)
        }
        _ => {
            let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
            format!("{} has no column {name}; it has {}", table.name, names.join(", "))
        }
    }
}

fn shown_type(column: &Column) -> String {
    if column.type_name.is_empty() { "of a CLR type".to_string() } else { column.sql_type() }
}
