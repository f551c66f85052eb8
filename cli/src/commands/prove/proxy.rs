//! A TCP proxy between the workers and SQL Server. It cuts connections, refuses new ones, or lets nothing through.

use anyhow::{Context, Result, bail};
use readpast::crates::tiberius::Config as DriverConfig;
use tokio::io::copy;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Open,
    /// Data is dropped without an error on either side.
    Silent,
    /// Every connection is cut, and new ones are refused, as while a database restarts.
    Down,
}

pub struct Proxy {
    url: String,
    /// The network, and how often the connections were cut.
    network: watch::Sender<(Network, u64)>,
    listening: JoinHandle<()>,
}

/// The port of SQL Server Browser, which the driver names for an instance without a port.
const BROWSER: &str = ":1434";

impl Proxy {
    /// Forwards to the server of `url`.
    pub async fn start(url: &str) -> Result<Proxy> {
        let address = DriverConfig::from_ado_string(url).context("the driver cannot read the address")?.get_addr();
        if address.ends_with(BROWSER) {
            bail!("the connection string names an instance; name its port instead");
        }
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        // The last of several equal keys counts. The certificate is still the server's.
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        let names_host = url.to_lowercase().replace(' ', "").contains("hostnameincertificate");
        let certificate = if names_host { String::new() } else { format!(";HostNameInCertificate={host}") };
        let url = format!("{url};Server=tcp:127.0.0.1,{port}{certificate}");
        let network = watch::Sender::new((Network::Open, 0));
        let watched = network.clone();
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if watched.borrow().0 != Network::Down {
                    tokio::spawn(forward(client, address.clone(), watched.subscribe()));
                }
            }
        });
        Ok(Proxy { url, network, listening })
    }

    /// The connection string by way of the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn set(&self, network: Network) {
        self.network.send_modify(|(state, _)| *state = network);
    }

    /// Cuts every connection there is now.
    pub fn cut(&self) {
        self.network.send_modify(|(_, cuts)| *cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn forward(mut client: TcpStream, address: String, mut network: watch::Receiver<(Network, u64)>) {
    let Ok(mut server) = TcpStream::connect(&address).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true)); // slower without, no worse
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let mut requests = std::pin::pin!(copy(&mut from_client, &mut to_server));
    let mut answers = std::pin::pin!(copy(&mut from_server, &mut to_client));
    let cuts = network.borrow().1;
    loop {
        let (state, now) = *network.borrow_and_update();
        if state == Network::Down || now != cuts {
            return;
        }
        let is_open = state == Network::Open;
        tokio::select! {
            _ = &mut requests, if is_open => return,
            _ = &mut answers, if is_open => return,
            changed = network.changed() => if changed.is_err() { return },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_cut_ends_the_connections_and_lets_new_ones_through() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let proxy = Proxy::start(&format!("Server=tcp:127.0.0.1,{port};User ID=u;Password=p")).await.unwrap();
        let place = DriverConfig::from_ado_string(proxy.url()).unwrap().get_addr();
        for _ in 0..2 {
            let mut client = TcpStream::connect(&place).await.unwrap();
            let (mut accepted, _) = server.accept().await.unwrap();
            client.write_all(b"x").await.unwrap();
            assert_eq!(accepted.read_u8().await.unwrap(), b'x');
            proxy.cut();
            assert!(client.read_u8().await.is_err());
        }
        assert!(proxy.url().ends_with(";HostNameInCertificate=127.0.0.1"));
    }
}
