//! The stylesheet, the script and the icons. Their names contain a hash of the content, so browsers may cache them
//! forever.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::failure::Failure;

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");
const ICON: &str = include_str!("../assets/icon.svg");
const ALERT: &str = include_str!("../assets/icon-alert.svg");

/// The file names, for links.
#[derive(Debug)]
pub struct Names {
    pub style: String,
    pub script: String,
    pub icon: String,
    /// The icon while there are problems.
    pub alert: String,
}

pub fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| Names {
        style: name(STYLE, "css"),
        script: name(SCRIPT, "js"),
        icon: name(ICON, "svg"),
        alert: name(ALERT, "svg"),
    })
}

fn name(content: &str, ending: &str) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("{:016x}.{ending}", hasher.finish())
}

pub async fn get(Path(name): Path<String>) -> Response {
    let names = names();
    let (content, form) = match name {
        name if name == names.style => (STYLE, "text/css; charset=utf-8"),
        name if name == names.script => (SCRIPT, "text/javascript; charset=utf-8"),
        name if name == names.icon => (ICON, "image/svg+xml"),
        name if name == names.alert => (ALERT, "image/svg+xml"),
        // An open page may still ask for a file of an earlier release.
        _ => return Failure::NotFound("There is no such file. Reload the page.".to_owned()).shown_at("../"),
    };
    let headers = [(header::CONTENT_TYPE, form), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
    (headers, content).into_response()
}
