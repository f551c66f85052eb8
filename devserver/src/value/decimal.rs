//! Exact numbers of up to 38 digits: text, precision and scale, with SQL Server's rounding.

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
}

/// 10 to a power of at most 38, which is the largest that fits.
pub fn power_of_ten(exponent: u8) -> i128 {
    10i128.pow(u32::from(exponent))
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
}
