//! Limits login attempts per name, and the memory and CPU that they use.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::failure::Failure;

/// How many wrong passwords a name may have within [`SPAN`]. Further attempts are rejected without checking the
/// password.
const FREE: usize = 5;

/// How long a wrong password counts.
const SPAN: Duration = Duration::from_secs(60);

/// Names kept, by their hashes: more than can be tried within [`SPAN`], because only [`HASHES`] attempts run at a time.
/// The name tried longest ago is dropped first.
const NAMES: usize = 20_000;

/// How many hashes are computed at the same time. Each takes 19 MiB and a core.
const HASHES: usize = 2;

/// How many attempts may wait for a hash. Further attempts are rejected.
const WAITING: usize = 32;

/// The wrong passwords of the last minute. Existing and unknown names are counted alike, so the counts do not reveal
/// which names exist.
#[derive(Debug)]
pub struct Attempts {
    wrong: Mutex<HashMap<u64, Vec<Instant>>>,
    names: RandomState,
    hashes: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts {
            wrong: Mutex::default(),
            names: RandomState::new(),
            hashes: Arc::new(Semaphore::new(HASHES)),
            waiting: Semaphore::new(WAITING),
        }
    }
}

impl Attempts {
    /// An unpredictable number of a name.
    pub fn number(&self, name: &str) -> u64 {
        self.names.hash_one(name)
    }

    /// Counts an attempt as wrong before its password is checked, so that parallel attempts count;
    /// [`right`](Self::right) takes it back. `Err`: how long to wait.
    pub fn begin(&self, name: &str) -> Result<(), Duration> {
        let (now, number, mut wrong) = (Instant::now(), self.number(name), self.wrong.lock());
        if wrong.len() >= NAMES && !wrong.contains_key(&number) {
            wrong.retain(|_, times| times.last().is_some_and(|time| now.duration_since(*time) < SPAN));
            let oldest = wrong.iter().min_by_key(|(_, times)| times.last()).map(|(number, _)| *number);
            if let Some(oldest) = oldest.filter(|_| wrong.len() >= NAMES) {
                wrong.remove(&oldest);
            }
        }
        let times = wrong.entry(number).or_default();
        times.retain(|time| now.duration_since(*time) < SPAN);
        if times.len() >= FREE {
            return Err(SPAN - now.duration_since(times[0]));
        }
        times.push(now);
        Ok(())
    }

    /// The password was right: resets the count.
    pub fn right(&self, name: &str) {
        self.wrong.lock().remove(&self.number(name));
    }

    /// Takes back an attempt whose password was not checked.
    pub fn unseen(&self, name: &str) {
        if let Some(times) = self.wrong.lock().get_mut(&self.number(name)) {
            times.pop();
        }
    }

    /// Computes hashes, a few at a time. A hash that was started keeps its place until it ends, even if its caller is
    /// gone.
    ///
    /// # Errors
    ///
    /// [`Failure::Busy`] if too many wait.
    pub async fn hash<T: Send + 'static>(&self, hash: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
        let waiting = self.waiting.try_acquire();
        let _waiting = waiting.map_err(|_| Failure::Busy("Too many people are logging in. Try again.".to_owned()))?;
        let place = self.hashes.clone().acquire_owned().await.map_err(|_| Failure::Internal)?; // it is never closed
        let hashing = move || {
            let _place = place;
            hash()
        };
        tokio::task::spawn_blocking(hashing).await.map_err(|_| Failure::Internal)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

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

    /// Which names there are cannot be told by trying others in between: whoever is counted stays counted.
    #[test]
    fn ten_thousand_names_neither_shut_anybody_out_nor_give_further_guesses() {
        let attempts = Attempts::default();
        for name in ["ann", "nobody"] {
            for _ in 0..FREE {
                assert_eq!(attempts.begin(name), Ok(()));
            }
        }
        for number in 0..10_000 {
            assert_eq!(attempts.begin(&number.to_string()), Ok(()), "{number}");
        }
        assert_eq!(attempts.begin("bob"), Ok(()));
        assert!(attempts.begin("ann").is_err() && attempts.begin("nobody").is_err());
    }

    #[test]
    fn names_do_not_fill_the_memory() {
        let attempts = Attempts::default();
        let long = "é".repeat(1_000);
        for number in 0..NAMES + 10 {
            let _ = attempts.begin(&format!("{number}{long}"));
        }
        assert_eq!(attempts.wrong.lock().len(), NAMES);
    }

    /// Each takes 19 MiB: 35 of them at once were 668 MB, because those whose browser had gone left their place and
    /// went on.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_hundred_log_ins_whose_browsers_go_away_are_two_hashes_and_few_wait() {
        let attempts = Arc::new(Attempts::default());
        let (started, starts) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let log_in = || {
            let (attempts, started, released) = (attempts.clone(), started.clone(), released.clone());
            tokio::spawn(async move {
                let hash = move || {
                    started.send(()).unwrap();
                    let _ = released.lock().recv();
                };
                attempts.hash(hash).await
            })
        };
        let mut gone = Vec::new();
        for _ in 0..HASHES {
            gone.push(log_in());
            starts.recv().unwrap(); // it hashes
        }
        for browser in &gone {
            browser.abort();
        }
        for browser in gone {
            assert!(browser.await.unwrap_err().is_cancelled());
        }
        let tries: Vec<_> = (0..100).map(|_| log_in()).collect();
        let mut refused = 0;
        for attempt in tries {
            // Those that wait do so until somebody lets the hashes end; the others are refused at once.
            if refused < 100 - WAITING {
                tokio::task::yield_now().await;
            }
            match tokio::time::timeout(Duration::from_millis(20), attempt).await {
                Ok(answer) => {
                    assert!(matches!(answer.unwrap(), Err(Failure::Busy(_))));
                    refused += 1;
                }
                Err(_) => assert!(starts.try_recv().is_err(), "no third hash"),
            }
        }
        assert_eq!(refused, 100 - WAITING);
        drop(release);
    }
}
