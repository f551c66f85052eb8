//! What a client asks for after the login: SQL batches, remote procedure calls, transaction requests.
//!
//! [`decode`] takes a whole message apart; nothing in it runs before all of it was understood.
//! Source: MS-TDS, "2.2.6.6 RPC Request", "2.2.6.7 SQLBatch", "2.2.6.9 Transaction Manager Request".

mod call;
mod decode;
mod log_text;
mod table;
#[cfg(test)]
mod tests;
mod transaction;

pub use call::{BeginTransaction, ClientRequest, Request, RpcCall, RpcParameter, RpcValue, TransactionRequest};
pub use decode::decode;
