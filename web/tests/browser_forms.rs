//! Forms in two steps, in a browser that runs no scripts: what is wrong is shown, corrected and done.

use std::time::Duration;

use readpast::admin::{JobState, Keep};

use crate::browser_data::Furnished;
use crate::server::unique;
use crate::support_browser::{Browser, Settings, Site, browse, browse_with};

const END: &str = "\u{E010}";
const BACKSPACE: &str = "\u{E003}";

/// Types another text into a field.
async fn retype(browser: &Browser, field: &str, text: &str) {
    browser.write(field, &format!("{END}{}{text}", BACKSPACE.repeat(20))).await;
}

/// One field is marked as wrong, and says this.
async fn is_wrong(browser: &Browser, field: &str, said: &str) {
    browser.sees(&format!("#{field}-wrong"), said).await;
    assert_eq!(browser.count("[aria-invalid=true]").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_job_is_run_again_changed_without_a_script() {
    let data = Furnished::start("form_job", 1).await;
    let settings = Settings { without_scripts: true };
    browse_with(&data.site, settings, async |browser| {
        browser.open(&data.dead_job()).await;
        browser.click("main a[href^=new_job]").await;
        browser.sees("h1", "New job").await;
        browser.write("#due", "whenever").await;
        browser.press("Next").await;
        is_wrong(browser, "due", "write a delay as 90s").await;
        retype(browser, "#due", "1h").await;
        browser.press("Next").await;
        browser.sees("main li", "it becomes ready after 1h").await;
        browser.sees("main pre", "customer").await;
        browser.press("Back").await;
        browser.sees("h1", "New job").await;
        browser.press("Next").await;
        browser.press("Enqueue").await;
        browser.sees(".notice", "Enqueued as job").await;
        browser.sees("h1", "scheduled").await;
    })
    .await;
    let invoices = data.site.queue.named("invoices").unwrap();
    let scheduled = invoices.admin().list(&JobState::Scheduled.into(), None, 200).await.unwrap();
    assert!(scheduled.jobs.iter().any(|job| job.dedup_key.is_none()), "the new one has no key");
    data.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_file_is_enqueued_without_a_script() {
    let site = Site::start("form_file").await;
    let bytes: Vec<u8> = (0..=255).chain(*b"\r\n\n").collect();
    let file = std::env::temp_dir().join(unique("payload \u{fc}"));
    std::fs::write(&file, &bytes).unwrap();
    browse_with(&site, Settings { without_scripts: true }, async |browser| {
        browser.open("new_job?queue=work").await;
        browser.write("#file", file.to_str().unwrap()).await;
        browser.press("Next").await;
        browser.sees("main pre", "00 01 02 03").await;
        browser.press("Back").await;
        browser.sees(".field:has([name=kept])", "The file that was chosen, 259 B").await;
        browser.press("Next").await;
        browser.press("Enqueue").await;
        browser.sees(".notice", "Enqueued as job").await;
    })
    .await;
    std::fs::remove_file(&file).unwrap();
    let ready = site.queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap();
    let job = site.queue.admin().job(ready.jobs[0].job_id, None).await.unwrap().unwrap();
    assert_eq!(job.payload, bytes);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_file_that_is_too_large_is_not_sent() {
    let site = Site::start("form_large").await;
    let files = [64 * 1024 + 1, 64 * 1024].map(|size| {
        let file = std::env::temp_dir().join(unique("file"));
        std::fs::write(&file, vec![b'x'; size]).unwrap();
        file
    });
    browse(&site, async |browser| {
        browser.open("new_job?queue=work").await;
        browser.write("#file", files[0].to_str().unwrap()).await;
        let wrong = "return document.querySelector('#file').validationMessage";
        assert_eq!(browser.run(wrong).await, "The file must be at most 64 KiB.");
        browser.press("Next").await;
        browser.sees("h1", "New job").await;
        browser.write("#file", files[1].to_str().unwrap()).await;
        browser.press("Next").await;
        browser.sees("h2", "What will happen").await;
    })
    .await;
    for file in files {
        std::fs::remove_file(file).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_schedule_and_settings_are_changed_without_a_script() {
    let data = Furnished::start("form_settings", 1).await;
    let settings = Settings { without_scripts: true };
    browse_with(&data.site, settings, async |browser| {
        browser.open("schedule?queue=invoices").await;
        browser.write("#name", "hourly").await;
        browser.write("#cron", "0 25 * * *").await;
        browser.press("Next").await;
        is_wrong(browser, "cron", "cannot set the schedule: cron is '0 25 * * *'").await;
        retype(browser, "#cron", "@hourly").await;
        browser.press("Next").await;
        browser.sees("tbody tr:nth-child(10)", ":00:00").await;
        browser.press("Set the schedule").await;
        browser.sees(".notice", "Schedule hourly is set.").await;

        browser.open("settings?queue=mail").await;
        retype(browser, "#keep_dead", "30d").await;
        browser.press("Next").await;
        browser.sees(".warning", "will be deleted").await;
        browser.press("Change the settings").await;
        browser.sees(".notice", "forever → 30d").await;

        browser.open(&data.worker("worker")).await;
        browser.press("Quiet").await;
        browser.sees(".st.paused.pill", "quiet").await;
    })
    .await;
    let mail = data.site.queue.named("mail").unwrap();
    let kept = mail.admin().stats(None).await.unwrap().keep_dead;
    assert_eq!(kept, Keep::For(Duration::from_secs(30 * 86_400)));
    data.end().await;
}
