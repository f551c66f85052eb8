//! Starts programs on a machine that may lack descriptors, processes or memory. Such a shortage is not the job's fault,
//! so the job waits without using up an attempt.

use std::error::Error;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use readpast::{BoxError, Context, JobError};
#[cfg(unix)]
use rustix::io::Errno;

use super::ending::pause;
use super::program::Program;

/// The first pause between two tries. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// After this long the job is snoozed, so that another machine can take it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long such a job is snoozed.
const AGAIN: Duration = Duration::from_secs(10);

/// How often a lasting shortage is logged.
const TELL: Duration = Duration::from_secs(60);

/// The errors of a shortage.
#[cfg(unix)]
const SHORTAGES: [i32; 4] = [
    Errno::MFILE.raw_os_error(),
    Errno::NFILE.raw_os_error(),
    Errno::AGAIN.raw_os_error(),
    Errno::NOMEM.raw_os_error(),
];

/// ERROR_TOO_MANY_OPEN_FILES, ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY, ERROR_NO_SYSTEM_RESOURCES and
/// ERROR_COMMITMENT_LIMIT ("System Error Codes" in Microsoft's Windows documentation).
#[cfg(not(unix))]
const SHORTAGES: [i32; 5] = [4, 8, 14, 1450, 1455];

/// Recent shortages, and when they were logged; shared by all threads.
#[derive(Default)]
pub struct Starting {
    told_at: Mutex<Option<Instant>>,
}

impl Starting {
    /// Starts a program by calling `start`, and waits during a shortage.
    ///
    /// # Errors
    ///
    /// If it cannot be started. After a long shortage, or if the job may no longer start, the job is snoozed.
    pub fn start<T>(
        &self,
        program: &Program,
        context: &Context,
        mut start: impl FnMut() -> Result<T, BoxError>,
    ) -> Result<T, BoxError> {
        let (begun, mut delay) = (Instant::now(), FIRST_PAUSE);
        loop {
            let error = match start() {
                Ok(started) => {
                    if delay > FIRST_PAUSE {
                        self.tell_end();
                    }
                    return Ok(started);
                }
                Err(error) => error,
            };
            if !is_shortage(&*error) {
                // A system error is about the program, any other about the job.
                return Err(match error.downcast::<io::Error>() {
                    Ok(error) => program.not_started(&error).into(),
                    Err(error) => error,
                });
            }
            self.tell(&*error);
            if begun.elapsed() >= PATIENCE || !pause(context, delay) {
                let again = if context.is_stopping() { Duration::ZERO } else { AGAIN };
                return Err(JobError::snooze(again, format!("not started: {error}")).into());
            }
            delay = (delay * 2).min(LONGEST_PAUSE);
        }
    }

    fn tell(&self, error: &dyn Error) {
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        if told_at.is_none_or(|at| at.elapsed() >= TELL) {
            *told_at = Some(Instant::now());
            drop(told_at);
            tracing::warn!(%error, "cannot start programs: the machine lacks files, processes or memory; jobs wait without using up an attempt");
        }
    }

    fn tell_end(&self) {
        let told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner).take();
        if told_at.is_some() {
            tracing::info!("programs start again");
        }
    }
}

/// Whether an error or one of its causes is a shortage.
pub fn is_shortage(error: &(dyn Error + 'static)) -> bool {
    let number = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    number.is_some_and(|number| SHORTAGES.contains(&number)) || error.source().is_some_and(is_shortage)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_known_however_deep_it_stands() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM] {
            let error = io::Error::from(errno);
            assert!(is_shortage(&error), "{error}");
            let wrapped = anyhow::Error::from(error).context("cannot create a file");
            assert!(is_shortage(&*BoxError::from(wrapped)));
        }
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::TOOBIG, Errno::NOSPC] {
            assert!(!is_shortage(&io::Error::from(errno)));
        }
    }
}
