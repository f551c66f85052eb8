//! What goes on beside the jobs: the watch of an empty queue, the lease, and the duties of one worker of the queue.

use crate::restated::{EXPIRE_EVERY, LOOK_EVERY, WAIT};
use crate::server::{Answer, Call};
use crate::world::{Event, MS, Micros, Task, World};

use super::pauses::jittered;
use super::{Phase, Watching, Worker, duration, micros};

/// `src/worker/claim/watcher.rs`.
impl Worker {
    pub(super) fn watch_begins(&mut self, least: Micros, world: &mut World) {
        self.watch.asked = Some(least);
        if matches!(self.watch.state, Watching::Nothing | Watching::Pauses) {
            self.watch_looks(world);
        }
    }

    pub(super) fn watch_ends(&mut self) {
        self.watch.asked = None;
        if self.watch.state == Watching::Pauses {
            self.watch.state = Watching::Nothing;
            self.watch.timer += 1;
        }
    }

    fn watch_looks(&mut self, world: &mut World) {
        let Some(least) = self.watch.asked else {
            self.watch.state = Watching::Nothing;
            return;
        };
        let most = (self.config.poll_max.as_millis() as u64 * MS).min(WAIT);
        self.watch.asked = Some(micros(self.config.poll_min)); // further looks
        self.watch.state = Watching::Calls;
        self.call(Task::Watch, Call::AwaitJobs { least: least.min(WAIT), most }, world);
    }

    pub(super) fn watch_wakes(&mut self, world: &mut World) {
        if self.watch.state == Watching::PausesAfterError {
            return self.watch_ended(world); // a claim says whether SQL Server is there
        }
        self.watch_looks(world);
    }

    /// There may be jobs.
    fn watch_ended(&mut self, world: &mut World) {
        self.watch.state = Watching::Nothing;
        if self.watch.asked.take().is_some() {
            self.jobs_are_expected(world);
        }
    }

    pub(super) fn watch_answered(&mut self, answer: Answer, world: &mut World) {
        let pause = match answer {
            Answer::Awaited { found: true, .. } => return self.watch_ended(world),
            Answer::Awaited { waited, .. } => {
                self.watch.failed.reset();
                if waited || self.watch.asked.is_none() {
                    return self.watch_looks(world);
                }
                self.watch.state = Watching::Pauses;
                jittered(duration(LOOK_EVERY))
            }
            _ => {
                self.watch.state = Watching::PausesAfterError;
                self.watch.failed.next()
            }
        };
        self.watch.timer += 1;
        world.at(world.now + micros(pause), self.id, Event::Timer(Task::Watch, self.watch.timer));
    }
}

/// `src/worker/lease/lease_keeper.rs`.
impl Worker {
    fn renew_at(&mut self, at: Micros, world: &mut World) {
        self.lease.timer += 1;
        world.at(at, self.id, Event::Timer(Task::Lease, self.lease.timer));
    }

    pub(super) fn renews(&mut self, world: &mut World) {
        self.lease.sent_at = world.now;
        self.call(Task::Lease, if self.lease.is_registered { Call::Heartbeat } else { Call::RegisterWorker }, world);
    }

    pub(super) fn renewed(&mut self, answer: Answer, world: &mut World) {
        let interval = self.config.heartbeat_interval.as_millis() as u64 * MS;
        match answer {
            Answer::Failed => {
                let pause = micros(self.lease.pauses.next());
                self.renew_at(world.now + pause, world);
            }
            Answer::LeaseLost => {
                self.lease.is_registered = false;
                self.renews(world);
            }
            Answer::Elected(elected) => {
                self.lease.pauses.reset();
                self.renew_at(self.lease.sent_at + interval, world);
                if elected && !self.maintenance.is_elected {
                    self.is_elected(world);
                }
            }
            _ => {
                self.lease.is_registered = true;
                self.lease.pauses.reset();
                self.renew_at(self.lease.sent_at + interval, world);
                if self.prefetch.phase == Phase::Starting {
                    self.collects(0, world);
                    self.is_elected(world); // at its start it asks
                }
                // It has waited for that, or for the first one.
                if matches!(self.prefetch.phase, Phase::Starting | Phase::Pauses) {
                    self.prefetch(world);
                }
            }
        }
    }
}

/// `src/worker/duties/maintenance.rs`: promote, reap, sample and expire, in the order in which they are looked at.
impl Worker {
    fn is_elected(&mut self, world: &mut World) {
        self.maintenance.is_elected = true;
        self.maintenance.due_at = [world.now; 4];
        self.maintenance.next = 0;
        self.maintains(world);
    }

    fn every(&self, duty: usize) -> Micros {
        match duty {
            0 => self.config.promote_interval.as_millis() as u64 * MS,
            1 => self.config.reap_interval.as_millis() as u64 * MS,
            2 => self.config.sample_interval.as_millis() as u64 * MS,
            _ => EXPIRE_EVERY,
        }
    }

    /// Calls the next that is due, or sleeps until one is.
    pub(super) fn maintains(&mut self, world: &mut World) {
        for duty in self.maintenance.next..4 {
            if world.now >= self.maintenance.due_at[duty] {
                self.maintenance.due_at[duty] = world.now + micros(jittered(duration(self.every(duty))));
                self.maintenance.next = duty;
                let call = [Call::Promote, Call::Reap, Call::Sample, Call::Expire].into_iter().nth(duty);
                return self.call(Task::Maintain, call.expect("there are four"), world);
            }
        }
        self.maintenance.next = 0;
        self.maintenance.timer += 1;
        let due_at = self.maintenance.due_at.into_iter().min().expect("there are four").max(world.now);
        world.at(due_at, self.id, Event::Timer(Task::Maintain, self.maintenance.timer));
    }

    pub(super) fn maintained(&mut self, answer: Answer, world: &mut World) {
        match answer {
            Answer::Elected(false) => {
                self.maintenance.is_elected = false;
                self.maintenance.connection.breaks(); // closed
                return;
            }
            Answer::Reaped { more, any } => {
                if more {
                    self.maintenance.due_at[1] = world.now;
                }
                if any {
                    self.jobs_are_expected(world);
                }
            }
            _ => {}
        }
        self.maintenance.next += 1;
        self.maintains(world);
    }
}
