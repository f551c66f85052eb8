//! Held rows: how `jobs` keeps them, and how they are restored.

use crate::mapping::End;
use crate::names::{bracketed, thrown};

use super::marks::Marks;
use super::texts::{kept_name, lines};

impl Marks<'_> {
    /// Describes the columns of `jobs` that keep values of a row. Jobs that were claimed under another mapping lack the
    /// columns that this mapping's procedures need. If a release writes this text differently, it cannot be installed
    /// over existing jobs.
    pub(super) fn kept_as(&self) -> String {
        let mapping = &self.plan.mapping;
        let named = |names: &mut dyn Iterator<Item = &String>| names.map(|name| bracketed(name)).collect::<Vec<_>>();
        let key = named(&mut mapping.key.iter().map(|at| &at.it)).join(", ");
        let sets = named(&mut mapping.claim_sets().iter().map(|set| &set.column.it)).join(", ");
        let claim = if mapping.takes_out() { "deletes".to_string() } else { format!("sets {sets}") };
        let kept = self.plan.kept();
        let columns: Vec<String> =
            kept.iter().map(|column| format!("{} {}", kept_name(&column.name), column.declaration())).collect();
        format!("a claim {claim}; key {key}; jobs has {}", columns.join(", "))
    }

    pub(super) fn dead_are_the_only_copies(&self) -> bool {
        self.plan.mapping.takes_out() && matches!(self.plan.mapping.dead.it, End::Set(_))
    }

    /// Rejects a retention of dead jobs if they are the only copies of their rows.
    pub(super) fn keep_dead(&self) -> String {
        if !self.dead_are_the_only_copies() {
            return String::new();
        }
        let table = thrown(&self.plan.table.name);
        format!(
            "IF @keep_dead_s > 0\n    THROW 58003, N'this queue is the table {table}, whose claims delete: a dead job has the only \
             copy of its row, which keep_dead_s would delete; requeue or purge these jobs, or set [dead] move in the mapping', 1;\n"
        )
    }

    /// Rejects requeueing, if the mapping does not allow it.
    pub(super) fn no_requeue(&self) -> String {
        let why = match (&self.plan.mapping.dead.it, self.plan.mapping.takes_out()) {
            (End::Delete, false) => "dead.delete",
            (End::Move { .. }, _) => "dead.move",
            _ => return String::new(),
        };
        let table = thrown(&self.plan.table.name);
        format!(
            "IF @tried_again > 0\nBEGIN\n    SELECT @tried_again AS requeued;\n    RETURN 0;\nEND;\n\
             THROW 58003, N'this queue is the table {table}, from which the row of a dead job has been removed ({why}): to run it again, insert it there', 1;\n"
        )
    }

    /// Rejects a removal that would delete rows that exist only in the adoption.
    pub(super) fn dead_rows(&self) -> String {
        let keeps = matches!(&self.plan.mapping.dead.it, End::Set(sets) if sets.is_empty());
        if !self.plan.mapping.takes_out() || !keeps {
            return String::new();
        }
        "IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WHERE ended = 1)\n    \
         THROW 58003, N'there are dead or cancelled jobs, whose rows exist nowhere else; requeue or purge them first', 1;\n"
            .to_string()
    }

    /// The statements that restore held rows. They name no index, because the table may have other indexes when they
    /// run.
    pub(super) fn give_back(&self) -> String {
        let plan = self.plan;
        let table = plan.table.name.sql();
        if !plan.mapping.takes_out() {
            let sets = plan.mapping.claim_sets().iter();
            let sets: Vec<String> =
                sets.map(|set| format!("{} = j.{}", bracketed(&set.column.it), kept_name(&set.column.it))).collect();
            let on = plan.mapping.key.iter().map(|at| format!("t.{} = j.{}", bracketed(&at.it), kept_name(&at.it)));
            return format!(
                "UPDATE t\nSET {}\nFROM [$(schema)].[jobs] AS j\nINNER LOOP JOIN {table} AS t WITH (ROWLOCK) ON {}\n\
                 WHERE j.ended = 0{};",
                lines(&sets, 4),
                on.collect::<Vec<_>>().join(" AND "),
                self.is_marked()
            );
        }
        let kept = plan.kept();
        let names: Vec<String> = kept.iter().map(|column| bracketed(&column.name)).collect();
        let values: Vec<String> = kept.iter().map(|column| format!("j.{}", kept_name(&column.name))).collect();
        let insert = format!(
            "INSERT {table} ({})\nSELECT {}\nFROM [$(schema)].[jobs] AS j\nWHERE j.ended = 0\nORDER BY j.job_id;",
            names.join(", "),
            values.join(", ")
        );
        if kept.iter().any(|column| column.is_identity) {
            return format!("SET IDENTITY_INSERT {table} ON;\n{insert}\nSET IDENTITY_INSERT {table} OFF;");
        }
        insert
    }
}
