//! What every page has to be: quiet, its own, legible in the dark and on a phone, for a keyboard and for screen
//! readers.

use std::path::{Path, PathBuf};
use std::process::Command;

use readpast_web::{Access, Options};
use serde_json::Value;

use crate::browser_data::Furnished;
use crate::support_browser::{Browser, Settings, Site, browse, browse_at};

const TAB: &str = "\u{E004}";
const ENTER: &str = "\u{E007}";

/// A phone's width.
const NARROW: u32 = 390;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn no_page_complains_or_asks_another_host() {
    let data = Furnished::start("quiet", 1).await;
    browse(&data.site, async |browser| {
        let host = data.site.url("");
        browser.open("overview").await;
        browser.requests().await; // Chromium's own first page is among them
        for page in data.pages() {
            browser.open(&page).await;
            let is_wanted = |complaint: &String| complaint.contains("status of 40"); // two pages are failures
            let complaints: Vec<String> =
                browser.complaints().await.into_iter().filter(|said| !is_wanted(said)).collect();
            assert_eq!(complaints, Vec::<String>::new(), "{page}");
            let requests = browser.requests().await;
            assert!(!requests.is_empty(), "{page}: requests are seen");
            // (The browser's own pictures, of its field for a time, are no requests to anybody.)
            let elsewhere = requests.iter().filter(|url| url.scheme() != "data" && !url.as_str().starts_with(&host));
            let elsewhere: Vec<_> = elsewhere.collect();
            assert!(elsewhere.is_empty(), "{page}: {elsewhere:?}");
        }
    })
    .await;
    data.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn no_page_scrolls_sideways_on_a_phone() {
    let data = Furnished::start("phone", 1).await;
    browse(&data.site, async |browser| {
        browser.size(NARROW, 844).await;
        for page in data.pages() {
            browser.open(&page).await;
            let width = browser.run("return document.documentElement.scrollWidth").await;
            let wide = "return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > \
                        innerWidth + 1).slice(0, 3).map(e => e.outerHTML.slice(0, 120))";
            assert_eq!(width, NARROW, "{page}: {}", browser.run(wide).await);
        }
    })
    .await;
    data.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_phone_s_list_of_jobs_has_five_on_a_screen() {
    let data = Furnished::start("short", 1).await;
    browse(&data.site, async |browser| {
        browser.size(NARROW, 844).await;
        for page in ["jobs?queue=invoices&state=dead", "jobs?queue=invoices&state=ready"] {
            browser.open(page).await;
            let heights = "return [...document.querySelectorAll('table.jobs tbody tr')].map(row => row.offsetHeight)";
            let heights: Vec<u64> =
                browser.run(heights).await.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
            assert!(heights.len() > 30 && heights.iter().all(|height| *height < 844 / 5), "{page}: {heights:?}");
        }
    })
    .await;
    data.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn it_is_dark_where_the_system_is() {
    let site = Site::start("dark").await;
    browse(&site, async |browser| {
        // From 0, black, to 255.
        let brightness = "const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number); \
                          return (r + g + b) / 3";
        browser.open("overview").await;
        browser.scheme("dark").await;
        assert!(browser.run(brightness).await.as_f64().unwrap() < 60.0);
        browser.scheme("light").await;
        assert!(browser.run(brightness).await.as_f64().unwrap() > 200.0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_keyboard_is_enough() {
    let site = Site::start("keys").await;
    browse(&site, async |browser| {
        let focused = "return document.activeElement.textContent.trim() || document.activeElement.name || ''";
        browser.open("queue?queue=work").await;
        browser.key("/").await;
        assert_eq!(browser.run(focused).await, "text", "the field at the top");

        browser.open("queue?queue=work").await;
        browser.key(TAB).await;
        assert_eq!(browser.run(focused).await, "Skip to the content");
        browser.key(ENTER).await;
        for _ in 0..30 {
            browser.key(TAB).await;
            if browser.run(focused).await == "Pause" {
                break;
            }
        }
        assert_eq!(browser.run(focused).await, "Pause");
        let outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle").await;
        assert_eq!(outline, "solid", "it is seen where the focus is");
        browser.key(ENTER).await;
        browser.sees(".notice", "Queue work is paused.").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn keys_go_through_a_list_find_and_help_and_are_text_where_somebody_types() {
    let data = Furnished::start("letters", 1).await;
    browse(&data.site, async |browser| {
        let focused = "return document.activeElement.textContent.trim() || document.activeElement.name || ''";
        let dialogs = "return document.querySelectorAll('dialog[open]').length";
        browser.open("schedules").await;
        let rows = browser.run("return [...document.querySelectorAll('main tbody tr')].map(row => row.querySelector('a').textContent.trim())").await;
        let rows: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row.as_str().unwrap()).collect();
        assert!(rows.len() > 1, "{rows:?}");
        for (key, row) in [("j", 0), ("j", 1), ("k", 0), ("k", 0)] {
            browser.key(key).await;
            assert_eq!(browser.run(focused).await, rows[row], "{key}");
        }
        browser.open("jobs?queue=invoices&state=ready").await;
        browser.key("k").await;
        assert!(browser.run("return document.activeElement.closest('tr') === document.querySelector('tbody tr')").await == true);

        browser.run("document.querySelector('tbody input[type=checkbox]').focus()").await;
        browser.key("j").await;
        assert!(browser.run("return document.activeElement.closest('tr') === document.querySelectorAll('tbody tr')[1]").await == true);
        browser.run("document.querySelector('tbody input[type=checkbox]').focus()").await;

        browser.key("?").await;
        browser.sees("dialog", "Next row").await;
        let name = "return document.getElementById(document.querySelector('dialog').getAttribute('aria-labelledby')).textContent";
        assert_eq!(browser.run(name).await, "Keys");
        for key in ["?", "j"] {
            browser.key(key).await;
            assert_eq!(browser.run(dialogs).await, 1, "{key}");
        }
        browser.key(ENTER).await; // the button to close it has the focus
        assert_eq!(browser.run(dialogs).await, 0);

        browser.key("/").await;
        for key in ["j", "?", "/"] {
            browser.key(key).await;
        }
        assert_eq!(browser.run("return document.activeElement.value").await, "j?/");
        assert_eq!(browser.run(dialogs).await, 0);
    })
    .await;
    data.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium, chromedriver and npm"]
async fn axe_finds_nothing_serious() {
    let axe = std::fs::read_to_string(axe()).expect("axe-core is a file");
    let data = Furnished::start("axe", 1).await;
    browse(&data.site, async |browser| {
        let mut serious = Vec::new();
        for scheme in ["light", "dark"] {
            browser.scheme(scheme).await;
            for page in data.pages() {
                browser.open(&page).await;
                serious.extend(serious_findings(browser, &axe, &format!("{page}, {scheme}")).await);
            }
            for (kind, page) in [("a b", "a form with what is wrong"), ("invoice", "the second step of a form")] {
                browser.open("new_job?queue=invoices").await;
                browser.write("#kind", kind).await;
                browser.press("Next").await;
                browser.sees("main .error, main h2", "").await;
                serious.extend(serious_findings(browser, &axe, &format!("{page}, {scheme}")).await);
            }
        }
        assert!(serious.is_empty(), "{serious:#?}");
    })
    .await;
    data.end().await;
    let options = Options::default().access(Access::Token("a token that nobody guesses".to_owned()));
    let site = Site::empty("axe_login", options).await;
    browse_at(&site.url(""), Settings::default(), async |browser| {
        browser.open("login").await;
        let serious = serious_findings(browser, &axe, "login").await;
        assert!(serious.is_empty(), "{serious:#?}");
    })
    .await;
}

/// What axe-core calls serious or critical on the page that the browser is at.
async fn serious_findings(browser: &Browser, axe: &str, page: &str) -> Vec<String> {
    browser.run(axe).await;
    let script = "const done = arguments[0]; axe.run(document, { resultTypes: ['violations'] }) \
                  .then(result => done(result.violations), error => done(String(error)))";
    let found = browser.run_async(script).await;
    let found = found.as_array().unwrap_or_else(|| panic!("{page}: axe ends: {found}"));
    let is_serious = |violation: &&Value| ["serious", "critical"].iter().any(|impact| violation["impact"] == *impact);
    let words = |violation: &Value| {
        let elements = violation["nodes"].as_array().into_iter().flatten().take(3);
        let elements: Vec<&str> = elements.filter_map(|node| node["html"].as_str()).collect();
        format!("{page}: {} ({}): {}", violation["help"], violation["id"], elements.join(" | "))
    };
    found.iter().filter(is_serious).map(words).collect()
}

/// axe-core in the version of the lock file, from the npm registry.
fn axe() -> PathBuf {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/axe");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe");
    let mut install = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/npm-ci"));
    assert!(install.arg(lock).arg(&folder).status().expect("npm is installed").success(), "npm ci");
    folder.join("node_modules/axe-core/axe.min.js")
}
