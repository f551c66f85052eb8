//! Checks whether an installed adoption still fits its table.

use readpast::Queue;

use crate::error::Error;

use super::catalog;
use super::install::plan_from;
use super::installed::installed;

/// The result of [`check`].
#[derive(Debug, Clone, serde::Serialize)]
#[non_exhaustive]
pub struct AdoptionCheck {
    /// The table, as `schema.table`.
    pub table: String,
    /// The name of the queue.
    pub queue: String,
    /// How the table has changed since it was adopted, one sentence per difference.
    pub changes: Vec<String>,
    /// Why the table could not be adopted in its current state. `None` if it could: then installing the adoption again
    /// accepts the changes.
    pub refusal: Option<String>,
}

impl AdoptionCheck {
    /// Whether nothing has changed.
    pub fn is_ok(&self) -> bool {
        self.changes.is_empty() && self.refusal.is_none()
    }
}

/// Compares the installed adoption of the queue's schema with the current table. Changes nothing.
///
/// # Errors
///
/// [`readpast::Error::NotInstalled`] if the schema has no adoption, and the errors of any call.
pub async fn check(queue: &Queue) -> Result<AdoptionCheck, Error> {
    let mut session = queue.admin().seam().await?;
    let (mapping, facts) = installed(&mut session).await?;
    let found = catalog::read(&mut session, &mapping.table.it).await?;
    let changes = match &found.0 {
        _ if facts.is_empty() => vec!["an installation did not finish".to_string()],
        Some(table) => differences(&facts, &table.facts()),
        None => vec![format!("the table {} no longer exists, or this login may not see it", mapping.table.it)],
    };
    let refusal = match plan_from(&mut session, &mapping, found).await {
        Ok(_) => None,
        Err(Error::Mapping { place, message }) => Some(format!("{place} of the mapping: {message}")),
        Err(error) => return Err(error),
    };
    Ok(AdoptionCheck { table: mapping.table(), queue: mapping.queue().to_string(), changes, refusal })
}

fn subject(line: &str) -> &str {
    line.split_once(": ").map_or(line, |(subject, _)| subject)
}

fn differences(before: &str, now: &str) -> Vec<String> {
    let find = |facts: &'_ str, wanted: &str| {
        facts.lines().find(|line| subject(line) == wanted).map(|line| line[wanted.len() + 2..].to_string())
    };
    let mut differences = Vec::new();
    for line in before.lines() {
        let subject = subject(line);
        let was = &line[subject.len() + 2..];
        match find(now, subject) {
            Some(is) if is == was => {}
            Some(is) => differences.push(format!("{subject} was {was} and is {is}")),
            None => differences.push(format!("{subject} was {was} and is gone")),
        }
    }
    for line in now.lines() {
        let subject = subject(line);
        // A new index does not matter.
        if find(before, subject).is_none() && !subject.starts_with("index ") {
            differences.push(format!("{subject} is new: {}", &line[subject.len() + 2..]));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_by_what_they_are_about() {
        let before = "column a: int not null\ncolumn b: bit null\nindex i: ([a])\n";
        assert!(differences(before, before).is_empty());
        let now = "column a: bigint not null\nindex i: ([a])\ntrigger t: enabled\n";
        assert_eq!(
            differences(before, now),
            [
                "column a was int not null and is bigint not null",
                "column b was bit null and is gone",
                "trigger t is new: enabled"
            ]
        );
    }
}
