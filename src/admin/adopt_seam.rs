//! The interface for the crate readpast-adopt: the schema's scripts, and a session to run other scripts and to read
//! rows. It is hidden and unstable, because the two crates are released together.

use tiberius::FromSqlOwned;

use crate::admin::Admin;
use crate::config;
use crate::connection::{Columns, Lent};
use crate::error::Error;

pub use super::schema::{UNINSTALL, in_one, scripts};

/// Rejects a name that no schema can have.
pub fn check_schema(schema: &str) -> Result<(), Error> {
    config::check_schema(schema)
}

/// A session of a queue.
#[derive(Debug)]
pub struct AdoptSeam {
    session: Lent,
}

impl Admin<'_> {
    /// Returns a session for the crate readpast-adopt.
    #[doc(hidden)]
    pub async fn seam(self) -> Result<AdoptSeam, Error> {
        Ok(AdoptSeam { session: self.queue.any_session().await? })
    }
}

impl AdoptSeam {
    /// The schema of the queue's settings.
    pub fn schema(&self) -> &str {
        self.session.schema()
    }

    /// Runs a batch and returns the rows of each result.
    pub async fn query(&mut self, call: &'static str, sql: &str) -> Result<Vec<Vec<SeamRow>>, Error> {
        let results = self.session.query(call, sql).await?;
        Ok(results.into_iter().map(|rows| rows.into_iter().map(SeamRow).collect()).collect())
    }

    /// Runs scripts with `$(schema)` replaced, and runs all of them again after a transient error.
    pub async fn run_again(&mut self, scripts: &[(&str, &str)]) -> Result<(), Error> {
        self.session.run_again(scripts).await
    }

    /// Runs a script once.
    pub async fn run(&mut self, name: &str, script: &str) -> Result<(), Error> {
        self.session.run_all(&[(name, script)]).await
    }

    /// The error of a schema without an adoption.
    pub fn not_installed(&self, message: &str) -> Error {
        Error::NotInstalled { number: None, schema: self.schema().to_string(), message: message.to_string() }
    }
}

/// The error of faulty scripts.
pub fn internal(message: String) -> Error {
    Error::Protocol { message }
}

/// The error of a file that cannot be read.
pub fn unreadable(path: &std::path::Path, cause: std::io::Error) -> Error {
    Error::ConfigFile { path: path.to_path_buf(), cause: cause.into() }
}

/// A row, whose columns are read one after the other.
#[derive(Debug)]
pub struct SeamRow(Columns);

impl SeamRow {
    /// The next column, which must not be NULL.
    pub fn required<T: FromSqlOwned>(&mut self, name: &str) -> Result<T, Error> {
        self.0.required(name)
    }

    /// The next column, which may be NULL.
    pub fn optional<T: FromSqlOwned>(&mut self, name: &str) -> Result<Option<T>, Error> {
        self.0.optional(name)
    }
}
