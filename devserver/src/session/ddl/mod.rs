//! CREATE, ALTER and DROP.

pub mod alter_column;
pub mod alter_constraint;
pub mod alter_database;
pub mod alter_table;
mod azure;
pub mod cannot_find;
pub mod change;
pub mod column_dependents;
pub mod create_function;
pub mod dispatch;
pub mod drop;
pub mod foreign_key;
pub mod index;
pub mod index_options;
mod lock_names;
pub mod lookup;
pub mod object_dependents;
mod ownership;
pub mod procedure;
pub mod rename;
pub mod schema;
pub mod security;
pub mod sequence;
pub mod table;
pub mod trigger;
pub mod user_type;
pub mod view;
