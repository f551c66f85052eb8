//! Two and more connections against each other: who waits, who skips, who gives way. Threads, and no sleeps: a test
//! goes on when the lock manager says that somebody waits.

use std::thread;
use std::time::{Duration, Instant};

use super::fixture::{
    BY_PRIORITY, CLAIM, Connection, DIRTY, Jobs, NAME, PRIORITY, READ, READY, STATE, UPDATE, equal, job, job_with,
    jobs_schema,
};
use crate::storage::{Direction, Lifetime, LockMode, LockOwner, LockPlan, LockStatus, RowLock, Scan, SeekRange};
use crate::value::Value;

fn name(text: &str) -> Value {
    Value::String(text.into())
}

#[test]
fn readpast_skips_exactly_the_locked_rows() {
    let jobs = Jobs::new(1..=6);
    let (mut a, mut b) = (jobs.connect(51), jobs.connect(52));
    let claimed = a.find(READY, &SeekRange::default(), Direction::Forward, CLAIM, 2).unwrap();
    assert_eq!(a.ids(&claimed), [1, 2]);
    a.delete(4).unwrap();
    a.insert(&job(7)).unwrap();
    assert_eq!(b.ready(CLAIM).unwrap(), [3, 5, 6]);
    // U locks do not keep readers out, X locks do.
    assert_eq!(b.ready(LockPlan { readpast: true, ..READ }).unwrap(), [1, 2, 3, 5, 6]);
    a.rollback();
    assert_eq!(b.ready(CLAIM).unwrap(), [1, 2, 3, 4, 5, 6]);
    b.rollback();
    jobs.check();
}

#[test]
fn a_reader_waits_for_a_writer_and_sees_what_it_committed() {
    let jobs = Jobs::new(1..=3);
    let mut writer = jobs.connect(51);
    writer.set(2, NAME, name("new")).unwrap();
    writer.delete(3).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| jobs.connect(52).ready(READ).unwrap());
        jobs.until_waiting(1);
        assert_eq!(jobs.connect(53).get(2, DIRTY).unwrap().unwrap()[NAME], name("new"));
        writer.commit();
        assert_eq!(reader.join().unwrap(), [1, 2]);
    });
    jobs.check();
}

#[test]
fn read_committed_keeps_no_lock_and_repeatable_read_keeps_them() {
    let jobs = Jobs::new(1..=2);
    let (mut reader, mut writer) = (jobs.connect(51), jobs.connect(52));
    reader.ready(READ).unwrap();
    assert_eq!(jobs.database.latch().locks(), []);
    reader.get(1, LockPlan { hold: true, ..READ }).unwrap();
    writer.tx().lock_timeout = Some(Duration::ZERO);
    assert_eq!(writer.set(1, STATE, Value::Int(1)).unwrap_err().number, 1222);
    assert_eq!(writer.set(2, STATE, Value::Int(1)).unwrap(), 1);
    writer.rollback();
    reader.commit();
    jobs.check();
}

#[test]
fn update_locks_conflict_with_each_other_only() {
    let jobs = Jobs::new(1..=1);
    let (mut a, mut b) = (jobs.connect(51), jobs.connect(52));
    assert!(a.get(1, UPDATE).unwrap().is_some());
    assert!(b.get(1, READ).unwrap().is_some());
    b.tx().lock_timeout = Some(Duration::ZERO);
    let error = b.get(1, UPDATE).unwrap_err();
    assert_eq!((error.number, error.severity), (1222, 16));
    assert_eq!(error.message, "Lock request time out period exceeded.");
    // A whole table that somebody updates cannot be read by TABLOCK either, and NOWAIT says so at once.
    b.tx().lock_timeout = None;
    let table_lock = LockPlan { table_mode: LockMode::Shared, row: RowLock::None, no_wait: true, ..READ };
    assert_eq!(b.ready(table_lock).unwrap_err().number, 1222);
}

#[test]
fn a_wait_ends_at_the_lock_timeout() {
    let jobs = Jobs::new(1..=1);
    let (mut a, mut b) = (jobs.connect(51), jobs.connect(52));
    a.get(1, UPDATE).unwrap();
    b.tx().lock_timeout = Some(Duration::from_millis(20));
    let begin = Instant::now();
    assert_eq!(b.get(1, UPDATE).unwrap_err().number, 1222);
    assert!(begin.elapsed() >= Duration::from_millis(20));
    assert_eq!(jobs.database.latch().waiting_count(), 0);
}

#[test]
fn cancel_and_stop_end_a_wait() {
    let jobs = Jobs::new(1..=1);
    let mut a = jobs.connect(51);
    a.get(1, UPDATE).unwrap();
    thread::scope(|scope| {
        let mut b = jobs.connect(52);
        let handle = b.session.handle();
        let waiter = scope.spawn(move || b.get(1, UPDATE).unwrap_err().number);
        jobs.until_waiting(1);
        jobs.database.cancel(&handle);
        assert_eq!(waiter.join().unwrap(), 3617);
        let waiter = scope.spawn(|| jobs.connect(53).get(1, UPDATE).unwrap_err().number);
        jobs.until_waiting(1);
        jobs.database.stop();
        assert_eq!(waiter.join().unwrap(), 596);
    });
}

#[test]
fn who_was_cancelled_does_not_go_on_with_a_lock_granted_meanwhile() {
    let jobs = Jobs::new(1..=1);
    let mut a = jobs.connect(51);
    a.get(1, UPDATE).unwrap();
    thread::scope(|scope| {
        let mut b = jobs.connect(52);
        let handle = b.session.handle();
        let waiter = scope.spawn(move || b.get(1, UPDATE).map_err(|error| error.number));
        jobs.until_waiting(1);
        let mut latch = jobs.database.latch();
        let cancelled = handle.clone();
        let database = &jobs.database;
        let cancelling = scope.spawn(move || database.cancel(&cancelled));
        while !handle.is_cancelled() {
            thread::yield_now();
        }
        // The waiter cannot look before the latch is free; by then it has the lock.
        latch.rollback(a.tx.take().expect("it changed a row"));
        assert_eq!(latch.waiting_count(), 0);
        drop(latch);
        cancelling.join().unwrap();
        assert_eq!(waiter.join().unwrap().unwrap_err(), 3617);
    });
}

#[test]
fn who_was_killed_stays_cancelled() {
    let jobs = Jobs::new(1..=1);
    let handle = jobs.connect(51).session.handle();
    jobs.database.kill(&handle);
    handle.clear_cancel();
    assert!(handle.is_cancelled(), "a request that was about to start would run for nobody");
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    let jobs = Jobs::new(1..=1);
    let mut first = jobs.connect(51);
    first.get(1, LockPlan { hold: true, ..READ }).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writer = jobs.connect(52);
            writer.set(1, NAME, name("writer was here")).unwrap();
            writer.commit();
        });
        jobs.until_waiting(1);
        // A shared lock would be compatible with the one that is held, but the writer is before it.
        let reader = scope.spawn(|| jobs.connect(53).get(1, READ).unwrap().unwrap());
        jobs.until_waiting(2);
        assert_eq!(jobs.connect(54).get(1, LockPlan { readpast: true, ..READ }).unwrap(), None);
        first.commit();
        assert_eq!(reader.join().unwrap()[NAME], name("writer was here"));
        writer.join().unwrap();
    });
    jobs.check();
}

#[test]
fn a_conversion_goes_before_those_who_hold_nothing() {
    let jobs = Jobs::new(1..=1);
    let (mut a, mut b) = (jobs.connect(51), jobs.connect(52));
    let shared = LockPlan { hold: true, ..READ };
    a.get(1, shared).unwrap();
    b.get(1, shared).unwrap();
    let exclusive = LockPlan { row: RowLock::Exclusive, ..UPDATE };
    thread::scope(|scope| {
        let newcomer = scope.spawn(|| jobs.connect(53).get(1, exclusive).unwrap().is_some());
        jobs.until_waiting(1);
        let converter = scope.spawn(move || {
            a.get(1, exclusive).unwrap();
            a
        });
        jobs.until_waiting(2);
        let locks = jobs.database.latch().locks();
        assert!(locks.iter().any(|lock| lock.spid == 51 && lock.status == LockStatus::Converting));
        assert!(locks.iter().any(|lock| lock.spid == 53 && lock.status == LockStatus::Waiting));
        b.commit();
        let mut a = converter.join().unwrap();
        assert_eq!(jobs.database.latch().waiting_count(), 1);
        a.commit();
        assert!(newcomer.join().unwrap());
    });
}

#[test]
fn an_insert_waits_for_the_fate_of_its_duplicate() {
    let jobs = Jobs::new(1..=1);
    for (committed, expected) in [(true, Err(2627)), (false, Ok(()))] {
        let mut first = jobs.connect(51);
        first.insert(&job(2)).unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                let mut second = jobs.connect(52);
                let outcome = second.insert(&job(2)).map(|_| ()).map_err(|error| error.number);
                second.commit();
                outcome
            });
            jobs.until_waiting(1);
            if committed {
                first.commit();
            } else {
                first.rollback();
            }
            assert_eq!(second.join().unwrap(), expected);
        });
        first.delete(2).unwrap();
        first.commit();
    }
    jobs.check();
}

#[test]
fn a_changed_index_key_is_locked_where_it_was_and_where_it_is() {
    let jobs = Jobs::new(1..=3);
    let mut writer = jobs.connect(51);
    writer.set(2, PRIORITY, Value::Int(9)).unwrap();
    let mut reader = jobs.connect(52);
    reader.tx().lock_timeout = Some(Duration::ZERO);
    for priority in [2, 9] {
        let range = equal(&[Value::Int(priority)]);
        let error = reader.find(BY_PRIORITY, &range, Direction::Forward, READ, 1).unwrap_err();
        assert_eq!(error.number, 1222);
    }
    // The index by name was not touched, and the name was not changed: a covered read passes.
    writer.rollback();
    assert_eq!(reader.ready(READ).unwrap(), [1, 2, 3]);
    jobs.check();
}

#[test]
fn a_covering_scan_does_not_look_at_the_row_lock() {
    let jobs = Jobs::new([]);
    let mut writer = jobs.connect(51);
    writer.insert(&job_with(1, 1, 0, Some("a"))).unwrap();
    writer.commit();
    let read_name = |connection: &mut Connection| {
        let tx = connection.tx.as_mut().unwrap();
        tx.lock_timeout = Some(Duration::ZERO);
        let mut latch = jobs.database.latch();
        let all = SeekRange::default();
        let mut scan =
            Scan::open(&mut latch, tx, jobs.table, BY_PRIORITY, &all, Direction::Forward, READ, true).unwrap();
        scan.next(&mut latch, tx).map(|found| found.is_some()).map_err(|error| error.number)
    };
    let mut reader = jobs.connect(52);
    // The name is not in the index by priority …
    writer.set(1, NAME, name("b")).unwrap();
    assert_eq!(read_name(&mut reader), Ok(true));
    // … the state is included.
    writer.set(1, STATE, Value::Int(1)).unwrap();
    assert_eq!(read_name(&mut reader), Err(1222));
}

#[test]
fn a_row_that_moved_while_a_scan_waited_is_looked_at_again() {
    let jobs = Jobs::new(1..=3);
    let mut writer = jobs.connect(51);
    writer.set(1, STATE, Value::Int(1)).unwrap();
    thread::scope(|scope| {
        let claimer = scope.spawn(|| jobs.connect(52).ready(UPDATE).unwrap());
        jobs.until_waiting(1);
        // Behind and before the waiting scan.
        writer.insert(&job(4)).unwrap();
        writer.insert(&job(0)).unwrap();
        writer.commit();
        assert_eq!(claimer.join().unwrap(), [2, 3, 4]);
    });
}

#[test]
fn rows_that_do_not_qualify_are_given_back() {
    let jobs = Jobs::new(1..=2);
    let (mut a, mut b) = (jobs.connect(51), jobs.connect(52));
    {
        let tx = a.tx.as_mut().unwrap();
        let mut latch = jobs.database.latch();
        let all = SeekRange::default();
        let mut scan = Scan::open(&mut latch, tx, jobs.table, READY, &all, Direction::Forward, UPDATE, false).unwrap();
        scan.next(&mut latch, tx).unwrap().unwrap();
        scan.release_last(&mut latch, tx);
        scan.next(&mut latch, tx).unwrap().unwrap();
    }
    assert_eq!(b.ready(CLAIM).unwrap(), [1]);
    a.commit();
    b.commit();
    jobs.check();
}

#[test]
fn application_locks_follow_their_owner() {
    let jobs = Jobs::new([]);
    let (mut a, mut b) = (jobs.connect(51), jobs.connect(52));
    let now = Some(Duration::ZERO);
    let exclusive = LockMode::Exclusive;
    let lock = |connection: &mut Connection, owner, name: &str, mode| {
        let tx = connection.tx.as_mut().unwrap();
        jobs.database.latch().lock_application(tx, owner, name, mode, now).map_err(|error| error.number)
    };
    assert_eq!(lock(&mut a, LockOwner::Transaction, "install", exclusive), Ok(true));
    assert_eq!(lock(&mut a, LockOwner::Session, "install", LockMode::Shared), Ok(true));
    assert_eq!(lock(&mut b, LockOwner::Transaction, "install", LockMode::Shared), Err(1222));
    // Names are compared byte by byte.
    assert_eq!(lock(&mut b, LockOwner::Transaction, "Install", exclusive), Ok(true));
    assert_eq!(jobs.database.latch().locks()[0].name.as_deref().map(str::to_lowercase), Some("install".to_string()));
    a.commit();
    assert_eq!(lock(&mut b, LockOwner::Transaction, "install", LockMode::Shared), Ok(true));
    assert_eq!(lock(&mut b, LockOwner::Transaction, "install", exclusive), Err(1222));
    {
        let mut latch = jobs.database.latch();
        let tx = a.tx.as_ref().unwrap();
        assert_eq!(latch.application_lock_mode(tx, LockOwner::Session, "install"), Some(LockMode::Shared));
        assert!(latch.unlock_application(tx, LockOwner::Session, "install"));
        assert!(!latch.unlock_application(tx, LockOwner::Session, "install"));
    }
    assert_eq!(lock(&mut b, LockOwner::Transaction, "install", exclusive), Ok(true));
    b.rollback();
    jobs.check();
}

#[test]
fn nobody_sees_a_table_that_is_being_made_or_dropped() {
    let jobs = Jobs::new(1..=1);
    let mut a = jobs.connect(51);
    jobs.database.latch().drop_table(a.tx.as_mut().unwrap(), jobs.table).unwrap();
    thread::scope(|scope| {
        let open = || {
            let mut b = jobs.connect(52);
            let found = jobs
                .database
                .latch()
                .open_table(b.tx.as_mut().unwrap(), "DBO", "Jobs", LockMode::IntentShared)
                .unwrap();
            b.commit();
            found
        };
        let waiter = scope.spawn(open);
        jobs.until_waiting(1);
        a.rollback();
        assert_eq!(waiter.join().unwrap(), Some(jobs.table));
        jobs.database.latch().drop_table(a.tx.as_mut().unwrap(), jobs.table).unwrap();
        let replaced = jobs.database.latch().create_table(a.tx(), jobs_schema(Lifetime::Permanent)).unwrap();
        let waiter = scope.spawn(open);
        jobs.until_waiting(1);
        a.commit();
        assert_eq!(waiter.join().unwrap(), Some(replaced));
    });
}

#[test]
fn eight_claimers_take_every_job_once() {
    const JOBS: i32 = 2_000;
    let jobs = Jobs::new(1..=JOBS);
    let mut taken: Vec<i32> = thread::scope(|scope| {
        let claimers: Vec<_> = (0..8)
            .map(|number| {
                let jobs = &jobs;
                scope.spawn(move || {
                    let mut connection = jobs.connect(60 + number);
                    let mut mine = Vec::new();
                    loop {
                        let found =
                            connection.find(READY, &SeekRange::default(), Direction::Forward, CLAIM, 25).unwrap();
                        let ids = connection.ids(&found);
                        for id in &ids {
                            connection.set(*id, STATE, Value::Int(1)).unwrap();
                        }
                        connection.commit();
                        if ids.is_empty()
                            && jobs.database.latch().table(jobs.table).unwrap().index_entry_count(READY) == Some(0)
                        {
                            return mine;
                        }
                        mine.extend(ids);
                    }
                })
            })
            .collect();
        claimers.into_iter().flat_map(|claimer| claimer.join().unwrap()).collect()
    });
    taken.sort_unstable();
    assert_eq!(taken, (1..=JOBS).collect::<Vec<_>>());
    jobs.check();
}
