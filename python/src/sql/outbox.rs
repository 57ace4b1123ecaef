//! The rows of an outbox.

use std::sync::Arc;

use exonet::PeerAddr;
use exonet_sql::host::{self, StoreError};
use exonet_sql::{Error, OutboxMessage};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::driver::{self, Driver, arguments};
use crate::args::{self, name};
use crate::fault::Fault;
use crate::op::{Operation, work};
use crate::runtime;

/// The key of a new row, the statement that inserts it, and its arguments.
#[pyfunction]
pub(crate) fn _sql_row<'py>(
    py: Python<'py>,
    dialect: &str,
    to: &str,
    body: &Bound<'py, PyAny>,
    tag: &Bound<'py, PyAny>,
    order: &Bound<'py, PyAny>,
) -> PyResult<(String, &'static str, Bound<'py, PyList>)> {
    let peer: PeerAddr = to.parse().map_err(Fault::from)?;
    let message =
        OutboxMessage::new(args::bytes("body", body)?).tag(name("tag", tag)?).order(name("order", order)?);
    let row = host::outbox(super::dialect(dialect)?, &peer, message);
    let (key, statement) = row.map_err(Fault::from)?;
    Ok((key.to_string(), statement.sql, arguments(py, statement.args)?))
}

/// Tells the relays of this process that a row was inserted.
#[pyfunction]
pub(crate) fn _sql_inserted() {
    driver::inserted();
}

/// Whether a driver's error means that a table or a column of the outbox or the inbox is missing.
#[pyfunction]
pub(crate) fn _sql_is_missing(code: Option<String>, message: String) -> bool {
    let error = StoreError::Driver { code, message };
    matches!(Error::from(error), Error::NotMigrated(_))
}

/// Makes the tables.
#[pyfunction]
pub(crate) fn _sql_migrate(database: &Bound<'_, PyAny>) -> PyResult<Operation> {
    let driver = Arc::new(Driver::new(database)?);
    let migrate = async move { Ok(host::migrate(&*driver).await?) };
    Ok(Operation::new(&runtime::handle()?, "exonet.sql.migrate()", work(migrate, |py, ()| Ok(py.None()))))
}
