//! Who has which cookie.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use readpast::Uuid;

/// A session that nobody has used for so long is over.
const LIFE: Duration = Duration::from_secs(12 * 3_600);

/// So many are kept; beyond that, the one that was used longest ago goes, and
/// those without a log-in first. Who sends no cookies gets a new one with each
/// request.
const MOST: usize = 10_000;

/// How the cookies' names begin.
pub const COOKIE: &str = "readpast_session_";

/// What a browser has said and been told.
#[derive(Debug, Clone)]
pub struct Session {
    /// Who has logged in; `None`: nobody, or nobody must.
    pub user: Option<LoggedIn>,
    /// What every form that changes something has to contain.
    pub csrf: String,
    last_used: Instant,
    /// What is to be said on the next page.
    notice: Option<String>,
}

/// Somebody who has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    pub name: String,
    pub read_only: bool,
}

/// All sessions of this process, by the cookies' values. They end with it.
#[derive(Debug)]
pub struct Sessions {
    /// The cookies' name. A browser sends a host's cookies to all its ports, and those of a path to all below: with
    /// names of their own, two pages do not replace each other's.
    pub name: String,
    by_cookie: Mutex<HashMap<String, Session>>,
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions { name: format!("{COOKIE}{}", &secret()[..8]), by_cookie: Mutex::default() }
    }
}

impl Sessions {
    /// A new one; returns its cookie.
    pub fn begin(&self, user: Option<LoggedIn>) -> (String, Session) {
        let (cookie, now) = (secret(), Instant::now());
        let session = Session { user, csrf: secret(), last_used: now, notice: None };
        let mut sessions = self.by_cookie.lock();
        if sessions.len() >= MOST {
            sessions.retain(|_, session| now.duration_since(session.last_used) < LIFE);
        }
        if sessions.len() >= MOST {
            // Who has logged in goes last: without a log-in, anybody can begin as many as he likes.
            let oldest = sessions.iter().min_by_key(|(_, session)| (session.user.is_some(), session.last_used));
            if let Some(oldest) = oldest.map(|(cookie, _)| cookie.clone()) {
                sessions.remove(&oldest);
            }
        }
        sessions.insert(cookie.clone(), session.clone());
        (cookie, session)
    }

    /// That of a cookie, if it is not over. Asking is using it.
    pub fn get(&self, cookie: &str) -> Option<Session> {
        let mut sessions = self.by_cookie.lock();
        let (now, session) = (Instant::now(), sessions.get_mut(cookie)?);
        if now.duration_since(session.last_used) >= LIFE {
            sessions.remove(cookie);
            return None;
        }
        session.last_used = now;
        Some(session.clone())
    }

    pub fn end(&self, cookie: &str) {
        self.by_cookie.lock().remove(cookie);
    }

    /// Says something on the session's next page.
    pub fn say(&self, cookie: &str, notice: String) {
        if let Some(session) = self.by_cookie.lock().get_mut(cookie) {
            session.notice = Some(notice);
        }
    }

    /// What is to be said, once.
    pub fn take_notice(&self, cookie: &str) -> Option<String> {
        self.by_cookie.lock().get_mut(cookie)?.notice.take()
    }
}

/// 244 bits that nobody can guess.
fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_asked_for_goes_on() {
        let sessions = Sessions::default();
        let (cookie, begun) = sessions.begin(None);
        std::thread::sleep(Duration::from_millis(2)); // time itself is meant
        assert!(sessions.get(&cookie).unwrap().last_used > begun.last_used);
    }
}
