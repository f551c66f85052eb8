//! How often somebody may try to log in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// So many wrong passwords for a name within [`SPAN`], and the next are refused unread.
const FREE: usize = 5;

/// How long a wrong password counts.
const SPAN: Duration = Duration::from_secs(60);

/// So many names are kept: somebody who tries names, not passwords, does not fill the memory.
const NAMES: usize = 1_000;

/// A hash takes 19 MiB and a core for a while: so many at once.
const HASHES: usize = 2;

/// The wrong passwords of the last minute.
#[derive(Debug)]
pub struct Attempts {
    wrong: Mutex<HashMap<String, Vec<Instant>>>,
    /// Taken while a password is hashed.
    pub hashes: Semaphore,
}

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts { wrong: Mutex::default(), hashes: Semaphore::new(HASHES) }
    }
}

impl Attempts {
    /// Counts an attempt as wrong before its password is looked at, so that many at once are not looked at together;
    /// [`right`](Self::right) takes it back. `Err`: how long to wait.
    pub fn begin(&self, name: &str) -> Result<(), Duration> {
        let (now, mut wrong) = (Instant::now(), self.wrong.lock());
        if wrong.len() >= NAMES {
            wrong.retain(|_, times| times.last().is_some_and(|last| now.duration_since(*last) < SPAN));
        }
        if wrong.len() >= NAMES && !wrong.contains_key(name) {
            return Err(SPAN);
        }
        let times = wrong.entry(name.to_owned()).or_default();
        times.retain(|time| now.duration_since(*time) < SPAN);
        if times.len() >= FREE {
            return Err(SPAN - now.duration_since(times[0]));
        }
        times.push(now);
        Ok(())
    }

    /// The password was right: what was wrong before no longer counts.
    pub fn right(&self, name: &str) {
        self.wrong.lock().remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_five_wrong_passwords_the_sixth_is_refused_for_that_name_only() {
        let attempts = Attempts::default();
        for _ in 0..FREE {
            assert_eq!(attempts.begin("ann"), Ok(()));
        }
        assert!(attempts.begin("ann").unwrap_err() <= SPAN);
        assert_eq!(attempts.begin("bob"), Ok(()));
        attempts.right("ann");
        assert_eq!(attempts.begin("ann"), Ok(()));
    }

    #[test]
    fn names_do_not_fill_the_memory() {
        let attempts = Attempts::default();
        for number in 0..2 * NAMES {
            let _ = attempts.begin(&number.to_string());
        }
        assert_eq!(attempts.wrong.lock().len(), NAMES);
    }
}
