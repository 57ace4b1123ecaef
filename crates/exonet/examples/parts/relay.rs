//! A path to a node that loses datagrams.

use std::net::SocketAddr;

use tokio::net::UdpSocket;

use crate::Failed;

/// Passes datagrams between `to` and the first host that sends, and drops every `nth` in each direction. Returns the
/// address to send to.
pub(crate) async fn losing(to: SocketAddr, nth: u64) -> Result<SocketAddr, Failed> {
    let outside = UdpSocket::bind("127.0.0.1:0").await?;
    let inside = UdpSocket::bind("127.0.0.1:0").await?;
    inside.connect(to).await?;
    let address = outside.local_addr()?;
    tokio::spawn(async move {
        let (mut there, mut back) = (vec![0; 65_536], vec![0; 65_536]);
        let (mut speaker, mut counts) = (None, [0_u64; 2]);
        loop {
            let (from, datagram) = tokio::select! {
                Ok((len, from)) = outside.recv_from(&mut there) => (Some(from), there.get(..len)),
                Ok(len) = inside.recv(&mut back) => (None, back.get(..len)),
                else => break,
            };
            let Some(datagram) = datagram else { continue };
            let [out, home] = &mut counts;
            let count = if from.is_some() { out } else { home };
            *count += 1;
            let lost = *count % nth == 0;
            speaker = from.or(speaker);
            match (from, speaker) {
                _ if lost => {}
                (Some(_), _) => drop(inside.send(datagram).await),
                (None, Some(speaker)) => drop(outside.send_to(datagram, speaker).await),
                (None, None) => {}
            }
        }
    });
    Ok(address)
}
