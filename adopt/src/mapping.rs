//! What a mapping says: the TOML text, read key by key, each with its line.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Error;
use crate::expression::{Predicate, Value, Word, read};
use readpast::admin::seam::{check_schema, unreadable};

use super::names::TableName;

/// Something of the mapping, and the line in which it stands.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) it: T,
    pub(super) line: usize,
}

/// How a table of somebody else's is used as a queue: its columns, what says that a row is ready, and what becomes of a
/// row. Read from TOML; `docs/adopt.md` explains each key, and `examples/adopt/` has mappings.
///
/// ```
/// use readpast_adopt::Mapping;
///
/// let mapping = Mapping::from_toml(
///     r#"
///     table = "dbo.SimpleQueue"
///     key = "Id"
///     payload = "Payload"
///     order = "CreatedAt"
///     ready = "ProcessingStartedAt IS NULL"
///
///     [claim]
///     set = { ProcessingStartedAt = "SYSUTCDATETIME()" }
///
///     [done]
///     delete = true
///     "#,
/// )?;
/// assert_eq!(mapping.queue(), "SimpleQueue");
/// # Ok::<(), readpast_adopt::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mapping {
    pub(super) text: String,
    /// The name of its file, for messages.
    pub(super) file: Option<String>,
    pub(super) table: At<TableName>,
    pub(super) queue: At<String>,
    pub(super) schema: Option<At<String>>,
    pub(super) key: Vec<At<String>>,
    pub(super) payload: Vec<At<String>>,
    pub(super) order: Vec<Ordered>,
    pub(super) ready: Option<At<Predicate>>,
    pub(super) max_attempts: i64,
    pub(super) claim: At<Claim>,
    pub(super) done: At<End>,
    pub(super) failed: Vec<Set>,
    pub(super) dead: At<End>,
    pub(super) columns: Columns,
}

/// A column of the order.
#[derive(Debug, Clone)]
pub(super) struct Ordered {
    pub(super) column: At<String>,
    pub(super) descending: bool,
}

/// What a claim does to a row.
#[derive(Debug, Clone)]
pub(super) enum Claim {
    Set(Vec<Set>),
    /// It is deleted, and kept by the adoption.
    Delete,
}

/// What becomes of a row whose job has ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    Delete,
    /// Nothing is set: it stays as the claim has left it.
    Set(Vec<Set>),
    Move {
        table: At<TableName>,
        values: Vec<Set>,
    },
}

/// A column and what it is set to.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub(super) column: At<String>,
    pub(super) value: Value,
}

/// Columns, or what is made of them, that say something about the job.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns {
    /// When it was enqueued, in UTC.
    pub(super) created: Option<At<Value>>,
    /// From when on it may run, in UTC.
    pub(super) due: Option<At<Value>>,
    pub(super) priority: Option<At<Value>>,
    pub(super) kind: Option<At<Value>>,
    pub(super) attempts: Option<At<String>>,
    pub(super) error: Option<At<String>>,
}

/// What is wrong, and where in the text.
struct Mistake {
    at: usize,
    message: String,
}

type Read<T> = Result<T, Mistake>;

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

impl Mapping {
    /// Reads a mapping.
    ///
    /// # Errors
    ///
    /// [`Error::Mapping`], which names the line: for a text that is no TOML, unknown and missing keys, expressions that
    /// are none, and what does not go together. What only the table can tell, [`plan`](crate::plan) does.
    pub fn from_toml(text: &str) -> Result<Mapping, Error> {
        read(text).map_err(|mistake| placed(None, line_of(text, mistake.at), mistake.message))
    }

    /// Reads a mapping from a file. Messages name the file.
    ///
    /// # Errors
    ///
    /// [`readpast::Error::ConfigFile`] where the file cannot be read, otherwise as [`Mapping::from_toml`].
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<Mapping, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|cause| unreadable(path, cause))?;
        let file = path.display().to_string();
        match read(&text) {
            Ok(mapping) => Ok(Mapping { file: Some(file), ..mapping }),
            Err(mistake) => Err(placed(Some(&file), line_of(&text, mistake.at), mistake.message)),
        }
    }

    /// The name of the queue in the adoption's schema.
    pub fn queue(&self) -> &str {
        &self.queue.it
    }

    /// The adoption's schema, where the mapping names one.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_ref().map(|schema| schema.it.as_str())
    }

    /// The table, as `schema.table`.
    pub fn table(&self) -> String {
        self.table.it.to_string()
    }

    /// An error about a line.
    pub(super) fn refusal(&self, line: usize, message: impl Into<String>) -> Error {
        placed(self.file.as_deref(), line, message.into())
    }

    /// Whether a claim takes the row out of its table.
    pub(super) fn takes_out(&self) -> bool {
        matches!(self.claim.it, Claim::Delete)
    }

    /// What a claim sets; nothing where it deletes.
    pub(super) fn claim_sets(&self) -> &[Set] {
        match &self.claim.it {
            Claim::Set(sets) => sets,
            Claim::Delete => &[],
        }
    }
}

fn placed(file: Option<&str>, line: usize, message: String) -> Error {
    let place = match file {
        Some(file) => format!("{file}, line {line}"),
        None => format!("line {line}"),
    };
    Error::Mapping { place, message }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// One section, with what of it was not asked for yet.
struct Section<'t, 's> {
    text: &'t str,
    name: &'static str,
    table: &'s DeTable<'t>,
    known: &'static [&'static str],
}

impl<'t, 's> Section<'t, 's> {
    /// # Errors
    ///
    /// A mistake for a key that there is not.
    fn new(text: &'t str, name: &'static str, table: &'s DeTable<'t>, known: &'static [&'static str]) -> Read<Self> {
        for key in table.keys() {
            let found: &str = key.get_ref();
            if !known.contains(&found) {
                let near = known.iter().filter(|known| strsim::damerau_levenshtein(known, found) <= 2);
                let hint = match near.min_by_key(|known| strsim::damerau_levenshtein(known, found)) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("there are {}", known.join(", ")),
                };
                let message = format!("there is no key {}; {hint}", full(name, found));
                return Err(Mistake { at: key.span().start, message });
            }
        }
        Ok(Section { text, name, table, known })
    }

    fn get(&self, key: &'static str) -> Option<&'s Spanned<DeValue<'t>>> {
        debug_assert!(self.known.contains(&key));
        self.table.get(key)
    }

    fn line(&self, value: &Spanned<DeValue<'_>>) -> usize {
        line_of(self.text, value.span().start)
    }

    fn mistake<T>(&self, key: &str, value: &Spanned<DeValue<'_>>, message: &str) -> Read<T> {
        let shown = match value.get_ref() {
            DeValue::String(text) => format!("\"{text}\""),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Boolean(truth) => truth.to_string(),
            DeValue::Array(_) => "a list".to_string(),
            DeValue::Table(_) => "a section".to_string(),
            _ => "something else".to_string(),
        };
        Err(Mistake { at: value.span().start, message: format!("{} is {shown}; {message}", full(self.name, key)) })
    }

    fn text(&self, key: &'static str) -> Read<Option<At<String>>> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.get_ref() {
                DeValue::String(text) if !text.trim().is_empty() => {
                    Ok(Some(At { it: text.to_string(), line: self.line(value) }))
                }
                _ => self.mistake(key, value, "it must be a text in quotes"),
            },
        }
    }

    /// One text, or a list of them.
    fn texts(&self, key: &'static str) -> Read<Vec<At<String>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(list) = value.get_ref() else {
            return Ok(self.text(key)?.into_iter().collect());
        };
        let mut texts = Vec::new();
        for one in list.iter() {
            match one.get_ref() {
                DeValue::String(text) if !text.trim().is_empty() => {
                    texts.push(At { it: text.to_string(), line: self.line(one) });
                }
                _ => return self.mistake(key, value, "it must be a text in quotes or a list of them"),
            }
        }
        if texts.is_empty() {
            return self.mistake(key, value, "it must have at least one text");
        }
        Ok(texts)
    }

    fn is_true(&self, key: &'static str) -> Read<bool> {
        match self.get(key).map(|value| (value, value.get_ref())) {
            None => Ok(false),
            Some((_, DeValue::Boolean(true))) => Ok(true),
            Some((value, _)) => self.mistake(key, value, "it must be true, or not be there"),
        }
    }

    fn value(&self, key: &'static str) -> Read<Option<At<Value>>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match (read::value(&text.it), self.get(key)) {
            (Ok(it), _) => Ok(Some(At { it, line: text.line })),
            (Err(message), Some(place)) => self.mistake(key, place, &message),
            (Err(message), None) => Err(Mistake { at: 0, message }),
        }
    }

    /// Columns with their values.
    fn sets(&self, key: &'static str) -> Read<Option<Vec<Set>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let DeValue::Table(table) = value.get_ref() else {
            return self.mistake(key, value, "it must be columns with their values: { Column = \"value\" }");
        };
        let mut sets = Vec::new();
        for (column, value) in table {
            let name = column.get_ref().to_string();
            let it = match value.get_ref() {
                DeValue::String(text) => match read::value(text) {
                    Ok(value) => value,
                    Err(message) => {
                        let hint = "; a text as a value has quotes of its own: \"'done'\"";
                        return self.mistake(&format!("{key}.{name}"), value, &(message + hint));
                    }
                },
                DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) if number < 0 => {
                        Value::Negative(Box::new(Value::Number(number.unsigned_abs().to_string())))
                    }
                    Ok(number) => Value::Number(number.to_string()),
                    Err(_) => return self.mistake(&format!("{key}.{name}"), value, "the number is too large"),
                },
                DeValue::Boolean(truth) => Value::Number(u8::from(*truth).to_string()),
                _ => {
                    return self.mistake(
                        &format!("{key}.{name}"),
                        value,
                        "it must be an expression of T-SQL in quotes, or a number",
                    );
                }
            };
            let at = column.span().start;
            sets.push((at, Set { column: At { it: name, line: line_of(self.text, at) }, value: it }));
        }
        // The text's own order, whatever that of the reader's map is.
        sets.sort_by_key(|(at, _)| *at);
        Ok(Some(sets.into_iter().map(|(_, set)| set).collect()))
    }
}

fn full(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_string() } else { format!("{section}.{key}") }
}

fn missing<T>(message: &str) -> Read<T> {
    Err(Mistake { at: 0, message: message.to_string() })
}

fn read(text: &str) -> Read<Mapping> {
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

    let Some(table) = root.text("table")? else { return missing("table is missing: the table, as schema.table") };
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
            "it must have 1 to 128 characters, without line breaks and without spaces at its ends",
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
        return missing("payload is missing: the column that is the job's payload, or a list of them");
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
        Some(ready) => match read::predicate(&ready.it) {
            Ok(it) => Some(At { it, line: ready.line }),
            Err(message) => {
                return root.mistake("ready", &root.table["ready"], &format!("it is no predicate: {message}"));
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
        return missing("the section [claim] is missing: what a claim sets, or delete = true");
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
        return missing("the section [done] is missing: delete = true, set, or move");
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

/// What can be told from the mapping alone.
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
            message: "key is missing: the column that names a row, or a list of them".to_string(),
        });
    }
    if mapping.ready.is_none() {
        let message = "ready is missing: without a predicate that a claim makes false, the table's other readers would \
                       take what a worker has; where taking a row means deleting it, say claim.delete = true";
        return Err(at_line(text, claim_line, message));
    };
    // What the columns for attempts and errors bring, unless it is said otherwise.
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

/// A mistake in a line that is known by its number.
fn at_line(text: &str, line: usize, message: &str) -> Mistake {
    let at = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    Mistake { at, message: message.to_string() }
}

/// `Column`, `Column DESC`, `[a column] ASC`.
fn ordered(text: &At<String>) -> Result<Ordered, String> {
    let trimmed = text.it.trim();
    let (name, descending) = match trimmed.rsplit_once(char::is_whitespace) {
        Some((name, direction)) if direction.eq_ignore_ascii_case("DESC") => (name.trim(), true),
        Some((name, direction)) if direction.eq_ignore_ascii_case("ASC") => (name.trim(), false),
        _ => (trimmed, false),
    };
    match read::value(name) {
        Ok(Value::Column(column)) => Ok(Ordered { column: At { it: column, line: text.line }, descending }),
        Ok(_) => Err("it must be columns, each with or without DESC".to_string()),
        Err(message) => Err(format!("it must be columns, each with or without DESC: {message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "table = \"dbo.Q\"\nkey = \"Id\"\npayload = \"Body\"\nready = \"Status = 1\"\n\
                        [claim]\nset = { Status = 2 }\n[done]\ndelete = true\n";

    fn message(text: &str) -> String {
        match Mapping::from_toml(text) {
            Ok(_) => panic!("this was not refused: {text}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_mapping_is_read() {
        let mapping = Mapping::from_toml(GOOD).unwrap();
        assert_eq!((mapping.queue(), mapping.table().as_str()), ("Q", "dbo.Q"));
        assert!(!mapping.takes_out());
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (from, to, line, part) in [
            ("key = \"Id\"", "kay = \"Id\"", 2, "did you mean key?"),
            ("key = \"Id\"\n", "", 1, "key is missing"),
            ("\"Status = 1\"", "\"Status == 1\"", 4, "it is no predicate"),
            ("\"Status = 1\"", "\"Status = 1; DROP TABLE Q\"", 4, "it is no predicate"),
            ("{ Status = 2 }", "{ Status = [2] }", 6, "in quotes, or a number"),
            ("dbo.Q", "other.dbo.Q", 1, "the database"),
            ("delete = true", "remove = true", 8, "there is no key done.remove"),
            ("delete = true", "delete = false", 8, "it must be true"),
            ("delete = true", "move = \"dbo.R\"", 8, "done.with"),
            ("payload = \"Body\"", "payload = 5", 3, "a text in quotes"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = message(&GOOD.replace(from, to));
            assert!(error.contains(&format!("line {line}:")), "{to}: {error}");
            assert!(error.contains(part), "{to}: {error}");
        }
    }

    #[test]
    fn a_claim_that_deletes_leaves_nothing_to_set() {
        let takes = GOOD.replace("set = { Status = 2 }", "delete = true");
        Mapping::from_toml(&takes).unwrap();
        assert!(message(&format!("{takes}[failed]\nset = {{ Error = \"{{error}}\" }}\n")).contains("line 10"));
        assert!(message(&format!("{takes}[columns]\nerror = \"Error\"\n")).contains("columns.error"));
    }
}
