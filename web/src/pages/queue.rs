//! A queue: why jobs died, what limits it, charts over an hour, a day or a week, kinds over a day at most, groups that
//! share it, workers and settings.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use readpast::admin::{FailureGroup, GroupRow, JobState, KindRow, QueueStats, WorkerRow};
use readpast::{Error, Queue};

use crate::app::App;
use crate::chart::{self, Series, Span, Step};
use crate::counts::MOST;
use crate::error_view::ErrorView;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::job_search::{JobSearch, STATES};
use crate::links::{link, worker_link};
use crate::problem::Problem;
use crate::readings::Line;
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::texts::{self, number};
use crate::time::{Time, length};

/// Dead jobs whose errors are grouped: the page spends most of its time on them.
const FAILURES: usize = 1_000;

/// Scheduled jobs whose errors are grouped, those due first.
const WAITING: usize = 1_000;

/// Groups of errors shown.
const REASONS: usize = 50;

/// Entries of the audit among which the last pause is looked for.
const AUDITED: usize = 100;

/// Groups of a fair queue shown.
const GROUPS: usize = 50;

#[derive(Template)]
#[template(path = "queue.html")]
struct Page<'a> {
    frame: Frame,
    name: &'a str,
    paused: bool,
    /// Its problems, apart from dead jobs, and the address of this page.
    problems: Vec<Problem>,
    here: String,
    depth: Vec<(JobState, String, String)>,
    limit: Limit,
    paused_by: Option<PausedBy>,
    workers: Vec<WorkerView<'a>>,
    span: Span,
    spans: Vec<(&'static str, String)>,
    charts: Option<Charts>,
    kinds: Vec<KindView>,
    /// Of a fair queue.
    groups: Vec<GroupView>,
    more_groups: bool,
    failures: Vec<FailureView>,
    failures_looked_at: String,
    /// Not all dead jobs were read.
    more_failures: bool,
    /// The same of scheduled jobs: those that wait for another attempt, and those that a worker has postponed.
    waiting: Vec<FailureView>,
    settings: Vec<(&'static str, String)>,
}

/// What limits the queue, and what to do about it.
struct Limit {
    what: &'static str,
    advice: &'static str,
}

/// Who paused the queue, or all queues, as far as it was noted.
struct PausedBy {
    who: String,
    at: Time,
    why: String,
}

struct WorkerView<'a> {
    name: &'a str,
    link: String,
    oldest_claimed_at: Option<Time>,
    held_link: String,
    /// The busy part of its threads, in percent and in words.
    busy: u64,
    threads: String,
    lease_left: String,
}

struct Charts {
    throughput: String,
    depth: String,
    wait: String,
    run: String,
    rows: Vec<ChartRow>,
}

/// A row of the table.
struct ChartRow {
    at: Time,
    done: String,
    failed: String,
    died: String,
    depth: String,
    dead: String,
    wait: String,
    run: String,
}

struct KindView {
    label: String,
    since: Time,
    /// To its ready jobs, if it is a single kind.
    link: Option<String>,
    counts: [(&'static str, String); 7],
    run: String,
    cpu: String,
    peak_memory: String,
}

struct GroupView {
    key: String,
    link: String,
    weight: String,
    waiting: String,
}

struct FailureView {
    error: ErrorView,
    count: String,
    link: String,
    /// Asks whether to requeue them.
    requeue: String,
    first_at: Time,
    last_at: Time,
    example: String,
    example_link: String,
    example_error: String,
    kinds: String,
    was_put_off: bool,
}

impl Charts {
    fn new(steps: &[Step], span: Span) -> Option<Charts> {
        if steps.is_empty() {
            return None;
        }
        let count = |value: f64| number(value.round() as u64);
        let seconds = |value: f64| match value {
            0.0 => "0".to_owned(),
            _ => length(std::time::Duration::from_secs_f64(value)),
        };
        let wait = [
            Series { class: "claimed", name: "p95", value: |sum| Some(sum.wait.percentile(0.95)?.as_secs_f64()) },
            Series { class: "claimed", name: "median", value: |sum| Some(sum.wait.percentile(0.5)?.as_secs_f64()) },
        ];
        let run = [
            Series { class: "claimed", name: "p95", value: |sum| Some(sum.run.percentile(0.95)?.as_secs_f64()) },
            Series { class: "claimed", name: "median", value: |sum| Some(sum.run.percentile(0.5)?.as_secs_f64()) },
        ];
        Some(Charts {
            throughput: chart::bars(steps, span, &chart::ended(), count),
            depth: chart::lines(steps, span, &chart::depth(), count),
            wait: chart::lines(steps, span, &wait, seconds),
            run: chart::lines(steps, span, &run, seconds),
            rows: steps.iter().rev().filter_map(ChartRow::new).collect(),
        })
    }
}

impl ChartRow {
    fn new(step: &Step) -> Option<ChartRow> {
        let sum = step.sum.as_ref()?;
        let half_and_most =
            |times: &readpast::admin::DurationHistogram| match (times.percentile(0.5), times.percentile(0.95)) {
                (Some(half), Some(most)) => format!("{}, {}", length(half), length(most)),
                _ => "–".to_owned(),
            };
        Some(ChartRow {
            at: Time(step.at),
            done: number(sum.done),
            failed: number(sum.failed),
            died: number(sum.died),
            depth: number(sum.depth),
            dead: number(sum.dead),
            wait: half_and_most(&sum.wait),
            run: half_and_most(&sum.run),
        })
    }
}

impl KindView {
    fn new(row: &KindRow, queue: &str) -> KindView {
        let unfinished = |jobs| format!("{}{}", number(jobs), if row.is_partial { "+" } else { "" });
        let search = |kind: &String| JobSearch { kind: Some(kind.clone()), ..JobSearch::of(queue, JobState::Ready) };
        KindView {
            label: row.label().to_owned(),
            since: Time(row.since),
            link: row.kind.as_ref().map(|kind| search(kind).link("jobs", &[])),
            counts: [
                ("Ready", unfinished(row.ready)),
                ("Scheduled", unfinished(row.scheduled)),
                ("Waiting", unfinished(row.waiting)),
                ("Claimed", unfinished(row.claimed)),
                ("Done", number(row.done)),
                ("Failed attempts", number(row.failed)),
                ("Died", number(row.died)),
            ],
            run: joined([row.run_mean, row.run_p95].map(|time| time.map(length))),
            cpu: joined([row.cpu_p50, row.cpu_p95, row.cpu_max].map(|time| time.map(length))),
            peak_memory: joined(
                [row.peak_memory_p50, row.peak_memory_p95, row.peak_memory_max].map(|size| size.map(texts::bytes)),
            ),
        }
    }
}

impl GroupView {
    fn new(row: &GroupRow, queue: &str) -> GroupView {
        // 1,000 stand for that many or more.
        let more = if row.waiting >= 1_000 { "+" } else { "" };
        let search = JobSearch { group: Some(row.group_key.clone()), ..JobSearch::of(queue, JobState::Waiting) };
        GroupView {
            key: row.group_key.clone(),
            link: search.link("jobs", &[]),
            weight: number(row.weight.into()),
            waiting: format!("{}{more}", number(row.waiting)),
        }
    }
}

/// Values that are known together, or a dash.
fn joined<const N: usize>(values: [Option<String>; N]) -> String {
    let known: Vec<String> = values.into_iter().flatten().collect();
    if known.is_empty() { "–".to_owned() } else { known.join(", ") }
}

impl FailureView {
    fn all(groups: Vec<FailureGroup>, queue: &str, state: JobState) -> Vec<FailureView> {
        groups.into_iter().take(REASONS).map(|group| FailureView::new(group, queue, state)).collect()
    }

    fn new(group: FailureGroup, queue: &str, state: JobState) -> FailureView {
        let search = JobSearch::of(queue, state);
        let text = group.search_text().to_owned();
        let search = JobSearch { error: (!text.is_empty()).then_some(text), ..search };
        let example = group.example.to_string();
        let was_put_off = group.was_put_off_for_other_workers();
        // The head of a traceback is the same for all exceptions.
        let is_head = group.pattern.lines().next().is_some_and(|line| line.ends_with(':'));
        let error = match &*group.pattern {
            "" => ErrorView::of("without an error"),
            _ if is_head => ErrorView::of(&group.example_error),
            pattern => ErrorView::of(pattern),
        };
        FailureView {
            error,
            count: number(group.count),
            link: search.link("jobs", &[]),
            requeue: search.link("confirm", &[("action", "requeue")]),
            first_at: Time(group.first_at),
            last_at: Time(group.last_at),
            example_link: link("job", [("queue", queue), ("id", &example)]),
            example,
            example_error: group.example_error,
            kinds: group.kinds.join(", "),
            was_put_off,
        }
    }
}

impl Limit {
    /// The most frequent limit of the queue's workers.
    fn of(stats: &QueueStats, line: Option<&Line>) -> Limit {
        let (what, advice) = match line.and_then(|line| line.activity.limits.first()).map(|(word, _)| word.as_str()) {
            _ if stats.paused => ("The queue is paused.", "Workers claim none of its jobs until it is resumed."),
            _ if stats.workers == 0 => ("No worker runs.", "Start one with readpast work."),
            Some("idle") => ("Too few jobs.", "Nothing is wrong; there may be more workers than needed."),
            Some("busy") => ("The threads.", "All of them are busy. More threads or another worker would help."),
            Some("claim") => ("Claims.", "SQL Server answers them too slowly. See “stage saturated” in the runbook."),
            Some("finish") => ("Finishing jobs.", "SQL Server is too slow. See “stage saturated” in the runbook."),
            Some("queue_limit") => ("A limit of the queue.", "Raise its maximum of claimed jobs or its rate."),
            Some("resources") => ("Resources.", "The ready jobs need more memory or tokens than are free."),
            Some("memory") => ("Memory of the machine.", "Workers claim less until more of it is free."),
            Some("quiet") => ("Quiet workers.", "They were asked to claim no more jobs."),
            _ => ("Not known yet.", "Workers report their limit with each heartbeat."),
        };
        Limit { what, advice }
    }
}

impl PausedBy {
    async fn of(queue: &Queue, stats: &QueueStats) -> Result<Option<PausedBy>, Error> {
        if !stats.paused {
            return Ok(None);
        }
        if stats.held.is_some() {
            let holds = queue.admin().holds().await?;
            let hold = holds.into_iter().find(|hold| Some(hold.held) == stats.held);
            return Ok(hold.map(|hold| PausedBy {
                who: hold.login.unwrap_or_default(),
                at: Time(hold.since),
                why: hold.why.unwrap_or_default(),
            }));
        }
        let audits = queue.admin().audits(None, AUDITED).await?;
        let mut succeeded = audits.into_iter().filter(|row| row.ended_at.is_some() && row.outcome.is_none());
        let latest = succeeded.find(|row| row.action == "pause" || row.action == "resume");
        Ok(latest.filter(|row| row.action == "pause").map(|row| PausedBy {
            who: row.who,
            at: Time(row.began_at),
            why: row.what.and_then(|what| Some(what.get("why")?.as_str()?.to_owned())).unwrap_or_default(),
        }))
    }
}

impl<'a> WorkerView<'a> {
    fn new(worker: &'a WorkerRow) -> WorkerView<'a> {
        let in_use = worker.resources_in_use();
        let threads = in_use.iter().find(|one| one.name == "threads");
        let (used, has) = threads.map_or((0, 0), |threads| (threads.used, threads.has));
        let words = match has {
            0 => texts::counted(worker.held, "job"),
            _ => format!("{} of {}", number(used), number(has)),
        };
        WorkerView {
            name: &worker.name,
            link: worker_link(worker),
            oldest_claimed_at: worker.oldest_claimed_at.map(Time),
            held_link: JobSearch::held_by(worker).link("jobs", &[]),
            busy: (used * 100).checked_div(has).unwrap_or_default().min(100),
            threads: words,
            lease_left: length(worker.lease_left),
        }
    }
}

fn settings(stats: &QueueStats) -> Vec<(&'static str, String)> {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let rate = stats.rate.map(|rate| format!("{} per {}", number(rate.jobs.into()), texts::exact(rate.interval)));
    vec![
        ("Claim order", texts::word(&stats.claim_order)),
        ("Done jobs", texts::word(&stats.completion)),
        ("Delivery", texts::word(&stats.delivery).replace('_', " ")),
        ("Attempts", number(stats.max_attempts.into())),
        ("Done jobs kept", texts::keep(stats.keep_done)),
        ("Dead jobs kept", texts::keep(stats.keep_dead)),
        ("Jobs per group", number(stats.group_limit.into())),
        ("Retries pass their turn on", if stats.retry_passes { "yes" } else { "no" }.to_owned()),
        ("Rises by a priority after", or_none(stats.age_after.map(texts::exact))),
        ("Dead jobs halt their group", if stats.halt_groups { "yes" } else { "no" }.to_owned()),
        ("Groups share the queue", if stats.fair { "yes" } else { "no" }.to_owned()),
        ("Maximum unfinished", or_none(stats.max_depth.map(|max| number(max.into())))),
        ("Maximum claimed", or_none(stats.max_running.map(|max| number(max.into())))),
        ("Rate", or_none(rate)),
        ("Sink", or_none(stats.sink.clone())),
        ("Dead queue", or_none(stats.dead_queue.clone())),
    ]
}

fn span(fields: &Fields) -> Result<Span, Failure> {
    let word = fields.get("span").unwrap_or("hour");
    let span = Span::ALL.into_iter().find(|span| span.word() == word);
    span.ok_or_else(|| Failure::bad("span", word, "it must be hour, day or week"))
}

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let fields = Fields::of(&uri);
    let span = span(&fields)?;
    let queue = app.queue(fields.required("queue")?).await?;
    // Starts a reading if none is recent. It goes on beside the calls of this page.
    let _readings = app.readings.listen();
    // Read again, to include the latest action.
    let mut stats = queue.admin().stats(Some(MOST)).await?;
    let history = queue.admin().history(span.length()).await?;
    // No longer: the page refreshes itself, and a week of many kinds is many rows.
    let kinds = queue.admin().kinds(span.length().min(Span::Day.length())).await?;
    let failures = queue.admin().failures(FAILURES).await?;
    let waiting = queue.admin().failures_to_retry(WAITING).await?;
    let groups = if stats.fair { queue.admin().groups(None, GROUPS + 1).await? } else { Vec::new() };
    let paused_by = PausedBy::of(&queue, &stats).await?;
    let counts = app.readings.complete(&mut stats);
    let name = queue.name();
    let reading = app.readings.now().await;
    let problems = reading.problems.iter().filter(|problem| problem.queue == name && problem.sign != "dead");
    let workers = reading.workers.iter().filter(|worker| worker.queue == name && worker.is_live());
    let depth =
        STATES.map(|(state, _)| (state, counts.text(&stats, state), JobSearch::of(name, state).link("jobs", &[])));
    let spans = Span::ALL.map(|span| (span.word(), link("queue", [("queue", name), ("span", span.word())])));
    Ok(html(&Page {
        paused: stats.paused,
        problems: problems.cloned().collect(),
        here: link("queue", [("queue", name)]),
        depth: depth.into(),
        limit: Limit::of(&stats, reading.queue(name)),
        paused_by,
        workers: workers.map(WorkerView::new).collect(),
        span,
        spans: spans.into(),
        charts: Charts::new(&chart::steps(&history, span), span),
        kinds: kinds.iter().map(|row| KindView::new(row, name)).collect(),
        groups: groups.iter().take(GROUPS).map(|row| GroupView::new(row, name)).collect(),
        more_groups: groups.len() > GROUPS,
        more_failures: failures.looked_at < stats.dead,
        failures_looked_at: number(failures.looked_at),
        failures: FailureView::all(failures.groups, name, JobState::Dead),
        waiting: FailureView::all(waiting.groups, name, JobState::Scheduled),
        settings: settings(&stats),
        frame: Frame::new(&app, visitor, "overview", name).await,
        name,
    }))
}
