//! Error pages.

use askama::Template;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use readpast::Error;

use crate::render::html;
use crate::root;
use crate::texts::in_one_direction;

/// How many seconds a client should wait if too many requests are running.
const RETRY_AFTER: &str = "5";

#[derive(Debug)]
pub enum Failure {
    /// The queue, job, batch or operation does not exist.
    NotFound(String),
    /// A field has an invalid value.
    Bad {
        name: String,
        value: String,
        allowed: String,
    },
    /// The visitor or the SQL Server login may not do it.
    NotAllowed,
    /// Payloads are hidden.
    Hidden,
    NotLoggedIn,
    /// The form was not made for this session.
    Forged,
    /// The form took too long to arrive.
    Slow,
    /// The host name is not this machine's.
    WrongHost,
    /// SQL Server returned an error or did not respond.
    Sql(Error),
    /// The queues cannot be read, so it is unknown whether the requested queue exists.
    Away(String),
    /// Too many requests are running.
    Busy(String),
    /// A defect.
    Internal,
}

#[derive(Template)]
#[template(path = "failure.html")]
struct Page<'a> {
    /// The relative path to the pages.
    root: &'a str,
    title: &'a str,
    text: String,
}

impl Failure {
    pub fn bad(name: &str, value: &str, allowed: &str) -> Failure {
        Failure::Bad { name: name.to_owned(), value: value.to_owned(), allowed: allowed.to_owned() }
    }

    /// The status and the heading.
    fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Failure::NotFound(_) => (StatusCode::NOT_FOUND, "Not found"),
            Failure::Bad { .. } => (StatusCode::BAD_REQUEST, "Invalid request"),
            Failure::NotAllowed | Failure::Hidden | Failure::NotLoggedIn | Failure::Forged => {
                (StatusCode::FORBIDDEN, "Not allowed")
            }
            Failure::Slow => (StatusCode::REQUEST_TIMEOUT, "Too slow"),
            Failure::WrongHost => (StatusCode::MISDIRECTED_REQUEST, "Wrong host name"),
            Failure::Sql(error) => kind_of(error),
            Failure::Away(_) => (StatusCode::BAD_GATEWAY, "Cannot read the queues"),
            Failure::Busy(_) => (StatusCode::SERVICE_UNAVAILABLE, "Busy"),
            Failure::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "Internal error"),
        }
    }

    /// What happened, and what to do.
    pub fn into_text(self) -> String {
        match self {
            Failure::NotFound(what) | Failure::Away(what) | Failure::Busy(what) => what,
            Failure::Bad { name, value, allowed } => format!("{name} is '{value}': {allowed}"),
            Failure::NotAllowed => {
                "You can view but not make changes: the web UI or your account is read-only, its SQL Server login is \
                 not an operator, or the proxy does not send your name."
                    .to_owned()
            }
            Failure::Hidden => "The web UI hides payloads and outputs.".to_owned(),
            Failure::NotLoggedIn => "Log in first.".to_owned(),
            Failure::Forged => {
                "This form does not belong to your session, which may have ended. Reload the page with the form \
                 and send it again."
                    .to_owned()
            }
            Failure::Slow => "The form took too long to arrive. Send it again.".to_owned(),
            Failure::WrongHost => {
                "Without a login, the web UI responds only to localhost, 127.0.0.1 and [::1].".to_owned()
            }
            Failure::Sql(error) => error.to_string(),
            Failure::Internal => "See the log for details.".to_owned(),
        }
    }
}

/// The status and the heading of a library error. Its message says what to do.
fn kind_of(error: &Error) -> (StatusCode, &'static str) {
    match error {
        Error::UnknownQueue { .. } => (StatusCode::NOT_FOUND, "Not found"),
        Error::Config { .. } | Error::Refused { .. } => (StatusCode::BAD_REQUEST, "Invalid request"),
        Error::PermissionDenied { .. } => (StatusCode::FORBIDDEN, "The web UI's login lacks a permission"),
        Error::TimedOut { .. } | Error::NoFreeConnection { .. } => {
            (StatusCode::GATEWAY_TIMEOUT, "SQL Server did not respond in time")
        }
        Error::ConnectionLost { .. } => (StatusCode::BAD_GATEWAY, "The connection to SQL Server was lost"),
        Error::Connect { .. } | Error::Tls { .. } => (StatusCode::BAD_GATEWAY, "SQL Server cannot be reached"),
        Error::LoginFailed { .. } | Error::Credentials { .. } | Error::Database { .. } => {
            (StatusCode::BAD_GATEWAY, "SQL Server rejects the login of the web UI")
        }
        _ => (StatusCode::BAD_GATEWAY, "SQL Server error"),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Sql(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        self.shown_at("")
    }
}

impl Failure {
    /// Makes the response. `root` is the relative path to the pages.
    pub fn shown_at(self, root: &str) -> Response {
        let (status, title) = self.kind();
        let again = matches!(self, Failure::Busy(_)).then_some([(header::RETRY_AFTER, RETRY_AFTER)]);
        if status.is_server_error() && again.is_none() {
            tracing::error!(failure = ?self, "cannot show a page");
        }
        (status, again, html(&Page { root, title, text: in_one_direction(&self.into_text()) })).into_response()
    }
}

pub async fn no_such_page(request: Request) -> Response {
    Failure::NotFound("There is no such page.".to_owned()).shown_at(&root::to_pages_from(&request))
}
