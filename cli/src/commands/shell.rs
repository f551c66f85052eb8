//! `readpast completions` and `readpast man`: files for packages.

use std::io;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Exit;

/// Print the completion script for a shell.
///
/// For bash: `readpast completions bash > ~/.local/share/bash-completion/completions/readpast`
#[derive(Debug, Args)]
pub struct Completions {
    shell: Shell,
}

/// Write the manual pages to a directory.
#[derive(Debug, Args)]
pub struct Man {
    /// Directory, such as ~/.local/share/man/man1
    #[arg(value_name = "DIRECTORY")]
    folder: PathBuf,
}

impl Completions {
    pub fn run(self, mut whole: Command) -> Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut whole, "readpast", &mut script);
        io::Write::write_all(&mut io::stdout(), &script)?;
        Ok(Exit::Ok)
    }
}

impl Man {
    pub fn run(self, whole: Command) -> Result<Exit> {
        std::fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(whole, &self.folder))
            .with_context(|| format!("cannot write {}", self.folder.display()))?;
        Ok(Exit::Ok)
    }
}
