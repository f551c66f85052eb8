//! The scripts of an adoption in the database.

use crate::admin::Admin;
use crate::admin::schema::{INSTALL_ATTEMPTS, scripts};
use crate::adopt::plan::Plan;
use crate::adopt::script::script;
use crate::connection::Session;
use crate::error::Error;

use super::catalog;
use super::catalog::Table;
use super::installed::not_adopted;
use super::mapping::{End, Mapping};

/// A table and its mapping, found to go together: what [`Admin::plan_adoption`] has made.
#[derive(Debug, Clone)]
pub struct Adoption {
    plan: Plan,
    schema: String,
    scripts: Vec<(String, String)>,
}

impl Adoption {
    /// The name of the queue.
    pub fn queue(&self) -> &str {
        self.plan.mapping.queue()
    }

    /// The schema that has, or will have, the procedures.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The table, as `schema.table`.
    pub fn table(&self) -> String {
        self.plan.table.name.to_string()
    }

    /// What the person who installs it should know.
    pub fn notes(&self) -> &[String] {
        &self.plan.notes
    }

    /// The T-SQL that [`Admin::adopt`] runs, for a DBA to read and run: one text with GO, as sqlcmd and SQL Server
    /// Management Studio take it. The same mapping and the same table give the same text.
    pub fn script(&self) -> String {
        let mut head = format!(
            "-- readpast {}: the table {} as the queue {}, in the schema {}. Run it as a member of db_owner, in the database.\n\
             --\n\
             -- After an error nothing more is executed, even where the client goes on: read the first error, and run all of it again.\n",
            env!("CARGO_PKG_VERSION"),
            self.table(),
            self.queue(),
            self.schema
        );
        for note in &self.plan.notes {
            head += &format!("-- Note: {}.\n", note.replace(char::is_control, " "));
        }
        head += "--\n-- Made from this mapping:\n";
        for line in self.plan.mapping.text.lines() {
            head += format!("--   {}", line.replace("$(", "$ (")).trim_end();
            head += "\n";
        }
        scripts::in_one(&head, self.scripts.iter().map(|(name, text)| (name.as_str(), text.as_str())), &self.schema)
    }
}

impl Admin<'_> {
    /// Looks at the table of a mapping, and works out the script that adopts it into the schema of this queue's
    /// settings. Changes nothing. The queue's own name does not matter: the mapping has it.
    ///
    /// # Errors
    ///
    /// [`Error::Mapping`], which names the line of the mapping and says what to do, where the table cannot be adopted
    /// so: it is not there, or the login may not see it; it lacks a column; a type does not fit; no unique index is on
    /// the key, none serves the claims; it has a trigger; the schema is somebody else's. And the errors of any call.
    pub async fn plan_adoption(self, mapping: &Mapping) -> Result<Adoption, Error> {
        let mut session = self.queue.any_session().await?;
        planned(&mut session, mapping).await
    }

    /// Installs the adoption of a table, or installs it again after the mapping or this release has changed.
    ///
    /// # Errors
    ///
    /// As [`plan_adoption`](crate::admin::Admin::plan_adoption) and [`install`](crate::admin::Admin::install).
    /// [`Error::Refused`] where the schema has queues of its own or is the adoption of another table.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future breaks the installation off. Run it again to complete it.
    pub async fn adopt(self, mapping: &Mapping) -> Result<Adoption, Error> {
        let mut session = self.queue.any_session().await?;
        let adoption = planned(&mut session, mapping).await?;
        if !adoption.plan.table.may_install {
            let message = "this login is no member of db_owner and cannot install the adoption; have somebody run the \
                           script who is (readpast adopt --print)";
            return Err(mapping.refusal(mapping.table.line, message));
        }
        session.run_adoption(&adoption.scripts).await?;
        Ok(adoption)
    }

    /// Gives the rows that are held back to the adopted table, and removes the adoption with its schema: the table is
    /// as it was, but for what was done. All of it, or nothing. Stop the workers first.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] while workers run, where there are dead jobs whose rows stand nowhere else, where the
    /// schema's roles have members, or where the table has changed so much that what is held cannot be given back (see
    /// [`abandon_adoption`](crate::admin::Admin::abandon_adoption)); [`Error::NotInstalled`] where the schema has no
    /// adoption.
    pub async fn remove_adoption(self) -> Result<(), Error> {
        self.end_adoption(true).await
    }

    /// Removes the adoption with its schema, and gives nothing back: for a table that is gone, or that will not come
    /// back to what it was. What is held stays marked in the table; rows that a claim has deleted there are lost. Stop
    /// the workers first.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] while workers run, or where the schema's roles have members; [`Error::NotInstalled`] where
    /// the schema has no adoption.
    pub async fn abandon_adoption(self) -> Result<(), Error> {
        self.end_adoption(false).await
    }

    async fn end_adoption(self, gives_back: bool) -> Result<(), Error> {
        let mut session = self.queue.any_session().await?;
        if session.adoption().await?.is_none() {
            return Err(not_adopted(&session));
        }
        let script = script::removal(gives_back, scripts::UNINSTALL).map_err(internal)?;
        session.run_removal(&script).await
    }
}

async fn planned(session: &mut Session, mapping: &Mapping) -> Result<Adoption, Error> {
    let found = catalog::read(session, &mapping.table.it).await?;
    plan_from(session, mapping, found).await
}

/// `found`: what the catalog says of the mapping's table.
pub(super) async fn plan_from(
    session: &mut Session,
    mapping: &Mapping,
    found: (Option<Table>, String),
) -> Result<Adoption, Error> {
    let (table, database) = found;
    let Some(table) = table else {
        let name = &mapping.table.it;
        let message =
            format!("there is no table {name} in the database {database}, or this login has no right to see it");
        return Err(mapping.refusal(mapping.table.line, message));
    };
    let others = others(session, mapping).await?;
    let schema = session.schema().to_string();
    let plan = Plan::new(mapping, &schema, table, others)?;
    if session.schema_is_somebody_elses().await? {
        let line = mapping.schema.as_ref().map_or(mapping.table.line, |schema| schema.line);
        let message =
            format!("schema {schema} has objects that are not readpast's; choose a name that no schema has yet");
        return Err(mapping.refusal(line, message));
    }
    let scripts = script::scripts(&plan, scripts::scripts()).map_err(internal)?;
    Ok(Adoption { plan, schema, scripts })
}

/// The tables to which rows are moved, where they are there.
async fn others(session: &mut Session, mapping: &Mapping) -> Result<Vec<Table>, Error> {
    let mut others: Vec<Table> = Vec::new();
    for end in [&mapping.done.it, &mapping.dead.it] {
        if let End::Move { table, .. } = end
            && !others.iter().any(|other| other.name == table.it)
        {
            others.extend(catalog::read(session, &table.it).await?.0);
        }
    }
    Ok(others)
}

/// A test finds it before anybody else.
fn internal(message: String) -> Error {
    Error::Protocol { message: format!("the scripts of the adoption: {message}") }
}

/// Looks whether the schema is somebody's already.
const WHOSE_SCHEMA: &str = include_str!("../../sql/adopt/whose_schema.sql");

/// Looks whether the schema is the adoption of a table.
const ADOPTION: &str = include_str!("../../sql/adopt/installed.sql");

impl Session {
    /// Runs the scripts of an adoption.
    pub(crate) async fn run_adoption(&mut self, scripts: &[(String, String)]) -> Result<(), Error> {
        let scripts: Vec<(&str, &str)> = scripts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        for attempt in 1.. {
            match self.run_all(&scripts).await {
                Err(error)
                    if attempt < INSTALL_ATTEMPTS && matches!(error, Error::Sql { .. }) && error.is_transient() =>
                {
                    tracing::debug!(%error, "adopting again");
                }
                result => return result,
            }
        }
        Ok(())
    }

    /// Runs the script that removes an adoption.
    pub(crate) async fn run_removal(&mut self, script: &str) -> Result<(), Error> {
        self.run_all(&[("remove.sql", script)]).await
    }

    /// Whether the schema has objects that are not readpast's.
    pub(crate) async fn schema_is_somebody_elses(&mut self) -> Result<bool, Error> {
        let mut results = self.query("whose schema", &WHOSE_SCHEMA.replace("$(schema)", self.schema())).await?;
        let Some(mut row) = results.pop().and_then(|mut rows| rows.pop()) else { return Ok(false) };
        Ok(row.required::<i32>("is_somebody_elses")? == 1)
    }

    /// The mapping and the facts of the adoption that is installed in the schema, if there is one.
    pub(crate) async fn adoption(&mut self) -> Result<Option<(String, String)>, Error> {
        let mut results = self.query("adoption", &ADOPTION.replace("$(schema)", self.schema())).await?;
        let Some(mut row) = results.pop().and_then(|mut rows| rows.pop()) else { return Ok(None) };
        Ok(Some((row.required("mapping")?, row.required("facts")?)))
    }
}
