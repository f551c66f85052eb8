//! What a job needs of a worker: memory, threads and named tokens.
//!
//! ```text
//! of the job (NewJob::needs) ──┐
//!                              ├─▶ overlaid, resource by resource ──▶ admission: does it fit into the worker's resources?
//! of its kind (KindOptions) ───┘
//! ```
//!
//! In SQL Server and in configuration files, needs are one flat object: `{"memory": 3221225472, "threads": 4, "gpu": 1}`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::new_job::is_kind;

/// The most memory that a job may need: 1 PiB.
pub(crate) const MAX_MEMORY: u64 = 1 << 50;

/// The most threads that a job may need, as many as a worker may have.
pub(crate) const MAX_THREADS: u64 = 1_024;

/// The most tokens of one name that a job may need.
pub(crate) const MAX_TOKENS: u64 = 1_000_000;

/// The longest JSON of a job's needs that the procedures accept.
const MAX_LENGTH: usize = 1_000;

/// The name of the memory in the JSON.
pub(crate) const MEMORY: &str = "memory";

/// The name of the threads in the JSON.
pub(crate) const THREADS: &str = "threads";

pub(crate) const ALLOWED_TOKEN: &str = "1 to 64 printable ASCII characters, no spaces";

/// Whether this can be the name of a token.
pub(crate) fn is_token(name: &str) -> bool {
    is_kind(name) && name != MEMORY && name != THREADS
}

/// What a job needs of a worker while it runs: memory, threads and named tokens. A worker starts a job only when all of
/// it is free.
///
/// Tokens have any name and stand for whatever is scarce: a GPU, a licence, a share of a disk's bandwidth. A worker has
/// as many of each as its configuration says, and none of the names that it does not mention.
///
/// ```
/// use readpast::{Needs, NewJob};
///
/// let needs = Needs::new().memory(3 << 30).threads(4).token("license.abaqus", 2);
/// let job = NewJob::text("wing.inp").kind("simulate").needs(needs);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Needs(BTreeMap<String, u64>);

impl Needs {
    /// Needs nothing but one thread.
    pub fn new() -> Needs {
        Needs::default()
    }

    /// Sets the memory in bytes: 1 byte to 1 PiB.
    pub fn memory(self, bytes: u64) -> Needs {
        self.with(MEMORY, bytes)
    }

    /// Sets the number of threads that the job uses, including the one that runs its handler: 1 to 1024. Default: 1.
    pub fn threads(self, threads: u32) -> Needs {
        self.with(THREADS, threads.into())
    }

    /// Sets how many tokens of this name the job takes: 1 to 1,000,000. The name is 1 to 64 printable ASCII characters
    /// without spaces, and neither `memory` nor `threads`.
    pub fn token(self, name: impl Into<String>, tokens: u32) -> Needs {
        // A name of another resource would silently replace its number, so it is rejected by its own check.
        match name.into() {
            name if name == MEMORY || name == THREADS => self.with(&format!("token {name}"), tokens.into()),
            name => self.with(&name, tokens.into()),
        }
    }

    pub(crate) fn with(mut self, name: &str, number: u64) -> Needs {
        self.0.insert(name.to_owned(), number);
        self
    }

    /// Each resource that is needed, by name, with its number: bytes, threads or tokens.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, number)| (name.as_str(), *number))
    }

    /// The needed number of this resource, if it is stated.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// These needs laid over other ones, such as a job's over its kind's: where both state a resource, these count.
    pub fn over(&self, others: &Needs) -> Needs {
        let mut needs = others.clone();
        needs.0.extend(self.0.clone());
        needs
    }

    /// The size of the names and numbers, about.
    pub(crate) fn bytes(&self) -> usize {
        self.iter().map(|(name, number)| name.len() + size_of_val(&number)).sum()
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("names and numbers can be written")
    }

    /// Rejects needs that the procedures would reject. The error says what is wrong and what is allowed.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, number) in self.iter() {
            let (most, unit) = match name {
                MEMORY => (MAX_MEMORY, "bytes"),
                THREADS => (MAX_THREADS, "threads"),
                _ => (MAX_TOKENS, "tokens"),
            };
            if !is_kind(name) {
                return Err(format!(
                    "the name of the token '{name}' must be {ALLOWED_TOKEN}, and neither memory nor threads"
                ));
            }
            if number == 0 || number > most {
                return Err(format!("the need of '{name}' is {number}; it must be 1 to {most} {unit}"));
            }
        }
        let length = self.json().len();
        if length > MAX_LENGTH {
            return Err(format!("the needs as JSON are {length} characters; they must be at most {MAX_LENGTH}"));
        }
        Ok(())
    }
}

/// Shows needs as people write them: `3 GiB of memory, 4 threads, 1 gpu`.
impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, number)) in self.iter().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            match name {
                MEMORY => write!(f, "{separator}{} of memory", bytes_in_words(number))?,
                THREADS if number == 1 => write!(f, "{separator}1 thread")?,
                _ => write!(f, "{separator}{number} {name}")?,
            }
        }
        Ok(())
    }
}

/// A number of bytes in the largest unit that keeps it readable: `3 GiB`, `1.5 GiB`, `800 bytes`.
pub(crate) fn bytes_in_words(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return format!("{bytes} bytes");
    };
    let tenths = (u128::from(bytes) * 10 + u128::from(unit / 2_u64)) / u128::from(unit);
    match tenths % 10 {
        0 => format!("{} {name}", tenths / 10),
        tenth => format!("{}.{tenth} {name}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_s_own_needs_take_precedence_over_its_kind_s() {
        let kind = Needs::new().memory(1 << 30).threads(4);
        let job = Needs::new().memory(3 << 30).token("gpu", 1);
        assert_eq!(job.over(&kind), Needs::new().memory(3 << 30).threads(4).token("gpu", 1));
        assert_eq!(Needs::new().over(&kind), kind);
    }

    #[test]
    fn needs_are_one_flat_object() {
        let needs = Needs::new().memory(1024).threads(2).token("license.abaqus", 3);
        assert_eq!(needs.json(), r#"{"license.abaqus":3,"memory":1024,"threads":2}"#);
        assert_eq!(serde_json::from_str::<Needs>(&needs.json()).unwrap(), needs);
        assert!(serde_json::from_str::<Needs>(r#"{"memory":-1}"#).is_err());
        assert!(serde_json::from_str::<Needs>(r#"{"memory":"3 GiB"}"#).is_err());
    }

    #[test]
    fn needs_that_the_procedures_reject_are_named_with_what_is_allowed() {
        let refused = |needs: Needs, text: &str| {
            let error = needs.check().unwrap_err();
            assert!(error.contains(text), "{error}");
        };
        refused(Needs::new().memory(0), "the need of 'memory' is 0; it must be 1 to 1125899906842624 bytes");
        refused(Needs::new().threads(1_025), "it must be 1 to 1024 threads");
        refused(Needs::new().token("gpu", 0), "it must be 1 to 1000000 tokens");
        refused(Needs::new().token("a b", 1), "'a b' must be 1 to 64 printable ASCII characters");
        refused(Needs::new().token("memory", 1), "neither memory nor threads");
        let many = (0..100).fold(Needs::new(), |needs, place| needs.token(format!("token-{place}"), 1));
        refused(many, "they must be at most 1000");
        assert_eq!(Needs::new().memory(MAX_MEMORY).threads(1_024).token("gpu", 1_000_000).check(), Ok(()));
    }

    #[test]
    fn needs_read_as_people_write_them() {
        let needs = Needs::new().memory(3 << 29).threads(4).token("gpu", 1);
        assert_eq!(needs.to_string(), "1 gpu, 1.5 GiB of memory, 4 threads");
        assert_eq!(bytes_in_words(800), "800 bytes");
        assert_eq!(bytes_in_words(u64::MAX), "16777216 TiB");
        assert_eq!(bytes_in_words((1 << 30) - 1), "1024 MiB");
    }
}
