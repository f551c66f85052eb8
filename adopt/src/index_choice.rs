//! Chooses the index that a claim reads, or the index to create.
//!
//! Ready rows must be adjacent and in order, so that `TOP (n)` reads n entries. A suitable index starts with the
//! columns that the predicate fixes to one value, in any order, followed by the columns of the order. A condition in
//! the index's filter needs no key column. All other conditions are evaluated entry by entry. A bound on the first
//! column of the order ends the range. Two conditions must not be evaluated entry by entry: the one that excludes taken
//! rows, and the one that excludes rows that are not yet due. Otherwise each claim would read over all these rows.

use crate::expression::{Known, Predicate, Terms, read_predicate};

use super::catalog::{Index, Table};
use super::names::bracketed;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// The index, and the conditions because of which a claim may read over rows, each with the index that would avoid
    /// this, if there is one.
    Index {
        name: String,
        read_over: Vec<(String, Option<String>)>,
    },
    /// The mapping has no order and no condition: a claim reads the rows in any order.
    AsTheyLie,
    Missing(String),
    /// The order must begin with this column, and then needs this index.
    OtherOrder {
        column: String,
        statement: String,
    },
    /// No index separates these rows from taken rows.
    Impossible(String),
}

/// The columns that a claim sets, and what is known about their new values.
pub(super) type Marks<'a> = &'a [(String, Option<Known>)];

struct Wanted<'a> {
    table: &'a Table,
    conjuncts: Vec<&'a Predicate>,
    /// Columns, and whether they are descending.
    order: &'a [(String, bool)],
    marks: Marks<'a>,
}

/// Chooses the index for a claim. `order` has the columns as the catalog spells them, each with whether it is
/// descending.
pub(super) fn choose(table: &Table, ready: Option<&Predicate>, order: &[(String, bool)], marks: Marks<'_>) -> Choice {
    let conjuncts = ready.map(Predicate::conjuncts).unwrap_or_default();
    if conjuncts.is_empty() && order.is_empty() {
        return Choice::AsTheyLie;
    }
    Wanted { table, conjuncts, order, marks }.choose()
}

impl Wanted<'_> {
    fn choose(&self) -> Choice {
        if let Some(column) = self.bound_out_of_order() {
            let mut order = vec![(column.to_string(), false)];
            order.extend(self.order.iter().filter(|(name, _)| !is_same(name, column)).cloned());
            return Choice::OtherOrder { column: column.to_string(), statement: self.statement(&order, &[]) };
        }
        let mut best: Option<(usize, &Index, Vec<&Predicate>)> = None;
        for index in &self.table.indexes {
            let Some(read_over) = self.serves(index) else { continue };
            // Prefer fewer conditions to read over, then a filtered index (which has only ready rows), then the
            // narrowest.
            let cost = read_over.len() * 100 + usize::from(index.filter.is_none()) * 50 + index.key.len();
            if best.as_ref().is_none_or(|(least, _, _)| cost < *least) {
                best = Some((cost, index, read_over));
            }
        }
        let Some((_, index, read_over)) = best else { return self.missing() };
        let spared = |part: &Predicate| part.can_filter_an_index().then(|| self.statement(self.order, &[part]));
        let read_over = read_over.into_iter().map(|part| (written(part), spared(part)));
        Choice::Index { name: index.name.clone(), read_over: read_over.collect() }
    }

    /// The column that this condition fixes to one value (or, without an order, to several).
    fn fixed<'p>(&self, part: &'p Predicate) -> Option<&'p str> {
        part.fixed_column().or_else(|| part.listed_column().filter(|_| self.order.is_empty()))
    }

    fn is_fixed(&self, column: &str) -> bool {
        self.conjuncts.iter().any(|part| self.fixed(part).is_some_and(|name| is_same(name, column)))
    }

    fn is_marked(&self, part: &Predicate) -> bool {
        part.columns().iter().any(|name| self.marks.iter().any(|(marked, _)| is_same(marked, name)))
    }

    /// Whether this condition is never true for a taken row.
    fn keeps_apart(&self, part: &Predicate) -> bool {
        part.is_never_true(&|name| self.marks.iter().find(|(marked, _)| is_same(marked, name))?.1.clone())
    }

    /// The column of the due time, if the order does not begin with it: all rows that are not due could lie before the
    /// ready rows.
    fn bound_out_of_order(&self) -> Option<&str> {
        let first = self.order.iter().find(|(column, _)| !self.is_fixed(column))?;
        let times: Vec<&str> = self.conjuncts.iter().filter_map(|part| part.time_to_come()).collect();
        let is_first = times.iter().any(|name| is_same(name, &first.0));
        times.first().copied().filter(|_| !is_first)
    }

    /// The conditions that a claim evaluates entry by entry with this index; `None` if the index is not suitable.
    fn serves(&self, index: &Index) -> Option<Vec<&Predicate>> {
        let filter = match &index.filter {
            None => Vec::new(),
            Some(text) => {
                let filter = read_predicate(text).ok()?;
                let parts: Vec<String> = filter.conjuncts().into_iter().map(written).collect();
                let said: Vec<String> = self.conjuncts.iter().map(|part| written(part)).collect();
                if !parts.iter().all(|part| said.contains(part)) {
                    return None;
                }
                parts
            }
        };
        // The order's columns must be consecutive; columns fixed to one value may stand between them.
        let mut wanted = self.order.iter().filter(|(column, _)| !self.is_fixed(column)).peekable();
        let mut first = wanted.peek().map(|(column, _)| column.as_str());
        let mut covered: Vec<&str> = Vec::new();
        let mut backwards = None;
        for (column, descending) in &index.key {
            if self.is_fixed(column) {
                // A fixed column behind a column of the order does not group rows.
                if backwards.is_none() {
                    covered.push(column);
                }
                continue;
            }
            match wanted.peek() {
                Some((next, wants_descending)) if is_same(next, column) => {
                    let turned = descending != wants_descending;
                    if *backwards.get_or_insert(turned) != turned {
                        return None;
                    }
                    wanted.next();
                }
                _ => {
                    let bounds = |part: &&Predicate| part.bounded_column().is_some_and(|name| is_same(name, column));
                    if first.is_none() && self.conjuncts.iter().any(bounds) {
                        first = Some(column);
                    }
                    break;
                }
            }
        }
        if wanted.peek().is_some() {
            return None;
        }
        let is_covered = |name: &str| covered.iter().any(|column| is_same(column, name));
        let is_said = |part: &Predicate| filter.contains(&written(part)) || self.fixed(part).is_some_and(is_covered);
        let keeps_taken_rows_apart = self.conjuncts.iter().any(|part| self.keeps_apart(part) && is_said(part));
        let begins_the_order = |name: &str| first.is_some_and(|first| is_same(first, name));
        let waits_in_order = self.conjuncts.iter().filter_map(|part| part.time_to_come()).any(begins_the_order);
        let mut read_over = Vec::new();
        for part in self.conjuncts.iter().filter(|part| !is_said(part)) {
            if part.bounded_column().is_some_and(begins_the_order) {
                continue;
            }
            if !keeps_taken_rows_apart && self.is_marked(part) || part.time_to_come().is_some() && !waits_in_order {
                return None;
            }
            // If nothing groups the rows, a claim would read over every row of the table.
            if covered.is_empty() && filter.is_empty() && part.fixed_column().is_some() {
                return None;
            }
            read_over.push(*part);
        }
        // A heap has no order. Without fixed columns and an order, an index does not help.
        (!covered.is_empty() || !filter.is_empty() || first.is_some()).then_some(read_over)
    }

    fn missing(&self) -> Choice {
        let fixed = self.conjuncts.iter().any(|part| self.keeps_apart(part) && self.fixed(part).is_some());
        let marked: Vec<&Predicate> = self.conjuncts.iter().copied().filter(|part| self.is_marked(part)).collect();
        if fixed || marked.is_empty() {
            return Choice::Missing(self.statement(self.order, &[]));
        }
        match marked.iter().find(|part| self.keeps_apart(part) && part.can_filter_an_index()) {
            Some(part) => Choice::Missing(self.statement(self.order, &[*part])),
            None => Choice::Impossible(marked.iter().map(|part| written(part)).collect::<Vec<_>>().join(" AND ")),
        }
    }

    /// The statement that creates an index for this order with this filter.
    fn statement(&self, order: &[(String, bool)], filter: &[&Predicate]) -> String {
        let own = |name: &str| bracketed(self.table.column(name).map_or(name, |column| column.name.as_str()));
        let mut columns: Vec<String> = Vec::new();
        let mut add = |name: &str, suffix: &str| {
            let written = own(name);
            if !columns
                .iter()
                .any(|column| column.strip_prefix(&written).is_some_and(|rest| matches!(rest, "" | " DESC")))
            {
                columns.push(format!("{written}{suffix}"));
            }
        };
        let rest = || self.conjuncts.iter().filter(|part| !filter.contains(part));
        rest().filter_map(|part| self.fixed(part)).for_each(|name| add(name, ""));
        order.iter().for_each(|(name, descending)| add(name, if *descending { " DESC" } else { "" }));
        if order.is_empty() {
            rest().filter_map(|part| part.bounded_column()).for_each(|name| add(name, ""));
        }
        // Whether the filter is the only condition.
        let is_all = order.is_empty() && rest().all(|part| self.fixed(part).or(part.bounded_column()).is_none());
        filter.iter().filter(|_| is_all).flat_map(|part| part.columns()).for_each(|name| add(name, ""));
        let statement = format!("CREATE INDEX [readpast_ready] ON {} ({})", self.table.name.sql(), columns.join(", "));
        if filter.is_empty() {
            return statement;
        }
        let terms = Terms { column: &own, word: &|_| String::new() };
        let filter: Vec<String> = filter.iter().map(|part| part.sql(&terms)).collect();
        format!("{statement} WHERE {}", filter.join(" AND "))
    }
}

fn is_same(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right)
}

/// Writes a condition in a normal form, with names in lower case, to compare a filter of the catalog with a part of a
/// mapping.
fn written(part: &Predicate) -> String {
    part.sql(&Terms { column: &|name| bracketed(&name.to_lowercase()), word: &|_| String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::TableName;

    fn table(indexes: &[(&str, &[&str], Option<&str>)]) -> Table {
        let indexes = indexes.iter().map(|(name, key, filter)| Index {
            name: (*name).to_string(),
            is_clustered: false,
            is_unique: false,
            has_row_locks: true,
            filter: filter.map(str::to_string),
            key: key.iter().map(|column| (column.trim_end_matches('-').to_string(), column.ends_with('-'))).collect(),
            included: Vec::new(),
        });
        Table {
            name: TableName { schema: "dbo".to_string(), table: "Q".to_string() },
            is_owned_by_dbo: true,
            may_install: true,
            speciality: None,
            columns: Vec::new(),
            indexes: indexes.collect(),
            triggers: Vec::new(),
            constraints: Vec::new(),
            references: Vec::new(),
        }
    }

    /// `marked`: columns that a claim sets to 9.
    fn chosen(table: &Table, ready: &str, order: &[(&str, bool)], marked: &[&str]) -> String {
        let ready = (!ready.is_empty()).then(|| read_predicate(ready).unwrap());
        let order: Vec<(String, bool)> = order.iter().map(|(name, desc)| ((*name).to_string(), *desc)).collect();
        let marks: Vec<(String, Option<Known>)> =
            marked.iter().map(|name| ((*name).to_string(), Some(Known::Number(9.0)))).collect();
        match choose(table, ready.as_ref(), &order, &marks) {
            Choice::Index { name, read_over } if read_over.is_empty() => name,
            Choice::Index { name, read_over } => {
                let parts: Vec<String> = read_over.into_iter().map(|(part, _)| part).collect();
                format!("{name} over {}", parts.join(", "))
            }
            Choice::AsTheyLie => "as they lie".to_string(),
            Choice::Missing(statement) => statement,
            Choice::OtherOrder { column, statement } => format!("first {column}: {statement}"),
            Choice::Impossible(part) => format!("no index for {part}"),
        }
    }

    #[test]
    fn an_index_has_what_is_ready_together_and_in_order() {
        let q = table(&[("pk", &["id"], None), ("by_status", &["status", "id"], None)]);
        assert_eq!(chosen(&q, "status = 1", &[("Id", false)], &["status"]), "by_status");
        assert_eq!(chosen(&q, "status = 1", &[("id", true)], &["status"]), "by_status", "read backwards");
        assert_eq!(
            chosen(&q, "status = 1", &[("created", false)], &["status"]),
            "CREATE INDEX [readpast_ready] ON [dbo].[Q] ([status], [created])"
        );
        assert_eq!(
            chosen(&q, "status in (1, 3)", &[("id", false)], &["status"]),
            "CREATE INDEX [readpast_ready] ON [dbo].[Q] ([id]) WHERE [status] IN (1, 3)"
        );
        assert_eq!(chosen(&q, "status in (1, 3)", &[], &["status"]), "by_status", "in any order");
        let turned = table(&[("pk", &["id", "status"], None)]);
        assert!(
            chosen(&turned, "status = 1", &[("id", false)], &["status"]).starts_with("CREATE"),
            "taken rows between"
        );
        let both = table(&[("a", &["created", "status"], None), ("b", &["status", "created"], None)]);
        assert_eq!(chosen(&both, "status = 1", &[("created", false)], &["status"]), "b");
        let waiting = "status = 1 and due <= getutcdate()";
        assert_eq!(
            chosen(&q, waiting, &[], &["status"]),
            "CREATE INDEX [readpast_ready] ON [dbo].[Q] ([status], [due])"
        );
        assert_eq!(
            chosen(&q, "status in (1, 3) or id = 5", &[("id", false)], &["status"]),
            "no index for [status] IN (1, 3) OR [id] = 5"
        );
        assert_eq!(chosen(&q, "", &[("id", false)], &[]), "pk");
        assert_eq!(chosen(&q, "", &[], &[]), "as they lie");
    }

    #[test]
    fn a_filter_says_what_the_key_need_not() {
        let filtered = table(&[("pk", &["id"], None), ("pop", &["id"], Some("([processed_at] IS NULL)"))]);
        assert_eq!(chosen(&filtered, "processed_at is null", &[("id", false)], &["processed_at"]), "pop");
        assert!(chosen(&filtered, "status = 1", &[("id", false)], &["status"]).starts_with("CREATE"));
    }

    #[test]
    fn what_is_neither_fixed_nor_a_bound_of_the_order_is_read_over() {
        let q = table(&[("pk", &["in_process", "id"], None), ("due", &["due"], None)]);
        assert_eq!(
            chosen(&q, "in_process = 0 and attempts < 3", &[("id", false)], &["in_process"]),
            "pk over [attempts] < 3"
        );
        let both = &["in_process", "attempts"];
        assert_eq!(chosen(&q, "in_process = 0 and attempts < 3", &[("id", false)], both), "pk over [attempts] < 3");
        assert!(chosen(&q, "attempts < 3", &[("due", false)], &["attempts"]).starts_with("CREATE"));
        assert_eq!(chosen(&q, "due < getutcdate()", &[("due", false)], &[]), "due");
    }

    #[test]
    fn directions_must_agree() {
        let q = table(&[("a", &["status", "priority-", "id"], None)]);
        assert_eq!(chosen(&q, "status = 1", &[("priority", true), ("id", false)], &["status"]), "a");
        assert!(chosen(&q, "status = 1", &[("priority", true), ("id", true)], &["status"]).starts_with("CREATE"));
    }

    #[test]
    fn rows_whose_time_has_not_come_are_not_read_over() {
        let q = table(&[("pk", &["taken", "id"], None), ("due", &["taken", "due", "id"], None)]);
        let ready = "taken = 0 and due <= sysutcdatetime()";
        assert_eq!(
            chosen(&q, ready, &[("id", false)], &["taken"]),
            "first due: CREATE INDEX [readpast_ready] ON [dbo].[Q] ([taken], [due], [id])"
        );
        assert_eq!(chosen(&q, ready, &[("due", false), ("id", false)], &["taken"]), "due");
        let turned = "taken = 0 and getdate() > due";
        assert!(chosen(&q, turned, &[("id", false)], &["taken"]).starts_with("first due"));
        // Expired rows are also in the index, but they are removed outside readpast.
        let ready = "taken = 0 and expires > getdate()";
        assert_eq!(chosen(&q, ready, &[("id", false)], &["taken"]), "pk over [expires] > GETDATE()");
    }

    /// The index that an error names is then accepted.
    #[test]
    fn every_remedy_can_be_followed() {
        for (ready, order, marked) in [
            ("status = 1", &["created"][..], &["status"][..]),
            ("status in (1, 3)", &["id"], &["status"]),
            ("status in (1, 3)", &[], &["status"]),
            ("status in (1, 3) and attempts < 3", &["id"], &["status"]),
            ("status < 5", &["id"], &["status"]),
            ("status < 5", &[], &["status"]),
            ("due < getdate()", &[], &[]),
            ("due < getdate()", &["due"], &[]),
            ("kind = 'x' and due < getdate()", &[], &[]),
            ("status = 1 and due < getdate()", &[], &["status"]),
            ("started is null", &["created", "id"], &["started"]),
            ("kind = 'x'", &["id"], &[]),
        ] {
            let order: Vec<(&str, bool)> = order.iter().map(|name| (*name, false)).collect();
            let statement = chosen(&table(&[]), ready, &order, marked);
            let (columns, filter) = match statement.split_once(" WHERE ") {
                Some((columns, filter)) => (columns, Some(filter)),
                None => (statement.as_str(), None),
            };
            let columns = columns.split_once("([").expect(ready).1.trim_end_matches("])");
            let columns: Vec<&str> = columns.split("], [").collect();
            let with = table(&[("it", &columns, filter)]);
            assert!(chosen(&with, ready, &order, marked).starts_with("it"), "{ready}: {statement}");
        }
    }
}
