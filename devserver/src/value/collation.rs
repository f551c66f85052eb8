//! The collations of the dev server: how text is compared and sorted.
//!
//! `SQL_Latin1_General_CP1_CI_AS`, the default of a US English server, is approximated: letters are compared without
//! case and with accents, by the code of their lower-case form; trailing blanks do not count. SQL Server goes by
//! linguistic weights instead, so that there
//! - text sorts in another order: punctuation before digits before letters, "é" between "e" and "f";
//! - full-width, half-width and kana forms of a letter are equal, "ß" equals "ss", and `nvarchar` text that differs
//!   only in characters the collation has no weight for (emoji, for one) is equal.
//!
//! The two binary collations compare code units and are exact. Names come out as in "Collation and Unicode support"
//! (MicrosoftDocs/sql-docs, docs/relational-databases/collations/collation-and-unicode-support.md).

use crate::error::{SqlError, SqlResult};

/// A collation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Collation {
    /// `SQL_Latin1_General_CP1_CI_AS`: case-insensitive, accent-sensitive.
    #[default]
    SqlLatin1GeneralCp1CiAs,
    /// `Latin1_General_100_BIN2`: by UTF-16 code unit.
    Latin1General100Bin2,
    /// `Latin1_General_BIN2`: by UTF-16 code unit.
    Latin1GeneralBin2,
}

impl Collation {
    const ALL: [Collation; 3] =
        [Collation::SqlLatin1GeneralCp1CiAs, Collation::Latin1General100Bin2, Collation::Latin1GeneralBin2];

    /// The collation of a name, in any case.
    ///
    /// # Errors
    /// 448 for every other name, including those SQL Server knows.
    pub fn parse(name: &str) -> SqlResult<Collation> {
        Collation::ALL
            .into_iter()
            .find(|collation| collation.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| SqlError::new(448, format!("Invalid collation '{name}'.")))
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Collation::SqlLatin1GeneralCp1CiAs => "SQL_Latin1_General_CP1_CI_AS",
            Collation::Latin1General100Bin2 => "Latin1_General_100_BIN2",
            Collation::Latin1GeneralBin2 => "Latin1_General_BIN2",
        }
    }

    /// The five bytes that stand for the collation in TDS: 20 bits of LCID, 8 flags, 4 bits of version, the sort id
    /// ([MS-TDS] 2.2.5.1.2, "Collation Rule Definition").
    pub fn tds_bytes(self) -> [u8; 5] {
        match self {
            Collation::SqlLatin1GeneralCp1CiAs => [0x09, 0x04, 0xD0, 0x00, 0x34],
            Collation::Latin1General100Bin2 => [0x09, 0x04, 0x00, 0x22, 0x00],
            Collation::Latin1GeneralBin2 => [0x09, 0x04, 0x00, 0x02, 0x00],
        }
    }

    /// Whether text is compared by its code units.
    pub fn is_binary(self) -> bool {
        self != Collation::SqlLatin1GeneralCp1CiAs
    }

    /// A UTF-16 unit in the form in which it is compared.
    pub fn fold(self, unit: u16) -> u16 {
        if self.is_binary() {
            return unit;
        }
        if let Ok(byte) = u8::try_from(unit)
            && byte.is_ascii()
        {
            return u16::from(byte.to_ascii_lowercase());
        }
        let Some(character) = char::from_u32(u32::from(unit)) else {
            return unit;
        };
        let mut lower = character.to_lowercase();
        match (lower.next(), lower.next()) {
            (Some(only), None) => u16::try_from(u32::from(only)).unwrap_or(unit),
            _ => unit,
        }
    }

    /// The UTF-16 units of a text in the form in which they are compared.
    pub fn folded_units(self, text: &str) -> impl Iterator<Item = u16> {
        text.encode_utf16().map(move |unit| self.fold(unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_collation_is_refused() {
        assert_eq!(Collation::parse("latin1_general_100_bin2"), Ok(Collation::Latin1General100Bin2));
        let error = Collation::parse("Finnish_Swedish_CI_AS").unwrap_err();
        assert_eq!((error.number, error.message.as_str()), (448, "Invalid collation 'Finnish_Swedish_CI_AS'."));
    }
}
