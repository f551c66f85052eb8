//! Placeholders in a program's arguments.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

use readpast::crates::serde_json::{Map, Value};
use readpast::{BoxError, Job, JobError};

use crate::texts::first_line;

/// An argument with placeholders. Its value always stays one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    /// The path of a file with the payload.
    PayloadFile,
    Text,
    Field(String),
    JobId,
    Attempt,
    Kind,
}

/// For messages.
const KNOWN: &str = "{payload}, {text}, {.name}, {job_id}, {attempt}, {kind}, and {{ for a brace";

impl Argument {
    /// Parses an argument.
    ///
    /// # Errors
    ///
    /// For invalid placeholders.
    pub fn parse(text: &str) -> Result<Argument, String> {
        let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            literal.push_str(before);
            if let Some(after) = after.strip_prefix('{') {
                literal.push('{');
                rest = after;
                continue;
            }
            let Some((name, after)) = after.split_once('}') else {
                return Err(format!(
                    "the argument '{}' has a {{ without a }}; the known placeholders are {KNOWN}",
                    shown(text)
                ));
            };
            let piece = match name {
                "payload" => Piece::PayloadFile,
                "text" => Piece::Text,
                "job_id" => Piece::JobId,
                "attempt" => Piece::Attempt,
                "kind" => Piece::Kind,
                _ => match name.strip_prefix('.') {
                    Some(field) if !field.is_empty() => Piece::Field(field.to_owned()),
                    _ => {
                        let (text, name) = (shown(text), shown(name));
                        return Err(format!(
                            "the argument '{text}' has an unknown placeholder {{{name}}}; the known placeholders are {KNOWN}"
                        ));
                    }
                },
            };
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(piece);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Argument(pieces))
    }

    /// An argument without placeholders.
    pub fn verbatim(text: &str) -> Argument {
        Argument(vec![Piece::Literal(text.to_owned())])
    }

    /// Its text, if it has no placeholders.
    pub fn literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    pub fn needs_file(&self) -> bool {
        self.0.contains(&Piece::PayloadFile)
    }

    /// Whether it contains the payload or a part of it.
    pub fn has_payload(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::PayloadFile | Piece::Text | Piece::Field(_)))
    }

    /// The argument for a job.
    ///
    /// # Errors
    ///
    /// For a value that does not fit; the job becomes dead.
    pub fn fill(&self, values: &mut Values<'_>) -> Result<OsString, BoxError> {
        let mut filled = OsString::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(text) => filled.push(text),
                Piece::PayloadFile => filled.push(values.payload_file),
                Piece::Text => filled.push(&*without_nul("its payload", values.job.text()?)?),
                Piece::Field(name) => filled.push(&*without_nul(&format!("the field '{name}'"), values.field(name)?)?),
                Piece::JobId => filled.push(values.job.id().to_string()),
                Piece::Attempt => filled.push(values.job.attempt().to_string()),
                Piece::Kind => filled.push(values.job.kind().unwrap_or_default()),
            }
        }
        Ok(filled)
    }
}

/// The argument cut for a message: it may be a whole script.
fn shown(argument: &str) -> String {
    first_line(argument, 60)
}

/// The values for one job.
pub struct Values<'a> {
    job: &'a Job,
    payload_file: &'a OsStr,
    /// The payload as a JSON object, parsed on first use.
    fields: Option<Map<String, Value>>,
}

impl<'a> Values<'a> {
    /// `payload_file` is empty if no argument needs it.
    pub fn new(job: &'a Job, payload_file: &'a OsStr) -> Values<'a> {
        Values { job, payload_file, fields: None }
    }

    fn field(&mut self, name: &str) -> Result<Cow<'_, str>, BoxError> {
        let fields = match &mut self.fields {
            Some(fields) => fields,
            none => none.insert(self.job.json()?),
        };
        match fields.get(name) {
            Some(Value::String(text)) => Ok(Cow::Borrowed(text)),
            Some(value) => Ok(Cow::Owned(value.to_string())),
            None => Err(JobError::dead(format!("the payload has no member '{name}'")).into()),
        }
    }
}

/// Returns the text unchanged, if an argument can contain it.
///
/// # Errors
///
/// For a text with a NUL character, which would end the argument. The job becomes dead.
pub fn without_nul<'a>(what: &str, text: Cow<'a, str>) -> Result<Cow<'a, str>, BoxError> {
    if text.contains('\0') {
        let reason = format!("{what} has a NUL character, which arguments and environment variables cannot contain");
        return Err(JobError::dead(reason).into());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use readpast::NewJob;

    use super::*;

    fn filled(argument: &str, payload: &str) -> Result<String, String> {
        let job = Job::for_test(NewJob::text(payload).kind("resize"));
        let mut values = Values::new(&job, OsStr::new("/tmp/file"));
        let filled = Argument::parse(argument).unwrap().fill(&mut values).map_err(|error| error.to_string())?;
        Ok(filled.into_string().unwrap())
    }

    #[test]
    fn placeholders_are_put_in() {
        let payload = r#"{"from":"a b.png","size":12,"tags":["x"],"none":null}"#;
        for (argument, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("--in={.from}", "--in=a b.png"),
            ("{.size}x{.size}", "12x12"),
            ("{.tags}{.none}", r#"["x"]null"#),
            ("{job_id}-{attempt}-{kind}", "1-1-resize"),
            ("@{payload}", "@/tmp/file"),
            ("{{text}", "{text}"),
            (r#"{{"a":{{"b":1}}"#, r#"{"a":{"b":1}}"#),
            ("}", "}"),
        ] {
            assert_eq!(filled(argument, payload).unwrap(), expected, "{argument}");
        }
        assert_eq!(filled("{text}", payload).unwrap(), payload);
    }

    #[test]
    fn what_is_put_in_is_not_looked_at_again() {
        assert_eq!(filled("{text}", "{job_id} {{ {.x}").unwrap(), "{job_id} {{ {.x}");
    }

    #[test]
    fn what_cannot_be_put_in_is_said() {
        assert_eq!(filled("{.to}", "{}").unwrap_err(), "the payload has no member 'to'");
        assert!(filled("{.to}", "[1]").unwrap_err().contains("not the expected JSON"));
        assert!(filled("{text}", "a\0b").unwrap_err().starts_with("its payload has a NUL character"));
        assert!(filled("{.to}", r#"{"to":"\u0000"}"#).unwrap_err().starts_with("the field 'to' has a NUL character"));
    }

    #[test]
    fn unknown_placeholders_are_refused() {
        for argument in ["{txt}", "{}", "{.}", "{print $1}", "{", "{text", "{ text }"] {
            assert!(Argument::parse(argument).unwrap_err().contains(KNOWN), "{argument}");
        }
    }
}
