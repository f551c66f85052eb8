//! docs/results.md

use std::sync::Arc;

use readpast::admin::QueueOptions;
use readpast::transaction::{Finished, finish_in};
use readpast::{BoxError, Context, Handlers, Job, Json, NewJob, Output, Worker};

use crate::support::{Client, Fixture, Session, until};

async fn give_the_queue_its_sink(queue: &readpast::Queue) -> Result<(), BoxError> {
    queue.admin().create(QueueOptions::default().sink("dbo.add_up")).await?;
    Ok(())
}

fn pages_of(job: &Job, _context: &Context) -> Result<Output, BoxError> {
    let text = job.text()?;
    let pages = text.lines().map(NewJob::text);
    Ok(pages.fold(Output::default(), |output, page| output.enqueue("pages", page)))
}

impl Bookings {
    fn book(&self, job: &Job, context: &Context) -> Result<Finished, BoxError> {
        let amount: i32 = job.json()?;
        context.block_on(async {
            let mut client = self.connect().await?;
            client.begin_transaction().await?;
            client.execute("UPDATE dbo.account SET balance = balance + @P1", &[&amount]).await?;
            let finished = finish_in(&mut client, context, Output::default()).await?;
            client.commit_transaction().await?;
            Ok(finished)
        })
    }
}

struct Bookings(Arc<Fixture>);

impl Bookings {
    async fn connect(&self) -> Result<Client, BoxError> {
        Ok(self.0.client().await)
    }
}

async fn own_database(test_name: &str) -> Fixture {
    let fixture = Fixture::in_own_database(test_name).await;
    fixture.queue.admin().install().await.unwrap();
    fixture.queue.admin().create(QueueOptions::default()).await.unwrap();
    fixture
}

/// The sink as docs/results.md has it, in the fixture's schema.
async fn make_the_sink(session: &mut Session, schema: &str) {
    let page = include_str!("../../docs/results.md");
    let (_, rest) = page.split_once("```sql\n").expect("the sink is the first T-SQL of the page");
    let (script, _) = rest.split_once("```").expect("its end");
    for batch in script.replace("readpast.", &format!("{schema}.")).split("GO\n") {
        if !batch.contains("create_queue") {
            session.sql(batch).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_written_by_the_sink_of_the_guide() {
    let fixture = own_database("guide_sink").await;
    let mut session = fixture.session().await;
    make_the_sink(&mut session, fixture.schema()).await;
    give_the_queue_its_sink(&fixture.queue).await.unwrap();
    fixture.queue.enqueue_many(&crate::support::numbers(100)).await.unwrap();
    let handlers = Handlers::any(|job, _| Ok(Json(job.json::<u32>()?)));
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 100);
    assert_eq!(session.number("SELECT SUM(CAST(value AS bigint)) FROM dbo.results").await, 4_950);
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follow_ups_come_with_the_acknowledgement() {
    let fixture = Fixture::new("guide_follow_ups").await;
    let pages = fixture.queue.named("pages").unwrap();
    pages.admin().create(QueueOptions::default()).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("one\ntwo\nthree")).await.unwrap();
    let worker = Worker::builder(&fixture.queue, Handlers::any(pages_of)).start().await.unwrap();
    worker.drain().await.unwrap();
    assert_eq!(pages.admin().stats(None).await.unwrap().ready, 3);
    drop(pages);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_books_in_its_own_transaction() {
    let fixture = Arc::new(own_database("guide_books").await);
    fixture.sql("CREATE TABLE dbo.account (balance int NOT NULL); INSERT dbo.account VALUES (0);").await;
    fixture.queue.enqueue_many(&crate::support::numbers(10)).await.unwrap();
    let bookings = Bookings(fixture.clone());
    let handlers = Handlers::any(move |job: &Job, context: &Context| bookings.book(job, context));
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 10);
    assert_eq!(fixture.session().await.number("SELECT balance FROM dbo.account").await, 45);
    until("the worker's handler is gone", || Arc::strong_count(&fixture) == 1).await;
    Arc::into_inner(fixture).unwrap().remove().await;
}
