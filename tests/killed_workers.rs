//! Worker processes that are killed, or stopped for longer than their lease: what they held runs elsewhere, and nothing
//! else runs twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use readpast::NewJob;
use readpast::admin::{CompletionPolicy, JobState, QueueOptions};

use crate::support::child::{ChildWorker, Ledger};
use crate::support::{Fixture, dev_server, number, text, until};

/// So many attempts that no job dies of the kills, whichever it meets.
const PLENTY: u32 = 1_000;

/// Short times, so that a lost lease is noticed soon.
const SHORT: [(&str, &str); 5] = [
    ("WORKER_LEASE_MS", "3000"),
    ("WORKER_HEARTBEAT_INTERVAL_MS", "300"),
    ("WORKER_REAP_INTERVAL_MS", "100"),
    ("CONNECTION_CONNECT_TIMEOUT_MS", "3000"),
    ("CONNECTION_COMMAND_TIMEOUT_MS", "3000"),
];

async fn start(fixture: &Fixture, ledger: &Ledger, name: &str, more: &[(&str, &str)]) -> ChildWorker {
    let settings: Vec<_> = SHORT.iter().chain(&[("WORKER_NAME", name)]).chain(more).copied().collect();
    ChildWorker::start(fixture, ledger, &settings).await
}

async fn drained(fixture: &Fixture) {
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(120);
    loop {
        let stats = fixture.queue.admin().stats(None).await.unwrap();
        if stats.ready + stats.scheduled + stats.claimed == 0 {
            return;
        }
        assert!(std::time::Instant::now() < give_up, "jobs are left: {stats:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The names of the workers that SQL Server called lost.
async fn lost_workers(fixture: &Fixture) -> HashSet<String> {
    let lost = fixture.sql("SELECT name FROM [$(schema)].[workers] WHERE lost_at IS NOT NULL").await;
    lost.iter().map(|row| text(row, "name").unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_jobs_survive_workers_that_are_killed_again_and_again() {
    const JOBS: usize = 20_000;
    const KILLS: usize = 12;
    let options = QueueOptions::default().max_attempts(PLENTY);
    let fixture = Fixture::with("killed", options).await;
    let ledger = Ledger::new();
    let mut workers = Vec::new();
    for number in 0..3 {
        let name = format!("worker {number}");
        workers.push((start(&fixture, &ledger, &name, &[]).await, name));
    }
    let mut enqueued = Vec::new();
    let mut killed = HashSet::new();
    for kill in 1..=KILLS {
        // One of the jobs does not end on its first attempt, so that its worker is killed with a job in hand however
        // fast the others are.
        let stuck = fastrand::usize(..JOBS / KILLS);
        let jobs = (0..JOBS / KILLS).map(|job| NewJob::text(if job == stuck { "stick" } else { "0" }));
        let jobs = fixture.queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.unwrap();
        until("the job that does not end runs", || ledger.has_started(jobs[stuck].job_id.0)).await;
        let holder = &ledger.read()[&jobs[stuck].job_id.0].starts[0].worker;
        let (victim, name) = workers.iter_mut().find(|(_, name)| name == holder).unwrap();
        victim.kill().await;
        killed.insert(std::mem::replace(name, format!("worker {}", 2 + kill)));
        *victim = start(&fixture, &ledger, name, &[]).await;
        enqueued.extend(jobs);
    }
    drained(&fixture).await;

    let lost = lost_workers(&fixture).await; // before the others stop, which marks them too
    assert!(killed.is_subset(&lost), "{killed:?} {lost:?}");
    for (worker, _) in workers {
        worker.stop().await;
    }
    let registered = fixture.sql("SELECT name FROM [$(schema)].[workers] WHERE lost_at IS NULL").await;
    assert_eq!(registered.len(), 0, "the others have unregistered");
    let runs = ledger.read();
    for job in enqueued {
        let runs = &runs[&job.job_id.0];
        assert!(runs.ends >= 1, "job {} never came to its end", job.job_id);
        for (first, again) in runs.starts.iter().zip(&runs.starts[1..]) {
            assert!(lost.contains(&first.worker), "job {} ran again though {} was not lost", job.job_id, first.worker);
            assert!(first.fence < again.fence && first.attempt < again.attempt, "{runs:?}");
        }
    }
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().dead, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(unix), ignore = "only Unix can stop a process and let it go on")]
async fn a_worker_that_was_stopped_for_longer_than_its_lease_changes_nothing_and_goes_on() {
    let options = QueueOptions::default().max_attempts(PLENTY).completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("stopped", options).await;
    let jobs = fixture.queue.enqueue_many(&(0..20).map(|_| NewJob::text("100000")).collect::<Vec<_>>()).await.unwrap();
    let ledger = Ledger::new();
    let stopped = start(&fixture, &ledger, "stopped", &[("WORKER_THREADS", "2"), ("WORKER_BUFFER", "10")]).await;
    until("two jobs run", || ledger.lines() >= 2).await;
    stopped.pause();

    let other = start(&fixture, &ledger, "other", &[("WORKER_THREADS", "4")]).await;
    drained(&fixture).await;
    assert_eq!(lost_workers(&fixture).await, HashSet::from(["stopped".to_string()]));
    let done = fixture.queue.admin().list(&JobState::Done.into(), None, 100).await.unwrap().jobs;
    assert_eq!(done.len(), jobs.len());
    let by_other = other.stop().await;
    assert_eq!((by_other.done, by_other.lost), (20, 0));

    stopped.resume();
    let more = fixture.queue.enqueue_many(&(0..5).map(|_| NewJob::text("0")).collect::<Vec<_>>()).await.unwrap();
    drained(&fixture).await;
    let by_stopped = stopped.stop().await;
    assert_eq!(by_stopped.done, 5, "it registered anew and went on");
    assert!(by_stopped.lost >= 2, "the two that ran were acknowledged too late: {by_stopped:?}");
    let runs = ledger.read();
    assert!(more.iter().all(|job| runs[&job.job_id.0].starts.iter().all(|start| start.worker == "stopped")));
    let still_done = fixture.queue.admin().list(&JobState::Done.into(), None, 20).await.unwrap().jobs;
    assert_eq!(still_done, done, "the late acknowledgements changed nothing");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_takes_over_has_its_killed_predecessor_s_jobs_before_the_lease_runs_out() {
    let fixture = Fixture::new("restarted").await;
    fixture.queue.enqueue_many(&(0..8).map(|_| NewJob::text("100000")).collect::<Vec<_>>()).await.unwrap();
    let ledger = Ledger::new();
    let settings = [("WORKER_NAME", "the one"), ("WORKER_TAKE_OVER", "true"), ("WORKER_LEASE_MS", "3600000")];
    let mut first = ChildWorker::start(&fixture, &ledger, &settings).await;
    until("a job runs", || ledger.lines() >= 1).await;
    first.kill().await;
    let held = fixture.queue.admin().stats(None).await.unwrap().claimed;
    assert!(held >= 1);
    let second = ChildWorker::start(&fixture, &ledger, &settings).await;
    drained(&fixture).await;
    second.stop().await;
    fixture.remove().await;
}

/// By SQL Server's clock: the first reap after the lease's end gives the jobs back, and so it takes no longer than
/// until then. How far apart the reaps are is the timer's business. They are seen on their way in, which only the dev
/// server can do.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_reap_after_the_lease_s_end_gives_a_killed_worker_s_jobs_back() {
    let server = dev_server().await;
    let fixture = Fixture::on_dev_server("recovery", QueueOptions::default()).await;
    fixture.queue.enqueue_many(&(0..8).map(|_| NewJob::text("100000")).collect::<Vec<_>>()).await.unwrap();
    let ledger = Ledger::new();
    let mut victim = start(&fixture, &ledger, "victim", &[("WORKER_THREADS", "1"), ("WORKER_BUFFER", "8")]).await;
    until("a job runs", || ledger.lines() >= 1).await;
    victim.kill().await;
    assert!(fixture.queue.admin().stats(None).await.unwrap().claimed >= 1);
    // Its duties would lapse after three seconds, which is more than half of its short lease and would count as an
    // outage.
    fixture.sql("UPDATE [$(schema)].[duties] SET until = '00010101'").await;

    let reaps: Arc<Mutex<Vec<SystemTime>>> = Arc::default();
    let seen = reaps.clone();
    server.faults().on_call(&fixture.procedure_to_fail("reap"), move |_| {
        #[expect(clippy::disallowed_methods, reason = "compared with the dev server's clock, which is this machine's")]
        seen.lock().push(SystemTime::now());
        None
    });
    let survivor = start(&fixture, &ledger, "survivor", &[("WORKER_REAP_INTERVAL_MS", "500")]).await;
    drained(&fixture).await;
    survivor.stop().await;

    let times = "SELECT DATEDIFF_BIG(MILLISECOND, '1970-01-01', lease_until) AS lease_until,
                        DATEDIFF_BIG(MILLISECOND, '1970-01-01', lost_at) AS lost_at
                 FROM [$(schema)].[workers] WHERE name = N'victim'";
    let row = &fixture.sql(times).await[0];
    let at = |column| SystemTime::UNIX_EPOCH + Duration::from_millis(number(row, column) as u64);
    let (lease_until, lost_at) = (at("lease_until"), at("lost_at"));
    assert!(lost_at >= lease_until, "not before the lease has run out");
    // A reap that came in at the lease's end may have looked at the clock before it.
    let missed: Vec<SystemTime> =
        reaps.lock().iter().copied().filter(|at| *at > lease_until && *at <= lost_at).collect();
    assert!(missed.len() <= 1, "the first reap after {lease_until:?} was to find it, but {lost_at:?}: {missed:?}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(target_os = "linux"), ignore = "reads the process's memory from /proc")]
async fn one_worker_s_memory_does_not_grow_with_the_jobs_it_has_run() {
    memory_stays_flat(30_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; run with --release and --ignored"]
async fn one_worker_s_memory_does_not_grow_with_a_million_jobs() {
    memory_stays_flat(1_000_000).await;
}

/// Runs so many jobs of 1 KB in one worker process; its ledger accounts for every id.
async fn memory_stays_flat(jobs: usize) {
    let fixture = Fixture::new("flat").await;
    let payload = format!("0 {}", "x".repeat(1_022));
    let mut ids = HashSet::new();
    for chunk in 0..jobs / 10_000 {
        let enqueued = fixture
            .queue
            .enqueue_many(&(0..10_000).map(|_| NewJob::text(payload.clone())).collect::<Vec<_>>())
            .await
            .unwrap();
        ids.extend(enqueued.iter().map(|job| job.job_id.0));
        assert_eq!(ids.len(), (chunk + 1) * 10_000);
    }
    let ledger = Ledger::new();
    let mut worker = ChildWorker::start(&fixture, &ledger, &[]).await;
    let mut resident = vec![worker.resident_bytes()];
    for tenth in 1..=10 {
        while ledger.lines() < 2 * jobs * tenth / 10 {
            assert!(!worker.has_ended(), "the worker died after {} lines of its ledger", ledger.lines());
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        resident.push(worker.resident_bytes());
    }
    drained(&fixture).await;
    let did = worker.stop().await;
    println!("resident bytes at the start and after each tenth of {jobs} jobs: {resident:?}");
    assert_eq!((did.done, did.lost), (jobs as u64, 0));
    let runs = ledger.read();
    assert_eq!(runs.len(), jobs);
    assert!(runs.iter().all(|(id, runs)| ids.contains(id) && runs.starts.len() == 1 && runs.ends == 1));
    // What it held of 1 KB jobs is bounded by max_in_flight; a leak of a tenth of all payloads would show.
    let growth = resident[10].saturating_sub(resident[2]);
    assert!(growth < 16 << 20, "{growth} bytes more: {resident:?}");
    fixture.remove().await;
}
