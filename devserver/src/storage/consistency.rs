//! Does a table's every index hold exactly its rows? For tests.

use std::collections::BTreeSet;

use super::key::Key;
use super::table::Table;

/// Compares every index of the table with its rows, and the counts with both.
///
/// # Errors
///
/// Says what is wrong. Ghosts are an error too, so no transaction with changes of the table may be open.
pub fn check_consistency(table: &Table) -> Result<(), String> {
    let name = &table.schema().name;
    if let Some((key, _)) = table.rows.iter().find(|(_, record)| record.ghost) {
        return Err(format!("{name}: a ghost was left at {:?}", Key::new(key)));
    }
    if let Some(tree) = table.indexes.iter().find(|tree| tree.entries.iter().any(|(_, entry)| entry.ghost)) {
        return Err(format!("{name}: a ghost was left in index {}", tree.id));
    }
    check_live(table)
}

/// The same for what is no ghost, at any time: also in the middle of transactions.
///
/// # Errors
///
/// Says what is wrong.
pub fn check_live(table: &Table) -> Result<(), String> {
    let schema = table.schema();
    let name = &schema.name;
    let mut rows = Vec::with_capacity(table.rows.len());
    for (key, record) in table.rows.iter().filter(|(_, record)| !record.ghost) {
        let key = Key::new(key);
        let values = record.row.values(schema);
        let expected = table.changed_row_key(&key, &values).map_err(|error| error.to_string())?;
        if expected != key {
            return Err(format!("{name}: the row {values:?} stands at {key:?} instead of {expected:?}"));
        }
        rows.push((key, values));
    }
    if table.row_count() != rows.len() {
        return Err(format!("{name}: {} rows counted, {} there", table.row_count(), rows.len()));
    }
    let nonclustered: Vec<_> = schema.indexes.iter().filter(|index| !index.is_clustered()).collect();
    if nonclustered.len() != table.indexes.len() {
        return Err(format!("{name}: {} indexes in the schema, {} trees", nonclustered.len(), table.indexes.len()));
    }
    for index in nonclustered {
        let index_name = &index.name;
        let tree = table.tree(index.id).ok_or_else(|| format!("{name}: index {index_name} has no tree"))?;
        let mut expected: BTreeSet<Key> = BTreeSet::new();
        let mut prefixes = BTreeSet::new();
        for (key, values) in &rows {
            let Some(entry) = table.entry_key(index, values, key).map_err(|error| error.to_string())? else {
                continue;
            };
            if index.is_unique() && !prefixes.insert(entry.prefix().to_vec()) {
                return Err(format!("{name}: unique index {index_name} has {:?} twice", entry.key));
            }
            expected.insert(entry.key);
        }
        let live: Vec<&[u8]> = tree.entries.iter().filter(|(_, entry)| !entry.ghost).map(|(key, _)| key).collect();
        if tree.live() != live.len() {
            return Err(format!("{name}.{index_name}: {} counted, {} there", tree.live(), live.len()));
        }
        if !live.into_iter().eq(expected.iter().map(Key::as_bytes)) {
            return Err(format!("{name}.{index_name}: the entries are not those of the rows"));
        }
    }
    Ok(())
}
