//! The progress of `enqueue --resume`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use readpast::crates::uuid::Uuid;
use readpast::{BatchId, Enqueued, Error, NewBatch, Queue};
use serde::{Deserialize, Serialize};

use super::lines::{Chunk, Place};
use crate::exit::{Exit, failure};

/// The file of `--resume`, and the batch whose parts are the chunks.
pub struct Resume {
    path: PathBuf,
    state: State,
    /// The batch accepts no more jobs.
    is_sealed: bool,
    /// Held until the process exits.
    _lock: File,
}

/// The content of the file. It may lag behind: SQL Server knows which chunks were added.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    schema: String,
    queue: String,
    batch_id: BatchId,
    /// The name of the batch, unique across servers.
    name: String,
    /// The confirmed position.
    place: Place,
    /// The end of the input, where its last chunk was cut. If the input had more lines, that chunk would be different.
    end: Option<Place>,
}

impl Resume {
    /// Continues from the file, or creates it.
    pub async fn open(path: PathBuf, queue: &Queue) -> Result<Resume> {
        let path = fs::canonicalize(&path).unwrap_or(path); // a link stays one
        let lock = lock(&path)?;
        let state = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                failure(Exit::Usage, format!("{} is not a file of --resume: {error}", path.display()))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => begin(&path, queue).await?,
            Err(error) => return Err(failure(Exit::Usage, format!("{}: {error}", path.display()))),
        };
        let State { schema, queue: queue_name, batch_id, name, .. } = &state;
        if (schema.as_str(), queue_name.as_str()) != (queue.schema(), queue.name()) {
            let message = format!(
                "{} belongs to queue {queue_name} in schema {schema}; remove it to start again",
                path.display()
            );
            return Err(failure(Exit::Usage, message));
        }
        let Some(batch) = queue.batch(*batch_id).await? else {
            let message = format!(
                "there is no batch {batch_id}, of which {} is: it is of another server or database, or was forgotten a \
                 week after its end; remove it to begin anew",
                path.display()
            );
            return Err(failure(Exit::NotFound, message));
        };
        if batch.name.as_ref() != Some(name) {
            let message = format!(
                "batch {batch_id} is another one than that of {}, which is of another server or database; remove it to \
                 begin anew",
                path.display()
            );
            return Err(failure(Exit::Usage, message));
        }
        Ok(Resume { path, state, is_sealed: batch.sealed_at.is_some(), _lock: lock })
    }

    pub fn place(&self) -> Place {
        self.state.place
    }

    pub fn batch(&self) -> i64 {
        self.state.batch_id.0
    }

    /// Enqueues a chunk; `None` if an earlier run has done so.
    pub async fn enqueue(&mut self, chunk: &Chunk, queue: &Queue) -> Result<Option<Vec<Enqueued>>> {
        if self.is_sealed {
            let message = format!("{} is complete; remove it to start again", self.path.display());
            return Err(failure(Exit::Usage, message));
        }
        if let Some(end) = self.state.end
            && (chunk.end.lines > end.lines || (chunk.is_last && chunk.end != end))
        {
            let message =
                format!("the input differs from the input of {}, which had {} lines", self.path.display(), end.lines);
            return Err(failure(Exit::Usage, message));
        }
        if chunk.is_last && self.state.end.is_none() {
            self.state.end = Some(chunk.end);
            self.write()?;
        }
        let enqueued = queue.enqueue_part(self.state.batch_id, chunk.first_line as i64, &chunk.jobs).await;
        let enqueued = enqueued.map_err(|error| self.explained(error, chunk))?;
        self.state.place = chunk.end;
        self.write()?;
        Ok(enqueued)
    }

    /// Seals the batch. Returns its number of jobs.
    pub async fn seal(self, queue: &Queue) -> Result<u64> {
        let sealed = queue.seal_batch(self.state.batch_id).await;
        Ok(sealed.map_err(|error| self.with_hint(error))?.jobs)
    }

    fn explained(&self, error: Error, chunk: &Chunk) -> anyhow::Error {
        self.with_hint(error).context(format!("lines {} to {}", chunk.first_line, chunk.end.lines))
    }

    /// Adds to a transient error that the command can be repeated.
    fn with_hint(&self, error: Error) -> anyhow::Error {
        let passes = match &error {
            Error::EnqueueInDoubt { cause, .. } => cause.is_transient(),
            error => error.is_transient(),
        };
        let error = anyhow::Error::new(error);
        if !passes {
            return error;
        }
        error.context(format!("run the same command again: {} stores its progress", self.path.display()))
    }

    fn write(&self) -> Result<()> {
        write(&self.path, &self.state)
    }
}

/// Creates the batch. If the file cannot be written afterwards, an empty batch remains, which is harmless.
async fn begin(path: &Path, queue: &Queue) -> Result<State> {
    let name = format!("readpast enqueue {}", Uuid::new_v4());
    let batch_id = queue.create_batch(&NewBatch::new().name(&name)).await?;
    let state = State {
        schema: queue.schema().to_owned(),
        queue: queue.name().to_owned(),
        batch_id,
        name,
        place: Place::default(),
        end: None,
    };
    write(path, &state)?;
    Ok(state)
}

/// The path with a suffix.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Keeps other processes from using the file. The lock is a file of its own, because [`write`] replaces the file of
/// `--resume`. The lock file is never removed, because a third process may already have opened it.
fn lock(path: &Path) -> Result<File> {
    let lock = beside(path, ".lock");
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    #[cfg(windows)]
    std::os::windows::fs::OpenOptionsExt::share_mode(&mut options, 0); // so long it cannot be opened
    let locked = options.open(&lock).and_then(|file| {
        #[cfg(unix)]
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    });
    locked.map_err(|error| {
        const IN_USE_ON_WINDOWS: i32 = 32; // ERROR_SHARING_VIOLATION
        let is_in_use = match cfg!(windows) {
            true => error.raw_os_error() == Some(IN_USE_ON_WINDOWS),
            false => error.kind() == io::ErrorKind::WouldBlock,
        };
        match is_in_use {
            true => failure(Exit::Refused, format!("another process uses {}", path.display())),
            false => failure(Exit::Usage, format!("cannot lock {}: {error}", lock.display())),
        }
    })
}

/// Replaces the file atomically.
fn write(path: &Path, state: &State) -> Result<()> {
    let new = beside(path, ".new");
    let replace = || {
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(state)?)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        // The rename is durable only once the directory is synced. Windows cannot open a directory like a file.
        #[cfg(unix)]
        File::open(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))?
            .sync_all()?;
        io::Result::Ok(())
    };
    replace().with_context(|| format!("cannot write {}", path.display()))
}
