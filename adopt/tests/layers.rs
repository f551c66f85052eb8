//! The crate's source stays in layers: a room imports only from the rooms below it.

#[path = "../../devserver/tests/layers/source.rs"]
mod source;

use source::Rules;

const RULES: Rules = Rules {
    crate_name: "readpast_adopt",
    layers: &[
        "lib.rs",
        "check.rs",
        "install.rs",
        "installed.rs",
        "script/",
        "plan/",
        "index_choice.rs",
        "catalog.rs",
        "mapping/",
        "expression/",
        "patches.rs",
        "names.rs",
        "error.rs",
    ],
    largest_circle: 2,
    most_lines: 520,
    has_faces: true,
    allowed: &[],
};

#[test]
fn the_source_is_in_layers() {
    source::check(&RULES, env!("CARGO_MANIFEST_DIR"));
}
