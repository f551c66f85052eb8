//! What README.md shows are the examples, which are run: that in Rust here, those in other languages by clients/run.

use std::path::Path;
use std::process::Command;

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_readme_s_code_is_the_examples() {
    let readme = file("README.md");
    for (language, example, snippets) in
        [("rust", "examples/tiberius.rs", 3), ("python", "clients/example.py", 1), ("js", "clients/example.mjs", 1)]
    {
        let example = file(example);
        let fence = format!("```{language}\n");
        let shown: Vec<&str> = readme.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert_eq!(shown.len(), snippets, "in {language}");
        for snippet in shown {
            assert!(example.contains(snippet), "not in the example in {language}:\n{snippet}");
        }
    }
}

#[test]
fn the_example_in_rust_is_right() {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples").join("tiberius");
    let output = Command::new(program).output().expect("cargo test builds the examples");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "the example is right");
}
