//! The figures: tables, which stand in docs/scale.md as they are, and claims, which must hold.

use std::fmt::Write;

/// Where the tables stand.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scale.md");

#[derive(Default)]
pub struct Report {
    tables: Vec<(&'static str, String)>,
    failed: usize,
}

impl Report {
    /// A table that stands in docs/scale.md under its name.
    pub fn table(&mut self, name: &'static str, columns: &[&str], rows: &[Vec<String>]) {
        let mut text = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
        for row in rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        println!("\n{name}\n\n{text}");
        self.tables.push((name, text));
    }

    /// Something that docs/scale.md says.
    pub fn claim(&mut self, what: &str, holds: bool) {
        println!("{} {what}", if holds { "holds:" } else { "DOES NOT HOLD:" });
        self.failed += usize::from(!holds);
    }

    pub fn all_hold(&self) -> bool {
        self.failed == 0
    }

    /// Compares the tables with those of the page, or writes them into it with `UPDATE_DOCS=1`.
    pub fn compare_with_page(&mut self) {
        let mut page = std::fs::read_to_string(PAGE).expect("docs/scale.md can be read");
        let mut changed = Vec::new();
        for (name, table) in &self.tables {
            let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
            let place = page.find(&begin).map(|at| at + begin.len());
            let Some((from, until)) = place.zip(page.find(&end)) else {
                changed.push(format!("docs/scale.md has no place for the table {name:?}: {begin}{end}"));
                continue;
            };
            if page[from..until].trim() != table.trim() {
                changed.push(format!("the table {name:?} of docs/scale.md is another; UPDATE_DOCS=1 writes it"));
                page.replace_range(from..until, &format!("\n{table}\n"));
            }
        }
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(PAGE, page).expect("docs/scale.md can be written");
            changed.retain(|what| what.contains("no place"));
        }
        for what in changed {
            self.claim(&what, false);
        }
    }
}

/// As many digits as a reader can use.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        whole if whole.fract() == 0.0 => 0,
        large if large >= 9.95 => 0,
        middle if middle >= 0.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let whole = text.find('.').unwrap_or(text.len());
    let mut grouped = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && index < whole && (whole - index) % 3 == 0 && digit.is_ascii_digit() {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
