//! Tests of `new_job.rs`.

use super::*;

#[test]
fn debug_shows_how_long_a_payload_is_and_nothing_of_it() {
    let job = NewJob::text("secret").dedup_key("secret").group_key("secret").header("secret", "secret");
    let shown = format!("{job:?}");
    assert!(shown.contains("payload_bytes: 6") && !shown.contains("secret"), "{shown}");
}

#[test]
fn what_sql_server_would_refuse_or_cut_is_refused_before() {
    let message = |job: NewJob| job.check().unwrap_err().to_string();
    let both = NewJob::text("").delay(Duration::ZERO).due_at(SystemTime::UNIX_EPOCH);
    assert!(message(both).contains("delay and due_at are both set"));
    assert!(message(NewJob::text("").max_attempts(0)).contains("max_attempts is 0"));
    let later = SystemTime::UNIX_EPOCH + 100 * Duration::from_secs(365 * 86_400);
    for never in [Duration::ZERO, TEN_YEARS + Duration::from_secs(1)] {
        assert!(message(NewJob::text("").start_within(never)).contains("it must be 1 ms to ten years"), "{never:?}");
    }
    assert!(NewJob::text("").start_by(later).start_within(Duration::from_millis(1)).check().is_ok());
    assert!(message(NewJob::text("").max_attempts(u32::MAX)).contains("max_attempts"));
    assert!(message(NewJob::text("").delay(Duration::MAX)).contains("ten years"));
    let too_large = NewJob::bytes(vec![0; MAX_VALUE_BYTES + 1]);
    assert!(message(too_large).contains("the payload is 268435457 bytes; it must be at most 268435456 (256 MiB)"));
    assert!(NewJob::text("").dedup_key("🦀".repeat(128)).check().is_ok());
    assert!(message(NewJob::text("").dedup_key("🦀".repeat(129))).contains("258 UTF-16 units"));
    assert!(message(NewJob::text("").dedup_key("")).contains("0 UTF-16 units"));
    for key in [" ", "invoice ", " invoice"] {
        assert!(message(NewJob::text("").dedup_key(key)).contains("leading or trailing spaces"), "{key}");
    }
    for control in ["\0", "\n", "\u{1f}"] {
        let key = format!("in{control}voice");
        for (name, job) in
            [("dedup_key", NewJob::text("").dedup_key(&key)), ("group_key", NewJob::text("").group_key(&key))]
        {
            let expected = format!(
                "{name} has the control character U+{:04X}; it must have none (U+0000 to U+001F)",
                u32::from(control.chars().next().unwrap())
            );
            assert!(message(job).ends_with(&expected), "{expected}");
        }
    }
    assert!(NewJob::text("").dedup_key(" \u{7f}\u{ffff} ".trim()).check().is_ok());
    assert!(NewJob::text("").kind("resize/v2").check().is_ok());
    for kind in ["", "two words", "größe", &"x".repeat(65)] {
        assert!(message(NewJob::text("").kind(kind)).contains("kind is '"), "{kind}");
    }
    for (limit, shown) in [
        (Duration::ZERO, "0ns"),
        (Duration::from_micros(999), "999µs"),
        (Duration::from_micros(2_147_483_647_001), "2147483.647001s"),
        (Duration::MAX, "18446744073709551615.999999999s"),
    ] {
        let expected = format!("time_limit is {shown}; it must be 1 ms to 2147483647 ms (24 days)");
        assert!(message(NewJob::text("").time_limit(limit)).ends_with(&expected), "{expected}");
    }
    for limit in [1, i32::MAX as u64] {
        assert!(NewJob::text("").time_limit(Duration::from_millis(limit)).check().is_ok());
    }
}

#[test]
fn the_rest_of_a_call_knows_the_jobs_before_it_by_their_ids() {
    let enqueued = [7, 9].map(|id| Enqueued { job_id: JobId(id), duplicate: false });
    let child = NewJob::text("d").after([JobId(5)]).after_earlier([1, 2]);
    let jobs = [NewJob::text("a"), NewJob::text("b"), NewJob::text("c"), child];
    let expected = [ParentRef::Job(JobId(5)), ParentRef::Job(JobId(9)), ParentRef::Earlier(0)];
    assert_eq!(NewJob::rest(&jobs, &enqueued)[1].parents, expected);
    assert_eq!(NewJob::rest(&jobs, &[]), jobs);
}

#[test]
fn a_schedule_s_job_and_the_follow_up_of_a_batch_wait_for_nobody() {
    let child = || NewJob::text("").after([JobId(1)]);
    let expected = "it cannot wait for other jobs (after)";
    let batch = crate::job::NewBatch::new().then(child()).check().unwrap_err().to_string();
    let schedule = crate::job::Schedule::new("s", "@daily", child()).check().unwrap_err().to_string();
    for message in [batch, schedule] {
        assert!(message.contains(expected), "{message}");
    }
}
