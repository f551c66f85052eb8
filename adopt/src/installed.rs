//! What is installed in a schema.

use crate::admin::Admin;
use crate::connection::Session;
use crate::error::Error;

use super::mapping::Mapping;

impl Admin<'_> {
    /// The mapping from which the adoption in this queue's schema was made, as its text.
    ///
    /// # Errors
    ///
    /// As [`check_adoption`](crate::admin::Admin::check_adoption).
    pub async fn adopted_mapping(self) -> Result<String, Error> {
        let mut session = self.queue.any_session().await?;
        Ok(installed(&mut session).await?.0.text)
    }
}

/// The mapping and the facts of the installed adoption.
pub(super) async fn installed(session: &mut Session) -> Result<(Mapping, String), Error> {
    let Some((text, facts)) = session.adoption().await? else {
        return Err(not_adopted(session));
    };
    let mapping = Mapping::from_toml(&text)?;
    Ok((mapping, facts))
}

pub(super) fn not_adopted(session: &Session) -> Error {
    Error::NotInstalled {
        number: None,
        schema: session.schema().to_string(),
        message: "the schema is not the adoption of a table, or this login may not see that it is".to_string(),
    }
}
