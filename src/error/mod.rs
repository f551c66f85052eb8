//! Errors: whether they are transient, and their remedies.

mod driver;
mod error;
mod grouping_key;
#[cfg(test)]
mod message_tests;
mod questions;
mod remedy;
mod transient;

pub(crate) use error::TOO_MUCH;
pub use error::{BoxError, Error, InvalidPayload};
pub(crate) use grouping_key::{GAP, grouping_key};
pub(crate) use transient::LOCK_TIME_OUT;
