//! A connection that somebody owns and makes calls on, and that is made anew when it is gone.
//!
//! A call takes the connection out of its session, uses it, and puts it back after success, or after an ordinary error
//! of SQL Server that left no transaction open. A time-out, a dropped future and any other error leave the session
//! without a connection, and the next call connects anew: an answer that was read in part can never be taken for that
//! of a later call, and closing the connection makes SQL Server undo what was not committed.

use std::convert::Infallible;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiberius::{Command, Row};

use crate::error::Error;

use super::answer::{Answer, AnswerLimit};
use super::columns::{Columns, columns, into_rows, one_row};
use super::connector::{Connection, Connector};
use super::parameters::procedure;

/// One connection, owned, which is made when it is needed.
#[derive(Debug)]
pub(crate) struct Session {
    connector: Arc<Connector>,
    idle: Option<Idle>,
    /// The last connection failed, or its call was given up.
    is_broken: bool,
    /// The end of the calls of [`Session::within`], and what their limit is.
    deadline: Option<(tokio::time::Instant, Duration)>,
}

/// A connection that waits for its next call.
#[derive(Debug)]
struct Idle {
    connection: Connection,
    /// When the last answer had arrived, by the connector's clock.
    answered_at: Duration,
}

impl Session {
    pub(crate) fn new(connector: Arc<Connector>) -> Session {
        Session { connector, idle: None, is_broken: false, deadline: None }
    }

    pub(crate) fn connector(&self) -> Arc<Connector> {
        self.connector.clone()
    }

    /// Gives the calls that are made on the returned value a time limit of their own, connecting included, in place of
    /// the command time-out: `session.within(limit).heartbeat(worker_id).await`. When it is over, the call fails with
    /// [`Error::TimedOut`] and its connection is dropped.
    pub(crate) fn within(&mut self, limit: Duration) -> Within<'_> {
        self.until(tokio::time::Instant::now() + limit, limit)
    }

    /// As [`within`](Session::within), with a time limit that began before.
    pub(crate) fn until(&mut self, deadline: tokio::time::Instant, limit: Duration) -> Within<'_> {
        self.deadline = Some((deadline, limit));
        Within { session: self }
    }

    /// How long one call may take.
    pub(crate) fn command_timeout(&self) -> Duration {
        self.connector.timeouts().command
    }

    pub(crate) fn schema(&self) -> &str {
        self.connector.schema()
    }

    /// Notes that another session's call was dropped, `sent_at` by the idle connections' clock, because one that was
    /// sent later was answered first.
    pub(crate) fn gave_up(&self, call: &str, sent_at: Duration) {
        let after = self.connector.idle.now().saturating_sub(sent_at);
        self.connector.idle.no_answer_since(sent_at);
        self.connector.metrics().failed(call, &Error::TimedOut { call: call.to_string(), after });
    }

    /// Closes the connection, if there is one; the next call makes another. For an owner who will not use it for a
    /// while: SQL Server keeps memory for each.
    pub(crate) fn disconnect(&mut self) {
        self.idle = None;
        self.is_broken = false;
    }

    /// Whether it has a connection that no call is using.
    pub(crate) fn has_connection(&self) -> bool {
        self.idle.is_some()
    }

    /// Whether it has a connection that the next call would not use any more.
    pub(crate) fn has_useless_connection(&self) -> bool {
        self.idle.as_ref().is_some_and(|idle| !self.would_use(idle))
    }

    /// Whether the next call uses this connection, as far as can be told without asking the operating system.
    fn would_use(&self, idle: &Idle) -> bool {
        !idle.connection.has_lost_its_runtime() && !self.connector.idle.is_doubtful(idle.answered_at)
    }

    /// Closes the connection when it has been idle for so long that the next call would make another anyway. Never
    /// returns: for an owner who waits for something to do meanwhile, and drops this future then.
    pub(crate) async fn close_when_idle(&mut self) -> Infallible {
        if let Some(idle) = &self.idle {
            let idle_for = self.connector.idle.now().saturating_sub(idle.answered_at);
            tokio::time::sleep(self.connector.idle.max_idle().saturating_sub(idle_for)).await;
            self.disconnect();
        }
        std::future::pending().await
    }

    /// Connects, unless there is a connection already that the other end has not closed: when the next call fails, it
    /// was sent.
    ///
    /// A worker's calls do without. A server that closed a connection may have crashed and forgotten what it had
    /// answered, and the call that fails has the worker look for it.
    ///
    /// # Errors
    ///
    /// As [`Connector::connect`].
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

    /// A call of a procedure, to be given its parameters and run.
    pub(crate) fn command<'a>(&self, name: &str) -> Command<'a> {
        Command::new(procedure(self.schema(), name))
    }

    /// Runs a command to its end. Its answer has no payload and no output.
    pub(crate) async fn run(&mut self, call: &str, command: Command<'_>) -> Result<Answer, Error> {
        self.run_up_to(AnswerLimit::PLAIN, call, command).await
    }

    /// Runs a command to its end. An answer over `limit` is an error.
    pub(crate) async fn run_up_to(
        &mut self,
        limit: AnswerLimit,
        call: &str,
        command: Command<'_>,
    ) -> Result<Answer, Error> {
        let mut connection = self.take_connection(call).await?;
        connection.expect_answer(limit);
        let answer = async { Answer::read(command.exec(&mut connection.client).await?, limit).await };
        let result = self.in_time(call, answer).await;
        self.settle(connection, result).await
    }

    /// Runs a command that answers with rows.
    pub(crate) async fn rows(&mut self, call: &'static str, command: Command<'_>) -> Result<Vec<Columns>, Error> {
        Ok(into_rows(call, self.run(call, command).await?))
    }

    /// Runs a command that answers with one row.
    pub(crate) async fn row(&mut self, call: &'static str, command: Command<'_>) -> Result<Columns, Error> {
        one_row(call, self.rows(call, command).await?)
    }

    /// Runs a command that answers with one row and then with a list.
    pub(crate) async fn row_and_list(
        &mut self,
        call: &'static str,
        command: Command<'_>,
    ) -> Result<(Columns, Vec<Columns>), Error> {
        let mut results = self.run(call, command).await?.into_results().into_iter();
        let mut next = || columns(call, results.next().unwrap_or_default());
        Ok((one_row(call, next())?, next()))
    }

    /// Runs a batch whose results do not matter.
    pub(crate) async fn batch(&mut self, call: &str, sql: &str) -> Result<(), Error> {
        self.query_results(call, sql).await.map(drop)
    }

    /// Has SQL Server wait for a lock no longer than `lock_wait_ms` in the calls that follow, and say then that this is
    /// why. To be asked for before each `call`, because the connection may be another.
    pub(crate) async fn limit_lock_waits(&mut self, call: &str, lock_wait_ms: u32) -> Result<(), Error> {
        self.batch(call, &format!("SET LOCK_TIMEOUT {lock_wait_ms}")).await
    }

    /// Runs a batch that answers with rows; returns those of each result.
    pub(crate) async fn query(&mut self, call: &'static str, sql: &str) -> Result<Vec<Vec<Columns>>, Error> {
        Ok(self.query_results(call, sql).await?.into_iter().map(|rows| columns(call, rows)).collect())
    }

    async fn query_results(&mut self, call: &str, sql: &str) -> Result<Vec<Vec<Row>>, Error> {
        let mut connection = self.take_connection(call).await?;
        connection.expect_answer(AnswerLimit::PLAIN);
        let answer = async {
            let stream = connection.client.simple_query(sql).await?;
            Answer::read_batch(stream, AnswerLimit::PLAIN).await
        };
        let result = self.in_time(call, answer).await;
        self.settle(connection, result).await
    }

    /// The connection, made if there is none that can be trusted. Until it is put back, it counts as broken: an error,
    /// a time-out and a dropped future leave it so.
    async fn take_connection(&mut self, call: &str) -> Result<Connection, Error> {
        let was_broken = std::mem::replace(&mut self.is_broken, true);
        if let Some(idle) = self.idle.take() {
            if self.would_use(&idle) {
                return Ok(idle.connection);
            }
            tracing::debug!(
                procedure = call,
                "a connection idled for long, others got no answer, or its runtime has ended; making another"
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

    /// Puts a call's connection back, unless the call ended in a way that leaves it unusable.
    async fn settle<T>(&mut self, connection: Connection, result: Result<T, Error>) -> Result<T, Error> {
        match &result {
            Ok(_) => self.put_back(connection),
            // Boxed: rare, and every call's future would contain it.
            Err(error) if error.spares_the_connection() => Box::pin(self.put_back_if_clean(connection)).await,
            Err(_) => {}
        }
        result
    }

    /// Puts a connection back after an error, unless a transaction is still open on it. (The driver returns the error
    /// after it has read the whole answer.) Asking costs a round trip; a new connection costs several, and a login.
    async fn put_back_if_clean(&mut self, mut connection: Connection) {
        let end = tokio::time::Instant::now() + self.connector.timeouts().connect;
        let end = self.deadline.map_or(end, |(deadline, _)| deadline.min(end));
        connection.expect_answer(AnswerLimit::LOGIN);
        let asked = async { connection.client.simple_query("SELECT @@TRANCOUNT").await?.into_row().await };
        if let Ok(Ok(Some(row))) = tokio::time::timeout_at(end, asked).await
            && row.get(0) == Some(0)
        {
            self.put_back(connection);
        }
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

/// A session whose calls have a time limit of their own: [`Session::within`].
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
