//! The documentation cannot rot: every chapter is in the book, every link leads somewhere, and every snippet is
//! compiled, run or read, or a comment above it says why it cannot be.
//!
//! | snippet | what holds it |
//! |---|---|
//! | Rust | stands, line for line, in a test (`tests/guide/` has a file for each chapter), an example, or a doc comment |
//! | T-SQL | is run here, on the dev server |
//! | TOML | is read here: as settings, a mapping, or part of a Cargo.toml |
//! | shell | `cli/tests/readme.rs` runs it; it is marked with that name |

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use readpast::Config;
use readpast::admin::QueueOptions;
use readpast_adopt::Mapping;
use readpast_devserver::DevServer;

use crate::support::Fixture;

/// Marks what `cli/tests/readme.rs` runs.
const RUN_BY_THE_PROGRAM: &str = "<!-- cli/tests/readme.rs runs this -->";

/// Marks what cannot be run, and says why.
const NOT_RUN: &str = "<!-- not run: ";

/// Languages without anything to run.
const SHOWN: [&str; 2] = ["text", "json"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of the repository with this extension, by their names from its root, with slashes.
fn files(extension: &str) -> Vec<String> {
    let built = ["target", "node_modules", ".git"];
    let wanted = |entry: &walkdir::DirEntry| !built.contains(&entry.file_name().to_str().unwrap());
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(root()).into_iter().filter_entry(wanted) {
        let path = entry.unwrap().into_path();
        if path.extension().is_some_and(|found| found == extension) {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
            files.push(name.replace('\\', "/"));
        }
    }
    files
}

/// The pages whose snippets are held to this file's rules. The dev server's README has tests of its own.
fn guide() -> Vec<String> {
    let readmes = ["README.md", "sql/README.md", "web/README.md"];
    let is_guide = |file: &String| {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        ["docs", "deploy"].contains(&folder) || readmes.contains(&file.as_str())
    };
    let guide: Vec<String> = files("md").into_iter().filter(is_guide).collect();
    assert!(guide.len() > 25, "{guide:?}");
    guide
}

struct Snippet {
    page: String,
    line: usize,
    language: String,
    text: String,
    /// The comment above it.
    mark: String,
}

impl Snippet {
    fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}

/// The fenced blocks of a page, without the indentation that they have in a list.
fn snippets(page: &str) -> Vec<Snippet> {
    let text = read(&root().join(page));
    let (mut snippets, mut open, mut above) = (Vec::new(), None::<(Snippet, usize)>, String::new());
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let Some(fence) = trimmed.strip_prefix("```") else {
            match &mut open {
                Some((snippet, indent)) => {
                    snippet.text.push_str(line.get(*indent..).unwrap_or_default());
                    snippet.text.push('\n');
                }
                None => above = trimmed.to_owned(),
            }
            continue;
        };
        match open.take() {
            Some((snippet, _)) => snippets.push(snippet),
            None => {
                let (page, language, mark) = (page.to_owned(), fence.to_owned(), std::mem::take(&mut above));
                let snippet = Snippet { page, line: number + 1, language, text: String::new(), mark };
                open = Some((snippet, line.len() - trimmed.len()));
            }
        }
    }
    assert!(open.is_none(), "{page}: a block without an end");
    snippets
}

/// The snippets of the guide in one language that are not marked as not to be run.
fn to_be_held(language: &str) -> Vec<Snippet> {
    let all = guide().into_iter().flat_map(|page| snippets(&page));
    let held: Vec<Snippet> =
        all.filter(|snippet| snippet.language == language && !snippet.mark.starts_with(NOT_RUN)).collect();
    assert!(held.len() > 1, "there are {language} snippets");
    held
}

#[test]
fn every_snippet_is_of_a_language_that_something_holds() {
    for snippet in guide().iter().flat_map(|page| snippets(page)) {
        let held = match snippet.language.as_str() {
            "rust" | "sql" | "toml" => true,
            "sh" => snippet.mark == RUN_BY_THE_PROGRAM,
            // python/tests/test_documentation.py has the same list.
            "python" => ["README.md", "docs/enqueue.md", "docs/python.md", "docs/start.md"].contains(&&*snippet.page),
            language => SHOWN.contains(&language),
        };
        // What the program says of itself.
        let generated = snippet.page == "docs/cli.md" && snippet.language.is_empty();
        let said = snippet.mark.starts_with(NOT_RUN) && snippet.mark.ends_with(" -->");
        assert!(held || generated || said, "{} is neither run nor marked `{NOT_RUN}… -->`", snippet.place());
    }
}

/// A block that is only indented has no language, so nothing would hold it.
#[test]
fn every_snippet_has_its_language() {
    for page in guide() {
        let text = read(&root().join(&page));
        let (mut fenced, mut in_list, mut empty_before) = (false, false, false);
        for (number, line) in text.lines().enumerate() {
            let trimmed = line.trim_start();
            if trimmed.starts_with("```") {
                fenced = !fenced;
            } else if !fenced && !trimmed.is_empty() {
                let indented = line.len() - trimmed.len();
                in_list = trimmed.starts_with("- ")
                    || trimmed.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok())
                    || (in_list && indented > 0);
                assert!(indented < 4 || in_list || !empty_before, "{page}:{}: fence it", number + 1);
            }
            empty_before = trimmed.is_empty();
        }
    }
}

/// A source's or a snippet's lines without indentation, without the marks of doc comments and what rustdoc hides.
fn lines_of(rust: &str) -> String {
    let mut text = String::from("\n");
    for line in rust.lines() {
        let line = line.trim();
        let line = line.strip_prefix("///").or(line.strip_prefix("//!")).unwrap_or(line).trim();
        if !line.is_empty() && line != "#" && !line.starts_with("# ") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[test]
fn rust_snippets_stand_in_what_is_compiled() {
    let folders = ["src/", "web/src/", "tests/", "examples/"];
    let is_source = |file: &String| folders.iter().any(|folder| file.starts_with(folder));
    let sources: Vec<String> =
        files("rs").into_iter().filter(is_source).map(|file| lines_of(&read(&root().join(file)))).collect();
    for snippet in to_be_held("rust") {
        let wanted = lines_of(&snippet.text);
        assert!(sources.iter().any(|source| source.contains(&wanted)), "{}: nowhere:{wanted}", snippet.place());
    }
}

#[test]
fn toml_snippets_are_read() {
    for snippet in to_be_held("toml") {
        let table: toml::Table = snippet.text.parse().unwrap_or_else(|error| panic!("{}: {error}", snippet.place()));
        let cargo = ["dependencies", "dev-dependencies", "profile"].iter().any(|key| table.contains_key(*key));
        let users = table.contains_key("user"); // cli/tests/web.rs has the page read them
        let read = match table.contains_key("claim") {
            true => Mapping::from_toml(&snippet.text).map(drop).map_err(|error| error.to_string()),
            false if cargo || users => Ok(()),
            false => Config::from_toml(&snippet.text).map(drop).map_err(|error| error.to_string()),
        };
        read.unwrap_or_else(|error| panic!("{}: {error}", snippet.place()));
    }
}

/// What the scripts of the pages find: queues, the logins that become users, and a schedule.
const BEFORE: &str = "
    EXEC readpast.create_queue @queue = N'invoices';
    EXEC readpast.create_queue @queue = N'thumbnails';
    EXEC readpast.set_schedule @queue = N'invoices', @name = N'nightly', @cron = '30 2 * * *', @time_zone = 'UTC', @text = N'';
    CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY);
    CREATE LOGIN renderer WITH PASSWORD = 'Test-1234';
    CREATE LOGIN shop WITH PASSWORD = 'Test-1234';
    CREATE LOGIN dba WITH PASSWORD = 'Test-1234';
    CREATE LOGIN dashboard WITH PASSWORD = 'Test-1234';";

/// With `READPAST_GUIDE_SQL_TO`, the scripts are also written there, a file for each page, for another parser.
#[tokio::test(flavor = "multi_thread")]
async fn t_sql_snippets_run() {
    let write_to = std::env::var_os("READPAST_GUIDE_SQL_TO").map(PathBuf::from);
    let mut by_page: Vec<(String, Vec<Snippet>)> = Vec::new();
    for snippet in to_be_held("sql") {
        match by_page.last_mut() {
            Some((page, snippets)) if *page == snippet.page => snippets.push(snippet),
            _ => by_page.push((snippet.page.clone(), vec![snippet])),
        }
    }
    for (page, snippets) in by_page {
        let server = DevServer::start().await.unwrap();
        let fixture = Fixture::on(&server, "guide", QueueOptions::default()).await;
        let mut session = fixture.session().await;
        let of_fixture = |script: &str| script.replace("readpast", fixture.schema());
        session.sql(&of_fixture(BEFORE)).await;
        let mut scripts = String::new();
        for snippet in snippets {
            // A name that the reader fills in.
            let script = snippet.text.replace("N'…'", "N'invoices'");
            if let Err(error) = session.script(&of_fixture(&script)).await {
                panic!("{}: {error}", snippet.place());
            }
            scripts.push_str(&format!("{script}GO\n"));
        }
        if let Some(folder) = &write_to {
            std::fs::write(folder.join(format!("{}.sql", page.replace('/', "-"))), scripts).unwrap();
        }
    }
}

/// Links and pictures of a page, with their lines; of code there are none.
fn links(text: &str) -> Vec<(usize, String)> {
    let (mut links, mut fenced) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // What stands between backquotes is every other piece.
        let without_code: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (begin, end) in [("](", ")"), ("src=\"", "\""), ("srcset=\"", "\""), ("href=\"", "\"")] {
            for rest in without_code.split(begin).skip(1) {
                links.push((number + 1, rest.split(end).next().unwrap().to_owned()));
            }
        }
    }
    links
}

/// The anchors of a page's headings, as forges and mdBook make them.
fn anchors(text: &str) -> HashSet<String> {
    let (mut anchors, mut fenced, mut seen) = (HashSet::new(), false, HashMap::new());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let Some((_, title)) = line.split_once("# ").filter(|(marks, _)| !fenced && marks.bytes().all(|b| b == b'#'))
        else {
            continue;
        };
        let mut anchor = String::new();
        for letter in title.trim().to_lowercase().chars() {
            match letter {
                ' ' => anchor.push('-'),
                letter if letter.is_alphanumeric() || "-_".contains(letter) => anchor.push(letter),
                _ => {}
            }
        }
        let before = seen.entry(anchor.clone()).or_insert(0);
        anchors.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    anchors
}

/// Where a link into this repository on the forge leads, from the root.
fn on_the_forge(link: &str) -> Option<String> {
    let rest = link.strip_prefix("https://github.com/readpast/readpast")?;
    if rest.starts_with('#') {
        return Some(format!("README.md{rest}"));
    }
    ["/blob/main/", "/blob/HEAD/", "/raw/HEAD/"].iter().find_map(|prefix| rest.strip_prefix(prefix)).map(str::to_owned)
}

#[test]
fn every_link_leads_somewhere() {
    let (mut looked_at, mut broken) = (0, Vec::new());
    for page in files("md") {
        let folder = Path::new(&page).parent().unwrap();
        for (line, link) in links(&read(&root().join(&page))) {
            let (from, to) = match on_the_forge(&link) {
                Some(to) => (Path::new(""), to),
                None if link.contains("://") => continue,
                None => (folder, link),
            };
            let (path, anchor) = to.split_once('#').map_or((to.as_str(), None), |(path, anchor)| (path, Some(anchor)));
            let target = if path.is_empty() { PathBuf::from(&page) } else { from.join(path) };
            looked_at += 1;
            let target = root().join(target);
            let leads = target.exists()
                && anchor.is_none_or(|anchor| target.is_file() && anchors(&read(&target)).contains(anchor));
            if !leads {
                broken.push(format!("{page}:{line}: {to}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(looked_at > 100, "{looked_at} links");
}

#[test]
fn every_page_is_a_chapter_of_the_book() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    let mut chapters: Vec<String> = links(&summary).into_iter().map(|(_, chapter)| format!("docs/{chapter}")).collect();
    chapters.sort();
    let is_page = |file: &String| file.starts_with("docs/") && file != "docs/SUMMARY.md";
    let mut pages: Vec<String> = files("md").into_iter().filter(is_page).collect();
    pages.sort();
    assert_eq!(chapters, pages);
}

/// What stands between backquotes in a page's text.
fn names(text: &str) -> Vec<(usize, String)> {
    let (mut names, mut fenced) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if !fenced {
            names.extend(line.split('`').skip(1).step_by(2).map(|name| (number + 1, name.to_owned())));
        }
    }
    names
}

/// The word at the beginning of a text.
fn word(text: &str) -> &str {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap()
}

/// Whether the text has this name, and not only as the beginning of a longer one.
fn has(text: &str, name: &str) -> bool {
    text.split(name).skip(1).any(|rest| word(rest).is_empty())
}

/// Of what the pages name in passing: procedures and tables, settings, and the library's types with their functions.
#[test]
fn what_the_pages_name_exists() {
    let scripts: String =
        files("sql").iter().filter(|file| file.starts_with("sql/")).map(|file| read(&root().join(file))).collect();
    let settings = read(&root().join("docs/configuration.md"));
    let types = read(&root().join("docs/public-api.txt"));
    let (mut looked_at, mut unknown) = (0, Vec::new());
    // (What docs/python.md names is of the Python package.)
    for page in guide().into_iter().filter(|page| page != "docs/python.md") {
        for (line, name) in names(&read(&root().join(&page))) {
            let mut known = Vec::new();
            for object in name.split("readpast.").skip(1).map(word) {
                let is_file = ["toml", "sql", "exe"].contains(&object);
                known.push(is_file || scripts.contains(&format!("[$(schema)].[{object}]")));
            }
            let sections = ["connection.", "queue.", "worker.", "metrics."];
            if sections.iter().any(|section| name.starts_with(section)) && !name.contains('(') {
                let key = name.split(' ').next().unwrap();
                known.push(settings.contains(&format!("| `{key}` |")) || key == "connection.token_source");
            }
            if let Some((of, function)) = name.split_once("::").filter(|(of, _)| of.starts_with(char::is_uppercase)) {
                // Those of other crates: the page and the dev server.
                let is_others = ["Access", "DevServer", "Options", "Ordering"].contains(&of);
                let is_there = |path: &str| has(&types, &format!("readpast::{path}::{}", word(function)));
                let rooms =
                    [String::new(), "admin::".into(), "config::".into(), "transaction::".into(), "adopt::".into()];
                known.push(
                    is_others
                        || rooms
                            .iter()
                            .any(|room| is_there(&format!("{room}{of}")) || is_there(&format!("{room}{of}<'_>"))),
                );
            }
            looked_at += known.len();
            if known.contains(&false) {
                unknown.push(format!("{page}:{line}: {name}"));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(looked_at > 150, "{looked_at} names");
}
