//! Codes such as `7-lucky-otter`, with which two commands that share nothing else find each other. `docs/codes.md`
//! specifies them.
//!
//! The number leads the receiver to the sender ([`nearby`], or a name service); the words are the password of a PAKE
//! ([`meeting`]).

pub(crate) mod meeting;
pub(crate) mod nearby;
mod words;

use std::fmt;
use std::str::FromStr;

use exonet::naming::Name;
use rand::TryRngCore;
use rand::rngs::OsRng;
use zeroize::{Zeroize, Zeroizing};

use self::words::{ADJECTIVES, ANIMALS};
use crate::failure::Failure;
use crate::peers::is_one_slip;

/// The largest number of a code.
pub(crate) const LARGEST: u16 = 999;
/// The largest number that is tried first: such numbers have one or two digits.
const SMALL: u16 = 99;

/// A number, and two words out of 256 each.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Code {
    number: u16,
    adjective: u8,
    animal: u8,
}

/// The error for a text that is not a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodeError {
    #[error("a code is a number and two words, as in 7-lucky-otter")]
    Shape,
    #[error("the number of a code is from 1 to {LARGEST}")]
    Number,
    #[error("{0:?} is not a word of codes")]
    Unknown(String),
    #[error("{0:?} may be {1}")]
    Ambiguous(String, String),
}

impl Code {
    /// A new code, with words from the random generator of the system.
    pub(crate) fn draw(number: u16) -> Result<Self, Failure> {
        let mut drawn = [0; 2];
        random(&mut drawn)?;
        let [adjective, animal] = drawn;
        drawn.zeroize();
        Ok(Self { number, adjective, animal })
    }

    /// A random number to try. Small numbers come first.
    pub(crate) fn draw_number(attempt: usize) -> Result<u16, Failure> {
        let mut drawn = [0; 4];
        random(&mut drawn)?;
        let most = if attempt < 8 { SMALL } else { LARGEST };
        let drawn = u32::from_be_bytes(drawn) % u32::from(most);
        Ok(u16::try_from(drawn).unwrap_or_default() + 1)
    }

    /// The number, which is not secret.
    pub(crate) const fn number(&self) -> u16 {
        self.number
    }

    /// The name of the offer with this number at a name service.
    pub(crate) fn name_of(number: u16) -> Result<Name, Failure> {
        let name = format!("code.{number}").parse();
        name.map_err(|error| Failure::new("a code needs no name").because(&error))
    }

    /// The password, which is the code as it is shown.
    pub(crate) fn password(&self) -> Zeroizing<String> {
        Zeroizing::new(self.to_string())
    }
}

/// Whether a text was meant as a code: a number, followed by text that is not part of a file name.
pub(crate) fn looks_like(text: &str) -> bool {
    let digits = text.trim_start().chars().take_while(char::is_ascii_digit).count();
    let rest = text.trim_start().get(digits..).unwrap_or_default();
    (1..=4).contains(&digits)
        && rest.starts_with(is_separator)
        && rest.chars().all(|c| c.is_ascii_alphabetic() || is_separator(c))
}

fn is_separator(c: char) -> bool {
    matches!(c, '-' | ' ' | '_')
}

pub(crate) fn random(bytes: &mut [u8]) -> Result<(), Failure> {
    OsRng.try_fill_bytes(bytes).map_err(|e| Failure::new("the system gives no random numbers").because(&e))
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |words: &'static [&str; 256], at: u8| words.get(usize::from(at)).copied().unwrap_or("");
        write!(f, "{}-{}-{}", self.number, word(&ADJECTIVES, self.adjective), word(&ANIMALS, self.animal))
    }
}

/// The words are a secret.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({})", self.number)
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        self.adjective.zeroize();
        self.animal.zeroize();
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.to_ascii_lowercase();
        let parts: Vec<&str> = text.split(is_separator).filter(|part| !part.is_empty()).collect();
        let [number, adjective, animal] = parts.as_slice() else { return Err(CodeError::Shape) };
        if !number.bytes().all(|c| c.is_ascii_digit()) {
            return Err(CodeError::Shape);
        }
        let number = number.parse().ok().filter(|number| (1..=LARGEST).contains(number));
        Ok(Self {
            number: number.ok_or(CodeError::Number)?,
            adjective: find(&ADJECTIVES, adjective)?,
            animal: find(&ANIMALS, animal)?,
        })
    }
}

/// The index of a word: an exact match, the only word with this prefix, or the only word that differs by one typing
/// error.
fn find(words: &[&str; 256], text: &str) -> Result<u8, CodeError> {
    let ways: [&dyn Fn(&str) -> bool; 3] =
        [&|word| word == text, &|word| word.starts_with(text), &|word| is_one_slip(text, word)];
    for fits in ways {
        let found: Vec<(u8, &str)> =
            (0..=u8::MAX).zip(words.iter().copied()).filter(|(_, word)| fits(word)).collect();
        match found.as_slice() {
            [] => {}
            [(at, _)] => return Ok(*at),
            several => {
                let several: Vec<&str> = several.iter().take(5).map(|(_, word)| *word).collect();
                return Err(CodeError::Ambiguous(text.to_owned(), several.join(", ")));
            }
        }
    }
    Err(CodeError::Unknown(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_distinct_and_none_begins_another() {
        for words in [ADJECTIVES, ANIMALS] {
            for (at, word) in words.iter().enumerate() {
                assert!(word.len() <= 8 && word.bytes().all(|c| c.is_ascii_lowercase()), "{word}");
                let others = words.iter().enumerate().filter(|(other, _)| *other != at);
                others.for_each(|(_, other)| assert!(!other.starts_with(word), "{word} {other}"));
            }
        }
        assert!(ADJECTIVES.iter().all(|word| !ANIMALS.contains(word)));
    }

    #[test]
    fn what_people_type_is_understood() {
        let code: Code = "7-lucky-otter".parse().unwrap();
        for text in [
            "7 Lucky Otter",
            " 7-LUCKY-otter ",
            "7_lucky__otter",
            "007-luck-ott",
            "7-lukcy-oter",
            "7-lucky-ottter",
        ] {
            assert_eq!(text.parse::<Code>().unwrap().to_string(), code.to_string(), "{text}");
            assert!(looks_like(text), "{text}");
        }
        assert!(matches!("7-luc-otter".parse::<Code>(), Err(CodeError::Ambiguous(..))));
        assert!(matches!("7-lucky-dragon".parse::<Code>(), Err(CodeError::Unknown(_))));
        assert_eq!("0-lucky-otter".parse::<Code>(), Err(CodeError::Number));
        assert_eq!("1000-lucky-otter".parse::<Code>(), Err(CodeError::Number));
        assert_eq!("7-lucky".parse::<Code>(), Err(CodeError::Shape));
        for text in ["film.mkv", "7", "2024-12-report.pdf", "7/lucky-otter", "lucky-otter", ""] {
            assert!(!looks_like(text), "{text}");
        }
    }

    #[test]
    fn debugging_shows_no_words() {
        let code: Code = "7-lucky-otter".parse().unwrap();
        assert_eq!(format!("{code:?}"), "Code(7)");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read(number in 1..=LARGEST, adjective: u8, animal: u8) {
            let code = Code { number, adjective, animal };
            prop_assert_eq!(code.to_string().parse::<Code>(), Ok(code));
        }

        #[test]
        fn nothing_that_is_typed_upsets_the_reader(text: String) {
            let _ = (looks_like(&text), text.parse::<Code>());
        }
    }
}
