//! What producers, handlers and other operators write must not steer the terminal of who looks at it.

use readpast::admin::{QueueOptions, Schedule};
use readpast::{Handlers, JobError, NewBatch, NewJob, Worker};

use crate::support::{Fixture, Run};

/// Clears the screen, by the short form too, turns the direction of what follows, and looks like another row.
const HOSTILE: &str = "x\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\r\nwork\ty";

/// The same for a key or the name of a schedule, which have no control characters below U+0020.
const HOSTILE_KEY: &str = "x\u{9b}2J\u{202e}\u{2066}work y";

/// What both streams say, which has nothing in it that a terminal takes for more than text.
fn harmless(run: Run) -> String {
    let text = format!("{}{}", run.stdout, run.stderr);
    let direction = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let steers = |c: char| !matches!(c, '\n' | '\t') && (c.is_control() || direction(c));
    assert!(!text.contains(steers), "{text:?}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_write_is_text_in_every_list() {
    let fixture = Fixture::with("hostile", QueueOptions::default().max_attempts(1)).await;
    let queue = fixture.queue("work").await;
    let job = NewJob::text(HOSTILE).dedup_key(HOSTILE_KEY).group_key(HOSTILE_KEY).header("note", HOSTILE);
    let id = queue.enqueue(&job).await.unwrap().job_id.to_string();
    queue.create_batch(&NewBatch::new().name(HOSTILE)).await.unwrap();
    queue.admin().set_schedule(&Schedule::new(HOSTILE_KEY, "0 0 1 1 *", NewJob::text(HOSTILE))).await.unwrap();
    let refuse = |_: &readpast::Job, context: &readpast::Context| -> Result<(), readpast::BoxError> {
        context.progress(0.5, HOSTILE);
        Err(JobError::dead(HOSTILE).into())
    };
    let mut config = fixture.config("work").worker;
    config.name = HOSTILE.to_owned();
    Worker::builder(&queue, Handlers::any(refuse)).config(&config).start().await.unwrap().drain().await.unwrap();

    let escaped = "x\\u{1b}[2J\\u{9b}2J\\u{202e}\\u{2066} work y";
    let escaped_key = "x\\u{9b}2J\\u{202e}\\u{2066}work y";
    for (list, expected) in [
        (&["jobs", "work"][..], "\\u{1b}[2J\\u{9b}2J\\u{202e}\\u{2066}"),
        (&["workers", "--lost"], "\\u{1b}[2J\\u{9b}2J\\u{202e}\\u{2066}"),
        (&["batches", "work"], "\\u{1b}[2J\\u{9b}2J\\u{202e}\\u{2066}"),
        (&["schedules", "work"], escaped_key),
    ] {
        let text = harmless(fixture.run(list));
        assert!(!text.contains('\t'), "{list:?}: {text}");
        assert_eq!(text.lines().count(), 2, "{list:?}: a heading and a row: {text}");
        assert!(text.contains(expected), "{list:?}: {text}");
    }
    let shown = harmless(fixture.run(&["job", &id]));
    for (name, expected) in [("key", escaped_key), ("group", escaped_key), ("progress", escaped)] {
        let line =
            shown.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("{shown}"));
        assert!(line.contains(expected), "{shown}");
    }
    assert!(shown.contains("\nerror\nx\\u{1b}[2J"), "{shown}");
    assert!(harmless(fixture.run(&["batch", "show", "1"])).contains(escaped));
    assert!(harmless(fixture.run(&["wait", &id])).contains("is dead: x\\u{1b}[2J"));
    assert!(harmless(fixture.run(&["schedule", "delete", "work", HOSTILE_KEY])).contains(escaped_key));
    assert!(harmless(fixture.run(&["queue", "show", HOSTILE])).contains("x\\u{1b}[2J"));
}

#[tokio::test(flavor = "multi_thread")]
async fn json_says_the_same_and_steers_nothing() {
    let fixture = Fixture::new("hostile_json").await;
    let queue = fixture.queue("work").await;
    let id = queue.enqueue(&NewJob::text(HOSTILE).dedup_key(HOSTILE_KEY)).await.unwrap().job_id.to_string();
    for command in [&["jobs", "work", "--json"][..], &["job", &id, "--json"]] {
        let text = harmless(fixture.run(command));
        let job: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((job["payload_text"].as_str(), job["dedup_key"].as_str()), (Some(HOSTILE), Some(HOSTILE_KEY)));
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn wait_writes_an_output_as_it_is_but_not_to_a_terminal() {
    use readpast::admin::CompletionPolicy;

    use crate::pty::Terminal;

    let fixture = Fixture::with("hostile_wait", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let queue = fixture.queue("work").await;
    let id = queue.enqueue(&NewJob::text("x")).await.unwrap().job_id.to_string();
    let handler = |_: &readpast::Job, _: &readpast::Context| Ok(readpast::Output::bytes("a\u{1b}[2Jb"));
    Worker::builder(&queue, Handlers::any(handler)).start().await.unwrap().drain().await.unwrap();
    assert_eq!(fixture.run(&["wait", &id]).ok(), "a\u{1b}[2Jb");
    let (code, screen) = Terminal::start(&fixture.command(&["wait", &id]), 80, 24).end();
    assert_eq!((code, screen.trim_end()), (0, "a\\u{1b}[2Jb"));
}
