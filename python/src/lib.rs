//! Exonet for Python: the native part of the package `exonet`.
//!
//! A thin layer: Python calls the library directly, under the same names. [`op`] makes its futures awaitable, [`wake`]
//! wakes event loops.

mod answer;
mod args;
mod call;
mod delivery;
mod fault;
mod group;
mod group_stream;
mod node;
mod op;
mod peer;
mod receipt;
mod receive;
mod runtime;
mod session;
mod sql;
mod stream;
mod wake;

use pyo3::prelude::*;

/// The native part of `exonet`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::call::{Calls, Reply, Request};
    #[pymodule_export]
    use crate::delivery::{Delivery, Received};
    #[pymodule_export]
    use crate::group::{Group, GroupReceipt, Member, Verdict};
    #[pymodule_export]
    use crate::group_stream::{Departure, GroupStream, StreamAnswers};
    #[pymodule_export]
    use crate::node::{Node, Open};
    #[pymodule_export]
    use crate::op::Operation;
    #[pymodule_export]
    use crate::peer::Peer;
    #[pymodule_export]
    use crate::receipt::{BatchReceipt, Receipt, Settled, Tally};
    #[pymodule_export]
    use crate::receive::AtMostOnce;
    #[pymodule_export]
    use crate::runtime::_after_fork;
    #[pymodule_export]
    use crate::session::{Session, SessionListener};
    #[pymodule_export]
    use crate::sql::{
        _sql_at_exit, _sql_inbox, _sql_inserted, _sql_is_missing, _sql_migrate, _sql_relay, _sql_row,
        InboxJob, InboxJobs, InboxMessage, InboxStats, OutboxRelay, RelayStats, Waker,
    };
    #[pymodule_export]
    use crate::stream::{Stream, StreamListener};
}
