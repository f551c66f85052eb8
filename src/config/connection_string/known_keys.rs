//! The keys of a connection string: which are known, which may be shown, and how to parse their values.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use tiberius::EncryptionLevel;

use crate::error::Error;

/// SQL Server accepts packets of 512 to 32,767 bytes. An encrypted packet must fit in one TLS record (16,384 bytes).
pub(crate) const PACKET_SIZES: RangeInclusive<u64> = 512..=16_383;

const KNOWN_KEYS: &str = "Server, Database, User ID, Password, Integrated Security, Authentication, Encrypt, TrustServerCertificate, TrustServerCertificateCA, \
    HostNameInCertificate, Application Name, Workstation ID, ApplicationIntent, MultiSubnetFailover, Connect Timeout, \
    Command Timeout and Packet Size";

/// A sample for messages about other formats.
pub(super) const SAMPLE: &str = "Server=tcp:db1,1433;Database=work;User ID=app;Password=…";

/// The remedy if a part of a value was parsed as a key.
pub(super) const IN_QUOTES: &str = "a value that contains ; or quotes must be quoted (Password='a;b')";

/// Keys of Microsoft.Data.SqlClient that concern only its own pool, threads and types, from the documentation of its
/// `SqlConnection.ConnectionString`. The SPNs are for Windows logins, the enclave's keys for encrypted columns, of
/// which readpast has none.
pub(super) const IGNORED_KEYS: [&str; 25] = [
    "asynchronousprocessing",
    "async",
    "attestationprotocol",
    "columnencryptionsetting",
    "connectionlifetime",
    "connectionreset",
    "connectretrycount",
    "connectretryinterval",
    "currentlanguage",
    "enclaveattestationurl",
    "enlist",
    "failoverpartnerspn",
    "ipaddresspreference",
    "language",
    "loadbalancetimeout",
    "maxpoolsize",
    "minpoolsize",
    "multipleactiveresultsets",
    "persistsecurityinfo",
    "poolblockingperiod",
    "pooling",
    "replication",
    "serverspn",
    "transactionbinding",
    "typesystemversion",
];

/// Keys that take any text, and whose values may be shown. A misspelt key is never among them.
const TEXT_KEYS: [&str; 16] = [
    "server",
    "datasource",
    "address",
    "addr",
    "networkaddress",
    "database",
    "initialcatalog",
    "userid",
    "uid",
    "user",
    "trustservercertificateca",
    "hostnameincertificate",
    "applicationname",
    "app",
    "workstationid",
    "wsid",
];

/// Keys whose values are one of a few words, or a number. A longer value is misplaced.
const WORD_KEYS: [&str; 13] = [
    "encrypt",
    "trustservercertificate",
    "multisubnetfailover",
    "connecttimeout",
    "connectiontimeout",
    "timeout",
    "commandtimeout",
    "packetsize",
    "applicationintent",
    "integratedsecurity",
    "trusted_connection",
    "authentication",
    "networklibrary",
];

/// The other keys of ADO.NET: secret, or not supported.
const OTHER_KEYS: [&str; 9] = [
    "attachdbfilename",
    "contextconnection",
    "failoverpartner",
    "net",
    "network",
    "password",
    "pwd",
    "servercertificate",
    "userinstance",
];

pub(super) const HIDDEN: &str = "***";

const WORDS: [&str; 11] = [
    "danger_plaintext",
    "dbmssocn",
    "false",
    "mandatory",
    "no",
    "optional",
    "readwrite",
    "sspi",
    "strict",
    "true",
    "yes",
];

/// Whether a key and its value may be shown: a password may be under the wrong key.
pub(super) fn is_harmless(key: &str, value: &str) -> bool {
    let is_short_number = value.len() <= 6 && value.bytes().all(|byte| byte.is_ascii_digit());
    let word = squeezed(value);
    let is_word = is_short_number || word.starts_with("activedirectory") || WORDS.contains(&word.as_str());
    let takes_words = WORD_KEYS.contains(&key) || IGNORED_KEYS.contains(&key);
    (TEXT_KEYS.contains(&key) || takes_words && is_word) && !may_hold_password(value)
}

/// Whether a misplaced text may contain a password, as a connection string, a URL or a part of one.
pub(crate) fn may_hold_password(text: &str) -> bool {
    let lower = text.to_lowercase();
    text.contains(['=', '@', ';']) || ["//", "password", "pwd"].iter().any(|sign| lower.contains(sign))
}

/// Whether a key is one of ADO.NET's. An unknown key may be part of a password with a `;` in it, and is never shown.
pub(super) fn is_known(key: &str) -> bool {
    [&TEXT_KEYS[..], &WORD_KEYS, &IGNORED_KEYS, &OTHER_KEYS].iter().any(|keys| keys.contains(&key))
}

/// The format of a text that is not an ADO.NET connection string.
pub(super) fn other_kind(text: &str) -> Option<&'static str> {
    let text = text.trim_start();
    let before_the_first_value = text.split('=').next().unwrap_or(text);
    if text.to_ascii_lowercase().starts_with("jdbc:") {
        Some("a JDBC URL")
    } else if text.to_ascii_lowercase().starts_with("driver=") {
        Some("an ODBC connection string")
    } else if before_the_first_value.contains("//") {
        Some("a URL")
    } else if !text.contains('=') {
        Some("a text without any key")
    } else {
        None
    }
}

pub(super) fn unknown_key(position: usize, key: &str) -> Error {
    let remedy = match key {
        "servercertificate" => "name the authority that signed it with TrustServerCertificateCA".to_string(),
        "failoverpartner" => {
            "database mirroring is not supported by the driver; use an availability group's listener".to_string()
        }
        _ => format!("the known keys are {KNOWN_KEYS}"),
    };
    if is_known(key) {
        return invalid(format!("the key '{key}' is not supported; {remedy}"));
    }
    invalid(format!("the key of {} is unknown; {IN_QUOTES}; {remedy}", pair(position, key)))
}

/// Names a pair in messages: by its key, or by its position if the key may be part of a password.
pub(super) fn pair(position: usize, key: &str) -> String {
    if is_known(key) { format!("'{key}'") } else { format!("pair {position}") }
}

pub(super) fn missing(key: &str) -> Error {
    invalid(format!("the key {key} is missing, as in {SAMPLE}"))
}

/// Checks that a certificate file can be read. The driver reads it at each connection, and would report an unreadable
/// file as a network error.
pub(super) fn readable_authority(file: String) -> Result<String, Error> {
    let is_known = Path::new(&file)
        .extension()
        .is_some_and(|extension| ["pem", "crt", "der"].iter().any(|known| extension.eq_ignore_ascii_case(known)));
    let readable = std::fs::File::open(&file);
    match readable {
        Ok(_) if is_known => Ok(file),
        Ok(_) => Err(bad_value("trustservercertificateca", &file, "a file .pem, .crt or .der")),
        Err(error) => Err(bad_value("trustservercertificateca", &file, &format!("a file that can be read ({error})"))),
    }
}

pub(super) fn encryption(key: &str, value: &str) -> Result<EncryptionLevel, Error> {
    if value == "DANGER_PLAINTEXT" {
        return Ok(EncryptionLevel::NotSupported);
    }
    match squeezed(value).as_str() {
        "true" | "yes" | "mandatory" => Ok(EncryptionLevel::Required),
        "false" | "no" | "optional" => Ok(EncryptionLevel::Off),
        "strict" => Ok(EncryptionLevel::Strict),
        _ => Err(bad_value(key, value, "True (Mandatory), Strict, False (Optional) or DANGER_PLAINTEXT")),
    }
}

pub(super) fn truth(key: &str, value: &str) -> Result<bool, Error> {
    match squeezed(value).as_str() {
        "true" | "yes" => Ok(true),
        "false" | "no" => Ok(false),
        _ => Err(bad_value(key, value, "True or False")),
    }
}

pub(super) fn integrated(key: &str, value: &str) -> Result<bool, Error> {
    match squeezed(value).as_str() {
        "true" | "yes" | "sspi" => Ok(true),
        "false" | "no" => Ok(false),
        _ => Err(bad_value(key, value, "True (SSPI) or False")),
    }
}

pub(super) fn is_false(value: &str) -> bool {
    matches!(squeezed(value).as_str(), "false" | "no")
}

pub(super) fn seconds(key: &str, value: &str) -> Result<Duration, Error> {
    match value.parse::<u64>() {
        Ok(seconds @ 1..=3_600) => Ok(Duration::from_secs(seconds)),
        _ => Err(bad_value(key, value, "1 to 3600 (seconds)")),
    }
}

pub(super) fn packet_size(key: &str, value: &str) -> Result<usize, Error> {
    match value.parse::<usize>() {
        Ok(size) if PACKET_SIZES.contains(&(size as u64)) => Ok(size),
        _ => Err(bad_value(key, value, &format!("{} to {} (bytes)", PACKET_SIZES.start(), PACKET_SIZES.end()))),
    }
}

/// Lower case, without spaces: `Trust Server Certificate` and `TrustServerCertificate` are one key.
pub(super) fn squeezed(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace()).collect::<String>().to_ascii_lowercase()
}

/// The error of a rejected value. The value may be a password under the wrong key, so it is shown only if it is a
/// number, or if the key takes a name or a path.
pub(super) fn bad_value(key: &str, value: &str, allowed: &str) -> Error {
    let is_number = !value.is_empty() && value.len() <= 9 && value.bytes().all(|byte| byte.is_ascii_digit());
    let names_something = ["server", "trustservercertificateca"].contains(&key) && is_harmless(key, value);
    if is_number && is_harmless(key, value) || names_something {
        invalid(format!("{key} is '{value}'; it must be {allowed}"))
    } else {
        invalid(format!("{key} is a text that is not shown here; it must be {allowed}"))
    }
}

pub(super) fn invalid(reason: String) -> Error {
    Error::ConnectionString { reason }
}
