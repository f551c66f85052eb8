//! The lock table as it is shown: every lock, and who waits for whom.

use std::sync::Arc;

use super::lock::Slot;
use super::lock_table::{LockTable, WaitStatus};
use super::mode::LockMode;
use super::resource::{LockOwner, Resource};

/// sys.dm_tran_locks.request_status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockStatus {
    Granted,
    Waiting,
    Converting,
}

/// A line of sys.dm_tran_locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockInfo {
    pub spid: i32,
    pub owner: LockOwner,
    pub resource: Resource,
    /// The name of an application lock.
    pub name: Option<Arc<str>>,
    pub mode: LockMode,
    pub status: LockStatus,
}

/// A session that waits for a lock.
#[derive(Debug, Clone, Copy)]
pub struct WaitInfo {
    pub spid: i32,
    /// The first of those it waits for.
    pub blocking_spid: Option<i32>,
    pub mode: LockMode,
}

impl LockTable {
    /// Every lock that is held or waited for.
    pub(crate) fn list(&self) -> Vec<LockInfo> {
        let mut list = Vec::new();
        for (resource, lock) in &self.locks {
            let mut add = |slot: Slot, owner, mode, status| {
                let Some(session) = &self.sessions[slot as usize] else {
                    return;
                };
                let name = match resource {
                    Resource::Application(hash) => self.application_names.get(hash).cloned(),
                    _ => None,
                };
                list.push(LockInfo { spid: session.handle.spid(), owner, resource: *resource, name, mode, status });
            };
            for holder in lock.holders() {
                add(holder.slot, holder.owner, holder.mode, LockStatus::Granted);
            }
            for waiter in lock.queue() {
                let status = if waiter.converting { LockStatus::Converting } else { LockStatus::Waiting };
                add(waiter.slot, waiter.owner, waiter.mode, status);
            }
        }
        list
    }

    /// Who waits, and for whom.
    pub(crate) fn waits(&self) -> Vec<WaitInfo> {
        let mut waits = Vec::new();
        for (slot, session) in self.sessions.iter().enumerate() {
            let Some(session) = session else { continue };
            let Some(wait) = session.wait.filter(|wait| wait.status == WaitStatus::Waiting) else { continue };
            let slot = slot as Slot;
            let lock = self.locks.get(&wait.resource);
            let Some(me) = lock.and_then(|lock| lock.queue().find(|waiter| waiter.slot == slot)) else { continue };
            let blocker = self.blockers(slot).first().and_then(|blocker| self.sessions[*blocker as usize].as_ref());
            waits.push(WaitInfo {
                spid: session.handle.spid(),
                blocking_spid: blocker.map(|blocker| blocker.handle.spid()),
                mode: me.mode,
            });
        }
        waits
    }

    /// How many sessions wait for a lock.
    pub(crate) fn waiting_count(&self) -> usize {
        let waits = self.sessions.iter().flatten().filter_map(|session| session.wait);
        waits.filter(|wait| wait.status == WaitStatus::Waiting).count()
    }
}
