//! Exact numbers of up to 38 digits: text, scale, and the four operations with SQL Server's rounding.
//!
//! A mantissa has at most 38 digits and fits `i128`. The product of two does not; it is held in 256 bits, as two
//! halves, until it is cut to its scale.

use std::fmt;

/// An exact number: `mantissa / 10^scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    pub mantissa: i128,
    pub precision: u8,
    pub scale: u8,
}

/// Why a text is no decimal of the wanted type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseDecimalError {
    /// It is not a number.
    Malformed,
    /// It has more digits before the point than the type.
    Overflow,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let digits = self.mantissa.unsigned_abs();
        if self.scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        let unit = 10u128.pow(u32::from(self.scale));
        let width = usize::from(self.scale);
        write!(f, "{sign}{}.{:0width$}", digits / unit, digits % unit)
    }
}

impl Decimal {
    /// The number nearest to this one.
    pub fn to_f64(self) -> f64 {
        self.to_string().parse().expect("a decimal's text is a number")
    }

    /// The number without its fraction.
    pub fn trunc(self) -> i128 {
        self.mantissa / power_of_ten(self.scale)
    }

    /// The same number with another precision and scale, rounded half away from zero; none if it does not fit.
    pub fn resize(self, precision: u8, scale: u8) -> Option<Decimal> {
        let mantissa = if scale >= self.scale {
            self.mantissa.checked_mul(power_of_ten(scale - self.scale))?
        } else {
            let unit = power_of_ten(self.scale - scale);
            let (quotient, rest) = (self.mantissa / unit, self.mantissa % unit);
            let round_up = rest.unsigned_abs() >= unit.unsigned_abs() - rest.unsigned_abs();
            if round_up { quotient + self.mantissa.signum() } else { quotient }
        };
        Decimal::checked(mantissa, precision, scale)
    }

    /// A decimal, unless it has more digits than its precision.
    pub fn checked(mantissa: i128, precision: u8, scale: u8) -> Option<Decimal> {
        let fits = mantissa.unsigned_abs() < power_of_ten(precision).unsigned_abs();
        fits.then_some(Decimal { mantissa, precision, scale })
    }

    /// Reads `[+-]digits[.digits]`, surrounded by blanks or not, rounding what exceeds the scale.
    ///
    /// # Errors
    /// If the text is not such a number, or too large for the precision.
    pub fn parse(text: &str, precision: u8, scale: u8) -> Result<Decimal, ParseDecimalError> {
        let text = text.trim_matches(' ');
        let (negative, digits) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (integral, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let has_digits = !(integral.is_empty() && fraction.is_empty());
        let only_digits = integral.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
        if !has_digits || !only_digits {
            return Err(ParseDecimalError::Malformed);
        }
        let kept_fraction = &fraction[..fraction.len().min(usize::from(scale))];
        let mut mantissa: i128 = 0;
        for digit in integral.bytes().chain(kept_fraction.bytes()) {
            let next = mantissa.checked_mul(10).and_then(|m| m.checked_add(i128::from(digit - b'0')));
            mantissa = next.ok_or(ParseDecimalError::Overflow)?;
        }
        let missing = scale - u8::try_from(kept_fraction.len()).expect("cut to the scale");
        mantissa = mantissa.checked_mul(power_of_ten(missing)).ok_or(ParseDecimalError::Overflow)?;
        if fraction.as_bytes().get(usize::from(scale)).is_some_and(|&next| next >= b'5') {
            mantissa += 1;
        }
        let signed = if negative { -mantissa } else { mantissa };
        Decimal::checked(signed, precision, scale).ok_or(ParseDecimalError::Overflow)
    }

    /// A float as a decimal: 17 significant digits of it, rounded to the scale ("float to numeric" in "CAST and
    /// CONVERT", docs/t-sql/functions/cast-and-convert-transact-sql.md). None if it does not fit.
    pub fn from_f64(value: f64, precision: u8, scale: u8) -> Option<Decimal> {
        let scientific = format!("{value:.16e}");
        let (significand, exponent) = scientific.split_once('e')?;
        let exponent: i32 = exponent.parse().ok()?;
        let mantissa: i128 = significand.replace('.', "").parse().ok()?;
        // value = mantissa / 10^(16 - exponent), and the mantissa has 17 digits.
        let fraction_digits = 16 - exponent;
        if fraction_digits < 0 {
            let shift = u32::try_from(-fraction_digits).ok()?.checked_add(u32::from(scale))?;
            return Decimal::checked(mantissa.checked_mul(10i128.checked_pow(shift)?)?, precision, scale);
        }
        let Some(fraction_digits) = u8::try_from(fraction_digits).ok().filter(|&digits| digits <= 38) else {
            // Its first digit stands beyond the 21st place behind the point; nothing of a 17-digit number is left
            // within a scale of 38 but what rounding to zero drops.
            let text = format!("{value:.38}");
            return Decimal::parse(&text, precision, scale).ok();
        };
        Decimal { mantissa, precision: 38, scale: fraction_digits }.resize(precision, scale)
    }

    /// The sum, in a type that [`crate::value::arithmetic::binary_type`] gave; none on overflow.
    pub fn add(self, other: Decimal, precision: u8, scale: u8) -> Option<Decimal> {
        let exact_scale = self.scale.max(other.scale);
        let a = self.mantissa.checked_mul(power_of_ten(exact_scale - self.scale));
        let b = other.mantissa.checked_mul(power_of_ten(exact_scale - other.scale));
        if let (Some(a), Some(b)) = (a, b)
            && let Some(sum) = a.checked_add(b)
        {
            return Decimal { mantissa: sum, precision: 38, scale: exact_scale }.resize(precision, scale);
        }
        // At 38 digits there may be no room for the exact sum: round both to the scale of the result first.
        let (a, b) = (self.resize(38, scale)?, other.resize(38, scale)?);
        Decimal::checked(a.mantissa.checked_add(b.mantissa)?, precision, scale)
    }

    /// The product, rounded to the scale; none on overflow.
    pub fn multiply(self, other: Decimal, precision: u8, scale: u8) -> Option<Decimal> {
        let negative = (self.mantissa < 0) != (other.mantissa < 0);
        let exact = Wide::product(self.mantissa.unsigned_abs(), other.mantissa.unsigned_abs());
        let surplus = self.scale + other.scale - scale;
        let rounded = if surplus == 0 {
            exact
        } else {
            // Only the first digit dropped decides how to round, so the others can go first.
            let mut kept = exact;
            let mut to_drop = surplus - 1;
            while to_drop > 0 {
                let step = to_drop.min(38);
                kept = kept.divide(power_of_ten(step).unsigned_abs()).0;
                to_drop -= step;
            }
            let (quotient, digit) = kept.divide(10);
            if digit >= 5 { quotient.increment() } else { quotient }
        };
        let magnitude = i128::try_from(rounded.narrow()?).ok()?;
        Decimal::checked(if negative { -magnitude } else { magnitude }, precision, scale)
    }

    /// The quotient, cut (not rounded) to the scale; none on overflow. The divisor is not zero.
    pub fn divide(self, divisor: Decimal, precision: u8, scale: u8) -> Option<Decimal> {
        let negative = (self.mantissa < 0) != (divisor.mantissa < 0);
        let by = divisor.mantissa.unsigned_abs();
        let mut quotient = self.mantissa.unsigned_abs() / by;
        let mut rest = self.mantissa.unsigned_abs() % by;
        // The scale of the plain quotient is s1 - s2: it needs this many digits more, or fewer.
        let more_digits = i16::from(scale) - i16::from(self.scale) + i16::from(divisor.scale);
        for _ in 0..more_digits {
            let (digit, next_rest) = Wide::product(rest, 10).divide(by);
            quotient = quotient.checked_mul(10)?.checked_add(digit.narrow()?)?;
            rest = next_rest;
        }
        for _ in more_digits..0 {
            quotient /= 10;
        }
        let magnitude = i128::try_from(quotient).ok()?;
        Decimal::checked(if negative { -magnitude } else { magnitude }, precision, scale)
    }

    /// The remainder, with the sign of the dividend; none on overflow. The divisor is not zero.
    pub fn modulo(self, divisor: Decimal, precision: u8, scale: u8) -> Option<Decimal> {
        let exact_scale = self.scale.max(divisor.scale);
        let up = power_of_ten(exact_scale - self.scale).unsigned_abs();
        let by = divisor.mantissa.unsigned_abs().checked_mul(power_of_ten(exact_scale - divisor.scale).unsigned_abs());
        let magnitude = match by.filter(|&by| by < 1 << 127) {
            Some(by) => Wide::product(self.mantissa.unsigned_abs(), up).divide(by).1,
            // A divisor beyond 127 bits is larger than the dividend, whose scale was the larger one.
            None => self.mantissa.unsigned_abs(),
        };
        let magnitude = i128::try_from(magnitude).ok()?;
        let signed = if self.mantissa < 0 { -magnitude } else { magnitude };
        Decimal { mantissa: signed, precision: 38, scale: exact_scale }.resize(precision, scale)
    }
}

/// 10 to a power of at most 38, which is the largest that fits.
pub fn power_of_ten(exponent: u8) -> i128 {
    10i128.pow(u32::from(exponent))
}

/// An unsigned number of 256 bits.
#[derive(Debug, Clone, Copy)]
struct Wide {
    high: u128,
    low: u128,
}

impl Wide {
    fn product(a: u128, b: u128) -> Wide {
        const HALF: u32 = 64;
        const MASK: u128 = (1 << HALF) - 1;
        let (a_high, a_low) = (a >> HALF, a & MASK);
        let (b_high, b_low) = (b >> HALF, b & MASK);
        let low = a_low * b_low;
        let middle = a_high * b_low + (low >> HALF);
        let crossed = a_low * b_high + (middle & MASK);
        Wide { high: a_high * b_high + (middle >> HALF) + (crossed >> HALF), low: (crossed << HALF) | (low & MASK) }
    }

    /// Quotient and remainder; the divisor has at most 127 bits.
    fn divide(self, by: u128) -> (Wide, u128) {
        if self.high == 0 {
            return (Wide { high: 0, low: self.low / by }, self.low % by);
        }
        let mut quotient = Wide { high: self.high / by, low: 0 };
        let mut rest = self.high % by;
        for bit in (0..128).rev() {
            rest = (rest << 1) | ((self.low >> bit) & 1);
            if rest >= by {
                rest -= by;
                quotient.low |= 1 << bit;
            }
        }
        (quotient, rest)
    }

    fn increment(self) -> Wide {
        let (low, carry) = self.low.overflowing_add(1);
        Wide { high: self.high + u128::from(carry), low }
    }

    fn narrow(self) -> Option<u128> {
        (self.high == 0).then_some(self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str, precision: u8, scale: u8) -> Decimal {
        Decimal::parse(text, precision, scale).unwrap()
    }

    #[test]
    fn text_is_rounded_half_away_from_zero() {
        let cases = [
            ("1.555", 3, 2, "1.56"),
            ("-1.555", 3, 2, "-1.56"),
            (" .5 ", 3, 1, "0.5"),
            ("7", 5, 2, "7.00"),
            ("-0.004", 3, 2, "0.00"),
        ];
        for (text, precision, scale, expected) in cases {
            assert_eq!(decimal(text, precision, scale).to_string(), expected);
        }
        assert_eq!(Decimal::parse("9.995", 3, 2), Err(ParseDecimalError::Overflow));
        for text in ["", ".", "1e5", "1,5", "--1", "1 2"] {
            assert_eq!(Decimal::parse(text, 5, 2), Err(ParseDecimalError::Malformed), "{text:?}");
        }
    }

    #[test]
    fn floats_become_decimals() {
        assert_eq!(Decimal::from_f64(10.6496, 10, 2).unwrap().to_string(), "10.65");
        assert_eq!(Decimal::from_f64(-1e20, 38, 4).unwrap().to_string(), "-100000000000000000000.0000");
        assert_eq!(Decimal::from_f64(1e-30, 38, 10).unwrap().to_string(), "0.0000000000");
        assert_eq!(Decimal::from_f64(1e40, 38, 0), None);
    }

    #[test]
    fn products_and_quotients_of_many_digits() {
        let nines = decimal("99999999999999999999999999999999999999", 38, 0);
        assert_eq!(nines.multiply(decimal("1", 1, 0), 38, 0), Some(nines));
        assert_eq!(nines.multiply(decimal("2", 1, 0), 38, 0), None);
        let small = decimal("0.12345678901234567890", 30, 20);
        assert_eq!(small.multiply(small, 38, 17).unwrap().to_string(), "0.01524157875323884");
        assert_eq!(decimal("2", 1, 0).divide(decimal("3", 1, 0), 8, 6).unwrap().to_string(), "0.666666");
        assert_eq!(nines.divide(nines, 38, 6).unwrap().to_string(), "1.000000");
        assert_eq!(decimal("-7.5", 2, 1).modulo(decimal("2", 1, 0), 2, 1).unwrap().to_string(), "-1.5");
    }
}
