//! The program `readpast`: operates queues in SQL Server, and runs any program's work from them.
//!
//! arguments ─▶ [`commands`], a file each ─▶ [`connection`] makes the queue ─▶ the library ─▶ [`output`] as a table or JSON
//!
//! | file | holds |
//! |---|---|
//! | `arguments` | the whole command line |
//! | `audit` | the audit of actions in SQL Server |
//! | `connection` | the options of all commands, the settings, and a queue made from them |
//! | `dev_server` | the dev server with readpast installed |
//! | `job_filter`, `job_options` | the filter options; the options of new jobs |
//! | `output`, `table`, `columns` | tables for people, JSON for programs |
//! | `texts`, `payload_text`, `hex`, `progress` | formats of values |
//! | `json_object` | reads JSON of users |
//! | `interrupt` | Ctrl-C |
//! | `exit` | how an error becomes a message, a hint and an exit code |
//! | `commands` | the commands |

#![deny(unsafe_code)] // but in commands/work/before_exec.rs, with its proof

mod arguments;
mod audit;
mod columns;
mod commands;
mod connection;
#[cfg(feature = "dev-server")]
mod dev_server;
#[cfg(test)]
mod documentation_tests;
mod exit;
mod interrupt;
mod job_filter;
mod job_options;
mod json_object;
mod logs;
mod output;
mod payload_text;
mod progress;
mod table;
mod texts;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::Arguments;
use exit::Exit;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::report_usage(&error).into(),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            exit::say(&format!("cannot start a thread: {error}"));
            return Exit::Failed.into();
        }
    };
    let result = runtime.block_on(async {
        let result = commands::run(arguments.command, &arguments.common, Arguments::command).await;
        match result {
            Ok(exit) => Ok(exit),
            Err(error) => Err(exit::with_near_queue(error, &arguments.common).await),
        }
    });
    runtime.shutdown_background();
    match result {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error).into(),
    }
}
