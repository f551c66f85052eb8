//! The bytes by which an index is ordered: the columns' values as `encode_key` writes them, one after the other, so
//! that comparing bytes compares keys. A non-clustered entry ends with the key of its row, which is its locator.

use std::borrow::Borrow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Keys up to this length need no allocation; with it a `Key` is 40 bytes. A number, a uniqueidentifier and a row's key
/// fit.
const INLINE: usize = 38;

/// An encoded key, compared byte by byte.
#[derive(Clone)]
pub struct Key(Repr);

#[derive(Clone)]
enum Repr {
    Inline { length: u8, bytes: [u8; INLINE] },
    Heap(Box<[u8]>),
}

impl Key {
    pub fn new(bytes: &[u8]) -> Self {
        if bytes.len() > INLINE {
            return Key(Repr::Heap(bytes.into()));
        }
        let mut inline = [0; INLINE];
        inline[..bytes.len()].copy_from_slice(bytes);
        Key(Repr::Inline { length: bytes.len() as u8, bytes: inline })
    }

    /// The key that `put` appends to an empty list of bytes: mostly without any allocation.
    pub(super) fn encode(put: impl FnOnce(&mut Vec<u8>)) -> Self {
        thread_local! {
            static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        let mut bytes = SCRATCH.take();
        bytes.clear();
        put(&mut bytes);
        let key = Key::new(&bytes);
        SCRATCH.set(bytes);
        key
    }

    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Repr::Heap(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        for byte in self.as_bytes() {
            write!(f, "{byte:02X}")?;
        }
        Ok(())
    }
}

/// Turns `bytes` into the first key after every key that begins with it. False if there is none (nothing but 0xFF).
pub(super) fn advance_past_prefix(bytes: &mut Vec<u8>) -> bool {
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_depend_on_where_the_bytes_are_kept() {
        let short = Key::new(&[1; INLINE]);
        let long = Key::new(&[1; INLINE + 1]);
        assert!(short < long);
        assert!(Key::new(&[2]) > long);
        assert_eq!(long, Key::new(&[1; INLINE + 1]));
        assert_eq!(std::mem::size_of::<Key>(), 40);
    }

    #[test]
    fn the_end_of_a_prefix_lies_behind_all_its_keys() {
        let mut end = vec![1, 0xFF, 0xFF];
        assert!(advance_past_prefix(&mut end));
        assert_eq!(end, [2]);
        assert!(!advance_past_prefix(&mut vec![0xFF]));
    }
}
