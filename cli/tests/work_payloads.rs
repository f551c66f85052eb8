//! `work`: no payload is ever taken for a command, and what cannot be put in is said.

use readpast::NewJob;
use readpast::admin::JobState;

use crate::worker_process::WorkFixture;

const HOSTILE: [&str; 10] = [
    "; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "' ; touch pwned ; '",
    "\" ; touch pwned ; \"",
    "a\nb\ntouch pwned\n",
    "-rf",
    "--help",
    "{text} {{ {.x} %s \\x41 *",
    "größe 🦀 \u{202e}",
];

/// Each argument in brackets.
const SHOW: &str = r#"printf '[%s]' "$@""#;

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_payload_stays_one_argument() {
    let work = WorkFixture::new("hostile").await;
    let mut jobs = Vec::new();
    for text in HOSTILE {
        let payload = serde_json::json!({ "field": text });
        jobs.push((text, work.enqueue(NewJob::text(text).kind("text")).await));
        jobs.push((text, work.enqueue(NewJob::json(&payload).unwrap().kind("field")).await));
    }
    let as_text = ["--kinds", "text", "--", "sh", "-c", SHOW, "sh", "{text}", "x={text}"];
    let as_field = ["--kinds", "field", "--", "sh", "-c", SHOW, "sh", "{.field}", "x={.field}"];
    for arguments in [as_text, as_field] {
        let worker = work.start(&arguments);
        let kind = if arguments[1] == "text" { 0 } else { 1 };
        for (text, job) in jobs.iter().skip(kind).step_by(2) {
            let end = work.queue.wait(*job, std::time::Duration::from_secs(30)).await.unwrap();
            let expected = Some(readpast::JobEnd::Done { output: Some(format!("[{text}][x={text}]").into_bytes()) });
            assert_eq!(end, expected);
        }
        worker.signal(rustix::process::Signal::TERM);
        worker.end().ok();
    }
    assert!(!work.directory().join("pwned").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_payload_is_no_part_of_a_shell_s_command() {
    let work = WorkFixture::new("shell").await;
    let mut jobs = Vec::new();
    for text in HOSTILE {
        jobs.push((text, work.enqueue(NewJob::text(text).header("h", text).group_key("g")).await));
    }
    let script = r#"cat; printf '|%s' "$READPAST_PAYLOAD_TEXT" "$READPAST_HEADER_H"; echo '{text}'"#;
    work.drain(&["--shell", script]).ok();
    for (text, job) in jobs {
        assert_eq!(work.output(job).await, format!("{text}|{text}|{text}{{text}}\n"));
    }
    assert!(!work.directory().join("pwned").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_put_in_makes_the_job_dead_and_runs_nothing() {
    let work = WorkFixture::new("unfit").await;
    let long = "x".repeat(128 * 1024);
    for (payload, argument, reason) in [
        (NewJob::text("a\0b"), "{text}", "its payload has a NUL character, which arguments"),
        (NewJob::bytes([0xFF]), "{text}", ": not UTF-8"),
        (NewJob::text(&long), "{text}", "cannot start sh: Argument list too long"),
        (NewJob::text("{}"), "{.to}", "the payload has no member 'to'"),
        (NewJob::text("[]"), "{.to}", "not the expected JSON"),
        (NewJob::text(r#"{"to":"\u0000"}"#), "{.to}", "the field 'to' has a NUL character"),
        (NewJob::text("").header("h", "a\0b"), "x", "its header 'h' has a NUL character"),
    ] {
        let row = work.run_one(payload.max_attempts(5), &["--", "sh", "-c", "touch ran", "sh", argument]).await;
        assert_eq!((row.state, row.attempt), (JobState::Dead, 1), "{row:?}");
        assert!(row.error.as_deref().unwrap().contains(reason), "{row:?}");
    }
    assert!(!work.directory().join("ran").exists());
    // What no variable can have is on standard input all the same.
    for payload in ["a\0b", &long] {
        let script = r#"cat; printf '|%s' "${READPAST_PAYLOAD_TEXT-none}""#;
        let row = work.run_one(NewJob::text(payload), &["--shell", script]).await;
        assert_eq!(row.output_text(), Some(format!("{payload}|none").as_str()));
    }
}
