//! Finds the control group of this process that accounts for its memory.

use std::fs;
use std::path::{Path, PathBuf};

/// The version of a hierarchy of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
    One,
    /// https://docs.kernel.org/admin-guide/cgroup-v2.html
    Two,
}

/// The control group of this process in the hierarchy that has the memory controller.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnGroup {
    pub version: Version,
    pub directory: PathBuf,
}

impl OwnGroup {
    /// # Errors
    ///
    /// Why there is none, in words that follow "because".
    pub fn find() -> Result<OwnGroup, String> {
        let read = |file| fs::read_to_string(file).map_err(|error| format!("{file} cannot be read: {error}"));
        OwnGroup::among(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
    }

    /// Finds it in the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
    fn among(groups: &str, mounts: &str) -> Result<OwnGroup, String> {
        let has_memory = |controllers: &str| controllers.split(',').any(|controller| controller == "memory");
        let fields = groups.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            Some((fields.next()?, fields.next()?, fields.next()?))
        });
        let of_version_1 = fields.clone().find(|(_, controllers, _)| has_memory(controllers));
        let of_version_2 =
            fields.clone().find(|(hierarchy, controllers, _)| *hierarchy == "0" && controllers.is_empty());
        let (version, path) = match (of_version_1, of_version_2) {
            (Some((_, _, path)), _) => (Version::One, path),
            (None, Some((_, _, path))) => (Version::Two, path),
            (None, None) => return Err("this kernel has no control groups for memory".to_owned()),
        };
        let mounted = mounts.lines().filter_map(Mount::of).find(|mount| match version {
            Version::One => mount.kind == "cgroup" && has_memory(mount.options),
            Version::Two => mount.kind == "cgroup2",
        });
        let mounted = mounted.ok_or("the control groups are not mounted")?;
        // In a container, a part of the hierarchy is mounted: that below `root`.
        let below = match Path::new(path).strip_prefix(mounted.root) {
            Ok(below) if !path.contains("/..") => below,
            _ => return Err("this process's control group is not visible here".to_owned()),
        };
        Ok(OwnGroup { version, directory: Path::new(mounted.point).join(below) })
    }
}

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl Mount<'_> {
    fn of(line: &str) -> Option<Mount<'_>> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let mut file_system = file_system.split(' ');
        let (kind, _source, options) = (file_system.next()?, file_system.next()?, file_system.next()?);
        Some(Mount { root, point, kind, options })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

    #[test]
    fn the_group_is_found_in_every_hierarchy() {
        let found = |groups, mounts| OwnGroup::among(groups, mounts).map(|own| (own.version, own.directory));
        let at = |version, directory: &str| Ok((version, PathBuf::from(directory)));
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
        let hybrid = found("9:cpu,cpuacct:/x\n4:memory:/a/b\n0::/c\n", HYBRID);
        assert_eq!(hybrid, at(Version::One, "/sys/fs/cgroup/memory/a/b"));
        assert_eq!(found("0::/a.slice/b\n", v2), at(Version::Two, "/sys/fs/cgroup/a.slice/b"));
        assert_eq!(found("0::/\n", v2), at(Version::Two, "/sys/fs/cgroup/"));
        // Docker without a namespace for control groups mounts the container's part.
        let part = "35 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
        assert_eq!(found("4:memory:/docker/1/x\n", part), at(Version::One, "/sys/fs/cgroup/memory/x"));
        assert_eq!(found("4:memory:/other\n", part).unwrap_err(), "this process's control group is not visible here");
        assert_eq!(found("0::/../a\n", v2).unwrap_err(), "this process's control group is not visible here");
        assert_eq!(found("0::/a\n", "").unwrap_err(), "the control groups are not mounted");
        assert_eq!(found("", v2).unwrap_err(), "this kernel has no control groups for memory");
    }
}
