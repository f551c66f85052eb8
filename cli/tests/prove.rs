//! `prove`: checks the promises, writes its report, and leaves nothing behind.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Fixture, temporary_folder, until};
use crate::worker_process::WorkerProcess;

/// The schemas of `prove` in the fixture's database.
async fn schemas(fixture: &Fixture) -> usize {
    let mut client = fixture.client().await;
    let found = client.simple_query("SELECT name FROM sys.schemas WHERE name LIKE 'prove[_]%'").await.unwrap();
    found.into_first_result().await.unwrap().len()
}

fn report(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("prove-report.json")).unwrap()).unwrap()
}

/// A figure of the section `The soak`.
fn figure(report: &Value, name: &str) -> f64 {
    let sections = report["sections"].as_array().unwrap();
    let soak = sections.iter().find(|section| section["title"] == "The soak").unwrap();
    let rows = soak["rows"].as_array().unwrap();
    rows.iter().find(|row| row["figure"] == name).unwrap()["value"].as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_promises_hold_and_the_report_names_nobody() {
    let fixture = Fixture::new("prove").await;
    let folder = temporary_folder("prove");
    let output = folder.to_str().unwrap();
    if crate::server::real_server_url().is_none() {
        fixture.sql("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON").await;
    }
    let begin = Instant::now();
    let run = fixture.run(&["prove", "--quick", "--minutes", "0.15", "--processes", "2", "--output", output]);
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
    let text = std::fs::read_to_string(folder.join("prove-report.md")).unwrap_or_default();
    assert_eq!(run.code, 0, "{run:?}\n{text}");
    assert!(run.stdout.contains("All promises that could be checked held"), "{}", run.stdout);

    let report = report(&folder);
    let promises = report["promises"].as_array().unwrap();
    let verdict = |name: &str| promises.iter().find(|each| each["promise"] == name).unwrap()["verdict"].clone();
    for promise in [
        "procedures on different jobs do not wait for each other",
        "no job is lost",
        "no job runs twice unnoticed",
        "the jobs of a group run in order",
        "no more jobs run than the limit allows",
        "each batch has its follow-up exactly once, after its last job",
        "the sink writes each result exactly once",
    ] {
        assert_eq!(verdict(promise), "held", "{promise}");
    }
    assert!(figure(&report, "jobs enqueued") > 100.0 && figure(&report, "lost") == 0.0, "{text}");
    // The dev server has no such views.
    if crate::server::real_server_url().is_none() {
        assert_eq!(verdict("no two sessions deadlock"), "not_available");
        assert!(text.contains("Not available here: "), "{text}");
        assert!(!text.contains("Snapshots held open\n\nNot available"), "{text}");
    }
    for secret in ["127.0.0.1", "Password", "User ID"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert_eq!(schemas(&fixture).await, 0);
}

/// The worker processes whose ledger is in a folder.
#[cfg(target_os = "linux")]
fn workers(folder: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
    commands.filter(|command| command.contains("prove-worker") && command.contains(folder.to_str().unwrap())).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_removes_the_schema_in_each_step() {
    let fixture = Fixture::new("prove_ended").await;
    let folder = temporary_folder("prove-ended");
    for step in ["filling", "soaking"] {
        let output = folder.to_str().unwrap();
        let rows = if step == "filling" { vec!["--rows", "10000000"] } else { vec!["--quick"] };
        let command = [&["prove", "--minutes", "10", "--output", output], &rows[..]].concat();
        let mut prove = fixture.command(&command);
        prove.env("TMPDIR", &folder);
        let prove = WorkerProcess::start(prove);
        let queue = if step == "filling" { "plans" } else { "sink" };
        until(step, async || {
            let mut client = fixture.client().await;
            let name = "SELECT name FROM sys.schemas WHERE name LIKE 'prove[_]%'";
            let found = client.simple_query(name).await.unwrap().into_row().await.unwrap();
            let Some(schema) = found.and_then(|row| row.get::<&str, _>(0).map(str::to_owned)) else { return false };
            let jobs = format!(
                "IF OBJECT_ID(N'[{schema}].[list_audit]') IS NOT NULL
                 SELECT name FROM [{schema}].[queues] WHERE name = N'{queue}'"
            );
            let found = client.simple_query(jobs).await.unwrap().into_row().await;
            found.is_ok_and(|row| row.is_some())
        })
        .await;
        #[cfg(target_os = "linux")]
        if step == "soaking" {
            until("workers", async || workers(&folder) > 0).await;
        }
        prove.signal(Signal::INT);
        assert!(prove.end().failed(130).contains("there is no report"));
        #[cfg(target_os = "linux")]
        assert_eq!(workers(&folder), 0, "{step}");
        assert_eq!(schemas(&fixture).await, 0, "{step}");
        assert!(!folder.join("prove-report.md").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_cannot_be_removed_is_named_with_how_to_remove_it() {
    let fixture = Fixture::new("prove_left").await;
    let proxy = crate::proxy::Proxy::start(&fixture.url).await;
    let prove = WorkerProcess::start(fixture.command_as(proxy.url(), &["prove", "--rows", "10000000"]));
    until("its schema", async || schemas(&fixture).await == 1).await;
    proxy.stall();
    // The first is waited for by a removal that nothing answers, and the next ends that.
    while prove.process().runs() {
        prove.signal(Signal::TERM);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let said = prove.end().failed(130);
    assert!(said.contains("may still exist") && said.contains("readpast uninstall --schema prove_"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_the_ledger_that_has_no_row_breaks_promises() {
    let fixture = Fixture::new("prove_planted").await;
    let folder = temporary_folder("prove-planted");
    let arguments = ["prove", "--quick", "--minutes", "0.05", "--output", folder.to_str().unwrap()];
    let mut prove = fixture.command(&arguments);
    prove.env("TMPDIR", &folder);
    let prove = WorkerProcess::start(prove);
    let ledger = || {
        let folders = std::fs::read_dir(&folder).unwrap().flatten();
        folders.map(|entry| entry.path().join("ledger")).find(|path| path.exists())
    };
    until("the ledger", async || ledger().is_some()).await;
    let mut file = std::fs::File::options().append(true).open(ledger().unwrap()).unwrap();
    file.write_all(b"start groups 999999999 1 1 5 g1\nend groups 999999999 1 1 5 g1\n").unwrap();
    let run = prove.end();
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.starts_with("Broken: "), "{run:?}");
    let report = report(&folder);
    let promises = report["promises"].as_array().unwrap();
    for (promise, detail) in [
        ("no job is lost", "job 999999999 of groups ended, but has no row"),
        ("no job runs that nobody enqueued", "job 999999999 of groups ran, but no call enqueued it"),
    ] {
        let promise = promises.iter().find(|each| each["promise"] == promise).unwrap();
        assert_eq!(promise["verdict"], "broken");
        assert!(promise["detail"].as_str().unwrap().contains(detail), "{promise}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_written_is_refused_before_anything_happens() {
    let fixture = Fixture::new("prove_folder").await;
    let file = temporary_folder("prove-folder").join("file");
    std::fs::write(&file, "").unwrap();
    let run = fixture.run(&["prove", "--quick", "--output", file.to_str().unwrap()]);
    assert!(run.failed(1).contains("cannot create"));
    assert_eq!(schemas(&fixture).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_may_not_install_is_refused_before_anything_happens() {
    let fixture = Fixture::new("prove_denied").await;
    let url = fixture.login(Some("worker")).await;
    let run = crate::support::run(&mut fixture.command_as(&url, &["prove", "--quick"]));
    assert!(run.failed(5).contains("must be a db_owner"));
    assert_eq!(schemas(&fixture).await, 0);
}
