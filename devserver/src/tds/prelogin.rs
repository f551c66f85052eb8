//! PRELOGIN: the first message of both sides, by which they agree on encryption.
//!
//! The client's message is decoded, the server's policy decides ([`negotiate`]), the answer is encoded.
//! Source: MS-TDS, "2.2.6.5 PRELOGIN".

use super::packet::{PayloadReader, ReadError};

const TOKEN_VERSION: u8 = 0x00;
const TOKEN_ENCRYPTION: u8 = 0x01;
const TOKEN_INSTANCE: u8 = 0x02;
const TOKEN_THREAD_ID: u8 = 0x03;
const TOKEN_MARS: u8 = 0x04;
const TOKEN_FEDERATED_AUTHENTICATION: u8 = 0x06;
const TOKEN_TERMINATOR: u8 = 0xFF;

/// The encryption option (B_FENCRYPTION).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Encryption {
    /// The login only.
    Off = 0x00,
    On = 0x01,
    NotSupported = 0x02,
    Required = 0x03,
}

impl Encryption {
    fn from_byte(byte: u8) -> Result<Encryption, ReadError> {
        match byte {
            0x00 => Ok(Encryption::Off),
            0x01 => Ok(Encryption::On),
            0x02 => Ok(Encryption::NotSupported),
            0x03 => Ok(Encryption::Required),
            // 0x80 and above: authentication by a client certificate.
            _ => Err(ReadError::NotSupported(format!("encryption option 0x{byte:02X}"))),
        }
    }
}

/// What the client said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientPrelogin {
    pub encryption: Encryption,
    /// The client sent the federated authentication option, so the answer must hold it too.
    asks_federated_authentication: bool,
}

/// Reads the client's message. Options without a meaning for the dev server (trace id, nonce, ...) are skipped.
pub fn decode(payload: &[u8]) -> Result<ClientPrelogin, ReadError> {
    let mut options = PayloadReader::new(payload);
    let mut client = ClientPrelogin { encryption: Encryption::NotSupported, asks_federated_authentication: false };
    loop {
        let token = options.u8()?;
        if token == TOKEN_TERMINATOR {
            return Ok(client);
        }
        let offset = usize::from(u16::from_be_bytes(options.array()?));
        let length = usize::from(u16::from_be_bytes(options.array()?));
        let data = payload.get(offset..offset + length).ok_or(ReadError::Malformed)?;
        match token {
            TOKEN_ENCRYPTION => {
                let byte = *data.first().ok_or(ReadError::Malformed)?;
                client.encryption = Encryption::from_byte(byte)?;
            }
            TOKEN_FEDERATED_AUTHENTICATION => client.asks_federated_authentication = true,
            _ => {}
        }
    }
}

/// The server's answer to the client's encryption option (the tables of MS-TDS 2.2.6.5). Like SQL Server, which makes
/// itself a certificate where none is configured, the dev server can always encrypt; and like one without "Force
/// Encryption", it does as the client wishes.
pub fn negotiate(client: Encryption) -> Encryption {
    match client {
        Encryption::Off => Encryption::Off,
        Encryption::NotSupported => Encryption::NotSupported,
        Encryption::On | Encryption::Required => Encryption::On,
    }
}

/// The server's message. `version` is that of the server: major, minor, and the two bytes of the build.
pub fn encode(client: &ClientPrelogin, encryption: Encryption, version: [u8; 4]) -> Vec<u8> {
    let [major, minor, build_high, build_low] = version;
    let version = [major, minor, build_high, build_low, 0, 0];
    let encryption = [encryption as u8];
    let mut options: Vec<(u8, &[u8])> = vec![
        (TOKEN_VERSION, &version),
        (TOKEN_ENCRYPTION, &encryption),
        (TOKEN_INSTANCE, &[0]),
        (TOKEN_THREAD_ID, &[]),
        // No multiple active result sets.
        (TOKEN_MARS, &[0]),
    ];
    if client.asks_federated_authentication {
        options.push((TOKEN_FEDERATED_AUTHENTICATION, &[0]));
    }

    let mut message = Vec::new();
    let mut offset = options.len() * 5 + 1;
    for (token, data) in &options {
        message.push(*token);
        message.extend_from_slice(&u16::try_from(offset).expect("a few dozen bytes").to_be_bytes());
        message.extend_from_slice(&u16::try_from(data.len()).expect("a few bytes").to_be_bytes());
        offset += data.len();
    }
    message.push(TOKEN_TERMINATOR);
    for (_, data) in &options {
        message.extend_from_slice(data);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VERSION, ENCRYPTION, INSTOPT, THREADID and MARS, as an ODBC client sends them.
    const CLIENT: [u8; 47] = [
        0x00, 0x00, 0x1A, 0x00, 0x06, 0x01, 0x00, 0x20, 0x00, 0x01, 0x02, 0x00, 0x21, 0x00, 0x01, 0x03, 0x00, 0x22,
        0x00, 0x04, 0x04, 0x00, 0x26, 0x00, 0x01, 0xFF, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0xB8, 0x0D,
        0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    ];

    #[test]
    fn a_client_is_read() {
        assert_eq!(decode(&CLIENT).unwrap().encryption, Encryption::On);
    }

    #[test]
    fn truncated_messages_are_refused() {
        for length in 0..0x21 {
            assert_eq!(decode(&CLIENT[..length]), Err(ReadError::Malformed), "{length} bytes");
        }
    }

    #[test]
    fn the_answer_can_be_read_back() {
        let client = ClientPrelogin { encryption: Encryption::Off, asks_federated_authentication: true };
        assert_eq!(decode(&encode(&client, Encryption::Off, [16, 0, 3, 232])).unwrap(), client);
    }

    #[test]
    fn encryption_follows_the_client() {
        use Encryption::{NotSupported, Off, On, Required};
        assert_eq!([Off, On, NotSupported, Required].map(negotiate), [Off, On, NotSupported, On]);
    }

    #[test]
    fn a_client_certificate_is_refused() {
        let mut message = CLIENT;
        message[0x20] = 0x81;
        assert!(matches!(decode(&message), Err(ReadError::NotSupported(_))));
    }
}
