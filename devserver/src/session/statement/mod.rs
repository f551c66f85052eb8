//! What single statements do when they run.

pub mod check_identity;
pub mod cursor;
pub mod dispatch;
pub mod evaluate;
pub mod query;
pub mod raise;
pub mod set_option;
pub mod transaction;
pub mod unplanned;
pub mod use_database;
pub mod wait;
