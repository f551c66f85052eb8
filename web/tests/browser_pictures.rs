//! The pictures of README.md and docs/web.md, taken of a site with something on every page.

use std::path::PathBuf;

use crate::browser_data::Furnished;
use crate::support_browser::{Browser, browse, until};

/// The folder that they are written to; without it they are taken and thrown away.
const FOLDER: &str = "READPAST_PICTURES";

/// They are in the repository.
const MAX_BYTES: usize = 120_000;

/// A page as a picture: its file, its width, the most of its height.
struct Picture {
    file: String,
    page: String,
    scheme: &'static str,
    width: u32,
    max_height: u32,
}

fn pictures(data: &Furnished) -> Vec<Picture> {
    let pages = [
        ("overview", "overview".to_owned(), 810),
        ("queue", "queue?queue=invoices&span=day".to_owned(), 860),
        ("jobs", "jobs?queue=invoices&state=dead&error=timeout".to_owned(), 620),
        ("job", data.dead_job(), 1_000),
    ];
    let mut pictures = Vec::new();
    for (name, page, max_height) in pages {
        // (A table of many columns.)
        let width = if name == "overview" { 1_060 } else { 960 };
        for scheme in ["light", "dark"] {
            let (file, page) = (format!("{name}-{scheme}.png"), page.clone());
            pictures.push(Picture { file, page, scheme, width, max_height });
        }
    }
    let page = "overview".to_owned();
    pictures.push(Picture { file: "phone.png".to_owned(), page, scheme: "light", width: 390, max_height: 844 });
    pictures
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn pictures_of_the_pages_are_small() {
    let data = Furnished::start("pictures", 7).await;
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    browse(&data.site, async |browser| {
        browser.locale("en-GB").await;
        browser.open("overview").await;
        // The rates are there when it has been read for some seconds.
        until("rates", async || !["", "–"].contains(&browser.text("td[data-label='In/s']").await.as_str())).await;
        let mut sizes = Vec::new();
        for picture in pictures(&data) {
            let png = take(browser, &picture).await;
            if let Some(folder) = &folder {
                std::fs::create_dir_all(folder).unwrap();
                std::fs::write(folder.join(&picture.file), &png).unwrap();
            }
            sizes.push((picture.file, png.len()));
        }
        assert!(sizes.iter().all(|(_, bytes)| *bytes < MAX_BYTES), "{sizes:?}");
    })
    .await;
    data.end().await;
}

async fn take(browser: &Browser, picture: &Picture) -> Vec<u8> {
    browser.scheme(picture.scheme).await;
    browser.size(picture.width, 100).await;
    browser.open(&picture.page).await;
    browser.run("document.querySelector('.where').textContent = 'shop'").await; // a test's schema has a random name
    let height = browser.run("return document.documentElement.scrollHeight").await.as_u64().unwrap() as u32;
    browser.size(picture.width, height.min(picture.max_height)).await;
    browser.screenshot().await
}
