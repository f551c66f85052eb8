//! From page to page, each job is met once.

use std::collections::BTreeSet;
use std::time::Duration;

use readpast::NewJob;
use readpast::admin::{CompletionPolicy, JobChange, JobFilter, JobState, QueueOptions};

use crate::support::{Browser, Fixture};

const JOBS: usize = 1_000;

/// The jobs of a list, page by page, as somebody meets them who follows "Next page".
async fn walk(browser: &mut Browser, first: String) -> Vec<u64> {
    let (mut next, mut met, mut pages) = (Some(first), Vec::new(), 0);
    while let Some(address) = next {
        let page = browser.page(&address).await;
        let ids = page.texts("table.jobs tbody th a");
        assert!(ids.len() <= 50, "{address}");
        met.extend(ids.iter().map(|id| id.parse::<u64>().unwrap()));
        next = page.values("a[rel=next]", "href").pop();
        pages += 1;
        assert!(pages <= JOBS / 50 + 2, "it does not end: {next:?}");
    }
    met
}

async fn meets_each_once(browser: &mut Browser, state: JobState, ids: &BTreeSet<u64>) {
    let met = walk(browser, format!("jobs?queue=work&state={state}")).await;
    assert_eq!(met.len(), ids.len(), "{state}");
    assert_eq!(&met.iter().copied().collect::<BTreeSet<u64>>(), ids, "{state}");
}

async fn enqueue(fixture: &Fixture, change: impl Fn(usize, NewJob) -> NewJob) -> BTreeSet<u64> {
    let jobs: Vec<NewJob> = (0..JOBS).map(|number| change(number, NewJob::text("x"))).collect();
    let enqueued = fixture.queue.enqueue_many(&jobs).await.unwrap();
    enqueued.iter().map(|enqueued| u64::try_from(enqueued.job_id.0).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_ready_scheduled_and_waiting_jobs_meet_each_once() {
    let fixture = Fixture::new("paging").await;
    let mut browser = fixture.open();
    let ready = enqueue(&fixture, |number, job| job.priority((number % 3) as i16)).await;
    let scheduled = enqueue(&fixture, |_, job| job.delay(Duration::from_secs(3_600))).await;
    meets_each_once(&mut browser, JobState::Ready, &ready).await;
    meets_each_once(&mut browser, JobState::Scheduled, &scheduled).await;
    // Of each group one is ready.
    let grouped = enqueue(&fixture, |number, job| job.group_key(format!("group {}", number % 10))).await;
    let waiting = walk(&mut browser, "jobs?queue=work&state=waiting".to_owned()).await;
    let different: BTreeSet<u64> = waiting.iter().copied().collect();
    assert_eq!((waiting.len(), different.len()), (JOBS - 10, JOBS - 10));
    assert!(different.is_subset(&grouped));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_claimed_dead_and_cancelled_jobs_meet_each_once() {
    let fixture = Fixture::new("paging_ended").await;
    let mut browser = fixture.open();
    let dead = enqueue(&fixture, |_, job| job).await;
    fixture.kill_all("an error").await;
    meets_each_once(&mut browser, JobState::Dead, &dead).await;
    let cancelled = enqueue(&fixture, |_, job| job).await;
    fixture.queue.admin().change(&JobChange::cancel(""), JobFilter::from(JobState::Ready)).await.unwrap();
    meets_each_once(&mut browser, JobState::Cancelled, &cancelled).await;
    let claimed = enqueue(&fixture, |_, job| job).await;
    fixture
        .sql(
            "UPDATE [$(schema)].[jobs] SET state = 2, attempt = 1, fence = 1, claimed_at = SYSUTCDATETIME(), \
             worker_id = '67e55044-10b1-426f-9247-bb680e5fe0c8' WHERE state = 0",
        )
        .await;
    meets_each_once(&mut browser, JobState::Claimed, &claimed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_done_and_archived_jobs_meet_each_once() {
    for (policy, state) in
        [(CompletionPolicy::Annotate, JobState::Done), (CompletionPolicy::Archive, JobState::Archived)]
    {
        let fixture = Fixture::with("paging_done", QueueOptions::default().completion(policy)).await;
        let ids = enqueue(&fixture, |_, job| job).await;
        let run = |_: &readpast::Job, _: &readpast::Context| -> Result<(), readpast::BoxError> { Ok(()) };
        let worker = readpast::Worker::builder(&fixture.queue, readpast::Handlers::any(run)).start().await.unwrap();
        worker.drain().await.unwrap();
        meets_each_once(&mut fixture.open(), state, &ids).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_goes_on_beyond_what_one_page_has_looked_at() {
    let fixture = Fixture::new("paging_search").await;
    let ids = enqueue(&fixture, |number, job| job.kind(if number % 4 == 0 { "rare" } else { "usual" })).await;
    let met = walk(&mut fixture.open(), "jobs?queue=work&state=ready&kind=rare".to_owned()).await;
    assert_eq!(met, ids.iter().copied().step_by(4).collect::<Vec<u64>>());
}
