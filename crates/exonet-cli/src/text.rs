//! Makes foreign bytes safe for a terminal: no data of a peer may control the terminal.

use std::fmt::Write as _;

/// The number of bytes of binary data that are shown to people.
const DUMP_BYTES: usize = 256;

/// Text in one line: control characters and bytes that are not UTF-8 are escaped.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if is_hidden(c) => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Whether a character is invisible, or changes the display of the characters after it.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Whether `bytes` are better shown as a dump than as text.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).map_or(true, |text| text.chars().any(|c| c.is_control() && !c.is_whitespace()))
}

/// Lines of sixteen bytes, in hexadecimal and as text. Long content is cut, with a note.
pub(crate) fn dump(bytes: &[u8]) -> String {
    let shown = bytes.get(..DUMP_BYTES).unwrap_or(bytes);
    let mut text = String::new();
    for (row, line) in shown.chunks(16).enumerate() {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let ascii: String = line
            .iter()
            .map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' })
            .collect();
        let _ = write!(text, "\n          {:06x}  {:<47}  {ascii}", row * 16, hex.join(" "));
    }
    if shown.len() < bytes.len() {
        let rest = u64::try_from(bytes.len() - shown.len()).unwrap_or(u64::MAX);
        let _ = write!(text, "\n          ... {} more bytes", crate::units::count(rest));
    }
    text
}

/// Bytes in hexadecimal, for JSON.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_text_stays() {
        assert_eq!(escape("grün & 緑".as_bytes()), "grün & 緑");
    }

    #[test]
    fn a_dump_is_cut_and_says_so() {
        let text = dump(&[0x41; 300]);
        assert!(text.contains("41 41"), "{text}");
        assert!(text.ends_with("44 more bytes"), "{text}");
        assert!(!dump(&[0; 256]).contains("more"));
    }

    proptest! {
        #[test]
        fn nothing_reaches_the_terminal_but_what_is_seen(bytes: Vec<u8>) {
            prop_assert!(!escape(&bytes).chars().any(is_hidden));
            prop_assert!(dump(&bytes).chars().all(|c| c == '\n' || !is_hidden(c)));
        }

        #[test]
        fn escaping_keeps_messages_apart(a: Vec<u8>, b: Vec<u8>) {
            prop_assert_eq!(escape(&a) == escape(&b), a == b);
        }
    }
}
