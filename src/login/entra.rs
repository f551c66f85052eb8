//! Tokens of Microsoft Entra ID, from Microsoft's own crate.
//!
//! A new credential object is created for each token, so that it reads the current secret from its file. The
//! [`TokenSource`] caches the token.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use azure_core::credentials::{Secret, TokenCredential};
use azure_identity::{
    ClientSecretCredential, DeveloperToolsCredential, ManagedIdentityCredential, ManagedIdentityCredentialOptions,
    UserAssignedId, WorkloadIdentityCredential, WorkloadIdentityCredentialOptions,
};
use tokio::net::TcpStream;

use crate::error::BoxError;

use super::login::{Identity, IdentityKind};
use super::secrets::{AccessToken, Password};
use super::token_source::TokenSource;

/// The address at which Azure's virtual machines request tokens ("How to use managed identities for Azure resources on
/// an Azure VM").
const METADATA_SERVICE: &str = "169.254.169.254:80";

/// How long to wait for the metadata service: as long as Microsoft's other libraries do.
const METADATA_PROBE: Duration = Duration::from_secs(1);

pub(crate) fn tokens(identity: Identity) -> TokenSource {
    let name = match &identity.kind {
        IdentityKind::Managed => "the managed identity",
        IdentityKind::ServicePrincipal { .. } => "the service principal",
        IdentityKind::Workload => "the workload identity",
        IdentityKind::Default => "Active Directory Default",
    };
    let name = match &identity.client_id {
        Some(client_id) => format!("{name} {client_id}"),
        None => name.to_string(),
    };
    let identity = Arc::new(identity);
    TokenSource::named(name, move || {
        let identity = identity.clone();
        async move { fetch(&identity).await }
    })
}

async fn fetch(identity: &Identity) -> Result<AccessToken, BoxError> {
    let client_id = identity.client_id.clone();
    let scope = identity.scope;
    match &identity.kind {
        IdentityKind::Managed => ask(managed(client_id)?, scope).await,
        IdentityKind::Workload => ask(workload(client_id)?, scope).await,
        IdentityKind::ServicePrincipal { tenant_id, secret } => {
            let tenant_id = tenant_id.clone().or_else(|| variable("AZURE_TENANT_ID"));
            let tenant_id = tenant_id
                .ok_or("the tenant is missing; write User ID=<client ID>@<tenant ID>, or set AZURE_TENANT_ID")?;
            ask(service_principal(&tenant_id, client_id.unwrap_or_default(), secret).await?, scope).await
        }
        IdentityKind::Default => default_identity(client_id, scope).await,
    }
}

/// Tries the sources in the order of the `DefaultAzureCredential` of Microsoft's other libraries, which the Rust
/// library lacks ("Credential chains in the Azure Identity library"): a service principal in the environment, a
/// workload identity, a managed identity, and the user logged in to `az` or `azd` on this machine.
async fn default_identity(client_id: Option<String>, scope: &str) -> Result<AccessToken, BoxError> {
    if let (Some(tenant_id), Some(app), Some(secret)) =
        (variable("AZURE_TENANT_ID"), variable("AZURE_CLIENT_ID"), variable("AZURE_CLIENT_SECRET"))
    {
        let secret = Password::Given(super::secrets::Secret::new(secret));
        return ask(service_principal(&tenant_id, app, &secret).await?, scope).await;
    }
    if variable("AZURE_FEDERATED_TOKEN_FILE").is_some() {
        return ask(workload(client_id)?, scope).await;
    }
    let client_id = client_id.or_else(|| variable("AZURE_CLIENT_ID"));
    if variable("IDENTITY_ENDPOINT").is_some() || has_metadata_service().await {
        return ask(managed(client_id)?, scope).await;
    }
    let tools = ask(DeveloperToolsCredential::new(None)?, scope).await;
    tools.map_err(|error| {
        format!(
            "no AZURE_CLIENT_SECRET, no AZURE_FEDERATED_TOKEN_FILE, no managed identity at IDENTITY_ENDPOINT or {METADATA_SERVICE}, \
             and: {error}"
        )
        .into()
    })
}

async fn has_metadata_service() -> bool {
    matches!(tokio::time::timeout(METADATA_PROBE, TcpStream::connect(METADATA_SERVICE)).await, Ok(Ok(_)))
}

fn managed(client_id: Option<String>) -> azure_core::Result<Arc<dyn TokenCredential>> {
    let user_assigned_id = client_id.map(UserAssignedId::ClientId);
    Ok(ManagedIdentityCredential::new(Some(ManagedIdentityCredentialOptions {
        user_assigned_id,
        ..Default::default()
    }))?)
}

fn workload(client_id: Option<String>) -> azure_core::Result<Arc<dyn TokenCredential>> {
    Ok(WorkloadIdentityCredential::new(Some(WorkloadIdentityCredentialOptions { client_id, ..Default::default() }))?)
}

async fn service_principal(
    tenant_id: &str,
    client_id: String,
    secret: &Password,
) -> Result<Arc<dyn TokenCredential>, BoxError> {
    let secret = Secret::new(secret.read().await?.reveal().to_string());
    Ok(ClientSecretCredential::new(tenant_id, client_id, secret, None)?)
}

async fn ask(credential: Arc<dyn TokenCredential>, scope: &str) -> Result<AccessToken, BoxError> {
    let answer = credential.get_token(&[scope], None).await?;
    Ok(AccessToken::new(answer.token.secret(), SystemTime::from(answer.expires_on)))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
