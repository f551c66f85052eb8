//! An ordered map from key bytes to values: what a table and each of its indexes consist of.
//!
//! The entries stand in blocks of up to [`BLOCK`], the keys of a block one after the other in one allocation. The
//! blocks stand in a queue, in order, so that rows that come in at one end and go out at the other move nothing else.
//! Compared with a `BTreeMap` of keys this halves the memory of an index entry.
//!
//! The map remembers where its last search ended, and looks there first. Nearly all searches of a queue are neighbours:
//! a scan goes on from its last key, a batch is inserted or changed in the order of its keys, a row that was just found
//! is read. Such a search compares one or two keys, however large the map is. From there, it looks in steps that double:
//! the jobs of a list lie a few blocks apart.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Bound;

use super::key::Key;

/// Small enough that inserting in the middle moves two kilobytes at most for usual keys, large enough that the queue of
/// blocks is a small part of the whole.
const BLOCK: usize = 64;

/// The longest step from the last search to the next, in blocks, before all blocks are searched.
const FAR: usize = 16;

/// An ordered map from key bytes to values.
#[derive(Debug, Clone)]
pub(super) struct Tree<V> {
    /// In the order of their bounds. Boxed, so that a block that comes or goes in the middle moves pointers only.
    blocks: VecDeque<Box<Block<V>>>,
    len: usize,
    /// Where the last search ended; a guess that is compared before it is believed.
    last: Cell<Place>,
}

/// A block and a position in it.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    block: usize,
    position: usize,
}

#[derive(Debug, Clone)]
struct Block<V> {
    /// A lower bound of the keys in it, greater than all keys of the block before.
    bound: Key,
    /// The keys, in order and without anything between them.
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<u32>,
    values: Vec<V>,
}

impl<V> Default for Tree<V> {
    fn default() -> Self {
        Tree { blocks: VecDeque::new(), len: 0, last: Cell::default() }
    }
}

impl<V> Tree<V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The block that holds the key if any does; `None` if the key is lower than all bounds.
    fn block_of(&self, key: &[u8]) -> Option<usize> {
        let is_at_or_before = |block: usize| self.blocks.get(block).is_some_and(|block| block.bound.as_bytes() <= key);
        let mut low = self.last.get().block;
        if is_at_or_before(low) {
            // Keys that come in order lie a few blocks further on.
            let mut step = 1;
            while step <= FAR {
                let mut high = low + step;
                if is_at_or_before(high) {
                    (low, step) = (high, 2 * step);
                    continue;
                }
                while high - low > 1 {
                    let middle = low.midpoint(high);
                    *(if is_at_or_before(middle) { &mut low } else { &mut high }) = middle;
                }
                return Some(low);
            }
        }
        self.blocks.partition_point(|block| block.bound.as_bytes() <= key).checked_sub(1)
    }

    /// The key's place, or the one it would have; `None` if it is lower than all bounds.
    fn search(&self, key: &[u8]) -> Option<(Place, bool)> {
        let (place, found) = self.search_near_last(key).or_else(|| {
            let block = self.block_of(key)?;
            Some(match self.blocks[block].search(key) {
                Ok(position) => (Place { block, position }, true),
                Err(position) => (Place { block, position }, false),
            })
        })?;
        self.last.set(place);
        Some((place, found))
    }

    /// The same, if the key lies where the last search ended or right behind: one or two comparisons tell.
    fn search_near_last(&self, key: &[u8]) -> Option<(Place, bool)> {
        let last = self.last.get();
        let block = self.blocks.get(last.block).filter(|block| last.position < block.len())?;
        match block.key(last.position).cmp(key) {
            Ordering::Less => {}
            Ordering::Equal => return Some((last, true)),
            Ordering::Greater => return None,
        }
        let behind = Place { block: last.block, position: last.position + 1 };
        if behind.position == block.len() {
            let is_in_block = self.blocks.get(last.block + 1).is_none_or(|next| key < next.bound.as_bytes());
            return is_in_block.then_some((behind, false));
        }
        match block.key(behind.position).cmp(key) {
            Ordering::Less => None,
            order => Some((behind, order.is_eq())),
        }
    }

    fn find(&self, key: &[u8]) -> Option<Place> {
        self.search(key).filter(|(_, found)| *found).map(|(place, _)| place)
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&V> {
        let place = self.find(key)?;
        Some(&self.blocks[place.block].values[place.position])
    }

    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        let place = self.find(key)?;
        Some(&mut self.blocks[place.block].values[place.position])
    }

    /// Puts a value at a key, and gives the one that was there.
    pub(super) fn insert(&mut self, key: &[u8], value: V) -> Option<V> {
        let Some((Place { block: number, position }, found)) = self.search(key) else {
            // Lower than all: the empty key is a lower bound of everything.
            self.blocks.push_front(Box::new(Block::of_one(Key::new(&[]), key, value)));
            self.len += 1;
            return None;
        };
        let block = &mut self.blocks[number];
        if found {
            return Some(std::mem::replace(&mut block.values[position], value));
        }
        self.len += 1;
        if block.len() < BLOCK {
            block.insert(position, key, value);
            return None;
        }
        let right = if position == BLOCK {
            // Keys mostly come in ascending order. The full block will not grow again.
            block.shrink();
            Block::of_one(Key::new(key), key, value)
        } else {
            let mut right = block.split();
            if position <= BLOCK / 2 {
                block.insert(position, key, value);
            } else {
                right.insert(position - BLOCK / 2, key, value);
            }
            right
        };
        self.blocks.insert(number + 1, Box::new(right));
        None
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let place = self.find(key)?;
        let block = &mut self.blocks[place.block];
        let value = block.remove(place.position);
        if block.len() == 0 {
            self.blocks.remove(place.block);
        }
        self.len -= 1;
        Some(value)
    }

    /// The first entry at or after the bound.
    pub(super) fn next(&self, low: Bound<&[u8]>) -> Option<(&[u8], &V)> {
        let found = match low {
            Bound::Unbounded => None,
            Bound::Included(key) | Bound::Excluded(key) => self.search(key),
        };
        let Some((place, found)) = found else {
            // Before all blocks.
            return self.blocks.front()?.entry(0);
        };
        let skipped = usize::from(found && matches!(low, Bound::Excluded(_)));
        let entry = self.blocks[place.block].entry(place.position + skipped);
        entry.or_else(|| self.blocks.get(place.block + 1)?.entry(0))
    }

    /// The last entry at or before the bound.
    pub(super) fn previous(&self, high: Bound<&[u8]>) -> Option<(&[u8], &V)> {
        let (place, found) = match high {
            Bound::Unbounded => {
                let last = self.blocks.back()?;
                return last.entry(last.len() - 1);
            }
            Bound::Included(key) | Bound::Excluded(key) => self.search(key)?,
        };
        let Place { block, position } = place;
        let end = position + usize::from(found && matches!(high, Bound::Included(_)));
        if end > 0 {
            return self.blocks[block].entry(end - 1);
        }
        let before = &self.blocks[block.checked_sub(1)?];
        before.entry(before.len() - 1)
    }

    /// All entries in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.blocks.iter().flat_map(|block| (0..block.len()).filter_map(|position| block.entry(position)))
    }
}

impl<V> Block<V> {
    fn of_one(bound: Key, key: &[u8], value: V) -> Self {
        Block { bound, bytes: key.to_vec(), ends: vec![key.len() as u32], values: vec![value] }
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
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
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
        let bound = Key::new(&bytes[..ends[0] as usize]);
        Block { bound, bytes, ends, values: self.values.split_off(BLOCK / 2) }
    }

    fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.values.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::storage::tests::fixture::Random;

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
