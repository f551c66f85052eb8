//! Counts the requests that go to a server: a relay between the worker and the server that reads the headers of the TDS
//! packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};

/// Packet types that carry a request: a batch, a procedure call, a transaction manager request ([MS-TDS] 2.2.3.1.1).
const REQUESTS: [u8; 3] = [0x01, 0x03, 0x0E];

/// The status bit of a message's last packet ([MS-TDS] 2.2.3.1.2).
const END_OF_MESSAGE: u8 = 0x01;

pub struct Proxy {
    pub port: u16,
    requests: Arc<AtomicU64>,
}

impl Proxy {
    /// Listens on a free port and relays to `server` (`host:port`). Ends with the runtime.
    pub async fn start(server: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let requests = Arc::new(AtomicU64::new(0));
        let counter = requests.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let upstream = TcpStream::connect(&server).await.expect("the server listens");
                client.set_nodelay(true).expect("a socket option");
                upstream.set_nodelay(true).expect("a socket option");
                let (from_client, mut to_client) = client.into_split();
                let (mut from_server, to_server) = upstream.into_split();
                tokio::spawn(relay_requests(from_client, to_server, counter.clone()));
                tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            }
        });
        Proxy { port, requests }
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// Relays packet by packet. An encrypted login comes as a bare TLS record among the packets.
async fn relay_requests(
    mut from: OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    requests: Arc<AtomicU64>,
) -> std::io::Result<()> {
    loop {
        let mut head = [0; 5];
        from.read_exact(&mut head).await?;
        let is_tls_record = (0x14..=0x17).contains(&head[0]) && head[1] == 3;
        let rest = if is_tls_record {
            usize::from(u16::from_be_bytes([head[3], head[4]]))
        } else {
            usize::from(u16::from_be_bytes([head[2], head[3]])) - head.len()
        };
        if !is_tls_record && REQUESTS.contains(&head[0]) && head[1] & END_OF_MESSAGE != 0 {
            requests.fetch_add(1, Ordering::Relaxed);
        }
        let mut packet = head.to_vec();
        packet.resize(head.len() + rest, 0);
        from.read_exact(&mut packet[head.len()..]).await?;
        to.write_all(&packet).await?;
    }
}
