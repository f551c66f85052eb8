//! Two and more connections against each other: who waits, who skips, who gives way. Threads, and no sleeps: a test
//! goes on when the lock manager says that somebody waits.

use std::thread;
use std::time::Duration;

use super::fixture::{BY_PRIORITY, CLAIM, Jobs, PRIORITY, READ, READY, STATE, UPDATE, equal, job, jobs_schema};
use crate::storage::{Direction, Lifetime, LockMode, SeekRange};
use crate::value::Value;

#[test]
fn cancel_and_kill_end_a_wait() {
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
        let mut c = jobs.connect(53);
        let handle = c.session.handle();
        let waiter = scope.spawn(move || c.get(1, UPDATE).unwrap_err().number);
        jobs.until_waiting(1);
        jobs.database.kill(&handle);
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
