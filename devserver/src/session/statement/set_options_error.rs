//! 1934: SET options that an index does not go with.

use crate::error::SqlError;

pub fn wrong_set_options(verb: &str, option: &str) -> SqlError {
    SqlError::new(
        1934,
        format!(
            "{verb} failed because the following SET options have incorrect settings: '{option}'. Verify that SET options \
             are correct for use with indexed views and/or indexes on computed columns and/or filtered indexes and/or query \
             notifications and/or XML data type methods and/or spatial index operations."
        ),
    )
}
