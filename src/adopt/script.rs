//! The script of an adoption: the scripts of `sql/` with the changes of `sql/adopt/`, filled in from a plan.

use super::catalog::{Column, Family};
use super::expression::{Terms, Value, Word};
use super::mapping::{At, End, Set};
use super::names::{bracketed, literal};
use super::patches::{applied, filled};
use super::plan::{KEPT, Plan};

macro_rules! changes {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("../../sql/adopt/", $name)))),*] };
}

/// The scripts that differ, and those that come in addition.
const CHANGES: [(&str, &str); 23] = changes![
    "000_adopted_table.sql",
    "000_begin.sql",
    "095_adoption.sql",
    "200_create_queue.sql",
    "210_enqueue.sql",
    "218_note_ends.sql",
    "220_enqueue_batch.sql",
    "230_claim.sql",
    "232_look.sql",
    "240_finish.sql",
    "250_release.sql",
    "300_reap.sql",
    "350_sample.sql",
    "360_unfinished.sql",
    "400_stats.sql",
    "406_backlog.sql",
    "429_note_requeued.sql",
    "430_requeue.sql",
    "440_purge.sql",
    "444_delete_queue.sql",
    "470_set_schedule.sql",
    "490_create_batch.sql",
    "985_adopted.sql",
];

/// Those that are as ever where a claim takes the row out: what is not there is neither given back nor marked again.
const FOR_ROWS_THAT_STAY: [&str; 2] = ["250_release.sql", "429_note_requeued.sql"];

const KNOWN: &str = include_str!("../../sql/adopt/known.sql");
const REMOVE: &str = include_str!("../../sql/adopt/remove.sql");
const BEGIN_ENDS: &str = include_str!("../../sql/adopt/begin_ends.sql");
const END_ENDS: &str = include_str!("../../sql/adopt/end_ends.sql");
const REFUSED: &str = include_str!("../../sql/adopt/refused.sql");
const END_DELETE: &str = include_str!("../../sql/adopt/end_delete.sql");
const END_SET: &str = include_str!("../../sql/adopt/end_set.sql");
const END_MOVE: &str = include_str!("../../sql/adopt/end_move.sql");
const END_INSERT: &str = include_str!("../../sql/adopt/end_insert.sql");

/// What a handler gets beside the payload: a job without headers has none. (The other members of `details` may be
/// missing.)
const DETAILS: &str = "N'{\"headers\":' + inserted.headers + N'}'";

/// The scripts of the adoption, in the order in which they are run. `$(schema)` stands in them for the schema.
///
/// # Errors
///
/// What is wrong with the changes: a test finds it.
pub(super) fn scripts(plan: &Plan, base: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
    let marks = Marks { plan };
    let values = marks.values()?;
    let mut scripts = Vec::new();
    let additions = CHANGES.iter().filter(|(name, _)| !base.iter().any(|(known, _)| known == name));
    let mut all: Vec<(&str, &str)> = base.iter().chain(additions).copied().collect();
    all.sort_by_key(|(name, _)| *name);
    for (name, text) in all {
        let change = CHANGES.iter().find(|(changed, _)| *changed == name);
        let text = match change {
            Some((_, change)) if !(FOR_ROWS_THAT_STAY.contains(&name) && plan.mapping.takes_out()) => {
                let changed = applied(text, change).map_err(|error| format!("{name}: {error}"))?;
                filled(&changed, &values).map_err(|error| format!("{name}: {error}"))?
            }
            _ => text.to_string(),
        };
        scripts.push((name.to_string(), text));
    }
    Ok(scripts)
}

/// The script that removes an adoption, with what it holds given back before, or not.
///
/// # Errors
///
/// As [`scripts`].
pub(super) fn removal(gives_back: bool, uninstall: &str) -> Result<String, String> {
    let uninstall = uninstall.trim_end().trim_end_matches("GO").to_string();
    let gives_back = if gives_back { "1" } else { "0" }.to_string();
    filled(REMOVE, &[("gives_back", gives_back), ("uninstall", uninstall)])
}

struct Marks<'a> {
    plan: &'a Plan,
}

/// A list with commas, each at the beginning of a line.
fn lines(items: &[String], indent: usize) -> String {
    items.join(&format!(",\n{}", " ".repeat(indent)))
}

fn kept_name(column: &str) -> String {
    let whole = format!("{KEPT}{column}");
    // The longest name that SQL Server knows has 128 characters.
    bracketed(&whole.chars().take(128).collect::<String>())
}

impl Marks<'_> {
    fn values(&self) -> Result<Vec<(&'static str, String)>, String> {
        let plan = self.plan;
        let mapping = &plan.mapping;
        let table = plan.table.name.sql();
        let takes_out = mapping.takes_out();
        let kept = plan.kept();
        let rows = self.row_columns();
        let bare = |value: &Value| value.sql(&Terms { column: &bracketed, word: &claim_word });
        let hint = match &plan.ready_index {
            Some(index) => format!(", INDEX ({})", self.index_hint(index)),
            None => String::new(),
        };
        let predicate =
            mapping.ready.as_ref().map(|ready| ready.it.sql(&Terms { column: &bracketed, word: &claim_word }));
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

        let mut claimed: Vec<&Column> = rows.clone();
        for set in mapping.claim_sets() {
            for name in std::iter::once(set.column.it.as_str()).chain(set.value.columns()) {
                if let Some(column) = plan.table.column(name)
                    && !claimed.iter().any(|known| known.name == column.name)
                {
                    claimed.push(column);
                }
            }
        }
        let claimed: Vec<String> = claimed.iter().map(|column| bracketed(&column.name)).collect();
        let sets: Vec<String> = mapping
            .claim_sets()
            .iter()
            .map(|set| format!("{} = {}", bracketed(&set.column.it), self.assigned(set, &bare(&set.value))))
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

        let (payload, utf16) = self.payload();
        let headers = self.headers();
        let attempt = match &mapping.columns.attempts {
            Some(at) => format!("CAST(ISNULL(k.{}, 0) AS int) + 1", kept_name(&at.it)),
            None => "1".to_string(),
        };
        let key_join = |left: &str, right: &dyn Fn(&str) -> String| {
            let each = mapping.key.iter().map(|at| format!("{left}.{} = {}", kept_name(&at.it), right(&at.it)));
            each.collect::<Vec<_>>().join(" AND ")
        };
        let not_null =
            mapping.key.first().map_or(String::new(), |at| format!(" AND j.{} IS NOT NULL", kept_name(&at.it)));
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
                    ("key_of_jobs", key_join("j", &|name| format!("k.{}", kept_name(name))) + &not_null),
                    ("attempt", attempt.clone()),
                    ("created", self.created()),
                    ("due", self.due(&Terms { column: &row_column, word: &claim_word })),
                    ("priority", self.priority()),
                    ("kind", self.kind()),
                    ("utf16", utf16.to_string()),
                    ("payload", payload.clone()),
                    ("kept_again", again),
                    ("details", DETAILS.to_string()),
                ],
            )?
        };

        let known_rows = if takes_out {
            ""
        } else {
            "DECLARE @known TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, place int NOT NULL);\n"
        };

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

        let key_literals: Vec<String> = mapping.key.iter().map(|at| literal(&at.it)).collect();
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
            ("table_object", literal(&table)),
            ("table_lines", self.table_lines()),
            ("key_literals", if mapping.key.is_empty() { literal("") } else { key_literals.join(", ") }),
            ("keep_dead", self.keep_dead()),
            // A mapping of before may have let it be set.
            ("kept_for_ever", if self.dead_are_the_only_copies() { ", @keep_dead_s = 0" } else { "" }.to_string()),
            ("table_literal", literal(&plan.table.name.to_string())),
            ("table_text", plan.table.name.to_string().replace('\'', "''")),
            ("queue_literal", literal(&mapping.queue.it)),
            ("max_attempts", mapping.max_attempts.to_string()),
            ("mapping", long_text("@mapping", &mapping.text)),
            ("facts", long_text("@facts", &plan.table.facts())),
            ("add_columns", add_columns),
            ("key_index", key_index),
            ("index_hint", hint),
            ("where", predicate.as_ref().map_or(String::new(), |text| format!("\n    WHERE {text}"))),
            ("where_in_look", predicate.as_ref().map_or(String::new(), |text| format!(" WHERE {text}"))),
            ("order_by", if order.is_empty() { String::new() } else { format!("\n    ORDER BY {}", order.join(", ")) }),
            ("due_of_theirs", self.due_of_theirs()),
            ("worker", worker.to_string()),
            ("row_columns", lines(&declared(&rows), 4)),
            ("claimed_columns", claimed.join(", ")),
            ("take", take),
            (
                "outputs",
                rows.iter().map(|column| format!("deleted.{}", bracketed(&column.name))).collect::<Vec<_>>().join(", "),
            ),
            ("row_names", names(&rows).join(", ")),
            ("known", known),
            ("known_rows", known_rows.to_string()),
            ("kept_names", names(&kept).join(", ")),
            ("kept_values", with(&kept, "k.").join(", ")),
            ("number_order", if number_order.is_empty() { "k.place".to_string() } else { number_order.join(", ") }),
            ("attempt", attempt),
            ("created", self.created()),
            ("due", self.due(&Terms { column: &row_column, word: &claim_word })),
            ("priority", self.priority()),
            ("kind", self.kind()),
            ("utf16", utf16.to_string()),
            ("payload", payload),
            ("plain", if headers == "NULL" { "1" } else { "0" }.to_string()),
            ("headers", headers),
            ("details", DETAILS.to_string()),
            ("found_columns", comma(found.iter().map(|(name, _, declared)| format!("{name} {declared}")).collect())),
            ("found_outputs", comma(found_outputs.collect())),
            ("found_names", comma(found.iter().map(|(name, _, _)| name.clone()).collect())),
            ("done", done),
            ("begin_ends", around_ends(BEGIN_ENDS)),
            ("failed", ends.failed),
            ("dead", ends.dead),
            ("end_ends", around_ends(END_ENDS)),
            ("requeued", ends.requeued),
            ("no_requeue", self.no_requeue()),
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

    /// The columns of theirs that a claim reads, in the table's order.
    fn row_columns(&self) -> Vec<&Column> {
        let mapping = &self.plan.mapping;
        let about = &mapping.columns;
        let values = [&about.created, &about.due, &about.priority, &about.kind];
        let in_values = |name: &str| values.into_iter().flatten().any(|at| at.it.columns().contains(&name));
        let kept = self.plan.kept();
        let is_read = |column: &&Column| {
            let name = column.name.as_str();
            kept.iter().any(|kept| kept.name == name)
                || mapping.payload.iter().any(|at| at.it == name)
                || mapping.order.iter().any(|one| one.column.it == name)
                || about.attempts.as_ref().is_some_and(|at| at.it == name)
                || in_values(name)
        };
        self.plan.table.columns.iter().filter(is_read).collect()
    }

    /// The payload as bytes, and whether it is UTF-16.
    fn payload(&self) -> (String, u8) {
        let payload = &self.plan.mapping.payload;
        let columns: Vec<&Column> = payload.iter().filter_map(|at| self.plan.table.column(&at.it)).collect();
        if let [column] = columns.as_slice() {
            let name = row_column(&column.name);
            return match column.family() {
                Family::Bytes if column.max_length == -1 => (format!("ISNULL({name}, 0x)"), 0),
                Family::Bytes => (format!("ISNULL(CAST({name} AS varbinary(max)), 0x)"), 0),
                Family::WideText if column.max_length == -1 => {
                    (format!("ISNULL(CAST({name} AS varbinary(max)), 0x)"), 1)
                }
                _ => (
                    format!("ISNULL(CAST(CAST({} AS nvarchar(max)) AS varbinary(max)), 0x)", as_text(column, &name)),
                    1,
                ),
            };
        }
        let members = columns.iter().enumerate().map(|(at, column)| {
            let name = row_column(&column.name);
            let value = match column.family() {
                Family::Integer | Family::Decimal => format!("ISNULL({}, N'null')", as_text(column, &name)),
                Family::Bit => format!("CASE {name} WHEN 1 THEN N'true' WHEN 0 THEN N'false' ELSE N'null' END"),
                Family::WideText | Family::Text => {
                    format!("ISNULL(N'\"' + STRING_ESCAPE({}, 'json') + N'\"', N'null')", as_text(column, &name))
                }
                _ => format!("ISNULL(N'\"' + {} + N'\"', N'null')", as_text(column, &name)),
            };
            let comma = if at == 0 { "" } else { "," };
            format!("{}, {value}", literal(&format!("{comma}{}:", json_text(&column.name))))
        });
        let members: Vec<String> = members.collect();
        // The first part makes the whole as long as it needs to be.
        let whole = format!("CONCAT(CAST(N'{{' AS nvarchar(max)), {}, N'}}')", members.join(", "));
        (format!("CAST({whole} AS varbinary(max))"), 1)
    }

    /// The key by its columns' names, for the handler and for those who look at the job.
    fn headers(&self) -> String {
        let key = &self.plan.mapping.key;
        if self.plan.mapping.takes_out() || key.is_empty() {
            return "NULL".to_string();
        }
        let members = key.iter().filter_map(|at| self.plan.table.column(&at.it)).enumerate().map(|(at, column)| {
            let text = as_text(column, &row_column(&column.name));
            let text = match column.family() {
                Family::WideText | Family::Text => format!("STRING_ESCAPE({text}, 'json')"),
                _ => text,
            };
            let comma = if at == 0 { "{" } else { "\"," };
            format!("{}, {text}", literal(&format!("{comma}{}:\"", json_text(&column.name))))
        });
        format!("CONCAT({}, N'\"}}')", members.collect::<Vec<_>>().join(", "))
    }

    fn time(&self, at: &At<Value>, terms: &Terms<'_>) -> String {
        let text = at.it.sql(terms);
        let has_offset = matches!(&at.it, Value::Column(name)
            if self.plan.table.column(name).is_some_and(|column| column.type_name == "datetimeoffset"));
        if has_offset { format!("SWITCHOFFSET({text}, '+00:00')") } else { text }
    }

    fn created(&self) -> String {
        let columns = &self.plan.mapping.columns;
        match columns.created.as_ref().or(columns.due.as_ref()) {
            Some(at) => {
                let time = self.time(at, &Terms { column: &row_column, word: &claim_word });
                format!("CAST(ISNULL({time}, @now) AS datetime2(3))")
            }
            None => "@now".to_string(),
        }
    }

    fn due(&self, terms: &Terms<'_>) -> String {
        let columns = &self.plan.mapping.columns;
        match columns.due.as_ref().or(columns.created.as_ref()) {
            Some(at) => format!("CAST(ISNULL({}, @now) AS datetime2(3))", self.time(at, terms)),
            None => "@now".to_string(),
        }
    }

    fn due_of_theirs(&self) -> String {
        let columns = &self.plan.mapping.columns;
        match columns.due.as_ref().or(columns.created.as_ref()) {
            Some(at) => {
                let time = self.time(at, &Terms { column: &bracketed, word: &claim_word });
                format!("CAST({time} AS datetime2(3))")
            }
            None => "CAST(NULL AS datetime2(3))".to_string(),
        }
    }

    fn priority(&self) -> String {
        match &self.plan.mapping.columns.priority {
            Some(at) => {
                let value = at.it.sql(&Terms { column: &row_column, word: &claim_word });
                format!(
                    "CAST(CASE WHEN {value} < -32768 THEN -32768 WHEN {value} > 32766 THEN 32766 ELSE ISNULL({value}, 0) END AS smallint)"
                )
            }
            None => "0".to_string(),
        }
    }

    fn kind(&self) -> String {
        match &self.plan.mapping.columns.kind {
            Some(at) => {
                let value = at.it.sql(&Terms { column: &row_column, word: &claim_word });
                format!("CAST(NULLIF(LEFT({value}, 64), '') AS varchar(64))")
            }
            None => "NULL".to_string(),
        }
    }

    /// A value as a column can take it: a text of the job's is cut to the column's length.
    fn assigned_to(&self, column: &Column, value: &Value, text: &str) -> String {
        // A count of attempts must not overflow and fail for ever.
        let most = match column.type_name.as_str() {
            "tinyint" => Some(255),
            "smallint" => Some(32_767),
            _ => None,
        };
        let counts_on = matches!(value, Value::Pair { left, operator: '+', right }
            if **left == Value::Column(column.name.clone()) && **right == Value::Number("1".to_string()));
        match (most, value) {
            (Some(most), Value::Word(Word::Attempt)) => {
                return format!("CASE WHEN {text} < {most} THEN {text} ELSE {most} END");
            }
            (Some(most), Value::Pair { .. }) if counts_on => {
                let old = bracketed(&column.name);
                return format!("CASE WHEN {old} < {most} THEN {old} + 1 ELSE {most} END");
            }
            _ => {}
        }
        let words = value.words();
        let is_text = words.contains(&Word::Error) || words.contains(&Word::Worker);
        let whole = match column.most_characters() {
            Some(most) if is_text => format!("LEFT({text}, {most})"),
            _ => text.to_string(),
        };
        if is_text && !column.is_nullable { format!("ISNULL({whole}, '')") } else { whole }
    }

    fn assigned(&self, set: &Set, text: &str) -> String {
        match self.plan.table.column(&set.column.it) {
            Some(column) => self.assigned_to(column, &set.value, text),
            None => text.to_string(),
        }
    }

    /// What finish notes of each done job: name, which column of jobs it is, and its type.
    fn found_columns(&self) -> Vec<(String, Option<String>, String)> {
        let mapping = &self.plan.mapping;
        let words: Vec<Word> = match &mapping.done.it {
            End::Delete => Vec::new(),
            End::Set(sets) | End::Move { values: sets, .. } => sets.iter().flat_map(|set| set.value.words()).collect(),
        };
        let mut columns = Vec::new();
        if words.contains(&Word::Attempt) {
            columns.push(("job_attempt".to_string(), Some("attempt".to_string()), "int NULL".to_string()));
        }
        if words.contains(&Word::ClaimedAt) {
            columns.push(("claimed_at".to_string(), None, "datetime2(3) NULL".to_string()));
        }
        let is_needed = |column: &&Column| {
            if mapping.takes_out() {
                return match &mapping.done.it {
                    End::Move { values, .. } => {
                        values.iter().any(|set| set.value.columns().contains(&column.name.as_str()))
                    }
                    _ => false,
                };
            }
            mapping.key.iter().any(|at| at.it == column.name)
        };
        let kept = self.plan.kept().into_iter().filter(is_needed);
        columns.extend(kept.map(|column| (kept_name(&column.name), None, column.declaration())));
        columns
    }

    /// The statement of finish for their rows whose jobs are done.
    fn done(&self) -> Result<String, String> {
        let word = |word: Word| match word {
            Word::Attempt => "d.job_attempt".to_string(),
            Word::ClaimedAt => "d.claimed_at".to_string(),
            Word::Output => "f.output".to_string(),
            Word::Worker => "w.name".to_string(),
            _ => "d.job_id".to_string(),
        };
        let end = &self.plan.mapping.done.it;
        let mut from = "FROM @found AS d".to_string();
        if uses(end, Word::Output) {
            from += "\n    INNER JOIN @jobs AS f ON f.job_id = d.job_id";
        }
        if uses(end, Word::Worker) {
            from += "\n    LEFT JOIN [$(schema)].[workers] AS w WITH (NOLOCK) ON w.worker_id = @worker_id";
        }
        let statement = self.end_statement(end, &from, "d", "", &word)?;
        if statement.is_empty() {
            return Ok(String::new());
        }
        let statement = filled(
            REFUSED,
            &[
                ("statement", statement.lines().map(|line| format!("    {line}\n")).collect()),
                ("table_text", self.plan.table.name.to_string().replace('\'', "''")),
            ],
        )?;
        Ok(format!("    -- Their rows, in the order of the jobs.\n{}", statement.trim_end_matches('\n')))
    }

    /// What note_ends and note_requeued do.
    fn ends_elsewhere(&self) -> Result<Elsewhere, String> {
        let word = |word: Word| match word {
            Word::Error => "j.error".to_string(),
            Word::Attempt => "j.attempt".to_string(),
            Word::ClaimedAt => "j.claimed_at".to_string(),
            Word::DueAt => "j.due_at".to_string(),
            Word::Worker => "w.name".to_string(),
            _ => "j.job_id".to_string(),
        };
        let from = |end: &End| {
            let mut from = "FROM @members AS m\n    \
                            INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id"
                .to_string();
            if uses(end, Word::Worker) {
                from += "\n    LEFT JOIN [$(schema)].[workers] AS w WITH (NOLOCK) ON w.worker_id = j.worker_id";
            }
            from
        };
        let statement = |end: &End, condition: &str| self.end_statement(end, &from(end), "j", condition, &word);
        let failed = End::Set(self.plan.mapping.failed.clone());
        // An attempt is counted when it begins.
        let counts = |set: &&Set| {
            self.plan.mapping.columns.attempts.as_ref().is_some_and(|attempts| attempts.it == set.column.it)
        };
        let marks = End::Set(self.plan.mapping.claim_sets().iter().filter(|set| !counts(set)).cloned().collect());
        let outermost = |text: String| -> String {
            text.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect()
        };
        Ok(Elsewhere {
            failed: statement(&failed, "WHERE m.state = 1 AND j.state IN (0, 1)\n    ")?,
            dead: statement(&self.plan.mapping.dead.it, &format!("WHERE j.state IN (4, 5){}\n    ", self.is_marked()))?,
            requeued: outermost(statement(&marks, "")?),
        })
    }

    /// Why requeue refuses, where it does.
    fn no_requeue(&self) -> String {
        let why = match (&self.plan.mapping.dead.it, self.plan.mapping.takes_out()) {
            (End::Delete, false) => "dead.delete",
            (End::Move { .. }, _) => "dead.move",
            _ => return String::new(),
        };
        let table = self.plan.table.name.to_string().replace('\'', "''");
        format!(
            "THROW 58003, N'this queue is the table {table}, from which the row of a dead job is gone ({why}): to run it again, insert it there', 1;\n"
        )
    }

    /// How a row is found by its key. The index is named only where another could be sought, too: often SQL Server has
    /// made up its name.
    fn key_hint(&self) -> String {
        let key = &self.plan.mapping.key;
        let begins_with_key = |index: &&super::catalog::Index| {
            index.filter.is_none() && index.key.first().is_some_and(|(name, _)| key.iter().any(|at| at.it == *name))
        };
        match &self.plan.key_index {
            Some(index) if self.plan.table.indexes.iter().filter(begins_with_key).count() > 1 => {
                format!("FORCESEEK, INDEX ({})", self.index_hint(index))
            }
            _ => "FORCESEEK".to_string(),
        }
    }

    /// The clustered index by its number: often SQL Server has made up its name, and another copy of the table has
    /// another.
    fn index_hint(&self, name: &str) -> String {
        match self.plan.table.indexes.iter().find(|index| index.name == name) {
            Some(index) if index.is_clustered => "1".to_string(),
            _ => bracketed(name),
        }
    }

    /// What the procedures rely on, as `000_adopted_table.sql` reads it in the catalog: a line for each.
    fn table_lines(&self) -> String {
        let table = &self.plan.table;
        let mut found: Vec<String> = table
            .columns
            .iter()
            .map(|column| {
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
            })
            .collect();
        if self.plan.key_index.is_some() {
            found.push("unique index on the key".to_string());
        }
        // Those that hints name.
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
        lines(&found.iter().map(|line| format!("({})", literal(line))).collect::<Vec<_>>(), 8)
    }

    /// A dead job has the only copy of its row.
    fn dead_are_the_only_copies(&self) -> bool {
        self.plan.mapping.takes_out() && matches!(self.plan.mapping.dead.it, End::Set(_))
    }

    /// Such a row does not go after a time.
    fn keep_dead(&self) -> String {
        if !self.dead_are_the_only_copies() {
            return String::new();
        }
        let table = self.plan.table.name.to_string().replace('\'', "''");
        format!(
            "IF @keep_dead_s > 0\n    THROW 58003, N'this queue is the table {table}, whose claims delete: a dead job has the only \
             copy of its row, and keep_dead_s would lose it; requeue or purge them, or say [dead] move in the mapping', 1;\n"
        )
    }

    /// That the row still has the marks of a claim, as far as they can be told: literals that a column takes as they are. A row
    /// that somebody has changed meanwhile is neither given back nor given up.
    fn is_marked(&self) -> String {
        let mapping = &self.plan.mapping;
        let is_kept = |set: &&Set| !mapping.failed.iter().any(|failed| failed.column.it == set.column.it);
        let compared = mapping.claim_sets().iter().filter(is_kept).filter_map(|set| {
            let is_exact = match (self.plan.table.column(&set.column.it)?.family(), &set.value) {
                (Family::Integer, Value::Number(number)) => number.parse::<i64>().is_ok(),
                (Family::Bit, Value::Number(number)) => matches!(number.as_str(), "0" | "1"),
                (Family::Text | Family::WideText, Value::Text(text)) => text.is_ascii(),
                _ => false,
            };
            let value = set.value.sql(&Terms { column: &bracketed, word: &claim_word });
            is_exact.then(|| format!(" AND t.{} = {value}", bracketed(&set.column.it)))
        });
        compared.collect()
    }

    /// `held`: the alias of what has the row's kept columns.
    fn end_statement(
        &self,
        end: &End,
        from: &str,
        held: &str,
        condition: &str,
        word: &dyn Fn(Word) -> String,
    ) -> Result<String, String> {
        let mapping = &self.plan.mapping;
        let takes_out = mapping.takes_out();
        let on = mapping.key.iter().map(|at| format!("t.{} = {held}.{}", bracketed(&at.it), kept_name(&at.it)));
        let theirs = format!(
            "{from}\n    INNER LOOP JOIN {} AS t WITH (ROWLOCK, {}) ON {}",
            self.plan.table.name.sql(),
            self.key_hint(),
            on.collect::<Vec<_>>().join(" AND ")
        );
        let written = |set: &Set, column: &dyn Fn(&str) -> String| set.value.sql(&Terms { column, word });
        match end {
            End::Delete if takes_out => Ok(String::new()),
            End::Delete => filled(END_DELETE, &[("from", theirs), ("where", condition.to_string())]),
            End::Set(sets) if sets.is_empty() => Ok(String::new()),
            End::Set(sets) => {
                let sets = sets.iter().map(|set| {
                    let value = written(set, &|name| format!("t.{}", bracketed(name)));
                    format!("{} = {}", bracketed(&set.column.it), self.assigned(set, &value))
                });
                let sets = lines(&sets.collect::<Vec<_>>(), 8);
                filled(END_SET, &[("from", theirs), ("where", condition.to_string()), ("sets", sets)])
            }
            End::Move { table, values } => {
                let names = values.iter().map(|set| bracketed(&set.column.it)).collect::<Vec<_>>().join(", ");
                let value = |set: &Set| {
                    if takes_out {
                        written(set, &|name| format!("{held}.{}", kept_name(name)))
                    } else {
                        written(set, &|name| format!("deleted.{}", bracketed(name)))
                    }
                };
                let values = values.iter().map(value).collect::<Vec<_>>().join(", ");
                let (template, from) = if takes_out { (END_INSERT, from.to_string()) } else { (END_MOVE, theirs) };
                let marks = [
                    ("from", from),
                    ("where", condition.to_string()),
                    ("other", table.it.sql()),
                    ("names", names),
                    ("values", values),
                ];
                filled(template, &marks)
            }
        }
    }

    /// Which columns `jobs` has, and what for: jobs that were claimed under another mapping lack what this one's
    /// procedures would look for. If a release writes it in another way, its installation over jobs is refused.
    fn kept_as(&self) -> String {
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

    /// Rows that only the adoption has are not thrown away with it.
    fn dead_rows(&self) -> String {
        let keeps = matches!(&self.plan.mapping.dead.it, End::Set(sets) if sets.is_empty());
        if !self.plan.mapping.takes_out() || !keeps {
            return String::new();
        }
        "IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WHERE ended = 1)\n    \
         THROW 58003, N'there are dead or cancelled jobs, whose rows stand nowhere else; requeue or purge them first', 1;\n"
            .to_string()
    }

    /// The statements that put back what is held. They name no index: they are run when the table may have others.
    fn give_back(&self) -> String {
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

/// The statements for rows whose jobs have failed, for those whose jobs are dead or cancelled, and for those that wait again
/// after that.
struct Elsewhere {
    failed: String,
    dead: String,
    requeued: String,
}

fn uses(end: &End, word: Word) -> bool {
    match end {
        End::Delete => false,
        End::Set(sets) | End::Move { values: sets, .. } => sets.iter().any(|set| set.value.words().contains(&word)),
    }
}

/// A column of theirs as the claim has read it.
fn row_column(name: &str) -> String {
    format!("k.{}", kept_name(name))
}

/// The one word that a claim knows.
fn claim_word(_: Word) -> String {
    "@worker".to_string()
}

/// A value as text: numbers, times and identifiers in one spelling, whatever the session's settings.
fn as_text(column: &Column, name: &str) -> String {
    match column.family() {
        Family::WideText => name.to_string(),
        Family::Text => format!("CAST({name} AS nvarchar(max))"),
        Family::Guid => format!("CONVERT(nvarchar(36), {name})"),
        Family::Time => format!("CONVERT(nvarchar(40), {name}, 126)"),
        _ if matches!(column.type_name.as_str(), "float" | "real") => format!("CONVERT(nvarchar(50), {name}, 3)"),
        _ => format!("CONVERT(nvarchar(50), {name})"),
    }
}

/// A name as a string of JSON.
fn json_text(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

fn unbracketed(name: &str) -> String {
    name[1..name.len() - 1].replace("]]", "]")
}

/// Statements that put a text into a variable, a line each: so that a line that says GO, or has what sqlcmd takes for a
/// variable, is part of the text.
fn long_text(variable: &str, text: &str) -> String {
    assignments(variable, text, &|line| literal(line).replace("$(", "$' + N'("))
}

/// The same for T-SQL of ours, in which the schema is filled in.
fn long_statements(variable: &str, statements: &str) -> String {
    assignments(variable, statements, &literal)
}

fn assignments(variable: &str, text: &str, written: &dyn Fn(&str) -> String) -> String {
    let mut statements = format!("DECLARE {variable} nvarchar(max) = N'';\n");
    for line in text.lines() {
        statements += &format!("SET {variable} = {variable} + {} + NCHAR(10);\n", written(line));
    }
    statements
}
