//! Connections to SQL Server: a [`Connector`] knows how to make one, a [`Lane`] owns one and makes it anew when it is
//! gone.
//!
//! A call takes the connection out of its lane, uses it, and puts it back only after complete success. An error of any
//! kind, a time-out and a dropped future leave the lane without a connection, and the next call connects anew: an
//! answer that was read in part can never be taken for that of a later call, and closing the connection makes SQL
//! Server undo what was not committed.
//!
//! Firewalls, load balancers and gateways drop connections that idle, without a word to either end, and the first call on such a line
//! waits for its whole time limit. Three things are done about it: probes of the operating system keep the line in use
//! ([`keep_alive`]); a connection that nobody used for long is made anew instead of being used ([`MAX_IDLE`]); and when a call gets no
//! answer, the connections that were not used since it began are made anew too ([`Connector::unanswered_since`]).

use std::convert::Infallible;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use socket2::{SockRef, TcpKeepalive};
use tiberius::time::{Date, DateTime2, Time};
use tiberius::{ColumnData, Command, CommandResult, FromSqlOwned, Row, SqlBrowser};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use crate::boot_clock::BootClock;
use crate::config::{ConnectionConfig, Timeouts, check_schema};
use crate::error::Error;
use crate::metrics::QueueMetrics;

/// A connection as the driver has it.
pub(crate) type Client = tiberius::Client<Compat<TcpStream>>;

/// How often a server may send us on to another address. Azure SQL does it once.
const MAX_REDIRECTS: usize = 3;

/// A connection that nobody used for so long is made anew: a quarter of the four minutes after which Azure's load balancers and NAT
/// gateways forget it.
const MAX_IDLE: Duration = Duration::from_secs(60);

/// Knows how to make connections, and the schema that they are for.
#[derive(Debug)]
pub(crate) struct Connector {
    driver: tiberius::Config,
    server: String,
    schema: String,
    timeouts: Timeouts,
    /// [`MAX_IDLE`], but for tests.
    max_idle_ns: AtomicU64,
    clock: BootClock,
    unanswered_since_ns: AtomicU64,
    metrics: QueueMetrics,
}

impl Connector {
    /// Reads the settings; connects to nothing. `queue` is what its connections are counted for.
    ///
    /// # Errors
    ///
    /// [`Error::ConnectionString`] and [`Error::Config`].
    pub(crate) fn new(config: &ConnectionConfig, queue: &str) -> Result<Connector, Error> {
        config.validate()?;
        let options = config.url.parse()?;
        let timeouts = config.timeouts()?;
        let mut driver = options.driver;
        driver.packet_size(options.packet_size.unwrap_or(config.packet_size));
        // Both are bounded here, as a whole: the driver's own time limits hold for each packet.
        driver.handshake_timeout(None);
        driver.command_timeout(None);
        Ok(Connector {
            driver,
            server: options.server,
            schema: config.schema.clone(),
            timeouts,
            max_idle_ns: AtomicU64::new(MAX_IDLE.as_nanos() as u64),
            clock: BootClock::default(),
            unanswered_since_ns: AtomicU64::new(0),
            metrics: QueueMetrics::new(queue),
        })
    }

    /// For tests: how long a connection may idle and still be used.
    fn max_idle(&self) -> Duration {
        Duration::from_nanos(self.max_idle_ns.load(Ordering::Acquire))
    }

    pub(crate) fn set_max_idle(&self, max_idle: Duration) {
        self.max_idle_ns.store(max_idle.as_nanos() as u64, Ordering::Release);
    }

    /// How long connecting and a call may take.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The schema that readpast is installed in.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn metrics(&self) -> &QueueMetrics {
        &self.metrics
    }

    /// Notes that a call got no answer, `sent_at` by [`BootClock`]. Perhaps SQL Server is only slow, but perhaps the way to it has
    /// forgotten this process' connections: those that were not used since are not trusted.
    pub(crate) fn no_answer_since(&self, sent_at: Duration) {
        self.unanswered_since_ns.fetch_max(sent_at.as_nanos() as u64, Ordering::AcqRel);
    }

    /// When the last of the calls that got no answer was sent.
    fn unanswered_since(&self) -> Duration {
        Duration::from_nanos(self.unanswered_since_ns.load(Ordering::Acquire))
    }

    /// Whether a connection that was last answered on then may be dead without anybody having noticed.
    fn is_doubtful(&self, answered_at: Duration) -> bool {
        answered_at < self.unanswered_since() || self.clock.now().saturating_sub(answered_at) > self.max_idle()
    }

    /// Makes a connection: TCP, TLS, login; follows redirections.
    ///
    /// # Errors
    ///
    /// [`Error::Connect`], [`Error::Tls`], [`Error::LoginFailed`], [`Error::Database`], [`Error::TimedOut`] and others
    /// of SQL Server's.
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        // Boxed: the driver's handshake is a future of tens of kilobytes, and every caller's would contain it.
        match tokio::time::timeout(self.timeouts.connect, Box::pin(self.connect_and_login())).await {
            Ok(connected) => connected,
            Err(_) => {
                Err(Error::TimedOut { call: format!("connecting to {}", self.server), after: self.timeouts.connect })
            }
        }
    }

    async fn connect_and_login(&self) -> Result<Client, Error> {
        let mut driver = self.driver.clone();
        for _ in 0..=MAX_REDIRECTS {
            let stream = self.open(&driver).await?;
            match tiberius::Client::connect(driver.clone(), stream.compat_write()).await {
                Ok(client) => return Ok(client),
                Err(tiberius::error::Error::Routing { host, port }) => {
                    tracing::debug!(host, port, "redirected");
                    driver.host(host);
                    driver.port(port);
                }
                Err(error @ tiberius::error::Error::Io { .. }) => return Err(self.connect_error(error)),
                Err(error) => return Err(self.error(error)),
            }
        }
        let source = io::Error::other(format!("redirected more than {MAX_REDIRECTS} times"));
        Err(Error::Connect { server: self.server.clone(), source })
    }

    /// The TCP connection, with its options set.
    async fn open(&self, driver: &tiberius::Config) -> Result<TcpStream, Error> {
        let stream = TcpStream::connect_named(driver).await.map_err(|error| self.connect_error(error))?;
        let options = stream.set_nodelay(true).and_then(|()| keep_alive(&stream));
        options.map_err(|source| Error::Connect { server: self.server.clone(), source })?;
        Ok(stream)
    }

    fn connect_error(&self, error: tiberius::error::Error) -> Error {
        let source = match error {
            tiberius::error::Error::Io { kind, message } => io::Error::new(kind, message),
            other => io::Error::other(other.to_string()),
        };
        Error::Connect { server: self.server.clone(), source }
    }

    fn error(&self, error: tiberius::error::Error) -> Error {
        Error::from_driver(error, &self.server, &self.schema)
    }
}

/// Has the operating system ask every 30 s, the default of Microsoft's own network library, whether the other end of an idle connection is
/// still there. That keeps it in the tables of what lies between, and one that got lost there is closed after 30 + 3 × 5 s.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let probes = TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(5));
    #[cfg(not(windows))] // there the number of probes can be set from Windows 10 1703 on only
    let probes = probes.with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&probes)
}

/// A procedure of the schema, as it is called.
pub(crate) fn procedure(schema: &str, name: &str) -> String {
    format!("[{schema}].[{name}]")
}

/// A table type of the schema. Without brackets: the protocol carries plain names, and the driver sends this text as
/// one.
pub(crate) fn table_type(schema: &str, name: &str) -> String {
    format!("{schema}.{name}")
}

/// The most bytes that the driver takes for one value in a table-valued parameter: it compares the length of a
/// `varbinary(max)` with the 65,535 that stand for "max" on the wire. Larger values go as parameters of their own.
pub(crate) const MAX_TABLE_VALUE_BYTES: usize = 65_535;

/// One connection, owned, which is made when it is needed.
#[derive(Debug)]
pub(crate) struct Lane {
    connector: Arc<Connector>,
    idle: Option<Idle>,
    /// The last connection failed, or its call was given up.
    is_broken: bool,
    /// The end of the calls of [`Lane::within`], and what their limit is.
    deadline: Option<(tokio::time::Instant, Duration)>,
}

/// A connection that waits for its next call.
#[derive(Debug)]
struct Idle {
    client: Client,
    /// When the last answer had arrived, by the connector's clock.
    answered_at: Duration,
}

impl Lane {
    pub(crate) fn new(connector: Arc<Connector>) -> Lane {
        Lane { connector, idle: None, is_broken: false, deadline: None }
    }

    pub(crate) fn connector(&self) -> Arc<Connector> {
        self.connector.clone()
    }

    /// Gives the calls that are made on the returned value a time limit of their own, connecting included, in place of the
    /// command time-out: `lane.within(limit).heartbeat(worker_id).await`. When it is over, the call fails with [`Error::TimedOut`] and its
    /// connection is dropped.
    pub(crate) fn within(&mut self, limit: Duration) -> Within<'_> {
        self.deadline = Some((tokio::time::Instant::now() + limit, limit));
        Within { lane: self }
    }

    /// How long one call may take.
    pub(crate) fn command_timeout(&self) -> Duration {
        self.connector.timeouts.command
    }

    pub(crate) fn schema(&self) -> &str {
        &self.connector.schema
    }

    /// Notes that another lane's call was dropped, `sent_at` by [`BootClock`], because one that was sent later was answered first.
    pub(crate) fn gave_up(&self, call: &str, sent_at: Duration) {
        let after = self.connector.clock.now().saturating_sub(sent_at);
        self.connector.no_answer_since(sent_at);
        self.connector.metrics.failed(call, &Error::TimedOut { call: call.to_string(), after });
    }

    /// Closes the connection, if there is one; the next call makes another. For an owner who will not use it for a while: SQL
    /// Server keeps memory for each.
    pub(crate) fn disconnect(&mut self) {
        self.idle = None;
        self.is_broken = false;
    }

    /// Whether it has a connection that the next call would not use any more.
    pub(crate) fn is_idle_too_long(&self) -> bool {
        self.idle.as_ref().is_some_and(|idle| self.connector.is_doubtful(idle.answered_at))
    }

    /// Closes the connection when it has been idle for so long that the next call would make another anyway. Never returns: for an owner who
    /// waits for something to do meanwhile, and drops this future then.
    pub(crate) async fn close_when_idle(&mut self) -> Infallible {
        if let Some(idle) = &self.idle {
            let idle_for = self.connector.clock.now().saturating_sub(idle.answered_at);
            tokio::time::sleep(self.connector.max_idle().saturating_sub(idle_for)).await;
            self.disconnect();
        }
        std::future::pending().await
    }

    /// Connects, unless there is a connection already.
    ///
    /// # Errors
    ///
    /// As [`Connector::connect`].
    pub(crate) async fn ensure_connected(&mut self) -> Result<(), Error> {
        let client = self.take_client("connect").await?;
        self.put_back(client);
        Ok(())
    }

    /// A call of a procedure, to be given its parameters and run.
    pub(crate) fn command<'a>(&self, name: &str) -> Command<'a> {
        Command::new(procedure(self.schema(), name))
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&mut self, call: &str, command: Command<'_>) -> Result<CommandResult, Error> {
        let mut client = self.take_client(call).await?;
        let answer = async { command.exec(&mut client).await?.into_command_result().await };
        let result = self.in_time(call, answer).await?;
        self.put_back(client);
        Ok(result)
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
        let mut results = self.run(call, command).await?.into_iter();
        let mut next = || columns(call, results.next().unwrap_or_default());
        Ok((one_row(call, next())?, next()))
    }

    /// Runs a batch whose results do not matter.
    pub(crate) async fn batch(&mut self, call: &str, sql: &str) -> Result<(), Error> {
        let mut client = self.take_client(call).await?;
        let answer = async { client.simple_query(sql).await?.into_results().await };
        self.in_time(call, answer).await?;
        self.put_back(client);
        Ok(())
    }

    /// The connection, made if there is none that can be trusted. Until it is put back, it counts as broken: an error, a time-out and a
    /// dropped future leave it so.
    async fn take_client(&mut self, call: &str) -> Result<Client, Error> {
        let was_broken = std::mem::replace(&mut self.is_broken, true);
        if let Some(Idle { client, answered_at }) = self.idle.take() {
            if !self.connector.is_doubtful(answered_at) {
                return Ok(client);
            }
            tracing::debug!(procedure = call, "a connection idled for long, or others got no answer; making another");
        }
        let started_at = Instant::now();
        match self.connect().await {
            Ok(client) => {
                self.connector.metrics.connected(was_broken, started_at.elapsed());
                if was_broken {
                    let server = self.connector.server.as_str();
                    tracing::info!(queue = self.connector.metrics.queue(), procedure = call, server, "reconnected");
                }
                Ok(client)
            }
            Err(error) => {
                self.connector.metrics.failed("connect", &error);
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Client, Error> {
        let Some((deadline, limit)) = self.deadline else {
            return self.connector.connect().await;
        };
        match tokio::time::timeout_at(deadline, self.connector.connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(Error::TimedOut { call: format!("connecting to {}", self.connector.server), after: limit }),
        }
    }

    fn put_back(&mut self, client: Client) {
        self.idle = Some(Idle { client, answered_at: self.connector.clock.now() });
        self.is_broken = false;
    }

    async fn in_time<T>(&self, call: &str, answer: impl Future<Output = tiberius::Result<T>>) -> Result<T, Error> {
        let command_timeout = self.connector.timeouts.command;
        let (deadline, limit) =
            self.deadline.unwrap_or_else(|| (tokio::time::Instant::now() + command_timeout, command_timeout));
        let (started_at, sent_at) = (Instant::now(), self.connector.clock.now());
        let result = match tokio::time::timeout_at(deadline, answer).await {
            Ok(answer) => answer.map_err(|error| self.connector.error(error)),
            Err(_) => {
                self.connector.no_answer_since(sent_at);
                Err(Error::TimedOut { call: call.to_string(), after: limit })
            }
        };
        match &result {
            Ok(_) => self.connector.metrics.answered(call, started_at.elapsed()),
            Err(error) => self.connector.metrics.failed(call, error),
        }
        result
    }
}

/// A lane whose calls have a time limit of their own: [`Lane::within`].
#[derive(Debug)]
pub(crate) struct Within<'a> {
    lane: &'a mut Lane,
}

impl Deref for Within<'_> {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        self.lane
    }
}

impl DerefMut for Within<'_> {
    fn deref_mut(&mut self) -> &mut Lane {
        self.lane
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        self.lane.deadline = None;
    }
}

/// The rows of the one result set that a procedure answers with.
pub(crate) fn into_rows(call: &'static str, result: CommandResult) -> Vec<Columns> {
    columns(call, result.into_iter().last().unwrap_or_default())
}

/// The rows of all result sets of a procedure that answers with several of one shape.
pub(crate) fn all_rows(call: &'static str, result: CommandResult) -> impl Iterator<Item = Columns> {
    result.into_iter().flatten().map(move |row| Columns::new(call, row))
}

fn columns(call: &'static str, rows: Vec<Row>) -> Vec<Columns> {
    rows.into_iter().map(|row| Columns::new(call, row)).collect()
}

fn one_row(call: &'static str, mut rows: Vec<Columns>) -> Result<Columns, Error> {
    match rows.pop() {
        Some(row) if rows.is_empty() => Ok(row),
        _ => Err(Error::Protocol { message: format!("{call} did not answer with one row") }),
    }
}

/// A row, read column by column in the order of the procedure's result.
#[derive(Debug)]
pub(crate) struct Columns {
    call: &'static str,
    values: std::vec::IntoIter<ColumnData<'static>>,
}

impl Columns {
    fn new(call: &'static str, row: Row) -> Columns {
        Columns { call, values: row.into_iter() }
    }

    /// The next column, which may be NULL. `name` is for the error.
    pub(crate) fn optional<T: FromSqlOwned>(&mut self, name: &str) -> Result<Option<T>, Error> {
        let value = self.next(name)?;
        T::from_sql_owned(value).map_err(|error| self.unexpected(name, &error.to_string()))
    }

    /// The next column, which must not be NULL.
    pub(crate) fn required<T: FromSqlOwned>(&mut self, name: &str) -> Result<T, Error> {
        self.optional(name)?.ok_or_else(|| self.unexpected(name, "it is NULL"))
    }

    /// The next column, a count.
    pub(crate) fn count(&mut self, name: &str) -> Result<u32, Error> {
        let number: i32 = self.required(name)?;
        u32::try_from(number).map_err(|_| self.unexpected(name, "it is negative"))
    }

    /// The next column, a count that may exceed an int.
    pub(crate) fn big_count(&mut self, name: &str) -> Result<u64, Error> {
        let number: i64 = self.required(name)?;
        u64::try_from(number).map_err(|_| self.unexpected(name, "it is negative"))
    }

    /// The next column, milliseconds. Less than none, where SQL Server's clock was set back, counts as none.
    pub(crate) fn duration_ms(&mut self, name: &str) -> Result<Duration, Error> {
        let ms: i64 = self.required(name)?;
        Ok(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
    }

    /// The next column, a `datetime2` in UTC.
    pub(crate) fn optional_time(&mut self, name: &str) -> Result<Option<SystemTime>, Error> {
        match self.next(name)? {
            ColumnData::DateTime2(time) => Ok(time.map(from_datetime2)),
            other => Err(self.unexpected(name, &format!("it is {}, not a datetime2", kind(&other)))),
        }
    }

    /// The next column, a `datetime2` in UTC that must not be NULL.
    pub(crate) fn required_time(&mut self, name: &str) -> Result<SystemTime, Error> {
        self.optional_time(name)?.ok_or_else(|| self.unexpected(name, "it is NULL"))
    }

    /// The next column, one of `words`, as what stands beside the word.
    pub(crate) fn one_of<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<T, Error> {
        let text: String = self.required(name)?;
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(*meaning),
            None => Err(self.unexpected(name, &format!("it is '{text}'"))),
        }
    }

    /// Leaves out all columns but the last.
    pub(crate) fn skip_to_last(&mut self) {
        let left = self.values.len();
        self.values.by_ref().take(left.saturating_sub(1)).for_each(drop);
    }

    fn next(&mut self, name: &str) -> Result<ColumnData<'static>, Error> {
        self.values.next().ok_or_else(|| self.unexpected(name, "it is missing"))
    }

    fn unexpected(&self, name: &str, reason: &str) -> Error {
        Error::Protocol { message: format!("column {name} of {}: {reason}", self.call) }
    }
}

/// The type of a value without the value, which may be a payload.
fn kind(value: &ColumnData<'_>) -> &'static str {
    match value {
        ColumnData::String(_) => "text",
        ColumnData::Binary(_) => "binary",
        ColumnData::DateTime(_) => "a datetime",
        _ => "of another type",
    }
}

/// From 0001-01-01, where `datetime2` begins, to 1970-01-01.
const DAYS_TO_1970: i64 = 719_162;

/// 9999-12-31, where `datetime2` ends.
const LAST_DAY: i64 = 3_652_058;

const MS_PER_DAY: i64 = 86_400_000;

/// A point in time as `datetime2(3)`, UTC, rounded up to the millisecond: a job must not be due too early. `None`
/// outside the years 1 to 9999.
pub(crate) fn to_datetime2(time: SystemTime) -> Option<DateTime2> {
    let ms = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos().div_ceil(1_000_000)).ok()?,
        Err(before) => -i64::try_from(before.duration().as_millis()).ok()?,
    };
    let day = ms.div_euclid(MS_PER_DAY).checked_add(DAYS_TO_1970)?;
    if !(0..=LAST_DAY).contains(&day) {
        return None;
    }
    let ms_of_day = ms.rem_euclid(MS_PER_DAY);
    Some(DateTime2::new(Date::new(u32::try_from(day).ok()?), Time::new(u64::try_from(ms_of_day).ok()?, 3)))
}

fn from_datetime2(time: DateTime2) -> SystemTime {
    let days = i64::from(time.date().days()) - DAYS_TO_1970;
    let fraction_digits = u32::from(time.time().scale());
    // Saturating: what a server sends is not ours to trust.
    let nanos_of_day = time.time().increments().saturating_mul(10_u64.pow(9_u32.saturating_sub(fraction_digits)));
    let whole_days = Duration::from_secs(days.unsigned_abs() * 86_400);
    let midnight = if days < 0 { SystemTime::UNIX_EPOCH - whole_days } else { SystemTime::UNIX_EPOCH + whole_days };
    midnight + Duration::from_nanos(nanos_of_day)
}

/// Checks a schema's name that did not come through a [`Connector`].
pub(crate) fn checked_schema(schema: &str) -> Result<&str, Error> {
    check_schema(schema)?;
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_to_datetime2_and_back() {
        let epoch = SystemTime::UNIX_EPOCH;
        for time in [epoch, epoch + Duration::from_millis(1_767_225_599_999), epoch - Duration::from_millis(86_400_001)]
        {
            assert_eq!(from_datetime2(to_datetime2(time).unwrap()), time);
        }
        let between = epoch + Duration::from_nanos(1_000_001);
        assert_eq!(from_datetime2(to_datetime2(between).unwrap()), epoch + Duration::from_millis(2));
        // 2026-11-21 is day 739,940 since 0001-01-01.
        let day = to_datetime2(epoch + Duration::from_secs(1_795_219_200)).unwrap();
        assert_eq!(day.date().days(), 739_940);
        assert!(to_datetime2(epoch + Duration::from_secs(400_000_000_000)).is_none());
        assert!(to_datetime2(epoch - Duration::from_secs(63_000_000_000)).is_none());
    }

    fn connector(port: u16) -> Connector {
        let url = format!("Server=127.0.0.1,{port};User ID=u;Password=p");
        Connector::new(&ConnectionConfig { url: url.into(), ..ConnectionConfig::default() }, "q").unwrap()
    }

    /// What the operating system has, not what was asked of it.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn every_connection_is_probed_while_it_idles() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let connector = connector(listener.local_addr().unwrap().port());
        let stream = connector.open(&connector.driver).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(5));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        assert!(stream.nodelay().unwrap());
    }

    #[test]
    fn a_connection_is_doubtful_after_a_minute_after_a_suspension_and_when_a_later_call_got_no_answer() {
        let connector = connector(1433);
        let answered_at = connector.clock.now();
        connector.clock.shift(Duration::from_secs(59));
        assert!(!connector.is_doubtful(answered_at));
        connector.clock.shift(Duration::from_secs(2));
        assert!(connector.is_doubtful(answered_at));

        let (before, sent_at) = (connector.clock.now(), connector.clock.now() + Duration::from_millis(1));
        connector.no_answer_since(sent_at);
        connector.no_answer_since(before); // of two, the later counts
        assert!(connector.is_doubtful(before), "it may have died in the same way");
        assert!(!connector.is_doubtful(sent_at + Duration::from_millis(1)), "it was used since");
    }

    #[tokio::test]
    async fn a_limit_of_its_own_ends_a_call_that_connects_and_no_later_one() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut lane = Lane::new(Arc::new(connector(listener.local_addr().unwrap().port())));
        let limit = Duration::from_millis(50);
        let error = lane.within(limit).ensure_connected().await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { after, .. } if after == limit), "{error}");
        assert!(lane.deadline.is_none());
    }

    #[tokio::test]
    async fn a_server_that_does_not_listen_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let url = format!("Server=127.0.0.1,{port};User ID=u;Password=hunter2");
        let config = ConnectionConfig { url: url.into(), ..ConnectionConfig::default() };
        let error = Lane::new(Arc::new(Connector::new(&config, "q").unwrap())).ensure_connected().await.unwrap_err();
        assert!(matches!(&error, Error::Connect { server, .. } if *server == format!("127.0.0.1:{port}")), "{error}");
        assert!(error.is_transient());
        assert!(!format!("{error:?}").contains("hunter2"));
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_times_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("Server=127.0.0.1,{};User ID=u;Password=p", listener.local_addr().unwrap().port());
        let config = ConnectionConfig { url: url.into(), connect_timeout_ms: 100, ..ConnectionConfig::default() };
        let error = Lane::new(Arc::new(Connector::new(&config, "q").unwrap())).ensure_connected().await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    }
}
