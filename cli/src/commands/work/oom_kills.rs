//! Detects whether the OOM killer ended a program.

/// How many processes the OOM killer has killed in this control group or, if that count cannot be read, on the machine.
/// `None` if the system has no such count.
pub fn oom_kills() -> Option<u64> {
    // Both kinds of control groups: https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.events), and
    // cgroup-v1/memory.html.
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = groups.lines().filter_map(file_of).find_map(|file| count_in(&std::fs::read_to_string(file).ok()?));
    of_groups.or_else(|| count_in(&std::fs::read_to_string("/proc/vmstat").ok()?))
}

/// The counting file for a line of /proc/self/cgroup.
fn file_of(line: &str) -> Option<String> {
    let mut parts = line.splitn(3, ':');
    match (parts.next()?, parts.next()?, parts.next()?) {
        ("0", "", path) => Some(format!("/sys/fs/cgroup{path}/memory.events")),
        (_, "memory", path) => Some(format!("/sys/fs/cgroup/memory{path}/memory.oom_control")),
        _ => None,
    }
}

fn count_in(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_for_both_kinds_of_control_groups() {
        let file = |line| file_of(line).unwrap_or_default();
        assert_eq!(file("0::/work.slice/a"), "/sys/fs/cgroup/work.slice/a/memory.events");
        assert_eq!(file("9:memory:/docker/1"), "/sys/fs/cgroup/memory/docker/1/memory.oom_control");
        assert_eq!(file("4:cpu,cpuacct:/docker/1"), "");
        assert_eq!(count_in("low 0\noom 2\noom_kill 3\noom_group_kill 0\n"), Some(3));
        assert_eq!(count_in("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), Some(1));
        assert_eq!(count_in("low 0\n"), None);
    }
}
