use crate::tds::packet::{PayloadReader, ReadError};
use crate::tds::wire_type::number::{
    BIG_VARBINARY, BIG_VARCHAR, DATE_N, DECIMAL_N, FIRST_DATETIME_DAY, FLOAT_N, IMAGE, LAST_DAY, NTEXT, NUMERIC_N, TEXT,
};
use crate::tds::wire_type::read::{read_type_info, read_value};
use crate::tds::wire_type::write::{put_type_info, put_value, user_type};
use crate::value::datetime::{DAY_1900, TICKS_PER_DAY};
use crate::value::{Decimal, DecimalName, Length, SqlType, Value};
use uuid::Uuid;

fn round_trip(sql_type: SqlType, value: &Value) -> (SqlType, Value) {
    let mut bytes = Vec::new();
    put_type_info(&mut bytes, sql_type);
    put_value(&mut bytes, sql_type, value);
    let mut reader = PayloadReader::new(&bytes);
    let wire_type = read_type_info(&mut reader).unwrap();
    let read = read_value(&mut reader, &wire_type).unwrap();
    assert_eq!(reader.remaining(), 0, "{sql_type:?} {value:?}");
    (wire_type.sql_type, read)
}

/// MS-TDS, 2.2.5.4.2 "Variable-Length Data Types": DECIMALN and NUMERICN.
#[test]
fn decimal_and_numeric_go_by_their_names() {
    for (name, type_byte) in [(DecimalName::Decimal, DECIMAL_N), (DecimalName::Numeric, NUMERIC_N)] {
        let sql_type = SqlType::Decimal { precision: 5, scale: 2, name };
        let mut bytes = Vec::new();
        put_type_info(&mut bytes, sql_type);
        assert_eq!(bytes, [type_byte, 5, 5, 2]);
        let read = read_type_info(&mut PayloadReader::new(&bytes)).unwrap().sql_type;
        assert_eq!(read.name(), sql_type.name());
    }
}

fn samples() -> Vec<(SqlType, Value)> {
    let text = |text: &str| Value::String(text.into());
    let bytes = |bytes: &[u8]| Value::Bytes(bytes.into());
    let decimal = |mantissa, precision, scale| Value::Decimal(Box::new(Decimal { mantissa, precision, scale }));
    let long_text = "ü".repeat(5000);
    vec![
        (SqlType::Bit, Value::Bit(true)),
        (SqlType::TinyInt, Value::TinyInt(255)),
        (SqlType::SmallInt, Value::SmallInt(-2)),
        (SqlType::Int, Value::Int(i32::MIN)),
        (SqlType::BigInt, Value::BigInt(i64::MAX)),
        (SqlType::decimal(5, 2), decimal(-12345, 5, 2)),
        (SqlType::decimal(38, 0), decimal(10_i128.pow(38) - 1, 38, 0)),
        (SqlType::Real, Value::Real(1.5)),
        (SqlType::Float, Value::Float(-0.1)),
        (SqlType::Char(3), text("abc")),
        (SqlType::VarChar(Length::Limit(10)), text("")),
        (SqlType::VarChar(Length::Limit(10)), text("für 5 €")),
        (SqlType::VarChar(Length::Max), text(&long_text)),
        (SqlType::NChar(4), text("😀ab")),
        (SqlType::NVarChar(Length::Limit(4000)), text("日本語")),
        (SqlType::NVarChar(Length::Max), text("")),
        (SqlType::NVarChar(Length::Max), text(&long_text)),
        (SqlType::Binary(2), bytes(&[0, 255])),
        (SqlType::VarBinary(Length::Limit(8000)), bytes(&[7; 8000])),
        (SqlType::VarBinary(Length::Max), bytes(&[])),
        (SqlType::VarBinary(Length::Max), bytes(&[7; 8001])),
        (SqlType::Date, Value::Date(LAST_DAY)),
        (SqlType::Time(0), Value::Time(10_000_000 * 86_399)),
        (SqlType::Time(7), Value::Time(TICKS_PER_DAY - 1)),
        (SqlType::DateTime, Value::DateTime(FIRST_DATETIME_DAY, 0)),
        (SqlType::DateTime, Value::DateTime(DAY_1900, 33_333)),
        (SqlType::DateTime2(3), Value::DateTime(0, 1_230_000)),
        (SqlType::DateTime2(7), Value::DateTime(LAST_DAY, TICKS_PER_DAY - 1)),
        (SqlType::DateTimeOffset(7), Value::DateTimeOffset(738_000, 1, -330)),
        (SqlType::UniqueIdentifier, Value::Uuid(Uuid::from_u128(0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF))),
    ]
}

#[test]
fn values_and_types_come_back() {
    for (sql_type, value) in samples() {
        assert_eq!(round_trip(sql_type, &value), (sql_type, value));
        assert_eq!(round_trip(sql_type, &Value::Null), (sql_type, Value::Null));
    }
}

#[test]
fn truncated_types_and_values_are_refused() {
    for (sql_type, value) in samples() {
        let mut bytes = Vec::new();
        put_type_info(&mut bytes, sql_type);
        put_value(&mut bytes, sql_type, &value);
        for length in (0..bytes.len().min(64)).chain([bytes.len() - 1]) {
            let mut reader = PayloadReader::new(&bytes[..length]);
            let read = read_type_info(&mut reader).and_then(|wire_type| read_value(&mut reader, &wire_type));
            assert!(read.is_err(), "{length} of {} bytes of {sql_type:?}", bytes.len());
        }
    }
}

#[test]
fn no_bytes_make_the_reader_panic() {
    // Every type byte with every short length, over zeros and over ones.
    for filling in [0x00, 0x01, 0x7F, 0xFF] {
        for type_byte in 0..=255 {
            for length in 0..=255 {
                let mut bytes = vec![type_byte, length];
                bytes.resize(48, filling);
                let mut reader = PayloadReader::new(&bytes);
                if let Ok(wire_type) = read_type_info(&mut reader) {
                    let _ = read_value(&mut reader, &wire_type);
                }
            }
        }
    }
}

#[test]
fn a_rowversion_is_eight_bytes_with_its_user_type() {
    let value = Value::Bytes([0, 0, 0, 0, 0, 0, 7, 209].as_slice().into());
    assert_eq!(round_trip(SqlType::RowVersion, &value), (SqlType::Binary(8), value));
    assert_eq!(user_type(SqlType::RowVersion), 80);
}

#[test]
fn announced_lengths_are_not_trusted() {
    let huge_chunk = [&0_u64.wrapping_sub(2).to_le_bytes()[..], &u32::MAX.to_le_bytes()[..], b"x"].concat();
    let wire_type = read_type_info(&mut PayloadReader::new(&[BIG_VARBINARY, 0xFF, 0xFF])).unwrap();
    assert_eq!(read_value(&mut PayloadReader::new(&huge_chunk), &wire_type), Err(ReadError::Malformed));
    let wrong_total = [&9_u64.to_le_bytes()[..], &1_u32.to_le_bytes(), b"x", &0_u32.to_le_bytes()].concat();
    let read = read_value(&mut PayloadReader::new(&wrong_total), &wire_type);
    assert_eq!(read, Err(ReadError::Malformed));
}

#[test]
fn the_old_long_types_are_read_as_their_successors() {
    let read = |bytes: &[u8]| {
        let mut reader = PayloadReader::new(bytes);
        let wire_type = read_type_info(&mut reader).unwrap();
        (wire_type.sql_type, read_value(&mut reader, &wire_type))
    };
    let text = [&[TEXT, 10, 0, 0, 0, 9, 4, 0xD0, 0, 0x34][..], &[2, 0, 0, 0, b'a', 0x80]].concat();
    assert_eq!(read(&text), (SqlType::VarChar(Length::Max), Ok(Value::String("a€".into()))));
    let ntext = [&[NTEXT, 10, 0, 0, 0, 9, 4, 0xD0, 0, 0x34][..], &[2, 0, 0, 0, 0xFC, 0]].concat();
    assert_eq!(read(&ntext), (SqlType::NVarChar(Length::Max), Ok(Value::String("ü".into()))));
    let image = [IMAGE, 10, 0, 0, 0, 1, 0, 0, 0, 7];
    assert_eq!(read(&image), (SqlType::VarBinary(Length::Max), Ok(Value::Bytes([7].as_slice().into()))));
    let null = [IMAGE, 10, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
    assert_eq!(read(&null), (SqlType::VarBinary(Length::Max), Ok(Value::Null)));
    let huge = [IMAGE, 10, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 7];
    assert_eq!(read(&huge).1, Err(ReadError::Malformed));
}

// Source: MS-TDS 2.2.5.4.2 (5, 9, 13 or 17 bytes); FreeTDS, `tds_numeric_put_info` and `tds_numeric_put` in
// src/tds/data.c: the sign and as many bytes as the precision needs, from 2 (precision 1) to 17 (from 37).
#[test]
fn a_decimal_may_come_in_fewer_bytes() {
    for (precision, length) in [(1_u8, 2_u8), (2, 2), (7, 4), (10, 6), (20, 10), (33, 15), (38, 17)] {
        let mantissa = 10_i128.pow(u32::from(precision)) - 1;
        let mut bytes = vec![DECIMAL_N, length, precision, 0, length, 1];
        bytes.extend_from_slice(&mantissa.to_le_bytes()[..usize::from(length) - 1]);
        let mut reader = PayloadReader::new(&bytes);
        let wire_type = read_type_info(&mut reader).unwrap();
        let value = Value::Decimal(Box::new(Decimal { mantissa, precision, scale: 0 }));
        assert_eq!(read_value(&mut reader, &wire_type), Ok(value), "precision {precision}");
        assert_eq!(reader.remaining(), 0);
    }
    for length in [1, 18] {
        let mut bytes = vec![DECIMAL_N, 17, 38, 0, length];
        bytes.resize(bytes.len() + usize::from(length), 0);
        let mut reader = PayloadReader::new(&bytes);
        let wire_type = read_type_info(&mut reader).unwrap();
        assert!(read_value(&mut reader, &wire_type).is_err(), "{length} bytes");
    }
}

#[test]
fn values_outside_their_type_are_refused() {
    let not_a_number = [&[FLOAT_N, 8, 8][..], &f64::NAN.to_le_bytes()].concat();
    let after_9999 = [&[DATE_N, 3][..], &(LAST_DAY + 1).to_le_bytes()[..3]].concat();
    let too_many_digits = [DECIMAL_N, 5, 2, 0, 5, 1, 100, 0, 0, 0];
    for bytes in [&not_a_number[..], &after_9999, &too_many_digits] {
        let mut reader = PayloadReader::new(bytes);
        let wire_type = read_type_info(&mut reader).unwrap();
        assert_eq!(read_value(&mut reader, &wire_type), Err(ReadError::InvalidValue(bytes[0])));
    }
}

#[test]
fn foreign_code_pages_are_refused_where_they_differ() {
    let greek = [BIG_VARCHAR, 10, 0, 0x08, 0x04, 0, 0, 0];
    let read = |text: &[u8]| {
        let bytes = [&greek[..], &[u8::try_from(text.len()).unwrap(), 0], text].concat();
        let mut reader = PayloadReader::new(&bytes);
        let wire_type = read_type_info(&mut reader).unwrap();
        read_value(&mut reader, &wire_type)
    };
    assert_eq!(read(b"abc"), Ok(Value::String("abc".into())));
    assert!(matches!(read(&[0xE1]), Err(ReadError::NotSupported(_))));
}
