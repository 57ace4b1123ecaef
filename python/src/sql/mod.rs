//! The outbox and the inbox of `exonet-sql`, on the application's own drivers.
//!
//! The statements, and all decisions about them, are in `exonet-sql`. Python runs the statements. Those that are part of
//! the application's transactions run on its connection, all others on connections of their own ([`driver`]).

mod driver;
mod inbox;
mod message;
mod outbox;
mod relay;

pub(crate) use driver::{_sql_at_exit, Waker, forked};
pub(crate) use inbox::{_sql_inbox, InboxJob, InboxJobs, InboxStats};
pub(crate) use message::InboxMessage;
pub(crate) use outbox::{_sql_inserted, _sql_is_missing, _sql_migrate, _sql_row};
pub(crate) use relay::{_sql_relay, OutboxRelay, RelayStats};

use exonet_sql::Error;
use exonet_sql::host::Dialect;

use crate::fault::{Fault, Field};

/// The dialect by its name.
fn dialect(name: &str) -> Result<Dialect, Fault> {
    match name {
        "sqlite" => Ok(Dialect::Sqlite),
        "postgresql" => Ok(Dialect::Postgres),
        _ => Err(Fault::usage(format!("an outbox or an inbox is in SQLite or PostgreSQL, not in {name}"))),
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::NotMigrated(what) => Self::new(
                "NotMigrated",
                format!(
                    "the database has no tables of the outbox and the inbox, or old ones ({what}): call \
                     exonet.sql.migrate(database) when the application starts"
                ),
            ),
            Error::DoubtTimeout => Self::new(
                "SqlError",
                "the node of a relay must not give messages up: make it without `doubt_timeout`",
            ),
            Error::Attempts(most) => Self::new(
                "SqlError",
                format!(
                    "the node of an inbox must not count attempts: make it without `attempts` ({most} here), and give \
                     `attempts` to the inbox"
                ),
            ),
            Error::BodyTooLarge { limit, .. } => {
                Self::new("SqlError", error.to_string()).with("limit", Field::Int(limit as u64))
            }
            Error::Closed => Self::closed(),
            error => Self::new("SqlError", error.to_string()),
        }
    }
}
