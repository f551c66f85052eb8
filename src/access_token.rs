//! Access tokens: where they come from, and the one that all connections share.
//!
//! A token is sent when a connection logs in, and there is no way to send another on it later. An open connection goes
//! on after its token has run out; Azure SQL looks at it again after hours (ten, says dotnet/SqlClient#635), and then
//! refuses the next call with an error of its own (37396, dotnet/SqlClient#2792), which is transient: the connection is
//! made anew. So nothing fetches by the clock. The connection that needs a token takes the one that is kept; where that
//! has little time left, it fetches another first, and whoever comes meanwhile waits for it instead of fetching a second.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::Mutex;

use crate::error::Error;
use crate::handler::BoxError;
use crate::secret::Secret;

/// A token with less time left is not used where another can be had. Entra's live for an hour or more, so that there is
/// time for a source that is out of order to come back.
const FETCH_BEFORE_END: Duration = Duration::from_secs(5 * 60);

/// A token for SQL Server, as Microsoft Entra ID issues them. Its Debug output hides it.
///
/// Its audience must be `https://database.windows.net/` (the scope `https://database.windows.net/.default`), or what
/// that is called in another cloud of Azure's.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessToken {
    token: Secret,
    expires_at: SystemTime,
}

impl AccessToken {
    /// A token, and when it runs out. One that has run out is refused by SQL Server.
    pub fn new(token: impl Into<String>, expires_at: SystemTime) -> AccessToken {
        AccessToken { token: Secret::new(token), expires_at }
    }

    /// When it runs out.
    pub fn expires_at(&self) -> SystemTime {
        self.expires_at
    }

    pub(crate) fn reveal(&self) -> &str {
        self.token.reveal()
    }

    fn time_left(&self) -> Duration {
        self.expires_at.duration_since(now()).unwrap_or_default()
    }
}

/// What a token's end is told by. One that is used too long because this clock is wrong is refused, and replaced.
#[expect(clippy::disallowed_methods, reason = "Entra's tokens end by the calendar")]
fn now() -> SystemTime {
    SystemTime::now()
}

type Fetched = Pin<Box<dyn Future<Output = Result<AccessToken, BoxError>> + Send>>;
type Fetch = dyn Fn() -> Fetched + Send + Sync;

/// A program's own source of tokens, for [`ConnectionConfig::token_source`](crate::ConnectionConfig::token_source).
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use readpast::{AccessToken, Config, TokenSource};
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
/// It is asked when a connection logs in and the token before has run out or is about to: in its last five minutes, or
/// the last quarter of a short life. Clones share one token: however many connections are made at once, it is asked
/// once. It has until `connection.connect_timeout_ms` is over; its future is dropped then. While it fails, the token
/// before is used as long as it lives; then connections cannot be made, which is a
/// [transient](crate::Error::is_transient) error: workers wait, and what they hold is not lost.
///
/// Where SQL Server refuses a token that was kept, one more is fetched at once. Open connections need no token any more;
/// one whose token has run out long ago may be made anew.
#[derive(Clone)]
pub struct TokenSource {
    shared: Arc<Shared>,
}

struct Shared {
    /// For errors: `the program's token source`.
    name: String,
    fetch: Box<Fetch>,
    kept: Mutex<Option<Kept>>,
    /// How many fetches have ended without a token.
    failures: AtomicU64,
    last_failure: parking_lot::Mutex<String>,
}

struct Kept {
    token: AccessToken,
    /// With less time left, another is fetched.
    fetch_before_end: Duration,
}

/// A token for a login.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) token: AccessToken,
    /// It had been fetched before, and may have been withdrawn since.
    pub(crate) was_kept: bool,
}

impl TokenSource {
    /// A source that fetches tokens by this function.
    ///
    /// What it answers is kept: it need not keep tokens itself. The text of its error goes into logs and
    /// [`Error::Credentials`](crate::Error::Credentials); it must hold no secret.
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
            kept: Mutex::default(),
            failures: AtomicU64::default(),
            last_failure: parking_lot::Mutex::default(),
        };
        TokenSource { shared: Arc::new(shared) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.shared.name
    }

    /// The token that is kept, or one that is fetched now.
    ///
    /// # Errors
    ///
    /// [`Error::Credentials`].
    ///
    /// # Cancel safety
    ///
    /// A fetch that is dropped is begun anew by one of those who wait for it.
    pub(crate) async fn token(&self) -> Result<Granted, Error> {
        let failures_before = self.shared.failures.load(Ordering::Acquire);
        let mut kept = self.shared.kept.lock().await;
        if let Some(kept) = kept.as_ref()
            && kept.token.time_left() > kept.fetch_before_end
        {
            return Ok(Granted { token: kept.token.clone(), was_kept: true });
        }
        // Of many that waited for one fetch, none asks a source again that has just failed.
        if self.shared.failures.load(Ordering::Acquire) == failures_before {
            match (self.shared.fetch)().await {
                Ok(token) => {
                    let fetch_before_end = FETCH_BEFORE_END.min(token.time_left() / 4);
                    *kept = Some(Kept { token: token.clone(), fetch_before_end });
                    return Ok(Granted { token, was_kept: false });
                }
                Err(cause) => {
                    *self.shared.last_failure.lock() = with_sources(&*cause);
                    self.shared.failures.fetch_add(1, Ordering::AcqRel);
                }
            }
        }
        let message = self.shared.last_failure.lock().clone();
        match kept.as_ref() {
            Some(kept) if !kept.token.time_left().is_zero() => {
                let seconds_left = kept.token.time_left().as_secs();
                tracing::warn!(
                    source = self.name(),
                    error = message,
                    seconds_left,
                    "no new token; using the one before"
                );
                Ok(Granted { token: kept.token.clone(), was_kept: true })
            }
            _ => Err(Error::Credentials { source_name: self.name().to_string(), message }),
        }
    }

    /// Keeps a token no longer that SQL Server has refused.
    pub(crate) async fn forget(&self, refused: &AccessToken) {
        let mut kept = self.shared.kept.lock().await;
        if kept.as_ref().is_some_and(|kept| kept.token == *refused) {
            *kept = None;
        }
    }
}

/// An error and its causes on one line: HTTP clients say what has happened only in the last.
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

/// The same source, not only one like it.
impl PartialEq for TokenSource {
    fn eq(&self, other: &TokenSource) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::Semaphore;

    use super::*;

    /// Answers one fetch for each permit, with tokens that live so long, or fails.
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

    async fn revealed(tokens: &TokenSource) -> Result<String, String> {
        tokens.token().await.map(|granted| granted.token.reveal().to_string()).map_err(|error| error.to_string())
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
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
        assert_eq!(source.fetches.load(Ordering::Acquire), 1);
    }

    #[tokio::test]
    async fn those_who_waited_for_a_fetch_that_failed_fail_with_it() {
        let source = source(HOUR, 1);
        let mut first = Box::pin(revealed(&source.tokens));
        let mut others = Box::pin(async { tokio::join!(revealed(&source.tokens), revealed(&source.tokens)) });
        // Each gets as far as it can: one fetches, two wait for it.
        assert!(futures_poll(&mut first).await.is_none() && futures_poll(&mut others).await.is_none());
        source.permits.add_permits(10);
        let message = first.await.unwrap_err();
        assert!(message.contains("the program's token source") && message.contains("failure 1"), "{message}");
        let (second, third) = others.await;
        assert_eq!((second, third), (Err(message.clone()), Err(message)));
        assert!(revealed(&source.tokens).await.unwrap_err().contains("failure 2"), "who comes later asks anew");
    }

    #[tokio::test]
    async fn a_fetch_that_is_given_up_is_begun_anew_by_one_who_waits() {
        let source = source(HOUR, usize::MAX);
        let mut first = Box::pin(revealed(&source.tokens));
        let mut second = Box::pin(revealed(&source.tokens));
        assert!(futures_poll(&mut first).await.is_none() && futures_poll(&mut second).await.is_none());
        drop(first);
        source.permits.add_permits(1);
        assert_eq!(second.await.unwrap(), "token 2");
    }

    #[tokio::test]
    async fn a_token_that_is_about_to_run_out_is_replaced_and_used_while_none_can_be_had() {
        let source = source(Duration::from_secs(2), 3);
        source.permits.add_permits(10);
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 1");
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 1", "it has more than half a second left");
        source.tokens.shared.kept.lock().await.as_mut().unwrap().fetch_before_end = HOUR;
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 2", "before it has run out");
        source.tokens.shared.kept.lock().await.as_mut().unwrap().fetch_before_end = HOUR;
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 2", "the source fails, and it still lives");
        source.tokens.shared.kept.lock().await.as_mut().unwrap().token.expires_at = now();
        assert!(revealed(&source.tokens).await.unwrap_err().contains("failure 4"));
    }

    #[tokio::test]
    async fn a_token_that_was_refused_is_forgotten_and_no_other() {
        let source = source(HOUR, usize::MAX);
        source.permits.add_permits(10);
        let first = source.tokens.token().await.unwrap();
        assert!(!first.was_kept && source.tokens.token().await.unwrap().was_kept);
        source.tokens.forget(&first.token).await;
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 2");
        source.tokens.forget(&first.token).await;
        assert_eq!(revealed(&source.tokens).await.unwrap(), "token 2", "another connection had it refused before");
    }

    #[tokio::test]
    async fn a_token_shows_nowhere() {
        let source = source(HOUR, usize::MAX);
        source.permits.add_permits(1);
        let granted = source.tokens.token().await.unwrap();
        assert!(!format!("{:?} {granted:?} {:#?}", source.tokens, granted.token).contains("token 1"));
    }

    /// One poll.
    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match Pin::new(&mut *future).poll(context) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
