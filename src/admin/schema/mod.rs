//! The schema: its scripts, their installation, and the checks of `verify`.

mod findings;
mod install;
mod script_batches;
pub(crate) mod scripts;

pub use findings::{Check, CheckResult, Finding};
pub use scripts::{install_script, uninstall_script};
