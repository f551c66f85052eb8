//! The first stage: claims as many jobs as are wanted in memory.

mod bottlenecks;
mod demand;
mod fetched;
mod freed_places;
mod lost_answers;
mod prefetcher;
mod put_off_budget;
mod recall;
mod suspects;
mod watcher;

pub(super) use demand::most_ahead;
pub(super) use prefetcher::Prefetcher;
pub(super) use watcher::Watcher;
