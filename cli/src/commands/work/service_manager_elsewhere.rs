//! For systems without systemd: does nothing.

use readpast::WorkerMonitor;

pub const VARIABLES: [&str; 0] = [];

#[derive(Debug)]
pub struct ServiceManager;

impl ServiceManager {
    pub fn of_this_process() -> ServiceManager {
        ServiceManager
    }

    pub fn ready(&self) {}

    pub fn stopping(&self) {}

    pub async fn keep_telling(&self, _worker: &WorkerMonitor) {}
}
