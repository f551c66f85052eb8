//! A server that is further away: a relay that keeps every answer back for a while, as a network does. It runs in the
//! server's process, so that its CPU time is not the client's.
//!
//! The pieces of an answer are delayed each by the same time, not one after the other: this is latency, not a narrow
//! line.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What a round trip takes more than on the loopback device: two machines in one data centre.
pub const ROUND_TRIP: Duration = Duration::from_micros(500);

const BUFFER: usize = 64 << 10;

/// Listens on a free port of this machine and relays to `server`; returns the port. Ends with the process.
pub fn start(server: SocketAddr) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let upstream = TcpStream::connect(server).expect("the server listens");
            relay(client, upstream).expect("sockets can be cloned");
        }
    });
    port
}

fn relay(client: TcpStream, server: TcpStream) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || forward(from_client, to_server));
    let (sender, pieces) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || read_pieces(server, sender));
    thread::spawn(move || write_when_due(pieces, client));
    Ok(())
}

/// Requests go through at once.
fn forward(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

fn read_pieces(mut from: TcpStream, sender: mpsc::Sender<(Instant, Vec<u8>)>) {
    let mut buffer = vec![0; BUFFER];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if sender.send((Instant::now() + ROUND_TRIP, buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn write_when_due(pieces: mpsc::Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    for (due_at, piece) in pieces {
        thread::sleep(due_at.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
