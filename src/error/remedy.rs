//! The remedies at the end of error messages.

pub(super) const INSTALL: &str = concat!(
    "call Admin::install as a member of db_owner, or have a db_owner run the script of `readpast install --script`, version ",
    env!("CARGO_PKG_VERSION")
);

const ROLES: &str = include_str!("../../sql/900_roles.sql");

pub(super) const LOGIN: &str = "check User ID and Password";

pub(super) const EXPIRED_TOKEN: &str = "the next call reconnects with another token";

/// Returns the remedy for a refused login, if its number determines it ("ALTER LOGIN (Transact-SQL)" in Microsoft's SQL
/// documentation).
pub(super) fn for_login(number: i32) -> Option<&'static str> {
    match number {
        18470 => Some("the login is disabled; enable it: ALTER LOGIN [login] ENABLE"),
        18486 => Some(
            "the login is locked after too many wrong passwords: ALTER LOGIN [login] WITH PASSWORD = '…' UNLOCK, or wait \
             until the policy unlocks it; find the client that sends the wrong password",
        ),
        18487 | 18488 => {
            Some("the password has expired or must be changed; set another: ALTER LOGIN [login] WITH PASSWORD = '…'")
        }
        _ => None,
    }
}

/// Returns the remedy for a missing permission. `message` is SQL Server's, which quotes the object first in every
/// language.
pub(super) fn for_permission(message: &str, schema: &str) -> String {
    let object = message.split('\'').nth(1).unwrap_or_default();
    let granted = format!("[{object}] TO [$(schema)_");
    let roles: Vec<String> = ROLES
        .lines()
        .filter(|line| line.starts_with("GRANT"))
        .filter_map(|line| Some(line.split_once(granted.as_str())?.1.trim_end_matches("];")))
        .map(|role| format!("{schema}_{role}"))
        .collect();
    if roles.is_empty() {
        return format!("to install, {INSTALL}; otherwise see \"Who may do what\" in sql/README.md");
    }
    // Which of several roles is right depends on the program.
    let (any, role) = match &roles[..] {
        [role] => (role.clone(), role.as_str()),
        several => (format!("one of {}", several.join(", ")), "role"),
    };
    format!("make the login's user a member of {any}: ALTER ROLE [{role}] ADD MEMBER [user]")
}

/// Returns the remedy for a failed encrypted connection. `message` is the driver's or the TLS library's.
pub(super) fn for_tls(message: &str) -> &'static str {
    if message.contains("requested encryption level") {
        "the server does not encrypt the whole connection; enable encryption there, or set Encrypt=false to encrypt the login only; for a server without any \
         encryption, on a network that no one else can read, set Encrypt=DANGER_PLAINTEXT"
    } else if message.contains("platform") {
        "install the system's package of certificate authorities (ca-certificates), or name the server's with TrustServerCertificateCA=<file>"
    } else if message.contains("NotValidForName") || message.contains("not valid for name") {
        "name a host of the certificate in Server, or the certificate's name with HostNameInCertificate=<name>; for development only, \
         TrustServerCertificate=true takes any certificate"
    } else {
        "name the authority that signed the server's certificate with TrustServerCertificateCA=<file>, or install it on this machine; for \
         development only, TrustServerCertificate=true takes any certificate"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(object: &str) -> String {
        let message = format!("The EXECUTE permission was denied on the object '{object}', database 'd', schema 's'.");
        for_permission(&message, "s")
    }

    #[test]
    fn the_role_is_named_that_has_the_permission() {
        assert_eq!(
            denied("claim"),
            "make the login's user a member of s_worker: ALTER ROLE [s_worker] ADD MEMBER [user]"
        );
        assert!(denied("peek").contains("one of s_operator, s_monitor: ALTER ROLE [role] ADD"));
        assert!(denied("enqueue_list").contains("one of s_producer, s_worker, s_operator"));
    }

    #[test]
    fn what_no_role_has_is_for_an_installation() {
        let create = "CREATE TABLE permission denied in database 'd'.";
        for message in [create, "The SELECT permission was denied on the object 'jobs', database 'd', schema 's'.", ""]
        {
            let remedy = for_permission(message, "s");
            assert!(
                remedy.contains("db_owner") && remedy.contains("`readpast install --script`, version "),
                "{remedy}"
            );
        }
    }
}
