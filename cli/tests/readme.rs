//! The README's lines do what they say.

use crate::support::{Fixture, run, temporary_folder};

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn the_readme_s_lines_run() {
    let readme = include_str!("../../README.md");
    let (_, rest) = readme.split_once("<!-- cli/tests/readme.rs runs this -->\n```sh\n").expect("the lines");
    let (lines, _) = rest.split_once("```").expect("their end");

    let fixture = Fixture::not_installed("readme").await;
    let folder = temporary_folder("readme");
    for name in ["a b.log", "c.log", "$(touch d).log"] {
        std::fs::write(folder.join(name), "text").unwrap();
    }
    let mut shell = fixture.command_of("sh", &["-euc", lines]);
    let output = run(shell.current_dir(&folder)).ok();
    assert!(output.contains("3 jobs enqueued") && output.ends_with("no job matches\n"), "{output}");
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let expected = ["$(touch d).log", "$(touch d).log.gz", "a b.log", "a b.log.gz", "c.log", "c.log.gz"];
    assert_eq!(names, expected, "each file once, and nothing that a name says is run");
}
