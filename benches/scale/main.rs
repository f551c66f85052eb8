//! How far one SQL Server goes: the arithmetic of docs/scale.md, and a fleet of workers under simulated time that
//! checks what the page says about fairness, idle load and recovery.
//!
//!     cargo bench --bench scale                    # 1,000 workers, some minutes; compares docs/scale.md
//!     UPDATE_DOCS=1 cargo bench --bench scale      # writes its tables into docs/scale.md
//!     cargo bench --bench scale -- --quick         # 60 workers, seconds; so does `cargo test --bench scale`
//!     cargo bench --bench scale -- --seed 7
//!
//! Nothing is measured here: nobody waits for anything, and each run with the same seed is the same. What decides is
//! the worker's own code (`worker.rs` says which), what is restated is compared with its source (`restated.rs`).

mod fairness;
mod fleet;
mod idle;
mod model;
mod recovery;
mod report;
mod restated;
mod server;
mod worker;
mod world;

/// The part of `src/sync_primitives.rs` that the included files use.
mod sync_primitives {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
}

// Under this name the worker's own files have it.
use readpast::config;

use std::process::ExitCode;

use report::Report;
use world::{Micros, SECOND};

/// How much is simulated.
pub struct Sizes {
    pub workers: usize,
    /// For how long fleets with work are looked at.
    pub busy_for: Micros,
    /// For how long queues share a process.
    pub shared_for: Micros,
    /// How many tiny jobs for each thread come before long ones.
    pub tiny: usize,
    pub seed: u64,
}

const SEED: u64 = 1;
const FULL: Sizes = Sizes { workers: 1_000, busy_for: 30 * SECOND, shared_for: 600 * SECOND, tiny: 2_000, seed: SEED };
const QUICK: Sizes = Sizes { workers: 60, busy_for: 10 * SECOND, shared_for: 60 * SECOND, tiny: 500, seed: SEED };

fn main() -> ExitCode {
    // `cargo bench` says so; without it this is a test.
    let mut quick = !std::env::args().any(|argument| argument == "--bench");
    let mut seed = SEED;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            "--seed" => match arguments.next().map(|text| (text.parse(), text)) {
                Some((Ok(number), _)) => seed = number,
                other => {
                    let text = other.map_or("nothing".to_string(), |(_, text)| text);
                    eprintln!("--seed is {text}; it must be a number from 0 on");
                    return ExitCode::FAILURE;
                }
            },
            // What people hand to all tests at once.
            "--list" | "--ignored" => return ExitCode::SUCCESS,
            filter if !filter.starts_with('-') && !"scale".contains(filter) => return ExitCode::SUCCESS,
            _ => {}
        }
    }
    let sizes = Sizes { seed, ..if quick { QUICK } else { FULL } };
    let mut report = Report::default();
    for changed in restated::check() {
        report.claim(&changed, false);
    }
    model::tables(&mut report);
    if quick {
        report.compare_with_page(); // the simulation's tables are those of another size
    }
    idle::simulate(&mut report, &sizes);
    fairness::simulate(&mut report, &sizes);
    recovery::simulate(&mut report, &sizes);
    if !quick && seed == SEED {
        report.compare_with_page();
    }
    if report.all_hold() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
