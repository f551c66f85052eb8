//! What is locked, and who keeps the lock.

use std::hash::{BuildHasher, Hash, Hasher};

use rustc_hash::FxBuildHasher;

/// The number of a catalog object (a table, and whatever the executor numbers from the same counter).
pub type ObjectId = i32;

/// The number of an index of a table, as in sys.indexes: 0 for a heap, 1 for the clustered index, from 2 on the
/// non-clustered ones.
pub type IndexId = u16;

/// What SQL Server shows as `(ffffffffffff)`.
pub const END_OF_INDEX: u64 = u64::MAX;

/// What is locked. A key is known by a hash of its bytes, as in SQL Server; with 64 bits instead of SQL Server's 48.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Held by every session: S, or X by one that wants the database for itself.
    Database,
    Table(ObjectId),
    Key {
        object: ObjectId,
        index: IndexId,
        hash: u64,
    },
    /// The name of an application lock, hashed.
    Application(u64),
    /// The name of something in the catalog, hashed: what it means is being changed, or looked at.
    Name(u64),
}

impl Resource {
    pub(crate) fn key(object: ObjectId, index: IndexId, bytes: &[u8]) -> Resource {
        Resource::Key { object, index, hash: FxBuildHasher.hash_one(bytes) }
    }

    /// Stands for the gap behind the last key of an index.
    pub(crate) fn end_of(object: ObjectId, index: IndexId) -> Resource {
        Resource::Key { object, index, hash: END_OF_INDEX }
    }

    pub(crate) fn application(name: &str) -> Resource {
        Resource::Application(FxBuildHasher.hash_one(name))
    }
}

impl Hash for Resource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let word = match *self {
            Resource::Database => 1,
            Resource::Table(object) => object as u64,
            Resource::Key { object, index, hash } => hash ^ ((object as u64) << 32) ^ (u64::from(index) << 16),
            Resource::Application(hash) => !hash,
            Resource::Name(hash) => hash.rotate_left(1),
        };
        state.write_u64(word);
    }
}

/// Who keeps a lock: the transaction until its end, or the session (sp_getapplock with @LockOwner = 'Session').
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOwner {
    Transaction,
    Session,
}
