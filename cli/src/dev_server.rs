//! The dev server with readpast installed.

use anyhow::{Context, Result};
use readpast::admin::QueueOptions;
use readpast::{Config, Queue};
use readpast_devserver::{Builder, DevServer};

use crate::connection;

/// Starts the dev server, installs readpast in the schema of `config`, and sets the connection string in `config`. The
/// server stops when dropped.
pub async fn start(server: Builder, config: &mut Config) -> Result<DevServer> {
    let server = server.start().await.context("the dev server cannot start")?;
    config.connection.url = server.connection_string().into();
    connection::schema(config).await?.admin().install().await?;
    Ok(server)
}

pub async fn create_queue(config: &Config, name: &str, options: QueueOptions) -> Result<Queue> {
    let queue = connection::queue(config, name).await?;
    queue.admin().create(options).await?;
    Ok(queue)
}
