//! Section `worker.resources`: what a worker has for jobs that state their needs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Error;
use crate::job::{ALLOWED_TOKEN, MAX_MEMORY, MAX_TOKENS, is_token};

use super::memory_size::{ALLOWED_SIZE, MemorySize};
use super::range_checks::{refused, refused_text};
use super::settings_table::{Section, Table, defaults};

/// Section `worker.resources`: what a worker has for jobs that state their [needs](crate::job::Needs). Each worker has
/// its own, also beside other workers of the same process. Its threads are `worker.threads`, or those of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourcesConfig {
    /// Memory for jobs that state how much they need. A percentage is of the limit of the process's control group (of
    /// the smallest one, if they are nested) or, without a limit, of the machine's memory. Where the system has no
    /// `/proc`, a percentage is no limit; set a size there.
    ///
    /// Default: `80 %`. Allowed: a size such as `6 GiB`, a percentage such as `80 %`, or a number of bytes. Key:
    /// `worker.resources.memory`.
    pub memory: MemorySize,

    /// Whether a job without a stated need of memory needs the 95th percentile of the peaks of its kind over the last
    /// seven days, at most the worker's whole memory. Only programs have known peaks, and handlers that report them
    /// (`Context::report_usage`). Without known peaks of its kind, a job needs none.
    ///
    /// Default: `false`. Allowed: true or false. Key: `worker.resources.learn_memory`.
    pub learn_memory: bool,

    /// No job starts, whatever its needs, while the machine or the process's control group has less free memory than
    /// this. Measured each second; memory of the file cache counts as free. 0: off. Needs a system with `/proc`.
    ///
    /// Default: `0`. Allowed: a size such as `6 GiB`, a percentage such as `80 %`, or a number of bytes. Key:
    /// `worker.resources.min_free_memory`.
    pub min_free_memory: MemorySize,

    /// A job that does not fit waits, and smaller ones pass it. Once it has waited this long, the worker keeps free
    /// what it needs: other jobs start only if they fit beside it. Shorter: large jobs wait less, and more of the
    /// worker is unused meanwhile.
    ///
    /// Default: 1 min. Allowed: 0 to 1 d. Key: `worker.resources.reserve_after_ms`.
    pub reserve_after: Duration,

    /// The worker's tokens by name, such as `gpu = 1`. A worker has none of the names that are not set. A name is 1 to
    /// 64 printable ASCII characters without spaces; at most 1,000,000 tokens each.
    pub tokens: BTreeMap<String, u32>,
}

impl Default for ResourcesConfig {
    fn default() -> ResourcesConfig {
        defaults()
    }
}

impl Section for ResourcesConfig {
    fn rows(table: &mut Table<'_, ResourcesConfig>) -> ResourcesConfig {
        ResourcesConfig {
            memory: table.size(
                "worker.resources.memory",
                |resources| resources.memory,
                MemorySize::Percent(80),
                ALLOWED_SIZE,
                |size| !size.is_zero() && is_possible(size),
            ),
            learn_memory: table.truth("worker.resources.learn_memory", |resources| resources.learn_memory, false),
            min_free_memory: table.size(
                "worker.resources.min_free_memory",
                |resources| resources.min_free_memory,
                MemorySize::Bytes(0),
                ALLOWED_SIZE,
                is_possible,
            ),
            reserve_after: table.rare().time(
                "worker.resources.reserve_after_ms",
                |resources| resources.reserve_after,
                60_000,
                0..=86_400_000,
            ),
            tokens: table.in_code(|resources| &resources.tokens),
        }
    }
}

fn is_possible(size: MemorySize) -> bool {
    match size {
        MemorySize::Bytes(bytes) => bytes <= MAX_MEMORY,
        MemorySize::Percent(percent) => percent <= 100,
    }
}

impl ResourcesConfig {
    /// Checks the tokens. (The other settings are rows of the table.)
    pub(super) fn validate(&self) -> Result<(), Error> {
        for (name, tokens) in &self.tokens {
            if !is_token(name) {
                let allowed = format!("{ALLOWED_TOKEN}, and neither memory nor threads");
                return Err(refused_text("the name of a token in worker.resources", name, allowed));
            }
            if u64::from(*tokens) > MAX_TOKENS {
                return Err(refused(&format!("worker.resources.{name}"), tokens, format!("0 to {MAX_TOKENS}")));
            }
        }
        Ok(())
    }
}
