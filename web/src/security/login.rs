//! Logging in and out.

use argon2::Argon2;
use argon2::password_hash::PasswordVerifier;
use askama::Template;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::forms::Form;
use super::sessions::LoggedIn;
use super::set_cookie;
use super::visitor::Visitor;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::links::see_other;
use crate::options::{Access, User};
use crate::render::html;
use crate::root;

/// The hash of an unknown password, for a UI without users.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$9cNwzIjnDpmpKkbkz1z8mSh7rF0vBNc2ZQgMBdeP0oU";

/// Characters of a tried name in the log.
const SHOWN_NAME: usize = 64;

#[derive(Template)]
#[template(path = "login.html")]
struct Login<'a> {
    schema: &'a str,
    csrf: &'a str,
    /// Whether the form asks for a name and a password, instead of a token.
    has_users: bool,
    /// The page to show afterwards.
    then: &'a str,
    error: Option<String>,
}

/// Redirects to the form, and from there back to the requested page.
pub fn redirect(request: &Request) -> Response {
    let then = request.uri().path_and_query().map_or("overview", |then| then.as_str()).trim_start_matches('/');
    let query: String = form_urlencoded::Serializer::new(String::new()).append_pair("then", then).finish();
    see_other(&format!("{}login?{query}", root::to_pages_from(request)))
}

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Response {
    let fields = Fields::of(&uri);
    form(&app, &visitor.csrf, fields.get("then").unwrap_or_default(), None)
}

fn form(app: &App, csrf: &str, then: &str, error: Option<String>) -> Response {
    let has_users = matches!(app.options.access, Access::Users(_));
    html(&Login { schema: app.schema().schema(), csrf, has_users, then, error })
}

pub async fn log_in(State(app): State<App>, form: Form) -> Result<Response, Failure> {
    let Form { visitor, fields } = form;
    let text = |name| fields.get(name).unwrap_or_default();
    let name = match &app.options.access {
        Access::Users(_) => text("name"),
        // The token has no name: guesses under different names count as one.
        _ => "",
    };
    if let Err(wait) = app.attempts.begin(name) {
        let error = format!("Too many wrong passwords. Try again in {} s.", wait.as_secs() + 1);
        let answer = self::form(&app, &visitor.csrf, text("then"), Some(error));
        return Ok((StatusCode::TOO_MANY_REQUESTS, answer).into_response());
    }
    let checked = check(&app, name, text("secret").to_owned()).await;
    let Some(user) = checked.inspect_err(|_| app.attempts.unseen(name))? else {
        let shown: String = name.chars().take(SHOWN_NAME).collect();
        tracing::warn!(name = shown, "a login failed");
        let answer =
            self::form(&app, &visitor.csrf, text("then"), Some("The login failed. Check your input.".to_owned()));
        return Ok((StatusCode::FORBIDDEN, answer).into_response());
    };
    app.attempts.right(name);
    tracing::info!(name = user.name, "logged in");
    // A new cookie: the old one may be known to others.
    app.sessions.end(&visitor.session);
    let cookie = app.sessions.log_in(user);
    let mut response = see_other(page_beside(text("then")));
    set_cookie(&app, response.headers_mut(), &cookie);
    Ok(response)
}

/// Accepts only the UI's own pages, so a login link cannot lead elsewhere.
fn page_beside(then: &str) -> &str {
    let end = then.find('?').unwrap_or(then.len());
    let is_name = end > 0 && then[..end].bytes().all(|letter| letter.is_ascii_lowercase());
    if is_name && then.is_ascii() && !then.contains(|c: char| c.is_control()) { then } else { "overview" }
}

async fn check(app: &App, name: &str, secret: String) -> Result<Option<LoggedIn>, Failure> {
    match &app.options.access {
        Access::Token(token) => {
            // A missing field reads as empty, and an empty token would let everyone in.
            let is_right = !token.is_empty() && bool::from(token.as_bytes().ct_eq(secret.as_bytes()));
            Ok(is_right.then(|| LoggedIn { name: "token holder".to_owned(), read_only: false }))
        }
        Access::Users(users) => {
            let user = users.iter().find(|user| user.name == name).cloned();
            let hash = user.as_ref().or_else(|| stand_in(app, name, users)).map_or(NOBODY, |user| &user.password_hash);
            let hash = hash.to_owned();
            let verify = move || Argon2::default().verify_password(secret.as_bytes(), hash.as_str()).is_ok();
            let is_right = app.attempts.hash(verify).await?;
            Ok(user.filter(|_| is_right).map(|user| LoggedIn { name: user.name, read_only: user.read_only }))
        }
        _ => Ok(None),
    }
}

/// The user whose hash is computed for an unknown name. It is always the same user for the same name: hashes can differ
/// in cost, and the time must not reveal which names exist.
fn stand_in<'a>(app: &App, name: &str, users: &'a [User]) -> Option<&'a User> {
    let number = app.attempts.number(name) as usize;
    users.get(number.checked_rem(users.len())?)
}

pub async fn log_out(State(app): State<App>, form: Form) -> Response {
    app.sessions.end(&form.visitor.session);
    see_other("login")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_log_in_comes_a_page_of_this_site() {
        for page in ["jobs?queue=a%20b", "overview"] {
            assert_eq!(page_beside(page), page);
        }
        for page in ["", "//evil.example", "https://evil.example", "/\\evil", "?x", "javascript:alert(1)", "a\r\nb: c"]
        {
            assert_eq!(page_beside(page), "overview", "{page}");
        }
    }
}
