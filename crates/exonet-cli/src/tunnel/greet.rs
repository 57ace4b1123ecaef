//! Streams that the other end opens: reads the first message.

use exonet::stream::{Stream, StreamError, StreamReceiver};
use exonet::{Delivery, Node};
use tokio::time::timeout;

use super::HANDSHAKE;
use super::wire::{Answer, Message, Name, Open, Refusal, Run};

/// The reason for rejecting bytes of a connection of a former process. The other end recognises this reason.
pub(crate) const GONE: &str = "gone";
/// The reason for rejecting other streams.
const NO_TUNNEL: &str = "this node carries connections (exon forward, exon proxy), and takes nothing else";
/// The longest first message.
const LONGEST: usize = 16 << 10;

/// Reads the first message of a connection. None: the first message was invalid, and is rejected. Only a valid first
/// message is answered, so that two ends never answer each other's answers.
pub(crate) async fn greet(mut stream: Stream, run: Run) -> Option<(Stream, Open)> {
    let reason = match timeout(HANDSHAKE, stream.both().1.recv()).await {
        Ok(Ok(Some(said))) => match opens(&said, run) {
            Ok(open) => match said.ack() {
                Ok(()) => return Some((stream, open)),
                // The sender of the message gets its outcome.
                Err(_) => "the first message was lost".to_owned(),
            },
            Err(reason) => {
                said.reject(&reason);
                reason
            }
        },
        Ok(Ok(None)) => "a connection begins with a message".to_owned(),
        // Earlier messages were for another process, and the connection ended with that process.
        Ok(Err(_)) => GONE.to_owned(),
        Err(_) => "no first message has arrived".to_owned(),
    };
    stream.split().1.stop(reason);
    None
}

fn opens(said: &Delivery, run: Run) -> Result<Open, String> {
    let whole = said.body().as_whole().filter(|whole| whole.len() <= LONGEST);
    let open = Open::decode(whole.ok_or("the first message is too long")?).map_err(|refusal| refusal.text)?;
    // Only an end that knows the run opens connections in it.
    if open.run == run { Ok(open) } else { Err("the name of this stream belongs to another run".to_owned()) }
}

/// Answers that there is no connection, and ends the stream.
pub(crate) async fn refuse(stream: Stream, refusal: Refusal) {
    let text = refusal.text.clone();
    let (mut sender, receiver) = stream.split();
    // If the node is closed, nothing can be sent.
    if sender.send(Answer::Error(refusal).encode()).await.is_ok() {
        let _ = sender.close().await;
    }
    receiver.stop(text);
}

/// Accepts the streams that peers open, and hands the streams of tunnels to `take`. Rejects plain messages. Never
/// returns.
pub(crate) async fn take_in(node: Node, mut take: impl FnMut(Stream, Name)) {
    let rejects = async {
        while let Ok(delivery) = node.recv().await {
            delivery.reject(NO_TUNNEL);
        }
    };
    let accepts = async {
        while let Ok(stream) = node.accept_stream().await {
            match Name::of(stream.name()) {
                Some(name) => take(stream, name),
                None => stream.split().1.stop(NO_TUNNEL),
            }
        }
    };
    tokio::join!(rejects, accepts);
}

/// The next message of a control stream. An invalid message is rejected, and messages to a former process are
/// skipped. None: the stream has ended.
pub(crate) async fn next<M: Message>(receiver: &mut StreamReceiver) -> Option<Result<M, Refusal>> {
    loop {
        match receiver.recv().await {
            Ok(Some(said)) => {
                let whole = said.body().as_whole().cloned().unwrap_or_default();
                let message = M::decode(&whole);
                match &message {
                    // If the acknowledgement is lost, the sender repeats the message.
                    Ok(_) => drop(said.ack()),
                    Err(refusal) => said.reject(&refusal.text),
                }
                return Some(message);
            }
            Err(StreamError::Missing(_) | StreamError::Continues(_)) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}
