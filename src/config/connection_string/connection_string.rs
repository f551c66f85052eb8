//! The ADO.NET connection string: `Server=…;Database=…;User ID=…;Password=…`.
//!
//! text ─ split into keys and values ─▶ each key checked and applied ─▶ [`ConnectionOptions`] for the driver ─ its
//! login keys and the settings ─▶ [`Login`]
//!
//! An unknown key or an unsupported value is an error; it is never silently ignored. The text contains a password: it
//! is shown only by the redacted [`Debug`] and [`Display`](std::fmt::Display).

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tiberius::EncryptionLevel;

use crate::error::Error;
pub(crate) use crate::login::Login;
use crate::login::{Secret, TokenSource};

use super::address::{Address, DEFAULT_PORT, Place, address};
use super::known_keys::{
    HIDDEN, IGNORED_KEYS, SAMPLE, bad_value, encryption, integrated, invalid, is_false, is_harmless, is_known, missing,
    other_kind, packet_size, readable_authority, seconds, truth, unknown_key,
};
use super::login_keys::{Authentication, LoginKeys};
use super::split::split;

/// An ADO.NET connection string. `Display` and `Debug` hide the password.
///
/// ```
/// use readpast::config::ConnectionString;
///
/// let url = ConnectionString::from("Server=tcp:db1,1433;Database=work;User ID=app;Password=s3cret");
/// assert_eq!(url.to_string(), "server=tcp:db1,1433;database=work;userid=app;password=***");
/// ```
///
/// Keys (case and spaces do not matter):
///
/// | key | meaning | default |
/// |---|---|---|
/// | `Server`, `Data Source`, `Address` | `host`, `host,port` or `host\instance`, with or without `tcp:` | required |
/// | `Database`, `Initial Catalog` | the database readpast is installed in | the login's own |
/// | `User ID`, `UID`, `User`; `Password`, `PWD` | the SQL login | required, unless something below logs in |
/// | `Integrated Security`, `Trusted_Connection` | `true` (`SSPI`): by Kerberos (feature `gssapi`), on Windows by SSPI (feature `windows-auth`) | `false` |
/// | `Authentication` | `Sql Password`; with the feature `entra` also `Active Directory Managed Identity`, `… Service Principal`, `… Workload Identity` and `… Default` | `Sql Password` |
/// | `Encrypt` | `true` (`Mandatory`), `Strict` (TDS 8.0), `false` (`Optional`: the login only), or `DANGER_PLAINTEXT` (nothing, not even the login) | `true` |
/// | `TrustServerCertificate` | `true` accepts any certificate: for development only, and not with `Strict` | `false` |
/// | `TrustServerCertificateCA` | file with a certificate authority to trust besides the system's | none |
/// | `HostNameInCertificate` | the name to look for in the certificate | the host |
/// | `Application Name`, `Workstation ID` | shown in SQL Server's session list | `readpast`, none |
/// | `ApplicationIntent` | `ReadWrite` | `ReadWrite` |
/// | `MultiSubnetFailover` | `true` tries all addresses of the host at once | `false` |
/// | `Connect Timeout`, `Command Timeout` (s), `Packet Size` | here they win over the `connection` section | that section |
///
/// With `Encrypt=false` the certificate is checked only if `TrustServerCertificateCA` is set;
/// `TrustServerCertificate=false` and `HostNameInCertificate` have no effect, as in ADO.NET. SQL Server may be
/// configured to encrypt everything anyway. In this case ADO.NET checks the certificate, but this crate does not: if
/// this matters, set `Encrypt=true`. (Microsoft's "Encryption and certificate validation in Microsoft.Data.SqlClient",
/// the table of version 4.0; `SqlConnectionStringBuilder.HostNameInCertificate`: "only applies when using Encrypt in
/// Mandatory or Strict mode, otherwise it is ignored".)
///
/// Keys that only concern ADO.NET itself, such as `Pooling`, `MultipleActiveResultSets`, `Enlist` and `Persist Security
/// Info`, are accepted and ignored.
///
/// The password may be in a file ([`ConnectionConfig::password_file`](crate::config::ConnectionConfig::password_file)),
/// and a program may provide its own tokens
/// ([`ConnectionConfig::token_source`](crate::config::ConnectionConfig::token_source)). `docs/logins.md` in the
/// repository describes each way to log in, and how the DBA prepares it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConnectionString(String);

impl ConnectionString {
    pub(in crate::config) fn reveal(&self) -> &str {
        &self.0
    }
}

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

impl FromStr for ConnectionString {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<ConnectionString, Infallible> {
        Ok(text.into())
    }
}

impl fmt::Display for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(pairs) = split(&self.0) else {
            return f.write_str("(not a valid connection string)");
        };
        for (position, (key, value)) in pairs.iter().enumerate() {
            let separator = if position == 0 { "" } else { ";" };
            let key_shown = if is_known(key) { key } else { HIDDEN };
            let value_shown = if is_harmless(key, value) { value } else { HIDDEN };
            write!(f, "{separator}{key_shown}={value_shown}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionString({self})")
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ConnectionOptions {
    /// The driver's settings without the address. Its `Debug` hides the password.
    pub(crate) driver: tiberius::Config,
    pub(crate) address: Address,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) command_timeout: Option<Duration>,
    pub(crate) packet_size: Option<usize>,
    level: EncryptionLevel,
    keys: LoginKeys,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LoginSettings<'a> {
    pub(crate) password_file: &'a str,
    pub(crate) token_source: Option<&'a TokenSource>,
}

impl ConnectionOptions {
    /// Determines the login. [`Error::ConnectionString`] if it is missing or ambiguous.
    pub(crate) fn login(&self, settings: LoginSettings<'_>) -> Result<Login, Error> {
        self.keys.clone().login(settings.password_file, settings.token_source, self.level, &self.address.host)
    }
}

impl ConnectionString {
    /// Whether the string is blank.
    pub fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }

    /// Parses the string. [`Error::ConnectionString`] names the faulty key and its allowed values.
    pub(crate) fn parse(&self) -> Result<ConnectionOptions, Error> {
        let mut driver = tiberius::Config::new();
        driver.application_name("readpast");
        let mut options = ConnectionOptions {
            driver,
            address: Address { host: String::new(), place: Place::Port(DEFAULT_PORT) },
            connect_timeout: None,
            command_timeout: None,
            packet_size: None,
            level: EncryptionLevel::Required,
            keys: LoginKeys::default(),
        };
        let (mut trusts_any, mut authority) = (false, None);

        if let Some(kind) = other_kind(&self.0) {
            return Err(invalid(format!("this is {kind}; write it as an ADO.NET connection string: {SAMPLE}")));
        }
        for (position, (key, value)) in (1..).zip(split(&self.0)?) {
            match key.as_str() {
                "server" | "datasource" | "address" | "addr" | "networkaddress" => {
                    options.address = address(&value)?;
                }
                "database" | "initialcatalog" => options.driver.database(&value),
                "userid" | "uid" | "user" => options.keys.user = Some(Secret::new(value)),
                "password" | "pwd" => options.keys.password = Some(Secret::new(value)),
                "encrypt" => options.level = encryption(&key, &value)?,
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
                "integratedsecurity" | "trusted_connection" => options.keys.integrated = integrated(&key, &value)?,
                "authentication" => options.keys.authentication = Some(Authentication::parse(&key, &value)?),
                "networklibrary" | "network" | "net" if value.eq_ignore_ascii_case("dbmssocn") => {}
                "networklibrary" | "network" | "net" => return Err(bad_value(&key, &value, "dbmssocn: TCP")),
                "contextconnection" | "userinstance" if is_false(&value) => {}
                "serverspn" | "failoverpartnerspn" => options.keys.names_spn = true,
                key if IGNORED_KEYS.contains(&key) => {}
                key => return Err(unknown_key(position, key)),
            }
        }

        if options.address.host.is_empty() {
            return Err(missing("Server"));
        }
        options.driver.encryption(options.level);
        match (trusts_any, authority) {
            (true, Some(_)) => {
                return Err(invalid(
                    "TrustServerCertificate=true and TrustServerCertificateCA exclude each other".to_string(),
                ));
            }
            (true, None) if options.level == EncryptionLevel::Strict => {
                return Err(invalid(
                    "Encrypt=Strict always checks the certificate; remove TrustServerCertificate=true, and name the certificate's \
                     authority with TrustServerCertificateCA"
                        .to_string(),
                ));
            }
            (true, None) => options.driver.trust_cert(),
            (false, Some(file)) => options.driver.trust_cert_ca(readable_authority(file)?),
            // The driver would check the login's certificate, too, but SQL Server's default certificate is self-signed.
            (false, None) if options.level == EncryptionLevel::Off => options.driver.trust_cert(),
            (false, None) => {}
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConnectionOptions, Error> {
        let options = ConnectionString::from(text).parse()?;
        options.login(LoginSettings::default()).map(|_| options)
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
        assert_eq!(options.address.to_string(), "x.database.windows.net:1433");
        assert_eq!(options.connect_timeout, Some(Duration::from_secs(30)));
    }

    #[test]
    fn servers_are_hosts_ports_and_instances() {
        let server = |text: &str| parse(&format!("Server={text};UID=u;PWD=p")).unwrap().address.to_string();
        assert_eq!(server("db1"), "db1:1433");
        assert_eq!(server("(local)"), "localhost:1433");
        assert_eq!(server("., 1434"), "localhost:1434");
        assert_eq!(server("db1\\SQL2022"), "db1\\SQL2022");
        assert_eq!(server("db1\\MSSQLSERVER"), "db1:1433");
        assert_eq!(server("db1\\SQL2022;Server=db2"), "db2:1433", "the last one counts, and nothing of the one before");
        for wrong in ["", "db1,port", "np:db1", "(localdb)\\v11", "db1\\i,1433", "db1\\"] {
            assert!(reason(&format!("Server={wrong};UID=u;PWD=p")).contains("it must be host"), "{wrong}");
        }
    }

    #[test]
    fn what_is_unknown_or_cannot_be_honoured_is_refused() {
        let with = |extra: &str| reason(&format!("Server=s;UID=u;PWD=p;{extra}"));
        assert!(with("Sever=x").contains("the key of pair 4 is unknown; a value that contains ; "));
        assert!(
            with("AttachDbFilename=x")
                .contains("the key 'attachdbfilename' is not supported; the known keys are Server,")
        );
        assert!(with("Encrypt=perhaps").contains("encrypt is a text that is not shown here; it must be True"));
        assert!(with("Encrypt=Strict;TrustServerCertificate=true").contains("always checks the certificate"));
        assert!(with("Server Certificate=c.cer").contains("TrustServerCertificateCA"));
        assert!(with("Failover Partner=db2").contains("listener"));
        assert!(with("Network Library=dbnmpntw").contains("dbmssocn"));
        assert!(with("ApplicationIntent=ReadOnly").contains("ReadWrite"));
        assert!(with("Connect Timeout=0").contains("1 to 3600"));
        assert!(with("Packet Size=100000").contains("512 to"));
        assert!(with("TrustServerCertificate=true;TrustServerCertificateCA=f").contains("exclude each other"));
        assert!(reason("UID=u;PWD=p").contains("Server is missing"));
        assert!(reason("Server=s;PWD=p").contains("User ID is missing"));
        assert!(reason("Server=s;UID=u").contains("Password is missing"));
    }

    #[test]
    fn what_is_no_connection_string_gets_a_sample() {
        for (text, kind) in [
            ("hello", "a text without any key"),
            ("mssql://sa:hunter2@db1:1433/work?encrypt=true", "a URL"),
            ("sqlserver://db1?user=sa&password=hunter2", "a URL"),
            ("jdbc:sqlserver://db1:1433;databaseName=work;user=sa;password=hunter2", "a JDBC URL"),
        ] {
            let reason = reason(text);
            assert!(reason.starts_with(&format!("this is {kind}; ")) && reason.ends_with(SAMPLE), "{reason}");
        }
        assert!(reason("Database=x").contains(SAMPLE), "and so does one without its server");
    }

    #[test]
    fn a_port_after_a_colon_is_told_to_stand_after_a_comma() {
        let reason = reason("Server=db1:14330;UID=u;PWD=p");
        assert!(reason.contains("server is 'db1:14330'; it must be db1,14330: the port follows a comma"), "{reason}");
        assert_eq!(parse("Server=::1,1433;UID=u;PWD=p").unwrap().address.to_string(), "::1:1433");
    }

    #[test]
    fn keys_of_ado_net_that_mean_nothing_here_are_accepted() {
        let all: String = IGNORED_KEYS.iter().map(|key| format!("{key}=True;")).collect();
        parse(&format!("Server=s;UID=u;PWD=p;Network Library=DBMSSOCN;User Instance=false;{all}")).unwrap();
        parse("Server=s;UID=u;PWD=p;Multiple Active Result Sets=true;Max Pool Size=50;PoolBlockingPeriod=Auto")
            .unwrap();
    }

    #[test]
    fn an_authority_that_cannot_be_read_is_named_before_anything_is_connected_to() {
        let with = |file: &str| reason(&format!("Server=s;UID=u;PWD=p;TrustServerCertificateCA={file}"));
        assert!(
            with("/no/such/secrets/ca.pem")
                .contains("is '/no/such/secrets/ca.pem'; it must be a file that can be read (")
        );
        assert!(with(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).contains("a file .pem, .crt or .der"));
    }

    #[test]
    fn the_password_shows_nowhere() {
        for text in [
            "Server=s;UID=u;Pasword=hunter2",
            "Server=s;UID=u;Pass-wort=hunter2",
            "Server=s;UID=u;Key=hunter2",
            "Server=s;UID=u;PWD=x;hunter2=y",
            "Server=s;UID=u;PWD=x;hunter",
            "Server=s;UID=u;PWD=x;hunter=y",
            "Server=s;UID=u;PWD=x;hunter='y",
            "Server=s;UID=u;PWD=x;hunter='y'z",
            "Server=s;UID=u,Password=hunter2",
            "Server=s;UID=u Password=hunter2;PWD=x;Encrypt=perhaps",
            "Server=s;UID=u;PWD=x;Encrypt=perhaps Password=hunter2",
            "Server=mssql://sa:hunter2@db1;UID=u;PWD=x",
            "Server=sa:hunter2@db1,1433;UID=u;PWD=x",
            "mssql://sa:hunter2@db1?encrypt=true",
            "mssql//sa:hunter2@db1?encrypt=true",
            "mssql:sa:hunter2@db1?encrypt=true",
            "jdbc:sqlserver://db1;user=sa;pasword=hunter2",
            "Server=s;UID=u;PWD=hunter2",
            "Server=s;UID=u;Pass word='hunter2'",
            "Server=s;UID=u;PWD='hunter2",
            "Server=s;UID=u;PWD=x;hunter2",
            "Server=s;UID=u;PWD='x'hunter2",
            "Server=s;UID=u;PWD=hunter2;Encrypt=perhaps",
            "Server=s;UID=u;PWD=x;Encrypt=hunter2",
            "Server=s;UID=u;PWD=x;TrustServerCertificate=hunter2",
            "Server=s;UID=u;PWD=x;Connect Timeout=hunter2",
            "Server=s;UID=u;PWD=x;Packet Size=hunter2",
            "Server=s;UID=u;Integrated Security=hunter2",
            "Server=s;UID=u;Authentication=hunter2",
            "Server=s;UID=u;PWD=x;ApplicationIntent=hunter2",
            "Server=s;UID=u;PWD=x;Network Library=hunter2",
            "Server=s;UID=u;PWD=x;Current Language=hunter2",
            "Server=s;UID=u;PWD=x;Max Pool Size=hunter2",
        ] {
            let url = ConnectionString::from(text);
            let login = url.parse().map(|options| options.login(LoginSettings::default()));
            let shown = format!("{url} {url:?} {:?} {login:?}", url.parse());
            assert!(!shown.contains("hunter"), "{shown}");
        }
    }
}
