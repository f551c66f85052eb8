//! Converts the driver's errors to [`Error`].

use std::io;

use super::error::Error;
use super::remedy;

/// The errors of refused logins: password wrong, expired or to be changed; account locked or disabled; domain not
/// trusted.
const LOGIN_NUMBERS: [i32; 6] = [18452, 18456, 18470, 18486, 18487, 18488];

impl Error {
    /// The error of a login that SQL Server refused. `check` is the remedy if the error number has no remedy of its
    /// own.
    pub(crate) fn login_failed(number: i32, message: String, check: String, may_pass: bool) -> Error {
        let remedy = remedy::for_login(number).map_or(check, str::to_string);
        Error::LoginFailed { number, message, remedy, may_pass }
    }

    /// Converts an error of a login. On an open connection, the same numbers mean that another login failed, such as a
    /// linked server's.
    pub(crate) fn from_login(error: tiberius::error::Error, server: &str, schema: &str) -> Error {
        match Error::from_driver(error, server, schema) {
            Error::Sql { number, message, .. } if LOGIN_NUMBERS.contains(&number) => {
                Error::login_failed(number, message, remedy::LOGIN.to_string(), false)
            }
            other => other,
        }
    }

    pub(crate) fn from_driver(error: tiberius::error::Error, server: &str, schema: &str) -> Error {
        use tiberius::error::Error as Driver;
        match error {
            Driver::Server(token) => Error::from_token(&token, schema),
            Driver::Protocol(message) if message.contains("requested encryption level") => {
                Error::Tls { server: server.to_string(), message: message.to_string() }
            }
            // The driver decodes errors and messages strictly, whatever its setting for values.
            Driver::Protocol(message) if message.contains("UTF-16") => {
                Error::UnreadableText { message: message.to_string() }
            }
            Driver::Encoding(message) => Error::UnreadableText { message: message.to_string() },
            Driver::Io { kind, message } => Error::ConnectionLost { cause: io::Error::new(kind, message).into() },
            Driver::Tls(message) => Error::Tls {
                server: server.to_string(),
                // Removes the driver's advice about its own API.
                message: message
                    .split(" To connect anyway")
                    .next()
                    .unwrap_or_default()
                    .trim_end_matches('.')
                    .to_string(),
            },
            other => Error::Protocol { message: other.to_string() },
        }
    }

    fn from_token(token: &tiberius::error::TokenError, schema: &str) -> Error {
        let number = i32::from_ne_bytes(token.code().to_ne_bytes());
        let message = token.message().to_string();
        match number {
            58001 => Error::UnknownQueue { message },
            58002 => Error::LeaseLost,
            58003 => Error::Refused { message },
            58020 => of_sink(message),
            58021 => Error::BatchNotOpen { message },
            58022 => Error::QueueInUse { message },
            58023 => Error::QueueFull { message },
            2812 | 208 | 2715 => Error::NotInstalled { number: Some(number), schema: schema.to_string(), message },
            229 | 230 | 262 | 297 | 300 => {
                Error::PermissionDenied { number, remedy: remedy::for_permission(&message, schema), message }
            }
            3906 | 3908 => Error::ReadOnlyDatabase { number: Some(number), message },
            1934 => Error::WrongSetOptions { number: Some(number), message },
            911 | 916 | 4060 => Error::Database { number, message },
            18456 if is_of_an_expired_token(token) => {
                Error::LoginFailed { number, message, remedy: remedy::EXPIRED_TOKEN.to_string(), may_pass: true }
            }
            _ => Error::Sql {
                number,
                severity: token.class(),
                message,
                procedure: token.procedure().to_string(),
                line: token.line(),
            },
        }
    }
}

/// Whether the token of an open connection has expired. Azure SQL refuses the connection's next call with a login error
/// (dotnet/SqlClient#617, #1333 and #3245; azuredatastudio#14497 has the state).
fn is_of_an_expired_token(token: &tiberius::error::TokenError) -> bool {
    token.state() == 233 || token.message().contains("Token is expired")
}

/// Parses the error of a sink or a follow-up, as `finish` reports it: its number, a colon and its text.
pub(super) fn of_sink(message: String) -> Error {
    let parts = message.split_once(": ").and_then(|(number, text)| Some((number.parse().ok()?, text.to_owned())));
    let (number, message) = parts.unwrap_or((58020, message));
    Error::ResultRefused { number, message }
}
