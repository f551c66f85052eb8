//! The collations of the dev server: how text is compared and sorted.
//!
//! `SQL_Latin1_General_CP1_CI_AS`, the default of a US English server, is approximated: letters are compared without
//! case and with accents, by the code of their lower-case form; trailing blanks do not count. SQL Server goes by
//! linguistic weights instead, so that there
//! - text sorts in another order: punctuation before digits before letters, "é" between "e" and "f";
//! - full-width, half-width and kana forms of a letter are equal, "ß" equals "ss", and `nvarchar` text that differs
//!   only in characters the collation has no weight for (emoji, for one) is equal.
//!
//! `Latin1_General_CI_AS` and `Latin1_General_100_CI_AS` compare in the same way, and the same holds for them. With
//! `CS` in the place of `CI` letters of another case are other letters: text is sorted as before, and where only the
//! case differs, "lowercase letters sort ahead of their uppercase versions". (`SQL_Latin1_General_CP1_CS_AS` sorts
//! `varchar` the other way round and is refused.) The two binary collations compare code units and are exact. What
//! would compare otherwise (without accents, in another language, in UTF-8) is refused by name. Names come out as in
//! "Collation and Unicode support" (MicrosoftDocs/sql-docs,
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
    /// `Latin1_General_CS_AS`: case-sensitive.
    Latin1GeneralCsAs,
    /// `Latin1_General_100_CS_AS`: the same of a later Windows.
    Latin1General100CsAs,
    /// `Latin1_General_100_BIN2`: by UTF-16 code unit.
    Latin1General100Bin2,
    /// `Latin1_General_BIN2`: by UTF-16 code unit.
    Latin1GeneralBin2,
}

impl Collation {
    /// Those that the dev server has, by name.
    pub const ALL: [Collation; 7] = [
        Collation::Latin1General100Bin2,
        Collation::Latin1General100CiAs,
        Collation::Latin1General100CsAs,
        Collation::Latin1GeneralBin2,
        Collation::Latin1GeneralCiAs,
        Collation::Latin1GeneralCsAs,
        Collation::SqlLatin1GeneralCp1CiAs,
    ];

    /// The collation of a name, in any case.
    ///
    /// # Errors
    /// 448 for what is no name of a collation; SQL Server's other ones are refused by name.
    pub fn parse(name: &str) -> SqlResult<Collation> {
        let known = Collation::ALL.into_iter().find(|collation| collation.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| {
            if is_collation_name(name) {
                return SqlError::not_supported(format!("the collation {name}"));
            }
            SqlError::new(448, format!("Invalid collation '{name}'."))
        })
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Collation::SqlLatin1GeneralCp1CiAs => "SQL_Latin1_General_CP1_CI_AS",
            Collation::Latin1GeneralCiAs => "Latin1_General_CI_AS",
            Collation::Latin1General100CiAs => "Latin1_General_100_CI_AS",
            Collation::Latin1GeneralCsAs => "Latin1_General_CS_AS",
            Collation::Latin1General100CsAs => "Latin1_General_100_CS_AS",
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
            Collation::Latin1GeneralCsAs => [0x09, 0x04, 0xC0, 0x00, 0x00],
            Collation::Latin1General100CsAs => [0x09, 0x04, 0xC0, 0x20, 0x00],
            Collation::Latin1General100Bin2 => [0x09, 0x04, 0x00, 0x22, 0x00],
            Collation::Latin1GeneralBin2 => [0x09, 0x04, 0x00, 0x02, 0x00],
        }
    }

    /// Whether text is compared by its code units.
    pub fn is_binary(self) -> bool {
        matches!(self, Collation::Latin1General100Bin2 | Collation::Latin1GeneralBin2)
    }

    /// Whether letters of another case are other letters that stand beside each other in the order.
    pub fn is_case_sensitive(self) -> bool {
        matches!(self, Collation::Latin1GeneralCsAs | Collation::Latin1General100CsAs)
    }

    /// A UTF-16 unit in the form in which units are equal.
    pub fn fold(self, unit: u16) -> u16 {
        if self.is_case_sensitive() { unit } else { self.sort_unit(unit) }
    }

    /// Where a UTF-16 unit stands among the units that are sorted alike: what decides when nothing else does.
    pub fn case_rank(self, unit: u16) -> u16 {
        if !self.is_case_sensitive() || self.sort_unit(unit) == unit { 0 } else { unit }
    }

    /// The place of a UTF-16 unit in the order of all, for the ranges of LIKE.
    pub fn place(self, unit: u16) -> u32 {
        u32::from(self.sort_unit(unit)) << 16 | u32::from(self.case_rank(unit))
    }

    /// A UTF-16 unit in the form in which text is sorted first.
    pub fn sort_unit(self, unit: u16) -> u16 {
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

    /// The UTF-16 units of a text in the form in which it is sorted first.
    pub fn sort_units(self, text: &str) -> impl Iterator<Item = u16> {
        units(text).map(move |unit| self.sort_unit(unit))
    }

    /// The UTF-16 units of a text in the form in which they are equal.
    pub fn folded_units(self, text: &str) -> impl Iterator<Item = u16> {
        units(text).map(move |unit| self.fold(unit))
    }
}

/// What SQL Server's names of Windows collations begin with, before version and styles.
///
/// Sources: "Windows collation name", docs/t-sql/statements/windows-collation-name-transact-sql.md, and "Collation and
/// Unicode support".
#[rustfmt::skip]
const WINDOWS_DESIGNATORS: &[&str] = &[
    "Albanian", "Arabic", "Assamese", "Azeri_Cyrillic", "Azeri_Latin", "Bashkir", "Bengali", "Bosnian_Cyrillic",
    "Bosnian_Latin", "Breton", "Chinese_Hong_Kong_Stroke", "Chinese_PRC", "Chinese_PRC_Stroke",
    "Chinese_Simplified_Pinyin", "Chinese_Simplified_Stroke_Order", "Chinese_Taiwan_Bopomofo",
    "Chinese_Taiwan_Stroke", "Chinese_Traditional_Bopomofo", "Chinese_Traditional_Pinyin",
    "Chinese_Traditional_Stroke_Count", "Chinese_Traditional_Stroke_Order", "Corsican", "Croatian",
    "Cyrillic_General", "Czech", "Danish_Greenlandic", "Danish_Norwegian", "Dari", "Divehi", "Estonian",
    "Finnish_Swedish", "French", "Frisian", "Georgian_Modern_Sort", "German_PhoneBook", "Greek", "Hebrew", "Hindi",
    "Hungarian", "Hungarian_Technical", "Icelandic", "Indic_General", "Japanese", "Japanese_Bushu_Kakusu",
    "Japanese_Unicode", "Japanese_XJIS", "Kazakh", "Khmer", "Korean", "Korean_Wansung", "Korean_Wansung_Unicode",
    "Lao", "Latin1_General", "Latvian", "Lithuanian", "Lithuanian_Classic", "Macedonian", "Macedonian_FYROM",
    "Maltese", "Maori", "Mapudungan", "Modern_Spanish", "Mohawk", "Nepali", "Norwegian", "Pashto", "Persian",
    "Polish", "Romanian", "Romansh", "Sami_Norway", "Sami_Sweden_Finland", "Serbian_Cyrillic", "Serbian_Latin",
    "Slovak", "Slovenian", "Syriac", "Tamazight", "Tatar", "Thai", "Tibetan", "Traditional_Spanish", "Turkish",
    "Turkmen", "Uighur", "Ukrainian", "Upper_Sorbian", "Urdu", "Uzbek_Latin", "Vietnamese", "Welsh", "Yakut",
];

/// The same of SQL Server's own collations, between `SQL_` and the code page.
///
/// Source: "SQL Server collation name", docs/t-sql/statements/sql-server-collation-name-transact-sql.md.
#[rustfmt::skip]
const SQL_DESIGNATORS: &[&str] = &[
    "1xCompat", "AltDiction", "AltDiction2", "Croatian", "Czech", "Danish_Pref", "EBCDIC037", "EBCDIC1141",
    "EBCDIC273", "EBCDIC277", "EBCDIC278", "EBCDIC280", "EBCDIC284", "EBCDIC285", "EBCDIC297", "Estonian",
    "Hungarian", "Icelandic_Pref", "Latin1_General", "Latin1_General_Pref", "Latvian", "Lithuanian", "MixDiction",
    "Polish", "Romanian", "Scandinavian", "Slovak", "Slovenian", "SwedishPhone_Pref", "SwedishStd_Pref", "Ukrainian",
];

/// Whether a name is made as SQL Server makes them. Some of these there are not, because not every language has every
/// version and style; they are refused like those that there are.
fn is_collation_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let among = |names: &[&str], designator: &str| names.iter().any(|known| known.eq_ignore_ascii_case(designator));
    let Some(designator) = without_styles(&name) else { return false };
    if let Some((own, code_page)) = designator.strip_prefix("sql_").and_then(|rest| rest.rsplit_once("_cp")) {
        return code_page.bytes().all(|byte| byte.is_ascii_digit()) && among(SQL_DESIGNATORS, own);
    }
    let versions = ["_90", "_100", "_140", "_160"];
    let base = versions.iter().find_map(|version| designator.strip_suffix(version)).unwrap_or(designator);
    among(WINDOWS_DESIGNATORS, base)
}

/// What stands before `_BIN`, `_BIN2`, or `_CI_AS` with the styles that may follow it.
fn without_styles(name: &str) -> Option<&str> {
    let mut rest = name.strip_suffix("_utf8").unwrap_or(name);
    if let Some(designator) = rest.strip_suffix("_bin2").or_else(|| rest.strip_suffix("_bin")) {
        return Some(designator);
    }
    for style in ["_sc", "_vss", "_ws", "_ks"] {
        rest = rest.strip_suffix(style).unwrap_or(rest);
    }
    let rest = rest.strip_suffix("_as").or_else(|| rest.strip_suffix("_ai"))?;
    rest.strip_suffix("_ci").or_else(|| rest.strip_suffix("_cs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_collation_is_refused() {
        assert_eq!(Collation::parse("latin1_general_100_bin2"), Ok(Collation::Latin1General100Bin2));
        let error = Collation::parse("Klingon_CI_AS").unwrap_err();
        assert_eq!((error.number, error.message.as_str()), (448, "Invalid collation 'Klingon_CI_AS'."));
    }

    #[test]
    fn a_collation_that_would_compare_otherwise_is_refused_by_name() {
        for name in [
            "Latin1_General_CS_AI",
            "latin1_general_bin",
            "Latin1_General_100_CI_AI_SC_UTF8",
            "Latin1_General_100_BIN2_UTF8",
            "SQL_Latin1_General_CP1_CS_AS",
            "Finnish_Swedish_CI_AS",
            "Japanese_XJIS_140_CI_AS_KS_WS_VSS",
        ] {
            let error = Collation::parse(name).unwrap_err();
            assert_eq!(error.number, crate::error::NOT_SUPPORTED, "{name}");
            assert!(error.message.contains(name), "{}", error.message);
        }
        for name in ["Latin1_General", "Latin1_General_CI", "SQL_Klingon_CP1_CI_AS", "utf8_general_ci", ""] {
            assert_eq!(Collation::parse(name).unwrap_err().number, 448, "{name}");
        }
    }
}
