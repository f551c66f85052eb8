//! Changes of a row when its job is done, has failed, or is dead.

use crate::catalog::{Column, Family};
use crate::expression::{Terms, Value, Word};
use crate::mapping::{End, Set};
use crate::names::{bracketed, literal};
use crate::patches::filled;

use super::marks::{Marks, REFUSALS};
use super::texts::{claim_word, kept_name, lines, of_t};

const REFUSED: &str = include_str!("../../sql/refused.sql.part");

const END_DELETE: &str = include_str!("../../sql/end_delete.sql.part");

const END_SET: &str = include_str!("../../sql/end_set.sql.part");

const END_MOVE: &str = include_str!("../../sql/end_move.sql.part");

const END_INSERT: &str = include_str!("../../sql/end_insert.sql.part");

const END_ENDS: &str = include_str!("../../sql/end_ends.sql.part");

impl Marks<'_> {
    /// The columns that finish stores of each done job: name, its column in jobs, and its type.
    pub(super) fn found_columns(&self) -> Vec<(String, Option<String>, String)> {
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

    pub(super) fn done(&self) -> Result<String, String> {
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
                ("table_literal", literal(&self.plan.table.name.to_string())),
            ],
        )?;
        Ok(format!("    -- Their rows, in the order of the jobs.\n{}", statement.trim_end_matches('\n')))
    }

    pub(super) fn ends_elsewhere(&self) -> Result<Elsewhere, String> {
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
        // An attempt is counted when it starts.
        let counts = |set: &&Set| {
            self.plan.mapping.columns.attempts.as_ref().is_some_and(|attempts| attempts.it == set.column.it)
        };
        let marks = End::Set(self.plan.mapping.claim_sets().iter().filter(|set| !counts(set)).cloned().collect());
        Ok(Elsewhere {
            failed: statement(&failed, "WHERE m.state = 1 AND j.state IN (0, 1)\n    ")?,
            dead: statement(&self.plan.mapping.dead.it, &format!("WHERE j.state IN (4, 5){}\n    ", self.is_marked()))?,
            requeued: statement(&marks, "")?,
        })
    }

    /// `held`: the alias of the table with the row's kept columns.
    pub(super) fn end_statement(
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
                let terms = Terms { column: &of_t, word };
                let sets =
                    sets.iter().map(|set| format!("{} = {}", bracketed(&set.column.it), self.assigned(set, &terms)));
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

    /// A condition for rows that still have a claim's marks, as far as they are known: literals that the column stores
    /// unchanged. If a row was changed outside readpast meanwhile, it is neither restored nor set to dead.
    pub(super) fn is_marked(&self) -> String {
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

    pub(super) fn assigned(&self, set: &Set, terms: &Terms<'_>) -> String {
        match self.plan.table.column(&set.column.it) {
            Some(column) => assigned_to(column, &set.value, terms),
            None => set.value.sql(terms),
        }
    }
}

/// The statements for rows whose jobs have failed, for rows whose jobs are dead or cancelled, and for rows whose jobs
/// were requeued.
pub(super) struct Elsewhere {
    pub(super) failed: String,
    pub(super) dead: String,
    pub(super) requeued: String,
}

/// The statements for rows whose change the server has rejected. `sets` are the changes of such a row's job.
pub(super) fn end_ends(procedure: &str, sets: &str) -> Result<String, String> {
    let marks = [("procedure", procedure), ("refused_sets", sets), ("refusals", REFUSALS)];
    filled(END_ENDS, &marks.map(|(name, value)| (name, value.to_string())))
}

/// Converts a value to what a column can store: a text of the job is cut to the column's length.
fn assigned_to(column: &Column, value: &Value, terms: &Terms<'_>) -> String {
    let text = value.sql(terms);
    // A count of attempts must not overflow and fail forever.
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
            let old = (terms.column)(&column.name);
            return format!("CASE WHEN {old} < {most} THEN {old} + 1 ELSE {most} END");
        }
        _ => {}
    }
    let words = value.words();
    let is_text = words.contains(&Word::Error) || words.contains(&Word::Worker);
    let whole = match column.most_characters() {
        Some(most) if is_text => format!("LEFT({text}, {most})"),
        _ => text,
    };
    if is_text && !column.is_nullable { format!("ISNULL({whole}, '')") } else { whole }
}

fn uses(end: &End, word: Word) -> bool {
    match end {
        End::Delete => false,
        End::Set(sets) | End::Move { values: sets, .. } => sets.iter().any(|set| set.value.words().contains(&word)),
    }
}
