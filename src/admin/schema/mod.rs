//! The schema: its scripts, their installation, and the checks of `verify`.

mod findings;
mod install;
mod script_batches;
mod scripts;

pub use findings::{Check, CheckResult, Finding};
pub use scripts::{UNINSTALL, in_one, install_script, scripts, uninstall_script};
