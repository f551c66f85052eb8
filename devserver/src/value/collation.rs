//! The collations of the dev server: how text is compared and sorted.
//!
//! `SQL_Latin1_General_CP1_CI_AS`, the default of a US English server, is approximated: letters are compared without
//! case and with accents, by the code of their lower-case form; trailing blanks do not count. SQL Server goes by
//! linguistic weights instead, so that there
//! - text sorts in another order: punctuation before digits before letters, "é" between "e" and "f";
//! - full-width, half-width and kana forms of a letter are equal, "ß" equals "ss", and `nvarchar` text that differs
//!   only in characters the collation has no weight for (emoji, for one) is equal.
//!
//! `Latin1_General_CI_AS` and `Latin1_General_100_CI_AS` compare in the same way, and the same holds for them. The two
//! binary collations compare code units and are exact: they go by "Unicode code points", and none of the collations
//! here knows supplementary characters, so that each half of a surrogate pair is a character with a code point of its
//! own. What would compare otherwise (with case or without accents, in another language, in UTF-8) is refused by name.
//! All this, and how names come out, is in "Collation and Unicode support" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/collations/collation-and-unicode-support.md).

use crate::error::{SqlError, SqlResult};
use crate::value::units::units;

/// A collation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Collation {
    /// `SQL_Latin1_General_CP1_CI_AS`: case-insensitive, accent-sensitive.
    #[default]
    SqlLatin1GeneralCp1CiAs,
    /// `Latin1_General_CI_AS`: the same rules, of Windows.
    Latin1GeneralCiAs,
    /// `Latin1_General_100_CI_AS`: of a later Windows.
    Latin1General100CiAs,
    /// `Latin1_General_100_BIN2`: by UTF-16 code unit.
    Latin1General100Bin2,
    /// `Latin1_General_BIN2`: by UTF-16 code unit.
    Latin1GeneralBin2,
}

impl Collation {
    /// Those that the dev server has, by name.
    const ALL: [Collation; 5] = [
        Collation::Latin1General100Bin2,
        Collation::Latin1General100CiAs,
        Collation::Latin1GeneralBin2,
        Collation::Latin1GeneralCiAs,
        Collation::SqlLatin1GeneralCp1CiAs,
    ];

    /// The collation of a name, in any case.
    ///
    /// # Errors
    /// A refusal of every other name.
    pub fn parse(name: &str) -> SqlResult<Collation> {
        let known = Collation::ALL.into_iter().find(|collation| collation.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| SqlError::not_supported(format!("the collation {name}")))
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Collation::SqlLatin1GeneralCp1CiAs => "SQL_Latin1_General_CP1_CI_AS",
            Collation::Latin1GeneralCiAs => "Latin1_General_CI_AS",
            Collation::Latin1General100CiAs => "Latin1_General_100_CI_AS",
            Collation::Latin1General100Bin2 => "Latin1_General_100_BIN2",
            Collation::Latin1GeneralBin2 => "Latin1_General_BIN2",
        }
    }

    /// The five bytes that stand for the collation in TDS: 20 bits of LCID, 8 flags, 4 bits of version, the sort id
    /// ([MS-TDS] 2.2.5.1.2, "Collation Rule Definition").
    pub fn tds_bytes(self) -> [u8; 5] {
        match self {
            Collation::SqlLatin1GeneralCp1CiAs => [0x09, 0x04, 0xD0, 0x00, 0x34],
            Collation::Latin1GeneralCiAs => [0x09, 0x04, 0xD0, 0x00, 0x00],
            Collation::Latin1General100CiAs => [0x09, 0x04, 0xD0, 0x20, 0x00],
            Collation::Latin1General100Bin2 => [0x09, 0x04, 0x00, 0x22, 0x00],
            Collation::Latin1GeneralBin2 => [0x09, 0x04, 0x00, 0x02, 0x00],
        }
    }

    /// Whether text is compared by its code units.
    pub fn is_binary(self) -> bool {
        matches!(self, Collation::Latin1General100Bin2 | Collation::Latin1GeneralBin2)
    }

    /// A UTF-16 unit in the form in which units are equal and sorted.
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

    /// The UTF-16 units of a text in the form in which they are equal and sorted.
    pub fn folded_units(self, text: &str) -> impl Iterator<Item = u16> {
        units(text).map(move |unit| self.fold(unit))
    }
}
