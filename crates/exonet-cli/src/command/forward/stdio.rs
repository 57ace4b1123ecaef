//! Standard input and output as one connection.

use std::future::pending;

use super::near::Near;
use crate::exit::Exit;
use crate::tunnel::{self, Closed, Code, Target, Way, Why};

/// Carries the connection to its end. Without a target, never returns.
pub(super) async fn carry(near: &Near, target: Option<&Target>) -> Exit {
    let Some(to) = target else { return pending().await };
    let numbered = near.tell.number(near.story(Way::Stdio, "standard input".to_owned(), to));
    let closed = match near.open(to).await {
        Ok((stream, connected, mut life)) => {
            numbered.opened(connected.address);
            let (mut reader, mut writer) = (tokio::io::stdin(), tokio::io::stdout());
            tunnel::carry(stream, (&mut reader, &mut writer), &mut life, near.course).await
        }
        Err(why) => Closed::unopened(why),
    };
    let exit = match &closed.why {
        Why::Ended => Exit::Success,
        Why::Barred(_) => Exit::Undelivered,
        Why::Refused(refusal) if refusal.code == Code::Denied => Exit::Undelivered,
        _ => Exit::Error,
    };
    let text = near.explain(&to.to_string(), &closed.why);
    if exit != Exit::Success {
        near.tell.trouble(format!("{to}: {text}"));
    }
    numbered.closed(&closed, text);
    exit
}
