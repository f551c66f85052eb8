//! Which index a claim reads, or which one would have to be there.
//!
//! The rows that are ready must lie together and in their order, so that `TOP (n)` reads n entries. An index does that
//! whose first columns are those that the predicate holds to one value, in any order, followed by the order's columns.
//! What its filter says already need not be in its key. Everything else of the predicate is looked at entry by entry: a
//! bound on the first column of the order ends the range. Any other must not be what keeps taken rows apart, because
//! they would then lie between those that are ready, and each claim would read over them.

use super::catalog::{Index, Table};
use super::expression::{self, Predicate, Terms, Value};
use super::names::bracketed;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// Its name, and what a claim may have to read over.
    Index { name: String, read_over: Vec<String> },
    /// No order and nothing to compare: the rows as they lie.
    AsTheyLie,
    /// The statement that would create one.
    Missing(String),
}

/// What a claim sets columns to.
pub(super) type Marks<'a> = &'a dyn Fn(&str) -> Option<Value>;

/// `order`: columns as the catalog has them, with whether they are descending.
pub(super) fn choose(table: &Table, ready: Option<&Predicate>, order: &[(String, bool)], marks: Marks<'_>) -> Choice {
    let conjuncts = ready.map(Predicate::conjuncts).unwrap_or_default();
    if conjuncts.is_empty() && order.is_empty() {
        return Choice::AsTheyLie;
    }
    let mut best: Option<(usize, &Index, Vec<String>)> = None;
    for index in &table.indexes {
        let Some(read_over) = serves(index, &conjuncts, order, marks) else { continue };
        // Fewer things to read over, then a filtered index (which has nothing but what is ready), then the narrowest.
        let cost = read_over.len() * 100 + usize::from(index.filter.is_none()) * 50 + index.key.len();
        if best.as_ref().is_none_or(|(least, _, _)| cost < *least) {
            best = Some((cost, index, read_over));
        }
    }
    match best {
        Some((_, index, read_over)) => Choice::Index { name: index.name.clone(), read_over },
        None => Choice::Missing(statement(table, &conjuncts, order)),
    }
}

/// What a claim would read over in this index; `None` where the index does not serve it.
fn serves(index: &Index, conjuncts: &[&Predicate], order: &[(String, bool)], marks: Marks<'_>) -> Option<Vec<String>> {
    let filter = match &index.filter {
        None => Vec::new(),
        Some(text) => {
            let filter = expression::predicate(text).ok()?;
            let parts: Vec<String> = filter.conjuncts().into_iter().map(written).collect();
            let said: Vec<String> = conjuncts.iter().map(|part| written(part)).collect();
            if !parts.iter().all(|part| said.contains(part)) {
                return None;
            }
            parts
        }
    };
    let rest: Vec<&&Predicate> = conjuncts.iter().filter(|part| !filter.contains(&written(part))).collect();
    let is_same = |left: &str, right: &str| left.eq_ignore_ascii_case(right);
    let is_fixed =
        |column: &str| conjuncts.iter().any(|part| part.fixed_column().is_some_and(|name| is_same(name, column)));

    // The order's columns must come one after the other; columns that are held to one value may stand between them.
    let mut wanted = order.iter().filter(|(column, _)| !is_fixed(column)).peekable();
    let first = wanted.peek().map(|(column, _)| column.clone());
    let mut covered: Vec<&str> = Vec::new();
    let mut backwards = None;
    for (column, descending) in &index.key {
        if is_fixed(column) {
            covered.push(column);
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
            _ => break,
        }
    }
    if wanted.peek().is_some() {
        return None;
    }
    let is_covered = |name: &str| covered.iter().any(|column| is_same(column, name));
    let keeps_taken_rows_apart = conjuncts.iter().any(|part| {
        part.is_never_true(marks) && (filter.contains(&written(part)) || part.fixed_column().is_some_and(is_covered))
    });
    let mut read_over = Vec::new();
    for part in rest {
        if part.fixed_column().is_some_and(is_covered) {
            continue;
        }
        let begins_the_order = |name: &str| first.as_deref().is_some_and(|first| is_same(first, name));
        if part.bounded_column().is_some_and(begins_the_order) {
            continue;
        }
        if !keeps_taken_rows_apart && part.columns().iter().any(|name| marks(name).is_some()) {
            return None;
        }
        // Without anything that holds the rows together, every row of the table would be read over.
        if covered.is_empty() && filter.is_empty() && part.fixed_column().is_some() {
            return None;
        }
        read_over.push(written(part));
    }
    // A heap's order is no index's: where nothing is fixed and nothing ordered, an index says nothing.
    (!covered.is_empty() || !filter.is_empty() || first.is_some()).then_some(read_over)
}

/// In one spelling, so that a filter of the catalog and a part of a mapping can be compared: names without case.
fn written(part: &Predicate) -> String {
    part.sql(&Terms { column: &|name| bracketed(&name.to_lowercase()), word: &|_| String::new() })
}

/// The statement that creates the missing index.
fn statement(table: &Table, conjuncts: &[&Predicate], order: &[(String, bool)]) -> String {
    let mut columns: Vec<String> = Vec::new();
    let mut add = |name: &str, suffix: &str| {
        let name = table.column(name).map_or(name, |column| column.name.as_str());
        let written = bracketed(name);
        if !columns.iter().any(|column| column.starts_with(&written)) {
            columns.push(format!("{written}{suffix}"));
        }
    };
    conjuncts.iter().filter_map(|part| part.fixed_column()).for_each(|name| add(name, ""));
    order.iter().for_each(|(name, descending)| add(name, if *descending { " DESC" } else { "" }));
    if order.is_empty() {
        conjuncts.iter().filter_map(|part| part.bounded_column()).for_each(|name| add(name, ""));
    }
    format!("CREATE INDEX [readpast_ready] ON {} ({})", table.name.sql(), columns.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adopt::names::TableName;

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
            is_special: false,
            columns: Vec::new(),
            indexes: indexes.collect(),
            triggers: Vec::new(),
            constraints: Vec::new(),
        }
    }

    /// `marked`: columns that a claim sets to 9.
    fn chosen(table: &Table, ready: &str, order: &[(&str, bool)], marked: &[&str]) -> String {
        let ready = (!ready.is_empty()).then(|| expression::predicate(ready).unwrap());
        let order: Vec<(String, bool)> = order.iter().map(|(name, desc)| ((*name).to_string(), *desc)).collect();
        let marks = |name: &str| marked.contains(&name).then(|| Value::Number("9".to_string()));
        match choose(table, ready.as_ref(), &order, &marks) {
            Choice::Index { name, read_over } if read_over.is_empty() => name,
            Choice::Index { name, read_over } => format!("{name} over {}", read_over.join(", ")),
            Choice::AsTheyLie => "as they lie".to_string(),
            Choice::Missing(statement) => statement,
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
            "CREATE INDEX [readpast_ready] ON [dbo].[Q] ([id])"
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
}
