//! The way to the socket.

use crate::gate::Gate;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Where packets go.
pub(super) struct Connection {
    pub(super) output: SocketWriter,
    pub(super) packet_size: usize,
    pub(super) spid: u16,
    pub(super) next_packet_id: u8,
    pub(super) gone: bool,
}

/// The writing half of a connection, for a thread outside the runtime that drives it.
///
/// Writing from the executing thread saves the hand-over to a task, which would cost a small answer more than all else.
pub struct SocketWriter {
    gate: Arc<Gate>,
    stream: Box<dyn AsyncWrite + Send + Unpin>,
    runtime: Handle,
    hung_up: watch::Receiver<bool>,
}

impl SocketWriter {
    /// `runtime` is the one that drives `stream`; when `hung_up` changes, a client that does not read is given up.
    /// Nothing is written while `gate` is closed.
    pub fn new(
        stream: Box<dyn AsyncWrite + Send + Unpin>,
        runtime: Handle,
        hung_up: watch::Receiver<bool>,
        gate: Arc<Gate>,
    ) -> Self {
        SocketWriter { gate, stream, runtime, hung_up }
    }

    pub(super) fn write(&mut self, packets: &[u8]) -> io::Result<()> {
        self.gate.pass();
        let SocketWriter { stream, runtime, hung_up, .. } = self;
        let writing = async {
            stream.write_all(packets).await?;
            stream.flush().await
        };
        runtime.block_on(async {
            tokio::select! {
                biased;
                written = writing => written,
                _ = hung_up.changed() => Err(io::ErrorKind::ConnectionAborted.into()),
            }
        })
    }

    pub(super) fn close(&mut self) -> io::Result<()> {
        self.gate.pass();
        let SocketWriter { stream, runtime, hung_up, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                biased;
                closed = stream.shutdown() => closed,
                _ = hung_up.changed() => Ok(()),
            }
        })
    }
}
