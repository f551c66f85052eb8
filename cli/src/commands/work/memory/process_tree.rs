//! The processes that a program has started, and their resident memory.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use rustix::param::page_size;

/// A process, as far as `/proc/<id>/stat` tells (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    pub id: i32,
    pub parent: i32,
    pub group: i32,
    /// With the id, this identifies a process: ids are used again.
    pub started_at: u64,
    /// Resident memory in bytes.
    pub resident: u64,
}

impl Running {
    fn of(stat: &str) -> Option<Running> {
        // `pid (name) state ppid pgrp …`; a name may have parentheses and spaces.
        let (start, rest) = stat.rsplit_once(')')?;
        let id = start.split(' ').next()?.parse().ok()?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok(); // fields are counted from 1
        Some(Running {
            id,
            parent: number(4)? as i32,
            group: number(5)? as i32,
            started_at: number(22)?,
            resident: number(24)? * page_size() as u64,
        })
    }

    /// All processes of the machine, as far as they are visible.
    pub fn all() -> Vec<Running> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
        processes.filter_map(|entry| Running::of(&fs::read_to_string(entry.path().join("stat")).ok()?)).collect()
    }
}

/// The processes of a tree: those of a process group, those that were known to be of it, and all their descendants.
pub fn tree(all: &[Running], group: i32, known: &HashSet<(i32, u64)>) -> Vec<Running> {
    let is_root = |one: &&Running| one.group == group || known.contains(&(one.id, one.started_at));
    let mut found: Vec<Running> = all.iter().filter(is_root).copied().collect();
    let mut ids: HashSet<i32> = found.iter().map(|one| one.id).collect();
    loop {
        let children = all.iter().filter(|one| ids.contains(&one.parent) && !ids.contains(&one.id));
        let children: Vec<Running> = children.copied().collect();
        if children.is_empty() {
            return found;
        }
        ids.extend(children.iter().map(|one| one.id));
        found.extend(children);
    }
}

/// The resident memory of a process and its descendants in bytes; 0 if it has exited. Reads only their files, unlike
/// [`Running::all`].
pub fn resident(process: i32) -> u64 {
    let directory = Path::new("/proc").join(process.to_string());
    let stat = fs::read_to_string(directory.join("stat")).unwrap_or_default();
    let own = Running::of(&stat).map_or(0, |process| process.resident);
    let threads = fs::read_dir(directory.join("task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let of_children =
        |children: String| children.split_whitespace().filter_map(|id| id.parse().ok()).map(resident).sum();
    own + children.map::<u64, _>(of_children).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_line_of_stat_is_read() {
        let stat =
            "42 (a ) b) S 7 40 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1000000 250 18446744073709551615 1";
        let read = Running::of(stat).unwrap();
        let resident = 250 * page_size() as u64;
        assert_eq!(read, Running { id: 42, parent: 7, group: 40, started_at: 12_345, resident });
        assert_eq!(Running::of("42 (a"), None);
    }

    #[test]
    fn a_tree_has_its_group_its_descendants_and_those_that_were_in_it() {
        let process = |id, parent, group| Running { id, parent, group, started_at: id as u64, resident: 1 };
        let all = [
            process(20, 19, 20), // a descendant in a group of its own
            process(10, 1, 10),  // the program
            process(11, 1, 10),  // in its group, and its parent has ended
            process(19, 11, 10),
            process(30, 1, 30), // a daemon, which was once a descendant
            process(31, 1, 31), // has the id of one
            process(40, 1, 40),
        ];
        let known = HashSet::from([(30, 30), (31, 7)]);
        let mut ids: Vec<i32> = tree(&all, 10, &known).iter().map(|one| one.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [10, 11, 19, 20, 30]);
    }

    #[test]
    fn the_resident_memory_is_that_of_a_process_and_its_children() {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "cat; exit"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap(); // its child runs
        let stat = fs::read_to_string(format!("/proc/{}/stat", shell.id())).unwrap();
        let own = Running::of(&stat).unwrap().resident;
        assert!(own > 0 && resident(shell.id() as i32) > own && resident(std::process::id() as i32) > own);
        drop(shell.stdin.take()); // which ends its child, and then itself
        shell.wait().unwrap();
        assert_eq!(resident(shell.id() as i32), 0);
    }
}
