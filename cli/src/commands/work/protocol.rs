//! The protocol of programs that stay: one line of JSON per job.

use std::borrow::Cow;
use std::time::Duration;

use readpast::crates::serde_json::{self, Map, Value};
use readpast::crates::uuid::Uuid;
use readpast::{BatchId, BoxError, Context, Fence, Job, JobError, JobId, Output};
use readpast_web::telling_line::exception_line;
use serde::{Deserialize, Serialize};

use super::parents::{self, ParentEnd};
use super::talk::shown;
use crate::json_object;
use readpast_web::hex;

/// The version of the protocol (docs/work.md). Fields may be added to it.
pub const VERSION: u32 = 1;

/// A job, with the names of `readpast job --json`. All fields are present, if need be null.
#[derive(Serialize)]
struct Request<'a> {
    job_id: JobId,
    attempt: u32,
    max_attempts: u32,
    fence: Fence,
    kind: Option<&'a str>,
    correlation_id: Option<Uuid>,
    group_key: Option<&'a str>,
    batch_id: Option<BatchId>,
    headers: Option<Map<String, Value>>,
    /// The ends of the jobs that it has waited for.
    parents: Option<Vec<ParentEnd>>,
    /// The remaining time limit.
    time_limit_s: Option<f64>,
    payload_text: Option<Cow<'a, str>>,
    payload_hex: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    job_id: JobId,
    error: Option<String>,
    #[serde(default)]
    dead: bool,
    retry_in_s: Option<f64>,
    snooze_s: Option<f64>,
    move_to: Option<String>,
    output_text: Option<String>,
    output_hex: Option<String>,
}

/// The fields of a reply, each with what it must be.
const FIELDS: [(&str, &str); 8] = [
    ("job_id", "the number of the job"),
    ("error", "a text"),
    ("dead", "true or false"),
    ("retry_in_s", "a number of seconds"),
    ("snooze_s", "a number of seconds"),
    ("move_to", "the name of a queue"),
    ("output_text", "a text"),
    ("output_hex", "a text"),
];

/// The line of a job, with its newline.
///
/// # Errors
///
/// For invalid text: the job becomes dead. Those of [`parents::of`].
pub fn request(job: &Job, context: &Context) -> Result<Vec<u8>, BoxError> {
    let payload_text = match job.text() {
        Ok(text) => Some(text),
        Err(error) if job.payload_utf16() => return Err(error.into()),
        Err(_) => None,
    };
    let headers: Map<_, _> = job.headers().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let mut line = serde_json::to_vec(&Request {
        job_id: job.id(),
        attempt: job.attempt(),
        max_attempts: job.max_attempts(),
        fence: job.fence(),
        kind: job.kind(),
        correlation_id: job.correlation_id(),
        group_key: job.group_key(),
        batch_id: job.batch_id(),
        headers: (!headers.is_empty()).then_some(headers),
        parents: parents::of(job, context)?,
        time_limit_s: context.time_left().map(|left| left.as_secs_f64()),
        payload_hex: payload_text.is_none().then(|| hex::digits(job.payload())),
        payload_text,
    })?;
    line.push(b'\n');
    Ok(line)
}

/// The outcome of a reply.
///
/// # Errors
///
/// The outer error is a fault of the reply.
pub fn read_answer(line: &[u8], job: &Job, max_output: usize) -> Result<Result<Output, JobError>, String> {
    outcome(line, job, max_output).map_err(|wrong| {
        let line = shown(line);
        format!(
            "invalid reply of the program: {wrong}: {line}\nStandard output is only for replies, one line each; print \
             everything else to standard error"
        )
    })
}

fn outcome(line: &[u8], job: &Job, max_output: usize) -> Result<Result<Output, JobError>, String> {
    let answer: Answer = json_object::read(line, &FIELDS)?;
    if answer.job_id != job.id() {
        return Err(format!("it is for job {}, but job {} is running", answer.job_id, job.id()));
    }
    let output = match (answer.output_text, answer.output_hex) {
        (None, None) => None,
        (Some(text), None) => Some(text.into_bytes()),
        (None, Some(digits)) => {
            let bytes = digits.strip_prefix("0x").and_then(hex::bytes);
            Some(bytes.ok_or("its output_hex must be 0x followed by pairs of hexadecimal digits")?)
        }
        (Some(_), Some(_)) => return Err("it has both output_text and output_hex".to_owned()),
    };
    let seconds = |name: &str, seconds: f64| {
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| format!("its {name} is {seconds}; it must be 0 or more seconds"))
    };
    let Some(error) = answer.error.map(told) else {
        if answer.dead || answer.retry_in_s.is_some() || answer.snooze_s.is_some() || answer.move_to.is_some() {
            return Err("it has dead, retry_in_s, snooze_s or move_to, but no error".to_owned());
        }
        let output = output.unwrap_or_default();
        if output.len() > max_output {
            return Ok(Err(JobError::dead(format!("its output is larger than {max_output} bytes"))));
        }
        return Ok(Ok(if output.is_empty() { Output::default() } else { Output::bytes(output) }));
    };
    if output.is_some() {
        return Err("it has both an error and an output".to_owned());
    }
    Ok(Err(match (answer.dead, answer.retry_in_s, answer.snooze_s, answer.move_to) {
        (false, None, None, None) => JobError::retry(error),
        (true, None, None, None) => JobError::dead(error),
        (false, Some(delay), None, None) => JobError::retry_in(seconds("retry_in_s", delay)?, error),
        (false, None, Some(delay), None) => JobError::snooze(seconds("snooze_s", delay)?, error),
        (false, None, None, Some(queue)) => JobError::move_to(queue, error),
        _ => return Err("it has more than one of dead, retry_in_s, snooze_s and move_to".to_owned()),
    }))
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

    #[test]
    fn a_job_is_one_line() {
        let line = |new: NewJob| {
            let job = Job::for_test(new);
            let line = request(&job, &Context::for_test(Job::for_test(NewJob::text("")))).unwrap();
            String::from_utf8(line).unwrap()
        };
        assert_eq!(
            line(NewJob::text("a\nb").kind("resize").header("tenant", "acme")),
            concat!(
                r#"{"job_id":1,"attempt":1,"max_attempts":5,"fence":1,"kind":"resize","correlation_id":null,"#,
                r#""group_key":null,"batch_id":null,"headers":{"tenant":"acme"},"parents":null,"time_limit_s":null,"#,
                r#""payload_text":"a\nb","payload_hex":null}"#,
                "\n"
            )
        );
        assert!(line(NewJob::bytes([0xFF, 0x0A])).contains(r#""payload_text":null,"payload_hex":"0xFF0A""#));
    }

    #[test]
    fn answers_say_what_becomes_of_the_job() {
        let read = |line: &str| read_answer(line.as_bytes(), &job(), 10).unwrap().map_err(|error| format!("{error:?}"));
        assert_eq!(read(r#"{"job_id":1}"#), Ok(Output::default()));
        assert_eq!(read(r#"{"job_id":1,"output_text":"é"}"#), Ok(Output::bytes("é")));
        assert_eq!(read(r#"{"job_id":1,"output_hex":"0x0aFF"}"#), Ok(Output::bytes([10, 255])));
        for (line, verdict) in [
            (r#"{"job_id":1,"error":"no"}"#, "Retry,"),
            (r#"{"job_id":1,"error":"no","dead":true}"#, "Dead,"),
            (r#"{"job_id":1,"error":"no","retry_in_s":1.5}"#, "RetryIn(1.5s)"),
            (r#"{"job_id":1,"error":"no","snooze_s":60}"#, "Snooze(60s)"),
            (r#"{"job_id":1,"error":"no","move_to":"large"}"#, r#"MoveTo("large")"#),
            (r#"{"job_id":1,"output_text":"01234567890"}"#, "Dead,"),
        ] {
            assert!(read(line).unwrap_err().contains(verdict), "{line}");
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
    fn wrong_answers_are_told_from_failed_jobs() {
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
        ] {
            assert!(read_answer(line.as_bytes(), &job(), 10).is_err(), "{line}");
        }
    }
}
