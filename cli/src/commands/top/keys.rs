//! Applies keys to the screen.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::screen::{Deed, JobView, Notice, QueueView, Row, Screen, View};

/// The effect of a key besides drawing.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    None,
    Quit,
    /// Requests to the server are needed.
    Look,
    Do(Deed),
}

/// The keys for the help.
pub const KEYS: [(&str, &str); 10] = [
    ("↑ ↓ PgUp PgDn Home End", "move; also j and k"),
    ("Enter →", "open a queue (workers, dead and running jobs), a job (all of it) or a group (its jobs)"),
    ("Esc ← Backspace", "back"),
    ("p", "pause or resume the queue (asks)"),
    ("r", "requeue the dead job, or the group (asks in a list)"),
    ("R", "requeue all dead jobs of the queue (asks)"),
    ("s", "sort by name, ready, oldest, out, failures, dead"),
    ("g", "refresh now"),
    ("?", "this help"),
    ("q Ctrl-C", "quit"),
];

/// How far a key moves.
enum Step {
    Up(usize),
    Down(usize),
}

/// The step of a key, with this many lines per page.
fn step(code: KeyCode, page: usize) -> Option<Step> {
    match code {
        KeyCode::Up | KeyCode::Char('k') => Some(Step::Up(1)),
        KeyCode::Down | KeyCode::Char('j') => Some(Step::Down(1)),
        KeyCode::PageUp => Some(Step::Up(page.max(1))),
        KeyCode::PageDown => Some(Step::Down(page.max(1))),
        KeyCode::Home => Some(Step::Up(usize::MAX)),
        KeyCode::End => Some(Step::Down(usize::MAX)),
        _ => None,
    }
}

impl Screen {
    /// Applies a key to the screen.
    pub fn press(&mut self, key: KeyEvent) -> Effect {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Effect::Quit } else { Effect::None };
        }
        if let Some(deed) = self.question.take() {
            return match key.code {
                KeyCode::Char('y' | 'Y') => self.start(deed),
                _ => Effect::None,
            };
        }
        if let Some(top) = self.help {
            self.help = match step(key.code, self.page) {
                Some(Step::Up(lines)) => Some(top.saturating_sub(lines)),
                Some(Step::Down(lines)) => Some(top.saturating_add(lines)), // drawing it brings it back
                None => None,
            };
            return if key.code == KeyCode::Char('q') { Effect::Quit } else { Effect::None };
        }
        self.notice = None;
        match key.code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('?' | 'h') => self.help = Some(0),
            KeyCode::Char('g') => return Effect::Look,
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.put_in_order();
            }
            KeyCode::Char('p') => self.ask_to_pause(),
            KeyCode::Char('r') => return self.requeue(),
            KeyCode::Char('R') => self.ask_to_requeue_all(),
            KeyCode::Enter | KeyCode::Right => return self.open(),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => return self.back(),
            code => {
                if let Some(step) = step(code, self.page) {
                    self.step(step);
                }
            }
        }
        Effect::None
    }

    fn start(&mut self, deed: Deed) -> Effect {
        self.notice = Some(Notice { text: "waiting for the server…".to_owned(), went_well: true });
        Effect::Do(deed)
    }

    fn ask_to_pause(&mut self) {
        let Some(queue) = self.selected_queue() else { return };
        let name = queue.name.clone();
        let deed = if queue.paused { Deed::Resume { queue: name } } else { Deed::Pause { queue: name } };
        self.question = Some(deed);
    }

    fn ask_to_requeue_all(&mut self) {
        let Some(queue) = self.selected_queue() else { return };
        if queue.dead == 0 {
            self.notice = Some(Notice { text: format!("{} has no dead jobs", queue.name), went_well: true });
            return;
        }
        self.question = Some(Deed::RequeueAll { queue: queue.name.clone(), dead: queue.dead });
    }

    /// Requeues the shown job immediately. In a list it asks first, because the row may have changed.
    fn requeue(&mut self) -> Effect {
        let Some(queue) = self.queue.clone() else { return Effect::None };
        let jobs = match &self.view {
            View::Queues => Vec::new(),
            View::Queue(view) => view.selected.as_ref().map(|row| view.dead_jobs(row)).unwrap_or_default(),
            View::Job(job, _) if job.is_dead() => vec![job.id],
            View::Job(..) => Vec::new(),
        };
        match jobs.len() {
            0 => {
                let text = "select a dead job or a group; R requeues all dead jobs of the queue".to_owned();
                self.notice = Some(Notice { text, went_well: true });
                Effect::None
            }
            1 if matches!(self.view, View::Job(..)) => self.start(Deed::Requeue { queue, jobs }),
            _ => {
                self.question = Some(Deed::Requeue { queue, jobs });
                Effect::None
            }
        }
    }

    /// Opens the selection.
    fn open(&mut self) -> Effect {
        match &mut self.view {
            View::Queues => {
                if self.queue.is_none() {
                    return Effect::None;
                }
                self.view = View::Queue(QueueView::default());
                self.keep_row_selected();
            }
            View::Queue(view) => match view.selected.clone() {
                Some(Row::Group(kind, error)) => {
                    let group = (kind, error);
                    if !view.open.remove(&group) {
                        view.open.insert(group);
                    }
                    return Effect::None;
                }
                Some(Row::Dead(id) | Row::Running(id)) => {
                    self.view = View::Job(JobView { id, job: None, top: 0 }, std::mem::take(view));
                }
                Some(Row::Worker(_)) | None => return Effect::None,
            },
            View::Job(..) => return Effect::None,
        }
        Effect::Look
    }

    fn back(&mut self) -> Effect {
        match &mut self.view {
            View::Queues => return Effect::None,
            View::Queue(_) => {
                self.view = View::Queues;
                self.put_in_order();
            }
            View::Job(_, view) => {
                self.view = View::Queue(std::mem::take(view));
                self.keep_row_selected();
            }
        }
        Effect::Look
    }

    /// Moves the selection, or scrolls a text.
    fn step(&mut self, step: Step) {
        match &self.view {
            View::Queues => {
                let names: Vec<String> = self.overview.queues.iter().map(|queue| queue.name.clone()).collect();
                let at = names.iter().position(|name| self.queue.as_ref() == Some(name));
                if let Some(queue) = moved(names, at, step) {
                    self.queue = Some(queue);
                }
            }
            View::Queue(view) => {
                let rows = self.rows();
                let at = rows.iter().position(|row| view.selected.as_ref() == Some(row));
                let row = moved(rows, at, step);
                if let View::Queue(view) = &mut self.view {
                    view.selected = row;
                }
            }
            View::Job(..) => {
                if let View::Job(view, _) = &mut self.view {
                    // Drawing limits it to the last page.
                    view.top = match step {
                        Step::Up(lines) => view.top.saturating_sub(lines),
                        Step::Down(lines) => view.top.saturating_add(lines),
                    };
                }
            }
        }
    }
}

/// The new row of the selection; stops at both ends.
fn moved<T>(mut rows: Vec<T>, at: Option<usize>, step: Step) -> Option<T> {
    let last = rows.len().checked_sub(1)?;
    let to = match (at, step) {
        (None, _) => 0,
        (Some(at), Step::Up(rows)) => at.saturating_sub(rows),
        (Some(at), Step::Down(rows)) => at.saturating_add(rows).min(last),
    };
    Some(rows.swap_remove(to))
}

impl JobView {
    pub fn is_dead(&self) -> bool {
        matches!(&self.job, Some(Ok(job)) if job.state == "dead")
    }
}
