//! The compiled batches and bodies of the server, kept for whoever runs them next.
//!
//! Each was made under a version of its database; under another one it is made anew.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::catalog::object::Procedure;
use crate::plan::batch::CompiledBatch;

/// Compiled batches by database, schema of unqualified names, and text.
pub(crate) type BatchKey = (i32, Arc<str>, String);

/// Compiled bodies by database and the address of the procedure, which a database and its copy share.
type BodyKey = (i32, usize);

/// How many compiled batches are kept; then all are forgotten, which costs no more than compiling them again.
const KEPT_BATCHES: usize = 1000;

/// How many compiled bodies of procedures and triggers are kept, those of dropped ones aside; then all are forgotten.
const KEPT_BODIES: usize = 10_000;

#[derive(Default)]
pub(crate) struct PlanCache {
    batches: Mutex<HashMap<BatchKey, (u64, Arc<CompiledBatch>)>>,
    bodies: Mutex<FxHashMap<BodyKey, Body>>,
}

struct Body {
    /// As long as this is here, no other procedure can have the same address.
    procedure: Weak<Procedure>,
    made_under: u64,
    compiled: Arc<CompiledBatch>,
}

fn body_key(database: i32, procedure: &Arc<Procedure>) -> BodyKey {
    (database, Arc::as_ptr(procedure) as usize)
}

impl PlanCache {
    pub(crate) fn batch(&self, key: &BatchKey, version: u64) -> Option<Arc<CompiledBatch>> {
        let batches = self.batches.lock();
        let (made_under, compiled) = batches.get(key)?;
        (*made_under == version).then(|| Arc::clone(compiled))
    }

    /// The database is gone.
    pub(crate) fn forget_database(&self, id: i32) {
        self.batches.lock().retain(|(database, ..), _| *database != id);
        self.bodies.lock().retain(|(database, _), _| *database != id);
    }

    pub(crate) fn keep_batch(&self, key: BatchKey, version: u64, compiled: &Arc<CompiledBatch>) {
        let mut batches = self.batches.lock();
        if batches.len() >= KEPT_BATCHES {
            batches.clear();
        }
        batches.insert(key, (version, Arc::clone(compiled)));
    }

    /// The body of a procedure or trigger with its variables and plans.
    pub(crate) fn body(&self, database: i32, procedure: &Arc<Procedure>, version: u64) -> Option<Arc<CompiledBatch>> {
        let bodies = self.bodies.lock();
        let body = bodies.get(&body_key(database, procedure))?;
        (body.made_under == version).then(|| Arc::clone(&body.compiled))
    }

    pub(crate) fn keep_body(
        &self,
        database: i32,
        procedure: &Arc<Procedure>,
        version: u64,
        compiled: &Arc<CompiledBatch>,
    ) {
        let mut bodies = self.bodies.lock();
        // Before the table grows.
        if bodies.len() == bodies.capacity() {
            bodies.retain(|_, body| body.procedure.strong_count() > 0);
        }
        if bodies.len() >= KEPT_BODIES {
            bodies.clear();
        }
        let body = Body { procedure: Arc::downgrade(procedure), made_under: version, compiled: Arc::clone(compiled) };
        bodies.insert(body_key(database, procedure), body);
    }
}
