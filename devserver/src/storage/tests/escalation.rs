//! Many key locks become one on the table.

use std::time::Duration;

use super::fixture::{CLAIM, Jobs, READY, STATE, UPDATE};
use crate::storage::{Direction, LockEscalation, LockMode, LockPlan, SeekRange};
use crate::value::Value;

#[test]
fn five_thousand_locks_become_one_unless_the_table_forbids_it() {
    let jobs = Jobs::new(1..=5_100);
    for (escalation, others) in [(LockEscalation::Disable, 100), (LockEscalation::Table, 0)] {
        let (mut a, mut b) = (jobs.connect(51), jobs.connect(52));
        jobs.database.latch().alter_schema(a.tx(), jobs.table, |schema| schema.lock_escalation = escalation).unwrap();
        a.commit();
        a.find(READY, &SeekRange::default(), Direction::Forward, CLAIM, 5_000).unwrap();
        b.tx().lock_timeout = Some(Duration::ZERO);
        match b.ready(CLAIM) {
            Ok(ids) => assert_eq!(ids.len(), others),
            Err(error) => {
                assert_eq!((error.number, escalation), (1222, LockEscalation::Table));
                let locks = jobs.database.latch().locks();
                assert_eq!(locks.len(), 1);
                assert_eq!(locks[0].mode, LockMode::Exclusive);
            }
        }
        a.set(1, STATE, Value::Int(1)).unwrap();
        a.rollback();
        b.rollback();
    }
    jobs.check();
}

#[test]
fn escalation_that_others_stand_against_is_not_waited_for() {
    let jobs = Jobs::new(1..=5_100);
    let (mut a, mut b) = (jobs.connect(51), jobs.connect(52));
    b.get(5_100, UPDATE).unwrap();
    a.find(READY, &SeekRange::default(), Direction::Forward, CLAIM, 5_050).unwrap();
    assert_eq!(b.ready(LockPlan { readpast: true, ..UPDATE }).unwrap().len(), 50);
    a.commit();
    b.commit();
    jobs.check();
}
