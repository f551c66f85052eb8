//! Who may do what: each role may run the procedures that sql/README.md names, and nothing else.

use std::time::Duration;

use readpast::admin::{JobChange, JobState, MatchingPage, NewAudit, QueueOptions, Role, Schedule};
use readpast::{Error, NewJob};

use crate::support::scripts::{grants, numbered};
use crate::support::shipped::file;
use crate::support::{Fixture, Login, Session, WorkerSession};

const PERMISSION_DENIED: u32 = 229;

const VIEWS: [&str; 3] = ["queues_now", "jobs_now", "workers_now"];

const ROLES: [&str; 5] = ["producer", "worker", "operator", "monitor", "autoscaler"];

/// The rows of the table, one for each procedure or table type: who may use it.
fn documented() -> Vec<(String, Vec<&'static str>)> {
    let readme = file("sql/README.md");
    let section = readme.split("\n## Who may do what\n").nth(1).expect("a section").split("\n## ").next().unwrap();
    let mut lines = section.lines().filter(|line| line.starts_with('|'));
    assert_eq!(lines.next(), Some("| procedure, view or type | roles | what it does |"));
    let role = |name: &str| ROLES.into_iter().find(|role| *role == name).unwrap_or_else(|| panic!("no role: {name}"));
    let mut rows = Vec::new();
    for line in lines.skip(1).take_while(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let may = if cells[1] == "none" { Vec::new() } else { cells[1].split(", ").map(role).collect() };
        rows.extend(cells[0].split('`').skip(1).step_by(2).map(|name| (name.to_string(), may.clone())));
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_granted_is_what_the_readme_says() {
    let fixture = Fixture::new("granted").await;
    let mut session = fixture.session().await;
    let granted = grants(&mut session).await;
    let types = "SELECT name FROM sys.table_types WHERE schema_id = SCHEMA_ID(N'$(schema)')";
    let types: Vec<String> =
        session.sql(types).await.iter().map(|row| row.get::<&str, _>(0).unwrap().to_string()).collect();
    let mut expected = Vec::new();
    for (name, roles) in documented() {
        let class = if types.contains(&name) { "TYPE" } else { "OBJECT_OR_COLUMN" };
        let right = if VIEWS.contains(&name.as_str()) { "SELECT" } else { "EXECUTE" };
        expected.extend(roles.iter().map(|role| format!("GRANT {right} {}_{role} {class} {name}", fixture.schema())));
    }
    expected.sort();
    assert_eq!(granted, expected);
    fixture.remove().await;
}

#[test]
fn the_readme_has_every_procedure_and_type() {
    let mut documented: Vec<String> = documented().into_iter().map(|(name, _)| name).collect();
    let mut installed = Vec::new();
    for (_, text) in numbered() {
        for statement in [
            "CREATE OR ALTER PROCEDURE [$(schema)].[",
            "CREATE OR ALTER VIEW [$(schema)].[",
            "CREATE TYPE [$(schema)].[",
        ] {
            installed.extend(text.split(statement).skip(1).map(|rest| rest.split(']').next().unwrap().to_string()));
        }
    }
    documented.sort();
    installed.sort();
    assert_eq!(documented, installed);
}

/// A use of a procedure or a view, which needs the right to it before anything else.
fn call_of(name: &str) -> String {
    match VIEWS.contains(&name) {
        true => format!("SELECT * FROM [$(schema)].[{name}]"),
        false => format!("EXEC [$(schema)].[{name}]"),
    }
}

async fn denied(session: &mut Session, sql: &str) {
    assert_eq!(session.refusal(sql).await.0, PERMISSION_DENIED, "{sql}");
}

fn tables() -> Vec<String> {
    let create = "CREATE TABLE [$(schema)].[";
    let name = |rest: &str| rest.split(']').next().unwrap().to_string();
    numbered().iter().flat_map(|(_, text)| text.split(create).skip(1).map(name)).collect()
}

/// No table, and none of the procedures that only others call.
async fn touches_nothing_else(fixture: &Fixture, login: &Login) {
    let mut session = fixture.session_as(login).await;
    for table in tables() {
        denied(&mut session, &format!("SELECT * FROM [$(schema)].[{table}]")).await;
    }
    denied(&mut session, "UPDATE [$(schema)].[jobs] SET priority = 0").await;
    denied(&mut session, "DELETE FROM [$(schema)].[jobs]").await;
    denied(&mut session, "INSERT [$(schema)].[schema_version] (version, min_compatible) VALUES (9, 9)").await;
    for (procedure, roles) in documented() {
        if roles.is_empty() && !procedure.ends_with("_list") {
            denied(&mut session, &call_of(&procedure)).await;
        }
    }
}

fn is_denied(error: &Error) -> bool {
    matches!(error, Error::PermissionDenied { number: 229, .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_may_enqueue_and_nothing_else() {
    let fixture = Fixture::new("producer_role").await;
    let login = fixture.create_login(Some("producer")).await;
    let queue = fixture.connect_as(&login).await;
    assert_eq!(queue.admin().roles().await.unwrap(), [Role::Producer]);
    queue.enqueue(&NewJob::text("x")).await.unwrap();
    queue.enqueue_many(&[NewJob::text("y").dedup_key("k"), NewJob::text("z").dedup_key("k")]).await.unwrap();
    for error in [
        queue.admin().stats(None).await.unwrap_err(),
        queue.admin().pause().await.unwrap_err(),
        queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap_err(),
        queue.admin().create(QueueOptions::default()).await.unwrap_err(),
        queue.admin().failures(1).await.unwrap_err(),
        queue.admin().audits(None, 1).await.unwrap_err(),
    ] {
        assert!(is_denied(&error), "{error}");
    }
    let waited_for = queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    assert_eq!(queue.admin().queue_of(waited_for).await.unwrap().as_deref(), Some("work"));
    let mut session = fixture.session_as(&login).await;
    denied(&mut session, "EXEC [$(schema)].[claim] @queue = N'work', @worker_id = NULL, @max = 1").await;
    touches_nothing_else(&fixture, &login).await;
    drop((queue, session));
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

/// What a worker does calls procedures that it may not run itself: marks, sweeps, leases after an outage.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_may_do_its_work_and_no_operator_s() {
    let fixture = Fixture::new("worker_role").await;
    let login = fixture.create_login(Some("worker")).await;
    fixture.queue.enqueue_many(&[NewJob::text("x").priority(1), NewJob::text("y")]).await.unwrap();
    let mut worker = WorkerSession::register_as(&fixture, &login).await;
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[job.retry(0, "again")]).await, []);
    worker.claim_one().await;
    let mut session = fixture.session_as(&login).await;
    for call in [
        format!(
            "DECLARE @known [$(schema)].[job_list]; EXEC [$(schema)].[recover] @queue = N'work', @worker_id = '{}', @known = @known",
            worker.id
        ),
        "EXEC [$(schema)].[promote] @queue = N'work'".into(),
        "EXEC [$(schema)].[reap] @queue = N'work'".into(),
        "EXEC [$(schema)].[expire] @queue = N'work'".into(),
        "EXEC [$(schema)].[sample] @queue = N'work'".into(),
        "EXEC [$(schema)].[unfinished] @queue = N'work'".into(),
        "EXEC [$(schema)].[due_schedules] @queue = N'work'".into(),
        "EXEC [$(schema)].[await_jobs] @queue = N'work', @least_ms = 10, @most_ms = 10, @wait_ms = 10".into(),
        format!("EXEC [$(schema)].[heartbeat] @worker_id = '{}'", worker.id),
        format!("EXEC [$(schema)].[unregister_worker] @queue = N'work', @worker_id = '{}'", worker.id),
    ] {
        session.sql(&call).await;
    }
    let queue = fixture.connect_as(&login).await;
    let yearly = Schedule::new("yearly", "@yearly", NewJob::text("x"));
    queue.admin().stats(None).await.unwrap();
    for error in [
        queue.enqueue(&NewJob::text("x")).await.unwrap_err(),
        queue.enqueue_many(&[NewJob::text("x")]).await.unwrap_err(),
        queue.admin().pause().await.unwrap_err(),
        queue.admin().resume().await.unwrap_err(),
        queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap_err(),
        queue.admin().change(&JobChange::Purge, JobState::Ready).await.unwrap_err(),
        queue.admin().list(&JobState::Ready.into(), None, 1).await.unwrap_err(),
        queue.admin().create(QueueOptions::default()).await.unwrap_err(),
        queue.admin().set_schedule(&yearly).await.unwrap_err(),
        queue.admin().run_schedule_now("yearly").await.unwrap_err(),
        queue.admin().schedules().await.unwrap_err(),
        queue.admin().workers(Duration::MAX).await.unwrap_err(),
        queue.admin().delete(true).await.unwrap_err(),
        queue.admin().queue_of(readpast::JobId(1)).await.unwrap_err(),
        queue.admin().failures(1).await.unwrap_err(),
        queue.admin().audits(None, 1).await.unwrap_err(),
        queue.admin().begin_audit(&NewAudit::new("maria", "pause")).await.unwrap_err(),
    ] {
        assert!(is_denied(&error), "{error}");
    }
    touches_nothing_else(&fixture, &login).await;
    drop((queue, worker, session));
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

/// The library's worker needs nothing beyond the role.
#[tokio::test(flavor = "multi_thread")]
async fn the_library_s_worker_drains_a_queue_as_a_worker() {
    let fixture = Fixture::new("worker_drains").await;
    let login = fixture.create_login(Some("worker")).await;
    fixture.queue.enqueue_many(&crate::support::numbers(50)).await.unwrap();
    let each_second = Schedule::new("each second", "* * * * * *", NewJob::text("x"));
    fixture.queue.admin().set_schedule(&each_second).await.unwrap();
    let queue = fixture.connect_as(&login).await;
    let worker = readpast::Worker::builder(&queue, readpast::Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    // The fifty, and one or more of the schedule.
    crate::support::until("all are done", || worker.stats().done > 50).await;
    worker.stop_handle().stop();
    worker.run().await.unwrap();
    drop(queue);
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

/// Another worker can do what this one may not. Without its right to promote, it can't even tell that it keeps the
/// duties.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_may_not_do_all_of_the_queue_s_duties_leaves_them_to_another() {
    for procedure in ["due_schedules", "fire_schedule", "promote"] {
        let fixture = Fixture::new("given_away").await;
        let login = fixture.create_login(Some("worker")).await;
        fixture.sql(&format!("DENY EXECUTE ON OBJECT::[$(schema)].[{procedure}] TO [{}]", login.name)).await;
        let each_second = Schedule::new("each second", "* * * * * *", NewJob::text("x"));
        fixture.queue.admin().set_schedule(&each_second).await.unwrap();
        let config = crate::support::changed(readpast::config::WorkerConfig::default(), |worker| {
            worker.heartbeat_interval = Duration::from_millis(100);
            worker.promote_interval = Duration::from_millis(100);
        });
        let start = async |queue| {
            let handlers = readpast::Handlers::any(|_, _| Ok(()));
            readpast::Worker::builder(queue, handlers).config(&config).start().await.unwrap()
        };
        let queue = fixture.connect_as(&login).await;
        let refused = start(&queue).await;
        crate::support::until("it fails at a duty", || !refused.monitor().failing_duties().is_empty()).await;
        let allowed = start(&fixture.queue).await;
        let done = || refused.stats().done + allowed.stats().done;
        crate::support::until("the schedule fires again and again", || done() >= 2).await;
        crate::support::until("the first has no duties any more", || refused.monitor().failing_duties().is_empty())
            .await;
        assert_eq!(allowed.monitor().failing_duties(), []);
        refused.shutdown().await.unwrap();
        allowed.shutdown().await.unwrap();
        drop(queue);
        fixture.drop_login(&login).await;
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_mend() {
    let fixture = Fixture::new("operator_role").await;
    let login = fixture.create_login(Some("operator")).await;
    let queue = fixture.connect_as(&login).await;
    // It may do what they may.
    assert_eq!(queue.admin().roles().await.unwrap(), [Role::Producer, Role::Operator, Role::Monitor, Role::Autoscaler]);
    queue.admin().create(QueueOptions::default()).await.unwrap();
    queue.enqueue(&NewJob::text("x")).await.unwrap();
    queue.enqueue_many(&[NewJob::text("y"), NewJob::text("z")]).await.unwrap();
    queue.admin().pause().await.unwrap();
    queue.admin().resume().await.unwrap();
    queue.admin().set_schedule(&Schedule::new("yearly", "@yearly", NewJob::text("x"))).await.unwrap();
    queue.admin().pause_schedule("yearly").await.unwrap();
    queue.admin().resume_schedule("yearly").await.unwrap();
    assert_eq!(queue.admin().schedules().await.unwrap().len(), 1);
    assert!(queue.admin().delete_schedule("yearly").await.unwrap());
    fixture.sql("UPDATE [$(schema)].[jobs] SET state = 4, ended = 1, finished_at = enqueued_at").await;
    assert_eq!(queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 3);
    let ready = queue.admin().list_ids(&JobState::Ready.into(), None, 1).await.unwrap().jobs;
    assert_eq!(queue.admin().change(&JobChange::SetPriority(1), &ready).await.unwrap().changed, 1);
    assert_eq!(queue.admin().change(&JobChange::cancel("x"), &ready).await.unwrap().changed, 1);
    assert_eq!(queue.admin().change(&JobChange::Requeue, &ready).await.unwrap().changed, 1);
    assert_eq!(
        queue
            .admin()
            .change(&JobChange::Purge, MatchingPage::new(JobState::Ready, ready.to_vec()))
            .await
            .unwrap()
            .changed,
        1
    );
    assert_eq!(queue.admin().change(&JobChange::Purge, JobState::Ready).await.unwrap().changed, 2);
    assert_eq!(queue.admin().workers(Duration::MAX).await.unwrap().len(), 0);
    assert_eq!(queue.admin().all_stats(None).await.unwrap().len(), 1);
    assert_eq!(queue.admin().failures(1).await.unwrap().looked_at, 0);
    let audit = queue.admin().begin_audit(&NewAudit::new("maria", "delete")).await.unwrap();
    queue.admin().end_audit(audit, None, None).await.unwrap();
    assert_eq!(queue.admin().audits(None, 1).await.unwrap()[0].audit_id, audit);
    queue.admin().delete(true).await.unwrap();
    queue.admin().create(QueueOptions::default()).await.unwrap();
    let mut session = fixture.session_as(&login).await;
    denied(&mut session, "EXEC [$(schema)].[claim] @queue = N'work', @worker_id = NULL, @max = 1").await;
    denied(&mut session, "EXEC [$(schema)].[reap] @queue = N'work'").await;
    touches_nothing_else(&fixture, &login).await;
    drop((queue, session));
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_may_only_look() {
    let fixture = Fixture::new("monitor_role").await;
    fixture.queue.admin().create(QueueOptions::default()).await.unwrap();
    let audit = fixture.queue.admin().begin_audit(&NewAudit::new("maria", "delete")).await.unwrap();
    let login = fixture.create_login(Some("monitor")).await;
    let queue = fixture.connect_as(&login).await;
    assert_eq!(queue.admin().roles().await.unwrap(), [Role::Monitor, Role::Autoscaler]);
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    assert_eq!(queue.admin().stats(None).await.unwrap().ready, 1);
    assert_eq!(queue.admin().schedules().await.unwrap().len(), 0);
    assert_eq!(queue.admin().all_workers(Duration::MAX).await.unwrap().len(), 0);
    assert_eq!(queue.admin().failures(1).await.unwrap().looked_at, 0);
    assert_eq!(queue.admin().audits(None, 1).await.unwrap()[0].audit_id, audit);
    assert_eq!(queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap().jobs.len(), 1);
    for error in [
        queue.enqueue(&NewJob::text("x")).await.unwrap_err(),
        queue.admin().pause().await.unwrap_err(),
        queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap_err(),
        queue.admin().change(&JobChange::Purge, JobState::Ready).await.unwrap_err(),
        queue.admin().delete(true).await.unwrap_err(),
        queue.admin().begin_audit(&NewAudit::new("maria", "pause")).await.unwrap_err(),
        queue.admin().end_audit(audit, None, None).await.unwrap_err(),
    ] {
        assert!(is_denied(&error), "{error}");
    }
    let mut session = fixture.session_as(&login).await;
    session.sql("EXEC [$(schema)].[sample] @queue = N'work'").await;
    session.sql("EXEC [$(schema)].[unfinished] @queue = N'work'").await;
    session.sql("EXEC [$(schema)].[backlog] @queue = N'work'").await;
    touches_nothing_else(&fixture, &login).await;
    drop((queue, session));
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

/// Its password is a secret of the cluster's: who has it sees no payload, and no queue's name.
#[tokio::test(flavor = "multi_thread")]
async fn an_autoscaler_learns_how_many_workers_are_wanted_and_nothing_else() {
    let fixture = Fixture::new("autoscaler_role").await;
    fixture.queue.enqueue(&NewJob::text("a secret")).await.unwrap();
    let login = fixture.create_login(Some("autoscaler")).await;
    let mut session = fixture.session_as(&login).await;
    session.sql("EXEC [$(schema)].[backlog] @queue = N'work', @threads = 4, @target_s = 60").await;
    let queue = fixture.connect_as(&login).await;
    assert_eq!(queue.admin().roles().await.unwrap(), [Role::Autoscaler]);
    queue.admin().verify().await.unwrap();
    let mut refused = 0;
    for (procedure, _) in documented() {
        if !["backlog", "schema_info"].contains(&procedure.as_str()) && !procedure.ends_with("_list") {
            denied(&mut session, &call_of(&procedure)).await;
            refused += 1;
        }
    }
    assert!(refused > 70, "{refused}");
    touches_nothing_else(&fixture, &login).await;
    drop((queue, session));
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

/// Whoever may register a worker may choose its name; that does not make him its successor.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_another_login_takes_nothing_over_by_its_name() {
    let fixture = Fixture::new("namesake").await;
    let (owner, other) = (fixture.create_login(Some("worker")).await, fixture.create_login(Some("worker")).await);
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register_as(&fixture, &owner).await;
    let job = worker.claim_one().await;
    let take_over = "DECLARE @id uniqueidentifier = NEWID(), @name nvarchar(128) = N'$(name)';
                     EXEC [$(schema)].[register_worker] @queue = N'work', @worker_id = @id, @name = @name, @lease_ms = 60000, @take_over = 1";
    let name = "SELECT name FROM [$(schema)].[workers]";
    let name = fixture.session().await.sql(name).await[0].get::<&str, _>(0).unwrap().to_owned();
    let take_over = take_over.replace("$(name)", &name);
    let taken = |rows: Vec<tiberius::Row>| (rows[0].get::<i32, _>("taken_over"), rows[0].get::<i32, _>("workers_lost"));
    let mut session = fixture.session_as(&other).await;
    assert_eq!(taken(session.sql(&take_over).await), (Some(0), Some(0)));
    assert_eq!(worker.finish(&[job.done()]).await, [], "it still holds its job");
    // Its own login is its successor's.
    let mut session = fixture.session_as(&owner).await;
    assert_eq!(taken(session.sql(&take_over).await).1, Some(1));
    drop((worker, session));
    fixture.drop_login(&owner).await;
    fixture.drop_login(&other).await;
    fixture.remove().await;
}

/// A schema for each tenant keeps their jobs apart (docs/dba.md).
#[tokio::test(flavor = "multi_thread")]
async fn a_role_has_no_right_in_another_schema() {
    let fixture = Fixture::new("tenant").await;
    // In the same database.
    let mut config = fixture.config.clone();
    config.connection.schema = format!("{}_other", fixture.schema());
    let other = readpast::Queue::connect(&config).await.unwrap();
    other.admin().install().await.unwrap();
    let in_other = |sql: &str| sql.replace("$(schema)", other.schema());
    for role in ROLES {
        let login = fixture.create_login(Some(role)).await;
        let mut session = fixture.session_as(&login).await;
        for table in tables() {
            denied(&mut session, &in_other(&format!("SELECT * FROM [$(schema)].[{table}]"))).await;
        }
        for (name, _) in documented().iter().filter(|(name, _)| !name.ends_with("_list")) {
            denied(&mut session, &in_other(&call_of(name))).await;
        }
        drop(session);
        fixture.drop_login(&login).await;
    }
    other.admin().uninstall().await.unwrap();
    fixture.remove().await;
}
