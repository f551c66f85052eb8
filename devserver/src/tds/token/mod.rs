//! The answer to a request: tokens, packets, and the way to the socket.
//!
//! The executor calls [`ResponseWriter`] while it runs; tokens are encoded straight into a buffer, whole packets are
//! cut off it and written to the connection from the executor's own thread, which waits while the client is slow to
//! read, so that a large result never stands in memory. Every DONE is held back until it is known whether more follows.
//! Source: MS-TDS, "2.2.7 Packet Data Token Stream Definition".

mod done;
mod environment;
mod number;
mod response;
mod socket_writer;
#[cfg(test)]
mod tests;

pub use done::DoneKind;
pub use response::{ResponseWriter, ResultColumn};
pub use socket_writer::SocketWriter;
