//! The Python package, tested by its own tests with this program.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::worker_process::{has, skip};

/// Runs the tests of a module, and says which of them were skipped.
fn passes(module: &str) {
    if !has("python3") {
        return;
    }
    let python = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(arguments).env_remove("READPAST_URL");
        command
    };
    let is_old = "import sys; sys.exit(sys.version_info < (3, 9))";
    if !python(&["-c", is_old]).status().unwrap().success() {
        return skip("Python is older than 3.9");
    }
    let package = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../python"));
    let mut tests = python(&["-m", "unittest", "--verbose", module]);
    tests.current_dir(package.join("tests")).env("PYTHONPATH", package.join("src"));
    tests.env("PYTHONDONTWRITEBYTECODE", "1").env("READPAST_PROGRAM", env!("CARGO_BIN_EXE_readpast"));
    let output = tests.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let mut skipped = BTreeMap::new();
    for (_, why) in said.lines().filter_map(|line| line.split_once(" ... skipped ")) {
        *skipped.entry(why).or_insert(0) += 1;
    }
    for (why, tests) in skipped {
        skip(&format!("{tests} tests of {module}: {why}"));
    }
}

#[test]
fn documentation() {
    passes("test_documentation");
}

#[test]
fn producer() {
    passes("test_producer");
}

#[test]
fn protocol() {
    passes("test_protocol");
}

#[test]
fn testing() {
    passes("test_testing");
}

#[test]
fn types() {
    passes("test_types");
}

#[test]
fn work() {
    passes("test_work");
}
