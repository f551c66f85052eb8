//! The lines of the README and the guide do what they say.

use std::path::Path;

use readpast::admin::QueueOptions;
use readpast::{BoxError, Handlers, JobError, NewJob, Worker};

use crate::support::{Fixture, run, temporary_folder};

/// Stands above what is run here; `tests/documentation.rs` of the library knows it, too.
const MARK: &str = "<!-- cli/tests/readme.rs runs this -->\n```sh\n";

/// The marked lines of a page.
fn lines(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page)).unwrap();
    text.split(MARK).skip(1).map(|rest| rest.split_once("```").expect("their end").0.to_owned()).collect()
}

#[test]
fn every_page_with_marked_lines_has_a_test_here() {
    let docs = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")).unwrap();
    let names = docs.map(|entry| format!("docs/{}", entry.unwrap().file_name().into_string().unwrap()));
    let pages = names.filter(|name| name.ends_with(".md")).chain(["README.md".to_owned()]);
    let mut marked: Vec<String> = pages.filter(|page| !lines(page).is_empty()).collect();
    marked.sort();
    assert_eq!(marked, ["docs/operate.md", "docs/start.md"]);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn the_first_lines_run() {
    let fixture = Fixture::not_installed("start").await;
    let folder = temporary_folder("start");
    for name in ["a b.log", "c.log", "$(touch d).log"] {
        std::fs::write(folder.join(name), "text").unwrap();
    }
    let mut shell = fixture.command_of("sh", &["-euc", &lines("docs/start.md").concat()]);
    let output = run(shell.current_dir(&folder)).ok();
    assert!(output.contains("3 jobs enqueued") && output.ends_with("no job matches\n"), "{output}");
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let expected = ["$(touch d).log", "$(touch d).log.gz", "a b.log", "a b.log.gz", "c.log", "c.log.gz"];
    assert_eq!(names, expected, "each file once, and nothing that a name says is run");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_every_day_run() {
    let fixture = Fixture::new("operate").await;
    let queue = fixture.queue("logs").await;
    queue.admin().create(QueueOptions::default()).await.unwrap();
    queue.enqueue_many(&["out of memory", "no such file"].map(NewJob::text)).await.unwrap();
    let handlers = Handlers::any(|job, _| Err::<(), BoxError>(JobError::dead(job.text()?.into_owned()).into()));
    let summary = Worker::builder(&queue, handlers).start().await.unwrap().drain().await.unwrap();
    assert_eq!(summary.stats.dead, 2);

    let mut config = fixture.config("work").worker;
    config.name = "render-3".to_owned();
    let work = fixture.queue("work").await;
    let steered = Worker::builder(&work, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    run(&mut fixture.command_of("sh", &["-euc", &lines("docs/operate.md").concat()])).ok();
    assert!(steered.run().await.unwrap().ended_in_order, "it was asked to stop");
    let stats = queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.ready, stats.dead, stats.paused), (1, 1, false));
}
