//! The lease: how this process stays alive in SQL Server's eyes.

pub(super) mod election;
pub(super) mod heartbeats_under_way;
pub(super) mod keeper;
pub(super) mod validity;
pub(super) mod worker_life;
