//! What is on the screen: what was read, where the user is in it, and what is being asked.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use readpast::admin::Inflow;

use super::readings::{DeadGroup, JobDetail, Overview, QueueDetail, QueueLine, WorkerLine};
use super::theme::Theme;

/// All of it. Keys change it ([`press`](Screen::press)), answers change it ([`take`](Screen::take)), and it is drawn.
pub struct Screen {
    /// What the first line begins with.
    pub title: String,
    pub theme: Theme,
    pub overview: Overview,
    /// When that was read.
    pub read_at: Instant,
    /// Why it cannot be read at the moment.
    pub lost: Option<String>,
    /// Since when an answer has been awaited.
    pub asking_since: Option<Instant>,
    /// What became of the last action.
    pub notice: Option<Notice>,
    /// When that was: what was asked before does not show it yet.
    acted_at: Option<Instant>,
    /// What is asked before something is done.
    pub question: Option<Deed>,
    /// The help is seen instead, from this line on.
    pub help: Option<usize>,
    pub sort: Sort,
    pub view: View,
    /// The queue that is selected in the list; views of a queue and a job are of it.
    pub queue: Option<String>,
    /// The first row of the list that is seen.
    pub queues_top: usize,
    /// How many rows of a list or lines of a text are seen.
    pub page: usize,
    /// Of each queue.
    inflow: HashMap<String, Inflow>,
}

/// A message about an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    pub went_well: bool,
}

/// Which part of it all is seen.
pub enum View {
    /// The list of queues.
    Queues,
    /// One queue.
    Queue(QueueView),
    /// One job, and the queue's view to go back to.
    Job(JobView, QueueView),
}

/// The view of a queue.
#[derive(Debug, Default)]
pub struct QueueView {
    pub detail: Option<QueueDetail>,
    pub selected: Option<Row>,
    /// Groups of dead jobs whose jobs are seen, by kind and error.
    pub open: HashSet<(String, String)>,
    /// The first row that is seen.
    pub top: usize,
}

/// The view of a job.
#[derive(Debug)]
pub struct JobView {
    pub id: i64,
    /// `None`: not read yet.
    pub job: Option<Result<JobDetail, String>>,
    /// The first line that is seen.
    pub top: usize,
}

/// A row of a queue's view that can be selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    Worker(String),
    /// By kind and error.
    Group(String, String),
    Dead(i64),
    Running(i64),
}

/// Something that is done to the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    Pause { queue: String },
    Resume { queue: String },
    Requeue { queue: String, jobs: Vec<i64> },
    RequeueAll { queue: String, dead: u64 },
}

impl Deed {
    /// The question before it.
    pub fn question(&self) -> String {
        match self {
            Deed::Pause { queue } => format!("Pause {queue}, so that no more of its jobs are claimed? y/n"),
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

/// By what the list of queues is sorted: by name, or the largest first.
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
    /// The next one.
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

/// What the server has answered. An error is its text.
#[derive(Debug)]
pub enum Answer {
    /// With the moment at which it was asked for.
    Overview(Instant, Result<Overview, String>),
    Queue(String, Result<QueueDetail, String>),
    Job(String, i64, Result<JobDetail, String>),
    /// What an action has done, in words.
    Done(Deed, Result<String, String>),
}

impl Screen {
    /// With nothing on it yet.
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

    /// Puts an answer on the screen, unless the user has gone elsewhere.
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

    /// Shows a pause or its end before it is read, so that the same key undoes it.
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

    /// Whether something is asked or to be said.
    pub fn has_message(&self) -> bool {
        self.question.is_some() || self.lost.is_some() || self.notice.is_some()
    }

    /// Sorts the queues, and sees that one is selected.
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

    /// The line of the queue that is selected; `None`: there is none, or it was deleted.
    pub fn selected_queue(&self) -> Option<&QueueLine> {
        self.queue_line(self.queue.as_deref()?)
    }

    /// The workers of the queue that is selected.
    pub fn workers(&self) -> impl Iterator<Item = &WorkerLine> {
        let queue = self.queue.as_deref().unwrap_or_default();
        self.overview.workers.iter().filter(move |worker| worker.queue == queue)
    }

    /// The rows of the queue's view that can be selected, from above.
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

    /// Sees that a row is selected that is there: of a row that went away, the first.
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

    /// The dead jobs of a row; none for others.
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
