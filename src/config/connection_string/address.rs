//! The value of the key `Server`.

use std::fmt;

use crate::error::Error;

use super::known_keys::bad_value;

pub(super) const DEFAULT_PORT: u16 = 1433;

/// The server's address. `Display` is for messages.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) place: Place,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    Port(u16),
    /// A named instance, whose port the host's SQL Server Browser knows.
    Instance(String),
}

impl Address {
    /// Sets the address in the driver's settings, which must have none: an instance cannot be removed again.
    pub(crate) fn apply(&self, driver: &mut tiberius::Config) {
        driver.host(&self.host);
        match &self.place {
            Place::Port(port) => driver.port(*port),
            Place::Instance(instance) => driver.instance_name(instance),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Port(port) => write!(f, "{}:{port}", self.host),
            Place::Instance(instance) => write!(f, "{}\\{instance}", self.host),
        }
    }
}

pub(super) fn address(value: &str) -> Result<Address, Error> {
    let allowed = "host, host,port or host\\instance";
    let address = value.strip_prefix("tcp:").unwrap_or(value);
    let (host_and_instance, port) = match address.split_once(',') {
        Some((host, port)) => (host.trim(), Some(port.trim())),
        None => (address.trim(), None),
    };
    let (host, instance) = match host_and_instance.split_once('\\') {
        Some((host, instance)) => (host, Some(instance)),
        None => (host_and_instance, None),
    };
    let names_other_protocol =
        ["np:", "lpc:", "admin:"].iter().any(|prefix| host.to_ascii_lowercase().starts_with(prefix));
    if host.is_empty() || host.eq_ignore_ascii_case("(localdb)") || names_other_protocol {
        return Err(bad_value("server", value, allowed));
    }
    if let Some((name, port)) = host.split_once(':')
        && !port.is_empty()
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(bad_value("server", value, &format!("{name},{port}: the port follows a comma")));
    }
    if !host.chars().all(|character| character.is_alphanumeric() || "-_.:[]%()$".contains(character)) {
        return Err(bad_value("server", value, allowed));
    }
    let host = if host == "." || host.eq_ignore_ascii_case("(local)") { "localhost" } else { host };
    let place = match (instance.filter(|instance| !instance.eq_ignore_ascii_case("MSSQLSERVER")), port) {
        (Some(instance), None) if !instance.is_empty() => Place::Instance(instance.to_string()),
        (Some(_), _) => return Err(bad_value("server", value, allowed)),
        (None, Some(port)) => Place::Port(port.parse().map_err(|_| bad_value("server", value, allowed))?),
        (None, None) => Place::Port(DEFAULT_PORT),
    };
    Ok(Address { host: host.to_string(), place })
}
