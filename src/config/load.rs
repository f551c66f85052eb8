//! Reads settings from files and the environment.

use std::path::Path;

use crate::error::Error;

use super::config::Config;
use super::{environment, file};

impl Config {
    /// Reads settings from TOML. Missing keys keep their defaults.
    ///
    /// # Errors
    ///
    /// [`Error::ConfigSyntax`] if the text is not TOML, or has an unknown key or a value of the wrong type. Ranges are
    /// checked by [`validate`](Config::validate), because the program may still change the settings.
    pub fn from_toml(text: &str) -> Result<Config, Error> {
        let mut config = Config::default();
        file::apply(&mut config, text, None)?;
        Ok(config)
    }

    /// Reads settings from one section of the program's own TOML: for the section `queue`, from `[queue.connection]`,
    /// `[queue.worker]` and so on. Other sections are ignored. Missing keys keep their defaults, and so does a missing
    /// section. The section's name may have dots: `services.jobs` for `[services.jobs.worker]`.
    ///
    /// Call this before you parse the text yourself. `toml` quotes the faulty line in its errors, and that line may
    /// contain your password. If this call succeeds, the text is valid TOML, and other faults are in your own lines.
    /// For the same reason [`Config`] is not `serde::Deserialize`.
    ///
    /// # Errors
    ///
    /// [`Error::ConfigSyntax`] if the text is not TOML, if the section has an unknown key or a value of the wrong type,
    /// or if `section` is a single value. The message never quotes a line. [`Error::Config`] if `section` is empty.
    pub fn from_section(text: &str, section: &str) -> Result<Config, Error> {
        let mut config = Config::default();
        file::apply_section(&mut config, text, section)?;
        Ok(config)
    }

    /// Reads settings from a TOML file, if given, and then from the environment, as [`apply_env`](Config::apply_env)
    /// does with the prefix `READPAST_`.
    ///
    /// # Errors
    ///
    /// [`Error::ConfigFile`] if the file cannot be read; otherwise as for [`from_toml`](Config::from_toml), with file
    /// and line, and [`apply_env`](Config::apply_env).
    pub fn load(path: Option<&Path>) -> Result<Config, Error> {
        let mut config = Config::default();
        if let Some(path) = path {
            let text = std::fs::read_to_string(path)
                .map_err(|cause| Error::ConfigFile { path: path.to_path_buf(), cause: cause.into() })?;
            file::apply(&mut config, &text, Some(&path.display().to_string()))?;
        }
        config.apply_env("READPAST_")?;
        Ok(config)
    }

    /// Applies settings from the environment.
    ///
    /// A variable's name is the prefix, the section, `_` and the key, in capitals. With the prefix `READPAST_`, which
    /// [`load`](Config::load) uses: `READPAST_WORKER_LEASE_MS`, `READPAST_WORKER_RETRY_BASE_MS`. Three have short
    /// names: `READPAST_URL`, `READPAST_SCHEMA` and `READPAST_QUEUE`. Variables that Kubernetes sets for Services whose
    /// names begin with the prefix (`READPAST_SERVICE_HOST`, `READPAST_PORT`, `READPAST_PORT_9464_TCP`, …) are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if a variable with the prefix is not a setting, or its value has the wrong type, or the prefix
    /// is not made of A-Z, 0-9 and _ with a final _. Nothing is changed then.
    pub fn apply_env(&mut self, prefix: &str) -> Result<(), Error> {
        let mut changed = self.clone();
        environment::apply(&mut changed, prefix, std::env::vars_os())?;
        *self = changed;
        Ok(())
    }
}
