//! Explains the error in a peer that was typed or copied by hand.

use exonet::NodeId;
use exonet::error::PeerAddrError;
use exonet_proto::ParseNodeIdError;

const DIGITS: &str = "abcdefghijklmnopqrstuvwxyz234567";
const LEN: usize = 56;

/// The error in words, with the position of the slip if it can be found.
pub(super) fn address(text: &str, error: &PeerAddrError) -> String {
    match error {
        PeerAddrError::Id { id, .. } if id.contains([':', '.']) => {
            format!("the id is missing: {id:?} is only an address, and a peer is written ID@HOST:PORT")
        }
        PeerAddrError::Id { id, source } => {
            format!(
                "the id, {id:?}, is wrong: {}",
                self::id(id, source).unwrap_or_else(|| source.to_string())
            )
        }
        PeerAddrError::Hint(hint) => format!(
            "the address, {hint:?} of {text:?}, is wrong: host:port is wanted, as in example.org:3966, \
             192.0.2.7:3966 or [::1]:3966"
        ),
        other => other.to_string(),
    }
}

fn id(text: &str, error: &ParseNodeIdError) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    Some(match error {
        ParseNodeIdError::Length(len) => {
            let lacks = if *len < LEN { "some are missing" } else { "some are too many" };
            format!(
                "it has {len} characters, and an id has {LEN}: {lacks}; copy all of it, or give it a name \
                 with `exon peer add`"
            )
        }
        ParseNodeIdError::Character(bad) => {
            let at = chars.iter().position(|c| c == bad)? + 1;
            let hint = match bad {
                '0' => "; is it an o?",
                '1' => "; is it an l or an i?",
                '8' => "; is it a b?",
                'A'..='Z' => "; ids are written in small letters",
                _ => "",
            };
            format!("character {at} is {bad:?}, and ids consist of a-z and 2-7{hint}")
        }
        ParseNodeIdError::Checksum | ParseNodeIdError::Version(_) => match slips(&chars).as_slice() {
            // About one wrong id in forty can be corrected by chance: so the correction is only suggested, never
            // made.
            [(at, right)] => format!(
                "its checksum does not fit; it would if character {} were {right:?} and not {:?}: compare \
                 it with the original",
                at + 1,
                chars.get(*at)?
            ),
            _ if matches!(error, ParseNodeIdError::Version(_)) => return None,
            _ => "its checksum does not fit, and more than one character differs: copy it again".to_owned(),
        },
    })
}

/// All changes of one character after which the checksum is correct.
fn slips(chars: &[char]) -> Vec<(usize, char)> {
    let mut found = Vec::new();
    for at in 0..chars.len() {
        for digit in DIGITS.chars() {
            let mut tried = chars.to_vec();
            if let Some(place) = tried.get_mut(at) {
                *place = digit;
            }
            if tried != chars && tried.iter().collect::<String>().parse::<NodeId>().is_ok() {
                found.push((at, digit));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use exonet::PeerAddr;

    fn told(text: &str) -> String {
        address(text, &text.parse::<PeerAddr>().unwrap_err())
    }

    #[test]
    fn a_slip_in_an_id_is_found() {
        let right = NodeId([42; 32]).to_string();
        let mut wrong = right.clone().into_bytes();
        let was = char::from(wrong[16]);
        wrong[16] = if wrong[16] == b'q' { b'g' } else { b'q' };
        let text = told(&String::from_utf8(wrong).unwrap());
        assert!(text.contains("character 17 were") && text.contains(&format!("{was:?} and not")), "{text}");
        assert!(told(&format!("{}@h:1", &right[1..])).contains("has 55 characters"));
        assert!(told(&right.replacen(&right[4..5], "1", 1)).contains("is it an l"));
        assert!(told(&format!("b{}@h:1", &right[1..])).contains("if character 1 were 'a'"));
        assert!(told(&right.to_uppercase()).contains("small letters"));
        assert!(told(&format!("{right}@host")).contains("host:port"));
        for address in ["127.0.0.1:999", "[::1]:999", "example.org"] {
            assert!(told(address).contains("the id is missing"), "{}", told(address));
        }
    }
}
