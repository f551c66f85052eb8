//! Binds SELECT as a statement: variables that it assigns, and the table of INTO.

use crate::bind::binder::Binder;
use crate::bind::block::{Block, BoundQuery};
use crate::error::{SqlError, SqlResult};
use crate::plan::cached_plan::Uses;
use crate::plan::query::{Body, SortKey};
use crate::plan::relation::Relation;
use crate::plan::scalar::Node;
use crate::plan::select_statement::{IntoTable, SelectStatementPlan};
use crate::tsql::ast::{Identity, ObjectName, QueryBody, SelectStatement};

pub(super) fn bind_select_statement(
    binder: &mut Binder<'_>,
    select: &SelectStatement,
) -> SqlResult<SelectStatementPlan> {
    binder.loop_joins = select.loop_joins;
    binder.ctes.clone_from(&select.ctes);
    let bound = binder.bind_query(&select.query, true)?;
    if binder.uses == Uses::Nothing {
        // Even `SELECT 1` takes its turn: a result must not be computed in the middle of another session's statement.
        binder.uses = Uses::Database;
    }
    let into = into_table(select, &bound);
    let variables = match &bound {
        BoundQuery::Block(block) => {
            let places: Vec<usize> = block.items.iter().filter_map(|item| item.variable).collect();
            (!places.is_empty()).then_some(places)
        }
        BoundQuery::Plan(_) => None,
    };
    let order = result_order(&bound);
    let query = binder.finish(bound)?;
    if let Body::Select(select) = &query.body
        && variables.is_some()
        && !select.sort.is_empty()
        && select.limit.is_none()
    {
        // What a variable gathers in this way is not defined: "SELECT @local_variable" (MicrosoftDocs/sql-docs,
        // docs/t-sql/language-elements/select-local-variable-transact-sql.md).
        let mut reads_variable = false;
        for item in &select.items {
            item.visit(&mut |node| reads_variable |= matches!(node, Node::Variable(_)));
        }
        if reads_variable {
            return Err(SqlError::not_supported("assignments that read variables in a SELECT with ORDER BY"));
        }
    }
    Ok(SelectStatementPlan { query, order, variables, into })
}

/// The columns of the result, from 1, that ORDER BY goes by; none where one of them is not in the result.
fn result_order(bound: &BoundQuery) -> Vec<u16> {
    let positions: Option<Vec<usize>> = match bound {
        BoundQuery::Block(block) => {
            let place = |key: &SortKey| block.items.iter().position(|item| item.scalar == key.scalar);
            block.sort.iter().map(place).collect()
        }
        BoundQuery::Plan(plan) => match &plan.body {
            Body::Set(set) => Some(set.sort.iter().map(|sort| sort.column).collect()),
            Body::Select(_) | Body::Recursive(_) => None,
        },
    };
    positions.unwrap_or_default().into_iter().map(|position| position as u16 + 1).collect()
}

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
fn into_table(statement: &SelectStatement, bound: &BoundQuery) -> Option<IntoTable> {
    let name = into_name(&statement.query.body)?.clone();
    let identity = match bound {
        BoundQuery::Block(block) => inherited_identity(block),
        BoundQuery::Plan(_) => None,
    };
    Some(IntoTable { name, identity })
}
