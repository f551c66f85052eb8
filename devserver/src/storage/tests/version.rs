//! Row versions: a snapshot never changes, and versions that nobody can read are gone.

use std::collections::BTreeMap;

use super::fixture::{BY_PRIORITY, Connection, ID, Jobs, PRIORITY, READ, READY, Random, int, job, job_with};
use crate::storage::{CLUSTERED, Direction, IndexId, LockMode, LockPlan, ReadVersion, RowLock, SeekRange};
use crate::value::Value;

const SNAPSHOT: LockPlan =
    LockPlan { table_mode: LockMode::SchemaStability, row: RowLock::None, read: ReadVersion::Transaction, ..READ };

/// Everything in the table, by an index, as the connection's snapshot has it: priorities by id.
fn contents(connection: &mut Connection, index: IndexId, direction: Direction) -> BTreeMap<i32, i32> {
    let database = std::sync::Arc::clone(&connection.database);
    database.latch().use_data(connection.tx(), true, "test").unwrap();
    let found = connection.find(index, &SeekRange::default(), direction, SNAPSHOT, usize::MAX).unwrap();
    let schema = connection.schema();
    found.iter().map(|found| (int(&found.row.get(&schema, ID)), int(&found.row.get(&schema, PRIORITY)))).collect()
}

/// Snapshots are taken at random moments of a random history, and read again and again by every index.
#[test]
fn a_snapshot_never_changes() {
    for seed in 1..=6 {
        let jobs = Jobs::new((1..=20).map(|id| id * 2));
        jobs.database.latch().set_versioning(false, true);
        let mut random = Random::new(seed);
        let mut writer = jobs.connect(51);
        let mut model: BTreeMap<i32, i32> = (1..=20).map(|id| (id * 2, id * 2)).collect();
        let mut uncommitted = model.clone();
        let mut readers: Vec<(Connection, BTreeMap<i32, i32>)> = Vec::new();
        for step in 0..400 {
            let id = random.below(45);
            let priority = random.below(100);
            match random.below(4) {
                0 if !uncommitted.contains_key(&id) => {
                    writer.insert(&job_with(id, priority, 0, None)).unwrap();
                    uncommitted.insert(id, priority);
                }
                1 if writer.delete(id).unwrap() => {
                    uncommitted.remove(&id);
                }
                _ if writer.set(id, PRIORITY, Value::Int(priority)).unwrap() == 1 => {
                    uncommitted.insert(id, priority);
                }
                _ => {}
            }
            match random.below(6) {
                0 => {
                    writer.commit();
                    model.clone_from(&uncommitted);
                }
                1 => {
                    writer.rollback();
                    uncommitted.clone_from(&model);
                }
                2 => {
                    let mut reader = jobs.connect(100 + step);
                    assert_eq!(contents(&mut reader, CLUSTERED, Direction::Forward), model);
                    readers.push((reader, model.clone()));
                }
                3 if !readers.is_empty() => {
                    let gone = random.below(readers.len() as u64) as usize;
                    readers.swap_remove(gone).0.commit();
                }
                _ => {}
            }
            if !readers.is_empty() {
                let chosen = random.below(readers.len() as u64) as usize;
                let (reader, expected) = &mut readers[chosen];
                for index in [CLUSTERED, READY, BY_PRIORITY] {
                    for direction in [Direction::Forward, Direction::Backward] {
                        assert_eq!(contents(reader, index, direction), *expected, "seed {seed}, index {index}");
                    }
                }
            }
        }
        for (mut reader, _) in readers {
            reader.commit();
        }
        writer.commit();
        let mut latch = jobs.database.latch();
        assert_eq!(latch.version_count(), 0, "nobody reads the past any more");
        latch.set_versioning(false, false);
    }
}

#[test]
fn without_readers_a_commit_leaves_no_version() {
    let jobs = Jobs::new(1..=3);
    jobs.database.latch().set_versioning(true, false);
    let mut writer = jobs.connect(51);
    writer.set(1, PRIORITY, Value::Int(9)).unwrap();
    writer.delete(2).unwrap();
    assert_ne!(jobs.database.latch().version_count(), 0);
    writer.rollback();
    assert_eq!(jobs.database.latch().version_count(), 0);
    writer.insert(&job(7)).unwrap();
    writer.commit();
    assert_eq!(jobs.database.latch().version_count(), 0);
    jobs.check();
}
