//! Random graphs of jobs, while connections are cut and workers are killed: each job starts after its parents, and ends
//! as its graph says.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::{CompletionPolicy, JobChange, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Context, Handlers, Job, JobError, JobId, NewJob, OnDead, Worker};

use crate::support::child::Event;
use crate::support::counted::drained;
use crate::support::proxy::Proxy;
use crate::support::under_faults::UnderFaults;
use crate::support::{Fixture, changed, number, until};

const GRAPHS: usize = 20;

const JOBS: usize = 50;

/// A random graph. What becomes of its jobs does not depend on the order in which they run.
struct Graph {
    /// Of each job, the places of the jobs that it waits for.
    parents: Vec<Vec<usize>>,
    on_dead: Vec<OnDead>,
    /// Which jobs fail for good, and which fail once before they are done.
    dies: Vec<bool>,
    retries: Vec<bool>,
}

impl Graph {
    fn random(jobs: usize) -> Graph {
        let parents = |place: usize| match place {
            0 => Vec::new(),
            _ => (0..fastrand::usize(..=3.min(place))).map(|_| fastrand::usize(..place)).collect(),
        };
        let policies = [OnDead::Hold, OnDead::Hold, OnDead::Cancel, OnDead::Run];
        Graph {
            parents: (0..jobs).map(parents).collect(),
            on_dead: (0..jobs).map(|_| policies[fastrand::usize(..4)]).collect(),
            dies: (0..jobs).map(|_| fastrand::u8(..10) == 0).collect(),
            retries: (0..jobs).map(|_| fastrand::u8(..5) == 0).collect(),
        }
    }

    /// Enqueues the graph, in pieces of random sizes. `payload`: of the job at a place.
    async fn enqueue(&self, fixture: &Fixture, payload: impl Fn(usize) -> String) -> Vec<JobId> {
        let mut ids: Vec<JobId> = Vec::new();
        while ids.len() < self.parents.len() {
            let piece = ids.len()..self.parents.len().min(ids.len() + fastrand::usize(1..=50));
            let job = |place: usize| {
                let (before, here): (Vec<usize>, Vec<usize>) =
                    self.parents[place].iter().partition(|parent| **parent < piece.start);
                NewJob::text(payload(place))
                    .after(before.into_iter().map(|parent| ids[parent]))
                    .after_earlier(here.into_iter().map(|parent| parent - piece.start))
                    .on_dead(self.on_dead[place])
            };
            let jobs: Vec<NewJob> = piece.clone().map(job).collect();
            ids.extend(fixture.queue.enqueue_many(&jobs).await.unwrap().iter().map(|job| job.job_id));
        }
        ids
    }

    /// How the jobs end, or whether they wait for ever, unless dead ones are requeued.
    fn ends(&self) -> Vec<JobState> {
        let mut ends: Vec<JobState> = Vec::new();
        for place in 0..self.parents.len() {
            let any = |state| self.parents[place].iter().any(|parent| ends[*parent] == state);
            let end_if_started = if self.dies[place] { JobState::Dead } else { JobState::Done };
            ends.push(match self.on_dead[place] {
                OnDead::Run if any(JobState::Waiting) => JobState::Waiting,
                OnDead::Run => end_if_started,
                _ if any(JobState::Cancelled) => JobState::Cancelled,
                OnDead::Cancel if any(JobState::Dead) => JobState::Cancelled,
                _ if any(JobState::Dead) || any(JobState::Waiting) => JobState::Waiting,
                _ => end_if_started,
            });
        }
        ends
    }
}

/// Each job has ended as its graph says, which `expected` may change.
async fn assert_ends(fixture: &Fixture, graphs: &[Graph], ids: &[Vec<JobId>], expected: &dyn Fn(JobState) -> JobState) {
    let rows = fixture.sql("SELECT job_id, state FROM [$(schema)].[jobs]").await;
    let states: HashMap<i64, i64> = rows.iter().map(|row| (number(row, 0), number(row, 1))).collect();
    for (graph, ids) in graphs.iter().zip(ids) {
        let ended = ids.iter().map(|id| match states[&id.0] {
            3 => JobState::Done,
            4 => JobState::Dead,
            5 => JobState::Cancelled,
            6 => JobState::Waiting,
            other => panic!("job {id} is in state {other}"),
        });
        assert_eq!(ended.collect::<Vec<_>>(), graph.ends().into_iter().map(expected).collect::<Vec<_>>());
    }
}

/// How often each job was started and has ended, by its graph and place; and those that started too early.
#[derive(Default)]
struct Ledger {
    starts: HashMap<(usize, usize), usize>,
    ended: HashSet<(usize, usize)>,
    early: Vec<(usize, usize)>,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_job_of_random_graphs_starts_after_its_parents_whatever_fails() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate).max_attempts(2);
    let mut fixture = Fixture::with("edges_graphs", options).await;
    let proxy = Proxy::start(fixture.url()).await;
    let graphs: Arc<Vec<Graph>> = Arc::new((0..GRAPHS).map(|_| Graph::random(JOBS)).collect());
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let requeued = Arc::new(AtomicBool::new(false));

    let (all, noted, mended) = (graphs.clone(), ledger.clone(), requeued.clone());
    let handler = move |job: &Job, _: &Context| {
        let (number, place): (usize, usize) = job.json()?;
        let graph = &all[number];
        let mut ledger = noted.lock();
        *ledger.starts.entry((number, place)).or_default() += 1;
        // A cancelled parent ends without a start, and with `run`, nobody waits for what was dead once.
        let ends = graph.ends();
        let is_no_matter = |parent: usize| {
            ends[parent] == JobState::Cancelled || graph.on_dead[place] == OnDead::Run && graph.dies[parent]
        };
        let has_ended = |parent: &usize| is_no_matter(*parent) || ledger.ended.contains(&(number, *parent));
        if !graph.parents[place].iter().all(has_ended) {
            ledger.early.push((number, place));
        }
        if graph.dies[place] && !mended.load(Ordering::SeqCst) {
            ledger.ended.insert((number, place));
            return Err(JobError::dead("it fails").into());
        }
        if graph.retries[place] && job.attempt() == 1 {
            return Err(JobError::retry_in(Duration::ZERO, "once more").into());
        }
        ledger.ended.insert((number, place));
        Ok(())
    };
    let mut ids = Vec::new();
    fixture.config.connection.url = proxy.connection_string().into();
    let through_proxy = fixture.connect().await;
    let config = changed(WorkerConfig::default(), |worker| worker.batch_size = 20);
    let start =
        async || Worker::builder(&through_proxy, Handlers::any(handler.clone())).config(&config).start().await.unwrap();
    let worker = start().await;
    let fails = async {
        for time in 1..=4 {
            until("more jobs have started", || ledger.lock().starts.len() >= time * GRAPHS * JOBS / 10).await;
            proxy.cut();
        }
    };
    let enqueues = async {
        for (number, graph) in graphs.iter().enumerate() {
            ids.push(graph.enqueue(&fixture, |place| format!("[{number}, {place}]")).await);
        }
    };
    tokio::join!(fails, enqueues);
    drained(worker).await;
    let check = async |ids: &[Vec<JobId>], expected: &dyn Fn(JobState) -> JobState| {
        assert_ends(&fixture, &graphs, ids, expected).await;
        let ledger = ledger.lock();
        assert_eq!(ledger.early, []);
        for (number, graph) in graphs.iter().enumerate() {
            for (place, end) in graph.ends().into_iter().enumerate() {
                let starts = ledger.starts.contains_key(&(number, place));
                assert_eq!(starts, matches!(expected(end), JobState::Done | JobState::Dead), "job {place} of {number}");
            }
        }
    };
    check(&ids, &|end| end).await;

    // The dead ones are requeued after a repair, and what waits for them runs.
    requeued.store(true, Ordering::SeqCst);
    ledger.lock().ended.retain(|(number, place)| !graphs[*number].dies[*place]);
    fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap();
    drained(start().await).await;
    check(&ids, &|end| if end == JobState::Cancelled { end } else { JobState::Done }).await;
    let open = "SELECT (SELECT COUNT(*) FROM [$(schema)].[edges] WHERE state = 0)
                    + (SELECT COUNT(*) FROM [$(schema)].[edge_events])";
    assert_eq!(number(&fixture.sql(open).await[0], 0), 0);
    fixture.remove().await;
}

/// Random graphs in three worker processes that reach SQL Server by a proxy; processes are killed and connections cut,
/// stalled and reset in the middle of acknowledgements, while the graphs are enqueued.
async fn graphs_run_in_order(test_name: &str, count: usize, kills: usize) {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate).max_attempts(10_000);
    let fixture = Fixture::with(test_name, options).await;
    let graphs: Vec<Graph> = (0..count).map(|_| Graph::random(JOBS)).collect();
    let payload = |graph: &Graph, place: usize| match (graph.dies[place], graph.retries[place]) {
        (true, _) => "dead",
        (_, true) => "fail 1",
        _ => "0",
    };
    let starts =
        |graph: &Graph| graph.ends().iter().filter(|end| matches!(end, JobState::Done | JobState::Dead)).count();
    let all_starts = graphs.iter().map(starts).sum();
    let enqueued = async |graphs: &[Graph]| {
        let mut ids = Vec::new();
        for graph in graphs {
            ids.push(graph.enqueue(&fixture, |place| payload(graph, place).to_owned()).await);
        }
        ids
    };
    let (first, others) = graphs.split_at(count / 4);
    let mut ids = enqueued(first).await;
    let mut workers = UnderFaults::start(&fixture).await;
    let ((), later) = tokio::join!(workers.strike(all_starts, kills), enqueued(others));
    ids.extend(later);
    let ends = graphs.iter().flat_map(Graph::ends).filter(|end| *end != JobState::Waiting).count();
    let mut session = fixture.session().await;
    let ended = async {
        while session.number("SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE state IN (3, 4, 5)").await < ends as i64 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), ended).await.expect("all jobs end");
    let events = workers.stop().await;

    assert_ends(&fixture, &graphs, &ids, &|end| end).await;
    let mut has_ended: HashSet<i64> = HashSet::new();
    let places: HashMap<i64, (&Graph, usize, &[JobId])> = graphs
        .iter()
        .zip(&ids)
        .flat_map(|(graph, ids)| ids.iter().enumerate().map(move |(place, id)| (id.0, (graph, place, &ids[..]))))
        .collect();
    for event in events {
        match event {
            Event::End { job_id, failed: false } => drop(has_ended.insert(job_id)),
            Event::Start { job_id, .. } => {
                let (graph, place, ids) = places[&job_id];
                let ends = graph.ends();
                for parent in graph.parents[place].iter().filter(|parent| ends[**parent] != JobState::Cancelled) {
                    let parent = ids[*parent].0;
                    assert!(has_ended.contains(&parent), "job {job_id} started before job {parent}");
                }
            }
            Event::End { .. } | Event::Killed { .. } => {}
        }
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_run_in_order_while_workers_are_killed() {
    graphs_run_in_order("edges_killed", GRAPHS, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute"]
async fn a_thousand_graphs_run_in_order_while_workers_are_killed() {
    graphs_run_in_order("edges_killed_often", 1_000, 40).await;
}
