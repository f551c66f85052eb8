//! One job: its fields, its error, its failed attempts, its payload and output.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::super::readings::JobDetail;
use super::super::screen::{Screen, View};
use super::super::theme::Theme;
use super::visible;
use crate::columns::{left, wrapped};

/// The width of a field's name.
const NAME: usize = 16;

pub fn draw(frame: &mut Frame<'_>, area: Rect, screen: &mut Screen) {
    screen.page = usize::from(area.height);
    let View::Job(view, _) = &mut screen.view else { return };
    let lines = match &view.job {
        None => vec![Line::raw("Reading it…")],
        Some(Err(error)) => wrapped(error, usize::from(area.width)).into_iter().map(Line::raw).collect(),
        Some(Ok(job)) => lines(job, usize::from(area.width), screen.theme),
    };
    let seen = visible(area, lines.len(), None, &mut view.top);
    frame.render_widget(Paragraph::new(lines[seen].to_vec()), area);
}

fn lines(job: &JobDetail, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let plain = |text: &str| wrapped(text, width).into_iter().map(Line::raw).collect::<Vec<_>>();
    for (name, value) in &job.fields {
        lines.extend(plain(&format!("{} {value}", left(name, NAME))));
    }
    let mut section = |title: &str, text: Vec<Line<'static>>| {
        lines.push(Line::styled(title.to_owned(), theme.heading()));
        lines.extend(text);
    };
    if let Some(error) = &job.error {
        section("ERROR", plain(error));
    }
    if !job.attempts.is_empty() {
        let mut text = Vec::new();
        for attempt in &job.attempts {
            let (number, at, run, worker) = (attempt.attempt, &attempt.failed_at, &attempt.run, &attempt.worker);
            text.extend(plain(&format!("{number}. {at}, after {run}, {worker}: {}", attempt.error)));
        }
        section("FAILED ATTEMPTS", text);
    }
    section("PAYLOAD", plain(&job.payload));
    if let Some(output) = &job.output {
        section("OUTPUT", plain(output));
    }
    lines
}
