//! Functions about the server, the database and the session (`OBJECT_ID`, `@@ROWCOUNT`, `ERROR_MESSAGE` …): their
//! names, arguments and results. [`crate::execute::system_function`] computes them.

use crate::value::{DecimalName, Length, SqlType};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemFunction {
    // Global variables
    RowCount,
    Error,
    TranCount,
    Spid,
    Version,
    Identity,
    Options,
    LockTimeout,
    ServerName,
    ProcId,
    FetchStatus,
    // The session and its errors
    ScopeIdentity,
    ErrorNumber,
    ErrorMessage,
    ErrorSeverity,
    ErrorState,
    ErrorLine,
    ErrorProcedure,
    XactState,
    SessionProperty,
    SessionContext,
    HostName,
    AppName,
    // Names and numbers
    ObjectId,
    ObjectName,
    ObjectSchemaName,
    ObjectDefinition,
    SchemaId,
    SchemaName,
    TypeId,
    DbId,
    DbName,
    ColLength,
    ColumnProperty,
    IndexProperty,
    ObjectProperty,
    DatabasePropertyEx,
    ServerProperty,
    // Principals
    DatabasePrincipalId,
    UserName,
    SuserName,
    OriginalLogin,
    IsMember,
    IsRoleMember,
    HasPermsByName,
    AppLockMode,
    AppLockTest,
}

/// How a function is called.
pub struct Description {
    pub name: &'static str,
    pub function: SystemFunction,
    /// The fewest and the most arguments.
    pub arguments: (usize, usize),
    pub result: SqlType,
    /// It looks into the catalog.
    pub needs_storage: bool,
}

const NAME: SqlType = SqlType::NVarChar(Length::Limit(128));
/// "numeric(38,0)": "@@IDENTITY", "SCOPE_IDENTITY" (MicrosoftDocs/sql-docs, docs/t-sql/functions/).
const IDENTITY: SqlType = SqlType::Decimal { precision: 38, scale: 0, name: DecimalName::Numeric };

const fn session(
    name: &'static str,
    function: SystemFunction,
    arguments: (usize, usize),
    result: SqlType,
) -> Description {
    Description { name, function, arguments, result, needs_storage: false }
}

const fn catalog(
    name: &'static str,
    function: SystemFunction,
    arguments: (usize, usize),
    result: SqlType,
) -> Description {
    Description { name, function, arguments, result, needs_storage: true }
}

static FUNCTIONS: &[Description] = &[
    session("scope_identity", SystemFunction::ScopeIdentity, (0, 0), IDENTITY),
    session("error_number", SystemFunction::ErrorNumber, (0, 0), SqlType::Int),
    session("error_message", SystemFunction::ErrorMessage, (0, 0), SqlType::NVarChar(Length::Limit(4000))),
    session("error_severity", SystemFunction::ErrorSeverity, (0, 0), SqlType::Int),
    session("error_state", SystemFunction::ErrorState, (0, 0), SqlType::Int),
    session("error_line", SystemFunction::ErrorLine, (0, 0), SqlType::Int),
    session("error_procedure", SystemFunction::ErrorProcedure, (0, 0), NAME),
    session("xact_state", SystemFunction::XactState, (0, 0), SqlType::SmallInt),
    session("sessionproperty", SystemFunction::SessionProperty, (1, 1), SqlType::Variant),
    session("session_context", SystemFunction::SessionContext, (1, 1), SqlType::Variant),
    session("host_name", SystemFunction::HostName, (0, 0), NAME),
    session("app_name", SystemFunction::AppName, (0, 0), NAME),
    catalog("object_id", SystemFunction::ObjectId, (1, 2), SqlType::Int),
    catalog("object_name", SystemFunction::ObjectName, (1, 2), NAME),
    catalog("object_schema_name", SystemFunction::ObjectSchemaName, (1, 2), NAME),
    catalog("object_definition", SystemFunction::ObjectDefinition, (1, 1), SqlType::NVarChar(Length::Max)),
    catalog("schema_id", SystemFunction::SchemaId, (0, 1), SqlType::Int),
    catalog("schema_name", SystemFunction::SchemaName, (0, 1), NAME),
    catalog("type_id", SystemFunction::TypeId, (1, 1), SqlType::Int),
    catalog("db_id", SystemFunction::DbId, (0, 1), SqlType::SmallInt),
    catalog("db_name", SystemFunction::DbName, (0, 1), NAME),
    catalog("col_length", SystemFunction::ColLength, (2, 2), SqlType::SmallInt),
    catalog("columnproperty", SystemFunction::ColumnProperty, (3, 3), SqlType::Int),
    catalog("indexproperty", SystemFunction::IndexProperty, (3, 3), SqlType::Int),
    catalog("objectproperty", SystemFunction::ObjectProperty, (2, 2), SqlType::Int),
    catalog("databasepropertyex", SystemFunction::DatabasePropertyEx, (2, 2), SqlType::Variant),
    catalog("serverproperty", SystemFunction::ServerProperty, (1, 1), SqlType::Variant),
    catalog("database_principal_id", SystemFunction::DatabasePrincipalId, (0, 1), SqlType::Int),
    catalog("user_name", SystemFunction::UserName, (0, 1), NAME),
    catalog("user", SystemFunction::UserName, (0, 0), NAME),
    catalog("current_user", SystemFunction::UserName, (0, 0), NAME),
    catalog("session_user", SystemFunction::UserName, (0, 0), NAME),
    session("system_user", SystemFunction::SuserName, (0, 0), NAME),
    session("suser_sname", SystemFunction::SuserName, (0, 0), NAME),
    session("suser_name", SystemFunction::SuserName, (0, 0), NAME),
    session("original_login", SystemFunction::OriginalLogin, (0, 0), NAME),
    catalog("is_member", SystemFunction::IsMember, (1, 1), SqlType::Int),
    catalog("is_rolemember", SystemFunction::IsRoleMember, (1, 2), SqlType::Int),
    catalog("has_perms_by_name", SystemFunction::HasPermsByName, (3, 3), SqlType::Int),
    catalog("applock_mode", SystemFunction::AppLockMode, (3, 3), SqlType::NVarChar(Length::Limit(32))),
    catalog("applock_test", SystemFunction::AppLockTest, (4, 4), SqlType::SmallInt),
];

static GLOBALS: &[Description] = &[
    session("@@rowcount", SystemFunction::RowCount, (0, 0), SqlType::Int),
    session("@@error", SystemFunction::Error, (0, 0), SqlType::Int),
    session("@@trancount", SystemFunction::TranCount, (0, 0), SqlType::Int),
    session("@@spid", SystemFunction::Spid, (0, 0), SqlType::SmallInt),
    session("@@version", SystemFunction::Version, (0, 0), SqlType::NVarChar(Length::Limit(300))),
    session("@@identity", SystemFunction::Identity, (0, 0), IDENTITY),
    session("@@options", SystemFunction::Options, (0, 0), SqlType::Int),
    session("@@lock_timeout", SystemFunction::LockTimeout, (0, 0), SqlType::Int),
    session("@@servername", SystemFunction::ServerName, (0, 0), NAME),
    session("@@procid", SystemFunction::ProcId, (0, 0), SqlType::Int),
    session("@@fetch_status", SystemFunction::FetchStatus, (0, 0), SqlType::Int),
];

/// By folded name.
pub fn lookup(name: &str) -> Option<&'static Description> {
    FUNCTIONS.iter().find(|description| description.name == name)
}

/// By folded name, with the `@@`.
pub fn lookup_global(name: &str) -> Option<&'static Description> {
    GLOBALS.iter().find(|description| description.name == name)
}
