//! Charts as SVG, and the data of their tables.
//!
//! history rows ─▶ [`steps`]: equal parts of the span ─▶ [`bars`] and [`lines`]. A part without rows is a gap: no
//! worker ran.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use readpast::admin::{DurationHistogram, HistoryRow};

use crate::texts;

/// Size in units of the SVG, which scales to the available width.
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 180.0;

/// Margins for the numbers at the left and the times below.
const LEFT: f64 = 52.0;
const BELOW: f64 = 20.0;
const ABOVE: f64 = 8.0;

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
    /// Unfinished jobs.
    pub depth: u64,
    pub dead: u64,
    pub wait: DurationHistogram,
    pub run: DurationHistogram,
}

/// Sums up rows by parts of the span that ends with the last row. Returns nothing if there are no rows.
pub fn steps(rows: &[HistoryRow], span: Span) -> Vec<Step> {
    parts(rows, span.length(), span.step())
}

/// Done jobs per part of `length`, for [`spark`], without the last, incomplete part.
pub fn done_by_parts(rows: &[HistoryRow], length: Duration, part: Duration) -> Vec<Option<f64>> {
    let mut parts = parts(rows, length, part);
    parts.pop();
    parts.iter().map(|part| Some(part.sum.as_ref()?.done as f64)).collect()
}

fn parts(rows: &[HistoryRow], length: Duration, step: Duration) -> Vec<Step> {
    let Some(last) = rows.last() else { return Vec::new() };
    let number = |at: SystemTime| {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        since.as_secs() / step.as_secs()
    };
    let count = length.as_secs() / step.as_secs();
    let first = (number(last.at) + 1).saturating_sub(count);
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

/// The values of a line, one per part, and the CSS class of its colour.
pub struct Series {
    pub class: &'static str,
    pub value: fn(&Sum) -> Option<f64>,
}

/// A function that formats a value of the axis.
pub type Label = fn(f64) -> String;

pub fn bars(steps: &[Step], span: Span, series: &[Series], label: Label) -> String {
    let total = |sum: &Sum| series.iter().filter_map(|series| (series.value)(sum)).sum::<f64>();
    let highest = steps.iter().filter_map(|step| step.sum.as_ref()).map(total).fold(0.0, f64::max);
    let mut chart = Chart::new(steps, span, highest, label);
    let width = chart.step_width();
    for (index, sum) in steps.iter().enumerate().filter_map(|(index, step)| Some((index, step.sum.as_ref()?))) {
        let mut below = 0.0;
        for series in series {
            let Some(value) = (series.value)(sum).filter(|value| *value > 0.0) else { continue };
            let (top, bottom) = (chart.y(below + value), chart.y(below));
            let (x, height, class) = (chart.x(index), bottom - top, series.class);
            let width = width * 0.86;
            let _ = write!(
                chart.svg,
                r#"<rect class="{class}" x="{x:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}"/>"#
            );
            below += value;
        }
    }
    chart.end()
}

/// Draws lines, with gaps where no worker ran.
pub fn lines(steps: &[Step], span: Span, series: &[Series], label: Label) -> String {
    let values = |sum: &Sum| series.iter().filter_map(|series| (series.value)(sum)).fold(0.0, f64::max);
    let highest = steps.iter().filter_map(|step| step.sum.as_ref()).map(values).fold(0.0, f64::max);
    let mut chart = Chart::new(steps, span, highest, label);
    let half = chart.step_width() / 2.0;
    for series in series {
        let values: Vec<Option<f64>> = steps.iter().map(|step| (series.value)(step.sum.as_ref()?)).collect();
        let mut index = 0;
        for part in values.split(Option::is_none) {
            let mut points = String::new();
            for (offset, value) in part.iter().flatten().enumerate() {
                let _ = write!(points, "{:.1},{:.1} ", chart.x(index + offset) + half, chart.y(*value));
            }
            match part.len() {
                0 => {}
                // A line of one point would be invisible.
                1 => {
                    let (x, y) = (chart.x(index) + half, chart.y(part[0].unwrap_or_default()));
                    let _ = write!(chart.svg, r#"<circle class="{}" cx="{x:.1}" cy="{y:.1}" r="2.5"/>"#, series.class);
                }
                _ => {
                    let _ = write!(chart.svg, r#"<polyline class="{}" points="{}"/>"#, series.class, points.trim_end());
                }
            }
            index += part.len() + 1;
        }
    }
    chart.end()
}

/// Draws a line without axes for a table cell. Returns `None` if there are too few values.
pub fn spark(values: &[Option<f64>]) -> Option<String> {
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    if values.iter().flatten().count() < 2 || highest <= 0.0 {
        return None;
    }
    let mut svg =
        String::from(r#"<svg class="spark" viewBox="0 0 120 24" preserveAspectRatio="none" aria-hidden="true">"#);
    let width = 120.0 / values.len() as f64;
    let mut index = 0;
    for part in values.split(Option::is_none) {
        let point = |(offset, value): (usize, &f64)| {
            format!("{:.1},{:.1}", (index + offset) as f64 * width, 23.0 - value / highest * 22.0)
        };
        let points: Vec<String> = part.iter().flatten().enumerate().map(point).collect();
        if points.len() > 1 {
            let _ = write!(svg, r#"<polyline class="s-done" points="{}"/>"#, points.join(" "));
        }
        index += part.len() + 1;
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// The frame of a chart, and what is drawn in it.
struct Chart {
    svg: String,
    count: usize,
    highest: f64,
}

impl Chart {
    fn new(steps: &[Step], span: Span, highest: f64, label: Label) -> Chart {
        let highest = if highest > 0.0 { round_up(highest) } else { 1.0 };
        let svg = format!(r#"<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">"#);
        let mut chart = Chart { svg, count: steps.len(), highest };
        for share in [0.0, 0.5, 1.0] {
            let (value, y) = (highest * share, chart.y(highest * share));
            let _ = write!(
                chart.svg,
                r#"<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1}" y2="{y:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                LEFT - 6.0,
                y + 4.0,
                label(value)
            );
        }
        for index in (0..steps.len()).step_by((steps.len() / 6).max(1)) {
            let (time, x) = (texts::utc(steps[index].at), chart.x(index));
            let short = if span == Span::Week { &time[5..10] } else { &time[11..16] };
            let _ = write!(
                chart.svg,
                r#"<text x="{x:.1}" y="{:.1}" data-time="{time}" data-span="{}">{short}</text>"#,
                HEIGHT - 4.0,
                span.word()
            );
        }
        chart
    }

    fn step_width(&self) -> f64 {
        (WIDTH - LEFT) / self.count.max(1) as f64
    }

    fn x(&self, index: usize) -> f64 {
        LEFT + self.step_width() * index as f64
    }

    fn y(&self, value: f64) -> f64 {
        ABOVE + (HEIGHT - BELOW - ABOVE) * (1.0 - value / self.highest)
    }

    fn end(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// Rounds up to the next of 1, 2, 5, 10, 20, 50, …
fn round_up(value: f64) -> f64 {
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

    #[test]
    fn scales_end_with_round_numbers() {
        assert_eq!([0.3, 1.0, 1.1, 37.0, 600.0].map(round_up), [0.5, 1.0, 2.0, 50.0, 1_000.0]);
    }

    #[test]
    fn lines_have_gaps_where_nobody_worked() {
        let steps = [at(0, sum(1)), at(1, sum(2)), at(2, None), at(3, sum(3)), at(4, sum(4))];
        let done = Series { class: "s-done", value: |sum| Some(sum.done as f64) };
        let svg = lines(&steps, Span::Hour, &[done], |value| value.to_string());
        assert_eq!(svg.matches("<polyline").count(), 2, "{svg}");
        assert_eq!(spark(&[Some(1.0), Some(2.0), None, Some(3.0), Some(1.0)]).unwrap().matches("<polyline").count(), 2);
        assert_eq!(spark(&[Some(0.0), Some(0.0)]), None);
    }

    #[test]
    fn bars_stand_on_each_other() {
        let done = || Series { class: "s-done", value: |sum| Some(sum.done as f64) };
        let svg = bars(&[at(0, sum(10))], Span::Hour, &[done(), done()], |value| value.to_string());
        assert!(svg.contains(r#"y="84.0" width="402.5" height="76.0""#) && svg.contains(r#"y="8.0""#), "{svg}");
    }
}
