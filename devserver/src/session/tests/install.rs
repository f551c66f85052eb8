//! The install scripts of readpast, and each of their procedures once.

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{engine, errors, login, ok, rows, run};
use std::sync::Arc;

fn scripts() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sql");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the scripts").map(|f| f.expect("entry").path()).collect();
    files.sort();
    files.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(char::is_numeric)));
    files
        .into_iter()
        .map(|file| {
            (
                file.display().to_string(),
                std::fs::read_to_string(&file).expect("readable").replace("$(schema)", "readpast"),
            )
        })
        .collect()
}

fn install(session: &mut Session) {
    for (name, text) in scripts() {
        for batch in text.split("\nGO") {
            for token in run(session, batch) {
                assert!(!token.starts_with("ERROR"), "{name}: {token}");
            }
        }
    }
}

fn installed() -> (Arc<Engine>, Session) {
    let engine = engine();
    let mut session = login(&engine, "sa", "secret");
    install(&mut session);
    (engine, session)
}

#[test]
fn the_scripts_run_twice() {
    let (_engine, mut session) = installed();
    install(&mut session);
}

const WORKER: &str = "'11111111-1111-1111-1111-111111111111'";

/// A queue with a registered worker.
fn queue(s: &mut Session, settings: &str) {
    assert_eq!(rows(s, &format!("EXEC readpast.create_queue N'q'{settings}")), ["ROW(Int(1), Bit(true))"]);
    ok(s, &format!("EXEC readpast.register_worker N'q', {WORKER}, N'w', 60000"));
}

fn enqueue(s: &mut Session, values: &str) -> Vec<String> {
    rows(
        s,
        &format!(
            "DECLARE @j readpast.enqueue_list; INSERT @j (ordinal, payload, priority, dedup_key, delay_ms) VALUES {values};
             EXEC readpast.enqueue_batch N'q', @j"
        ),
    )
}

/// The ids and fences of a claim, sorted: OUTPUT has no order.
fn claim(s: &mut Session, max: u32) -> Vec<String> {
    let mut claimed: Vec<String> = rows(s, &format!("EXEC readpast.claim N'q', {WORKER}, {max}"))
        .into_iter()
        .map(|row| row.split(", ").take(3).collect::<Vec<_>>().join(", "))
        .collect();
    claimed.sort();
    claimed
}

fn finish(s: &mut Session, values: &str) -> Vec<String> {
    rows(
        s,
        &format!(
            "DECLARE @f readpast.finish_list; INSERT @f (job_id, fence, outcome, retry_ms, error) VALUES {values};
             EXEC readpast.finish N'q', {WORKER}, @f"
        ),
    )
}

/// ready, scheduled, claimed, done, dead, archived
fn counts(s: &mut Session) -> String {
    let row = rows(s, "EXEC readpast.stats N'q'").remove(0);
    row.split(", ").skip(6).take(6).collect::<Vec<_>>().join(" ").replace("BigInt(", "").replace(')', "")
}

#[test]
fn duplicates_are_reported_and_ids_follow_the_ordinals() {
    let (_engine, mut s) = installed();
    queue(&mut s, "");
    assert_eq!(
        enqueue(&mut s, "(1, 0x01, 0, N'a', NULL), (2, 0x02, 0, N'a', NULL), (3, 0x03, 0, NULL, NULL)"),
        [
            // Each has taken a number, the duplicate too.
            "ROW(Int(1), BigInt(1), Bit(false))",
            "ROW(Int(2), BigInt(1), Bit(true))",
            "ROW(Int(3), BigInt(3), Bit(false))"
        ]
    );
    let one = "DECLARE @id bigint, @d bit; EXEC readpast.enqueue @queue = N'q', @text = N'x', @dedup_key = N'a', @job_id = @id OUTPUT,
               @duplicate = @d OUTPUT; SELECT @id, @d";
    assert_eq!(rows(&mut s, one), ["ROW(BigInt(1), Bit(true))"]);
    assert_eq!(counts(&mut s), "2 0 0 0 0 0");
}

#[test]
fn jobs_are_claimed_by_priority_and_finished_under_their_fence() {
    let (_engine, mut s) = installed();
    queue(&mut s, "");
    enqueue(
        &mut s,
        "(1, 0x01, 5, NULL, NULL), (2, 0x02, 0, NULL, NULL), (3, 0x03, 0, NULL, NULL), (4, 0x04, 0, NULL, 60000)",
    );
    assert_eq!(claim(&mut s, 2), ["ROW(BigInt(2), Int(1), Int(1)", "ROW(BigInt(3), Int(1), Int(1)"]);
    assert_eq!(counts(&mut s), "1 1 2 0 0 0");
    let lost = finish(&mut s, "(2, 1, 0, NULL, NULL), (3, 9, 0, NULL, NULL), (77, 1, 0, NULL, NULL)");
    assert_eq!(lost, ["ROW(BigInt(3), String(\"lost\"))", "ROW(BigInt(77), String(\"lost\"))"]);
    assert!(finish(&mut s, "(3, 1, 1, 0, N'again')").is_empty());
    assert_eq!(claim(&mut s, 10), ["ROW(BigInt(1), Int(1), Int(1)", "ROW(BigInt(3), Int(2), Int(2)"]);
    assert!(finish(&mut s, "(3, 2, 2, NULL, N'dead'), (1, 1, 1, 60000, N'later')").is_empty());
    assert_eq!(counts(&mut s), "0 2 0 0 1 0");
    assert_eq!(rows(&mut s, "EXEC readpast.requeue N'q'"), ["ROW(Int(1))"]);
    assert_eq!(
        rows(&mut s, "UPDATE readpast.jobs SET due_at = '2000-01-01' WHERE state = 1; EXEC readpast.promote N'q'"),
        ["ROW(Int(2), Bit(true), Bit(false), Null)"]
    );
    assert_eq!(counts(&mut s), "3 0 0 0 0 0");
}

#[test]
fn every_order_and_policy_works() {
    for (settings, first, after) in [
        (", 'fifo', 'delete'", "BigInt(1)", "1 0 0 0 0 0"),
        (", 'lifo', 'annotate'", "BigInt(2)", "1 0 0 1 0 0"),
        (", 'any', 'archive'", "BigInt(1)", "1 0 0 0 0 1"),
        (", 'lifo', 'delete', 'at_most_once'", "BigInt(2)", "1 0 0 0 0 0"),
        (", 'fifo', 'delete', 'at_most_once'", "BigInt(1)", "1 0 0 0 0 0"),
        (", 'any', 'delete', 'at_most_once'", "BigInt(1)", "1 0 0 0 0 0"),
    ] {
        let (_engine, mut s) = installed();
        queue(&mut s, settings);
        enqueue(&mut s, "(1, 0x01, 0, NULL, NULL), (2, 0x02, 0, NULL, NULL)");
        let claimed = claim(&mut s, 1);
        assert_eq!(claimed.len(), 1, "{settings}");
        assert!(claimed[0].contains(first), "{settings}: {claimed:?}");
        if !settings.contains("at_most_once") {
            let id = first.trim_start_matches("BigInt(").trim_end_matches(')');
            assert!(finish(&mut s, &format!("({id}, 1, 0, NULL, NULL)")).is_empty(), "{settings}");
        }
        assert_eq!(counts(&mut s), after, "{settings}");
    }
}

#[test]
fn lost_workers_give_their_jobs_back() {
    let (_engine, mut s) = installed();
    queue(&mut s, "");
    enqueue(&mut s, "(1, 0x01, 0, NULL, NULL), (2, 0x02, 0, NULL, NULL), (3, 0x03, 0, NULL, NULL)");
    claim(&mut s, 3);
    let released =
        format!("DECLARE @r readpast.job_list; INSERT @r VALUES (1, 1), (2, 7); EXEC readpast.release {WORKER}, @r");
    assert_eq!(rows(&mut s, &released), ["ROW(BigInt(2))"]);
    let recovered =
        format!("DECLARE @k readpast.job_list; INSERT @k VALUES (3, 1); EXEC readpast.recover N'q', {WORKER}, @k");
    // Job 2 is claimed but unknown to the worker: it is listed with its fence, and released by it.
    assert_eq!(rows(&mut s, &recovered), ["ROW(BigInt(2), Int(1))"]);
    ok(&mut s, &format!("DECLARE @r readpast.job_list; INSERT @r VALUES (2, 1); EXEC readpast.release {WORKER}, @r"));
    assert_eq!(counts(&mut s), "2 0 1 0 0 0");
    ok(&mut s, &format!("EXEC readpast.heartbeat {WORKER}"));
    ok(&mut s, "UPDATE readpast.workers SET lease_until = '2000-01-01'");
    let reaped = rows(&mut s, "EXEC readpast.reap N'q'");
    assert_eq!((reaped.len(), reaped[0].as_str()), (2, "ROW(Int(1), Int(1), Int(0))"));
    assert!(reaped[1].ends_with(", String(\"w\"))"), "{reaped:?}");
    assert_eq!(errors(&mut s, &format!("EXEC readpast.heartbeat {WORKER}")), [58002]);
    assert_eq!(errors(&mut s, &format!("EXEC readpast.claim N'q', {WORKER}, 1")), [58002]);
    assert_eq!(counts(&mut s), "3 0 0 0 0 0");
    let successor = "EXEC readpast.register_worker N'q', '22222222-2222-2222-2222-222222222222', N'w', 60000, 1";
    assert!(rows(&mut s, successor)[0].contains("Int(5), Bit(false), Int(0), Bit(false), Int(0), Int(0))"));
    ok(&mut s, &format!("EXEC readpast.unregister_worker N'q', {WORKER}"));
}

#[test]
fn the_operators_procedures_work() {
    let (_engine, mut s) = installed();
    queue(&mut s, "");
    enqueue(&mut s, "(1, 0x01, 0, NULL, NULL), (2, 0x02, 0, NULL, 60000)");
    ok(&mut s, "EXEC readpast.pause N'q'");
    assert!(claim(&mut s, 5).is_empty());
    ok(&mut s, "EXEC readpast.resume N'q'");
    assert_eq!(claim(&mut s, 5).len(), 1);
    finish(&mut s, "(1, 1, 2, NULL, N'no good')");
    for (state, found) in [("ready", 0), ("scheduled", 1), ("claimed", 0), ("done", 0), ("dead", 1), ("archived", 0)] {
        assert_eq!(rows(&mut s, &format!("EXEC readpast.peek N'q', '{state}'")).len(), found, "{state}");
    }
    assert_eq!(rows(&mut s, "EXEC readpast.peek N'q', 'dead', @newest_first = 1, @since = '20000101'").len(), 1);
    let errors_of = rows(&mut s, "EXEC readpast.list_errors N'q'");
    assert!(errors_of.len() == 1 && errors_of[0].contains("no good"), "{errors_of:?}");
    assert!(rows(&mut s, "EXEC readpast.list_errors N'q', 'scheduled'").is_empty());
    let audit = "DECLARE @a bigint; EXEC readpast.begin_audit N'maria', 'purge', N'q', N'{}', @a OUTPUT; EXEC readpast.end_audit @a, 2, N'x'";
    ok(&mut s, audit);
    assert_eq!(rows(&mut s, "EXEC readpast.list_audit N'q'").len(), 1);
    for (state, purged) in [("ready", 0), ("scheduled", 1), ("done", 0), ("dead", 1), ("archived", 0)] {
        assert_eq!(
            rows(&mut s, &format!("EXEC readpast.purge N'q', '{state}'")),
            [format!("ROW(Int({purged}))")],
            "{state}"
        );
    }
    assert_eq!(
        rows(&mut s, "EXEC readpast.schema_info"),
        [
            "ROW(Int(1), Int(1), String(\"readpast\"), Bit(false), Bit(false), String(\"\"), Null, String(\"producer worker operator monitor autoscaler \"), String(\"16.0.1000.6\"), Int(160))"
        ]
    );
    assert_eq!(errors(&mut s, "EXEC readpast.claim N'nobody', NULL, 1"), [58001]);
    assert_eq!(errors(&mut s, "EXEC readpast.create_queue N'x', 'up'"), [58003]);
    assert_eq!(rows(&mut s, "EXEC readpast.list_workers").len(), 1);
    enqueue(&mut s, "(1, 0x01, 0, NULL, NULL), (2, 0x02, 0, NULL, 60000)");
    assert_eq!(rows(&mut s, "EXEC readpast.find_job 3"), ["ROW(String(\"q\"))"]);
    assert_eq!(rows(&mut s, "EXEC readpast.backlog N'q'"), ["ROW(Int(1))"]);
    let listed = "DECLARE @j readpast.id_list; INSERT @j VALUES (3), (4);
                  EXEC readpast.purge N'q', 'ready', @listed = 1, @jobs = @j";
    assert_eq!(rows(&mut s, listed), ["ROW(Int(1))"]);
    assert_eq!(errors(&mut s, "EXEC readpast.delete_queue N'q', 1"), [58022]);
    ok(&mut s, &format!("EXEC readpast.unregister_worker N'q', {WORKER}"));
    assert_eq!(errors(&mut s, "EXEC readpast.delete_queue N'q'"), [58022]);
    for expected in ["ROW(Int(1), Bit(false))", "ROW(Int(0), Bit(true))"] {
        assert_eq!(rows(&mut s, "EXEC readpast.delete_queue N'q', 1"), [expected]);
    }
}

#[test]
fn a_producer_may_enqueue_and_nothing_else() {
    let (engine, mut s) = installed();
    queue(&mut s, "");
    ok(&mut s, "CREATE LOGIN p WITH PASSWORD = 'p'; CREATE USER p; ALTER ROLE readpast_producer ADD MEMBER p");
    let mut producer = login(&engine, "p", "p");
    assert_eq!(enqueue(&mut producer, "(1, 0x01, 0, NULL, NULL)").len(), 1);
    assert_eq!(errors(&mut producer, &format!("EXEC readpast.claim N'q', {WORKER}, 1")), [229]);
    assert_eq!(errors(&mut producer, "SELECT * FROM readpast.jobs"), [229]);
}

#[test]
fn a_newer_schema_is_left_alone() {
    let (_engine, mut s) = installed();
    ok(&mut s, "INSERT readpast.schema_version (version, min_compatible) VALUES (3, 1)");
    let (_, first) = scripts().remove(0);
    let numbers: Vec<i32> = first.split("\nGO").flat_map(|batch| errors(&mut s, batch)).collect();
    assert_eq!(numbers, [58010]);
}
