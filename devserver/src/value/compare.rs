//! Comparison of two values, and the same order as bytes for the keys of indexes and hash tables.
//!
//! [`compare`] and [`encode_key`] must agree: two values are equal exactly if their key bytes are, and the bytes sort
//! (as `memcmp` sorts) as the values do. Text is compared as if the shorter side were filled up with blanks, binary
//! values as if it were filled up with zeros, which is what SQL Server does.

use crate::value::collation::Collation;
use crate::value::decimal::Decimal;
use crate::value::types::SqlType;
use crate::value::values::Value;
use crate::value::variant::{compare_variants, encode_variant};
use std::cmp::Ordering;
use uuid::Uuid;

/// Compares two values that are not NULL and have been converted to one type ([`SqlType::comparison_type`]).
///
/// # Panics
/// If they are NULL or of different types: the caller decides what a comparison with NULL means.
pub fn compare(a: &Value, b: &Value, collation: Collation) -> Ordering {
    match (a, b) {
        (Value::Bit(a), Value::Bit(b)) => a.cmp(b),
        (Value::TinyInt(a), Value::TinyInt(b)) => a.cmp(b),
        (Value::SmallInt(a), Value::SmallInt(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::BigInt(a), Value::BigInt(b)) => a.cmp(b),
        (Value::Decimal(a), Value::Decimal(b)) => compare_decimals(a, b),
        // SQL Server holds no NaN, and `+ 0.0` makes the negative zero equal to the positive one.
        (Value::Real(a), Value::Real(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
        (Value::Float(a), Value::Float(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
        (Value::String(a), Value::String(b)) => compare_text(a, b, collation),
        (Value::Bytes(a), Value::Bytes(b)) => trim_zeros(a).cmp(trim_zeros(b)),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Time(a), Value::Time(b)) => a.cmp(b),
        (Value::DateTime(a_day, a_time), Value::DateTime(b_day, b_time)) => (a_day, a_time).cmp(&(b_day, b_time)),
        // Only the instant counts: 12:00 +02:00 equals 10:00 +00:00.
        (Value::DateTimeOffset(a_day, a_time, _), Value::DateTimeOffset(b_day, b_time, _)) => {
            (a_day, a_time).cmp(&(b_day, b_time))
        }
        (Value::Uuid(a), Value::Uuid(b)) => uuid_key(a).cmp(&uuid_key(b)),
        (Value::Variant(a), Value::Variant(b)) => compare_variants(a, b, collation),
        _ => panic!("values are converted to one type before they are compared, and NULL is not compared"),
    }
}

/// Compares as ORDER BY does: NULL first.
///
/// # Panics
/// If two values that are not NULL are of different types.
pub fn compare_nulls_first(a: &Value, b: &Value, collation: Collation) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        _ => compare(a, b, collation),
    }
}

/// Text in the order of a collation, trailing blanks ignored: what NULL-free comparisons of names need too.
pub fn compare_text(a: &str, b: &str, collation: Collation) -> Ordering {
    const BLANK: u16 = 0x20;
    let mut a_units = collation.folded_units(a);
    let mut b_units = collation.folded_units(b);
    loop {
        let (a_unit, b_unit) = (a_units.next(), b_units.next());
        if a_unit.is_none() && b_unit.is_none() {
            return Ordering::Equal;
        }
        let order = a_unit.unwrap_or(BLANK).cmp(&b_unit.unwrap_or(BLANK));
        if order.is_ne() {
            return order;
        }
    }
}

fn compare_decimals(a: &Decimal, b: &Decimal) -> Ordering {
    if a.scale == b.scale {
        return a.mantissa.cmp(&b.mantissa);
    }
    let (a_unit, b_unit) = (10i128.pow(u32::from(a.scale)), 10i128.pow(u32::from(b.scale)));
    let integral = (a.mantissa / a_unit).cmp(&(b.mantissa / b_unit));
    if integral.is_ne() {
        return integral;
    }
    // A fraction has at most 38 digits, so that it can be scaled up to the larger scale without overflow.
    let scale = a.scale.max(b.scale);
    let a_fraction = (a.mantissa % a_unit) * 10i128.pow(u32::from(scale - a.scale));
    let b_fraction = (b.mantissa % b_unit) * 10i128.pow(u32::from(scale - b.scale));
    a_fraction.cmp(&b_fraction)
}

fn trim_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// The bytes of a `uniqueidentifier` from the most to the least significant one. SQL Server compares the last group
/// first and the groups from right to left ("Comparing GUID and uniqueidentifier values", .NET documentation of
/// SqlGuid). `to_bytes_le` is the layout in which it stores them.
fn uuid_key(value: &Uuid) -> [u8; 16] {
    const ORDER: [usize; 16] = [10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3];
    let stored = value.to_bytes_le();
    ORDER.map(|at| stored[at])
}

/// Appends the key bytes of a value of type `ty`, as [`super::assign`] or [`super::convert()`] to `ty` returned it.
///
/// The bytes of two values of one type and collation are equal exactly if the values are equal, and sort as they do
/// (the other way round if `descending`), NULL lowest. No value's bytes begin another's, so that a key of several
/// columns is the bytes of its columns one after the other.
///
/// # Panics
/// If the value is not of type `ty`.
pub fn encode_key(value: &Value, ty: SqlType, collation: Collation, descending: bool, out: &mut Vec<u8>) {
    const NULL: u8 = 0;
    const NOT_NULL: u8 = 1;
    let start = out.len();
    if value.is_null() {
        out.push(NULL);
    } else {
        out.push(NOT_NULL);
        encode_not_null(value, ty, collation, out);
    }
    if descending {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

fn encode_not_null(value: &Value, ty: SqlType, collation: Collation, out: &mut Vec<u8>) {
    match value {
        Value::Bit(v) => out.push(u8::from(*v)),
        Value::TinyInt(v) => out.push(*v),
        // Turning the sign bit round makes negative numbers sort before positive ones.
        Value::SmallInt(v) => out.extend((v ^ i16::MIN).to_be_bytes()),
        Value::Int(v) => out.extend((v ^ i32::MIN).to_be_bytes()),
        Value::BigInt(v) => out.extend((v ^ i64::MIN).to_be_bytes()),
        Value::Decimal(v) => {
            let SqlType::Decimal { scale, .. } = ty else { panic!("a decimal key of type {ty}") };
            // A value of the type has its scale and at most 38 digits: there is room for what is missing.
            let mantissa = v.mantissa * 10i128.pow(u32::from(scale - v.scale));
            out.extend((mantissa ^ i128::MIN).to_be_bytes());
        }
        Value::Real(v) => {
            let bits = (v + 0.0).to_bits();
            let ordered = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
            out.extend(ordered.to_be_bytes());
        }
        Value::Float(v) => {
            let bits = (v + 0.0).to_bits();
            let ordered = if bits >> 63 == 0 { bits | 1 << 63 } else { !bits };
            out.extend(ordered.to_be_bytes());
        }
        Value::String(text) => encode_text(text, collation, out),
        Value::Bytes(bytes) => encode_bytes(bytes, out),
        Value::Date(day) => out.extend(day.to_be_bytes()),
        Value::Time(ticks) => out.extend(ticks.to_be_bytes()),
        Value::DateTime(day, ticks) | Value::DateTimeOffset(day, ticks, _) => {
            out.extend(day.to_be_bytes());
            out.extend(ticks.to_be_bytes());
        }
        Value::Uuid(id) => out.extend(uuid_key(id)),
        Value::Variant(variant) => encode_variant(variant, collation, out),
        Value::Null => panic!("NULL has its own key byte"),
    }
}

/// Zero bytes are escaped, trailing ones dropped, and two zeros end the value.
fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in trim_zeros(bytes) {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
    out.extend([0, 0]);
}

/// Two bytes for each unit. The end of the text must sort like endless blanks: above a tab, below a letter, and
/// against a blank as whatever follows that blank decides. So a blank is written as one of two codes, below or above
/// that of the end, by the next unit that is not a blank.
fn encode_text(text: &str, collation: Collation, out: &mut Vec<u8>) {
    const BLANK: u16 = 0x20;
    const BLANK_BEFORE_LESS: u16 = 0x20;
    const END: u16 = 0x21;
    const BLANK_BEFORE_GREATER: u16 = 0x22;
    let mut blanks = 0;
    for unit in collation.folded_units(text) {
        if unit == BLANK {
            blanks += 1;
            continue;
        }
        let blank_code = if unit < BLANK { BLANK_BEFORE_LESS } else { BLANK_BEFORE_GREATER };
        for _ in 0..blanks {
            out.extend(blank_code.to_be_bytes());
        }
        blanks = 0;
        match unit {
            0..BLANK => out.extend(unit.to_be_bytes()),
            // The two codes taken for blanks push every later unit up by two; the last three units share a prefix.
            _ => match unit.checked_add(2).filter(|&code| code != u16::MAX) {
                Some(code) => out.extend(code.to_be_bytes()),
                None => {
                    out.extend(u16::MAX.to_be_bytes());
                    out.extend(unit.to_be_bytes());
                }
            },
        }
    }
    out.extend(END.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::types::Length;
    use std::sync::Arc;

    const TEXT: SqlType = SqlType::NVarChar(Length::Limit(20));

    fn text(value: &str) -> Value {
        Value::String(Arc::from(value))
    }

    fn key(value: &Value, ty: SqlType, collation: Collation, descending: bool) -> Vec<u8> {
        let mut out = Vec::new();
        encode_key(value, ty, collation, descending, &mut out);
        out
    }

    /// Every pair of values sorts alike by `compare_nulls_first` and by key bytes, both ways.
    fn assert_keys_agree(values: &[Value], ty: SqlType, collation: Collation) {
        for a in values {
            for b in values {
                let expected = compare_nulls_first(a, b, collation);
                let ascending = key(a, ty, collation, false).cmp(&key(b, ty, collation, false));
                let descending = key(a, ty, collation, true).cmp(&key(b, ty, collation, true));
                assert_eq!(ascending, expected, "{a:?} against {b:?}");
                assert_eq!(descending, expected.reverse(), "{a:?} against {b:?}, descending");
            }
        }
    }

    #[test]
    fn keys_of_text_agree_with_comparison() {
        let texts = [
            "", " ", "  ", "\t", " \t", "a", "A", "a ", "a  ", "a b", "a\t", "a \t", "a  b", "ab", "AB", "b", "é", "É",
            "e", "z", "\u{FFFF}", "\u{FFFE}", "\u{FFFD}", "😀", "!", "\0", "a\0", "a \0b",
        ];
        let mut values: Vec<Value> = texts.iter().map(|t| text(t)).collect();
        values.push(Value::Null);
        assert_keys_agree(&values, TEXT, Collation::SqlLatin1GeneralCp1CiAs);
        assert_keys_agree(&values, TEXT, Collation::Latin1General100Bin2);
    }

    #[test]
    fn keys_of_numbers_and_bytes_agree_with_comparison() {
        let ints = [i32::MIN, -1, 0, 1, i32::MAX].map(Value::Int);
        assert_keys_agree(&ints, SqlType::Int, Collation::default());
        let floats = [f64::MIN, -1.5, -0.0, 0.0, 1e-300, 7.0, f64::MAX].map(Value::Float);
        assert_keys_agree(&floats, SqlType::Float, Collation::default());
        let decimals = [(-15, 1), (-150, 2), (0, 0), (150, 2), (15, 1), (151, 2)]
            .map(|(mantissa, scale)| Value::Decimal(Box::new(Decimal { mantissa, precision: 5, scale })));
        assert_keys_agree(&decimals, SqlType::decimal(5, 2), Collation::default());
        let bytes: [&[u8]; 7] = [&[], &[0], &[0, 0, 1], &[0, 1], &[1], &[1, 0], &[255, 0, 255]];
        assert_keys_agree(
            &bytes.map(|b| Value::Bytes(Arc::from(b))),
            SqlType::VarBinary(Length::Max),
            Collation::default(),
        );
    }

    #[test]
    fn keys_of_several_columns_keep_the_order_of_the_first() {
        let two = |a: &str, b: &str| {
            [key(&text(a), TEXT, Collation::default(), false), key(&text(b), TEXT, Collation::default(), false)]
                .concat()
        };
        assert!(two("a", "z") < two("ab", "a"));
        assert_eq!(two("a ", "b"), two("A", "B"));
    }

    #[test]
    fn trailing_blanks_and_zeros_do_not_count() {
        assert_eq!(compare(&text("Abc "), &text("aBC"), Collation::default()), Ordering::Equal);
        assert_eq!(compare(&text("abc "), &text("abc"), Collation::Latin1General100Bin2), Ordering::Equal);
        assert_eq!(compare(&text("Abc"), &text("abc"), Collation::Latin1General100Bin2), Ordering::Less);
        let (empty, zero) = (Value::Bytes(Arc::from([])), Value::Bytes(Arc::from([0, 0])));
        assert_eq!(compare(&empty, &zero, Collation::default()), Ordering::Equal);
    }

    #[test]
    fn uniqueidentifiers_sort_by_their_last_group_first() {
        let ids = [
            "01000000-0000-0000-0000-000000000000",
            "00010000-0000-0000-0000-000000000000",
            "00000000-0100-0000-0000-000000000000",
            "00000000-0000-0100-0000-000000000000",
            "00000000-0000-0000-0001-000000000000",
            "00000000-0000-0000-0100-000000000000",
            "00000000-0000-0000-0000-000000000001",
            "00000000-0000-0000-0000-010000000000",
        ];
        // Within the first group the byte stored first, which is written last, is the most significant one.
        let values: Vec<Value> = ids.iter().map(|id| Value::Uuid(Uuid::parse_str(id).unwrap())).collect();
        for pair in values.windows(2) {
            assert_eq!(compare(&pair[0], &pair[1], Collation::default()), Ordering::Less, "{pair:?}");
        }
        assert_keys_agree(&values, SqlType::UniqueIdentifier, Collation::default());
    }
}
