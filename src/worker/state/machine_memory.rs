//! How much memory this process may use, and how much is free: of the machine and of the control groups in which the
//! process is, the smallest.
//!
//! Linux tells both in files. Elsewhere nothing is known.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// The memory of the machine and of this process's control groups.
pub(in crate::worker) struct MachineMemory {
    root: PathBuf,
    groups: Vec<Group>,
}

/// A control group with a limit of its memory, of version 1 or 2.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    folder: PathBuf,
    files: &'static Files,
}

/// The files of a control group.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    limit: &'static str,
    usage: &'static str,
    /// The lines of `memory.stat` with caches that the kernel frees when memory is needed, including those of groups
    /// inside. `MemAvailable` of the machine counts the same as free.
    caches: &'static [&'static str],
}

const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    caches: &["total_inactive_file", "total_active_file"],
};

const VERSION_2: Files = Files {
    limit: "memory.max",
    usage: "memory.current",
    caches: &["inactive_file", "active_file", "slab_reclaimable"],
};

impl MachineMemory {
    pub(in crate::worker) fn of_this_process() -> MachineMemory {
        MachineMemory::at(Path::new("/"))
    }

    /// The same with the system's files below `root`.
    pub(in crate::worker) fn at(root: &Path) -> MachineMemory {
        MachineMemory { root: root.to_path_buf(), groups: groups(root) }
    }

    /// How many bytes the process may use, or `None` if the system does not tell.
    pub(in crate::worker) fn usable(&self) -> Option<u64> {
        let total = self.of_machine("MemTotal")?;
        Some(self.groups.iter().filter_map(Group::limit).fold(total, u64::min))
    }

    /// How many bytes are free.
    pub(in crate::worker) fn free(&self) -> Option<u64> {
        let available = self.of_machine("MemAvailable")?;
        Some(self.groups.iter().filter_map(Group::free).fold(available, u64::min))
    }

    fn of_machine(&self, line: &str) -> Option<u64> {
        let text = read_to_string(self.root.join("proc/meminfo")).ok()?;
        let rest = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'))?;
        let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1_024)
    }
}

impl Group {
    /// The group's limit. A group without one has the text `max` or a number near 2^63, which no machine has.
    fn limit(&self) -> Option<u64> {
        self.number(self.files.limit)
    }

    fn free(&self) -> Option<u64> {
        let usage = self.number(self.files.usage)?;
        let stat = read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let lines = stat.lines().filter_map(|line| line.split_once(' '));
        let caches = lines.filter(|(name, _)| self.files.caches.contains(name));
        let cached: u64 = caches.filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok()).sum();
        Some(self.limit()?.saturating_sub(usage.saturating_sub(cached)))
    }

    fn number(&self, file: &str) -> Option<u64> {
        read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }
}

/// The control groups of this process, and those around them, that limit memory.
fn groups(root: &Path) -> Vec<Group> {
    let read = |file: &str| read_to_string(root.join(file)).unwrap_or_default();
    let mounts = read("proc/self/mountinfo");
    let mut groups = Vec::new();
    // `4:memory:/a/b` of version 1, `0::/a/b` of version 2.
    for line in read("proc/self/cgroup").lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let files = match controllers {
            "" => &VERSION_2,
            _ if controllers.split(',').any(|name| name == "memory") => &VERSION_1,
            _ => continue,
        };
        let Some((inside, mount)) = mounts.lines().find_map(|line| mount_point(line, files)) else { continue };
        // In a container, the mount may show a part of the tree only, whose root is the container's group.
        let path = path.strip_prefix(inside.trim_end_matches('/')).unwrap_or("");
        let mount = root.join(mount.trim_start_matches('/'));
        let mut folder = mount.join(path.trim_start_matches('/'));
        while folder.starts_with(&mount) {
            groups.push(Group { folder: folder.clone(), files });
            if !folder.pop() {
                break;
            }
        }
    }
    groups
}

/// The part of the tree of groups that a line of `mountinfo` mounts, and where, if it is a tree with these files.
fn mount_point<'a>(line: &'a str, files: &Files) -> Option<(&'a str, &'a str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    let is_right = match kind {
        "cgroup2" => *files == VERSION_2,
        "cgroup" => *files == VERSION_1 && options.split(',').any(|option| option == "memory"),
        _ => false,
    };
    let mut before = before.split(' ').skip(3);
    let place = (before.next()?, before.next()?);
    is_right.then_some(place)
}

#[cfg(test)]
pub(in crate::worker) mod tests {
    use std::fs::{create_dir_all, remove_dir_all, write};

    use super::*;

    /// A machine whose files a test writes, below a directory of its own.
    pub(in crate::worker) struct Machine(pub(in crate::worker) PathBuf);

    impl Machine {
        pub(in crate::worker) fn new(name: &str) -> Machine {
            let root = std::env::temp_dir().join(format!("readpast-{name}-{}", std::process::id()));
            let _ = remove_dir_all(&root);
            Machine(root)
        }

        pub(in crate::worker) fn write(&self, file: &str, text: &str) {
            let file = self.0.join(file);
            create_dir_all(file.parent().unwrap()).unwrap();
            write(file, text).unwrap();
        }

        pub(in crate::worker) fn has_memory(&self, total_kib: u64, available_kib: u64) {
            let text = format!("MemTotal: {total_kib} kB\nMemFree: 1 kB\nMemAvailable:   {available_kib} kB\n");
            self.write("proc/meminfo", &text);
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_machine_without_groups_has_its_own_memory() {
        let machine = Machine::new("plain");
        assert_eq!(MachineMemory::at(&machine.0).usable(), None, "as on a system without /proc");
        machine.has_memory(8_000, 3_000);
        let memory = MachineMemory::at(&machine.0);
        assert_eq!((memory.usable(), memory.free()), (Some(8_000 << 10), Some(3_000 << 10)));
    }

    #[test]
    fn of_nested_groups_of_version_2_the_smallest_counts() {
        let machine = Machine::new("version-2");
        machine.has_memory(8_000, 3_000);
        machine.write("proc/self/cgroup", "0::/jobs.slice/worker.service\n");
        machine.write(
            "proc/self/mountinfo",
            "22 1 0:20 / /proc rw - proc proc rw\n30 22 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        );
        let (outer, inner) = ("sys/fs/cgroup/jobs.slice", "sys/fs/cgroup/jobs.slice/worker.service");
        machine.write(&format!("{inner}/memory.max"), "max\n");
        machine.write(&format!("{inner}/memory.current"), "900000\n");
        machine.write(&format!("{outer}/memory.max"), "2000000\n");
        machine.write(&format!("{outer}/memory.current"), "1500000\n");
        machine.write(
            &format!("{outer}/memory.stat"),
            "anon 1000\nfile 350000\ninactive_file 200000\nactive_file 50000\nslab_reclaimable 50000\n",
        );
        let memory = MachineMemory::at(&machine.0);
        assert_eq!((memory.usable(), memory.free()), (Some(2_000_000), Some(800_000)));
    }

    #[test]
    fn a_container_s_group_of_version_1_is_the_root_of_its_mount() {
        let machine = Machine::new("version-1");
        machine.has_memory(8_000, 8_000);
        machine.write("proc/self/cgroup", "5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n");
        machine.write(
            "proc/self/mountinfo",
            "31 30 0:26 /docker/ab /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n32 30 0:27 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
        );
        machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4096000\n");
        machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "4000000\n");
        machine.write(
            "sys/fs/cgroup/memory/memory.stat",
            "inactive_file 1\ntotal_inactive_file 600000\ntotal_active_file 400000\n",
        );
        let memory = MachineMemory::at(&machine.0);
        assert_eq!((memory.usable(), memory.free()), (Some(4_096_000), Some(1_096_000)));
        machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!((memory.usable(), memory.free()), (Some(8_000 << 10), Some(8_000 << 10)));
    }
}
