//! The priority and the CPUs of programs: they inherit those of the threads that start them, and these threads do
//! nothing else.

use std::collections::BTreeSet;
use std::io;
use std::str::FromStr;

use anyhow::Context as _;
use clap::Args;

use crate::exit::{Exit, failure};

/// On which CPUs, and with which priority, programs run.
#[derive(Debug, Clone, Default, Args)]
pub struct Placement {
    /// Run programs with this nice value: 19 gives way to everything else, negative values need a permission (Linux)
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-20..=19))]
    nice: Option<i32>,
    /// Run programs only on these CPUs, such as 0-3,8; also the default of --threads (Linux)
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
}

impl Placement {
    /// Tries it on a thread.
    ///
    /// # Errors
    ///
    /// With [`Exit::Usage`]: what is not possible, and why.
    pub fn check(&self) -> anyhow::Result<()> {
        let tried = self.clone();
        let tried = std::thread::Builder::new().spawn(move || tried.apply()).context("cannot start a thread")?.join();
        tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(|why| failure(Exit::Usage, why))
    }

    /// Applies it to this thread.
    ///
    /// # Errors
    ///
    /// What is not possible, and why.
    pub fn apply(&self) -> Result<(), String> {
        if let Some(nice) = self.nice {
            set_nice(nice).map_err(|error| format!("--nice {nice} is not possible: {error}"))?;
        }
        if let Some(cpus) = &self.cpus {
            set_cpus(&cpus.0)?;
        }
        Ok(())
    }

    /// The number of CPUs, if they are chosen.
    pub fn cpus(&self) -> Option<usize> {
        self.cpus.as_ref().map(|cpus| cpus.0.len())
    }
}

/// The numbers of CPUs, in the form of `taskset --cpu-list`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CpuList(BTreeSet<usize>);

/// The most CPUs that the kernel's interface has here (`CPU_SETSIZE`).
const MOST_CPUS: usize = 1_024;

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuList, String> {
        let mut cpus = BTreeSet::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (first.parse::<usize>(), last.parse::<usize>()) {
                (Ok(first), Ok(last)) if first <= last && last < MOST_CPUS => cpus.extend(first..=last),
                _ => return Err(format!("'{range}' is not a CPU; write 0 to 1023, or a range such as 0-3")),
            }
        }
        Ok(CpuList(cpus))
    }
}

/// The kernel's nice value is that of a thread (setpriority(2), "C library/kernel differences").
#[cfg(target_os = "linux")]
fn set_nice(nice: i32) -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, nice)?)
}

#[cfg(target_os = "linux")]
fn set_cpus(cpus: &BTreeSet<usize>) -> Result<(), String> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    let cannot = |error| format!("--cpus is not possible: {error}");
    let allowed = sched_getaffinity(None).map_err(cannot)?;
    let mut wanted = CpuSet::new();
    for cpu in cpus {
        if !allowed.is_set(*cpu) {
            let allowed: Vec<_> =
                (0..MOST_CPUS).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| cpu.to_string()).collect();
            return Err(format!("--cpus: this process may not use CPU {cpu}, only {}", allowed.join(",")));
        }
        wanted.set(*cpu);
    }
    sched_setaffinity(None, &wanted).map_err(cannot)
}

#[cfg(not(target_os = "linux"))]
fn set_nice(_nice: i32) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "it needs Linux"))
}

#[cfg(not(target_os = "linux"))]
fn set_cpus(_cpus: &BTreeSet<usize>) -> Result<(), String> {
    Err("--cpus is not possible: it needs Linux".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_has_numbers_and_ranges() {
        let list = |text: &str| text.parse::<CpuList>().map(|cpus| Vec::from_iter(cpus.0));
        assert_eq!(list("0-3,8"), Ok(vec![0, 1, 2, 3, 8]));
        assert_eq!(list("5,1,5"), Ok(vec![1, 5]));
        for text in ["", "x", "3-1", "0,", "-1", "1024"] {
            assert!(list(text).is_err(), "{text}");
        }
    }
}
