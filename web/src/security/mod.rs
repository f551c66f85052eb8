//! Who is it, and may he.
//!
//! request ─▶ [`guard`]: the host name, then the [`sessions`] cookie ─▶ a [`Visitor`] for the pages ─▶ [`forms`] that change
//! something must contain the session's token ─▶ [`headers`]

pub mod attempts;
pub mod forms;
pub mod headers;
pub mod login;
pub mod sessions;
pub mod visitor;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::failure::Failure;
use crate::options::Access;
use sessions::LoggedIn;
use visitor::Visitor;

/// The cookie's name.
const COOKIE: &str = "readpast_session";

/// Lets through who may look, with a [`Visitor`].
pub async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    if matches!(app.options.access, Access::Local) && !is_local(request.headers()) {
        return Failure::WrongHost.into_response();
    }
    let cookie = cookie(request.headers());
    let known = cookie.as_deref().and_then(|cookie| Some((cookie.to_owned(), app.sessions.get(cookie)?)));
    let must_log_in = matches!(app.options.access, Access::Token(_) | Access::Users(_));
    let has_logged_in = known.as_ref().is_some_and(|(_, session)| session.user.is_some());
    if must_log_in && !has_logged_in && request.uri().path() != "/login" {
        // Without a session: the form begins one.
        return match *request.method() {
            Method::GET => login::redirect(&request),
            _ => Failure::NotLoggedIn.into_response(),
        };
    }
    let is_new = known.is_none();
    let (session, known) = known.unwrap_or_else(|| app.sessions.begin(None));
    let visitor = visitor(&app, request.headers(), session.clone(), known);
    request.extensions_mut().insert(visitor);
    let mut response = next.run(request).await;
    // Logging in begins another one.
    if is_new && !response.headers().contains_key(header::SET_COOKIE) {
        set_cookie(&app, response.headers_mut(), &session);
    }
    response
}

fn visitor(app: &App, headers: &HeaderMap, session: String, known: sessions::Session) -> Visitor {
    let has_logged_in = known.user.is_some();
    let user = known.user.unwrap_or_else(|| LoggedIn { name: name(&app.options.access, headers), read_only: false });
    Visitor {
        session,
        csrf: known.csrf,
        name: user.name,
        has_logged_in,
        may_act: !user.read_only && !app.options.read_only,
    }
}

/// Who it is where nobody logs in.
fn name(access: &Access, headers: &HeaderMap) -> String {
    match access {
        Access::Trusted { user_header: Some(header) } => {
            let name = headers.get(header.as_str()).and_then(|value| value.to_str().ok());
            name.filter(|name| !name.is_empty()).unwrap_or("somebody behind the proxy").to_owned()
        }
        Access::Trusted { user_header: None } => "somebody behind the proxy".to_owned(),
        _ => "somebody on this machine".to_owned(),
    }
}

/// Whether the browser means this machine. A page from elsewhere can have its own name resolved to this machine, and its
/// script then read what is served here; but the browser says the name.
fn is_local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    ["localhost", "127.0.0.1", "[::1]"].contains(&name)
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|cookies| cookies.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value.to_owned())
}

/// Without a path: the browser sends it to the pages beside the one that it came with, wherever they are mounted.
fn set_cookie(app: &App, headers: &mut HeaderMap, session: &str) {
    let secure = if app.options.secure_cookie { "; Secure" } else { "" };
    // (The value is hexadecimal digits.)
    if let Ok(value) = HeaderValue::from_str(&format!("{COOKIE}={session}; HttpOnly; SameSite=Strict{secure}")) {
        headers.insert(header::SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_s_names_are_local() {
        let is_local = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
            is_local(&headers)
        };
        for host in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]", "[::1]:8080"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com:80", "127.0.0.1.example.com", "10.0.0.1", "", "localhost:x"]
        {
            assert!(!is_local(host), "{host}");
        }
        assert!(!super::is_local(&HeaderMap::new()));
    }
}
