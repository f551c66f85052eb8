//! Pages of jobs for a page on a screen: the newest first, between two times, of one worker.
//!
//! How much is read is counted by the dev server ([`DevServer::entries_read`]): each entry and row that a scan or seek
//! steps over.

use std::time::{Duration, SystemTime};

use readpast::admin::{JobChange, JobCursor, JobFilter, JobState, QueueOptions, WorkerId};
use readpast::{Error, JobId, NewJob};
use readpast_devserver::DevServer;

use crate::support::{Fixture, Session, WorkerSession, numbers};

const ENDED: [JobState; 4] = [JobState::Done, JobState::Dead, JobState::Cancelled, JobState::Archived];

/// 2020-01-01, when the jobs of these tests ended, and `ms` after.
fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_577_836_800_000 + ms)
}

/// The ids of all jobs that a filter asks for, page by page.
async fn all_pages(fixture: &Fixture, filter: &JobFilter, max: usize) -> Vec<JobId> {
    let mut jobs = Vec::new();
    let mut after: Option<JobCursor> = None;
    loop {
        let page = fixture.queue.admin().list(filter, after.as_ref(), max).await.unwrap();
        assert!(page.jobs.len() <= max);
        jobs.extend(page.jobs.iter().map(|job| job.job_id));
        let ids = fixture.queue.admin().list_ids(filter, after.as_ref(), max).await.unwrap();
        assert_eq!(ids.jobs, page.jobs.iter().map(|job| job.job_id).collect::<Vec<_>>(), "the same without their rows");
        let Some(next) = page.next else { return jobs };
        // As in a link to the next page.
        after = Some(serde_json::from_str(&serde_json::to_string(&next).unwrap()).unwrap());
    }
}

/// `count` jobs in each of the states done, dead, cancelled and archived, of which each `alike` ended in the same
/// millisecond from 2020-01-01 on; enqueued as many milliseconds after 2019-01-01. Their ids ascend within a state.
async fn add_ended(session: &mut Session, count: i64, alike: i64) {
    for state in [3, 4, 5, 3] {
        let archive = "INSERT [$(schema)].[archive] (job_id, queue_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at,
                                                     finished_at, payload_utf16, payload)
                       SELECT job_id, queue_id, priority, 1, 1, enqueued_at, due_at, NEWID(), enqueued_at, finished_at, 0, payload
                       FROM [$(schema)].[jobs] WHERE state = 3;
                       DELETE FROM [$(schema)].[jobs] WHERE state = 3";
        let add = format!(
            "INSERT [$(schema)].[jobs] (job_id, queue_id, payload_utf16, payload, state, ended, priority, enqueued_at, due_at, finished_at)
             SELECT NEXT VALUE FOR [$(schema)].[job_ids], 1, 0, 0x7B7D, {state}, 1, 0, DATEADD(MILLISECOND, n.value, CAST('2019-01-01' AS datetime2(3))),
                    '2019-01-01', DATEADD(MILLISECOND, (n.value - 1) / {alike}, CAST('2020-01-01' AS datetime2(3)))
             FROM GENERATE_SERIES(1, {count}) AS n"
        );
        // What the first round has as done becomes archived.
        if state == 3 {
            session.sql(archive).await;
        }
        session.sql(&add).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_with_the_newest_first_have_each_job_once_backwards() {
    let fixture = Fixture::new("newest_first").await;
    add_ended(&mut fixture.session().await, 23, 4).await;
    for state in ENDED {
        let mut expected = all_pages(&fixture, &state.into(), 100).await;
        assert_eq!(expected.len(), 23, "{state}");
        expected.reverse();
        for max in [1, 3, 4, 23, 100] {
            let newest_first = JobFilter::from(state).newest_first();
            assert_eq!(all_pages(&fixture, &newest_first, max).await, expected, "{state}, pages of {max}");
        }
    }
    fixture.remove().await;
}

/// For a link to the page before.
#[tokio::test(flavor = "multi_thread")]
async fn from_a_place_in_the_list_one_can_go_back() {
    let fixture = Fixture::new("go_back").await;
    add_ended(&mut fixture.session().await, 20, 4).await;
    let filter = JobFilter::from(JobState::Dead);
    let all = all_pages(&fixture, &filter, 100).await;
    let tenth = fixture.queue.admin().list_ids(&filter, None, 10).await.unwrap().next.unwrap();
    let back = fixture.queue.admin().list_ids(&filter.newest_first(), Some(&tenth), 4).await.unwrap().jobs;
    assert_eq!(back, [all[8], all[7], all[6], all[5]]);
    fixture.remove().await;
}

/// From the first time on, before the second; by the end of the jobs that have ended, whatever the direction.
#[tokio::test(flavor = "multi_thread")]
async fn times_choose_ended_jobs_by_their_end() {
    let fixture = Fixture::new("ended_times").await;
    add_ended(&mut fixture.session().await, 40, 4).await;
    let forever = SystemTime::UNIX_EPOCH + Duration::from_secs(250_000_000_000);
    for state in ENDED {
        let all = all_pages(&fixture, &state.into(), 100).await;
        for (since, until, expected) in [
            (Some(at(3)), None, &all[12..]),
            (None, Some(at(3)), &all[..12]),
            (Some(at(3)), Some(at(4)), &all[12..16]),
            (Some(at(3)), Some(at(3)), &[]),
            (Some(at(5)), Some(at(3)), &[]),
            (Some(at(9)), Some(forever), &all[36..]),
            (Some(at(10)), None, &[]),
            (Some(at(0)), Some(at(10)), &all[..]),
            (None, Some(at(0)), &[]),
            // Within a millisecond: what ended at its end is after it.
            (Some(at(3) - Duration::from_micros(1)), Some(at(4) - Duration::from_micros(1)), &all[12..16]),
            (Some(at(3) + Duration::from_micros(1)), Some(at(4) + Duration::from_micros(1)), &all[16..20]),
        ] {
            let mut filter = JobFilter::from(state);
            if let Some(since) = since {
                filter = filter.since(since);
            }
            if let Some(until) = until {
                filter = filter.until(until);
            }
            for max in [3, 4, 100] {
                assert_eq!(all_pages(&fixture, &filter, max).await, expected, "{filter:?}, pages of {max}");
                let mut backwards = all_pages(&fixture, &filter.clone().newest_first(), max).await;
                backwards.reverse();
                assert_eq!(backwards, expected, "{filter:?}, backwards, pages of {max}");
            }
            // Beside an age and a condition that no index has.
            let aged = filter.clone().older_than(Duration::from_secs(60)).newest_first();
            assert_eq!(all_pages(&fixture, &aged, 7).await.len(), expected.len(), "{aged:?}");
            assert_eq!(all_pages(&fixture, &filter.kind("mail").newest_first(), 7).await, [], "of no kind");
        }
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_choose_other_jobs_by_when_they_were_enqueued() {
    let fixture = Fixture::new("enqueued_times").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let add = async |job: NewJob| fixture.queue.enqueue(&job).await.unwrap().job_id;
    let mut jobs = vec![add(NewJob::text("x")).await];
    worker.claim_one().await;
    jobs.push(add(NewJob::text("x").delay(Duration::from_secs(900))).await);
    jobs.push(add(NewJob::text("x").group_key("g")).await);
    jobs.push(add(NewJob::text("x").group_key("g")).await);
    let [claimed, scheduled, ready, waiting] = jobs[..] else { panic!("four jobs") };
    let mut session = fixture.session().await;
    for (ms, job) in jobs.iter().enumerate() {
        let enqueued = format!("enqueued_at = DATEADD(MILLISECOND, {ms}, CAST('2020-01-01' AS datetime2(3)))");
        session.sql(&format!("UPDATE [$(schema)].[jobs] SET {enqueued} WHERE job_id = {}", job.0)).await;
    }
    let found = async |since: u64, until: u64| {
        all_pages(&fixture, &JobFilter::all().since(at(since)).until(at(until)), 10).await
    };
    assert_eq!(found(0, 4).await, [ready, scheduled, waiting, claimed]);
    assert_eq!(found(0, 1).await, [claimed]);
    assert_eq!(found(1, 3).await, [ready, scheduled]);
    assert_eq!(found(3, 100).await, [waiting]);
    assert_eq!(found(4, 100).await, []);

    // The same filters choose what is done to all.
    let one = JobFilter::all().since(at(2)).until(at(3));
    assert_eq!(fixture.queue.admin().change(&JobChange::SetPriority(7), one.clone()).await.unwrap().changed, 1);
    assert_eq!(fixture.queue.admin().job(ready, None).await.unwrap().unwrap().priority, 7);
    let cancelled = fixture.queue.admin().change(&JobChange::cancel("x"), JobFilter::all().until(at(1))).await.unwrap();
    assert_eq!((cancelled.changed, cancelled.requested), (0, 1));
    drop((session, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_claimed_jobs_those_of_one_worker_can_be_listed_and_cancelled() {
    let fixture = Fixture::new("of_worker").await;
    fixture.queue.enqueue_many(&numbers(24)).await.unwrap();
    let (mut one, mut other) = (WorkerSession::register(&fixture).await, WorkerSession::register(&fixture).await);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.extend(one.claim(4).await.iter().map(|job| job.job_id));
        other.claim(4).await;
    }
    held.sort_unstable();
    let of_one = JobFilter::from(JobState::Claimed).worker(WorkerId(one.id));
    let expected: Vec<JobId> = held.into_iter().map(JobId).collect();
    for max in [1, 5, 12, 100] {
        assert_eq!(all_pages(&fixture, &of_one, max).await, expected, "pages of {max}");
    }
    assert_eq!(all_pages(&fixture, &of_one.clone().kind("mail"), 5).await, []);
    assert_eq!(
        all_pages(&fixture, &JobFilter::from(JobState::Claimed).worker(WorkerId(uuid::Uuid::nil())), 5).await,
        []
    );
    assert_eq!(
        fixture.queue.admin().change(&JobChange::cancel("its machine goes"), of_one.clone()).await.unwrap().requested,
        12
    );
    drop((one, other));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_for_a_state_is_refused_before_anything_is_done() {
    let fixture = Fixture::new("no_sense").await;
    let queue = &fixture.queue;
    queue.enqueue_many(&numbers(3)).await.unwrap();
    let worker = WorkerId(uuid::Uuid::nil());
    let refused = |error: Error, expected: &str| {
        assert!(matches!(&error, Error::Refused { message, .. } if message.contains(expected)), "{error}");
    };
    for state in [JobState::Ready, JobState::Scheduled, JobState::Waiting, JobState::Claimed] {
        let error = queue.admin().list(&JobFilter::from(state).newest_first(), None, 10).await.unwrap_err();
        refused(error, "newest_first requires the state done, dead, cancelled or archived");
    }
    for state in [JobState::Ready, JobState::Dead, JobState::Archived] {
        let error = queue.admin().list(&JobFilter::from(state).worker(worker), None, 10).await.unwrap_err();
        refused(error, "worker_id requires the state claimed");
    }
    for (filter, expected) in [
        (JobFilter::all().newest_first(), "newest_first requires"),
        (JobFilter::all().worker(worker), "worker_id requires"),
    ] {
        refused(queue.admin().list(&filter, None, 10).await.unwrap_err(), expected);
        refused(queue.admin().change(&JobChange::cancel("x"), filter.clone()).await.unwrap_err(), expected);
        refused(queue.admin().change(&JobChange::SetPriority(7), filter.clone()).await.unwrap_err(), expected);
    }
    let before_all = SystemTime::UNIX_EPOCH - Duration::from_secs(63_000_000_000);
    refused(
        queue.admin().list(&JobFilter::all().since(before_all), None, 1).await.unwrap_err(),
        "the filter's since is outside",
    );
    refused(
        queue.admin().list(&JobFilter::all().until(before_all), None, 1).await.unwrap_err(),
        "the filter's until is outside",
    );
    let one = "EXEC [$(schema)].[peek] @queue = N'work', @job_id = 1";
    let mut session = fixture.session().await;
    for beside in
        ["@newest_first = 1", "@since = '2020-01-01'", "@until = '2020-01-01'", "@worker_id = NULL, @state = 'dead'"]
    {
        assert_eq!(session.refusal(&format!("{one}, {beside}")).await.0, 58003, "{beside}");
    }
    assert_eq!(fixture.job_counts().await.ready, 3);
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_backwards_or_between_times_or_of_a_worker_costs_its_rows() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "page_costs", QueueOptions::default()).await;
    let mut session = fixture.session().await;
    // Five thousand ended in each of four milliseconds.
    let (count, alike) = (20_000, 5_000);
    add_ended(&mut session, count, alike).await;
    let costs = async |filter: &JobFilter, after: Option<&JobCursor>, at_most: u64| {
        let before = server.entries_read();
        let page = fixture.queue.admin().list(filter, after, 100).await.unwrap();
        let read = server.entries_read() - before;
        println!("{filter:?}: {} jobs, {read} entries read", page.jobs.len());
        assert!(read <= at_most, "{filter:?}: {read} entries read");
        page
    };
    for state in ENDED {
        let newest_first = JobFilter::from(state).newest_first();
        // Two thousand rows down, and then where another millisecond begins.
        let deep = fixture.queue.admin().list_ids(&newest_first, None, 2_000).await.unwrap().next;
        let border = fixture.queue.admin().list_ids(&newest_first, None, 4_950).await.unwrap().next;
        for after in [None, deep.as_ref(), border.as_ref()] {
            assert_eq!(costs(&newest_first, after, 300).await.jobs.len(), 100);
        }
        // Each job's entry, and twice its row.
        for newest_first in [false, true] {
            for (since, until, jobs) in [(2, 3, 100), (1, 2, 100), (4, 9, 0), (2, 2, 0)] {
                let mut filter = JobFilter::from(state).since(at(since)).until(at(until));
                filter = if newest_first { filter.newest_first() } else { filter };
                let page = costs(&filter, None, 3 * jobs + 10).await;
                assert_eq!(page.jobs.len() as u64, jobs, "{filter:?}");
            }
        }
    }

    let claimed = format!(
        "INSERT [$(schema)].[jobs] (job_id, queue_id, payload_utf16, payload, state, priority, enqueued_at, due_at, worker_id, claimed_at)
         SELECT NEXT VALUE FOR [$(schema)].[job_ids], 1, 0, 0x7B7D, 2, 0, '2020-01-01', '2020-01-01',
                CAST(CONCAT('00000000-0000-0000-0000-00000000000', n.value % 4) AS uniqueidentifier), '2020-01-01'
         FROM GENERATE_SERIES(1, {count}) AS n"
    );
    session.sql(&claimed).await;
    let of_worker = JobFilter::from(JobState::Claimed).worker(WorkerId(uuid::Uuid::from_u128(2)));
    let deep = fixture.queue.admin().list_ids(&of_worker, None, 4_000).await.unwrap().next;
    assert_eq!(costs(&of_worker, None, 300).await.jobs.len(), 100);
    // SQL Server seeks by the clustered key at the end of the index, too. The dev server steps over what this worker
    // holds, and over nothing of the other three.
    assert_eq!(costs(&of_worker, deep.as_ref(), 4_300).await.jobs.len(), 100);
}

#[test]
fn a_filter_is_json_with_what_it_asks_for() {
    let filter = JobFilter::from(JobState::Dead).kind("resize").since(at(7)).older_than(Duration::from_millis(1_500));
    let json = serde_json::to_value(filter.newest_first().cut_at(7)).unwrap();
    let expected = serde_json::json!({
        "state": "dead", "kind": "resize", "since": "2020-01-01T00:00:00.007Z", "older_than_s": 1.5,
    });
    assert_eq!(json, expected);
    assert_eq!(serde_json::to_value(JobFilter::all()).unwrap(), serde_json::json!({}));
}
