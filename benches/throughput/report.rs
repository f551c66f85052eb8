//! The figures, and how they are shown: a table for the terminal, one for a Markdown page, and JSON for programs.

use std::fmt::Write;

use serde::Serialize;

/// What a figure is to reach.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    pub measure: String,
    /// The median of the samples.
    pub value: f64,
    pub unit: &'static str,
    pub target: Option<Target>,
    /// All samples, one a round, in the order in which they were taken.
    pub samples: Vec<f64>,
    /// What kept it from being more.
    pub bounded_by: Option<String>,
}

/// What a figure was measured with.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub settings: Vec<(String, String)>,
    pub figures: Vec<Figure>,
}

impl Figure {
    fn is_met(&self) -> bool {
        match self.target {
            None => true,
            Some(Target::AtLeast(least)) => self.value >= least,
            Some(Target::AtMost(most)) => self.value <= most,
        }
    }

    /// The last column of a line.
    fn verdict(&self) -> String {
        match &self.bounded_by {
            Some(bound) => format!("bounded by {bound}"),
            None if self.target.is_none() => String::new(),
            None if self.is_met() => "met".to_owned(),
            None => "NOT MET".to_owned(),
        }
    }

    fn target_text(&self) -> String {
        match self.target {
            None => String::new(),
            Some(Target::AtLeast(least)) => format!(">= {}", number(least)),
            Some(Target::AtMost(most)) => format!("<= {}", number(most)),
        }
    }

    fn spread(&self) -> String {
        let least = self.samples.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if self.samples.len() < 2 { String::new() } else { format!("{} to {}", number(least), number(most)) }
    }
}

impl Report {
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.settings.push((name.to_owned(), value.to_string()));
    }

    /// Adds a figure: the median of its samples.
    pub fn add(&mut self, measure: &str, unit: &'static str, target: Option<Target>, samples: Vec<f64>) {
        let value = super::bench::median(samples.clone());
        self.push(Figure { measure: measure.to_owned(), value, unit, target, samples, bounded_by: None });
    }

    /// Adds a figure without a target, and what kept it from being more.
    pub fn add_bounded(&mut self, measure: &str, unit: &'static str, samples: Vec<f64>, bounded_by: String) {
        let value = super::bench::median(samples.clone());
        let bounded_by = Some(bounded_by);
        self.push(Figure { measure: measure.to_owned(), value, unit, target: None, samples, bounded_by });
    }

    fn push(&mut self, figure: Figure) {
        let (value, target, verdict) = (number(figure.value), figure.target_text(), figure.verdict());
        println!("  {:<76} {value:>12} {:<9} {target:<10} {verdict}", figure.measure, figure.unit);
        self.figures.push(figure);
    }

    /// The value of a figure that has been added.
    pub fn value(&self, measure: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.measure == measure).map(|figure| figure.value)
    }

    pub fn all_met(&self) -> bool {
        self.figures.iter().all(Figure::is_met)
    }

    pub fn markdown(&self) -> String {
        let mut text = String::from("| measure | median | samples | target | |\n|---|---|---|---|---|\n");
        for figure in &self.figures {
            let value = format!("{} {}", number(figure.value), figure.unit);
            let (target, verdict) = (figure.target_text(), figure.verdict());
            let _ = writeln!(text, "| {} | {value} | {} | {target} | {verdict} |", figure.measure, figure.spread());
        }
        text.push('\n');
        for (name, value) in &self.settings {
            let _ = writeln!(text, "- {name}: {value}");
        }
        text
    }

    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and text")
    }
}

/// As many digits as a reader can use.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        small if small >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if value.abs() < 1_000.0 {
        return text;
    }
    let mut grouped = String::new();
    for (index, digit) in text.chars().enumerate() {
        let left = text.len() - index;
        if index > 0 && left % 3 == 0 && digit.is_ascii_digit() && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
