//! docs/enqueue.md

use std::time::Duration;

use readpast::admin::{CompletionPolicy, QueueOptions};
use readpast::transaction::{create_batch_in, enqueue_in, seal_batch_in};
use readpast::{BoxError, Error, Handlers, JobEnd, Json, Needs, NewBatch, NewJob, Queue, Worker};

use crate::support::{Client, Fixture, until};

async fn one_and_many(queue: &Queue) -> Result<(), BoxError> {
    let enqueued = queue.enqueue(&NewJob::text("reports/4711.xml")).await?;
    println!("job {}", enqueued.job_id);

    let jobs: Vec<NewJob> = (0..10_000).map(|page| NewJob::text(format!("pages/{page}.png"))).collect();
    queue.enqueue_many(&jobs).await?;
    Ok(())
}

async fn everything_a_job_may_have(queue: &Queue) -> Result<(), BoxError> {
    let job = NewJob::json(&4711)?
        .kind("invoice") // chooses the handler
        .priority(-10) // smaller first; 0 otherwise
        .delay(Duration::from_secs(60)) // or .due_at(SystemTime)
        .start_within(Duration::from_secs(900)) // after that; or .start_by(SystemTime); otherwise it expires
        .max_attempts(3) // otherwise the queue's
        .time_limit(Duration::from_secs(600)) // otherwise its kind's, or the worker's
        .dedup_key("invoice-4711") // one unfinished job of this key
        .group_key("customer 17") // one at a time, in order
        .needs(Needs::new().memory(3 << 30).threads(4).token("gpu", 1)) // of its worker, while it runs
        .header("tenant", "acme"); // for the handler
    let enqueued = queue.enqueue(&job).await?;
    if enqueued.duplicate {
        println!("job {} has this key and has not ended", enqueued.job_id);
    }
    Ok(())
}

async fn in_a_transaction(client: &mut Client, schema: &str) -> Result<(), BoxError> {
    client.begin_transaction().await?;
    client.execute("INSERT dbo.orders (id) VALUES (@P1)", &[&7]).await?;
    enqueue_in(client, schema, "work", &[NewJob::json(&7)?]).await?;
    client.commit_transaction().await?;
    Ok(())
}

async fn a_whole_batch_in_a_transaction(client: &mut Client, schema: &str) -> Result<(), BoxError> {
    client.begin_transaction().await?;
    let batch = create_batch_in(client, schema, "work", &NewBatch::new().then(NewJob::text("add up"))).await?;
    enqueue_in(client, schema, "work", &[NewJob::json(&8)?.batch(batch)]).await?;
    seal_batch_in(client, schema, batch).await?;
    client.commit_transaction().await?;
    Ok(())
}

async fn in_doubt(queue: &Queue) -> Result<(), BoxError> {
    let job = NewJob::text("pay invoice 4711");
    match queue.enqueue(&job).await {
        Ok(enqueued) => println!("job {}", enqueued.job_id),
        Err(Error::EnqueueInDoubt { cause, .. }) => println!("perhaps there, perhaps not: {cause}"),
        Err(error) => println!("certainly not there: {error}"),
    }
    Ok(())
}

async fn waited_for(queue: &Queue) -> Result<Option<u64>, BoxError> {
    let job_id = queue.enqueue(&NewJob::json(&20)?).await?.job_id;
    match queue.wait(job_id, Duration::from_secs(30)).await? {
        Some(JobEnd::Done { output: Some(output) }) => return Ok(Some(serde_json::from_slice(&output)?)),
        Some(end) => println!("it ended otherwise: {end:?}"),
        None => println!("it takes longer"),
    }
    Ok(None)
}

/// The lines of a file, a part for each thousand: run again after a crash, it adds what is missing.
async fn import(queue: &Queue, lines: &[&str]) -> Result<(), BoxError> {
    let batch = queue.create_batch(&NewBatch::new().name("orders.csv")).await?;
    for (number, part) in (1..).zip(lines.chunks(1_000)) {
        let jobs: Vec<NewJob> = part.iter().map(|line| NewJob::text(*line)).collect();
        let enqueued = queue.enqueue_part(batch, number, &jobs).await?;
        println!("part {number}: {}", if enqueued.is_some() { "added" } else { "was there" });
    }
    queue.seal_batch(batch).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_in_as_the_guide_shows() {
    let fixture = Fixture::with("guide_enqueue", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let queue = &fixture.queue;
    one_and_many(queue).await.unwrap();
    assert_eq!(fixture.job_counts().await.ready, 10_001);
    everything_a_job_may_have(queue).await.unwrap();
    everything_a_job_may_have(queue).await.unwrap();
    assert_eq!(fixture.job_counts().await.scheduled, 1, "the second is a duplicate");
    in_doubt(queue).await.unwrap();
    import(queue, &["a"; 1_500]).await.unwrap();
    assert_eq!(fixture.job_counts().await.ready, 11_502);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_in_with_the_caller_s_transaction() {
    let fixture = Fixture::in_own_database("guide_orders").await;
    fixture.queue.admin().install().await.unwrap();
    fixture.queue.admin().create(QueueOptions::default()).await.unwrap();
    let mut client = fixture.client().await;
    client.execute("CREATE TABLE dbo.orders (id int NOT NULL)", &[]).await.unwrap();
    in_a_transaction(&mut client, fixture.schema()).await.unwrap();
    a_whole_batch_in_a_transaction(&mut client, fixture.schema()).await.unwrap();
    assert_eq!(fixture.job_counts().await.ready, 2);
    drop(client);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_is_waited_for() {
    let fixture = Fixture::with("guide_wait", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let handlers = Handlers::any(|job, _| Ok(Json(job.json::<u64>()? * 2)));
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let (stop, running) = (worker.stop_handle(), tokio::spawn(worker.run()));
    assert_eq!(waited_for(&fixture.queue).await.unwrap(), Some(40));
    stop.stop();
    until("the worker has ended", || running.is_finished()).await;
    fixture.remove().await;
}
