//! How often somebody may try to log in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// So many wrong passwords for a name within [`SPAN`], and the next are refused unread.
const FREE: usize = 5;

/// How long a wrong password counts.
const SPAN: Duration = Duration::from_secs(60);

/// So many names are kept that nobody has, and so much of each: somebody who tries names, not passwords, does not fill the
/// memory. The one that was tried longest ago goes first.
const INVENTED: usize = 1_000;
const INVENTED_CHARS: usize = 64;

/// A hash takes 19 MiB and a core for a while: so many at once.
const HASHES: usize = 2;

/// The wrong passwords of the last minute.
#[derive(Debug)]
pub struct Attempts {
    wrong: Mutex<Wrong>,
    /// Taken while a password is hashed.
    pub hashes: Semaphore,
}

/// By names. Those that somebody has are kept by themselves: names that are made up neither use up their place nor make
/// their attempts forgotten. But they are counted alike, so that nobody learns from it which names there are.
#[derive(Debug, Default)]
struct Wrong {
    users: HashMap<String, Vec<Instant>>,
    invented: HashMap<String, Vec<Instant>>,
}

impl Wrong {
    fn times(&mut self, name: &str, is_user: bool) -> &mut Vec<Instant> {
        if is_user {
            return self.users.entry(name.to_owned()).or_default();
        }
        let name: String = name.chars().take(INVENTED_CHARS).collect();
        if self.invented.len() >= INVENTED && !self.invented.contains_key(&name) {
            let oldest = self.invented.iter().min_by_key(|(_, times)| times.last());
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.invented.remove(&oldest);
            }
        }
        self.invented.entry(name).or_default()
    }
}

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts { wrong: Mutex::default(), hashes: Semaphore::new(HASHES) }
    }
}

impl Attempts {
    /// Counts an attempt as wrong before its password is looked at, so that many at once are not looked at together;
    /// [`right`](Self::right) takes it back. `is_user`: somebody has this name. `Err`: how long to wait.
    pub fn begin(&self, name: &str, is_user: bool) -> Result<(), Duration> {
        let (now, mut wrong) = (Instant::now(), self.wrong.lock());
        let times = wrong.times(name, is_user);
        times.retain(|time| now.duration_since(*time) < SPAN);
        if times.len() >= FREE {
            return Err(SPAN - now.duration_since(times[0]));
        }
        times.push(now);
        Ok(())
    }

    /// The password was right: what was wrong before no longer counts.
    pub fn right(&self, name: &str) {
        self.wrong.lock().users.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_five_wrong_passwords_the_sixth_is_refused_for_that_name_only() {
        let attempts = Attempts::default();
        for _ in 0..FREE {
            assert_eq!(attempts.begin("ann", true), Ok(()));
        }
        assert!(attempts.begin("ann", true).unwrap_err() <= SPAN);
        assert_eq!(attempts.begin("bob", true), Ok(()));
        attempts.right("ann");
        assert_eq!(attempts.begin("ann", true), Ok(()));
    }

    #[test]
    fn a_name_that_nobody_has_is_refused_as_one_of_somebody_s_is() {
        let attempts = Attempts::default();
        for _ in 0..FREE {
            assert_eq!(attempts.begin("nobody", false), Ok(()));
        }
        assert!(attempts.begin("nobody", false).is_err());
    }

    #[test]
    fn names_do_not_fill_the_memory() {
        let attempts = Attempts::default();
        for number in 0..2 * INVENTED {
            let _ = attempts.begin(&format!("{number}{}", "é".repeat(100_000)), false);
        }
        let kept = &attempts.wrong.lock().invented;
        assert_eq!(kept.len(), INVENTED);
        assert!(kept.keys().all(|name| name.len() <= 2 * INVENTED_CHARS));
    }

    #[test]
    fn invented_names_neither_shut_anybody_out_nor_give_further_guesses() {
        let attempts = Attempts::default();
        for _ in 0..FREE {
            assert_eq!(attempts.begin("ann", true), Ok(()));
        }
        for number in 0..2 * INVENTED {
            assert_eq!(attempts.begin(&number.to_string(), false), Ok(()), "{number}");
        }
        assert_eq!(attempts.begin("bob", true), Ok(()));
        assert!(attempts.begin("ann", true).is_err());
    }
}
