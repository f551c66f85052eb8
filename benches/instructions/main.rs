//! How many instructions a no-op job takes: a figure that no other program on the machine blurs, counted by Valgrind's
//! callgrind. `benches/README.md` says how to read it.
//!
//!     cargo bench --profile instructions --bench instructions                # counts, and compares with benches/instructions.txt
//!     cargo bench --profile instructions --bench instructions -- --update    # writes that file anew: at a release, or where a rise is meant
//!
//! The file has the counts of the last release. It exits with 1 when one has risen by more than 3 %. Where Valgrind is
//! not at hand, nothing is counted.

mod callgrind;
mod client;
mod last_release;
mod server;

/// What the benches of the whole have already.
#[allow(dead_code)] // this one needs less of it
#[path = "../throughput"]
mod throughput {
    pub mod bench;
    pub mod client;
    pub mod distance;
    pub mod server;
    pub mod usage;
    pub mod work;
}

use std::process::ExitCode;

use callgrind::Counts;
use last_release::LastRelease;

/// By how much a count may rise.
const MOST_RISE: f64 = 0.03;

fn main() -> ExitCode {
    if throughput::server::played_server() {
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => measure(false),
        ["--update"] => measure(true),
        // What is counted is this program again, under Valgrind.
        [client::ROLE, url, queue, jobs] => client::work_off(url, queue, jobs),
        [server::ROLE, call] => server::run(call),
        _ => {
            eprintln!("{}: must be --update or nothing", arguments.join(" "));
            ExitCode::from(2)
        }
    }
}

/// What a job takes of something.
struct Figure {
    measure: &'static str,
    per_job: Counts,
}

fn measure(update: bool) -> ExitCode {
    if !callgrind::is_here() {
        println!("instructions: valgrind is not here; nothing is counted");
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = |jobs: &client::Jobs| Figure { measure: jobs.measure, per_job: runtime.block_on(client::count(jobs)) };
    let [plain, large] = client::JOBS.each_ref().map(client);
    let switches = runtime.block_on(client::switches());
    let figures = [
        plain,
        large,
        Figure { measure: "dev server, a job of a claim", per_job: server::measure("claim") },
        Figure { measure: "dev server, a job of a finish", per_job: server::measure("finish") },
    ];
    let made_with = last_release::made_with();
    let last = LastRelease::read();
    println!(
        "{:<44}{:>12}{:>14}{:>10}{:>12}{:>14}",
        "instructions a job", "own", "last release", "change", "of libc", "allocations"
    );
    let mut risen = Vec::new();
    for Figure { measure, per_job } in &figures {
        let before = last.count(measure);
        let change = before.map(|before| per_job.own / before - 1.0);
        let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        println!(
            "{measure:<44}{:>12.0}{:>14}{:>10}{:>12.0}{:>14.2}",
            per_job.own,
            text(before.map(|before| format!("{before:.0}"))),
            text(change.map(|change| format!("{:+.2} %", change * 100.0))),
            per_job.libc,
            per_job.allocations
        );
        if change.is_some_and(|change| change > MOST_RISE) {
            risen.push(*measure);
        }
    }
    match switches {
        Some(switches) => println!(
            "client, a no-op job, not under Valgrind: {:.4} wake-ups, {:.4} context switches in all",
            switches.voluntary, switches.all
        ),
        None => println!("wake-ups and context switches are told on Linux only"),
    }
    if update {
        LastRelease::write(&made_with, figures.iter().map(|figure| (figure.measure, figure.per_job.own)));
        println!("instructions: {} is written", last_release::FILE);
        return ExitCode::SUCCESS;
    }
    if last.made_with() != Some(made_with.as_str()) {
        println!(
            "instructions: counted with {made_with}, {} with {}; not compared",
            last_release::FILE,
            last.made_with().unwrap_or("nothing")
        );
        return ExitCode::SUCCESS;
    }
    for measure in &risen {
        println!("instructions: {measure}: risen by more than {:.0} %", MOST_RISE * 100.0);
    }
    if risen.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!(
        "instructions: where that is meant, say why in the commit: cargo bench --profile instructions --bench instructions -- --update"
    );
    ExitCode::FAILURE
}
