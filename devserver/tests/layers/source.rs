//! Reads source and finds what breaks its layers: a folder imports only what is below it, circles stay small, and so do
//! files.
//!
//! What counts are the `use` lines and the paths in the code of every file that is no test. A name that a `mod.rs`
//! re-exports counts as an import of the file that the re-export names. Calls of methods are no imports.
//!
//! When it fails it says which line of which file names what, and what to do about it.

#[path = "mention.rs"]
mod mention;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mention::{Mention, Words, mentions, not_contents};

/// What a crate's source keeps to.
pub struct Rules {
    pub crate_name: &'static str,
    /// From the top: a file imports from its own layer and from those behind it. It belongs to the longest of these
    /// that its path begins with.
    pub layers: &'static [&'static str],
    pub largest_circle: usize,
    pub most_lines: usize,
    /// Each `mod.rs` is a face: it defines nothing, and hands out names but no module that is a single file. So others
    /// take a room's names from its face, or do not compile.
    pub has_faces: bool,
    /// What is still open, as the failure message names it. An entry that is no longer needed fails the test too.
    pub allowed: &'static [&'static str],
}

struct File {
    path: String,
    lines: usize,
    not_contents: Vec<(usize, Option<String>)>,
    mentions: Vec<Mention>,
}

/// The files by their modules' paths.
pub struct Source {
    rules: &'static Rules,
    files: BTreeMap<Words, File>,
}

/// One file needs what another defines.
pub struct Arrow<'a> {
    pub from: &'a str,
    line: usize,
    pub to: &'a str,
    name: String,
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|folder| folder == "tests") || name.ends_with("tests.rs") || name == "fixture.rs"
}

impl Source {
    pub fn new<'a>(rules: &'static Rules, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Source {
        let module = |path: &str| -> Words {
            let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
            path.split('/').filter(|name| *name != "lib").map(str::to_string).collect()
        };
        let file = |path: &str, text: &str| {
            let mentions = if is_test(path) { Vec::new() } else { mentions(text) };
            let not_contents = if path.ends_with("/mod.rs") { not_contents(text) } else { Vec::new() };
            File { path: path.to_string(), lines: text.lines().count(), not_contents, mentions }
        };
        let files = files.into_iter().map(|(path, text)| (module(path), file(path, text))).collect();
        Source { rules, files }
    }

    /// The whole path that one in a module stands for; `None` if it leads out of the crate or stays in the file.
    fn whole_path(&self, module: &[String], path: &[String]) -> Option<Words> {
        let ups = path.iter().take_while(|name| *name == "super").count();
        let (start, rest) = match path[0].as_str() {
            first if first == "crate" || first == self.rules.crate_name => (&[][..], &path[1..]),
            "self" => (module, &path[1..]),
            "super" => (&module[..module.len().checked_sub(ups)?], &path[ups..]),
            _ if self.files.contains_key(&[module, &path[..1]].concat()) => (module, path),
            first => {
                let imports = &self.files[module].mentions;
                let is_it = |import: &&Mention| import.name.as_deref() == Some(first) && import.path[0] != first;
                let import = imports.iter().find(is_it)?;
                return Some([&self.whole_path(module, &import.path)?, &path[1..]].concat());
            }
        };
        Some([start, rest].concat())
    }

    /// The file that defines what a whole path names; `None` for a module.
    fn definition(&self, path: &[String]) -> Option<&File> {
        let modules = (0..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]))?;
        let (module, item) = (&path[..modules], path.get(modules)?);
        let file = &self.files[module];
        let export = file.mentions.iter().find(|mention| mention.is_public && mention.name.as_ref() == Some(item));
        let elsewhere = export.and_then(|export| self.whole_path(module, &export.path));
        let elsewhere = elsewhere.and_then(|whole| self.definition(&[&whole, &path[modules + 1..]].concat()));
        Some(elsewhere.unwrap_or(file))
    }

    pub fn arrows(&self) -> Vec<Arrow<'_>> {
        let mut arrows = Vec::new();
        for (module, file) in &self.files {
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

    fn check_faces(&self, faults: &mut BTreeMap<String, String>) {
        for (module, File { path, not_contents, .. }) in &self.files {
            for (line, opened) in not_contents {
                match opened {
                    None => {
                        let advice = format!("line {line} defines something: move it to a file of its own name");
                        faults.insert(format!("face: {path}"), advice);
                    }
                    Some(name) => {
                        let opened = &self.files.get(&[&module[..], std::slice::from_ref(name)].concat());
                        if opened.is_some_and(|file| !file.path.ends_with("/mod.rs")) {
                            let advice = format!("line {line}: keep the module private and `use` its names here");
                            faults.insert(format!("opened: {path} {name}"), advice);
                        }
                    }
                }
            }
        }
    }

    /// What is wrong, each with what is to be said of it.
    pub fn faults(&self) -> BTreeMap<String, String> {
        let mut faults = BTreeMap::new();
        let arrows = self.arrows();
        let layer = |path: &str| {
            let layers = self.rules.layers.iter().enumerate().filter(|(_, layer)| path.starts_with(**layer));
            layers.max_by_key(|(_, layer)| layer.len()).map(|(position, _)| position)
        };
        for File { path, lines, .. } in self.files.values() {
            if layer(path).is_none() {
                faults.insert(format!("no layer: {path}"), "give it a place among the layers".into());
            }
            if *lines > self.rules.most_lines {
                faults.insert(format!("long: {path}"), format!("{lines} lines: split it by subject"));
            }
        }
        if self.rules.has_faces {
            self.check_faces(&mut faults);
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
            if circle.len() > self.rules.largest_circle {
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

/// Checks the folder `src` beside a crate's manifest.
pub fn check(rules: &'static Rules, manifest_dir: &str) {
    let (root, mut files) = (Path::new(manifest_dir).join("src"), Vec::new());
    read(&root, &root, &mut files);
    let source = Source::new(rules, files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    let mut report = String::new();
    let faults = source.faults();
    for (fault, text) in faults.iter().filter(|(fault, _)| !rules.allowed.contains(&fault.as_str())) {
        report += &format!("{fault}\n    {text}\n");
    }
    for allowed in rules.allowed.iter().filter(|allowed| !faults.contains_key(**allowed)) {
        report += &format!("{allowed}\n    is no longer so: take it out of `allowed`\n");
    }
    assert!(report.is_empty(), "\n{report}");
}
