//! The keys, and what the numbers mean.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::super::keys::KEYS;
use super::super::screen::Screen;
use super::{visible, words_wrapped};
use crate::columns::left;

/// How each number is come by.
const NUMBERS: [(&str, &str); 9] = [
    ("OUT/S", "jobs done a second: each worker counts between its last two heartbeats (10 s apart), all are added"),
    ("FAIL/S", "failed attempts a second, likewise; of jobs that run again and of those that are dead"),
    ("≈IN/S", "about: what the jobs that are not done have grown by in the last 10 s, and OUT/S meanwhile"),
    ("OLDEST", "how long the oldest ready job has been ready"),
    ("RUN, HELD", "jobs that workers have claimed: those that run, and those that are next"),
    ("SCHED", "not due yet: delayed jobs, and those that failed and run again later"),
    ("WAIT", "for their turn in their groups"),
    ("LEASE", "how long SQL Server takes the worker for alive without another heartbeat"),
    (
        "LIMIT",
        "what limits the workers, and how many: busy (all threads run jobs), idle (too few jobs), claim and finish \
         (waiting for SQL Server), queue_limit (the queue's own limits)",
    ),
];

/// Who may do what.
const ROLES: &str = "A monitor sees all of this; p, r and R need the role operator.";

/// The room of a name of a number, and of keys.
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

/// A name, and beside it what is said of it.
fn entry(name: &str, room: usize, what: &str, width: usize) -> Vec<Line<'static>> {
    let lines = words_wrapped(what, width.saturating_sub(room));
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    lines.iter().zip(names).map(|(line, name)| Line::raw(format!("{}{line}", left(name, room)))).collect()
}
