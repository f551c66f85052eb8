//! The plan of an adoption.

use crate::catalog::{Column, Table};
use crate::error::Error;
use crate::mapping::{At, End, Mapping};

/// A mapping that was checked against its table.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) mapping: Mapping,
    pub(crate) table: Table,
    /// The index by which a row is found again; `None` if a claim deletes the row.
    pub(crate) key_index: Option<String>,
    pub(crate) ready_index: Option<String>,
    pub(crate) others: Vec<Table>,
    /// Notes for the person who installs the adoption.
    pub(crate) notes: Vec<String>,
}

/// The prefix of columns in `jobs` that keep values of the adopted table.
pub(crate) const KEPT: &str = "their_";

pub(crate) const LONGEST_HEADERS: usize = 1_500;

impl Plan {
    /// Checks a mapping against its table. `others` are the existing tables to which rows are moved.
    ///
    /// # Errors
    ///
    /// [`Error::Mapping`] for the first fault.
    pub(crate) fn new(mapping: &Mapping, schema: &str, table: Table, others: Vec<Table>) -> Result<Plan, Error> {
        let mut plan =
            Plan { mapping: mapping.clone(), table, key_index: None, ready_index: None, others, notes: Vec::new() };
        plan.check_schema(schema)?;
        plan.take_names()?;
        plan.check_table()?;
        plan.check_key()?;
        plan.check_payload()?;
        plan.check_columns()?;
        plan.check_expressions()?;
        plan.check_marks()?;
        plan.check_ends()?;
        plan.choose_index()?;
        Ok(plan)
    }

    pub(crate) fn refused<T>(&self, line: usize, message: impl Into<String>) -> Result<T, Error> {
        Err(self.mapping.refusal(line, message))
    }

    pub(crate) fn column(&self, at: &At<String>) -> Result<Column, Error> {
        match self.table.column(&at.it) {
            Some(column) => Ok(column.clone()),
            None => self.refused(at.line, no_column(&self.table, &at.it)),
        }
    }

    pub(crate) fn is_used(&self, name: &str) -> bool {
        let mapping = &self.mapping;
        let about = &mapping.columns;
        let values = [&about.created, &about.due, &about.priority, &about.kind];
        let ends = [&mapping.done.it, &mapping.dead.it].into_iter().flat_map(|end| match end {
            End::Delete => &[],
            End::Set(sets) | End::Move { values: sets, .. } => sets.as_slice(),
        });
        let sets = ends.chain(mapping.claim_sets()).chain(&mapping.failed);
        mapping.takes_out()
            || mapping.key.iter().chain(&mapping.payload).any(|at| at.it == name)
            || mapping.order.iter().any(|one| one.column.it == name)
            || mapping.ready.as_ref().is_some_and(|ready| ready.it.columns().contains(&name))
            || values.into_iter().flatten().any(|at| at.it.columns().contains(&name))
            || sets.into_iter().any(|set| set.column.it == name || set.value.columns().contains(&name))
    }

    /// The columns whose values `jobs` keeps: those of the key and those that a claim sets, or all columns if the claim
    /// deletes the row.
    pub(crate) fn kept(&self) -> Vec<&Column> {
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

pub(crate) fn no_column(table: &Table, name: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Index;
    use crate::expression::{Known, Value};
    use crate::names::TableName;
    use crate::plan::types::stored;

    fn column(name: &str, type_name: &str, max_length: i32) -> Column {
        Column {
            name: name.to_string(),
            type_name: type_name.to_string(),
            max_length,
            precision: 9,
            scale: 2,
            collation: None,
            is_nullable: false,
            is_identity: false,
            is_computed: false,
            has_default: false,
            is_hidden: false,
        }
    }

    fn index(name: &str, id_is_one: bool, key: &[&str]) -> Index {
        Index {
            name: name.to_string(),
            is_clustered: id_is_one,
            is_unique: id_is_one,
            has_row_locks: true,
            filter: None,
            key: key.iter().map(|column| ((*column).to_string(), false)).collect(),
            included: Vec::new(),
        }
    }

    fn table() -> Table {
        Table {
            name: TableName { schema: "dbo".to_string(), table: "Q".to_string() },
            is_owned_by_dbo: true,
            may_install: true,
            speciality: None,
            columns: vec![column("id", "int", 4), column("taken", "bit", 1), column("body", "nvarchar", -1)],
            indexes: vec![index("pk", true, &["id"]), index("ready", false, &["taken", "id"])],
            triggers: Vec::new(),
            constraints: Vec::new(),
            references: Vec::new(),
        }
    }

    const MAPPING: &str = "table = 'Q'\nkey = 'id'\npayload = 'body'\norder = 'id'\nready = 'taken = 0'\n\
                           [claim]\nset = { taken = 1 }\n[done]\ndelete = true\n";

    fn planned(mapping: &str, table: Table) -> Result<Vec<String>, String> {
        let mapping = Mapping::from_toml(mapping).map_err(|error| error.to_string())?;
        let plan = Plan::new(&mapping, "q", table, Vec::new());
        plan.map(|plan| plan.notes).map_err(|error| error.to_string())
    }

    #[test]
    fn tables_that_cannot_be_locked_row_by_row_are_refused() {
        assert_eq!(planned(MAPPING, table()), Ok(Vec::new()));
        let special = Table { speciality: Some("partitioned".to_string()), ..table() };
        assert!(planned(MAPPING, special).unwrap_err().contains("line 1: dbo.Q is partitioned"));
        let mut masked = table();
        masked.columns[2].is_hidden = true;
        let refusal = planned(MAPPING, masked.clone()).unwrap_err();
        assert!(refusal.contains("ALTER TABLE [dbo].[Q] ALTER COLUMN [body] DROP MASKED"), "{refusal}");
        assert!(planned(&MAPPING.replace("'body'", "'id'"), masked).is_ok(), "nobody asks for it");
        let mut heap = table();
        heap.indexes[0].is_clustered = false;
        let notes = planned(MAPPING, heap.clone()).unwrap();
        assert!(notes[0].contains("ALTER TABLE [dbo].[Q] REBUILD"), "{notes:?}");
        assert_eq!(planned(&MAPPING.replace("delete = true", "set = { taken = 1 }"), heap), Ok(Vec::new()));
    }

    #[test]
    fn a_key_that_is_too_long_is_refused() {
        let mut wide = table();
        let names: Vec<String> = (0..8).map(|number| format!("k{number}")).collect();
        wide.columns.extend(names.iter().map(|name| column(name, "nvarchar", 256)));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        wide.indexes.push(index("wide", true, &names));
        let mapping = MAPPING.replace("'id'\npayload", &format!("{names:?}\npayload"));
        assert!(planned(&mapping, wide).unwrap_err().contains("longer than 1700 bytes"));
    }

    /// The value that a column stores decides whether a claim excludes other readers.
    #[test]
    fn values_are_known_as_a_column_holds_them() {
        let held = |column: Column, value: Value| stored(&column, &value);
        let number = |text: &str| Value::Number(text.to_string());
        assert_eq!(held(column("x", "bit", 1), number("2")), Some(Known::Number(1.0)));
        assert_eq!(held(column("x", "int", 4), number("0.6")), Some(Known::Number(0.0)));
        assert_eq!(held(column("x", "decimal", 5), number("0.25")), Some(Known::Number(0.25)));
        assert_eq!(held(column("x", "decimal", 5), number("0.255")), Some(Known::Something), "rounded");
        assert_eq!(held(column("x", "real", 4), number("0.1")), Some(Known::Something));
        let text = Value::Text("2026-01-01".to_string());
        assert_eq!(held(column("x", "datetime2", 8), text.clone()), Some(Known::Something), "many spellings");
        assert_eq!(held(column("x", "varchar", 10), text.clone()), Some(Known::Text("2026-01-01".to_string())));
        assert_eq!(held(column("x", "varchar", 5), text), Some(Known::Something));
        assert_eq!(held(column("x", "int", 4), Value::Null), Some(Known::Null));
        // A bit that is set to 2 becomes 1.
        let refusal =
            planned(&MAPPING.replace("taken = 0", "taken = 1").replace("taken = 1 }", "taken = 2 }"), table());
        assert!(refusal.unwrap_err().contains("could still be ready"));
    }
}
