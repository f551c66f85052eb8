//! The listener and its connections.
//!
//! A connection is one async task and one thread. The task negotiates encryption, then reads ahead, so that an
//! attention or a disconnect is noticed while a statement runs. The thread owns the session, executes one request after
//! the other and writes the answers; it may block on locks as long as it likes.
//!
//! socket → task → `Work` → thread → socket

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::access_token::{self, TokenKey};
use crate::error::{SqlError, SqlResult};
use crate::gate::Gate;
use crate::kerberos;
use crate::session::{CancelHandle, Engine, Session};
use crate::tds::login::{self, Proof};
use crate::tds::packet::{DEFAULT_PACKET_SIZE, Message, PacketReader, PacketType, Reset, frame};
use crate::tds::prelogin::{self, Encryption};
use crate::tds::request::{self, Request};
use crate::tds::tls::{HandshakeStream, TlsAcceptors};
use crate::tds::token::{Output, ResponseWriter};

/// The first byte of a TLS handshake, by which a strict (TDS 8.0) client is told from one that sends PRELOGIN.
const TLS_HANDSHAKE: u8 = 0x16;

/// Requests read ahead while one runs. TDS clients wait for an answer before the next request (MS-TDS 3.2.5.7, "Sent
/// Client Request State"), and may only send an attention; who sends more than this is cut off, so that what waits for
/// a busy session stays small.
const REQUESTS_AHEAD: usize = 4;

/// From accepting a connection to its LOGIN7 message. Somebody who only opens connections holds none for longer.
const NEGOTIATION_TIME: Duration = Duration::from_secs(30);

/// Connections at a time, each with its thread; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 2000;

/// How soon a statement is cancelled once more that did not end: it may have been about to start when it was cancelled
/// first, and starting clears a cancellation that was meant for the request before.
const CANCEL_AGAIN: Duration = Duration::from_millis(10);

/// How long after a thaw the requests of clients that are gone may still run, see [`crate::session::Faults::freeze`].
const RUNS_ON_AFTER_THAW: Duration = Duration::from_secs(1);

/// The pause after a failed accept, so that a shortage of file handles is not a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// The stack of a session's thread: procedures that call each other 32 deep, in a debug build. Only what is used of it
/// costs memory.
const SESSION_STACK: usize = 16 * 1024 * 1024;

/// What all connections share.
pub struct Shared {
    pub engine: Arc<Engine>,
    pub tls: TlsAcceptors,
    pub token_key: Arc<TokenKey>,
    /// Print each request to standard error.
    pub log_sql: bool,
}

/// What a connection's thread is to do.
enum Work {
    Request(Message),
    Attention,
}

/// What the reading task tells the executing thread past the queue.
#[derive(Default)]
struct Signals {
    /// An attention came and was not acknowledged yet.
    attention: AtomicBool,
    /// The client is gone, or the server stops: what was read ahead is not for anybody.
    hung_up: AtomicBool,
    cancel: Mutex<Option<CancelHandle>>,
    /// The session was killed: the connection ends.
    killed: Notify,
    /// The requests that were read and are not answered yet.
    pending: AtomicUsize,
    /// One more was answered.
    answered: Notify,
}

impl Signals {
    fn cancel(&self) {
        if let Some(handle) = &*self.cancel.lock() {
            handle.cancel();
        }
    }

    /// Unlike a cancel, it holds for a request too that is about to start.
    fn kill(&self) {
        if let Some(handle) = &*self.cancel.lock() {
            handle.kill();
        }
    }

    /// Just after a thaw, what a client sent before it gave up runs first: it would have, on a server that was not
    /// frozen.
    async fn let_received_requests_run(&self, gate: &Gate) {
        let Some(thawed) = gate.last_opened() else { return };
        let end = tokio::time::Instant::from_std(thawed + RUNS_ON_AFTER_THAW);
        while self.pending.load(Ordering::Acquire) > 0 {
            // A permit is kept for whoever comes to wait just after.
            if tokio::time::timeout_at(end, self.answered.notified()).await.is_err() {
                return;
            }
        }
    }

    fn attention_pending(&self) -> bool {
        self.attention.load(Ordering::Acquire)
    }
}

/// Ends what runs when the reading task ends, however it ends: nobody waits for the answer any more.
struct HangUpOnDrop<'a>(&'a Signals);

impl Drop for HangUpOnDrop<'_> {
    fn drop(&mut self) {
        self.0.hung_up.store(true, Ordering::Release);
        self.0.kill();
    }
}

/// Accepts connections until `stopping` changes, then ends them all: running statements are cancelled, open
/// transactions rolled back.
pub async fn run(listener: TcpListener, shared: Arc<Shared>, mut stopping: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                // An error here is one client's (or a shortage that passes); the listener goes on.
                if let Ok((socket, _)) = accepted {
                    let (shared, stopping) = (Arc::clone(&shared), stopping.clone());
                    connections.spawn(async move {
                        let gate = Arc::clone(shared.engine.faults.gate());
                        gate.while_open(serve(socket, shared, stopping)).await;
                    });
                } else {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            Some(_) = connections.join_next() => {}
            _ = stopping.changed() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// One connection from its first byte to its last. How it ends is the client's affair: errors of the socket and of the
/// protocol close it, as SQL Server does.
async fn serve(socket: TcpStream, shared: Arc<Shared>, mut stopping: watch::Receiver<bool>) {
    let negotiation = negotiate(socket, &shared.tls);
    let negotiated = tokio::select! {
        negotiated = tokio::time::timeout(NEGOTIATION_TIME, negotiation) => negotiated.unwrap_or_else(|_| {
            Err(protocol_error(format!("no login within {} s", NEGOTIATION_TIME.as_secs())))
        }),
        _ = stopping.changed() => return,
    };
    let ended = match negotiated {
        Ok(Some(Negotiated::Plain(socket, packets, login))) => {
            let (reader, writer) = socket.into_split();
            converse(reader, writer, packets, login, &shared, stopping).await
        }
        Ok(Some(Negotiated::Encrypted(stream, packets, login))) => {
            let (reader, writer) = tokio::io::split(*stream);
            converse(reader, writer, packets, login, &shared, stopping).await
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = ended
        && shared.log_sql
    {
        eprintln!("[connection] {error}");
    }
}

type TlsStream = tokio_rustls::server::TlsStream<HandshakeStream>;

/// A connection whose LOGIN7 message has arrived.
enum Negotiated {
    Plain(TcpStream, PacketReader, Message),
    Encrypted(Box<TlsStream>, PacketReader, Message),
}

/// PRELOGIN, TLS where it was agreed on, and the LOGIN7 message. `None`: the client went away.
async fn negotiate(mut socket: TcpStream, tls: &TlsAcceptors) -> io::Result<Option<Negotiated>> {
    socket.set_nodelay(true)?;
    let mut first_byte = [0];
    if socket.peek(&mut first_byte).await? == 0 {
        return Ok(None);
    }
    if first_byte[0] == TLS_HANDSHAKE {
        return negotiate_strict(socket, tls).await;
    }
    let Some((encryption, mut packets)) = answer_prelogin(&mut socket, None).await? else {
        return Ok(None);
    };
    if encryption == Encryption::NotSupported {
        let login = packets.next_message(&mut socket).await?;
        return Ok(login.map(|login| Negotiated::Plain(socket, packets, login)));
    }

    let mut stream = tls.wrapped.accept(HandshakeStream::wrapping(socket)).await?;
    stream.get_mut().0.handshake_done();
    let Some(login) = packets.next_message(&mut stream).await? else {
        return Ok(None);
    };
    if encryption == Encryption::Off {
        // Only the login was to be encrypted; the answer to it goes in the clear already.
        let (stream, _) = stream.into_inner();
        return Ok(Some(Negotiated::Plain(stream.into_socket(), packets, login)));
    }
    Ok(Some(Negotiated::Encrypted(Box::new(stream), packets, login)))
}

/// TDS 8.0: TLS from the first byte, then the same messages.
async fn negotiate_strict(socket: TcpStream, tls: &TlsAcceptors) -> io::Result<Option<Negotiated>> {
    let mut stream = tls.strict.accept(HandshakeStream::direct(socket)).await?;
    let Some((_, mut packets)) = answer_prelogin(&mut stream, Some(Encryption::On)).await? else {
        return Ok(None);
    };
    let login = packets.next_message(&mut stream).await?;
    Ok(login.map(|login| Negotiated::Encrypted(Box::new(stream), packets, login)))
}

/// Reads PRELOGIN and answers it, with `fixed` encryption where there is nothing to negotiate any more.
async fn answer_prelogin<S>(stream: &mut S, fixed: Option<Encryption>) -> io::Result<Option<(Encryption, PacketReader)>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut packets = PacketReader::default();
    let Some(message) = packets.next_message(stream).await? else {
        return Ok(None);
    };
    if message.packet_type != PacketType::PreLogin {
        return Err(protocol_error(format!("{:?} came instead of PRELOGIN", message.packet_type)));
    }
    let client = prelogin::decode(&message.payload).map_err(|error| protocol_error(format!("PRELOGIN: {error:?}")))?;
    let encryption = fixed.unwrap_or_else(|| prelogin::negotiate(client.encryption));
    let answer = prelogin::encode(&client, encryption);
    let mut packet = Vec::new();
    frame(&mut packet, &answer, PacketType::TabularResult, DEFAULT_PACKET_SIZE, 0, &mut 1, true);
    stream.write_all(&packet).await?;
    stream.flush().await?;
    Ok(Some((encryption, packets)))
}

fn protocol_error(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The connection after its negotiation: starts the session's thread, then reads and writes until either side ends.
async fn converse<R, W>(
    reader: R,
    writer: W,
    mut packets: PacketReader,
    login: Message,
    shared: &Arc<Shared>,
    stopping: watch::Receiver<bool>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    packets.allow_large_messages();
    let (work_sender, work) = mpsc::channel(REQUESTS_AHEAD);
    let (ended_sender, mut ended) = oneshot::channel::<()>();
    let signals = Arc::new(Signals::default());
    let (hang_up, hung_up) = watch::channel(false);
    let gate = Arc::clone(shared.engine.faults.gate());
    let output = Output::new(Box::new(writer), Handle::current(), hung_up, Arc::clone(&gate));
    let session_shared = Arc::clone(shared);
    let session_signals = Arc::clone(&signals);
    std::thread::Builder::new().name("devserver-session".to_owned()).stack_size(SESSION_STACK).spawn(move || {
        run_session(&session_shared, &login, work, output, &session_signals);
        drop(ended_sender);
    })?;

    let read = tokio::select! {
        read = read_requests(reader, packets, work_sender, &signals, &gate, stopping) => read,
        // The session ended the connection: a failed login, or an error that severe.
        _ = &mut ended => return Ok(()),
    };
    // The client has said its last, so it will not read either; the thread ends after the statement that runs now.
    let _ = hang_up.send(true);
    while tokio::time::timeout(CANCEL_AGAIN, &mut ended).await.is_err() {
        signals.kill();
    }
    read
}

/// Reads requests ahead; ends when the client does or the server stops.
async fn read_requests<R: AsyncRead + Unpin>(
    mut reader: R,
    mut packets: PacketReader,
    work: mpsc::Sender<Work>,
    signals: &Signals,
    gate: &Gate,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let _hang_up = HangUpOnDrop(signals);
    loop {
        let message = tokio::select! {
            message = packets.next_message(&mut reader) => {
                let is_request = matches!(&message, Ok(Some(message)) if message.packet_type != PacketType::Attention);
                if !is_request {
                    signals.let_received_requests_run(gate).await;
                }
                message?
            }
            _ = stopping.changed() => None,
            () = signals.killed.notified() => None,
            () = tokio::time::sleep(CANCEL_AGAIN), if signals.attention_pending() => {
                signals.cancel();
                continue;
            }
        };
        let Some(message) = message else {
            return Ok(());
        };
        let item = if message.packet_type == PacketType::Attention {
            // First the mark, then the wake-up: the request that ends by it finds the mark.
            signals.attention.store(true, Ordering::Release);
            signals.cancel();
            Work::Attention
        } else {
            signals.pending.fetch_add(1, Ordering::AcqRel);
            Work::Request(message)
        };
        match work.try_send(item) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Closed(_)) => return Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => {
                return Err(protocol_error("requests came before the one that runs was answered".to_owned()));
            }
        }
    }
}

/// The session's thread.
fn run_session(
    shared: &Shared,
    login: &Message,
    mut work: mpsc::Receiver<Work>,
    output: Output,
    signals: &Arc<Signals>,
) {
    let mut out = ResponseWriter::new(output);
    shared.engine.faults.gate().pass();
    match log_in(shared, login, &mut out) {
        Ok(session) => run_requests(shared, session, &mut work, &mut out, signals),
        Err(error) => {
            out.error(&error);
            out.finish();
        }
    }
    out.close();
}

fn run_requests(
    shared: &Shared,
    mut session: Session,
    work: &mut mpsc::Receiver<Work>,
    out: &mut ResponseWriter,
    signals: &Arc<Signals>,
) {
    let killed = Arc::clone(signals);
    session.on_kill(move || killed.killed.notify_one());
    *signals.cancel.lock() = Some(session.cancel_handle());
    while let Some(item) = work.blocking_recv() {
        shared.engine.faults.gate().pass();
        if signals.hung_up.load(Ordering::Acquire) {
            return;
        }
        match item {
            Work::Request(message) => {
                answer(shared, &mut session, &message, out, signals);
                signals.pending.fetch_sub(1, Ordering::AcqRel);
                signals.answered.notify_one();
            }
            Work::Attention => {
                signals.attention.store(false, Ordering::Release);
                if shared.log_sql {
                    log(session.spid(), "-- cancelled by the client");
                }
                out.acknowledge_attention();
            }
        }
        if out.is_fatal() || out.is_client_gone() {
            return;
        }
    }
}

/// Decodes and checks the login, and answers it where it succeeds.
fn log_in(shared: &Shared, message: &Message, out: &mut ResponseWriter) -> SqlResult<Session> {
    if message.packet_type != PacketType::Login7 {
        return Err(SqlError::not_supported(format_args!("{:?} instead of LOGIN7", message.packet_type)).severity(20));
    }
    let mut login = login::decode(&message.payload)?;
    match &login.proof {
        Proof::Password => {}
        Proof::Token(token) => {
            login.request.user = shared.token_key.check(token)?;
            login.request.password = None;
        }
        Proof::Integrated(token) => {
            let accepted = kerberos::accept(token)?;
            // Kerberos is done with that: the client has nothing more to say, and the answer to its login follows.
            out.integrated_answer(&accepted.answer);
            login.request.user = accepted.login;
            login.request.password = None;
        }
    }
    let session = shared.engine.login(&login.request).map_err(|error| {
        if let (18456, Proof::Token(_)) = (error.number, &login.proof) {
            return access_token::refused("The server is not currently configured to accept this token.");
        }
        if error.number != 4060 {
            return error;
        }
        // SQL Server sends both: the database cannot be opened, so the login failed.
        out.error(&error);
        SqlError::new(18456, format!("Login failed for user '{}'.", login.request.user)).severity(14)
    })?;
    out.login_accepted(&login, &session.database(), session.spid());
    out.finish();
    out.use_packet_size(login.packet_size);
    Ok(session)
}

/// Runs one request and answers it.
fn answer(shared: &Shared, session: &mut Session, message: &Message, out: &mut ResponseWriter, signals: &Signals) {
    if message.ignored {
        out.finish_cancelled();
        return;
    }
    if message.reset != Reset::No {
        let keep_transaction = message.reset == Reset::SessionButTransaction;
        session.reset(keep_transaction);
        out.session_reset(keep_transaction);
    }
    if let Err(error) = execute(shared, session, message, out, signals) {
        out.error(&error);
    }
    if signals.attention_pending() {
        out.finish_cancelled();
    } else {
        out.finish();
    }
}

/// What is wrong with the request itself comes back as an error; what goes wrong in it, the session writes.
fn execute(
    shared: &Shared,
    session: &mut Session,
    message: &Message,
    out: &mut ResponseWriter,
    signals: &Signals,
) -> SqlResult<()> {
    let client_request = request::decode(message)?;
    if shared.log_sql {
        log_request(session.spid(), &client_request.request);
    }
    let was_reset = message.reset != Reset::No;
    if !was_reset && client_request.transaction_descriptor != out.transaction_descriptor() {
        let message = "New request is not allowed to start because it should come with valid transaction descriptor.";
        return Err(SqlError::new(3989, message));
    }
    match client_request.request {
        Request::Batch(sql) => session.run_batch(&sql, out),
        Request::Transaction(request) => session.run_transaction_request(request, out),
        Request::Calls(calls) => {
            let last = calls.len() - 1;
            for (index, call) in calls.into_iter().enumerate() {
                if signals.attention_pending() {
                    break;
                }
                session.run_rpc(call, out);
                if index < last {
                    out.next_call_follows();
                }
            }
        }
    }
    Ok(())
}

fn log_request(spid: u16, request: &Request) {
    match request {
        Request::Batch(sql) => log(spid, sql.trim_end()),
        Request::Transaction(request) => log(spid, &request.to_string()),
        Request::Calls(calls) => {
            for call in calls {
                log(spid, &call.to_string());
            }
        }
    }
}

/// Prints with the session's number before every line. At once, so that sessions do not mix within a request.
fn log(spid: u16, what: &str) {
    let lines: String = what.lines().map(|line| format!("[{spid}] {line}\n")).collect();
    eprint!("{lines}");
}
