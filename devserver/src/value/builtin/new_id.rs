//! NEWID and NEWSEQUENTIALID.

use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::Builtin;
use crate::value::types::SqlType;
use crate::value::values::Value;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("NEWID", Exactly(0), |_| Ok(SqlType::UniqueIdentifier), |_| Ok(Value::Uuid(Uuid::new_v4()))),
    Builtin::new("NEWSEQUENTIALID", Exactly(0), |_| Ok(SqlType::UniqueIdentifier), |_| Ok(next_sequential())),
];

/// An id greater than all before it, in the order of `uniqueidentifier`: bytes 6, 7, 4, 5 and 0 to 3 come last in it.
pub(super) fn next_sequential() -> Value {
    static FIRST: LazyLock<[u8; 16]> = LazyLock::new(|| Uuid::new_v4().to_bytes_le());
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let count = COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let mut bytes = *FIRST;
    for (place, byte) in [6, 7, 4, 5, 0, 1, 2, 3].into_iter().zip(count) {
        bytes[place] = byte;
    }
    Value::Uuid(Uuid::from_bytes_le(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::builtin::tests::call_typed;

    #[test]
    fn sequential_ids_grow() {
        let mut last = next_sequential();
        for _ in 0..70_000 {
            let next = next_sequential();
            assert!(crate::value::compare(&last, &next, Default::default()).is_lt(), "{last:?} {next:?}");
            last = next;
        }
    }

    #[test]
    fn new_ids_differ() {
        let (a, _) = call_typed("NEWID", None, &[]).unwrap();
        let (b, _) = call_typed("NEWID", None, &[]).unwrap();
        assert_ne!(a, b);
    }
}
