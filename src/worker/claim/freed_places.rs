//! Passes the places of waiting sessions on within a process.
//!
//! A worker that has no place in SQL Server ([`Watcher`](super::watcher::Watcher)) polls, rarely. When a worker of the
//! same process has left its place and stays busy, one of the others tries for that place at once.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The workers of a process whose queues are in one schema.
#[derive(Debug)]
pub(in crate::worker) struct FreedPlaces {
    server: String,
    schema: String,
    freed: Notify,
}

static ALL: Mutex<Vec<Weak<FreedPlaces>>> = Mutex::new(Vec::new());

impl FreedPlaces {
    pub(in crate::worker) fn shared(server: &str, schema: &str) -> Arc<FreedPlaces> {
        let mut all = ALL.lock();
        all.retain(|places| places.strong_count() > 0);
        let is_same = |places: &Arc<FreedPlaces>| places.server == server && places.schema == schema;
        if let Some(places) = all.iter().filter_map(Weak::upgrade).find(is_same) {
            return places;
        }
        let (server, schema) = (server.to_owned(), schema.to_owned());
        let places = Arc::new(FreedPlaces { server, schema, freed: Notify::new() });
        all.push(Arc::downgrade(&places));
        places
    }

    /// Offers a place. If no worker waits for one, the next that does tries at once.
    pub(in crate::worker) fn offer(&self) {
        self.freed.notify_one();
    }

    /// Returns when a place was offered.
    pub(in crate::worker) async fn offered(&self) {
        self.freed.notified().await;
    }
}
