//! One lock: who holds it, who waits for it, and whether a request goes with both.

use std::collections::VecDeque;

use super::mode::LockMode;
use super::resource::LockOwner;

/// The position of a session in the lock table.
pub(crate) type Slot = u32;

#[derive(Debug, Clone, Copy)]
pub(super) struct Holder {
    pub(super) slot: Slot,
    pub(super) owner: LockOwner,
    pub(super) mode: LockMode,
    /// How often it was granted: it takes as many releases to let go.
    pub(super) count: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    pub(super) slot: Slot,
    pub(super) owner: LockOwner,
    /// For a conversion the mode it is to become.
    pub(super) mode: LockMode,
    /// The session already holds a lock here: it need not stand behind those who hold none.
    pub(super) converting: bool,
}

/// One lock. Nearly all have one holder and nobody waiting, which must cost no allocation.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) first: Holder,
    pub(super) crowd: Option<Box<Crowd>>,
}

#[derive(Debug, Default)]
pub(super) struct Crowd {
    pub(super) holders: Vec<Holder>,
    /// Conversions first, then the others, each in the order they came.
    pub(super) queue: VecDeque<Waiter>,
}

impl Lock {
    pub(super) fn holders(&self) -> impl Iterator<Item = &Holder> {
        std::iter::once(&self.first).chain(self.crowd.iter().flat_map(|crowd| &crowd.holders))
    }

    pub(super) fn holder_mut(&mut self, slot: Slot, owner: LockOwner) -> Option<&mut Holder> {
        if self.first.slot == slot && self.first.owner == owner {
            return Some(&mut self.first);
        }
        let crowd = self.crowd.as_mut()?;
        crowd.holders.iter_mut().find(|holder| holder.slot == slot && holder.owner == owner)
    }

    pub(super) fn queue(&self) -> impl Iterator<Item = &Waiter> {
        self.crowd.iter().flat_map(|crowd| &crowd.queue)
    }

    pub(super) fn has_queue(&self) -> bool {
        self.crowd.as_ref().is_some_and(|crowd| !crowd.queue.is_empty())
    }

    /// Whether no other session's lock stands against `mode`. A session never blocks itself.
    fn admits(&self, slot: Slot, mode: LockMode) -> bool {
        self.holders().all(|holder| holder.slot == slot || mode.is_compatible_with(holder.mode))
    }

    /// How a request stands: the mode it asks for in the end, and whether the session is a holder already.
    pub(super) fn aim(&self, slot: Slot, owner: LockOwner, mode: LockMode) -> (LockMode, bool) {
        let mut aim = mode;
        let mut is_holder = false;
        for holder in self.holders().filter(|holder| holder.slot == slot) {
            is_holder = true;
            if holder.owner == owner {
                aim = holder.mode.join(mode);
            }
        }
        (aim, is_holder)
    }

    pub(super) fn can_grant(&self, slot: Slot, owner: LockOwner, mode: LockMode) -> bool {
        let (aim, is_holder) = self.aim(slot, owner, mode);
        (is_holder || !self.has_queue()) && self.admits(slot, aim)
    }

    /// Adds a grant. True if the owner held nothing here before.
    pub(super) fn grant(&mut self, slot: Slot, owner: LockOwner, mode: LockMode) -> bool {
        if let Some(holder) = self.holder_mut(slot, owner) {
            holder.mode = holder.mode.join(mode);
            holder.count += 1;
            return false;
        }
        self.crowd.get_or_insert_default().holders.push(Holder { slot, owner, mode, count: 1 });
        true
    }

    /// The next waiter that can be granted, taken out of the queue.
    pub(super) fn next_grantable(&mut self, nobody_holds: bool) -> Option<Waiter> {
        let queue = &self.crowd.as_ref()?.queue;
        let admits = |waiter: &Waiter| nobody_holds || self.admits(waiter.slot, waiter.mode);
        let conversions = queue.iter().take_while(|waiter| waiter.converting).count();
        let position = if conversions > 0 {
            queue.iter().take(conversions).position(admits)?
        } else {
            queue.front().filter(|waiter| admits(waiter))?;
            0
        };
        self.crowd.as_mut()?.queue.remove(position)
    }
}
