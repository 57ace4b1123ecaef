//! Standard input and output as one connection.

use std::future::pending;
use std::sync::Arc;

use tokio::io::{Stdin, Stdout};
use tokio::sync::oneshot;

use super::near::Near;
use crate::exit::Exit;
use crate::tunnel::keep::{About, Ending, Road, Standing, drive};
use crate::tunnel::{self, Closed, Code, Opened, Target, Way, Why};

/// Carries the connection to its end. Without a target, never returns.
pub(super) async fn carry(near: &Arc<Near>, target: Option<&Target>) -> Exit {
    let Some(to) = target else { return pending().await };
    let story = near.story(Way::Stdio, "standard input".to_owned(), to);
    let numbered = near.tell.number(story.clone());
    let token = near.token();
    let closed = match near.open(to, token).await {
        Ok((Opened { stream, kept, mut life }, address)) => {
            numbered.opened(address.clone());
            let (mut reader, mut writer) = (tokio::io::stdin(), tokio::io::stdout());
            if let (true, Some(road), Some(token)) = (kept, near.road(), token) {
                let about = About { token, opener: true, story, address };
                let (tell, told) = oneshot::channel();
                let begun = begin(near, (road, about), (stream, life), (reader, writer), tell);
                let Ok(()) = begun else { return Exit::Error };
                let Ok(ending) = told.await else { return Exit::Error };
                let exit = if ending.why == "ended" { Exit::Success } else { Exit::Error };
                if exit != Exit::Success {
                    near.tell.trouble(format!("{to}: {}", ending.text));
                }
                numbered.told(())(ending);
                return exit;
            }
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

/// Hands the connection to the keeper, which is a part of this process. `tell` gets its end.
fn begin(
    near: &Near,
    (road, about): (Road, About),
    (stream, life): (exonet::stream::Stream, tunnel::Life),
    pipes: (Stdin, Stdout),
    tell: oneshot::Sender<Ending>,
) -> std::io::Result<()> {
    let key = about.key();
    // The receiver waits for it, unless the command ends.
    let told = Box::new(move |ending| drop(tell.send(ending)));
    let link = road.keeper.hold_pipes(about, near.course.window, pipes, told)?;
    tokio::spawn(drive(road, key, Some(Standing { stream, link, life })));
    Ok(())
}
