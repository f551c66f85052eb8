//! Formats numbers, times and durations, for the web UI and the CLI.

use std::time::{Duration, SystemTime};

use jiff::{Span, SpanRelativeTo, Timestamp};
use readpast::admin::Keep;
use serde::Serialize;
use serde_json::Value;

/// A time in UTC to the second, as [`read_time`] reads it.
pub fn utc(time: SystemTime) -> String {
    Timestamp::try_from(time).map_or_else(|_| "?".to_owned(), |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Reads a time in UTC: `2026-11-23` or `2026-11-23T10:20`, optionally with seconds and Z.
pub fn read_time(text: &str) -> Result<SystemTime, String> {
    let text = text.trim().trim_end_matches(['Z', 'z']);
    let civil = text.parse::<jiff::civil::DateTime>();
    let time = civil.and_then(|civil| civil.to_zoned(jiff::tz::TimeZone::UTC));
    time.map(|time| time.timestamp().into()).map_err(|_| "write it as 2026-11-23T10:20 (UTC)".to_owned())
}

/// Reads a duration: `90s`, `5m`, `7d`, `1h 30m`.
pub fn read_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write it as 90s, 5m, 1h 30m or 7d".to_owned();
    let span: Span = text.trim().parse().map_err(|_| wrong())?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    Duration::try_from(duration).map_err(|_| wrong()) // it is negative
}

/// A duration in its two largest units: `3d 4h`, `5m 3s`, `1.2s`, `35ms`.
pub fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A duration as it was set, to the millisecond: `90d`, `1h 30m`.
pub fn exact(duration: Duration) -> String {
    let (seconds, ms) = (duration.as_secs(), u64::from(duration.subsec_millis()));
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (ms, "ms"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// The serialized name of a value: `at_least_once`.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(value) => value.to_string(),
        Err(_) => "?".to_owned(), // it cannot be: words are no maps with strange keys
    }
}

/// A number with separators: `1,234,567`.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 job`, `2,000 jobs`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", number(count), if count == 1 { "" } else { "s" })
}

/// A rate per second.
pub fn rate(per_s: f64) -> String {
    if per_s < 10.0 { format!("{per_s:.1}") } else { number(per_s.round() as u64) }
}

/// A rate per second, or a dash.
pub fn rate_or_dash(per_s: Option<f64>) -> String {
    per_s.map_or_else(|| "–".to_owned(), rate)
}

pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

pub fn keep(keep: Keep) -> String {
    match keep {
        Keep::For(duration) => exact(duration),
        _ => "forever".to_owned(),
    }
}

pub fn first_line(text: &str, max: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= max && line.len() == text.len() {
        return line.to_owned();
    }
    let kept: String = line.chars().take(max.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Replaces Unicode's directional formatting (UAX #9) in a sentence that contains a foreign name, which could reverse
/// the sentence's own words.
pub fn in_one_direction(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.replace(turns, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read_in_utc() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_219_445_007);
        assert_eq!(utc(time), "2026-11-21T00:04:05Z");
        for text in ["2026-11-21T00:04:05Z", "2026-11-21 00:04:05", "2026-11-21T00:04", "2026-11-21"] {
            assert!(read_time(text).unwrap() <= time, "{text}");
        }
        for text in ["", "yesterday", "2026-13-01", "2026-11-21T25:00"] {
            assert!(read_time(text).unwrap_err().contains("UTC"), "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_they_are_written() {
        for text in ["90d", "1h 30m", "1s 5ms", "0s", "500ms", "5m"] {
            assert_eq!(exact(read_duration(text).unwrap()), text);
        }
        assert_eq!(read_duration("1.5h"), Ok(Duration::from_secs(5_400)));
        for text in ["", "5", "-5m", "5m ago", "1mo", "soon", "99999999999999999999s"] {
            assert_eq!(read_duration(text).unwrap_err(), "write it as 90s, 5m, 1h 30m or 7d", "{text}");
        }
    }

    #[test]
    fn numbers_and_sizes_are_short() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1, 2_000].map(|jobs| counted(jobs, "job")), ["0 jobs", "1 job", "2,000 jobs"]);
        assert_eq!(word(&readpast::admin::Delivery::AtLeastOnce), "at_least_once");
        assert_eq!([5, 2_048, 3_145_728, 5 << 29].map(bytes), ["5 B", "2.0 KiB", "3.0 MiB", "2.5 GiB"]);
        assert_eq!([None, Some(1.25), Some(1_234.4)].map(rate_or_dash), ["–", "1.2", "1,234"]);
        let ages = [35, 1_250, 59_000, 61_000, 7_384_000, 200_000_000].map(|ms| age(Duration::from_millis(ms)));
        assert_eq!(ages, ["35ms", "1.2s", "59s", "1m 1s", "2h 3m", "2d 7h"]);
        assert_eq!([first_line("one\ntwo", 10), first_line("abcdef", 4)], ["one…", "abc…"]);
    }
}
