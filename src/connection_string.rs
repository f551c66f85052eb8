//! The ADO.NET connection string: `Server=…;Database=…;User ID=…;Password=…`, as SQL Server people have it already.
//!
//! text ─ split into keys and values ─▶ each key checked and applied ─▶ [`ConnectionOptions`] for the driver
//!
//! A key that is not known, or a value that could not be honoured, is an error and never ignored. The text holds a
//! password: it is shown nowhere but through the redacted [`Debug`] and [`Display`].

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use tiberius::{AuthMethod, EncryptionLevel};

use crate::error::Error;

/// An ADO.NET connection string. Shown with its password hidden.
///
/// ```
/// use readpast::ConnectionString;
///
/// let url = ConnectionString::from("Server=tcp:db1,1433;Database=work;User ID=app;Password=s3cret");
/// assert_eq!(url.to_string(), "server=tcp:db1,1433;database=work;userid=app;password=***");
/// ```
///
/// Keys (case and spaces do not matter):
///
/// | key | meaning | default |
/// |---|---|---|
/// | `Server`, `Data Source`, `Address` | `host`, `host,port` or `host\instance`, with or without `tcp:` | must be there |
/// | `Database`, `Initial Catalog` | the database readpast is installed in | the login's own |
/// | `User ID`, `UID`, `User`; `Password`, `PWD` | the SQL login | must be there |
/// | `Encrypt` | `true` (`Mandatory`), `false` (`Optional`: the login only), or `DANGER_PLAINTEXT` (nothing, not even the login) | `true` |
/// | `TrustServerCertificate` | `true` accepts any certificate: for development only | `false` |
/// | `TrustServerCertificateCA` | file with a certificate authority to trust besides the system's | none |
/// | `HostNameInCertificate` | the name to look for in the certificate | the host |
/// | `Application Name`, `Workstation ID` | shown in SQL Server's session list | `readpast`, none |
/// | `ApplicationIntent` | `ReadWrite` | `ReadWrite` |
/// | `MultiSubnetFailover` | `true` tries all addresses of the host at once | `false` |
/// | `Connect Timeout`, `Command Timeout` (s), `Packet Size` | here they win over the `connection` section | that section |
///
/// `Persist Security Info`, `Pooling`, `Enlist` and the other keys of ADO.NET's own pool are accepted and mean nothing
/// here. Windows and Entra ID logins are refused: this crate knows SQL logins only.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ConnectionString(String);

impl From<&str> for ConnectionString {
    fn from(text: &str) -> ConnectionString {
        ConnectionString(text.to_string())
    }
}

impl From<String> for ConnectionString {
    fn from(text: String) -> ConnectionString {
        ConnectionString(text)
    }
}

impl fmt::Display for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(pairs) = split(&self.0) else {
            return f.write_str("(not a valid connection string)");
        };
        for (position, (key, value)) in pairs.iter().enumerate() {
            let separator = if position == 0 { "" } else { ";" };
            // Whatever a key is taken for, a value that may be a secret is not shown.
            let is_secret =
                key.contains("password") || key.contains("pwd") || key.contains("token") || key.contains("secret");
            let shown = if is_secret { "***" } else { value };
            write!(f, "{separator}{key}={shown}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionString({self})")
    }
}

/// What a connection string says.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionOptions {
    /// The driver's settings; its own Debug hides the password.
    pub(crate) driver: tiberius::Config,
    /// Host and port, or host and instance, for messages.
    pub(crate) server: String,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) command_timeout: Option<Duration>,
    pub(crate) packet_size: Option<u32>,
}

/// For the error that names one which is not known.
const KNOWN_KEYS: &str = "Server, Database, User ID, Password, Encrypt, TrustServerCertificate, TrustServerCertificateCA, \
    HostNameInCertificate, Application Name, Workstation ID, ApplicationIntent, MultiSubnetFailover, Connect Timeout, \
    Command Timeout and Packet Size";

impl ConnectionString {
    /// Whether nothing was set.
    pub fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }

    /// Reads the string.
    ///
    /// # Errors
    ///
    /// [`Error::ConnectionString`], which names the key and what it may be.
    pub(crate) fn parse(&self) -> Result<ConnectionOptions, Error> {
        let mut driver = tiberius::Config::new();
        driver.encryption(EncryptionLevel::Required);
        driver.application_name("readpast");
        let mut options = ConnectionOptions {
            driver,
            server: String::new(),
            connect_timeout: None,
            command_timeout: None,
            packet_size: None,
        };
        let (mut user, mut password, mut trusts_any, mut authority) = (None, None, false, None);

        for (key, value) in split(&self.0)? {
            match key.as_str() {
                "server" | "datasource" | "address" | "addr" | "networkaddress" => apply_server(&mut options, &value)?,
                "database" | "initialcatalog" => options.driver.database(&value),
                "userid" | "uid" | "user" => user = Some(value),
                "password" | "pwd" => password = Some(value),
                "encrypt" => options.driver.encryption(encryption(&key, &value)?),
                "trustservercertificate" => trusts_any = truth(&key, &value)?,
                "trustservercertificateca" => authority = Some(value),
                "hostnameincertificate" => options.driver.hostname_in_certificate(&value),
                "applicationname" | "app" => options.driver.application_name(&value),
                "workstationid" | "wsid" => options.driver.client_name(&value),
                "multisubnetfailover" => options.driver.multi_subnet_failover(truth(&key, &value)?),
                "connecttimeout" | "connectiontimeout" | "timeout" => {
                    options.connect_timeout = Some(seconds(&key, &value)?)
                }
                "commandtimeout" => options.command_timeout = Some(seconds(&key, &value)?),
                "packetsize" => options.packet_size = Some(packet_size(&key, &value)?),
                "applicationintent" if value.eq_ignore_ascii_case("ReadWrite") => {}
                "applicationintent" => return Err(bad_value(&key, &value, "ReadWrite: a queue writes")),
                "multipleactiveresultsets" if !truth(&key, &value)? => {}
                "multipleactiveresultsets" => return Err(bad_value(&key, &value, "False: the driver has no MARS")),
                "integratedsecurity" | "trusted_connection" if is_false(&value) => {}
                "integratedsecurity" | "trusted_connection" => {
                    return Err(bad_value(&key, &value, "False: only SQL logins (User ID and Password) are supported"));
                }
                "authentication" if squeezed(&value) == "sqlpassword" => {}
                "authentication" => {
                    return Err(bad_value(
                        &key,
                        &value,
                        "SqlPassword: only SQL logins (User ID and Password) are supported",
                    ));
                }
                "persistsecurityinfo"
                | "pooling"
                | "minpoolsize"
                | "maxpoolsize"
                | "connectretrycount"
                | "connectretryinterval"
                | "loadbalancetimeout"
                | "connectionlifetime"
                | "enlist" => {}
                _ => {
                    return Err(invalid(format!("there is no key '{key}'; known are {KNOWN_KEYS}")));
                }
            }
        }

        if options.server.is_empty() {
            return Err(invalid("the key Server is missing".to_string()));
        }
        let user = user.ok_or_else(|| invalid("the key User ID is missing".to_string()))?;
        let password = password.ok_or_else(|| invalid("the key Password is missing".to_string()))?;
        options.driver.authentication(AuthMethod::sql_server(user, password));
        match (trusts_any, authority) {
            (true, Some(_)) => {
                return Err(invalid(
                    "TrustServerCertificate=true and TrustServerCertificateCA exclude each other".to_string(),
                ));
            }
            (true, None) => options.driver.trust_cert(),
            (false, Some(file)) => options.driver.trust_cert_ca(file),
            (false, None) => {}
        }
        Ok(options)
    }
}

fn apply_server(options: &mut ConnectionOptions, value: &str) -> Result<(), Error> {
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
    let host = if host == "." || host.eq_ignore_ascii_case("(local)") { "localhost" } else { host };
    options.driver.host(host);
    options.server = host.to_string();
    if let Some(instance) = instance.filter(|instance| !instance.eq_ignore_ascii_case("MSSQLSERVER")) {
        if instance.is_empty() || port.is_some() {
            return Err(bad_value("server", value, allowed));
        }
        options.driver.instance_name(instance);
        options.server = format!("{host}\\{instance}");
        return Ok(());
    }
    let port = match port {
        Some(port) => port.parse::<u16>().map_err(|_| bad_value("server", value, allowed))?,
        None => 1433,
    };
    options.driver.port(port);
    options.server = format!("{host}:{port}");
    Ok(())
}

fn encryption(key: &str, value: &str) -> Result<EncryptionLevel, Error> {
    if value == "DANGER_PLAINTEXT" {
        return Ok(EncryptionLevel::NotSupported);
    }
    match squeezed(value).as_str() {
        "true" | "yes" | "mandatory" => Ok(EncryptionLevel::Required),
        "false" | "no" | "optional" => Ok(EncryptionLevel::Off),
        _ => Err(bad_value(
            key,
            value,
            "True (Mandatory), False (Optional) or DANGER_PLAINTEXT; Strict is not supported",
        )),
    }
}

fn truth(key: &str, value: &str) -> Result<bool, Error> {
    match squeezed(value).as_str() {
        "true" | "yes" => Ok(true),
        "false" | "no" => Ok(false),
        _ => Err(bad_value(key, value, "True or False")),
    }
}

fn is_false(value: &str) -> bool {
    matches!(squeezed(value).as_str(), "false" | "no")
}

fn seconds(key: &str, value: &str) -> Result<Duration, Error> {
    match value.parse::<u64>() {
        Ok(seconds @ 1..=3_600) => Ok(Duration::from_secs(seconds)),
        _ => Err(bad_value(key, value, "1 to 3600 (seconds)")),
    }
}

fn packet_size(key: &str, value: &str) -> Result<u32, Error> {
    let sizes = crate::config::PACKET_SIZES;
    match value.parse::<u32>() {
        Ok(size) if sizes.contains(&size) => Ok(size),
        _ => Err(bad_value(key, value, &format!("{} to {} (bytes)", sizes.start(), sizes.end()))),
    }
}

/// Splits the string by ADO.NET's rules: pairs end at `;`, keys at the first `=` (`==` is a literal one), a value that
/// begins with a quote ends at the next single one (a doubled quote is a literal one). Keys come back in lower case and
/// without spaces. See "Connection string syntax" in Microsoft's ADO.NET documentation. No error quotes the text: it
/// may be a password.
fn split(text: &str) -> Result<Vec<(String, String)>, Error> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start_matches(is_gap);
    while !rest.is_empty() {
        let (key, after_key) = split_key(rest).ok_or_else(|| {
            let position = pairs.len() + 1;
            invalid(format!(
                "pair {position} has no '='; a value with ; or quotes in it must stand in quotes (Password='a;b')"
            ))
        })?;
        let key = squeezed(&key);
        let after_key = after_key.trim_start();
        let quote = after_key.chars().next().filter(|first| matches!(first, '\'' | '"'));
        let (value, after_value) = match quote {
            Some(quote) => split_quoted(&after_key[1..], quote)
                .ok_or_else(|| invalid(format!("the quote of '{key}' is not closed")))?,
            None => {
                let end = after_key.find(';').unwrap_or(after_key.len());
                (after_key[..end].trim_end().to_string(), &after_key[end..])
            }
        };
        let after_value = after_value.trim_start();
        if !after_value.is_empty() && !after_value.starts_with(';') {
            return Err(invalid(format!("there is text after the quoted value of '{key}'")));
        }
        pairs.push((key, value));
        rest = after_value.trim_start_matches(is_gap);
    }
    Ok(pairs)
}

fn is_gap(character: char) -> bool {
    character == ';' || character.is_whitespace()
}

/// The key, and what follows its `=`.
fn split_key(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut rest = text;
    loop {
        let end = rest.find(['=', ';'])?;
        if rest[end..].starts_with(';') {
            return None;
        }
        key.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('=') {
            Some(after) => {
                key.push('=');
                rest = after;
            }
            None => return Some((key, rest)),
        }
    }
}

/// The value up to the closing quote, and what follows that.
fn split_quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let end = rest.find(quote)?;
        value.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(quote) {
            Some(after) => {
                value.push(quote);
                rest = after;
            }
            None => return Some((value, rest)),
        }
    }
}

/// Lower case, without spaces: `Trust Server Certificate` and `TrustServerCertificate` are one key.
fn squeezed(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace()).collect::<String>().to_ascii_lowercase()
}

fn bad_value(key: &str, value: &str, allowed: &str) -> Error {
    invalid(format!("{key} is '{value}'; it must be {allowed}"))
}

fn invalid(reason: String) -> Error {
    Error::ConnectionString { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConnectionOptions, Error> {
        ConnectionString::from(text).parse()
    }

    fn reason(text: &str) -> String {
        match parse(text) {
            Err(Error::ConnectionString { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_string_that_azures_portal_gives_is_accepted() {
        let options = parse(
            "Server=tcp:x.database.windows.net,1433;Initial Catalog=work;Persist Security Info=False;User ID=app;\
             Password=a b;MultipleActiveResultSets=False;Encrypt=True;TrustServerCertificate=False;Connection Timeout=30;",
        )
        .unwrap();
        assert_eq!(options.server, "x.database.windows.net:1433");
        assert_eq!(options.connect_timeout, Some(Duration::from_secs(30)));
        assert_eq!(options.driver.get_addr(), "x.database.windows.net:1433");
    }

    #[test]
    fn servers_are_hosts_ports_and_instances() {
        let server = |text: &str| parse(&format!("Server={text};UID=u;PWD=p")).unwrap().server;
        assert_eq!(server("db1"), "db1:1433");
        assert_eq!(server("(local)"), "localhost:1433");
        assert_eq!(server("., 1434"), "localhost:1434");
        assert_eq!(server("db1\\SQL2022"), "db1\\SQL2022");
        assert_eq!(server("db1\\MSSQLSERVER"), "db1:1433");
        for wrong in ["", "db1,port", "np:db1", "(localdb)\\v11", "db1\\i,1433", "db1\\"] {
            assert!(reason(&format!("Server={wrong};UID=u;PWD=p")).contains("it must be host"), "{wrong}");
        }
    }

    #[test]
    fn quotes_and_equal_signs_in_values_are_kept() {
        let pairs = |text: &str| split(text).unwrap();
        let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
        assert_eq!(pairs("PWD='a;b''c\"d' ; UID = x"), [pair("pwd", "a;b'c\"d"), pair("uid", "x")]);
        assert_eq!(pairs("PWD=\"é=\"\"=\";;"), [pair("pwd", "é=\"=")]);
        assert_eq!(pairs("PWD=abc=="), [pair("pwd", "abc==")]);
        assert_eq!(pairs("a==b=c"), [pair("a=b", "c")]);
        assert_eq!(pairs("PWD="), [pair("pwd", "")]);
    }

    #[test]
    fn what_is_unknown_or_cannot_be_honoured_is_refused() {
        let with = |extra: &str| reason(&format!("Server=s;UID=u;PWD=p;{extra}"));
        assert!(with("Sever=x").contains("no key 'sever'"));
        assert!(with("Encrypt=perhaps").contains("encrypt is 'perhaps'; it must be True"));
        assert!(with("Encrypt=Strict").contains("Strict is not supported"));
        assert!(with("Integrated Security=SSPI").contains("only SQL logins"));
        assert!(with("Authentication=Active Directory Default").contains("only SQL logins"));
        assert!(with("ApplicationIntent=ReadOnly").contains("ReadWrite"));
        assert!(with("Connect Timeout=0").contains("1 to 3600"));
        assert!(with("Packet Size=100000").contains("512 to"));
        assert!(with("TrustServerCertificate=true;TrustServerCertificateCA=f").contains("exclude each other"));
        assert!(reason("UID=u;PWD=p").contains("Server is missing"));
        assert!(reason("Server=s;PWD=p").contains("User ID is missing"));
        assert!(reason("Server=s;UID=u").contains("Password is missing"));
    }

    #[test]
    fn the_password_shows_nowhere() {
        let secret = "hunter2";
        for text in [
            "Server=s;UID=u;PWD=hunter2",
            "Server=s;UID=u;Pass word='hunter2'",
            "Server=s;UID=u;PWD='hunter2",
            "Server=s;UID=u;PWD=x;hunter2",
            "Server=s;UID=u;PWD='x'hunter2",
            "Server=s;UID=u;PWD=hunter2;Encrypt=perhaps",
        ] {
            let url = ConnectionString::from(text);
            let shown = format!("{url} {url:?} {:?}", url.parse());
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
