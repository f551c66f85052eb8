//! The examples run. (What the guide shows of them is theirs: `documentation.rs`.)

use std::path::PathBuf;
use std::process::Command;

/// The example shows how a job is tested without a server. That test runs here: with `test = true` in Cargo.toml,
/// `cargo test` would not build the program itself.
#[allow(dead_code)] // its main
#[path = "../examples/typed_payload.rs"]
mod typed_payload;

/// Runs an example that `cargo test` has built, against the server that the tests use.
fn run_example(name: &str, arguments: &[&str]) -> String {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(
        program.with_extension(std::env::consts::EXE_EXTENSION).exists(),
        "build the examples: cargo build --examples"
    );
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name} failed\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn the_typed_payload_example_counts_the_primes_below_a_million() {
    let text = run_example("typed_payload", &[]);
    assert_eq!(text.trim(), "100 jobs found 78498 primes below a million");
}

#[test]
fn the_quickstart_accounts_for_every_file() {
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src");
    let text = run_example("quickstart", &[sources.to_str().unwrap()]);
    let last = text.lines().last().unwrap();
    let files = text.lines().find_map(|line| line.strip_prefix("enqueued ")).unwrap().split(' ').next().unwrap();
    assert!(last.starts_with(&format!("done={files} retried=0 dead=0 lost=0 seconds=")), "{last}");
}

#[test]
fn the_graph_example_puts_every_album_on_the_page() {
    let text = run_example("graph", &["5"]);
    assert!(text.ends_with("done=26 dead=0\n"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("album ")).count(), 5, "{text}");
    assert_eq!(text.lines().filter(|line| line.matches(" | ").count() == 3).count(), 5 * 8, "{text}");
}

#[test]
fn the_long_job_goes_on_where_it_was_killed() {
    let text = run_example("long_job", &["8"]);
    let begins: Vec<u64> = text.lines().filter_map(|line| line.rsplit_once(" begins at ")?.1.parse().ok()).collect();
    assert_eq!(begins.len(), 5, "{text}");
    assert!(begins[0] == 0 && begins.is_sorted_by(|a, b| a < b), "{text}");
    let result = text.lines().find(|line| line.contains(" primes below ")).unwrap();
    assert!(result.ends_with(", after 5 attempts"), "{text}");
    let (primes, rest) = result.split_once(" primes below ").unwrap();
    let below: usize = rest.split(',').next().unwrap().parse().unwrap();
    assert_eq!(primes.parse::<usize>().unwrap(), primes_below(below), "{text}");
}

fn primes_below(end: usize) -> usize {
    let mut is_prime = vec![true; end];
    is_prime.iter_mut().take(2).for_each(|number| *number = false);
    for divisor in 2..=end.isqrt() {
        is_prime.iter_mut().skip(divisor * divisor).step_by(divisor).for_each(|number| *number = false);
    }
    is_prime.into_iter().filter(|prime| *prime).count()
}

#[test]
fn the_producer_s_orders_all_arrive_in_the_archive() {
    let text = run_example("producer_consumer", &[]);
    assert!(text.contains("2000 of 2000 orders are in the archive"), "{text}");
}

#[test]
fn the_words_of_all_files_are_added_up_once_though_workers_are_killed() {
    let text = run_example("map_reduce", &["1000"]);
    // Six words in each line, and 1 to 50 lines in a file.
    let words: usize = (0..1_000).map(|file| 6 * (1 + file % 50)).sum();
    assert!(text.contains("kill 1: "), "{text}");
    assert!(text.contains(&format!("{words} words in 1000 files")) && text.ends_with("which is right\n"), "{text}");
}
