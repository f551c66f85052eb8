//! Errors of adoptions.

/// Errors of adopting a table, and of checking or removing an adoption.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The mapping is not valid, or does not fit the table. Correct the named line, or change the table as the message
    /// says.
    #[error("the mapping cannot be used: {place}: {message}")]
    #[non_exhaustive]
    Mapping {
        /// The file, if there is one, and the line.
        place: String,
        /// The fault and its remedy.
        message: String,
    },

    /// Any other error: a failed call, or an unreadable file.
    #[error(transparent)]
    Readpast(#[from] readpast::Error),
}
