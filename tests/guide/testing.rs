//! docs/testing.md

use readpast::admin::QueueOptions;
use readpast::{BoxError, Config, Context, Handlers, Job, JobError, Json, NewJob, Outcome, Queue, Worker};
use readpast_devserver::{DevServer, SqlError};

fn count_words(job: &Job, _context: &Context) -> Result<Json<usize>, BoxError> {
    let text = job.text()?;
    if text.is_empty() {
        return Err(JobError::dead("there is nothing to count").into());
    }
    Ok(Json(text.split_whitespace().count()))
}

fn outcome_of(job: NewJob) -> Outcome {
    Handlers::any(count_words).run_for_test(Context::for_test(Job::for_test(job)))
}

#[test]
fn words_are_counted() {
    let done = Outcome::Done { output: Some(b"3".to_vec()), follow_ups: vec![] };
    assert_eq!(outcome_of(NewJob::text("to be or")), done);
    assert_eq!(outcome_of(NewJob::text("")), Outcome::Dead { error: "there is nothing to count".to_owned() });
}

async fn queue_on(server: &DevServer) -> Result<Queue, readpast::Error> {
    let mut config = Config::default();
    config.connection.url = server.connection_string().into();
    let queue = Queue::connect(&config).await?;
    queue.admin().install().await?;
    queue.admin().create(QueueOptions::default()).await?;
    Ok(queue)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_costs_no_job() -> Result<(), BoxError> {
    let server = DevServer::start().await?;
    let queue = queue_on(&server).await?;
    queue.enqueue_many(&["to be", "or not", "to be"].map(NewJob::text)).await?;
    server.faults().on_call("readpast.finish", |call| {
        (call == 1).then(|| SqlError::new(1205, "Transaction was deadlocked and has been chosen as the victim."))
    });
    let worker = Worker::builder(&queue, Handlers::any(count_words)).start().await?;
    let summary = worker.drain().await?;
    assert_eq!((summary.stats.done, summary.stats.lost), (3, 0));
    Ok(())
}
