//! `src/worker/finish/finisher.rs`: one session collects, another waits for SQL Server meanwhile.

use crate::restated::FINISH_SESSIONS;
use crate::server::{Answer, Call};
use crate::world::{Event, MS, Micros, Task, World};

use super::in_flight::Stage;
use super::{Sent, Worker, micros};

impl Worker {
    fn linger(&self) -> Micros {
        self.config.finish_linger.as_millis() as u64 * MS
    }

    fn ended(&self) -> usize {
        self.finish.ended.len() + self.finish.given_back.len()
    }

    /// It is this session's turn: it looks a linger time after the last batch, or waits for the first job.
    pub(super) fn collects(&mut self, session: usize, world: &mut World) {
        match self.finish.look_at.take() {
            Some(look_at) => self.collects_until(session, look_at, world),
            None if self.ended() > 0 => self.collects_until(session, world.now + self.linger(), world),
            None => self.finish.collects = Some((session, None)),
        }
    }

    fn collects_until(&mut self, session: usize, until: Micros, world: &mut World) {
        self.finish.collects = Some((session, Some(until)));
        if self.ended() >= self.config.finish_batch_size {
            return self.collected(world);
        }
        self.finish.timer += 1;
        world.at(until.max(world.now), self.id, Event::Timer(Task::Finish(FINISH_SESSIONS), self.finish.timer));
    }

    /// A job has ended, or is to be given back.
    pub(super) fn has_ended(&mut self, world: &mut World) {
        match self.finish.collects {
            Some((session, None)) => self.collects_until(session, world.now + self.linger(), world),
            Some(_) if self.ended() == self.config.finish_batch_size => self.collected(world),
            _ => {}
        }
    }

    /// The batch is full, or its time has come.
    pub(super) fn collected(&mut self, world: &mut World) {
        let Some((session, _)) = self.finish.collects.take() else { return };
        self.finish.timer += 1;
        if self.ended() == 0 {
            self.finish.collects = Some((session, None));
            return;
        }
        let most = self.config.finish_batch_size;
        let jobs: Vec<u32> = self.finish.ended.drain(..self.finish.ended.len().min(most)).collect();
        let left = most - jobs.len();
        let given_back = self.finish.given_back.drain(..self.finish.given_back.len().min(left)).collect();
        self.finish.look_at = Some(world.now + self.linger());
        self.finish.sent[session] = Some(Sent { jobs, given_back });
        self.sends(session, world);
        if let Some(free) = (0..FINISH_SESSIONS).find(|session| self.finish.sent[*session].is_none()) {
            self.collects(free, world);
        }
    }

    /// First what has ended, then what is given back.
    pub(super) fn sends(&mut self, session: usize, world: &mut World) {
        let Some(sent) = &self.finish.sent[session] else { return };
        let call =
            if sent.jobs.is_empty() { Call::Release(sent.given_back.clone()) } else { Call::Finish(sent.jobs.clone()) };
        self.call(Task::Finish(session), call, world);
    }

    pub(super) fn finished(&mut self, session: usize, answer: Answer, world: &mut World) {
        if answer == Answer::Failed {
            let pause = micros(self.finish.repeats[session].next());
            return world.at(world.now + pause, self.id, Event::Timer(Task::Finish(session), 0));
        }
        self.finish.repeats[session].reset();
        let Some(sent) = &mut self.finish.sent[session] else { return };
        let confirmed = if sent.jobs.is_empty() { &mut sent.given_back } else { &mut sent.jobs };
        for _ in confirmed.drain(..) {
            self.in_flight.leave(Stage::AwaitingFinish);
        }
        let is_done = sent.given_back.is_empty();
        self.in_flight.confirmed();
        if !is_done {
            return self.sends(session, world);
        }
        self.finish.sent[session] = None;
        if self.finish.collects.is_none() {
            self.collects(session, world);
        }
    }
}
