//! Binds recursive common table expressions: anchors, and members that refer to the rows found last.
//!
//! Source: "WITH common_table_expression" (MicrosoftDocs/sql-docs,
//! docs/t-sql/queries/with-common-table-expression-transact-sql.md), "Guidelines for defining and using recursive
//! common table expressions"; the errors are those of docs/relational-databases/errors-events/
//! database-engine-events-and-errors-0-to-999.md.

use std::sync::Arc;

use crate::bind::binder::{Binder, Recursion};
use crate::bind::block::BoundQuery;
use crate::error::{SqlError, SqlResult};
use crate::plan::query::{Body, ColumnOrigin, OutputColumn, QueryPlan, RecursivePlan};
use crate::plan::relation::Relation;
use crate::storage::fold;
use crate::tsql::ast::{Cte, Ident, JoinKind, QueryBody, SetOperator, TableSource};

/// How a query mentions a CTE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mention {
    None,
    /// In FROM.
    Plain,
    /// Where its rows may be missing, or in a derived table.
    Otherwise,
}

fn mention_in(body: &QueryBody, name: &str) -> Mention {
    match body {
        QueryBody::Select(select) => {
            select.from.iter().map(|source| mention_in_source(source, name)).max().unwrap_or(Mention::None)
        }
        QueryBody::SetOperation { left, right, .. } => mention_in(left, name).max(mention_in(right, name)),
    }
}

fn mention_in_source(source: &TableSource, name: &str) -> Mention {
    let optional = |mention: Mention| if mention == Mention::Plain { Mention::Otherwise } else { mention };
    match source {
        TableSource::Table { name: table, .. } if table.schema.is_none() && fold(&table.name) == name => Mention::Plain,
        TableSource::Derived { query, .. } => {
            if mention_in(&query.body, name) == Mention::None {
                Mention::None
            } else {
                Mention::Otherwise
            }
        }
        TableSource::Join { kind, left, right, .. } => {
            let (mut left, mut right) = (mention_in_source(left, name), mention_in_source(right, name));
            if *kind == JoinKind::Right {
                left = optional(left);
            }
            if *kind == JoinKind::Left {
                right = optional(right);
            }
            left.max(right)
        }
        TableSource::Apply { outer, left, right } => {
            let right = mention_in_source(right, name);
            mention_in_source(left, name).max(if *outer { optional(right) } else { right })
        }
        _ => Mention::None,
    }
}

/// Whether a CTE refers to itself.
pub fn is_recursive(cte: &Cte) -> bool {
    mention_in(&cte.query.body, &fold(&cte.name)) != Mention::None
}

/// What UNION ALL joins, in the order written.
fn members(body: &QueryBody) -> Vec<&QueryBody> {
    match body {
        QueryBody::SetOperation { op: SetOperator::UnionAll, left, right } => {
            let mut all = members(left);
            all.push(right);
            all
        }
        other => vec![other],
    }
}

impl Binder<'_> {
    /// The query of a recursive CTE.
    pub fn bind_recursive(&mut self, cte: &Cte, place: usize) -> SqlResult<BoundQuery> {
        let name = fold(&cte.name);
        let all = members(&cte.query.body);
        let first_member = all.iter().position(|body| mention_in(body, &name) != Mention::None).unwrap_or(all.len());
        if all.len() == 1 || first_member == 0 || !cte.query.order_by.is_empty() {
            return Err(SqlError::not_supported(format!("the CTE {}, which refers to itself", cte.name)));
        }
        let mut anchors = Vec::new();
        for body in &all[..first_member] {
            anchors.push(self.bind_operand(body)?);
        }
        let columns = anchors[0].columns.clone();
        let types: Vec<_> = columns.iter().map(|column| column.ty).collect();
        for anchor in &anchors {
            let alike = anchor.columns.iter().map(|column| column.ty).eq(types.iter().copied());
            if !alike {
                return Err(SqlError::not_supported("anchors of different types in a recursive CTE"));
            }
        }
        let columns: Vec<OutputColumn> = columns
            .into_iter()
            .map(|column| OutputColumn {
                nullable: true,
                shown_nullable: true,
                origin: ColumnOrigin::Computed,
                ..column
            })
            .collect();
        let working = self.new_slot()?;
        self.recursions.push(Recursion {
            place,
            name: Arc::clone(&cte.name),
            columns: columns.clone(),
            column_names: cte.columns.clone(),
            working,
        });
        let members = self.bind_members(cte, &all[first_member..], &columns);
        self.recursions.pop();
        let plan = RecursivePlan { anchors, members: members?, working };
        Ok(BoundQuery::Plan(Box::new(QueryPlan { columns, body: Body::Recursive(Box::new(plan)), outer_slots: 0 })))
    }

    fn bind_members(
        &mut self,
        cte: &Cte,
        bodies: &[&QueryBody],
        columns: &[OutputColumn],
    ) -> SqlResult<Vec<QueryPlan>> {
        let mut members = Vec::with_capacity(bodies.len());
        for body in bodies {
            let QueryBody::Select(select) = body else {
                return Err(SqlError::not_supported("a set operation in the recursive part of a CTE"));
            };
            let has_more =
                select.distinct || select.top.is_some() || !select.group_by.is_empty() || select.having.is_some();
            if has_more || mention_in(body, &fold(&cte.name)) != Mention::Plain {
                return Err(SqlError::not_supported(
                    "DISTINCT, TOP, GROUP BY, an outer join or a derived table in the recursive part of a CTE",
                ));
            }
            let plan = self.bind_operand(body)?;
            if plan.columns.len() != columns.len() {
                return Err(SqlError::not_supported("another number of columns in the recursive part of a CTE"));
            }
            if plan.columns.iter().zip(columns).any(|(column, anchor)| column.ty != anchor.ty) {
                return Err(SqlError::not_supported(format!("other types in the recursive part of {}", cte.name)));
            }
            members.push(plan);
        }
        Ok(members)
    }

    /// The rows found last, as a table of the member that is being bound.
    pub fn bind_recursive_reference(&mut self, recursion: &Recursion, alias: &Ident) -> SqlResult<Relation> {
        let slot = self.add_result(&recursion.columns, &recursion.name, &recursion.column_names, alias)?;
        Ok(Relation::Working { slot, working: recursion.working })
    }
}
