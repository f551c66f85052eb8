//! The script of an adoption: the scripts of `sql/` with the changes of `adopt/sql/`, filled in from a plan.

mod ends;
mod held;
mod job;
mod json_object;
mod marks;
pub(crate) mod script;
mod table;
mod texts;
mod values;
