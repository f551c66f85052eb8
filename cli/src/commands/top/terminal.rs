//! The terminal and its keys.

use std::io::{self, IsTerminal};
use std::ops::{Deref, DerefMut};
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::layout::{Position, Rect};
use tokio::sync::mpsc;

/// Whether the terminal can move its cursor.
pub fn is_usable() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

/// The terminal in raw mode. Dropping it restores it; a panic restores it before its message.
pub struct Terminal(DefaultTerminal);

/// Takes over the terminal; its content comes back afterwards.
pub fn enter() -> io::Result<Terminal> {
    match ratatui::try_init() {
        Ok(terminal) => Ok(Terminal(terminal)),
        Err(error) => {
            let _ = ratatui::try_restore(); // it may have come half way
            Err(error)
        }
    }
}

impl Terminal {
    /// Draws everything again. After a change of size, a terminal may have lost a part of the screen.
    pub fn draw_all_anew(&mut self) -> io::Result<()> {
        let size = self.0.size()?;
        self.0.resize(Rect::from((Position::ORIGIN, size)))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = ratatui::try_restore(); // where it is gone, nothing is left to be done
    }
}

impl Deref for Terminal {
    type Target = DefaultTerminal;

    fn deref(&self) -> &DefaultTerminal {
        &self.0
    }
}

impl DerefMut for Terminal {
    fn deref_mut(&mut self) -> &mut DefaultTerminal {
        &mut self.0
    }
}

pub enum Input {
    Key(KeyEvent),
    Resized,
}

/// How soon the thread notices that the receiver is gone.
const LOOK_AROUND: Duration = Duration::from_millis(100);

/// Reads keys, in a thread, until the receiver or the terminal is gone.
pub fn read_keys() -> mpsc::UnboundedReceiver<Input> {
    let (send, receive) = mpsc::unbounded_channel();
    thread::spawn(move || {
        while !send.is_closed() {
            let event = match event::poll(LOOK_AROUND) {
                Ok(true) => event::read(),
                Ok(false) => continue,
                Err(error) => Err(error),
            };
            let input = match event {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Input::Key(key),
                Ok(Event::Resize(..)) => Input::Resized,
                Ok(_) => continue,
                Err(_) => return,
            };
            if send.send(input).is_err() {
                return;
            }
        }
    });
    receive
}
