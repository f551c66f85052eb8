//! The keys of the connection string that determine the login.

use std::path::PathBuf;

use tiberius::EncryptionLevel;

use crate::error::Error;
use crate::login::{INTEGRATED, Identity, IdentityKind, Login, Password, Secret, TokenSource};

use super::known_keys::{bad_value, invalid, missing, squeezed};

#[derive(Debug, Clone, Default)]
pub(crate) struct LoginKeys {
    /// May contain a misplaced password.
    pub(crate) user: Option<Secret>,
    pub(crate) password: Option<Secret>,
    pub(crate) integrated: bool,
    /// Whether the string has a service principal name for Kerberos.
    pub(crate) names_spn: bool,
    pub(crate) authentication: Option<Authentication>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authentication {
    SqlPassword,
    ManagedIdentity,
    ServicePrincipal,
    WorkloadIdentity,
    Default,
}

const AUTHENTICATIONS: &str = "Sql Password, Active Directory Managed Identity, Active Directory Service Principal, Active \
    Directory Workload Identity or Active Directory Default; interactive values are not supported";

impl Authentication {
    /// Parses the kind of authentication, with or without spaces: ADO.NET writes `Active Directory Default`, ODBC
    /// `ActiveDirectoryDefault`.
    pub(crate) fn parse(key: &str, value: &str) -> Result<Authentication, Error> {
        match squeezed(value).as_str() {
            "sqlpassword" => Ok(Authentication::SqlPassword),
            "activedirectorymanagedidentity" | "activedirectorymsi" => Ok(Authentication::ManagedIdentity),
            "activedirectoryserviceprincipal" => Ok(Authentication::ServicePrincipal),
            "activedirectoryworkloadidentity" => Ok(Authentication::WorkloadIdentity),
            "activedirectorydefault" => Ok(Authentication::Default),
            "activedirectoryintegrated" => {
                Err(bad_value(key, value, "something else: for Kerberos, write Integrated Security=true instead"))
            }
            _ => Err(bad_value(key, value, AUTHENTICATIONS)),
        }
    }
}

impl LoginKeys {
    /// Determines the login. `password_file` may be empty; `level` and `host` are the connection's.
    pub(crate) fn login(
        self,
        password_file: &str,
        token_source: Option<&TokenSource>,
        level: EncryptionLevel,
        host: &str,
    ) -> Result<Login, Error> {
        let LoginKeys { user, password, integrated, names_spn, authentication } = self;
        if !password_file.is_empty() && password.is_some() {
            return Err(invalid("Password and connection.password_file exclude each other".to_string()));
        }
        let file = Some(password_file).filter(|file| !file.is_empty()).map(|file| Password::File(PathBuf::from(file)));
        let password = password.map(Password::Given).or(file);
        let named = user.is_some() || password.is_some();

        if let Some(source) = token_source {
            if named || integrated || authentication.is_some() {
                return Err(invalid(
                    "a token source logs in by itself; remove User ID, Password, Integrated Security and Authentication, and \
                     connection.password_file"
                        .to_string(),
                ));
            }
            check_encrypted(level)?;
            return Ok(Login::Own(source.clone()));
        }
        if integrated {
            return integrated_login(named, names_spn, authentication);
        }
        let kind = match authentication {
            None | Some(Authentication::SqlPassword) => {
                let user = user.ok_or_else(|| missing("User ID"))?;
                let password = password.ok_or_else(|| missing("Password"))?;
                return Ok(Login::Sql { user, password });
            }
            Some(Authentication::ServicePrincipal) => return service_principal(user, password, level, host),
            Some(Authentication::ManagedIdentity) => IdentityKind::Managed,
            Some(Authentication::WorkloadIdentity) => IdentityKind::Workload,
            Some(Authentication::Default) => IdentityKind::Default,
        };
        if password.is_some() {
            return Err(invalid(
                "this Authentication takes no password; remove Password and connection.password_file".to_string(),
            ));
        }
        let client_id = user.as_ref().map(|user| identifier(user.reveal())).transpose()?;
        entra(Identity { kind, client_id, scope: scope(host) }, level)
    }
}

/// A client ID or tenant: a GUID, or a tenant's domain.
fn identifier(text: &str) -> Result<String, Error> {
    if !text.is_empty() && text.chars().all(|character| character.is_ascii_alphanumeric() || "-.".contains(character)) {
        return Ok(text.to_string());
    }
    Err(bad_value("userid", text, "a client ID (of a service principal: or <client ID>@<tenant ID>)"))
}

fn integrated_login(named: bool, names_spn: bool, authentication: Option<Authentication>) -> Result<Login, Error> {
    if named || authentication.is_some() {
        return Err(invalid(
            "Integrated Security=true logs in as the account that runs the program; remove User ID, Password, Authentication and \
             connection.password_file"
                .to_string(),
        ));
    }
    if names_spn {
        return Err(invalid("ServerSPN is not supported; the driver uses MSSQLSvc/host:port, from Server".to_string()));
    }
    if !INTEGRATED {
        let feature = if cfg!(windows) { "windows-auth" } else { "gssapi" };
        return Err(invalid(format!(
            "Integrated Security=true needs the feature {feature} of the crate readpast; this program was built without it"
        )));
    }
    Ok(Login::Integrated)
}

/// Parses `User ID=<client ID>@<tenant ID>`, the form of Microsoft's driver for Go ("Microsoft Entra ID authentication
/// with go-mssqldb"). ADO.NET asks the server for the tenant, but our driver does not pass the server's response on.
fn service_principal(
    user: Option<Secret>,
    secret: Option<Password>,
    level: EncryptionLevel,
    host: &str,
) -> Result<Login, Error> {
    let user = user.ok_or_else(|| missing("User ID (the client ID of the service principal)"))?;
    let secret = secret.ok_or_else(|| missing("Password (the secret of the service principal)"))?;
    let (client_id, tenant_id) = match user.reveal().split_once('@') {
        Some((client_id, tenant_id)) => (identifier(client_id)?, Some(identifier(tenant_id)?)),
        None => (identifier(user.reveal())?, None),
    };
    let kind = IdentityKind::ServicePrincipal { tenant_id, secret };
    entra(Identity { kind, client_id: Some(client_id), scope: scope(host) }, level)
}

fn entra(identity: Identity, level: EncryptionLevel) -> Result<Login, Error> {
    check_encrypted(level)?;
    if !cfg!(feature = "entra") {
        return Err(invalid(
            "Authentication=Active Directory … needs the feature entra of the crate readpast, and this program was built \
             without; a token source of its own needs none"
                .to_string(),
        ));
    }
    Ok(Login::Entra(identity))
}

/// Rejects a token without encryption, because a token that is read on the network can be used until it expires.
fn check_encrypted(level: EncryptionLevel) -> Result<(), Error> {
    match level {
        EncryptionLevel::Required | EncryptionLevel::Strict => Ok(()),
        _ => Err(invalid("a token is sent with Encrypt=True (Mandatory) or Strict only".to_string())),
    }
}

/// The scope of a token for this server. The suffixes are those of "Azure SQL Database DNS" in Azure's clouds. Any
/// other name is an alias or a SQL Server managed by Azure Arc, in the public cloud.
fn scope(host: &str) -> &'static str {
    let host = host.to_ascii_lowercase();
    let host = host.trim_end_matches('.');
    if host.ends_with(".database.chinacloudapi.cn") {
        "https://database.chinacloudapi.cn/.default"
    } else if host.ends_with(".database.usgovcloudapi.net") {
        "https://database.usgovcloudapi.net/.default"
    } else {
        "https://database.windows.net/.default"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::connection_string::connection_string::{ConnectionString, LoginSettings};
    use crate::login::AccessToken;

    fn login(extra: &str, settings: LoginSettings<'_>) -> Result<Login, String> {
        let url = ConnectionString::from(format!("Server=db1.contoso.com;{extra}"));
        let options = url.parse().map_err(|error| error.to_string())?;
        options.login(settings).map_err(|error| error.to_string())
    }

    fn plain(extra: &str) -> Result<Login, String> {
        login(extra, LoginSettings::default())
    }

    fn reason(extra: &str) -> String {
        plain(extra).expect_err(extra)
    }

    fn with_file(extra: &str) -> Result<Login, String> {
        login(extra, LoginSettings { password_file: "/run/secrets/db", token_source: None })
    }

    #[test]
    fn a_password_stands_in_the_string_or_in_a_file() {
        let user = Secret::new("app");
        let given = Password::Given(Secret::new("p"));
        assert_eq!(plain("UID=app;PWD=p"), Ok(Login::Sql { user: user.clone(), password: given }));
        let file = Password::File("/run/secrets/db".into());
        assert_eq!(with_file("UID=app;Authentication=Sql Password"), Ok(Login::Sql { user, password: file }));
        assert!(with_file("UID=app;PWD=p").unwrap_err().contains("exclude each other"));
        assert!(reason("UID=app").contains("Password is missing"));
        assert!(with_file("").unwrap_err().contains("User ID is missing"));
    }

    /// The file is a pipe that stays empty until other work has run on this thread.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_password_file_that_takes_its_time_holds_up_nobody_else() {
        let file = std::env::temp_dir().join(format!("readpast-password-{}", uuid::Uuid::new_v4()));
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        let password = Password::File(file.clone());
        let (something_else, has_run) = std::sync::mpsc::channel();
        let pipe = file.clone();
        let writer = std::thread::spawn(move || {
            let ran = has_run.recv_timeout(std::time::Duration::from_secs(10)).is_ok();
            std::fs::write(pipe, "late\n").unwrap();
            ran
        });
        let (read, sent) = tokio::join!(password.read(), async { something_else.send(()) });
        assert_eq!((read.unwrap().reveal(), sent), ("late", Ok(())));
        assert!(writer.join().unwrap());
        std::fs::remove_file(file).unwrap();
    }

    #[tokio::test]
    async fn a_password_file_is_read_each_time_without_its_last_line_s_end() {
        let directory = std::env::temp_dir().join(format!("readpast-password-{}", uuid::Uuid::new_v4()));
        let password = Password::File(directory.clone());
        let absent = password.read().await.unwrap_err();
        assert!(absent.to_string().contains(&directory.display().to_string()) && absent.is_transient(), "{absent}");
        for (text, read) in [("a b\n", "a b"), ("a\r\n", "a"), (" a\n\n", " a\n"), ("ü", "ü"), ("\u{feff}a\r\n", "a")]
        {
            std::fs::write(&directory, text).unwrap();
            assert_eq!(password.read().await.unwrap().reveal(), read);
        }
        std::fs::write(&directory, "\n").unwrap();
        assert!(password.read().await.unwrap_err().to_string().contains("the file is empty"));
        std::fs::remove_file(directory).unwrap();
    }

    #[cfg(not(any(feature = "gssapi", feature = "windows-auth")))]
    #[test]
    fn what_this_program_was_built_without_is_named() {
        assert!(reason("Integrated Security=SSPI").contains("needs the feature gssapi of the crate readpast"));
        assert!(reason("Trusted_Connection=yes").contains("feature gssapi"));
    }

    #[cfg(all(unix, feature = "gssapi"))]
    #[test]
    fn kerberos_is_asked_for_in_all_of_ado_net_s_words() {
        for words in ["Integrated Security=SSPI", "Integrated Security=true", "Trusted_Connection=yes"] {
            assert_eq!(plain(words), Ok(Login::Integrated));
        }
    }

    #[test]
    fn ways_that_exclude_each_other_are_refused() {
        for both in
            ["UID=u;Integrated Security=true", "Integrated Security=true;Authentication=Active Directory Default"]
        {
            assert!(reason(both).contains("logs in as the account that runs the program"), "{both}");
        }
        assert!(reason("Integrated Security=true;Server SPN=MSSQLSvc/x").contains("MSSQLSvc/host:port"));
        assert!(reason("Integrated Security=maybe").contains("it must be True (SSPI) or False"));
        assert!(reason("Authentication=Active Directory Interactive;UID=u").contains("Active Directory Default"));
        assert!(reason("Authentication=ActiveDirectoryIntegrated").contains("Integrated Security=true"));
        let managed = "Authentication=Active Directory Managed Identity";
        assert!(reason(&format!("{managed};PWD=p")).contains("takes no password"));
        assert!(with_file(managed).unwrap_err().contains("takes no password"));
        for level in ["false", "DANGER_PLAINTEXT"] {
            assert!(reason(&format!("{managed};Encrypt={level}")).contains("Encrypt=True (Mandatory) or Strict"));
        }
    }

    #[test]
    fn a_token_source_stands_alone() {
        let source = TokenSource::new(|| async { Ok(AccessToken::new("t", std::time::SystemTime::UNIX_EPOCH)) });
        let settings = || LoginSettings { password_file: "", token_source: Some(&source) };
        assert_eq!(login("", settings()), Ok(Login::Own(source.clone())));
        assert!(login("UID=u;PWD=p", settings()).unwrap_err().contains("a token source logs in by itself"));
        assert!(login("Encrypt=false", settings()).unwrap_err().contains("Encrypt=True"));
    }

    #[cfg(not(feature = "entra"))]
    #[test]
    fn entra_is_named_where_it_is_not_built_in() {
        assert!(reason("Authentication=Active Directory Default").contains("needs the feature entra"));
    }

    #[cfg(feature = "entra")]
    #[test]
    fn entra_s_ways_and_their_keys() {
        let identity = |extra: &str| match plain(extra) {
            Ok(Login::Entra(identity)) => identity,
            other => panic!("{other:?}"),
        };
        for written in ["Active Directory Managed Identity", "Active Directory MSI", "ActiveDirectoryMsi"] {
            assert_eq!(identity(&format!("Authentication={written}")).kind, IdentityKind::Managed);
        }
        let workload = identity("Authentication=Active Directory Workload Identity;User ID=1234");
        assert_eq!((workload.kind, workload.client_id.as_deref()), (IdentityKind::Workload, Some("1234")));
        assert_eq!(identity("Authentication=Active Directory Default").kind, IdentityKind::Default);
        let principal = identity("Authentication=Active Directory Service Principal;UID=app@tenant;PWD=s");
        assert_eq!(principal.client_id.as_deref(), Some("app"));
        let secret = Password::Given(Secret::new("s"));
        assert_eq!(principal.kind, IdentityKind::ServicePrincipal { tenant_id: Some("tenant".into()), secret });
        assert!(reason("Authentication=Active Directory Service Principal;PWD=s").contains("client ID"));
        assert!(reason("Authentication=Active Directory Service Principal;UID=u").contains("secret"));
        let misplaced = reason("Authentication=Active Directory MSI;UID=u,Password=hunter2");
        assert!(misplaced.contains("a client ID") && !misplaced.contains("hunter2"), "{misplaced}");
    }

    #[test]
    fn a_token_is_for_the_cloud_that_the_server_is_in() {
        assert_eq!(scope("x.database.windows.net"), "https://database.windows.net/.default");
        assert_eq!(scope("X.database.chinacloudapi.cn"), "https://database.chinacloudapi.cn/.default");
        assert_eq!(scope("x.database.usgovcloudapi.net."), "https://database.usgovcloudapi.net/.default");
    }
}
