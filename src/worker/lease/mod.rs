//! The lease, by which SQL Server considers this worker alive.

mod election;
mod group_run;
mod heartbeats_under_way;
mod held_job;
mod lease_keeper;
mod registration;
mod validity;

pub(super) use election::Election;
pub(super) use group_run::{Behind, GroupRun};
pub(super) use held_job::{Claimed, Grant, HeldJob};
pub(super) use lease_keeper::{Lease, LeaseKeeper};
pub(super) use registration::Registration;
pub(super) use validity::LeaseValidity;
