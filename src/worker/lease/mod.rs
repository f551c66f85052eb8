//! The lease: how this process stays alive as far as SQL Server can see.

mod election;
mod held;
mod keeper;
mod registration;
mod renewals;
mod validity;

pub(super) use election::Election;
pub(super) use held::{Claimed, Held};
pub(super) use keeper::{Lease, LeaseKeeper};
pub(super) use registration::Registration;
pub(super) use validity::LeaseValidity;
