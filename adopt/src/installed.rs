//! Reads an installed adoption.

use readpast::Queue;
use readpast::admin::adopt_seam::AdoptSeam;

use crate::error::Error;

use super::mapping::Mapping;

/// The text of the mapping from which the adoption in the queue's schema was made. Errors as [`check`](crate::check).
pub async fn mapping(queue: &Queue) -> Result<String, Error> {
    let mut session = queue.admin().seam().await?;
    Ok(installed(&mut session).await?.0.text)
}

pub(super) async fn installed(session: &mut AdoptSeam) -> Result<(Mapping, String), Error> {
    let Some((text, facts)) = adoption(session).await? else {
        return Err(not_adopted(session).into());
    };
    let mapping = Mapping::from_toml(&text)?;
    Ok((mapping, facts))
}

const ADOPTION: &str = include_str!("../sql/installed.sql");

/// The mapping and the facts of the schema's adoption, if there is one.
pub(super) async fn adoption(session: &mut AdoptSeam) -> Result<Option<(String, String)>, Error> {
    let mut results = session.query("adoption", &ADOPTION.replace("$(schema)", session.schema())).await?;
    let Some(mut row) = results.pop().and_then(|mut rows| rows.pop()) else { return Ok(None) };
    Ok(Some((row.required("mapping")?, row.required("facts")?)))
}

pub(super) fn not_adopted(session: &AdoptSeam) -> readpast::Error {
    session.not_installed("the schema is not the adoption of a table, or this login may not see the adoption")
}
