//! Errors: whether they are transient, and their remedies.

mod driver;
mod error;
mod error_pattern;
#[cfg(test)]
mod message_tests;
mod questions;
mod remedy;
mod transient;

pub(crate) use error::TOO_MUCH;
pub use error::{BoxError, Error, InvalidPayload};
pub(crate) use error_pattern::{GAP, error_pattern};
pub(crate) use transient::LOCK_TIME_OUT;
