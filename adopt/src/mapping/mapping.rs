//! A mapping.

use readpast::admin::adopt_seam::unreadable;

use crate::error::Error;
use crate::expression::Predicate;
use crate::names::TableName;

use super::model::{At, Claim, Columns, End, Ordered, Set};
use super::section::line_of;
use super::text;

/// Describes how to use an existing table as a queue: its columns, the condition for a ready row, and the changes of a
/// row. A mapping is read from TOML. `docs/adopt.md` explains each key, and `examples/adopt/` has mappings.
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
    pub(crate) text: String,
    /// The name of its file, for messages.
    pub(crate) file: Option<String>,
    pub(crate) table: At<TableName>,
    pub(crate) queue: At<String>,
    pub(crate) schema: Option<At<String>>,
    pub(crate) key: Vec<At<String>>,
    pub(crate) payload: Vec<At<String>>,
    pub(crate) order: Vec<Ordered>,
    pub(crate) ready: Option<At<Predicate>>,
    pub(crate) max_attempts: i64,
    pub(crate) claim: At<Claim>,
    pub(crate) done: At<End>,
    pub(crate) failed: Vec<Set>,
    pub(crate) dead: At<End>,
    pub(crate) columns: Columns,
}

impl Mapping {
    /// Parses a mapping.
    ///
    /// # Errors
    ///
    /// [`Error::Mapping`], with the line, if the text is not TOML, a key is unknown or missing, an expression is not
    /// valid, or settings contradict each other. [`plan`](crate::plan) checks the mapping against the table.
    pub fn from_toml(text: &str) -> Result<Mapping, Error> {
        text::mapping(text).map_err(|mistake| placed(None, line_of(text, mistake.at), mistake.message))
    }

    /// Reads a mapping from a file. Messages name the file.
    ///
    /// # Errors
    ///
    /// [`readpast::Error::ConfigFile`] if the file cannot be read; otherwise as [`Mapping::from_toml`].
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<Mapping, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|cause| unreadable(path, cause))?;
        let file = path.display().to_string();
        match text::mapping(&text) {
            Ok(mapping) => Ok(Mapping { file: Some(file), ..mapping }),
            Err(mistake) => Err(placed(Some(&file), line_of(&text, mistake.at), mistake.message)),
        }
    }

    /// The name of the queue in the adoption's schema.
    pub fn queue(&self) -> &str {
        &self.queue.it
    }

    /// The adoption's schema, if the mapping names one.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_ref().map(|schema| schema.it.as_str())
    }

    /// The table, as `schema.table`.
    pub fn table(&self) -> String {
        self.table.it.to_string()
    }

    pub(crate) fn refusal(&self, line: usize, message: impl Into<String>) -> Error {
        placed(self.file.as_deref(), line, message.into())
    }

    /// Whether a claim deletes the row.
    pub(crate) fn takes_out(&self) -> bool {
        matches!(self.claim.it, Claim::Delete)
    }

    /// The columns that a claim sets; none if it deletes the row.
    pub(crate) fn claim_sets(&self) -> &[Set] {
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
            ("\"Status = 1\"", "\"Status == 1\"", 4, "it is not a predicate"),
            ("\"Status = 1\"", "\"Status = 1; DROP TABLE Q\"", 4, "it is not a predicate"),
            ("{ Status = 2 }", "{ Status = [2] }", 6, "in quotes, or a number"),
            ("dbo.Q", "other.dbo.Q", 1, "own database"),
            ("delete = true", "remove = true", 8, "unknown key done.remove"),
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
