//! Counts the instructions and the allocations of a process by Valgrind's callgrind.

use std::ops::Sub;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a process, or a job, has executed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Instructions of the program's own file, which has everything that Rust links, and the standard library.
    pub own: f64,
    /// Instructions of the C library: its allocator and its copying, which differ from system to system.
    pub libc: f64,
    /// Calls of the allocator.
    pub allocations: f64,
}

impl Counts {
    pub fn per(self, jobs: u64) -> Counts {
        let jobs = jobs as f64;
        Counts { own: self.own / jobs, libc: self.libc / jobs, allocations: self.allocations / jobs }
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, other: Counts) -> Counts {
        Counts {
            own: self.own - other.own,
            libc: self.libc - other.libc,
            allocations: self.allocations - other.allocations,
        }
    }
}

/// The functions of the C library that the allocator of the standard library calls.
const ALLOCATES: [&str; 5] = ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"];

pub fn is_here() -> bool {
    let version = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Runs this program with these arguments and counts. With `only`, what happens outside of the function of that name
/// does not count.
///
/// What callgrind found stays in the build folder, to be read with `callgrind_annotate`.
pub fn count(name: &str, arguments: &[&str], only: Option<&str>) -> Counts {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instructions");
    std::fs::create_dir_all(&folder).expect("the build folder can be written to");
    let file: PathBuf = folder.join(format!("{name}.callgrind"));
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .args(only.map(|function| format!("--toggle-collect=*{function}*")))
        .arg(program)
        .args(arguments)
        .output()
        .expect("valgrind is here");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let found = std::fs::read_to_string(&file).expect("callgrind wrote its file");
    let counts = read(&found);
    assert!(counts.own > 0.0, "{name}: nothing was counted; see {}", file.display());
    counts
}

/// Sums up what callgrind wrote (its manual, "Callgrind Format Specification"): a line `ob=` says which file the
/// following functions are in, `cfn=` and `calls=` tell of a call, whose line of cost counts what was called once more.
fn read(found: &str) -> Counts {
    let program = std::env::current_exe().expect("this program has a path");
    let (mut is_own, mut is_libc) = (false, false);
    let mut called = "";
    let mut is_of_call = false;
    let mut counts = Counts::default();
    for line in found.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_own = Path::new(object) == program;
            is_libc = Path::new(object).file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc"));
        } else if let Some(function) = line.strip_prefix("cfn=") {
            called = function;
        } else if let Some(call) = line.strip_prefix("calls=") {
            is_of_call = true;
            // The C library's own calls are part of the allocation.
            if is_own && ALLOCATES.contains(&called) {
                let times = call.split(' ').next().expect("a number of calls");
                counts.allocations += times.parse::<f64>().expect("a number of calls");
            }
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            // A line of the source and its cost.
            let cost = line.split(' ').nth(1).map_or(0.0, |cost| cost.parse().expect("a cost"));
            match (is_of_call, is_own, is_libc) {
                (false, true, _) => counts.own += cost,
                (false, _, true) => counts.libc += cost,
                _ => {}
            }
            is_of_call = false;
        }
    }
    counts
}
