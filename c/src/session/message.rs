//! Messages of a session.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use exo::session::SessionSender;

use super::{exonet_session, over};
use crate::border::{Out, border, given};
use crate::delivery::exonet_delivery;
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::options::exonet_send_options;
use crate::raw::{self, exonet_bytes};
use crate::receipt::{exonet_receipt, hand_out};

/// The peer has closed the session.
fn finished() -> Fault {
    let text = "the peer has closed the session, and everything was received";
    Fault::new(exonet_code::EXONET_SESSION_FINISHED, text)
}

impl exonet_session {
    /// Waits for the sender, and does work with it.
    pub(crate) fn with_sender<T>(
        &self,
        work: impl AsyncFnOnce(&mut SessionSender) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        // The thread that has begun the message would wait for itself.
        if self.halves.writing.load(Ordering::Acquire) {
            return Err(Fault::usage(
                "a message of this session is being written: finish it, or free its writer, first",
            ));
        }
        self.inner.block_on(self.halves.unless_over(async {
            let mut sender = self.halves.sender.lock().await;
            work(sender.as_mut().ok_or_else(over)?).await
        }))
    }

    async fn next(&self) -> Result<exonet_delivery, Fault> {
        let message = self.halves.recv().await??.ok_or_else(finished)?;
        Ok(exonet_delivery::of_session(message))
    }
}

/// Sends a message of any size after all earlier ones of this session, like exonet_send. It has no tag, and
/// `options->priority` does not apply. A message that is longer than 64 KiB goes in parts, which the peer's application
/// gets as a whole or not at all; with `no_wait` it is EXONET_NOT_SENT. EXONET_SESSION_ENDED: see
/// exonet_error_session_end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_session_send(
    session: Option<&exonet_session>,
    body: exonet_bytes,
    options: *const exonet_send_options,
    receipt: Option<&mut MaybeUninit<*mut exonet_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::optional(receipt);
        let session = given(session, "session")?;
        // SAFETY: the caller gives NULL, or options with their size.
        let options: exonet_send_options = unsafe { raw::options(options, "options") }?;
        let message = options.message(&body, session.inner.journal())?;
        let sent = session.with_sender(async |sender| {
            Ok(if options.no_wait() { sender.try_send(message)? } else { sender.send(message).await? })
        })?;
        hand_out(&session.inner, &mut place, sent, options.token());
        Ok(())
    })
}

/// Waits for the next message of the session, for `timeout_ms` at most. A message is handed out when the one before it
/// has been acknowledged, rejected or put off. EXONET_SESSION_FINISHED: the peer has closed the session, and everything
/// was received. EXONET_SESSION_MISSING: the message of the error says how many messages are missing; the next call
/// continues after them. EXONET_SESSION_ENDED: there are no more; exonet_error_session_end says why.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_recv(
    session: Option<&exonet_session>,
    timeout_ms: i64,
    delivery: Option<&mut MaybeUninit<*mut exonet_delivery>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(delivery, "delivery")?;
        let session = given(session, "session")?;
        session.unwatched()?;
        place.give(session.inner.wait(timeout_ms, session.next())??);
        Ok(())
    })
}
