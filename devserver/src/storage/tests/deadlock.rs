//! Deadlocks: found when the circle closes, and by the right victim.

use std::thread;

use super::fixture::{Jobs, READ, STATE};
use crate::value::Value;

#[test]
fn of_a_deadlock_one_is_the_victim_and_the_other_goes_on() {
    let jobs = Jobs::new(1..=2);
    let mut a = jobs.connect(51);
    a.set(1, STATE, Value::Int(1)).unwrap();
    thread::scope(|scope| {
        let mut b = jobs.connect(52);
        b.set(2, STATE, Value::Int(1)).unwrap();
        // Has as much to undo as the other, so that the one who closes the circle gives way.
        let b = scope.spawn(move || {
            b.set(1, STATE, Value::Int(2)).unwrap();
            b.commit();
        });
        jobs.until_waiting(1);
        let error = a.set(2, STATE, Value::Int(2)).unwrap_err();
        assert_eq!((error.number, error.severity), (1205, 13));
        assert_eq!(
            error.message,
            "Transaction (Process ID 51) was deadlocked on lock resources with another process and has been chosen as \
             the deadlock victim. Rerun the transaction."
        );
        a.rollback();
        b.join().unwrap();
    });
    assert_eq!(jobs.connect(53).get(1, READ).unwrap().unwrap()[STATE], Value::Int(2));
    jobs.check();
}

#[test]
fn deadlock_priority_comes_before_the_size_of_the_rollback() {
    let jobs = Jobs::new(1..=9);
    let mut a = jobs.connect(51);
    a.set(1, STATE, Value::Int(1)).unwrap();
    thread::scope(|scope| {
        let mut b = jobs.connect(52);
        for id in 2..=9 {
            b.set(id, STATE, Value::Int(1)).unwrap();
        }
        b.tx().deadlock_priority = -5;
        let b = scope.spawn(move || {
            let error = b.set(1, STATE, Value::Int(2)).unwrap_err();
            b.rollback();
            error.number
        });
        jobs.until_waiting(1);
        assert_eq!(a.set(2, STATE, Value::Int(2)).unwrap(), 1);
        assert_eq!(b.join().unwrap(), 1205);
    });
    a.commit();
    jobs.check();
}

#[test]
fn a_deadlock_of_three_is_found() {
    let jobs = Jobs::new(1..=3);
    let mut last = jobs.connect(53);
    last.set(3, STATE, Value::Int(1)).unwrap();
    thread::scope(|scope| {
        let others: Vec<_> = [(51, 1, 3), (52, 2, 1)]
            .into_iter()
            .map(|(spid, own, wanted)| {
                let mut connection = jobs.connect(spid);
                connection.set(own, STATE, Value::Int(1)).unwrap();
                let waiter = scope.spawn(move || {
                    let outcome = connection.set(wanted, STATE, Value::Int(2));
                    connection.commit();
                    outcome.map_err(|error| error.number)
                });
                jobs.until_waiting(spid as usize - 50);
                waiter
            })
            .collect();
        assert_eq!(last.set(2, STATE, Value::Int(2)).unwrap_err().number, 1205);
        last.rollback();
        for other in others {
            assert_eq!(other.join().unwrap(), Ok(1));
        }
    });
    jobs.check();
}
