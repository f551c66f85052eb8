//! What a job said, on its page.

use std::time::Duration;

use readpast::admin::{CompletionPolicy, QueueOptions};
use readpast::{BoxError, Context, Handlers, Job, JobError, NewJob, Worker};
use readpast_web::Options;

use crate::support::{Fixture, until};

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_each_attempt_is_shown_as_text_and_hidden_with_the_payloads() {
    let fixture = Fixture::with("job_log", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let handlers = Handlers::any(|job: &Job, context: &Context| -> Result<(), BoxError> {
        context.log(format!("<b>attempt {}</b>", job.attempt()));
        if job.attempt() == 1 {
            Err(JobError::retry_in(Duration::ZERO, "failed").into())
        } else {
            Err(JobError::dead("dead").into())
        }
    });
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    until("it is dead", async || worker.stats().dead == 1).await;
    worker.shutdown().await.unwrap();
    let address = format!("job?queue=work&id={job}");
    let page = fixture.open().page(&address).await;
    assert_eq!(page.texts("[aria-labelledby=logs] b"), ["Attempt 2", "Attempt 1"]);
    assert_eq!(page.texts("[aria-labelledby=logs] pre"), ["<b>attempt 2</b>\n", "<b>attempt 1</b>\n"]);
    let page = fixture.browser(Options::default().hide_payloads(true)).page(&address).await;
    assert_eq!(page.count("[aria-labelledby=logs]"), 0);
}
