//! Messages on a stream of bytes: four bytes of length, then the message.

use anyhow::{Result, bail};

use crate::app::App;

const LENGTH: usize = 4;
/// Longer messages are not believed.
const LONGEST: usize = 1 << 24;

/// Bytes on their way out.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    /// Takes messages of `length` from the application, until it has none or there is enough for a call of the system.
    pub(super) fn fill(&mut self, app: &mut dyn App, length: usize) {
        const ENOUGH: usize = 64 << 10;
        if self.written > 0 && self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
        while self.bytes.len() - self.written < ENOUGH {
            let end = self.bytes.len();
            self.bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
            self.bytes.resize(end + LENGTH + length, 0x5a);
            let there = self.bytes.get_mut(end + LENGTH..).is_some_and(|message| app.next(message));
            if !there {
                self.bytes.truncate(end);
                return;
            }
        }
    }

    /// What is to be written next.
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// So much of it has been written.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.written += bytes;
        // The rest of a batch moves to the front before the next batch is taken.
        if self.written >= 64 << 10 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}

/// Bytes that have come.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
}

impl Incoming {
    /// Takes bytes, and hands on each message that is complete: as it lies there, unless it has come in parts.
    pub(super) fn take(&mut self, bytes: &[u8], mut message: impl FnMut(&[u8])) -> Result<()> {
        let mut rest = bytes;
        while !self.bytes.is_empty() && !rest.is_empty() {
            let wanted = match self.bytes.first_chunk::<LENGTH>() {
                Some(head) => LENGTH + length(*head)?,
                None => LENGTH,
            };
            let (part, behind) = rest.split_at(wanted.saturating_sub(self.bytes.len()).min(rest.len()));
            self.bytes.extend_from_slice(part);
            rest = behind;
            if let Some((head, body)) = self.bytes.split_first_chunk::<LENGTH>()
                && body.len() == length(*head)?
            {
                message(body);
                self.bytes.clear();
            }
        }
        while let Some((head, behind)) = rest.split_first_chunk::<LENGTH>() {
            let Some((body, behind)) = behind.split_at_checked(length(*head)?) else { break };
            message(body);
            rest = behind;
        }
        self.bytes.extend_from_slice(rest);
        Ok(())
    }
}

/// The length of the message that follows.
fn length(head: [u8; LENGTH]) -> Result<usize> {
    let length = u32::from_be_bytes(head) as usize;
    if length > LONGEST {
        bail!("the stream of messages is damaged");
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out its numbers.
    struct Count(u8);

    impl App for Count {
        fn next(&mut self, out: &mut [u8]) -> bool {
            self.0 += 1;
            out.fill(self.0);
            self.0 <= 200
        }
        fn take(&mut self, _: &[u8]) {}
    }

    #[test]
    fn messages_come_out_as_they_went_in_however_the_stream_is_cut() {
        let (mut outgoing, mut incoming, mut dice) =
            (Outgoing::default(), Incoming::default(), fastrand::Rng::with_seed(1));
        let (mut app, mut got) = (Count(0), Vec::new());
        loop {
            outgoing.fill(&mut app, 1_000);
            if outgoing.rest().is_empty() {
                break;
            }
            let cut = dice.usize(1..=outgoing.rest().len());
            let bytes = outgoing.rest()[..cut].to_vec();
            incoming.take(&bytes, |message| got.push((message[0], message.len()))).unwrap();
            outgoing.advance(cut);
        }
        assert_eq!(got, (1..=200).map(|number| (number, 1_000)).collect::<Vec<_>>());
    }
}
