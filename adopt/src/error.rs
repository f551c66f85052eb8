//! What can go wrong with an adoption.

/// Why a table was not adopted, or an adoption not found, checked or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A mapping of a table to adopt is not valid, or the table is not one that can be adopted with it. Correct the
    /// line that is named, or do to the table what the message says.
    #[error("the mapping cannot be used: {place}: {message}")]
    #[non_exhaustive]
    Mapping {
        /// The file, where there is one, and the line.
        place: String,
        /// What is wrong, and what to do about it.
        message: String,
    },

    /// Everything else: a call that failed, a file that cannot be read.
    #[error(transparent)]
    Readpast(#[from] readpast::Error),
}
