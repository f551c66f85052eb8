//! A GET, and the text it brings.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The status and the body. HTTP 1.0, in which no answer comes in chunks.
pub async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(address).await.expect("somebody listens");
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.expect("the request is sent");
    let mut response = String::new();
    connection.read_to_string(&mut response).await.expect("the answer is text");
    let status = response.split(' ').nth(1).expect("there is a status line").parse().expect("it is a number");
    let (_, body) = response.split_once("\r\n\r\n").expect("the head ends");
    (status, body.to_string())
}
