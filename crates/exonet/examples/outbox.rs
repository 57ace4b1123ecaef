//! An outbox: payments that are sent to a ledger, each with its outcome, and how to resolve Unknown.
//!
//! The ledger stores the id of each payment with its effect. A sender that is told Unknown asks the ledger to void
//! that id: the ledger answers whether the payment is booked, and if not, never books it, however late it may still
//! arrive. So it is safe to send the payment again, and it is made once, whatever crashes.
//!
//! `cargo run --example outbox`

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use exonet::{Allow, Delivery, Message, MessageId, Node, Outcome, PeerAddr};

/// The ledger's entry for a payment. A real ledger keeps it in a database.
enum Entry {
    Booked(String),
    Void,
}

/// The receiving application. Keys are the text of message ids.
#[derive(Default)]
struct Ledger {
    entries: BTreeMap<String, Entry>,
}

impl Ledger {
    /// Serves until its node is closed. Returns the payments that it has booked.
    async fn serve(mut self, node: Node) -> Vec<String> {
        while let Ok(delivery) = node.recv().await {
            if delivery.tag() == "void" {
                let (from, answer) = (delivery.from(), self.void(&delivery));
                if delivery.ack().is_ok() {
                    // A sender that gets no answer asks again.
                    drop(node.peer(from).send(answer).await);
                }
            } else {
                self.book(delivery);
            }
        }
        let booked = self.entries.into_values().filter_map(|entry| match entry {
            Entry::Booked(payment) => Some(payment),
            Entry::Void => None,
        });
        booked.collect()
    }

    /// The effect comes first, under the id of the message; then the message is acknowledged. After a crash between
    /// the two, the sender is told Unknown, asks, and is told that the payment is booked.
    fn book(&mut self, delivery: Delivery) {
        let Some(payment) = text(&delivery) else { return };
        let id = delivery.id().to_string();
        if self.entries.contains_key(&id) {
            // Voided before it arrived, or handed out twice: it has no effect, acknowledged or not.
            let _ = delivery.ack();
            return;
        }
        self.entries.insert(id.clone(), Entry::Booked(payment));
        if delivery.ack().is_err() {
            self.entries.remove(&id);
        }
    }

    fn void(&mut self, delivery: &Delivery) -> Message {
        let id = text(delivery).unwrap_or_default();
        let entry = self.entries.entry(id.clone()).or_insert(Entry::Void);
        Message::from(id).tag(if matches!(entry, Entry::Booked(_)) { "booked" } else { "void" })
    }
}

fn text(delivery: &Delivery) -> Option<String> {
    String::from_utf8(delivery.body().as_whole()?.to_vec()).ok()
}

/// Sends a payment until it is certain that it has been booked, once.
async fn pay(node: &Node, ledger: &PeerAddr, payment: &str) -> Result<MessageId, Box<dyn Error>> {
    loop {
        let message = Message::from(payment).tag("payment").deadline(Duration::from_secs(10));
        let settled = node.peer(ledger).send(message).await?.await;
        match (settled.outcome, settled.id) {
            (Outcome::Delivered, Some(id)) => return Ok(id),
            (Outcome::Unknown, Some(id)) if is_booked(node, ledger, id).await? => return Ok(id),
            (outcome, _) => println!("{payment}: {outcome:?}, and certainly not booked: once more"),
        }
    }
}

/// Settles a message in doubt: it is booked, or never will be. Returns which.
async fn is_booked(node: &Node, ledger: &PeerAddr, id: MessageId) -> Result<bool, Box<dyn Error>> {
    let id = id.to_string();
    loop {
        drop(node.peer(ledger).send(Message::from(id.as_str()).tag("void")).await?);
        let answer = async {
            loop {
                let mut answer = node.at_most_once().recv().await?;
                // Answers to earlier questions may come late.
                if answer.body.bytes(256).await? == id {
                    return Ok::<_, Box<dyn Error>>(answer.tag == "booked");
                }
            }
        };
        if let Ok(answer) = tokio::time::timeout(Duration::from_secs(5), answer).await {
            return answer;
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let patience = Duration::from_secs(30);
    let shop = Node::builder(Allow::anyone()).bind("127.0.0.1:0").doubt_timeout(patience).build().await?;
    let bank = Node::builder(Allow::only([shop.id()])).bind("127.0.0.1:0").build().await?;
    let ledger = bank.peer_addr();
    let serving = tokio::spawn(Ledger::default().serve(bank.clone()));

    for payment in ["42.00 to the baker", "7.50 to the florist", "199.99 to the landlord"] {
        let id = pay(&shop, &ledger, payment).await?;
        println!("{payment}: booked once, as {}/{}", id.r.0, id.s.0);
    }

    shop.close(Duration::from_secs(5)).await;
    bank.close(Duration::from_secs(5)).await;
    println!("the ledger holds {} payments", serving.await?.len());
    Ok(())
}
