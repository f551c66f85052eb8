//! Row versions: what rows were before changes that a reader must not see.
//!
//! While a database has READ_COMMITTED_SNAPSHOT or ALLOW_SNAPSHOT_ISOLATION, every change also leaves what was there
//! before in the [`VersionStore`], by table, index and key. A reader has a *snapshot*, the number of the last commit
//! that it may see. It goes from the row as it is now back through the row's versions until it meets one whose writer
//! it may see: itself, or one that committed within the snapshot. Index entries have versions too, so that a snapshot
//! scan of an index finds the keys of its time. Who keeps versions and who reads them: `snapshot.rs`.
//!
//! A version goes as soon as no snapshot needs it: when its writer commits and no snapshot is older, or when the last
//! older snapshot ends. While the options are off there is no store, and nothing is written or asked.
//!
//! Source: "Transaction locking and row versioning guide" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md), "Row versioning-based
//! isolation levels".

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use rustc_hash::FxHashMap;

use super::key::Key;
use super::locks::resource::{IndexId, ObjectId};
use super::range::Direction;
use super::row::Row;

/// What stands at a key of an index.
#[derive(Debug, Clone)]
pub(super) enum Stored {
    Row(Row),
    /// Where the row's key begins in the entry's.
    Entry(u16),
}

/// What stood at a key before a transaction changed it.
#[derive(Debug)]
struct Version {
    writer: u64,
    /// The number of the writer's commit.
    committed: Option<u64>,
    /// `None`: nothing.
    before: Option<Stored>,
}

/// Where a version belongs.
pub(super) type Place = (ObjectId, IndexId, Key);

type Chains = BTreeMap<Key, Vec<Version>>;

/// The versions of a database.
#[derive(Debug, Default)]
pub(super) struct VersionStore {
    /// By table and index, then by key; the oldest version of a key first.
    chains: FxHashMap<(ObjectId, IndexId), Chains>,
    /// The number of the last commit.
    pub(super) commits: u64,
    /// The snapshots in use, each with the number of its readers.
    pub(super) snapshots: BTreeMap<u64, usize>,
    /// The places of versions whose writers have committed, in the order of their commits.
    committed: VecDeque<(u64, Place)>,
    /// The commit that last changed a table's definition.
    pub(super) definitions: FxHashMap<ObjectId, u64>,
}

impl VersionStore {
    /// A snapshot of now. Give it back by [`VersionStore::end_snapshot`].
    pub(super) fn begin_snapshot(&mut self) -> u64 {
        *self.snapshots.entry(self.commits).or_insert(0) += 1;
        self.commits
    }

    pub(super) fn end_snapshot(&mut self, snapshot: u64) {
        if let Some(readers) = self.snapshots.get_mut(&snapshot) {
            *readers -= 1;
            if *readers == 0 {
                self.snapshots.remove(&snapshot);
                self.drop_unneeded();
            }
        }
    }

    /// Keeps what was at a place before; a transaction's first change of it counts.
    pub(super) fn keep(&mut self, place: Place, writer: u64, before: Option<Stored>) -> bool {
        let (table, index, key) = place;
        let chain = self.chains.entry((table, index)).or_default().entry(key).or_default();
        if chain.last().is_some_and(|version| version.writer == writer) {
            return false;
        }
        chain.push(Version { writer, committed: None, before });
        true
    }

    pub(super) fn commit(&mut self, writer: u64, places: Vec<Place>) {
        self.commits += 1;
        let commit = self.commits;
        for place in places {
            let version = self.chain_mut(&place).and_then(|chain| chain.last_mut());
            if let Some(version) = version.filter(|version| version.writer == writer) {
                version.committed = Some(commit);
                self.committed.push_back((commit, place));
            }
        }
        self.drop_unneeded();
    }

    pub(super) fn roll_back(&mut self, writer: u64, places: Vec<Place>) {
        for place in places {
            let Some(chain) = self.chain_mut(&place) else { continue };
            chain.retain(|version| version.writer != writer);
            if chain.is_empty() {
                self.remove_chain(&place);
            }
        }
    }

    fn chain_mut(&mut self, (table, index, key): &Place) -> Option<&mut Vec<Version>> {
        self.chains.get_mut(&(*table, *index))?.get_mut(key)
    }

    fn remove_chain(&mut self, (table, index, key): &Place) {
        if let Some(chains) = self.chains.get_mut(&(*table, *index)) {
            chains.remove(key);
        }
    }

    /// Drops the versions whose writers every snapshot sees.
    fn drop_unneeded(&mut self) {
        let oldest = self.snapshots.keys().next().copied().unwrap_or(u64::MAX);
        while self.committed.front().is_some_and(|(commit, _)| *commit <= oldest) {
            let Some((_, place)) = self.committed.pop_front() else { return };
            let Some(chain) = self.chain_mut(&place) else { continue };
            chain.retain(|version| version.committed.is_none_or(|commit| commit > oldest));
            if chain.is_empty() {
                self.remove_chain(&place);
            }
        }
    }

    /// What a reader sees at a place where `now` stands.
    pub(super) fn visible(
        &self,
        reader: Reader,
        place: (ObjectId, IndexId, &Key),
        now: Option<Stored>,
    ) -> Option<Stored> {
        let (table, index, key) = place;
        let chain = self.chains.get(&(table, index)).and_then(|chains| chains.get(key));
        let mut seen = now;
        for version in chain.into_iter().flatten().rev() {
            let is_seen = version.committed.is_some_and(|commit| commit <= reader.snapshot);
            if version.writer == reader.transaction || is_seen {
                break;
            }
            seen.clone_from(&version.before);
        }
        seen
    }

    /// The next key of an index within bounds that has versions.
    pub(super) fn next_key(
        &self,
        place: (ObjectId, IndexId),
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> Option<Key> {
        let mut range = self.chains.get(&place)?.range::<[u8], _>(bounds);
        let next = match direction {
            Direction::Forward => range.next(),
            Direction::Backward => range.next_back(),
        };
        next.map(|(key, _)| key.clone())
    }

    /// Whether somebody else has changed the place and committed after the snapshot.
    pub(super) fn has_changed_since(&self, reader: Reader, (table, index, key): (ObjectId, IndexId, &Key)) -> bool {
        let chain = self.chains.get(&(table, index)).and_then(|chains| chains.get(key));
        chain.into_iter().flatten().any(|version| {
            version.writer != reader.transaction && version.committed.is_some_and(|commit| commit > reader.snapshot)
        })
    }

    #[cfg(test)]
    pub(super) fn version_count(&self) -> usize {
        self.chains.values().flat_map(BTreeMap::values).map(Vec::len).sum()
    }
}

/// Who reads, and as of when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    pub(super) transaction: u64,
    pub(super) snapshot: u64,
}

/// What readers see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadVersion {
    /// The row as it is, under locks or (NOLOCK) not.
    Current,
    /// As committed when the statement began: READ COMMITTED under READ_COMMITTED_SNAPSHOT.
    Statement,
    /// As committed when the transaction began: SNAPSHOT.
    Transaction,
}
