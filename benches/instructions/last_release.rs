//! The counts of the last release, in a file that is reviewed like code.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

/// Where they stand, for people.
pub const FILE: &str = "instructions.txt";

const HEAD: &str = "\
# Instructions of a job at the last release, and what they were counted with. Compared by `.ci/check-instructions`, which fails when one
# rises by more than 3 %; counts of another compiler or driver are only shown. Written by
#
#     cargo bench --profile instructions --bench instructions -- --update
";

const MADE_WITH: &str = "made with";

/// What the counts depend on beside our own code: who compiles it, and the crates that a job goes through.
pub fn made_with() -> String {
    let compiler = Command::new("rustc").arg("--version").output().expect("the compiler is here").stdout;
    let compiler = String::from_utf8_lossy(&compiler).trim().to_owned();
    let crates = ["tiberius", "tokio", "rayon-core"].map(|name| format!("{name} {}", locked_version(name)));
    format!("{compiler}, {}, {}", std::env::consts::ARCH, crates.join(", "))
}

/// The version of a crate that this program was built with.
fn locked_version(name: &str) -> String {
    let lock = std::fs::read_to_string(in_workspace("Cargo.lock")).expect("cargo writes it");
    let entry = format!("name = \"{name}\"\nversion = \"");
    let version = lock.split_once(&entry).and_then(|(_, rest)| rest.split('"').next());
    version.expect("the driver, its runtime and the pool are dependencies").to_owned()
}

fn in_workspace(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(file)
}

fn in_project(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// The file: lines of `name: value`, and lines that begin with `#`.
pub struct LastRelease(String);

impl LastRelease {
    /// Nothing where there is no file yet.
    pub fn read() -> LastRelease {
        LastRelease(std::fs::read_to_string(in_project(FILE)).unwrap_or_default())
    }

    pub fn write<'a>(made_with: &str, counts: impl Iterator<Item = (&'a str, f64)>) {
        let mut text = format!("{HEAD}{MADE_WITH}: {made_with}\n");
        for (measure, count) in counts {
            let _ = writeln!(text, "{measure}: {count:.0}");
        }
        std::fs::write(in_project(FILE), text).expect("the file can be written");
    }

    pub fn made_with(&self) -> Option<&str> {
        self.value(MADE_WITH)
    }

    pub fn count(&self, measure: &str) -> Option<f64> {
        self.value(measure).map(|count| count.parse().unwrap_or_else(|_| panic!("{FILE}: {measure}: {count}")))
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}
