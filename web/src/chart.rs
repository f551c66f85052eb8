//! Charts as SVG, and the data of their tables.
//!
//! history rows ─▶ [`steps`]: equal parts of the span ─▶ [`bars`] and [`lines`]. A part without rows is a gap: no
//! worker ran.
//!
//! A picture is a unit wide for each part and [`HEIGHT`] high, and is stretched to the available space. The numbers and
//! times beside it are HTML, so that they keep their size.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use readpast::admin::{DurationHistogram, HistoryRow};

use crate::texts::{self, number};

pub const HEIGHT: f64 = 100.0;

/// The width of a bar. The rest of its part is a gap.
const BAR: &str = ".84";

/// Dead jobs are visible however few they are: two pixels of a small chart.
const LEAST_DEAD: f64 = 8.0;

/// How many times the axis names.
const TIMES: usize = 7;

/// The time that a chart covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    Hour,
    Day,
    Week,
}

impl Span {
    pub const ALL: [Span; 3] = [Span::Hour, Span::Day, Span::Week];

    pub fn word(self) -> &'static str {
        match self {
            Span::Hour => "hour",
            Span::Day => "day",
            Span::Week => "week",
        }
    }

    pub fn length(self) -> Duration {
        Duration::from_secs(match self {
            Span::Hour => 3_600,
            Span::Day => 86_400,
            Span::Week => 7 * 86_400,
        })
    }

    /// Length of a part: whole rows of the history.
    pub fn step(self) -> Duration {
        Duration::from_secs(match self {
            Span::Hour => 60,
            Span::Day => 20 * 60,
            Span::Week => 3 * 3_600,
        })
    }
}

#[derive(Debug, Clone)]
pub struct Step {
    pub at: SystemTime,
    /// The totals; `None` if no worker ran.
    pub sum: Option<Sum>,
}

/// Totals of a part, and its greatest depth.
#[derive(Debug, Clone, Default)]
pub struct Sum {
    pub length: Duration,
    pub done: u64,
    pub failed: u64,
    pub died: u64,
    /// Enqueued jobs, estimated from the depth and the jobs that ended; `None` where that is not known.
    pub enqueued: Option<u64>,
    /// Unfinished jobs.
    pub depth: u64,
    pub dead: u64,
    pub wait: DurationHistogram,
    pub run: DurationHistogram,
}

/// Sums up rows by parts of the span that ends with the last row. Returns nothing if there are no rows.
pub fn steps(rows: &[HistoryRow], span: Span) -> Vec<Step> {
    rows.last().map_or_else(Vec::new, |last| parts(rows, last.at, span.length(), span.step()))
}

/// Sums up rows into equal parts of the `length` that ends with `last`.
pub fn parts(rows: &[HistoryRow], last: SystemTime, length: Duration, step: Duration) -> Vec<Step> {
    let number = |at: SystemTime| {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        since.as_secs() / step.as_secs()
    };
    let count = length.as_secs() / step.as_secs();
    let first = (number(last) + 1).saturating_sub(count);
    let part = |index| Step { at: SystemTime::UNIX_EPOCH + step * (first + index) as u32, sum: None };
    let mut steps: Vec<Step> = (0..count).map(part).collect();
    for row in rows {
        let index = number(row.at).checked_sub(first).and_then(|index| steps.get_mut(index as usize));
        let Some(step) = index else { continue };
        let sum = step.sum.get_or_insert_default();
        sum.length += row.length;
        sum.done += row.done;
        sum.failed += row.failed;
        sum.died += row.died;
        sum.depth = sum.depth.max(row.ready + row.scheduled + row.waiting + row.claimed);
        sum.dead = sum.dead.max(row.dead);
        sum.wait += &row.wait;
        sum.run += &row.run;
    }
    steps
}

/// The values of a line or of bars, one per part.
pub struct Series {
    /// The class of its colour.
    pub class: &'static str,
    /// Its name in the description of the picture.
    pub name: &'static str,
    pub value: fn(&Sum) -> Option<f64>,
}

/// A function that formats a value of the axis.
pub type Label = fn(f64) -> String;

/// Draws bars on each other.
pub fn bars(steps: &[Step], span: Span, series: &[Series], label: Label) -> String {
    let total = |sum: &Sum| series.iter().filter_map(|series| (series.value)(sum)).sum::<f64>();
    let highest = round_up(steps.iter().filter_map(|step| step.sum.as_ref()).map(total).fold(0.0, f64::max));
    let svg = stacked(steps, series, highest, 0.0);
    plot(steps, span, highest, label, &describe(steps, series, label), &svg)
}

/// A small chart of the jobs that ended, for a table cell.
#[derive(Debug)]
pub struct Spark {
    /// The number of parts.
    pub count: usize,
    pub bars: String,
    pub words: String,
}

/// Draws the jobs that ended within `length`, without the last, incomplete part. Returns `None` if there are none.
pub fn spark(rows: &[HistoryRow], length: Duration, part: Duration) -> Option<Spark> {
    let mut steps = parts(rows, rows.last()?.at, length, part);
    steps.pop();
    let sum = |of: fn(&Sum) -> u64| steps.iter().filter_map(|step| step.sum.as_ref()).map(of).sum::<u64>();
    let (done, failed, died) = (sum(|sum| sum.done), sum(|sum| sum.failed), sum(|sum| sum.died));
    if done + failed == 0 {
        return None;
    }
    let total = |sum: &Sum| (sum.done + sum.failed) as f64;
    let highest = steps.iter().filter_map(|step| step.sum.as_ref()).map(total).fold(0.0, f64::max);
    let bars = stacked(&steps, &ended(), highest, LEAST_DEAD);
    let (count, done, failed, died) = (steps.len(), number(done), number(failed), number(died));
    Some(Spark { count, bars, words: format!("Last 3 hours: {done} done, {failed} failed, {died} died") })
}

/// The jobs that ended, by how they ended.
pub fn ended() -> [Series; 3] {
    [
        Series { class: "ok", name: "done", value: |sum| Some(sum.done as f64) },
        Series { class: "retry", name: "failed", value: |sum| Some(sum.failed.saturating_sub(sum.died) as f64) },
        Series { class: "dead", name: "dead", value: |sum| Some(sum.died as f64) },
    ]
}

/// The depth: unfinished and dead jobs.
pub fn depth() -> [Series; 2] {
    [
        Series { class: "dead", name: "dead", value: |sum| Some(sum.dead as f64) },
        Series { class: "ready", name: "unfinished", value: |sum| Some(sum.depth as f64) },
    ]
}

/// One path for each series.
fn stacked(steps: &[Step], series: &[Series], highest: f64, least_dead: f64) -> String {
    let mut svg = String::new();
    for (place, one) in series.iter().enumerate() {
        let mut path = String::new();
        for (index, sum) in steps.iter().enumerate().filter_map(|(index, step)| Some((index, step.sum.as_ref()?))) {
            let Some(value) = (one.value)(sum).filter(|value| *value > 0.0) else { continue };
            let below: f64 = series[..place].iter().filter_map(|below| (below.value)(sum)).sum();
            let scale = HEIGHT / highest.max(f64::MIN_POSITIVE);
            let least = if one.class == "dead" { least_dead } else { 0.0 };
            let height = (value * scale).max(least);
            let top = (HEIGHT - below * scale - height).max(0.0);
            let _ = write!(path, "M{index} {top:.0}h{BAR}v{height:.0}h-{BAR}z");
        }
        if !path.is_empty() {
            let _ = write!(svg, r#"<path class="{}" d="{path}"/>"#, one.class);
        }
    }
    svg
}

/// Draws lines, with gaps where no worker ran. The area below the last one is tinted.
pub fn lines(steps: &[Step], span: Span, series: &[Series], label: Label) -> String {
    let values = |sum: &Sum| series.iter().filter_map(|series| (series.value)(sum)).fold(0.0, f64::max);
    let highest = round_up(steps.iter().filter_map(|step| step.sum.as_ref()).map(values).fold(0.0, f64::max));
    let mut svg = String::new();
    for (place, one) in series.iter().enumerate() {
        let values: Vec<Option<f64>> = steps.iter().map(|step| (one.value)(step.sum.as_ref()?)).collect();
        let mut index = 0;
        for part in values.split(Option::is_none) {
            let y = |value: f64| HEIGHT - value / highest * HEIGHT;
            let mut points: Vec<(f64, f64)> =
                part.iter().flatten().enumerate().map(|(at, value)| ((index + at) as f64 + 0.5, y(*value))).collect();
            if let [(x, y)] = points[..] {
                // A line of one point would be invisible.
                points = vec![(x - 0.4, y), (x + 0.4, y)];
            }
            if let ([first, ..], [.., last]) = (&points[..], &points[..]) {
                let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                let line = line.join(" ");
                let is_last = place + 1 == series.len();
                if is_last {
                    let (first, last) = (first.0, last.0);
                    let _ = write!(
                        svg,
                        r#"<polygon class="{} area" points="{first:.1},{HEIGHT} {line} {last:.1},{HEIGHT}"/>"#,
                        one.class
                    );
                }
                let dashed = if is_last { "" } else { " most" };
                let _ = write!(svg, r#"<polyline class="{}{dashed}" points="{line}"/>"#, one.class);
            }
            index += part.len() + 1;
        }
    }
    plot(steps, span, highest, label, &describe(steps, series, label), &svg)
}

/// What a picture shows, in words: the highest and the latest value of each series.
fn describe(steps: &[Step], series: &[Series], label: Label) -> String {
    let mut words = Vec::new();
    for one in series {
        let values: Vec<f64> = steps.iter().filter_map(|step| (one.value)(step.sum.as_ref()?)).collect();
        let highest = values.iter().copied().fold(0.0, f64::max);
        let latest = values.last().copied().unwrap_or_default();
        words.push(format!("{}: at most {}, latest {}", one.name, label(highest), label(latest)));
    }
    words.join("; ")
}

/// A picture with its axes.
fn plot(steps: &[Step], span: Span, highest: f64, label: Label, words: &str, svg: &str) -> String {
    let mut plot = String::from(r#"<div class="plot"><ol class="y" aria-hidden="true">"#);
    for share in [1.0, 0.5, 0.0] {
        let _ = write!(plot, "<li>{}</li>", label(highest * share));
    }
    let count = steps.len();
    let _ = write!(
        plot,
        r#"</ol><svg viewBox="0 0 {count} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{words}">{svg}</svg><ol class="x" aria-hidden="true">"#
    );
    let first = steps.first().map_or(SystemTime::UNIX_EPOCH, |step| step.at);
    for place in 0..TIMES {
        let at = first + span.length() * place as u32 / (TIMES as u32 - 1);
        let time = texts::utc(at);
        let short = if span == Span::Week { &time[5..10] } else { &time[11..16] };
        let _ = write!(plot, r#"<li data-time="{time}" data-span="{}">{short}</li>"#, span.word());
    }
    plot.push_str("</ol></div>");
    plot
}

/// Rounds up to the next of 1, 2, 5, 10, 20, 50, …
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|round| *round >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(done: u64) -> Option<Sum> {
        Some(Sum { done, ..Sum::default() })
    }

    fn at(minute: u64, sum: Option<Sum>) -> Step {
        Step { at: SystemTime::UNIX_EPOCH + Duration::from_secs(60 * minute), sum }
    }

    fn done() -> Series {
        Series { class: "ok", name: "done", value: |sum| Some(sum.done as f64) }
    }

    #[test]
    fn scales_end_with_round_numbers() {
        assert_eq!([0.0, 0.3, 1.0, 1.1, 37.0, 600.0].map(round_up), [1.0, 0.5, 1.0, 2.0, 50.0, 1_000.0]);
    }

    #[test]
    fn lines_have_gaps_where_nobody_worked() {
        let steps = [at(0, sum(1)), at(1, sum(2)), at(2, None), at(3, sum(3)), at(4, sum(4))];
        let svg = lines(&steps, Span::Hour, &[done()], |value| value.to_string());
        assert_eq!(svg.matches("<polyline").count(), 2, "{svg}");
        assert!(svg.contains(r#"aria-label="done: at most 4, latest 4""#), "{svg}");
        assert!(svg.contains("<li>5</li><li>2.5</li><li>0</li>"), "{svg}");
    }

    #[test]
    fn bars_stand_on_each_other() {
        let svg = bars(&[at(0, sum(10))], Span::Hour, &[done(), done()], |value| value.to_string());
        assert!(svg.contains(r#"d="M0 50h.84v50h-.84z"/><path class="ok" d="M0 0h.84v50h-.84z""#), "{svg}");
    }

    #[test]
    fn a_few_dead_jobs_among_many_are_visible() {
        let ended = Sum { done: 100_000, failed: 1, died: 1, ..Sum::default() };
        let svg = stacked(&[at(0, Some(ended))], &super::ended(), 100_001.0, LEAST_DEAD);
        assert!(svg.contains(r#"<path class="dead" d="M0 0h.84v8h-.84z"/>"#), "{svg}");
        assert!(!svg.contains("retry"), "{svg}");
    }
}
