//! Resolves the names of the mapping.

use crate::error::Error;
use crate::expression::Value;
use crate::mapping::{At, Claim, End, Set};

use super::plan::{Plan, no_column};

impl Plan {
    /// Writes the mapping's names in the catalog's spelling, so that later code can compare them.
    pub(super) fn take_names(&mut self) -> Result<(), Error> {
        let mapping = self.mapping.clone();
        let own = |plan: &Plan, at: &At<String>| -> Result<At<String>, Error> {
            Ok(At { it: plan.column(at)?.name, line: at.line })
        };
        let list =
            |plan: &Plan, list: &[At<String>]| list.iter().map(|at| own(plan, at)).collect::<Result<Vec<_>, _>>();
        let named = |plan: &Plan, value: &Value, line: usize| {
            value.renamed(&|name| match plan.table.column(name) {
                Some(column) => Ok(column.name.clone()),
                None => {
                    let why = no_column(&plan.table, name);
                    plan.refused(line, format!("{why} (a text value needs its own quotes: \"'{name}'\")"))
                }
            })
        };
        let sets = |plan: &Plan, sets: &[Set]| {
            let one = |set: &Set| -> Result<Set, Error> {
                let value = named(plan, &set.value, set.column.line)?;
                Ok(Set { column: own(plan, &set.column)?, value })
            };
            sets.iter().map(one).collect::<Result<Vec<_>, Error>>()
        };
        // In a move, the columns belong to the other table, and the values use columns of the adopted table.
        let end = |plan: &Plan, end: &End| -> Result<End, Error> {
            Ok(match end {
                End::Delete => End::Delete,
                End::Set(list) => End::Set(sets(plan, list)?),
                End::Move { table, values } => {
                    let mut moved = values.clone();
                    for set in &mut moved {
                        set.value = named(plan, &set.value, set.column.line)?;
                    }
                    End::Move { table: table.clone(), values: moved }
                }
            })
        };
        let about = |plan: &Plan, value: &Option<At<Value>>| -> Result<Option<At<Value>>, Error> {
            let Some(at) = value else { return Ok(None) };
            Ok(Some(At { it: named(plan, &at.it, at.line)?, line: at.line }))
        };
        self.mapping.key = list(self, &mapping.key)?;
        self.mapping.payload = list(self, &mapping.payload)?;
        for ordered in &mut self.mapping.order {
            ordered.column = match self.table.column(&ordered.column.it) {
                Some(column) => At { it: column.name.clone(), line: ordered.column.line },
                None => {
                    let message = no_column(&self.table, &ordered.column.it);
                    return Err(mapping.refusal(ordered.column.line, message));
                }
            };
        }
        if let Some(ready) = &mapping.ready {
            let rename =
                |name: &str| self.column(&At { it: name.to_string(), line: ready.line }).map(|column| column.name);
            self.mapping.ready = Some(At { it: ready.it.renamed(&rename)?, line: ready.line });
        }
        if let Claim::Set(list) = &mapping.claim.it {
            self.mapping.claim.it = Claim::Set(sets(self, list)?);
        }
        self.mapping.done.it = end(self, &mapping.done.it)?;
        self.mapping.dead.it = end(self, &mapping.dead.it)?;
        self.mapping.failed = sets(self, &mapping.failed)?;
        self.mapping.columns.created = about(self, &mapping.columns.created)?;
        self.mapping.columns.due = about(self, &mapping.columns.due)?;
        self.mapping.columns.priority = about(self, &mapping.columns.priority)?;
        self.mapping.columns.kind = about(self, &mapping.columns.kind)?;
        let columns = &mut self.mapping.columns;
        for at in [&mut columns.attempts, &mut columns.error].into_iter().flatten() {
            match self.table.column(&at.it) {
                Some(found) => at.it = found.name.clone(),
                None => return Err(mapping.refusal(at.line, no_column(&self.table, &at.it))),
            }
        }
        Ok(())
    }
}
