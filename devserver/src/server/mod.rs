//! The listener and its connections.
//!
//! A connection is one async task and one thread. The task negotiates encryption, then reads ahead, so that an
//! attention or a disconnect is noticed while a statement runs. The thread owns the session, executes one request after
//! the other and writes the answers; it may block on locks as long as it likes.
//!
//! socket → task → `Work` → thread → socket

pub mod connection;
pub mod listener;
pub mod negotiation;
pub mod session_thread;
pub mod shared;

pub use listener::run;
pub use shared::Shared;
