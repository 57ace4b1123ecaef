//! One test for each rule: it dies if the rule is removed. Both databases.

#[path = "rejects.rs"]
mod rejects;
#[path = "search.rs"]
mod search;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use exonet::{Durability, Node, PeerAddr};
use exonet_sql::{Error, Inbox, InboxMessage, InboxTx, Key, Outbox, OutboxMessage, Relay, RelayBuilder};
use sqlx::Pool;
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::common::{node, until, within};
use crate::{Db, database};

const LONG: Duration = Duration::from_secs(80);
const SOON: Duration = Duration::from_millis(5);

/// A shop that pays a bank, each with a database.
struct Place {
    home: TempDir,
    shop_db: Pool<Db>,
    bank_db: Pool<Db>,
    shop: Node,
    bank: Node,
}

impl Place {
    async fn new() -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let shop_db = database(home.path(), "shop").await?;
        let bank_db = database(home.path(), "bank").await?;
        for pool in [&shop_db, &bank_db] {
            exonet_sql::migrate(pool).await.unwrap();
            // Any number of times.
            exonet_sql::migrate(pool).await.unwrap();
        }
        sqlx::query("create table seen (n bigint)").execute(&bank_db).await.unwrap();
        let shop = node(&home.path().join("shop node"), Durability::Memory, "127.0.0.1:0").await;
        let bank = node(&home.path().join("bank node"), Durability::Memory, "127.0.0.1:0").await;
        Some(Self { home, shop_db, bank_db, shop, bank })
    }

    async fn another(&self, name: &str) -> Node {
        node(&self.path(name), Durability::Memory, "127.0.0.1:0").await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    async fn send(&self, n: i64) -> Key {
        self.send_to(self.bank.peer_addr(), n, "").await
    }

    async fn send_to(&self, peer: PeerAddr, n: i64, order: &'static str) -> Key {
        let mut tx = self.shop_db.begin().await.unwrap();
        let message = OutboxMessage::new(n.to_be_bytes().to_vec()).order(order);
        let key = Outbox::send(&mut tx, peer, message).await.unwrap();
        tx.commit().await.unwrap();
        key
    }

    fn relay(&self) -> RelayBuilder<Db> {
        Relay::builder(&self.shop_db, &self.shop)
    }

    async fn count(&self, pool: &Pool<Db>, from: &str) -> i64 {
        sqlx::query_scalar(&format!("select count(*) from {from}")).fetch_one(pool).await.unwrap()
    }

    async fn seen(&self) -> Vec<i64> {
        sqlx::query_scalar("select n from seen order by n").fetch_all(&self.bank_db).await.unwrap()
    }

    async fn rows(&self) -> i64 {
        self.count(&self.shop_db, "exonet_outbox").await
    }

    async fn processed(&self) -> i64 {
        self.count(&self.bank_db, "exonet_inbox").await
    }

    /// Asks as an inbox does.
    async fn is_gone(&self, relay: &Node, key: Key) -> bool {
        let question = [&[1][..], &key.0].concat();
        let mut reply =
            within(self.bank.peer(relay.peer_addr()).call("exonet.sql.gone", question).into_future())
                .await
                .unwrap();
        reply.body.bytes(100).await.unwrap().len() == 17
    }
}

fn number(message: &InboxMessage) -> i64 {
    i64::from_be_bytes(message.body[..].try_into().unwrap())
}

/// A handler that writes down what it is given.
pub(crate) async fn see(mut tx: InboxTx<Db>, message: InboxMessage) -> Result<(), sqlx::Error> {
    sqlx::query("insert into seen values ($1)").bind(number(&message)).execute(&mut *tx).await?;
    Ok(())
}

type Handling = Pin<Box<dyn Future<Output = Result<(), sqlx::Error>> + Send>>;

/// A handler that says when it has begun, and does its work when it may.
#[derive(Clone)]
struct Held {
    begun: Arc<Semaphore>,
    may: Arc<Semaphore>,
}

impl Held {
    fn new() -> Self {
        Self { begun: Arc::new(Semaphore::new(0)), may: Arc::new(Semaphore::new(0)) }
    }

    fn handler(&self) -> impl Fn(InboxTx<Db>, InboxMessage) -> Handling + Send + Sync + 'static {
        let this = self.clone();
        move |tx, message| {
            let this = this.clone();
            Box::pin(async move {
                this.begun.add_permits(1);
                this.may.acquire().await.unwrap().forget();
                see(tx, message).await
            })
        }
    }

    async fn has_begun(&self) {
        within(self.begun.acquire()).await.unwrap().forget();
    }

    fn go_on(&self) {
        self.may.add_permits(100);
    }
}

#[tokio::test]
async fn what_is_committed_is_processed_once_and_every_row_goes() {
    let Some(place) = Place::new().await else { return };
    let inbox = Inbox::builder(&place.bank_db, &place.bank).collect_every(SOON).start(see).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    for n in 0..100 {
        let mut tx = place.shop_db.begin().await.unwrap();
        let message = OutboxMessage::new((n as i64).to_be_bytes().to_vec());
        Outbox::send(&mut tx, place.bank.peer_addr(), message).await.unwrap();
        // What is not committed is not sent.
        if n % 2 == 0 { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    }
    until(|| async {
        place.seen().await.len() == 50 && place.rows().await == 0 && place.processed().await == 0
    })
    .await;
    assert_eq!(place.seen().await, (0..100).filter(|n| n % 2 == 0).collect::<Vec<_>>());
    assert_eq!((inbox.stats().processed, inbox.stats().collected), (50, 50));
    relay.stop(LONG).await.unwrap();
    assert_eq!(place.count(&place.shop_db, "exonet_prev").await, 0);
}

#[tokio::test]
async fn a_handler_that_fails_or_panics_is_undone_and_called_again() {
    let Some(place) = Place::new().await else { return };
    let inbox =
        Inbox::start(&place.bank_db, &place.bank, |mut tx: InboxTx<Db>, message: InboxMessage| async move {
            sqlx::query("insert into seen values ($1)")
                .bind(number(&message))
                .execute(&mut *tx)
                .await
                .unwrap();
            match message.attempt {
                1 => Err("not today"),
                2 => panic!("this is a test"),
                _ => Ok(()),
            }
        });
    let inbox = inbox.await.unwrap();
    let relay = place.relay().start().await.unwrap();
    place.send(7).await;
    until(|| async { inbox.stats().processed == 1 && place.rows().await == 0 }).await;
    assert_eq!((place.seen().await, inbox.stats().failed), (vec![7], 2));
    relay.stop(LONG).await.unwrap();
}

#[tokio::test]
async fn a_handler_that_never_returns_is_dropped_and_others_go_on() {
    let Some(place) = Place::new().await else { return };
    let builder = Inbox::builder(&place.bank_db, &place.bank).handler_timeout(Duration::from_millis(50));
    let inbox = builder.start(|tx: InboxTx<Db>, message: InboxMessage| async move {
        if number(&message) == 1 && message.attempt < 3 {
            std::future::pending::<()>().await;
        }
        see(tx, message).await
    });
    let inbox = inbox.await.unwrap();
    let relay = place.relay().start().await.unwrap();
    for n in [1, 2] {
        place.send(n).await;
    }
    until(|| async { place.seen().await == [1, 2] && place.rows().await == 0 }).await;
    assert!(inbox.stats().failed >= 2);
    relay.stop(LONG).await.unwrap();
}

/// A message is acknowledged after the commit: what was begun and not committed is handed out again.
#[tokio::test]
async fn what_was_begun_and_not_committed_is_handed_out_again() {
    let Some(place) = Place::new().await else { return };
    let held = Held::new();
    let inbox = Inbox::start(&place.bank_db, &place.bank, held.handler()).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    place.send(1).await;
    held.has_begun().await;
    inbox.stop(Duration::ZERO).await.unwrap();
    let again = Inbox::start(&place.bank_db, &place.bank, see).await.unwrap();
    until(|| async { place.seen().await == [1] && place.rows().await == 0 }).await;
    assert_eq!(again.stats().processed, 1);
    relay.stop(LONG).await.unwrap();
}

/// A row stays until its message is processed. After Unknown it is handed over again.
#[tokio::test]
async fn what_ends_unknown_is_handed_over_again() {
    let Some(place) = Place::new().await else { return };
    let held = Held::new();
    let inbox = Inbox::start(&place.bank_db, &place.bank, held.handler()).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    place.send(1).await;
    held.has_begun().await;
    assert_eq!(place.rows().await, 1);
    inbox.stop(Duration::ZERO).await.unwrap();
    place.shop.peer(place.bank.id()).abandon();
    until(|| async { relay.stats().handed_over == 2 }).await;
    let _again = Inbox::start(&place.bank_db, &place.bank, see).await.unwrap();
    until(|| async { place.rows().await == 0 }).await;
    assert_eq!(place.seen().await, [1]);
    relay.stop(LONG).await.unwrap();
}

/// The inbox row is kept when the message is acknowledged, and knows the next copy.
#[tokio::test]
async fn a_copy_of_what_is_processed_has_no_effect() {
    let Some(place) = Place::new().await else { return };
    let held = Held::new();
    let inbox = Inbox::builder(&place.bank_db, &place.bank).collect_every(SOON);
    let inbox = inbox.start(held.handler()).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    let key = place.send(1).await;
    held.has_begun().await;
    // The relay dies, and does not hear that the message is processed.
    relay.stop(Duration::ZERO).await.unwrap();
    held.go_on();
    until(|| async { inbox.stats().processed == 1 }).await;
    assert_eq!((place.rows().await, place.processed().await), (1, 1));
    let relay = place.relay().start().await.unwrap();
    assert!(!place.is_gone(&place.shop, key).await || inbox.stats().repeated == 1);
    until(|| async { place.rows().await == 0 }).await;
    assert_eq!((place.seen().await, inbox.stats().repeated, relay.stats().handed_over), (vec![1], 1, 1));
    relay.stop(LONG).await.unwrap();
}

/// What the node has open from before is settled before rows for that receiver are handed over.
#[tokio::test]
async fn no_second_copy_goes_while_one_of_a_former_relay_is_open() {
    let Some(place) = Place::new().await else { return };
    let (held, other) = (Held::new(), place.another("other").await);
    let inbox = Inbox::start(&place.bank_db, &place.bank, held.handler()).await.unwrap();
    let other_db = database(place.home.path(), "third").await.unwrap();
    exonet_sql::migrate(&other_db).await.unwrap();
    sqlx::query("create table seen (n bigint)").execute(&other_db).await.unwrap();
    let other_inbox = Inbox::start(&other_db, &other, see).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    place.send(1).await;
    held.has_begun().await;
    relay.stop(Duration::ZERO).await.unwrap();
    // A row for somebody else, after the one that waits.
    place.send_to(other.peer_addr(), 2, "").await;
    let relay = place.relay().start().await.unwrap();
    until(|| async { place.rows().await == 1 }).await;
    assert_eq!((relay.stats().handed_over, other_inbox.stats().processed), (1, 1), "the first waits");
    held.go_on();
    until(|| async { place.rows().await == 0 }).await;
    assert_eq!((place.seen().await, inbox.stats().repeated), (vec![1], 1));
    relay.stop(LONG).await.unwrap();
}

/// An inbox row stays while a copy of its message is handed out, though the row in the outbox is gone.
#[tokio::test]
async fn an_inbox_row_outlives_the_copies_of_its_message() {
    let Some(place) = Place::new().await else { return };
    // What fails for the database's sake waits in the inbox: its next attempt is some time away after a few.
    let hide = async |from: &str, to: &str| {
        let sql = format!("alter table {from} rename to {to}");
        sqlx::query(&sql).execute(&place.bank_db).await.unwrap();
    };
    let inbox = Inbox::builder(&place.bank_db, &place.bank).collect_every(SOON).start(see).await.unwrap();
    hide("exonet_inbox", "hidden").await;
    let relay = place.relay().start().await.unwrap();
    let key = place.send(1).await;
    until(|| async { inbox.stats().failed == 6 }).await;
    // Another copy was processed, and its row has gone.
    let owner: Vec<u8> =
        sqlx::query_scalar("select account from exonet_peer").fetch_one(&place.shop_db).await.unwrap();
    let other = Key::random().unwrap();
    let insert = async |table: &str, key: Key| {
        let sql = format!("insert into {table} (owner, key) values ($1, $2)");
        sqlx::query(&sql).bind(&owner).bind(&key.0[..]).execute(&place.bank_db).await.unwrap();
    };
    sqlx::query("delete from exonet_outbox").execute(&place.shop_db).await.unwrap();
    insert("hidden", key).await;
    insert("hidden", other).await;
    hide("hidden", "exonet_inbox").await;
    // A question that was answered after that has been asked, twice.
    until(|| async { inbox.stats().collected >= 1 }).await;
    insert("exonet_inbox", other).await;
    until(|| async { inbox.stats().collected >= 2 }).await;
    until(|| async { inbox.stats().repeated == 1 && place.processed().await == 0 }).await;
    assert_eq!(place.seen().await, Vec::<i64>::new(), "processed by the other copy, not by this one");
    drop(relay);
}

#[tokio::test]
async fn messages_of_an_order_are_processed_one_after_the_other() {
    let Some(place) = Place::new().await else { return };
    let order: Arc<Mutex<Vec<i64>>> = Arc::default();
    let seen = Arc::clone(&order);
    let inbox = Inbox::start(&place.bank_db, &place.bank, move |_: InboxTx<Db>, message: InboxMessage| {
        let seen = Arc::clone(&seen);
        async move {
            if number(&message) % 4 == 0 && message.attempt == 1 {
                return Err("once more");
            }
            seen.lock().unwrap().push(number(&message));
            Ok(())
        }
    });
    let _inbox = inbox.await.unwrap();
    for n in 0..12 {
        place.send_to(place.bank.peer_addr(), n, if n % 2 == 0 { "even" } else { "odd" }).await;
    }
    let relay = place.relay().start().await.unwrap();
    until(|| async { place.rows().await == 0 }).await;
    let order = order.lock().unwrap().clone();
    for rest in [0, 1] {
        let of_one: Vec<_> = order.iter().copied().filter(|n| n % 2 == rest).collect();
        assert!(of_one.is_sorted() && of_one.len() == 6, "{order:?}");
    }
    relay.stop(LONG).await.unwrap();
}

/// Only the owner of a lane deletes its rows.
#[tokio::test]
async fn a_former_owner_deletes_nothing() {
    let Some(place) = Place::new().await else { return };
    let held = Held::new();
    let _inbox = Inbox::start(&place.bank_db, &place.bank, held.handler()).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    place.send(1).await;
    held.has_begun().await;
    let other = place.another("other").await.id();
    let take = "update exonet_lane set node = $1";
    sqlx::query(take).bind(&other.0[..]).execute(&place.shop_db).await.unwrap();
    held.go_on();
    until(|| async { place.seen().await == [1] && relay.stats().open == 0 }).await;
    assert_eq!((place.rows().await, relay.stats().processed), (1, 0));
    // The owner hands it over, and hears that it is processed.
    sqlx::query(take).bind(&place.shop.id().0[..]).execute(&place.shop_db).await.unwrap();
    until(|| async { place.rows().await == 0 }).await;
    assert_eq!(place.seen().await, [1]);
    relay.stop(LONG).await.unwrap();
}

/// A take-over is recorded; nothing is gone while it is; who is recorded does not come back before it has left.
#[tokio::test]
async fn a_former_owner_is_recorded_until_it_has_left() {
    let Some(place) = Place::new().await else { return };
    let held = Held::new();
    let inbox = Inbox::start(&place.bank_db, &place.bank, held.handler()).await.unwrap();
    let first = place.relay().start().await.unwrap();
    place.send(1).await;
    held.has_begun().await;
    let other = place.another("other").await;
    let second = Relay::builder(&place.shop_db, &other).take_after(Duration::ZERO).start().await.unwrap();
    until(|| async { second.stats().lanes.len() == 8 && first.stats().leaving.len() == 8 }).await;
    assert_eq!(place.count(&place.shop_db, "exonet_prev").await, 8);
    let stranger = Key::random().unwrap();
    assert!(!place.is_gone(&other, stranger).await, "a former owner may have it");
    // What it has under way is not settled, so it may not own the lanes again.
    first.stop(Duration::ZERO).await.unwrap();
    let back = place.relay().take_after(Duration::ZERO).start().await.unwrap();
    until(|| async { back.stats().leaving.len() == 8 }).await;
    assert_eq!((back.stats().lanes.len(), second.stats().lanes.len()), (0, 8));
    held.go_on();
    // Then it leaves by itself.
    until(|| async { place.count(&place.shop_db, "exonet_prev").await == 0 && place.rows().await == 0 })
        .await;
    assert!(place.is_gone(&other, stranger).await);
    assert_eq!((place.seen().await, inbox.stats().processed), (vec![1], 1));
    second.stop(LONG).await.unwrap();
}

/// A relay signs off when each receiver has taken its fence, and no sooner.
#[tokio::test]
async fn a_relay_signs_off_when_its_receivers_have_heard_of_it() {
    let Some(mut place) = Place::new().await else { return };
    let inbox = Inbox::builder(&place.bank_db, &place.bank).collect_every(SOON).start(see).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    let key = place.send(1).await;
    until(|| async { place.rows().await == 0 && place.processed().await == 0 }).await;
    // The receiver is away.
    let at = place.bank.local_addr().to_string();
    inbox.stop(LONG).await.unwrap();
    place.bank.close(Duration::from_secs(1)).await;
    assert!(!relay.sign_off(Duration::from_secs(3)).await.unwrap(), "nobody has heard of it");
    assert_eq!(place.count(&place.shop_db, "exonet_prev").await, 8);
    // It is back.
    place.bank = node(&place.path("bank node"), Durability::Memory, &at).await;
    let _inbox = Inbox::start(&place.bank_db, &place.bank, see).await.unwrap();
    let relay = place.relay().start().await.unwrap();
    until(|| async { place.count(&place.shop_db, "exonet_prev").await == 0 }).await;
    assert!(place.is_gone(&place.shop, key).await);
    assert!(relay.sign_off(LONG).await.unwrap());
    assert_eq!(place.count(&place.shop_db, "exonet_prev").await, 0);
    assert_eq!(place.count(&place.shop_db, "exonet_lane where node is not null").await, 0);
}

/// A lane whose owner gives no sign of life is taken over, and what it left is processed once.
#[tokio::test]
async fn the_lanes_of_a_dead_relay_are_taken_over() {
    let Some(place) = Place::new().await else { return };
    let held = Held::new();
    let inbox = Inbox::start(&place.bank_db, &place.bank, held.handler()).await.unwrap();
    let first = place.relay().start().await.unwrap();
    place.send(1).await;
    held.has_begun().await;
    first.stop(Duration::ZERO).await.unwrap();
    held.go_on();
    let other = place.another("other").await;
    let second =
        Relay::builder(&place.shop_db, &other).take_after(Duration::from_secs(3)).start().await.unwrap();
    place.send(2).await;
    until(|| async { place.rows().await == 0 }).await;
    assert_eq!((place.seen().await, inbox.stats().repeated), (vec![1, 2], 1));
    second.stop(LONG).await.unwrap();
}

/// A row that is kept after it was processed is not gone; a backup from that time makes no double.
#[tokio::test]
async fn a_database_that_is_restored_within_the_time_makes_no_double() {
    let Some(place) = Place::new().await else { return };
    let inbox = Inbox::builder(&place.bank_db, &place.bank).collect_every(SOON).start(see).await.unwrap();
    let relay = place.relay().keep_settled(Duration::from_secs(1_000)).start().await.unwrap();
    let key = place.send(1).await;
    let settled = "exonet_outbox where settled_at is not null";
    until(|| async { place.count(&place.shop_db, settled).await == 1 }).await;
    assert!(!place.is_gone(&place.shop, key).await);
    sqlx::query("update exonet_outbox set settled_at = null").execute(&place.shop_db).await.unwrap();
    until(|| async { inbox.stats().repeated == 1 && place.count(&place.shop_db, settled).await == 1 }).await;
    assert_eq!((place.seen().await, place.processed().await), (vec![1], 1));
    relay.stop(LONG).await.unwrap();
    // The time is over.
    let relay = place.relay().keep_settled(Duration::ZERO).start().await.unwrap();

    until(|| async { place.rows().await == 0 && place.processed().await == 0 }).await;
    relay.stop(LONG).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_done_is_said_with_the_way_out() {
    let Some(place) = Place::new().await else { return };
    let bare = database(place.home.path(), "bare").await.unwrap();
    let mut conn = bare.acquire().await.unwrap();
    let sent = Outbox::send(&mut conn, place.bank.id(), "x").await;
    assert!(sent.unwrap_err().to_string().contains("exonet_sql::migrate(&pool)"));
    drop(conn);
    assert!(matches!(Relay::start(&bare, &place.shop).await, Err(Error::NotMigrated(_))));
    assert!(matches!(Inbox::start(&bare, &place.bank, see).await, Err(Error::NotMigrated(_))));

    let _relay = place.relay().start().await.unwrap();
    assert!(matches!(place.relay().start().await, Err(Error::Serve(_))));
    let impatient = Node::builder(exonet::Allow::anyone()).doubt_timeout(LONG).bind("127.0.0.1:0").build();
    let impatient = impatient.await.unwrap();
    assert!(matches!(Relay::start(&place.shop_db, &impatient).await, Err(Error::DoubtTimeout)));
    let twice = std::num::NonZeroU32::new(2).unwrap();
    let counting =
        Node::builder(exonet::Allow::anyone()).attempts(twice).bind("127.0.0.1:0").build().await.unwrap();
    let refused = Inbox::start(&place.bank_db, &counting, see).await;
    assert!(matches!(refused, Err(Error::Attempts(most)) if most == twice));

    let mut conn = place.shop_db.acquire().await.unwrap();
    let long = vec![0; exonet_sql::MAX_BODY + 1];
    let sent = Outbox::send(&mut conn, place.bank.id(), long).await;
    assert!(matches!(sent, Err(Error::BodyTooLarge { .. })));
    let sent = Outbox::send(&mut conn, place.bank.id(), OutboxMessage::new("x").tag(vec![0; 256])).await;
    assert!(matches!(sent, Err(Error::NameTooLong(256))));
    sqlx::query("insert into exonet_schema (version) values (99)").execute(&mut *conn).await.unwrap();
    assert!(matches!(exonet_sql::migrate(&place.shop_db).await, Err(Error::TooNew { found: 99, .. })));
}

/// A receiver that has ended for good: the row says so, and others go on.
#[tokio::test]
async fn a_row_for_a_peer_that_has_ended_is_marked() {
    let Some(place) = Place::new().await else { return };
    let _inbox = Inbox::start(&place.bank_db, &place.bank, see).await.unwrap();
    let gone = Node::builder(exonet::Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
    let relay = place.relay().start().await.unwrap();
    // It has to know the shop, to tell it that it ends.
    place.shop.peer(gone.peer_addr()).ping(LONG).await.unwrap();
    place.send_to(gone.peer_addr(), 1, "").await;
    until(|| async { relay.stats().open == 1 }).await;
    gone.close(Duration::ZERO).await;
    until(|| async { relay.stats().failed == 1 }).await;
    place.send(2).await;
    until(|| async { place.seen().await == [2] && place.rows().await == 1 }).await;
    assert_eq!(place.count(&place.shop_db, "exonet_outbox where failed is not null").await, 1);
    relay.stop(LONG).await.unwrap();
}
