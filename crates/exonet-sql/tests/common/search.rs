//! Which rows a relay finds. Both databases.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use exonet_sql::{Inbox, InboxMessage, InboxTx, Outbox, OutboxMessage};

use super::{LONG, Place, see};
use crate::Db;
use crate::common::until;

/// More rows of one order than the relay reads at a time: their bodies have more bytes.
const MANY: i64 = 40;
const BODY: usize = 1 << 17;

#[tokio::test]
async fn an_order_with_many_rows_holds_up_no_other_and_keeps_its_own() {
    let Some(place) = Place::new().await else { return };
    let (may, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let (open, sees) = (Arc::clone(&may), Arc::clone(&seen));
    let handler = move |_: InboxTx<Db>, message: InboxMessage| {
        let (open, sees) = (Arc::clone(&open), Arc::clone(&sees));
        async move {
            if message.order == "long" && !open.load(Ordering::Relaxed) {
                return Err("not yet");
            }
            sees.lock().unwrap().push(i64::from_be_bytes(message.body[..8].try_into().unwrap()));
            Ok(())
        }
    };
    let builder = Inbox::builder(&place.bank_db, &place.bank).attempts(None);
    let _inbox = builder.start(handler).await.unwrap();
    let mut tx = place.shop_db.begin().await.unwrap();
    for (n, order) in (0..MANY).map(|n| (n, "long")).chain([(MANY, "short")]) {
        let mut body = n.to_be_bytes().to_vec();
        body.resize(BODY, 0);
        let message = OutboxMessage::new(body).order(order);
        Outbox::send(&mut tx, place.bank.peer_addr(), message).await.unwrap();
    }
    tx.commit().await.unwrap();
    let relay = place.relay().start().await.unwrap();
    until(|| async { place.rows().await == MANY }).await;
    assert_eq!(*seen.lock().unwrap(), [MANY]);
    may.store(true, Ordering::Relaxed);
    until(|| async { place.rows().await == 0 }).await;
    assert_eq!(seen.lock().unwrap()[1..], (0..MANY).collect::<Vec<_>>());
    relay.stop(LONG).await.unwrap();
}

/// The relay has passed the place of a row, and then it is to be handed over.
#[tokio::test]
async fn a_row_behind_which_the_relay_already_searches_is_found() {
    let Some(place) = Place::new().await else { return };
    let _inbox = Inbox::start(&place.bank_db, &place.bank, see).await.unwrap();
    place.send(1).await;
    sqlx::query("update exonet_outbox set failed = 'not now'").execute(&place.shop_db).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    let searches = async || -> i64 {
        sqlx::query_scalar("select max(beat) from exonet_lane").fetch_one(&place.shop_db).await.unwrap()
    };
    let began = searches().await;
    place.send(2).await;
    until(|| async { place.rows().await == 1 && searches().await > began + 3 }).await;
    sqlx::query("update exonet_outbox set failed = null").execute(&place.shop_db).await.unwrap();
    until(|| async { place.rows().await == 0 }).await;
    assert_eq!(place.seen().await, [1, 2]);
    relay.stop(LONG).await.unwrap();
}
