//! What holds all queues of a schema.

use std::time::SystemTime;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::connection::{Columns, Session};
use crate::error::Error;
use crate::procedures::schema_info::Held;
use crate::time::rfc3339;

/// A reason that holds all queues of a schema. Serialized with the fields' names; the time is in RFC 3339 format.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hold {
    /// The reason.
    pub held: Held,
    /// Since when, by SQL Server's clock.
    pub since: SystemTime,
    /// The login that paused all queues, or whose session noticed that the database is a copy.
    pub login: Option<String>,
    /// What the operator said.
    pub why: Option<String>,
    /// Of a copy: the server and the database in which the schema was used before.
    pub original: Option<Original>,
}

/// Where a schema was used before its database was restored or copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Original {
    /// The server, if it is known.
    pub server: Option<String>,
    /// The database.
    pub database: String,
}

impl Hold {
    fn read(mut row: Columns) -> Result<Hold, Error> {
        Ok(Hold {
            held: row.one_of("hold", &Held::WORDS)?,
            since: row.required_time("since")?,
            login: row.optional("login")?,
            why: row.optional("why")?,
            original: {
                let server = row.optional("server")?;
                let database: Option<String> = row.optional("database_name")?;
                database.map(|database| Original { server, database })
            },
        })
    }
}

impl Serialize for Hold {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut hold = serializer.serialize_struct("Hold", 5)?;
        hold.serialize_field("held", &self.held)?;
        hold.serialize_field("since", &rfc3339(self.since))?;
        hold.serialize_field("login", &self.login)?;
        hold.serialize_field("why", &self.why)?;
        hold.serialize_field("original", &self.original)?;
        hold.end()
    }
}

impl Session {
    pub(crate) async fn holds(&mut self) -> Result<Vec<Hold>, Error> {
        let command = self.command("list_holds");
        self.rows("list_holds", command).await?.into_iter().map(Hold::read).collect()
    }

    pub(crate) async fn pause_all(&mut self, why: Option<&str>) -> Result<(), Error> {
        let mut command = self.action("pause_all");
        command.bind_param("@why", why);
        self.run("pause_all", command).await?;
        Ok(())
    }

    /// Runs `resume_all` or `confirm_copy`.
    pub(crate) async fn end_hold(&mut self, held: Held) -> Result<(), Error> {
        let name = match held {
            Held::Schema => "resume_all",
            Held::Copy => "confirm_copy",
        };
        let command = self.action(name);
        self.run(name, command).await?;
        Ok(())
    }
}
