//! Groups against what happens at the same time elsewhere.

use readpast::admin::QueueOptions;

use crate::support::Fixture;

const LOCK_TIMED_OUT: u32 = 1222;
const BAD_SETTING: u32 = 58003;

/// A claim of a queue with `at_most_once` deletes the job: nobody would ever give its turn away, or count it.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_job_of_a_group_does_not_come_in_while_the_queue_gets_at_most_once() {
    let fixture = Fixture::in_own_database("at_most_once_groups").await;
    // So that the look at the queue's settings waits for nobody.
    fixture.sql("ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE").await;
    let queue = fixture.connect().await;
    queue.admin().install().await.unwrap();
    queue.admin().create(QueueOptions::default()).await.unwrap();
    let change = "EXEC [$(schema)].[create_queue] @queue = N'work', @delivery = 'at_most_once'";
    let add = "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = N'k'";

    let mut operator = fixture.session().await;
    let mut producer = fixture.session().await;
    producer.sql("SET LOCK_TIMEOUT 0").await;
    // What create_queue does before it commits.
    operator
        .sql("BEGIN TRANSACTION; UPDATE [$(schema)].[queues] SET delivery = 'at_most_once' WHERE name = N'work'")
        .await;
    assert_eq!(producer.refusal(add).await.0, LOCK_TIMED_OUT);
    operator.sql("ROLLBACK TRANSACTION").await;

    // What enqueue does before it adds the job.
    producer.sql("BEGIN TRANSACTION; EXEC [$(schema)].[link_queue] @queue_id = 1").await;
    assert_eq!(operator.refusal(change).await.0, BAD_SETTING);
    producer.sql("ROLLBACK TRANSACTION").await;
    operator.sql(change).await;
    assert_eq!(producer.refusal(add).await.0, BAD_SETTING);
    drop((queue, operator, producer));
    fixture.remove().await;
}
