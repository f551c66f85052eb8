//! The list of queues.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::readings::QueueLine;
use super::super::screen::Screen;
use super::super::theme::Theme;
use super::{cell, line, visible};
use crate::columns::{age, count, left, rate, right, width_of};

/// A column besides the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Ready,
    Running,
    Scheduled,
    Waiting,
    Dead,
    In,
    Out,
    Failures,
    Oldest,
    Limit,
}

/// The columns by importance. A narrow screen drops the last ones.
const BY_WORTH: [Column; 10] = [
    Column::Ready,
    Column::Running,
    Column::Dead,
    Column::Out,
    Column::Oldest,
    Column::In,
    Column::Failures,
    Column::Limit,
    Column::Scheduled,
    Column::Waiting,
];

/// The columns in display order.
const IN_ORDER: [Column; 10] = [
    Column::Ready,
    Column::Running,
    Column::Scheduled,
    Column::Waiting,
    Column::Dead,
    Column::In,
    Column::Out,
    Column::Failures,
    Column::Oldest,
    Column::Limit,
];

/// The minimum and maximum width of a name.
const NAME: std::ops::RangeInclusive<usize> = 9..=40;

impl Column {
    fn title(self) -> &'static str {
        match self {
            Column::Ready => "READY",
            Column::Running => "RUN",
            Column::Scheduled => "SCHED",
            Column::Waiting => "WAIT",
            Column::Dead => "DEAD",
            Column::In => "≈IN/S",
            Column::Out => "OUT/S",
            Column::Failures => "FAIL/S",
            Column::Oldest => "OLDEST",
            Column::Limit => "LIMIT",
        }
    }

    fn width(self) -> usize {
        match self {
            Column::Failures => 6,
            Column::Oldest => 7,
            Column::Limit => 11,
            _ => 5,
        }
    }

    fn text(self, queue: &QueueLine) -> String {
        match self {
            Column::Ready => count(queue.ready),
            Column::Running => count(queue.running),
            Column::Scheduled => count(queue.scheduled),
            Column::Waiting => count(queue.waiting),
            Column::Dead => count(queue.dead),
            Column::In => rate(queue.in_per_s),
            Column::Out => rate(queue.done_per_s),
            Column::Failures => rate(queue.failed_per_s),
            Column::Oldest => age(queue.oldest),
            Column::Limit => limit(queue),
        }
    }

    fn style(self, queue: &QueueLine, theme: Theme) -> Style {
        match self {
            Column::Dead if queue.dead > 0 => theme.bad(),
            Column::Failures if queue.failed_per_s.is_some_and(|rate| rate > 0.0) => theme.bad(),
            Column::Limit if queue.paused => theme.warning(),
            _ => theme.plain(),
        }
    }
}

/// A pause, no worker, or the bottleneck.
fn limit(queue: &QueueLine) -> String {
    if queue.paused {
        return "paused".to_owned();
    }
    if queue.workers == 0 {
        return "no worker".to_owned();
    }
    match &queue.limits[..] {
        [(word, _)] => word.clone(),
        several => several.iter().map(|(word, workers)| format!("{workers} {word}")).collect::<Vec<_>>().join(", "),
    }
}

/// The columns at a width, and the widths of the name and the limit.
fn columns(width: usize, longest_name: usize) -> (usize, Vec<Column>, usize) {
    let mut room = width.saturating_sub(*NAME.start());
    let mut chosen = Vec::new();
    for column in BY_WORTH {
        let Some(left) = room.checked_sub(column.width() + 1) else { break };
        chosen.push(column);
        room = left;
    }
    let name = longest_name.clamp(*NAME.start(), *NAME.end()).min(NAME.start() + room);
    room -= name - NAME.start();
    let columns: Vec<Column> = IN_ORDER.into_iter().filter(|column| chosen.contains(column)).collect();
    (name.min(width), columns, Column::Limit.width() + room)
}

pub fn draw(frame: &mut Frame<'_>, area: Rect, screen: &mut Screen) {
    let theme = screen.theme;
    let longest = screen.overview.queues.iter().map(|queue| width_of(&queue.name)).max().unwrap_or_default();
    let (name, columns, limit_width) = columns(usize::from(area.width), longest);
    let filled = |column: Column, text: &str| match column {
        Column::Limit => left(text, limit_width),
        _ => right(text, column.width()),
    };

    let mut heading = left("QUEUE", name);
    for column in &columns {
        heading.push(' ');
        heading.push_str(&filled(*column, column.title()));
    }
    let [head, rows] =
        super::Layout::vertical([super::Constraint::Length(u16::from(area.height > 1)), super::Constraint::Min(0)])
            .areas(area);
    line(frame, head, Line::styled(heading, theme.heading()));
    screen.page = usize::from(rows.height);

    if screen.overview.queues.is_empty() {
        line(frame, rows, Line::raw("There are no queues yet."));
        return;
    }
    let selected = screen.overview.queues.iter().position(|queue| screen.queue.as_ref() == Some(&queue.name));
    let seen = visible(rows, screen.overview.queues.len(), selected, &mut screen.queues_top);
    let lines = screen.overview.queues.iter().enumerate().skip(seen.start).take(seen.len()).map(|(index, queue)| {
        let style = if queue.paused { theme.warning() } else { theme.plain() };
        let mut cells = vec![cell(left(&queue.name, name), style)];
        for column in &columns {
            cells.push(Span::raw(" "));
            cells.push(cell(filled(*column, &column.text(queue)), column.style(queue, theme)));
        }
        let line = Line::from(cells);
        if Some(index) == selected { line.style(theme.selected()) } else { line }
    });
    frame.render_widget(super::Paragraph::new(lines.collect::<Vec<_>>()), rows);
}
