//! Giving back the jobs of workers whose lease ran out.

use super::lasting_session::Session;
use super::parameters::int;
use super::result_columns::Columns;
use crate::error::Error;
use crate::ids::WorkerId;

/// What a reap did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reaped {
    /// Workers whose lease ran out, and that are lost from now on.
    pub(crate) lost: Vec<LostWorker>,
    /// Jobs of lost workers that are ready again.
    pub(crate) jobs_ready: u32,
    /// Jobs of lost workers that are dead, because their attempts are used up.
    pub(crate) jobs_dead: u32,
}

/// A worker whose lease ran out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostWorker {
    pub(crate) worker: WorkerId,
    pub(crate) name: String,
}

impl Session {
    /// Marks up to `max` workers lost whose lease ran out, and gives back up to `max` jobs of lost workers.
    pub(crate) async fn reap(&mut self, queue: &str, max: usize) -> Result<Reaped, Error> {
        let mut command = self.command("reap");
        command.bind_param("@queue", queue);
        command.bind_param("@max", int(max));
        let (mut row, lost) = self.row_and_list("reap", command).await?;
        row.count("workers_lost")?; // as many as are in the list
        Ok(Reaped {
            jobs_ready: row.count("jobs_ready")?,
            jobs_dead: row.count("jobs_dead")?,
            lost: lost.into_iter().map(read_lost).collect::<Result<_, _>>()?,
        })
    }
}

fn read_lost(mut row: Columns) -> Result<LostWorker, Error> {
    Ok(LostWorker { worker: WorkerId(row.required("worker_id")?), name: row.required("name")? })
}
