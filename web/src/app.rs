//! State shared by all requests.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use readpast::Queue;

use crate::acting::operations::Operations;
use crate::connections::Connections;
use crate::failure::Failure;
use crate::options::Options;
use crate::readings::{Reading, Readings};
use crate::running_jobs::RunningJobs;
use crate::security::attempts::Attempts;
use crate::security::sessions::Sessions;
use crate::security::visitor::Visitor;

/// The state shared by all requests. It is cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

pub struct Shared {
    queue: Queue,
    /// Queues that were requested before.
    queues: Mutex<HashMap<String, Queue>>,
    pub options: Options,
    pub sessions: Sessions,
    pub attempts: Attempts,
    pub readings: Arc<Readings>,
    pub running_jobs: RunningJobs,
    pub operations: Operations,
    pub connections: Connections,
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    pub fn new(queue: Queue, options: Options) -> App {
        let readings = Arc::new(Readings::new(queue.clone()));
        App(Arc::new(Shared {
            queue,
            queues: Mutex::default(),
            options,
            sessions: Sessions::default(),
            attempts: Attempts::default(),
            readings,
            running_jobs: RunningJobs::default(),
            operations: Operations::default(),
            connections: Connections::default(),
        }))
    }
}

impl Shared {
    /// Checks that the visitor and the SQL Server login may act.
    ///
    /// # Errors
    ///
    /// [`Failure::NotAllowed`]
    pub async fn must_let_act(&self, visitor: &Visitor) -> Result<(), Failure> {
        let may_act = visitor.may_act && self.readings.login_may_act().await;
        if may_act { Ok(()) } else { Err(Failure::NotAllowed) }
    }

    /// A queue for calls about the whole schema.
    pub fn schema(&self) -> &Queue {
        &self.queue
    }

    /// The last reading of all queues.
    ///
    /// # Errors
    ///
    /// If no reading has succeeded yet: the list is then unknown, not empty.
    pub async fn all_queues(&self) -> Result<Arc<Reading>, Failure> {
        let reading = self.readings.now().await;
        match &reading.error {
            Some(error) if reading.queues.is_empty() => Err(Failure::Away(error.clone())),
            _ => Ok(reading),
        }
    }

    /// The queue of this name, over the shared connections.
    ///
    /// # Errors
    ///
    /// If it does not exist. So made-up names in addresses create no metrics.
    pub async fn queue(&self, name: &str) -> Result<Queue, Failure> {
        if let Some(queue) = self.queues.lock().get(name) {
            return Ok(queue.clone());
        }
        let reading = self.readings.now().await;
        if reading.queue(name).is_none() {
            return Err(match &reading.error {
                Some(error) => Failure::Away(error.clone()),
                None => Failure::NotFound(format!("There is no queue '{name}'.")),
            });
        }
        let queue = self.queue.named(name)?;
        self.queues.lock().insert(name.to_owned(), queue.clone());
        Ok(queue)
    }
}
