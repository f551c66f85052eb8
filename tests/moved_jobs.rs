//! Jobs that their workers move to another queue.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use readpast::{BoxError, Handlers, JobError, KindOptions, Needs, NewBatch, NewJob, OutOfMemory, Queue, Worker};

use crate::deleting::{hold_up, let_go_on, send_until_it_waits};
use crate::support::{Claimed, Fixture, WorkerSession, changed, number, text};

/// A second queue, and a worker of each.
async fn two_queues(fixture: &Fixture) -> (WorkerSession, WorkerSession) {
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'large', @max_attempts = 3").await;
    (WorkerSession::register(fixture).await, WorkerSession::register_for(fixture, "large").await)
}

/// The library's queue of this name.
async fn queue(fixture: &Fixture, name: &str) -> Queue {
    let config = changed(fixture.config.clone(), |config| config.queue.name = name.to_owned());
    Queue::connect(&config).await.unwrap()
}

/// The job's state, its queue, and its error.
async fn standing(fixture: &Fixture, job: i64) -> (i64, String, Option<String>) {
    let sql = "SELECT j.state, q.name, j.error FROM [$(schema)].[jobs] AS j
               INNER JOIN [$(schema)].[queues] AS q ON q.queue_id = j.queue_id WHERE j.job_id = ";
    let row = fixture.session().await.row(&format!("{sql}{job}")).await;
    (number(&row, "state"), text(&row, "name").unwrap(), text(&row, "error"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_job_keeps_all_but_its_attempts() {
    let fixture = Fixture::new("moved").await;
    let (mut work, mut large) = two_queues(&fixture).await;
    let batch = queue(&fixture, "large").await.create_batch(&NewBatch::new()).await.unwrap();
    let job = NewJob::text("scene").kind("render").priority(7).header("tenant", "acme").batch(batch).dedup_key("k");
    let id = fixture.queue.enqueue(&job).await.unwrap().job_id;
    let first = work.claim_one().await;
    assert_eq!(work.finish(&[first.retry(0, "first")]).await, []);
    let job = work.claim_one().await;
    let note = "DECLARE @notes [$(schema)].[progress_list];
                INSERT @notes (job_id, fence, [checkpoint]) VALUES (JOB, FENCE, 0x07);
                EXEC [$(schema)].[note_progress] @worker_id = 'WORKER', @notes = @notes;";
    let note = note.replace("JOB", &job.job_id.to_string()).replace("FENCE", &job.fence.to_string());
    work.session.sql(&note.replace("WORKER", &work.id.to_string())).await;
    assert_eq!(work.move_jobs(&[(&job, "large")], &[]).await, []);
    assert_eq!(work.move_jobs(&[(&job, "large")], &[]).await, [(job.job_id, "lost".to_owned())], "once only");
    assert_eq!(standing(&fixture, job.job_id).await, (0, "large".to_owned(), Some("no".to_owned())));

    // The first queue no longer knows it: its key is free, and the queue can be deleted.
    assert_eq!(work.claim(1).await, []);
    let again = fixture.queue.enqueue(&NewJob::text("other").dedup_key("k")).await.unwrap();
    assert_ne!(again.job_id, id);
    let moved = large.claim_one().await;
    let expected = Claimed { attempt: 1, max_attempts: 3, fence: job.fence + 1, ..job.clone() };
    let Claimed { waited_ms, age_ms, details, .. } = &moved;
    let expected = Claimed { waited_ms: *waited_ms, age_ms: *age_ms, details: details.clone(), ..expected };
    assert_eq!(moved, expected);
    assert_eq!((&details["headers"]["tenant"], &details["checkpointed"]), (&"acme".into(), &true.into()));
    let attempts = queue(&fixture, "large").await.admin().attempts(id).await.unwrap();
    let attempts: Vec<_> = attempts
        .iter()
        .map(|attempt| (attempt.attempt, attempt.error.as_deref().unwrap(), attempt.queue.as_deref().unwrap()))
        .collect();
    assert_eq!(attempts, [(1, "first", "work"), (2, "no", "work")]);

    work.lose(&fixture).await;
    fixture.queue.admin().delete(true).await.unwrap();
    assert_eq!(fixture.session().await.number("SELECT COUNT(*) FROM [$(schema)].[progress]").await, 1);

    // The batch counts it once, when it is done.
    fixture.sql(&format!("EXEC [$(schema)].[seal_batch] @batch_id = {batch}")).await;
    let open = "SELECT COUNT(*) FROM [$(schema)].[batch_counts] WHERE ended_at IS NULL AND dead = 0 AND done = 0";
    assert_eq!(fixture.session().await.number(open).await, 1);
    assert_eq!(large.finish(&[moved.done()]).await, []);
    let done = "SELECT COUNT(*) FROM [$(schema)].[batch_counts] WHERE ended_at IS NOT NULL AND dead = 0 AND done = 1";
    assert_eq!(fixture.session().await.number(done).await, 1);
    assert_eq!(fixture.session().await.number("SELECT COUNT(*) FROM [$(schema)].[attempts]").await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_moved_is_dead_and_nothing_else_of_the_call_fails() {
    let fixture = Fixture::new("not_moved").await;
    let (mut work, _large) = two_queues(&fixture).await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'once', @delivery = 'at_most_once'").await;
    let key = NewJob::text("").dedup_key("k");
    let large = queue(&fixture, "large").await;
    large.enqueue(&key).await.unwrap();
    let mut jobs = vec![key.clone(), NewJob::text("")];
    jobs.extend((0..5).map(|_| NewJob::text("")));
    let ids: Vec<_> = fixture.queue.enqueue_many(&jobs).await.unwrap().iter().map(|job| job.job_id.0).collect();
    fixture.sql(&format!("UPDATE [$(schema)].[jobs] SET moves = 10 WHERE job_id = {}", ids[1])).await;
    let jobs = work.claim(7).await;
    let long = "x".repeat(129);
    let to = ["large", "large", "nowhere", "work", "once", &long];
    let moves: Vec<_> = jobs.iter().zip(to).collect();
    let dead: Vec<_> = ids[..6].iter().map(|id| (*id, "dead".to_owned())).collect();
    assert_eq!(work.move_jobs(&moves, &[jobs[6].done()]).await, dead);
    let why = [
        "an unfinished job there has its dedup_key",
        "it was moved ten times already",
        "there is no such queue",
        "the job is in this queue",
        "its delivery is at_most_once",
        "there is no such queue",
    ];
    for ((id, to), why) in ids.iter().zip(to).zip(why) {
        let error = format!("cannot move the job to queue '{to}': {why}; no");
        assert_eq!(standing(&fixture, *id).await, (4, "work".to_owned(), Some(error)), "{to}");
    }
    let rest = "SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE job_id = ";
    assert_eq!(fixture.session().await.number(&format!("{rest}{}", ids[6])).await, 0, "the other one is done");
    // Requeued, it may be moved again.
    fixture.sql(&format!("EXEC [$(schema)].[requeue] @queue = N'work', @job_id = {}", ids[1])).await;
    let job = work.claim_one().await;
    assert_eq!(work.move_jobs(&[(&job, "large")], &[]).await, []);
    assert_eq!(standing(&fixture, ids[1]).await.1, "large");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_moves_ends() {
    let fixture = Fixture::new("move_loop").await;
    let (mut work, mut large) = two_queues(&fixture).await;
    fixture.queue.enqueue(&NewJob::text("")).await.unwrap();
    for _ in 0..5 {
        let job = work.claim_one().await;
        assert_eq!((work.move_jobs(&[(&job, "large")], &[]).await, job.attempt), (vec![], 1));
        let job = large.claim_one().await;
        assert_eq!(large.move_jobs(&[(&job, "work")], &[]).await, []);
    }
    let job = work.claim_one().await;
    assert_eq!(work.move_jobs(&[(&job, "large")], &[]).await, [(job.job_id, "dead".to_owned())]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_job_of_a_group_passes_its_turn_on_and_waits_for_another() {
    let fixture = Fixture::new("moved_turn").await;
    let (mut work, mut large) = two_queues(&fixture).await;
    let member = NewJob::text("").group_key("tenant");
    let other = queue(&fixture, "large").await;
    let ids: Vec<_> = fixture.queue.enqueue_many(&[member.clone(), member.clone()]).await.unwrap();
    other.enqueue(&member).await.unwrap();
    let (first, there) = (work.claim_one().await, large.claim_one().await);
    assert_eq!(work.claim(1).await, []);
    assert_eq!(work.move_jobs(&[(&first, "large")], &[]).await, []);
    assert_eq!(standing(&fixture, first.job_id).await.0, 6, "it waits");
    assert_eq!(work.claim_one().await.job_id, ids[1].job_id.0, "the next one has the turn");
    assert_eq!(large.claim(1).await, []);
    assert_eq!(large.finish(&[there.done()]).await, []);
    let moved = large.claim_one().await;
    assert_eq!((moved.job_id, moved.attempt), (first.job_id, 1));
    assert_eq!(large.finish(&[moved.done()]).await, []);
    let turns = "SELECT SUM(in_turn) FROM [$(schema)].[groups]";
    assert_eq!(fixture.session().await.number(turns).await, 1, "that of the job that runs");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_cancellation_was_requested_is_not_moved() {
    let fixture = Fixture::new("moved_cancelled").await;
    let (mut work, mut large) = two_queues(&fixture).await;
    fixture.queue.enqueue(&NewJob::text("")).await.unwrap();
    let job = work.claim_one().await;
    fixture.sql(&format!("EXEC [$(schema)].[cancel] @queue = N'work', @job_id = {}", job.job_id)).await;
    assert_eq!(work.move_jobs(&[(&job, "large")], &[]).await, []);
    assert_eq!(standing(&fixture, job.job_id).await.0, 5);
    assert_eq!(large.claim(1).await, []);
    fixture.remove().await;
}

/// The other queue's claims have passed its id.
#[tokio::test(flavor = "multi_thread")]
async fn claims_find_a_moved_job_that_is_older_than_what_they_have_read() {
    let fixture = Fixture::new("moved_marks").await;
    let (mut work, mut large) = two_queues(&fixture).await;
    fixture.queue.enqueue(&NewJob::text("")).await.unwrap();
    let job = work.claim_one().await;
    queue(&fixture, "large").await.enqueue(&NewJob::text("")).await.unwrap();
    large.claim_one().await;
    fixture.sql("UPDATE [$(schema)].[marks] SET job_id = 1000").await;
    assert_eq!(work.move_jobs(&[(&job, "large")], &[]).await, []);
    assert_eq!(large.claim_one().await.job_id, job.job_id);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_moved_job_learns_how_it_ends() {
    let fixture = Fixture::new("moved_wait").await;
    let (mut work, mut large) = two_queues(&fixture).await;
    let id = fixture.queue.enqueue(&NewJob::text("")).await.unwrap().job_id;
    let job = work.claim_one().await;
    assert_eq!(work.move_jobs(&[(&job, "large")], &[]).await, []);
    let outcomes = format!(
        "DECLARE @jobs [$(schema)].[id_list]; INSERT @jobs VALUES ({id});
         EXEC [$(schema)].[outcomes] @queue = N'work', @jobs = @jobs"
    );
    let rows = async || {
        let results = fixture.session().await.try_sql(&outcomes).await.unwrap();
        results.into_iter().flatten().map(|row| text(&row, "state").unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(rows().await, [] as [&str; 0], "neither finished nor gone");
    let job = large.claim_one().await;
    assert_eq!(large.finish(&[job.dead("too large even for this")]).await, []);
    assert_eq!(rows().await, ["dead"]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_cancelled_with_a_job_that_is_being_moved() {
    let fixture = Fixture::new("moved_batch").await;
    let (mut work, mut large) = two_queues(&fixture).await;
    let batch = fixture.queue.create_batch(&NewBatch::new()).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("").batch(batch)).await.unwrap();
    let job = work.claim_one().await;
    // cancel_batch has read the old queue (NOLOCK), and waits for the row. The move is simulated by its effect.
    let mut mover = fixture.session().await;
    mover
        .sql(&format!(
            "BEGIN TRANSACTION; SELECT 1 FROM [$(schema)].[jobs] WITH (UPDLOCK) WHERE job_id = {}",
            job.job_id
        ))
        .await;
    let mut canceller = fixture.session().await;
    let sql = format!("EXEC [$(schema)].[cancel_batch] @batch_id = {batch}");
    let waiting = tokio::spawn(async move { canceller.try_sql(&sql).await.unwrap().len() });
    let blocked = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id = @@SPID";
    while mover.number(blocked).await == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let to = "(SELECT queue_id FROM [$(schema)].[queues] WHERE name = N'large')";
    let set =
        format!("UPDATE [$(schema)].[jobs] SET queue_id = {to}, state = 0, moves = 1 WHERE job_id = {}", job.job_id);
    mover.sql(&format!("{set}; COMMIT TRANSACTION")).await;
    waiting.await.unwrap();
    assert_eq!(standing(&fixture, job.job_id).await.0, 5);
    assert_eq!(large.claim(1).await, []);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_being_moved_is_cancelled() {
    let fixture = Fixture::new("moved_cancel").await;
    let (mut work, mut large) = two_queues(&fixture).await;
    fixture.queue.enqueue(&NewJob::text("")).await.unwrap();
    let job = work.claim_one().await;
    let row = "FROM [$(schema)].[jobs] WITH (UPDLOCK)";
    let mut mover = fixture.session().await;
    mover.sql(&format!("BEGIN TRANSACTION; SELECT 1 {row}")).await;
    let mut canceller = fixture.session().await;
    let sql = format!("EXEC [$(schema)].[cancel] @queue = N'work', @job_id = {}", job.job_id);
    let waiting = tokio::spawn(async move { canceller.try_sql(&sql).await.unwrap() });
    let blocked = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id = @@SPID";
    while mover.number(blocked).await == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let to = "(SELECT queue_id FROM [$(schema)].[queues] WHERE name = N'large')";
    let set = format!("UPDATE [$(schema)].[jobs] SET queue_id = {to}, state = 0, moves = 1");
    mover.sql(&format!("{set}; COMMIT TRANSACTION")).await;
    let rows: Vec<_> = waiting.await.unwrap().into_iter().flatten().collect();
    assert_eq!(rows.iter().map(|row| number(row, "job_id")).collect::<Vec<_>>(), [job.job_id]);
    assert_eq!(standing(&fixture, job.job_id).await.0, 5);
    assert_eq!(large.claim(1).await, []);
    fixture.remove().await;
}

/// Nobody's open transaction holds up the duties of a worker, of which one moves jobs.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_key_a_transaction_has_added_does_not_wait_for_it() {
    let fixture = Fixture::new("moved_key").await;
    let (mut work, _large) = two_queues(&fixture).await;
    let id = fixture.queue.enqueue(&NewJob::text("").dedup_key("k")).await.unwrap().job_id.0;
    let mut producer = fixture.session().await;
    let enqueue = "EXEC [$(schema)].[enqueue] @queue = N'large', @text = N'x', @dedup_key = N'k'";
    producer.sql(&format!("BEGIN TRANSACTION; {enqueue}")).await;
    let job = work.claim_one().await;
    assert_eq!(work.move_jobs(&[(&job, "large")], &[]).await, [(id, "dead".to_owned())]);
    producer.sql("ROLLBACK TRANSACTION").await;

    // The producer comes between the look for the key and the move.
    fixture.sql(&format!("EXEC [$(schema)].[requeue] @queue = N'work', @job_id = {id}")).await;
    let job = work.claim_one().await;
    let mut holder = hold_up(&fixture, include_str!("../sql/236_move_jobs.sql"), "    SET XACT_ABORT OFF;").await;
    let call = format!(
        "EXEC [$(schema)].[finish_one] @queue = N'work', @worker_id = '{}', @job_id = {id}, @fence = {},
              @outcome = 2, @move_to = N'large'",
        work.id, job.fence
    );
    let moving = send_until_it_waits(&fixture, &call).await;
    producer.sql(&format!("BEGIN TRANSACTION; {enqueue}")).await;
    let_go_on(&mut holder).await;
    assert_eq!(moving.await.unwrap().1, None);
    assert_eq!(standing(&fixture, id).await.0, 4);
    producer.sql("ROLLBACK TRANSACTION").await;
    drop((producer, holder));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_deleted_while_a_job_is_moved_to_it_gets_no_job() {
    let fixture = Fixture::new("moved_behind").await;
    let (mut work, mut large) = two_queues(&fixture).await;
    let id = fixture.queue.enqueue(&NewJob::text("")).await.unwrap().job_id.0;
    let job = work.claim_one().await;
    large.lose(&fixture).await;
    let mut holder = hold_up(&fixture, include_str!("../sql/236_move_jobs.sql"), "INSERT @keyed").await;
    let call = format!(
        "EXEC [$(schema)].[finish_one] @queue = N'work', @worker_id = '{}', @job_id = {id}, @fence = {},
              @outcome = 2, @move_to = N'large'",
        work.id, job.fence
    );
    let moving = send_until_it_waits(&fixture, &call).await;
    queue(&fixture, "large").await.admin().delete(false).await.unwrap();
    let_go_on(&mut holder).await;
    assert_eq!(moving.await.unwrap().1, Some(58_001));
    assert_eq!(work.session.sql(&call).await.len(), 1, "repeated, it is reported as dead");
    assert_eq!(standing(&fixture, id).await.0, 4);
    drop(holder);
    fixture.remove().await;
}

/// The changes without a queue come first in the order of the queues.
#[tokio::test(flavor = "multi_thread")]
async fn one_call_moves_a_job_and_changes_the_needs_of_another() {
    let fixture = Fixture::new("moved_and_grown").await;
    let (mut work, _large) = two_queues(&fixture).await;
    fixture.queue.enqueue_many(&[NewJob::text(""), NewJob::text("")]).await.unwrap();
    let jobs = work.claim(2).await;
    let call = format!(
        "DECLARE @jobs [$(schema)].[finish_list], @changes [$(schema)].[change_list];
         INSERT @jobs (job_id, fence, outcome) VALUES ({0}, 1, 1), ({1}, 1, 2);
         INSERT @changes (job_id, queue, needs) VALUES ({0}, NULL, N'{{\"memory\":7}}'), ({1}, N'large', NULL);
         EXEC [$(schema)].[finish_with] @queue = N'work', @worker_id = '{2}', @jobs = @jobs, @changes = @changes",
        jobs[0].job_id, jobs[1].job_id, work.id
    );
    assert_eq!(work.session.sql(&call).await.len(), 0);
    assert_eq!(standing(&fixture, jobs[1].job_id).await, (0, "large".to_owned(), None));
    assert_eq!(work.claim_one().await.details["needs"]["memory"], 7);
    fixture.remove().await;
}

/// Through the library: the handlers of one worker move, those of the other do the work.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_moves_its_job() {
    let fixture = Fixture::new("move_to").await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'large'").await;
    let small = NewJob::text("small");
    let ids = fixture.queue.enqueue_many(&[NewJob::text("huge"), small, NewJob::text("lost")]).await.unwrap();
    let handlers = Handlers::any(|job, _| match &*job.text()? {
        "huge" => Err::<(), BoxError>(JobError::move_to("large", "too large").into()),
        "lost" => Err(JobError::move_to("x".repeat(1_000), "too large").into()),
        _ => Ok(()),
    });
    let stats = Worker::builder(&fixture.queue, handlers).start().await.unwrap().drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.dead), (1, 1, 1));
    let large = queue(&fixture, "large").await;
    let attempts = large.admin().attempts(ids[0].job_id).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert!(attempts[0].run.unwrap() < Duration::from_secs(60));
    assert_eq!(attempts[0].error.as_deref(), Some("too large"));
    let done = Handlers::any(|_, _| Ok(()));
    let stats = Worker::builder(&large, done).start().await.unwrap().drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.dead), (1, 0, 0));
    let (state, queue, error) = standing(&fixture, ids[2].job_id.0).await;
    assert_eq!((state, queue.as_str()), (4, "work"));
    assert!(error.unwrap().contains("': there is no such queue; too large"), "the name was cut");
    fixture.remove().await;
}

/// A worker that does anything with its jobs, among others moves them, and is lost now and then.
async fn at_random(fixture: &Fixture, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (own, other) = if seed.is_multiple_of(2) { ("work", "large") } else { ("large", "work") };
    let mut worker = WorkerSession::register_for(fixture, own).await;
    for _ in 0..60 {
        let jobs = if random.bool() { worker.claim_runs(4, 2, 3).await } else { worker.claim(3).await };
        if random.u8(..12) == 0 {
            worker.lose(fixture).await;
            worker = WorkerSession::register_for(fixture, own).await;
            continue;
        }
        let (mut moves, mut others) = (Vec::new(), Vec::new());
        for job in &jobs {
            match random.u8(..7) {
                0 => others.push(job.done()),
                1 => others.push(job.retry(0, "later")),
                2 => others.push(job.snooze(0, "later")),
                3 => others.push(job.dead("no")),
                _ => moves.push((job, other)),
            }
        }
        let reports = worker.move_jobs(&moves, &others).await;
        assert!(reports.iter().all(|(_, result)| result == "dead"), "seed {seed}: {reports:?}");
    }
    worker.lose(fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_moved_at_random_end_once_and_leave_no_turn() {
    const JOBS: usize = 40;
    for round in 0..4 {
        let fixture = Fixture::new("moved_at_random").await;
        let create = "EXEC [$(schema)].[create_queue] @queue = QUEUE, @max_attempts = 1000, @group_limit = LIMIT,
                      @retry_passes = PASSES";
        for (queue, limit, passes) in [("N'work'", "1", "0"), ("N'large'", "2", "1"), ("N'ends'", "1", "0")] {
            let create = create.replace("QUEUE", queue).replace("LIMIT", limit).replace("PASSES", passes);
            fixture.sql(&create).await;
        }
        if round % 2 == 1 {
            for (queue, dead) in [("work", "large"), ("large", "work")] {
                let set = "EXEC [$(schema)].[create_queue]";
                fixture.sql(&format!("{set} @queue = N'{queue}', @dead_queue = N'{dead}'")).await;
            }
        }
        let end = NewBatch::new().then(NewJob::text("all have ended"));
        let batch = queue(&fixture, "ends").await.create_batch(&end).await.unwrap();
        let jobs = (0..JOBS).map(|number| match number % 4 {
            0 => NewJob::text("alone").batch(batch),
            group => NewJob::text("of a group").batch(batch).group_key(format!("group {group}")),
        });
        fixture.queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.unwrap();
        fixture.sql(&format!("EXEC [$(schema)].[seal_batch] @batch_id = {batch}")).await;
        let worker = |number: u64| at_random(&fixture, round * 4 + number);
        tokio::join!(worker(0), worker(1), worker(2), worker(3));

        // What is left is done.
        let (mut work, mut large) =
            (WorkerSession::register_for(&fixture, "work").await, WorkerSession::register_for(&fixture, "large").await);
        let open = "SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE batch_id IS NOT NULL AND ended = 0";
        let mut session = fixture.session().await;
        let mut looks = 0;
        while session.number(open).await > 0 {
            looks += 1;
            assert!(looks < 1_000, "round {round}: nobody can claim what is open");
            for (worker, name) in [(&mut work, "work"), (&mut large, "large")] {
                session.sql(&format!("EXEC [$(schema)].[promote] @queue = N'{name}'")).await;
                let mut jobs = worker.claim(100).await;
                if jobs.is_empty() {
                    jobs = worker.claim_alone(1).await;
                }
                let done: Vec<_> = jobs.iter().map(|job| job.done()).collect();
                assert_eq!(worker.finish(&done).await, []);
            }
        }
        for name in ["work", "large"] {
            session.sql(&format!("EXEC [$(schema)].[promote] @queue = N'{name}'")).await;
        }
        let row = session.row("SELECT done, dead, cancelled FROM [$(schema)].[batch_counts]").await;
        let ended = number(&row, "done") + number(&row, "dead");
        assert_eq!((ended, number(&row, "cancelled")), (JOBS as i64, 0), "round {round}");
        let dead = session.number("SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE state = 4").await;
        assert_eq!(number(&row, "dead"), dead, "round {round}");
        let ends = "SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE state = 0";
        assert_eq!(session.number(ends).await, 1, "round {round}: one follow-up");
        let turns = "SELECT (SELECT COUNT(*) FROM [$(schema)].[groups] WHERE in_turn <> 0)
                        + (SELECT COUNT(*) FROM [$(schema)].[group_events])";
        assert_eq!(session.number(turns).await, 0, "round {round}: turns that are left");
        let strays = "SELECT COUNT(*) FROM [$(schema)].[attempts] AS a
                      WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WHERE j.job_id = a.job_id)";
        assert_eq!(session.number(strays).await, 0, "round {round}");
        drop((session, work, large));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_needs_of_a_job_grow_for_its_next_attempt() {
    let fixture = Fixture::new("needs_grow").await;
    let grow = OutOfMemory::Grow { factor: 2.0, max: 4 << 20 };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let handlers = Handlers::new()
        .kind("simulate", move |job, _| {
            noted.lock().unwrap().push(job.needs().cloned());
            Err::<(), BoxError>(JobError::out_of_memory("killed").into())
        })
        .options("simulate", KindOptions::new().on_out_of_memory(grow).retry(Duration::ZERO, Duration::ZERO));
    let needs = Needs::new().memory(1 << 20).threads(1);
    let job = NewJob::text("").kind("simulate").needs(needs.clone());
    fixture.queue.enqueue(&job).await.unwrap();
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.retried, stats.dead), (2, 1));
    let grown = [1, 2, 4].map(|mib| Some(needs.clone().memory(mib << 20)));
    assert_eq!(*seen.lock().unwrap(), grown);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn needs_of_a_job_that_had_none_are_returned_by_its_next_claim() {
    let fixture = Fixture::new("needs_new").await;
    fixture.queue.enqueue(&NewJob::text("")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let finish = |job: &Claimed, id: uuid::Uuid, needs: &str| {
        format!(
            "EXEC [$(schema)].[finish_one] @queue = N'work', @worker_id = '{id}', @job_id = {}, @fence = {},
                  @outcome = 1, @needs = N'{needs}'",
            job.job_id, job.fence
        )
    };
    let job = worker.claim_one().await;
    let wrong = finish(&job, worker.id, r#"{"memory":0}"#);
    assert_eq!(worker.session.refusal(&wrong).await.0, 58003);
    let right = finish(&job, worker.id, r#"{"memory":7}"#);
    assert_eq!(worker.session.sql(&right).await.len(), 0);
    assert_eq!(worker.claim_one().await.details["needs"]["memory"], 7);
    fixture.remove().await;
}
