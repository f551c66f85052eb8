//! `schedules` and `schedule`.

use readpast::Queue;
use readpast::admin::JobFilter;
use serde_json::json;

use crate::support::Fixture;

async fn payloads(queue: &Queue) -> Vec<String> {
    let page = queue.admin().list(&JobFilter::all(), None, 10).await.unwrap();
    page.jobs.iter().map(|job| job.payload_text().unwrap().into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_set_listed_paused_run_and_deleted() {
    let fixture = Fixture::new("schedules").await;
    assert_eq!(fixture.run(&["schedules"]).ok(), "there are no schedules\n");
    let set = [
        "schedule",
        "set",
        "work",
        "nightly",
        "30 2 * * MON-FRI",
        "all branches",
        "--time-zone",
        "Europe/Berlin",
        "--kind",
        "report",
        "--jitter",
        "10m",
    ];
    assert_eq!(fixture.run(&set).ok(), "nightly is set\n");
    assert_eq!(fixture.run(&set).ok(), "nightly is changed\n");
    let listed = fixture.run(&["schedules", "work", "--json"]).json().remove(0);
    let fields =
        ["queue", "name", "cron", "time_zone", "kind", "payload_text"].map(|field| listed[field].as_str().unwrap());
    assert_eq!(fields, ["work", "nightly", "30 2 * * MON-FRI", "Europe/Berlin", "report", "all branches"]);
    assert_eq!(listed["jitter_s"], json!(600.0));
    fixture.run(&["schedule", "pause", "work", "nightly"]).ok();
    let table = fixture.run(&["schedules"]).ok();
    assert!(table.contains("nightly") && table.contains("paused"), "{table}");
    fixture.run(&["schedule", "resume", "work", "nightly"]).ok();
    fixture.run(&["schedule", "run", "work", "nightly"]).ok();
    assert_eq!(payloads(&fixture.queue("work").await).await, ["all branches"]);
    fixture.run(&["schedule", "delete", "work", "nightly", "--yes"]).ok();
    for command in ["delete", "pause", "resume", "run"] {
        let message = fixture.run(&["schedule", command, "work", "nightly"]).failed(3);
        assert!(message.contains("work has no schedule 'nightly'"), "{message}");
    }
    let message = fixture.run(&["schedule", "set", "work", "x", "61 * * * *"]).failed(2);
    assert!(message.contains("61"), "{message}");
}
