//! Error pages. [`Failure`] makes a page without a frame; [`in_frame`] adds the frame if the visitor is known.

use askama::Template;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use readpast::Error;

use crate::app::App;
use crate::frame::Frame;
use crate::render::html;
use crate::root;
use crate::security::visitor::Visitor;
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

/// What an error page says. It travels with the response.
#[derive(Debug, Clone)]
struct Said {
    title: &'static str,
    text: String,
    /// The same request may succeed later.
    may_succeed: bool,
}

#[derive(Template)]
#[template(path = "failure.html")]
struct Framed {
    frame: Frame,
    text: String,
    /// Whether to offer the same page again.
    again: bool,
}

#[derive(Template)]
#[template(path = "failure_alone.html")]
struct Alone<'a> {
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
        let may_succeed = status.is_server_error() && !matches!(self, Failure::Internal);
        if status.is_server_error() && again.is_none() {
            tracing::error!(failure = ?self, "cannot show a page");
        }
        let text = in_one_direction(&self.into_text());
        let page = html(&Alone { root, title, text: text.clone() });
        let mut response = (status, again, page).into_response();
        response.extensions_mut().insert(Said { title, text, may_succeed });
        response
    }
}

/// Puts an error page into the frame of the other pages. Other responses stay as they are.
pub fn in_frame(mut response: Response, app: &App, visitor: Visitor, root: String, is_get: bool) -> Response {
    let Some(said) = response.extensions_mut().remove::<Said>() else { return response };
    let frame = Frame { root, ..Frame::without_asking(app, visitor, "", said.title) };
    let page = Framed { frame, text: said.text, again: is_get && said.may_succeed };
    match page.render() {
        Ok(text) => response.map(|_| Body::from(text)),
        Err(error) => {
            tracing::error!(%error, "cannot render a template");
            response
        }
    }
}

pub async fn no_such_page(request: Request) -> Response {
    Failure::NotFound("There is no such page.".to_owned()).shown_at(&root::to_pages_from(&request))
}
