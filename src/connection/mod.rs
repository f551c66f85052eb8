//! Connections to SQL Server: opens and lends them, decides whether an idle one is usable, and calls procedures.
//!
//! Only this module and the commands in `procedures` use the driver.

mod answer_size_limit;
mod columns;
mod connector;
mod idle_trust;
mod parameters;
mod session;
mod session_pool;
mod without_warnings;

pub(crate) use answer_size_limit::{Answer, AnswerSizeLimit};
pub(crate) use columns::{Columns, all_rows, into_rows, one_row};
pub(crate) use connector::Connector;
pub(crate) use parameters::{big, id_rows, int, job_rows, ms, procedure, table_type, us};
pub(crate) use session::Session;
pub(crate) use session_pool::{Lent, SessionPool};
