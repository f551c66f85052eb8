//! The code of the guide. What a chapter of docs/ shows stands here, or in an example, and runs;
//! `tests/documentation.rs` compares. A chapter with code of its own has a file.

mod enqueue;
mod handlers;
mod long_jobs;
mod queues;
mod results;
mod testing;
