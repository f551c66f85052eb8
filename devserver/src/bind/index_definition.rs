//! Indexes as they are defined: key, included columns, options, filter.

use std::sync::Arc;

use crate::bind::conversion::no_text_or_image;
use crate::bind::expression::literal;
use crate::catalog::normal_form::{bracketed_column, comparison_sign, constant};
use crate::error::{SqlError, SqlResult};
use crate::storage::{CLUSTERED, Filter, FilterTerm, Index, IndexOptions, KeyColumn, TableSchema, Uniqueness, fold};
use crate::tsql::ast::{self, ColumnRef, Expr, Ident, IndexColumn, IndexOption, InlineIndex, Predicate};
use crate::value::{self, Value};

pub(super) fn inline_index(schema: &TableSchema, index: &InlineIndex) -> SqlResult<Index> {
    let key = key_columns(schema, &index.columns, false)?;
    let included = included_columns(schema, &index.include)?;
    let filter = match &index.filter {
        Some(filter) => Some(bind_filter(schema, &index.name, filter)?),
        None => None,
    };
    Ok(Index {
        id: if index.clustered { CLUSTERED } else { 0 },
        name: Arc::clone(&index.name),
        key,
        uniqueness: if index.unique { Uniqueness::Index } else { Uniqueness::None },
        included,
        filter,
        options: index_options(&index.options)?,
    })
}

/// The options of a new index; those that would change what it does, and are not known here, are refused.
pub fn index_options(options: &[IndexOption]) -> SqlResult<IndexOptions> {
    let mut result = IndexOptions::default();
    set_index_options(&mut result, options)?;
    Ok(result)
}

/// Changes those options that are named.
pub fn set_index_options(result: &mut IndexOptions, options: &[IndexOption]) -> SqlResult<()> {
    for option in options {
        match option {
            IndexOption::IgnoreDupKey(on) => result.ignore_dup_key = *on,
            IndexOption::AllowPageLocks(on) => result.allow_page_locks = *on,
            IndexOption::StatisticsNoRecompute(on) => result.statistics_norecompute = *on,
            IndexOption::OptimizeForSequentialKey(on) => result.optimize_for_sequential_key = *on,
            IndexOption::FillFactor(percent) => result.fill_factor = fill_factor(*percent)?,
            IndexOption::DropExisting(true) => return Err(SqlError::not_supported("DROP_EXISTING = ON")),
            IndexOption::AllowRowLocks(false) => return Err(SqlError::not_supported("ALLOW_ROW_LOCKS = OFF")),
            IndexOption::OfStorage
            | IndexOption::DropExisting(false)
            | IndexOption::Online(_)
            | IndexOption::AllowRowLocks(true) => {}
        }
    }
    Ok(())
}

fn fill_factor(percent: u32) -> SqlResult<u8> {
    u8::try_from(percent).ok().filter(|percent| (1..=100).contains(percent)).ok_or_else(|| {
        let message = format!("Fillfactor {percent} is not a valid percentage; fillfactor must be between 1 and 100.");
        SqlError::new(129, message).severity(15)
    })
}

/// A sparse column cannot be in a clustered index or a primary key ("Use Sparse Columns").
pub fn key_columns(schema: &TableSchema, columns: &[IndexColumn], may_be_sparse: bool) -> SqlResult<Vec<KeyColumn>> {
    let mut key: Vec<KeyColumn> = Vec::with_capacity(columns.len());
    for column in columns {
        let ordinal = index_column(schema, &column.name)?;
        no_text_or_image(schema.columns[ordinal].sql_type, "an index")?;
        if schema.columns[ordinal].sql_type.is_max() || (schema.columns[ordinal].is_sparse && !may_be_sparse) {
            return Err(SqlError::not_supported(format!("the column '{}' in the key of an index", column.name)));
        }
        if key.iter().any(|other| other.column == ordinal) {
            return Err(SqlError::not_supported(format!("the column '{}' twice in an index", column.name)));
        }
        key.push(KeyColumn { column: ordinal, descending: column.descending });
    }
    Ok(key)
}

pub fn included_columns(schema: &TableSchema, names: &[Ident]) -> SqlResult<Vec<usize>> {
    let mut included = Vec::with_capacity(names.len());
    for name in names {
        let ordinal = index_column(schema, name)?;
        no_text_or_image(schema.columns[ordinal].sql_type, "an index")?;
        included.push(ordinal);
    }
    Ok(included)
}

fn index_column(schema: &TableSchema, name: &str) -> SqlResult<usize> {
    schema
        .column_named(name)
        .ok_or_else(|| SqlError::new(1911, format!("Column name '{name}' does not exist in the target table or view.")))
}

/// The WHERE of a filtered index.
pub fn bind_filter(schema: &TableSchema, index: &str, filter: &ast::Filter) -> SqlResult<Filter> {
    let incorrect = || SqlError::not_supported(format!("the filter of the index '{index}'"));
    let filter_column = |ColumnRef { table, name }: &ColumnRef| {
        if let Some(table) = table
            && fold(&table.name) != fold(&schema.name)
        {
            let message = format!("the column {}.{name} in the filter of an index on another table", table.name);
            return Err(SqlError::not_supported(message));
        }
        let column = index_column(schema, name)?;
        no_text_or_image(schema.columns[column].sql_type, "the filter of an index")?;
        if schema.columns[column].computed.is_some() {
            return Err(SqlError::not_supported(format!("the computed column '{name}' in the filter of an index")));
        }
        Ok(column)
    };
    let mut terms = Vec::new();
    let conditions = match &filter.condition {
        Predicate::And(conditions) => conditions.as_slice(),
        other => std::slice::from_ref(other),
    };
    for condition in conditions {
        terms.push(match condition {
            Predicate::Compare { op, left: Expr::Column(column), right } => {
                let column = filter_column(column)?;
                let constant = filter_constant(schema, column, right)?.ok_or_else(incorrect)?;
                FilterTerm::Compare { column, operator: *op, constant }
            }
            Predicate::InList { negated: false, value: Expr::Column(column), list } => {
                let column = filter_column(column)?;
                let mut constants = Vec::with_capacity(list.len());
                for item in list {
                    constants.push(filter_constant(schema, column, item)?.ok_or_else(incorrect)?);
                }
                FilterTerm::In { column, constants }
            }
            Predicate::IsNull { negated, value: Expr::Column(column) } => {
                let column = filter_column(column)?;
                if *negated { FilterTerm::IsNotNull { column } } else { FilterTerm::IsNull { column } }
            }
            _ => return Err(incorrect()),
        });
    }
    let text = normalized(conditions).unwrap_or_else(|| filter.text.to_string());
    Ok(Filter { terms, text: text.into() })
}

/// The conditions as sys.indexes has them: names in brackets, numbers in parentheses, and IN too where it is not alone.
/// `None` where the form is not known here: of a float, and of a column with its table.
fn normalized(conditions: &[Predicate]) -> Option<String> {
    let mut parts = Vec::with_capacity(conditions.len());
    for condition in conditions {
        parts.push(match condition {
            Predicate::Compare { op, left: Expr::Column(column), right } => {
                format!("{}{}{}", bracketed_column(column)?, comparison_sign(*op), constant(right)?)
            }
            Predicate::InList { value: Expr::Column(column), list, .. } => {
                let constants: Option<Vec<String>> = list.iter().map(constant).collect();
                let among = format!("{} IN ({})", bracketed_column(column)?, constants?.join(", "));
                if conditions.len() > 1 { format!("({among})") } else { among }
            }
            Predicate::IsNull { negated, value: Expr::Column(column) } => {
                format!("{} IS {}NULL", bracketed_column(column)?, if *negated { "NOT " } else { "" })
            }
            _ => return None,
        });
    }
    Some(parts.join(" AND "))
}

/// A constant of the column's type.
fn filter_constant(schema: &TableSchema, column: usize, expr: &Expr) -> SqlResult<Option<Value>> {
    let Expr::Literal(written) = expr else { return Ok(None) };
    let scalar = literal(written)?;
    let Some(constant) = scalar.as_constant() else { return Ok(None) };
    value::convert(constant.clone(), scalar.ty, schema.columns[column].sql_type, None, false).map(Some)
}
