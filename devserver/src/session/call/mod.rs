//! Calls: procedures, triggers, dynamic text, and what is passed to them.

pub mod application_lock;
pub mod argument;
pub mod dynamic_text;
pub mod prepared;
pub mod procedure;
pub mod procedure_not_found;
pub mod remote;
pub mod role_member;
pub mod system_argument;
pub mod system_procedure;
pub mod table_parameter;
pub mod trigger;
