//! How much memory is free.

use std::fs;
use std::path::Path;

use super::own_group::{OwnGroup, Version};

/// The memory in bytes that this machine and the control groups of this process have free.
pub fn free_memory() -> u64 {
    let of_machine = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of_machine = number_after(&of_machine, "MemAvailable:").map_or(0, |kib| kib << 10);
    let own = OwnGroup::find().ok();
    let of_groups = own.iter().flat_map(|own| own.directory.ancestors().map_while(|group| free_in(group, own.version)));
    of_groups.fold(of_machine, u64::min)
}

/// The free memory of a group; `None` above the topmost one. A group without a limit has any amount.
fn free_in(group: &Path, version: Version) -> Option<u64> {
    let (limit, usage, cache) = match version {
        Version::One => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        Version::Two => ("memory.max", "memory.current", "inactive_file"),
    };
    let read = |file| fs::read_to_string(group.join(file)).ok();
    let usage: u64 = read(usage)?.trim().parse().ok()?;
    let Ok(limit) = read(limit)?.trim().parse::<u64>() else { return Some(u64::MAX) }; // "max"
    // Cached files that were not used lately do not count: the kernel drops them at the limit.
    let dropped = number_after(&read("memory.stat")?, cache).unwrap_or_default();
    Some(limit.saturating_sub(usage.saturating_sub(dropped)))
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_decides() {
        let groups = tempfile::tempdir().unwrap();
        let write = |group: &str, limit: &str, usage: u64, cache: u64| {
            let directory = groups.path().join(group);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("memory.max"), limit).unwrap();
            fs::write(directory.join("memory.current"), usage.to_string()).unwrap();
            fs::write(directory.join("memory.stat"), format!("anon 1\ninactive_file {cache}\n")).unwrap();
            free_in(&directory, Version::Two)
        };
        assert_eq!(write("a", "max\n", 700, 0), Some(u64::MAX));
        assert_eq!(write("a/b", "1000\n", 700, 200), Some(500));
        assert_eq!(write("a/b/c", "1000\n", 2_000, 200), Some(0));
        assert_eq!(free_in(groups.path(), Version::Two), None);
        assert!(free_memory() > 0);
    }
}
