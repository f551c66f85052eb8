//! Checks that docs/cli.md contains the exit codes and the help of each command.

use std::collections::BTreeMap;
use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use crate::arguments::Arguments;
use crate::exit::Exit;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");

/// The text below this line is generated.
const MARK: &str = "<!-- generated: UPDATE_DOCS=1 cargo test -p readpast-cli documentation -->\n";

/// The heading of the options that every command has.
const ALL_COMMANDS: &str = "Options of all commands";

#[test]
fn the_documentation_is_the_programs_help() {
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
    let mut program = Arguments::command();
    program.build();
    let (mut overview, mut commands, mut shared) = (String::new(), String::new(), BTreeMap::new());
    for command in program.get_subcommands() {
        describe(command, &mut overview, &mut commands, &mut shared);
    }
    let _ = write!(text, "\n## Commands\n\n{overview}\n## Options of several commands\n");
    for (heading, options) in shared {
        let _ = write!(text, "\n### {heading}\n\n{options}");
    }
    let _ = write!(text, "\n## Each command\n{commands}");
    text
}

/// A command's line in the overview, and its section. Options under a heading are shared: they have their own section.
fn describe(command: &Command, overview: &mut String, sections: &mut String, shared: &mut BTreeMap<String, String>) {
    if command.is_hide_set() {
        return;
    }
    if command.has_subcommands() {
        return command.get_subcommands().for_each(|command| describe(command, overview, sections, shared));
    }
    let name = command.get_bin_name().unwrap_or_default();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let short = name.trim_start_matches("readpast ");
    let _ = writeln!(overview, "- [`{short}`](#{}): {about}", name.replace(' ', "-"));
    let help = command.get_long_about().map_or(about, ToString::to_string);
    let (mut own, mut of_several) = (String::new(), Vec::new());
    for argument in command.get_arguments().filter(|argument| argument.get_help().is_some()) {
        match argument.get_help_heading().map(str::to_owned) {
            _ if ["help", "version"].contains(&argument.get_id().as_str()) => {}
            None => own.push_str(&line(argument)),
            Some(heading) => {
                let options = shared.entry(heading.clone()).or_default();
                if !options.contains(&line(argument)) {
                    options.push_str(&line(argument));
                }
                if !of_several.contains(&heading) {
                    of_several.push(heading);
                }
            }
        }
    }
    of_several.retain(|heading| heading != ALL_COMMANDS);
    for heading in of_several {
        let _ = writeln!(own, "- [{heading}](#{})", heading.to_lowercase().replace(' ', "-"));
    }
    let usage = command.clone().render_usage().to_string();
    let mut usage = usage.trim_start_matches("Usage: ").to_owned();
    if !own.contains("- `-") && !own.contains("- [") {
        usage = usage.replace(" [OPTIONS]", "");
    }
    if !own.is_empty() {
        own.insert(0, '\n');
    }
    let _ = write!(sections, "\n### `{name}`\n\n{help}\n\n`{usage}`\n{own}");
    if let Some(example) = command.get_after_help() {
        let _ = writeln!(sections, "\n{example}");
    }
}

/// An option or argument, with its values and its default.
fn line(argument: &Arg) -> String {
    let mut name = argument.to_string();
    if let Some(short) = argument.get_short() {
        name = format!("-{short}, {name}");
    }
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut line = format!("- `{name}`: {help}");
    let is_flag = !argument.get_action().takes_values();
    let values = argument.get_possible_values().into_iter().filter(|_| !is_flag).map(|value| match value.get_help() {
        Some(help) => format!("`{}` ({help})", value.get_name()),
        None => format!("`{}`", value.get_name()),
    });
    let values: Vec<String> = values.collect();
    if !values.is_empty() {
        let _ = write!(line, ": {}", values.join(", "));
    }
    if let [default] = argument.get_default_values()
        && !default.is_empty()
        && !is_flag
    {
        let _ = write!(line, " [default: {}]", default.to_string_lossy());
    }
    line + "\n"
}

#[test]
fn each_command_that_needs_the_server_names_its_role() {
    fn check(command: &Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        if command.has_subcommands() {
            command.get_subcommands().for_each(|command| check(command, &path));
            return;
        }
        let help = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
        let last = help.lines().last().unwrap_or_default();
        let needs_none = ["completions", "man", "check-program", "hash-password", "health", "dev", "demo"]
            .map(|name| format!(" readpast {name}"));
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
