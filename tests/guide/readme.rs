//! README.md

use readpast::{BoxError, Context, Handlers, Job, NewJob, Output, Queue, Summary, Worker};

use crate::support::Fixture;

fn thumbnail(job: &Job, _context: &Context) -> Result<Output, BoxError> {
    let picture = read(&job.text()?)?;
    Ok(Output::bytes(shrink(&picture, 200)))
}

async fn worked_off(queue: Queue) -> Result<Summary, BoxError> {
    queue.enqueue_many(&["a.png", "b.png", "c.png"].map(NewJob::text)).await?;

    let worker = Worker::builder(&queue, Handlers::any(thumbnail)).start().await?;
    let summary = worker.drain().await?;
    Ok(summary)
}

fn read(file: &str) -> std::io::Result<Vec<u8>> {
    Ok(file.as_bytes().to_vec())
}

fn shrink(picture: &[u8], width: usize) -> Vec<u8> {
    picture.iter().copied().take(width).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_pictures_are_worked_off() {
    let fixture = Fixture::new("guide_readme").await;
    let summary = worked_off(fixture.queue.clone()).await.unwrap();
    assert!(summary.stats.done == 3 && summary.ended_in_order);
    fixture.remove().await;
}
