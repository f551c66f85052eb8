//! The queue that dead jobs go to.

use readpast::admin::{Delivery, QueueOptions};
use readpast::{BoxError, Handlers, JobError, NewBatch, NewJob, Queue, Worker};

use crate::support::{Fixture, WorkerSession, changed, number, text};

/// The fixture's queue, with two attempts, and the queue `broken` for its dead jobs.
async fn two_queues(test_name: &str) -> (Fixture, Queue) {
    let fixture = Fixture::new(test_name).await;
    let broken = fixture.queue.named("broken").unwrap();
    broken.admin().create(QueueOptions::default()).await.unwrap();
    let options = QueueOptions::default().max_attempts(2).dead_queue("broken".to_owned());
    fixture.queue.admin().create(options).await.unwrap();
    (fixture, broken)
}

async fn standing(fixture: &Fixture, job: i64) -> (i64, String, Option<String>) {
    let sql = "SELECT j.state, q.name, j.error FROM [$(schema)].[jobs] AS j
               INNER JOIN [$(schema)].[queues] AS q ON q.queue_id = j.queue_id WHERE j.job_id = ";
    let row = fixture.session().await.row(&format!("{sql}{job}")).await;
    (number(&row, "state"), text(&row, "name").unwrap(), text(&row, "error"))
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_go_to_the_dead_queue() {
    let (fixture, broken) = two_queues("dead_queue").await;
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().dead_queue.as_deref(), Some("broken"));
    let batch = fixture.queue.create_batch(&NewBatch::new()).await.unwrap();
    let jobs =
        [NewJob::text("dead").batch(batch), NewJob::text("tired"), NewJob::text("cancelled"), NewJob::text("ok")];
    let ids: Vec<_> = fixture.queue.enqueue_many(&jobs).await.unwrap().iter().map(|job| job.job_id.0).collect();
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(4).await;
    fixture.sql(&format!("EXEC [$(schema)].[cancel] @queue = N'work', @job_id = {}", ids[2])).await;
    let ends = [jobs[0].dead("for good"), jobs[1].retry(0, "once"), jobs[2].dead("too"), jobs[3].done()];
    assert_eq!(worker.finish(&ends).await, []);
    assert_eq!(standing(&fixture, ids[0]).await, (0, "broken".to_owned(), Some("for good".to_owned())));
    assert_eq!((standing(&fixture, ids[2]).await.0, standing(&fixture, ids[2]).await.1.as_str()), (5, "work"));
    let tired = worker.claim_one().await;
    let dead = [(ids[1], "dead".to_owned())];
    assert_eq!(worker.finish(&[tired.retry(0, "twice")]).await, dead, "reported as dead");
    assert_eq!(worker.finish(&[tired.retry(0, "twice")]).await, [(ids[1], "lost".to_owned())]);
    assert_eq!(standing(&fixture, ids[1]).await, (0, "broken".to_owned(), Some("twice".to_owned())));
    let attempts = broken.admin().attempts(readpast::JobId(ids[1])).await.unwrap();
    let attempts: Vec<_> = attempts.iter().map(|attempt| attempt.error.as_deref().unwrap()).collect();
    assert_eq!(attempts, ["once", "twice"]);
    let counts = "SELECT dead + done FROM [$(schema)].[batch_counts]";
    assert_eq!(fixture.session().await.number(counts).await, 0, "the batch waits for it");

    // Its own dead jobs stay, and so do all when it is none any more.
    let mut mender = WorkerSession::register_for(&fixture, "broken").await;
    let jobs = mender.claim(4).await;
    assert_eq!(jobs.iter().map(|job| (job.job_id, job.attempt)).collect::<Vec<_>>(), [(ids[0], 1), (ids[1], 1)]);
    assert_eq!(mender.finish(&[jobs[0].dead("still"), jobs[1].done()]).await, []);
    assert_eq!(standing(&fixture, ids[0]).await, (4, "broken".to_owned(), Some("still".to_owned())));
    assert_eq!(fixture.session().await.number(counts).await, 1);
    fixture.queue.admin().create(QueueOptions::default().dead_queue(None)).await.unwrap();
    let id = fixture.queue.enqueue(&NewJob::text("")).await.unwrap().job_id.0;
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[job.dead("no")]).await, []);
    assert_eq!(standing(&fixture, id).await.1, "work");
    drop((worker, mender, broken));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_lost_worker_goes_to_the_dead_queue() {
    let (fixture, broken) = two_queues("dead_lost").await;
    let job = NewJob::text("killer").group_key("g").max_attempts(1);
    let id = fixture.queue.enqueue(&job).await.unwrap().job_id.0;
    fixture.queue.enqueue(&job).await.unwrap();
    for alone in [false, true] {
        let mut worker = WorkerSession::register(&fixture).await;
        let job = if alone { worker.claim_alone(1).await } else { worker.claim(1).await };
        assert_eq!(job[0].job_id, id);
        worker.lose(&fixture).await;
    }
    let error = "worker a test was lost while it held the job (attempt 1)".to_owned();
    assert_eq!(standing(&fixture, id).await, (0, "broken".to_owned(), Some(error)));
    let mut session = fixture.session().await;
    let attempts = "SELECT COUNT(*) FROM [$(schema)].[attempts]";
    assert_eq!(session.number(attempts).await, 2);
    let turns = "SELECT SUM(in_turn) FROM [$(schema)].[groups]";
    assert_eq!(session.number(turns).await, 2, "one in each queue");
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(2).await.len(), 1, "the next of the group");
    let mut mender = WorkerSession::register_for(&fixture, "broken").await;
    assert_eq!(mender.claim(1).await, [], "it must run alone there, too");
    assert_eq!(mender.claim_alone(1).await[0].job_id, id);
    drop((session, worker, mender, broken));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_go_there_is_dead_where_it_is() {
    let (fixture, broken) = two_queues("dead_stays").await;
    let key = NewJob::text("").dedup_key("k");
    broken.enqueue(&key).await.unwrap();
    let ids = fixture.queue.enqueue_many(&[key, NewJob::text("")]).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(2).await;
    assert_eq!(worker.finish(&[jobs[0].dead("no"), jobs[1].dead("no")]).await, []);
    let error = |why: &str| Some(format!("cannot move the job to queue {why}; no"));
    let taken = error("'broken': an unfinished job there has its dedup_key");
    assert_eq!(standing(&fixture, ids[0].job_id.0).await, (4, "work".to_owned(), taken));
    assert_eq!(standing(&fixture, ids[1].job_id.0).await.1, "broken");
    // Its row is gone without a trace, as after a race with create_queue.
    fixture.sql("UPDATE [$(schema)].[queues] SET dead_queue = N'gone' WHERE name = N'work'").await;
    let id = fixture.queue.enqueue(&NewJob::text("")).await.unwrap().job_id.0;
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[job.dead("no")]).await, []);
    assert_eq!(standing(&fixture, id).await, (4, "work".to_owned(), error("'gone': there is no such queue")));
    // A long error is cut, but no character.
    for (short, kept) in [(3_699, 3_699), (3_698, 3_700)] {
        let id = fixture.queue.enqueue(&NewJob::text("")).await.unwrap().job_id.0;
        let job = worker.claim_one().await;
        let long = format!("{}{}", "x".repeat(short), "\u{1f600}".repeat(50));
        assert_eq!(worker.finish(&[job.dead(&long)]).await, []);
        let error = standing(&fixture, id).await.2.unwrap();
        assert_eq!(error.split_once("; ").unwrap().1.encode_utf16().count(), kept);
    }
    // The same if a worker was lost.
    let id = fixture.queue.enqueue(&NewJob::text("").max_attempts(1)).await.unwrap().job_id.0;
    for alone in [false, true] {
        let mut worker = WorkerSession::register(&fixture).await;
        let job = if alone { worker.claim_alone(1).await } else { worker.claim(1).await };
        assert_eq!(job[0].job_id, id);
        worker.lose(&fixture).await;
    }
    let (state, _, error) = standing(&fixture, id).await;
    let why = "cannot move the job to queue 'gone': there is no such queue; worker a test was lost";
    assert!(state == 4 && error.as_ref().unwrap().starts_with(why), "{error:?}");
    drop((worker, broken));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_dead_queues_of_each_other_do_not_pass_a_job_on_forever() {
    let (fixture, broken) = two_queues("dead_circle").await;
    broken.admin().create(QueueOptions::default().dead_queue("work".to_owned())).await.unwrap();
    let id = fixture.queue.enqueue(&NewJob::text("")).await.unwrap().job_id.0;
    let mut workers = [WorkerSession::register(&fixture).await, WorkerSession::register_for(&fixture, "broken").await];
    for round in 0..11 {
        let worker = &mut workers[round % 2];
        let job = worker.claim_one().await;
        assert_eq!(worker.finish(&[job.dead("no")]).await, []);
    }
    assert_eq!(standing(&fixture, id).await.0, 4);
    drop((workers, broken));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_dead_queue_is_refused() {
    let (fixture, broken) = two_queues("dead_refused").await;
    let refused =
        async |queue: &Queue, options: QueueOptions| queue.admin().create(options).await.unwrap_err().to_string();
    let to = |name: &str| QueueOptions::default().dead_queue(name.to_owned());
    let once = fixture.queue.named("once").unwrap();
    once.admin().create(QueueOptions::default().delivery(Delivery::AtMostOnce)).await.unwrap();
    for (queue, options, why) in [
        (&fixture.queue, to("work"), "it must be another queue"),
        (&fixture.queue, to("nowhere"), "'nowhere'"),
        (&fixture.queue, to("once"), "a queue with delivery at_least_once"),
        (&fixture.queue, to(""), "dead_queue is ''; it must be the name of a queue"),
        (&once, to("work"), "at_most_once cannot have a dead_queue"),
        (&broken, QueueOptions::default().delivery(Delivery::AtMostOnce), "the dead_queue of another queue"),
    ] {
        let error = refused(queue, options).await;
        assert!(error.contains(why), "{error}");
    }
    // As if the setting had been made after delete_queue's first look.
    let delete = "DECLARE @id int = (SELECT queue_id FROM [$(schema)].[queues] WHERE name = N'broken'),
                      @outcome varchar(8);
                  EXEC [$(schema)].[delete_empty_queue] @id, N'broken', @outcome OUTPUT; SELECT @outcome AS outcome";
    assert_eq!(text(&fixture.session().await.row(delete).await, "outcome").unwrap(), "dead");
    let error = broken.admin().delete(true).await.unwrap_err().to_string();
    assert!(error.contains("it is the dead_queue of queue 'work'; change that first"), "{error}");
    fixture.queue.admin().create(QueueOptions::default().dead_queue(None)).await.unwrap();
    broken.admin().delete(true).await.unwrap();
    drop((broken, once));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_a_dead_queue_is_kept_as_its_queue_has_it() {
    let (fixture, broken) = two_queues("dead_name").await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'Work'").await;
    for (name, kept) in [("Work", "Work"), ("broken  ", "broken")] {
        fixture.sql(&format!("EXEC [$(schema)].[create_queue] @queue = N'work', @dead_queue = N'{name}'")).await;
        let stats = fixture.queue.admin().stats(None).await.unwrap();
        assert_eq!(stats.dead_queue.as_deref(), Some(kept));
    }
    drop(broken);
    fixture.remove().await;
}

/// Through the library: the job is counted as dead here, and a handler there sends it back.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_the_dead_queue_sends_jobs_back() {
    let (fixture, broken) = two_queues("dead_mended").await;
    let id = fixture.queue.enqueue(&NewJob::text("x").max_attempts(1)).await.unwrap().job_id;
    let config = changed(fixture.config.worker.clone(), |config| config.retry.base = std::time::Duration::ZERO);
    let drain = async |queue: &Queue, handlers: Handlers| {
        let worker = Worker::builder(queue, handlers).config(&config).start().await.unwrap();
        worker.drain().await.unwrap().stats
    };
    let fails = Handlers::any(|_, _| Err::<(), BoxError>("a broken disk".into()));
    assert_eq!(drain(&fixture.queue, fails).await.dead, 1);
    let back = Handlers::any(|_, _| Err::<(), BoxError>(JobError::move_to("work", "the disk is new").into()));
    let stats = drain(&broken, back).await;
    assert_eq!((stats.retried, stats.dead), (1, 0));
    assert_eq!(fixture.queue.admin().attempts(id).await.unwrap().len(), 2);
    assert_eq!(drain(&fixture.queue, Handlers::any(|_, _| Ok(()))).await.done, 1);
    drop(broken);
    fixture.remove().await;
}

/// Not two: its row is changed by the move, and the finish must not count its turn again.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_of_a_group_passes_one_turn_on() {
    let (fixture, broken) = two_queues("dead_turn").await;
    let member = NewJob::text("").group_key("g");
    fixture.queue.enqueue_many(&[member.clone(), member.clone(), member]).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[job.dead("no")]).await, []);
    assert_eq!(worker.claim(3).await.len(), 1);
    let mut mender = WorkerSession::register_for(&fixture, "broken").await;
    assert_eq!(mender.claim(3).await.len(), 1);
    drop((worker, mender, broken));
    fixture.remove().await;
}
