//! A TCP proxy between the worker and the server, to cut its connections or block the way altogether.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

pub struct Proxy {
    connection_string: String,
    cut: Arc<Notify>,
    blocked: Arc<AtomicBool>,
}

impl Proxy {
    /// Forwards to the server of `connection_string`.
    pub async fn start(connection_string: &str) -> Proxy {
        let (address, rest) = address_of(connection_string);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = Arc::new(Notify::new());
        let accepted_cut = cut.clone();
        let blocked = Arc::new(AtomicBool::new(false));
        let closed = blocked.clone();
        tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else {
                    return;
                };
                if closed.load(Ordering::Acquire) {
                    continue; // dropping the connection closes it
                }
                tokio::spawn(forward(client, address.clone(), accepted_cut.clone()));
            }
        });
        Proxy { connection_string: format!("Server=tcp:127.0.0.1,{port};{rest}"), cut, blocked }
    }

    pub fn connection_string(&self) -> String {
        self.connection_string.clone()
    }

    /// Cuts every connection there is at this moment.
    pub fn cut(&self) {
        self.cut.notify_waiters();
    }

    /// Cuts every connection and lets no new one through.
    pub fn block(&self) {
        self.blocked.store(true, Ordering::Release);
        self.cut();
    }

    /// Lets connections through again.
    pub fn unblock(&self) {
        self.blocked.store(false, Ordering::Release);
    }
}

async fn forward(mut client: TcpStream, address: String, cut: Arc<Notify>) {
    let cut = cut.notified();
    let Ok(mut server) = TcpStream::connect(address).await else {
        return;
    };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        () = cut => {}
    }
}

/// `host:port`, and the connection string without its server.
fn address_of(connection_string: &str) -> (String, String) {
    let mut address = None;
    let mut rest = Vec::new();
    for part in connection_string.split(';').filter(|part| !part.trim().is_empty()) {
        match part.split_once('=') {
            Some((key, value)) if matches!(key.trim().to_lowercase().as_str(), "server" | "data source") => {
                let value = value.trim().trim_start_matches("tcp:");
                let (host, port) = value.split_once(',').unwrap_or((value, "1433"));
                address = Some(format!("{host}:{port}"));
            }
            _ => rest.push(part),
        }
    }
    (address.expect("a connection string names its server"), rest.join(";"))
}
