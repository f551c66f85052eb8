//! The scripts of the examples, kept as snapshots for review: of the first, the lines that our own installation has not,
//! and of the others, those that the first has not either.
//!
//!     READPAST_WRITE_ADOPTED_SQL=1 cargo test -q --test tests adopt_scripts     writes tests/adopted/*.sql anew
//! READPAST_ADOPTED_SQL_TO=FOLDER cargo test -q --test tests adopt_scripts   writes the whole scripts, behind their
//! tables
//!
//! `.ci/check-sql` has Microsoft's parser and model look at the whole ones.

use std::collections::HashSet;
use std::path::PathBuf;

use readpast::admin::install_script;

use crate::adopted::{
    FOUR_QUEUE, OUTBOX, REQUESTS_QUEUE, SIMPLE_QUEUE, STATUS_QUEUE, STATUS_QUEUE_INDEXES, TABLES_AS_QUEUES, example,
};
use crate::support::Fixture;
use crate::support::scripts::columns_without_collation;

/// The parts of a script by the names of its files.
fn parts(script: &str) -> Vec<(&str, &str)> {
    let is_name = |line: &str| line.starts_with("-- ") && line.ends_with(".sql") && line.as_bytes()[3].is_ascii_digit();
    let mut names: Vec<(usize, &str)> = Vec::new();
    let mut position = 0;
    for line in script.split_inclusive('\n') {
        if is_name(line.trim_end()) {
            names.push((position, line.trim_end()));
        }
        position += line.len();
    }
    let ends = names.iter().skip(1).map(|(at, _)| *at).chain([script.len()]);
    names.iter().zip(ends).map(|((at, name), end)| (*name, &script[*at..end])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn adopt_scripts_are_as_reviewed() {
    let status = format!("{STATUS_QUEUE}GO\n{STATUS_QUEUE_INDEXES}");
    let mut first: Option<(String, String)> = None;
    for (name, tables) in [
        ("simple-queue", SIMPLE_QUEUE),
        ("status-queue", &status),
        ("heap-queue", TABLES_AS_QUEUES),
        ("fifo-queue", TABLES_AS_QUEUES),
        ("pending-queue", TABLES_AS_QUEUES),
        ("requests-queue", REQUESTS_QUEUE),
        ("four-queue", FOUR_QUEUE),
        ("outbox", OUTBOX),
    ] {
        let mut fixture = Fixture::in_own_database("adopt_scripts").await;
        fixture.session().await.script(tables).await.unwrap();
        let mapping = example(&format!("{name}.toml"));
        fixture.config.connection.schema = mapping.schema().unwrap().to_string();
        let queue = fixture.connect().await;
        let script = readpast_adopt::plan(&queue, &mapping).await.unwrap().script();
        drop(queue);
        if let Some(folder) = std::env::var_os("READPAST_ADOPTED_SQL_TO") {
            let file = PathBuf::from(folder).join(format!("{name}.sql"));
            std::fs::write(file, format!("{tables}\nGO\n{script}")).unwrap();
        }

        let uncollated: HashSet<String> = columns_without_collation(&script).into_iter().collect();
        let of_ours = columns_without_collation(&install_script(mapping.schema().unwrap()).unwrap());
        assert_eq!(uncollated, of_ours.into_iter().collect(), "{name}");
        let ours = install_script(mapping.schema().unwrap()).unwrap();
        let ours = parts(&ours);
        let schema = mapping.schema().unwrap().to_string();
        let as_first = first.as_ref().map(|(of_first, script)| {
            let script = script.replace(&format!("[{of_first}]"), &format!("[{schema}]"));
            script.replace(&format!("{of_first}_"), &format!("{schema}_"))
        });
        let as_first = as_first.as_deref().map_or(Vec::new(), parts);
        // What the table was (985) has names that SQL Server has made up.
        let mut found = String::new();
        for (file, text) in parts(&script).iter().filter(|(file, _)| !file.contains("985_")) {
            let as_before: Vec<_> = ours.iter().chain(&as_first).filter(|(name, _)| name == file).collect();
            if as_before.iter().all(|(_, before)| before != text) {
                let known: HashSet<&str> = as_before.iter().flat_map(|(_, before)| before.lines()).collect();
                let new = text.lines().filter(|line| line == file || !known.contains(line));
                found.extend(new.map(|line| format!("{line}\n")));
            }
        }
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/adopted").join(format!("{name}.sql"));
        if std::env::var_os("READPAST_WRITE_ADOPTED_SQL").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &found).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == found,
            "{} is behind; READPAST_WRITE_ADOPTED_SQL=1 cargo test -q --test tests adopt_scripts",
            path.display()
        );
        fixture.remove().await;
        first.get_or_insert((schema, script));
    }
}
