//! The releases of SQL Server that the dev server can stand for, and the first release of each newer feature.
//!
//! Sources: "Latest updates and version history for SQL Server"
//! (learn.microsoft.com/troubleshoot/sql/releases/download-and-install-latest-updates); "@@VERSION"
//! (MicrosoftDocs/sql-docs, docs/t-sql/functions/version-transact-sql-configuration-functions.md); for Azure SQL
//! Database "What is Azure SQL Managed Instance?", azure-sql/managed-instance/sql-managed-instance-paas-overview.md,
//! programmatically identify: "This value is same as in SQL Database".

use crate::catalog::server::Product;
use crate::error::{SqlError, SqlResult};

/// A build of SQL Server, as it names itself.
#[derive(Debug)]
pub struct Release {
    /// As in `SQL Server 2022`; `None` for Azure SQL Database.
    pub year: Option<u16>,
    pub major_version: u8,
    pub build: u16,
    pub revision: u8,
    /// `ProductLevel`.
    pub level: &'static str,
    /// When it was built, as `@@VERSION` has it.
    pub built_at: &'static str,
}

/// Each as it was released; 2016 with its last service pack, without which CREATE OR ALTER is missing.
const RELEASES: [Release; 5] = [
    release(2016, 13, 6300, 2, "SP3", "Aug  7 2021 01:20:37"),
    release(2017, 14, 1000, 169, "RTM", "Aug 22 2017 17:04:49"),
    release(2019, 15, 2000, 5, "RTM", "Sep 24 2019 13:48:23"),
    release(2022, 16, 1000, 6, "RTM", "Oct  8 2022 05:58:25"),
    release(2025, 17, 1000, 7, "RTM", "Oct 21 2025 12:05:57"),
];

const AZURE: Release = Release { year: None, ..release(0, 12, 2000, 8, "RTM", "Mar  7 2018 00:00:00") };

const fn release(
    year: u16,
    major_version: u8,
    build: u16,
    revision: u8,
    level: &'static str,
    built_at: &'static str,
) -> Release {
    Release { year: Some(year), major_version, build, revision, level, built_at }
}

impl Release {
    /// The major version of a year's SQL Server.
    pub fn major_version_of(year: u16) -> Option<u8> {
        RELEASES.iter().find(|release| release.year == Some(year)).map(|release| release.major_version)
    }

    /// The release that a product is.
    ///
    /// # Panics
    /// If it is none that the dev server knows; `Builder::start` has asked [`Release::is_known`].
    pub fn of(product: Product) -> &'static Release {
        if product.is_azure() {
            return &AZURE;
        }
        let of_version = RELEASES.iter().find(|release| release.major_version == product.major_version);
        of_version.expect("the major version is one of SQL Server 2016 to 2025")
    }

    pub fn is_known(product: Product) -> bool {
        product.is_azure() || RELEASES.iter().any(|release| release.major_version == product.major_version)
    }

    /// `ProductVersion`.
    pub fn number(&self) -> String {
        format!("{}.0.{}.{}", self.major_version, self.build, self.revision)
    }

    /// As PRELOGIN and LOGINACK have it ([MS-TDS] 2.2.6.5, UL_VERSION).
    pub fn wire_version(&self) -> [u8; 4] {
        let [high, low] = self.build.to_be_bytes();
        [self.major_version, 0, high, low]
    }

    /// `SQL Server 2022`.
    pub fn name(&self) -> String {
        match self.year {
            Some(year) => format!("SQL Server {year}"),
            None => "SQL Azure".to_owned(),
        }
    }
}

/// The first major version that has a function; those of SQL Server 2016 and before are not listed.
///
/// Sources: the "Applies to" of each function's page in docs/t-sql/functions/.
const FUNCTIONS: &[(&str, u8)] = &[("string_agg", 14)];

/// The first major version that has a column of a system view.
///
/// Source: "CREATE INDEX" (docs/t-sql/statements/create-index-transact-sql.md), OPTIMIZE_FOR_SEQUENTIAL_KEY.
const SYSTEM_COLUMNS: &[(&str, u8)] = &[("optimize_for_sequential_key", 15)];

fn first_version(table: &[(&str, u8)], folded: &str) -> u8 {
    table.iter().find(|(name, _)| *name == folded).map_or(0, |(_, version)| *version)
}

impl Product {
    /// Whether it has what a major version of SQL Server was the first to have. Azure SQL Database "always has the
    /// newest SQL database engine bits" ("ALTER DATABASE compatibility level").
    pub(crate) fn has_all_of(self, major_version: u8) -> bool {
        self.is_azure() || self.major_version >= major_version
    }

    /// Refuses what is newer than the product, where no page says how an older version refuses it.
    pub(crate) fn check_has(self, major_version: u8, feature: &str) -> SqlResult<()> {
        if self.has_all_of(major_version) {
            return Ok(());
        }
        Err(SqlError::not_supported(format!("{feature} in {}", Release::of(self).name())))
    }

    /// 195 for a function that is newer than the product.
    pub(crate) fn check_has_function(self, folded: &str, written: &str) -> SqlResult<()> {
        if self.has_all_of(first_version(FUNCTIONS, folded)) {
            return Ok(());
        }
        let message = format!("'{written}' is not a recognized built-in function name.");
        Err(SqlError::new(195, message).severity(15).state(10))
    }

    pub(crate) fn has_system_column(self, name: &str) -> bool {
        self.has_all_of(first_version(SYSTEM_COLUMNS, name))
    }
}
