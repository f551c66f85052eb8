//! docs/queues.md

use std::sync::Arc;
use std::time::Duration;

use readpast::admin::{ClaimOrder, CompletionPolicy, Keep, QueueOptions, Rate, Schedule};
use readpast::crates::rayon::ThreadPoolBuilder;
use readpast::{
    BoxError, Config, Context, Error, Handlers, Job, JobError, Json, NewBatch, NewJob, Outcome, Output, Queue, Worker,
};

use crate::support::Fixture;

async fn made(config: &Config) -> Result<(Queue, Queue), BoxError> {
    let urgent = Queue::connect(config).await?;
    urgent.admin().create(QueueOptions::default()).await?;

    let nightly = urgent.named("nightly")?;
    let month = Duration::from_secs(30 * 86_400);
    let options = QueueOptions::default()
        .claim_order(ClaimOrder::Any)
        .completion(CompletionPolicy::Archive)
        .keep_done(Keep::For(month))
        .max_attempts(3);
    nightly.admin().create(options).await?;
    Ok((urgent, nightly))
}

async fn both_in_one_process(urgent: &Queue, nightly: &Queue) -> Result<(), BoxError> {
    let threads = Arc::new(ThreadPoolBuilder::new().num_threads(4).build()?);
    let first = Worker::builder(urgent, Handlers::any(price)).thread_pool(threads.clone()).weight(3).start().await?;
    let second = Worker::builder(nightly, Handlers::any(price)).thread_pool(threads).start().await?;
    let (first, second) = tokio::try_join!(first.drain(), second.drain())?;
    println!("{} and {} jobs done", first.stats.done, second.stats.done);
    Ok(())
}

async fn grouped(queue: &Queue) -> Result<(), BoxError> {
    queue.admin().create(QueueOptions::default().group_limit(1).retry_passes(false)).await?; // the defaults
    let jobs = ["create", "change", "cancel"].map(|order| NewJob::text(order).group_key("customer 17"));
    queue.enqueue_many(&jobs).await?;
    queue.admin().create(QueueOptions::default().halt_groups(true)).await?;
    Ok(())
}

async fn ageing(queue: &Queue) -> Result<(), BoxError> {
    queue.admin().create(QueueOptions::default().age_after(Duration::from_secs(60))).await?;
    Ok(())
}

async fn shared(queue: &Queue) -> Result<(), BoxError> {
    queue.admin().create(QueueOptions::default().fair(true)).await?;
    queue.admin().set_group_weight("customer 17", 3).await?; // three jobs for every one of another customer
    queue.enqueue(&NewJob::text("create").group_key("customer 17")).await?;
    Ok(())
}

async fn with_max_depth(queue: &Queue) -> Result<(), BoxError> {
    queue.admin().create(QueueOptions::default().max_depth(100_000)).await?;
    match queue.enqueue(&NewJob::text("one more")).await {
        Err(full @ Error::QueueFull { .. }) => println!("{full}"), // come back later
        other => println!("job {}", other?.job_id),
    }
    Ok(())
}

async fn limited(queue: &Queue) -> Result<(), BoxError> {
    let hundred_a_minute = Rate::new(100, Duration::from_secs(60));
    queue.admin().create(QueueOptions::default().max_running(8).rate(hundred_a_minute)).await?;
    Ok(())
}

fn simulate(job: &Job, _context: &Context) -> Result<(), BoxError> {
    if job.payload().len() > 100_000_000 {
        return Err(JobError::move_to("large", "the model is too large for this machine").into());
    }
    Ok(())
}

async fn with_dead_queue(queue: &Queue) -> Result<(), BoxError> {
    queue.named("broken")?.admin().create(QueueOptions::default()).await?;
    queue.admin().create(QueueOptions::default().dead_queue("broken".to_owned())).await?;
    Ok(())
}

async fn scheduled(queue: &Queue) -> Result<(), BoxError> {
    let close = NewJob::text("close the day").kind("close");
    let nightly = Schedule::new("nightly", "30 2 * * MON-FRI", close).time_zone("Europe/Berlin").make_up(1);
    queue.admin().set_schedule(&nightly).await?;
    queue.admin().pause_schedule("nightly").await?;
    queue.admin().resume_schedule("nightly").await?;
    queue.admin().run_schedule_now("nightly").await?;
    for schedule in queue.admin().schedules().await? {
        println!("{} comes next at {:?}", schedule.name, schedule.next_at);
    }
    queue.admin().delete_schedule("nightly").await?;
    Ok(())
}

async fn in_time(queue: &Queue) -> Result<(), BoxError> {
    let quote = NewJob::text("EUR/USD").start_within(Duration::from_secs(30));
    queue.enqueue(&quote).await?;
    Ok(())
}

async fn thumbnails_and_a_montage(queue: &Queue) -> Result<(), BoxError> {
    let thumbnails = ["a.png", "b.png"].map(|name| NewJob::text(name).kind("thumbnail"));
    let montage = NewJob::text("ab.png").kind("montage").after_earlier([0, 1]); // places in this call
    let jobs = queue.enqueue_many(&[thumbnails.as_slice(), &[montage]].concat()).await?;
    let publish = NewJob::text("ab.png").kind("publish").after([jobs[2].job_id]);
    queue.enqueue(&publish).await?;
    Ok(())
}

async fn map_and_reduce(queue: &Queue) -> Result<(), BoxError> {
    let batch = queue.create_batch(&NewBatch::new().name("May").then(NewJob::text("add up").kind("add-up"))).await?;
    let parts = (0..100).map(|part| NewJob::json(&part).map(|job| job.batch(batch)));
    queue.enqueue_many(&parts.collect::<Result<Vec<_>, _>>()?).await?;
    queue.seal_batch(batch).await?;

    let row = queue.batch(batch).await?.ok_or("it is there for a week after its end")?;
    println!("{} of {} have ended", row.jobs - row.unfinished(), row.jobs);
    Ok(())
}

fn price(job: &Job, _: &readpast::Context) -> Result<Json<usize>, BoxError> {
    Ok(Json(job.payload().len()))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_queues_share_the_threads_of_a_process() {
    let fixture = Fixture::not_installed("guide_queues").await;
    fixture.queue.admin().install().await.unwrap();
    let (urgent, nightly) = made(&fixture.config).await.unwrap();
    urgent.enqueue_many(&crate::support::numbers(50)).await.unwrap();
    nightly.enqueue_many(&crate::support::numbers(50)).await.unwrap();
    both_in_one_process(&urgent, &nightly).await.unwrap();
    assert_eq!(nightly.admin().stats(None).await.unwrap().archived, 50);
    drop((urgent, nightly));
    fixture.remove().await;
}

#[test]
fn a_job_that_is_too_large_is_moved() {
    let handlers = Handlers::any(simulate);
    let run = |bytes| handlers.run_for_test(Context::for_test(Job::for_test(NewJob::bytes(vec![0; bytes]))));
    assert!(matches!(run(1), Outcome::Done { .. }));
    assert!(matches!(run(100_000_001), Outcome::Move { queue, .. } if queue == "large"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_a_fair_queue_has_a_weight() {
    let fixture = Fixture::new("guide_fair").await;
    shared(&fixture.queue).await.unwrap();
    let groups = fixture.queue.admin().groups(None, 10).await.unwrap();
    assert_eq!((groups[0].weight, groups[0].waiting), (3, 1));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_group_one_job_is_ready() {
    let fixture = Fixture::new("guide_groups").await;
    ageing(&fixture.queue).await.unwrap();
    grouped(&fixture.queue).await.unwrap();
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.ready, stats.waiting), (1, 2));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_has_limits_and_schedules() {
    let fixture = Fixture::new("guide_limits").await;
    with_dead_queue(&fixture.queue).await.unwrap();
    limited(&fixture.queue).await.unwrap();
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().max_running, Some(8));
    scheduled(&fixture.queue).await.unwrap();
    in_time(&fixture.queue).await.unwrap();
    with_max_depth(&fixture.queue).await.unwrap();
    assert_eq!(fixture.job_counts().await.ready, 3, "run_schedule_now, the quote, and one more");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_ends_with_its_follow_up() {
    let fixture = Fixture::new("guide_batches").await;
    thumbnails_and_a_montage(&fixture.queue).await.unwrap();
    map_and_reduce(&fixture.queue).await.unwrap();
    let handlers = Handlers::any(|job, _| {
        if let Some(end) = job.batch_end() {
            println!("{} done, {} dead, {} cancelled", end.done, end.dead, end.cancelled);
            return Ok(Output::bytes("the sum"));
        }
        Ok(Output::default())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 105);
    fixture.remove().await;
}
