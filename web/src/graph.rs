//! The picture of jobs that wait for each other: a box for each step of the graph, a column for each depth, and a line for
//! each pair of steps with edges.

use std::fmt::Write;

use readpast::admin::{GraphStep, JobState};

use crate::links::link;
use crate::texts::{self, number};

/// Sizes in units of the SVG.
const WIDTH: usize = 168;
const HEIGHT: usize = 46;
const GAP: usize = 56;
const BETWEEN: usize = 14;

/// Characters of a kind in its box.
const KIND: usize = 20;

/// Draws the steps. Boxes of one job are links. `queue` is any queue of the graph: a job is found by its id.
pub fn svg(steps: &[GraphStep], queue: &str) -> String {
    let mut rows = vec![0; steps.last().map_or(0, |step| step.depth) + 1];
    let mut places = Vec::new();
    for step in steps {
        places.push((step.depth * (WIDTH + GAP) + 1, rows[step.depth] * (HEIGHT + BETWEEN) + 1));
        rows[step.depth] += 1;
    }
    let width = rows.len() * (WIDTH + GAP) - GAP + 2;
    let height = rows.iter().max().map_or(0, |rows| rows * (HEIGHT + BETWEEN)) - BETWEEN + 2;
    let label: Vec<String> = steps.iter().map(|step| format!("{}: {}", title(step), states(step))).collect();
    let mut svg = format!(
        r#"<svg class="graph" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="group" aria-label="{}">"#,
        escaped(&label.join("; "))
    );
    for (step, (x, y)) in steps.iter().zip(&places) {
        for (from_x, from_y) in step.after.iter().map(|parent| places[*parent]) {
            let (from_x, from_y, y) = (from_x + WIDTH, from_y + HEIGHT / 2, y + HEIGHT / 2);
            let bend = (from_x + x) / 2;
            let _ = write!(svg, r#"<path class="edge" d="M{from_x} {from_y}C{bend} {from_y} {bend} {y} {x} {y}"/>"#);
        }
    }
    for (step, (x, y)) in steps.iter().zip(&places) {
        let only = if let [job] = step.jobs[..] { Some(job.to_string()) } else { None };
        if let Some(job) = &only {
            let _ = write!(svg, r#"<a href="{}">"#, escaped(&link("job", [("queue", queue), ("id", job)])));
        }
        let _ = write!(svg, r#"<rect class="box" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="4"/>"#);
        // The states, each as wide as it has jobs.
        let (mut from, mut before) = (0, 0);
        for (state, count) in &step.states {
            before += count;
            let to = before * WIDTH / step.jobs.len();
            let class = word(*state);
            let _ = write!(
                svg,
                r#"<rect class="state {class}" x="{}" y="{}" width="{}" height="5"/>"#,
                x + from,
                y + HEIGHT - 5,
                to - from
            );
            from = to;
        }
        let _ = write!(
            svg,
            r#"<text class="kind" x="{}" y="{}">{}</text><text x="{}" y="{}">{}</text>"#,
            x + 8,
            y + 17,
            escaped(&title(step)),
            x + 8,
            y + 34,
            escaped(&states(step))
        );
        if only.is_some() {
            svg.push_str("</a>");
        }
    }
    svg.push_str("</svg>");
    svg
}

fn title(step: &GraphStep) -> String {
    let kind = step.kind.as_deref().unwrap_or("no kind");
    let cut: String = kind.chars().take(KIND).collect();
    let kind = if cut.len() < kind.len() { format!("{cut}…") } else { cut };
    match step.jobs[..] {
        [job] => format!("{kind} {job}"),
        _ => format!("{kind} × {}", number(step.jobs.len() as u64)),
    }
}

fn states(step: &GraphStep) -> String {
    let words = step.states.iter().map(|(state, count)| {
        let word = word(*state);
        if step.jobs.len() == 1 { word } else { format!("{} {word}", number(*count as u64)) }
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The name of a state, and the class of its colour.
fn word(state: Option<JobState>) -> String {
    state.map_or_else(|| "gone".to_owned(), |state| texts::word(&state))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
