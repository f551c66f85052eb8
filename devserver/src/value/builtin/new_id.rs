//! NEWID, and CHECKSUM of a new id.

use crate::value::builtin::definition::Arity::{Between, Exactly};
use crate::value::builtin::definition::Builtin;
use crate::value::builtin::result::always_int;
use crate::value::types::SqlType;
use crate::value::values::Value;
use uuid::Uuid;

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("NEWID", Exactly(0), |_| Ok(SqlType::UniqueIdentifier), |_| Ok(Value::Uuid(Uuid::new_v4()))),
    Builtin::new(CHECKSUM_OF_NEWID, Between(0, 1), always_int, |_| Ok(random())),
];

/// `CHECKSUM(NEWID())`, the usual way to a random number. How CHECKSUM hashes other values is not documented. The name
/// cannot be written in T-SQL.
pub const CHECKSUM_OF_NEWID: &str = "CHECKSUM OF NEWID";

fn random() -> Value {
    let bytes = Uuid::new_v4().into_bytes();
    Value::Int(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}
