//! One queue: numbers, workers, dead and running jobs.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::super::readings::{DeadGroup, DeadLine, QueueDetail, QueueLine, RunningLine, SCHEDULED, WorkerLine};
use super::super::screen::{QueueView, Row, Screen, View};
use super::{visible, words_wrapped};
use crate::columns::{age, count, cut, left, rate, right};
use crate::texts;

/// The widths of an id, of a time to the second, and of a name.
const ID: usize = 10;
const TIME: usize = 14;
const NAME: usize = 16;

/// A line, and its row if it can be selected.
struct Entry {
    text: String,
    style: Style,
    row: Option<Row>,
}

pub fn draw(frame: &mut Frame<'_>, area: Rect, screen: &mut Screen) {
    let width = usize::from(area.width);
    let numbers = screen.selected_queue().map_or_else(|| "The queue was deleted.".to_owned(), numbers);
    let mut numbers = words_wrapped(&numbers, width);
    numbers.truncate(2);
    let [head, rows] = Layout::vertical([Constraint::Length(numbers.len() as u16), Constraint::Min(0)]).areas(area);
    let style = if screen.selected_queue().is_some_and(|queue| queue.paused) {
        screen.theme.warning()
    } else {
        screen.theme.plain()
    };
    frame.render_widget(Paragraph::new(numbers.into_iter().map(Line::raw).collect::<Vec<_>>()).style(style), head);
    screen.page = usize::from(rows.height);

    let entries = entries(screen, width);
    let View::Queue(view) = &mut screen.view else { return };
    let selected = entries.iter().position(|entry| entry.row.is_some() && entry.row == view.selected);
    // The first row is shown with its heading.
    let place = if selected == entries.iter().position(|entry| entry.row.is_some()) { Some(0) } else { selected };
    let seen = visible(rows, entries.len(), place, &mut view.top);
    let selected_style = screen.theme.selected();
    let lines = entries.into_iter().enumerate().skip(seen.start).take(seen.len()).map(|(index, entry)| {
        let text = if entry.row.is_some() { left(&entry.text, width) } else { cut(&entry.text, width) };
        let style = if Some(index) == selected { entry.style.patch(selected_style) } else { entry.style };
        Line::styled(text, style)
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), rows);
}

fn numbers(queue: &QueueLine) -> String {
    let mut text = String::new();
    if queue.paused {
        text.push_str("PAUSED  ");
    }
    for (number, what) in [
        (queue.ready, "ready"),
        (queue.running, "running"),
        (queue.scheduled, "scheduled"),
        (queue.waiting, "waiting"),
        (queue.dead, "dead"),
        (queue.cancelled, "cancelled"),
    ] {
        text.push_str(&format!("{what} {}  ", texts::number(number)));
    }
    let (coming, out, failed) = (rate(queue.in_per_s), rate(queue.done_per_s), rate(queue.failed_per_s));
    text.push_str(&format!("oldest {}  ≈in {coming}/s  out {out}/s  failed {failed}/s", age(queue.oldest)));
    text
}

fn entries(screen: &Screen, width: usize) -> Vec<Entry> {
    let theme = screen.theme;
    let heading = |text: String| Entry { text, style: theme.heading(), row: None };
    let note = |text: &str| Entry { text: text.to_owned(), style: theme.dim(), row: None };
    let mut entries = Vec::new();

    let workers: Vec<&WorkerLine> = screen.workers().collect();
    entries.push(heading(worker_heading(workers.len())));
    for worker in &workers {
        let style = if worker.lease_left.is_none() { theme.dim() } else { theme.plain() };
        entries.push(Entry { text: worker_text(worker), style, row: Some(Row::Worker(worker.id.clone())) });
    }
    let View::Queue(QueueView { detail, .. }) = &screen.view else { return entries };
    let Some(detail) = detail else {
        entries.push(note("Reading its jobs…"));
        return entries;
    };
    if !detail.postponed.is_empty() {
        entries.push(heading(format!("POSTPONED BY WORKERS THAT CANNOT RUN THEM, of up to {SCHEDULED} due next")));
        entries.extend(detail.postponed.iter().map(|line| note(line)));
    }
    let dead = screen.selected_queue().map_or(detail.dead_read, |queue| queue.dead);
    entries.push(heading(dead_heading(detail, dead)));
    for group in &detail.dead {
        dead_entries(screen, group, &mut entries);
    }
    let running = screen.selected_queue().map_or(0, |queue| queue.running);
    entries.push(heading(running_heading(detail.running.len(), running)));
    for job in &detail.running {
        let text = running_text(job, width);
        entries.push(Entry { text, style: theme.plain(), row: Some(Row::Running(job.id)) });
    }
    entries
}

fn worker_heading(workers: usize) -> String {
    let title = left(&format!("WORKERS {workers}"), NAME + 8);
    format!("{title} {:>5} {:>5} {:>6} {:>6} {:>6} LIMIT", "HELD", "RUN", "OUT/S", "FAIL/S", "LEASE")
}

fn worker_text(worker: &WorkerLine) -> String {
    let lease = worker.lease_left.map_or_else(|| "ended".to_owned(), |left| format!("{}s", left.as_secs()));
    format!(
        "{} {} {} {} {} {} {}",
        left(&worker.name, NAME + 8),
        right(&count(worker.held), 5),
        right(&texts::or_dash(worker.running), 5),
        right(&rate(worker.done_per_s), 6),
        right(&rate(worker.failed_per_s), 6),
        right(&lease, 6),
        [
            Some(texts::or_dash(worker.limited_by.as_ref())),
            worker.in_use.clone(),
            worker.held_since.as_ref().filter(|_| worker.held > 0).map(|since| format!("(since {since})")),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("  ")
    )
}

fn dead_heading(detail: &QueueDetail, dead: u64) -> String {
    // Not all dead jobs were read.
    if dead > detail.dead_read {
        return format!("DEAD {}, of which the newest {}", count(dead), count(detail.dead_read));
    }
    format!("DEAD {}", count(dead))
}

fn dead_entries(screen: &Screen, group: &DeadGroup, entries: &mut Vec<Entry>) {
    let View::Queue(view) = &screen.view else { return };
    let style = screen.theme.plain();
    if let [job] = &group.jobs[..] {
        entries.push(Entry { text: dead_text(job, ""), style, row: Some(Row::Dead(job.id)) });
        return;
    }
    let newest = group.jobs.first().map(|job| job.ended.clone()).unwrap_or_default();
    let mark = if view.is_open(group) { "▾" } else { "▸" };
    let jobs = left(&format!("{mark}{} jobs", group.jobs.len()), ID);
    let text = format!("{jobs} {} {} {}", left(&newest, TIME), left(&group.kind, NAME), group.error);
    entries.push(Entry { text, style, row: Some(group.row()) });
    if view.is_open(group) {
        let jobs = group.jobs.iter();
        entries.extend(jobs.map(|job| Entry { text: dead_text(job, "  "), style, row: Some(Row::Dead(job.id)) }));
    }
}

fn dead_text(job: &DeadLine, indent: &str) -> String {
    let id = left(&format!("{indent}{}", job.id), ID);
    format!("{id} {} {} {}", left(&job.ended, TIME), left(&job.kind, NAME), job.error)
}

fn running_heading(read: usize, running: u64) -> String {
    let title = match running > read as u64 {
        true => format!("RUNNING {}, of which {read}", count(running)),
        false => format!("RUNNING {read}"),
    };
    format!("{} TRY {} {} PROGRESS", left(&title, ID + 1 + TIME), left("KIND", NAME), left("WORKER", NAME))
}

fn running_text(job: &RunningLine, width: usize) -> String {
    let text = format!(
        "{} {} {} {} {} {}",
        left(&job.id.to_string(), ID),
        left(&job.since, TIME),
        right(&job.attempt.to_string(), 3),
        left(&job.kind, NAME),
        left(&job.worker, NAME),
        job.progress
    );
    cut(&text, width)
}
