//! Follow-ups: jobs that are enqueued in the transaction in which another is acknowledged.

use std::time::Duration;

use readpast::admin::{JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{BoxError, Context, Handlers, Job, NewJob, Output, Queue, Worker};

use crate::support::{Fixture, WorkerSession, changed};

async fn queue_named(fixture: &Fixture, name: &str) -> Queue {
    let config = changed(fixture.config.clone(), |config| config.queue.name = name.to_string());
    let queue = Queue::connect(&config).await.unwrap();
    queue.admin().create(QueueOptions::default()).await.unwrap();
    queue
}

async fn ready(queue: &Queue) -> Vec<String> {
    let jobs = queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
    jobs.iter().map(|job| String::from_utf8(job.payload.clone()).unwrap()).collect()
}

async fn drain(
    queue: &Queue,
    handler: impl Fn(&Job, &Context) -> Result<Output, BoxError> + Send + Sync + 'static,
) -> readpast::Summary {
    let config = changed(WorkerConfig::default(), |worker| {
        worker.retry.base = Duration::from_millis(1);
        worker.retry.max = Duration::from_millis(1);
    });
    Worker::builder(queue, Handlers::any(handler)).config(&config).start().await.unwrap().drain().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn follow_ups_come_with_the_acknowledgement_in_any_queue_and_as_they_were_given() {
    let fixture = Fixture::new("follow_ups").await;
    let (small, other) = (queue_named(&fixture, "small").await, queue_named(&fixture, "other").await);
    fixture.queue.enqueue_many(&[NewJob::text("a"), NewJob::text("b"), NewJob::text("plain")]).await.unwrap();
    let summary = drain(&fixture.queue, |job, _| {
        let name = job.text()?;
        Ok(match name.as_ref() {
            "plain" => Output::default(),
            // With an output that is sent by itself.
            "b" => Output::bytes(vec![1; 70_000]).enqueue("small", NewJob::text("b1")),
            _ => Output::bytes("output")
                .enqueue("small", NewJob::text("a1"))
                .enqueue(
                    "other",
                    NewJob::text("o")
                        .kind("k")
                        .priority(7)
                        .max_attempts(2)
                        .time_limit(Duration::from_secs(5))
                        .dedup_key("x"),
                )
                .enqueue("other", NewJob::text("duplicate").dedup_key("x"))
                .enqueue("small", NewJob::text("a2"))
                .enqueue("small", NewJob::text("later").delay(Duration::from_secs(3_600))),
        })
    })
    .await;
    assert_eq!(summary.stats.done, 3);
    let mut names = ready(&small).await;
    assert!(names.iter().position(|name| name == "a1") < names.iter().position(|name| name == "a2"), "{names:?}");
    names.sort();
    assert_eq!(names, ["a1", "a2", "b1"]);
    assert_eq!(small.admin().stats(None).await.unwrap().scheduled, 1);
    let job = other.admin().list(&JobState::Ready.into(), None, 10).await.unwrap().jobs.remove(0);
    assert_eq!((job.payload.as_slice(), job.kind.as_deref(), job.priority), (&b"o"[..], Some("k"), 7));
    assert_eq!((job.dedup_key.as_deref(), job.time_limit), (Some("x"), Some(Duration::from_secs(5))));
    assert_eq!(other.admin().stats(None).await.unwrap().ready, 1);
    drop((small, other));
    fixture.remove().await;
}

/// A chain: each job enqueues the next under the one key that the chain has.
#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_may_have_the_key_of_the_job_that_it_follows() {
    let fixture = Fixture::new("chain").await;
    fixture.queue.enqueue(&NewJob::json(&1).unwrap().dedup_key("chain")).await.unwrap();
    let summary = drain(&fixture.queue, |job, _| {
        let number: u32 = job.json()?;
        let next = NewJob::json(&(number + 1))?.dedup_key("chain");
        Ok(if number < 20 { Output::default().enqueue("work", next) } else { Output::default() })
    })
    .await;
    assert_eq!(summary.stats.done, 20);
    fixture.remove().await;
}

/// It does not wait until an idle worker looks again, which is every five seconds here.
#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_in_the_worker_s_own_queue_starts_at_once() {
    let fixture = Fixture::new("soon").await;
    let config = changed(WorkerConfig::default(), |worker| {
        worker.poll_min = Duration::from_secs(5);
        worker.poll_max = Duration::from_secs(5);
    });
    let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let handlers = Handlers::any(move |job: &Job, _: &Context| {
        let number: u32 = job.json()?;
        if number == 5 {
            sender.send(())?;
            return Ok(Output::default());
        }
        Ok::<_, BoxError>(Output::default().enqueue("work", NewJob::json(&(number + 1))?))
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let stop = worker.stop_handle();
    let running = tokio::spawn(worker.run());
    fixture.queue.enqueue(&NewJob::json(&1).unwrap()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(4), ended.recv()).await.expect("five jobs in less than one look").unwrap();
    stop.stop();
    assert_eq!(running.await.unwrap().unwrap().stats.done, 5);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_that_cannot_be_fails_its_job_and_no_other() {
    let fixture = Fixture::with("bad_follow_up", QueueOptions::default().max_attempts(2)).await;
    let other = queue_named(&fixture, "other").await;
    fixture.queue.enqueue_many(&crate::support::numbers(40)).await.unwrap();
    let summary = drain(&fixture.queue, |job, _| {
        let number: u32 = job.json()?;
        let queue = if number == 17 { "100%d" } else { "other" };
        let job = match number {
            18 => NewJob::text("").kind("two words"),
            19 => NewJob::bytes(vec![0; 70_000]),
            _ => NewJob::text("x"),
        };
        let output = Output::default().enqueue(queue, job);
        Ok(if number == 20 {
            (0..1_000).fold(output, |output, _| output.enqueue("other", NewJob::text("")))
        } else {
            output
        })
    })
    .await;
    assert_eq!((summary.stats.done, summary.stats.retried, summary.stats.dead), (36, 1, 4));
    assert_eq!(other.admin().stats(None).await.unwrap().ready, 36);
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    let mut errors: Vec<String> = dead.iter().map(|job| job.error.clone().unwrap()).collect();
    errors.sort();
    let expected = [
        "a follow-up in queue '100%d' cannot be enqueued, error 58001: there is no queue '100%d'",
        "a follow-up: cannot enqueue the job: kind is 'two words'",
        "the output has 1001 follow-ups; it must have at most 1000",
        "the payload of a follow-up is 70000 bytes; it must be at most 65535",
    ];
    assert!(errors.iter().zip(expected).all(|(error, expected)| error.starts_with(expected)), "{errors:?}");
    drop(other);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_follow_ups_of_a_lost_job_are_not_enqueued() {
    let fixture = Fixture::new("lost_follow_up").await;
    fixture.queue.enqueue_many(&[NewJob::text("kept"), NewJob::text("lost")]).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(2).await;
    let (kept, lost) = (jobs[0].job_id, jobs[1].job_id);
    let call = format!(
        "DECLARE @jobs [$(schema)].[finish_list], @follow_ups [$(schema)].[follow_up_list];
         INSERT @jobs (job_id, fence, outcome) VALUES ({kept}, 1, 0), ({lost}, 0, 0);
         INSERT @follow_ups (ordinal, job_id, queue, payload)
         VALUES (1, {kept}, N'work', 0x01), (2, {lost}, N'work', 0x02);
         EXEC [$(schema)].[finish_with] @queue = N'work', @worker_id = '{}', @jobs = @jobs, @follow_ups = @follow_ups;",
        worker.id
    );
    let mut session = fixture.session().await;
    for lost_now in [vec![lost], vec![kept, lost]] {
        assert_eq!(session.numbers(&call).await, lost_now, "sent again, it does nothing");
    }
    let payloads = session.sql("SELECT payload FROM [$(schema)].[jobs] WHERE state = 0").await;
    assert_eq!(
        payloads.iter().map(|row| crate::support::bytes(row, "payload").unwrap()).collect::<Vec<_>>(),
        [vec![1]]
    );
    drop((worker, session));
    fixture.remove().await;
}
