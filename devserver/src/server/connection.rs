//! A connection after its negotiation: reads requests ahead while its thread runs them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use crate::gate::Gate;
use crate::server::negotiation::protocol_error;
use crate::server::session_thread::run_session;
use crate::server::shared::{HangUpOnDrop, Shared, Signals, Work};
use crate::tds::packet::{Message, PacketReader, PacketType};
use crate::tds::token::SocketWriter;

/// Requests read ahead while one runs. TDS clients wait for an answer before the next request (MS-TDS 3.2.5.7, "Sent
/// Client Request State"), and may only send an attention; who sends more than this is cut off, so that what waits for
/// a busy session stays small.
const REQUESTS_AHEAD: usize = 4;

/// How soon a statement is cancelled once more that did not end: it may have been about to start when it was cancelled
/// first, and starting clears a cancellation that was meant for the request before.
const CANCEL_AGAIN: Duration = Duration::from_millis(10);

/// The stack of a session's thread: procedures that call each other 32 deep, in a debug build. Only what is used of it
/// costs memory.
const SESSION_STACK: usize = 16 * 1024 * 1024;

/// The connection after its negotiation (`is_encrypted`: all that follows is): starts the session's thread, then reads
/// and writes until either side ends.
pub(super) async fn converse<R, W>(
    reader: R,
    writer: W,
    mut packets: PacketReader,
    login: Message,
    is_encrypted: bool,
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
    let output = SocketWriter::new(Box::new(writer), Handle::current(), hung_up, Arc::clone(&gate));
    let session_shared = Arc::clone(shared);
    let session_signals = Arc::clone(&signals);
    std::thread::Builder::new().name("devserver-session".to_owned()).stack_size(SESSION_STACK).spawn(move || {
        run_session(&session_shared, &login, is_encrypted, work, output, &session_signals);
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
                return Err(protocol_error("requests came before the one that runs was answered"));
            }
        }
    }
}
