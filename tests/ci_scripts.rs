//! The scripts of CI: a step that fails shows what its tool said.
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Output};

use crate::support::shipped::file;

fn quietly(arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/quietly");
    Command::new(script).args(arguments).output().expect("bash is installed")
}

#[test]
fn what_a_tool_said_is_shown_where_it_failed_and_nowhere_else() {
    let failed = quietly(&["sh", "-c", "echo to stdout; echo to stderr >&2; exit 3"]);
    assert_eq!(failed.status.code(), Some(3));
    let shown = String::from_utf8(failed.stderr).unwrap();
    assert!(shown.contains("ended with 3\nto stdout\nto stderr"), "{shown}");

    let fine = quietly(&["sh", "-c", "echo to stdout; echo to stderr >&2"]);
    assert!(fine.status.success() && fine.stdout.is_empty() && fine.stderr.is_empty(), "{fine:?}");
}

/// Programs that install or build something, and say what was wrong on one stream or the other.
const TOOLS: [&str; 8] = [
    "npm ci",
    "npm install",
    "pip\" install",
    "pip install",
    "apt-get install",
    "apt-get update",
    "cargo test",
    "7z a",
];

#[test]
fn no_script_hides_what_a_tool_said_and_npm_works_where_its_folder_is() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut scripts: Vec<String> = names.map(|name| format!(".ci/{name}")).collect();
    scripts.extend(
        ["benches/driver/run", "devserver/clients/run", "deploy/container/check", "docs/real-server/run"]
            .map(str::to_owned),
    );
    assert!(scripts.len() > 15, "{scripts:?}");
    for script in scripts {
        for line in file(&script).lines().filter(|line| !line.trim_start().starts_with('#')) {
            let runs_a_tool = TOOLS.iter().any(|tool| line.contains(tool));
            // With an alternative that shows it.
            let hides = line.contains(">/dev/null") || line.contains("2>&1") && !line.contains(" >\"$");
            assert!(!(runs_a_tool && hides), "{script}: {line}");
            assert!(!line.contains("--silent") && !line.contains("npm ci --prefix"), "{script}: {line}");
        }
    }
}
