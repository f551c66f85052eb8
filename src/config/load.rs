//! Settings from files and from the environment.

use std::path::Path;

use crate::error::Error;

use super::config::Config;
use super::{environment, file};

impl Config {
    /// Reads the settings from TOML text. Keys that are not there keep their defaults.
    ///
    /// # Errors
    ///
    /// [`Error::ConfigSyntax`] for text that is no TOML, unknown keys and values of the wrong type. Ranges are the
    /// business of [`validate`](Config::validate), because the program may still change the settings.
    pub fn from_toml(text: &str) -> Result<Config, Error> {
        let mut config = Config::default();
        file::apply(&mut config, text, None)?;
        Ok(config)
    }

    /// Reads the settings from one section of a TOML text that is the program's own, `[queue.connection]`,
    /// `[queue.worker]` and so on for the section `queue`. What stands outside of it is left to the program. Keys that
    /// are not there keep their defaults, all of them where there is no such section.
    ///
    /// The section's name may have dots: `services.jobs` for `[services.jobs.worker]`.
    ///
    /// `toml` quotes the faulty line in its errors, and that line may hold your password. So call this first: where it
    /// has succeeded, the text is TOML, and what else is wrong with it is in your own lines. For the same reason
    /// [`Config`] is not `serde::Deserialize`.
    ///
    /// # Errors
    ///
    /// [`Error::ConfigSyntax`] for a text that is no TOML, in whatever section, for unknown keys and values of the
    /// wrong type in this one, and where `section` is a single value. The message never quotes a line.
    /// [`Error::Config`] where `section` is empty.
    pub fn from_section(text: &str, section: &str) -> Result<Config, Error> {
        let mut config = Config::default();
        file::apply_section(&mut config, text, section)?;
        Ok(config)
    }

    /// Reads the settings from a TOML file, if there is one, and then from the environment, as
    /// [`apply_env`](Config::apply_env) does with the prefix `READPAST_`.
    ///
    /// # Errors
    ///
    /// [`Error::ConfigFile`] when the file cannot be read; [`Error::ConfigSyntax`], with file and line, as for
    /// [`from_toml`](Config::from_toml); [`Error::Config`] as for [`apply_env`](Config::apply_env).
    pub fn load(path: Option<&Path>) -> Result<Config, Error> {
        let mut config = Config::default();
        if let Some(path) = path {
            let text =
                std::fs::read_to_string(path).map_err(|cause| Error::ConfigFile { path: path.to_path_buf(), cause })?;
            file::apply(&mut config, &text, Some(&path.display().to_string()))?;
        }
        config.apply_env("READPAST_")?;
        Ok(config)
    }

    /// Sets what the environment's variables set.
    ///
    /// A variable's name is the prefix, the section, `_` and the key, in capitals: with the prefix `READPAST_`, which
    /// [`load`](Config::load) uses, `READPAST_WORKER_LEASE_MS` and `READPAST_WORKER_RETRY_BASE_MS`. Three have short
    /// names: `READPAST_URL`, `READPAST_SCHEMA` and `READPAST_QUEUE`. Variables that Kubernetes sets for Services whose
    /// names begin like the prefix (`READPAST_SERVICE_HOST`, `READPAST_PORT`, `READPAST_PORT_9464_TCP`, …) are left
    /// alone.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a variable that begins with the prefix and is no setting, or whose value has the wrong
    /// type, and for a prefix that is not made of A-Z, 0-9 and _ with a _ at its end. Nothing is changed then.
    pub fn apply_env(&mut self, prefix: &str) -> Result<(), Error> {
        let mut changed = self.clone();
        environment::apply(&mut changed, prefix, std::env::vars_os())?;
        *self = changed;
        Ok(())
    }
}
