//! The scripts of an adoption in the database.

use readpast::Queue;
use readpast::admin::seam::{self, Seam};

use crate::error::Error;
use crate::plan::Plan;
use crate::script;

use super::catalog;
use super::catalog::Table;
use super::installed::{adoption, not_adopted};
use super::mapping::{End, Mapping};

/// A table and its mapping, found to go together: what [`plan`] has made.
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

    /// The T-SQL that [`adopt`] runs, for a DBA to read and run: one text with GO, as sqlcmd and SQL Server
    /// Management Studio take it. The same mapping and the same table give the same text.
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
        seam::in_one(&head, self.scripts.iter().map(|(name, text)| (name.as_str(), text.as_str())), &self.schema)
    }
}

/// Looks at the table of a mapping, and works out the script that adopts it into the schema of the queue's
/// settings. Changes nothing. The queue's own name does not matter: the mapping has it.
///
/// # Errors
///
/// [`Error::Mapping`], which names the line of the mapping and says what to do, where the table cannot be adopted
/// so: it is not there, or the login may not see it; it lacks a column; a type does not fit; no unique index is on
/// the key, none serves the claims; it has a trigger; the schema is somebody else's. And the errors of any call.
pub async fn plan(queue: &Queue, mapping: &Mapping) -> Result<Adoption, Error> {
    let mut session = queue.admin().seam().await?;
    planned(&mut session, mapping).await
}

/// Installs the adoption of a table, or installs it again after the mapping or this release has changed.
///
/// # Errors
///
/// As [`plan`] and [`Admin::install`](readpast::admin::Admin::install).
/// [`readpast::Error::Refused`] where the schema has queues of its own or is the adoption of another table.
///
/// # Cancel safety
///
/// Dropping the future breaks the installation off. Run it again to complete it.
pub async fn adopt(queue: &Queue, mapping: &Mapping) -> Result<Adoption, Error> {
    let mut session = queue.admin().seam().await?;
    let adoption = planned(&mut session, mapping).await?;
    if !adoption.plan.table.may_install {
        let message = "this login is no member of db_owner and cannot install the adoption; have somebody run the \
                           script who is (readpast adopt --print)";
        return Err(mapping.refusal(mapping.table.line, message));
    }
    let scripts: Vec<(&str, &str)> =
        adoption.scripts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    session.run_again(&scripts).await?;
    Ok(adoption)
}

/// Gives the rows that are held back to the adopted table, and removes the adoption with its schema: the table is
/// as it was, but for what was done. All of it, or nothing. Stop the workers first.
///
/// # Errors
///
/// [`readpast::Error::Refused`] while workers run, where there are dead jobs whose rows stand nowhere else, where the
/// schema's roles have members, or where the table has changed so much that what is held cannot be given back (see
/// [`abandon`]); [`readpast::Error::NotInstalled`] where the schema has no
/// adoption.
pub async fn remove(queue: &Queue) -> Result<(), Error> {
    end(queue, true).await
}

/// Removes the adoption with its schema, and gives nothing back: for a table that is gone, or that will not come
/// back to what it was. What is held stays marked in the table; rows that a claim has deleted there are lost. Stop
/// the workers first.
///
/// # Errors
///
/// [`readpast::Error::Refused`] while workers run, or where the schema's roles have members; [`readpast::Error::NotInstalled`] where
/// the schema has no adoption.
pub async fn abandon(queue: &Queue) -> Result<(), Error> {
    end(queue, false).await
}

async fn end(queue: &Queue, gives_back: bool) -> Result<(), Error> {
    let mut session = queue.admin().seam().await?;
    if adoption(&mut session).await?.is_none() {
        return Err(not_adopted(&session).into());
    }
    let script = script::removal(gives_back, seam::UNINSTALL).map_err(internal)?;
    Ok(session.run("remove.sql", &script).await?)
}

async fn planned(session: &mut Seam, mapping: &Mapping) -> Result<Adoption, Error> {
    let found = catalog::read(session, &mapping.table.it).await?;
    plan_from(session, mapping, found).await
}

/// `found`: what the catalog says of the mapping's table.
pub(super) async fn plan_from(
    session: &mut Seam,
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
    if is_somebody_elses(session).await? {
        let line = mapping.schema.as_ref().map_or(mapping.table.line, |schema| schema.line);
        let message =
            format!("schema {schema} has objects that are not readpast's; choose a name that no schema has yet");
        return Err(mapping.refusal(line, message));
    }
    let scripts = script::scripts(&plan, seam::scripts()).map_err(internal)?;
    Ok(Adoption { plan, schema, scripts })
}

/// The tables to which rows are moved, where they are there.
async fn others(session: &mut Seam, mapping: &Mapping) -> Result<Vec<Table>, Error> {
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
    seam::internal(format!("the scripts of the adoption: {message}")).into()
}

/// Looks whether the schema is somebody's already.
const WHOSE_SCHEMA: &str = include_str!("../sql/whose_schema.sql");

/// Whether the schema has objects that are not readpast's.
async fn is_somebody_elses(session: &mut Seam) -> Result<bool, Error> {
    let mut results = session.query("whose schema", &WHOSE_SCHEMA.replace("$(schema)", session.schema())).await?;
    let Some(mut row) = results.pop().and_then(|mut rows| rows.pop()) else { return Ok(false) };
    Ok(row.required::<i32>("is_somebody_elses")? == 1)
}
