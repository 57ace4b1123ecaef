//! NATS core: requests and their answers by way of a broker, which has no sessions.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use async_nats::Client;
use futures_util::StreamExt as _;

use super::super::Setup;
use super::super::fan::nats::{broker, connect};
use super::Caller;
use crate::app::Answers;

const SUBJECT: &str = "work";

pub(super) struct Requests(Client);

impl Caller for Requests {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let _broker = broker(setup, answers.meter()).await?;
        let server = setup.listen.to_string();
        let client = connect(&server).await?;
        let mut requests = client.subscribe(SUBJECT).await?;
        client.flush().await?;
        setup.hello(&server);
        while let Some(request) = requests.next().await {
            let (client, answers) = (client.clone(), answers.clone());
            tokio::spawn(async move {
                answers.work(&request.payload).await;
                let to = request.reply.context("nobody to answer")?;
                anyhow::Ok(client.publish(to, request.payload).await?)
            });
        }
        Ok(())
    }

    async fn new(setup: &Setup, _: Ipv4Addr) -> Result<Self> {
        Ok(Self(connect(&setup.server).await?))
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        Ok(self.0.request(SUBJECT, request.to_vec().into()).await?.payload.to_vec())
    }

    async fn close(self) -> Result<()> {
        std::future::pending().await
    }
}
