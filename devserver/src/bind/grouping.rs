//! In a query with GROUP BY or aggregates: turns expressions over the rows into expressions over the groups.

use crate::bind::query_scope::VisibleSource;
use crate::error::{SqlError, SqlResult};
use crate::plan::scalar::{Condition, Node, Scalar, SlotSet, slot_bit};

/// Turns expressions over the rows into expressions over the groups.
pub(super) struct Grouping<'g> {
    pub(super) slot: usize,
    pub(super) group_by: &'g [Scalar],
    pub(super) base_slots: SlotSet,
    pub(super) sources: &'g [VisibleSource],
}

impl Grouping<'_> {
    fn replacement(&self, scalar: &Scalar, clause: &str) -> SqlResult<Option<Scalar>> {
        for (ordinal, expression) in self.group_by.iter().enumerate() {
            if expression == scalar {
                let node = Node::Column { slot: self.slot, ordinal };
                return Ok(Some(Scalar { node, ..scalar.clone() }));
            }
        }
        match &scalar.node {
            Node::Column { slot, .. } | Node::Computed { slot, .. } if slot_bit(*slot) & self.base_slots != 0 => {
                Err(self.not_grouped(scalar, clause))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn not_grouped(&self, scalar: &Scalar, clause: &str) -> SqlError {
        let name = self.column_name(scalar);
        let (number, name) = match clause {
            "HAVING clause" => (8121, format!("'{name}'")),
            "ORDER BY clause" => (8127, format!("\"{name}\"")),
            _ => (8120, format!("'{name}'")),
        };
        SqlError::new(
            number,
            format!(
                "Column {name} is invalid in the {clause} because it is not contained in either an aggregate function or \
                 the GROUP BY clause."
            ),
        )
    }

    fn column_name(&self, scalar: &Scalar) -> String {
        for source in self.sources {
            for column in &source.columns {
                if column.scalar == *scalar {
                    return format!("{}.{}", source.name, column.name);
                }
            }
        }
        String::new()
    }

    pub(super) fn apply(&self, scalar: &mut Scalar, clause: &str) -> SqlResult<()> {
        scalar.replace(&mut |scalar| self.replacement(scalar, clause))
    }

    pub(super) fn apply_condition(&self, condition: &mut Condition, clause: &str) -> SqlResult<()> {
        condition.replace(&mut |scalar| self.replacement(scalar, clause))
    }
}
