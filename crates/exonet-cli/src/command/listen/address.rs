//! Where a listener can be reached.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// What others can use for an address that may stand for all of this machine's.
pub(super) fn reachable(local: SocketAddr) -> Vec<SocketAddr> {
    if !local.ip().is_unspecified() {
        return vec![local];
    }
    // Connecting a datagram socket sends nothing: it only asks which way would be taken to addresses that are
    // reserved for documentation (RFC 5737, RFC 3849).
    let outward = |from: &str, to: &str| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    };
    let mut ips: Vec<IpAddr> = outward("0.0.0.0:0", "192.0.2.1:9").into_iter().collect();
    if local.is_ipv6() {
        ips.extend(outward("[::]:0", "[2001:db8::1]:9"));
    }
    if ips.is_empty() {
        ips.push(Ipv4Addr::LOCALHOST.into());
    }
    ips.into_iter().map(|ip| SocketAddr::new(ip, local.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_says_where_is_kept() {
        let local: SocketAddr = "127.0.0.1:77".parse().unwrap();
        assert_eq!(reachable(local), [local]);
    }

    #[test]
    fn others_are_made_usable() {
        for text in ["0.0.0.0:77", "[::]:77"] {
            let addresses = reachable(text.parse().unwrap());
            assert!(!addresses.is_empty());
            assert!(addresses.iter().all(|a| !a.ip().is_unspecified() && a.port() == 77), "{addresses:?}");
        }
    }
}
