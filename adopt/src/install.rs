//! Installs and removes adoptions.

use readpast::Queue;
use readpast::admin::adopt_seam::{self, AdoptSeam};

use crate::error::Error;
use crate::plan::Plan;
use crate::script;

use super::catalog;
use super::catalog::Table;
use super::installed::{adoption, not_adopted};
use super::mapping::{End, Mapping};

/// A mapping that fits its table: the result of [`plan`].
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

    /// The schema of the procedures, which may not exist yet.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The table, as `schema.table`.
    pub fn table(&self) -> String {
        self.plan.table.name.to_string()
    }

    /// Notes for the person who installs it.
    pub fn notes(&self) -> &[String] {
        &self.plan.notes
    }

    /// The T-SQL that [`adopt`] runs, for a DBA to read and run: one text with GO, for sqlcmd and SQL Server Management
    /// Studio. The same mapping and table always give the same text.
    pub fn script(&self) -> String {
        let mut head = format!(
            "-- readpast {}: the table {} as the queue {}, in the schema {}. Run it as a member of db_owner, in the database.\n\
             --\n\
             -- After an error nothing more is executed, even if the client goes on: read the first error, and run all of it again.\n",
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
        adopt_seam::in_one(&head, self.scripts.iter().map(|(name, text)| (name.as_str(), text.as_str())), &self.schema)
    }
}

/// Checks the table of a mapping, and generates the script that adopts it into the schema of the queue's settings.
/// Changes nothing. The queue's name is the mapping's; that of `queue` is ignored.
///
/// # Errors
///
/// [`Error::Mapping`] if the mapping does not fit the table. The error names the line and the remedy. Causes: the table
/// does not exist, or the login may not see it; a column is missing; a type does not fit; there is no unique index on
/// the key, or no index for the claims; the table has a trigger; the schema is not readpast's. The call may also return
/// the errors of any call.
pub async fn plan(queue: &Queue, mapping: &Mapping) -> Result<Adoption, Error> {
    let mut session = queue.admin().seam().await?;
    planned(&mut session, mapping).await
}

/// Installs the adoption of a table, or updates it after a change of the mapping or the release.
///
/// # Errors
///
/// As [`plan`] and [`Admin::install`](readpast::admin::Admin::install). [`readpast::Error::Refused`] if the schema has
/// queues of its own or is the adoption of another table.
///
/// # Cancel safety
///
/// Dropping the future aborts the installation. Run it again to complete it.
pub async fn adopt(queue: &Queue, mapping: &Mapping) -> Result<Adoption, Error> {
    let mut session = queue.admin().seam().await?;
    let adoption = planned(&mut session, mapping).await?;
    if !adoption.plan.table.may_install {
        let message = "this login is not a member of db_owner, so it cannot install the adoption; ask a member to run the \
                           script (readpast adopt --print)";
        return Err(mapping.refusal(mapping.table.line, message));
    }
    let scripts: Vec<(&str, &str)> =
        adoption.scripts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    session.run_again(&scripts).await?;
    Ok(adoption)
}

/// Restores held rows to the adopted table, and removes the adoption with its schema, in one transaction. Rows of
/// finished jobs stay as they are. Stop the workers first.
///
/// # Errors
///
/// - [`readpast::Error::Refused`] while workers run, if rows of dead jobs exist nowhere else, if the schema's roles
///   have members, or if the table has changed so much that held rows cannot be restored (see [`abandon`])
/// - [`readpast::Error::NotInstalled`] if the schema has no adoption
pub async fn remove(queue: &Queue) -> Result<(), Error> {
    end(queue, true).await
}

/// Removes the adoption with its schema, and restores nothing: for a table that no longer exists, or has changed
/// permanently. Held rows stay marked in the table; rows that a claim deleted are lost. Stop the workers first.
///
/// # Errors
///
/// - [`readpast::Error::Refused`] while workers run, or if the schema's roles have members
/// - [`readpast::Error::NotInstalled`] if the schema has no adoption
pub async fn abandon(queue: &Queue) -> Result<(), Error> {
    end(queue, false).await
}

async fn end(queue: &Queue, gives_back: bool) -> Result<(), Error> {
    let mut session = queue.admin().seam().await?;
    if adoption(&mut session).await?.is_none() {
        return Err(not_adopted(&session).into());
    }
    let script = script::removal(gives_back, adopt_seam::UNINSTALL).map_err(internal)?;
    Ok(session.run("remove.sql", &script).await?)
}

async fn planned(session: &mut AdoptSeam, mapping: &Mapping) -> Result<Adoption, Error> {
    let found = catalog::read(session, &mapping.table.it).await?;
    plan_from(session, mapping, found).await
}

pub(super) async fn plan_from(
    session: &mut AdoptSeam,
    mapping: &Mapping,
    found: (Option<Table>, String),
) -> Result<Adoption, Error> {
    let (table, database) = found;
    let Some(table) = table else {
        let name = &mapping.table.it;
        let message =
            format!("the table {name} does not exist in the database {database}, or this login may not see it");
        return Err(mapping.refusal(mapping.table.line, message));
    };
    let others = others(session, mapping).await?;
    let schema = session.schema().to_string();
    let plan = Plan::new(mapping, &schema, table, others)?;
    if is_somebody_elses(session).await? {
        let line = mapping.schema.as_ref().map_or(mapping.table.line, |schema| schema.line);
        let message = format!("schema {schema} has objects that are not readpast's; choose an unused name");
        return Err(mapping.refusal(line, message));
    }
    let scripts = script::scripts(&plan, adopt_seam::scripts()).map_err(internal)?;
    Ok(Adoption { plan, schema, scripts })
}

async fn others(session: &mut AdoptSeam, mapping: &Mapping) -> Result<Vec<Table>, Error> {
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

/// The error of faulty scripts. A test finds it before a release.
fn internal(message: String) -> Error {
    adopt_seam::internal(format!("the scripts of the adoption: {message}")).into()
}

const WHOSE_SCHEMA: &str = include_str!("../sql/whose_schema.sql");

async fn is_somebody_elses(session: &mut AdoptSeam) -> Result<bool, Error> {
    let mut results = session.query("whose schema", &WHOSE_SCHEMA.replace("$(schema)", session.schema())).await?;
    let Some(mut row) = results.pop().and_then(|mut rows| rows.pop()) else { return Ok(false) };
    Ok(row.required::<i32>("is_somebody_elses")? == 1)
}
