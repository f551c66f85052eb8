//! Parses and checks the text of a mapping.

use readpast::admin::adopt_seam::check_schema;
use toml::de::{DeTable, DeValue};

use crate::expression::{Value, Word, read_predicate, read_value};
use crate::names::TableName;

use super::mapping::Mapping;
use super::model::{At, Claim, Columns, End, Ordered, Set};
use super::section::{Mistake, Read, Section, at_line, line_of, missing};

const KEYS: [&str; 13] = [
    "table",
    "queue",
    "schema",
    "key",
    "payload",
    "order",
    "ready",
    "max_attempts",
    "claim",
    "done",
    "failed",
    "dead",
    "columns",
];

const COLUMNS: [&str; 6] = ["created", "due", "priority", "kind", "attempts", "error"];

pub(super) fn mapping(text: &str) -> Read<Mapping> {
    let parsed = DeTable::parse(text).map_err(|error| Mistake {
        at: error.span().unwrap_or_default().start,
        message: error.message().to_string(),
    })?;
    let root = Section::new(text, "", parsed.get_ref(), &KEYS)?;
    let section = |name: &'static str, known| match root.table.get(name).map(|value| (value, value.get_ref())) {
        None => Ok(None),
        Some((value, DeValue::Table(table))) => {
            Section::new(text, name, table, known).map(|section| Some((section, line_of(text, value.span().start))))
        }
        Some((value, _)) => {
            Err(Mistake { at: value.span().start, message: format!("{name} is a section, not a single value") })
        }
    };

    let Some(table) = root.text("table")? else {
        return missing("table is missing; it names the table as schema.table");
    };
    let table = match TableName::parse(&table.it) {
        Ok(it) => At { it, line: table.line },
        Err(message) => return root.mistake("table", &root.table["table"], &message),
    };
    let queue = root.text("queue")?.unwrap_or_else(|| At { it: table.it.table.clone(), line: table.line });
    let queue_is_usable =
        queue.it.trim() == queue.it && !queue.it.contains(char::is_control) && queue.it.encode_utf16().count() <= 128;
    if let (false, Some(value)) = (queue_is_usable, root.get("queue")) {
        return root.mistake(
            "queue",
            value,
            "it must have 1 to 128 characters, with no line breaks and no leading or trailing spaces",
        );
    }
    let schema = root.text("schema")?;
    if let (Some(schema), Some(value)) = (&schema, root.get("schema"))
        && let Err(error) = check_schema(&schema.it)
    {
        return Err(Mistake { at: value.span().start, message: error.to_string() });
    }
    let payload = root.texts("payload")?;
    if payload.is_empty() {
        return missing("payload is missing; it names the column with the job's payload, or a list of columns");
    }
    let mut order = Vec::new();
    for one in root.texts("order")? {
        match ordered(&one) {
            Ok(ordered) => {
                let is_same = |other: &Ordered| other.column.it.eq_ignore_ascii_case(&ordered.column.it);
                if order.iter().any(is_same) {
                    let message = format!("it has {} twice", ordered.column.it);
                    return root.mistake("order", &root.table["order"], &message);
                }
                order.push(ordered);
            }
            Err(message) => return root.mistake("order", &root.table["order"], &message),
        }
    }
    let ready = match root.text("ready")? {
        None => None,
        Some(ready) => match read_predicate(&ready.it) {
            Ok(it) => Some(At { it, line: ready.line }),
            Err(message) => {
                return root.mistake("ready", &root.table["ready"], &format!("it is not a predicate: {message}"));
            }
        },
    };
    let max_attempts = match root.get("max_attempts").map(|value| (value, value.get_ref())) {
        None => 5,
        Some((value, DeValue::Integer(number))) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) if (1..=1_000_000).contains(&number) => number,
            _ => return root.mistake("max_attempts", value, "it must be 1 to 1000000"),
        },
        Some((value, _)) => return root.mistake("max_attempts", value, "it must be 1 to 1000000"),
    };

    let Some((claim, claim_line)) = section("claim", &["set", "delete"])? else {
        return missing("the section [claim] is missing; it has set, or delete = true");
    };
    let claim = match (claim.sets("set")?, claim.is_true("delete")?) {
        (Some(sets), false) if !sets.is_empty() => Claim::Set(sets),
        (None, true) => Claim::Delete,
        _ => {
            return Err(at_line(
                text,
                claim_line,
                "[claim] has either set, with at least one column, or delete = true",
            ));
        }
    };
    let Some((done, done_line)) = section("done", &["set", "delete", "move", "with"])? else {
        return missing("the section [done] is missing; it has delete = true, set, or move");
    };
    let done = At { it: end(text, &done, done_line)?, line: done_line };
    let dead = match section("dead", &["set", "delete", "move", "with"])? {
        Some((dead, line)) => At { it: end(text, &dead, line)?, line },
        None => At { it: End::Set(Vec::new()), line: 1 },
    };
    let failed = match section("failed", &["set"])? {
        Some((failed, _)) => failed.sets("set")?.unwrap_or_default(),
        None => Vec::new(),
    };
    let columns = match section("columns", &COLUMNS)? {
        None => Columns::default(),
        Some((columns, _)) => Columns {
            created: columns.value("created")?,
            due: columns.value("due")?,
            priority: columns.value("priority")?,
            kind: columns.value("kind")?,
            attempts: columns.text("attempts")?,
            error: columns.text("error")?,
        },
    };
    let mapping = Mapping {
        text: text.to_string(),
        file: None,
        table,
        queue,
        schema,
        key: root.texts("key")?,
        payload,
        order,
        ready,
        max_attempts,
        claim: At { it: claim, line: claim_line },
        done,
        failed,
        dead,
        columns,
    };
    check(text, mapping)
}

fn end(text: &str, section: &Section<'_, '_>, line: usize) -> Read<End> {
    let (sets, delete, to, values) =
        (section.sets("set")?, section.is_true("delete")?, section.text("move")?, section.sets("with")?);
    match (sets, delete, to, values) {
        (Some(sets), false, None, None) => Ok(End::Set(sets)),
        (None, true, None, None) => Ok(End::Delete),
        (None, false, Some(to), Some(values)) if !values.is_empty() => match TableName::parse(&to.it) {
            Ok(it) => Ok(End::Move { table: At { it, line: to.line }, values }),
            Err(message) => section.mistake("move", &section.table["move"], &message),
        },
        (None, false, Some(to), _) => {
            let message = format!(
                "{}.move needs {}.with: the columns of the other table and their values",
                section.name, section.name
            );
            Err(at_line(text, to.line, &message))
        }
        _ => {
            let message = format!("[{}] has one of delete = true, set, and move (with `with`)", section.name);
            Err(at_line(text, line, &message))
        }
    }
}

/// `Column`, `Column DESC`, `[a column] ASC`.
fn ordered(text: &At<String>) -> Result<Ordered, String> {
    let trimmed = text.it.trim();
    let (name, descending) = match trimmed.rsplit_once(char::is_whitespace) {
        Some((name, direction)) if direction.eq_ignore_ascii_case("DESC") => (name.trim(), true),
        Some((name, direction)) if direction.eq_ignore_ascii_case("ASC") => (name.trim(), false),
        _ => (trimmed, false),
    };
    match read_value(name) {
        Ok(Value::Column(column)) => Ok(Ordered { column: At { it: column, line: text.line }, descending }),
        Ok(_) => Err("it must be one or more columns, each with or without DESC".to_string()),
        Err(message) => Err(format!("it must be one or more columns, each with or without DESC: {message}")),
    }
}

/// Checks that need only the mapping.
fn check(text: &str, mut mapping: Mapping) -> Read<Mapping> {
    let claim_line = mapping.claim.line;
    if mapping.takes_out() {
        if let Some(set) = mapping.failed.first() {
            let message = "failed.set has no row to set: the claim deletes it (claim.delete)";
            return Err(at_line(text, set.column.line, message));
        }
        for (name, end) in [("done", &mapping.done), ("dead", &mapping.dead)] {
            if let End::Set(sets) = &end.it
                && (name == "done" || !sets.is_empty())
            {
                let message =
                    format!("{name}.set has no row to set: the claim deletes it (claim.delete); use delete or move");
                return Err(at_line(text, end.line, &message));
            }
        }
        for (name, column) in [("attempts", &mapping.columns.attempts), ("error", &mapping.columns.error)] {
            if let Some(column) = column {
                let message = format!("columns.{name} has no row to be kept in: the claim deletes it (claim.delete)");
                return Err(at_line(text, column.line, &message));
            }
        }
        return Ok(mapping);
    }
    if mapping.key.is_empty() {
        return Err(Mistake {
            at: 0,
            message: "key is missing; it names the column that identifies a row, or a list of columns".to_string(),
        });
    }
    if mapping.ready.is_none() {
        let message = "ready is missing: without a predicate that a claim makes false, the table's other readers would \
                       take what a worker has; where taking a row means deleting it, say claim.delete = true";
        return Err(at_line(text, claim_line, message));
    };
    // The defaults from the columns for attempts and errors.
    let add = |sets: &mut Vec<Set>, column: &Option<At<String>>, value: Value| {
        if let Some(column) = column
            && !sets.iter().any(|set| set.column.it.eq_ignore_ascii_case(&column.it))
        {
            sets.push(Set { column: column.clone(), value });
        }
    };
    let Columns { attempts, error, .. } = mapping.columns.clone();
    add(&mut mapping.failed, &attempts, Value::Word(Word::Attempt));
    add(&mut mapping.failed, &error, Value::Word(Word::Error));
    if let End::Set(sets) = &mut mapping.dead.it {
        add(sets, &attempts, Value::Word(Word::Attempt));
        add(sets, &error, Value::Word(Word::Error));
    }
    if let (Claim::Set(sets), Some(column)) = (&mut mapping.claim.it, &attempts) {
        let one = Value::Pair {
            left: Box::new(Value::Column(column.it.clone())),
            operator: '+',
            right: Box::new(Value::Number("1".to_string())),
        };
        add(sets, &attempts, one);
    }

    if let End::Set(sets) = &mapping.done.it
        && sets.is_empty()
    {
        return Err(at_line(text, mapping.done.line, "[done] has delete = true, set or move"));
    }
    Ok(mapping)
}
