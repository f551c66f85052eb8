//! Tokens as Microsoft Entra ID issues them, signed by a key of this server's own: what a federated login brings is
//! checked here, and test programs get tokens here.
//!
//! A token is a JWT (RFC 7519) with an HMAC (`HS256`, RFC 7515); Entra signs with RSA, which only Entra can. The claims
//! that count: the audience, the end, and the name of the login (CREATE LOGIN … FROM EXTERNAL PROVIDER).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{hmac, rand};
use serde_json::{Value, json};

use crate::error::{SqlError, SqlResult};

/// Whom Azure SQL's tokens are for.
pub const AUDIENCE: &str = "https://database.windows.net/";

/// This machine's clock, which Entra and Azure SQL have in common here.
#[expect(clippy::disallowed_methods, reason = "tokens end by the calendar")]
pub fn now() -> SystemTime {
    SystemTime::now()
}

/// Signs and checks tokens.
pub struct TokenKey(hmac::Key);

impl TokenKey {
    /// A new one.
    pub fn generate() -> std::io::Result<TokenKey> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new());
        key.map(TokenKey).map_err(|_| std::io::Error::other("the system gives no random numbers"))
    }

    /// A token for a login, for an audience, until a moment; whole seconds count.
    pub fn issue(&self, login: &str, audience: &str, expires_at: SystemTime) -> String {
        let expires_at = expires_at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "typ": "JWT"}).to_string());
        let claims = URL_SAFE_NO_PAD.encode(json!({"aud": audience, "exp": expires_at, "name": login}).to_string());
        let signature = hmac::sign(&self.0, format!("{header}.{claims}").as_bytes());
        format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The login that a token is for.
    pub fn check(&self, token: &str) -> SqlResult<String> {
        let claims = self.claims(token).ok_or_else(|| refused("The token is not valid."))?;
        if claims["aud"] != AUDIENCE {
            return Err(refused("The server is not currently configured to accept this token."));
        }
        let now = now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        if claims["exp"].as_u64().is_none_or(|expires_at| expires_at <= now) {
            return Err(refused("Token is expired."));
        }
        claims["name"].as_str().map(str::to_owned).ok_or_else(|| refused("The token names nobody."))
    }

    /// What a token says, if this key has signed it.
    fn claims(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        hmac::verify(&self.0, signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        let (_, claims) = signed.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

/// In the words of Azure SQL: "Login failed for user '&lt;token-identified principal&gt;'. Token is expired."
pub fn refused(why: &str) -> SqlError {
    SqlError::new(18456, format!("Login failed for user '<token-identified principal>'. {why}")).severity(14)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_audience_until_its_end_and_from_this_key_only() {
        let (key, other) = (TokenKey::generate().unwrap(), TokenKey::generate().unwrap());
        let (soon, ago) = (now() + Duration::from_secs(60), now() - Duration::from_secs(1));
        let token = key.issue("worker", AUDIENCE, soon);
        assert_eq!(key.check(&token).unwrap(), "worker");
        let message = |token: &str| key.check(token).unwrap_err().message;
        assert!(message(&key.issue("worker", AUDIENCE, ago)).contains("Token is expired"));
        assert!(message(&key.issue("worker", "https://vault.azure.net", soon)).contains("not currently configured"));
        for wrong in ["", "a.b.c", &token[1..], &token[..token.len() - 2], &other.issue("worker", AUDIENCE, soon)] {
            assert!(message(wrong).contains("not valid"), "{wrong}");
        }
    }
}
