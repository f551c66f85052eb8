//! The relative path to the pages. The UI does not know the path under which it is mounted, so all its links are
//! relative.

use axum::extract::{OriginalUri, Request};
use axum::http::Uri;

/// The prefix of a relative link from the requested address to a page. `uri` is the address within the mount, and
/// `original` is the full address.
pub fn to_pages(uri: &Uri, original: &Uri) -> String {
    if uri.path().len() <= 1 {
        // The mount point may end with `/` or not.
        let last = original.path().rsplit('/').next().unwrap_or_default();
        return if last.is_empty() { String::new() } else { format!("{last}/") };
    }
    "../".repeat(uri.path().matches('/').count() - 1)
}

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
