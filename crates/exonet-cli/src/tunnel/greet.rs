//! Streams that the other end begins: the first message, or why there is none.

use exonet::stream::{Stream, StreamError, StreamReceiver};
use exonet::{Delivery, Node};
use tokio::time::timeout;

use super::HANDSHAKE;
use super::wire::{Answer, Message, Name, Open, Refusal, Run};

/// Why bytes are not taken that were for a connection of a former process. The other end knows it by this.
pub(crate) const GONE: &str = "gone";
/// Why other streams are not taken.
const NO_TUNNEL: &str = "this node carries connections (exon forward, exon proxy), and takes nothing else";
/// What a first message may have that is not bytes of a connection.
const LONGEST: usize = 16 << 10;

/// Reads the first message of a connection. None: it was none, and is rejected. Only a proper first message is answered, so that two
/// ends never answer each other's answers.
pub(crate) async fn greet(mut stream: Stream, run: Run) -> Option<(Stream, Open)> {
    let reason = match timeout(HANDSHAKE, stream.both().1.recv()).await {
        Ok(Ok(Some(said))) => match opens(&said, run) {
            Ok(open) => match said.ack() {
                Ok(()) => return Some((stream, open)),
                // Its sender is told what became of it.
                Err(_) => "the first message was lost".to_owned(),
            },
            Err(reason) => {
                said.reject(&reason);
                reason
            }
        },
        Ok(Ok(None)) => "a connection begins with a message".to_owned(),
        // What came before was for another process: the connection went with that.
        Ok(Err(_)) => GONE.to_owned(),
        Err(_) => "no first message has come".to_owned(),
    };
    stream.split().1.stop(reason);
    None
}

fn opens(said: &Delivery, run: Run) -> Result<Open, String> {
    let whole = said.body().as_whole().filter(|whole| whole.len() <= LONGEST);
    let open = Open::decode(whole.ok_or("the first message is too long")?).map_err(|refusal| refusal.text)?;
    // Only an end that knows the run opens in it.
    if open.run == run { Ok(open) } else { Err("the name of this stream has another run".to_owned()) }
}

/// Answers that there is no connection, and wants nothing more of it.
pub(crate) async fn refuse(stream: Stream, refusal: Refusal) {
    let text = refusal.text.clone();
    let (mut sender, receiver) = stream.split();
    // A node that is closed tells nothing.
    if sender.send(Answer::Error(refusal).encode()).await.is_ok() {
        let _ = sender.close().await;
    }
    receiver.stop(text);
}

/// Accepts the streams that peers begin, for ever, and hands those of tunnels to `take`. Plain messages are not for this node.
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

/// The next message of a control stream; one that is none is rejected. What was said to a former process is passed over. None: it has
/// ended.
pub(crate) async fn next<M: Message>(receiver: &mut StreamReceiver) -> Option<Result<M, Refusal>> {
    loop {
        match receiver.recv().await {
            Ok(Some(said)) => {
                let whole = said.body().as_whole().cloned().unwrap_or_default();
                let message = M::decode(&whole);
                match &message {
                    // One that is lost meanwhile is said again.
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
