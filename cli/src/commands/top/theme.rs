//! Colours, or only bold and dim.

use ratatui::style::{Color, Modifier, Style};

#[derive(Debug, Clone, Copy)]
pub struct Theme {
    colours: bool,
}

impl Theme {
    /// The theme for this terminal. It has no colours if NO_COLOR is not empty (no-color.org).
    pub fn of_environment() -> Theme {
        Theme::new(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    pub fn new(colours: bool) -> Theme {
        Theme { colours }
    }

    fn colour(self, colour: Color, otherwise: Modifier) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new().add_modifier(otherwise) }
    }

    pub fn plain(self) -> Style {
        Style::new()
    }

    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    /// The style of headings of columns and sections.
    pub fn heading(self) -> Style {
        self.colour(Color::Cyan, Modifier::UNDERLINED).add_modifier(Modifier::BOLD)
    }

    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The style of problems: dead jobs, failures, a lost connection.
    pub fn bad(self) -> Style {
        self.colour(Color::Red, Modifier::BOLD)
    }

    /// The style of warnings: a paused queue, a question.
    pub fn warning(self) -> Style {
        self.colour(Color::Yellow, Modifier::BOLD)
    }

    /// The style of successful results.
    pub fn good(self) -> Style {
        self.colour(Color::Green, Modifier::empty())
    }

    /// The style of less important text.
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
}
