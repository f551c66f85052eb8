//! The state of the screen.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use readpast::admin::Inflow;

use super::readings::{DeadGroup, JobDetail, Overview, QueueDetail, QueueLine, WorkerLine};
use super::theme::Theme;

/// Changed by keys ([`press`](Screen::press)) and responses ([`take`](Screen::take)), then drawn.
pub struct Screen {
    /// The start of the first line.
    pub title: String,
    pub theme: Theme,
    pub overview: Overview,
    /// When the overview was read.
    pub read_at: Instant,
    /// The error of the last read.
    pub lost: Option<String>,
    /// When the oldest open request was sent.
    pub asking_since: Option<Instant>,
    /// The result of the last action.
    pub notice: Option<Notice>,
    /// When the last action ended. Responses to earlier requests do not show its effect.
    acted_at: Option<Instant>,
    /// The action to confirm.
    pub question: Option<Deed>,
    /// The first line of the help, if it is open.
    pub help: Option<usize>,
    pub sort: Sort,
    pub view: View,
    /// The selected queue; the other views are about it.
    pub queue: Option<String>,
    /// The first visible row of the list.
    pub queues_top: usize,
    /// How many rows or lines are visible.
    pub page: usize,
    /// The estimates of the enqueue rates, by queue.
    inflow: HashMap<String, Inflow>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    pub went_well: bool,
}

pub enum View {
    Queues,
    Queue(QueueView),
    /// A job, and the queue's view to return to.
    Job(JobView, QueueView),
}

#[derive(Debug, Default)]
pub struct QueueView {
    pub detail: Option<QueueDetail>,
    pub selected: Option<Row>,
    /// Open groups of dead jobs, by kind and error.
    pub open: HashSet<(String, String)>,
    /// The first visible row.
    pub top: usize,
}

#[derive(Debug)]
pub struct JobView {
    pub id: i64,
    /// The job, an error, or `None` if it was not read yet.
    pub job: Option<Result<JobDetail, String>>,
    /// The first visible line.
    pub top: usize,
}

/// A selectable row of a queue's view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    Worker(String),
    /// A group of dead jobs, by kind and error.
    Group(String, String),
    Dead(i64),
    Running(i64),
}

/// An action on the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    Pause { queue: String },
    Resume { queue: String },
    Requeue { queue: String, jobs: Vec<i64> },
    RequeueAll { queue: String, dead: u64 },
}

impl Deed {
    /// The question that asks for confirmation of the action.
    pub fn question(&self) -> String {
        match self {
            Deed::Pause { queue } => format!("Pause {queue}? Its jobs are then no longer claimed. y/n"),
            Deed::Resume { queue } => format!("Resume {queue}? y/n"),
            Deed::Requeue { queue, jobs } => match jobs[..] {
                [job] => format!("Requeue job {job} of {queue}? y/n"),
                _ => format!("Requeue {} of {queue}? y/n", dead_jobs(jobs.len() as u64)),
            },
            Deed::RequeueAll { queue, dead } => format!("Requeue all {} of {queue}? y/n", dead_jobs(*dead)),
        }
    }
}

fn dead_jobs(number: u64) -> String {
    match number {
        1 => "1 dead job".to_owned(),
        _ => format!("{} dead jobs", crate::texts::number(number)),
    }
}

/// The order of queues: by name, or by one of their numbers, the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    Name,
    Ready,
    Oldest,
    Out,
    Failures,
    Dead,
}

impl Sort {
    pub fn next(self) -> Sort {
        match self {
            Sort::Name => Sort::Ready,
            Sort::Ready => Sort::Oldest,
            Sort::Oldest => Sort::Out,
            Sort::Out => Sort::Failures,
            Sort::Failures => Sort::Dead,
            Sort::Dead => Sort::Name,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::Ready => "ready",
            Sort::Oldest => "oldest",
            Sort::Out => "out",
            Sort::Failures => "failures",
            Sort::Dead => "dead",
        }
    }

    fn apply(self, queues: &mut [QueueLine]) {
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        let by_rate = |a: Option<f64>, b: Option<f64>| b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0));
        match self {
            Sort::Name => {}
            Sort::Ready => queues.sort_by_key(|queue| std::cmp::Reverse(queue.ready)),
            Sort::Oldest => queues.sort_by_key(|queue| std::cmp::Reverse(queue.oldest.unwrap_or(Duration::ZERO))),
            Sort::Out => queues.sort_by(|a, b| by_rate(a.done_per_s, b.done_per_s)),
            Sort::Failures => queues.sort_by(|a, b| by_rate(a.failed_per_s, b.failed_per_s)),
            Sort::Dead => queues.sort_by_key(|queue| std::cmp::Reverse(queue.dead)),
        }
    }
}

/// A response of the server. An error is its text.
#[derive(Debug)]
pub enum Answer {
    /// The data of all queues and workers, with the time of the request.
    Overview(Instant, Result<Overview, String>),
    Queue(String, Result<QueueDetail, String>),
    Job(String, i64, Result<JobDetail, String>),
    /// The result of an action as text.
    Done(Deed, Result<String, String>),
}

impl Screen {
    pub fn new(title: String, theme: Theme, now: Instant) -> Screen {
        Screen {
            title,
            theme,
            overview: Overview::default(),
            read_at: now,
            lost: None,
            asking_since: None,
            notice: None,
            acted_at: None,
            question: None,
            help: None,
            sort: Sort::Name,
            view: View::Queues,
            queue: None,
            queues_top: 0,
            page: 1,
            inflow: HashMap::new(),
        }
    }

    /// Shows a response, unless the user has switched to another view.
    pub fn take(&mut self, answer: Answer, now: Instant) {
        match answer {
            Answer::Overview(asked, Ok(_)) if self.acted_at.is_some_and(|acted| asked < acted) => {}
            Answer::Overview(_, Ok(mut overview)) => {
                self.inflow.retain(|name, _| overview.queues.iter().any(|queue| queue.name == *name));
                for queue in &mut overview.queues {
                    let inflow = self.inflow.entry(queue.name.clone()).or_default();
                    queue.in_per_s = inflow.note(now, queue.not_done(), queue.done_per_s);
                }
                self.overview = overview;
                self.read_at = now;
                self.lost = None;
                self.put_in_order();
            }
            Answer::Overview(_, Err(error)) => self.lost = Some(error),
            Answer::Queue(name, answer) if self.queue.as_deref() == Some(name.as_str()) => {
                let (View::Queue(view) | View::Job(_, view)) = &mut self.view else { return };
                match answer {
                    Ok(detail) => view.detail = Some(detail),
                    Err(error) => self.notice = Some(Notice { text: error, went_well: false }),
                }
                self.keep_row_selected();
            }
            Answer::Job(name, id, answer) if self.queue.as_deref() == Some(name.as_str()) => {
                if let View::Job(view, _) = &mut self.view
                    && view.id == id
                {
                    view.job = Some(answer);
                }
            }
            Answer::Queue(..) | Answer::Job(..) => {}
            Answer::Done(deed, result) => {
                let went_well = result.is_ok();
                if went_well {
                    self.acted_at = Some(now);
                    self.show_at_once(&deed);
                }
                self.notice = Some(Notice { text: result.unwrap_or_else(|error| error), went_well });
            }
        }
    }

    /// Shows a pause or resume before it was read from the server, so that the same key undoes it.
    fn show_at_once(&mut self, deed: &Deed) {
        let (name, paused) = match deed {
            Deed::Pause { queue } => (queue, true),
            Deed::Resume { queue } => (queue, false),
            Deed::Requeue { .. } | Deed::RequeueAll { .. } => return,
        };
        if let Some(queue) = self.overview.queues.iter_mut().find(|queue| queue.name == *name) {
            queue.paused = paused;
        }
    }

    /// Whether there is a question or a notice.
    pub fn has_message(&self) -> bool {
        self.question.is_some() || self.lost.is_some() || self.notice.is_some()
    }

    /// Sorts the queues, and selects one.
    pub fn put_in_order(&mut self) {
        self.sort.apply(&mut self.overview.queues);
        let is_there = self.queue.as_ref().is_some_and(|name| self.queue_line(name).is_some());
        if !is_there && matches!(self.view, View::Queues) {
            self.queue = self.overview.queues.first().map(|queue| queue.name.clone());
        }
        self.keep_row_selected();
    }

    pub fn queue_line(&self, name: &str) -> Option<&QueueLine> {
        self.overview.queues.iter().find(|queue| queue.name == name)
    }

    /// The line of the selected queue; `None` if none is selected or it was deleted.
    pub fn selected_queue(&self) -> Option<&QueueLine> {
        self.queue_line(self.queue.as_deref()?)
    }

    /// The workers of the selected queue.
    pub fn workers(&self) -> impl Iterator<Item = &WorkerLine> {
        let queue = self.queue.as_deref().unwrap_or_default();
        self.overview.workers.iter().filter(move |worker| worker.queue == queue)
    }

    /// The selectable rows of the queue's view, from above.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.workers().map(|worker| Row::Worker(worker.id.clone())).collect();
        let (View::Queue(view) | View::Job(_, view)) = &self.view else { return rows };
        for group in view.detail.iter().flat_map(|detail| &detail.dead) {
            if let [job] = &group.jobs[..] {
                rows.push(Row::Dead(job.id));
                continue;
            }
            rows.push(group.row());
            if view.is_open(group) {
                rows.extend(group.jobs.iter().map(|job| Row::Dead(job.id)));
            }
        }
        rows.extend(view.detail.iter().flat_map(|detail| &detail.running).map(|job| Row::Running(job.id)));
        rows
    }

    /// Selects the first row if the selected one is gone.
    pub fn keep_row_selected(&mut self) {
        let rows = self.rows();
        let (View::Queue(view) | View::Job(_, view)) = &mut self.view else { return };
        if !view.selected.as_ref().is_some_and(|row| rows.contains(row)) {
            view.selected = rows.into_iter().next();
        }
    }
}

impl QueueView {
    pub fn is_open(&self, group: &DeadGroup) -> bool {
        self.open.contains(&(group.kind.clone(), group.error.clone()))
    }

    /// The dead jobs of a row.
    pub fn dead_jobs(&self, row: &Row) -> Vec<i64> {
        match row {
            Row::Dead(id) => vec![*id],
            Row::Group(..) => {
                let mut groups = self.detail.iter().flat_map(|detail| &detail.dead);
                let group = groups.find(|group| group.row() == *row);
                group.map(|group| group.jobs.iter().map(|job| job.id).collect()).unwrap_or_default()
            }
            Row::Worker(_) | Row::Running(_) => Vec::new(),
        }
    }
}

impl DeadGroup {
    pub fn row(&self) -> Row {
        Row::Group(self.kind.clone(), self.error.clone())
    }
}
