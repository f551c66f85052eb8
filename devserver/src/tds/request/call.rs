//! What a client asks for.

use crate::tsql::ast::IsolationLevel;
use crate::value::{SqlType, Value};

/// A message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Batch(String),
    Calls(Vec<RpcCall>),
    Transaction(TransactionRequest),
}

/// A request, and the transaction the client believes to be in (0: none).
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRequest {
    pub request: Request,
    pub transaction_descriptor: u64,
}

/// One remote procedure call; a message may hold several.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcCall {
    /// As the client wrote it, for example `readpast.claim` or `[readpast].[claim]`.
    pub procedure: String,
    pub parameters: Vec<RpcParameter>,
}

/// A parameter of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcParameter {
    /// With its `@`; `None` for a positional parameter.
    pub name: Option<String>,
    /// OUTPUT.
    pub by_ref: bool,
    pub value: RpcValue,
}

/// What is passed.
#[derive(Debug, Clone, PartialEq)]
pub enum RpcValue {
    /// The parameter's declared default. The type is the one in which the client wants an output; `None` for a table.
    Default {
        sql_type: Option<SqlType>,
    },
    /// A NULL without a type: fits a parameter of every type.
    UntypedNull,
    Scalar {
        sql_type: SqlType,
        value: Value,
    },
    /// A table-valued parameter. Without columns there are no rows either: an empty table.
    Table {
        type_schema: Option<String>,
        type_name: String,
        columns: Vec<SqlType>,
        rows: Vec<Vec<Value>>,
    },
}

/// The start of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginTransaction {
    /// `None`: the session's current level.
    pub isolation: Option<IsolationLevel>,
    /// Empty: unnamed.
    pub name: String,
}

/// BEGIN, COMMIT, ROLLBACK and SAVE without T-SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionRequest {
    Begin(BeginTransaction),
    Commit { name: String, then_begin: Option<BeginTransaction> },
    Rollback { name: String, then_begin: Option<BeginTransaction> },
    Save { name: String },
}
