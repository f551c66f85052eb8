//! Sessions.
//!
//! Nothing is stored before a login: the cookie itself proves that this process issued it, and the form token is
//! derived from the cookie. Requests without a login therefore cannot push out the sessions of logged-in users.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use blake2::{Blake2s256, Digest};
use parking_lot::Mutex;
use readpast::crates::uuid::Uuid;
use subtle::ConstantTimeEq;

use crate::texts::in_one_direction;

/// How long a login may be idle before it expires.
const LIFE: Duration = Duration::from_secs(12 * 3_600);

/// The most log-ins; beyond that, the one that was used longest ago is dropped.
const MOST: usize = 10_000;

/// The most notices that wait for their browser's next page; beyond that, the oldest is dropped.
const NOTICES: usize = 1_000;

/// The beginning of the cookies' names.
pub const COOKIE: &str = "readpast_session_";

/// A cookie without a log-in has this many random digits, and as many derived from them with this page's key.
const HALF: usize = 32;

#[derive(Debug, Clone)]
pub struct Session {
    /// The logged-in user, or `None` if there is none.
    pub user: Option<LoggedIn>,
    /// The token that every form must contain.
    pub csrf: String,
}

/// A logged-in user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    pub name: String,
    pub read_only: bool,
}

#[derive(Debug)]
struct Kept {
    session: Session,
    last_used: Instant,
}

/// All sessions of this process.
#[derive(Debug)]
pub struct Sessions {
    /// The cookie's name. A browser sends a host's cookies to all its ports and subpaths; with names of their own, two
    /// instances do not replace each other's.
    pub name: String,
    /// This process's secret.
    key: String,
    /// The sessions of logged-in users, by cookie.
    logged_in: Mutex<HashMap<String, Kept>>,
    /// Notices for the next page, by cookie, with their times.
    notices: Mutex<HashMap<String, (String, Instant)>>,
}

impl Default for Sessions {
    fn default() -> Sessions {
        let name = format!("{COOKIE}{}", &secret()[..8]);
        Sessions { name, key: secret(), logged_in: Mutex::default(), notices: Mutex::default() }
    }
}

impl Sessions {
    /// A new session without a login, which is not stored; returns its cookie.
    pub fn visit(&self) -> (String, Session) {
        let random = &secret()[..HALF];
        let cookie = format!("{random}{}", &self.made_of("cookie", random)[..HALF]);
        let session = self.without_log_in(&cookie);
        (cookie, session)
    }

    fn without_log_in(&self, cookie: &str) -> Session {
        Session { user: None, csrf: self.made_of("form", cookie) }
    }

    /// 64 digits that cannot be made without the key. (Unlike SHA-2, BLAKE2 needs no HMAC for that: RFC 7693, section
    /// 1.)
    fn made_of(&self, what_for: &str, text: &str) -> String {
        let digest = Blake2s256::digest(format!("{}:{what_for}:{text}", self.key));
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Starts a session of a logged-in user. Returns its cookie.
    pub fn log_in(&self, user: LoggedIn) -> String {
        let (cookie, now) = (secret(), Instant::now());
        let session = Session { user: Some(user), csrf: secret() };
        let mut logged_in = self.logged_in.lock();
        if logged_in.len() >= MOST {
            logged_in.retain(|_, kept| now.duration_since(kept.last_used) < LIFE);
        }
        if logged_in.len() >= MOST {
            let oldest = logged_in.iter().min_by_key(|(_, kept)| kept.last_used);
            if let Some(oldest) = oldest.map(|(cookie, _)| cookie.clone()) {
                logged_in.remove(&oldest);
            }
        }
        logged_in.insert(cookie.clone(), Kept { session, last_used: now });
        cookie
    }

    /// The session of a valid cookie. This counts as use.
    pub fn get(&self, cookie: &str) -> Option<Session> {
        let (now, mut logged_in) = (Instant::now(), self.logged_in.lock());
        if let Some(kept) = logged_in.get_mut(cookie) {
            if now.duration_since(kept.last_used) >= LIFE {
                logged_in.remove(cookie);
                return None;
            }
            kept.last_used = now;
            return Some(kept.session.clone());
        }
        drop(logged_in);
        let (random, proof) = cookie.split_at_checked(HALF)?;
        let is_ours = bool::from(proof.as_bytes().ct_eq(&self.made_of("cookie", random).as_bytes()[..HALF]));
        is_ours.then(|| self.without_log_in(cookie))
    }

    pub fn end(&self, cookie: &str) {
        self.logged_in.lock().remove(cookie);
        self.notices.lock().remove(cookie);
    }

    /// Shows a notice on the session's next page.
    pub fn say(&self, cookie: &str, notice: String) {
        let notice = in_one_direction(&notice);
        let mut notices = self.notices.lock();
        if notices.len() >= NOTICES {
            let oldest = notices.iter().min_by_key(|(_, (_, since))| *since).map(|(cookie, _)| cookie.clone());
            if let Some(oldest) = oldest {
                notices.remove(&oldest);
            }
        }
        notices.insert(cookie.to_owned(), (notice, Instant::now()));
    }

    /// Returns the session's notice and removes it.
    pub fn take_notice(&self, cookie: &str) -> Option<String> {
        self.notices.lock().remove(cookie).map(|(notice, _)| notice)
    }
}

/// 244 random bits.
fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_asked_for_goes_on() {
        let sessions = Sessions::default();
        let last_used = |cookie: &str| sessions.logged_in.lock()[cookie].last_used;
        let cookie = sessions.log_in(LoggedIn { name: "ann".to_owned(), read_only: false });
        let begun = last_used(&cookie);
        std::thread::sleep(Duration::from_millis(2)); // time itself is meant
        sessions.get(&cookie).unwrap();
        assert!(last_used(&cookie) > begun);
    }

    #[test]
    fn a_visit_is_known_by_its_cookie_alone() {
        let sessions = Sessions::default();
        let (cookie, session) = sessions.visit();
        assert_eq!(sessions.get(&cookie).unwrap().csrf, session.csrf);
        assert!(sessions.logged_in.lock().is_empty() && sessions.notices.lock().is_empty());
        assert_ne!(sessions.visit().1.csrf, session.csrf);
        let changed = format!("{}{}", if cookie.starts_with('0') { '1' } else { '0' }, &cookie[1..]);
        for foreign in [changed.as_str(), &cookie[..HALF], &cookie[..HALF + 1], "", &"é".repeat(HALF)] {
            assert!(sessions.get(foreign).is_none(), "{foreign}");
        }
        assert!(Sessions::default().get(&cookie).is_none(), "another page's");
    }

    #[test]
    fn notices_do_not_fill_the_memory() {
        let sessions = Sessions::default();
        for number in 0..2 * NOTICES {
            sessions.say(&number.to_string(), "done".to_owned());
        }
        assert_eq!(sessions.notices.lock().len(), NOTICES);
        assert!(sessions.take_notice("0").is_none() && sessions.take_notice("1999").is_some());
    }
}
