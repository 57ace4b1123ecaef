//! Messages that are never processed: they end with a reason, and others go on. Both databases.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};

use exonet::{Message, Outcome};
use exonet_sql::{HandlerError, Inbox, InboxMessage, InboxTx};
use sqlx::Connection as _;

use super::{LONG, Place, number, see};
use crate::Db;
use crate::common::{until, within};

impl Place {
    async fn reasons(&self) -> Vec<String> {
        let sql = "select failed from exonet_outbox where failed is not null order by id";
        sqlx::query_scalar(sql).fetch_all(&self.shop_db).await.unwrap()
    }

    /// The names of the bank's dead letters, their attempts and reasons.
    fn dead(&self) -> Vec<(u32, u32, String)> {
        let letters = self.bank.dead_letters().list().unwrap();
        letters.iter().map(|letter| (letter.attempts, letter.status, letter.reason.to_string())).collect()
    }
}

/// A handler that writes first, and then fails for odd numbers.
async fn fail_odd(mut tx: InboxTx<Db>, message: InboxMessage) -> Result<(), HandlerError> {
    let n = number(&message);
    sqlx::query("insert into seen values ($1)").bind(n).execute(&mut *tx).await?;
    match n {
        1 => Err("no account 1".into()),
        3 => Err(HandlerError::reject(7, "account 3 is closed")),
        5 => panic!("this is a test"),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn a_message_that_always_fails_is_rejected_after_its_attempts_and_others_go_on() {
    let Some(place) = Place::new().await else { return };
    let builder = Inbox::builder(&place.bank_db, &place.bank).attempts(NonZeroU32::new(3));
    let inbox = builder.start(fail_odd).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    for n in [1, 2] {
        place.send_to(place.bank.peer_addr(), n, "an order").await;
    }
    until(|| async { relay.stats().failed == 1 && place.rows().await == 1 }).await;
    assert_eq!(place.seen().await, [2], "the next of its order goes on, and what it did is undone");
    assert_eq!(place.dead(), [(3, 0, "no account 1".to_owned())]);
    assert_eq!(place.reasons().await, ["rejected by the receiver: no account 1 (status 0, attempts 3)"]);
    let stats = inbox.stats();
    assert_eq!((stats.processed, stats.failed, stats.rejected), (1, 3, 1));
    relay.stop(LONG).await.unwrap();
}

#[tokio::test]
async fn a_handler_rejects_at_once_and_what_it_did_is_undone() {
    let Some(place) = Place::new().await else { return };
    let inbox = Inbox::start(&place.bank_db, &place.bank, fail_odd).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    for n in [3, 4] {
        place.send(n).await;
    }
    until(|| async { relay.stats().failed == 1 && place.rows().await == 1 }).await;
    assert_eq!((place.seen().await, inbox.stats().failed), (vec![4], 1));
    assert_eq!(place.dead(), [(1, 7, "account 3 is closed".to_owned())]);
    let why = "rejected by the receiver: account 3 is closed (status 7, attempts 1)";
    assert_eq!(place.reasons().await, [why]);
    // Its key is not taken for processed: tried again, it is.
    inbox.stop(LONG).await.unwrap();
    let _inbox = Inbox::start(&place.bank_db, &place.bank, see).await.unwrap();
    sqlx::query("update exonet_outbox set failed = null").execute(&place.shop_db).await.unwrap();
    until(|| async { place.rows().await == 0 }).await;
    assert_eq!(place.seen().await, [3, 4]);
    relay.stop(LONG).await.unwrap();
}

/// PostgreSQL answers the commit of a transaction that has failed as if it had succeeded.
#[tokio::test]
async fn a_handler_that_hides_a_failed_statement_loses_no_message() {
    let Some(place) = Place::new().await else { return };
    let inbox =
        Inbox::start(&place.bank_db, &place.bank, |mut tx: InboxTx<Db>, message: InboxMessage| async move {
            let done = sqlx::query("insert into seen values ($1)").bind(number(&message));
            done.execute(&mut *tx).await.unwrap();
            if message.attempt == 1 {
                sqlx::query("delete from nowhere").execute(&mut *tx).await.unwrap_err();
            }
            Ok::<_, HandlerError>(())
        });
    let inbox = inbox.await.unwrap();
    let relay = place.relay().start().await.unwrap();
    place.send(7).await;
    until(|| async { place.rows().await == 0 }).await;
    assert_eq!((place.seen().await, inbox.stats().processed), (vec![7], 1));
    relay.stop(LONG).await.unwrap();
}

#[tokio::test]
async fn a_handler_that_ends_its_transaction_loses_no_message() {
    static FIRST: AtomicBool = AtomicBool::new(true);
    let Some(place) = Place::new().await else { return };
    let inbox =
        Inbox::start(&place.bank_db, &place.bank, |mut tx: InboxTx<Db>, message: InboxMessage| async move {
            let done = sqlx::query("insert into seen values ($1)").bind(number(&message));
            done.execute(&mut *tx).await.unwrap();
            if FIRST.swap(false, Ordering::Relaxed) {
                sqlx::query("rollback").execute(&mut *tx).await.unwrap();
            }
            Ok::<_, HandlerError>(())
        });
    let inbox = inbox.await.unwrap();
    let relay = place.relay().start().await.unwrap();
    place.send(7).await;
    until(|| async { place.rows().await == 0 }).await;
    assert_eq!((place.seen().await, inbox.stats().processed), (vec![7], 1));
    relay.stop(LONG).await.unwrap();
}

#[tokio::test]
async fn a_handler_that_leaves_a_nested_transaction_open_loses_no_message() {
    static FIRST: AtomicBool = AtomicBool::new(true);
    let Some(place) = Place::new().await else { return };
    let inbox =
        Inbox::start(&place.bank_db, &place.bank, |mut tx: InboxTx<Db>, message: InboxMessage| async move {
            let done = sqlx::query("insert into seen values ($1)").bind(number(&message));
            done.execute(&mut *tx).await.unwrap();
            if FIRST.swap(false, Ordering::Relaxed) {
                std::mem::forget(tx.begin().await.unwrap());
            }
            Ok::<_, HandlerError>(())
        });
    let inbox = inbox.await.unwrap();
    let relay = place.relay().start().await.unwrap();
    place.send(7).await;
    until(|| async { place.rows().await == 0 }).await;
    assert_eq!((place.seen().await, inbox.stats().processed), (vec![7], 1));
    relay.stop(LONG).await.unwrap();
}

#[tokio::test]
async fn a_panic_is_an_attempt() {
    let Some(place) = Place::new().await else { return };
    let builder = Inbox::builder(&place.bank_db, &place.bank).attempts(NonZeroU32::new(2));
    let _inbox = builder.start(fail_odd).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    place.send(5).await;
    until(|| async { relay.stats().failed == 1 }).await;
    assert_eq!(place.dead(), [(2, 0, "the handler has panicked".to_owned())]);
    relay.stop(LONG).await.unwrap();
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_rejected_at_once() {
    let Some(place) = Place::new().await else { return };
    let inbox = Inbox::start(&place.bank_db, &place.bank, see).await.unwrap();
    for (body, why) in [
        (vec![1, 0, 7], "the message cannot be read: it is malformed"),
        (
            vec![9],
            "the message cannot be read: it is of version 9, which this application does not know: update it",
        ),
    ] {
        let message = Message::new(body).tag(&b"exonet.sql"[..]);
        let mut receipt = place.shop.peer(place.bank.peer_addr()).send(message).await.unwrap();
        let settled = within(receipt.outcome()).await;
        assert!(matches!(settled.outcome, Outcome::Rejected { attempts: 1, .. }), "{settled:?}");
        assert_eq!(receipt.reason().as_deref(), Some(why));
    }
    assert_eq!((inbox.stats().rejected, place.dead().len()), (2, 2));
}

/// A copy that comes after the other was processed is acknowledged, whatever the handler would say of it now, and however often it
/// was handed out.
#[tokio::test]
async fn what_was_processed_is_acknowledged_and_not_rejected() {
    let Some(place) = Place::new().await else { return };
    let builder = || Inbox::builder(&place.bank_db, &place.bank).attempts(NonZeroU32::new(1));
    let inbox = builder().start(see).await.unwrap();
    let relay = place.relay().keep_settled(LONG).start().await.unwrap();
    place.send(3).await;
    let settled = "exonet_outbox where settled_at is not null";
    until(|| async { place.count(&place.shop_db, settled).await == 1 }).await;
    inbox.stop(LONG).await.unwrap();
    let inbox = builder().start(fail_odd).await.unwrap();
    sqlx::query("update exonet_outbox set settled_at = null").execute(&place.shop_db).await.unwrap();
    until(|| async { place.count(&place.shop_db, settled).await == 1 }).await;
    assert_eq!((inbox.stats().repeated, inbox.stats().rejected), (1, 0));
    assert_eq!((place.reasons().await.len(), place.seen().await), (0, vec![3]));
    relay.stop(LONG).await.unwrap();
}
