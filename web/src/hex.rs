//! Hexadecimal digits, as in SQL Server's tools.

use std::fmt::Write;

/// Formats bytes as hexadecimal digits: `0x7B7D`.
pub fn digits(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 + 2 * bytes.len());
    digits.push_str("0x");
    for byte in bytes {
        let _ = write!(digits, "{byte:02X}"); // a String takes everything
    }
    digits
}

/// The bytes of pairs of digits, without `0x`.
pub fn bytes(digits: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    if odd.is_empty() { pairs.iter().map(byte).collect() } else { None }
}
