//! The protocol of programs that stay (docs/protocol.md).
//!
//! ```text
//! a job ─▶ request ─▶ the program ─▶ Said::read ─▶ what it asks for, a note, or the reply
//! ```

use std::borrow::Cow;
use std::time::Duration;

use readpast::crates::serde_json::{self, Map, Value};
use readpast::{BoxError, Context, Job, JobError, JobId, Output};
use readpast_web::telling_line::exception_line;
use serde::Deserialize;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::parents;
use super::talk::shown;
use crate::json_object;
use readpast_web::hex;

/// The version of the protocol. Fields may be added to it.
pub const VERSION: u32 = 1;

/// The line of a worker that was told to stop, for a program that has asked for it.
pub const STOP: &[u8] = b"{\"stop\":true}\n";

/// What a program has asked for with its first line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// Payloads, checkpoints and outputs as they are, after their line.
    pub bytes: bool,
    /// A line when the worker is told to stop.
    pub stop: bool,
    /// How many further jobs it may get before it has replied to one.
    pub ahead: usize,
}

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asks {
    /// It is about a job.
    Nothing,
    More(Asked),
    /// It is of another protocol; says which.
    OtherProtocol(String),
}

/// The most jobs that a program can ask for.
const MOST_AHEAD: u64 = 1_000;

/// A job for a program, with the names of `readpast job --json`.
struct Request<'a> {
    job: &'a Job,
    context: &'a Context,
    payload_text: Option<Cow<'a, str>>,
    parents: Option<Vec<parents::ParentEnd>>,
    asked: Asked,
}

/// Adds the line of a job, with its newline, and the bytes after it.
///
/// # Errors
///
/// For invalid text: the job becomes dead. Those of [`parents::of`].
pub fn request(context: &Context, asked: Asked, line: &mut Vec<u8>) -> Result<(), BoxError> {
    let job = context.job();
    let payload_text = match job.text() {
        _ if asked.bytes && !job.payload_utf16() => None,
        Ok(text) => Some(text),
        Err(error) if job.payload_utf16() => return Err(error.into()),
        Err(_) => None,
    };
    let request = Request { job, context, payload_text, parents: parents::of(job, context)?, asked };
    serde_json::to_writer(&mut *line, &request)?;
    line.push(b'\n');
    if asked.bytes {
        line.extend_from_slice(request.payload());
        line.extend_from_slice(job.checkpoint().unwrap_or_default());
    }
    Ok(())
}

impl Request<'_> {
    /// The payload, text as UTF-8.
    fn payload(&self) -> &[u8] {
        self.payload_text.as_ref().map_or(self.job.payload(), |text| text.as_bytes())
    }
}

impl Serialize for Request<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Request { job, context, parents, payload_text, asked } = self;
        let mut line = Fields { map: serializer.serialize_map(None)?, has_all: !asked.bytes };
        line.add("job_id", Some(job.id()))?;
        line.add("attempt", Some(job.attempt()))?;
        line.add("max_attempts", Some(job.max_attempts()))?;
        line.add("fence", Some(job.fence()))?;
        line.add("kind", job.kind())?;
        line.add("correlation_id", job.correlation_id())?;
        line.add("group_key", job.group_key())?;
        line.add("batch_id", job.batch_id())?;
        let headers: Map<String, Value> = job.headers().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        line.add("headers", (!headers.is_empty()).then_some(headers))?;
        line.add("parents", parents.as_ref())?;
        line.add("time_limit_s", context.time_left().map(|left| left.as_secs_f64()))?;
        let checkpoint = job.checkpoint();
        if asked.bytes {
            line.add("checkpoint_bytes", checkpoint.map(<[u8]>::len))?;
            line.add("payload_bytes", Some(self.payload().len()))?;
        } else {
            let checkpoint_text = checkpoint.and_then(|bytes| std::str::from_utf8(bytes).ok());
            line.add("checkpoint_text", checkpoint_text)?;
            line.add("checkpoint_hex", checkpoint.filter(|_| checkpoint_text.is_none()).map(hex::digits))?;
            line.add("payload_text", payload_text.as_ref())?;
            line.add("payload_hex", payload_text.is_none().then(|| hex::digits(job.payload())))?;
        }
        line.map.end()
    }
}

/// The fields of a line.
struct Fields<M> {
    map: M,
    /// Whether fields without a value are there, too, as null.
    has_all: bool,
}

impl<M: SerializeMap> Fields<M> {
    fn add(&mut self, name: &str, value: Option<impl Serialize>) -> Result<(), M::Error> {
        if value.is_some() || self.has_all { self.map.serialize_entry(name, &value) } else { Ok(()) }
    }
}

/// A line of a program.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Said {
    protocol: Option<u32>,
    bytes: bool,
    stop: bool,
    ahead: Option<u64>,
    job_id: Option<JobId>,
    progress: Option<f32>,
    progress_text: Option<String>,
    checkpoint_text: Option<String>,
    checkpoint_hex: Option<String>,
    checkpoint_bytes: Option<usize>,
    log: Option<String>,
    error: Option<String>,
    dead: bool,
    retry_in_s: Option<f64>,
    snooze_s: Option<f64>,
    move_to: Option<String>,
    output_text: Option<String>,
    output_hex: Option<String>,
    output_bytes: Option<usize>,
}

/// The first line of a program, which may ask for what only later versions know.
#[derive(Deserialize)]
struct FirstLine {
    protocol: u32,
    #[serde(default)]
    bytes: bool,
    #[serde(default)]
    stop: bool,
    ahead: Option<u64>,
}

/// The fields of a line, each with what it must be.
const FIELDS: [(&str, &str); 19] = [
    ("protocol", "1"),
    ("bytes", "true or false"),
    ("stop", "true or false"),
    ("ahead", "a number of jobs from 1 to 1000"),
    ("job_id", "the number of the job"),
    ("progress", "a number from 0 to 1"),
    ("progress_text", "a text"),
    ("checkpoint_text", "a text"),
    ("checkpoint_hex", "a text"),
    ("checkpoint_bytes", "a number of bytes"),
    ("log", "a text"),
    ("error", "a text"),
    ("dead", "true or false"),
    ("retry_in_s", "a number of seconds"),
    ("snooze_s", "a number of seconds"),
    ("move_to", "the name of a queue"),
    ("output_text", "a text"),
    ("output_hex", "a text"),
    ("output_bytes", "a number of bytes"),
];

/// What a line of a running job means.
pub enum Meaning {
    /// The job goes on.
    Note,
    Reply(Result<Output, JobError>),
}

/// What is wrong with a line of a program, for its job's error.
pub fn invalid(wrong: &str, line: &[u8]) -> String {
    let line = shown(line);
    format!(
        "invalid line of the program: {wrong}: {line}\nStandard output is only for replies and notes, one line each; \
         print everything else to standard error"
    )
}

impl Said {
    /// Reads a line, without its newline.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(line: &[u8]) -> Result<Said, String> {
        json_object::read(line, &FIELDS).or_else(|wrong| match serde_json::from_slice(line) {
            Ok(FirstLine { protocol, bytes, stop, ahead }) => {
                Ok(Said { protocol: Some(protocol), bytes, stop, ahead, ..Said::default() })
            }
            Err(_) => Err(wrong),
        })
    }

    /// The job that it is about.
    pub fn job_id(&self) -> Option<JobId> {
        self.job_id
    }

    /// How many bytes follow the line.
    pub fn bytes_after(&self) -> usize {
        self.output_bytes.or(self.checkpoint_bytes).unwrap_or_default()
    }

    /// Whether the bytes are an output.
    pub fn is_output(&self) -> bool {
        self.output_bytes.is_some()
    }

    /// What the program asks for.
    ///
    /// # Errors
    ///
    /// What is wrong with the line.
    pub fn asks(&self) -> Result<Asks, String> {
        match self.protocol {
            Some(other) if other != VERSION => {
                let what = format!("the program speaks protocol {other}; this worker speaks protocol {VERSION}");
                Ok(Asks::OtherProtocol(what))
            }
            None if self.bytes || self.stop || self.ahead.is_some() => {
                Err("it has bytes, stop or ahead, but no protocol".to_owned())
            }
            None => Ok(Asks::Nothing),
            Some(_) if self.job_id.is_some() || self.is_note() || self.is_reply() => {
                Err("it has protocol, and fields of a job".to_owned())
            }
            Some(_) => match self.ahead {
                Some(ahead) if !(1..=MOST_AHEAD).contains(&ahead) => {
                    Err(format!("its ahead is {ahead}; it must be a number of jobs from 1 to {MOST_AHEAD}"))
                }
                ahead => {
                    let ahead = ahead.unwrap_or_default() as usize;
                    Ok(Asks::More(Asked { bytes: self.bytes, stop: self.stop, ahead }))
                }
            },
        }
    }

    fn is_note(&self) -> bool {
        self.progress.is_some() || self.progress_text.is_some() || self.log.is_some() || self.has_checkpoint()
    }

    fn has_checkpoint(&self) -> bool {
        self.checkpoint_text.is_some() || self.checkpoint_hex.is_some() || self.checkpoint_bytes.is_some()
    }

    /// Whether it has a field that only replies have.
    fn is_reply(&self) -> bool {
        self.error.is_some()
            || self.has_verdict()
            || self.output_text.is_some()
            || self.output_hex.is_some()
            || self.output_bytes.is_some()
    }

    fn has_verdict(&self) -> bool {
        self.dead || self.retry_in_s.is_some() || self.snooze_s.is_some() || self.move_to.is_some()
    }

    /// Notes what the line says of the running job, or returns its outcome. `bytes` follow the line.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn about(self, bytes: &[u8], context: &Context, max_output: usize) -> Result<Meaning, String> {
        let running = context.job().id();
        match self.job_id {
            None => return Err("it has no job_id".to_owned()),
            Some(job_id) if job_id != running => {
                return Err(format!("it is for job {job_id}, but job {running} is running"));
            }
            Some(_) => {}
        }
        if !self.is_note() {
            return self.outcome(bytes, max_output).map(Meaning::Reply);
        }
        if self.is_reply() {
            return Err("it has fields of a reply, and progress, a checkpoint or log".to_owned());
        }
        self.note(bytes, context).map(|()| Meaning::Note)
    }

    fn note(self, bytes: &[u8], context: &Context) -> Result<(), String> {
        match (self.progress, self.progress_text) {
            (Some(fraction), text) => context.progress(fraction, &text.unwrap_or_default()),
            (None, Some(_)) => return Err("it has a progress_text, but no progress".to_owned()),
            (None, None) => {}
        }
        if let Some(line) = self.log {
            context.log(line);
        }
        let sent = self.checkpoint_bytes.map(|_| bytes);
        match data("checkpoint", self.checkpoint_text, self.checkpoint_hex, sent)? {
            Some(state) => context.checkpoint(state).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    fn outcome(self, bytes: &[u8], max_output: usize) -> Result<Result<Output, JobError>, String> {
        let has_verdict = self.has_verdict();
        let sent = self.output_bytes.map(|_| bytes);
        let output = data("output", self.output_text, self.output_hex, sent)?;
        let seconds = |name: &str, seconds: f64| {
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| format!("its {name} is {seconds}; it must be 0 or more seconds"))
        };
        let Some(error) = self.error.map(told) else {
            if has_verdict {
                return Err("it has dead, retry_in_s, snooze_s or move_to, but no error".to_owned());
            }
            let output = output.unwrap_or_default();
            if output.len().max(self.output_bytes.unwrap_or_default()) > max_output {
                return Ok(Err(JobError::dead(format!("its output is larger than {max_output} bytes"))));
            }
            return Ok(Ok(if output.is_empty() { Output::default() } else { Output::bytes(output) }));
        };
        if output.is_some() {
            return Err("it has both an error and an output".to_owned());
        }
        Ok(Err(match (self.dead, self.retry_in_s, self.snooze_s, self.move_to) {
            (false, None, None, None) => JobError::retry(error),
            (true, None, None, None) => JobError::dead(error),
            (false, Some(delay), None, None) => JobError::retry_in(seconds("retry_in_s", delay)?, error),
            (false, None, Some(delay), None) => JobError::snooze(seconds("snooze_s", delay)?, error),
            (false, None, None, Some(queue)) => JobError::move_to(queue, error),
            _ => return Err("it has more than one of dead, retry_in_s, snooze_s and move_to".to_owned()),
        }))
    }
}

/// The bytes of an output or a checkpoint, which is given in one of three ways.
fn data(
    what: &str,
    text: Option<String>,
    digits: Option<String>,
    sent: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, String> {
    match (text, digits, sent) {
        (None, None, None) => Ok(None),
        (Some(text), None, None) => Ok(Some(text.into_bytes())),
        (None, Some(digits), None) => {
            let bytes = digits.strip_prefix("0x").and_then(hex::bytes);
            let allowed = format!("its {what}_hex must be 0x followed by pairs of hexadecimal digits");
            bytes.map(Some).ok_or(allowed)
        }
        (None, None, Some(bytes)) => Ok(Some(bytes.to_vec())),
        _ => Err(format!("it has more than one of {what}_text, {what}_hex and {what}_bytes")),
    }
}

/// Puts the line with the reason in front of an error, which may be a traceback.
fn told(error: String) -> String {
    match exception_line(&error) {
        Some(line) if !error.starts_with(line) => format!("{line}\n{error}"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use readpast::NewJob;

    use super::*;

    fn job() -> Job {
        Job::for_test(NewJob::bytes([0xFF, 0x0A]).kind("resize").header("tenant", "acme"))
    }

    const ALL: Asked = Asked { bytes: true, stop: true, ahead: 0 };

    #[test]
    fn a_job_is_a_line() {
        let line = |job: Job, asked| {
            let context = Context::for_test(job);
            let mut line = Vec::new();
            request(&context, asked, &mut line).unwrap();
            String::from_utf8_lossy(&line).into_owned()
        };
        let text = || NewJob::text("a\nb").kind("resize").header("tenant", "acme");
        let first = r#"{"job_id":1,"attempt":1,"max_attempts":5,"fence":1,"kind":"resize","#;
        assert_eq!(
            line(Job::for_test(text()), Asked::default()),
            format!(
                "{first}{}\n",
                concat!(
                    r#""correlation_id":null,"group_key":null,"batch_id":null,"headers":{"tenant":"acme"},"#,
                    r#""parents":null,"time_limit_s":null,"checkpoint_text":null,"checkpoint_hex":null,"#,
                    r#""payload_text":"a\nb","payload_hex":null}"#
                )
            )
        );
        let binary = line(job().with_checkpoint([0xFE]), Asked::default());
        assert!(binary.contains(r#""checkpoint_text":null,"checkpoint_hex":"0xFE","#), "{binary}");
        assert!(binary.contains(r#""payload_text":null,"payload_hex":"0xFF0A""#), "{binary}");
        let second = r#""headers":{"tenant":"acme"},"checkpoint_bytes":2,"payload_bytes":3}"#;
        assert_eq!(line(Job::for_test(text()).with_checkpoint("42"), ALL), format!("{first}{second}\na\nb42"));
    }

    fn reply(line: &str) -> Result<Result<Output, String>, String> {
        reply_with(line, &[])
    }

    fn reply_with(line: &str, bytes: &[u8]) -> Result<Result<Output, String>, String> {
        let said = Said::read(line.as_bytes())?;
        assert_eq!(said.bytes_after(), bytes.len(), "{line}");
        match said.about(bytes, &Context::for_test(job()), 10)? {
            Meaning::Reply(result) => Ok(result.map_err(|error| format!("{error:?}"))),
            Meaning::Note => Err("it is a note".to_owned()),
        }
    }

    #[test]
    fn replies_say_what_becomes_of_the_job() {
        assert_eq!(reply(r#"{"job_id":1}"#), Ok(Ok(Output::default())));
        assert_eq!(reply(r#"{"job_id":1,"output_text":"é"}"#), Ok(Ok(Output::bytes("é"))));
        assert_eq!(reply(r#"{"job_id":1,"output_hex":"0x0aFF"}"#), Ok(Ok(Output::bytes([10, 255]))));
        assert_eq!(reply_with(r#"{"job_id":1,"output_bytes":2}"#, &[10, 255]), Ok(Ok(Output::bytes([10, 255]))));
        for (line, verdict) in [
            (r#"{"job_id":1,"error":"no"}"#, "Retry,"),
            (r#"{"job_id":1,"error":"no","dead":true}"#, "Dead,"),
            (r#"{"job_id":1,"error":"no","retry_in_s":1.5}"#, "RetryIn(1.5s)"),
            (r#"{"job_id":1,"error":"no","snooze_s":60}"#, "Snooze(60s)"),
            (r#"{"job_id":1,"error":"no","move_to":"large"}"#, r#"MoveTo("large")"#),
            (r#"{"job_id":1,"output_text":"01234567890"}"#, "Dead,"),
        ] {
            assert!(reply(line).unwrap().unwrap_err().contains(verdict), "{line}");
        }
    }

    #[test]
    fn notes_are_of_the_running_job() {
        let context = Context::for_test(job());
        for (line, bytes) in [
            (r#"{"job_id":1,"progress":0.5,"progress_text":"half"}"#, &[][..]),
            (r#"{"job_id":1,"log":"a line"}"#, &[]),
            (r#"{"job_id":1,"progress":0.75,"log":"another","checkpoint_bytes":2}"#, &[1, 255]),
        ] {
            let said = Said::read(line.as_bytes()).unwrap();
            assert!(matches!(said.about(bytes, &context, 10), Ok(Meaning::Note)), "{line}");
        }
        assert_eq!(context.logged(), "a line\nanother\n");
        assert_eq!(context.noted_checkpoint().unwrap(), [1, 255]);
    }

    #[test]
    fn a_program_may_ask_for_more() {
        let asks = |line: &str| Said::read(line.as_bytes())?.asks();
        let more = |asked| Ok(Asks::More(asked));
        assert_eq!(asks(r#"{"protocol":1}"#), more(Asked::default()));
        assert_eq!(asks(r#"{"protocol":1,"bytes":true,"stop":true}"#), more(ALL));
        assert_eq!(asks(r#"{"protocol":1,"ahead":1000}"#), more(Asked { ahead: 1_000, ..Asked::default() }));
        assert_eq!(asks(r#"{"job_id":1}"#), Ok(Asks::Nothing));
        let stop = Asked { stop: true, ..Asked::default() };
        assert_eq!(asks(r#"{"protocol":1,"stop":true,"later":[{}]}"#), more(stop));
        let other = "the program speaks protocol 2; this worker speaks protocol 1".to_owned();
        assert_eq!(asks(r#"{"protocol":2,"later":true}"#), Ok(Asks::OtherProtocol(other)));
        let wrong = asks(r#"{"protocol":1,"ahead":1001}"#).unwrap_err();
        assert_eq!(wrong, "its ahead is 1001; it must be a number of jobs from 1 to 1000");
        let wrong = asks(r#"{"protocol":1,"ahead":-1}"#).unwrap_err();
        assert_eq!(wrong, "ahead is -1; it must be a number of jobs from 1 to 1000");
        for line in [
            r#"{"bytes":true}"#,
            r#"{"protocol":1,"job_id":1}"#,
            r#"{"protocol":1,"log":"x"}"#,
            r#"{"protocol":1,"ahead":0}"#,
            r#"{"ahead":1}"#,
        ] {
            assert!(asks(line).is_err(), "{line}");
        }
    }

    #[test]
    fn an_error_that_is_a_traceback_begins_with_its_exception() {
        let traceback = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: bad\n";
        assert_eq!(told(traceback.to_owned()), format!("ValueError: bad\n{traceback}"));
        for error in ["bad\n\ndetails", "TypeError: bad\n    at f (a.js:1:7)\n"] {
            assert_eq!(told(error.to_owned()), error);
        }
    }

    #[test]
    fn wrong_lines_are_told_from_failed_jobs() {
        let long = format!(r#"{{"job_id":1,"checkpoint_text":"{}"}}"#, "x".repeat(65_536));
        for line in [
            "",
            "done",
            "{}",
            r#"{"job_id":2}"#,
            r#"{"job_id":1,"outptu_text":"x"}"#,
            r#"{"job_id":1,"dead":true}"#,
            r#"{"job_id":1,"error":"no","dead":true,"snooze_s":1}"#,
            r#"{"job_id":1,"move_to":"large"}"#,
            r#"{"job_id":1,"error":"no","move_to":"large","dead":true}"#,
            r#"{"job_id":1,"error":"no","output_text":"x"}"#,
            r#"{"job_id":1,"error":"no","retry_in_s":-1}"#,
            r#"{"job_id":1,"output_hex":"0xF"}"#,
            r#"{"job_id":1,"output_hex":"FF"}"#,
            r#"{"job_id":1,"output_text":"x","output_hex":"0x"}"#,
            r#"{"job_id":1,"progress_text":"half"}"#,
            r#"{"job_id":1,"progress":0.5,"output_text":"x"}"#,
            r#"{"job_id":2,"log":"x"}"#,
            r#"{"log":"x"}"#,
            &long,
        ] {
            assert!(reply(line).is_err(), "{line}");
        }
    }
}
