//! Binds calls of aggregates: what they may stand over, and the slot in which their results stand.

use crate::bind::binder::Binder;
use crate::bind::conversion::{implicit, no_text_or_image};
use crate::bind::expression::is_null;
use crate::bind::query_scope::{Clause, QueryScope};
use crate::error::{SqlError, SqlResult};
use crate::plan::collation_label::CollationLabel;
use crate::plan::query::{AggregateCall, AggregateFunction};
use crate::plan::scalar::{Node, Scalar};
use crate::tsql::ast::{Expr, FunctionCall};
use crate::value::{Length, SqlType};

pub(super) fn aggregate_function(name: &str) -> Option<AggregateFunction> {
    Some(match name {
        "count" => AggregateFunction::Count,
        "count_big" => AggregateFunction::CountBig,
        "sum" => AggregateFunction::Sum,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        "string_agg" => AggregateFunction::StringAgg,
        _ => return None,
    })
}

/// 130: an aggregate or a subquery within an aggregate.
pub fn nested_aggregate() -> SqlError {
    SqlError::new(130, "Cannot perform an aggregate function on an expression containing an aggregate or a subquery.")
        .severity(15)
}

/// The type of SUM.
///
/// Source: "SUM" (MicrosoftDocs/sql-docs, docs/t-sql/functions/sum-transact-sql.md).
fn sum_type(ty: SqlType) -> SqlResult<SqlType> {
    match ty {
        SqlType::TinyInt | SqlType::SmallInt | SqlType::Int => Ok(SqlType::Int),
        SqlType::BigInt => Ok(SqlType::BigInt),
        SqlType::Real | SqlType::Float => Ok(SqlType::Float),
        _ => Err(SqlError::not_supported(format!("SUM of {}", ty.name()))),
    }
}

/// The separator of STRING_AGG "is an expression of type nvarchar or varchar … It can be literal or variable"
/// ("STRING_AGG", MicrosoftDocs/sql-docs, docs/t-sql/functions/string-agg-transact-sql.md).
fn check_separator(argument: &Scalar, separator: &Scalar, written: &Expr) -> SqlResult<()> {
    let mut is_constant = true;
    separator.visit(&mut |node| match node {
        Node::Constant(_) | Node::Binary(..) | Node::Convert { .. } => {}
        _ => is_constant = false,
    });
    let is_text = separator.ty.is_character() && !separator.ty.is_max();
    let is_alike = separator.label == CollationLabel::Coercible || separator.label == argument.label;
    if is_null(written) || is_text && is_alike && (is_constant || matches!(written, Expr::Variable(_))) {
        return Ok(());
    }
    Err(SqlError::not_supported("a separator of STRING_AGG that is neither a constant text nor a variable"))
}

impl Binder<'_> {
    pub(super) fn bind_aggregate(
        &mut self,
        call: &FunctionCall,
        function: AggregateFunction,
    ) -> SqlResult<AggregateCall> {
        let name = call.name.name.to_lowercase();
        if call.star {
            if !matches!(function, AggregateFunction::Count | AggregateFunction::CountBig) {
                return Err(SqlError::new(102, "Incorrect syntax near '*'.").severity(15));
            }
            let ty = if function == AggregateFunction::Count { SqlType::Int } else { SqlType::BigInt };
            return Ok(AggregateCall { function, distinct: false, argument: None, separator: None, ty });
        }
        let expected = if function == AggregateFunction::StringAgg { 2 } else { 1 };
        if call.arguments.len() != expected || is_null(&call.arguments[0]) {
            return Err(SqlError::not_supported(format!("these arguments of {name}")));
        }
        // `SUM(COUNT(*)) OVER ()`: a window function is computed over the groups.
        let clause = if call.over.is_none() { Some(self.set_clause(Clause::InAggregate)) } else { None };
        let bound = self.without_next_value(|binder| binder.bind_aggregate_arguments(call, function));
        if let Some(clause) = clause {
            self.set_clause(clause);
        }
        let (argument, separator) = bound?;
        argument.label.check_resolved()?;
        if let Some(separator) = &separator {
            check_separator(&argument, separator, &call.arguments[1])?;
        }
        if self.scopes.last().is_some() {
            let own = self.own_slots();
            let slots = argument.slots();
            if slots != 0 && slots & own == 0 {
                return Err(SqlError::not_supported("an aggregate over the columns of an outer query"));
            }
        }
        no_text_or_image(argument.ty, "an aggregate")?;
        let ty = match function {
            AggregateFunction::Count => SqlType::Int,
            AggregateFunction::CountBig => SqlType::BigInt,
            AggregateFunction::Sum => sum_type(argument.ty)?,
            AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::StringAgg
                if argument.ty == SqlType::Variant =>
            {
                return Err(SqlError::not_supported(format!("{name} of a sql_variant")));
            }
            AggregateFunction::Min | AggregateFunction::Max => {
                if argument.ty == SqlType::Bit {
                    return Err(SqlError::not_supported(format!("{name} of bit")));
                }
                argument.ty
            }
            AggregateFunction::StringAgg => match argument.ty {
                SqlType::NVarChar(Length::Max) | SqlType::VarChar(Length::Max) => argument.ty,
                ty if ty.is_unicode() => SqlType::NVarChar(Length::Limit(4000)),
                _ => SqlType::VarChar(Length::Limit(8000)),
            },
        };
        let argument = match function {
            AggregateFunction::Sum => implicit(argument, ty)?,
            AggregateFunction::StringAgg if !argument.ty.is_character() => {
                implicit(argument, SqlType::NVarChar(Length::Limit(4000)))?
            }
            _ => argument,
        };
        Ok(AggregateCall { function, distinct: call.distinct, argument: Some(argument), separator, ty })
    }

    pub(super) fn bind_aggregate_arguments(
        &mut self,
        call: &FunctionCall,
        function: AggregateFunction,
    ) -> SqlResult<(Scalar, Option<Scalar>)> {
        let argument = self.bind_expr(&call.arguments[0])?;
        let separator = match function {
            AggregateFunction::StringAgg => Some(self.bind_expr(&call.arguments[1])?),
            _ => None,
        };
        Ok((argument, separator))
    }

    /// Changes the clause that is being bound; returns the one before.
    pub fn set_clause(&mut self, clause: Clause) -> Clause {
        match self.scopes.last_mut() {
            Some(scope) => std::mem::replace(&mut scope.clause, clause),
            None => Clause::NoAggregates,
        }
    }

    pub(super) fn push_aggregate(&mut self, call: AggregateCall) -> SqlResult<Scalar> {
        let clause = self.scopes.last().map_or(Clause::NoAggregates, |scope| scope.clause);
        match clause {
            Clause::Aggregates => {}
            Clause::InAggregate => {
                return Err(nested_aggregate());
            }
            Clause::NoAggregates => {
                return Err(SqlError::new(
                    147,
                    "An aggregate may not appear in the WHERE clause unless it is in a subquery contained in a HAVING \
                     clause or a select list, and the column being aggregated is an outer reference.",
                )
                .severity(15));
            }
        }
        let label = call.argument.as_ref().filter(|_| call.ty.is_character()).map(|argument| argument.label);
        let ty = call.ty;
        let nullable = !matches!(call.function, AggregateFunction::Count | AggregateFunction::CountBig);
        let slot = match self.innermost()?.aggregate_slot {
            Some(slot) => slot,
            None => {
                let slot = self.new_slot()?;
                self.innermost()?.aggregate_slot = Some(slot);
                slot
            }
        };
        let scope = self.innermost()?;
        scope.aggregates.push(call);
        let ordinal = scope.group_by.len() + scope.aggregates.len() - 1;
        Ok(Scalar {
            node: Node::Column { slot, ordinal },
            ty,
            nullable,
            label: label.unwrap_or(CollationLabel::Coercible),
        })
    }

    pub(crate) fn innermost(&mut self) -> SqlResult<&mut QueryScope> {
        self.scopes.last_mut().ok_or_else(|| SqlError::not_supported("an aggregate outside of a query"))
    }
}
