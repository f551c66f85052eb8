//! The tables of well-known articles about queues, adopted: the author's producer fills them, workers drain them.

use readpast::{Handlers, Worker};

use crate::support::adopted::{SIMPLE_QUEUE, adopted};
use crate::support::number;

#[tokio::test(flavor = "multi_thread")]
async fn a_simple_queue_is_drained() {
    let (fixture, adoption) = adopted("adopt_simple", SIMPLE_QUEUE, "simple-queue.toml").await;
    assert_eq!(adoption.queue(), "SimpleQueue");
    let mut session = fixture.session().await;
    session
        .sql(
            "INSERT INTO SimpleQueue (Id, CreatedAt, Payload)
             VALUES (NEWID(), SYSUTCDATETIME(), N'one'), (NEWID(), SYSUTCDATETIME(), N'two')",
        )
        .await;
    let stats = fixture.queue.stats().await.unwrap();
    assert_eq!(stats.ready, 2);
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!(summary.stats.done, 2);
    let rows = session.sql("SELECT COUNT(*) AS n FROM SimpleQueue").await;
    assert_eq!(number(&rows[0], "n"), 0);
    drop(session);
    fixture.remove().await;
}
