//! Accepts connections, and sees each from its first byte to its last.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::server::connection::converse;
use crate::server::negotiation::{Negotiated, negotiate, protocol_error};
use crate::server::shared::Shared;

/// From accepting a connection to its LOGIN7 message. Somebody who only opens connections holds none for longer.
const NEGOTIATION_TIME: Duration = Duration::from_secs(30);

/// Connections at a time, each with its thread; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 2000;

/// The pause after a failed accept, so that a shortage of file handles is not a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

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
    let negotiation = negotiate(socket, &shared);
    let negotiated = tokio::select! {
        negotiated = tokio::time::timeout(NEGOTIATION_TIME, negotiation) => negotiated.unwrap_or_else(|_| {
            Err(protocol_error(format!("no login within {} s", NEGOTIATION_TIME.as_secs())))
        }),
        _ = stopping.changed() => return,
    };
    let ended = match negotiated {
        Ok(Negotiated::Plain(socket, packets, login)) => {
            let (reader, writer) = socket.into_split();
            converse(reader, writer, packets, login, false, &shared, stopping).await
        }
        Ok(Negotiated::Encrypted(stream, packets, login)) => {
            let (reader, writer) = tokio::io::split(*stream);
            converse(reader, writer, packets, login, true, &shared, stopping).await
        }
        Err(error) => Err(error),
    };
    if let Err(error) = ended
        && shared.log_sql
    {
        eprintln!("[connection] {error}");
    }
}
