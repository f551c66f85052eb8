//! Where the pages stand, seen from the address that was asked for: the page knows nothing of the path that it is
//! mounted under, and so all its links are relative.

use axum::extract::{OriginalUri, Request};
use axum::http::Uri;

/// What stands before the name of a page, so that it leads there from the address that was asked for. `uri` is the
/// address within the mount, `original` the whole.
pub fn to_pages(uri: &Uri, original: &Uri) -> String {
    if uri.path().len() <= 1 {
        // Where the page is mounted there may be a `/` at the end or not.
        let last = original.path().rsplit('/').next().unwrap_or_default();
        return if last.is_empty() { String::new() } else { format!("{last}/") };
    }
    "../".repeat(uri.path().matches('/').count() - 1)
}

/// The same for a request.
pub fn to_pages_from(request: &Request) -> String {
    let original = request.extensions().get::<OriginalUri>().map_or(request.uri(), |original| &original.0);
    to_pages(request.uri(), original)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_from_every_address() {
        for (uri, original, expected) in [
            ("/", "/", ""),
            ("/", "/queues", "queues/"),
            ("/", "/tools/queues/", ""),
            ("/overview", "/tools/queues/overview", ""),
            ("/a/b/c?d=/e", "/queues/a/b/c?d=/e", "../../"),
        ] {
            assert_eq!(to_pages(&Uri::from_static(uri), &Uri::from_static(original)), expected, "{original}");
        }
    }
}
