//! All settings.

use std::collections::BTreeMap;

use crate::error::Error;

use super::connection::ConnectionConfig;
use super::kind::{KindConfig, check_kinds};
use super::metrics::MetricsConfig;
use super::queue::QueueConfig;
use super::settings_table::{Section, Table, defaults};
use super::worker::WorkerConfig;

/// All settings.
///
/// Load them from a file and the environment ([`load`](Config::load)), from a section of the program's own file, or set
/// them in code:
///
/// ```
/// use readpast::Config;
///
/// # fn main() -> Result<(), readpast::Error> {
/// let mut config = Config::from_toml("[worker]\nbatch_size = 200\n")?;
/// config.connection.url = "Server=db1;Database=work;User ID=app;Password=s3cret".into();
/// config.validate()?;
/// # Ok(())
/// # }
/// ```
///
/// From a section of the program's own file, with overrides from the environment
/// ([`from_section`](Config::from_section)):
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// #[derive(serde::Deserialize)]
/// struct Settings {
///     greeting: String,
/// }
///
/// let text = "greeting = 'hello'\n[queue.worker]\nbatch_size = 200\n"; // of the program's file
/// let mut config = readpast::Config::from_section(text, "queue")?;
/// config.apply_env("GREETER_QUEUE_")?; // GREETER_QUEUE_URL, GREETER_QUEUE_WORKER_THREADS, …
/// let settings: Settings = toml::from_str(text)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// How to connect to SQL Server.
    pub connection: ConnectionConfig,
    /// The queue.
    pub queue: QueueConfig,
    /// Settings of a worker. Producers do not need them.
    pub worker: WorkerConfig,
    /// Where metrics are served.
    pub metrics: MetricsConfig,
    /// The options of kinds, by kind: sections `[kinds.<kind>]`. The environment cannot set them.
    pub kinds: BTreeMap<String, KindConfig>,
}

impl Default for Config {
    fn default() -> Config {
        defaults()
    }
}

impl Section for Config {
    fn rows(table: &mut Table<'_, Config>) -> Config {
        Config {
            connection: table.part(|config| &config.connection),
            queue: table.part(|config| &config.queue),
            worker: table.part(|config| &config.worker),
            metrics: table.part(|config| &config.metrics),
            kinds: table.in_code(|config| &config.kinds),
        }
    }
}

impl Config {
    /// Checks that every value is in range and that values are consistent with each other.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] or [`Error::ConnectionString`] for the first fault.
    pub fn validate(&self) -> Result<(), Error> {
        self.connection.validate()?;
        self.queue.validate()?;
        self.worker.validate()?;
        self.worker.check_timeouts(self.connection.timeouts()?)?;
        check_kinds(&self.kinds)?;
        self.metrics.address().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::MemorySize;
    use crate::config::connection::check_schema;
    use crate::config::metrics::PortInUse;
    use crate::job::Needs;

    const URL: &str = "Server=s;User ID=u;Password=hunter2";

    fn valid() -> Config {
        let mut config = Config::default();
        config.connection.url = URL.into();
        config
    }

    #[test]
    fn the_defaults_are_valid_but_for_the_connection_string() {
        valid().validate().unwrap();
        let message = Config::default().validate().unwrap_err().to_string();
        assert!(message.starts_with("connection.url is empty; it must be"), "{message}");
    }

    /// docs/how-it-works.md, "The arithmetic of the time limits".
    #[test]
    fn the_defaults_let_a_worker_end_in_order_within_a_container_s_thirty_seconds() {
        let config = Config::default();
        let longest_job = Duration::from_secs(10);
        assert!(config.worker.shutdown_deadline >= longest_job + config.connection.command_timeout);
        assert!(config.worker.shutdown_deadline < Duration::from_secs(30));
    }

    #[test]
    fn what_the_text_sets_is_set() {
        let text = "[worker]\nlease_ms = 60_000\nbatch_size = 0x10\ntake_over = true\nretry.base_ms = 5\n\
                    [queue]\nname = 'mail'\n[metrics]\nport_in_use = 'next'\n[connection]\nurl = 'Server=s'\n";
        let config = Config::from_toml(text).unwrap();
        assert_eq!(
            (config.worker.lease.as_millis(), config.worker.batch_size, config.worker.retry.base.as_millis()),
            (60_000, 16, 5)
        );
        assert!(config.worker.take_over);
        assert_eq!((config.queue.name.as_str(), config.metrics.port_in_use), ("mail", PortInUse::Next));
    }

    #[test]
    fn mistakes_are_named_with_their_line_and_what_was_probably_meant() {
        let message = |text: &str| Config::from_toml(text).unwrap_err().to_string();
        for (text, says) in [
            ("\n[worker]\nbatch_sze = 1", "line 3: unknown key 'worker.batch_sze'; did you mean worker.batch_size?"),
            ("[worker]\nlease = 1", "line 2: unknown key 'worker.lease'; did you mean worker.lease_ms?"),
            ("[connection]\nlease_ms = 1", "line 2: unknown key 'connection.lease_ms'; did you mean worker.lease_ms?"),
            ("batch_size = 1", "line 1: unknown key 'batch_size'; did you mean worker.batch_size?"),
            ("[workers]", "line 1: unknown section 'workers'; did you mean [worker]?"),
            ("[colours]", "line 1: unknown section 'colours'; the sections are [connection], [queue], [worker]"),
            ("colour = 1", "line 1: unknown key 'colour'; the keys are connection.url, "),
            (
                "[worker]\nbatch_size = 'many'",
                "line 2: worker.batch_size is 'many'; it must be a whole number from 1 to 1000",
            ),
            ("[worker]\nbatch_size = -1", "line 2: worker.batch_size is -1; it must be a whole number from 1 to 1000"),
            (
                "[worker]\nbatch_size = 1.5",
                "line 2: worker.batch_size is 1.5; it must be a whole number from 1 to 1000",
            ),
            ("[worker]\ntake_over = 1", "line 2: worker.take_over is 1; it must be true or false"),
            ("[queue]\nname = ['a']", "line 2: queue.name is a list; it must be a text in quotes"),
            ("[metrics]\nport_in_use = 'fail'", "line 2: metrics.port_in_use is 'fail'; it must be warn or next"),
            ("worker = 1", "line 1: worker is a section, not a single value"),
            (
                "[worker.resources]\nmemory = '6 GB'",
                "line 2: worker.resources.memory is '6 GB'; it must be a size such as \"6 GiB\", a percentage",
            ),
            (
                "[worker.resources]\nthreads = 4",
                "line 2: unknown key 'worker.resources.threads'; a worker's threads are worker.threads",
            ),
            (
                "[worker.resources]\nmemroy = '6 GiB'",
                "line 2: 'worker.resources.memroy' is '6 GiB'; it must be a whole number of tokens from 0 to 1000000; did \
                 you mean memory?",
            ),
            (
                "[worker.resources]\nlicense.abaqus = 2",
                "line 2: 'worker.resources.license' is a section; it must be a whole number of tokens from 0 to 1000000; a \
                 name with dots stands in quotes",
            ),
            ("kinds = 1", "line 1: kinds is a section, not a single value"),
            ("[kind]", "line 1: unknown section 'kind'; did you mean [kinds]?"),
            ("[kinds]\nrender = 1", "line 2: 'kinds.render' is a section, not a single value"),
            (
                "[kinds.render]\nnedes = 1",
                "line 2: unknown key 'kinds.render.nedes'; the options of a kind are needs, on_out_of_memory and start_within_ms",
            ),
            (
                "[kinds.render]\non_out_of_memory = 'grow:1'",
                "line 2: 'kinds.render.on_out_of_memory' is 'grow:1'; it must be retry, grow:FACTOR:SIZE (a factor above 1;",
            ),
            ("[kinds.render]\non_out_of_memory = 1", "line 2: 'kinds.render.on_out_of_memory' is 1; it must be retry,"),
            (
                "[kinds.render]\nneeds = { memory = '80 %' }",
                "line 2: 'memory' in 'kinds.render.needs' is '80 %'; it must be a size such as \"3 GiB\", or a number",
            ),
            (
                "[kinds.render]\nneeds = { gpu = 'one' }",
                "line 2: 'gpu' in 'kinds.render.needs' is 'one'; it must be a whole number",
            ),
            (
                "[kinds.render]\nneeds = { threads = 2000 }",
                "line 2: 'kinds.render.needs': the need of 'threads' is 2000; it must be 1 to 1024 threads",
            ),
            ("[worker\n", "line 1: "),
        ] {
            let message = message(text);
            assert!(message.starts_with(&format!("the configuration is not valid: {says}")), "{message}");
        }
    }

    #[test]
    fn resources_and_the_needs_of_kinds_have_names_of_the_user_s() {
        let text = "[worker.resources]\nmemory = '6 GiB'\nmin_free_memory = 1_000_000\ngpu = 1\n'license.abaqus' = 2\n\
                    [kinds.render]\nneeds = { memory = '3 GiB', threads = 4, gpu = 1 }\n[kinds.'a.b'.needs]\ngpu = 1\n";
        let config = Config::from_toml(text).unwrap();
        let resources = &config.worker.resources;
        assert_eq!(
            (resources.memory, resources.min_free_memory),
            (MemorySize::Bytes(6 << 30), MemorySize::Bytes(1_000_000))
        );
        let tokens: Vec<_> = resources.tokens.iter().map(|(name, tokens)| (name.as_str(), *tokens)).collect();
        assert_eq!(tokens, [("gpu", 1), ("license.abaqus", 2)]);
        let needs = |kind: &str| config.kinds[kind].needs.clone().unwrap();
        assert_eq!(needs("render"), Needs::new().memory(3 << 30).threads(4).token("gpu", 1));
        assert_eq!(needs("a.b"), Needs::new().token("gpu", 1));
    }

    #[test]
    fn of_a_program_s_file_one_section_is_read_and_mistakes_are_named_by_their_line() {
        let file =
            "greeting = 'hello'\n[other]\nthreads = 'x'\n[queue.worker]\nthreads = 3\n[queue.queue]\nname = 'mail'\n";
        let config = Config::from_section(file, "queue").unwrap();
        assert_eq!((config.worker.threads, config.queue.name.as_str()), (3, "mail"));
        assert_eq!(Config::from_section(file, "nowhere").unwrap(), Config::default());
        let message = |text: &str| Config::from_section(text, "queue").unwrap_err().to_string();
        for (text, says) in [
            ("greeting = 'hello'\n[queue.worker]\nbatch_sze = 1", "line 3: unknown key 'worker.batch_sze'; did you"),
            ("[queue.workers]", "line 1: unknown section 'workers'; did you mean [worker]?"),
            ("\nqueue = 1", "line 2: queue is a section, not a single value"),
            ("[other]\nx = 'a' 'b'", "line 2: "),
        ] {
            let message = message(text);
            assert!(message.starts_with(&format!("the configuration is not valid: {says}")), "{message}");
        }
    }

    #[test]
    fn no_message_quotes_the_connection_string() {
        for text in [
            "[connection]\nurl = 'PWD=hunter2",
            "[connection]\nurl = 'PWD=hunter2' x",
            "[connection]\nurl = ['hunter2']",
            "connection = 'hunter2'",
            "[connection]\npacket_size = 'hunter2'",
            "[worker]\nthreads = 'Server=s;Pasword=hunter2'",
            "[worker]\n'PWD=hunter2' = 1",
            "[worker]\nPWD = hunter2",
            "[metrics]\nport_in_use = 'mssql://sa:hunter2@db1'",
        ] {
            let error = Config::from_toml(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        for text in [
            "[queue.connection]\nur = 'Server=s;Password=hunter2'",
            "queue.connection.ur = 'PWD=hunter2'",
            "queue = { connection = { url = ['PWD=hunter2'] } }",
            "[queue.connection]\nurl = 'PWD=hunter2",
            "queue = 'PWD=hunter2'",
        ] {
            let error = Config::from_section(text, "queue").unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        let mut config = valid();
        assert!(!format!("{config:?}").contains("hunter2"));
        config.connection.url = "Server=s;Password=hunter2".into();
        assert!(!config.validate().unwrap_err().to_string().contains("hunter2"));
        let mut config = valid();
        config.metrics.listen = "Server=s;Pasword=hunter2".into();
        assert!(!config.validate().unwrap_err().to_string().contains("hunter2"));
    }

    #[test]
    fn ranges_and_settings_that_cannot_work_together_are_refused() {
        let message = |change: fn(&mut Config)| {
            let mut config = valid();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        assert_eq!(message(|c| c.worker.batch_size = 1_001), "worker.batch_size is 1001; it must be 1 to 1000");
        assert_eq!(
            message(|c| c.worker.heartbeat_interval = Duration::from_millis(15_000)),
            "worker.heartbeat_interval_ms is 15000; it must be less than half of worker.lease_ms (30000)"
        );
        assert_eq!(
            message(|c| c.worker.poll_min = Duration::from_millis(300)),
            "worker.poll_min_ms is 300; it must be at most worker.poll_max_ms (200)"
        );
        assert_eq!(
            message(|c| c.connection.command_timeout = Duration::from_millis(35_000)),
            "connection.command_timeout_ms is 35000; it must be at most worker.lease_ms (30000)"
        );
        assert_eq!(
            message(|c| c.connection.url = format!("{URL};Connect Timeout=31").into()),
            "connection.connect_timeout_ms is 31000; it must be at most worker.lease_ms (30000)"
        );
        assert!(
            message(|c| c.worker.retry.base = Duration::from_millis(4_000_000)).contains("at most worker.retry.max_ms")
        );
        assert!(message(|c| c.queue.name = " ".into()).contains("queue.name is ' '"));
        assert!(
            message(|c| c.metrics.listen = "9464".into()).contains("metrics.listen is '9464'; it must be empty, or")
        );
        assert_eq!(
            message(|c| c.worker.resources.memory = MemorySize::Bytes(0)),
            "worker.resources.memory is '0'; it must be a size such as \"6 GiB\", a percentage such as \"80 %\", or a number of \
             bytes"
        );
        assert!(
            message(|c| c.worker.resources.tokens = [("threads".to_owned(), 1)].into())
                .contains("the name of a token in worker.resources is 'threads'; it must be 1 to 64 printable")
        );
        assert!(
            message(|c| drop(c.kinds.insert("a b".to_owned(), Default::default()))).contains("a kind in the section")
        );
        assert!(message(|c| c.connection.packet_size = 32_767).contains("512 to 16383"));
    }

    #[test]
    fn a_schema_is_a_plain_name() {
        for good in ["readpast", "_x", "Jobs_2"] {
            check_schema(good).unwrap();
        }
        for bad in ["", "2x", "a-b", "a]b", "a b", "order", "USER", "ü", &"x".repeat(101)] {
            assert!(check_schema(bad).is_err(), "{bad}");
        }
    }
}
