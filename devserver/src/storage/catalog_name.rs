//! The name of something in a database, and what lookups of names note; see `changed_names.rs`.

use std::hash::BuildHasher;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use super::locks::resource::Resource;
use super::schema::{TableSchema, fold};

/// What else may have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum NameSpace {
    /// Tables, and everything in sys.objects.
    Object,
    Type,
    Schema,
    /// No name of anything: who is there, who owns what, what is granted and denied.
    Security,
}

/// A name in a database, folded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CatalogName {
    space: NameSpace,
    schema: String,
    name: String,
}

impl CatalogName {
    pub fn object(schema: &str, name: &str) -> CatalogName {
        CatalogName { space: NameSpace::Object, schema: fold(schema), name: fold(name) }
    }

    pub fn user_type(schema: &str, name: &str) -> CatalogName {
        CatalogName { space: NameSpace::Type, schema: fold(schema), name: fold(name) }
    }

    pub fn schema(name: &str) -> CatalogName {
        CatalogName { space: NameSpace::Schema, schema: fold(name), name: String::new() }
    }

    /// What every change of principals, members, owners, permissions and extended properties locks, whomever it is
    /// about: the next one waits until the transaction ends, and what a rollback brings back is what was there before.
    /// SQL Server locks the keys of its system tables that change, so that there only changes of the same thing wait.
    /// Lookups of names and catalog views do not wait for it.
    pub fn security() -> CatalogName {
        CatalogName { space: NameSpace::Security, schema: String::new(), name: String::new() }
    }

    pub(super) fn is_looked_up(&self) -> bool {
        self.space != NameSpace::Security
    }

    /// Whether it is a name in the schema, or the schema's own.
    pub fn is_in(&self, schema: &str) -> bool {
        self.schema == fold(schema)
    }

    pub fn is_schema(&self) -> bool {
        self.space == NameSpace::Schema
    }

    pub fn is_type(&self) -> bool {
        self.space == NameSpace::Type
    }

    pub(super) fn resource(&self) -> Resource {
        Resource::Name(FxBuildHasher.hash_one(self))
    }
}

/// A name and the session whose transaction changes it.
#[derive(Debug)]
pub(super) struct ChangedName {
    pub(super) spid: i32,
    pub(super) name: CatalogName,
    /// The table of the name gets a further index, no more: to others it stays as it was before, and they may read it.
    pub(super) before: Option<Arc<TableSchema>>,
}

/// What lookups have met since they began.
#[derive(Debug, Default)]
pub struct Looks {
    /// A name that another transaction changes: nothing that came of the lookup counts.
    pub changed_by_other: Option<CatalogName>,
    /// The session's own transaction changes a name: what came of the lookup is of no use to others.
    pub saw_own_change: bool,
}

impl Looks {
    pub fn and(self, other: Looks) -> Looks {
        Looks {
            changed_by_other: self.changed_by_other.or(other.changed_by_other),
            saw_own_change: self.saw_own_change || other.saw_own_change,
        }
    }

    /// Whether others may be given what came of it.
    pub fn is_common(&self) -> bool {
        self.changed_by_other.is_none() && !self.saw_own_change
    }
}
