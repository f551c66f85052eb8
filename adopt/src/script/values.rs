//! The values of the marks.

use crate::catalog::Column;
use crate::expression::{Terms, Word};
use crate::mapping::Set;
use crate::names::{bracketed, literal, thrown};
use crate::patches::filled;
use crate::plan::LONGEST_HEADERS;

use super::ends::end_ends;
use super::marks::{Marks, REFUSALS};
use super::texts::{
    claim_word, kept_name, lines, long_statements, long_text, of_deleted, of_t, row_column, unbracketed,
};

const KNOWN_ROWS: &str = include_str!("../../sql/known_rows.sql.part");

const KNOWN: &str = include_str!("../../sql/known.sql.part");

const BEGIN_ENDS: &str = include_str!("../../sql/begin_ends.sql.part");

const SOME_REFUSED: &str = "DECLARE @some_refused bit = CASE WHEN EXISTS (SELECT 1 FROM [$(schema)].[refused_rows] WITH (NOLOCK)) THEN 1 ELSE 0 END;\n";

const REQUEUE_REFUSED: &str = include_str!("../../sql/requeue_refused.sql.part");

const REFUSED_ROWS: &str = include_str!("../../sql/refused_rows.sql.part");

/// Deletes rejected rows from `refused_rows` after ten minutes, so that claims try them again. If the server's clock
/// was set back, deletes them immediately. (@now is a variable of reap.)
const EXPIRE_REFUSED: &str = "DELETE [$(schema)].[refused_rows] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)\nWHERE refused_at < DATEADD(MINUTE, -10, @now) OR refused_at > DATEADD(MINUTE, 1, @now);\n";

impl Marks<'_> {
    pub(super) fn values(&self) -> Result<Vec<(&'static str, String)>, String> {
        let plan = self.plan;
        let mapping = &plan.mapping;
        let table = plan.table.name.sql();
        let takes_out = mapping.takes_out();
        let kept = plan.kept();
        let rows = self.row_columns();
        let key: Vec<&Column> = mapping.key.iter().filter_map(|at| plan.table.column(&at.it)).collect();
        let bare = Terms { column: &bracketed, word: &claim_word };
        let in_t = Terms { column: &of_t, word: &claim_word };
        let hint = match &plan.ready_index {
            Some(index) => format!(", INDEX ({})", self.index_hint(index)),
            None => String::new(),
        };
        let predicate = match (self.ready(&bracketed), takes_out) {
            (Some(ready), false) => Some(format!("{ready}\n        AND {}", self.not_refused())),
            (ready, _) => ready,
        };
        // There are nearly always no rejected rows, and then no row is looked up.
        let in_claim = match (self.ready(&bracketed), takes_out) {
            (Some(ready), false) => Some(format!("{ready}\n        AND (@some_refused = 0 OR {})", self.not_refused())),
            (ready, _) => ready,
        };
        let ordered = |name: &dyn Fn(&str) -> String| -> Vec<String> {
            let each = mapping.order.iter();
            each.map(|one| format!("{}{}", name(&one.column.it), if one.descending { " DESC" } else { "" })).collect()
        };
        let order = ordered(&|name| bracketed(name));
        let number_order = ordered(&|name| format!("k.{}", kept_name(name)));
        let names = |columns: &[&Column]| columns.iter().map(|column| kept_name(&column.name)).collect::<Vec<_>>();
        let with = |columns: &[&Column], prefix: &str| {
            columns.iter().map(|column| format!("{prefix}{}", kept_name(&column.name))).collect::<Vec<_>>()
        };
        let declared = |columns: &[&Column]| {
            let each = columns.iter();
            each.map(|column| format!("{} {}", kept_name(&column.name), column.declaration())).collect::<Vec<_>>()
        };

        let mut row_columns = declared(&rows);
        let mut row_names = names(&rows);
        let mut outputs: Vec<String> = rows.iter().map(|column| of_deleted(&column.name)).collect();
        let mut rows_of_t: Vec<String> = rows.iter().map(|column| of_t(&column.name)).collect();
        let (mut payload, utf16) = self.payload(&row_column);
        let mut headers = "NULL";
        if !takes_out {
            // Derived values are computed once, in the claim's OUTPUT, and the columns are not copied.
            row_columns.push("payload varbinary(max) NOT NULL".to_string());
            row_columns.push(format!("headers nvarchar({LONGEST_HEADERS}) COLLATE Latin1_General_100_BIN2 NULL"));
            row_names.extend(["payload", "headers"].map(String::from));
            outputs.extend([self.payload(&of_deleted).0, self.headers(&of_deleted)]);
            let whole = self.headers(&of_t);
            let fitting = format!("CASE WHEN DATALENGTH({whole}) <= {} THEN {whole} END", 2 * LONGEST_HEADERS);
            rows_of_t.extend([self.payload(&of_t).0, fitting]);
            payload = "k.payload".to_string();
            headers = "k.headers";
        }

        let mut claimed: Vec<&Column> = rows.clone();
        let payload_columns = mapping.payload.iter().map(|at| at.it.as_str());
        let set_columns = mapping
            .claim_sets()
            .iter()
            .flat_map(|set| std::iter::once(set.column.it.as_str()).chain(set.value.columns()));
        for name in payload_columns.chain(set_columns) {
            if let Some(column) = plan.table.column(name)
                && !claimed.iter().any(|known| known.name == column.name)
            {
                claimed.push(column);
            }
        }
        let claimed: Vec<String> = claimed.iter().map(|column| bracketed(&column.name)).collect();
        let sets: Vec<String> = mapping
            .claim_sets()
            .iter()
            .map(|set| format!("{} = {}", bracketed(&set.column.it), self.assigned(set, &bare)))
            .collect();
        let tried: Vec<String> = mapping
            .claim_sets()
            .iter()
            .map(|set| format!("{} = {}", bracketed(&set.column.it), self.assigned(set, &in_t)))
            .collect();
        let take = if takes_out {
            "DELETE next_rows".to_string()
        } else {
            format!("UPDATE next_rows\nSET {}", lines(&sets, 4))
        };
        let is_used = |sets: &[Set], word: Word| sets.iter().any(|set| set.value.words().contains(&word));
        let worker = if is_used(mapping.claim_sets(), Word::Worker) {
            "DECLARE @worker nvarchar(128) = (SELECT w.name FROM [$(schema)].[workers] AS w WITH (NOLOCK) WHERE w.worker_id = @worker_id);\n"
        } else {
            ""
        };

        let attempt = match &mapping.columns.attempts {
            Some(at) if plan.table.column(&at.it).is_some_and(|column| !column.is_nullable) => {
                format!("CAST({} AS int) + 1", row_column(&at.it))
            }
            Some(at) => format!("CAST(ISNULL({}, 0) AS int) + 1", row_column(&at.it)),
            None => "1".to_string(),
        };
        let key_join = |left: &str, right: &dyn Fn(&str) -> String| {
            let each = mapping.key.iter().map(|at| format!("{left}.{} = {}", kept_name(&at.it), right(&at.it)));
            each.collect::<Vec<_>>().join(" AND ")
        };
        let not_null =
            mapping.key.first().map_or(String::new(), |at| format!(" AND j.{} IS NOT NULL", kept_name(&at.it)));
        let answer = self.answer();
        let answer_names = answer.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let answer = lines(&answer.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), 7);
        let known = if takes_out {
            String::new()
        } else {
            let again: Vec<&Column> =
                kept.iter().filter(|column| !mapping.key.iter().any(|at| at.it == column.name)).copied().collect();
            let again: String =
                again.iter().map(|column| format!(",\n        {0} = k.{0}", kept_name(&column.name))).collect();
            filled(
                KNOWN,
                &[
                    ("key_of_jobs", key_join("j", &row_column) + &not_null),
                    ("attempt", attempt.clone()),
                    ("created", self.created()),
                    ("due", self.due(&Terms { column: &row_column, word: &claim_word })),
                    ("priority", self.priority()),
                    ("kind", self.kind()),
                    ("utf16", utf16.to_string()),
                    ("kept_again", again),
                    ("answer", answer.clone()),
                    ("answer_names", answer_names.clone()),
                ],
            )?
        };

        let known_rows = if takes_out { "" } else { KNOWN_ROWS };

        let add_columns: String = kept
            .iter()
            .map(|column| {
                let name = kept_name(&column.name);
                format!(
                    "IF COL_LENGTH(N'[$(schema)].[jobs]', {}) IS NULL\n    ALTER TABLE [$(schema)].[jobs] ADD {name} {};\n",
                    literal(&unbracketed(&name)),
                    column.declaration()
                )
            })
            .collect();
        let requeue_refused = if takes_out {
            String::new()
        } else {
            filled(
                REQUEUE_REFUSED,
                &[
                    ("key_columns", declared(&key).join(", ")),
                    ("key_of_deleted", with(&key, "deleted.").join(", ")),
                    ("key_names", names(&key).join(", ")),
                    ("key_of_unclaimed", key_join("a", &|name| format!("u.{}", kept_name(name)))),
                    ("table_text", thrown(&plan.table.name)),
                ],
            )?
        };
        let key_index = match mapping.key.first() {
            Some(first) if !takes_out => {
                let columns: Vec<String> = mapping.key.iter().map(|at| kept_name(&at.it)).collect();
                format!(
                    "-- Which job a row is.\n\
                     IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[jobs]'), N'jobs_their_key', 'IndexID') IS NULL\n    \
                     CREATE UNIQUE NONCLUSTERED INDEX jobs_their_key ON [$(schema)].[jobs] ({})\n        \
                     WHERE {} IS NOT NULL\n        \
                     WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);\nGO",
                    columns.join(", "),
                    kept_name(&first.it)
                )
            }
            _ => String::new(),
        };

        let done = self.done()?;
        let ends = self.ends_elsewhere()?;
        let touches_rows = !ends.failed.is_empty() || !ends.dead.is_empty();
        let around_ends = |text: &str| if touches_rows { text.to_string() } else { String::new() };
        let back: Vec<&Column> = if takes_out { Vec::new() } else { kept.clone() };
        let restored: Vec<String> = mapping
            .claim_sets()
            .iter()
            .map(|set| format!("t.{} = b.{}", bracketed(&set.column.it), kept_name(&set.column.it)))
            .collect();
        let found = self.found_columns();
        let comma = |list: Vec<String>| list.into_iter().map(|one| format!(", {one}")).collect::<String>();
        let found_outputs = found.iter().map(|(name, from, _)| match from {
            Some(from) => format!("deleted.{from}"),
            None => format!("deleted.{name}"),
        });

        Ok(vec![
            ("table", table.clone()),
            ("are_as_they_were", self.are_as_they_were()?),
            ("keep_dead", self.keep_dead()),
            // An earlier mapping may have allowed keep_dead_s.
            ("kept_for_ever", if self.dead_are_the_only_copies() { ", @keep_dead_s = 0" } else { "" }.to_string()),
            ("table_literal", literal(&plan.table.name.to_string())),
            ("table_text", thrown(&plan.table.name)),
            ("queue_literal", literal(&mapping.queue.it)),
            ("max_attempts", mapping.max_attempts.to_string()),
            ("mapping", long_text("@mapping", &mapping.text)),
            ("facts", long_text("@facts", &plan.table.facts())),
            ("add_columns", add_columns),
            ("key_index", key_index),
            ("index_hint", hint),
            ("some_refused", if takes_out { "" } else { SOME_REFUSED }.to_string()),
            ("where_in_claim", in_claim.as_ref().map_or(String::new(), |text| format!("\n    WHERE {text}"))),
            ("where", predicate.as_ref().map_or(String::new(), |text| format!("\n    WHERE {text}"))),
            ("where_in_look", predicate.as_ref().map_or(String::new(), |text| format!(" WHERE {text}"))),
            ("ready_of_t", self.ready(&of_t).unwrap_or_default()),
            ("tried", lines(&tried, 12)),
            ("refusals", REFUSALS.to_string()),
            (
                "refused",
                if takes_out { String::new() } else { filled(REFUSED_ROWS, &[("refusals", REFUSALS.to_string())])? },
            ),
            ("loop_join", if takes_out { "" } else { ", LOOP JOIN" }.to_string()),
            ("expire_refused", if takes_out { "" } else { EXPIRE_REFUSED }.to_string()),
            ("key_columns", lines(&declared(&key), 4)),
            ("key_names", names(&key).join(", ")),
            ("key_of_t", key.iter().map(|column| of_t(&column.name)).collect::<Vec<_>>().join(", ")),
            ("key_of_k", with(&key, "k.").join(", ")),
            ("key_of_first", key_join("k", &of_t)),
            ("key_of_refused", key_join("a", &row_column)),
            ("key_of_refused_job", key_join("a", &|name| format!("j.{}", kept_name(name)))),
            ("key_of_jobs", key_join("j", &row_column) + &not_null),
            ("rows_of_t", rows_of_t.join(", ")),
            ("order_by", if order.is_empty() { String::new() } else { format!("\n    ORDER BY {}", order.join(", ")) }),
            ("due_of_theirs", self.due_of_theirs()),
            ("kind_of_theirs", self.kind_of_theirs()),
            ("worker", worker.to_string()),
            ("row_columns", lines(&row_columns, 4)),
            ("claimed_columns", claimed.join(", ")),
            ("take", take),
            ("outputs", outputs.join(", ")),
            ("row_names", row_names.join(", ")),
            ("known", known),
            ("known_rows", known_rows.to_string()),
            ("kept_names", names(&kept).join(", ")),
            ("kept_values", with(&kept, "k.").join(", ")),
            ("number_order", if number_order.is_empty() { "k.place".to_string() } else { number_order.join(", ") }),
            ("attempt", attempt),
            ("answer", answer),
            ("answer_names", answer_names),
            ("created", self.created()),
            ("due", self.due(&Terms { column: &row_column, word: &claim_word })),
            ("priority", self.priority()),
            ("kind", self.kind()),
            ("utf16", utf16.to_string()),
            ("payload", payload),
            ("plain", if headers == "NULL" { "1" } else { "0" }.to_string()),
            ("headers", headers.to_string()),
            ("found_columns", comma(found.iter().map(|(name, _, declared)| format!("{name} {declared}")).collect())),
            ("found_outputs", comma(found_outputs.collect())),
            ("found_names", comma(found.iter().map(|(name, _, _)| name.clone()).collect())),
            ("done", done),
            ("begin_ends", around_ends(BEGIN_ENDS)),
            ("begin_requeued", BEGIN_ENDS.to_string()),
            ("failed", ends.failed),
            ("dead", ends.dead),
            ("end_ends", around_ends(&end_ends("note_ends", "error = CONCAT(LEFT(j.error, 1900), @refusal)")?)),
            ("requeued", ends.requeued),
            (
                "end_requeued",
                end_ends(
                    "note_requeued",
                    "state = m.state, ended = 1, error = CONCAT(N'the job cannot be requeued', @refusal)",
                )?,
            ),
            ("no_requeue", self.no_requeue()),
            ("requeue_refused", requeue_refused),
            ("back_columns", lines(&declared(&back), 4)),
            ("back_outputs", with(&back, "deleted.").join(", ")),
            ("back_names", names(&back).join(", ")),
            ("back_sets", lines(&restored, 8)),
            ("key_hint", self.key_hint()),
            ("key_of_returned", key_join("b", &|name| format!("t.{}", bracketed(name))) + &self.is_marked()),
            ("kept", literal(&self.kept_as())),
            ("give_back", long_statements("@give_back", &(self.dead_rows() + &self.give_back()))),
        ])
    }
}
