//! Forms in two steps: the first asks, the second says what will happen, then it is done.
//!
//! a form's fields ─▶ [`typed`]: what is wrong stands under its field ─▶ [`form`]: the same page again, or the second
//! step ─▶ the library
//!
//! No step keeps anything on the server: the second page sends all that was typed on the first one.

mod form;
mod job_fields;
pub mod new_job;
pub mod schedule;
mod setting;
pub mod settings;
mod typed;
