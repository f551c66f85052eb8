//! Draws the screen: title, view, message and keys.
//!
//! The screen may have any size. If it is too small, less important columns are left out first.

mod help;
mod job;
mod queue;
mod queues;

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::screen::{Screen, View};
use crate::columns::{cut, left, right, width_of};
use crate::texts;

/// The most lines of a message.
const MESSAGE_LINES: usize = 3;

/// Draws the screen, and stores in it which part of a list or text is visible.
pub fn draw(frame: &mut Frame<'_>, screen: &mut Screen, now: Instant) {
    let area = frame.area();
    let width = usize::from(area.width);
    let mut message = message(screen, now, width);
    if area.height < 6 && !screen.has_message() {
        message.clear(); // how old it is matters less than what it is
    }
    let [title, body, status, keys] = Layout::vertical([
        Constraint::Length(u16::from(area.height > 3)),
        Constraint::Min(0),
        Constraint::Length(message.len() as u16), // at most three
        Constraint::Length(u16::from(area.height > 4)),
    ])
    .areas(area);
    line(frame, title, Line::styled(left(&title_text(screen, width), width), screen.theme.title()));
    if screen.help.is_some() {
        help::draw(frame, body, screen);
    } else {
        match screen.view {
            View::Queues => queues::draw(frame, body, screen),
            View::Queue(_) => queue::draw(frame, body, screen),
            View::Job(..) => job::draw(frame, body, screen),
        }
    }
    frame.render_widget(Paragraph::new(message), status);
    line(frame, keys, Line::styled(cut(keys_text(screen), width), screen.theme.dim()));
}

fn line(frame: &mut Frame<'_>, area: Rect, line: Line<'_>) {
    frame.render_widget(line, area);
}

fn title_text(screen: &Screen, width: usize) -> String {
    let place = match (&screen.view, &screen.queue) {
        (View::Queue(_), Some(queue)) => format!("queue {queue}"),
        (View::Job(job, _), Some(queue)) => format!("job {} of {queue}", job.id),
        _ => {
            let (queues, workers) =
                (screen.overview.queues.len(), screen.overview.queues.iter().map(|q| q.workers).sum());
            format!("{}, {}", texts::counted(queues as u64, "queue"), texts::counted(workers, "worker"))
        }
    };
    let text = format!(" {} │ {place}", screen.title);
    let sort = format!("by {} ", screen.sort.word());
    if !matches!(screen.view, View::Queues) || width_of(&text) + width_of(&sort) >= width {
        return text;
    }
    format!("{text}{}", right(&sort, width - width_of(&text)))
}

/// A question, a lost connection, or the result of an action; otherwise the age of the data. At least one line.
fn message(screen: &Screen, now: Instant, width: usize) -> Vec<Line<'static>> {
    let read = now.duration_since(screen.read_at);
    let theme = screen.theme;
    let (text, style) = if let Some(deed) = &screen.question {
        (deed.question(), theme.warning())
    } else if let Some(error) = &screen.lost {
        (format!("no response, retrying; the screen is {} old: {error}", texts::age(read)), theme.bad())
    } else if let Some(notice) = &screen.notice {
        (notice.text.clone(), if notice.went_well { theme.good() } else { theme.bad() })
    } else {
        let asking = screen.asking_since.map(|since| now.duration_since(since)).filter(|asking| asking.as_secs() >= 1);
        let asking = asking.map(|asking| format!("; waiting for the server for {}", texts::age(asking)));
        (format!("as of {} s ago{}", read.as_secs(), asking.unwrap_or_default()), theme.dim())
    };
    // The whole text first, to remove control characters.
    let mut lines = words_wrapped(&cut(&text, usize::MAX), width);
    if lines.len() > MESSAGE_LINES {
        lines.truncate(MESSAGE_LINES);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last}…"), width);
        }
    }
    lines.into_iter().map(|text| Line::styled(text, style)).collect()
}

fn keys_text(screen: &Screen) -> &'static str {
    if screen.question.is_some() {
        return "y yes  any other key no";
    }
    if screen.help.is_some() {
        return "↑↓ move  any other key: back";
    }
    match screen.view {
        View::Queues => "↑↓ move  Enter open  p pause  R requeue dead  s sort  ? help  q quit",
        View::Queue(_) => "↑↓ move  Enter open  Esc back  r requeue  R all dead  p pause  ? help  q quit",
        View::Job(..) => "↑↓ move  Esc back  r requeue  ? help  q quit",
    }
}

/// The visible part of a list: from `top` on, moved to include the row `selected`.
fn visible(area: Rect, lines: usize, selected: Option<usize>, top: &mut usize) -> std::ops::Range<usize> {
    let height = usize::from(area.height);
    *top = (*top).min(lines.saturating_sub(height));
    if let Some(selected) = selected.filter(|_| height > 0) {
        *top = (*top).clamp((selected + 1).saturating_sub(height), selected);
    }
    *top..(*top + height).min(lines)
}

/// Breaks a text between words.
fn words_wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if width_of(line) + 1 + width_of(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A padded cell with a style.
fn cell(text: String, style: Style) -> Span<'static> {
    Span::styled(text, style)
}
