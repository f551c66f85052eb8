//! Exact numbers of up to 38 digits: text, precision and scale, with SQL Server's rounding.

use crate::value::types::MAX_PRECISION;
use std::fmt;

/// An exact number: `mantissa / 10^scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    pub mantissa: i128,
    pub precision: u8,
    pub scale: u8,
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

    /// Reads `digits[.digits]`, rounding what exceeds the scale; none if the text is no such number or too large for the
    /// precision.
    pub fn parse(text: &str, precision: u8, scale: u8) -> Option<Decimal> {
        let (integral, fraction) = text.split_once('.').unwrap_or((text, ""));
        let mut mantissa: i128 = 0;
        for digit in integral.bytes().chain(fraction.bytes()) {
            let digit = char::from(digit).to_digit(10)?;
            mantissa = mantissa.checked_mul(10)?.checked_add(i128::from(digit))?;
        }
        let exact = Decimal { mantissa, precision: MAX_PRECISION, scale: u8::try_from(fraction.len()).ok()? };
        exact.resize(precision, scale)
    }
}

/// 10 to a power of at most 38, which is the largest that fits.
pub fn power_of_ten(exponent: u8) -> i128 {
    10i128.pow(u32::from(exponent))
}
