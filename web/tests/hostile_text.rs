//! Whatever others have written into jobs, names and errors is text on every page, and never markup.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use readpast::admin::{JobFilter, JobState, NewAudit, QueueOptions, Schedule};
use readpast::crates::serde_json;
use readpast::{NewBatch, NewJob};
use readpast_web::{Access, Options};
use scraper::{ElementRef, Html, Selector};

use crate::support::{Answer, Browser, Fixture, connect, form};

/// Well-known ones, each with `xss` in what it would bring in.
const VECTORS: &[&str] = &[
    "<script>xss(1)</script>",
    "<ScRiPt src=//xss.example></sCrIpT>",
    "</title><script>xss(2)</script>",
    "</pre></td></table><script>xss(3)</script>",
    "--><script>xss(4)</script><!--",
    "]]><script>xss(5)</script>",
    "<img src=x onerror=xss(6)>",
    "<img/src=x/onerror=xss(7)//",
    "\"><img src=x onerror=xss(8)>",
    "'><img src=x onerror=xss(9)>",
    "\" onmouseover=\"xss(10)\" autofocus onfocus=\"xss(11)",
    "' onmouseover='xss(12)' autofocus onfocus='xss(13)",
    "` onmouseover=`xss(14)`",
    "x onmouseover=xss(15) x=",
    "javascript:xss(16)",
    "java\tscript:xss(17)",
    "data:text/html,<script>xss(18)</script>",
    "<a href=javascript:xss(19)>here</a>",
    "<svg onload=xss(20)>",
    "<svg><script>xss(21)</script></svg>",
    "<svg><animate onbegin=xss(22) attributeName=x dur=1s>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=xss(23)>",
    "<iframe srcdoc='<script>xss(24)</script>'></iframe>",
    "<object data=javascript:xss(25)>",
    "<style>@import 'xss.css'</style>",
    "<base href=//xss.example/>",
    "<meta http-equiv=refresh content='0;url=//xss.example'>",
    "<form action=//xss.example><button>Log in</button>",
    "<noscript><p title=\"</noscript><img src=x onerror=xss(26)>\">",
    "<template><xss></xss></template><xss-element>",
    "<textarea></textarea><script>xss(27)</script>",
    "&lt;script&gt;xss(28)&lt;/script&gt;",
    "&#60;script&#62;xss(29)&#60;/script&#62;",
    "&amp;&quot;&#39;&xss;",
    "{{7*7}} ${7*7} <%= 7*7 %> #{xss} {% xss %}",
    "+ADw-script+AD4-xss(30)+ADw-/script+AD4-",
    "\u{202e}gpj.xss\u{202c}\u{2066}xss\u{2069}",
    "\u{2069}\u{202e}xss",
    "\u{feff}<script>xss(31)</script>",
    "\u{ff1c}script\u{ff1e}xss(32)\u{ff1c}/script\u{ff1e}",
    "a\r\ndata: <script>xss(33)</script>\r\n\r\ndata: x",
    "a\rdata: <img src=x onerror=xss(34)>",
    "%3Cscript%3Exss(35)%3C/script%3E",
    "\\u003cscript\\u003exss(36)",
    "a&state=dead#<xss>",
];

/// All that the page's own templates are made of.
#[rustfmt::skip]
const ELEMENTS: &[&str] = &[
    "a", "aside", "b", "bdi", "body", "br", "button", "circle", "code", "datalist", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption", "figure", "form", "g", "h1", "h2", "head", "header", "html", "i", "input", "kbd", "label", "legend", "li", "line", "link", "main", "meta", "nav", "ol", "option", "p", "path", "polygon", "polyline", "pre", "progress", "rect", "script", "section", "select", "span", "strong", "summary", "svg", "table", "tbody", "td", "text", "textarea", "th", "thead", "time", "title", "tr", "ul", "use",
];

/// Elements whose text is a paragraph of its own to the rule by which the direction of writing is found.
const BLOCKS: &[&str] = &[
    "body", "button", "dd", "div", "dt", "fieldset", "form", "h1", "h2", "label", "legend", "li", "main", "option",
    "p", "pre", "section", "summary", "td", "textarea", "th", "title",
];

/// Others' text turns none of the page's own around: it is in a `<bdi>`, or nothing else is in its paragraph.
fn turns_nothing_around(html: &Html, page: &str) {
    for node in html.tree.nodes() {
        let Some(text) = node.value().as_text().filter(|text| text.contains('\u{202e}')) else { continue };
        for element in node.ancestors().filter_map(ElementRef::wrap) {
            let name = element.value().name();
            if name == "bdi" {
                break;
            }
            if BLOCKS.contains(&name) {
                let whole: String = element.text().collect();
                assert_eq!(whole.trim(), text.trim(), "{page}: in <{name}>");
                break;
            }
        }
    }
    // A sentence's words stand between others' texts, and a text may close its `<bdi>`.
    for sentence in html.select(&Selector::parse(".entry > span").unwrap()) {
        let text: String = sentence.text().collect();
        assert!(!text.contains(['\u{202e}', '\u{2066}', '\u{2069}']), "{page}: {text}");
    }
}

/// The page has only what it is made of: its own elements, no attribute that runs or loads anything, and links to
/// itself.
fn is_all_text(html: &Html, page: &str) {
    turns_nothing_around(html, page);
    let all = Selector::parse("*").unwrap();
    for element in html.select(&all) {
        let name = element.value().name();
        assert!(ELEMENTS.contains(&name), "{page}: <{name}> of {}", element.html());
        for (attribute, value) in element.value().attrs() {
            let runs = attribute.starts_with("on") || ["style", "srcdoc", "data", "formaction"].contains(&attribute);
            assert!(!runs && !attribute.contains("xss"), "{page}: {attribute}={value:?} of <{name}>");
            if ["href", "src", "action"].contains(&attribute) {
                is_link_of_its_own(&element, value, page);
            }
        }
    }
    let count = |selector: &str| html.select(&Selector::parse(selector).unwrap()).count();
    assert!(count("script:not([src^='assets/']), meta[http-equiv]") == 0, "{page}");
    assert!(count("script") <= 1 && count("title") - count("svg.line title") <= 1, "{page}");
}

fn is_link_of_its_own(element: &ElementRef, value: &str, page: &str) {
    let end = value.find(['?', '#']).unwrap_or(value.len());
    let is_own = value[..end]
        .trim_start_matches("../")
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"./_".contains(&byte));
    assert!(is_own && !value.starts_with("//"), "{page}: {}", element.html());
}

/// As a parser gives it back: it drops null characters, and has one sort of line end.
fn as_parsed(text: &str) -> String {
    text.replace('\0', "").replace("\r\n", "\n").replace('\r', "\n")
}

fn literal(text: &str) -> String {
    format!("N'{}'", text.replace('\'', "''"))
}

/// A queue with jobs, a batch, a schedule, a worker and an audit for each vector, with that in every text.
struct Hostile {
    fixture: Fixture,
    queue: String,
    jobs: Vec<(i64, &'static str)>,
}

impl Hostile {
    async fn new(test_name: &str) -> Hostile {
        let mut fixture = Fixture::new(test_name).await;
        // The queue's own name.
        let queue = "\"'><script>xss(0)</script><img src=x onerror=xss(0)> &amp; {{0}}/?#\u{202e}".to_owned();
        fixture.queue = connect(&fixture.url, &fixture.schema, &queue).await;
        fixture.queue.admin().create(QueueOptions::default()).await.unwrap();
        let mut jobs = Vec::new();
        for vector in VECTORS {
            let batch = fixture.queue.create_batch(&NewBatch::new().name(*vector)).await.unwrap();
            let job = NewJob::text(format!("{vector}\0")).batch(batch);
            jobs.push((fixture.queue.enqueue(&job).await.unwrap().job_id.0, *vector));
            fixture.queue.admin().set_schedule(&Schedule::new("new", "@daily", NewJob::text("x"))).await.unwrap();
            // set_schedule would refuse control characters.
            let name = literal(vector.trim());
            fixture.sql(&format!("UPDATE [$(schema)].[schedules] SET name = {name} WHERE name = N'new'")).await;
            let what = serde_json::json!({ "jobs": vector, "and": { *vector: vector } });
            let only = serde_json::json!({ "jobs": vector });
            for what in [what, only] {
                let audit =
                    fixture.queue.admin().begin_audit(&NewAudit::new(*vector, "pause").what(what)).await.unwrap();
                fixture.queue.admin().end_audit(audit, None, Some(vector)).await.unwrap();
            }
        }
        fixture.sql("DELETE [$(schema)].[audit] WHERE who = login").await; // what was done until here
        fixture.kill_all("an error").await;
        for (id, vector) in &jobs {
            let text = literal(vector);
            let headers = literal(&serde_json::json!({ *vector: vector, "n": 1 }).to_string());
            let statement = format!(
                "UPDATE [$(schema)].[jobs] SET error = {text}, dedup_key = CONCAT({text}, job_id), group_key = {text}, \
                 kind = LEFT({text}, 64), headers = {headers}, output = CAST({text} AS varbinary(max)) WHERE job_id = {id}; \
                 UPDATE [$(schema)].[attempts] SET error = {text}, worker = {text} WHERE job_id = {id}; \
                 INSERT [$(schema)].[progress] (job_id, queue_id, fence, noted_at, text) \
                 SELECT job_id, queue_id, fence, SYSUTCDATETIME(), {text} FROM [$(schema)].[jobs] WHERE job_id = {id}; \
                 INSERT [$(schema)].[workers] (worker_id, queue_id, name, lease_ms, registered_at, lease_until, limited_by) \
                 SELECT NEWID(), queue_id, {text}, 30000, SYSUTCDATETIME(), DATEADD(HOUR, 1, SYSUTCDATETIME()), \
                 LEFT({text}, 16) FROM [$(schema)].[jobs] WHERE job_id = {id}"
            );
            fixture.sql(&statement).await;
        }
        let all = "UPDATE [$(schema)].[schedules] SET error = name, kind = LEFT(name, 64), cron = LEFT(name, 256), \
                   time_zone = LEFT(name, 64)";
        fixture.sql(all).await;
        Hostile { fixture, queue, jobs }
    }

    fn of_queue(&self, page: &str, more: &[(&str, &str)]) -> String {
        let mut fields = vec![("queue", self.queue.as_str())];
        fields.extend(more);
        format!("{page}?{}", form(&fields))
    }
}

/// The text of a page as somebody reads it, with what stands in fields and on hover.
fn readable(answer: &Answer) -> String {
    let html = answer.html();
    let mut text: String = html.root_element().text().collect();
    for element in html.select(&Selector::parse("[value], [title]").unwrap()) {
        for attribute in ["value", "title"] {
            text.push_str(element.attr(attribute).unwrap_or_default());
            text.push('\n');
        }
    }
    text
}

async fn shows(browser: &mut Browser, address: &str, texts: impl IntoIterator<Item = String>) {
    let answer = browser.page(address).await;
    is_all_text(&answer.html(), address);
    let read = readable(&answer);
    for text in texts {
        assert!(read.contains(&as_parsed(&text)), "{address}: {text:?} is not in {read}");
    }
}

/// The beginning that a list shows: without further lines.
fn first_line(vector: &str) -> String {
    vector.lines().next().unwrap_or_default().chars().take(60).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_errors_in_lists_are_text() {
    let hostile = Hostile::new("lists").await;
    let mut browser = hostile.fixture.open();
    let vectors = || VECTORS.iter().map(|vector| (*vector).to_owned());
    let lines = || VECTORS.iter().map(|vector| first_line(vector));
    shows(&mut browser, "overview", [hostile.queue.clone()]).await;
    shows(&mut browser, &hostile.of_queue("queue", &[]), [hostile.queue.clone()]).await;
    shows(&mut browser, &hostile.of_queue("jobs", &[("state", "dead")]), lines()).await;
    shows(&mut browser, "workers", vectors()).await;
    shows(&mut browser, "schedules", vectors().map(|vector| vector.trim().to_owned())).await;
    shows(&mut browser, "batches?all=1", vectors()).await;
    shows(&mut browser, "audit", vectors()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_job_has_is_text() {
    let hostile = Hostile::new("job").await;
    let mut browser = hostile.fixture.open();
    for (id, vector) in &hostile.jobs {
        let address = hostile.of_queue("job", &[("id", &id.to_string())]);
        let answer = browser.page(&address).await;
        is_all_text(&answer.html(), vector);
        let parsed = as_parsed(vector);
        assert_eq!(answer.texts("pre.failed"), std::slice::from_ref(&parsed), "{vector}");
        let payload = answer.texts("pre:not(.failed)").remove(0);
        assert!(payload.starts_with(&parsed) || payload.contains("00000000  "), "{payload}");
        let read = readable(&answer);
        assert!(read.matches(&*parsed).count() >= 5, "{vector}: {read}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_forms_is_text() {
    let hostile = Hostile::new("forms").await;
    let mut browser = hostile.fixture.open();
    for (id, vector) in &hostile.jobs {
        let address = hostile.of_queue("new_job", &[("like", &id.to_string())]);
        shows(&mut browser, &address, []).await;
        let first = browser.page(&hostile.of_queue("new_job", &[])).await;
        let typed = ["kind", "payload", "key", "group", "due", "headers"].map(|name| (name, *vector));
        let wrong = browser.press(&first, "enqueue", "check", &typed).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{vector}");
        is_all_text(&wrong.html(), vector);
        let read = readable(&wrong);
        assert!(read.matches(&*as_parsed(vector)).count() >= 5, "{vector}: {read}");
        let typed = [("payload", *vector), ("key", vector.trim()), ("group", vector.trim())];
        let second = browser.press(&first, "enqueue", "check", &typed).await;
        is_all_text(&second.html(), vector);
    }
    for schedule in hostile.fixture.queue.admin().schedules().await.unwrap() {
        for page in ["schedule", "delete_schedule"] {
            let address = hostile.of_queue(page, &[("schedule", &schedule.name)]);
            shows(&mut browser, &address, [schedule.name.clone()]).await;
        }
    }
    shows(&mut browser, &hostile.of_queue("settings", &[]), [hostile.queue.clone()]).await;
    for worker in hostile.fixture.queue.admin().workers(std::time::Duration::ZERO).await.unwrap() {
        let id = worker.worker_id.to_string();
        browser.post("act", &[("action", "quiet_worker"), ("queue", &hostile.queue), ("id", &id)]).await.location();
        for page in ["worker", "stop_worker"] {
            shows(&mut browser, &hostile.of_queue(page, &[("id", &id)]), [worker.name.clone()]).await;
        }
    }
    let html = browser.listen("events?part=workers").await.until(|html| html.contains(">quiet<")).await;
    is_all_text(&Html::parse_document(&html), "workers that are quiet");
}

#[tokio::test(flavor = "multi_thread")]
async fn live_parts_are_text() {
    let hostile = Hostile::new("live").await;
    let mut browser = hostile.fixture.open();
    for (part, texts) in [("overview", vec![&*hostile.queue]), ("workers", VECTORS.to_vec())] {
        let html = browser.listen(&format!("events?part={part}")).await.next().await.unwrap();
        let html = Html::parse_document(&html);
        is_all_text(&html, part);
        let text: String = html.root_element().text().collect();
        for vector in texts {
            // Line ends are those of the stream.
            assert!(text.contains(&vector.replace('\r', "\n")), "{part}: {vector:?} is not in {text}");
        }
    }
    let fields = [("queue", &*hostile.queue), ("state", "dead"), ("action", "requeue"), ("scope", "all")];
    for vector in VECTORS {
        let fields = [&fields[..], &[("error", vector), ("kind", "<xss>")]].concat();
        let operation = browser.post("act", &fields).await.location().to_owned();
        is_all_text(&browser.page(&operation).await.html(), vector);
        let live = operation.replace("operation?", "events?part=operation&");
        let html = browser.listen(&live).await.next().await.unwrap();
        is_all_text(&Html::parse_document(&html), vector);
    }
    is_all_text(&browser.page("audit").await.html(), "audit");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_address_says_is_text() {
    let hostile = Hostile::new("echo").await;
    let mut browser = hostile.fixture.open();
    let options = Options::default().access(Access::Token("correct-horse-battery".to_owned()));
    let mut outside = hostile.fixture.browser(options);
    for vector in VECTORS {
        let search = [("state", "dead"), ("kind", *vector), ("error", vector), ("key", vector), ("group", vector)];
        shows(&mut browser, &hostile.of_queue("jobs", &search), [(*vector).to_owned()]).await;
        let many = [&search[..], &[("action", "requeue"), ("scope", "all")]].concat();
        shows(&mut browser, &hostile.of_queue("confirm", &many), []).await;
        for (address, status) in [
            (format!("queue?{}", form(&[("queue", vector)])), StatusCode::NOT_FOUND),
            (hostile.of_queue("jobs", &[("state", vector)]), StatusCode::BAD_REQUEST),
            (hostile.of_queue("jobs", &[("since", vector)]), StatusCode::BAD_REQUEST),
            (hostile.of_queue("queue", &[("span", vector)]), StatusCode::BAD_REQUEST),
            (hostile.of_queue("job", &[("id", vector)]), StatusCode::BAD_REQUEST),
            (format!("events?{}", form(&[("part", vector)])), StatusCode::BAD_REQUEST),
            (format!("batches?{}", form(&[("queue", vector)])), StatusCode::OK),
        ] {
            let answer = browser.get(&address).await;
            assert_eq!(answer.status, status, "{address}");
            is_all_text(&answer.html(), &address);
        }
        let found = browser.get(&format!("find?{}", form(&[("text", vector)]))).await.location().to_owned();
        assert!(found.is_ascii() && found.starts_with("jobs?"), "{found}");
        let answer = outside.page(&format!("login?{}", form(&[("then", vector)]))).await;
        is_all_text(&answer.html(), vector);
        assert_eq!(answer.values("input[name=then]", "value"), [as_parsed(vector)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_are_files_whatever_is_in_them() {
    let hostile = Hostile::new("downloads").await;
    let mut browser = hostile.fixture.open();
    for (id, vector) in &hostile.jobs {
        let answer = browser.page(&hostile.of_queue("bytes", &[("id", &id.to_string()), ("of", "payload")])).await;
        assert_eq!(answer.body, format!("{vector}\0").into_bytes());
        assert_eq!(answer.header("content-type"), "application/octet-stream");
        assert_eq!(answer.header("content-disposition"), format!("attachment; filename=\"job-{id}-payload\""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_lead_to_the_queue_whatever_its_name_is() {
    let hostile = Hostile::new("links").await;
    let mut browser = hostile.fixture.open();
    let mut seen = BTreeSet::new();
    for address in
        ["overview".to_owned(), hostile.of_queue("queue", &[]), hostile.of_queue("jobs", &[("state", "dead")])]
    {
        for link in browser.page(&address).await.values("main a[href]", "href") {
            if seen.insert(link.clone()) {
                browser.page(&link).await;
            }
        }
    }
    assert!(seen.len() > 8 + VECTORS.len(), "{seen:?}");
    let dead = hostile.fixture.queue.admin().list(&JobFilter::from(JobState::Dead), None, 100).await.unwrap();
    assert_eq!(dead.jobs.len(), VECTORS.len());
}
