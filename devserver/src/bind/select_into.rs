//! Binds SELECT … INTO.

use crate::bind::query::{Block, BoundQuery};
use crate::plan::relation::Relation;
use crate::plan::select_statement::IntoTable;
use crate::storage::Identity;
use crate::tsql::ast::{ObjectName, QueryBody, SelectStatement};

/// The INTO of a SELECT: it stands in the first query of a set operation.
fn into_name(body: &QueryBody) -> Option<&ObjectName> {
    match body {
        QueryBody::Select(select) => select.into.as_ref(),
        QueryBody::SetOperation { left, .. } => into_name(left),
    }
}

/// The identity property goes on if the column comes once, as it is, from the only table of the query.
fn inherited_identity(block: &Block) -> Option<(usize, Identity)> {
    let Relation::Table(table) = &block.relation else { return None };
    if block.aggregation.is_some() || block.distinct {
        return None;
    }
    let mut found = None;
    for (position, item) in block.items.iter().enumerate() {
        let Some((slot, ordinal)) = item.scalar.as_column().filter(|(slot, _)| *slot == table.slot) else { continue };
        debug_assert_eq!(slot, table.slot);
        let Some(identity) = table.table.schema.columns[ordinal].identity else { continue };
        if found.replace((position, identity)).is_some() {
            return None;
        }
    }
    found
}

/// Where the rows of a SELECT go if it has an INTO.
pub fn into_table(statement: &SelectStatement, bound: &BoundQuery) -> Option<IntoTable> {
    let name = into_name(&statement.query.body)?.clone();
    let identity = match bound {
        BoundQuery::Block(block) => inherited_identity(block),
        BoundQuery::Plan(_) => None,
    };
    Some(IntoTable { name, identity })
}
