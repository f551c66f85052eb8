//! The help: keys and numbers.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::super::keys::KEYS;
use super::super::screen::Screen;
use super::{visible, words_wrapped};
use crate::columns::left;

const NUMBERS: [(&str, &str); 9] = [
    ("OUT/S", "jobs done per second: the sum of the workers, each between its last two heartbeats (10 s apart)"),
    ("FAIL/S", "failed attempts per second, measured like OUT/S; the jobs are retried or dead"),
    ("≈IN/S", "about: growth of the unfinished and dead jobs in the last 10 s, plus OUT/S"),
    ("OLDEST", "how long the oldest ready job has been ready"),
    ("RUN, HELD", "running jobs; all claimed jobs, whether running or not"),
    ("SCHED", "due later: delayed jobs and retries"),
    ("WAIT", "waiting for their turn in their groups"),
    ("LEASE", "how long SQL Server considers the worker alive without another heartbeat"),
    (
        "LIMIT",
        "what limits the workers, and how many: busy (all threads run jobs), idle (too few jobs), claim and finish \
         (waiting for SQL Server), queue_limit (the queue's own limits), resources and memory (of the worker)",
    ),
];

const ROLES: &str = "A monitor sees everything; p, r and R need the role operator.";

/// The width of the names of numbers.
const NAME: usize = 11;
const KEY: usize = 23;

pub fn draw(frame: &mut Frame<'_>, area: Rect, screen: &mut Screen) {
    let width = usize::from(area.width);
    let heading = |text| Line::styled(text, screen.theme.heading());
    let mut lines = vec![heading("KEYS")];
    for (keys, what) in KEYS {
        lines.extend(entry(keys, KEY, what, width));
    }
    lines.push(heading("NUMBERS"));
    for (name, what) in NUMBERS {
        lines.extend(entry(name, NAME, what, width));
    }
    lines.extend(words_wrapped(ROLES, width).into_iter().map(Line::raw));
    screen.page = usize::from(area.height);
    let Some(top) = &mut screen.help else { return };
    let seen = visible(area, lines.len(), None, top);
    frame.render_widget(Paragraph::new(lines[seen].to_vec()), area);
}

/// A name with its explanation.
fn entry(name: &str, room: usize, what: &str, width: usize) -> Vec<Line<'static>> {
    let lines = words_wrapped(what, width.saturating_sub(room));
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    lines.iter().zip(names).map(|(line, name)| Line::raw(format!("{}{line}", left(name, room)))).collect()
}
