//! The adopted table: what the procedures rely on, and by which indexes they find a row.

use crate::catalog::{Column, Index, Table};
use crate::expression::{CastTo, Predicate, Terms, Value};
use crate::names::{bracketed, literal, thrown};
use crate::patches::filled;

use super::marks::Marks;
use super::texts::{claim_word, kept_name, lines, of_t};

const IS_AS_IT_WAS: &str = include_str!("../../sql/is_as_it_was.sql.part");

impl Marks<'_> {
    pub(super) fn ready(&self, column: &dyn Fn(&str) -> String) -> Option<String> {
        let ready = self.plan.mapping.ready.as_ref()?.it.fitted(&|name, value| self.fitting_type(name, value));
        let text = ready.sql(&Terms { column, word: &claim_word });
        Some(if matches!(ready, Predicate::Any(_)) { format!("({text})") } else { text })
    }

    /// The type and collation to which a value must be converted, so that SQL Server does not convert the column
    /// instead, row by row, and bypass its index ("Data type precedence"). Converting rounds a time, so it is done only
    /// if the rounding is less than a hundredth of a second. (An offset would be cut off, so a clock with an offset
    /// stays unchanged.)
    fn fitting_type(&self, name: &str, value: &Value) -> Option<CastTo> {
        let column = self.plan.table.column(name)?;
        let is_time = value.tells_time() && (column.type_name == "datetimeoffset" || !value.has_offset());
        let as_it_is = CastTo { collation: None, sql_type: column.sql_type() };
        match column.type_name.as_str() {
            "datetime" if is_time => Some(as_it_is),
            "datetime2" | "datetimeoffset" if is_time && column.scale >= 2 => Some(as_it_is),
            "char" | "varchar" if matches!(value, Value::Text(text) if !text.is_ascii()) => {
                Some(CastTo { collation: column.collation.clone(), sql_type: "varchar(8000)".to_string() })
            }
            _ => None,
        }
    }

    /// A condition that excludes rejected rows from claims. With NOLOCK, a session that records such a row blocks no
    /// claim.
    pub(super) fn not_refused(&self) -> String {
        let key = self.plan.mapping.key.iter().map(|at| format!("a.{} = {}", kept_name(&at.it), of_t(&at.it)));
        format!(
            "NOT EXISTS (SELECT 1 FROM [$(schema)].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE {})",
            key.collect::<Vec<_>>().join(" AND ")
        )
    }

    /// The columns of the adopted table that a claim keeps, in the table's order. (If the row stays, the payload's
    /// columns are not kept, only the payload.)
    pub(super) fn row_columns(&self) -> Vec<&Column> {
        let mapping = &self.plan.mapping;
        let about = &mapping.columns;
        let values = [&about.created, &about.due, &about.priority, &about.kind];
        let in_values = |name: &str| values.into_iter().flatten().any(|at| at.it.columns().contains(&name));
        let kept = self.plan.kept();
        let is_read = |column: &&Column| {
            let name = column.name.as_str();
            kept.iter().any(|kept| kept.name == name)
                || mapping.takes_out() && mapping.payload.iter().any(|at| at.it == name)
                || mapping.order.iter().any(|one| one.column.it == name)
                || about.attempts.as_ref().is_some_and(|at| at.it == name)
                || in_values(name)
        };
        self.plan.table.columns.iter().filter(is_read).collect()
    }

    /// The hints to find a row by its key. The index is named only if SQL Server could choose another one, because its
    /// name was often generated.
    pub(super) fn key_hint(&self) -> String {
        let key = &self.plan.mapping.key;
        let begins_with_key = |index: &&Index| {
            index.filter.is_none() && index.key.first().is_some_and(|(name, _)| key.iter().any(|at| at.it == *name))
        };
        match &self.plan.key_index {
            Some(index) if self.plan.table.indexes.iter().filter(begins_with_key).count() > 1 => {
                format!("FORCESEEK, INDEX ({})", self.index_hint(index))
            }
            _ => "FORCESEEK".to_string(),
        }
    }

    /// The hint for an index. The clustered index is named by its number, because its name was often generated and
    /// differs in a copy of the table.
    pub(super) fn index_hint(&self, name: &str) -> String {
        match self.plan.table.indexes.iter().find(|index| index.name == name) {
            Some(index) if index.is_clustered => "1".to_string(),
            _ => bracketed(name),
        }
    }

    /// One batch for each table that checks whether the table is still as in the plan: the adopted table, and the
    /// tables to which its rows are moved.
    pub(super) fn are_as_they_were(&self) -> Result<String, String> {
        let key: Vec<String> = self.plan.mapping.key.iter().map(|at| literal(&at.it)).collect();
        let batch = |table: &Table, facts: &[String], key: &[String]| {
            let listed: Vec<String> = facts.iter().map(|line| format!("({})", literal(line))).collect();
            let marks = [
                ("table_object", literal(&table.name.sql())),
                ("table_text", thrown(&table.name)),
                ("table_lines", lines(&listed, 8)),
                ("key_literals", if key.is_empty() { literal("") } else { key.join(", ") }),
            ];
            filled(IS_AS_IT_WAS, &marks)
        };
        let mut batches = batch(&self.plan.table, &self.table_lines(), &key)?;
        for other in &self.plan.others {
            batches += &batch(other, &column_lines(other), &[])?;
        }
        Ok(batches)
    }

    /// The properties on which the procedures rely, one line each, as `is_as_it_was.sql` reads them from the catalog.
    pub(super) fn table_lines(&self) -> Vec<String> {
        let table = &self.plan.table;
        let mut found = column_lines(table);
        if self.plan.key_index.is_some() {
            found.push("unique index on the key".to_string());
        }
        let key_index = self.plan.key_index.as_ref().filter(|_| self.key_hint().contains("INDEX"));
        for name in self.plan.ready_index.iter().chain(key_index) {
            let Some(index) = table.indexes.iter().find(|index| index.name == *name) else { continue };
            let shown = if index.is_clustered { "clustered" } else { name };
            for (at, (column, descending)) in index.key.iter().enumerate() {
                let direction = if *descending { " desc" } else { "" };
                found.push(format!("index {shown}, key {}: {column}{direction}", at + 1));
            }
            found.extend(index.filter.as_ref().map(|filter| format!("index {shown} where {filter}")));
        }
        found
    }
}

fn column_lines(table: &Table) -> Vec<String> {
    let line = |column: &Column| {
        let collation = column.collation.as_ref().map_or(String::new(), |collation| format!(" {collation}"));
        format!(
            "column {} {} {} {} {}{collation}{}{}{}",
            column.name,
            column.type_name,
            column.max_length,
            column.precision,
            column.scale,
            if column.is_nullable { " null" } else { " not null" },
            if column.is_identity { " identity" } else { "" },
            if column.is_computed { " computed" } else { "" },
        )
    };
    table.columns.iter().map(line).collect()
}
