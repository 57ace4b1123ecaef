//! NATS JetStream: a broker that keeps a stream in files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, Context, stream};
use futures_util::StreamExt as _;

use super::super::Setup;
use super::super::fan::nats::{broker_with, connect};
use super::Keeps;
use crate::app::{Acts, Meter, Stamp};

const STREAM: &str = "orders";
/// Messages asked for at a time.
const BATCH: usize = 256;
/// A message that was given out and not acknowledged is given out again after so long.
const ACK_WAIT: Duration = Duration::from_secs(2);
/// A publication that is not acknowledged by then is done again, under the same id.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

pub(super) struct JetStream(Context);

fn configuration(setup: &Setup) -> Result<String> {
    let disk = Path::new(&setup.disk);
    let sync = if setup.peer == "jetstream-always" { "sync_interval: always" } else { "" };
    let path = disk.join("nats.conf");
    let store = disk.join("jetstream");
    std::fs::write(&path, format!("jetstream {{ store_dir: {:?}\n{sync} }}\n", store.display().to_string()))?;
    Ok(path.display().to_string())
}

impl Keeps for JetStream {
    async fn receive(setup: &Setup, meter: &Arc<Meter>, acts: Acts) -> Result<()> {
        let _broker = broker_with(setup, meter, &["-c".to_owned(), configuration(setup)?]).await?;
        let context = jetstream::new(connect(&setup.listen.to_string()).await?);
        let stream = context
            .get_or_create_stream(stream::Config {
                name: STREAM.to_owned(),
                subjects: vec![STREAM.to_owned()],
                storage: stream::StorageType::File,
                ..stream::Config::default()
            })
            .await
            .map_err(|error| anyhow!("no stream: {error}"))?;
        let consumer = stream
            .get_or_create_consumer(
                "app",
                pull::Config {
                    durable_name: Some("app".to_owned()),
                    ack_policy: AckPolicy::Explicit,
                    ack_wait: ACK_WAIT,
                    ..pull::Config::default()
                },
            )
            .await
            .map_err(|error| anyhow!("no consumer: {error}"))?;
        let messages = consumer.stream().max_messages_per_batch(BATCH).messages();
        let mut messages = messages.await.map_err(|error| anyhow!("no messages: {error}"))?;
        setup.hello(&setup.listen.to_string());
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| anyhow!("no message: {error}"))?;
            acts.act(&message.payload)?;
            message.ack().await.map_err(|error| anyhow!("cannot acknowledge: {error}"))?;
        }
        Ok(())
    }

    async fn new(setup: &Setup) -> Result<Self> {
        Ok(Self(jetstream::new(connect(&setup.server).await?)))
    }

    async fn send(&self, message: Vec<u8>) -> Result<()> {
        let mut headers = HeaderMap::new();
        let number = Stamp::read(&message).map_or(0, |stamp| stamp.number);
        headers.insert(async_nats::header::NATS_MESSAGE_ID, number.to_string().as_str());
        let message = bytes::Bytes::from(message);
        loop {
            let publish = async {
                let said = self.0.publish_with_headers(STREAM, headers.clone(), message.clone()).await;
                match said {
                    Ok(acknowledged) => acknowledged.await.is_ok(),
                    Err(_) => false,
                }
            };
            if tokio::time::timeout(PATIENCE, publish).await == Ok(true) {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
