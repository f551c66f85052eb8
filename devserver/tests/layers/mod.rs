//! The dev server's source stays in layers.

#[path = "source.rs"]
mod source;

use source::{Rules, Source};

const RULES: Rules = Rules {
    crate_name: "readpast_devserver",
    layers: &[
        "main.rs",
        "lib.rs",
        "server/",
        "access_token.rs",
        "kerberos.rs",
        "no_kerberos.rs",
        "session/",
        "bind/",
        "execute/",
        "plan/",
        "catalog/",
        "tds/",
        "storage/",
        "storage/locks/",
        "tsql/",
        "value/",
        "gate.rs",
        "error.rs",
    ],
    largest_circle: 3,
    most_lines: 520,
    has_faces: false,
    allowed: &[],
};

#[test]
fn the_source_is_in_layers() {
    source::check(&RULES, env!("CARGO_MANIFEST_DIR"));
}

const WITH_FACES: Rules = Rules { has_faces: true, ..RULES };

fn faults(files: &[(&str, &str)]) -> Vec<String> {
    faults_by(&RULES, files)
}

fn faults_by(rules: &'static Rules, files: &[(&str, &str)]) -> Vec<String> {
    Source::new(rules, files.iter().copied())
        .faults()
        .into_iter()
        .map(|(fault, text)| format!("{fault}; {text}"))
        .collect()
}

#[test]
fn an_import_from_above_is_found() {
    let value = "use std::fmt;\n\nfn f() -> crate::session::batch::Batch { todo!() }";
    let found = faults(&[("session/batch.rs", "use crate::value::f;"), ("value/mod.rs", value), ("lib.rs", "")]);
    assert_eq!(found.len(), 1, "{found:?}");
    let expected = "upwards: value/mod.rs -> session/batch.rs; value/mod.rs:3 names crate::session::batch::Batch: ";
    assert!(found[0].starts_with(expected), "{found:?}");
}

#[test]
fn a_circle_of_four_is_found_and_one_of_three_is_not() {
    let four = [
        ("bind/a.rs", "use super::b::B;"),
        ("bind/b.rs", "use crate::bind::c; fn f() { c::g() }"),
        ("bind/c.rs", "use super::{x::{self, y::Y}, d::D as E};"),
        ("bind/d.rs", "fn f(a: super::a::A) {}"),
        ("bind/x/mod.rs", ""),
        ("bind/x/y.rs", ""),
    ];
    let found = faults(&four);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[1].contains("circle: bind/b.rs; one of 4 files") && found[1].contains("bind/b.rs:1 names c::g"));
    let mut three = four;
    three[2].1 = "use super::a::A;";
    assert_eq!(faults(&three), [""; 0]);
}

#[test]
fn a_re_export_leads_to_the_file_that_defines_the_name() {
    let files = [
        ("bind/mod.rs", "mod a;\nmod b;\npub(crate) use a::{A, f};\npub struct Own;"),
        ("bind/a.rs", "use super::b::B;"),
        ("bind/b.rs", "use super::Own;"),
        ("plan/p.rs", "use crate::bind::{A, Own};"),
    ];
    let source = Source::new(&RULES, files);
    let ways: Vec<_> = source.arrows().iter().map(|arrow| format!("{} {}", arrow.from, arrow.to)).collect();
    let expected = ["bind/mod.rs bind/a.rs", "bind/mod.rs bind/a.rs", "bind/a.rs bind/b.rs", "bind/b.rs bind/mod.rs"];
    assert_eq!(ways[..4], expected);
    assert_eq!(ways[4..], ["plan/p.rs bind/a.rs", "plan/p.rs bind/mod.rs"]);
}

#[test]
fn tests_comments_and_strings_import_nothing() {
    let value = r##"
        // use crate::session::A;
        /* crate::session::A */
        const S: &str = "\" crate::session::A";
        const R: &str = r#"" crate::session::A"#;
        fn f<'a>(c: char) -> bool { c == '"' || c == '\'' }
        #[cfg(test)]
        use crate::session::{A};
        #[cfg(test)]
        mod tests { fn g() { crate::session::A; } }
    "##;
    let test = "use crate::session::A;";
    let files = [("value/v.rs", value), ("value/tests/t.rs", test), ("value/v_tests.rs", test), ("session/mod.rs", "")];
    assert_eq!(faults(&files), [""; 0]);
    let file_after = value.to_string() + test;
    assert_eq!(faults(&[("value/v.rs", &file_after), ("session/mod.rs", "")]).len(), 1);
}

#[test]
fn a_long_file_and_one_without_a_layer_are_found() {
    let found = faults(&[("session/tests/t.rs", &"\n".repeat(RULES.most_lines + 1)), ("other/o.rs", "")]);
    assert!(found[0].starts_with("long: session/tests/t.rs; 521 lines"), "{found:?}");
    assert!(found[1].starts_with("no layer: other/o.rs"), "{found:?}");
}

#[test]
fn a_face_that_defines_something_or_opens_a_file_is_found() {
    let face = "//! Docs.\n#![allow(x)]\n#[cfg(a(b))]\nmod a;\npub(crate) mod room;\n#[cfg(test)]\nmod tests { fn f() {} }\npub use a::{A, b};";
    let good = [("bind/mod.rs", face), ("bind/a.rs", ""), ("bind/room/mod.rs", "")];
    assert_eq!(faults_by(&WITH_FACES, &good), [""; 0]);
    let defines = face.to_string() + "\n/// Docs.\npub(crate) struct S;";
    let found = faults_by(&WITH_FACES, &[("bind/mod.rs", &defines), good[1], good[2]]);
    assert!(found.len() == 1 && found[0].starts_with("face: bind/mod.rs; line 10 defines something"), "{found:?}");
    let opened = face.replace("mod a;", "pub(super) mod a;");
    let found = faults_by(&WITH_FACES, &[("bind/mod.rs", &opened), good[1], good[2]]);
    assert!(found.len() == 1 && found[0].starts_with("opened: bind/mod.rs a; line 4: keep"), "{found:?}");
}
