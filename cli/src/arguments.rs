//! The whole command line.

use clap::Parser;

use crate::commands::Command;
use crate::connection::Common;

/// Operates job queues in SQL Server, and runs any program's work from them.
///
/// Where the database is: `--url`, or better READPAST_URL, which other users of the machine cannot see, or a file with
/// `--config`. `readpast demo` and `readpast dev` need none.
#[derive(Debug, Parser)]
#[command(name = "readpast", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}
