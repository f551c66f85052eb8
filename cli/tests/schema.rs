//! `install`, `upgrade`, `verify` and `uninstall`: every state that a schema can be in.

use readpast::admin::{install_script, uninstall_script};
use serde_json::json;

use crate::support::{Fixture, snapshot};

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_is_installed_verified_and_removed() {
    let fixture = Fixture::not_installed("schema").await;
    let message = fixture.run(&["queues"]).failed(7);
    assert!(message.contains("hint: run `readpast install`"), "{message}");
    snapshot("verify_not_installed", &{
        let run = fixture.run(&["verify", "work"]);
        assert_eq!(run.code, 7, "{run:?}");
        run.stdout
    });
    let answer = fixture.run(&["install", "--json"]).json();
    assert_eq!(answer, [json!({"schema": fixture.schema, "version": 1})]);
    fixture.run(&["upgrade"]).ok();
    snapshot("verify_no_queue", &{
        let run = fixture.run(&["verify", "work"]);
        assert_eq!(run.code, 3, "{run:?}");
        run.stdout
    });
    // Whoever names no queue asks for none: right after the installation nothing is wrong.
    let found = fixture.run(&["verify"]).ok();
    assert!(found.contains("there is no queue yet; run `readpast queue create NAME`"), "{found}");
    assert!(!found.contains("failed"), "{found}");
    fixture.run(&["queue", "create", "work"]).ok();
    let findings = fixture.run(&["verify", "work", "--json"]).json();
    assert!(findings.iter().all(|finding| finding["result"] == "ok"), "{findings:?}");
    let message = fixture.run(&["uninstall"]).failed(4);
    assert!(
        message.contains(&format!("to remove schema {} with 0 unfinished jobs, pass --yes", fixture.schema)),
        "{message}"
    );
    fixture.run(&["uninstall", "--yes"]).ok();
    fixture.run(&["queues"]).failed(7);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scripts_are_printed_and_need_no_server() {
    let mut fixture = Fixture::not_installed("script").await;
    fixture.url = "Server=nowhere.invalid;User ID=x;Password=secret-of-mine".to_owned();
    for (command, script) in [
        ("install", install_script(&fixture.schema).unwrap()),
        ("upgrade", install_script(&fixture.schema).unwrap()),
        ("uninstall", uninstall_script(&fixture.schema).unwrap()),
    ] {
        let printed = fixture.run(&[command, "--script"]).ok();
        assert_eq!(printed.trim_end(), script.trim_end());
        assert!(printed.contains(&fixture.schema) && !printed.contains("$(schema)"));
    }
    fixture.run(&["install", "--script", "--schema", "a]b"]).failed(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_schema_is_upgraded_and_a_newer_one_is_refused() {
    let fixture = Fixture::new("older").await;
    fixture.sql(&format!("UPDATE [{}].[schema_version] SET version = 0", fixture.schema)).await;
    let message = fixture.run(&["queues"]).failed(7);
    assert!(message.contains("hint: run `readpast upgrade`"), "{message}");
    fixture.run(&["upgrade"]).ok();
    fixture.run(&["queues"]).ok();
    let versions = format!("[{}].[schema_version]", fixture.schema);
    fixture.sql(&format!("INSERT {versions} (version, min_compatible) VALUES (99, 99)")).await;
    for arguments in [&["queues"][..], &["upgrade"], &["enqueue", "work", "x"]] {
        let message = fixture.run(arguments).failed(7);
        assert!(message.contains("99"), "{message}");
    }
}
