//! What people have done to queues is noted before it is done, completed after, and kept.

use readpast::admin::{AuditId, AuditRow, JobFilter, JobState, NewAudit, QueueOptions};
use readpast::{Config, Error, Queue};
use serde_json::json;

use crate::support::{Fixture, Session, changed, number};

async fn another(fixture: &Fixture, name: &str) -> Queue {
    let config: Config = changed(fixture.config.clone(), |config| config.queue.name = name.to_string());
    Queue::connect(&config).await.unwrap()
}

fn ids(rows: &[AuditRow]) -> Vec<AuditId> {
    rows.iter().map(|row| row.audit_id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_says_who_did_what_to_which_jobs_and_how_it_ended() {
    let fixture = Fixture::new("audit").await;
    let queue = &fixture.queue;
    let filter = JobFilter::from(JobState::Dead).kind("resize");
    let new = NewAudit::new("maria@example.com", "requeue").what(json!({ "filter": filter }));
    let audit = queue.admin().begin_audit(&new).await.unwrap();
    let begun = queue.admin().audits(None, 10).await.unwrap().remove(0);
    assert_eq!((begun.audit_id, &begun.who[..], &begun.action[..]), (audit, "maria@example.com", "requeue"));
    assert_eq!(begun.queue.as_deref(), Some("work"));
    assert_eq!(begun.what, Some(json!({ "filter": { "state": "dead", "kind": "resize" } })));
    assert_eq!((begun.ended_at, begun.jobs, &begun.outcome), (None, None, &None), "it may be broken off here");
    let login = fixture.session().await.row("SELECT ORIGINAL_LOGIN()").await;
    assert_eq!(begun.login, login.get::<&str, _>(0).unwrap());

    queue.admin().end_audit(audit, Some(17), Some("the rest was locked")).await.unwrap();
    let ended = queue.admin().audits(None, 10).await.unwrap().remove(0);
    assert!(ended.ended_at.is_some_and(|at| at >= ended.began_at), "{ended:?}");
    assert_eq!((ended.jobs, ended.outcome.as_deref()), (Some(17), Some("the rest was locked")));
    let json = serde_json::to_value(&ended).unwrap();
    assert_eq!((&json["audit_id"], &json["jobs"]), (&json!(audit.0), &json!(17)));
    assert!(json["ended_at"].as_str().unwrap().ends_with('Z'), "{json}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_ends_the_first_counts() {
    let fixture = Fixture::new("audit_ends").await;
    let queue = &fixture.queue;
    let audit = queue.admin().begin_audit(&NewAudit::new("maria", "pause")).await.unwrap();
    let long = "😀".repeat(300);
    queue.admin().end_audit(audit, None, Some(&long)).await.unwrap();
    let first = queue.admin().audits(None, 10).await.unwrap();
    assert_eq!(first[0].outcome.as_deref(), Some(&*"😀".repeat(200)));
    queue.admin().end_audit(audit, Some(1), None).await.unwrap();
    assert_eq!(queue.admin().audits(None, 10).await.unwrap(), first);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_completes_another_login_s_note() {
    let fixture = Fixture::new("audit_logins").await;
    let login = fixture.create_login(Some("operator")).await;
    let other = fixture.connect_as(&login).await;
    let audit = fixture.queue.admin().begin_audit(&NewAudit::new("maria", "pause")).await.unwrap();
    for (queue, audit) in [(&other, audit), (&fixture.queue, AuditId(audit.0 + 1))] {
        let error = queue.admin().end_audit(audit, None, None).await.unwrap_err();
        assert!(matches!(&error, Error::Refused { message, .. } if message.contains("has no audit entry")), "{error}");
    }
    let theirs = other.admin().begin_audit(&NewAudit::new("maria", "resume")).await.unwrap();
    other.admin().end_audit(theirs, None, None).await.unwrap();
    let rows = fixture.queue.admin().audits(None, 10).await.unwrap();
    assert_eq!((&rows[0].login, &rows[0].who[..]), (&login.name, "maria"));
    assert_eq!(rows[1].ended_at, None);
    drop(other);
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_come_in_pages_the_newest_first_of_a_queue_or_of_all() {
    let fixture = Fixture::new("audit_pages").await;
    let other = another(&fixture, "other").await; // which does not exist
    let mut all = Vec::new();
    for number in 0..9 {
        let queue = if number % 3 == 0 { &other } else { &fixture.queue };
        all.push(queue.admin().begin_audit(&NewAudit::new("maria", "pause")).await.unwrap());
    }
    all.push(fixture.queue.admin().begin_audit(&NewAudit::new("maria", "upgrade").of_no_queue()).await.unwrap());
    all.reverse();
    let mut read = Vec::new();
    loop {
        let page = fixture.queue.admin().all_audits(read.last().copied(), 3).await.unwrap();
        if page.is_empty() {
            break;
        }
        read.extend(ids(&page));
    }
    assert_eq!(read, all);
    assert_eq!(fixture.queue.admin().all_audits(None, 1).await.unwrap()[0].queue, None);
    let of_other = ids(&other.admin().audits(None, 10).await.unwrap());
    assert_eq!(of_other, [all[3], all[6], all[9]]);
    assert_eq!(ids(&other.admin().audits(Some(of_other[0]), 1).await.unwrap()), [all[6]]);
    assert_eq!(fixture.queue.admin().audits(None, 10).await.unwrap().len(), 6);
    let error = fixture.queue.admin().audits(None, 1_001).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    drop(other);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_s_notes_stay_when_it_is_deleted() {
    let fixture = Fixture::new("audit_deleted").await;
    let other = another(&fixture, "other").await;
    other.admin().create(QueueOptions::default()).await.unwrap();
    let audit = other.admin().begin_audit(&NewAudit::new("maria", "delete")).await.unwrap();
    other.admin().delete(true).await.unwrap();
    other.admin().end_audit(audit, Some(0), None).await.unwrap();
    assert_eq!(ids(&other.admin().audits(None, 10).await.unwrap()), [audit]);
    drop(other);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_note_can_be_is_refused() {
    let fixture = Fixture::new("audit_refused").await;
    let new = |who: &str, action: &str| NewAudit::new(who, action);
    let long = "x".repeat(100_000);
    for (audit, expected) in [
        (new("", "pause"), "who must have 1 to 256 characters"),
        (new(&"x".repeat(257), "pause"), "who must have 1 to 256 characters"),
        (new(&"x".repeat(5_000), "pause"), "who must have 1 to 256 characters"),
        (new("maria", ""), "action must have 1 to 32"),
        (new("maria", &"x".repeat(33)), "action must have 1 to 32"),
        (new("maria", "two words"), "action must have 1 to 32"),
        (new("maria", "pause").what(json!([long])), "what must have at most 100000 characters"),
        (new("maria", "pause").what(json!("text")), "what must be a JSON object or array"),
    ] {
        let error = fixture.queue.admin().begin_audit(&audit).await.unwrap_err();
        assert!(matches!(&error, Error::Refused { message, .. } if message.contains(expected)), "{error}");
    }
    let longest = new(&"x".repeat(256), &"x".repeat(32)).what(json!([&long[4..]]));
    let audit = fixture.queue.admin().begin_audit(&longest).await.unwrap();
    let mut session = fixture.session().await;
    let negative = format!("EXEC [$(schema)].[end_audit] @audit_id = {}, @jobs = -1", audit.0);
    assert_eq!(session.refusal(&negative).await.0, 58003);
    assert_eq!(fixture.queue.admin().all_audits(None, 10).await.unwrap().len(), 1);
    drop(session);
    fixture.remove().await;
}

/// Has so many notes be that many days old: the oldest of those that are not yet.
async fn age(session: &mut Session, notes: u32, days: u32) {
    let young = "WITH young AS (SELECT TOP (NOTES) * FROM [$(schema)].[audit] WHERE began_at > DATEADD(DAY, -1, SYSUTCDATETIME()) ORDER BY audit_id)
                 UPDATE young SET began_at = DATEADD(HOUR, 1, DATEADD(DAY, -DAYS, SYSUTCDATETIME()))";
    session.sql(&young.replace("NOTES", &notes.to_string()).replace("DAYS", &days.to_string())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_of_more_than_four_hundred_days_go_a_few_at_a_time() {
    let fixture = Fixture::new("audit_age").await;
    let mut session = fixture.session().await;
    let add = "INSERT [$(schema)].[audit] (began_at, who, login, action)
               SELECT SYSUTCDATETIME(), N'maria', N'x', 'pause' FROM GENERATE_SERIES(1, 160) AS n";
    session.sql(add).await;
    age(&mut session, 150, 402).await;
    age(&mut session, 5, 400).await;
    let count = "SELECT COUNT(*) FROM [$(schema)].[audit]";
    let mut left = Vec::new();
    for _ in 0..3 {
        fixture.queue.admin().begin_audit(&NewAudit::new("maria", "pause")).await.unwrap();
        left.push(session.number(count).await);
    }
    assert_eq!(left, [61, 12, 13], "and the ten that are younger stay");
    drop(session);
    fixture.remove().await;
}

/// Whoever looks at an old note, or changes it, holds nobody up who does something.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_note_holds_nobody_up() {
    let fixture = Fixture::new("audit_locked").await;
    let audit = fixture.queue.admin().begin_audit(&NewAudit::new("maria", "pause")).await.unwrap();
    let mut holder = fixture.session().await;
    age(&mut holder, 1, 402).await;
    holder
        .sql(&format!("BEGIN TRANSACTION; UPDATE [$(schema)].[audit] SET jobs = 1 WHERE audit_id = {}", audit.0))
        .await;
    let mut session = fixture.session().await;
    let begin = "SET LOCK_TIMEOUT 0; DECLARE @audit bigint;
                 EXEC [$(schema)].[begin_audit] @who = N'maria', @action = 'pause', @audit_id = @audit OUTPUT; SELECT @audit AS audit_id";
    let second = session.number(begin).await;
    assert!(second > audit.0);
    let listed = session.sql("SET LOCK_TIMEOUT 0; EXEC [$(schema)].[list_audit]").await;
    assert_eq!(listed.iter().map(|row| number(row, 0)).collect::<Vec<_>>(), [second, audit.0]);
    holder.sql("ROLLBACK TRANSACTION").await;
    session.number(begin).await;
    let gone = session.number(&format!("SELECT COUNT(*) FROM [$(schema)].[audit] WHERE audit_id = {}", audit.0)).await;
    assert_eq!(gone, 0);
    drop((holder, session));
    fixture.remove().await;
}
