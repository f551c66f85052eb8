//! What is shown in place of a page.

use askama::Template;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use readpast::Error;

use crate::render::html;
use crate::root;
use crate::texts::in_one_direction;

/// When it is worth while to ask again, in seconds, where too much is under way.
const RETRY_AFTER: &str = "5";

/// Why there is no page.
#[derive(Debug)]
pub enum Failure {
    /// There is no such queue, job, batch or operation.
    NotFound(String),
    /// A field is not as it must be.
    Bad {
        name: String,
        value: String,
        allowed: String,
    },
    /// The visitor or the connection's login may not do it.
    NotAllowed,
    /// What this page hides.
    Hidden,
    NotLoggedIn,
    /// A form that this page has not made, or not for this session.
    Forged,
    /// A form did not come in time.
    Slow,
    /// Asked for under a name that is not this machine's.
    WrongHost,
    /// SQL Server's answer, or that there is none.
    Sql(Error),
    /// The queues could not be read, so that nothing is known of this one.
    Away(String),
    /// Too much of it is under way.
    Busy(String),
    /// A defect.
    Internal,
}

#[derive(Template)]
#[template(path = "failure.html")]
struct Page<'a> {
    /// What leads to the pages.
    root: &'a str,
    title: &'a str,
    text: String,
}

impl Failure {
    pub fn bad(name: &str, value: &str, allowed: &str) -> Failure {
        Failure::Bad { name: name.to_owned(), value: value.to_owned(), allowed: allowed.to_owned() }
    }

    /// The status, and what stands above the text.
    fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Failure::NotFound(_) => (StatusCode::NOT_FOUND, "Not found"),
            Failure::Bad { .. } => (StatusCode::BAD_REQUEST, "That cannot be"),
            Failure::NotAllowed | Failure::Hidden | Failure::NotLoggedIn | Failure::Forged => {
                (StatusCode::FORBIDDEN, "Not allowed")
            }
            Failure::Slow => (StatusCode::REQUEST_TIMEOUT, "Too slow"),
            Failure::WrongHost => (StatusCode::MISDIRECTED_REQUEST, "Wrong host name"),
            Failure::Sql(error) => kind_of(error),
            Failure::Away(_) => (StatusCode::BAD_GATEWAY, "The queues cannot be read"),
            Failure::Busy(_) => (StatusCode::SERVICE_UNAVAILABLE, "Busy"),
            Failure::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "An error of this page"),
        }
    }

    fn text(self) -> String {
        match self {
            Failure::NotFound(what) | Failure::Away(what) | Failure::Busy(what) => what,
            Failure::Bad { name, value, allowed } => format!("{name} is '{value}': {allowed}"),
            Failure::NotAllowed => "You may look, and not act: this page is read-only, you are, the login of its \
                                    connection is not an operator, or the proxy does not say who you are."
                .to_owned(),
            Failure::Hidden => "This page hides payloads and outputs from everybody.".to_owned(),
            Failure::NotLoggedIn => "Log in first.".to_owned(),
            Failure::Forged => {
                "This form is not of this session: perhaps it has ended. Load the page that the form is on \
                                anew, and send it again."
                    .to_owned()
            }
            Failure::Slow => "The form has not come in time; send it again.".to_owned(),
            Failure::WrongHost => {
                "Without a log-in, this page answers only to localhost, 127.0.0.1 and [::1].".to_owned()
            }
            Failure::Sql(error) => error.to_string(),
            Failure::Internal => "The log says more.".to_owned(),
        }
    }
}

/// The same of an error of the library's. What to do about it stands in its message.
fn kind_of(error: &Error) -> (StatusCode, &'static str) {
    match error {
        Error::UnknownQueue { .. } => (StatusCode::NOT_FOUND, "Not found"),
        Error::Config { .. } | Error::Refused { .. } => (StatusCode::BAD_REQUEST, "That cannot be"),
        Error::PermissionDenied { .. } => (StatusCode::FORBIDDEN, "This page's login lacks a right"),
        Error::TimedOut { .. } | Error::NoFreeConnection { .. } => {
            (StatusCode::GATEWAY_TIMEOUT, "SQL Server does not answer in time")
        }
        Error::ConnectionLost { .. } => (StatusCode::BAD_GATEWAY, "The connection to SQL Server was lost"),
        Error::Connect { .. } | Error::Tls { .. } => (StatusCode::BAD_GATEWAY, "SQL Server cannot be reached"),
        Error::LoginFailed { .. } | Error::Credentials { .. } | Error::Database { .. } => {
            (StatusCode::BAD_GATEWAY, "SQL Server does not let this page in")
        }
        _ => (StatusCode::BAD_GATEWAY, "An error of SQL Server"),
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
    /// At an address from which `root` leads to the pages.
    pub fn shown_at(self, root: &str) -> Response {
        let (status, title) = self.kind();
        let again = matches!(self, Failure::Busy(_)).then_some([(header::RETRY_AFTER, RETRY_AFTER)]);
        if status.is_server_error() && again.is_none() {
            tracing::error!(failure = ?self, "a page could not be shown");
        }
        (status, again, html(&Page { root, title, text: in_one_direction(&self.text()) })).into_response()
    }
}

pub async fn no_such_page(request: Request) -> Response {
    Failure::NotFound("There is no such page.".to_owned()).shown_at(&root::to_pages_from(&request))
}
