//! The producers' calls.

mod batch;
mod enqueue;
mod outcomes;

pub(crate) use batch::{SEAL_BATCH, create_command, read_created, read_sealed, seal_command};
pub(crate) use enqueue::{
    ENQUEUE, ENQUEUE_BATCH, Lists, Part, batch_command, chunk_length, enqueue_command, has_details, in_order, is_large,
    next_chunk, read_enqueued,
};
pub(crate) use outcomes::OUTCOMES;
