//! The library's source stays in layers: a room imports only from the rooms below it.

#[path = "../devserver/tests/layers/source.rs"]
mod source;

use source::Rules;

const RULES: Rules = Rules {
    crate_name: "readpast",
    layers: &[
        "lib.rs",
        "worker/",
        "worker/claim/",
        "worker/duties/",
        "worker/report/",
        "worker/run/",
        "worker/finish/",
        "worker/lease/",
        "worker/state/",
        "admin/",
        "transaction.rs",
        "queue/",
        "procedures/",
        "connection/",
        "handler/",
        "metrics/",
        "config/",
        "login/",
        "job/",
        "error/",
        "id.rs",
        "text.rs",
        "time/",
        "log_capture.rs",
        "sync_primitives.rs",
    ],
    largest_circle: 2,
    most_lines: 520,
    has_faces: true,
    // The path by which readpast-adopt reaches what is hidden for it.
    allowed: &["opened: admin/mod.rs adopt_seam"],
};

#[test]
fn the_source_is_in_layers() {
    source::check(&RULES, env!("CARGO_MANIFEST_DIR"));
}
