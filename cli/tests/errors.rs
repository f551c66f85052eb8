//! What goes wrong before anything is done: the exit code says what sort it is, the message what to do, and neither
//! shows the connection string.

use crate::support::{Fixture, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_address_password_or_database_is_unreachable() {
    let fixture = Fixture::new("unreachable").await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port(); // nobody listens there
    for (url, says) in [
        (format!("Server=tcp:127.0.0.1,{port};User ID=sa;Password=s3cret-word"), "127.0.0.1"),
        (format!("{};Password=s3cret-word", fixture.url), "Login failed"),
        (format!("{};Database=no_such_database", fixture.url), "no_such_database"),
    ] {
        let message = run(&mut fixture.command_as(&url, &["queues"])).failed(6);
        assert!(message.contains(says) && !message.contains("s3cret-word"), "{message}");
        let findings = run(&mut fixture.command_as(&url, &["verify", "--json"]));
        assert_eq!(findings.code, 6, "{findings:?}");
        assert!(!findings.stdout.contains("s3cret-word") && findings.stdout.contains("\"failed\""), "{findings:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_settings_are_named() {
    let fixture = Fixture::new("settings").await;
    let message = run(fixture.command(&["queues"]).env_remove("READPAST_URL")).failed(2);
    assert!(message.contains("connection.url is empty") && message.contains("hint: set READPAST_URL"), "{message}");
    let message = run(fixture.command(&["queues"]).env("READPAST_COLOUR", "red")).failed(2);
    assert!(message.contains("READPAST_COLOUR"), "{message}");
    let message = fixture.run(&["queues", "--config", "/nowhere/readpast.toml"]).failed(2);
    assert!(message.contains("/nowhere/readpast.toml"), "{message}");
    let message = fixture.run(&["queues", "--schema", "no such"]).failed(2);
    assert!(message.contains("no such"), "{message}");
    let message = fixture.run(&["queues", "--url", "Server=s;Pasword=s3cret-word"]).failed(2);
    assert!(!message.contains("s3cret-word"), "{message}");
    let message = run(fixture.command(&["web"]).env("RUST_LOG", "readpast=loud")).failed(2);
    assert!(message.contains("RUST_LOG is `readpast=loud`"), "{message}");
    fixture.run(&["no-such-command"]).failed(2);
    fixture.run(&["jobs"]).failed(2);
}

/// What somebody types or writes wrong: the message is in the words of who did, has what was probably meant, and the
/// exit code is that of bad values.
#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told_in_the_words_of_who_made_them() {
    let fixture = Fixture::new("mistakes").await;
    for (arguments, says) in [
        (&["wait", "abc"][..], "it must be an integer"),
        (&["wait", "99999999999999999999"], "the number is too large"),
        (&["priority", "work", "abc", "--to", "1"], "it must be an integer"),
        (&["jobs", "work", "--limit", "many"], "it must be an integer"),
        (&["jobs", "work", "--worker", "x"], "it must be a UUID, such as"),
        (&["web", "--listen", "127.0.0.1"], "it must be an address and a port"),
        (&["queue", "set", "work", "--rate", "100/m"], "the number is missing; write it as 1m"),
        (&["queue", "set", "work", "--max-attempts", "0"], "max_attempts is 0; it must be 1 or more"),
        (&["jobs", "work", "--older-than", "5x"], "write it as 90s, 5m, 1h 30m or 7d"),
        (&["enqueue", "work", "hello", "--kid", "resize"], "--kind"),
        (&["enqueue", "work", "hello", "--memory", "3GB"], "write it as 1000, 64KiB, 16MiB or 3GiB"),
        (
            &["enqueue", "work", "hello", "--memory", "0"],
            "the need of 'memory' is 0; it must be 1 to 1125899906842624 bytes",
        ),
        (&["enqueue", "work", "hello", "--token", "gpu"], "it must be NAME=NUMBER"),
        (&["enqueue", "work", "hello", "--token", "gpu=x"], "the number of gpu is 'x'; it must be 1 to 1000000"),
        (&["enqueue", "work", "hello", "--token", "memory=1"], "neither memory nor threads"),
    ] {
        let message = fixture.run(arguments).failed(2);
        assert!(message.contains(says) && !message.contains("digit found") && !message.contains("i16"), "{message}");
    }
    for (line, says) in [
        (r#"["hello"]"#, "line 1: it must be a JSON object: {…}"),
        (r#"{"kid":"resize","payload":"x"}"#, "line 1: unknown field 'kid'; did you mean 'kind'?"),
        (
            r#"{"colour":"red","payload":"x"}"#,
            "line 1: unknown field 'colour'; the known fields are payload, payload_hex, kind",
        ),
        ("hello", "line 1: not JSON from column 1 on"),
        (
            r#"{"payload":"x","priority":"high"}"#,
            "line 1: priority is \"high\"; it must be an integer from -32768 to 32767",
        ),
        (r#"{"payload":"x","headers":{"a":1}}"#, "line 1: headers is {\"a\":1}; it must be an object of texts"),
        (
            r#"{"payload":"x","needs":{"gpu":1.5}}"#,
            "line 1: needs is {\"gpu\":1.5}; it must be an object of integers such as",
        ),
        (
            r#"{"payload":"x","needs":{"gpu":0}}"#,
            "line 1: cannot enqueue the job: the need of 'gpu' is 0; it must be 1 to 1000000",
        ),
    ] {
        let message = fixture.run_with_input(&["enqueue", "work", "--format", "json"], line.as_bytes()).failed(2);
        assert!(message.contains(says), "{message}");
        assert!(message.contains("0 jobs enqueued, from the first 0 lines"), "{message}");
    }
    let message = fixture.run(&["stats", "wrok"]).failed(3);
    assert!(message.contains("there is no queue 'wrok'; did you mean 'work'?"), "{message}");
    fixture.run(&["schedule", "set", "work", "nightly", "0 4 * * *", "x"]).ok();
    let message = fixture.run(&["schedule", "pause", "work", "nightly2"]).failed(3);
    assert!(message.contains("did you mean 'nightly'?"), "{message}");
    let batches = fixture.run(&["batches"]).ok();
    assert_eq!(batches, "there are no unfinished batches; --all includes completed ones\n");
}

/// A disk that is full is not the job's fault, and who reads the error knows which.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_cannot_be_written_costs_no_attempt_and_names_the_place() {
    let fixture = Fixture::new("no_room").await;
    let nowhere = crate::support::temporary_folder("no_room").join("gone");
    let mut command = fixture.command(&["work", "work", "--drain", "--", "cat", "{payload}"]);
    let message = run(command.env("TMPDIR", &nowhere)).failed(1);
    assert!(message.contains(nowhere.to_str().unwrap()) && message.contains("(set by TMPDIR)"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_goes_before_the_environment_and_that_before_the_file() {
    let fixture = Fixture::new("order").await;
    let folder = crate::support::temporary_folder("settings_order");
    let file = folder.join("readpast.toml");
    std::fs::write(&file, format!("[connection]\nurl = 'Server=nowhere.invalid'\nschema = '{}'\n", fixture.schema))
        .unwrap();
    let path = file.to_str().unwrap();
    run(fixture.command(&["queues", "--config", path]).env_remove("READPAST_SCHEMA")).ok();
    fixture.run(&["queues", "--schema", "other_schema"]).failed(7);
    let url = fixture.url.clone();
    run(fixture.command(&["queues", "--url", &url]).env("READPAST_URL", "Server=nowhere.invalid")).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_only_the_beginning_gets_no_complaint() {
    let fixture = Fixture::new("pipe").await;
    let queue = fixture.queue("work").await;
    let jobs: Vec<_> = (0..2_000).map(|n| readpast::NewJob::text(format!("{n} {}", "x".repeat(200)))).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let mut command = fixture.command(&["jobs", "work", "--json", "--limit", "2000"]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_nobody_reads_changes_no_exit_code() {
    let fixture = Fixture::new("closed").await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = fixture.command(&["job", "4711"]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(3));
}
