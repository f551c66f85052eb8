//! The program and its start.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use readpast::{BoxError, Job, JobError};
use tempfile::{TempDir, TempPath};

use super::job_variables;
use super::placeholders::{Argument, Values};
use super::starting::is_shortage;
use crate::exit::{Exit, failure};

pub struct Program {
    name: String,
    arguments: Vec<Argument>,
    /// A shell command line; the payload is never part of it.
    is_shell: bool,
    /// The directory of files for jobs. `None`: it could not be made, and no argument needs it.
    files: Option<PathBuf>,
    /// Variables of the worker to pass on.
    passed: Vec<String>,
}

/// A program prepared for a job.
pub struct Prepared {
    pub command: Command,
    /// Whether the payload goes to its standard input, and nowhere else.
    pub reads_payload: bool,
    /// Removed when dropped.
    pub _files: [Option<TempPath>; 2],
}

impl Program {
    /// Reads the command line and checks that the program exists. Also returns the directory of files for jobs, which is
    /// removed when dropped.
    ///
    /// # Errors
    ///
    /// For an invalid command line, or if an argument needs the directory and it cannot be made.
    pub fn new(shell: Option<&str>, words: &[String], passed: &[String]) -> Result<(Program, Option<TempDir>)> {
        let passed = passed.to_vec();
        if let Some(line) = shell {
            let (name, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("/bin/sh", "-c") };
            let arguments = [flag, line].map(Argument::verbatim).to_vec();
            let directory = private_directory().ok();
            let files = directory.as_ref().map(|directory| directory.path().to_owned());
            return Ok((Program { name: name.to_owned(), arguments, is_shell: true, files, passed }, directory));
        }
        let (name, arguments) = words.split_first().expect("clap asks for a program where there is no --shell");
        let arguments = arguments.iter().map(|argument| Argument::parse(argument));
        let arguments: Vec<_> = arguments.collect::<Result<_, _>>().map_err(|message| failure(Exit::Usage, message))?;
        if !is_there(name) {
            return Err(failure(Exit::Usage, format!("cannot find a program '{name}' to run")));
        }
        let directory = match private_directory() {
            Err(error) if arguments.iter().any(Argument::needs_file) => {
                return Err(error).with_context(|| no_room("make a directory for files with payloads"));
            }
            directory => directory.ok(),
        };
        let files = directory.as_ref().map(|directory| directory.path().to_owned());
        Ok((Program { name: name.clone(), arguments, is_shell: false, files, passed }, directory))
    }

    /// Whether the command line is the same for each job.
    pub fn is_constant(&self) -> bool {
        self.arguments.iter().all(|argument| argument.literal().is_some())
    }

    /// The program for one job; `parents` are the ends of the jobs that it has waited for, as JSON.
    ///
    /// # Errors
    ///
    /// If the payload does not fit (the job becomes dead), or a file cannot be written.
    pub fn for_job(&self, job: &Job, run: &str, parents: Option<&[u8]>) -> Result<Prepared, BoxError> {
        let wants_payload = self.arguments.iter().any(Argument::needs_file);
        let file = wants_payload.then(|| self.file(job, "payload", &payload(job)?)).transpose()?;
        let parents = parents.map(|parents| self.file(job, "parents", parents)).transpose()?;
        let mut command = self.command(run);
        let path = file.as_ref().map_or(OsStr::new(""), |file| file.as_os_str());
        let mut values = Values::new(job, path);
        for argument in &self.arguments {
            command.arg(argument.fill(&mut values)?);
        }
        job_variables::set(&mut command, job)?;
        if let Some(parents) = &parents {
            command.env(job_variables::PARENTS, parents);
        }
        if self.is_shell {
            job_variables::set_text(&mut command, job);
        }
        let reads_payload = !self.arguments.iter().any(Argument::has_payload);
        command.stdin(if reads_payload { Stdio::piped() } else { Stdio::null() });
        Ok(Prepared { command, reads_payload, _files: [file, parents] })
    }

    /// Writes a file for a job. Only this user can read it and its directory. The job's fence makes its name unique.
    fn file(&self, job: &Job, what: &str, bytes: &[u8]) -> Result<TempPath, BoxError> {
        let written = || -> io::Result<TempPath> {
            let files = self.files.as_ref().ok_or(io::ErrorKind::NotFound)?;
            // The errors of tempfile's own methods lack the system's number.
            let path = TempPath::try_from_path(files.join(format!("{}-{}-{what}", job.id(), job.fence())))?;
            let mut options = std::fs::File::options();
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.write(true).create_new(true).open(&path)?.write_all(bytes)?;
            Ok(path)
        };
        written().map_err(|error| {
            let what = no_room(&format!("write the {what} to a file"));
            if is_shortage(&error) {
                return anyhow::Error::from(error).context(what).into(); // whoever starts programs waits for its end
            }
            // A full disk is not the job's fault.
            JobError::snooze(NO_ROOM_PAUSE, format!("{what}: {error}")).into()
        })
    }

    /// The program for many jobs.
    pub fn for_many_jobs(&self, run: &str) -> Command {
        let mut command = self.command(run);
        command.args(self.arguments.iter().filter_map(Argument::literal)).stdin(Stdio::piped());
        command
    }

    fn command(&self, run: &str) -> Command {
        let mut command = Command::new(&self.name);
        job_variables::remove_ours(&mut command, &self.passed);
        command.env(job_variables::RUN, run).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The error of a failed start.
    pub fn not_started(&self, error: &io::Error) -> JobError {
        let text = format!("cannot start {}: {error}", self.name);
        // Another attempt would not make the arguments shorter.
        if error.kind() == io::ErrorKind::ArgumentListTooLong { JobError::dead(text) } else { JobError::retry(text) }
    }
}

/// The payload for the program: text as UTF-8, bytes as they are.
///
/// # Errors
///
/// For invalid text: the job becomes dead.
pub fn payload(job: &Job) -> Result<Cow<'_, [u8]>, BoxError> {
    if !job.payload_utf16() {
        return Ok(job.payload().into());
    }
    Ok(job.text()?.into_owned().into_bytes().into())
}

/// The snooze of a job whose file could not be written.
const NO_ROOM_PAUSE: Duration = Duration::from_secs(10);

fn no_room(what: &str) -> String {
    format!("cannot {what} in {} (set by TMPDIR)", std::env::temp_dir().display())
}

/// Whether the system finds this program. This is checked at the start, so that a misspelt name does not use up the
/// attempts of all jobs.
fn is_there(name: &str) -> bool {
    if cfg!(not(unix)) {
        return true; // there, endings of names, and other places, count too
    }
    if name.contains('/') {
        return can_be_run(Path::new(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).any(|directory| can_be_run(&directory.join(name)))
}

#[cfg(unix)]
fn can_be_run(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn can_be_run(file: &Path) -> bool {
    file.is_file()
}

/// A directory that only this user can read.
fn private_directory() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.prefix("readpast-").tempdir()
}
