//! Files of `src/` with models of what they use, and the situations in which `main.rs` runs them.

// The files' own tests run with the real atomics.
#![cfg(not(test))]

pub mod queue;
mod sync_primitives;
#[path = "../../src/handler/turn_bookings.rs"]
mod turn_bookings;
pub mod worker;

#[allow(dead_code, reason = "no test of the model fails by it")]
mod error {
    #[derive(Debug)]
    pub enum Error {
        Threads { message: String },
    }
}

#[allow(dead_code, reason = "the model has no limits of kinds")]
mod handler {
    pub(crate) use crate::turn_bookings::{HOLD, TurnBookings};

    pub(crate) trait Threads {
        fn any_is_free(&self) -> bool;
        fn wake(self: std::sync::Arc<Self>);
    }
}

mod id {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub(crate) struct JobId(pub(crate) u64);
}

mod job {
    #[derive(Debug, Clone)]
    pub(crate) struct JobEnd;
}

mod time {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// A clock that goes on with each look at it.
    #[derive(Debug, Default)]
    pub(crate) struct BootClock(AtomicU64);

    impl BootClock {
        pub(crate) fn now(&self) -> Duration {
            Duration::from_nanos(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }
}
