//! An amount of memory as people write it: `6 GiB`, `80 %` or a number of bytes.

use std::fmt;

/// An amount of memory: bytes, or a percentage of the memory that the process may use. In files and in the environment:
/// `"6 GiB"` (also KiB, MiB and TiB), `"80 %"`, or a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemorySize {
    /// A number of bytes.
    Bytes(u64),
    /// A percentage of the memory that the process may use: of its control group's limit or, without one, of the
    /// machine's memory.
    Percent(u8),
}

const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// The valid texts, for error messages.
pub(super) const ALLOWED_SIZE: &str = "a size such as \"6 GiB\", a percentage such as \"80 %\", or a number of bytes";

impl MemorySize {
    pub(super) fn parse(text: &str) -> Option<MemorySize> {
        let text = text.trim();
        let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = (text[..digits].parse::<u64>().ok()?, text[digits..].trim());
        match unit {
            "" => Some(MemorySize::Bytes(number)),
            "%" => u8::try_from(number).ok().filter(|percent| *percent <= 100).map(MemorySize::Percent),
            _ => {
                let (_, bytes) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
                number.checked_mul(bytes).map(MemorySize::Bytes)
            }
        }
    }

    /// The number of bytes, of a process that may use `usable` bytes.
    pub(crate) fn of(self, usable: u64) -> u64 {
        match self {
            MemorySize::Bytes(bytes) => bytes,
            MemorySize::Percent(percent) => (u128::from(usable) * u128::from(percent) / 100) as u64,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        matches!(self, MemorySize::Bytes(0) | MemorySize::Percent(0))
    }
}

impl From<u64> for MemorySize {
    fn from(bytes: u64) -> MemorySize {
        MemorySize::Bytes(bytes)
    }
}

/// Shows the amount as it stands in a file.
impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match self {
            MemorySize::Percent(percent) => return write!(f, "{percent} %"),
            MemorySize::Bytes(bytes) => *bytes,
        };
        match UNITS.into_iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(f, "{} {name}", bytes / unit),
            None => write!(f, "{bytes}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_they_are_written() {
        for (text, size) in [
            ("6 GiB", MemorySize::Bytes(6 << 30)),
            (" 6GiB ", MemorySize::Bytes(6 << 30)),
            ("512 KiB", MemorySize::Bytes(512 << 10)),
            ("12345", MemorySize::Bytes(12_345)),
            ("0", MemorySize::Bytes(0)),
            ("80 %", MemorySize::Percent(80)),
            ("100%", MemorySize::Percent(100)),
        ] {
            assert_eq!(MemorySize::parse(text), Some(size), "{text}");
            assert_eq!(MemorySize::parse(&size.to_string()), Some(size), "{size}");
        }
        for text in ["", "GiB", "6 GB", "6 gib", "101 %", "-1", "1.5 GiB", "99999999999 TiB", "6 GiB x"] {
            assert_eq!(MemorySize::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_percentage_is_of_the_memory_that_may_be_used() {
        assert_eq!(MemorySize::Percent(80).of(10 << 30), 8 << 30);
        assert_eq!(MemorySize::Percent(100).of(u64::MAX), u64::MAX);
        assert_eq!(MemorySize::Bytes(7).of(10 << 30), 7);
    }
}
