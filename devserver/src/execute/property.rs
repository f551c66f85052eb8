//! SERVERPROPERTY and DATABASEPROPERTYEX.

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::Run;
use crate::execute::function_value::text;
use crate::storage::fold;
use crate::value::{Collation, Value};

/// What the server says it is: the major version of SQL Server whose behaviour is imitated.
pub const MAJOR_VERSION: u8 = 16;
pub const PRODUCT_VERSION: &str = "16.0.1000.6";

/// Properties that SQL Server has, but not the dev server.
///
/// Source: "SERVERPROPERTY" (MicrosoftDocs/sql-docs, docs/t-sql/functions/serverproperty-transact-sql.md).
const UNKNOWN_SERVER_PROPERTIES: &[&str] = &[
    "buildclrversion",
    "collationid",
    "comparisonstyle",
    "computernamephysicalnetbios",
    "editionid",
    "filestreamconfiguredlevel",
    "filestreameffectivelevel",
    "filestreamsharename",
    "hadrmanagerstatus",
    "instancedefaultbackuppath",
    "instancedefaultdatapath",
    "instancedefaultlogpath",
    "isadvancedanalyticsinstalled",
    "isbigdatacluster",
    "isexternalauthenticationonly",
    "isexternalgovernanceenabled",
    "isfulltextinstalled",
    "ispolybaseinstalled",
    "isserversuspendedforsnapshotbackup",
    "istempdbmetadatamemoryoptimized",
    "isxtpsupported",
    "lcid",
    "pathseparator",
    "processid",
    "productbuild",
    "productbuildtype",
    "productupdatereference",
    "resourcelastupdatedatetime",
    "resourceversion",
    "sqlcharset",
    "sqlcharsetname",
    "sqlsortorder",
    "sqlsortordername",
    "suspendeddatabasecount",
];

pub fn server_property(property: &Value) -> SqlResult<Value> {
    Ok(match property.as_str().map(fold).as_deref() {
        Some("productmajorversion") => text(MAJOR_VERSION.to_string()),
        Some("productminorversion") => text("0"),
        Some("productversion") => text(PRODUCT_VERSION),
        Some("productlevel") => text("RTM"),
        Some("engineedition") => Value::Int(3),
        Some("edition") => text("readpast dev server"),
        Some("collation") => text(Collation::default().name()),
        Some("servername" | "machinename") => text("readpast-devserver"),
        Some("isintegratedsecurityonly" | "isclustered" | "ishadrenabled" | "issingleuser" | "islocaldb") => {
            Value::Int(0)
        }
        Some("licensetype") => text("DISABLED"),
        // A default instance has none; the others do not apply.
        Some("instancename" | "productupdatelevel" | "numlicenses") => Value::Null,
        Some(known) if UNKNOWN_SERVER_PROPERTIES.contains(&known) => {
            return Err(SqlError::not_supported(format!("SERVERPROPERTY('{known}')")));
        }
        _ => Value::Null,
    })
}

/// Properties that SQL Server has, but not the dev server.
///
/// Source: "DATABASEPROPERTYEX" (MicrosoftDocs/sql-docs, docs/t-sql/functions/databasepropertyex-transact-sql.md).
const UNKNOWN_DATABASE_PROPERTIES: &[&str] = &[
    "comparisonstyle",
    "edition",
    "isansinulldefault",
    "isansinullsenabled",
    "isansipaddingenabled",
    "isansiwarningsenabled",
    "isarithmeticabortenabled",
    "isautocreatestatistics",
    "isautocreatestatisticsincremental",
    "isautoupdatestatistics",
    "isclosecursorsoncommitenabled",
    "isdatabasesuspendedforsnapshotbackup",
    "isfulltextenabled",
    "islocalcursorsdefault",
    "ismemoryoptimizedelevatetosnapshotenabled",
    "isnullconcat",
    "isnumericroundabortenabled",
    "isparameterizationforced",
    "isquotedidentifiersenabled",
    "isrecursivetriggersenabled",
    "istornpagedetectionenabled",
    "isxtpsupported",
    "lastgoodcheckdbtime",
    "lcid",
    "maxsizeinbytes",
    "serviceobjective",
    "serviceobjectiveid",
    "sqlsortorder",
    "version",
];

pub fn database_property(name: &Value, property: &Value, run: &Run<'_>) -> SqlResult<Value> {
    let (Some(name), Some(property)) = (name.as_str(), property.as_str().map(fold)) else { return Ok(Value::Null) };
    if fold(name) != fold(&run.database.name) {
        return Err(SqlError::not_supported("DATABASEPROPERTYEX of another database than the current one"));
    }
    let read_only = run.database.is_read_only();
    Ok(match property.as_str() {
        "updateability" => text(if read_only { "READ_ONLY" } else { "READ_WRITE" }),
        "status" => text("ONLINE"),
        "collation" => text(Collation::default().name()),
        "recovery" => text("SIMPLE"),
        "useraccess" => text("MULTI_USER"),
        // Nothing is replicated, cloned or restored here.
        "isautoclose" | "isautoshrink" | "isinstandby" | "isclone" | "isverifiedclone" | "ismergepublished"
        | "ispublished" | "issubscribed" | "issyncwithbackup" => Value::Int(0),
        known if UNKNOWN_DATABASE_PROPERTIES.contains(&known) => {
            return Err(SqlError::not_supported(format!("DATABASEPROPERTYEX('…', '{known}')")));
        }
        _ => Value::Null,
    })
}
