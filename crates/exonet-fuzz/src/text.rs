//! Ids of nodes and addresses of peers, as users type them.

use exonet::PeerAddr;
use exonet_proto::NodeId;

/// A text; the first byte may put a valid id before it, so that the checksum passes.
pub fn text(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let typed = String::from_utf8_lossy(rest);
    let text = match choice % 3 {
        0 => typed.into_owned(),
        1 => format!("{}{typed}", NodeId([*choice; 32])),
        _ => format!("{}@{typed}", NodeId([*choice; 32])),
    };
    if let Ok(id) = text.parse::<NodeId>() {
        assert_eq!(id.to_string(), text, "an id has one form");
    }
    if let Ok(peer) = text.parse::<PeerAddr>() {
        let again = peer.to_string();
        assert_eq!(again.parse::<PeerAddr>().as_ref(), Ok(&peer));
        assert_eq!(
            peer.hints().count(),
            text.split_once('@').map_or(0, |(_, hints)| hints.split(',').count())
        );
        assert_eq!(PeerAddr::new(peer.id, peer.hints()).as_ref(), Ok(&peer));
    }
}
