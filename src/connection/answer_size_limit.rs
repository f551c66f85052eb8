//! The response to a call, and the limit on its size: a broken server, or an impostor, must not fill the caller's
//! memory.
//!
//! ```text
//! socket ──▶ Limited: how many bytes ──▶ TLS, the driver ──▶ Answer: how many values
//! ```
//!
//! A limit on bytes is not enough: a NULL in a row takes one bit on the wire and about 40 bytes in memory.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tiberius::{CommandItem, CommandReturnValue, CommandStream, FromSql, QueryItem, QueryStream, Row};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::TOO_MUCH;

#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerSizeLimit {
    bytes: u64,
    values: usize,
}

/// The allowance for columns, output parameters and messages, and for a few more rows than expected, which the caller
/// then reports.
const BESIDE_ROWS: u64 = 1 << 20;

const VALUES_BESIDE_ROWS: usize = 1 << 16;

/// The allowance per row, besides payloads and outputs. An error, headers and details have up to 8,000 bytes each.
const ROW_BYTES: u64 = 32 << 10;

const ROW_VALUES: usize = 64;

impl AnswerSizeLimit {
    /// The limit of a call whose response has no payload and no output.
    pub(crate) const PLAIN: AnswerSizeLimit = AnswerSizeLimit { bytes: 64 << 20, values: 2 << 20 };

    /// The limit of TLS and the login, which are mostly certificates.
    pub(crate) const LOGIN: AnswerSizeLimit = AnswerSizeLimit { bytes: 1 << 20, values: VALUES_BESIDE_ROWS };

    /// The limit for up to `rows` rows, with up to `large` bytes of payloads, outputs and checkpoints in total.
    pub(crate) fn of_rows(rows: usize, large: u64) -> AnswerSizeLimit {
        let bytes = large.saturating_add(ROW_BYTES.saturating_mul(rows as u64)).saturating_add(BESIDE_ROWS);
        let values = ROW_VALUES.saturating_mul(rows).saturating_add(VALUES_BESIDE_ROWS);
        AnswerSizeLimit { bytes, values }
    }
}

/// How many bytes the server may still send. Shared by a connection and its stream.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    bytes: AtomicU64,
    left: AtomicU64,
}

impl Allowance {
    pub(crate) fn grant(&self, limit: AnswerSizeLimit) {
        self.bytes.store(limit.bytes, Ordering::Relaxed);
        self.left.store(limit.bytes, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        match self.left.load(Ordering::Relaxed).checked_sub(bytes as u64) {
            Some(left) => {
                self.left.store(left, Ordering::Relaxed); // only one task reads
                Ok(())
            }
            None => Err(too_much(self.bytes.load(Ordering::Relaxed), "bytes")),
        }
    }
}

fn too_much(limit: u64, what: &str) -> io::Error {
    let message = format!("the server sent more than the {limit} {what} allowed for its response");
    io::Error::new(TOO_MUCH, message)
}

/// A stream that fails if more is read than the allowance grants.
#[derive(Debug)]
pub(crate) struct Limited<S> {
    stream: S,
    allowance: Arc<Allowance>,
}

impl<S> Limited<S> {
    pub(crate) fn new(stream: S, allowance: Arc<Allowance>) -> Limited<S> {
        Limited { stream, allowance }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        Poll::Ready(self.allowance.take(buf.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Answer {
    return_code: u32,
    return_values: Vec<CommandReturnValue>,
    results: Vec<Vec<Row>>,
}

impl Answer {
    pub(crate) async fn read(mut stream: CommandStream<'_>, limit: AnswerSizeLimit) -> tiberius::Result<Answer> {
        let (mut answer, mut counted) = (Answer::default(), Values::up_to(limit));
        while let Some(item) = next(&mut stream).await {
            match item? {
                CommandItem::Metadata(columns) => {
                    counted.add(columns.columns().len())?;
                    answer.results.push(Vec::new());
                }
                CommandItem::Row(row) => {
                    counted.add(row.len())?;
                    if let Some(rows) = answer.results.last_mut() {
                        rows.push(row);
                    }
                }
                CommandItem::ReturnStatus(code) => answer.return_code = code,
                CommandItem::ReturnValue(value) => {
                    counted.add(1)?;
                    answer.return_values.push(value);
                }
                CommandItem::RowsAffected(_) => {}
            }
        }
        Ok(answer)
    }

    pub(crate) async fn read_batch(
        mut stream: QueryStream<'_>,
        limit: AnswerSizeLimit,
    ) -> tiberius::Result<Vec<Vec<Row>>> {
        let (mut results, mut counted) = (Vec::new(), Values::up_to(limit));
        while let Some(item) = next(&mut stream).await {
            match item? {
                QueryItem::Metadata(columns) => {
                    counted.add(columns.columns().len())?;
                    results.push(Vec::new());
                }
                QueryItem::Row(row) => {
                    counted.add(row.len())?;
                    if let Some(rows) = results.last_mut() {
                        rows.push(row);
                    }
                }
            }
        }
        Ok(results)
    }

    pub(crate) fn return_code(&self) -> u32 {
        self.return_code
    }

    /// An output parameter, or `None` if it is NULL. Fails if the parameter does not exist or has another type.
    pub(crate) fn try_return_value<'a, T: FromSql<'a>>(&'a self, name: &str) -> tiberius::Result<Option<T>> {
        let missing = || tiberius::error::Error::Conversion(format!("there is no output parameter {name}").into());
        let value = self.return_values.iter().find(|value| value.name() == name).ok_or_else(missing)?;
        T::from_sql(value.data())
    }

    pub(crate) fn into_results(self) -> Vec<Vec<Row>> {
        self.results
    }
}

fn next<S: Stream + Unpin>(stream: &mut S) -> impl Future<Output = Option<S::Item>> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx))
}

struct Values {
    most: usize,
    left: usize,
}

impl Values {
    fn up_to(limit: AnswerSizeLimit) -> Values {
        Values { most: limit.values, left: limit.values }
    }

    /// Counts `values` and one more, because a row takes memory even without values.
    fn add(&mut self, values: usize) -> tiberius::Result<()> {
        match self.left.checked_sub(values + 1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(too_much(self.most as u64, "values").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::config::ConnectionConfig;
    use crate::connection::connector::Connector;
    use crate::connection::session::Session;
    use crate::error::Error;

    /// The bytes that sockets buffer between the server and a client that has stopped reading.
    const SOCKETS: usize = 16 << 20;

    const PRELOGIN: [u8; 19] = [
        0, 0, 11, 0, 6, // VERSION, at 11
        1, 0, 17, 0, 1, // ENCRYPTION, at 17
        255, 16, 0, 0, 0, 0, 0, 2, // not supported
        0,
    ];

    /// LOGINACK: TDS 7.4, a program without a name. DONE.
    const LOGGED_IN: [u8; 26] = [
        0xad, 10, 0, 1, 0x74, 0, 0, 4, 0, 16, 0, 0, 0, //
        0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];

    /// COLMETADATA: an `int` that may be NULL. Each row of it is [`NULL_ROW`].
    const INT: [u8; 13] = [0x81, 1, 0, 0, 0, 0, 0, 1, 0, 0x26, 4, 0, 0xd1];
    const NULL_ROW: [u8; 2] = [0, 0xd1];

    /// COLMETADATA: a `varbinary(max)`; a row whose value has no length, in pieces of four bytes: [`PIECE`].
    const BINARY: [u8; 21] = [
        0x81, 1, 0, 0, 0, 0, 0, 1, 0, 0xa5, 0xff, 0xff, 0, //
        0xd1, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    ];
    const LAST_BYTE_OF_LENGTH: [u8; 1] = [0xff];
    const PIECE: [u8; 8] = [4, 0, 0, 0, 1, 2, 3, 4];

    /// INFO without an end: number 0, no text.
    const INFO: [u8; 17] = [0xab, 14, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    /// A server that accepts any login, or none, and responds with `begin` and then `again` endlessly.
    struct Hostile {
        session: Session,
        sent: JoinHandle<usize>,
    }

    async fn packet(stream: &mut TcpStream, payload: &[u8], is_last: bool) -> io::Result<()> {
        let length = (payload.len() as u16 + 8).to_be_bytes();
        stream.write_all(&[4, u8::from(is_last), length[0], length[1], 0, 0, 1, 0]).await?;
        stream.write_all(payload).await
    }

    async fn request(stream: &mut TcpStream) -> io::Result<()> {
        loop {
            let mut header = [0; 8];
            stream.read_exact(&mut header).await?;
            let mut payload = vec![0; usize::from(u16::from_be_bytes([header[2], header[3]])) - 8];
            stream.read_exact(&mut payload).await?;
            if header[1] & 1 == 1 {
                return Ok(());
            }
        }
    }

    async fn hostile(logs_in: bool, begin: &[u8], again: &[u8]) -> Hostile {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (begin, again) = (begin.to_vec(), again.repeat(2_000 / again.len()));
        let sent = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            request(&mut stream).await.unwrap();
            if logs_in {
                packet(&mut stream, &PRELOGIN, true).await.unwrap();
                request(&mut stream).await.unwrap();
                packet(&mut stream, &LOGGED_IN, true).await.unwrap();
                request(&mut stream).await.unwrap();
            }
            packet(&mut stream, &begin, false).await.unwrap();
            let mut sent = begin.len();
            while packet(&mut stream, &again, false).await.is_ok() {
                sent += again.len();
            }
            sent
        });
        let url = format!("Server=127.0.0.1,{port};User ID=u;Password=p;Encrypt=DANGER_PLAINTEXT");
        let config = ConnectionConfig { url: url.into(), ..ConnectionConfig::default() };
        Hostile { session: Session::new(Arc::new(Connector::new(&config, "q").unwrap())), sent }
    }

    impl Hostile {
        /// The call has failed: nothing more is read, and the connection is closed.
        async fn has_failed(self, error: Error, limit: u64, what: &str) {
            let text = error.to_string();
            assert!(text.contains(&format!("the server sent more than the {limit} {what}")), "{text}");
            assert!(error.is_transient());
            assert!(!self.session.has_connection());
            let sent = tokio::time::timeout(Duration::from_secs(60), self.sent).await.expect("it notices").unwrap();
            let read = if what == "bytes" { limit } else { AnswerSizeLimit::PLAIN.bytes } as usize;
            assert!(sent <= read + SOCKETS, "{sent} bytes were read");
        }
    }

    #[tokio::test]
    async fn a_login_that_never_ends_is_given_up() {
        let mut hostile = hostile(false, &[], &[0]).await;
        let error = hostile.session.ensure_connected().await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error}");
        hostile.has_failed(error, AnswerSizeLimit::LOGIN.bytes, "bytes").await;
    }

    #[tokio::test]
    async fn a_batch_of_rows_that_never_ends_is_given_up() {
        let mut hostile = hostile(true, &INT, &NULL_ROW).await;
        let error = hostile.session.batch("a call", "SELECT 1").await.unwrap_err();
        assert!(error.is_too_much());
        hostile.has_failed(error, AnswerSizeLimit::PLAIN.values as u64, "values").await;
    }

    #[tokio::test]
    async fn rows_of_a_procedure_that_never_end_are_given_up() {
        let mut hostile = hostile(true, &INT, &NULL_ROW).await;
        let (command, limit) = (hostile.session.command("claim"), AnswerSizeLimit::of_rows(500, 1 << 20));
        let error = hostile.session.run_up_to(limit, "claim", command).await.unwrap_err();
        hostile.has_failed(error, limit.values as u64, "values").await;
    }

    #[tokio::test]
    async fn results_without_rows_that_never_end_are_given_up() {
        let no_rows = &INT[..INT.len() - 1];
        let mut hostile = hostile(true, no_rows, no_rows).await;
        let command = hostile.session.command("heartbeat");
        let error = hostile.session.run("heartbeat", command).await.unwrap_err();
        hostile.has_failed(error, AnswerSizeLimit::PLAIN.values as u64, "values").await;
    }

    #[tokio::test]
    async fn a_value_that_never_ends_is_given_up() {
        let mut hostile = hostile(true, &[&BINARY[..], &LAST_BYTE_OF_LENGTH].concat(), &PIECE).await;
        let (command, limit) = (hostile.session.command("claim"), AnswerSizeLimit::of_rows(1, 1 << 20));
        let error = hostile.session.run_up_to(limit, "claim", command).await.unwrap_err();
        hostile.has_failed(error, limit.bytes, "bytes").await;
    }

    #[tokio::test]
    async fn messages_that_never_end_are_given_up() {
        let mut hostile = hostile(true, &INFO, &INFO).await;
        let (command, limit) = (hostile.session.command("claim"), AnswerSizeLimit::of_rows(1, 0));
        let error = hostile.session.run_up_to(limit, "claim", command).await.unwrap_err();
        hostile.has_failed(error, limit.bytes, "bytes").await;
    }
}
