//! docs/cli.md has what the program says of itself: the exit codes and each command's help.

use std::fmt::Write;

use clap::CommandFactory;

use crate::arguments::Arguments;
use crate::exit::Exit;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");

/// What stands below this line is generated.
const MARK: &str = "<!-- generated: UPDATE_DOCS=1 cargo test -p readpast-cli documentation -->\n";

#[test]
fn the_documentation_is_what_the_program_says_of_itself() {
    let text = std::fs::read_to_string(PATH).unwrap();
    let (written, found) = text.split_once(MARK).expect("docs/cli.md has the mark");
    let expected = generated();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PATH, format!("{written}{MARK}{expected}")).unwrap();
        return;
    }
    assert!(found == expected, "docs/cli.md is behind; UPDATE_DOCS=1 cargo test -p readpast-cli documentation");
}

fn generated() -> String {
    let mut text = "\n## Exit codes\n\n| code | meaning |\n|---|---|\n".to_owned();
    for (exit, meaning) in Exit::ALL {
        let _ = writeln!(text, "| {} | {meaning} |", exit as u8); // a String takes everything
    }
    let options =
        clap_markdown::MarkdownOptions::new().title("Commands".to_owned()).show_footer(false).show_aliases(false);
    let commands = clap_markdown::help_markdown_custom::<Arguments>(&options);
    for line in commands.lines() {
        // One level deeper than a page of its own would have it; bold words need no heading.
        let (deeper, line) = match line.strip_prefix("###### ") {
            Some(bold) => ("", bold),
            None => (if line.starts_with('#') { "#" } else { "" }, line),
        };
        let _ = write!(text, "\n{deeper}{}", line.trim_end());
    }
    text.push('\n');
    text
}

/// Whoever reads a command's help learns which role it needs.
#[test]
fn each_command_that_needs_the_server_names_its_role() {
    fn check(command: &clap::Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        if command.has_subcommands() {
            command.get_subcommands().for_each(|command| check(command, &path));
            return;
        }
        let help = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
        let last = help.lines().last().unwrap_or_default();
        let needs_none =
            ["completions", "man", "hash-password", "health", "dev", "demo"].map(|name| format!(" readpast {name}"));
        if !needs_none.contains(&path) && !command.is_hide_set() {
            assert!(last.starts_with("Role: "), "{path}: {help}");
        }
    }
    check(&Arguments::command(), "");
}

#[test]
fn the_arguments_are_consistent() {
    Arguments::command().debug_assert();
}
