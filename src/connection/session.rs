//! A session owns one connection, and reconnects as needed.
//!
//! A call takes the connection out of its session. It puts the connection back after success, or after an ordinary
//! error of SQL Server that left no transaction open. After a timeout, a dropped future or any other error, the
//! connection is closed, and the next call reconnects. A partly read response is therefore never taken for the response
//! to a later call, and SQL Server rolls back what was not committed.

use std::convert::Infallible;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiberius::{Command, Row};

use crate::error::Error;
use crate::id::AuditId;

use super::answer_size_limit::{Answer, AnswerSizeLimit};
use super::columns::{Columns, columns, into_rows, one_row};
use super::connector::{Connection, Connector};
use super::parameters::procedure;

/// One connection, owned, opened when needed.
#[derive(Debug)]
pub(crate) struct Session {
    connector: Arc<Connector>,
    idle: Option<Idle>,
    /// Whether the last connection failed, or its call was abandoned.
    is_broken: bool,
    /// The deadline and the limit of calls made through [`Session::within`].
    deadline: Option<(tokio::time::Instant, Duration)>,
    /// The audit entry of the borrower's actions ([`Session::action`]).
    audit: Option<AuditId>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    /// When the last response arrived, by the connector's clock.
    answered_at: Duration,
}

impl Session {
    pub(crate) fn new(connector: Arc<Connector>) -> Session {
        Session { connector, idle: None, is_broken: false, deadline: None, audit: None }
    }

    pub(crate) fn connector(&self) -> Arc<Connector> {
        self.connector.clone()
    }

    /// Gives calls on the returned value their own timeout, including connecting, instead of the command timeout:
    /// `session.within(limit).heartbeat(worker_id).await`. If it passes, the call fails with [`Error::TimedOut`] and
    /// its connection is dropped.
    pub(crate) fn within(&mut self, limit: Duration) -> Within<'_> {
        self.until(tokio::time::Instant::now() + limit, limit)
    }

    /// Like [`within`](Session::within), with a timeout that started earlier.
    pub(crate) fn until(&mut self, deadline: tokio::time::Instant, limit: Duration) -> Within<'_> {
        self.deadline = Some((deadline, limit));
        Within { session: self }
    }

    pub(crate) fn command_timeout(&self) -> Duration {
        self.connector.timeouts().command
    }

    pub(crate) fn schema(&self) -> &str {
        self.connector.schema()
    }

    /// Records that another session's call was dropped because a later call was answered first. `sent_at` is when it
    /// was sent, by the idle connections' clock.
    pub(crate) fn gave_up(&self, call: &str, sent_at: Duration) {
        let after = self.connector.idle.now().saturating_sub(sent_at);
        self.connector.idle.no_answer_since(sent_at);
        self.connector.metrics().failed(call, &Error::TimedOut { call: call.to_string(), after });
    }

    /// Closes the connection, if there is one; the next call opens another. An owner that will not use the session for
    /// a while calls this, because SQL Server keeps memory for each connection.
    pub(crate) fn disconnect(&mut self) {
        self.idle = None;
        self.is_broken = false;
    }

    pub(crate) fn has_connection(&self) -> bool {
        self.idle.is_some()
    }

    pub(crate) fn has_useless_connection(&self) -> bool {
        self.idle.as_ref().is_some_and(|idle| !self.would_use(idle))
    }

    /// Whether the next call uses this connection, as far as can be told without asking the operating system.
    fn would_use(&self, idle: &Idle) -> bool {
        !idle.connection.has_lost_its_runtime() && !self.connector.idle.is_doubtful(idle.answered_at)
    }

    /// Closes the connection when it has been idle for so long that the next call would not use it. Never returns: the
    /// owner drops this future when it has other work.
    pub(crate) async fn close_when_idle(&mut self) -> Infallible {
        if let Some(idle) = &self.idle {
            let idle_for = self.connector.idle.now().saturating_sub(idle.answered_at);
            tokio::time::sleep(self.connector.idle.max_idle().saturating_sub(idle_for)).await;
            self.disconnect();
        }
        std::future::pending().await
    }

    /// Connects, unless there is a connection that the other end has not closed. A call that fails afterwards has
    /// therefore been sent.
    ///
    /// A worker's calls do not use this. A server that closed a connection may have crashed and lost changes that it
    /// had confirmed, and only a failed call makes the worker check for that. Errors as [`Connector::connect`].
    pub(crate) async fn ensure_connected(&mut self) -> Result<(), Error> {
        match &self.idle {
            Some(idle) if idle.connection.is_closed() => {
                self.idle = None;
                self.is_broken = true;
            }
            Some(idle) if self.would_use(idle) => return Ok(()),
            _ => {}
        }
        let connection = self.take_connection("connect").await?;
        self.put_back(connection);
        Ok(())
    }

    /// A call of a procedure, without its parameters.
    pub(crate) fn command<'a>(&self, name: &str) -> Command<'a> {
        Command::new(procedure(self.schema(), name))
    }

    /// Calls an operator's procedure. Without an entry from its caller, the procedure adds its own.
    pub(crate) fn action<'a>(&self, name: &str) -> Command<'a> {
        let mut command = self.command(name);
        if let Some(audit) = self.audit {
            command.bind_param("@audit_id", audit.0);
        }
        command
    }

    /// Sets the audit entry of the following actions. Each borrower that acts sets it, because the previous borrower's
    /// entry may still be here.
    pub(crate) fn acts_for(&mut self, audit: Option<AuditId>) {
        self.audit = audit;
    }

    /// Runs a command completely. Its response has no payload and no output.
    pub(crate) async fn run(&mut self, call: &str, command: Command<'_>) -> Result<Answer, Error> {
        self.run_up_to(AnswerSizeLimit::PLAIN, call, command).await
    }

    /// Runs a command completely. A response over `limit` is an error.
    pub(crate) async fn run_up_to(
        &mut self,
        limit: AnswerSizeLimit,
        call: &str,
        command: Command<'_>,
    ) -> Result<Answer, Error> {
        let mut connection = self.take_connection(call).await?;
        connection.expect_answer(limit);
        let answer = async { Answer::read(command.exec(&mut connection.client).await?, limit).await };
        let result = self.in_time(call, answer).await;
        self.settle(connection, result).await
    }

    pub(crate) async fn rows(&mut self, call: &'static str, command: Command<'_>) -> Result<Vec<Columns>, Error> {
        Ok(into_rows(call, self.run(call, command).await?))
    }

    pub(crate) async fn row(&mut self, call: &'static str, command: Command<'_>) -> Result<Columns, Error> {
        one_row(call, self.rows(call, command).await?)
    }

    pub(crate) async fn row_and_list(
        &mut self,
        call: &'static str,
        command: Command<'_>,
    ) -> Result<(Columns, Vec<Columns>), Error> {
        let mut results = self.run(call, command).await?.into_results().into_iter();
        let mut next = || columns(call, results.next().unwrap_or_default());
        Ok((one_row(call, next())?, next()))
    }

    /// Runs a batch and ignores its results.
    pub(crate) async fn batch(&mut self, call: &str, sql: &str) -> Result<(), Error> {
        self.query_results(call, sql).await.map(drop)
    }

    /// Limits how long SQL Server waits for a lock in the calls that follow; a longer wait is an error. Call it before
    /// each `call`, because the connection may have changed.
    pub(crate) async fn limit_lock_waits(&mut self, call: &str, lock_wait_ms: u32) -> Result<(), Error> {
        self.batch(call, &format!("SET LOCK_TIMEOUT {lock_wait_ms}")).await
    }

    /// Runs a batch, and returns the rows of each result.
    pub(crate) async fn query(&mut self, call: &'static str, sql: &str) -> Result<Vec<Vec<Columns>>, Error> {
        Ok(self.query_results(call, sql).await?.into_iter().map(|rows| columns(call, rows)).collect())
    }

    async fn query_results(&mut self, call: &str, sql: &str) -> Result<Vec<Vec<Row>>, Error> {
        let mut connection = self.take_connection(call).await?;
        connection.expect_answer(AnswerSizeLimit::PLAIN);
        let answer = async {
            let stream = connection.client.simple_query(sql).await?;
            Answer::read_batch(stream, AnswerSizeLimit::PLAIN).await
        };
        let result = self.in_time(call, answer).await;
        self.settle(connection, result).await
    }

    /// Takes the connection, or opens one if none is usable. Until it is put back, the session counts as broken, also
    /// after an error, a timeout or a dropped future.
    async fn take_connection(&mut self, call: &str) -> Result<Connection, Error> {
        let was_broken = std::mem::replace(&mut self.is_broken, true);
        if let Some(idle) = self.idle.take() {
            if self.would_use(&idle) {
                return Ok(idle.connection);
            }
            tracing::debug!(
                procedure = call,
                "an idle connection is not usable: it was idle too long, other calls got no response, or its runtime has ended; reconnecting"
            );
        }
        let started_at = Instant::now();
        // Boxed: rare, and every call's future would contain it.
        match Box::pin(self.connect()).await {
            Ok(connection) => {
                self.connector.metrics().connected(was_broken, started_at.elapsed());
                if was_broken {
                    let server = self.connector.server();
                    tracing::info!(queue = self.connector.metrics().queue(), procedure = call, server, "reconnected");
                }
                Ok(connection)
            }
            Err(error) => {
                self.connector.metrics().failed("connect", &error);
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let connect_timeout = self.connector.timeouts().connect;
        let end = tokio::time::Instant::now() + connect_timeout;
        match self.deadline {
            Some((deadline, limit)) if deadline < end => self.connector.connect(deadline, limit).await,
            _ => self.connector.connect(end, connect_timeout).await,
        }
    }

    async fn settle<T>(&mut self, connection: Connection, result: Result<T, Error>) -> Result<T, Error> {
        match &result {
            Ok(_) => self.put_back(connection),
            // Boxed: rare, and every call's future would contain it.
            Err(error) if error.spares_the_connection() => Box::pin(self.put_back_if_clean(connection)).await,
            Err(_) => {}
        }
        result
    }

    /// Puts a connection back after an error, unless it still has an open transaction. (The driver returns the error
    /// after it has read the whole response.) The check costs a round trip; a new connection would cost several round
    /// trips and a login.
    async fn put_back_if_clean(&mut self, mut connection: Connection) {
        let end = tokio::time::Instant::now() + self.connector.timeouts().connect;
        let end = self.deadline.map_or(end, |(deadline, _)| deadline.min(end));
        connection.expect_answer(AnswerSizeLimit::LOGIN);
        let asked = async { connection.client.simple_query("SELECT @@TRANCOUNT").await?.into_row().await };
        if let Ok(Ok(Some(row))) = tokio::time::timeout_at(end, asked).await
            && row.get(0) == Some(0)
        {
            self.put_back(connection);
        }
    }

    /// Counts an error that the rows of a successful call report.
    pub(crate) fn note_error(&self, call: &str, error: &Error) {
        self.connector.metrics().failed(call, error);
    }

    fn put_back(&mut self, connection: Connection) {
        self.idle = Some(Idle { connection, answered_at: self.connector.idle.now() });
        self.is_broken = false;
    }

    async fn in_time<T>(&self, call: &str, answer: impl Future<Output = tiberius::Result<T>>) -> Result<T, Error> {
        let command_timeout = self.connector.timeouts().command;
        let (deadline, limit) =
            self.deadline.unwrap_or_else(|| (tokio::time::Instant::now() + command_timeout, command_timeout));
        let (started_at, sent_at) = (Instant::now(), self.connector.idle.now());
        let result = match tokio::time::timeout_at(deadline, answer).await {
            Ok(answer) => answer.map_err(|error| self.connector.error(error)),
            Err(_) => {
                self.connector.idle.no_answer_since(sent_at);
                Err(Error::TimedOut { call: call.to_string(), after: limit })
            }
        };
        match &result {
            Ok(_) => self.connector.metrics().answered(call, started_at.elapsed()),
            Err(error) => self.connector.metrics().failed(call, error),
        }
        result
    }
}

#[derive(Debug)]
pub(crate) struct Within<'a> {
    session: &'a mut Session,
}

impl Deref for Within<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
    }
}

impl DerefMut for Within<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        self.session
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        self.session.deadline = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConnectionConfig;

    #[tokio::test]
    async fn a_limit_of_its_own_ends_a_call_that_connects_and_no_later_one() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("Server=127.0.0.1,{};User ID=u;Password=p", listener.local_addr().unwrap().port());
        let config = ConnectionConfig { url: url.into(), ..ConnectionConfig::default() };
        let mut session = Session::new(Arc::new(Connector::new(&config, "q").unwrap()));
        let limit = Duration::from_millis(50);
        let error = session.within(limit).ensure_connected().await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { after, .. } if after == limit), "{error}");
        assert!(session.deadline.is_none());
    }
}
