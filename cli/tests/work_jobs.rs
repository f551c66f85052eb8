//! `work`: what a program gets of its job, and what its end means.

use std::time::Duration;

use readpast::admin::{JobFilter, JobState};
use readpast::crates::uuid::Uuid;
use readpast::{JobId, NewJob};
use serde_json::{Value, json};

use crate::worker_process::WorkFixture;

#[tokio::test(flavor = "multi_thread")]
async fn the_payload_comes_on_standard_input_and_the_output_is_kept() {
    let work = WorkFixture::new("stdin").await;
    let text = work.enqueue(NewJob::text("größe")).await;
    let bytes = work.enqueue(NewJob::bytes([0, 255, 10])).await;
    let empty = work.enqueue(NewJob::bytes([])).await;
    let large = work.enqueue(NewJob::bytes(vec![b'x'; 1 << 20])).await; // more than a pipe holds, both ways
    let queue_sql = format!("EXEC {}.enqueue @queue = N'work', @text = N'größe 🦀'", work.fixture.schema);
    work.fixture.sql(&queue_sql).await;
    let summary = work.drain(&["--", "cat"]).ok();
    assert!(summary.starts_with("5 done, 0 retried, 0 dead in "), "{summary}");
    assert_eq!(work.output(text).await, "größe");
    assert_eq!(work.row(bytes).await.output, Some(vec![0, 255, 10]));
    assert_eq!(work.row(empty).await.output, None);
    assert_eq!(work.row(large).await.output.unwrap().len(), 1 << 20);
    let page = work.queue.admin().list(&JobFilter::from(JobState::Done), None, 10).await.unwrap();
    let from_sql = page.jobs.iter().find(|job| job.payload_utf16).expect("the one from T-SQL");
    assert_eq!(from_sql.output_text(), Some("größe 🦀")); // UTF-8
}

#[tokio::test(flavor = "multi_thread")]
async fn the_payload_comes_as_a_file_a_text_or_a_field() {
    let work = WorkFixture::new("arguments").await;
    let job = work.enqueue(NewJob::text(r#"{"from":"a b.png","size":12}"#).kind("resize")).await;
    let script = r#"printf '%s|' "$@"; cat "$1"; cat; [ "$(stat -c %a "$1")" = 600 ] && printf '|private'"#;
    let arguments = ["{payload}", "{text}", "--in={.from}", "{.size}", "{kind}-{attempt}", "{{x}"];
    work.drain(&[&["--", "sh", "-c", script, "sh"], arguments.as_slice()].concat()).ok();
    let output = work.output(job).await;
    let (file, rest) = output.split_once('|').unwrap();
    let payload = r#"{"from":"a b.png","size":12}"#;
    let expected = format!("{payload}|--in=a b.png|12|resize-1|{{x}}|{payload}|private");
    assert_eq!(rest, expected, "and nothing on standard input");
    assert!(!std::path::Path::new(file).parent().unwrap().exists(), "the file and its directory are removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_tells_about_the_job_and_keeps_the_secrets() {
    let work = WorkFixture::new("variables").await;
    let id = Uuid::new_v4();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let job = NewJob::text("x").kind("resize").correlation_id(id).group_key("customer 7").max_attempts(3);
    let batch = work.queue.create_batch(&readpast::NewBatch::new()).await.unwrap();
    let job = job.batch(batch).header("tenant-id", "acme").header("traceparent", trace);
    let job = work.enqueue(job).await;
    let plain = work.enqueue(NewJob::text("x")).await;
    let mut command = work.command(&["--drain", "--", "env"]);
    let login = work.fixture.login(Some("worker")).await;
    command
        .env("READPAST_URL", &login)
        .env("READPAST_METRICS_PORT_IN_USE", "next")
        .env("TRACEPARENT", "the worker's")
        .env("READPAST_WEB_TOKEN", "a token of the page")
        .env("MINE", "stays");
    // What the worker logs in with.
    let secrets = [
        "AZURE_CLIENT_CERTIFICATE_PASSWORD",
        "AZURE_CLIENT_SECRET",
        "AZURE_FEDERATED_TOKEN_FILE",
        "CREDENTIALS_DIRECTORY",
        "IDENTITY_HEADER",
        "KRB5CCNAME",
        "KRB5_CLIENT_KTNAME",
        "KRB5_KTNAME",
        "MSI_SECRET",
    ];
    for secret in secrets {
        command.env(secret, "/run/secrets/mine");
    }
    crate::support::run(&mut command).ok();
    let output = work.output(job).await;
    let variables = |text: &str| -> std::collections::BTreeMap<String, String> {
        let ours = |line: &&str| line.starts_with("READPAST_") || line.starts_with("TRACE") || line.starts_with("MINE");
        let split = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        text.lines().filter(ours).filter_map(split).collect()
    };
    let mut told = variables(&output);
    assert!(Uuid::parse_str(&told.remove("READPAST_RUN").unwrap()).is_ok());
    let expected = [
        ("MINE", "stays"),
        ("READPAST_ATTEMPT", "1"),
        ("READPAST_BATCH_ID", &batch.to_string()),
        ("READPAST_CORRELATION_ID", &id.to_string()),
        ("READPAST_FENCE", "1"),
        ("READPAST_GROUP_KEY", "customer 7"),
        ("READPAST_HEADER_TENANT_ID", "acme"),
        ("READPAST_HEADER_TRACEPARENT", trace),
        ("READPAST_JOB_ID", &job.to_string()),
        ("READPAST_KIND", "resize"),
        ("READPAST_MAX_ATTEMPTS", "3"),
        ("TRACEPARENT", trace),
    ];
    assert_eq!(told, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    let told: Vec<String> = variables(&work.output(plain).await).into_keys().collect();
    let names = ["MINE", "READPAST_ATTEMPT", "READPAST_FENCE", "READPAST_JOB_ID", "READPAST_MAX_ATTEMPTS"];
    assert_eq!(told, [names.as_slice(), &["READPAST_RUN"]].concat());
    let password = login.rsplit("assword=").next().unwrap();
    assert!(!output.contains(password) && !output.contains("READPAST_URL"));
    assert!(!output.contains("/run/secrets/mine"), "{output}");
    let job = work.enqueue(NewJob::text("x")).await;
    let passed = ["--drain", "--pass-env", "KRB5_CLIENT_KTNAME,AZURE_CLIENT_SECRET", "--", "env"];
    let mut command = work.command(&passed);
    for secret in secrets {
        command.env(secret, "/run/secrets/mine");
    }
    crate::support::run(&mut command).ok();
    assert_eq!(work.output(job).await.matches("/run/secrets/mine").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_may_use_readpast_itself() {
    let work = WorkFixture::new("nested").await;
    let job = work.enqueue(NewJob::text("x").header("tenant", "acme")).await;
    let (url, schema) = (work.fixture.url.as_str(), work.fixture.schema.as_str());
    let inner = ["--", env!("CARGO_BIN_EXE_readpast"), "--url", url, "--schema", schema, "jobs", "work", "--json"];
    work.drain(&inner).ok();
    assert!(work.output(job).await.contains(r#""state":"claimed""#));
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_decide_about_the_job() {
    let work = WorkFixture::new("codes").await;
    let state = async |code: &str, rules: &[&str]| {
        let script = "echo to stdout; echo first >&2; echo last >&2; exit $(cat)";
        let row = work.run_one(NewJob::text(code), &[rules, &["--", "sh", "-c", script]].concat()).await;
        (row.state, row.error.unwrap_or_default())
    };
    assert_eq!(state("0", &[]).await, (JobState::Done, String::new()));
    let failed = |code: u8| (JobState::Dead, format!("exit code {code}: last\nfirst\nlast"));
    assert_eq!(state("65", &[]).await, failed(65));
    assert_eq!(state("3", &["--on-exit", "1-9=done"]).await, (JobState::Done, String::new()));
    assert_eq!(state("0", &["--on-exit", "0=dead"]).await, failed(0));
    assert_eq!(state("200", &["--on-exit", "3=done", "--on-exit", "other=dead"]).await, failed(200));

    // What is tried again is counted by what a second attempt sees.
    for (code, rules, attempts, snoozed) in [
        ("1", vec![], "12", 0),
        ("75", vec![], "12", 0),
        ("3", vec!["--on-exit", "3=retry:10ms"], "12", 0),
        ("3", vec!["--on-exit", "3=snooze:10ms"], "11", 1),
    ] {
        let log = work.path(&format!("attempts {code} {}", rules.concat()));
        let script = format!("printf $READPAST_ATTEMPT >> '{log}'; [ $READPAST_FENCE = 2 ] || exit $(cat)");
        let job = work.enqueue(NewJob::text(code)).await;
        let summary = work.drain(&[&["--json"], rules.as_slice(), &["--shell", &script]].concat()).json().remove(0);
        assert_eq!(std::fs::read_to_string(log).unwrap(), attempts, "{code} {rules:?}");
        assert_eq!(work.row(job).await.state, JobState::Done);
        assert_eq!((&summary["done"], &summary["snoozed"]), (&1.into(), &snoozed.into()), "{summary}");
        assert_eq!(summary["retried"], 1 - snoozed, "{summary}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn death_by_a_signal_is_retried_with_its_name() {
    let work = WorkFixture::new("signal").await;
    let script = "echo about to crash >&2; [ $READPAST_ATTEMPT = 2 ] || kill -SEGV $$";
    let job = work.enqueue(NewJob::text("")).await;
    let log = work.drain(&["--shell", script]).stderr;
    assert_eq!(work.row(job).await.state, JobState::Done);
    let error = work.queue.admin().attempts(job).await.unwrap().remove(0).error.unwrap();
    let core = " (a core was dumped)";
    assert_eq!(error.replace(core, ""), "killed by SIGSEGV: about to crash");
    let logged = log.lines().find(|line| line.contains("a job is retried")).expect("the failure is logged");
    assert!(logged.contains(&format!("job_id={job}")) && logged.contains("SIGSEGV"), "{logged}");
}

/// As a Python program prints it.
const TRACEBACK: &str = "starting
Traceback (most recent call last):
  File \"price.py\", line 3, in <module>
    price(invoice)
    ~~~~~^^^^^^^^^";

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_put_together_by_exit_code_signal_and_exception() {
    let work = WorkFixture::new("grouped").await;
    let scripts = [
        "exit 1".to_owned(),
        "exit 3".to_owned(),
        "exit 139".to_owned(),
        "kill -KILL $$".to_owned(),
        format!("printf '%s\nValueError: bad invoice 17\n' '{TRACEBACK}' >&2; exit 1"),
        format!("printf '%s\nValueError: bad invoice 18\n' '{TRACEBACK}' >&2; exit 1"),
        format!("printf '%s\nKeyError: x\n' '{TRACEBACK}' >&2; exit 1"),
    ];
    for script in scripts {
        work.enqueue(NewJob::text(script).max_attempts(1)).await;
    }
    work.drain(&["--", "sh", "-c", "{text}"]).ok();
    let failures = work.queue.admin().failures(100).await.unwrap();
    let mut patterns: Vec<(&str, u64)> =
        failures.groups.iter().map(|group| (group.pattern.as_str(), group.count)).collect();
    patterns.sort_unstable();
    assert_eq!(
        patterns,
        [
            ("exit code 1", 1),
            ("exit code 139 (as after SIGSEGV)", 1),
            ("exit code 1: KeyError: x", 1),
            ("exit code 1: ValueError: bad invoice …", 2),
            ("exit code 3", 1),
            ("killed by SIGKILL", 1),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_long_standard_error_the_end_is_kept() {
    let work = WorkFixture::new("stderr").await;
    let script = "seq 100000 >&2; echo the end >&2; exit 65";
    let error = work.run_one(NewJob::text(""), &["--shell", script]).await.error.unwrap();
    assert!(error.starts_with("exit code 65: the end\n…") && error.ends_with("\n100000\nthe end"), "{error}");
    assert!((3_990..=4_000).contains(&error.encode_utf16().count()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_output_than_allowed_ends_the_program() {
    let work = WorkFixture::new("output").await;
    let row = work.run_one(NewJob::text(""), &["--max-output", "1KiB", "--shell", "yes; touch went-on"]).await;
    let error = "its standard output is larger than 1024 bytes".to_owned();
    assert_eq!((row.state, row.error), (JobState::Dead, Some(error)));
    assert!(!work.directory().join("went-on").exists());
    let row = work.run_one(NewJob::text("x".repeat(1_024)), &["--max-output", "1KiB", "--", "cat"]).await;
    assert_eq!(row.state, JobState::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_jobs_of_its_kinds_are_run() {
    let work = WorkFixture::new("kinds").await;
    let (a, b) = (NewJob::text("").kind("a"), NewJob::text("").kind("b"));
    let (a, b) = (work.enqueue(a).await, work.enqueue(b).await);
    let other = work.enqueue(NewJob::text("").kind("c")).await;
    let mut worker = work.command(&["--kinds", "a,b", "--", "true"]);
    worker.env("READPAST_WORKER_UNKNOWN_KIND_DELAY_MS", "60000");
    worker.env("READPAST_WORKER_UNKNOWN_KIND_KEEP_MS", "0"); // whoever names kinds ends no job of another
    let worker = crate::worker_process::WorkerProcess::start(worker);
    for (job, state) in [(a, JobState::Done), (b, JobState::Done), (other, JobState::Scheduled)] {
        let until = tokio::time::Instant::now() + Duration::from_secs(30);
        while work.row(job).await.state != state {
            assert!(tokio::time::Instant::now() < until, "job {job} is not {state}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    worker.signal(rustix::process::Signal::TERM);
    worker.end().ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_converted_by_a_real_program() {
    let work = WorkFixture::new("files").await;
    let files: Vec<String> = (0..500).map(|number| work.path(&format!("file {number}.txt"))).collect();
    for (number, file) in files.iter().enumerate() {
        std::fs::write(file, format!("{number}\n").repeat(1_000)).unwrap();
    }
    let jobs: Vec<_> = files.iter().map(|file| NewJob::json(&serde_json::json!({"file": file})).unwrap()).collect();
    work.queue.enqueue_many(&jobs).await.unwrap();
    let summary = work.drain(&["--", "gzip", "-9", "--", "{.file}"]).ok();
    assert!(summary.starts_with("500 done, 0 retried, 0 dead"), "{summary}");
    for (number, file) in files.iter().enumerate() {
        assert!(!std::path::Path::new(file).exists());
        let unpacked = std::process::Command::new("gzip").args(["-dc", &format!("{file}.gz")]).output().unwrap();
        assert_eq!(unpacked.stdout, format!("{number}\n").repeat(1_000).as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_is_refused_at_the_start() {
    let work = WorkFixture::new("refused").await;
    let job = work.enqueue(NewJob::text("")).await;
    for (arguments, message) in [
        (
            vec!["--", "echo", "{txt}"],
            "the argument '{txt}' has an unknown placeholder {txt}; the known placeholders are {payload}, {text}",
        ),
        (vec!["--", "echo", "{text"], "the argument '{text' has a { without a }"),
        (vec!["--", "no-such-program"], "cannot find a program 'no-such-program' to run"),
        (vec!["--", "/etc/passwd"], "cannot find a program '/etc/passwd' to run"),
        (vec!["--", "{text}"], "cannot find a program '{text}' to run"),
        (vec!["--keep", "--", "echo", "{text}"], "with --keep, the arguments cannot have placeholders"),
        (vec!["--on-exit", "300=dead", "--", "true"], "'300' is not an exit code"),
        (vec!["--max-output", "1000MiB", "--", "true"], "--max-output must be at most 256MiB"),
        (vec!["--shell", "true", "--", "true"], "cannot be used with"),
        (vec![], "required arguments were not provided"),
    ] {
        let said = work.drain(&arguments).failed(2);
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
    assert_eq!(work.row(job).await.fence, readpast::Fence(0), "nothing was claimed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_reads_the_outputs_of_the_jobs_that_its_job_has_waited_for() {
    let work = WorkFixture::new("parents").await;
    let parents = ["text", "other"].map(NewJob::text);
    let parents: Vec<JobId> =
        work.queue.enqueue_many(&parents).await.unwrap().iter().map(|enqueued| enqueued.job_id).collect();
    let (first, second) = (parents[0].to_string(), parents[1].to_string());
    let child = ["enqueue", "work", "child", "--after", &first, "--after", &second, "--on-dead", "run", "--json"];
    let child = work.fixture.run(&child).json()[0]["job_id"].as_i64().map(JobId).unwrap();
    let line = format!("{{\"payload\": \"child\", \"after\": [{first}], \"on_dead\": \"cancel\"}}");
    let line_child = ["enqueue", "work", "--format", "json", "--json"];
    let line_child = work.fixture.run_with_input(&line_child, line.as_bytes()).json();
    assert_eq!(line_child[0]["enqueued"], 1);
    let line_child = JobId(child.0 + 1);

    let shown = work.fixture.run(&["job", &child.to_string(), "--json"]).json();
    assert_eq!(shown[0]["state"], "waiting");
    let edge = |id: JobId| json!({"job_id": id, "queue": "work", "state": "ready", "kind": null, "on_dead": "run", "waits": true, "ended": null});
    assert_eq!(shown[0]["edges"]["parents"], json!([edge(parents[0]), edge(parents[1])]));
    let text = work.fixture.run(&["job", &first]).ok();
    assert!(text.contains("jobs that wait for it") && text.contains("cancel"), "{text}");

    let shell = r#"case "$READPAST_PAYLOAD_TEXT" in
        child) stat -c %a "$READPAST_PARENTS"; cat "$READPAST_PARENTS" ;;
        other) printf '\377' ;;
        *) printf out; test -z "$READPAST_PARENTS" ;; esac"#;
    work.drain(&["--threads", "1", "--shell", shell]).ok();
    let output = work.output(child).await;
    let (mode, parents_read) = output.split_once('\n').unwrap();
    assert_eq!(mode, "600");
    let end = |id: JobId, text: Option<&str>, hex: Option<&str>| json!({"job_id": id, "kind": null, "state": "done", "error": null, "output_text": text, "output_hex": hex});
    let expected = [end(parents[0], Some("out"), None), end(parents[1], None, Some("0xFF"))];
    assert_eq!(serde_json::from_str::<Value>(parents_read).unwrap(), json!(expected));
    assert!(work.output(line_child).await.contains(r#""output_text":"out""#));
    let left = work.fixture.run(&["job", &child.to_string()]).ok();
    assert!(left.contains("no: done"), "{left}");
}
