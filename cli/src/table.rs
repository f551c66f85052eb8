//! Tables as wide as the terminal, which drop columns before they cut words.

use crate::columns::{left, width_of};

/// Spaces between columns.
const GAP: usize = 2;

/// Texts are cut to this length before a column is dropped: times, numbers and readpast's own words are shorter.
const SHORT: usize = 24;

/// The lines of a table at most `width` wide; `None`: as wide as it needs. If it is too wide, long texts are cut to
/// [`SHORT`] first, then the columns of `first_to_go` are dropped one by one, then the rest is cut. If no column may be
/// dropped, the last column wraps at spaces instead.
pub fn table(columns: &[&str], first_to_go: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    let width = width.unwrap_or(usize::MAX);
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let mut to_go = first_to_go.iter();
    let wanted = |column: usize| {
        rows.iter().map(|row| width_of(&row[column])).chain([width_of(columns[column])]).max().unwrap_or(0)
    };
    let widths = loop {
        let widths: Vec<usize> = shown.iter().map(|column| wanted(*column)).collect();
        let least = total(widths.iter().map(|width| (*width).min(SHORT)));
        match to_go.next() {
            Some(name) if least > width => shown.retain(|column| columns[*column] != *name),
            _ => break shrunk(widths, width, first_to_go.is_empty()),
        }
    };
    let titles: Vec<String> = columns.iter().map(|title| title.to_uppercase()).collect();
    let mut lines = Vec::new();
    for row in std::iter::once(&titles).chain(rows) {
        let cells: Vec<&str> = shown.iter().map(|column| row[*column].as_str()).collect();
        lines.extend(match first_to_go.is_empty() {
            true => with_broken_last(&cells, &widths),
            false => vec![line(&cells, &widths)],
        });
    }
    lines.join("\n")
}

fn total(widths: impl ExactSizeIterator<Item = usize>) -> usize {
    GAP * widths.len().saturating_sub(1) + widths.sum::<usize>()
}

/// Shrinks the widest column until all columns fit or, with `only_last`, only the last column, which wraps.
fn shrunk(mut widths: Vec<usize>, width: usize, only_last: bool) -> Vec<usize> {
    let too_wide = |widths: &[usize]| total(widths.iter().copied()) > width;
    if only_last {
        let before: usize = total(widths.iter().copied());
        if let Some(last) = widths.last_mut() {
            *last = last.saturating_sub(before.saturating_sub(width)).max(SHORT.min(*last));
        }
        return widths;
    }
    for floor in [SHORT, 1] {
        while too_wide(&widths) {
            match widths.iter_mut().max() {
                Some(widest) if *widest > floor => *widest -= 1,
                _ => break,
            }
        }
    }
    widths
}

fn line(cells: &[&str], widths: &[usize]) -> String {
    let cells: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| left(cell, *width)).collect();
    cells.join(&" ".repeat(GAP)).trim_end().to_owned()
}

/// Wraps the last cell at spaces.
fn with_broken_last(cells: &[&str], widths: &[usize]) -> Vec<String> {
    let (Some((last, before)), Some(width)) = (cells.split_last(), widths.last()) else { return Vec::new() };
    let (mut parts, mut part) = (Vec::new(), String::new());
    for word in last.split(' ') {
        if !part.is_empty() && width_of(&part) + 1 + width_of(word) > *width {
            parts.push(std::mem::take(&mut part));
        }
        part.push_str(if part.is_empty() { "" } else { " " });
        part.push_str(word);
    }
    parts.push(part);
    let row = |(index, part): (usize, &String)| {
        let mut cells: Vec<&str> = before.iter().map(|cell| if index == 0 { *cell } else { "" }).collect();
        cells.push(part);
        let width = width_of(part).max(*width);
        let widths: Vec<usize> = widths[..widths.len() - 1].iter().copied().chain([width]).collect();
        line(&cells, &widths)
    };
    parts.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        [
            ["invoices", "12", "at_least_once", "a text that is longer than twenty-four"],
            ["mail", "3", "at_most_once", "-"],
        ]
        .map(|row| row.map(str::to_owned).to_vec())
        .to_vec()
    }

    const COLUMNS: [&str; 4] = ["queue", "dead", "delivery", "note"];

    fn of_width(width: usize) -> String {
        table(&COLUMNS, &["delivery", "dead"], &rows(), Some(width))
    }

    #[test]
    fn texts_are_cut_first_then_columns_go_and_no_row_is_wider_or_takes_two_lines() {
        let whole = table(&COLUMNS, &["delivery", "dead"], &rows(), None);
        assert!(
            whole.starts_with(
                "QUEUE     DEAD  DELIVERY       NOTE\ninvoices  12    at_least_once  a text that is longer"
            )
        );
        assert_eq!(of_width(120), whole);
        assert_eq!(
            of_width(56),
            "QUEUE     DEAD  DELIVERY       NOTE\n\
             invoices  12    at_least_once  a text that is longer th…\n\
             mail      3     at_most_once   -"
        );
        assert_eq!(
            of_width(54),
            "QUEUE     DEAD  NOTE\n\
             invoices  12    a text that is longer than twenty-four\n\
             mail      3     -"
        );
        assert_eq!(of_width(34).lines().next(), Some("QUEUE     NOTE"));
        for width in 4..70 {
            let table = of_width(width);
            assert!(
                table.lines().all(|line| width_of(line) <= width) && table.lines().count() == 3,
                "{width}\n{table}"
            );
        }
    }

    #[test]
    fn a_table_of_which_nothing_may_go_breaks_its_last_column_at_spaces() {
        let row = ["queue", "failed", "there is no queue 'work'; readpast queue create makes one"].map(str::to_owned);
        assert_eq!(
            table(&["check", "result", "note"], &[], &[row.to_vec()], Some(48)),
            "CHECK  RESULT  NOTE\n\
             queue  failed  there is no queue 'work';\n               readpast queue create makes one"
        );
    }
}
