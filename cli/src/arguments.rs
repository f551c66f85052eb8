//! The whole command line.

use clap::Parser;

use crate::commands::Command;
use crate::connection::Common;

/// Operate SQL Server job queues, and run any program for their jobs.
///
/// All commands except `demo` and `dev` need a database: set READPAST_URL, `--config` or `--url`.
#[derive(Debug, Parser)]
#[command(name = "readpast", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}
