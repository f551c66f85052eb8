//!  -range locks: no phantom in any range, and nothing locked beyond the next key.
//!
//! Source: "Transaction locking and row versioning guide" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md), "Key-range locking".

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::fixture::{BY_PRIORITY, Connection, Jobs, PRIORITY, READ, Random, UPDATE, job};
use crate::storage::{CLUSTERED, Direction, LockPlan, SeekRange};
use crate::value::Value;

const SERIALIZABLE: LockPlan = LockPlan { hold: true, keep_rejected: true, serializable: true, ..READ };
const SERIALIZABLE_UPDATE: LockPlan = LockPlan { keep_rejected: true, serializable: true, ..UPDATE };

fn between(low: i32, high: i32) -> SeekRange {
    SeekRange { lower: Some((Value::Int(low), true)), upper: Some((Value::Int(high), true)), ..SeekRange::default() }
}

/// The number of an insert's error, or 0.
fn try_insert(jobs: &Jobs, id: i32) -> i32 {
    let mut other = jobs.connect(90);
    other.tx().lock_timeout = Some(Duration::ZERO);
    let result = other.insert(&job(id));
    other.rollback();
    let database = std::sync::Arc::clone(&other.database);
    database.close_session(other.session);
    result.map_or_else(|error| error.number, |_| 0)
}

/// Two that look for the same absent key in order to insert it: the second waits with its look.
#[test]
fn range_update_locks_of_two_sessions_do_not_go_together() {
    let jobs = Jobs::new([10]);
    let (mut a, mut b) = (jobs.connect(51), jobs.connect(52));
    a.get(5, SERIALIZABLE_UPDATE).unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(move || {
            let found = b.get(5, SERIALIZABLE_UPDATE).unwrap().is_some();
            b.rollback();
            found
        });
        jobs.until_waiting(1);
        a.insert(&job(5)).unwrap();
        a.commit();
        assert!(second.join().unwrap(), "it finds what the first has inserted");
    });
    jobs.check();
}

/// Whoever guards a gap may insert into it, and guards both halves afterwards.
#[test]
fn a_guarded_gap_stays_guarded_when_its_owner_inserts() {
    let jobs = Jobs::new([10, 20]);
    let mut owner = jobs.connect(51);
    owner.find(CLUSTERED, &between(11, 19), Direction::Forward, SERIALIZABLE, 9).unwrap();
    owner.insert(&job(15)).unwrap();
    assert_eq!((try_insert(&jobs, 13), try_insert(&jobs, 17)), (1222, 1222));
    owner.delete(15).unwrap();
    assert_eq!((try_insert(&jobs, 13), try_insert(&jobs, 17)), (1222, 1222));
    owner.commit();
    assert_eq!((try_insert(&jobs, 13), try_insert(&jobs, 17)), (0, 0));
    jobs.check();
}

/// Counts a reader out however it ends, so that the writers end too.
struct Leaves<'a>(&'a AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whatever others do meanwhile, a range that was read is read again without a change.
#[test]
fn there_are_no_phantoms() {
    let jobs = Jobs::new((1..=20).map(|id| id * 5));
    let (attempts, readers) = (AtomicUsize::new(0), AtomicUsize::new(2));
    thread::scope(|scope| {
        for seed in 1..=3 {
            let (jobs, attempts, readers) = (&jobs, &attempts, &readers);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let mut writer = jobs.connect(60 + seed as i32);
                writer.tx().lock_timeout = Some(Duration::from_millis(1));
                while readers.load(Ordering::Relaxed) > 0 {
                    let id = random.below(100);
                    let _ = match random.below(3) {
                        0 => writer.insert(&job(id)).map(|_| ()),
                        1 => writer.delete(id).map(|_| ()),
                        _ => writer.set(id, PRIORITY, Value::Int(random.below(100))).map(|_| ()),
                    };
                    if random.below(4) == 0 {
                        writer.rollback()
                    } else {
                        writer.commit()
                    }
                    writer.tx().lock_timeout = Some(Duration::from_millis(1));
                    attempts.fetch_add(1, Ordering::Relaxed);
                }
                writer.rollback();
            });
        }
        for seed in 11..=12 {
            let (jobs, attempts, readers) = (&jobs, &attempts, &readers);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let mut reader = jobs.connect(70 + seed as i32);
                let _leaves = Leaves(readers);
                let mut repeated = 0;
                for _ in 0..80 {
                    let low = random.below(90);
                    let range = between(low, low + random.below(30));
                    let index = if random.below(2) == 0 { CLUSTERED } else { BY_PRIORITY };
                    let direction = if random.below(2) == 0 { Direction::Forward } else { Direction::Backward };
                    let read = |reader: &mut Connection| {
                        let found = reader.find(index, &range, direction, SERIALIZABLE, usize::MAX)?;
                        Ok::<_, crate::error::SqlError>(reader.ids(&found))
                    };
                    // A deadlock or a duplicate key ends the attempt, not the promise.
                    if let Ok(first) = read(&mut reader) {
                        let before = attempts.load(Ordering::Relaxed);
                        while attempts.load(Ordering::Relaxed) < before + 6 {
                            thread::yield_now();
                        }
                        if let Ok(second) = read(&mut reader) {
                            assert_eq!(first, second, "seed {seed}");
                            repeated += 1;
                        }
                    }
                    reader.rollback();
                }
                assert!(repeated > 10, "of 80 ranges {repeated} were read twice");
            });
        }
    });
    jobs.check();
}
