//! What a job notes while it runs: its next attempt finds the checkpoint, whatever ended the one before, and operators
//! see how far it is.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use readpast::admin::{CompletionPolicy, JobChange, JobState, QueueOptions};
use readpast::{BoxError, Context, Error, Handlers, Job, JobError, JobId, NewJob, Worker};

use crate::support::{Fixture, Session, WorkerSession, number, until};

/// The checkpoints that the attempts of the one job found.
#[derive(Clone, Default)]
struct Found(Arc<Mutex<Vec<Option<Vec<u8>>>>>);

impl Found {
    fn note(&self, job: &Job) {
        self.0.lock().unwrap().push(job.checkpoint().map(<[u8]>::to_vec));
    }

    fn all(&self) -> Vec<Option<Vec<u8>>> {
        self.0.lock().unwrap().clone()
    }
}

/// Each attempt notes twice, and ends as `end` says; the third is done.
fn noting(found: &Found, end: impl Fn() -> BoxError + Send + Sync + 'static) -> Handlers {
    let (found, attempts) = (found.clone(), AtomicU32::new(0));
    Handlers::any(move |job, context: &Context| {
        found.note(job);
        let attempt = attempts.fetch_add(1, Ordering::Relaxed) + 1;
        context.checkpoint(format!("{attempt}, first"))?;
        context.checkpoint(format!("{attempt}, last"))?;
        if attempt < 3 { Err(end()) } else { Ok(()) }
    })
}

fn expected() -> Vec<Option<Vec<u8>>> {
    vec![None, Some(b"1, last".to_vec()), Some(b"2, last".to_vec())]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_attempt_finds_the_last_checkpoint_of_one_that_failed_or_gave_the_job_back() {
    let ends: [fn() -> BoxError; 2] =
        [|| JobError::retry_in(Duration::ZERO, "again").into(), || JobError::snooze(Duration::ZERO, "later").into()];
    for end in ends {
        let fixture = Fixture::new("checkpoint_failed").await;
        fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
        let found = Found::default();
        let worker = Worker::builder(&fixture.queue, noting(&found, end)).start().await.unwrap();
        worker.drain().await.unwrap();
        assert_eq!(found.all(), expected());
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_that_is_requeued_goes_on_where_it_was() {
    let fixture = Fixture::with("checkpoint_dead", QueueOptions::default().max_attempts(1)).await;
    let job_id = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let found = Found::default();
    for _ in 0..3 {
        fixture.queue.admin().change(&JobChange::Requeue, job_id).await.unwrap();
        let handlers = {
            let found = found.clone();
            Handlers::any(move |job, context: &Context| {
                found.note(job);
                let last = job.checkpoint().map_or(0, |checkpoint| checkpoint[0]);
                context.checkpoint([last + 1])?;
                Err::<(), BoxError>("no".into())
            })
        };
        Worker::builder(&fixture.queue, handlers).start().await.unwrap().drain().await.unwrap();
    }
    assert_eq!(found.all(), [None, Some(vec![1]), Some(vec![2])]);
    fixture.remove().await;
}

/// Runs until it is cancelled, after it has noted something.
fn endless(found: &Found) -> Handlers {
    let found = found.clone();
    Handlers::any(move |job, context: &Context| {
        found.note(job);
        if found.all().len() > 1 {
            return Ok(());
        }
        context.checkpoint("so far")?;
        context.progress(0.5, "half of it");
        while !context.is_cancelled() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(BoxError::from("cancelled"))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_running_job_notes_is_seen_and_survives_a_worker_that_is_gone_at_once() {
    let mut fixture = Fixture::new("checkpoint_gone").await;
    fixture.config.worker.take_over = true; // the next worker does not wait for the lease
    let job_id = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let found = Found::default();
    let worker = Worker::builder(&fixture.queue, endless(&found)).config(&fixture.config.worker).start().await.unwrap();
    let progress = loop {
        let progress = fixture.queue.admin().progress_of(&[job_id, JobId(job_id.0 + 1)]).await.unwrap();
        if !progress.is_empty() {
            break progress;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(progress.len(), 1);
    assert_eq!((progress[0].job_id, progress[0].fraction), (job_id, Some(0.5)));
    assert_eq!((progress[0].text.as_deref(), progress[0].checkpoint_bytes), (Some("half of it"), 6));
    worker.stop_handle().stop_now();
    worker.run().await.unwrap();

    let next = Worker::builder(&fixture.queue, endless(&found)).config(&fixture.config.worker).start().await.unwrap();
    next.drain().await.unwrap();
    assert_eq!(found.all(), [None, Some(b"so far".to_vec())]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_at_the_shutdown_deadline_keeps_what_it_noted_last() {
    let mut fixture = Fixture::new("checkpoint_deadline").await;
    fixture.config.worker.shutdown_deadline = Duration::ZERO;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let found = Found::default();
    let worker = Worker::builder(&fixture.queue, endless(&found)).config(&fixture.config.worker).start().await.unwrap();
    let noted = found.clone();
    until("the job runs", move || !noted.all().is_empty()).await;
    worker.shutdown().await.unwrap();

    let next = Worker::builder(&fixture.queue, endless(&found)).start().await.unwrap();
    next.drain().await.unwrap();
    assert_eq!(found.all(), [None, Some(b"so far".to_vec())]);
    fixture.remove().await;
}

#[tokio::test]
async fn a_checkpoint_has_65535_bytes_at_most() {
    let context = Context::for_test(Job::for_test(NewJob::text("x")));
    context.checkpoint(vec![1; 65_535]).unwrap();
    let error = context.checkpoint(vec![2; 65_536]).unwrap_err();
    assert!(matches!(error, Error::CheckpointTooLarge { bytes: 65_536, .. }));
    assert_eq!(error.to_string(), "the checkpoint is 65536 bytes; it must be at most 65535");
    assert_eq!(context.noted_checkpoint(), Some(vec![1; 65_535]), "the one before stays");
}

/// What a worker of this crate takes from SQL Server is bounded by that.
#[tokio::test(flavor = "multi_thread")]
async fn the_procedure_takes_no_larger_checkpoint_either() {
    let fixture = Fixture::new("checkpoint_size").await;
    let mut session = fixture.session().await;
    let mut worker = WorkerSession::register(&fixture).await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let job = worker.claim_one().await;
    let note = |bytes: usize| {
        format!(
            "DECLARE @notes [$(schema)].[progress_list];
             INSERT @notes (job_id, fence, [checkpoint])
             VALUES ({}, {}, CAST(REPLICATE(CAST(' ' AS varchar(max)), {bytes}) AS varbinary(max)));
             EXEC [$(schema)].[note_progress] @worker_id = '{}', @notes = @notes",
            job.job_id, job.fence, worker.id
        )
    };
    session.sql(&note(65_535)).await;
    let refusal = session.refusal(&note(65_536)).await;
    assert_eq!(refusal, (58003, "the checkpoint of job 1 must have at most 65535 bytes".to_string()));
    let kept = "SELECT DATALENGTH([checkpoint]) AS number FROM [$(schema)].[progress]";
    assert_eq!(session.numbers(kept).await, [65_535]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_note_of_a_worker_that_lost_the_job_changes_nothing() {
    let fixture = Fixture::new("checkpoint_fence").await;
    let mut session = fixture.session().await;
    let (mut first, mut second) = (WorkerSession::register(&fixture).await, WorkerSession::register(&fixture).await);
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let note = |worker: &WorkerSession, job_id: i64, fence: i32, checkpoint: &str| {
        format!(
            "DECLARE @notes [$(schema)].[progress_list];
             INSERT @notes (job_id, fence, fraction, [checkpoint]) VALUES ({job_id}, {fence}, 0.5, {checkpoint});
             EXEC [$(schema)].[note_progress] @worker_id = '{}', @notes = @notes",
            worker.id
        )
    };
    let job = first.claim_one().await;
    assert_eq!(job.details, serde_json::Value::Null);
    session.sql(&note(&first, job.job_id, job.fence, "0x0A")).await;
    first.lose(&fixture).await;
    let again = second.claim_one().await;
    assert_eq!(again.details["checkpointed"], true);
    session.sql(&note(&second, again.job_id, again.fence, "0x0B")).await;
    // Of the worker that lost it, of the right one under the old fence, and of one that never had it.
    for (worker, fence) in [(&first, job.fence), (&second, job.fence), (&first, again.fence)] {
        session.sql(&note(worker, job.job_id, fence, "0x0C")).await;
    }
    let row = session.row("SELECT CAST([checkpoint] AS int) AS noted, fence FROM [$(schema)].[progress]").await;
    assert_eq!((number(&row, "noted"), number(&row, "fence")), (0x0B, i64::from(again.fence)));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_noted_goes_some_time_after_its_job_is_done_or_purged() {
    let fixture =
        Fixture::with("checkpoint_expire", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    for text in ["done", "dead"] {
        fixture.queue.enqueue(&NewJob::text(text).max_attempts(1)).await.unwrap();
    }
    let handlers = {
        let queue = fixture.queue.clone();
        Handlers::any(move |job, context: &Context| {
            context.checkpoint("noted")?;
            // Written while the job runs, whatever becomes of it.
            while context.block_on(queue.admin().progress_of(&[job.id()]))?.is_empty() {
                std::thread::sleep(Duration::from_millis(10));
            }
            if job.text()? == "dead" { Err(BoxError::from("no")) } else { Ok(()) }
        })
    };
    Worker::builder(&fixture.queue, handlers).start().await.unwrap().drain().await.unwrap();
    let mut session = fixture.session().await;
    let kept = async |session: &mut Session| {
        session.sql("EXEC [$(schema)].[expire] @queue = N'work'").await;
        number(&session.row("SELECT COUNT(*) AS kept FROM [$(schema)].[progress]").await, "kept")
    };
    assert_eq!(kept(&mut session).await, 1, "the dead one may be requeued");
    fixture.queue.admin().change(&JobChange::Purge, JobState::Dead).await.unwrap();
    assert_eq!(kept(&mut session).await, 0);
    fixture.remove().await;
}

/// A worker reads the checkpoints of what it holds, and of nothing that another holds or that it held before.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_read_by_its_job_s_holder_only() {
    let fixture = Fixture::new("checkpoint_holder").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let (mut first, second) = (WorkerSession::register(&fixture).await, WorkerSession::register(&fixture).await);
    let claimed = first.claim_one().await;
    let mut session = fixture.session().await;
    let note = format!(
        "DECLARE @notes [$(schema)].[progress_list];
         INSERT @notes (job_id, fence, [checkpoint]) VALUES ({}, {}, 0x01);
         EXEC [$(schema)].[note_progress] @worker_id = '{}', @notes = @notes",
        claimed.job_id, claimed.fence, first.id
    );
    session.sql(&note).await;
    for (worker, fence, expected) in
        [(&first.id, claimed.fence, 1), (&second.id, claimed.fence, 0), (&first.id, claimed.fence - 1, 0)]
    {
        let call = format!(
            "DECLARE @jobs [$(schema)].[job_list];
             INSERT @jobs (job_id, fence) VALUES ({}, {fence});
             EXEC [$(schema)].[checkpoints] @worker_id = '{worker}', @jobs = @jobs",
            claimed.job_id
        );
        assert_eq!(session.sql(&call).await.len(), expected, "{worker} {fence}");
    }
    drop((first, second, session));
    fixture.remove().await;
}
