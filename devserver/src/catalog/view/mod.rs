//! The catalog views of tables, columns, constraints, modules and types, and INFORMATION_SCHEMA: lists of views, a
//! file for each subject, each view with its columns and what computes its rows.
//!
//! Source: "Catalog views" (MicrosoftDocs/sql-docs, docs/relational-databases/system-catalog-views/) and "Information
//! schema views" (docs/relational-databases/system-information-schema-views/), a page for each view. Columns about what
//! the dev server does not have (files, pages, replication, encryption) are left out; who asks for one is refused
//! (59000).

pub mod column_types;
pub mod constraints;
pub mod databases;
pub mod facts;
pub mod indexes;
pub mod information_schema;
pub mod list;
pub mod logins;
pub mod modules;
pub mod principals;
pub mod session_activity;
pub mod tables;
pub mod types;
