//! One TCP connection to each member.

use std::sync::Arc;

use anyhow::{Context, Result};
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::super::Setup;
use super::super::tasks::Shared;
use super::super::tcp::take_all;
use crate::app::{Meter, Pacer};

pub(in super::super) async fn fan(setup: Arc<Setup>, meter: Arc<Meter>) -> Result<()> {
    let (members, per_second) = super::work(&setup)?;
    if setup.is_server() {
        let listener = TcpListener::bind(setup.listen).await?;
        setup.hello(&listener.local_addr()?.to_string());
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(take_all(stream, Shared::new(&setup, &meter)));
        }
    }
    let mut streams = Vec::new();
    for _ in 0..members {
        let stream = TcpStream::connect(setup.server_address()?).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        SockRef::from(&stream).set_tcp_congestion(b"cubic")?;
        streams.push(stream);
    }
    let length = u32::try_from(setup.bytes)?.to_be_bytes();
    let mut pacer = Pacer::new(&meter, (1, per_second), setup.bytes);
    loop {
        let (_, message) = pacer.next().await;
        let frame = [&length[..], &message].concat();
        for stream in &mut streams {
            stream.write_all(&frame).await?;
        }
    }
}
