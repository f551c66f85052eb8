//! The connection string: parsed by ADO.NET's rules, shown without its secrets.

mod address;
mod connection_string;
mod known_keys;
mod login_keys;
mod split;

pub(crate) use address::{Address, Place};
pub use connection_string::ConnectionString;
pub(crate) use connection_string::LoginSettings;
pub(crate) use known_keys::{PACKET_SIZES, may_hold_password};
