//! The table from names to functions.

use crate::value::builtin::definition::Builtin;
use crate::value::builtin::{date, digest, format_message, is_null, json, new_id, number, search, text};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The function of a name, in any case.
pub fn lookup(name: &str) -> Option<&'static Builtin> {
    static TABLE: LazyLock<HashMap<&'static str, &'static Builtin>> = LazyLock::new(|| {
        let groups = [
            date::arithmetic::FUNCTIONS,
            date::clock::FUNCTIONS,
            date::offset::FUNCTIONS,
            digest::FUNCTIONS,
            format_message::FUNCTIONS,
            is_null::FUNCTIONS,
            json::FUNCTIONS,
            new_id::FUNCTIONS,
            number::FUNCTIONS,
            search::FUNCTIONS,
            text::FUNCTIONS,
        ];
        groups.into_iter().flatten().map(|function| (function.name, function)).collect()
    });
    TABLE.get(name.to_ascii_uppercase().as_str()).copied()
}
