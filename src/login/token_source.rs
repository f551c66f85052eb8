//! Access tokens: their sources, and the token that all connections share.
//!
//! A token is sent only when a connection logs in. An open connection usually keeps working after its token has
//! expired. But Azure SQL may check the token again, after hours or after a reconfiguration of the server. It then
//! refuses the next call with an error for tokens (37396, dotnet/SqlClient#2792) or a login error (18456,
//! dotnet/SqlClient#617, #1333 and #3245). Both are transient, because the connection is replaced. Tokens are therefore
//! not fetched on a timer.
//!
//! ```text
//! a login ──▶ kept token, fresh ──────────────────────────▶ at once
//!    │            ▲
//!    └──▶ one fetch, a task of its own ──▶ its outcome ────▶ to all logins that still wait
//! ```
//!
//! A login uses the kept token. If that token has little time left, the login starts a fetch, unless one is running or
//! the last one failed recently. The fetch belongs to no caller: it and the waiting callers have separate time limits.
//! While the kept token is valid, a caller waits briefly for a fresher one and then uses the kept one. The lock is
//! never held across an await.

use super::secrets::AccessToken;
use super::token_cache::{FETCH_LIMIT, FetchBegun, FetchOutcome, Granted, NO_OUTCOME, TokenCache};
use crate::error::{BoxError, Error};
use crate::time::BootClock;
use parking_lot::Mutex;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a login with a valid token waits for a fresher one. A working source responds sooner.
const FRESHER_WITHIN: Duration = Duration::from_secs(1);

type Fetched = Pin<Box<dyn Future<Output = Result<AccessToken, BoxError>> + Send>>;

type Fetch = dyn Fn() -> Fetched + Send + Sync;

/// A program's own source of tokens, for
/// [`ConnectionConfig::token_source`](crate::config::ConnectionConfig::token_source).
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use readpast::Config;
/// use readpast::config::{AccessToken, TokenSource};
///
/// # async fn ask_the_vault() -> Result<String, std::io::Error> { Ok(String::new()) }
/// let mut config = Config::default();
/// config.connection.url = "Server=tcp:db1.database.windows.net,1433;Database=work".into();
/// config.connection.token_source = Some(TokenSource::new(|| async {
///     let token = ask_the_vault().await?;
///     Ok(AccessToken::new(token, SystemTime::now() + Duration::from_secs(3600)))
/// }));
/// ```
///
/// The function is called when a connection logs in and the previous token has expired or is about to: in its last five
/// minutes, or in the last quarter of a short lifetime. Clones share one token, so many connections that are opened at
/// once cause only one call.
///
/// A call may take 90 seconds, even if the connections that wait for it give up sooner. Its future is a task on the
/// tokio runtime of the first such connection, and is dropped when the time has passed. If that runtime is blocked for
/// so long, the next connection starts another call. After a failure, the next call follows after a pause that grows
/// from one second to one minute, and the previous token is used until it expires. Once it has expired, connecting
/// returns a [transient](crate::error::Error::is_transient) error: workers wait, and keep their jobs.
///
/// If SQL Server refuses a token that was accepted before, another is fetched immediately. If the token was never
/// accepted, the next one is fetched and tried after a pause, which grows from one second to ten. If SQL Server refuses
/// a call on an open connection because the token has expired, the connection is replaced by one with another token.
#[derive(Clone)]
pub struct TokenSource {
    shared: Arc<Shared>,
}

struct Shared {
    /// The source's name in errors, for example `the program's token source`.
    name: String,
    fetch: Box<Fetch>,
    cache: Mutex<TokenCache>,
    clock: BootClock,
}

impl TokenSource {
    /// Creates a source that fetches tokens with this function.
    ///
    /// The source keeps the tokens, so the function need not. The text of its error is logged and is part of
    /// [`Error::Credentials`](crate::error::Error::Credentials); it must contain no secret.
    pub fn new<F, Fut>(fetch: F) -> TokenSource
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<AccessToken, BoxError>> + Send + 'static,
    {
        TokenSource::named("the program's token source", fetch)
    }

    pub(crate) fn named<F, Fut>(name: impl Into<String>, fetch: F) -> TokenSource
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<AccessToken, BoxError>> + Send + 'static,
    {
        let shared = Shared {
            name: name.into(),
            fetch: Box::new(move || Box::pin(fetch())),
            cache: Mutex::default(),
            clock: BootClock::default(),
        };
        TokenSource { shared: Arc::new(shared) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns the kept token, or fetches one until `deadline`, which is `limit` after the call. The error is
    /// [`Error::Credentials`]. If the future is dropped, the fetch continues.
    pub(crate) async fn token(&self, deadline: Instant, limit: Duration) -> Result<Granted, Error> {
        let (fetch, without_outcome) = {
            let mut cache = self.shared.cache.lock();
            if let Some(kept) = cache.kept.as_ref().filter(|kept| kept.is_fresh()) {
                return Ok(kept.granted());
            }
            let without_outcome = cache.take_without_outcome(self.shared.clock.now());
            (self.fetch(&mut cache), without_outcome)
        };
        if let Some(failed) = without_outcome {
            failed.log(self.name());
        }
        let message = match fetch {
            Ok(fetch) => {
                let for_fresher = deadline.min(Instant::now() + FRESHER_WITHIN);
                let mut outcome = outcome_of(fetch.clone(), for_fresher).await;
                if outcome.is_none() && self.shared.cache.lock().living().is_none() {
                    outcome = outcome_of(fetch, deadline).await;
                }
                match outcome {
                    Some(Ok(token)) => return Ok(self.shared.cache.lock().granted(token)),
                    Some(Err(message)) => message,
                    None => format!("no response within {} ms", limit.as_millis()),
                }
            }
            Err(message) => message,
        };
        match self.shared.cache.lock().living() {
            Some(kept) => Ok(kept.granted()),
            None => Err(Error::Credentials { source_name: self.name().to_string(), message }),
        }
    }

    /// Returns the running fetch, or starts one. During the pause after a failed fetch, returns its message.
    fn fetch(&self, cache: &mut TokenCache) -> Result<watch::Receiver<FetchOutcome>, String> {
        if let Some(begun) = &cache.fetch
            && begun.outcome.has_changed().is_ok()
        {
            return Ok(begun.outcome.clone());
        }
        if let Some(failure) = &cache.failure
            && Instant::now() < failure.again_at
        {
            return Err(failure.message.clone());
        }
        let (sender, outcome) = watch::channel(None);
        cache.fetch = Some(FetchBegun { at: self.shared.clock.now(), outcome: outcome.clone() });
        tokio::spawn(self.shared.clone().run_fetch(sender));
        Ok(outcome)
    }

    /// Records that SQL Server accepted a login with this token.
    pub(crate) fn has_let_in(&self, token: &AccessToken) {
        if let Some(kept) = self.shared.cache.lock().kept.as_mut().filter(|kept| kept.token == *token) {
            kept.has_let_in = true;
        }
    }

    /// Drops this token from the cache, because SQL Server refused it.
    pub(crate) fn forget(&self, refused: &AccessToken) {
        self.shared.cache.lock().kept.take_if(|kept| kept.token == *refused);
    }
}

async fn outcome_of(mut fetch: watch::Receiver<FetchOutcome>, patience: Instant) -> FetchOutcome {
    match tokio::time::timeout_at(patience, fetch.wait_for(Option::is_some)).await {
        Ok(Ok(outcome)) => outcome.clone(),
        Ok(Err(_)) => Some(Err(NO_OUTCOME.to_string())),
        Err(_) => None,
    }
}

impl Shared {
    async fn run_fetch(self: Arc<Shared>, outcome: watch::Sender<FetchOutcome>) {
        let fetched = match tokio::time::timeout(FETCH_LIMIT, (self.fetch)()).await {
            Ok(Ok(token)) => Ok(token),
            Ok(Err(cause)) => Err(with_sources(&*cause)),
            Err(_) => Err(format!("no response within {} s", FETCH_LIMIT.as_secs())),
        };
        match fetched.clone() {
            Ok(token) => self.cache.lock().keep(token),
            Err(message) => {
                let failed = self.cache.lock().failed(message);
                failed.log(&self.name);
            }
        }
        outcome.send_replace(Some(fetched));
    }
}

/// Writes an error and its causes on one line, because the errors of HTTP clients say only in their last cause what
/// happened.
fn with_sources(error: &(dyn std::error::Error + Send + Sync)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSource").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

/// Equal only if it is the same source.
impl PartialEq for TokenSource {
    fn eq(&self, other: &TokenSource) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;
    use std::time::SystemTime;

    use crate::login::secrets::now;
    use crate::login::token_cache::PAUSES;

    /// Returns one token per permit, each valid for `lives_for`; fails from a given fetch on.
    struct Source {
        fetches: Arc<AtomicUsize>,
        permits: Arc<Semaphore>,
        tokens: TokenSource,
    }

    fn source(lives_for: Duration, fails_from: usize) -> Source {
        let (fetches, permits) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (counted, awaited) = (fetches.clone(), permits.clone());
        let tokens = TokenSource::new(move || {
            let number = counted.fetch_add(1, Ordering::AcqRel) + 1;
            let awaited = awaited.clone();
            async move {
                awaited.acquire().await?.forget();
                if number >= fails_from {
                    return Err(format!("failure {number}").into());
                }
                Ok(AccessToken::new(format!("token {number}"), now() + lives_for))
            }
        });
        Source { fetches, permits, tokens }
    }

    impl Source {
        fn fetches(&self) -> usize {
            self.fetches.load(Ordering::Acquire)
        }

        /// The kept token is valid, but due to be replaced.
        fn is_due(&self) {
            self.tokens.shared.cache.lock().kept.as_mut().unwrap().fetch_before_end = HOUR;
        }

        fn forgets(&self, text: &str) {
            self.tokens.forget(&AccessToken::new(text, self.kept_until()));
        }

        fn kept_until(&self) -> SystemTime {
            self.tokens.shared.cache.lock().kept.as_ref().unwrap().token.expires_at
        }
    }

    async fn granted(tokens: &TokenSource, within: Duration) -> Result<Granted, Error> {
        tokens.token(Instant::now() + within, within).await
    }

    async fn revealed_within(tokens: &TokenSource, within: Duration) -> Result<String, String> {
        let granted = granted(tokens, within).await;
        granted.map(|granted| granted.token.reveal().to_string()).map_err(|error| error.to_string())
    }

    async fn revealed(tokens: &TokenSource) -> Result<String, String> {
        revealed_within(tokens, HOUR).await
    }

    const HOUR: Duration = Duration::from_secs(3600);
    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn many_that_ask_at_once_share_one_fetch() {
        let source = source(HOUR, usize::MAX);
        let asking: Vec<_> = (0..50)
            .map(|_| {
                let tokens = source.tokens.clone();
                tokio::spawn(async move { revealed(&tokens).await })
            })
            .collect();
        source.permits.add_permits(50);
        for asked in asking {
            assert_eq!(asked.await.unwrap().unwrap(), "token 1");
        }
        assert_eq!(source.fetches(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_for_a_fetch_that_fails_fail_with_it() {
        let source = source(HOUR, 1);
        let permits = source.permits.clone();
        let allowing = async move { permits.add_permits(1) };
        let (first, second, ()) = tokio::join!(revealed(&source.tokens), revealed(&source.tokens), allowing);
        let message = first.unwrap_err();
        assert!(message.contains("the program's token source") && message.contains("failure 1"), "{message}");
        assert_eq!(second, Err(message));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_goes_on_when_nobody_waits_for_it_any_more() {
        let source = source(HOUR, usize::MAX);
        for _ in 0..10 {
            let message = revealed_within(&source.tokens, 2 * SECOND).await.unwrap_err();
            assert!(message.contains("no response within 2000 ms"), "{message}");
        }
        source.permits.add_permits(1);
        assert_eq!(revealed_within(&source.tokens, 2 * SECOND).await.unwrap(), "token 1");
        assert_eq!(source.fetches(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_a_living_token_does_not_wait_for_a_source_that_hangs() {
        let source = source(HOUR, usize::MAX);
        source.permits.add_permits(1);
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 1");
        source.is_due();
        let began_at = Instant::now();
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 1");
        assert_eq!(began_at.elapsed(), FRESHER_WITHIN);
        assert_eq!(source.fetches(), 2, "it is asked for another");

        // SQL Server refuses the token meanwhile, which removes it at once.
        source.forgets("token 1");
        let message = revealed_within(&source.tokens, SECOND).await.unwrap_err();
        assert!(message.contains("no response within 1000 ms"), "{message}");
        let message = revealed(&source.tokens).await.unwrap_err();
        assert!(message.contains("no response within 90 s"), "the fetch has a limit of its own: {message}");
        assert_eq!(source.fetches(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_a_living_token_that_is_forgotten_meanwhile_waits_on() {
        let source = source(HOUR, usize::MAX);
        source.permits.add_permits(1);
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 1");
        source.is_due();
        let answering = async {
            tokio::time::sleep(FRESHER_WITHIN / 2).await;
            source.forgets("token 1");
            tokio::time::sleep(5 * SECOND).await;
            source.permits.add_permits(1);
        };
        let (waiting, ()) = tokio::join!(revealed_within(&source.tokens, 10 * SECOND), answering);
        assert_eq!(waiting.unwrap(), "token 2");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_fails_is_asked_ever_more_seldom() {
        let source = source(HOUR, 1);
        source.permits.add_permits(Semaphore::MAX_PERMITS);
        let began_at = Instant::now();
        let mut after = Vec::new();
        while began_at.elapsed() < HOUR {
            let fetches_before = source.fetches();
            assert!(revealed(&source.tokens).await.is_err());
            if source.fetches() > fetches_before {
                after.push(began_at.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let pauses: Vec<_> = after.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses[0] <= PAUSES.0 + SECOND / 10, "{pauses:?}");
        assert!(pauses.len() < 130, "half a minute to a minute in the end: {}", pauses.len());
        assert!(pauses.iter().all(|pause| *pause <= PAUSES.1 + SECOND), "{pauses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_about_to_run_out_is_replaced_and_used_while_none_can_be_had() {
        let source = source(Duration::from_secs(2), 3);
        source.permits.add_permits(10);
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 1");
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 1", "it has more than half a second left");
        source.is_due();
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 2", "before it has run out");
        source.is_due();
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 2", "the source fails, and it still lives");
        source.tokens.shared.cache.lock().kept.as_mut().unwrap().token.expires_at = now();
        assert!(revealed(&source.tokens).await.unwrap_err().contains("failure 3"));
        tokio::time::sleep(PAUSES.0).await;
        assert!(revealed(&source.tokens).await.unwrap_err().contains("failure 4"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_was_refused_is_forgotten_and_no_other() {
        let source = source(HOUR, usize::MAX);
        source.permits.add_permits(10);
        let first = granted(&source.tokens, HOUR).await.unwrap();
        assert!(!first.has_let_in);
        source.tokens.has_let_in(&first.token);
        assert!(granted(&source.tokens, HOUR).await.unwrap().has_let_in);
        source.tokens.forget(&first.token);
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 2");
        source.tokens.forget(&first.token);
        let second = granted(&source.tokens, HOUR).await.unwrap();
        assert_eq!(second.token.reveal(), "token 2", "another connection had it refused before");
        assert!(!second.has_let_in);
    }

    /// A queue's clones may be used in several runtimes.
    #[test]
    fn a_fetch_that_ends_with_its_runtime_is_begun_anew_after_a_pause() {
        let source = source(HOUR, usize::MAX);
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime().block_on(async {
            assert!(revealed_within(&source.tokens, SECOND).await.unwrap_err().contains("no response within"));
        });
        source.permits.add_permits(1);
        runtime().block_on(async {
            assert!(revealed(&source.tokens).await.unwrap_err().contains(NO_OUTCOME));
            tokio::time::sleep(2 * PAUSES.0).await;
            assert_eq!(revealed(&source.tokens).await.unwrap(), "token 2");
        });
    }

    #[test]
    fn a_fetch_in_a_runtime_that_stands_still_is_begun_anew_elsewhere() {
        let source = source(HOUR, usize::MAX);
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (standing_still, driven) = (runtime(), runtime());
        standing_still.block_on(async {
            assert!(revealed_within(&source.tokens, SECOND).await.is_err());
        });
        driven.block_on(async {
            source.tokens.shared.clock.shift(FETCH_LIMIT / 2);
            assert!(revealed_within(&source.tokens, SECOND).await.unwrap_err().contains("no response within 1000 ms"));
            assert_eq!(source.fetches(), 1);
            source.tokens.shared.clock.shift(FETCH_LIMIT);
            assert!(revealed_within(&source.tokens, SECOND).await.unwrap_err().contains(NO_OUTCOME));
            tokio::time::sleep(2 * PAUSES.0).await;
            source.permits.add_permits(2);
            assert_eq!(revealed_within(&source.tokens, SECOND).await.unwrap(), "token 2");
        });
    }

    #[tokio::test]
    async fn a_token_shows_nowhere() {
        let source = source(HOUR, usize::MAX);
        source.permits.add_permits(1);
        let granted = granted(&source.tokens, HOUR).await.unwrap();
        assert!(!format!("{:?} {granted:?} {:#?}", source.tokens, granted.token).contains("token 1"));
    }
}
