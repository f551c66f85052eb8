//! Stands between the program and the server, and can be closed or hold everything back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use readpast::crates::tiberius::Config as DriverConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Proxy {
    url: String,
    state: watch::Sender<State>,
    connections: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Nothing arrives, and nobody is told.
    Stalled,
    /// What the server answers does not arrive.
    Mute,
    Closed,
}

impl Proxy {
    /// Forwards to the server of a connection string.
    pub async fn start(url: &str) -> Proxy {
        let address = DriverConfig::from_ado_string(url).expect("a connection string").get_addr();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, watched) = watch::channel(State::Open);
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(forward(client, address.clone(), watched.clone()));
            }
        });
        // The last of several equal keys counts.
        let url = format!("{url};Server=tcp:127.0.0.1,{port};TrustServerCertificate=true");
        Proxy { url, state, connections }
    }

    /// How to connect through it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many there have been.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Cuts all connections and lets no new one through.
    pub fn close(&self) {
        self.state.send_replace(State::Closed);
    }

    /// Holds every byte back, as when packets vanish.
    pub fn stall(&self) {
        self.state.send_replace(State::Stalled);
    }

    /// Holds what the server answers back; what it is asked still arrives.
    pub fn mute(&self) {
        self.state.send_replace(State::Mute);
    }

    /// Lets new connections through again, and what was held back.
    pub fn open(&self) {
        self.state.send_replace(State::Open);
    }
}

async fn forward(mut client: TcpStream, address: String, mut state: watch::Receiver<State>) {
    if *state.borrow_and_update() == State::Closed {
        return;
    }
    let Ok(mut server) = TcpStream::connect(address).await else { return };
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let mut requests = std::pin::pin!(tokio::io::copy(&mut from_client, &mut to_server));
    let mut answers = std::pin::pin!(tokio::io::copy(&mut from_server, &mut to_client));
    loop {
        let now = *state.borrow_and_update();
        tokio::select! {
            _ = &mut requests, if matches!(now, State::Open | State::Mute) => return,
            _ = &mut answers, if now == State::Open => return,
            changed = state.changed() => if changed.is_err() || *state.borrow() == State::Closed { return },
        }
    }
}
