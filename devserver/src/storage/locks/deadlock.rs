//! Whether a wait closes a circle, and who in it gives way. `README.md` has the rules.

use super::lock::Slot;
use super::lock_table::{LockTable, WaitStatus};

impl LockTable {
    /// Who gives way in a circle of waits through `requester`, if there is one.
    pub(super) fn find_victim(&self, requester: Slot) -> Option<Slot> {
        let circle = self.find_circle(requester)?;
        circle.into_iter().min_by_key(|slot| {
            let wait = self.sessions[*slot as usize].as_ref().and_then(|session| session.wait);
            let wait = wait.expect("everybody in the circle waits");
            (wait.priority, wait.undo_length, *slot != requester)
        })
    }

    /// The sessions of a circle of waits through `start`, by depth-first search.
    fn find_circle(&self, start: Slot) -> Option<Vec<Slot>> {
        let mut visited = vec![start];
        // The path from `start`, each with those it waits for and that have not been looked at yet.
        let mut path = vec![(start, self.blockers(start))];
        while let Some((_, unexplored)) = path.last_mut() {
            let Some(blocker) = unexplored.pop() else {
                path.pop();
                continue;
            };
            if blocker == start {
                return Some(path.into_iter().map(|(slot, _)| slot).collect());
            }
            if !visited.contains(&blocker) {
                visited.push(blocker);
                path.push((blocker, self.blockers(blocker)));
            }
        }
        None
    }

    /// The sessions that must do something before this one's wait can end.
    pub(super) fn blockers(&self, slot: Slot) -> Vec<Slot> {
        let wait = self.sessions[slot as usize].as_ref().and_then(|session| session.wait);
        let Some(wait) = wait.filter(|wait| wait.status == WaitStatus::Waiting) else {
            return Vec::new();
        };
        let Some(lock) = self.locks.get(&wait.resource) else {
            return Vec::new();
        };
        let Some(position) = lock.queue().position(|waiter| waiter.slot == slot) else {
            return Vec::new();
        };
        let me = *lock.queue().nth(position).expect("it was found there");
        let mut blockers: Vec<Slot> = lock
            .holders()
            .filter(|holder| holder.slot != slot && !me.mode.is_compatible_with(holder.mode))
            .map(|holder| holder.slot)
            .collect();
        // A conversion passes the others; everybody else waits for the whole queue before it.
        if !me.converting {
            blockers.extend(lock.queue().take(position).map(|waiter| waiter.slot));
        }
        blockers
    }
}
