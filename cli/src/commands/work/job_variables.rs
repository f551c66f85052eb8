//! The environment of a program that runs for one job.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::process::Command;

use readpast::crates::serde_json::Value;
use readpast::{BoxError, Job};

use super::placeholders::without_nul;
use super::service_manager;

/// The prefix of readpast's settings, which include the password, and of the variables that describe the job to a
/// program.
const PREFIX: &str = "READPAST_";

/// Identifies the worker process. All child processes inherit it and are found by it.
pub const RUN: &str = "READPAST_RUN";

/// The payload's text, for `--shell`.
pub const PAYLOAD_TEXT: &str = "READPAST_PAYLOAD_TEXT";

/// A file with the ends of the jobs that the job has waited for.
pub const PARENTS: &str = "READPAST_PARENTS";

/// The most bytes of one argument or variable on Linux, with its name and NUL (`MAX_ARG_STRLEN`).
const MAX_BYTES: usize = 128 * 1024;

/// Trace context headers (W3C), which OpenTelemetry reads from these variables.
const TRACE: [(&str, &str); 2] = [("traceparent", "TRACEPARENT"), ("tracestate", "TRACESTATE")];

/// The worker's credentials and their sources. (Azure: variables of `azure_identity`, and endpoints of managed
/// identities in App Service, Azure Arc and Service Fabric. Kerberos: keytabs and ticket caches of MIT krb5. systemd:
/// `LoadCredential=`.)
const LOG_IN: [&str; 17] = [
    "AZURE_CLIENT_CERTIFICATE_PASSWORD",
    "AZURE_CLIENT_CERTIFICATE_PATH",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_PASSWORD",
    "CREDENTIALS_DIRECTORY",
    "IDENTITY_ENDPOINT",
    "IDENTITY_HEADER",
    "IDENTITY_SERVER_THUMBPRINT",
    "IMDS_ENDPOINT",
    "KRB5CCNAME",
    "KRB5_CLIENT_KTNAME",
    "KRB5_KTNAME",
    "MSI_ENDPOINT",
    "MSI_SECRET",
    "SQLCMDPASSWORD",
    "SQLCMDUSER",
];

/// Removes from the program's environment the settings, the credentials, a foreign trace and the service manager's
/// socket, except those `passed`.
pub fn remove_ours(command: &mut Command, passed: &[String]) {
    for (name, _) in std::env::vars_os() {
        if is_ours(&name) && !passed.iter().any(|passed| name == passed.as_str()) {
            command.env_remove(name);
        }
    }
}

fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
        || LOG_IN.iter().any(|variable| name == *variable)
        || TRACE.iter().any(|(_, variable)| name == *variable)
        || service_manager::VARIABLES.iter().any(|variable| name == *variable)
}

/// Adds the job to the environment.
///
/// # Errors
///
/// For a text that no variable can hold; the job becomes dead.
pub fn set(command: &mut Command, job: &Job) -> Result<(), BoxError> {
    command.env("READPAST_JOB_ID", job.id().to_string());
    command.env("READPAST_ATTEMPT", job.attempt().to_string());
    command.env("READPAST_MAX_ATTEMPTS", job.max_attempts().to_string());
    command.env("READPAST_FENCE", job.fence().to_string());
    if let Some(kind) = job.kind() {
        command.env("READPAST_KIND", kind);
    }
    if let Some(id) = job.correlation_id() {
        command.env("READPAST_CORRELATION_ID", id.to_string());
    }
    if let Some(batch_id) = job.batch_id() {
        command.env("READPAST_BATCH_ID", batch_id.to_string());
    }
    if let Some(key) = job.group_key() {
        command.env("READPAST_GROUP_KEY", &*without_nul("its group key", Cow::Borrowed(key))?);
    }
    for (name, value) in job.headers() {
        let text = value.as_str().map_or_else(|| Cow::Owned(value.to_string()), Cow::Borrowed);
        let text = without_nul(&format!("its header '{name}'"), text)?;
        command.env(header_variable(name), &*text);
        if let (Some((_, variable)), Value::String(_)) = (TRACE.iter().find(|(header, _)| *header == name), value) {
            command.env(variable, &*text);
        }
    }
    Ok(())
}

/// Adds the payload's text for a shell, if a variable can hold it.
pub fn set_text(command: &mut Command, job: &Job) {
    if let Ok(text) = job.text()
        && !text.contains('\0')
        && PAYLOAD_TEXT.len() + text.len() + "=\0".len() <= MAX_BYTES
    {
        command.env(PAYLOAD_TEXT, &*text);
    }
}

/// The variable of a header: `READPAST_HEADER_TENANT_ID` for `tenant-id`.
fn header_variable(name: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' }
    };
    format!("{PREFIX}HEADER_{}", name.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use readpast::NewJob;

    use super::*;

    #[test]
    fn our_settings_and_a_foreign_trace_are_removed() {
        for name in ["READPAST_URL", "READPAST_WORKER_NAME", "READPAST_RUN", "TRACEPARENT", "TRACESTATE"] {
            assert!(is_ours(OsStr::new(name)), "{name}");
        }
        assert!(!is_ours(OsStr::new("PATH")) && !is_ours(OsStr::new("READPASTURE")));
    }

    #[test]
    fn headers_become_variables() {
        let job = Job::for_test(NewJob::text("").header("tenant-id", "acme").header("traceparent", "00-a-b-01"));
        let mut command = Command::new("x");
        set(&mut command, &job).unwrap();
        let value = |name: &str| {
            let found = command.get_envs().find(|(variable, _)| *variable == name)?;
            found.1?.to_str().map(str::to_owned)
        };
        assert_eq!(value("READPAST_HEADER_TENANT_ID").as_deref(), Some("acme"));
        assert_eq!(value("READPAST_HEADER_TRACEPARENT").as_deref(), Some("00-a-b-01"));
        assert_eq!(value("TRACEPARENT").as_deref(), Some("00-a-b-01"));
        assert_eq!(value("READPAST_KIND"), None);
        let job = Job::for_test(NewJob::text("").header("tenant", "a\0b"));
        let error = set(&mut Command::new("x"), &job).unwrap_err();
        assert!(error.to_string().starts_with("its header 'tenant' has a NUL character"), "{error}");
    }
}
