//! The connection string: parsed by ADO.NET's rules, shown without its secrets.

mod address;
mod known_keys;
mod login_keys;
mod options;
mod split;

pub(crate) use address::{Address, Place};
pub(crate) use known_keys::{PACKET_SIZES, may_hold_password};
pub use options::ConnectionString;
pub(crate) use options::LoginSettings;
