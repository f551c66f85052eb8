//! Which triggers a statement fires.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::catalog::object::{Object, Trigger};
use crate::error::{SqlError, SqlResult};
use crate::plan::trigger::TriggerTarget;
use crate::storage::{Lifetime, ObjectId, TableSchema};
use crate::tsql::ast::TriggerEvent;

impl Binder<'_> {
    /// The triggers that a change of the table fires, in the order of their creation. 334 if the statement would send
    /// rows by OUTPUT beside them.
    pub fn bind_triggers(
        &self,
        schema: &TableSchema,
        events: &[TriggerEvent],
        sends_output: bool,
    ) -> SqlResult<Option<TriggerTarget>> {
        if schema.lifetime != Lifetime::Permanent {
            return Ok(None);
        }
        let triggers = triggers_of(&self.database.catalog.read().objects().collect::<Vec<_>>(), schema.id);
        let triggers: Vec<_> = triggers
            .into_iter()
            .filter(|trigger| !trigger.disabled && trigger.events.iter().any(|event| events.contains(event)))
            .collect();
        if triggers.is_empty() {
            return Ok(None);
        }
        let (instead_of, triggers): (Vec<_>, Vec<_>) = triggers.into_iter().partition(|trigger| trigger.instead_of);
        let instead_of = instead_of.into_iter().next();
        if sends_output {
            return Err(SqlError::new(
                334,
                format!(
                    "The target table '{}' of the DML statement cannot have any enabled triggers if the statement \
                     contains an OUTPUT clause without INTO clause.",
                    schema.name
                ),
            ));
        }
        Ok(Some(TriggerTarget { table: schema.id, triggers, instead_of }))
    }

    /// Whether a table has an enabled trigger for DELETE.
    pub fn has_triggers_for_delete(&self, schema: &TableSchema) -> bool {
        let triggers = triggers_of(&self.database.catalog.read().objects().collect::<Vec<_>>(), schema.id);
        let mut enabled = triggers.iter().filter(|trigger| !trigger.disabled && !trigger.instead_of);
        enabled.any(|trigger| trigger.events.contains(&TriggerEvent::Delete))
    }

    /// OUTPUT … INTO a table with triggers.
    pub fn check_no_triggers(&self, schema: &TableSchema) -> SqlResult<()> {
        let triggers = triggers_of(&self.database.catalog.read().objects().collect::<Vec<_>>(), schema.id);
        if schema.lifetime != Lifetime::Permanent || triggers.iter().all(|trigger| trigger.disabled) {
            return Ok(());
        }
        Err(SqlError::not_supported(format!("OUTPUT INTO '{}', which has triggers", schema.name)))
    }
}

pub fn triggers_of(objects: &[&Object], table: ObjectId) -> Vec<Arc<Trigger>> {
    let mut triggers: Vec<Arc<Trigger>> = objects
        .iter()
        .filter_map(|object| match object {
            Object::Trigger(trigger) if trigger.table == table => Some(Arc::clone(trigger)),
            _ => None,
        })
        .collect();
    triggers.sort_by_key(|trigger| trigger.procedure.id);
    triggers
}
