//! `src/worker/claim/prefetcher.rs` without its calls: when to claim, and what becomes of the answer. How many is
//! `Demand`'s to say.

use std::pin::pin;
use std::task::{Context, Waker};

use crate::restated::CLAIM_ANYWAY;
use crate::server::{Answer, Call};
use crate::world::{Event, MS, Micros, Task, World};

use super::in_flight::Stage;
use super::{PAYLOAD, Phase, Worker, duration, micros};

impl Worker {
    /// The prefetcher's signal: whether it is woken now. It is kept until somebody waits for it.
    pub(super) fn is_in_demand(&self) -> bool {
        let waits = matches!(self.prefetch.phase, Phase::WaitsForRoom | Phase::WaitsForJobs { .. });
        waits && pin!(self.in_flight.demand()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    pub(super) fn prefetch_wakes(&mut self, by_timer: bool, world: &mut World) {
        match self.prefetch.phase {
            Phase::Starting | Phase::Calls => {}
            Phase::Pauses => self.prefetch(world),
            Phase::WaitsForRoom => {
                self.give_back_surplus(world);
                self.prefetch(world);
            }
            Phase::WaitsForJobs { until } if by_timer && world.now >= until => {
                self.watch_ends();
                self.prefetch(world);
            }
            Phase::WaitsForJobs { until } => {
                if by_timer {
                    self.give_back_surplus(world);
                } else {
                    self.prefetch.demand.notice(self.run_times, world.instant());
                }
                self.sleep_until_jobs(until, world);
            }
        }
    }

    pub(super) fn prefetch(&mut self, world: &mut World) {
        let room = self.room(world);
        if room == 0 {
            self.prefetch.phase = Phase::WaitsForRoom;
            self.set_prefetch_timer(world.now + micros(self.prefetch.demand.horizon()), world);
            return;
        }
        self.prefetch.phase = Phase::Calls;
        (self.prefetch.asked, self.prefetch.asked_at) = (room, world.now);
        let call = if self.prefetch.answer_lost { Call::Recover } else { Call::Claim(room) };
        self.call(Task::Claim, call, world);
    }

    fn room(&mut self, world: &World) -> usize {
        let (run_times, now) = (self.run_times, world.instant());
        if self.in_flight.jobs() == 0 {
            self.prefetch.demand.holds_nothing(run_times, now);
        }
        let to_fill = self.threads_to_fill();
        self.prefetch.demand.room(run_times, &self.in_flight, to_fill, now).min(self.prefetch.limit.jobs())
    }

    /// It has its threads for itself, so that its share is all of them.
    fn threads_to_fill(&self) -> usize {
        let running = self.in_flight.running();
        (self.config.threads - running).max(usize::from(running < self.config.threads))
    }

    fn set_prefetch_timer(&mut self, at: Micros, world: &mut World) {
        self.prefetch.timer += 1;
        world.at(at, self.id, Event::Timer(Task::Claim, self.prefetch.timer));
    }

    pub(super) fn claim_answered(&mut self, answer: Answer, world: &mut World) {
        match answer {
            Answer::Claimed(jobs) => self.claimed(jobs, world),
            Answer::Failed => {
                self.prefetch.answer_lost = true;
                self.prefetch.phase = Phase::Pauses;
                let pause = micros(self.prefetch.failed.next());
                self.set_prefetch_timer(world.now + pause, world);
            }
            Answer::LeaseLost => {
                // Until the keeper has registered anew.
                self.prefetch.phase = Phase::Pauses;
                self.set_prefetch_timer(world.now + self.config.heartbeat_interval.as_millis() as u64 * MS, world);
            }
            _ => {
                self.prefetch.answer_lost = false; // the call was a look for what it may have left claimed
                self.prefetch.asked_at = world.now;
                self.call(Task::Claim, Call::Claim(self.prefetch.asked), world);
            }
        }
    }

    fn claimed(&mut self, jobs: Vec<u32>, world: &mut World) {
        let claimed = jobs.len();
        let demand = &mut self.prefetch.demand;
        demand.claimed(duration(world.now - self.prefetch.asked_at), world.instant());
        demand.claimed_payloads((claimed > 0).then_some(PAYLOAD));
        self.prefetch.limit.answered(claimed);
        self.prefetch.failed.reset();
        if claimed > 0 {
            self.in_flight.enter(Stage::Unstarted, claimed);
            self.unstarted.extend(jobs);
            self.start_jobs(world);
            self.prefetch.empty.reset();
        }
        if claimed == self.prefetch.asked || std::mem::take(&mut self.prefetch.expected) {
            return self.prefetch(world);
        }
        let pause = micros(self.prefetch.empty.next());
        let until = if claimed == 0 {
            self.watch_begins(pause, world);
            world.now + CLAIM_ANYWAY
        } else {
            world.now + pause
        };
        self.prefetch.phase = Phase::WaitsForJobs { until };
        self.sleep_until_jobs(until, world);
    }

    /// Sleeps until then, and looks in between at what it holds.
    fn sleep_until_jobs(&mut self, until: Micros, world: &mut World) {
        let horizon = micros(self.prefetch.demand.horizon());
        let wake_at = if self.in_flight.unstarted() > 0 { until.min(world.now + horizon) } else { until };
        self.set_prefetch_timer(wake_at, world);
    }

    /// Somebody has seen that there may be jobs.
    pub(super) fn jobs_are_expected(&mut self, world: &mut World) {
        if let Phase::WaitsForJobs { .. } = self.prefetch.phase {
            self.watch_ends();
            self.prefetch(world);
        } else {
            self.prefetch.expected = true;
        }
    }

    fn give_back_surplus(&mut self, world: &mut World) {
        let all_busy = self.in_flight.running() == self.config.threads;
        let unstarted = self.in_flight.unstarted().saturating_sub(self.threads_to_fill());
        let wanted = self.prefetch.demand.wanted_at_last(self.run_times, unstarted, all_busy, world.instant());
        let Some(wanted) = wanted else { return };
        for _ in wanted..unstarted {
            let Some(job) = self.unstarted.pop_back() else { break };
            self.in_flight.enter(Stage::AwaitingFinish, 1);
            self.in_flight.leave(Stage::Unstarted);
            self.finish.given_back.push_back(job);
        }
        if !self.finish.given_back.is_empty() {
            self.has_ended(world);
        }
    }
}
