//! The script of an adoption: the scripts of `sql/` with the changes of `adopt/sql/`, filled in from a plan.

mod ends;
mod held;
mod job;
mod json_object;
mod marks;
mod script;
mod table;
mod texts;
mod values;

pub(crate) use script::{removal, scripts};
