//! Starts the services, kills them again and again, and checks the books.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::server::Server;
use crate::service::{ACCOUNTS, BALANCE, Role};

#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) postgres: bool,
    pub(crate) memory: bool,
    pub(crate) kills: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { postgres: false, memory: false, kills: 30 }
    }
}

/// What the books say.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) sent: u64,
    pub(crate) booked: u64,
    pub(crate) duplicates: u64,
    pub(crate) lost: u64,
    /// Booked, and never sent.
    pub(crate) invented: u64,
    pub(crate) kills: u32,
    pub(crate) database_crashes: u32,
    pub(crate) sum: i64,
    pub(crate) seconds: f64,
}

impl Figures {
    pub(crate) fn is_right(&self) -> bool {
        self.sum == 2 * ACCOUNTS * BALANCE
            && (self.duplicates, self.lost, self.invented) == (0, 0, 0)
            && self.sent == self.booked
    }

    pub(crate) fn json(&self) -> String {
        let Self { sent, booked, duplicates, lost, invented, kills, database_crashes, sum, seconds } = self;
        let right = self.is_right();
        format!(
            "{{\"sent\":{sent},\"booked\":{booked},\"duplicates\":{duplicates},\"lost\":{lost},\"invented\":{invented},\
             \"kills\":{kills},\"database_crashes\":{database_crashes},\"sum\":{sum},\"right\":{right},\"seconds\":{seconds:.1}}}"
        )
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "transfers sent           {:>12}", self.sent)?;
        writeln!(f, "transfers booked         {:>12}", self.booked)?;
        writeln!(f, "booked twice             {:>12}", self.duplicates)?;
        writeln!(f, "lost                     {:>12}", self.lost)?;
        writeln!(f, "booked and never sent    {:>12}", self.invented)?;
        writeln!(f, "services killed          {:>12}", self.kills)?;
        writeln!(f, "database servers crashed {:>12}", self.database_crashes)?;
        writeln!(f, "sum of all accounts      {:>12}", self.sum)?;
        writeln!(f, "it should be             {:>12}", 2 * ACCOUNTS * BALANCE)?;
        write!(f, "seconds                  {:>12.1}", self.seconds)
    }
}

/// A service, running.
struct Service {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Service {
    fn start(mut command: Command, role: &Role) -> std::io::Result<Self> {
        let mut child =
            command.envs(role.environment()).stdout(Stdio::piped()).stdin(Stdio::null()).spawn()?;
        let lines =
            BufReader::new(child.stdout.take().ok_or_else(|| std::io::Error::other("no output"))?).lines();
        Ok(Self { child, lines })
    }

    /// Waits until it says this.
    fn hear(&mut self, what: &str) -> Result<String, String> {
        for line in self.lines.by_ref() {
            // What else is said there is not the service's.
            if let Ok(line) = line
                && let Some((_, said)) = line.split_once('@')
                && said.starts_with(what)
            {
                return Ok(said.to_owned());
            }
        }
        Err(format!("a service has ended before it said {what:?}"))
    }
}

impl Drop for Service {
    /// As `kill -9` does.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) async fn run(options: Options, program: impl Fn() -> Command) -> Result<Figures, Box<dyn Error>> {
    let (home, began) = (tempfile::tempdir()?, Instant::now());
    let mut servers = Vec::new();
    for _ in 0..if options.postgres { 2 } else { 0 } {
        servers.push(Server::start("").await?.ok_or("PostgreSQL is not installed here")?);
    }
    let database = |n: usize| match servers.get(n) {
        // The socket's folder is part of the query, so that its slashes need no care.
        Some(server) => format!("postgres://postgres@localhost/postgres?host={}", server.socket().display()),
        None => home.path().join(format!("{n}.sqlite")).display().to_string(),
    };
    let role = |n: usize, bind: &str, peer: Option<&str>, rests| Role {
        database: database(n),
        state: home.path().join(format!("node {n}")).display().to_string(),
        bind: bind.to_owned(),
        peer: peer.map(str::to_owned),
        memory: options.memory,
        rests,
    };
    let mut at = Vec::new();
    for n in 0..2 {
        let said = Service::start(program(), &role(n, "127.0.0.1:0", None, true))?.hear("at ")?;
        at.push(said.trim_start_matches("at ").to_owned());
    }
    let port = |n: usize| at[n].rsplit_once('@').map_or("", |(_, port)| port).to_owned();
    let roles: Vec<_> = (0..2).map(|n| role(n, &port(n), Some(&at[1 - n]), false)).collect();
    let last: Vec<_> = (0..2).map(|n| role(n, &port(n), Some(&at[1 - n]), true)).collect();
    let databases: Vec<_> = (0..2).map(database).collect();

    let mut figures = Figures::default();
    let mut running = Vec::new();
    for role in &roles {
        running.push(Service::start(program(), role)?);
    }
    for kill in 0..options.kills {
        for service in &mut running {
            for _ in 0..5 + 11 * (kill % 4) {
                service.hear("sent")?;
            }
        }
        // One of them, the other, both.
        for n in (0..2).filter(|n| kill % 3 != u32::from(*n == 0)) {
            figures.kills += 1;
            // Dead first, as the address and the state are its own.
            drop(running.remove(n));
            if kill % 5 == 4
                && let Some(server) = servers.get_mut(n)
            {
                figures.database_crashes += 1;
                server.crash()?;
                server.run().await?;
            }
            running.insert(n, Service::start(program(), &roles[n])?);
        }
    }
    running.clear();
    for role in &last {
        running.push(Service::start(program(), role)?);
    }
    // All is processed, and every row is gone, at both sides.
    for database in &databases {
        let waits = Instant::now();
        while count(database, &["exonet_outbox", "exonet_inbox"]).await? > 0 {
            if waits.elapsed() > Duration::from_secs(120) {
                return Err("rows are left after two minutes".into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    check(&databases, &mut figures).await?;
    figures.seconds = began.elapsed().as_secs_f64();
    Ok(figures)
}

async fn count(database: &str, tables: &[&str]) -> Result<i64, sqlx::Error> {
    let mut all = 0;
    for table in tables {
        all += integer(database, &format!("select count(*) from {table}")).await?;
    }
    Ok(all)
}

async fn integer(database: &str, query: &str) -> Result<i64, sqlx::Error> {
    if database.starts_with("postgres:") {
        let pool = sqlx::PgPool::connect(database).await?;
        return sqlx::query_scalar(query).fetch_one(&pool).await;
    }
    sqlx::query_scalar(query).fetch_one(&sqlite(database).await?).await
}

async fn sqlite(database: &str) -> Result<sqlx::SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::new().filename(Path::new(database));
    SqlitePoolOptions::new().max_connections(1).connect_with(options).await
}

/// How often each transfer is in a table.
async fn transfers(database: &str, table: &str) -> Result<BTreeMap<(String, i64), u64>, sqlx::Error> {
    let query = format!("select key, amount from {table}");
    let rows: Vec<(String, i64)> = if database.starts_with("postgres:") {
        sqlx::query_as(&query).fetch_all(&sqlx::PgPool::connect(database).await?).await?
    } else {
        sqlx::query_as(&query).fetch_all(&sqlite(database).await?).await?
    };
    let mut times = BTreeMap::new();
    for row in rows {
        *times.entry(row).or_default() += 1;
    }
    Ok(times)
}

async fn check(databases: &[String], figures: &mut Figures) -> Result<(), Box<dyn Error>> {
    for (here, there) in [(0, 1), (1, 0)] {
        let sent = transfers(&databases[here], "sent").await?;
        let booked = transfers(&databases[there], "booked").await?;
        figures.sent += sent.len() as u64;
        figures.booked += booked.len() as u64;
        figures.duplicates += booked.values().map(|times| times - 1).sum::<u64>();
        figures.lost += sent.keys().filter(|transfer| !booked.contains_key(*transfer)).count() as u64;
        figures.invented += booked.keys().filter(|transfer| !sent.contains_key(*transfer)).count() as u64;
        figures.sum += integer(&databases[here], "select cast(sum(balance) as bigint) from account").await?;
    }
    Ok(())
}
