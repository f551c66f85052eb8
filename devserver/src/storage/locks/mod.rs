//! The locks that keep transactions apart: who holds which, who waits for it, and who gives way in a deadlock.
//! `README.md` beside this file explains the rules and why they are these.
//!
//! Nothing here knows of tables, rows or the database. The lock table is plain data, which its owner keeps under a
//! latch; a wait is given that latch, to sleep without it.

pub mod deadlock;
pub mod lock;
pub mod lock_table;
pub mod mode;
pub mod resource;
pub mod session;
pub mod view;
pub mod wait;
