//! Functions of dates and times, and the clock.
//!
//! A date argument is first taken apart into a [`moment::Moment`]: its local day and time. The language is
//! us_english; a SET statement that would change it is not known to the dev server.

pub(super) mod arithmetic;
pub(super) mod clock;
mod moment;
pub(super) mod offset;
