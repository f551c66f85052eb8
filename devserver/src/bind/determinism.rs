//! Whether the values of a computed column may be kept, by PERSISTED or in an index.
//!
//! Sources (MicrosoftDocs/sql-docs): "Deterministic and nondeterministic functions",
//! docs/relational-databases/user-defined-functions/deterministic-and-nondeterministic-functions.md; "Indexes on
//! computed columns", docs/relational-databases/indexes/indexes-on-computed-columns.md; the errors are those of
//! docs/relational-databases/errors-events/database-engine-events-and-errors-2000-to-2999.md and …-4000-to-4999.md.

use crate::bind::binder::Binder;
use crate::bind::query_scope::QueryScope;
use crate::bind::table_definition::table_scope;
use crate::error::{SqlError, SqlResult};
use crate::plan::collation_label::CollationLabel;
use crate::plan::scalar::{FunctionNode, Node, Scalar};
use crate::storage::{Column, Index, TableSchema};
use crate::tsql::{parse_expression, with_name_for_texts};
use crate::value::{DatePart, Length, SqlType, Value};

/// Why the values of a computed column are kept.
#[derive(Clone, Copy)]
pub enum Kept<'a> {
    Persisted,
    In(&'a Index),
}

/// 4936 and 2729 for an expression that may give another value each time, 2799 for a key that is not precise.
pub fn check_kept(binder: &mut Binder<'_>, schema: &TableSchema, column: &Column, kept: Kept<'_>) -> SqlResult<()> {
    let text = column.computed.as_ref().expect("only computed columns are looked at");
    let slot = binder.new_slot()?;
    let called_before = binder.function_calls;
    let mut facts = Facts::default();
    facts.look_into(bind_within(binder, table_scope(schema, slot), text)?)?;
    let calls_function = binder.function_calls > called_before;
    // The binder has converted constants already. With a column in their place, which is none of the table's, the
    // conversions of texts are seen too; where only a constant may stand there are none.
    let with_columns = with_name_for_texts(text, TEXT)?;
    if with_columns != *text.as_ref()
        && let Ok(bound) = bind_within(binder, scope_with_text(schema, slot), &with_columns)
    {
        facts.look_into(bound)?;
    }
    if facts.varies {
        return Err(match kept {
            Kept::Persisted => SqlError::new(
                4936,
                format!(
                    "Computed column '{}' in table '{}' cannot be persisted because the column is non-deterministic.",
                    column.name, schema.name
                ),
            ),
            Kept::In(_) => SqlError::new(
                2729,
                format!(
                    "Column '{}' in table '{}' cannot be used in an index or statistics or as a partition key because it \
                     is non-deterministic.",
                    column.name, schema.name
                ),
            ),
        });
    }
    if calls_function {
        return Err(SqlError::not_supported(
            "a computed column that calls a user-defined function and is PERSISTED or in an index",
        ));
    }
    match kept {
        Kept::In(index) if facts.is_imprecise => Err(SqlError::new(
            2799,
            format!(
                "Cannot create index or statistics '{}' on table '{}' because the computed column '{}' is imprecise and \
                 not persisted. Consider removing column from index or statistics key or marking computed column \
                 persisted.",
                index.name, schema.name, column.name
            ),
        )),
        _ => Ok(()),
    }
}

/// The computed columns of a table that its indexes keep, and that are not PERSISTED.
pub fn check_indexed(binder: &mut Binder<'_>, schema: &TableSchema, indexes: &[&Index]) -> SqlResult<()> {
    for (ordinal, column) in schema.columns.iter().enumerate() {
        if column.computed.is_none() || column.persisted {
            continue;
        }
        if let Some(index) = indexes.iter().find(|index| index.contains(ordinal)) {
            check_kept(binder, schema, column, Kept::In(index))?;
        }
    }
    Ok(())
}

/// No column can have this name.
const TEXT: &str = "\u{1}";

/// The scope of a table with a text beside its columns.
fn scope_with_text(schema: &TableSchema, slot: usize) -> QueryScope {
    let mut scope = table_scope(schema, slot);
    let columns = &mut scope.sources[0].columns;
    if let Some(mut text) = columns.first().cloned() {
        text.name = TEXT.into();
        text.scalar.ty = SqlType::NVarChar(Length::Limit(4000));
        text.scalar.label = CollationLabel::Coercible;
        columns.push(text);
    }
    scope
}

fn bind_within(binder: &mut Binder<'_>, scope: QueryScope, text: &str) -> SqlResult<Scalar> {
    binder.scopes.push(scope);
    let bound = parse_expression(text).and_then(|expr| binder.bind_expr(&expr));
    binder.scopes.pop();
    bound
}

#[derive(Default)]
struct Facts {
    varies: bool,
    is_imprecise: bool,
}

impl Facts {
    fn look_into(&mut self, mut bound: Scalar) -> SqlResult<()> {
        // Nothing is replaced: it is the way to see each expression with its type.
        bound.replace(&mut |scalar| {
            self.look_at(scalar);
            Ok(None)
        })
    }

    fn look_at(&mut self, scalar: &Scalar) {
        self.is_imprecise |= matches!(scalar.ty, SqlType::Float | SqlType::Real);
        self.varies |= match &scalar.node {
            // "All the configuration, cursor, metadata, security, and system statistical functions are
            // nondeterministic."
            Node::System(..) => true,
            Node::Function(call) => function_varies(call),
            Node::Convert { operand, style, .. } => conversion_varies(operand.ty, scalar.ty, style.as_deref()),
            _ => false,
        };
    }
}

fn function_varies(call: &FunctionNode) -> bool {
    match call.function.name {
        "GETDATE" | "GETUTCDATE" | "SYSDATETIME" | "SYSUTCDATETIME" | "SYSDATETIMEOFFSET" | "RAND" => true,
        // Language and SET DATEFIRST have a say in them.
        "DATENAME" => true,
        // What it says of a text goes by the language (docs/t-sql/functions/isdate-transact-sql.md).
        "ISDATE" => true,
        "ISNULL" => matches!(call.types[..], [ty, other] if conversion_varies(other, ty, None)),
        "DATEPART" if matches!(call.date_part, Some(DatePart::Weekday | DatePart::Week)) => true,
        _ => reads_text_as_date(call) || Node::Function(Box::new(call.clone())).is_volatile(),
    }
}

/// An implicit conversion that the function makes by itself: see [`conversion_varies`].
fn reads_text_as_date(call: &FunctionNode) -> bool {
    let moments = match call.function.name {
        "DATEADD" => &call.types[1..],
        "DATEDIFF" | "DATEDIFF_BIG" => &call.types[..],
        "DATEPART" | "YEAR" | "MONTH" | "DAY" | "EOMONTH" => &call.types[..1],
        _ => &[],
    };
    moments.iter().any(|ty| ty.is_character())
}

/// From text to a date, and from `datetime` to text, only a constant style of those that do not go by the language is
/// deterministic. "Implicit date conversions became nondeterministic": docs/t-sql/data-types/
/// nondeterministic-convert-date-literals.md.
fn conversion_varies(from: SqlType, to: SqlType, style: Option<&Scalar>) -> bool {
    if from == SqlType::Variant || to == SqlType::Variant {
        return true;
    }
    let is_written = matches!(from, SqlType::DateTime | SqlType::SmallDateTime) && to.is_character();
    let is_read = from.is_character() && to.is_date_or_time() && !matches!(to, SqlType::Time(_));
    if !is_written && !is_read {
        return false;
    }
    let style = style.and_then(Scalar::as_constant).and_then(Value::as_i64);
    !style.is_some_and(|style| matches!(style, 20 | 21) || (style > 100 && !matches!(style, 106 | 107 | 109 | 113)))
}
