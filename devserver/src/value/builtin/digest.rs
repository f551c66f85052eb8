//! HASHBYTES.
//!
//! Source: docs/t-sql/functions/hashbytes-transact-sql.md of MicrosoftDocs/sql-docs.

use crate::error::SqlResult;
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::builtin::result::invalid_argument;
use crate::value::convert::cast::convert;
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;
use md5::Digest;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Builtin] = &[Builtin::new("HASHBYTES", Exactly(2), hash_type, hash_bytes)];

fn hash_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    for (position, argument) in arguments.iter().enumerate() {
        let is_null = argument.constant.is_some_and(Value::is_null);
        let fits = argument.ty.is_character() || (position == 1 && argument.ty.is_binary());
        if !fits && !is_null {
            return Err(invalid_argument(argument.ty, position + 1, "hashbytes"));
        }
    }
    Ok(SqlType::VarBinary(Length::Limit(8000)))
}

fn hash_bytes(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let algorithm = arguments.text(0)?.to_ascii_uppercase();
    // A varchar is hashed in its code page, an nvarchar in UTF-16.
    let (value, ty) = (arguments.values[1].clone(), arguments.types[1]);
    let Value::Bytes(input) = convert(value, ty, SqlType::VarBinary(Length::Max), None, true)? else {
        return Ok(Value::Null);
    };
    let digest: Vec<u8> = match algorithm.as_str() {
        "MD5" => md5::Md5::digest(&input).to_vec(),
        "SHA" | "SHA1" => sha1::Sha1::digest(&input).to_vec(),
        "SHA2_256" => sha2::Sha256::digest(&input).to_vec(),
        "SHA2_512" => sha2::Sha512::digest(&input).to_vec(),
        "MD2" | "MD4" => return Err(crate::error::SqlError::not_supported(format!("HASHBYTES with {algorithm}"))),
        _ => return Ok(Value::Null),
    };
    Ok(Value::Bytes(Arc::from(digest)))
}

#[cfg(test)]
mod tests {
    use crate::value::builtin::tests::{call_typed, int, nvarchar, varchar};
    use crate::value::types::SqlType;
    use crate::value::values::Value;

    fn hex(algorithm: &str, input: (Value, SqlType)) -> String {
        match call_typed("HASHBYTES", None, &[varchar(algorithm), input]).expect("hashed").0 {
            Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            _ => "null".to_string(),
        }
    }

    // The test vectors of RFC 1321 and FIPS 180.
    #[test]
    fn the_algorithms() {
        assert_eq!(hex("md5", varchar("abc")), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex("SHA1", varchar("abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex("SHA2_256", varchar("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(hex("SHA2_512", varchar("abc")).starts_with("ddaf35a193617aba"));
        assert_ne!(hex("SHA2_256", nvarchar("abc")), hex("SHA2_256", varchar("abc")));
        assert_eq!(hex("SHA3", varchar("abc")), "null");
        assert_eq!(call_typed("HASHBYTES", None, &[varchar("MD5"), int(1)]).unwrap_err().number, 8116);
    }
}
