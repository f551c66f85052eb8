//! The same acknowledgement twice at once, of jobs that belong to a batch or a group: a call that was given up still
//! runs while it is repeated, and then ends or is taken back. Each job ends once all the same.

use readpast::admin::{CompletionPolicy, QueueOptions};

use crate::support::{Claimed, Fixture, Session, WorkerSession, literal, number};

const POLICIES: [CompletionPolicy; 3] =
    [CompletionPolicy::Delete, CompletionPolicy::Annotate, CompletionPolicy::Archive];

/// Two jobs of the group `k`, which are all that a sealed batch has.
async fn group_in_a_batch(fixture: &Fixture) {
    let mut session = fixture.session().await;
    session
        .sql(
            "DECLARE @batch_id bigint;
             EXEC [$(schema)].[create_batch] @queue = N'work', @text = N'the follow-up', @batch_id = @batch_id OUTPUT;
             EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'1', @group_key = N'k', @batch_id = @batch_id;
             EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'2', @group_key = N'k', @batch_id = @batch_id;
             EXEC [$(schema)].[seal_batch] @batch_id = @batch_id",
        )
        .await;
}

/// `finish` of one job as its worker calls it, from any session.
fn finish(worker: &WorkerSession, job: &Claimed, outcome: u8) -> String {
    format!(
        "DECLARE @jobs [$(schema)].[finish_list]; INSERT @jobs (job_id, fence, outcome) VALUES ({}, {}, {outcome});
         EXEC [$(schema)].[finish] @queue = N'work', @worker_id = {}, @jobs = @jobs",
        job.job_id,
        job.fence,
        literal(&worker.id.to_string())
    )
}

/// Sends it in a session of its own and returns when it waits for a lock.
async fn send_until_it_waits(fixture: &Fixture, sql: String) -> tokio::task::JoinHandle<()> {
    let mut session = fixture.session().await;
    let spid = session.number("SELECT @@SPID").await;
    let call = tokio::spawn(async move {
        session.sql(&sql).await;
    });
    let waiting =
        format!("SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = {spid} AND request_status = 'WAIT'");
    let mut other = fixture.session().await;
    while other.number(&waiting).await == 0 {
        assert!(!call.is_finished(), "it waits for nobody");
    }
    call
}

async fn counts(session: &mut Session) -> (i64, i64) {
    let row = session
        .row("SELECT done, CASE WHEN ended_at IS NULL THEN 0 ELSE 1 END AS ended FROM [$(schema)].[batch_counts]");
    let row = row.await;
    (number(&row, "done"), number(&row, "ended"))
}

/// The second job has had its turn after the first, and the batch has ended with both.
async fn the_rest_runs(fixture: &Fixture, worker: &mut WorkerSession) {
    fixture.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
    let mut session = fixture.session().await;
    assert_eq!(counts(&mut session).await, (1, 0));
    let second = worker.claim(10).await;
    assert_eq!(second.iter().map(|job| &job.payload[..1]).collect::<Vec<_>>(), [b"2"]);
    assert_eq!(worker.finish(&[second[0].done()]).await, []);
    assert_eq!(counts(&mut session).await, (2, 1));
    let follow_up = worker.claim(10).await;
    assert_eq!(follow_up.iter().map(|job| &job.payload[..1]).collect::<Vec<_>>(), [b"t"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_that_is_taken_back_while_it_is_repeated_counts_once() {
    for policy in POLICIES {
        let fixture = Fixture::with("taken_back", QueueOptions::default().completion(policy)).await;
        group_in_a_batch(&fixture).await;
        let mut worker = WorkerSession::register(&fixture).await;
        let first = worker.claim_one().await;
        let mut given_up = fixture.session().await;
        given_up.sql(&format!("BEGIN TRANSACTION; {}", finish(&worker, &first, 0))).await;
        let repeated = send_until_it_waits(&fixture, finish(&worker, &first, 0)).await;
        given_up.sql("ROLLBACK TRANSACTION").await;
        repeated.await.unwrap();
        the_rest_runs(&fixture, &mut worker).await;
        drop((given_up, worker));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_that_comes_twice_at_once_counts_once() {
    for policy in POLICIES {
        let fixture = Fixture::with("twice", QueueOptions::default().completion(policy)).await;
        group_in_a_batch(&fixture).await;
        let mut worker = WorkerSession::register(&fixture).await;
        let first = worker.claim_one().await;
        // Both have begun when the first gets to the job.
        let mut holder = fixture.session().await;
        let hold = format!("SELECT fence FROM [$(schema)].[jobs] WITH (UPDLOCK) WHERE job_id = {}", first.job_id);
        holder.sql(&format!("BEGIN TRANSACTION; {hold}")).await;
        let once = send_until_it_waits(&fixture, finish(&worker, &first, 0)).await;
        let twice = send_until_it_waits(&fixture, finish(&worker, &first, 0)).await;
        holder.sql("COMMIT TRANSACTION").await;
        once.await.unwrap();
        twice.await.unwrap();
        the_rest_runs(&fixture, &mut worker).await;
        drop((holder, worker));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_is_taken_back_while_it_is_repeated_gives_its_turn_away_once() {
    let options = QueueOptions::default().retry_passes(true);
    let fixture = Fixture::with("passes", options).await;
    for text in ["1", "2"] {
        let enqueue = format!("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'{text}', @group_key = N'k'");
        fixture.sql(&enqueue).await;
    }
    let mut worker = WorkerSession::register(&fixture).await;
    let first = worker.claim_one().await;
    let mut given_up = fixture.session().await;
    given_up.sql(&format!("BEGIN TRANSACTION; {}", finish(&worker, &first, 1))).await;
    let repeated = send_until_it_waits(&fixture, finish(&worker, &first, 1)).await;
    given_up.sql("ROLLBACK TRANSACTION").await;
    repeated.await.unwrap();
    fixture.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
    let again = worker.claim(10).await;
    assert_eq!(again.iter().map(|job| job.job_id).collect::<Vec<_>>(), [first.job_id]);
    drop((given_up, worker));
    fixture.remove().await;
}
