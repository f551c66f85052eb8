//! What people have done to queues is noted before it is done, completed after, and kept.

use readpast::admin::{AuditId, AuditRow, JobChange, JobFilter, JobState, NewAudit, QueueOptions, Schedule};
use readpast::{Config, Error, NewBatch, NewJob, Queue};
use serde_json::{Value, json};
use std::time::Duration;

use crate::support::{Fixture, Session, WorkerSession, changed, number};

async fn another(fixture: &Fixture, name: &str) -> Queue {
    let config: Config = changed(fixture.config.clone(), |config| config.queue.name = name.to_string());
    Queue::connect(&config).await.unwrap()
}

/// A fixture without the note of its queue's creation.
async fn without_notes(test_name: &str) -> Fixture {
    let fixture = Fixture::new(test_name).await;
    fixture.sql("DELETE [$(schema)].[audit]").await;
    fixture
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
    let fixture = without_notes("audit_pages").await;
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
    other.admin().with_audit(audit).delete(true).await.unwrap();
    other.admin().end_audit(audit, Some(0), None).await.unwrap();
    let rows = other.admin().audits(None, 10).await.unwrap();
    let actions: Vec<&str> = rows.iter().map(|row| &row.action[..]).collect();
    assert_eq!((rows[0].audit_id, &actions[..]), (audit, &["delete", "create_queue"][..]));
    drop(other);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_note_can_be_is_refused() {
    let fixture = without_notes("audit_refused").await;
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
    let fixture = without_notes("audit_age").await;
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
    let fixture = without_notes("audit_locked").await;
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

/// What a script by hand does is as much in the audit as what a program does that names its user.
#[tokio::test(flavor = "multi_thread")]
async fn each_procedure_that_acts_notes_it() {
    let fixture = Fixture::new("audit_by_hand").await;
    let queue = &fixture.queue;
    let job = queue.enqueue(&NewJob::text("x").delay(Duration::from_secs(3_600))).await.unwrap().job_id;
    let batch = queue.create_batch(&NewBatch::default()).await.unwrap();
    let worker = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    let jobs =
        format!("DECLARE @jobs [$(schema)].[id_list]; INSERT @jobs (job_id) VALUES ({job}), (999); EXEC [$(schema)].");
    let named = json!({ "jobs": [job, 999], "named": 2 });
    let with = |name: &str, value: Value| {
        let mut what = named.clone();
        what[name] = value;
        what
    };
    let schedule = json!({ "schedule": "a \"b\"" });
    let one = |procedure: &str| format!("EXEC [$(schema)].[{procedure}] @queue = N'work'");
    let of_schedule = |procedure: &str| format!("{}, @name = N'a \"b\"'", one(procedure));
    let cases: Vec<(String, &str, Option<Value>, Option<u64>)> = vec![
        (format!("{}, @max_attempts = 3, @sink = N''", one("create_queue")), "set_queue", None, None),
        (one("pause"), "pause", None, None),
        (one("resume"), "resume", None, None),
        (
            "EXEC [$(schema)].[pause_all] @why = N'a \"b\"'".to_owned(),
            "pause_all",
            Some(json!({ "why": "a \"b\"" })),
            None,
        ),
        ("EXEC [$(schema)].[resume_all]".to_owned(), "resume_all", None, None),
        ("EXEC [$(schema)].[confirm_copy]".to_owned(), "confirm_copy", None, None),
        (
            "EXEC [$(schema)].[confirm_copy] @server = N's', @database_name = N'd'".to_owned(),
            "confirm_copy",
            Some(json!({ "server": "s", "database": "d" })),
            None,
        ),
        (
            format!("EXEC [$(schema)].[worker_wish] @worker = N'{}', @threads = 2", worker.id),
            "ask_worker",
            Some(json!({ "worker": worker.id.to_string(), "threads": 2 })),
            None,
        ),
        (
            format!("{}, @group_key = N'k', @weight = 2", one("set_group_weight")),
            "set_group_weight",
            Some(json!({ "group_key": "k", "weight": 2 })),
            None,
        ),
        (
            format!("{}, @cron = '0 0 * * *', @text = N'x'", of_schedule("set_schedule")),
            "set_schedule",
            Some(json!({ "schedule": "a \"b\"", "cron": "0 0 * * *", "time_zone": "UTC" })),
            None,
        ),
        (of_schedule("pause_schedule"), "pause_schedule", Some(schedule.clone()), None),
        (of_schedule("resume_schedule"), "resume_schedule", Some(schedule.clone()), None),
        (of_schedule("run_schedule_now"), "run_schedule", Some(schedule.clone()), Some(1)),
        (of_schedule("delete_schedule"), "delete_schedule", Some(schedule), None),
        (format!("{jobs}[set_priority] N'work', @jobs, 5"), "set_priority", Some(with("priority", json!(5))), Some(1)),
        (format!("{jobs}[promote_now] N'work', @jobs = @jobs"), "promote", Some(named.clone()), Some(1)),
        (
            format!("{jobs}[cancel] N'work', @jobs = @jobs, @why = N'late'"),
            "cancel",
            Some(with("why", json!("late"))),
            Some(1),
        ),
        (format!("{jobs}[requeue] N'work', @jobs = @jobs, @listed = 1"), "requeue", Some(named.clone()), Some(1)),
        (format!("{}, @max = 5", one("requeue")), "requeue", Some(json!({ "state": "dead", "max": 5 })), Some(0)),
        (format!("{jobs}[skip] N'work', @jobs = @jobs"), "skip", Some(named.clone()), Some(0)),
        (format!("{jobs}[run_again] N'work', @jobs = @jobs"), "run_again", Some(named.clone()), Some(0)),
        (
            format!("{jobs}[purge] N'work', 'ready', @jobs = @jobs, @listed = 1"),
            "purge",
            Some(json!({ "jobs": [job, 999], "named": 2, "state": "ready", "older_than_s": 0 })),
            Some(1),
        ),
        (
            format!("{}, @state = 'done', @max = 5", one("purge")),
            "purge",
            Some(json!({ "state": "done", "older_than_s": 0, "max": 5 })),
            Some(0),
        ),
        (
            format!("EXEC [$(schema)].[cancel_batch] @batch_id = {batch}"),
            "cancel_batch",
            Some(json!({ "batch": batch })),
            Some(0),
        ),
    ];
    let login = session.row("SELECT ORIGINAL_LOGIN()").await.get::<&str, _>(0).unwrap().to_owned();
    // A program's entry covers all its calls.
    let program = queue.admin().begin_audit(&NewAudit::new("maria", "all")).await.unwrap();
    let mut last = program;
    for (call, action, what, changed) in cases {
        session.sql(&call).await;
        let mut rows = queue.admin().all_audits(None, 2).await.unwrap();
        let row = rows.remove(0);
        assert_eq!((&row.action[..], &row.who, &row.login), (action, &login, &login), "{call}");
        assert_eq!(rows[0].audit_id, last, "one entry each: {call}");
        if action != "set_queue" {
            assert_eq!(row.what, what, "{call}");
        }
        assert_eq!(row.jobs, changed, "{call}");
        assert!(row.ended_at.is_some() && row.outcome.is_none(), "{call}");
        last = row.audit_id;
        let under = format!("{call}{} @audit_id = {program}", if call.ends_with(']') { "" } else { "," });
        session.sql(&under).await;
        assert_eq!(queue.admin().all_audits(None, 1).await.unwrap()[0].audit_id, last, "no entry of its own: {under}");
    }
    let set = queue.admin().all_audits(None, 1_000).await.unwrap();
    let set = set.iter().find(|row| row.action == "set_queue").unwrap();
    assert_eq!(set.what, Some(json!({ "max_attempts": 3, "sink": "" })));

    // What is refused says why.
    let refused = session.refusal("EXEC [$(schema)].[delete_queue] @queue = N'work', @with_jobs = 1").await.1;
    let entry = queue.admin().audits(None, 1).await.unwrap().remove(0);
    assert_eq!((&entry.action[..], entry.outcome.as_deref()), ("delete_queue", Some(&refused[..])));
    let nobody = session.refusal("EXEC [$(schema)].[worker_wish] @worker = N'nobody', @quiet = 1").await.1;
    assert_eq!(queue.admin().all_audits(None, 1).await.unwrap()[0].outcome.as_deref(), Some(&nobody[..]));
    let why = "x".repeat(1_001);
    let long = format!("EXEC [$(schema)].[cancel_batch] @batch_id = {batch}, @why = N'{why}'");
    assert_eq!(session.refusal(&long).await.0, 58003, "before anything is sealed");

    drop(worker);
    session.sql("DELETE [$(schema)].[workers]").await;
    session.sql("EXEC [$(schema)].[delete_queue] @queue = N'work', @with_jobs = 1").await;
    let deleted = queue.admin().audits(None, 1).await.unwrap().remove(0);
    assert_eq!((&deleted.action[..], deleted.what), ("delete_queue", Some(json!({ "with_jobs": true }))));
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_and_its_note_are_rolled_back_together() {
    let fixture = Fixture::new("audit_rolled_back").await;
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let mut session = fixture.session().await;
    let before = fixture.queue.admin().all_audits(None, 10).await.unwrap();
    let call = format!("BEGIN TRANSACTION; EXEC [$(schema)].[cancel] N'work', {job}; ROLLBACK TRANSACTION");
    session.sql(&call).await;
    assert_eq!(fixture.queue.admin().all_audits(None, 10).await.unwrap(), before);
    assert_eq!(fixture.job_counts().await.ready, 1);
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_acts_under_an_entry_that_is_not_theirs_or_has_ended() {
    let fixture = Fixture::new("audit_under").await;
    let login = fixture.create_login(Some("operator")).await;
    let other = fixture.connect_as(&login).await;
    let admin = fixture.queue.admin();
    let theirs = other.admin().begin_audit(&NewAudit::new("maria", "pause")).await.unwrap();
    let ended = admin.begin_audit(&NewAudit::new("maria", "pause")).await.unwrap();
    admin.end_audit(ended, None, None).await.unwrap();
    for audit in [theirs, ended, AuditId(ended.0 + 1)] {
        let error = admin.with_audit(audit).pause().await.unwrap_err();
        let expected = format!("audit_id is {audit}; it must be an entry that this login has begun and not ended");
        assert!(matches!(&error, Error::Refused { message, .. } if message.contains(&expected)), "{error}");
        assert!(!admin.stats(None).await.unwrap().paused, "nothing was done");
    }
    // One that another session may still take back.
    let mut session = fixture.session().await;
    let uncommitted = "BEGIN TRANSACTION; DECLARE @audit bigint;
                       EXEC [$(schema)].[begin_audit] @who = N'maria', @action = 'pause', @audit_id = @audit OUTPUT; SELECT @audit";
    let uncommitted = AuditId(session.number(uncommitted).await);
    let error = admin.with_audit(uncommitted).pause().await.unwrap_err();
    assert!(matches!(&error, Error::Refused { .. }), "{error}");
    session.sql("ROLLBACK TRANSACTION").await;
    drop(session);
    let open = admin.begin_audit(&NewAudit::new("maria", "pause")).await.unwrap();
    admin.with_audit(open).pause().await.unwrap();
    assert_eq!(admin.all_audits(None, 1).await.unwrap()[0].audit_id, open);
    // The session goes to another borrower.
    admin.resume().await.unwrap();
    assert_eq!(admin.all_audits(None, 1).await.unwrap()[0].action, "resume");
    drop(other);
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_sets_up_the_same_at_each_start_notes_it_once() {
    let fixture = Fixture::new("audit_same").await;
    let admin = fixture.queue.admin();
    let before = admin.all_audits(None, 10).await.unwrap().len();
    for _ in 0..2 {
        admin.create(QueueOptions::default().max_attempts(3).max_running(5)).await.unwrap();
        let job = NewJob::text("x").kind("report");
        admin.set_schedule(&Schedule::new("nightly", "30 2 * * *", job).time_zone("Europe/Berlin")).await.unwrap();
    }
    admin.create(QueueOptions::default().max_running(None)).await.unwrap();
    admin.set_schedule(&Schedule::new("nightly", "30 3 * * *", NewJob::text("x").kind("report"))).await.unwrap();
    // Not the same, though SQL Server compares them as equal, or their bytes are.
    for payload in [&b"x\0"[..], b"x", b"x\0"] {
        let job = NewJob::bytes(payload).kind("report");
        admin.set_schedule(&Schedule::new("nightly", "30 3 * * *", job)).await.unwrap();
    }
    fixture
        .sql("EXEC [$(schema)].[set_schedule] N'work', N'nightly', '30 3 * * *', @text = N'x', @kind = N'report'")
        .await;
    let mut rows = admin.all_audits(None, 20).await.unwrap();
    rows.truncate(rows.len() - before);
    let actions: Vec<&str> = rows.iter().rev().map(|row| &row.action[..]).collect();
    assert_eq!(
        actions,
        [
            "set_queue",
            "set_schedule",
            "set_queue",
            "set_schedule",
            "set_schedule",
            "set_schedule",
            "set_schedule",
            "set_schedule"
        ]
    );
    let purge = admin.change(&JobChange::Purge, JobState::Ready).await.unwrap();
    assert_eq!(purge.total(), 0);
    fixture.remove().await;
}
