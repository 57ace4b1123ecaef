//! Messages over a network with faults.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::net::UdpSocket;

use super::Seen;
use super::stand::{AFTERWARDS, CALM, Stand, Target, bodies};
use crate::demo::weather::Odds;

async fn through(target: Target, odds: Odds) -> Seen {
    let stand = Stand::new(target, odds).await?;
    stand.exchange(&bodies(400, 200)).await?;
    Ok("400 messages there and back, each once".to_owned())
}

pub(super) async fn loss(target: Target) -> Seen {
    through(target, Odds { loss: 0.2, ..CALM }).await
}

pub(super) async fn doubles(target: Target) -> Seen {
    through(target, Odds { duplication: 0.8, ..CALM }).await
}

pub(super) async fn reordering(target: Target) -> Seen {
    through(target, Odds { reordering: 0.5, delay: Duration::from_millis(10), ..CALM }).await
}

pub(super) async fn corruption(target: Target) -> Seen {
    through(target, Odds { corruption: 0.1, ..CALM }).await
}

/// Every datagram that was ever sent arrives again: while the channel exists, and when both records are deleted.
pub(super) async fn replay(target: Target) -> Seen {
    let stand = Stand::new(target, CALM).await?;
    let bodies = bodies(100, 100);
    stand.exchange(&bodies).await?;
    stand.relay.change(|route| route.replays += 1);
    tokio::time::sleep(AFTERWARDS).await;
    stand.once(&bodies).map_err(|error| format!("replayed while the channel exists: {error}"))?;
    stand.peer.close(Duration::from_secs(5)).await;
    stand.relay.change(|route| route.replays += 1);
    tokio::time::sleep(2 * AFTERWARDS).await;
    stand.once(&bodies).map_err(|error| format!("replayed after the farewell: {error}"))?;
    Ok("all datagrams of 100 messages again, twice: nothing came back again".to_owned())
}

/// Like [`replay`], for openings that have messages.
pub(super) async fn early_replay(target: Target) -> Seen {
    let stand = Stand::new(target, CALM).await?;
    let bodies = bodies(3, 100);
    let receipts = stand.send(&bodies).await?;
    for receipt in receipts {
        receipt.await;
    }
    for _ in 0..3 {
        stand.relay.change(|route| route.replays += 1);
        tokio::time::sleep(AFTERWARDS).await;
        stand.once(&bodies)?;
    }
    stand.peer.close(Duration::from_secs(5)).await;
    // From now on, the subject sees the relay at another address.
    stand.relay.change(|route| {
        route.mapping += 1;
        route.replays += 1;
    });
    tokio::time::sleep(2 * AFTERWARDS).await;
    stand.once(&bodies)?;
    let came = bodies.iter().filter(|body| stand.echoes.count(body) == 1).count();
    Ok(format!("an opening with 3 messages five times: {came} came back, each once"))
}

/// Datagrams that no node of version 1 sends.
fn oddities() -> Vec<Vec<u8>> {
    let mut all = vec![vec![], vec![0x14], vec![0x11; 1_200], vec![0x12; 88], vec![0x13; 72], vec![0x14; 25]];
    all.extend([vec![0x15; 21], vec![0x16; 100], vec![0x1f; 9], vec![0x1f; 40], vec![0xff; 1_200]]);
    all.extend((0..16_u8).map(|kind| vec![0x20 | kind; 1_200]));
    all.extend((0..=255_u8).map(|byte| vec![byte; 60]));
    all
}

/// Whether `answer` is a VERSION that is allowed as an answer to `datagram`.
fn is_version(answer: &[u8], datagram: &[u8]) -> bool {
    let other = datagram.first().is_some_and(|byte| byte >> 4 != 1 && byte & 0xf != 0xf);
    let count = answer.get(8).copied().map_or(0, usize::from);
    other
        && datagram.len() >= 1_200
        && answer.first() == Some(&0x1f)
        && answer.get(1..8) == datagram.get(1..8)
        && count > 0
        && answer.len() == 9 + count
}

/// Sends datagrams that the subject cannot read. They must not stop it. It may answer other versions with VERSION.
pub(super) async fn strange(target: Target) -> Seen {
    let any: IpAddr = match target.address {
        address if address.ip().is_loopback() => address.ip(),
        address if address.is_ipv4() => Ipv4Addr::UNSPECIFIED.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    };
    let failed = |error: std::io::Error| format!("no socket: {error}");
    let socket = UdpSocket::bind((any, 0)).await.map_err(failed)?;
    let sent = oddities();
    for datagram in &sent {
        // If the host refuses the datagram, the exchange below finds that no node is there.
        let _ = socket.send_to(datagram, target.address).await;
    }
    let (mut answers, mut buffer) = (0, [0; 2_048]);
    while let Ok(Ok((len, _))) = tokio::time::timeout(AFTERWARDS, socket.recv_from(&mut buffer)).await {
        let answer = buffer.get(..len).unwrap_or_default();
        if !sent.iter().any(|datagram| is_version(answer, datagram)) {
            return Err(format!("an answer that is not VERSION: {}", crate::text::hex(answer)));
        }
        answers += 1;
    }
    let stand = Stand::new(target, CALM).await?;
    stand.exchange(&bodies(20, 20)).await?;
    Ok(format!("strange datagrams are dropped; {answers} were answered by VERSION, which is allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_version_is_answered() {
        let answer = [&[0x1f][..], &[0x20; 7], &[1, 1]].concat();
        assert!(is_version(&answer, &[0x20; 1_200]));
        for datagram in [
            vec![0x20; 1_199],
            [&[0x2f][..], &[0x20; 1_199]].concat(),
            [&[0x11][..], &[0x20; 1_199]].concat(),
        ] {
            assert!(!is_version(&answer, &datagram));
        }
        assert!(!is_version(&answer, &[0x21; 1_200]), "it bears bytes of the datagram that it answers");
        assert!(!is_version(&[&[0x1f][..], &[0x20; 7], &[2, 1]].concat(), &[0x20; 1_200]));
    }
}
