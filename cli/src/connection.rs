//! The options of all commands, the settings, and a queue made from them.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread::available_parallelism;

use anyhow::Result;
use clap::Args;
use readpast::{Config, Error, Queue};

/// The name for calls that need no queue.
const NO_QUEUE: &str = "-";

/// Options of all commands.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of all commands")]
pub struct Common {
    /// TOML file of settings, as examples/readpast.toml; the environment (READPAST_…) overrides it
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// ADO.NET connection string; other users of this machine can see it, so prefer READPAST_URL
    #[arg(long, global = true, value_name = "STRING")]
    pub url: Option<String>,
    /// Schema in which readpast is installed [default: readpast]
    #[arg(long, global = true, value_name = "NAME")]
    pub schema: Option<String>,
    /// Print one JSON object per line instead of tables
    #[arg(long, global = true)]
    pub json: bool,
}

/// The threads of a worker: one per core unless set.
pub fn thread_count(config: &Config) -> usize {
    match config.worker.threads {
        0 => available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    }
}

/// Connects a queue without metrics, because only `work` serves metrics.
pub async fn queue(config: &Config, name: &str) -> Result<Queue, Error> {
    let mut config = config.clone();
    config.queue.name = name.to_owned();
    config.metrics.listen.clear();
    Queue::connect(&config).await
}

/// Connects a queue for calls about the whole schema.
pub async fn schema(config: &Config) -> Result<Queue, Error> {
    queue(config, NO_QUEUE).await
}

impl Common {
    pub fn config(&self) -> Result<Config> {
        let mut config = Config::load(self.config.as_deref())?;
        if let Some(url) = &self.url {
            config.connection.url = url.as_str().into();
        }
        if let Some(schema) = &self.schema {
            config.connection.schema = schema.clone();
        }
        Ok(config)
    }

    pub async fn queue(&self, name: &str) -> Result<Queue> {
        Ok(queue(&self.config()?, name).await?)
    }

    pub async fn schema(&self) -> Result<Queue> {
        Ok(schema(&self.config()?).await?)
    }
}
