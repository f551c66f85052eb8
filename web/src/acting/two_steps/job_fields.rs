//! The fields that new jobs and the jobs of schedules have in common.

use std::time::Duration;

use readpast::crates::serde_json::{self, Map, Value};
use readpast::{NewJob, Queue};
use serde::de::IgnoredAny;

use super::form::{Field, Input};
use super::typed::{Typed, verbatim, whole};
use crate::failure::Failure;
use crate::texts::{self, number};

/// The longest payload that can be typed or sent as a file.
pub const MAX_PAYLOAD: usize = 64 * 1024;

/// Why a hidden payload is not copied.
pub const STAYS: &str = "a payload that is hidden can be copied only within its queue and for its kind";

/// Headers that only the library sets.
const RESERVED: &str = "readpast-";

/// Kinds are suggested, and known to the warning, if they had jobs within this time.
pub const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// The names of [`what`] and [`more`].
pub const NAMES: [&str; 9] =
    ["kind", "payload", "copy", "group", "priority", "start_within", "attempts", "time_limit", "headers"];

/// The labels of those that the second step repeats.
pub const LABELS: [(&str, &str); 7] = [
    ("kind", "Kind"),
    ("group", "Group"),
    ("priority", "Priority"),
    ("start_within", "Start within"),
    ("attempts", "Attempts"),
    ("time_limit", "Time limit"),
    ("headers", "Headers"),
];

/// Kind and payload. `copied` is the value and the label of the box that copies a payload.
pub async fn what(queue: Option<&Queue>, copied: Option<(String, String)>) -> Result<Vec<Field>, Failure> {
    let kinds = match queue {
        Some(queue) => queue.admin().kinds(WEEK).await?.into_iter().filter_map(|row| row.kind).collect(),
        None => Vec::new(),
    };
    let mut fields = vec![Field::new("kind", "Kind", "Chooses the handler.", Input::Suggested(kinds))];
    if let Some((value, label)) = copied {
        let hint =
            "It is hidden here, is not text, or is too long for this form. Untick it to type another or choose a file.";
        fields.push(Field::new("copy", label, hint, Input::Tick(value)));
    }
    let hint = "Text, at most 64 KiB; line breaks are sent as LF.";
    fields.push(Field::new("payload", "Payload", hint, Input::Lines(10)));
    Ok(fields)
}

/// What few jobs have.
pub fn more() -> Vec<Field> {
    let line = |name, label, hint| Field::new(name, label, hint, Input::Line);
    vec![
        line("group", "Group", "Jobs of a group take turns, or share the queue if it is fair."),
        line("priority", "Priority", "-32768 to 32767; smaller runs first. Empty: 0."),
        line(
            "start_within",
            "Start within",
            "Such as 5m. A job that has not started so long after it was due expires.",
        ),
        line("attempts", "Attempts", "Then it is dead. Empty: as for the queue."),
        line("time_limit", "Time limit", "Of each attempt, such as 30s or 5m. Empty: as for the worker."),
        Field::new("headers", "Headers", "One on each line, as name: value.", Input::Lines(3)),
    ]
}

/// The payload as it was typed.
pub fn payload(typed: &mut Typed) -> String {
    let payload = typed.lines("payload");
    typed.must("payload", must_fit(payload.len()));
    if !typed.is_empty("copy") && !payload.is_empty() {
        typed.say("payload", "there are two payloads; empty this one, or untick the box above");
    }
    payload
}

/// Checks the size of a payload.
pub fn must_fit(bytes: usize) -> Result<(), String> {
    let (size, most) = (number(bytes as u64), number(MAX_PAYLOAD as u64));
    if bytes > MAX_PAYLOAD { Err(format!("it is {size} bytes; it must be at most {most}")) } else { Ok(()) }
}

/// Whether a field can hold this text unchanged.
pub fn fits(text: &str) -> bool {
    text.len() <= MAX_PAYLOAD && !text.contains(['\0', '\r'])
}

/// Sets all but the payload.
pub fn attributes(typed: &mut Typed, mut job: NewJob) -> NewJob {
    let priority = |text: &str| whole(text, "-32768 to 32767");
    job = typed.job_part("kind", job, verbatim, NewJob::kind);
    job = typed.job_part("key", job, verbatim, NewJob::dedup_key);
    job = typed.job_part("group", job, verbatim, NewJob::group_key);
    job = typed.job_part("priority", job, priority, NewJob::priority);
    job = typed.job_part("attempts", job, |text| whole(text, "1 or more"), NewJob::max_attempts);
    job = typed.job_part("time_limit", job, texts::read_duration, NewJob::time_limit);
    job = typed.job_part("start_within", job, texts::read_duration, NewJob::start_within);
    typed.job_part("headers", job, read_headers, |job, headers| {
        headers.into_iter().fold(job, |job, (name, value)| job.header(name, value))
    })
}

/// Reads headers, one on each line.
fn read_headers(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut headers = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let pair = line.split_once(':').filter(|(name, _)| !name.trim().is_empty());
        let (name, value) = pair.ok_or_else(|| format!("'{line}' has no name; write it as name: value"))?;
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    Ok(headers)
}

/// The headers as they are typed. Numbers and the like, which only T-SQL can set, are left out.
pub fn header_lines(headers: Option<&Map<String, Value>>) -> Option<String> {
    let own = headers?.iter().filter(|(name, _)| !name.starts_with(RESERVED));
    let lines: Vec<String> = own.filter_map(|(name, value)| Some(format!("{name}: {}", value.as_str()?))).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Says what is wrong with a text that looks like JSON.
pub fn broken_json(text: &str) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let error = serde_json::from_str::<IgnoredAny>(text).err()?;
    Some(format!("The payload looks like JSON, but is not: {error}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_almost_json_is_told_where() {
        for text in ["", "plain", "12,", "{}", "[1, {\"a\": null}]", " \n{\"a\": 1}"] {
            assert_eq!(broken_json(text), None, "{text}");
        }
        let said = broken_json("{\n  \"a\": 1\n  \"b\": 2\n}").unwrap();
        assert!(said.contains("line 3 column 3"), "{said}");
        assert!(broken_json("[1] x").is_some());
    }
}
