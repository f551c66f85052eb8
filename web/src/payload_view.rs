//! Payloads and outputs for display.

use std::fmt::Write;

use crate::texts;

/// Bytes shown of a payload or output. A download has all.
pub const SHOWN_BYTES: usize = 16 * 1024;

/// A dump is longer than its bytes, so it shows fewer.
const DUMPED_BYTES: usize = 2 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub struct View {
    /// `JSON`, `text` or `bytes`.
    pub form: &'static str,
    pub text: String,
    /// The full size.
    pub bytes: u64,
    /// Only the beginning is shown.
    pub is_cut: bool,
}

impl View {
    /// Prepares a value for display. `beginning` contains the first of `bytes` bytes; `text` is the same as text, if
    /// valid.
    pub fn new(beginning: &[u8], text: Option<&str>, bytes: u64) -> View {
        let is_cut = (beginning.len() as u64) < bytes;
        let laid_out = text.filter(|_| !is_cut).and_then(laid_out);
        match (laid_out, text) {
            (Some(json), _) => View { form: "JSON", text: json, bytes, is_cut },
            (None, Some(text)) => View { form: "text", text: text.to_owned(), bytes, is_cut },
            (None, None) => View {
                form: "bytes",
                text: dump(&beginning[..beginning.len().min(DUMPED_BYTES)]),
                bytes,
                is_cut: is_cut || beginning.len() > DUMPED_BYTES,
            },
        }
    }
}

impl View {
    /// The full size as text.
    pub fn size(&self) -> String {
        texts::bytes(self.bytes)
    }
}

/// Indents JSON and keeps the order of the fields. Returns `None` if the text is not JSON or has no fields.
pub fn laid_out(text: &str) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut json = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_transcode::transcode(&mut reader, &mut serde_json::Serializer::pretty(&mut json)).ok()?;
    reader.end().ok()?;
    String::from_utf8(json).ok()
}

/// Sixteen bytes per line, with offset and ASCII.
pub fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, bytes) in bytes.chunks(16).enumerate() {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let visible = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        let ascii: String = bytes.iter().map(visible).collect();
        let _ = writeln!(text, "{:08x}  {:47}  {ascii}", line * 16, hex.join(" ")); // a String takes everything
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_laid_out_text_is_as_it_is_and_bytes_are_dumped() {
        let json = View::new(br#"{"b":1}"#, Some(r#"{"b":1}"#), 7);
        assert_eq!((json.form, json.text.as_str()), ("JSON", "{\n  \"b\": 1\n}"));
        let cut = View::new(br#"{"b":1"#, Some(r#"{"b":1"#), 100);
        assert_eq!((cut.form, cut.is_cut), ("text", true));
        let bytes = View::new(&[0, 0x41, 0xff], None, 3);
        assert_eq!((bytes.form, bytes.text), ("bytes", format!("00000000  {:47}  .A.", "00 41 ff")));
        assert!(View::new(&[0xff; DUMPED_BYTES + 1], None, DUMPED_BYTES as u64 + 1).is_cut);
    }
}
