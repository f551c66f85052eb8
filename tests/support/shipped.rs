//! The files for operators: dashboard, alerts, runbook.

use std::path::PathBuf;

use serde_json::Value;

/// An alert of grafana/alerts.yaml.
pub struct Alert {
    pub name: String,
    pub expression: String,
    pub runbook_url: String,
}

/// A file of this checkout.
pub fn file(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn dashboard() -> Value {
    serde_json::from_str(&file("grafana/dashboards/readpast.json")).expect("the dashboard is JSON")
}

/// Rows and panels, from top to bottom.
pub fn panels(dashboard: &Value) -> Vec<&Value> {
    dashboard["panels"].as_array().expect("a dashboard has panels").iter().collect()
}

/// The queries of all panels.
pub fn expressions(dashboard: &Value) -> Vec<String> {
    let targets = panels(dashboard).into_iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().expect("a target has an expression").to_string()).collect()
}

/// The alerts. Each key stands on a line of its own; promtool checks that the file is YAML.
pub fn alerts() -> Vec<Alert> {
    let text = file("grafana/alerts.yaml");
    let mut alerts: Vec<Alert> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            alerts.push(Alert { name: name.to_string(), expression: String::new(), runbook_url: String::new() });
        } else if let (Some(expression), Some(alert)) = (line.strip_prefix("expr: "), alerts.last_mut()) {
            alert.expression = expression.to_string();
        } else if let (Some(url), Some(alert)) = (line.strip_prefix("runbook_url: "), alerts.last_mut()) {
            alert.runbook_url = url.to_string();
        }
    }
    alerts
}
