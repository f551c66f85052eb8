//! The source stays in layers: a folder imports only what is below it, circles stay small, and so do files.
//!
//! What counts are the `use` lines and the paths in the code of every file that is no test. A name that a `mod.rs`
//! re-exports counts as an import of the file that the re-export names. Calls of methods are no imports.
//!
//! When it fails it says which line of which file names what, and what to do about it.

mod mention;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mention::{Mention, Words, mentions};

/// From the top: a file imports from its own layer and from those behind it. It belongs to the longest of these that
/// its path begins with.
const LAYERS: &[&str] = &[
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
];
const LARGEST_CIRCLE: usize = 3;
const MOST_LINES: usize = 520;

/// What is still open, as the failure message names it. An entry that is no longer needed fails the test too.
const ALLOWED: &[&str] = &[];

struct File {
    path: String,
    lines: usize,
    mentions: Vec<Mention>,
}

/// The files by their modules' paths.
struct Source(BTreeMap<Words, File>);

/// One file needs what another defines.
struct Arrow<'a> {
    from: &'a str,
    line: usize,
    to: &'a str,
    name: String,
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|folder| folder == "tests") || name.ends_with("tests.rs") || name == "fixture.rs"
}

impl Source {
    fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Source {
        let module = |path: &str| -> Words {
            let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
            path.split('/').filter(|name| *name != "lib").map(str::to_string).collect()
        };
        let file = |path: &str, text: &str| {
            let mentions = if is_test(path) { Vec::new() } else { mentions(text) };
            File { path: path.to_string(), lines: text.lines().count(), mentions }
        };
        Source(files.into_iter().map(|(path, text)| (module(path), file(path, text))).collect())
    }

    /// The whole path that one in a module stands for; `None` if it leads out of the crate or stays in the file.
    fn whole_path(&self, module: &[String], path: &[String]) -> Option<Words> {
        let ups = path.iter().take_while(|name| *name == "super").count();
        let (start, rest) = match path[0].as_str() {
            "crate" | "readpast_devserver" => (&[][..], &path[1..]),
            "self" => (module, &path[1..]),
            "super" => (&module[..module.len().checked_sub(ups)?], &path[ups..]),
            _ if self.0.contains_key(&[module, &path[..1]].concat()) => (module, path),
            first => {
                let imports = &self.0[module].mentions;
                let is_it = |import: &&Mention| import.name.as_deref() == Some(first) && import.path[0] != first;
                let import = imports.iter().find(is_it)?;
                return Some([&self.whole_path(module, &import.path)?, &path[1..]].concat());
            }
        };
        Some([start, rest].concat())
    }

    /// The file that defines what a whole path names; `None` for a module.
    fn definition(&self, path: &[String]) -> Option<&File> {
        let modules = (0..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length]))?;
        let (module, item) = (&path[..modules], path.get(modules)?);
        let file = &self.0[module];
        let export = file.mentions.iter().find(|mention| mention.is_public && mention.name.as_ref() == Some(item));
        let elsewhere = export.and_then(|export| self.whole_path(module, &export.path));
        let elsewhere = elsewhere.and_then(|whole| self.definition(&[&whole, &path[modules + 1..]].concat()));
        Some(elsewhere.unwrap_or(file))
    }

    fn arrows(&self) -> Vec<Arrow<'_>> {
        let mut arrows = Vec::new();
        for (module, file) in &self.0 {
            for mention in &file.mentions {
                let whole = self.whole_path(module, &mention.path);
                let Some(to) = whole.and_then(|path| self.definition(&path)) else { continue };
                if to.path != file.path && !is_test(&to.path) {
                    let name = mention.path.join("::");
                    arrows.push(Arrow { from: &file.path, line: mention.line, to: &to.path, name });
                }
            }
        }
        arrows
    }

    /// What is wrong, each with what is to be said of it.
    fn faults(&self) -> BTreeMap<String, String> {
        let mut faults = BTreeMap::new();
        let arrows = self.arrows();
        let layer = |path: &str| {
            let layers = LAYERS.iter().enumerate().filter(|(_, layer)| path.starts_with(**layer));
            layers.max_by_key(|(_, layer)| layer.len()).map(|(position, _)| position)
        };
        for File { path, lines, .. } in self.0.values() {
            if layer(path).is_none() {
                faults.insert(format!("no layer: {path}"), "give it a place in LAYERS".into());
            }
            if *lines > MOST_LINES {
                faults.insert(format!("long: {path}"), format!("{lines} lines: split it by subject"));
            }
        }
        for Arrow { from, line, to, name } in arrows.iter().filter(|arrow| layer(arrow.from) > layer(arrow.to)) {
            let advice = "move it below both, split the file in two, or hand in what is needed";
            let text: &mut String = faults.entry(format!("upwards: {from} -> {to}")).or_default();
            *text += &format!("{from}:{line} names {name}: {advice}. ");
        }
        let mut targets: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for arrow in &arrows {
            targets.entry(arrow.from).or_default().insert(arrow.to);
        }
        let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for file in targets.keys() {
            let (seen, mut next) = (reached.entry(file).or_default(), vec![*file]);
            while let Some(at) = next.pop() {
                let ahead = targets.get(at).into_iter().flatten();
                next.extend(ahead.filter(|to| seen.insert(to)));
            }
        }
        for (file, seen) in &reached {
            let circle: BTreeSet<_> =
                seen.iter().filter(|other| reached.get(*other).is_some_and(|back| back.contains(file))).collect();
            if circle.len() > LARGEST_CIRCLE {
                let inside = arrows.iter().filter(|arrow| arrow.from == *file && circle.contains(&arrow.to));
                let ways: Vec<_> = inside.map(|arrow| format!("{file}:{} names {}", arrow.line, arrow.name)).collect();
                let advice = "move one of these to a file that imports nothing of the circle";
                let text =
                    format!("one of {} files that import each other: {advice}: {}", circle.len(), ways.join(", "));
                faults.insert(format!("circle: {file}"), text);
            }
        }
        faults
    }
}

fn read(folder: &Path, root: &Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, root, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            files.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn the_source_is_in_layers() {
    let (root, mut files) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), Vec::new());
    read(&root, &root, &mut files);
    let source = Source::new(files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    let mut report = String::new();
    let faults = source.faults();
    for (fault, text) in faults.iter().filter(|(fault, _)| !ALLOWED.contains(&fault.as_str())) {
        report += &format!("{fault}\n    {text}\n");
    }
    for allowed in ALLOWED.iter().filter(|allowed| !faults.contains_key(**allowed)) {
        report += &format!("{allowed}\n    is no longer so: take it out of ALLOWED\n");
    }
    assert!(report.is_empty(), "\n{report}");
}

fn faults(files: &[(&str, &str)]) -> Vec<String> {
    Source::new(files.iter().copied()).faults().into_iter().map(|(fault, text)| format!("{fault}; {text}")).collect()
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
    let source = Source::new(files);
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
    let found = faults(&[("session/tests/t.rs", &"\n".repeat(MOST_LINES + 1)), ("other/o.rs", "")]);
    assert!(found[0].starts_with("long: session/tests/t.rs; 521 lines"), "{found:?}");
    assert!(found[1].starts_with("no layer: other/o.rs"), "{found:?}");
}
