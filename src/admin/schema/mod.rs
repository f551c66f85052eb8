//! The schema: its scripts, their installation, and what `verify` finds.

mod findings;
mod install;
mod script_batches;
pub(crate) mod scripts;

pub use findings::{Check, CheckResult, Finding};
pub use scripts::{install_script, uninstall_script};
