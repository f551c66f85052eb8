//! Identifies visitors.
//!
//! request ─▶ [`guard`]: host name, then [`sessions`] cookie ─▶ a [`Visitor`] for the pages ─▶ [`forms`] must contain
//! the session's token ─▶ [`headers`]

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
use crate::failure::{self, Failure};
use crate::options::Access;
use crate::root;
use sessions::LoggedIn;
use visitor::Visitor;

/// Cookies of other instances left in a browser. Each start uses a new name, and a hundred old ones would make a proxy
/// reject the headers.
const OTHERS: usize = 20;

/// Admits authorized requests, with a [`Visitor`].
pub async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    if matches!(app.options.access, Access::Local) && !is_local(request.headers()) {
        return Failure::WrongHost.into_response();
    }
    let name = app.sessions.name.as_str();
    let known = cookies(request.headers()).find(|(given, _)| *given == name);
    let known = known.and_then(|(_, cookie)| Some((cookie.to_owned(), app.sessions.get(cookie)?)));
    let must_log_in = app.options.access.asks();
    let has_logged_in = known.as_ref().is_some_and(|(_, session)| session.user.is_some());
    if must_log_in && !has_logged_in && request.uri().path() != "/login" {
        // Without a cookie, the form sets one.
        return match *request.method() {
            Method::GET => login::redirect(&request),
            _ => Failure::NotLoggedIn.into_response(),
        };
    }
    let name = match who(&app.options.access, request.headers()) {
        Ok(name) => name,
        Err(failure) => return failure.into_response(),
    };
    let is_new = known.is_none();
    let old = if is_new { old_cookies(&app, request.headers()) } else { Vec::new() };
    let (session, known) = known.unwrap_or_else(|| app.sessions.visit());
    let visitor = visitor(&app, name, session.clone(), known);
    request.extensions_mut().insert(visitor.clone());
    let (root, is_get) = (root::to_pages_from(&request), request.method() == Method::GET);
    let response = next.run(request).await;
    // The frame says how many problems there are.
    let mut response = match must_log_in && !has_logged_in {
        true => response,
        false => failure::in_frame(response, &app, visitor, root, is_get),
    };
    // Logging in starts another session.
    if is_new && !response.headers().contains_key(header::SET_COOKIE) {
        set_cookie(&app, response.headers_mut(), &session);
    }
    response.headers_mut().extend(old.into_iter().map(|cookie| (header::SET_COOKIE, cookie)));
    response
}

/// Makes the visitor of a request. `nobody` is the identity of a visitor who has not logged in.
fn visitor(app: &App, nobody: LoggedIn, session: String, known: sessions::Session) -> Visitor {
    let has_logged_in = known.user.is_some();
    let user = known.user.unwrap_or(nobody);
    Visitor {
        session,
        csrf: known.csrf,
        is_named: matches!(app.options.access, Access::Trusted { user_header: Some(_) }),
        name: user.name,
        has_logged_in,
        may_act: !user.read_only && !app.options.read_only,
    }
}

/// The identity of a visitor who has not logged in. If the proxy should send a name and does not, the visitor may only
/// view, because the audit could not name them.
///
/// # Errors
///
/// If the name cannot be read, or there are several names: a visitor may have sent one of them.
fn who(access: &Access, headers: &HeaderMap) -> Result<LoggedIn, Failure> {
    let somebody = |name: &str, read_only| LoggedIn { name: name.to_owned(), read_only };
    let user_header = match access {
        Access::Trusted { user_header: Some(header) } => header,
        Access::Trusted { user_header: None } => return Ok(somebody("visitor behind the proxy", false)),
        _ => return Ok(somebody("local visitor", false)),
    };
    let mut names = headers.get_all(user_header).iter();
    let bad = |value: &str, allowed| Failure::bad(user_header.as_str(), value, allowed);
    match (names.next(), names.next()) {
        (_, Some(_)) => Err(bad("(sent several times)", "the proxy must replace the header that the browser sends")),
        (Some(name), None) if !name.is_empty() => {
            let name = str::from_utf8(name.as_bytes())
                .map_err(|_| bad(&name.as_bytes().escape_ascii().to_string(), "it must be UTF-8"))?;
            Ok(somebody(name, false))
        }
        _ => Ok(somebody("visitor behind the proxy", true)),
    }
}

/// Whether the host name is this machine's. Another site can resolve its own name to this machine and read the UI by
/// script, but the browser sends that name.
fn is_local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    ["localhost", "127.0.0.1", "[::1]"].contains(&name)
}

/// The names and values of the cookies.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|cookies| cookies.to_str().ok());
    cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='))
}

/// Removes cookies of other instances, if there are more than [`OTHERS`]. Most of those instances have ended.
fn old_cookies(app: &App, headers: &HeaderMap) -> Vec<HeaderValue> {
    let others = cookies(headers).map(|(name, _)| name).filter(|name| name.starts_with(sessions::COOKIE));
    let others: Vec<&str> = others.filter(|name| *name != app.sessions.name).collect();
    if others.len() <= OTHERS {
        return Vec::new();
    }
    others.into_iter().filter_map(|name| HeaderValue::from_str(&format!("{name}=; Max-Age=0")).ok()).collect()
}

/// Sets the session's cookie. It has no path, so the browser sends it to the pages under this mount.
fn set_cookie(app: &App, headers: &mut HeaderMap, session: &str) {
    let secure = if app.options.secure_cookie { "; Secure" } else { "" };
    let name = &app.sessions.name;
    // The value is hexadecimal.
    if let Ok(value) = HeaderValue::from_str(&format!("{name}={session}; HttpOnly; SameSite=Strict{secure}")) {
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
