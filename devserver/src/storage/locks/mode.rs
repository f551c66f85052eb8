//! The lock modes, and which of them go together.
//!
//! Source: "Transaction locking and row versioning guide" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md), "Lock compatibility" and
//! "Key-range lock modes".

/// A lock mode. Rows and application locks have `S`, `U` and `X` (application locks also `IS`, `IX`), tables all up to
/// `X`, index keys also the ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LockMode {
    /// `Sch-S`: NOLOCK readers.
    SchemaStability,
    /// `Sch-M`: DDL.
    SchemaModification,
    /// `IS`
    IntentShared,
    /// `S`
    Shared,
    /// `U`
    Update,
    /// `IX`
    IntentExclusive,
    /// `SIX`
    SharedIntentExclusive,
    /// `UIX`
    UpdateIntentExclusive,
    /// `X`
    Exclusive,
    /// `RangeS-S`: the key, and the gap before it.
    RangeSharedShared,
    /// `RangeS-U`
    RangeSharedUpdate,
    /// `RangeI-N`: an insert into the gap, nothing of the key.
    RangeInsertNull,
    /// `RangeX-X`
    RangeExclusive,
    /// `RangeI-S`, and so on: what a holder has who holds two of those above.
    RangeInsertShared,
    RangeInsertUpdate,
    RangeExclusiveShared,
    RangeExclusiveUpdate,
}

/// The modes in the order of their numbers.
const MODES: [LockMode; 17] = {
    use LockMode::*;
    [
        SchemaStability,
        SchemaModification,
        IntentShared,
        Shared,
        Update,
        IntentExclusive,
        SharedIntentExclusive,
        UpdateIntentExclusive,
        Exclusive,
        RangeSharedShared,
        RangeSharedUpdate,
        RangeInsertNull,
        RangeExclusive,
        RangeInsertShared,
        RangeInsertUpdate,
        RangeExclusiveShared,
        RangeExclusiveUpdate,
    ]
};

/// For each mode those that other sessions may hold at the same time: a bit for each.
const COMPATIBLE: [u32; MODES.len()] = {
    let mut table = [0; MODES.len()];
    let mut mine = 0;
    while mine < MODES.len() {
        let mut other = 0;
        while other < MODES.len() {
            if MODES[mine].admits(MODES[other]) {
                table[mine] |= 1 << other;
            }
            other += 1;
        }
        mine += 1;
    }
    table
};

/// The gap's half of a key-range mode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    None,
    Shared,
    Insert,
    Exclusive,
}

impl LockMode {
    /// What the mode means for the key itself (`None`: nothing) and for the gap before it.
    const fn parts(self) -> (Option<LockMode>, Gap) {
        use LockMode::*;
        match self {
            RangeSharedShared => (Some(Shared), Gap::Shared),
            RangeSharedUpdate => (Some(Update), Gap::Shared),
            RangeInsertNull => (None, Gap::Insert),
            RangeExclusive => (Some(Exclusive), Gap::Exclusive),
            RangeInsertShared => (Some(Shared), Gap::Insert),
            RangeInsertUpdate => (Some(Update), Gap::Insert),
            RangeExclusiveShared => (Some(Shared), Gap::Exclusive),
            RangeExclusiveUpdate => (Some(Update), Gap::Exclusive),
            other => (Some(other), Gap::None),
        }
    }

    /// Whether it locks the gap before a key against inserts, or tests it.
    pub(crate) fn is_range(self) -> bool {
        self as u8 >= LockMode::RangeSharedShared as u8
    }

    /// Whether two sessions may hold the modes at the same time. Source: the locking guide, "Lock compatibility" and
    /// "Key-range lock modes".
    const fn admits(self, other: LockMode) -> bool {
        let (key, gap) = self.parts();
        let (other_key, other_gap) = other.parts();
        let gaps_agree = matches!(
            (gap, other_gap),
            (Gap::None, _) | (_, Gap::None) | (Gap::Shared, Gap::Shared) | (Gap::Insert, Gap::Insert)
        );
        let keys_agree = match (key, other_key) {
            (Some(key), Some(other_key)) => key.admits_whole(other_key),
            _ => true,
        };
        gaps_agree && keys_agree
    }

    /// The same for modes without range.
    const fn admits_whole(self, other: LockMode) -> bool {
        use LockMode::*;
        match (self, other) {
            (SchemaModification, _) | (_, SchemaModification) => false,
            (SchemaStability, _) | (_, SchemaStability) => true,
            (Exclusive, _) | (_, Exclusive) => false,
            (IntentShared, _) | (_, IntentShared) => true,
            (Shared, Shared | Update) | (Update, Shared) => true,
            (IntentExclusive, IntentExclusive) => true,
            _ => false,
        }
    }

    pub(super) fn is_compatible_with(self, other: LockMode) -> bool {
        COMPATIBLE[self as usize] & (1 << other as u32) != 0
    }

    /// Whether this mode keeps out everything that `other` keeps out.
    pub(crate) fn covers(self, other: LockMode) -> bool {
        COMPATIBLE[self as usize] & !COMPATIBLE[other as usize] == 0
    }

    /// The mode that a holder of `self` has after it was also granted `other`: the weakest that keeps out what either
    /// keeps out.
    pub(super) fn join(self, other: LockMode) -> LockMode {
        if self.covers(other) {
            return self;
        }
        if other.covers(self) {
            return other;
        }
        // SIX and UIX keep out the same; their names tell what they were made of.
        if self == LockMode::Update || other == LockMode::Update {
            let of_table = [self, other].contains(&LockMode::IntentExclusive);
            if of_table {
                return LockMode::UpdateIntentExclusive;
            }
        }
        let kept_out = |mode: LockMode| !COMPATIBLE[mode as usize];
        let needed = kept_out(self) | kept_out(other);
        let strong_enough = MODES.into_iter().filter(|mode| needed & !kept_out(*mode) == 0);
        strong_enough.min_by_key(|mode| kept_out(*mode).count_ones()).unwrap_or(LockMode::SchemaModification)
    }

    /// The name in sys.dm_tran_locks.request_mode.
    pub fn name(self) -> &'static str {
        match self {
            LockMode::SchemaStability => "Sch-S",
            LockMode::SchemaModification => "Sch-M",
            LockMode::IntentShared => "IS",
            LockMode::Shared => "S",
            LockMode::Update => "U",
            LockMode::IntentExclusive => "IX",
            LockMode::SharedIntentExclusive => "SIX",
            LockMode::UpdateIntentExclusive => "UIX",
            LockMode::Exclusive => "X",
            LockMode::RangeSharedShared => "RangeS-S",
            LockMode::RangeSharedUpdate => "RangeS-U",
            LockMode::RangeInsertNull => "RangeI-N",
            LockMode::RangeExclusive => "RangeX-X",
            LockMode::RangeInsertShared => "RangeI-S",
            LockMode::RangeInsertUpdate => "RangeI-U",
            LockMode::RangeExclusiveShared => "RangeX-S",
            LockMode::RangeExclusiveUpdate => "RangeX-U",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LockMode::{self, *};

    /// The two tables of the guide, row by row: the requested mode, and Y or N for each granted one.
    fn check(granted: &[LockMode], table: &[(LockMode, &str)]) {
        for (requested, answers) in table {
            for (granted, answer) in granted.iter().zip(answers.chars()) {
                let compatible = requested.is_compatible_with(*granted);
                assert_eq!(compatible, answer == 'Y', "{} beside {}", requested.name(), granted.name());
            }
        }
    }

    #[test]
    fn the_guides_table_of_the_usual_modes() {
        let table = [
            (IntentShared, "YYYYYN"),
            (Shared, "YYYNNN"),
            (Update, "YYNNNN"),
            (IntentExclusive, "YNNYNN"),
            (SharedIntentExclusive, "YNNNNN"),
            (Exclusive, "NNNNNN"),
        ];
        check(&[IntentShared, Shared, Update, IntentExclusive, SharedIntentExclusive, Exclusive], &table);
    }

    #[test]
    fn the_guides_table_of_key_ranges() {
        let granted =
            [Shared, Update, Exclusive, RangeSharedShared, RangeSharedUpdate, RangeInsertNull, RangeExclusive];
        let table = [
            (Shared, "YYNYYYN"),
            (Update, "YNNYNYN"),
            (Exclusive, "NNNNNYN"),
            (RangeSharedShared, "YYNYYNN"),
            (RangeSharedUpdate, "YNNYNNN"),
            (RangeInsertNull, "YYYNNYN"),
            (RangeExclusive, "NNNNNNN"),
        ];
        check(&granted, &table);
    }

    /// "Conversion locks" in the guide (but RangeI-X: who holds X may insert before the key anyway), and the intent
    /// modes that are made of two.
    #[test]
    fn conversions() {
        let conversions = [
            (Shared, RangeInsertNull, RangeInsertShared),
            (Update, RangeInsertNull, RangeInsertUpdate),
            (RangeInsertNull, RangeSharedShared, RangeExclusiveShared),
            (RangeInsertNull, RangeSharedUpdate, RangeExclusiveUpdate),
            (RangeSharedShared, Exclusive, RangeExclusive),
            (RangeSharedShared, Update, RangeSharedUpdate),
            (Shared, IntentExclusive, SharedIntentExclusive),
            (Update, IntentExclusive, UpdateIntentExclusive),
            (Shared, Exclusive, Exclusive),
        ];
        for (a, b, result) in conversions {
            assert_eq!(a.join(b), result, "{} and {}", a.name(), b.name());
            assert_eq!(b.join(a), result, "{} and {}", b.name(), a.name());
        }
    }
}
