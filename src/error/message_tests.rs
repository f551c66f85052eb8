//! The texts of errors.

use std::io;

use super::error::Error;

fn sql(number: i32) -> Error {
    Error::Sql { number, severity: 13, message: "text".into(), procedure: "readpast.claim".into(), line: 7 }
}

#[test]
fn debug_output_is_the_sentence_for_people() {
    let (key, value, allowed) = ("worker.lease_ms".into(), "5".into(), "1000 to 3600000".into());
    let error = Error::Config { key, value, allowed };
    assert_eq!(format!("{error:?}"), "worker.lease_ms is 5; it must be 1000 to 3600000");
    assert_eq!(format!("{:?}", Error::LeaseLost), Error::LeaseLost.to_string());
}

#[test]
fn a_cause_appears_once_however_it_is_printed() {
    let gone = || io::Error::new(io::ErrorKind::ConnectionRefused, "refused by the host").into();
    let errors = [
        Error::Connect { server: "db:1433".into(), cause: gone() },
        Error::ConnectionLost { cause: gone() },
        Error::ConfigFile { path: "x.toml".into(), cause: gone() },
        Error::EnqueuedInPart { enqueued: Vec::new(), cause: Box::new(Error::ConnectionLost { cause: gone() }) },
    ];
    for error in errors {
        let mut printed = error.to_string();
        let mut next = std::error::Error::source(&error);
        while let Some(cause) = next {
            printed.push_str(&format!(": {cause}"));
            next = cause.source();
        }
        assert_eq!(printed.matches("refused by the host").count(), 1, "{printed}");
    }
}

#[test]
fn messages_say_what_to_do() {
    let tls = |message: &str| Error::Tls { server: "db:1433".into(), message: message.into() }.to_string();
    let untrusted = tls("invalid peer certificate: UnknownIssuer");
    assert!(untrusted.contains("TrustServerCertificateCA=<file>") && untrusted.contains("TrustServerCertificate=true"));
    assert!(tls("invalid peer certificate: certificate not valid for name \"db\"").contains("HostNameInCertificate"));
    assert!(tls("no usable CA certificates found in the platform trust store").contains("ca-certificates"));
    assert!(tls("Server does not allow the requested encryption level.").contains("Encrypt=false"));
    let script = concat!("`readpast install --script`, version ", env!("CARGO_PKG_VERSION"));
    let missing = Error::NotInstalled { number: None, schema: "readpast".into(), message: "there is nothing".into() };
    let old = Error::SchemaTooOld { found: 1, wanted: 2 };
    for error in [missing, old] {
        assert!(error.to_string().contains(script), "{error}");
    }
    let new = Error::SchemaTooNew { needed: 3, known: 2 }.to_string();
    assert!(new.contains(concat!("readpast ", env!("CARGO_PKG_VERSION"), " supports at most 2; use a newer")));
}

#[test]
fn messages_are_lowercase_and_say_where() {
    assert_eq!(sql(1205).to_string(), "text (error 1205, severity 13, readpast.claim line 7)");
    let config = Error::Config { key: "worker.lease_ms".into(), value: "5".into(), allowed: "1000 to 86400000".into() };
    assert_eq!(config.to_string(), "worker.lease_ms is 5; it must be 1000 to 86400000");
}
