//! Money is moved between two services with a database each, while both are killed: the example, as a test.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // a failure here is the failure of a test

#[path = "../examples/transfer/run.rs"]
mod run;
#[path = "common/server.rs"]
mod server;
#[path = "../examples/transfer/service.rs"]
mod service;
#[path = "common/skip.rs"]
mod skip;

use std::process::Command;

use run::Options;

/// The services begin here. It is no test by itself.
#[tokio::test]
async fn a_part() {
    if let Some(role) = service::Role::of_environment() {
        service::serve(role).await.unwrap();
    }
}

async fn every_transfer_is_booked_once(options: Options) {
    let program = std::env::current_exe().unwrap();
    let start = || {
        let mut command = Command::new(&program);
        command.args(["a_part", "--exact", "--nocapture", "--test-threads=1"]);
        command
    };
    let figures = run::run(options, start).await.unwrap();
    assert!(figures.is_right(), "{figures}\n{}", figures.json());
    assert!(figures.sent > 100 && figures.kills >= options.kills, "{figures}");
}

#[tokio::test]
async fn money_is_neither_lost_nor_made_though_services_are_killed() {
    every_transfer_is_booked_once(Options { kills: 9, ..Options::default() }).await;
}

#[tokio::test]
async fn nor_by_nodes_without_a_journal() {
    every_transfer_is_booked_once(Options { kills: 9, memory: true, ..Options::default() }).await;
}

#[tokio::test]
async fn nor_though_servers_of_postgresql_crash_too() {
    if server::programs().is_none() {
        return skip::skipped("PostgreSQL is not installed here");
    }
    every_transfer_is_booked_once(Options { kills: 9, postgres: true, ..Options::default() }).await;
}
