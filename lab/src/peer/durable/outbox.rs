//! An outbox as it is often written by hand: a table, and a poll that sends what is in it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::Connection;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::super::Setup;
use super::super::contact::stream::{listen, read, write};
use super::Keeps;
use crate::app::{Acts, Meter};

const POLL: Duration = Duration::from_millis(10);
const BATCH: u32 = 256;

pub(super) struct Outbox {
    table: Arc<Mutex<Connection>>,
    /// The id of the last row that was acknowledged.
    gone: watch::Receiver<i64>,
}

fn open(path: &Path) -> Result<Connection> {
    let table = Connection::open(path)?;
    table.pragma_update(None, "journal_mode", "WAL")?;
    table.pragma_update(None, "synchronous", "FULL")?;
    table.execute_batch(
        "CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL)",
    )?;
    Ok(table)
}

type Rows = Vec<(i64, Vec<u8>)>;

fn waiting(table: &Connection) -> rusqlite::Result<Rows> {
    let mut query = table.prepare_cached("SELECT id, body FROM outbox ORDER BY id LIMIT ?1")?;
    let rows = query.query_map([BATCH], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// On a thread that may block.
async fn with<T: Send + 'static>(
    table: &Arc<Mutex<Connection>>,
    does: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T> {
    let table = Arc::clone(table);
    let does = move || does(&table.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(tokio::task::spawn_blocking(does).await??)
}

/// Sends what is in the table for as long as the connection holds.
async fn relay(server: &str, table: &Arc<Mutex<Connection>>, gone: &watch::Sender<i64>) -> Result<()> {
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut clock = tokio::time::interval(POLL);
    loop {
        clock.tick().await;
        let rows = with(table, waiting).await?;
        for (_, body) in &rows {
            write(&mut stream, body).await?;
        }
        for _ in &rows {
            read(&mut stream).await?.context("the receiver has closed the connection")?;
        }
        if let Some((last, _)) = rows.last().cloned() {
            with(table, move |table| table.execute("DELETE FROM outbox WHERE id <= ?1", [last])).await?;
            gone.send_replace(last);
        }
    }
}

impl Keeps for Outbox {
    async fn receive(setup: &Setup, _: &Arc<Meter>, acts: Acts) -> Result<()> {
        let listener = listen(setup, "")?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (mut stream, acts) = (BufReader::new(stream), acts.clone());
            tokio::spawn(async move {
                while let Some(message) = read(&mut stream).await? {
                    acts.act(&message)?;
                    write(&mut stream, &[]).await?;
                }
                anyhow::Ok(())
            });
        }
    }

    async fn new(setup: &Setup) -> Result<Self> {
        let table = Arc::new(Mutex::new(open(&Path::new(&setup.disk).join("outbox.db"))?));
        let (acknowledged, gone) = watch::channel(0);
        let (rows, server) = (Arc::clone(&table), setup.server.clone());
        tokio::spawn(async move {
            loop {
                // What has gone wrong is tried again, with what is in the table still.
                let _ = relay(&server, &rows, &acknowledged).await;
                tokio::time::sleep(POLL).await;
            }
        });
        Ok(Self { table, gone })
    }

    /// The row is kept when the commit is done; the next message waits until it is gone, so that no more are under way than
    /// of the others.
    async fn send(&self, message: Vec<u8>) -> Result<()> {
        let id = with(&self.table, move |table| {
            table.prepare_cached("INSERT INTO outbox (body) VALUES (?1)")?.insert([message])
        });
        let id = id.await?;
        self.gone.clone().wait_for(|gone| *gone >= id).await?;
        Ok(())
    }
}
