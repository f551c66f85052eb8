//! CREATE, ALTER and DROP.

pub mod alter_database;
pub mod alter_table;
pub mod foreign_key;
pub mod function;
pub mod index;
pub mod object;
pub mod rename;
pub mod security;
pub mod select_into;
pub mod table;
