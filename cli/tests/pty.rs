//! A terminal for the program: a pseudo-terminal, and somebody who reads the screen and presses keys.

use std::io::{Read, Write};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// How long a screen is waited for. Debug builds on a busy machine are slow.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    seen: Arc<Seen>,
    /// How the terminal was set before.
    settings: String,
}

/// What the program has drawn.
struct Seen {
    drawn: Mutex<Drawn>,
    changed: Condvar,
}

struct Drawn {
    screen: vt100::Parser,
    /// The program has ended.
    is_over: bool,
}

impl Terminal {
    /// Starts a program in a terminal of this size.
    pub fn start(command: &Command, columns: u16, rows: u16) -> Terminal {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        builder.env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => builder.env(name, value),
                None => builder.env_remove(name),
            }
        }
        let settings = settings(&*pair.master);
        let child = pair.slave.spawn_command(builder).unwrap();
        let mut output = pair.master.try_clone_reader().unwrap();
        let keyboard = pair.master.take_writer().unwrap();
        let screen = vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0);
        let seen = Arc::new(Seen { drawn: Mutex::new(Drawn { screen, is_over: false }), changed: Condvar::new() });
        let shared = seen.clone();
        // Ends with the program, whose side of the terminal nobody else holds.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let read = output.read(&mut bytes).unwrap_or_default();
                let Ok(mut drawn) = shared.drawn.lock() else { return }; // the test has failed
                drawn.screen.process(&bytes[..read]);
                drawn.is_over = read == 0;
                shared.changed.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Terminal { child, master: pair.master, keyboard, seen, settings }
    }

    /// Waits until the screen is as wanted; returns its text.
    pub fn until(&self, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut drawn = self.seen.drawn.lock().unwrap();
        loop {
            let text = drawn.screen.screen().contents();
            if wanted(&text) {
                return text;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !drawn.is_over, "over: {}; the screen is\n{text}", drawn.is_over);
            drawn = self.seen.changed.wait_timeout(drawn, left).unwrap().0;
        }
    }

    /// Waits until the screen has this text.
    pub fn until_it_says(&self, text: &str) -> String {
        self.until(|screen| screen.contains(text))
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Makes it larger or smaller.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.seen
            .drawn
            .lock()
            .unwrap()
            .screen
            .screen_mut()
            .set_size(rows.try_into().unwrap(), columns.try_into().unwrap());
        self.master.resize(PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }).unwrap();
    }

    /// Sends a signal by its name, `TERM` for example.
    pub fn signal(&self, name: &str) {
        let id = self.child.process_id().unwrap().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Waits until the program has ended and looks whether the terminal is as it was; returns the exit code, and what
    /// stands on the terminal.
    pub fn end(mut self) -> (u32, String) {
        let deadline = Instant::now() + PATIENCE;
        let mut drawn = self.seen.drawn.lock().unwrap();
        while !drawn.is_over {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it does not end:\n{}", drawn.screen.screen().contents());
            drawn = self.seen.changed.wait_timeout(drawn, left).unwrap().0;
        }
        let screen = drawn.screen.screen();
        assert!(!screen.alternate_screen(), "what was on the terminal is not back");
        assert!(!screen.hide_cursor(), "there is no cursor");
        let text = screen.contents();
        drop(drawn);
        assert_eq!(settings(&*self.master), self.settings, "keys do not work as before");
        (self.child.wait().unwrap().exit_code(), text)
    }
}

impl Drop for Terminal {
    /// A test that has failed leaves no program behind.
    fn drop(&mut self) {
        let _ = self.child.kill(); // it has ended
    }
}

/// How the terminal treats keys. (Not its speed, which such a terminal does not have: who sets the terminal may write
/// down the input's beside the output's, or not.)
fn settings(master: &dyn MasterPty) -> String {
    let all = master.get_termios().expect("a terminal's settings");
    format!("{:?} {:?} {:?} {:?}", all.input_flags, all.output_flags, all.local_flags, all.control_chars)
}
