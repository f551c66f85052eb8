//! LOGIN7: who connects, to which database, with which options.
//!
//! Source: MS-TDS, "2.2.6.4 LOGIN7".

use std::ops::RangeInclusive;

use super::packet::{DEFAULT_PACKET_SIZE, PACKET_SIZE_RANGE, PayloadReader, ReadError};
use crate::error::{SqlError, SqlResult};

/// The longest LOGIN7 message: 128 KB - 1.
const MAX_LOGIN_SIZE: usize = 128 * 1024 - 1;

/// The TDS versions as LOGIN7 has them: 7.3 (SQL Server 2008) to 7.4 (2012 and later), and 8.0.
const TDS_7_3: RangeInclusive<u32> = 0x730A_0003..=0x730B_0003;
const TDS_7_4: u32 = 0x7400_0004;
const TDS_8_0: u32 = 0x0800_0000;

/// Another byte order (0x01), EBCDIC (0x02), floats that are not IEEE 754 (0x0C).
const OPTION_1_UNUSUAL_DATA: u8 = 0x0F;
const OPTION_2_INTEGRATED_SECURITY: u8 = 0x80;
const OPTION_3_EXTENSION: u8 = 0x10;

pub(super) const FEATURE_FEDERATED_AUTHENTICATION: u8 = 0x02;
/// The ways of a federated login (bFedAuthLibrary): the client brings a token of its own, or asks which one is wanted.
const LIBRARY_SECURITY_TOKEN: u8 = 0x01;
const FEATURE_TERMINATOR: u8 = 0xFF;

/// What the engine needs of a login. It has no `Debug`, so that no password is shown.
pub struct LoginRequest {
    pub user: String,
    /// `None`: it was found out otherwise who the client is.
    pub password: Option<String>,
    /// Empty: the login's default database.
    pub database: String,
    pub app_name: String,
    pub host_name: String,
}

/// What proves who the client is.
#[derive(PartialEq, Eq)]
pub enum Proof {
    /// That of the request.
    Password,
    /// An access token.
    Token(String),
    /// The first token of Kerberos or NTLM.
    Integrated(Vec<u8>),
}

/// A decoded LOGIN7 message.
pub struct Login {
    pub request: LoginRequest,
    pub proof: Proof,
    /// The version both sides speak, as LOGINACK repeats it.
    pub tds_version: u32,
    pub packet_size: usize,
    /// The client listed feature extensions, so it understands FEATUREEXTACK.
    pub has_features: bool,
}

/// Reads LOGIN7. What the dev server cannot do (another language, ...) is refused here; user and password are the
/// engine's to check.
pub fn decode(payload: &[u8]) -> SqlResult<Login> {
    if payload.len() > MAX_LOGIN_SIZE {
        return Err(SqlError::not_supported("a login of more than 128 KB"));
    }
    Ok(read(payload)?)
}

fn read(payload: &[u8]) -> Result<Login, ReadError> {
    let refused = |what: &str| Err(ReadError::NotSupported(what.to_owned()));
    let mut fixed = PayloadReader::new(payload);
    let length = usize::try_from(fixed.u32()?).map_err(|_| ReadError::Malformed)?;
    let message = payload.get(..length).ok_or(ReadError::Malformed)?;
    let tds_version = negotiate_version(fixed.u32()?)?;
    let packet_size = match usize::try_from(fixed.u32()?) {
        Ok(0) => DEFAULT_PACKET_SIZE,
        Ok(size) => size.clamp(*PACKET_SIZE_RANGE.start(), *PACKET_SIZE_RANGE.end()),
        Err(_) => *PACKET_SIZE_RANGE.end(),
    };
    let _program_version_process_and_connection: [u8; 12] = fixed.array()?;
    let [option_flags_1, option_flags_2, _type_flags, option_flags_3] = fixed.array()?;
    let _time_zone_and_locale: [u8; 8] = fixed.array()?;
    if option_flags_1 & OPTION_1_UNUSUAL_DATA != 0 {
        return refused("a client with another byte order, character set or floating point format");
    }

    let host_name = text_at(message, &mut fixed)?;
    let user = text_at(message, &mut fixed)?;
    let password = password_at(message, &mut fixed)?;
    let app_name = text_at(message, &mut fixed)?;
    let _server_name = text_at(message, &mut fixed)?;
    let extension = bytes_at(message, &mut fixed, 1)?;
    let _library_name = text_at(message, &mut fixed)?;
    let language = text_at(message, &mut fixed)?;
    let database = text_at(message, &mut fixed)?;
    let _client_id: [u8; 6] = fixed.array()?;
    let sspi = bytes_at(message, &mut fixed, 1)?.to_vec();
    if !text_at(message, &mut fixed)?.is_empty() {
        return refused("attaching a database file at login");
    }
    if !password_at(message, &mut fixed)?.is_empty() {
        return refused("changing the password at login");
    }
    if !language.is_empty() && !language.eq_ignore_ascii_case("us_english") {
        return refused(&format!("the language {language}"));
    }

    let has_features = option_flags_3 & OPTION_3_EXTENSION != 0;
    let token = if has_features { read_features(message, extension)? } else { None };
    let proof = match token {
        Some(token) => Proof::Token(token),
        None if option_flags_2 & OPTION_2_INTEGRATED_SECURITY != 0 => Proof::Integrated(sspi),
        None => Proof::Password,
    };
    let request = LoginRequest { user, password: Some(password), database, app_name, host_name };
    Ok(Login { request, proof, tds_version, packet_size, has_features })
}

/// The lower of the client's version and ours.
fn negotiate_version(client: u32) -> Result<u32, ReadError> {
    match client {
        TDS_8_0 => Ok(client),
        version if TDS_7_3.contains(&version) => Ok(version),
        version if version >= TDS_7_4 => Ok(TDS_7_4),
        _ => Err(ReadError::NotSupported(format!("TDS version 0x{client:08X}; 7.3, 7.4 and 8.0 are known"))),
    }
}

/// What an offset and a length in the fixed part point at.
fn bytes_at<'a>(
    message: &'a [u8],
    fixed: &mut PayloadReader<'_>,
    bytes_per_unit: usize,
) -> Result<&'a [u8], ReadError> {
    let offset = usize::from(fixed.u16()?);
    let length = usize::from(fixed.u16()?) * bytes_per_unit;
    if length == 0 {
        return Ok(&[]);
    }
    message.get(offset..offset + length).ok_or(ReadError::Malformed)
}

fn text_at(message: &[u8], fixed: &mut PayloadReader<'_>) -> Result<String, ReadError> {
    let bytes = bytes_at(message, fixed, 2)?;
    super::packet::decode_utf16(bytes)
}

/// Passwords come with the halves of each byte swapped and all bits of 0xA5 flipped.
fn password_at(message: &[u8], fixed: &mut PayloadReader<'_>) -> Result<String, ReadError> {
    let hidden = bytes_at(message, fixed, 2)?;
    let bytes: Vec<u8> = hidden.iter().map(|byte| (byte ^ 0xA5).rotate_left(4)).collect();
    super::packet::decode_utf16(&bytes)
}

/// Reads over the feature extensions; gives the access token of a federated login. The other features are not
/// acknowledged, which tells the client that none is in use.
fn read_features(message: &[u8], extension: &[u8]) -> Result<Option<String>, ReadError> {
    let offset = PayloadReader::new(extension).u32()?;
    let offset = usize::try_from(offset).map_err(|_| ReadError::Malformed)?;
    let mut reader = PayloadReader::new(message.get(offset..).ok_or(ReadError::Malformed)?);
    let mut token = None;
    loop {
        let feature = reader.u8()?;
        if feature == FEATURE_TERMINATOR {
            return Ok(token);
        }
        let length = usize::try_from(reader.u32()?).map_err(|_| ReadError::Malformed)?;
        let data = reader.bytes(length)?;
        if feature == FEATURE_FEDERATED_AUTHENTICATION {
            token = Some(read_token(data)?);
        }
    }
}

/// MS-TDS 2.2.6.4, "FEDAUTH Feature Extension": a byte with the library and the echo of PRELOGIN's option, then the
/// token.
fn read_token(data: &[u8]) -> Result<String, ReadError> {
    let mut reader = PayloadReader::new(data);
    let options = reader.u8()?;
    if options >> 1 != LIBRARY_SECURITY_TOKEN {
        return Err(ReadError::NotSupported("a federated login that asks the server which token it wants".to_owned()));
    }
    let length = usize::try_from(reader.u32()?).map_err(|_| ReadError::Malformed)?;
    super::packet::decode_utf16(reader.bytes(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A LOGIN7 message with the given options; the features come first, then the texts.
    fn message(version: u32, packet_size: u32, options: [u8; 4], features: &[u8], language: &str) -> Vec<u8> {
        const FIXED: usize = 94;
        const EXTENSION: usize = 5;
        let text = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        let hidden = text("pässword").iter().map(|byte| byte.rotate_left(4) ^ 0xA5).collect();
        let features_at = (FIXED as u32).to_le_bytes().to_vec();
        let [host, user, app, server] = ["host", "sa", "app", "server"].map(text);
        let [library, language, database] = ["lib", language, "db"].map(text);
        let parts = [host, user, hidden, app, server, features_at, library, language, database];
        let mut pointers = Vec::new();
        let mut data = features.to_vec();
        for (index, part) in parts.iter().enumerate() {
            let units = if index == EXTENSION { part.len() } else { part.len() / 2 };
            pointers.extend_from_slice(&((FIXED + data.len()) as u16).to_le_bytes());
            pointers.extend_from_slice(&(units as u16).to_le_bytes());
            data.extend_from_slice(part);
        }
        // The client's id, three parts that are empty, and four bytes.
        pointers.extend_from_slice(&[0; 6 + 3 * 4 + 4]);
        let length = ((FIXED + data.len()) as u32).to_le_bytes();
        let numbers = [length, version.to_le_bytes(), packet_size.to_le_bytes()].concat();
        [&numbers[..], &[0; 12], &options, &[0; 8], &pointers, &data].concat()
    }

    #[test]
    fn a_login_is_read() {
        let login = decode(&message(TDS_7_4, 8000, [0xE0, 0x03, 0, 0], &[], "")).ok().unwrap();
        assert_eq!(login.request.user, "sa");
        assert_eq!(login.request.password.as_deref(), Some("pässword"));
        assert!(login.proof == Proof::Password);
        assert_eq!(login.request.database, "db");
        assert_eq!(login.request.app_name, "app");
        assert_eq!(login.request.host_name, "host");
        assert_eq!(login.packet_size, 8000);
        assert_eq!(login.tds_version, TDS_7_4);
        assert!(!login.has_features);
    }

    #[test]
    fn packet_sizes_stay_in_their_range() {
        let size = |asked| decode(&message(TDS_7_4, asked, [0; 4], &[], "")).ok().unwrap().packet_size;
        assert_eq!([size(0), size(1), size(512), size(32767), size(u32::MAX)], [4096, 512, 512, 32767, 32767]);
    }

    #[test]
    fn features_are_read_over() {
        // UTF8_SUPPORT with one byte of data, then the terminator.
        let features = [0x0A, 1, 0, 0, 0, 1, 0xFF];
        assert!(decode(&message(TDS_7_4, 0, [0, 0, 0, OPTION_3_EXTENSION], &features, "")).ok().unwrap().has_features);
        let unended = [0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 1];
        assert!(decode(&message(TDS_7_4, 0, [0, 0, 0, OPTION_3_EXTENSION], &unended, "")).is_err());
    }

    #[test]
    fn a_token_is_read() {
        let token: Vec<u8> = "a.b.c".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let with_library = |library: u8| {
            let mut features = vec![FEATURE_FEDERATED_AUTHENTICATION, 5 + token.len() as u8, 0, 0, 0, library << 1];
            features.extend_from_slice(&(token.len() as u32).to_le_bytes());
            features.extend_from_slice(&token);
            features.push(FEATURE_TERMINATOR);
            decode(&message(TDS_7_4, 0, [0, 0, 0, OPTION_3_EXTENSION], &features, ""))
        };
        let login = with_library(LIBRARY_SECURITY_TOKEN).ok().unwrap();
        assert!(login.proof == Proof::Token("a.b.c".to_owned()));
        assert_eq!(with_library(0x02).err().unwrap().number, crate::error::NOT_SUPPORTED);
    }

    #[test]
    fn versions_are_negotiated() {
        let version = |asked| decode(&message(asked, 0, [0; 4], &[], "")).map(|login| login.tds_version);
        assert_eq!(version(0x730B_0003), Ok(0x730B_0003));
        assert_eq!(version(0x7500_0000), Ok(TDS_7_4));
        assert!(version(0x7209_0002).is_err());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let error = |options, language| decode(&message(TDS_7_4, 0, options, &[], language)).err().unwrap().number;
        assert_eq!(error([OPTION_1_UNUSUAL_DATA, 0, 0, 0], ""), crate::error::NOT_SUPPORTED);
        assert_eq!(error([0; 4], "Deutsch"), crate::error::NOT_SUPPORTED);
        assert!(decode(&message(TDS_7_4, 0, [0; 4], &[], "us_english")).is_ok());
    }

    #[test]
    fn every_prefix_of_a_login_is_refused() {
        let message = message(TDS_7_4, 0, [0; 4], &[], "");
        for length in 0..message.len() {
            assert!(decode(&message[..length]).is_err(), "{length} bytes");
        }
    }
}
