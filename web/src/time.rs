//! Times as words, kept true by the script, with the exact time on hover.

use std::fmt;
use std::time::{Duration, SystemTime};

use askama::filters::HtmlSafe;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use jiff::Timestamp;

use crate::attention::now;

/// The query that asks for exact times.
const EXACT: &str = "times=exact";

/// An older or later time is shown as a date.
const WEEK: Duration = Duration::from_secs(7 * 86_400);

tokio::task_local! {
    static ASKED: Asked;
}

/// How a request asks for times.
#[derive(Debug, Clone)]
struct Asked {
    exact: bool,
    /// The same page with the other form of times; empty if there is none.
    other: String,
}

/// A time: `20 s ago`, or in UTC if the request asks for exact times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub SystemTime);

/// It writes digits, signs and its own words only.
impl HtmlSafe for Time {}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SQL Server's years end at 9999, too.
        let Ok(time) = Timestamp::try_from(self.0) else { return f.write_str("?") };
        let datetime = time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
        let exact = format!("{} UTC", time.strftime("%Y-%m-%d %H:%M:%S"));
        let text = match is_exact() {
            true => exact.clone(),
            false => relative(self.0, now()).unwrap_or_else(|| exact.clone()),
        };
        write!(f, r#"<time datetime="{datetime}" title="{exact}">{text}</time>"#)
    }
}

/// A time in words; `None` if it is more than a week away.
fn relative(time: SystemTime, now: SystemTime) -> Option<String> {
    let (distance, is_past) = match now.duration_since(time) {
        Ok(distance) => (distance, true),
        Err(ahead) => (ahead.duration(), false),
    };
    if distance >= WEEK {
        return None;
    }
    if distance < Duration::from_secs(5) {
        return Some(if is_past { "just now" } else { "now" }.to_owned());
    }
    let words = rounded(distance);
    Some(if is_past { format!("{words} ago") } else { format!("in {words}") })
}

/// A duration in its two largest units: `3 d 4 h`, `5 min 3 s`, `1.2 s`, `35 ms`.
pub fn length(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A duration in its largest unit: `20 s`, `3 min`, `5 h`, `2 days`.
pub fn rounded(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Whether the request asks for exact times.
pub fn is_exact() -> bool {
    ASKED.try_with(|asked| asked.exact).unwrap_or(false)
}

/// The other form of times, and the address of the page in that form.
pub fn other_form() -> Option<(&'static str, String)> {
    let name = |asked: &Asked| if asked.exact { "Relative times" } else { "Exact times" };
    let form = ASKED.try_with(|asked| (name(asked), asked.other.clone())).ok();
    form.filter(|(_, address)| !address.is_empty())
}

/// Reads from the address which times the page shows.
pub async fn ask(request: Request, next: Next) -> Response {
    let uri = request.uri();
    let page = uri.path().rsplit('/').next().unwrap_or_default();
    let fields: Vec<&str> = uri.query().unwrap_or_default().split('&').filter(|field| !field.is_empty()).collect();
    let exact = fields.contains(&EXACT);
    let mut others: Vec<&str> = fields.into_iter().filter(|field| *field != EXACT).collect();
    if !exact {
        others.push(EXACT);
    }
    // Pages have such names. Any other name is not found, and must not become a link.
    let is_page = !page.is_empty() && page.bytes().all(|letter| letter.is_ascii_lowercase());
    let other = match others.join("&") {
        _ if !is_page => String::new(),
        query if query.is_empty() => page.to_owned(),
        query => format!("{page}?{query}"),
    };
    ASKED.scope(Asked { exact, other }, next.run(request)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_words_within_a_week() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_219_445);
        let ago = |seconds| relative(now - Duration::from_secs(seconds), now);
        for (seconds, words) in [
            (0, "just now"),
            (4, "just now"),
            (20, "20 s ago"),
            (70 * 60, "1 h ago"),
            (119, "1 min ago"),
            (5 * 3_600, "5 h ago"),
            (172_800, "2 days ago"),
        ] {
            assert_eq!(ago(seconds).as_deref(), Some(words), "{seconds}");
        }
        assert_eq!(ago(7 * 86_400), None);
        assert_eq!(relative(now + Duration::from_secs(180), now).as_deref(), Some("in 3 min"));
    }

    #[test]
    fn lengths_have_two_units() {
        let lengths = [35, 1_250, 59_000, 61_000, 7_384_000, 200_000_000].map(|ms| length(Duration::from_millis(ms)));
        assert_eq!(lengths, ["35 ms", "1.2 s", "59 s", "1 min 1 s", "2 h 3 min", "2 d 7 h"]);
    }

    #[test]
    fn a_time_has_the_exact_one_in_its_title() {
        let time = Time(SystemTime::UNIX_EPOCH + Duration::from_millis(1_195_219_445_007));
        let text = time.to_string();
        assert!(text.contains(r#"datetime="2007-11-16T13:24:05.007Z" title="2007-11-16 13:24:05 UTC">"#), "{text}");
        assert!(text.contains(">2007-11-16 13:24:05 UTC</time>"), "{text}");
        let exact = Asked { exact: true, other: String::new() };
        let recent = Time(now());
        assert!(recent.to_string().contains(">just now</time>"));
        assert!(ASKED.sync_scope(exact, || recent.to_string()).contains(" UTC</time>"));
    }
}
