//! An ordered map from key bytes to values: what a table and each of its indexes consist of.
//!
//! The entries stand in blocks of up to [`BLOCK`], the keys of a block one after the other in one allocation; a
//! `BTreeMap` finds the block. Compared with a `BTreeMap` of keys this halves the memory of an index entry, and a
//! search touches fewer cache lines: the map of blocks is small, and the keys of a block lie together.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::key::Key;

/// Small enough that inserting in the middle moves two kilobytes at most for usual keys, large enough that the map of
/// blocks is a small part of the whole.
const BLOCK: usize = 64;

/// An ordered map from key bytes to values.
#[derive(Debug)]
pub(super) struct Tree<V> {
    /// By a lower bound of the keys in the block, which is greater than all keys of the block before.
    blocks: BTreeMap<Key, Block<V>>,
    len: usize,
}

#[derive(Debug)]
struct Block<V> {
    /// The keys, in order and without anything between them.
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<u32>,
    values: Vec<V>,
}

impl<V> Default for Tree<V> {
    fn default() -> Self {
        Tree { blocks: BTreeMap::new(), len: 0 }
    }
}

impl<V> Tree<V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The block that holds the key if any does, and its lower bound.
    fn block_of(&self, key: &[u8]) -> Option<(&Key, &Block<V>)> {
        self.blocks.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&V> {
        let (_, block) = self.block_of(key)?;
        let position = block.search(key).ok()?;
        Some(&block.values[position])
    }

    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        let (_, block) = block_of_mut(&mut self.blocks, key)?;
        let position = block.search(key).ok()?;
        Some(&mut block.values[position])
    }

    /// Puts a value at a key, and gives the one that was there.
    pub(super) fn insert(&mut self, key: &[u8], value: V) -> Option<V> {
        let Some((_, block)) = block_of_mut(&mut self.blocks, key) else {
            // Lower than all: the empty key is a lower bound of everything.
            self.blocks.insert(Key::new(&[]), Block::of_one(key, value));
            self.len += 1;
            return None;
        };
        let position = match block.search(key) {
            Ok(position) => return Some(std::mem::replace(&mut block.values[position], value)),
            Err(position) => position,
        };
        self.len += 1;
        if block.len() < BLOCK {
            block.insert(position, key, value);
            return None;
        }
        let right = if position == BLOCK {
            // Keys mostly come in ascending order. The full block will not grow again.
            block.shrink();
            Block::of_one(key, value)
        } else {
            let mut right = block.split();
            if position <= BLOCK / 2 {
                block.insert(position, key, value);
            } else {
                right.insert(position - BLOCK / 2, key, value);
            }
            right
        };
        self.blocks.insert(Key::new(right.key(0)), right);
        None
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let (bound, block) = block_of_mut(&mut self.blocks, key)?;
        let position = block.search(key).ok()?;
        let value = block.remove(position);
        if block.len() == 0 {
            let bound = bound.clone();
            self.blocks.remove(&bound);
        }
        self.len -= 1;
        Some(value)
    }

    /// The first entry at or after the bound.
    pub(super) fn next(&self, low: Bound<&[u8]>) -> Option<(&[u8], &V)> {
        let first = match low {
            Bound::Unbounded => None,
            Bound::Included(key) | Bound::Excluded(key) => self.block_of(key),
        };
        let Some((bound, block)) = first else {
            // Before all blocks.
            return self.blocks.first_key_value()?.1.entry(0);
        };
        let position = match low {
            Bound::Included(key) => block.search(key).unwrap_or_else(|position| position),
            Bound::Excluded(key) => block.search(key).map_or_else(|position| position, |position| position + 1),
            Bound::Unbounded => 0,
        };
        block.entry(position).or_else(|| {
            let mut after = self.blocks.range::<Key, _>((Bound::Excluded(bound), Bound::Unbounded));
            after.next()?.1.entry(0)
        })
    }

    /// The last entry at or before the bound.
    pub(super) fn previous(&self, high: Bound<&[u8]>) -> Option<(&[u8], &V)> {
        let (bound, block, position) = match high {
            Bound::Unbounded => {
                let (bound, block) = self.blocks.last_key_value()?;
                (bound, block, block.len())
            }
            Bound::Included(key) => {
                let (bound, block) = self.block_of(key)?;
                (bound, block, block.search(key).map_or_else(|position| position, |position| position + 1))
            }
            Bound::Excluded(key) => {
                let (bound, block) = self.block_of(key)?;
                (bound, block, block.search(key).unwrap_or_else(|position| position))
            }
        };
        if position > 0 {
            return block.entry(position - 1);
        }
        let (_, before) = self.blocks.range::<Key, _>((Bound::Unbounded, Bound::Excluded(bound))).next_back()?;
        before.entry(before.len() - 1)
    }

    /// All entries in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.blocks.values().flat_map(|block| (0..block.len()).filter_map(|position| block.entry(position)))
    }
}

fn block_of_mut<'map, V>(
    blocks: &'map mut BTreeMap<Key, Block<V>>,
    key: &[u8],
) -> Option<(&'map Key, &'map mut Block<V>)> {
    blocks.range_mut::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
}

impl<V> Block<V> {
    fn of_one(key: &[u8], value: V) -> Self {
        Block { bytes: key.to_vec(), ends: vec![key.len() as u32], values: vec![value] }
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    fn start(&self, position: usize) -> usize {
        if position == 0 { 0 } else { self.ends[position - 1] as usize }
    }

    fn key(&self, position: usize) -> &[u8] {
        &self.bytes[self.start(position)..self.ends[position] as usize]
    }

    fn entry(&self, position: usize) -> Option<(&[u8], &V)> {
        let value = self.values.get(position)?;
        Some((self.key(position), value))
    }

    /// The key's position, or the one it would have.
    fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    fn insert(&mut self, position: usize, key: &[u8], value: V) {
        let start = self.start(position);
        self.bytes.extend_from_slice(key);
        self.bytes[start..].rotate_right(key.len());
        for end in &mut self.ends[position..] {
            *end += key.len() as u32;
        }
        self.ends.insert(position, (start + key.len()) as u32);
        self.values.insert(position, value);
    }

    fn remove(&mut self, position: usize) -> V {
        let start = self.start(position);
        let end = self.ends.remove(position);
        let length = end - start as u32;
        self.bytes.drain(start..end as usize);
        for end in &mut self.ends[position..] {
            *end -= length;
        }
        self.values.remove(position)
    }

    /// Takes the upper half away.
    fn split(&mut self) -> Block<V> {
        let start = self.start(BLOCK / 2);
        let bytes = self.bytes.split_off(start);
        let mut ends = self.ends.split_off(BLOCK / 2);
        for end in &mut ends {
            *end -= start as u32;
        }
        Block { bytes, ends, values: self.values.split_off(BLOCK / 2) }
    }

    fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.values.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Random;
    use super::*;

    /// Keys of several lengths, some of them the beginning of others.
    fn random_key(random: &mut Random) -> Vec<u8> {
        let length = random.below(4);
        (0..length).map(|_| random.below(12) as u8).collect()
    }

    #[test]
    fn it_behaves_like_a_map() {
        for seed in 1..=8 {
            let mut random = Random::new(seed);
            let (mut tree, mut model) = (Tree::default(), BTreeMap::new());
            for step in 0..6_000 {
                let key = random_key(&mut random);
                // Grows first and shrinks later, so that blocks are split and emptied.
                if random.below(10) < if step < 3_000 { 7 } else { 3 } {
                    assert_eq!(tree.insert(&key, step), model.insert(key.clone(), step));
                } else {
                    assert_eq!(tree.remove(&key), model.remove(&key));
                }
                let key = random_key(&mut random);
                assert_eq!(tree.get(&key), model.get(&key));
                assert_eq!(tree.get_mut(&key), model.get_mut(&key));
                let key = key.as_slice();
                for bound in [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded] {
                    let next = model.range::<[u8], _>((bound, Bound::Unbounded)).next();
                    assert_eq!(tree.next(bound), next.map(|(key, value)| (key.as_slice(), value)), "seed {seed}");
                    let previous = model.range::<[u8], _>((Bound::Unbounded, bound)).next_back();
                    let previous = previous.map(|(key, value)| (key.as_slice(), value));
                    assert_eq!(tree.previous(bound), previous, "seed {seed}");
                }
            }
            assert_eq!(tree.len(), model.len());
            assert!(tree.iter().eq(model.iter().map(|(key, value)| (key.as_slice(), value))));
        }
    }

    #[test]
    fn ascending_keys_fill_the_blocks() {
        let mut tree = Tree::default();
        for number in 0..10_000u32 {
            tree.insert(&number.to_be_bytes(), ());
        }
        assert_eq!(tree.blocks.len(), 10_000_usize.div_ceil(BLOCK));
    }
}
