//! What is shipped for operators holds together: the dashboard follows Grafana's conventions and names only metrics
//! that exist, and every alert has a section in the runbook and cases for promtool. (tests/prometheus.rs evaluates all
//! of it with a real Prometheus.)

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use crate::support::shipped::{alerts, dashboard, expressions, file, panels};

#[test]
fn every_panel_has_an_id_a_unit_and_says_what_to_do() {
    let dashboard = dashboard();
    let mut ids = HashSet::new();
    for panel in panels(&dashboard) {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is another panel's");
        if panel["type"] == "row" {
            continue;
        }
        let description = panel["description"].as_str().unwrap_or_default();
        assert!(description.len() > 40, "{title}: what is to be done when it looks bad?");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}: no unit");
        let targets = panel["targets"].as_array().unwrap();
        let references: HashSet<&str> = targets.iter().map(|target| target["refId"].as_str().unwrap()).collect();
        assert_eq!(references.len(), targets.len(), "{title}: refIds must differ");
    }
    assert!(dashboard["id"].is_null(), "Grafana gives the id");
    assert!(dashboard["uid"].is_string() && dashboard["schemaVersion"].as_u64() >= Some(36));
}

#[test]
fn no_data_source_is_hard_coded() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "queue", "instance", "runbook"]);
    let mut of = Vec::new();
    collect("datasource", &dashboard["panels"], &mut of);
    collect("datasource", &dashboard["templating"], &mut of);
    assert!(of.len() > 40);
    for source in of {
        assert_eq!(source["uid"], "${datasource}");
    }
    for expression in expressions(&dashboard) {
        assert!(expression.contains(r#"queue=~"$queue""#), "{expression}");
    }
}

/// Every value under `key`, at any depth.
fn collect<'a>(key: &str, value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == key {
                    found.push(field);
                }
                collect(key, field, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(key, item, found)),
        _ => {}
    }
}

#[test]
fn no_panel_overlaps_another_and_the_rows_go_the_way_of_a_job() {
    let dashboard = dashboard();
    let mut taken = HashSet::new();
    for panel in panels(&dashboard) {
        let place = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{}: the grid has 24 columns", panel["title"]);
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{} overlaps another panel", panel["title"]);
            }
        }
    }
    let rows: Vec<&str> = panels(&dashboard)
        .iter()
        .filter(|panel| panel["type"] == "row")
        .map(|row| row["title"].as_str().unwrap())
        .collect();
    let stages = ["Is it well?", "Enqueue", "Queue", "Claim", "Buffer", "Run", "Finish", "SQL Server", "Workers"];
    assert_eq!(rows, stages);
}

/// The names of our metrics in a text, without the endings that Prometheus gives to the parts of a histogram.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    let known: HashSet<&str> = readpast::metrics::all().map(|metric| metric.name).collect();
    words
        .filter(|word| word.starts_with("readpast_"))
        .map(|word| {
            let parts = ["_bucket", "_sum", "_count"];
            let whole = parts.iter().find_map(|part| word.strip_suffix(part)).unwrap_or(word);
            assert!(known.contains(whole) || known.contains(word), "{word} is no metric, in: {text}");
            whole.to_string()
        })
        .collect()
}

#[test]
fn every_metric_is_on_the_dashboard_and_nothing_else() {
    let shown: BTreeSet<String> =
        expressions(&dashboard()).iter().flat_map(|expression| metrics_in(expression)).collect();
    let all: BTreeSet<String> = readpast::metrics::all().map(|metric| metric.name.to_string()).collect();
    assert_eq!(shown, all);
    for alert in alerts() {
        metrics_in(&alert.expression);
    }
}

#[test]
fn every_alert_has_its_section_in_the_runbook_and_its_cases() {
    let runbook = file("docs/runbook.md");
    let sections: HashSet<String> =
        runbook.lines().filter_map(|line| line.strip_prefix("## ")).map(|title| title.replace(' ', "-")).collect();
    let cases = file("grafana/alerts.test.yaml");
    let alerts = alerts();
    assert!(alerts.len() >= 7);
    for alert in &alerts {
        let base = r#"'{{ range query "readpast_runbook" }}{{ .Labels.url }}{{ end }}#"#;
        let anchor = alert.runbook_url.strip_prefix(base).expect("runbook_url leads to the runbook");
        let anchor = anchor.trim_end_matches('\'');
        assert!(sections.contains(anchor), "{}: the runbook has no section {anchor}", alert.name);
        let fires = format!("alertname: {}\n        exp_alerts:\n", alert.name);
        let does_not = format!("alertname: {}\n        exp_alerts: []\n", alert.name);
        assert!(
            cases.contains(&fires) && cases.contains(&does_not),
            "{}: a case that fires and one that does not",
            alert.name
        );
    }
    for section in &sections {
        let is_linked = alerts.iter().any(|alert| alert.runbook_url.ends_with(&format!("#{section}'")));
        assert!(is_linked, "no alert leads to {section}");
    }
}

#[test]
fn the_dashboard_links_to_the_same_runbook_as_the_alerts() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let address = variables.iter().find(|variable| variable["name"] == "runbook").unwrap()["query"].as_str().unwrap();
    assert!(file("grafana/alerts.yaml").contains(&format!("labels: {{ url: \"{address}\" }}")), "{address}");
    let runbook = file("docs/runbook.md");
    let mut links = 0;
    for panel in panels(&dashboard) {
        let text = panel["description"].as_str().unwrap_or_default();
        for (at, _) in text.match_indices("Runbook") {
            let named = text[at + "Runbook".len()..].trim_start_matches([':', ',', ' ']);
            for section in named.split('.').next().unwrap().split(", ") {
                let (name, link) = section.split_once("](").unwrap_or_else(|| panic!("no link: {text}"));
                let name = name.trim_start_matches('[');
                assert_eq!(link, format!("${{runbook:raw}}#{name})"), "{text}");
                assert!(runbook.contains(&format!("\n## {name}\n")), "the runbook has no section {name}: {text}");
                links += 1;
            }
        }
    }
    assert!(links > 10);
}

/// A worker that has ended, or is cut off, shows what it saw last for as long as its process lives.
#[test]
fn what_a_worker_knows_of_the_queue_counts_while_it_runs_and_looks() {
    const RUNS: &str = "and on (queue, instance) readpast_run_threads > 0";
    const LOOKS: &str = "and on (queue, instance) readpast_queue_sample_age_seconds < 300";
    let dashboard = dashboard();
    let all = expressions(&dashboard).into_iter().chain(alerts().into_iter().map(|alert| alert.expression));
    for expression in all {
        let sampled = expression.matches("readpast_queue_").count() - expression.matches(LOOKS).count();
        let ages = expression.matches("readpast_queue_sample_age_seconds").count() - expression.matches(LOOKS).count();
        assert!(expression.matches(LOOKS).count() == sampled - ages, "{expression}");
        assert!(expression.matches(RUNS).count() >= sampled, "{expression}");
    }
}
